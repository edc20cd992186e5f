"""Probing fitted preprocessing: what does each input of an estimator do as each feature moves?

Preprocessing is not read but watched. Tables that differ from a base row in one feature at a time give the map from
encoded rows x (d,) to the estimator's inputs z (p,),

    z(x) = A x + a0 + V relu(x[columns] - knots) + H [x[at] > cuts],                               (1)

where the third term bends at the inner levels of ordinal features, the last jumps where a number enters in steps
(`stepped.py`), and both are empty otherwise. Random legal rows, and the background, then tell whether (1) is the whole
truth; if a feature enters otherwise it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from turnabout.models.libraries.raw_forest import NotCompilable
from turnabout.schema import Category, Feature, Number, Passthrough, Schema
from turnabout.schema.features import GRID_NOISE
from turnabout.typing import Tensor

RANDOM_ROWS = 256
_SEED = 20240229


@dataclass(frozen=True)
class Probes:
    """Legal rows around a base row: row 0 is the base, and rows[j] are those where only feature j moves."""

    x: Tensor
    table: pd.DataFrame
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Preprocessing:
    """The map (1). a (p, d), a0 (p,), v (p, m), columns (m,), knots (m,), h (p, k), at (k,), cuts (k,)."""

    a: Tensor
    a0: Tensor
    v: Tensor
    columns: Tensor
    knots: Tensor
    h: Tensor
    at: Tensor
    cuts: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        z = x @ self.a.T + self.a0
        if len(self.knots):
            z = z + torch.relu(x[..., self.columns] - self.knots) @ self.v.T
        return z + (x[..., self.at] > self.cuts).to(x.dtype) @ self.h.T if len(self.cuts) else z  # (1)


@dataclass(frozen=True)
class Pieces:
    """Inputs that one number moves in steps: which they are (p,), and what they are between its cuts.

    cuts (k,) lie in the encoded column, each the last value of its piece; inputs (k + 1, p) are the pieces' inputs.
    """

    stepped: Tensor
    cuts: Tensor
    inputs: Tensor

    def at(self, position: float) -> Tensor:
        """Inputs at an encoded value, (p,)."""
        return self.inputs[int((self.cuts < position).sum())]


def positions(feature: Feature) -> list[list[float]]:
    """Encoded cells of one feature worth probing: every level, or some legal numbers; a missing cell last."""
    if isinstance(feature, Passthrough):
        return [[0.0]]
    if isinstance(feature, Number):
        values = [feature.low + share * feature.span for share in (0.0, 1.0, 0.5, 0.25, 0.85)]
        cells = [[p] for p in dict.fromkeys(legal_position(feature, v) for v in values)]
        if len(cells) < 2:
            cells = [[0.0], [1.0]]
    elif isinstance(feature, Category):
        cells = np.eye(len(feature.levels)).tolist()
    else:
        levels = len(feature.levels)  # type: ignore[attr-defined]
        cells = [[k / (levels - 1)] for k in range(levels)]
    if feature.missing:
        cells = [[*cell, 0.0] for cell in cells] + [[0.0] * (feature.width - 1) + [1.0]]
    return cells


def base_row(schema: Schema) -> Tensor:
    """(1, d) the first position of every feature."""
    return torch.tensor([[v for f in schema.features for v in positions(f)[0]]], dtype=torch.float64)


def probes(schema: Schema, like: pd.DataFrame | None = None) -> Probes:
    """One base row, and for every feature the rows that differ from it in that feature alone; types as in `like`."""
    base = base_row(schema)[0].numpy()
    cells = [positions(feature) for feature in schema.features]
    x, rows = [base], []
    for s, own in zip(schema.slices, cells, strict=True):
        indices = [0]
        for cell in own[1:]:
            row = base.copy()
            row[s] = cell
            indices.append(len(x))
            x.append(row)
        rows.append(tuple(indices))
    encoded = torch.from_numpy(np.array(x))
    return Probes(encoded, schema.decode(encoded, like), tuple(rows))


def random_rows(schema: Schema, n: int = RANDOM_ROWS, missing: bool = True) -> Tensor:
    """(n, d) legal rows, the same at every call."""
    rng = np.random.default_rng(_SEED)
    x = np.zeros((n, schema.d))
    for feature, s in zip(schema.features, schema.slices, strict=True):
        if isinstance(feature, Number):
            draws = feature.low + rng.random(n) * feature.span
            cells = np.array([[legal_position(feature, v)] for v in draws])
        else:
            present = [cell[: len(feature.value_columns)] for cell in positions(feature)]
            present = present[:-1] if feature.missing else present
            cells = np.array(present)[rng.integers(len(present), size=n)]
        if feature.missing:
            absent = rng.random(n) < (0.1 if missing else 0.0)
            cells = np.column_stack([np.where(absent[:, None], 0.0, cells), absent])
        x[:, s] = cells
    return torch.from_numpy(x)


def fit_preprocessing(
    transform: Callable[[pd.DataFrame], np.ndarray],
    schema: Schema,
    checks: list[tuple[Tensor, pd.DataFrame]],
    like: pd.DataFrame | None = None,
    pieces: Mapping[int, Pieces] | None = None,
) -> Preprocessing:
    """Probe a transform into the map (1), and check it on pairs (encoded rows, table).

    pieces : numbers that enter in steps, by the places of their features.
    """
    seen = probes(schema, like)
    z = torch.from_numpy(np.array(transform(seen.table), dtype=np.float64))
    found = _assemble(schema, seen, z, pieces or {})
    if not torch.isfinite(found.a).all() or not torch.isfinite(found.a0).all():
        column = int((~torch.isfinite(found.a)).any(0).int().argmax())
        raise NotCompilable(f"the estimator receives NaN or infinite inputs when '{schema.columns[column]}' moves")
    for name, moved in zip(schema.names, map(list, seen.rows), strict=True):
        _check(found, seen.x[moved], z[moved], f"an input does not follow '{name}' in a straight line")
    for x, table in checks:
        target = torch.from_numpy(np.array(transform(table), dtype=np.float64))
        _check(found, x, target, "its inputs are not a straight-line function of the features")
    return found


def _assemble(schema: Schema, seen: Probes, z: Tensor, pieces: Mapping[int, Pieces]) -> Preprocessing:
    """The map (1) that passes through the inputs z (r, p) of the probes."""
    p = z.shape[1]
    a, a0 = torch.zeros(p, schema.d, dtype=torch.float64), z[0].clone()
    bends: list[tuple[int, float, Tensor]] = []
    jumps: list[tuple[int, float, Tensor]] = []
    for j, (feature, s, rows) in enumerate(zip(schema.features, schema.slices, seen.rows, strict=True)):
        values = list(rows[:-1] if feature.missing else rows)
        if isinstance(feature, Passthrough):
            continue
        if isinstance(feature, Category):
            center = z[values].mean(0)
            a[:, s.start : s.start + len(values)] = (z[values] - center).T
            a0 += center - z[0]
            if feature.missing:
                a[:, s.stop - 1] = z[rows[-1]] - center
            continue
        at = seen.x[values, s.start]
        if isinstance(feature, Number):
            slopes = ((z[values[1]] - z[values[0]]) / (at[1] - at[0])).unsqueeze(0)
        else:
            slopes = (z[values[1:]] - z[values[:-1]]) / (at[1:] - at[:-1]).unsqueeze(1)
        at_zero = z[0] - slopes[0] * at[0]
        if (own := pieces.get(j)) is not None:
            slopes = torch.where(own.stepped, 0.0, slopes)
            at_zero = torch.where(own.stepped, own.at(0.0), at_zero)
            heights = torch.where(own.stepped, own.inputs.diff(dim=0), 0.0)
            jumps += [(s.start, float(cut), height) for cut, height in zip(own.cuts, heights, strict=True)]
            a0 += torch.where(own.stepped, own.inputs[0] - z[0], 0.0)
        a[:, s.start] = slopes[0]
        a0 -= slopes[0] * at[0]
        for k in range(1, len(slopes)):
            jump = slopes[k] - slopes[k - 1]
            if jump.abs().max() > 1e-9 * (1.0 + z.abs().max()):
                bends.append((s.start, float(at[k]), jump))
        if feature.missing:
            a[:, s.stop - 1] = z[rows[-1]] - at_zero
    return Preprocessing(a, a0, *_places(bends, p), *_places(jumps, p))


def _places(turns: list[tuple[int, float, Tensor]], p: int) -> tuple[Tensor, Tensor, Tensor]:
    """Turns (column, where, by how much) -> sizes (p, m), columns (m,) and places (m,)."""
    sizes = torch.stack([size for _, _, size in turns], 1) if turns else torch.zeros(p, 0, dtype=torch.float64)
    columns = torch.tensor([column for column, _, _ in turns], dtype=torch.long)
    return sizes, columns, torch.tensor([place for _, place, _ in turns], dtype=torch.float64)


def _check(found: Preprocessing, x: Tensor, z: Tensor, complaint: str) -> None:
    gap = (found(x) - z).abs()
    scale = 1.0 + torch.maximum(z.abs(), found.a.abs().sum(1) + found.a0.abs())
    if not bool((gap <= 1e-7 * scale).all()):
        i = int(torch.nan_to_num(gap / scale, nan=torch.inf).max(0).values.argmax())
        raise NotCompilable(f"{complaint} (input {i})")


def legal_position(feature: Number, value: float) -> float:
    """Position of the legal value nearest to a number."""
    step = feature.unit_step
    first, last = math.ceil(feature.low / step - GRID_NOISE), math.floor(feature.high / step + GRID_NOISE)
    if first > last:
        return (value - feature.low) / feature.span
    nearest = min(max(round(value / step), first), last)
    return float((feature.canonical(np.array(nearest * step)) - feature.low) / feature.span)
