"""Number: a quantity, what a plan may choose of it, and how it is written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import numpy as np
import pandas as pd
import torch

from turnabout.errors import SchemaError
from turnabout.schema.features import FINEST, GRID_NOISE, Scalar
from turnabout.schema.raw_cells import as_number, floats
from turnabout.schema.reach import Reach, as_reach
from turnabout.typing import Moves, is_number


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
        if as_number(cell) is None:
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
