"""Branch and bound over levers, everyone at once: the least cost that gains enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from turnabout.methods.levers import Levers
from turnabout.methods.tables import Segments, Tables
from turnabout.typing import Tensor


@dataclass(frozen=True)
class Cover:
    """Notches (n, m) of the cheapest cover found, its cost (n,), and a bound below which no cover costs (n,)."""

    notches: Tensor
    cost: Tensor
    bound: Tensor


def cover(
    levers: Levers, gap: Tensor, slack: float, tolerance: float, quantum: Tensor, nodes: int, stop: Callable[[], bool]
) -> Cover:
    r"""The cheapest notches whose gains add up to each person's gap (n,), which must be within reach.

        min over k   sum_j cost_j(k_j)      s.t.   sum_j gain_j(k_j) >= gap,   0 <= k_j <= count_j          (1)

    A node of the search holds bounds lo <= k <= hi. Its bound is the linear relaxation of (1): in each lever the
    straight line from its cost at lo to its cost at hi (in a lever with a table, the pieces of a convex line below the
    costs of its notches), filled in order of cost per gain; only the last lever filled is fractional.          (2)
    Rounding that lever up gives a cover; splitting its range there gives two smaller nodes, each without the
    fractional point. hi is first cut to what would cover the gap alone.                                        (3)
    Nodes whose bound is within `tolerance` of the best cover known are closed. Where all costs are multiples of a
    person's quantum (n,), bounds are rounded up to the next one. All nodes of all people are one tensor program.

    slack : gain by which a cover may fall short, for rounding errors.
    nodes : nodes per person after which their search is given up; their bound then tells how much is unproved.
    """
    n, m = levers.slope.shape
    best = torch.full_like(gap, torch.inf)
    best_k = torch.zeros_like(levers.slope)
    unproved = torch.full_like(gap, torch.inf)  # least bound among nodes given up
    used = torch.zeros_like(gap)
    owner = torch.arange(n, device=gap.device)
    mine, lo, hi = levers, torch.zeros_like(levers.count), levers.count
    place = whose = torch.arange(m, device=gap.device)
    pieces: Segments | None = None
    free_entry = levers.fixed == 0
    if levers.tables is not None:
        bent = levers.tables.levers
        free_entry = free_entry.index_fill(0, bent, True)  # their pieces know of it
    while len(owner):
        near = mine.points(lo)
        need = gap[owner] - near.gain.sum(1)
        alone = mine.least_notch(near.gain + (need - slack).unsqueeze(1))
        hi = torch.minimum(hi, torch.maximum(lo, alone))  # (3)
        far = mine.points(hi)
        gain, cost = far.gain - near.gain, far.cost - near.cost
        if mine.tables is not None:
            pieces = mine.tables.segments(lo[:, bent], hi[:, bent])
            gain[:, bent] = cost[:, bent] = 0.0
            gain = torch.cat([gain, pieces.gain.flatten(1)], 1)
            cost = torch.cat([cost, (pieces.rate * pieces.gain).flatten(1)], 1)
            whose = torch.cat([whose[:m], bent.repeat_interleave(pieces.gain.shape[2])])
            place = torch.arange(len(whose), device=gap.device)
        rate, order = torch.where(gain > 0, cost / gain, torch.inf).sort(dim=1, stable=True)
        gain, cost = gain.gather(1, order), cost.gather(1, order)
        filled = gain.cumsum(1)
        rest = need.unsqueeze(1) - filled + gain  # still needed when a lever's turn comes
        feasible = filled[:, -1] >= need - slack
        share = (rest / gain.clamp(min=1e-300)).clamp(0.0, 1.0)
        bound = near.cost.sum(1) + (share * cost).sum(1)  # (2)
        last = ((rest > slack).sum(1) - 1).clamp(min=0).unsqueeze(1)  # the fractional lever
        lever = order.gather(1, last)
        full = torch.empty_like(order).scatter_(1, order, place.expand_as(order)) < last
        k, stand = torch.where(full[:, :m], hi, lo), near.gain
        if mine.tables is not None and pieces is not None:
            lever, done = whose[lever], full[:, m:].reshape(pieces.end.shape)
            k[:, bent] = torch.where(done, pieces.end, lo[:, bent].unsqueeze(2)).amax(2)
            stand[:, bent] = mine.tables.at(mine.tables.gain, k[:, bent])
        up = mine.least_notch(stand.gather(1, lever) + rest.gather(1, last) - slack, lever)
        low, high = lo.gather(1, lever), hi.gather(1, lever)
        up = torch.minimum(torch.maximum(up, low), high)
        k = k.scatter_(1, lever, up)
        k = torch.where((need <= slack).unsqueeze(1), lo, k)
        price = torch.where(feasible, mine.points(k).cost.sum(1), torch.inf)
        _keep_best(best, best_k, owner, price, k)
        step = quantum[owner]
        relaxed = bound
        bound = torch.where(step > 0, torch.ceil(bound / step.clamp(min=1e-300) - 1e-6) * step, bound)
        alive = feasible & (need > slack) & (bound < best[owner] - tolerance)
        used.index_add_(0, owner, torch.ones_like(need))
        tired = alive & ((used[owner] > nodes) | stop())
        unproved.scatter_reduce_(0, owner[tired], bound[tired], "amin")
        rows = (alive & ~tired).nonzero().squeeze(1)
        budget = (best[owner[rows]] - tolerance - relaxed[rows]).unsqueeze(1)
        owner, lo, hi, lever, full = owner[rows], lo[rows], hi[rows], lever[rows], full[rows, :m]
        mine, rate = levers.take(owner), rate[rows].gather(1, last[rows])
        narrow_lo, narrow_hi = _narrow(mine, lo, hi, full, rate, budget)
        if mine.tables is not None and pieces is not None:
            ends = (lo[:, bent], hi[:, bent])
            narrow_lo[:, bent], narrow_hi[:, bent] = _narrow_tables(mine.tables, pieces.take(rows), *ends, rate, budget)
        lo, hi = (new.scatter(1, lever, old.gather(1, lever)) for new, old in ((narrow_lo, lo), (narrow_hi, hi)))
        loose = lo < hi
        if mine.tables is not None:
            loose |= lo != k[rows]  # narrowed to a notch between the ends
        more = loose.scatter_(1, lever, False).any(1)  # else rounding up was the best of this node
        rows, owner, lo, hi, lever = rows[more], owner[more], lo[more], hi[more], lever[more]
        # a lever with a fixed cost is first split into untouched and touched
        whole = (low[rows] > 0) | free_entry[lever]
        split = torch.where(whole, up[rows], 1.0)
        lo = torch.cat([lo, lo.scatter(1, lever, split)])
        hi = torch.cat([hi.scatter(1, lever, split - 1), hi])
        owner = owner.repeat(2)
        mine = levers.take(owner)
    return Cover(best_k, best, torch.minimum(best - tolerance, unproved).clamp(min=0.0))


def _narrow(
    levers: Levers, lo: Tensor, hi: Tensor, full: Tensor, rate: Tensor, budget: Tensor
) -> tuple[Tensor, Tensor]:
    """Bounds without the notches that cost more than `budget` (N, 1) above the relaxation, by reduced costs.

    At the relaxation, `full` levers stand at hi, others at lo, and one more unit of gain costs `rate` (N, 1): moving a
    lever by a distance changes the bound by that distance times |price - rate * slope|.
    """
    per_unit = levers.price - rate * levers.slope  # (N, m)
    steps = (budget / (per_unit.abs() * levers.notch).clamp(min=1e-300)).clamp(max=1e15)
    begun = (lo > 0) | (levers.fixed == 0)
    # from hi down; the step onto a person's own value may be a short one
    down = hi - torch.floor(steps + 1e-9) - (lo == 0).to(lo.dtype)
    # a lever with a fixed cost, not yet begun, has two ends only: untouched, and the best of its notches
    ends = levers.fixed + per_unit * levers.distance(torch.where(per_unit > 0, torch.ones_like(hi), hi))
    down = torch.where(begun, down, (-ends > budget).to(lo.dtype))
    first = torch.where(lo > 0, levers.notch, levers.first)
    up = lo + torch.floor((budget / per_unit.abs().clamp(min=1e-300) - first) / levers.notch + 1e-9) + 1.0
    up = torch.where(begun, torch.maximum(up, lo), torch.where(ends > budget, 0.0, hi))
    narrow_lo = torch.where(full, torch.maximum(lo, torch.minimum(down, hi)), lo)
    narrow_hi = torch.where(full, hi, torch.minimum(hi, up))
    return narrow_lo, narrow_hi


def _narrow_tables(
    tables: Tables, pieces: Segments, lo: Tensor, hi: Tensor, rate: Tensor, budget: Tensor
) -> tuple[Tensor, Tensor]:
    """The same for levers with tables, (N, b): each notch has a reduced cost of its own, beside that of the pieces."""
    near, rate = tables.points(lo), rate.unsqueeze(2)
    at_best = ((pieces.rate - rate).clamp(max=0.0) * pieces.gain).sum(2)
    reduced = (tables.cost - near.cost.unsqueeze(2)) - rate * (tables.gain - near.gain.unsqueeze(2))  # (N, b, K)
    within = tables.within(lo, hi)
    kept = within & (reduced - at_best.unsqueeze(2) <= budget.unsqueeze(2) + 1e-12)
    kept = torch.where(kept.any(2, keepdim=True), kept, within).to(torch.uint8)
    return kept.argmax(2).to(lo.dtype), (kept.shape[2] - 1 - kept.flip(2).argmax(2)).to(hi.dtype)


def _keep_best(best: Tensor, best_k: Tensor, owner: Tensor, cost: Tensor, k: Tensor) -> None:
    """Write each person's cheapest new cover, if it beats the one they have."""
    least = torch.full_like(best, torch.inf).scatter_reduce_(0, owner, cost, "amin")
    better = ((cost == least[owner]) & (cost < best[owner])).nonzero().squeeze(1)
    first = owner.new_full((len(best),), len(owner))
    first = first.scatter_reduce_(0, owner[better], better, "amin")  # of equals, the first
    who = (first < len(owner)).nonzero().squeeze(1)
    best_k[who] = k[first[who]]
    torch.minimum(best, least, out=best)
