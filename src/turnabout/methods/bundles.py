"""Cheapest joint changes under the guess that single gains add up: a knapsack for each person, everyone at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.typing import Tensor

OPTIONS = 8  # moves of one feature that take part
SLOTS = 12  # features that take part

SIZE = 57  # units of gain in the table
FREE = 14  # of these, below what a plan has: it may lose first and make good later
SPREAD = 7  # units about the gain that is needed
SHARES = (0.5, 1.6)  # at first, shares of what is needed: the gains of a person's first changes rarely add up exactly
TINY = 1e-12  # the least unit

Spans = tuple[tuple[int, int, int], ...]
"""Feature, first and last + 1 of its moves."""


@dataclass(frozen=True)
class Aims:
    """Gains to aim at, in units: targets (n, M) counted from -free; unit (n,)."""

    targets: Tensor
    free: int
    unit: Tensor

    @classmethod
    def first(cls, need: Tensor, count: int) -> Aims:
        """About all that people need (n,) who have changed nothing yet."""
        targets = torch.linspace(SHARES[0] / SHARES[1], 1.0, count, device=need.device) * (SIZE - 1)
        unit = (need * SHARES[1] / (SIZE - 1)).clamp(min=TINY)
        return cls(targets.round().long().expand(len(need), -1), 0, unit)

    @classmethod
    def again(cls, need: Tensor, way: Tensor, gain: Tensor, extra: Tensor, count: int) -> Aims:
        """About what a plan still needs (n,), negative if it has some to spare; way (n,) was needed at first."""
        loss = torch.where((extra < 0) & torch.isfinite(gain), -gain, 0.0).amax(1)  # of taking a change back
        unit = torch.stack([way, loss, 1.2 * need]).amax(0).clamp(min=TINY) / (SIZE - 1 - FREE - SPREAD)
        targets = FREE + (need / unit).unsqueeze(1) + torch.linspace(-SPREAD, SPREAD, count, device=need.device)
        return cls(targets.round().long().clamp(0, SIZE - 1), FREE, unit)


@dataclass(frozen=True)
class Bundles:
    """M joint changes for each of n people: moves (n, M, S), -1 for none; extra costs (n, M), inf if there is none."""

    moves: Tensor
    extra: Tensor


def bundle(gain: Tensor, extra: Tensor, spans: Spans, last: Tensor, aims: Aims) -> Bundles:
    r"""The cheapest bundles of moves whose gains add up to each of several targets.

        min over S   sum_{c in S} extra_c     s.t.   sum_{c in S} gain_c >= target,  one move a feature          (1)

    by dynamic programming over features, with gains rounded to whole units: after some features,
    least(b) is what it costs to gain b units with them,

        least'(b) = min over moves c of the next feature (or none) of   extra_c + least(b - gain_c).             (2)

    Features that a plan already changes come last: taking a change back raises what the others must gain.

    Parameters
    ----------
    gain, extra : (n, C) of each move; gain -inf where there is no such move. An extra cost may be negative.
    last : (n, F') True for features to be considered last, and in any case.
    """
    size, targets = SIZE, aims.targets
    weight, price, move = _frontiers(gain, extra, spans, aims.unit)  # (n, F', K)
    weight, price, move = _slots(weight, price, move, last)  # (n, S, K)
    n, slots, _ = weight.shape
    bins = torch.arange(size, device=gain.device)
    least = torch.full((n, size), torch.inf, dtype=gain.dtype, device=gain.device)
    least[:, : aims.free + 1] = 0.0
    chosen = torch.empty((n, slots, size), dtype=torch.int64, device=gain.device)
    for j in range(slots):
        before = bins - weight[:, j].unsqueeze(2)  # (n, K, size) what the features before must gain
        cost = least.unsqueeze(1).expand(-1, before.shape[1], -1).gather(2, before.clamp(0, size - 1))
        cost += price[:, j].unsqueeze(2)
        least, chosen[:, j] = cost.masked_fill_(before >= size, torch.inf).min(1)  # (2)
    at, moves = targets, []
    for j in reversed(range(slots)):
        which = chosen[:, j].gather(1, at)
        moves.append(move[:, j].gather(1, which))
        at = (at - weight[:, j].gather(1, which)).clamp(0, size - 1)
    return Bundles(torch.stack(moves, 2), least.gather(1, targets))


def _frontiers(gain: Tensor, extra: Tensor, spans: Spans, unit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each feature its moves (or none, -1) that no cheaper one outdoes: gains in units, costs, moves (n, F', K)."""
    n = len(gain)
    weight = torch.zeros((n, len(spans), OPTIONS), dtype=torch.int64, device=gain.device)
    price = torch.full((n, len(spans), OPTIONS), torch.inf, dtype=gain.dtype, device=gain.device)
    move = torch.full_like(weight, -1)
    units = (gain / unit.unsqueeze(1)).clamp_(-2.0 * SIZE, 2.0 * SIZE).round_()
    extra = torch.where(torch.isfinite(gain), extra, torch.inf)
    nothing = gain.new_zeros(n, 1)
    for j, (_, a, b) in enumerate(spans):
        cost, order = torch.cat([nothing, extra[:, a:b]], 1).sort(dim=1, stable=True)
        won = torch.cat([nothing, units[:, a:b]], 1).gather(1, order)
        jump = won.clone()
        jump[:, 1:] -= won.cummax(1).values[:, :-1]
        jump[:, 0] = torch.inf  # the cheapest always counts
        keep = min(OPTIONS, b - a + 1)
        ahead, best = jump.masked_fill_(torch.isinf(cost), -torch.inf).topk(keep, dim=1)
        weight[:, j, :keep] = won.gather(1, best).long()
        price[:, j, :keep] = cost.gather(1, best).masked_fill_(ahead <= 0, torch.inf)
        which = order.gather(1, best)
        move[:, j, :keep] = torch.where(which > 0, which + (a - 1), -1)
    return weight, price, move


def _slots(weight: Tensor, price: Tensor, move: Tensor, last: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The features that gain most for their cost, and those to be considered last; (n, F', K) -> (n, S, K)."""
    rate = torch.where((weight > 0) & torch.isfinite(price), weight / price.clamp(min=1e-9), 0.0).amax(2)
    rate = rate.masked_fill(last, torch.inf)
    count = min(SLOTS, rate.shape[1])
    order = rate.argsort(dim=1, descending=True, stable=True)[:, :count].flip(1)  # last those that come last
    pick = order.unsqueeze(2).expand(-1, -1, weight.shape[2])
    return weight.gather(1, pick), price.gather(1, pick), move.gather(1, pick)
