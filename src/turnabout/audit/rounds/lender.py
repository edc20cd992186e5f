"""The lender of a simulation in rounds: it trains a model, and approves all who reach a cut or whom it has room for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from turnabout.errors import AuditError, TurnaboutError
from turnabout.models import Model, wrap
from turnabout.schema import Schema


class Lender:
    """Fits a clone of an estimator each time, unless it keeps its first model.

    Parameters
    ----------
    estimator, later : the first one to be trained, and the one trained from the second time on (None: never).
    capacity : how many people may be approved; None for no limit.
    seed : of estimators that were given none.
    first : the people as they were, on whom drift is measured.
    """

    model: Model
    """In force: a non-negative margin is a yes, with the capacity included."""
    before: Model | None = None
    """The one before it, as if it had been kept: with its cut moved to the present people."""

    def __init__(
        self,
        estimator: Any,
        later: Any,
        schema: Schema,
        first: pd.DataFrame,
        threshold: float | None,
        capacity: int | None,
        seed: int = 0,
    ):
        self.estimator, self.later = estimator, later
        self.schema, self.first, self.threshold, self.capacity = schema, first, threshold, capacity
        self.seed = seed
        self._fitted: Model | None = None

    def train(self, table: pd.DataFrame, trained: np.ndarray, y: np.ndarray) -> None:
        """Learn from the people trained on, and decide about all of them."""
        estimator = self.estimator
        if self._fitted is not None:
            self.before = self._placed(self._fitted, table)[0]
            estimator = self.later
        if estimator is not None:
            self._fitted = self._fit(estimator, table[trained], y[trained])
        assert self._fitted is not None
        self.model, self.cut = self._placed(self._fitted, table)
        self.margin = margins(self.model, table)
        self.yes = self.margin >= 0
        self.margin_of_first = margins(self.model, self.first)

    def _fit(self, estimator: Any, table: pd.DataFrame, y: np.ndarray) -> Model:
        from sklearn.base import clone

        try:
            fresh = clone(estimator)
            loose = [
                name
                for name, value in fresh.get_params(deep=True).items()
                if value is None and name.split("__")[-1] == "random_state"
            ]
            fresh = fresh.set_params(**dict.fromkeys(loose, self.seed)).fit(table, y)
        except TurnaboutError:
            raise
        except Exception as error:  # estimators raise what they like
            raise AuditError(
                f"{type(estimator).__name__} cannot be trained on these people: {error}",
                hint="pass a scikit-learn classifier or Pipeline that takes the people's columns as they are.",
            ) from error
        return wrap(fresh, self.schema, self.threshold, background=self.first)

    def _placed(self, model: Model, table: pd.DataFrame) -> tuple[Model, float]:
        if self.capacity is None:
            return model, 0.0
        cut = capacity_cut(margins(model, table), self.capacity)
        return model.shifted(cut), cut


def margins(model: Model, table: pd.DataFrame) -> np.ndarray:
    """(n,) the original's margins, -inf where it has none."""
    if not len(table):
        return np.zeros(0)
    out = np.asarray(model.judge(table), dtype=np.float64)
    return np.where(np.isnan(out), -np.inf, out)


def capacity_cut(margin: np.ndarray, capacity: int) -> float:
    """The lowest margin that at most `capacity` people reach; ties are decided alike.

    >>> capacity_cut(np.array([3.0, 2.0, 2.0, 1.0]), 3)
    2.0
    >>> capacity_cut(np.array([3.0, 2.0, 2.0, 1.0]), 2)
    3.0
    """
    known = np.sort(margin[np.isfinite(margin)])[::-1]
    if not len(known):
        return 0.0
    last = known[min(capacity, len(known)) - 1]
    if (known >= last).sum() <= capacity:
        return float(last)
    higher = known[known > last]
    return float(higher[-1]) if len(higher) else float(np.nextafter(last, np.inf))
