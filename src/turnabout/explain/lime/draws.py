"""Random people for LIME on tables: each feature on its own, read off a background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from turnabout.schema import Number, Schema
from turnabout.typing import Tensor

QUARTILES = (0.25, 0.5, 0.75)
SMALL = 1e-11  # added to the deviation of a bin, as in the reference


@dataclass(frozen=True, eq=False)
class NormalFeature:
    """A number, placed by its deviation from the mean and drawn from a normal; one that never varies stays."""

    columns: slice
    mean: float
    spread: float

    def place(self, x: Tensor) -> Tensor:
        """People (n, d) -> (n,)."""
        return (x[:, self.columns.start] - self.mean) / (self.spread or 1.0)

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Places (count,) and encoded values (count, width)."""
        place = torch.as_tensor(rng.standard_normal(count)) * (self.spread > 0)
        return place, (self.mean + place * self.spread).unsqueeze(1)


@dataclass(frozen=True, eq=False)
class BinnedFeature:
    """A feature whose encoded values (l, width) are bins, with their shares (l,)."""

    columns: slice
    levels: Tensor
    share: np.ndarray

    def place(self, x: Tensor) -> Tensor:
        """People (n, d) -> (n,): the level, -1 where the background has it not."""
        match = (x[:, None, self.columns] == self.levels).all(2)  # (n, l)
        return torch.where(match.any(1), match.to(torch.int64).argmax(1), -1).to(torch.float64)

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Places (count,) and encoded values (count, width)."""
        bins = torch.as_tensor(rng.choice(len(self.share), count, p=self.share))
        return bins.to(torch.float64), self.levels[bins]


@dataclass(frozen=True, eq=False)
class Bins:
    """A number in quartile bins, each with a truncated normal; what is missing is a bin of its own, the last.

    Attributes
    ----------
    edges : (b - 1,) a value on an edge is in the bin below.
    middle, deviation, low, high : (b,) the normals and their bounds.
    absent : encoded missing value (width,), None where the background has none.  share : frequencies of the bins.
    """

    columns: slice
    edges: Tensor
    middle: Tensor
    deviation: Tensor
    low: Tensor
    high: Tensor
    absent: Tensor | None
    share: np.ndarray

    def place(self, x: Tensor) -> Tensor:
        """People (n, d) -> (n,): the bin, -1 for a missing cell where the background has none."""
        block = x[:, self.columns]
        bins = torch.searchsorted(self.edges, block[:, 0].contiguous())
        if block.shape[1] > 1:  # with a missing indicator
            bins = torch.where(block[:, -1] > 0.5, -1 if self.absent is None else len(self.middle), bins)
        return bins.to(torch.float64)

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Places (count,) and encoded values (count, width); normals by their inverse distribution function."""
        bins = torch.as_tensor(rng.choice(len(self.share), count, p=self.share))
        uniform = torch.as_tensor(rng.random(count))
        at = bins.clamp(max=len(self.middle) - 1)
        middle, deviation, low, high = (v[at] for v in (self.middle, self.deviation, self.low, self.high))
        below, above = (torch.special.ndtr((end - middle) / deviation) for end in (low, high))
        value = middle + deviation * torch.special.ndtri(below + uniform * (above - below))
        block = torch.zeros(count, self.columns.stop - self.columns.start, dtype=torch.float64)
        block[:, 0] = value.clamp(min=low, max=high)
        if self.absent is not None:
            block[bins == len(self.middle)] = self.absent
        return bins.to(torch.float64), block


Part = NormalFeature | BinnedFeature | Bins


@dataclass(frozen=True, eq=False)
class LimeDraws:
    """Random people, the same for everyone: places (m, s), the bin of each feature or its deviation; values (s, d)."""

    places: Tensor
    values: Tensor

    @classmethod
    def of(cls, parts: Sequence[Part], count: int, rng: np.random.Generator) -> LimeDraws:
        drawn = [part.draw(count, rng) for part in parts]
        return cls(torch.stack([place for place, _ in drawn]), torch.cat([block for _, block in drawn], 1))


def parts_of(schema: Schema | None, background: Tensor, discretize: bool) -> list[Part]:
    """How each feature is placed and drawn; plain points are numbers throughout."""
    if schema is None:
        return [_number(background, slice(j, j + 1), False, discretize) for j in range(background.shape[1])]
    parts: list[Part] = []
    for feature, columns in zip(schema.features, schema.slices, strict=True):
        if isinstance(feature, Number):
            parts.append(_number(background, columns, feature.missing, discretize))
        else:
            parts.append(_levels(background, columns))
    return parts


def _levels(background: Tensor, columns: slice) -> BinnedFeature:
    levels, count = background[:, columns].unique(dim=0, return_counts=True)
    return BinnedFeature(columns, levels, _shares(count))


def _number(background: Tensor, columns: slice, missing: bool, discretize: bool) -> Part:
    block = background[:, columns]
    if not discretize and not missing:
        return NormalFeature(columns, float(block.mean()), float(block.std(unbiased=False)))
    absent = block[:, -1] > 0.5 if missing else torch.zeros(len(block), dtype=torch.bool)
    values = block[~absent, 0]
    if not len(values):
        return _levels(background, columns)
    edges = torch.from_numpy(np.unique(np.quantile(values.numpy(), QUARTILES)))
    bins = torch.searchsorted(edges, values)
    count = torch.bincount(bins, minlength=len(edges) + 1)
    full = count.clamp(min=1)
    middle = torch.bincount(bins, values, len(count)) / full
    deviation = (torch.bincount(bins, (values - middle[bins]).square(), len(count)) / full).sqrt() + SMALL
    low, high = torch.cat([values.min()[None], edges]), torch.cat([edges, values.max()[None]])
    gone = block[absent][0] if bool(absent.any()) else None
    counts = count if gone is None else torch.cat([count, absent.sum()[None]])
    return Bins(columns, edges, middle, deviation, low, high, gone, _shares(counts))


def _shares(count: Tensor) -> np.ndarray:
    share = count.numpy().astype(np.float64)
    return np.asarray(share / share.sum())
