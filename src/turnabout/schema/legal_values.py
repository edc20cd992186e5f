"""The legal values of one feature around a person's own, as multiples of the feature's step."""

from __future__ import annotations

import math

import torch

from turnabout.schema.features import GRID_NOISE, Feature, Scalar
from turnabout.typing import Tensor


def grid_ends(feature: Scalar) -> tuple[int, int]:
    """The lowest and the highest legal multiple of the step."""
    step = feature.unit_step
    most = math.floor((feature.bottom + feature.span) / step + GRID_NOISE)
    return math.ceil(feature.bottom / step - GRID_NOISE), most


def legal_multiples(feature: Scalar, own: Tensor, up: bool) -> tuple[Tensor, Tensor]:
    """Own encoded values (n,) -> first legal multiple of the step on that side, and how many there are, (n,) each."""
    if feature.moves not in ("free", "up" if up else "down"):
        return torch.zeros_like(own), torch.zeros_like(own)
    own = feature.units(own) / feature.unit_step
    least, most = grid_ends(feature)
    if up:
        first = (torch.floor(own + GRID_NOISE) + 1).clamp(min=least)
        return first, (most - first + 1).clamp(min=0)
    first = (torch.ceil(own - GRID_NOISE) - 1).clamp(max=most)
    return first, (first - least + 1).clamp(min=0)


def value_at(feature: Scalar, multiple: Tensor) -> Tensor:
    """Encoded value of a multiple of the step, as it is printed and read back."""
    scale = feature.decimal_scale
    return feature.positions(torch.round(multiple * feature.unit_step * scale) / scale)


def first_beyond(feature: Scalar, cuts: Tensor) -> Tensor:
    """The first multiple of the step whose value lies beyond each encoded cut, (k,) -> (k,)."""
    near = torch.floor(feature.units(cuts) / feature.unit_step).unsqueeze(1) + torch.arange(-1.0, 3.0).double()
    return near[:, 0] + (value_at(feature, near) <= cuts.unsqueeze(1)).sum(1)


def is_stuck(feature: Feature, columns: Tensor) -> Tensor:
    """(n, width) -> (n,) True where the cell may not move: a fixed feature, or a missing value."""
    if feature.moves == "fixed":
        return torch.ones_like(columns[:, 0], dtype=torch.bool)
    return columns[:, -1] > 0.5 if feature.missing else torch.zeros_like(columns[:, 0], dtype=torch.bool)
