"""Asking a fitted estimator about raw rows, with the columns and types it was fitted on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import numpy as np
import pandas as pd

from turnabout.errors import ModelError
from turnabout.models.column_types import (
    PlainTypes,
    as_category,
    is_same_type,
    unknown_cells,
)
from turnabout.models.decision import TIE, Ask, ClassDecision, Decision, settle
from turnabout.models.libraries.inside import encoded_cells
from turnabout.models.model import Scale
from turnabout.schema import Schema, as_frame

T = TypeVar("T")


class AskedEstimator:
    """A fitted estimator that is handed fresh tables of exactly the columns it wants, with the cells as they are given.

    Parameters
    ----------
    estimator : anything with predict, and perhaps predict_proba or decision_function.
    columns : the columns it wants, in its order.
    as_array : hand over arrays, for an estimator fitted without column names.
    dtypes : column types it insists on (pandas categoricals).
    like : a few rows of the training table, for the types and the marks of missing cells; None if it is not known.
    strict : whether a cell that is no category of `dtypes` must not be asked about: its code would be that of another.
    """

    def __init__(
        self,
        estimator: Any,
        schema: Schema,
        columns: tuple[str, ...],
        as_array: bool,
        dtypes: Mapping[str, Any],
        like: pd.DataFrame | None = None,
        strict: bool = False,
    ):
        self.estimator = estimator
        self.columns = columns
        self.as_array = as_array
        self.dtypes = dict(dtypes)
        self.like = like
        self.strict = strict
        self._schema = schema
        self._plain = PlainTypes(schema, like, encoded=dict(encoded_cells(estimator)))

    def trained_on(self, like: pd.DataFrame) -> AskedEstimator:
        """This estimator, told the types and the marks of missing cells of the training table."""
        return AskedEstimator(self.estimator, self._schema, self.columns, self.as_array, self.dtypes, like, self.strict)

    def ask(self, method: Ask, table: pd.DataFrame) -> np.ndarray:
        """Outputs of one plain call; (n,) or (n, C)."""
        out = self.attempt(lambda rows: np.asarray(getattr(self.estimator, method)(rows)), table)
        if out.ndim == 2 and out.shape[1] == 1 and method == "predict":
            out = out.reshape(-1)
        return out

    def ask_as_it_is(self, method: Ask, frame: pd.DataFrame) -> np.ndarray:
        """The same call about a frame in its types, whatever they are; raises where the model cannot take them."""
        return np.asarray(getattr(self.estimator, method)(self._handed(frame)))

    def lower(self, margin: np.ndarray, ask: Callable[[pd.DataFrame], np.ndarray], table: pd.DataFrame) -> None:
        """Lower margins (n,), in place, to those in every type in which the gaps of the table may come."""
        self._plain.lower(margin, ask, self._wanted(table))

    def attempt(self, question: Callable[[Any], T], table: pd.DataFrame) -> T:
        """What a question gives for the table as it is, or, where that raises, with its columns in plain types."""
        return self._plain.attempt(lambda frame: question(self._handed(frame)), self._wanted(table))

    def _wanted(self, table: pd.DataFrame) -> pd.DataFrame:
        frame = as_frame(table)
        if absent := [name for name in self.columns if name not in frame.columns]:
            raise ModelError(
                f"the table has no column '{absent[0]}', which the model wants.",
                hint=f"the model was fitted on {', '.join(self.columns)}.",
            )
        frame = frame[list(self.columns)]  # a list of columns makes a copy
        for name, wanted in self.dtypes.items():
            if name not in frame.columns or is_same_type(frame[name].dtype, wanted):
                continue
            if self.strict and (strange := unknown_cells(frame[name], wanted)):
                raise ModelError(
                    f"column '{name}' holds {strange[0]!r}, a level that the model was not trained on.",
                    hint=f"it was trained on {wanted.categories.tolist()[:12]}.",
                )
            frame[name] = as_category(frame[name], wanted)
        return frame

    def _handed(self, frame: pd.DataFrame) -> pd.DataFrame | np.ndarray:
        return frame.to_numpy() if self.as_array else frame


class EstimatorJudge:
    """Margins of raw rows from one plain call of a fitted estimator.

    The sign is the estimator's own: P(yes) >= threshold in its own precision, or, with `own_predict`, its own
    predict, which is asked again only for rows nearer than TIE to the boundary (or for all, with `always_predict`).

    Encoders may take a gap of another type than in training for a level that they do not know: a row with gaps has the
    lowest of the margins in the types of the table and of training.
    """

    encoded = False

    def __init__(
        self,
        original: AskedEstimator,
        decision: Decision,
        title: str,
        noise: float,
        own_predict: bool = False,
        always_predict: bool = False,
    ):
        self.original = original
        self.decision = decision
        self.title = title
        self.noise = noise
        self.alone = False
        self.in_single = False
        self.own_predict = own_predict and isinstance(decision, ClassDecision)
        self.always_predict = always_predict

    def trained_on(self, like: pd.DataFrame) -> Self:
        """This judge, told the types and the marks of missing cells of the training table."""
        told = copy.copy(self)
        told.original = self.original.trained_on(like)
        return told

    @property
    def scale(self) -> Scale:
        return self.decision.scale

    @property
    def cut(self) -> float | None:
        return self.decision.cut

    @property
    def like(self) -> pd.DataFrame | None:
        return self.original.like

    @property
    def columns(self) -> tuple[str, ...]:
        return self.original.columns

    @property
    def rule(self) -> str:
        decision = self.decision
        if self.own_predict and self.always_predict and isinstance(decision, ClassDecision):
            return f"predict is {decision.labels[decision.yes]!r}"
        return decision.rule

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        if len(table) == 0:
            return np.empty(0)
        margin = self._margins(self.original.ask, table)
        self.original.lower(margin, lambda frame: self._margins(self.original.ask_as_it_is, frame), table)
        return margin

    def _margins(self, ask: Callable[[Ask, pd.DataFrame], np.ndarray], table: pd.DataFrame) -> np.ndarray:
        out = ask(self.decision.ask, table)
        self._check_shape(out, len(table))
        self.in_single = out.dtype == np.float32
        margin = self.decision.margins(out)
        if self.own_predict and self.decision.ask != "predict":
            near = np.full(len(margin), True) if self.always_predict else np.abs(margin) <= TIE
            if near.any():
                yes = self.decision.is_yes(ask("predict", table[near]))  # type: ignore[attr-defined]
                margin[near] = settle(margin[near], yes)
        return margin

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
