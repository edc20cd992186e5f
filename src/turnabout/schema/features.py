"""The kinds of column: what values each has, and how they read and write.

Two families cover the four kinds. A *scalar* (Number, Ordinal, Binary) is one encoded column on a grid of
legal values; a Category is a group of one-hot columns. A feature that declares missing values has one more
column, the indicator: a missing cell stays missing in every plan, and no plan creates one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import fields, replace
from typing import ClassVar, Self, get_args

import numpy as np
import pandas as pd
import torch

from turnabout.errors import SchemaError
from turnabout.schema.raw_cells import is_missing
from turnabout.schema.reach import Reach
from turnabout.typing import Json, Moves, Tensor

FINEST = 1e-11  # least grid step, as a share of the range: well above floating-point noise
CHOICES = ("useful_step", "least_change", "reach")  # fields that say what a plan may choose of the legal values
GRID_NOISE = 1e-6  # share of a grid step within which a number counts as lying on the grid


class Feature(ABC):
    """One column of the table: its values, and which way each may move."""

    kind: ClassVar[str]
    name: str
    moves: Moves
    label: str
    missing: bool

    @property
    def title(self) -> str:
        """The display name."""
        return self.label or self.name

    @property
    @abstractmethod
    def value_columns(self) -> tuple[str, ...]:
        """Names of the encoded columns, without the missing indicator."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all encoded columns."""
        return self.value_columns + ((f"{self.name}=missing",) if self.missing else ())

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return len(self.columns)

    def to_dict(self) -> Json:
        """Kind and every field that differs from its default."""
        out: Json = {"kind": self.kind}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name == "name" or repr(value) != repr(field.default):  # (False, True) equals (0, 1)
                out[field.name] = _plain(value)
        return out

    def plain(self) -> Self:
        """This feature with all its legal values to choose from."""
        given = {name for name in CHOICES if getattr(self, name, None) is not None}
        return replace(self, **dict.fromkeys(given)) if given else self  # type: ignore[type-var]

    @property
    def turns(self) -> int:
        """In how many turns options are looked for before all of its reach is."""
        reach: Reach | None = getattr(self, "reach", None)
        return 0 if reach is None else len(reach.shares)

    def near(self, turn: int) -> Self:
        """This feature as far as people go in a turn; itself where nothing is said of that."""
        reach: Reach | None = getattr(self, "reach", None)
        if reach is None or not reach.shares:
            return self
        return replace(self, reach=reach.near(turn))  # type: ignore[type-var]

    def encoding(self) -> Json:
        """What reading and writing it depends on."""
        return {
            key: value
            for key, value in self.to_dict().items()
            if key not in (*CHOICES, "provide", "moves", "label", "unit")
        }

    def encode(self, column: pd.Series) -> np.ndarray:
        """Column of a table -> (n, width) float64; refuses what is not a value of this feature."""
        out, unreadable = self.read(column)
        if unreadable.any():
            raise self.complaint(column, int(unreadable.argmax()))
        return out

    def read(self, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        """Column of a table -> (n, width) float64, and (n,) True for cells that are no value of this feature.

        Such a cell is encoded as zeros.
        """
        absent = column.isna().to_numpy(dtype=bool)
        out, unreadable = np.zeros((len(column), self.width)), np.zeros(len(column), dtype=bool)
        values, wrong = self._read_present(column[~absent] if absent.any() else column)
        values[wrong] = 0.0
        out[~absent, : values.shape[1]] = values
        unreadable[~absent] = wrong
        if self.missing:
            out[:, -1] = absent
        else:
            unreadable |= absent
        return out, unreadable

    def complaint(self, column: pd.Series, row: int) -> SchemaError:
        """What is wrong with the cell in this row, one that `read` could not read."""
        cell = column.iloc[row]
        if is_missing(cell):
            return SchemaError(
                f"column '{self.name}' has a missing value in row {column.index[row]!r}, "
                "and the feature does not declare missing values.",
                hint=f"set missing=True on {type(self).__name__}({self.name!r}, ...) or fill the cell before encoding.",
            )
        return self._complaint(cell, column.index[row])

    @abstractmethod
    def _read_present(self, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        """Present cells (m,) -> their value columns (m, w), anything where a cell is no value, and (m,) where."""

    @abstractmethod
    def _complaint(self, cell: object, row: object) -> SchemaError:
        """What is wrong with a present cell."""

    def decode(self, x: np.ndarray) -> np.ndarray:
        """(n, width) -> n values in the person's units, the nearest ones there are."""
        values = self._decode_present(x)
        if self.missing and (absent := x[:, -1] > 0.5).any():
            values = values.astype(float if values.dtype.kind in "iuf" else object)
            values[absent] = np.nan
        return values

    @abstractmethod
    def _decode_present(self, x: np.ndarray) -> np.ndarray:
        """Decode as if no cell were missing."""

    @abstractmethod
    def breaches(self, own: pd.Series, new: pd.Series) -> np.ndarray:
        """True where a changed cell breaks a constraint; judged on raw values, without the encoding."""

    def _check_common(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError(
                f"a feature's name must be a non-empty string, not {self.name!r}.", hint="name the column of the table."
            )
        for field in fields(self):  # type: ignore[arg-type]
            if isinstance(value := getattr(self, field.name), np.str_):
                object.__setattr__(self, field.name, str(value))  # files know plain strings only
        if not isinstance(self.label, str) or not isinstance(self.missing, bool):
            raise SchemaError(
                f"feature '{self.name}' has label={self.label!r} and missing={self.missing!r}.",
                hint="label is a text, missing is true or false.",
            )
        if not isinstance(self.moves, str) or self.moves not in get_args(Moves):
            raise SchemaError(
                f"feature '{self.name}' has moves={self.moves!r}.", hint=f"use one of {', '.join(get_args(Moves))}."
            )


def _plain(value: object) -> object:
    """A field of a feature as files hold it."""
    if isinstance(value, Reach):
        return value.to_dict()
    return list(value) if isinstance(value, tuple) else value


class Scalar(Feature):
    """A feature in one encoded column: position 0 at its lowest value, 1 at its highest."""

    @property
    def value_columns(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    @abstractmethod
    def bottom(self) -> float:
        """Lowest legal position, in units."""

    @property
    @abstractmethod
    def span(self) -> float:
        """Units between position 0 and 1; positive."""

    @property
    @abstractmethod
    def unit_step(self) -> float:
        """Distance between neighbouring legal values, in units."""

    @property
    @abstractmethod
    def places(self) -> int:
        """Decimal places with which a value is written."""

    @property
    def choice_step(self) -> float:
        """Distance between neighbouring values that a plan may choose, in units: the values people use."""
        return self.unit_step

    @property
    def least(self) -> float:
        """The smallest change that a plan may ask for, in units; 0 where the step alone says so."""
        return 0.0

    @property
    def reach(self) -> Reach | None:
        """How far a person can go from their own value; None for anywhere within the bounds."""
        return None

    @property
    def choice_ends(self) -> tuple[float, float]:
        """Lowest and highest value that a plan may choose for anybody, in units."""
        low, high = self.bottom, self.bottom + self.span
        if (reach := self.reach) is not None:
            low = low if reach.low is None else max(low, reach.low)
            high = high if reach.high is None else min(high, reach.high)
        return low, high

    def choice_bounds(self, own: Tensor) -> tuple[Tensor, Tensor]:
        """Own values in units -> lowest and highest value that a plan may choose for these people."""
        low, high = (torch.full_like(own, end) for end in self.choice_ends)
        if self.reach is not None:
            by, share = self.reach.room(self.unit_step)
            room = torch.full_like(own, by) if math.isinf(share) else (share * own.abs()).clamp(max=by)
            low, high = torch.maximum(low, own - room), torch.minimum(high, own + room)
        return low, high

    @property
    def decimal_scale(self) -> float:
        """Power of ten by which a legal value becomes a whole number."""
        return 10.0 ** max(0, self.places)

    def canonical(self, v: np.ndarray) -> np.ndarray:
        """The doubles that a person's short decimals read back as."""
        return np.rint(v * self.decimal_scale) / self.decimal_scale

    def units(self, x: Tensor) -> Tensor:
        """Encoded value column -> units."""
        return self.bottom + x * self.span

    def positions(self, v: Tensor) -> Tensor:
        """Units -> encoded; the same floating-point formula as encode."""
        return (v - self.bottom) / self.span
