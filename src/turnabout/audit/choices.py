"""The printable rows within reach of people who may move only a few features: all of them, or an even selection."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.audit.reach import limits, movable
from turnabout.core import Problem
from turnabout.schema import Scalar
from turnabout.schema.legal_values import legal_multiples, value_at
from turnabout.typing import Tensor

NOISE = 5e-13  # encoded units by which a value may miss a limit; rules forgive twice that


@dataclass(frozen=True)
class ScalarValues:
    """Legal values of one number, ordinal or binary beside the person's own, from lowest to highest; (n,) each."""

    feature: Scalar
    column: int
    up: Tensor  # multiple of the step nearest above their own
    down: Tensor  # nearest below
    below: Tensor  # how many lie below

    def put(self, out: Tensor, owner: Tensor, rank: Tensor, moved: Tensor) -> None:
        """Write the value of each rank into the rows that move."""
        below = self.below[owner]
        multiple = torch.where(rank < below, self.down[owner] - (below - 1 - rank), self.up[owner] + (rank - below))
        column = out[:, self.column]
        torch.where(moved, value_at(self.feature, multiple), column, out=column)


@dataclass(frozen=True)
class Levels:
    """The other levels of one category."""

    columns: slice

    def put(self, out: Tensor, owner: Tensor, rank: Tensor, moved: Tensor) -> None:
        """Write the level of each rank into the rows that move."""
        own = out[:, self.columns]
        level = (own.argmax(1) + 1 + rank.long()) % own.shape[1]
        hot = torch.nn.functional.one_hot(level, own.shape[1]).to(out.dtype)
        out[:, self.columns] = torch.where(moved.unsqueeze(1), hot, own)


@dataclass(frozen=True)
class Choices:
    """What n people may hold in the features that move, within bounds and the boxes around regions.

    Rules are not looked at: they judge whole rows.
    """

    x: Tensor  # (n, d)
    others: Tensor  # (n, F) legal values beside their own in each moving feature
    shelves: tuple[ScalarValues | Levels, ...]

    @classmethod
    def of(cls, problem: Problem, x: Tensor) -> Choices:
        """The choices of people x."""
        lo, hi = limits(problem, x)
        least, most = problem.bounds(x)
        shelves: list[ScalarValues | Levels] = []
        others = []
        for f in movable(problem):
            feature, s = problem.schema.features[f], problem.schema.slices[f]
            if not isinstance(feature, Scalar):
                levels = slice(s.start, s.start + len(feature.value_columns))
                free = (hi[:, levels] > lo[:, levels]).any(1)
                others.append(free.to(x.dtype) * (len(feature.value_columns) - 1))
                shelves.append(Levels(levels))
                continue
            column, slack = s.start, NOISE * feature.span / feature.unit_step
            up, above = legal_multiples(feature, x[:, column], True)
            down, below = legal_multiples(feature, x[:, column], False)
            top = torch.floor(feature.units(hi[:, column]) / feature.unit_step + slack)
            end = torch.ceil(feature.units(lo[:, column]) / feature.unit_step - slack)
            # where only the schema limits a value, the schema's own count holds
            above = torch.where(hi[:, column] < most[:, column], torch.minimum(above, top - up + 1), above)
            below = torch.where(lo[:, column] > least[:, column], torch.minimum(below, down - end + 1), below)
            stuck = hi[:, column] <= lo[:, column]
            above, below = (side.clamp(min=0).masked_fill(stuck, 0) for side in (above, below))
            others.append(above + below)
            shelves.append(ScalarValues(feature, column, up, down, below))
        return cls(x, torch.stack(others, 1) if others else x.new_zeros(len(x), 0), tuple(shelves))

    def taken(self, points: int | None, budget: float) -> Tensor:
        """(n, F) values to take of each feature, their own included: at most `points`, or what a budget of rows allows.

        A budget goes first to the features with few values; it takes all of them wherever it can.
        """
        if points is not None:
            return (self.others + 1).clamp(max=points)
        order = self.others.argsort(1)
        left = torch.full_like(self.x[:, 0], budget)
        out = torch.ones_like(self.others)
        for i in range(order.shape[1]):
            column = order[:, i : i + 1]
            share = torch.floor(left ** (1.0 / (order.shape[1] - i)) + 1e-9).unsqueeze(1)
            take = torch.minimum(self.others.gather(1, column) + 1, share)
            out.scatter_(1, column, take)
            left = left / take.squeeze(1)
        return out

    def rows(self, who: Tensor, taken: Tensor) -> tuple[Tensor, Tensor]:
        """Places (R,) in `who` and rows (R, d) of some people, `taken` (len(who), F) values of each feature.

        Where fewer than all values are taken, they lie evenly between the lowest and the highest, both included.
        """
        taken = taken.long()
        count = taken.prod(1)
        place = torch.arange(len(who), device=who.device).repeat_interleave(count)
        index = torch.arange(len(place), device=who.device) - (count.cumsum(0) - count)[place]
        owner = who[place]
        out = self.x[owner]
        for j, shelf in enumerate(self.shelves):
            base = taken[place, j]
            digit = index % base
            index = torch.div(index, base, rounding_mode="floor")
            moved = digit > 0
            last = (self.others[owner, j] - 1).clamp(min=0)
            steps = (base - 2).clamp(min=1)
            rank = torch.round((digit - 1).clamp(min=0) * last / steps)
            rank = torch.where(base == 2, last, rank)  # one value beside their own: the highest
            shelf.put(out, owner, rank, moved)
        return place, out
