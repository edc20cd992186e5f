"""Back to the boundary without gradients: shorter steps by halving, along the plan and along each parameter."""

from __future__ import annotations

from collections.abc import Callable

import torch

from turnabout.methods.sequences.batch import Batch, Best
from turnabout.methods.sequences.parameter_prices import own_prices
from turnabout.typing import Tensor

HALVINGS = 16
FINELY = 40  # where rules join columns: no convex step has found their edge before


def shrink(
    batch: Batch, best: Best, target: Tensor, rounds: int = 1, expired: Callable[[], bool] = lambda: False
) -> None:
    """Improve best in place: bisection of rho s towards s = 0, then of one parameter at a time.

    Works for any model; where acceptance is not monotone along the way, it stops at the first boundary it brackets.
    """
    for _ in range(rounds):
        live = torch.isfinite(best.cost).nonzero().squeeze(1)
        if not len(live) or expired():
            return
        r = best.r[live]
        part = batch.take(live)
        count = r[0].numel()
        # which parameters go back: all of them, or one alone; the whole of them side by side
        marks = torch.cat([torch.ones(1, count), torch.eye(count)]).to(r).reshape(-1, *r.shape[1:])
        rows = torch.arange(len(live), device=r.device).repeat_interleave(len(marks))
        many = part.take(rows)
        which = marks.repeat(len(live), 1, 1)
        out = best.take(live[rows])
        halvings = HALVINGS if batch.rules is None else FINELY
        _bisect(many, out, own_prices(part, r)[2][rows], which, target[live][rows], halvings)
        pick = out.cost.reshape(len(live), len(marks)).argmin(1)
        at = torch.arange(len(live), device=r.device) * len(marks) + pick
        best.put(live, out.take(at))


def _bisect(batch: Batch, best: Best, rest: Tensor, which: Tensor, target: Tensor, halvings: int) -> None:
    """Halve the way from the parameters of best back to `rest`, for the parameters marked by `which` (B, T, P)."""
    far = best.r.clone()
    low, high = torch.zeros_like(target), torch.ones_like(target)
    for _ in range(halvings):
        middle = (low + high) / 2
        share = 1 - which * (1 - middle.view(-1, 1, 1))
        r = batch.limits(rest + share * (far - rest))[0]
        with torch.no_grad():
            path = batch.script.roll(batch.start, r)
            margin, cost = batch.margin(path), path.cost.sum(1)
        good = batch.kept(path) & (margin >= target)
        best.offer(r, cost, margin, good, target)
        high, low = torch.where(good, middle, high), torch.where(good, low, middle)
