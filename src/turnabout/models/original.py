"""Asking a fitted estimator about raw rows, with the columns and types it was fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from turnabout.errors import ModelError
from turnabout.models.base import Scale
from turnabout.models.decision import TIE, Ask, ClassDecision, Decision, settle
from turnabout.schema import Schema, as_frame


def call_failed(error: Exception, rows: int) -> ModelError:
    """The error to raise from `error` when the original could not answer."""
    return ModelError(
        f"the model raised {type(error).__name__} when asked about {rows} row(s): {error}",
        hint="wrap the model on raw columns as it was fitted (put the preprocessing into a Pipeline), and check that "
        "the schema's levels, types and missing values are those it knows.",
    )


class Estimator:
    """A fitted estimator that is handed fresh tables of exactly the columns it wants.

    Parameters
    ----------
    estimator : anything with predict, and perhaps predict_proba or decision_function.
    columns : the columns it wants, in its order.
    as_array : hand over arrays, for an estimator fitted without column names.
    dtypes : column types it insists on (pandas categoricals).
    """

    def __init__(
        self, estimator: Any, schema: Schema, columns: tuple[str, ...], as_array: bool, dtypes: Mapping[str, Any]
    ):
        self.estimator = estimator
        self.columns = columns
        self.as_array = as_array
        self.dtypes = dict(dtypes)
        self._numeric = {f.name for f in schema.features if _all_levels(f, (int, float), but=bool)}
        self._named = {f.name for f in schema.features if hasattr(f, "levels") and _all_levels(f, (str, bool))}

    def rows(self, table: pd.DataFrame) -> pd.DataFrame | np.ndarray:
        """A fresh table in the estimator's own terms."""
        frame = as_frame(table)
        if absent := [name for name in self.columns if name not in frame.columns]:
            raise ModelError(
                f"the table has no column '{absent[0]}', which the model wants.",
                hint=f"the model was fitted on {', '.join(self.columns)}.",
            )
        frame = frame[list(self.columns)]  # a list of columns makes a copy
        for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
            wanted = self.dtypes.get(name)
            if wanted is not None:
                if dtype != wanted:
                    frame[name] = _as_category(frame[name], wanted)
            elif name in self._named and dtype.kind == "f":  # nothing but missing cells, read as numbers
                frame[name] = frame[name].astype(object)
            elif dtype.kind == "O" and isinstance(dtype, np.dtype):
                if name in self._numeric:
                    frame[name] = frame[name].astype(np.float64)
                elif (absent_cells := frame[name].isna()).any():
                    frame[name] = frame[name].mask(absent_cells, np.nan)  # None is not NaN to most encoders
        return frame.to_numpy() if self.as_array else frame

    def ask(self, method: Ask, table: pd.DataFrame) -> np.ndarray:
        """Outputs of one plain call; (n,) or (n, C)."""
        rows = self.rows(table)
        try:
            out = np.asarray(getattr(self.estimator, method)(rows))
        except ModelError:
            raise
        except Exception as error:
            raise call_failed(error, len(rows)) from error
        if out.ndim == 2 and out.shape[1] == 1 and method == "predict":
            out = out.reshape(-1)
        return out


class EstimatorJudge:
    """Margins of raw rows from one plain call of a fitted estimator.

    The sign is the estimator's own: P(yes) >= threshold in its own precision, or, without a threshold, its own
    predict, which is asked again only for rows nearer than TIE to the boundary (or for all, with `always_predict`).
    """

    def __init__(self, original: Estimator, decision: Decision, title: str, noise: float, always_predict: bool = False):
        self.original = original
        self.decision = decision
        self.title = title
        self.noise = noise
        self.always_predict = always_predict

    @property
    def scale(self) -> Scale:
        return self.decision.scale

    @property
    def rule(self) -> str:
        return self.decision.rule

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        if len(table) == 0:
            return np.empty(0)
        out = self.original.ask(self.decision.ask, table)
        self._check_shape(out, len(table))
        margin = self.decision.margins(out)
        if self.own_predict:
            near = np.full(len(margin), True) if self.always_predict else np.abs(margin) <= TIE
            if near.any():
                yes = self.decision.is_yes(self.original.ask("predict", table[near]))  # type: ignore[attr-defined]
                margin[near] = settle(margin[near], yes)
        return margin

    @property
    def own_predict(self) -> bool:
        """Whether ties are settled by the estimator's own predict."""
        decision = self.decision
        return isinstance(decision, ClassDecision) and getattr(decision, "threshold", None) is None

    def _check_shape(self, out: np.ndarray, n: int) -> None:
        decision = self.decision
        right: tuple[tuple[int, ...], ...] = ((n,),)
        if isinstance(decision, ClassDecision) and decision.ask != "predict":
            wide = (n, len(decision.labels))
            one_score = decision.ask == "decision_function" and len(decision.labels) == 2
            right = ((n,), (n, 1)) if one_score else (wide,)
        if out.shape not in right:
            raise ModelError(
                f"{decision.ask} of the model returned an array of shape {out.shape} for {n} rows; "
                f"expected {' or '.join(map(str, right))}.",
                hint="a model that answers one question is needed; for anything else pass a function table -> P(yes).",
            )


def _all_levels(feature: Any, types: tuple[type, ...], but: type | tuple[type, ...] = ()) -> bool:
    return all(isinstance(level, types) and not isinstance(level, but) for level in getattr(feature, "levels", ()))


def _as_category(column: pd.Series, dtype: Any) -> pd.Series:
    if isinstance(dtype, pd.CategoricalDtype) and isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.set_categories(dtype.categories, ordered=dtype.ordered)
    return column.astype(dtype)
