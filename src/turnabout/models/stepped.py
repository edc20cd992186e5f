"""Numbers that enter an estimator in steps: bins, whole numbers behind a one-hot encoder, tables of points.

As in `probe`, preprocessing is watched: at every legal value of a number, or, where there are too many, at some of them
and at all numbers that the preprocessing holds (edges of bins, levels). Where neighbours give different inputs, the
last double of the one piece and the first of the next are found by narrowing the gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from turnabout.models.encoded_cuts import encode_last, rank, unrank
from turnabout.models.libraries.inside import Held
from turnabout.models.libraries.raw_forest import NotCompilable
from turnabout.models.probe import Pieces, probes
from turnabout.schema import Number, Schema
from turnabout.schema.features import GRID_NOISE
from turnabout.schema.put import in_precision

Floats = NDArray[np.float64]
Transform = Callable[[pd.DataFrame], np.ndarray]

EVERY = 100_000  # legal values of a number that are all read
CELLS = 20_000_000  # inputs read at a time
SOME = 4096  # legal values that are read where there are more
MOST = 500  # pieces
ROWS = 20_000  # asked about at a time while narrowing gaps
ROUNDS = 8  # pieces between two neighbouring values that were read
SAME = 1e-9  # difference of inputs that is noise, as a share of their size
STRAIGHT = 1e-7  # the same for a straight line


def read_steps(
    transform: Transform, transforms: tuple[Any, ...], schema: Schema, like: Any, strict: bool = True
) -> dict[int, Pieces]:
    """The numbers that enter in steps, by the places of their features; those that enter otherwise are left out.

    strict : raise where steps cannot all be known, rather than leave that number out.
    """
    held = Held.of(transforms)
    found: dict[int, Pieces] = {}
    for j, feature in enumerate(schema.features if transforms else ()):
        if not isinstance(feature, Number):
            continue
        try:
            pieces = read_number(Watched(transform, schema, like, j), held)
        except NotCompilable:
            if strict:
                raise
            continue
        if pieces is not None:
            found[j] = pieces
    return found


class Watched:
    """Inputs of an estimator while one number moves and every other feature stays."""

    def __init__(self, transform: Transform, schema: Schema, like: Any, j: int):
        seen = probes(schema, like)
        feature = schema.features[j]
        assert isinstance(feature, Number)
        self.transform, self.schema, self.like, self.feature = transform, schema, like, feature
        self.x, self.table, self.column = seen.x[0], seen.table.iloc[:1], schema.slices[j].start
        self.p = np.asarray(transform(self.table)).shape[1]
        step = feature.unit_step
        self.first = math.ceil(feature.low / step - GRID_NOISE)
        self.count = math.floor(feature.high / step + GRID_NOISE) - self.first + 1

    def legal(self, places: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Legal values by their places, (k,), and their inputs (k, p); cells as in rows of a plan."""
        values = self.feature.canonical((self.first + places) * self.feature.unit_step)
        x = self.x.expand(len(values), -1).clone()
        x[:, self.column] = torch.from_numpy((values - self.feature.low) / self.feature.span)
        z = np.asarray(self.transform(self.schema.decode(x, self.like)), dtype=np.float64)
        return values, z

    def any(self, values: Floats) -> Floats | None:
        """Inputs (k, p) at any numbers; None where one of them is refused."""
        table = self.table.iloc[np.zeros(len(values), dtype=int)].reset_index(drop=True)
        table[self.feature.name] = in_precision(
            np.asarray(values, dtype=np.float64), self.table[self.feature.name].dtype
        )
        try:
            z = np.asarray(self.transform(table), dtype=np.float64)
        except NotCompilable:
            return None
        return z if np.isfinite(z).all() else None


@dataclass
class Stretches:
    """Neighbouring values with the same inputs: the first and the last of each stretch, (s,), and inputs (s, p)."""

    first: Floats
    last: Floats
    z: Floats

    @classmethod
    def of(cls, values: Floats, z: Floats) -> Stretches:
        """Rising values (k,) and their inputs (k, p), put together where they are the same."""
        new = np.abs(np.diff(z, axis=0)).max(1, initial=0.0) > _noise(z)
        starts = np.flatnonzero(np.append(True, new))
        ends = np.append(starts[1:] - 1, len(values) - 1)
        return cls(values[starts], values[ends], z[starts])

    def joined(self, values: Floats, z: Floats) -> Stretches:
        """With more values, which may lie anywhere."""
        v = np.concatenate([self.first, self.last, values])
        rows = np.concatenate([self.z, self.z, z])
        v, order = np.unique(v, return_index=True)
        return Stretches.of(v, rows[order])

    @property
    def noise(self) -> float:
        """A difference of inputs that is none."""
        return _noise(self.z)

    def __len__(self) -> int:
        return len(self.first)


def _noise(z: Floats) -> float:
    return SAME * (1.0 + float(np.abs(z).max(initial=0.0)))


