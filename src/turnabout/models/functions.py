"""Any function from a table to P(yes), or to an amount; also one that is asked over a network.

Calls over a network fail now and then, and may carry only so many rows: `Remote`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from turnabout.errors import ModelError
from turnabout.models.batch_noise import FUNCTION, REMOTE, note_noise
from turnabout.models.column_types import (
    PlainTypes,
    as_category,
    categorical_dtypes,
)
from turnabout.models.decision import InRange, settle
from turnabout.models.model import Model, Scale
from turnabout.models.probe import random_rows
from turnabout.parameters import Finite, Maybe, Whole, checked
from turnabout.schema import Schema, mold

_SLACK = 1e-9  # rounding by which a probability may leave [0, 1]


class FunctionJudge:
    """Margins of raw rows from one call of a function: P(yes) - threshold, or the distance into a range.

    Columns in `dtypes` are handed over as these pandas categoricals.
    """

    encoded = False

    def __init__(
        self,
        function: Callable[[pd.DataFrame], Any],
        schema: Schema,
        threshold: float,
        target: InRange | None,
        dtypes: Mapping[str, pd.CategoricalDtype],
        like: pd.DataFrame | None = None,
    ):
        self.noise = 1e-12
        self.alone = False
        self.in_single = False
        self.function = function
        self.schema = schema
        self.threshold = threshold
        self.target = target
        self.dtypes = dict(dtypes)
        self.like = like
        self.columns = schema.names
        self._plain = PlainTypes(schema, like, as_given=True)
        name = getattr(function, "__name__", type(function).__name__)
        self.title = f"function {name}"

    @property
    def keeps_nullable(self) -> bool:
        """Whether the function is handed <NA> as it is given."""
        return self._plain.keeps_nullable

    @property
    def scale(self) -> Scale:
        return "probability" if self.target is None else "target"

    @property
    def cut(self) -> float | None:
        return self.threshold if self.target is None else None

    @property
    def rule(self) -> str:
        return f"P(yes) >= {self.threshold:g}" if self.target is None else self.target.rule

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        n = len(table)
        if n == 0:
            return np.empty(0)
        frame = self.schema.table(table).copy(deep=False)
        for column, dtype in self.dtypes.items():
            frame[column] = as_category(frame[column], dtype)
        margin = self._margins(self._plain.attempt(self._values, frame), frame)
        self._plain.lower(margin, lambda rows: self._margins(self._values(rows), rows), frame)
        return margin

    def _margins(self, values: np.ndarray, table: pd.DataFrame) -> np.ndarray:
        n = len(table)
        if values.shape not in ((n,), (n, 1)):
            hint = "return one probability per row"
            if values.ndim == 2 and values.shape[1] == 2:
                hint += "; for predict_proba that is its column [:, 1], or wrap the classifier itself"
            raise ModelError(
                f"the function returned an array of shape {values.shape} for {n} rows; expected ({n},).",
                hint=hint + ".",
            )
        values = values.reshape(-1)
        self.in_single = values.dtype == np.float32
        if self.target is not None:
            return self.target.margins(values)
        outside = (values < -_SLACK) | (values > 1 + _SLACK)
        if outside.any():
            i = int(outside.argmax())
            raise ModelError(
                f"the function returned {values[i]:g} for row {table.index[i]!r}, not a probability in [0, 1].",
                hint="return P(yes); for a score, squash it first, or pass target_range=(low, high) for an amount.",
            )
        return settle(values.astype(np.float64) - self.threshold, values >= self.threshold)

    def _values(self, frame: pd.DataFrame) -> np.ndarray:
        out = self.function(frame.copy())
        if hasattr(out, "detach"):
            out = out.detach().cpu()
        values = np.asarray(out)
        return values if values.dtype.kind == "f" else values.astype(np.float64)


def wrap_function(
    function: Callable[[pd.DataFrame], Any],
    schema: Schema,
    threshold: float | None,
    target: object,
    target_range: object,
    background: pd.DataFrame | None,
) -> Model:
    """A function of raw rows; it can be asked and nothing more."""
    if target is not None and target != 1:
        raise ModelError(
            f"target={target!r} names a class, but a function has none.",
            hint="let the function return P(yes); target=1 says that it does.",
        )
    if target is not None and target_range is not None:
        raise ModelError("target and target_range exclude each other.", hint="give one of them.")
    if target_range is not None and threshold is not None:
        raise ModelError("threshold and target_range exclude each other.", hint="give one of them.")
    in_range = None if target_range is None else InRange.of(target_range)
    dtypes = _dtypes(schema, background)
    like = None if background is None else mold(schema.table(background))
    judge = FunctionJudge(function, schema, 0.5 if threshold is None else threshold, in_range, dtypes, like)
    note = _note_noise(judge, background)
    return Model(schema, judge, ("not compiled: a function can only be asked.", *([note] if note else [])))


def _note_noise(judge: FunctionJudge, background: pd.DataFrame | None) -> str:
    """Measure on rows of the background, or on random legal ones; a remote function is asked little, and once."""
    function, schema = judge.function, judge.schema
    effort = REMOTE if isinstance(function, Remote) else FUNCTION
    most = (function.rows if isinstance(function, Remote) else None) or effort.rows
    if background is None or not len(background):
        table = schema.decode(random_rows(schema, min(most, effort.rows), missing=False))
    else:
        places = np.unique(np.linspace(0, len(background) - 1, min(most, effort.rows)).astype(int))
        table = schema.table(background.iloc[places])
    if isinstance(function, Remote):
        judge.function = function.function  # no retries: what fails is not worth waiting for
    try:
        return note_noise(judge, table, effort)
    finally:
        judge.function = function


def _dtypes(schema: Schema, background: pd.DataFrame | None) -> dict[str, pd.CategoricalDtype]:
    """The background's categoricals; levels that only the schema has come last, so that codes stay what they are."""
    out = {}
    for name, dtype in categorical_dtypes(background, schema.names).items():
        levels = getattr(schema[name], "levels", None)
        if levels is not None:  # a number may leave the values that the background happens to hold
            categories = dtype.categories.tolist()
            more = [level for level in levels if level not in categories]
            out[name] = pd.CategoricalDtype([*categories, *more], dtype.ordered) if more else dtype
    return out


