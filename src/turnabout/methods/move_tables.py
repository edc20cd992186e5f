"""Moves whose steps do not act in equal steps: their gains and costs in tables, and a convex line below these."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

PIECES = 6  # of the convex line below a move's costs, and one more


@dataclass(frozen=True)
class Points:
    """Where moves stand: what they gain and cost, (n, m) each."""

    gain: Tensor
    cost: Tensor


@dataclass(frozen=True)
class Segments(TensorRows):
    """Straight pieces of a convex line below the costs of b moves, S of each, (n, b, S): how much they gain, at which
    cost per gain, and the step at which they end. Pieces that gain nothing are no pieces."""

    gain: Tensor
    rate: Tensor
    end: Tensor


@dataclass(frozen=True)
class MoveTables:
    """Steps of the moves that do not act in equal steps, read off a table; n people, b such moves.

    For each person the values of a feature are put in order of cost, and kept where they gain more than all cheaper
    ones: from step to step, gain and cost rise. Step 0 is their own value; places beyond their last step hold inf.
    """

    moves: Tensor  # (b,) which moves these are
    gain: Tensor  # (n, b, K)
    cost: Tensor  # (n, b, K)
    target: Tensor  # (n, b, K) multiples of the feature's step
    corner: Tensor  # (n, b, K) the next corner of the convex line below the steps that follow; K if there is none

    @classmethod
    def join(cls, tables: dict[int, list[Tensor]]) -> MoveTables | None:
        """Gains, costs and multiples of single moves, (n, K) each, side by side and filled up to one length."""
        if not tables:
            return None
        longest = max(parts[0].shape[1] for parts in tables.values())
        filled = [
            torch.stack([torch.nn.functional.pad(t, (0, longest - t.shape[1]), value=fill) for t in parts], 1)
            for parts, fill in zip(zip(*tables.values()), (torch.inf, torch.inf, 0.0))
        ]
        gain, cost, target = filled
        return cls(torch.tensor(list(tables), device=gain.device), gain, cost, target, _corners(gain, cost))

    def take(self, rows: Tensor) -> MoveTables:
        return MoveTables(self.moves, *(part[rows] for part in (self.gain, self.cost, self.target, self.corner)))

    def at(self, table: Tensor, k: Tensor) -> Tensor:
        """Entries (n, b) of a table at steps (n, b)."""
        return table.gather(2, k.long().unsqueeze(2)).squeeze(2)

    def points(self, k: Tensor) -> Points:
        """Steps (n, b) -> gains and costs."""
        return Points(self.at(self.gain, k), self.at(self.cost, k))

    def least_step(self, gain: Tensor) -> Tensor:
        """The first step with at least this gain, (n, b) -> (n, b)."""
        found = torch.searchsorted(self.gain, gain.unsqueeze(2).contiguous()).squeeze(2)
        return found.clamp(min=1).to(gain.dtype)

    def within(self, lo: Tensor, hi: Tensor) -> Tensor:
        """(n, b, K) the steps in [lo, hi], (n, b) each."""
        k = torch.arange(self.gain.shape[2], device=lo.device)
        return (k >= lo.unsqueeze(2)) & (k <= hi.unsqueeze(2))

    def segments(self, lo: Tensor, hi: Tensor) -> Segments:
        """The convex line from lo below the costs of the steps up to hi, (n, b) each: from corner to corner while
        these are within hi, then one line to hi that is as steep as it can be."""
        here, end = self.points(lo), lo
        gain, rate, ends = [], [], []
        for _ in range(PIECES):
            corner = self.at(self.corner, end).to(lo.dtype)
            inside = corner <= hi
            if not inside.any():
                break
            end = torch.where(inside, corner, end)
            there = self.points(end)
            gain.append(there.gain - here.gain)
            rate.append(torch.where(inside, (there.cost - here.cost) / gain[-1], torch.inf))
            ends.append(end)
            here = there
        rise = self.gain - here.gain.unsqueeze(2)
        slope = (self.cost - here.cost.unsqueeze(2)) / rise
        steepest = torch.where(self.within(end, hi) & (rise > 0), slope, torch.inf).amin(2)
        gains = torch.stack([*gain, self.at(self.gain, hi) - here.gain], 2)
        rates = torch.where(gains > 0, torch.stack([*rate, steepest], 2), 0.0)
        return Segments(gains, rates.cummax(2).values, torch.stack([*ends, hi], 2))  # rising, whatever rounding does


def _corners(gain: Tensor, cost: Tensor) -> Tensor:
    """The next corner of the convex line below each step and those that follow, (n, b, K) -> (n, b, K)."""
    length = gain.shape[2]
    corner = torch.full(gain.shape, length, dtype=torch.long, device=gain.device)
    for k in reversed(range(length - 1)):
        ahead = torch.where(torch.isfinite(gain[:, :, k + 1]), k + 1, length)
        while True:
            place = ahead.clamp(max=length - 1).unsqueeze(2)
            beyond = torch.where(ahead < length, corner.gather(2, place).squeeze(2), length)
            far = beyond.clamp(max=length - 1).unsqueeze(2)
            g, c = gain.gather(2, place).squeeze(2), cost.gather(2, place).squeeze(2)
            g2, c2 = gain.gather(2, far).squeeze(2), cost.gather(2, far).squeeze(2)
            # the corner ahead is none if the line from here to the one beyond runs below it
            below = (c - cost[:, :, k]) * (g2 - g) >= (c2 - c) * (g - gain[:, :, k])
            skip = (beyond < length) & below
            if not skip.any():
                break
            ahead = torch.where(skip, beyond, ahead)
        corner[:, :, k] = ahead
    return corner
