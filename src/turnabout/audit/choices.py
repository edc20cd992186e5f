"""The printable rows within reach of people who may move only a few features: all of them, or an even selection."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from turnabout.audit.reach import limits, movable
from turnabout.core import Problem
from turnabout.schema import Scalar
from turnabout.schema.legal_values import OtherLevels, Others, OtherValues
from turnabout.typing import Tensor

NOISE = 5e-13  # encoded units by which a value may miss a limit; rules forgive twice that


@dataclass(frozen=True)
class Choices:
    """What n people may hold in the features that move, within bounds and the boxes around regions.

    Rules are not looked at: they judge whole rows.
    """

    x: Tensor  # (n, d)
    others: Tensor  # (n, F) legal values beside their own in each moving feature
    features: tuple[Others, ...]  # of those that move

    @classmethod
    def of(cls, problem: Problem, x: Tensor) -> Choices:
        """The choices of people x."""
        lo, hi = limits(problem, x)
        least, most = problem.bounds(x)
        features: list[Others] = []
        for f in movable(problem):
            feature, s = problem.schema.features[f], problem.schema.slices[f]
            if not isinstance(feature, Scalar):
                levels = OtherLevels.of(feature, s, x)
                free = (hi[:, levels.columns] > lo[:, levels.columns]).any(1)
                features.append(replace(levels, others=free.to(x.dtype) * (len(feature.value_columns) - 1)))
                continue
            values = OtherValues.of(feature, s, x)
            below, above = values.count.unbind(1)
            column, slack = s.start, NOISE * feature.span / feature.unit_step
            top = torch.floor(feature.units(hi[:, column]) / feature.unit_step + slack)
            end = torch.ceil(feature.units(lo[:, column]) / feature.unit_step - slack)
            # where only the schema limits a value, its own count holds
            more, fewer = top - values.low[:, 1] + 1, values.high[:, 0] - end + 1
            above = torch.where(hi[:, column] < most[:, column], torch.minimum(above, more), above)
            below = torch.where(lo[:, column] > least[:, column], torch.minimum(below, fewer), below)
            stuck = hi[:, column] <= lo[:, column]
            features.append(values.nearest(*(side.clamp(min=0).masked_fill(stuck, 0) for side in (below, above))))
        others = [feature.others for feature in features]
        return cls(x, torch.stack(others, 1) if others else x.new_zeros(len(x), 0), tuple(features))

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
        for j, feature in enumerate(self.features):
            base = taken[place, j]
            digit = index % base
            index = torch.div(index, base, rounding_mode="floor")
            moved = digit > 0
            last = (self.others[owner, j] - 1).clamp(min=0)
            steps = (base - 2).clamp(min=1)
            rank = torch.round((digit - 1).clamp(min=0) * last / steps)
            rank = torch.where(base == 2, last, rank)  # one value beside their own: the highest
            value = feature.values(owner, rank)
            out[:, feature.columns] = torch.where(moved.unsqueeze(1), value, out[:, feature.columns])
        return place, out
