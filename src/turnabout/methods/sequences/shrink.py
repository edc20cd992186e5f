"""Back to the boundary without gradients: shorter steps by halving, along the plan and along each parameter."""

from __future__ import annotations

from collections.abc import Callable

import torch

from turnabout.methods.sequences.batch import Batch, Best
from turnabout.methods.sequences.prices import own_price
from turnabout.typing import Tensor

HALVINGS = 25


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
        part, rest = batch.pick(live), kinks(batch.pick(live), best.r[live])
        _bisect(part, best, live, rest, torch.ones_like(rest), target[live])
        for t in range(rest.shape[1]):
            for p in range(rest.shape[2]):
                which = torch.zeros_like(rest)
                which[:, t, p] = 1.0
                if bool((part.used[:, t, p]).any()):
                    _bisect(part, best, live, rest, which, target[live])


def kinks(batch: Batch, r: Tensor) -> Tensor:
    """(B, T, P) the parameters at which each step costs least, the others at r."""
    out = torch.zeros_like(r)
    old = batch.start
    for t in range(batch.script.steps):
        for p in range(r.shape[2]):
            out[:, t, p] = own_price(batch, t, old, r[:, t], p)[2]
        old = batch.script.move(t, old, r[:, t])
    return out


def _bisect(batch: Batch, best: Best, live: Tensor, rest: Tensor, which: Tensor, target: Tensor) -> None:
    """Halve the way from the parameters of best back to `rest`, for the parameters marked by `which`."""
    far = best.r[live].clone()
    low, high = torch.zeros_like(target), torch.ones_like(target)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        share = 1 - which * (1 - middle.view(-1, 1, 1))
        r = batch.limits(rest + share * (far - rest))[0]
        with torch.no_grad():
            path = batch.script.roll(batch.start, r)
            margin, cost = batch.margin(path), path.cost.sum(1)
        good = batch.kept(path) & (margin >= target)
        better = good & (cost < best.cost[live])
        rows = live[better]
        best.r[rows], best.cost[rows], best.margin[rows] = r[better], cost[better], margin[better]
        high, low = torch.where(good, middle, high), torch.where(good, low, middle)
