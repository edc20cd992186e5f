"""Levers: what each person can pull to raise a linear margin, in notches from one legal value to the next."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from turnabout.schema import Category, Feature, Scalar, Schema
from turnabout.schema.features import GRID_NOISE
from turnabout.typing import Tensor


def ladder(feature: Scalar, own: Tensor, up: bool) -> tuple[Tensor, Tensor]:
    """Own encoded values (n,) -> first legal multiple of the step on that side, and how many there are, (n,) each."""
    if feature.moves not in ("free", "up" if up else "down"):
        return torch.zeros_like(own), torch.zeros_like(own)
    step = feature.unit_step
    own = feature.units(own) / step
    least = torch.ceil(torch.as_tensor(feature.bottom / step - GRID_NOISE).to(own))
    most = torch.floor(torch.as_tensor((feature.bottom + feature.span) / step + GRID_NOISE).to(own))
    if up:
        first = torch.maximum(torch.floor(own + GRID_NOISE) + 1, least)
        return first, (most - first + 1).clamp(min=0)
    first = torch.minimum(torch.ceil(own - GRID_NOISE) - 1, most)
    return first, (first - least + 1).clamp(min=0)


def on_ladder(feature: Scalar, q: Tensor) -> Tensor:
    """Encoded value of a multiple of the step, as it is printed and read back."""
    scale = 10.0**feature.places
    return feature.positions(torch.round(q * feature.unit_step * scale) / scale)


def stuck(feature: Feature, columns: Tensor) -> Tensor:
    """(n, width) -> (n,) True where the cell may not move."""
    if feature.moves == "fixed":
        return torch.ones_like(columns[:, 0], dtype=torch.bool)
    return columns[:, -1] > 0.5 if feature.missing else torch.zeros_like(columns[:, 0], dtype=torch.bool)


@dataclass(frozen=True)
class Levers:
    """One lever for each feature that may move, n people and m levers.

    Lever j at notch k >= 1 moves its feature by the distance first + (k - 1) * notch towards a higher margin, so that

        gain(k) = slope * distance(k)        cost(k) = fixed + price * distance(k)        both 0 at k = 0.    (1)

    A category has one notch, its best level: every switch costs the same. Where a lever cannot move or does not
    help, its count is 0. Notches are floats: a continuous number has millions.
    """

    schema: Schema
    features: tuple[int, ...]
    slope: Tensor  # (n, m)
    first: Tensor  # (n, m)
    count: Tensor  # (n, m)
    notch: Tensor  # (m,)
    price: Tensor  # (m,)
    fixed: Tensor  # (m,)
    target: Tensor  # (n, m) first multiple of the step, or position of the best level

    @classmethod
    def of(cls, schema: Schema, weights: Tensor, x: Tensor, blocked: Tensor, price: Tensor, fixed: Tensor) -> Levers:
        """weights (d,), x (n, d), blocked (n, F) True where a feature may not be used, price and fixed (F,)."""
        used = tuple(f for f, feature in enumerate(schema.features) if feature.moves != "fixed")
        shape = (len(used), len(x))
        slope, first, count, target = (x.new_zeros(shape) for _ in range(4))
        notch = x.new_ones(len(used))
        for j, f in enumerate(used):
            feature, columns = schema.features[f], x[:, schema.slices[f]]
            w = weights[schema.slices[f]]
            if isinstance(feature, Category):
                levels = w[: len(feature.levels)]
                own = columns[:, : len(levels)].argmax(1)
                top = levels.topk(2)
                place = (own == top.indices[0]).long()  # the best level, or the second if she is there
                slope[j], target[j] = top.values[place] - levels[own], top.indices[place].to(x.dtype)
                first[j] = count[j] = 1.0
            else:
                assert isinstance(feature, Scalar)
                target[j], count[j] = ladder(feature, columns[:, 0], bool(w[0] > 0))
                first[j] = (on_ladder(feature, target[j]) - columns[:, 0]).abs()
                slope[j] = w[0].abs()
                notch[j] = feature.unit_step / feature.span
            count[j].masked_fill_(stuck(feature, columns) | blocked[:, f] | (slope[j] <= 0), 0.0)
        index = torch.tensor(used, device=x.device, dtype=torch.long)
        slope.masked_fill_(count == 0, 1.0)
        return cls(
            schema, used, slope.T.contiguous(), first.T.contiguous(), count.T.contiguous(), notch,
            price.to(x)[index], fixed.to(x)[index], target.T.contiguous(),
        )  # fmt: skip

    def take(self, rows: Tensor) -> Levers:
        """The levers of some people."""
        per_person = (self.slope[rows], self.first[rows], self.count[rows])
        return Levers(self.schema, self.features, *per_person, self.notch, self.price, self.fixed, self.target[rows])

    def distance(self, k: Tensor) -> Tensor:
        """Notches (n, m) -> distances (n, m)."""
        return torch.where(k > 0, torch.addcmul(self.first, k - 1.0, self.notch), 0.0)

    @cached_property
    def reach(self) -> Tensor:
        """(n,) the most margin that all levers together can add."""
        return (self.slope * self.distance(self.count)).sum(1)

    def place(self, x: Tensor, k: Tensor) -> Tensor:
        """x (n, d), notches (n, m) -> x_new (n, d), on legal values."""
        x_new = x.clone()
        for j, f in enumerate(self.features):
            rows = (k[:, j] > 0).nonzero().squeeze(1)
            if not len(rows):
                continue
            feature, start = self.schema.features[f], self.schema.slices[f].start
            if isinstance(feature, Category):
                level = self.target[rows, j].long()
                x_new[rows, start : start + len(feature.levels)] = torch.nn.functional.one_hot(
                    level, len(feature.levels)
                ).to(x.dtype)
            else:
                assert isinstance(feature, Scalar)
                weight_up = (self.target[rows, j] * feature.unit_step > feature.units(x[rows, start])).to(x.dtype)
                side = 2 * weight_up - 1
                x_new[rows, start] = on_ladder(feature, self.target[rows, j] + side * (k[rows, j] - 1))
        return x_new
