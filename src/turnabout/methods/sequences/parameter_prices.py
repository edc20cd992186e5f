"""What one parameter costs while the others stand still."""

from __future__ import annotations

import torch

from turnabout.actions.steps import TINY
from turnabout.methods.sequences.batch import Batch
from turnabout.typing import Tensor


def own_price(batch: Batch, t: int, old: Tensor, r: Tensor, p: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of parameter p of step t from states old (B, e), the others at r (B, P): absolute, squared and kink, (B,) each.

        cost(r_p) = ... + absolute |r_p - kink| + squared (r_p - kink)^2                                  (1)

    Exact where all priced columns of a step are back at their old value together, as in every single effect.
    """
    script = batch.script
    step = script.affine(t, old)
    base = old.abs().clamp(min=TINY)
    linear = script.absolute[t] + script.absolute_relative[t] / base  # (B, e)
    curved = script.squared[t] + script.squared_relative[t] / (base * base)
    moved = step.moved[:, p]
    others = step.at(r) - r[:, p : p + 1] * moved - old  # change at r_p = 0
    priced = ((linear + curved) > 0) * moved * moved
    per = others / torch.where(moved == 0, torch.ones_like(moved), moved)
    kink = -(priced * per).sum(-1) / priced.sum(-1).clamp(min=TINY * TINY)
    return (linear * moved.abs()).sum(-1), (curved * moved * moved).sum(-1), kink


def own_prices(batch: Batch, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same for all parameters at r (B, T, P), each while the others stand still; (B, T, P) each."""
    absolute, squared, kink = torch.zeros_like(r), torch.zeros_like(r), torch.zeros_like(r)
    old = batch.start
    for t in range(batch.script.steps):
        for p in range(r.shape[2]):
            absolute[:, t, p], squared[:, t, p], kink[:, t, p] = own_price(batch, t, old, r[:, t], p)
        old = batch.script.move(t, old, r[:, t])
    return absolute, squared, kink


def reach(absolute: Tensor, squared: Tensor, budget: Tensor) -> Tensor:
    """How far a parameter may go from its kink for at most `budget`; inf where moving is free."""
    budget = budget.clamp(min=0)
    root = (absolute * absolute + 4 * squared * budget).sqrt()
    # the stable form of (root - absolute) / (2 squared), which also holds where squared is zero
    far = 2 * budget / (absolute + root).clamp(min=TINY * TINY)
    free = (absolute <= 0) & (squared <= 0)
    return torch.where(free | torch.isinf(budget), torch.full_like(far, torch.inf), far)
