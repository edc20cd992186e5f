"""The kinds of column: what values each has, and how they read and write.

Two families cover the four kinds. A *scalar* (Number, Ordinal, Binary) is one encoded column on a grid of
legal values; a Category is a group of one-hot columns. A feature that declares missing values has one more
column, the indicator: a missing cell stays missing in every plan, and no plan creates one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import ClassVar, Self, get_args

import numpy as np
import pandas as pd
import torch

from turnabout.documents.cells import is_single
from turnabout.errors import SchemaError
from turnabout.schema.reach import Reach, as_reach
from turnabout.typing import Json, Moves, Tensor, is_number

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

    def near(self) -> Self:
        """This feature as far as people usually go; itself where nothing is said of that."""
        reach: Reach | None = getattr(self, "reach", None)
        if reach is None or reach.usual == 1:
            return self
        return replace(self, reach=reach.near())  # type: ignore[type-var]

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


@dataclass(frozen=True)
class Number(Scalar):
    """A quantity, continuous or on a grid of multiples of `step`.

    Even a continuous number is written with a fixed count of decimal places (`decimals`; when None, enough for
    a millionth of the range), so that what a person reads is exactly what the model is asked.

    Parameters
    ----------
    low, high : the values a plan may use. A person's own value may lie outside; a changed one may not.
    step : distance between legal values (1 for whole numbers); None for a continuous quantity.
    unit : what is counted, for letters: "DM", "months".
    moves : "free", "up" (may only rise), "down" (may only fall) or "fixed".
    missing : whether a missing value is legitimate.
    useful_step : new values are multiples of this, as people say amounts (500 for an income, 0.01 for a ratio); a
        multiple of `step`. A person's own value stays as it is.
    least_change : the smallest change worth making, in units.
    reach : how far a person can go from their own value; a Reach, or its fields: {"relative": 0.2}.
    provide : whether a missing cell can be provided ("send us your payslip"): plans then say between which values it
        must lie.
    """

    kind: ClassVar[str] = "number"
    name: str
    low: float = 0.0
    high: float = 1.0
    step: float | None = None
    unit: str = ""
    moves: Moves = "free"
    label: str = ""
    missing: bool = False
    decimals: int | None = None
    useful_step: float | None = None
    least_change: float | None = None
    reach: Reach | None = None
    provide: bool = False

    def __post_init__(self) -> None:
        self._check_common()
        if not isinstance(self.provide, bool) or (self.provide and not self.missing):
            raise SchemaError(
                f"feature '{self.name}' has provide={self.provide!r} and missing={self.missing!r}.",
                hint="provide=True goes with missing=True: a missing cell can be provided.",
            )
        for what in ("low", "high"):
            value = getattr(self, what)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not math.isfinite(value):
                raise SchemaError(
                    f"feature '{self.name}' has {what}={value!r}, which is not a finite number.",
                    hint="give the lowest and highest value a plan may use.",
                )
            object.__setattr__(self, what, float(value))
        if self.low > self.high or (self.low == self.high and self.moves != "fixed"):
            raise SchemaError(
                f"feature '{self.name}' has low={self.low:g} and high={self.high:g}: no value lies between them.",
                hint="low must be below high (or equal, with moves='fixed').",
            )
        if self.decimals is not None and (
            isinstance(self.decimals, bool) or not isinstance(self.decimals, int) or not 0 <= self.decimals <= 15
        ):
            raise SchemaError(f"feature '{self.name}' has decimals={self.decimals!r}.", hint="use 0 to 15, or None.")
        if self.step is not None:
            number = isinstance(self.step, (int, float, np.number)) and not isinstance(self.step, bool)
            if not (number and math.isfinite(self.step) and self.step > 0):
                raise SchemaError(
                    f"feature '{self.name}' has step={self.step!r}.", hint="use a positive number or None."
                )
            object.__setattr__(self, "step", float(self.step))
            if self.decimals is not None and round(self.step, self.decimals) != self.step:
                raise SchemaError(
                    f"feature '{self.name}': a step of {self.step:g} cannot be written with {self.decimals} decimals.",
                    hint="leave decimals out, or give more of them.",
                )
        if not math.isfinite(self.high - self.low) or self.unit_step < FINEST * self.span:
            raise SchemaError(
                f"feature '{self.name}': its steps are too fine for the range from {self.low:g} to {self.high:g}.",
                hint="narrow the bounds to what a plan may really use, or take a larger step.",
            )
        if self.step is not None:
            first, last = math.ceil(self.low / self.step - GRID_NOISE), math.floor(self.high / self.step + GRID_NOISE)
            if first > last and self.moves != "fixed":
                raise SchemaError(
                    f"feature '{self.name}': no multiple of step={self.step:g} lies in [{self.low:g}, {self.high:g}].",
                    hint="legal values are multiples of step; make the step smaller or the bounds wider.",
                )
        self._check_choices()

    def _check_choices(self) -> None:
        """What a plan may choose: useful steps that can be written, some of which lie within bounds and reach."""
        for what in ("useful_step", "least_change"):
            value = getattr(self, what)
            if value is None:
                continue
            if not is_number(value) or value <= 0:
                raise SchemaError(
                    f"feature '{self.name}' has {what}={value!r}.", hint="use a positive number in its units, or None."
                )
            object.__setattr__(self, what, float(value))
        object.__setattr__(self, "reach", as_reach(self.name, self.reach))
        if self.useful_step is not None:
            multiple = self.useful_step / self.unit_step
            if abs(multiple - round(multiple)) > GRID_NOISE * max(1.0, multiple) or round(multiple) < 1:
                raise SchemaError(
                    f"feature '{self.name}' has useful_step={self.useful_step:g}, which is no multiple of "
                    f"{self.unit_step:g}, the distance between its values.",
                    hint="a useful step takes every second, fifth or tenth legal value, say.",
                )
        low, high = self.choice_ends
        step = self.choice_step
        if self.moves != "fixed" and math.ceil(low / step - GRID_NOISE) > math.floor(high / step + GRID_NOISE):
            limits = "" if self.reach is None else f", with a reach of {self.reach}"
            raise SchemaError(
                f"feature '{self.name}': no multiple of {step:g} lies in [{self.low:g}, {self.high:g}]{limits}: "
                "there is no value that a plan may choose.",
                hint="make useful_step smaller, the reach wider, or the feature fixed.",
            )

    @property
    def bottom(self) -> float:
        return self.low

    @property
    def span(self) -> float:
        return self.high - self.low if self.high > self.low else 1.0

    @property
    def unit_step(self) -> float:
        return self.step if self.step is not None else 10.0**-self.places

    @property
    def choice_step(self) -> float:
        return self.useful_step if self.useful_step is not None else self.unit_step

    @property
    def least(self) -> float:
        return self.least_change or 0.0

    @property
    def places(self) -> int:
        if self.decimals is not None:
            return self.decimals
        if self.step is not None:
            exponent = Decimal(repr(self.step)).normalize().as_tuple().exponent
            return min(15, max(0, -int(exponent)))
        magnitude = math.floor(math.log10(self.span))
        finest = math.floor(-math.log10(64 * math.ulp(max(abs(self.low), abs(self.high), self.span))))
        return min(15, finest, max(6 - magnitude, min(0, 10 - magnitude)))

    def _read_present(self, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        v = floats(column)
        wrong = ~np.isfinite(v)
        return ((v - self.low) / self.span).reshape(-1, 1), wrong

    def _complaint(self, cell: object, row: object) -> SchemaError:
        if _as_float(cell) is None:
            return SchemaError(
                f"column '{self.name}' holds {cell!r}, which is not a number.",
                hint="clean the column, or declare it as a Category with its levels.",
            )
        return SchemaError(
            f"column '{self.name}' holds an infinite value in row {row!r}.",
            hint=f"numbers of this feature lie between {self.low:g} and {self.high:g}.",
        )

    def _decode_present(self, x: np.ndarray) -> np.ndarray:
        v = self.low + x[:, 0] * self.span
        step = self.unit_step
        on_grid = np.rint(v / step)
        near = np.abs(v / step - on_grid) < GRID_NOISE
        v = np.where(near, self.canonical(on_grid * step), np.round(v, min(max(self.places, 0) + 6, 16)))
        if self.step is not None and self.places == 0 and near.all() and (np.abs(v) < 2**53).all():
            return v.astype(np.int64)
        return v

    def breaches(self, own: pd.Series, new: pd.Series, derived: bool = False) -> np.ndarray:
        """As of every feature; a value that is derived from others may leave the bounds, which limit choices."""
        a, b = floats(own), floats(new)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        step = self.unit_step if derived else self.choice_step
        off_grid = b != self.canonical(np.rint(b / step) * step)
        slack = GRID_NOISE * step  # bounds may carry the dust of 0.7 + 0.1
        with np.errstate(invalid="ignore"):
            bad = np.isnan(a) | np.isnan(b) | off_grid
            if not derived:
                low, high = (end.numpy() for end in self.choice_bounds(torch.from_numpy(a.astype(np.float64))))
                bad |= (b < low - slack) | (b > high + slack) | (np.abs(b - a) < self.least - slack)
            bad |= {"free": np.zeros(len(a), bool), "up": b < a, "down": b > a, "fixed": ~same}[self.moves]
        return bad & ~same


def floats(column: pd.Series) -> np.ndarray:
    """A column as float64, NaN where a cell is missing or no number; texts are no numbers.

    Numbers in single precision are read as the short decimals that they print as: 0.1, not 0.10000000149.
    """
    dtype = column.dtype
    if dtype.kind in "biuf":
        if is_single(dtype):
            narrow = column.to_numpy(dtype=np.float32, na_value=np.nan)
            return narrow.astype("U32").astype(np.float64)
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    if dtype.kind != "O":  # dates, durations and complex numbers
        return np.full(len(column), np.nan)
    return np.array([np.nan if (v := _as_float(cell)) is None else v for cell in column], dtype=np.float64)


def cells_of(column: pd.Series) -> pd.Series:
    """The cells of a column as objects; numbers in single precision are the short decimals that they print as."""
    if is_single(column.dtype):
        short, absent = floats(column).astype(object), column.isna().to_numpy(dtype=bool)
        short[absent] = column.array[absent]
        return pd.Series(short, index=column.index, name=column.name, dtype=object)
    return column.astype(object)


def same_cells(own: pd.Series, new: pd.Series) -> np.ndarray:
    """(n,) True where two columns hold the same cell: equal, or both missing."""
    a, b = own.to_numpy(dtype=object), new.to_numpy(dtype=object)
    return np.array([p is q or (is_missing(p) and is_missing(q)) or _equal(p, q) for p, q in zip(a, b)], dtype=bool)


def _equal(a: object, b: object) -> bool:
    try:
        return bool(a == b)
    except (TypeError, ValueError):  # lists, arrays and other things that are no cells
        return False


def is_missing(cell: object) -> bool:
    """Whether a cell is one of the marks of a missing value: None, NaN, NaT, <NA>."""
    return bool(pd.api.types.is_scalar(cell) and pd.isna(cell))  # type: ignore[call-overload]


def _as_float(cell: object) -> float | None:
    """A number as a float; None for what is no number, a text with digits and a missing cell among it."""
    if isinstance(cell, float):
        return cell
    if isinstance(cell, (str, bytes)) or is_missing(cell) or not hasattr(cell, "__float__"):
        return None
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
