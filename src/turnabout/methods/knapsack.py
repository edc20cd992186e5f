"""Branch and bound over moves, everyone at once: the least cost that gains enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch

from turnabout.methods.incumbent import first_of_each
from turnabout.methods.move_tables import MoveTables, Segments
from turnabout.methods.moves import Moves
from turnabout.typing import Tensor


@dataclass(frozen=True)
class Cover:
    """Steps (n, m) of the cheapest cover found, its cost (n,), and a bound below which no cover costs (n,)."""

    steps: Tensor
    cost: Tensor
    bound: Tensor


def cover(
    moves: Moves, gap: Tensor, slack: float, tolerance: float, quantum: Tensor, nodes: int, stop: Callable[[], bool]
) -> Cover:
    r"""The cheapest steps whose gains add up to each person's gap (n,), which must be within reach.

        min over k   sum_j cost_j(k_j)      s.t.   sum_j gain_j(k_j) >= gap,   0 <= k_j <= count_j          (1)

    A node of the search holds bounds lo <= k <= hi. Its bound is the linear relaxation of (1): in each move the
    straight line from its cost at lo to its cost at hi (in a move with a table, the pieces of a convex line below the
    costs of its steps), filled in order of cost per gain; only the last move filled is fractional.          (2)
    Rounding that move up gives a cover; splitting its range there gives two smaller nodes, each without the
    fractional point. hi is first cut to what would cover the gap alone.                                        (3)
    Nodes whose bound is within `tolerance` of the best cover known are closed. Where all costs are multiples of a
    person's quantum (n,), bounds are rounded up to the next one. All nodes of all people are one tensor program.

    slack : gain by which a cover may fall short, for rounding errors.
    nodes : nodes per person after which their search is given up; their bound then tells how much is unproved.
    """
    best = torch.full_like(gap, torch.inf)
    best_k = torch.zeros_like(moves.slope)
    unproved = torch.full_like(gap, torch.inf)  # least bound among nodes given up
    used = torch.zeros_like(gap)
    owner = torch.arange(len(gap), device=gap.device)
    mine, lo, hi = moves, torch.zeros_like(moves.count), moves.count
    while len(owner):
        node = _relax(mine, gap[owner], lo, hi, slack)
        _keep_best(best, best_k, owner, node.price, node.k)
        step = quantum[owner]
        bound = torch.where(step > 0, torch.ceil(node.bound / step.clamp(min=1e-300) - 1e-6) * step, node.bound)
        alive = node.open & (bound < best[owner] - tolerance)
        used.index_add_(0, owner, torch.ones_like(bound))
        tired = alive & ((used[owner] > nodes) | stop())
        unproved.scatter_reduce_(0, owner[tired], bound[tired], "amin")
        rows = (alive & ~tired).nonzero().squeeze(1)
        owner, node = owner[rows], node.take(rows)
        budget = (best[owner] - tolerance - node.bound).unsqueeze(1)
        place, lo, hi = _split(moves.take(owner), node, budget)
        owner = owner[place]
        mine = moves.take(owner)
    return Cover(best_k, best, torch.minimum(best - tolerance, unproved).clamp(min=0.0))


@dataclass(frozen=True)
class Nodes:
    """N nodes of the search after their relaxation (2), and the covers that rounding up gives."""

    lo: Tensor  # (N, m)
    hi: Tensor  # (N, m)
    full: Tensor  # (N, m) moves that the relaxation fills
    move: Tensor  # (N, 1) the move that is filled last, to a fraction
    rate: Tensor  # (N, 1) its cost per gain
    up: Tensor  # (N, 1) the step to which it is rounded up
    bound: Tensor  # (N,)
    open: Tensor  # (N,) whether the gap can be covered, and is not covered at lo
    k: Tensor  # (N, m) the cover
    price: Tensor  # (N,) of the cover; infinite where the gap cannot be covered
    pieces: Segments | None

    def take(self, rows: Tensor) -> Nodes:
        """Some of the nodes."""
        parts = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "pieces"}
        return Nodes(**parts, pieces=None if self.pieces is None else self.pieces.take(rows))


def _relax(moves: Moves, gap: Tensor, lo: Tensor, hi: Tensor, slack: float) -> Nodes:
    """Fill moves in order of their cost per gain, until the gap (N,) is covered; the last one is rounded up."""
    near = moves.points(lo)
    need = gap - near.gain.sum(1)
    alone = moves.least_step(near.gain + (need - slack).unsqueeze(1))
    hi = torch.minimum(hi, torch.maximum(lo, alone))  # (3)
    far = moves.points(hi)
    gain, cost = far.gain - near.gain, far.cost - near.cost
    m, tables, pieces = lo.shape[1], moves.tables, None
    whose = torch.arange(m, device=gap.device)  # the move of each column of gain
    if tables is not None:
        bent = tables.moves
        pieces = tables.segments(lo[:, bent], hi[:, bent])
        gain[:, bent] = cost[:, bent] = 0.0
        gain = torch.cat([gain, pieces.gain.flatten(1)], 1)
        cost = torch.cat([cost, (pieces.rate * pieces.gain).flatten(1)], 1)
        whose = torch.cat([whose, bent.repeat_interleave(pieces.gain.shape[2])])
    rate, order = torch.where(gain > 0, cost / gain, torch.inf).sort(dim=1, stable=True)
    gain, cost = gain.gather(1, order), cost.gather(1, order)
    filled = gain.cumsum(1)
    rest = need.unsqueeze(1) - filled + gain  # still needed when a move's turn comes
    feasible = filled[:, -1] >= need - slack
    share = (rest / gain.clamp(min=1e-300)).clamp(0.0, 1.0)
    bound = near.cost.sum(1) + (share * cost).sum(1)  # (2)
    last = ((rest > slack).sum(1) - 1).clamp(min=0).unsqueeze(1)  # the fractional move
    move = whose[order.gather(1, last)]
    place = torch.arange(len(whose), device=gap.device)
    full = torch.empty_like(order).scatter_(1, order, place.expand_as(order)) < last
    k, stand = torch.where(full[:, :m], hi, lo), near.gain
    if tables is not None and pieces is not None:
        done = full[:, m:].reshape(pieces.end.shape)
        k[:, bent] = torch.where(done, pieces.end, lo[:, bent].unsqueeze(2)).amax(2)
        stand[:, bent] = tables.at(tables.gain, k[:, bent])
    up = moves.least_step(stand.gather(1, move) + rest.gather(1, last) - slack, move)
    up = torch.minimum(torch.maximum(up, lo.gather(1, move)), hi.gather(1, move))
    k = torch.where((need <= slack).unsqueeze(1), lo, k.scatter_(1, move, up))
    price = torch.where(feasible, moves.points(k).cost.sum(1), torch.inf)
    still_open = feasible & (need > slack)
    return Nodes(lo, hi, full[:, :m], move, rate.gather(1, last), up, bound, still_open, k, price, pieces)


def _split(moves: Moves, node: Nodes, budget: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The halves of every node at its fractional move: places (2N',) among the nodes, lo and hi (2N', m) of each."""
    lo, hi, move, tables = node.lo, node.hi, node.move, moves.tables
    narrow_lo, narrow_hi = _narrow(moves, lo, hi, node.full, node.rate, budget)
    free_entry = moves.fixed == 0
    if tables is not None and node.pieces is not None:
        bent = tables.moves
        ends = _narrow_tables(tables, node.pieces, lo[:, bent], hi[:, bent], node.rate, budget)
        narrow_lo[:, bent], narrow_hi[:, bent] = ends
        free_entry = free_entry.index_fill(0, bent, True)  # their pieces know of it
    low = lo.gather(1, move)
    lo, hi = narrow_lo.scatter(1, move, low), narrow_hi.scatter(1, move, hi.gather(1, move))
    loose = lo < hi
    if tables is not None:
        loose |= lo != node.k  # narrowed to a step between the ends
    place = loose.scatter_(1, move, False).any(1).nonzero().squeeze(1)  # else rounding up was the best of this node
    lo, hi, move = lo[place], hi[place], move[place]
    # a move with a fixed cost is first split into untouched and touched
    whole = (low[place] > 0) | free_entry[move]
    split = torch.where(whole, node.up[place], 1.0)
    lo = torch.cat([lo, lo.scatter(1, move, split)])
    return place.repeat(2), lo, torch.cat([hi.scatter(1, move, split - 1), hi])