def read_number(watched: Watched, held: Held) -> Pieces | None:
    """What one number does in steps; None where it moves its inputs in straight lines, or otherwise.

    Raises NotCompilable where there are steps, and more of them may be hidden between the values that were read.
    """
    feature, count = watched.feature, watched.count
    if count < 2:
        return None
    every = count <= (min(EVERY, CELLS // max(1, watched.p)) if held.strangers else SOME)
    places = np.arange(count) if every else np.unique(np.linspace(0, count - 1, SOME).astype(np.int64))
    values, z = watched.legal(places)
    if not np.isfinite(z).all():
        return None
    stepped = ~_straight(values, z)
    stretches = Stretches.of(values, z[:, stepped])
    if not every or stepped.any():
        stretches, stepped = _with_held(watched, held, values, z, stepped)
    if not stepped.any() or len(stretches) > MOST:
        return None
    if not every and held.strangers:
        raise NotCompilable(
            f"'{feature.name}' enters in steps through {held.strangers[0]}, a class that is not known here, and of its "
            f"{count} legal values not all can be tried; give Number({feature.name!r}, ...) a step that leaves at most "
            f"{EVERY} values, or make the steps with a KBinsDiscretizer"
        )
    cut = _cut(watched, stretches, stepped, every)
    if cut is None:
        return None
    stretches, cuts = cut
    inputs = np.zeros((len(stretches), watched.p))
    inputs[:, stepped] = stretches.z
    encoded = encode_last(feature, cuts, falling=False)
    return Pieces(torch.from_numpy(stepped), torch.from_numpy(encoded), torch.from_numpy(inputs))


def _straight(values: Floats, z: Floats) -> NDArray[np.bool_]:
    """(p,) inputs that follow rising values (k,) in a straight line."""
    share = ((values - values[0]) / (values[-1] - values[0]))[:, None]
    gap = np.abs(z - (z[0] + share * (z[-1] - z[0]))).max(0)
    return gap <= STRAIGHT * (1.0 + np.abs(z).max(0))


def _with_held(
    watched: Watched, held: Held, values: Floats, z: Floats, stepped: NDArray[np.bool_]
) -> tuple[Stretches, NDArray[np.bool_]]:
    """Stretches that know the numbers which the preprocessing holds, the doubles beside them, and far values."""
    feature, reach = watched.feature, watched.feature.span
    ends = np.array([feature.low - reach, feature.high + reach])
    edges = held.numbers[(held.numbers > ends[0]) & (held.numbers < ends[1])]
    beside = np.unique(np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)]))
    within = (beside >= feature.low) & (beside <= feature.high)
    for more in (beside[within], np.append(beside[~within], ends)):
        if len(more) and (inputs := watched.any(more)) is not None:
            order = np.argsort(both := np.concatenate([values, more]), kind="stable")
            values, z = both[order], np.concatenate([z, inputs])[order]
            values, kept = np.unique(values, return_index=True)
            z = z[kept]
    inside = (values >= feature.low) & (values <= feature.high)
    flat = np.ptp(z[inside], axis=0) <= _noise(z)  # so that a change outside the bounds is a step too
    stepped = stepped | ~_straight(values[inside], z[inside]) | (flat & (np.ptp(z, axis=0) > _noise(z)))
    return Stretches.of(values, z[:, stepped]), stepped


def _cut(
    watched: Watched, stretches: Stretches, stepped: NDArray[np.bool_], every: bool
) -> tuple[Stretches, Floats] | None:
    """Stretches that touch, and the last value of each but the last; None where no end of steps is found."""
    for _ in range(ROUNDS):
        low, high = rank(stretches.last[:-1]), rank(stretches.first[1:])
        if (high <= low + 1).all():
            return stretches, stretches.last[:-1]
        while (gaps := np.flatnonzero(high > low + 1)).size:
            between = _between(low[gaps], high[gaps])  # (g, k)
            z = watched.any(unrank(between.reshape(-1)))
            if z is None:  # the model fails between legal values, and would fail for a person who holds such a value
                return (stretches, (stretches.last[:-1] + stretches.first[1:]) / 2) if every else None
            away = np.abs(z[:, stepped].reshape(*between.shape, -1) - stretches.z[gaps][:, None]).max(2)
            alike = np.cumprod(away <= stretches.noise, axis=1).sum(1)  # how many are as on the left
            ladder = np.column_stack([low[gaps], between, high[gaps]])
            row = np.arange(len(gaps))
            low[gaps], high[gaps] = ladder[row, alike], ladder[row, alike + 1]
        turns = np.unique(np.concatenate([unrank(low), unrank(high)]))
        if (z := watched.any(turns)) is None:
            return None
        stretches = stretches.joined(turns, z[:, stepped])
        if len(stretches) > MOST:
            return None
    return None


def _between(low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ranks inside gaps (g,), rising in each of them, (g, k)."""
    parts = max(2, min(256, ROWS // len(low)))
    step = np.maximum(1, high // parts - low // parts)  # high - low may not fit a word
    return np.minimum(low[:, None] + step[:, None] * np.arange(1, parts), high[:, None] - 1)
