"""Functions that are asked over a network: calls that fail now and then, and may carry only so many rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from turnabout.errors import ModelError
from turnabout.parameters import Finite, Maybe, Whole, checked


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
