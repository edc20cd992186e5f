"""The printable rows within people's reach: how many there are, all of them, or an even selection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch

from turnabout.core import Problem
from turnabout.rules import regions_of
from turnabout.schema import Schema
from turnabout.schema.legal_values import Others, OtherValues, others_of
from turnabout.typing import Tensor

NOISE = 5e-13  # encoded units by which a value may miss a limit; rules forgive twice that


def movable(problem: Problem) -> tuple[int, ...]:
    """Features that the schema and every region allow to change."""
    regions = regions_of(problem.rules)
    out = []
    for f, (feature, s) in enumerate(zip(problem.schema.features, problem.schema.slices, strict=True)):
        if feature.moves != "fixed" and all(s.start in region.columns for region in regions):
            out.append(f)
    return tuple(out)


def limits(problem: Problem, x: Tensor) -> tuple[Tensor, Tensor]:
    """(n, d) -> lowest and highest values each person may reach by features and by the boxes around the regions."""
    lo, hi = problem.bounds(x)
    for region in regions_of(problem.rules):
        around = region.around(x)
        lo, hi = torch.maximum(lo, x + around.lo), torch.minimum(hi, x + around.hi)
    return lo, hi


def parts_of(count: Tensor, most: int) -> Iterator[slice]:
    """Runs of people (n,) with at most so many rows together, or a single one with more."""
    total = count.cumsum(0).cpu()
    start = 0
    while start < len(total):
        before = int(total[start - 1]) if start else 0
        stop = max(start + 1, int(torch.searchsorted(total, before + most, right=True)))
        yield slice(start, stop)
        start = stop


@dataclass(frozen=True)
class LegalRows:
    """The legal rows of n people, by what each may hold in some features; rules judge whole rows, and are not asked.

    x : (n, d).  features : what each person may put into each of F features beside their own value.
    """

    x: Tensor
    features: tuple[Others, ...]

    @classmethod
    def of(cls, schema: Schema, x: Tensor, blocked: Tensor) -> LegalRows:
        """What the schema lets people x (n, d) do without the features that are blocked, (n, F)."""
        parts = zip(schema.features, schema.slices, blocked.T, strict=True)
        return cls(x, tuple(others_of(feature, s, x).without(stays) for feature, s, stays in parts))

    @classmethod
    def within(cls, problem: Problem, x: Tensor) -> LegalRows:
        """What people x may do within bounds and the boxes around regions, of the features that may move."""
        lo, hi = limits(problem, x)
        least, most = problem.bounds(x)
        features: list[Others] = []
        for f in movable(problem):
            feature, s = problem.schema.features[f], problem.schema.slices[f]
            others = others_of(feature, s, x)
            stuck = (hi[:, others.columns] <= lo[:, others.columns]).all(1)
            if isinstance(others, OtherValues):
                column, slack = s.start, NOISE * others.feature.span / others.feature.choice_step
                top = torch.floor(others.feature.units(hi[:, column]) / others.feature.choice_step + slack)
                end = torch.ceil(others.feature.units(lo[:, column]) / others.feature.choice_step - slack)
                below, above = others.count.unbind(1)
                # where only the schema limits a value, its own count holds
                fewer, more = (others.high[:, 0] - end + 1).clamp(min=0), (top - others.low[:, 1] + 1).clamp(min=0)
                below = torch.where(lo[:, column] > least[:, column], torch.minimum(below, fewer), below)
                above = torch.where(hi[:, column] < most[:, column], torch.minimum(above, more), above)
                others = others.nearest(below, above)
            features.append(others.without(stuck))
        return cls(x, tuple(features))

    @cached_property
    def others(self) -> Tensor:
        """(n, F) legal values beside their own in each feature."""
        return torch.stack([feature.others for feature in self.features], 1) if self.features else self.x[:, :0]

    @property
    def count(self) -> Tensor:
        """(n,) how many rows each person may reach, as a float: it may be very large."""
        return (self.others + 1.0).prod(1)

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

    def selected(self, who: Tensor, taken: Tensor) -> tuple[Tensor, Tensor]:
        """Places (R,) in `who` and rows (R, d) of some people, `taken` (len(who), F) values of each feature.

        Where fewer than all values are taken, they lie evenly between the lowest and the highest, both included.
        """

        def rank(j: int, owner: Tensor, digit: Tensor, base: Tensor) -> Tensor:
            last = (self.features[j].others[owner] - 1).clamp(min=0)
            even = torch.round((digit - 1).clamp(min=0) * last / (base - 2).clamp(min=1))
            return torch.where(base == 2, last, even)  # one value beside their own: the highest

        return self._rows(who, taken.long(), rank)

    def every(self, who: Tensor) -> tuple[Tensor, Tensor]:
        """Owners (R,) and all legal rows (R, d) of some people: their own value first, then up, then down."""

        def rank(j: int, owner: Tensor, digit: Tensor, base: Tensor) -> Tensor:
            below, above = self.features[j].count[owner].long().unbind(1)
            return torch.where(digit <= above, below + digit - 1, below + above - digit)

        place, rows = self._rows(who, self.others[who].long() + 1, rank)
        return who[place], rows

    def _rows(
        self, who: Tensor, taken: Tensor, rank: Callable[[int, Tensor, Tensor, Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Rows by counting: digit 0 of feature j is their own value, others stand for the value of a rank."""
        count = taken.prod(1)
        place = torch.arange(len(who), device=who.device).repeat_interleave(count)
        index = torch.arange(len(place), device=who.device) - (count.cumsum(0) - count)[place]
        owner = who[place]
        out = self.x[owner]
        for j, feature in enumerate(self.features):
            base = taken[place, j]
            digit, index = index % base, torch.div(index, base, rounding_mode="floor")
            moved = (digit > 0).unsqueeze(1)
            if bool(moved.any()):
                value = feature.values(owner, rank(j, owner, digit, base))
                out[:, feature.columns] = torch.where(moved, value, out[:, feature.columns])
        return place, out
