"""Columns that are computed from others: declared with a formula, filled in wherever a row is proposed.

Derived("ltv", "loan / value")          in Python
- {kind: derived, name: ltv, formula: loan / value}          in a file of a schema; moves: down where it may only fall
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from turnabout.errors import SchemaError
from turnabout.schema.features import GRID_NOISE, Feature, Scalar
from turnabout.schema.formula import Formula
from turnabout.schema.levels import Category, Levels, raw_codes
from turnabout.schema.number import Number
from turnabout.schema.projection import SAME
from turnabout.schema.put import put
from turnabout.schema.raw_cells import floats
from turnabout.typing import Json, Moves, Tensor


@dataclass(frozen=True, init=False)
class Derived(Number):
    """A number that follows from other columns, exactly: a ratio, a sum, the same amount in another unit.

        new value = formula(new row), rounded as the column is written                                          (1)

    Nobody chooses it and no plan advises it: whatever changes, it is computed anew before the model sees the row, and
    it costs nothing. Where nothing that it follows from changes, or where one of these is missing, the person's own
    value stays.

    Parameters
    ----------
    formula : over other columns, in their units: "loan / value", "30 * Term", "income - `fixed costs`". Levels count
        as the numbers they are, or else from 0 in their order.
    low, high : ordinary values, for the encoding; (1) may leave them.
    step, decimals : how it is written, as of `Number`.
    moves : "up" or "down" where no change may make it go the other way: a share of debt that must not rise. It is kept
        as `direction`; nobody moves the column itself, so that `moves` is "fixed" like that of all that is not chosen.
    """

    kind: ClassVar[str] = "derived"
    formula: str = ""
    direction: Moves = "free"

    def __init__(
        self,
        name: str,
        formula: str,
        low: float = 0.0,
        high: float = 1.0,
        step: float | None = None,
        unit: str = "",
        label: str = "",
        missing: bool = False,
        decimals: int | None = None,
        moves: Moves = "fixed",
    ):
        given = {"name": name, "formula": formula, "low": low, "high": high, "step": step, "unit": unit}
        given |= {"label": label, "missing": missing, "decimals": decimals}
        directed = moves in ("up", "down")
        given |= {"moves": "fixed" if directed else moves, "direction": moves if directed else "free"}
        for field, value in (
            given | {"useful_step": None, "least_change": None, "reach": None, "provide": False}
        ).items():
            object.__setattr__(self, field, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.moves != "fixed":
            raise SchemaError(
                f"'{self.name}' is derived and has moves={self.moves!r}.",
                hint="nobody chooses what follows from other columns: leave it out, or write moves='up' or 'down' for "
                "the way that it may go.",
            )
        if isinstance(self.formula, Formula):
            object.__setattr__(self, "formula", self.formula.text)
        if self.name in self.read_formula.parents:
            raise SchemaError(f"'{self.name}' is derived from itself: {self.formula}.", hint="name other columns.")

    def to_dict(self) -> Json:
        out = super().to_dict()
        return out if out.pop("direction", None) is None else out | {"moves": self.direction}

    @cached_property
    def read_formula(self) -> Formula:
        """The formula as a tree."""
        return Formula(self.formula)

    def cells(self, values: np.ndarray) -> np.ndarray:
        """Values as they are written into a table."""
        return values.astype(np.int64) if self.places <= 0 and (np.abs(values) < 2**53).all() else values

    def written(self, value: Tensor) -> Tensor:
        """Values in units as they are written."""
        scale = self.decimal_scale
        return torch.round(torch.round(value / self.unit_step) * self.unit_step * scale) / scale


def in_order(features: Sequence[Feature]) -> tuple[Derived, ...]:
    """The derived features, what others follow from first; refuses circles and columns that are not there."""
    derived = {f.name: f for f in features if isinstance(f, Derived)}
    names = {f.name for f in features}
    for f in derived.values():
        if absent := [p for p in f.read_formula.parents if p not in names]:
            raise SchemaError(
                f"'{f.name}' is derived from '{absent[0]}', and the schema has no such column.",
                hint=f"it has {', '.join(names)}; names with spaces stand in `backticks`.",
            )
    out: list[Derived] = []
    left = list(derived.values())
    while left:
        ready = [f for f in left if not any(p in {g.name for g in left} for p in f.read_formula.parents)]
        if not ready:
            circle = ", ".join(f"'{f.name}'" for f in left)
            raise SchemaError(f"{circle} are derived from each other in a circle.", hint="break it: one is a Number.")
        out += ready
        left = [f for f in left if f not in ready]
    return tuple(out)


class Identities:
    """The derived columns of a schema, over encoded rows and over printed ones."""

    def __init__(self, features: Sequence[Feature], slices: Sequence[slice]):
        self.derived = in_order(features)
        self.place = {f.name: (f, s) for f, s in zip(features, slices, strict=True)}

    @cached_property
    def columns(self) -> Tensor:
        """Encoded columns that are computed."""
        return torch.tensor([self.place[f.name][1].start for f in self.derived], dtype=torch.long)

    def roots(self, f: Derived) -> set[str]:
        """The columns that a derived one follows from in the end: none of them is derived."""
        parents = ((name, self.place[name][0]) for name in f.read_formula.parents)
        return set().union(*(self.roots(p) if isinstance(p, Derived) else {name} for name, p in parents))

    def chosen(self, x: Tensor, x_new: Tensor) -> Tensor:
        """x_new (..., d) with what is derived as x has it: the changes that people make themselves."""
        if not self.derived:
            return x_new
        follows = torch.zeros(x_new.shape[-1], dtype=torch.bool, device=x_new.device)
        follows[self.columns.to(x_new.device)] = True
        return torch.where(follows, x, x_new)

    # -- encoded rows -----------------------------------------------------------------------------------------

    def fill(self, x: Tensor) -> Tensor:
        """(..., d) -> the same rows with everything derived in its place, as it would be printed.

        Differentiable in what it follows from; rounding does not count in the slope.
        """
        if not self.derived:
            return x
        new = list(x.unbind(-1))
        for f in self.derived:
            start = self.place[f.name][1].start
            values, missing = _Encoded(new, self.place), torch.zeros_like(new[0], dtype=torch.bool)
            value = f.read_formula.compute(values)
            rounded = value + (f.written(value) - value).detach()
            for name in (f.name, *f.read_formula.parents):
                feature, s = self.place[name]
                if feature.missing:
                    missing = missing | (new[s.stop - 1] > 0.5)
            new[start] = torch.where(missing, new[start], f.positions(rounded))
        return torch.stack(new, -1)

    def follow(self, x: Tensor, x_new: Tensor) -> Tensor:
        """x_new (..., d) as people x would have it printed: filled, but own cells stay where nothing changes behind."""
        if not self.derived:
            return x_new
        new = self.fill(x_new)
        for f in self.derived:
            start, behind = self.place[f.name][1].start, torch.zeros_like(new[..., 0], dtype=torch.bool)
            for name in self.roots(f):
                s = self.place[name][1]
                behind = behind | ((x_new[..., s] - x[..., s]).abs() > SAME).any(-1)
            new[..., start] = torch.where(behind, new[..., start], x[..., start])
        return new

    # -- printed rows -----------------------------------------------------------------------------------------

    def write(self, own: pd.DataFrame, rows: pd.DataFrame, changed: np.ndarray) -> pd.DataFrame:
        """Rows as printed, changed (n, F) in the schema's order: derived cells computed from the printed ones."""
        if not self.derived:
            return rows
        columns = {str(name): rows[name] for name in rows.columns}
        moved = dict(zip(self.place, changed.T, strict=True))
        for f in self.derived:
            expected, known = self._expected(f, columns)
            follows = known & np.logical_or.reduce([moved[name] for name in f.read_formula.parents])
            was = floats(own[f.name])
            follows &= ~(np.abs(expected - was) <= GRID_NOISE * f.unit_step)
            moved[f.name] = follows
            column = own[f.name]
            columns[f.name] = put(column, follows, f.cells(expected[follows])) if follows.any() else column
        return pd.DataFrame(columns, index=rows.index)

    def supply(self, own: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows in which people provide missing cells of their own: what follows from these is computed too."""
        columns = {str(name): rows[name] for name in rows.columns}
        there = {str(name): own[name].isna().to_numpy() & rows[name].notna().to_numpy() for name in rows.columns}
        for f in self.derived:
            parents = f.read_formula.parents
            known = np.logical_and.reduce([columns[name].notna().to_numpy() for name in parents])
            follows = known & np.logical_or.reduce([there[name] for name in parents])
            if follows.any():
                value, _ = self._expected(f, columns)
                columns[f.name] = put(columns[f.name], follows, f.cells(value[follows]))
                there[f.name] = follows
        return pd.DataFrame(columns, index=rows.index)

    def breaches(self, f: Derived, own: pd.DataFrame, rows: pd.DataFrame) -> np.ndarray:
        """(n,) True where a printed cell is not what follows from the printed row, or goes against its direction."""
        expected, known = self._expected(f, {str(name): rows[name] for name in rows.columns})
        parents = list(f.read_formula.parents)
        moved = np.zeros(len(own), dtype=bool)
        for name in parents:
            feature, _ = self.place[name]
            moved |= _cells_differ(feature, own[name], rows[name])
        was, now = floats(own[f.name]), floats(rows[f.name])
        same = (was == now) | (np.isnan(was) & np.isnan(now))
        right = np.abs(now - expected) <= GRID_NOISE * f.unit_step
        rise = np.zeros(len(was)) if f.direction == "free" else (now - was) * (1 if f.direction == "down" else -1)
        right &= ~(rise > GRID_NOISE * f.unit_step)
        return np.where(moved & known, ~right, ~same)

    def _expected(self, f: Derived, columns: Mapping[str, pd.Series]) -> tuple[np.ndarray, np.ndarray]:
        """What follows from printed cells, (n,), and where all of them are there."""
        cells = _Printed(columns, self.place)
        value = f.written(f.read_formula.compute(cells)).numpy()
        gone = np.zeros(len(value), dtype=bool)
        for name in (f.name, *f.read_formula.parents):
            gone |= columns[name].isna().to_numpy(dtype=bool)
        return value, ~gone

    def holds(self, table: pd.DataFrame, f: Derived) -> np.ndarray:
        """(n,) bool or NaN where a cell is missing: whether the rows of a table keep the identity."""
        value, known = self._expected(f, {str(name): table[name] for name in table.columns})
        near = np.abs(value - floats(table[f.name])) <= (0.5 + 1e-6) * f.unit_step
        return np.where(known, near, np.nan)


class _Encoded(Mapping[str, Tensor]):
    """Columns in units, and levels as 0 or 1, of encoded columns."""

    def __init__(self, columns: Sequence[Tensor], place: Mapping[str, tuple[Feature, slice]]):
        self.columns, self.place = columns, place

    def __getitem__(self, name: str) -> Tensor:
        if name in self.place:
            feature, s = self.place[name]
            if isinstance(feature, Levels):
                return _number_of(feature, feature.units(self.columns[s.start]))
            if isinstance(feature, Scalar):
                return feature.units(self.columns[s.start])
            raise _no_number(feature)
        feature, s, k = _level(name, self.place)
        if isinstance(feature, Category):
            return self.columns[s.start + k]
        assert isinstance(feature, Levels)
        return (feature.units(self.columns[s.start]).round() == k).to(torch.float64)

    def __iter__(self) -> Any:
        return iter(self.place)

    def __len__(self) -> int:
        return len(self.place)


class _Printed(_Encoded):
    """The same of printed columns."""

    def __init__(self, columns: Mapping[str, pd.Series], place: Mapping[str, tuple[Feature, slice]]):
        self.cells, self.place = columns, place

    def __getitem__(self, name: str) -> Tensor:
        if name in self.place:
            feature, _ = self.place[name]
            if isinstance(feature, Levels):
                return _number_of(feature, torch.from_numpy(_codes(feature, self.cells[name])))
            if isinstance(feature, Number):
                return torch.tensor(floats(self.cells[name]))
            raise _no_number(feature)
        feature, _, k = _level(name, self.place)
        return torch.from_numpy((_codes(feature, self.cells[feature.name]) == k).astype(np.float64))


def _codes(feature: Feature, column: pd.Series) -> np.ndarray:
    codes = raw_codes(feature.levels, column).astype(np.float64)  # type: ignore[attr-defined]
    return np.where(codes < 0, np.nan, codes)


def _number_of(feature: Levels, position: Tensor) -> Tensor:
    """Levels that are numbers as these, others by their position."""
    if not all(isinstance(level, (int, float)) for level in feature.levels):
        return position
    values = torch.tensor([float(level) for level in feature.levels], dtype=torch.float64)
    steps = values.diff()
    if bool((steps == steps[0]).all()):
        return values[0] + position * steps[0]
    place = torch.nan_to_num(position).round().long().clamp(0, len(values) - 1)
    return torch.where(position.isnan(), torch.nan, values.to(position.device)[place])


def _level(key: str, place: Mapping[str, tuple[Feature, slice]]) -> tuple[Feature, slice, int]:
    """The feature and the position of "feature=level"."""
    for name, (feature, s) in place.items():
        levels = [str(level) for level in getattr(feature, "levels", ())]
        if key.startswith(f"{name}=") and (level := key[len(name) + 1 :]) in levels:
            return feature, s, levels.index(level)
    raise SchemaError(f"a formula asks for '{key}', and there is no such level.", hint="compare with the schema.")


def _no_number(feature: Feature) -> SchemaError:
    return SchemaError(
        f"a formula takes '{feature.name}' for a number, and it is a {feature.kind}.",
        hint=f'compare it with a level: {feature.name} == "...".',
    )


def _cells_differ(feature: Feature, own: pd.Series, new: pd.Series) -> np.ndarray:
    if isinstance(feature, Number):
        a, b = floats(own), floats(new)
        return ~((a == b) | (np.isnan(a) & np.isnan(b)))
    a, b = own.to_numpy(dtype=object), new.to_numpy(dtype=object)
    return np.array([not (p is q or p == q) for p, q in zip(a, b, strict=True)], dtype=bool)
