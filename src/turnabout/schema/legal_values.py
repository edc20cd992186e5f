"""The legal values of one feature beside a person's own: multiples of its step, or levels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch

from turnabout.schema.features import GRID_NOISE, Feature, Scalar
from turnabout.typing import Tensor


def grid_ends(feature: Scalar) -> tuple[int, int]:
    """The lowest and the highest multiple of the step that a plan may choose for anybody."""
    step, (low, high) = feature.choice_step, feature.choice_ends
    return math.ceil(low / step - GRID_NOISE), math.floor(high / step + GRID_NOISE)


def legal_multiples(feature: Scalar, own: Tensor, up: bool) -> tuple[Tensor, Tensor]:
    """Own encoded values (n,) -> first legal multiple of the step on that side, and how many there are, (n,) each."""
    if feature.moves not in ("free", "up" if up else "down"):
        return torch.zeros_like(own), torch.zeros_like(own)
    units, step = feature.units(own), feature.choice_step
    own = units / step
    low, high = feature.choice_bounds(units)
    least, most = torch.ceil(low / step - GRID_NOISE), torch.floor(high / step + GRID_NOISE)
    change = feature.least / step
    if up:
        first = torch.maximum(torch.floor(own + GRID_NOISE) + 1, torch.ceil(own + change - GRID_NOISE))
        first = torch.maximum(first, least)
        return first, (most - first + 1).clamp(min=0)
    first = torch.minimum(torch.ceil(own - GRID_NOISE) - 1, torch.floor(own - change + GRID_NOISE))
    first = torch.minimum(first, most)
    return first, (first - least + 1).clamp(min=0)


def value_at(feature: Scalar, multiple: Tensor) -> Tensor:
    """Encoded value of a multiple of the step, as it is printed and read back."""
    scale = feature.decimal_scale
    return feature.positions(torch.round(multiple * feature.choice_step * scale) / scale)


def first_beyond(feature: Scalar, cuts: Tensor) -> Tensor:
    """The first multiple of the step whose value lies beyond each encoded cut, (k,) -> (k,)."""
    near = torch.floor(feature.units(cuts) / feature.choice_step).unsqueeze(1) + torch.arange(-1.0, 3.0).double()
    return near[:, 0] + (value_at(feature, near) <= cuts.unsqueeze(1)).sum(1)


def is_stuck(feature: Feature, columns: Tensor) -> Tensor:
    """(n, width) -> (n,) True where the cell may not move: a fixed feature, or a missing value."""
    if feature.moves == "fixed":
        return torch.ones_like(columns[:, 0], dtype=torch.bool)
    return columns[:, -1] > 0.5 if feature.missing else torch.zeros_like(columns[:, 0], dtype=torch.bool)


@dataclass(frozen=True)
class OtherValues:
    """Legal values of a number, ordinal or binary beside each person's own, as multiples of its step.

    low, high : (n, 2) first and last multiple below their own, and above it; low > high where there is none.
    """

    feature: Scalar
    columns: slice
    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, feature: Scalar, columns: slice, x: Tensor) -> Self:
        """What the schema lets people x (n, d) choose."""
        own = x[:, columns]
        (down, below), (up, above) = (legal_multiples(feature, own[:, 0], side) for side in (False, True))
        low, high = torch.stack([down - below + 1, up], 1), torch.stack([down, up + above - 1], 1)
        none = (high < low) | is_stuck(feature, own).unsqueeze(1)
        columns = slice(columns.start, columns.start + 1)
        return cls(feature, columns, low.masked_fill(none, 1.0), high.masked_fill(none, 0.0))

    @property
    def count(self) -> Tensor:
        """(n, 2) values below their own, and above it."""
        return (self.high - self.low + 1).clamp(min=0)

    @property
    def others(self) -> Tensor:
        """(n,) values beside their own."""
        return self.count.sum(1)

    def take(self, who: Tensor) -> Self:
        """The part of some people."""
        return replace(self, low=self.low[who], high=self.high[who])

    def nearest(self, below: Tensor, above: Tensor) -> Self:
        """Only so many values on each side, (n,) each: those nearest to their own."""
        low, high = self.low.clone(), self.high.clone()
        low[:, 0], high[:, 1] = high[:, 0] - below + 1, low[:, 1] + above - 1
        return replace(self, low=low, high=high)

    def without(self, stays: Tensor) -> Self:
        """No other values for some people, (n,)."""
        stays = stays.unsqueeze(1)
        return replace(self, low=self.low.masked_fill(stays, 1.0), high=self.high.masked_fill(stays, 0.0))

    def at(self, rows: Tensor, multiple: Tensor) -> Tensor:
        """Rows (R, d) with this feature at multiples (R,) of its step."""
        out = rows.clone()
        out[:, self.columns] = value_at(self.feature, multiple).unsqueeze(1)
        return out

    def values(self, owner: Tensor, rank: Tensor) -> Tensor:
        """(R, 1) encoded values of people owner (R,) by their rank (R,), counted from the lowest."""
        below = self.count[owner, 0]
        lowest = torch.where(rank < below, self.low[owner, 0], self.low[owner, 1] - below)
        return value_at(self.feature, lowest + rank).unsqueeze(1)


@dataclass(frozen=True)
class OtherLevels:
    """The other levels of a category for each person; none where the cell may not move."""

    columns: slice
    own: Tensor  # (n,) the level of each person
    others: Tensor  # (n,) how many levels they may switch to

    @classmethod
    def of(cls, feature: Feature, columns: slice, x: Tensor) -> Self:
        """What the schema lets people x (n, d) choose."""
        levels = slice(columns.start, columns.start + len(feature.value_columns))
        others = x.new_full((len(x),), levels.stop - levels.start - 1.0)
        return cls(levels, x[:, levels].argmax(1), others.masked_fill(is_stuck(feature, x[:, columns]), 0.0))

    @property
    def count(self) -> Tensor:
        """(n, 2) as for values: none lies below a person's own level."""
        return torch.stack([torch.zeros_like(self.others), self.others], 1)

    def take(self, who: Tensor) -> Self:
        """The part of some people."""
        return replace(self, own=self.own[who], others=self.others[who])

    def without(self, stays: Tensor) -> Self:
        """No other levels for some people, (n,)."""
        return replace(self, others=self.others.masked_fill(stays, 0.0))

    def values(self, owner: Tensor, rank: Tensor) -> Tensor:
        """(R, levels) the level of each rank, counted on from the person's own."""
        count = self.columns.stop - self.columns.start
        hot = torch.nn.functional.one_hot((self.own[owner] + 1 + rank.long()) % count, count)
        return hot.to(self.others.dtype)


Others = OtherValues | OtherLevels


def others_of(feature: Feature, columns: slice, x: Tensor) -> Others:
    """What people x (n, d) may put into one feature beside their own value."""
    if isinstance(feature, Scalar):
        return OtherValues.of(feature, columns, x)
    return OtherLevels.of(feature, columns, x)