@dataclass(frozen=True)
@checked(
    ModelError,
    retries=Whole(0),
    wait=Finite(least=0),
    factor=Finite(least=1),
    longest=Finite(least=0),
    rows=Maybe(Whole(1, hint="give 1 or more rows, or None for any number.")),
)
class Remote:
    """A function from a table to P(yes) that is asked again when it fails, after a while that doubles each time.

        model = ta.models.wrap(ta.models.Remote(ask_service, retries=4, rows=500), schema)

    What still fails after the last try costs the people concerned their answer, not the others theirs. How many rows
    may be asked for each person is said by `find(query_limit=...)`.

    Parameters
    ----------
    function : table -> P(yes), (n,).
    retries : how often a call is made again after it failed.
    wait : seconds before the first of these.
    factor : by which the wait grows from one to the next.
    longest : the longest wait, in seconds.
    rows : how many rows a call may carry; None for any number.
    """

    function: Callable[[pd.DataFrame], Any]
    retries: int = 3
    wait: float = 0.5
    factor: float = 2.0
    longest: float = 30.0
    rows: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.function) or isinstance(self.function, type):
            raise ModelError(f"{self.function!r} cannot be called.", hint="pass a function from a table to P(yes).")

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        step = self.rows or max(1, len(table))
        parts = [self._ask(table.iloc[start : start + step]) for start in range(0, len(table), step)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _ask(self, table: pd.DataFrame) -> np.ndarray:
        for attempt in range(self.retries + 1):
            try:
                return np.asarray(self.function(table))
            except Exception:
                if attempt == self.retries:
                    raise
                time.sleep(min(self.wait * self.factor**attempt, self.longest))
        raise AssertionError("the last attempt returns or raises")
