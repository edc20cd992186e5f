"""Features with named levels: Ordinal and Binary in one encoded column, Category one-hot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from turnabout.documents.cells import is_single
from turnabout.errors import SchemaError
from turnabout.schema.features import Feature, Scalar
from turnabout.schema.raw_cells import floats
from turnabout.schema.reach import Reach, as_reach
from turnabout.typing import Level, Moves


@dataclass(frozen=True)
class Levels(Scalar):
    """A scalar with named levels, ordered from low to high."""

    name: str
    levels: tuple[Level, ...] = (0, 1)
    moves: Moves = "free"
    label: str = ""
    missing: bool = False

    def __post_init__(self) -> None:
        self._check_common()
        object.__setattr__(self, "levels", check_levels(self.name, self.levels))

    @property
    def bottom(self) -> float:
        return 0.0

    @property
    def span(self) -> float:
        return float(len(self.levels) - 1)

    @property
    def unit_step(self) -> float:
        return 1.0

    @property
    def places(self) -> int:
        return 0

    def _read_present(self, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        codes = raw_codes(self.levels, column)
        return (codes / self.span).reshape(-1, 1), codes < 0

    def _complaint(self, cell: object, row: object) -> SchemaError:
        return _no_level(self, self.levels, cell)

    def _decode_present(self, x: np.ndarray) -> np.ndarray:
        codes = np.clip(np.rint(x[:, 0] * self.span), 0, self.span).astype(np.int64)
        return level_array(self.levels)[codes]

    def breaches(self, own: pd.Series, new: pd.Series) -> np.ndarray:
        a, b = raw_codes(self.levels, own), raw_codes(self.levels, new)
        wrong_way = {"free": np.zeros(len(a), bool), "up": b < a, "down": b > a, "fixed": a != b}[self.moves]
        if self.reach is not None:
            wrong_way |= np.abs(b - a) > self.reach.room(1.0)[0]
        return (a != b) & (wrong_way | (a < 0) | (b < 0))


@dataclass(frozen=True)
class Ordinal(Levels):
    """Named levels in an order, lowest first; every step up counts the same.

    reach : how many levels a person can go: Reach(steps=1), or {"steps": 1}.
    """

    kind: ClassVar[str] = "ordinal"
    reach: Reach | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "reach", as_reach(self.name, self.reach))
        if self.reach is not None and set(self.reach.to_dict()) - {"steps"}:
            raise SchemaError(
                f"the levels of '{self.name}' are counted, and it has a reach {self.reach}.",
                hint="write reach={'steps': 1} for one level.",
            )


@dataclass(frozen=True)
class Binary(Levels):
    """Two levels: (0, 1), (False, True), ("no", "yes")."""

    kind: ClassVar[str] = "binary"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.levels) != 2:
            raise SchemaError(
                f"binary feature '{self.name}' has {len(self.levels)} levels.", hint="give two, or use a Category."
            )


@dataclass(frozen=True)
class Category(Feature):
    """Named levels without an order, encoded one-hot; any switch of level counts as one full change."""

    kind: ClassVar[str] = "category"
    name: str
    levels: tuple[Level, ...] = ()
    moves: Moves = "free"
    label: str = ""
    missing: bool = False

    def __post_init__(self) -> None:
        self._check_common()
        object.__setattr__(self, "levels", check_levels(self.name, self.levels))
        if self.moves in ("up", "down"):
            raise SchemaError(
                f"category '{self.name}' has moves={self.moves!r}, but its levels have no order.",
                hint="use Ordinal(name, levels=...) with the levels from low to high, or moves='free' or 'fixed'.",
            )

    @property
    def value_columns(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={level}" for level in self.levels)

    def _read_present(self, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        codes = raw_codes(self.levels, column)
        hot = np.zeros((len(column), len(self.levels)))
        hot[np.arange(len(column)), codes] = 1.0  # a code below 0 hits a place that is wiped
        return hot, codes < 0

    def _complaint(self, cell: object, row: object) -> SchemaError:
        return _no_level(self, self.levels, cell)

    def _decode_present(self, x: np.ndarray) -> np.ndarray:
        return level_array(self.levels)[x[:, : len(self.levels)].argmax(1)]

    def breaches(self, own: pd.Series, new: pd.Series) -> np.ndarray:
        a, b = raw_codes(self.levels, own), raw_codes(self.levels, new)
        return (a != b) & ((a < 0) | (b < 0) | (self.moves == "fixed"))


def check_levels(name: str, levels: object) -> tuple[Level, ...]:
    """Levels as a tuple of plain values, at least two and all different."""
    if isinstance(levels, str) or not hasattr(levels, "__iter__"):
        raise SchemaError(f"feature '{name}' has levels={levels!r}.", hint="give a list of levels.")
    plain = tuple(level.item() if isinstance(level, np.generic) else level for level in levels)
    for level in plain:
        if not isinstance(level, (str, int, float, bool)) or (isinstance(level, float) and not math.isfinite(level)):
            raise SchemaError(
                f"feature '{name}' has the level {level!r}.",
                hint="levels are strings, numbers or booleans; for missing values set missing=True.",
            )
    if len(plain) < 2:
        raise SchemaError(f"feature '{name}' has {len(plain)} level(s).", hint="give at least two levels.")
    if len(set(plain)) < len(plain):
        twice = next(level for i, level in enumerate(plain) if level in plain[:i])
        raise SchemaError(f"feature '{name}' lists the level {twice!r} twice.", hint="levels must differ.")
    if "" in plain:
        raise SchemaError(
            f"feature '{name}' has the empty text as a level, which files read back as missing.",
            hint="give it a word, such as 'none', in the table and for the model too; or set missing=True.",
        )
    texts = [str(level) for level in plain]
    if len(set(texts)) < len(texts):
        i, text = next((i, text) for i, text in enumerate(texts) if text in texts[:i])
        raise SchemaError(
            f"feature '{name}' has the levels {plain[texts.index(text)]!r} and {plain[i]!r}, which read the same.",
            hint="nobody could tell them apart in a letter or a file; give one of them another name.",
        )
    return plain


def raw_codes(levels: tuple[Level, ...], column: pd.Series) -> np.ndarray:
    """Position of each cell among the levels; -1 for a missing cell, -2 for an unknown one."""
    index = pd.Index(list(levels), dtype=object)
    if is_single(column.dtype):
        column = pd.Series(floats(column), index=column.index)
    try:  # look up each different cell once
        if isinstance(column.dtype, pd.CategoricalDtype):
            place, cells = column.cat.codes.to_numpy(), column.cat.categories
        else:
            place, cells = pd.factorize(column)
        known = index.get_indexer(pd.Index(cells, dtype=object))
    except TypeError:  # a list or another thing that is no cell
        return np.array([levels.index(c) if _is_level(c) and c in levels else -2 for c in column])
    # True and 1 are equal in Python, so a boolean column may be read through levels (0, 1): that is wanted
    return np.append(np.where(known < 0, -2, known), -1)[place]


def _no_level(feature: Feature, levels: tuple[Level, ...], cell: object) -> SchemaError:
    shown = list(levels) if len(levels) <= 12 else [*levels[:12], "..."]
    return SchemaError(
        f"column '{feature.name}' holds {cell!r}, which is not one of its levels {shown}.",
        hint=f"add it to {type(feature).__name__}({feature.name!r}, levels=...) or clean the column.",
    )


def level_array(levels: tuple[Level, ...]) -> np.ndarray:
    """Levels as an array that indexes into plain values of their own type."""
    if all(isinstance(v, bool) for v in levels):
        return np.array(levels, dtype=bool)
    if all(isinstance(v, int) and not isinstance(v, bool) and -(2**63) <= v < 2**63 for v in levels):
        return np.array(levels, dtype=np.int64)
    out = np.empty(len(levels), dtype=object)
    out[:] = levels
    return out


def _is_level(cell: object) -> bool:
    return isinstance(cell, (str, int, float, bool, np.generic))