def _narrow(moves: Moves, lo: Tensor, hi: Tensor, full: Tensor, rate: Tensor, budget: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds without the steps that cost more than `budget` (N, 1) above the relaxation, by reduced costs.

    At the relaxation, `full` moves stand at hi, others at lo, and one more unit of gain costs `rate` (N, 1): moving a
    move by a distance changes the bound by that distance times |price - rate * slope|.
    """
    per_unit = moves.price - rate * moves.slope  # (N, m)
    steps = (budget / (per_unit.abs() * moves.grid_step).clamp(min=1e-300)).clamp(max=1e15)
    begun = (lo > 0) | (moves.fixed == 0)
    # from hi down; the step onto a person's own value may be a short one
    down = hi - torch.floor(steps + 1e-9) - (lo == 0).to(lo.dtype)
    # a move with a fixed cost, not yet begun, has two ends only: untouched, and the best of its steps
    ends = moves.fixed + per_unit * moves.distance(torch.where(per_unit > 0, torch.ones_like(hi), hi))
    down = torch.where(begun, down, (-ends > budget).to(lo.dtype))
    first = torch.where(lo > 0, moves.grid_step, moves.first)
    up = lo + torch.floor((budget / per_unit.abs().clamp(min=1e-300) - first) / moves.grid_step + 1e-9) + 1.0
    up = torch.where(begun, torch.maximum(up, lo), torch.where(ends > budget, 0.0, hi))
    narrow_lo = torch.where(full, torch.maximum(lo, torch.minimum(down, hi)), lo)
    narrow_hi = torch.where(full, hi, torch.minimum(hi, up))
    return narrow_lo, narrow_hi


def _narrow_tables(
    tables: MoveTables, pieces: Segments, lo: Tensor, hi: Tensor, rate: Tensor, budget: Tensor
) -> tuple[Tensor, Tensor]:
    """The same for moves with tables, (N, b): each step has a reduced cost of its own, beside that of the pieces."""
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
    who, at = first_of_each(owner, (cost == least[owner]) & (cost < best[owner]), len(best))
    best_k[who] = k[at]
    torch.minimum(best, least, out=best)
