"""Asking a fitted estimator about raw rows, with the columns and types it was fitted on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from turnabout.errors import ModelError
from turnabout.models.base import Scale
from turnabout.models.categories import as_category, is_same_type, unknown_cells
from turnabout.models.decision import TIE, Ask, ClassDecision, Decision, settle
from turnabout.schema import Schema, as_frame
from turnabout.schema.features import is_missing
from turnabout.schema.put import retype

T = TypeVar("T")
_LIBRARIES = ("sklearn", "xgboost", "lightgbm", "catboost", "imblearn")
_CUT_OFFS = ("TunedThresholdClassifierCV", "FixedThresholdClassifier")


def call_failed(error: Exception, rows: int) -> ModelError:
    """The error to raise from `error` when the original could not answer."""
    return ModelError(
        f"the model raised {type(error).__name__} when asked about {rows} row(s): {error}",
        hint="wrap the model on raw columns as it was fitted (put the preprocessing into a Pipeline), and check that "
        "the schema's levels, types and missing values are those it knows.",
    )


class Estimator:
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
        self._plain = PlainTypes(schema, like)

    def ask(self, method: Ask, table: pd.DataFrame) -> np.ndarray:
        """Outputs of one plain call; (n,) or (n, C)."""
        out = self.attempt(lambda rows: np.asarray(getattr(self.estimator, method)(rows)), table)
        if out.ndim == 2 and out.shape[1] == 1 and method == "predict":
            out = out.reshape(-1)
        return out

    def made_plain(self, table: pd.DataFrame) -> np.ndarray:
        """(n,) rows with a gap that is <NA> as given, and NaN as the model is asked."""
        return self._plain.made_plain(self._wanted(table))

    def ask_as_given(self, method: Ask, table: pd.DataFrame) -> np.ndarray:
        """The same call with all cells as they are given; raises where the model cannot take them."""
        try:
            return np.asarray(getattr(self.estimator, method)(self._handed(self._wanted(table))))
        except Exception as error:
            raise call_failed(error, len(table)) from error

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


class PlainTypes:
    """Columns in the types of NumPy, for models that cannot take those of pandas.

    Missing cells become those of the training table, NaN where it is not known. Types whose missing cells are <NA> are
    made plain at once, unless the training table has them too: encoders take such a cell alone and not among others.
    With `as_given` they are not, where the training table is not known: a function may tell <NA> from NaN.

    A model that cannot take plain types either is asked in those of the training table, where that is known, then with
    codes as objects, which files and tables without a background do not tell from numbers, then with None for a missing
    level, which files do not tell from NaN, and then with True, False and gaps as pandas' boolean.
    """

    def __init__(self, schema: Schema, like: pd.DataFrame | None, as_given: bool = False):
        self.keeps_nullable = as_given and like is None
        self._numeric = {f.name for f in schema.features if _all_levels(f, (int, float), but=bool)}
        self._levels = {f.name for f in schema.features if hasattr(f, "levels")}
        self._named = {f.name for f in schema.features if hasattr(f, "levels") and _all_levels(f, (str, bool))}
        self._marks: dict[Any, object] = {}
        self._like = like
        self._trained: dict[Any, Any] = {} if like is None else like.dtypes.to_dict()
        if like is not None:
            objects = [name for name in like.columns if like[name].dtype == np.dtype(object)]
            self._marks = {n: c for n in objects for c in like[n] if is_missing(c) and c is not pd.NA}

    def attempt(self, question: Callable[[pd.DataFrame], T], frame: pd.DataFrame) -> T:
        """What a question gives for the frame as it is, or, where that raises, for its columns in plain types."""
        frame = self._assign(frame, [n for n in frame.columns if self.makes_plain(frame[n])])
        try:
            return question(frame)
        except ModelError:
            raise
        except Exception as error:
            for change in (self, self._as_trained, self._levels_as_objects, self._missing_as_none, self._booleans):
                if (other := change(frame)) is not frame:
                    try:
                        return question(other)
                    except Exception:  # what was said of the frame as it is tells more
                        pass
            raise call_failed(error, len(frame)) from error

    def makes_plain(self, column: pd.Series) -> bool:
        """Whether a column reaches the model in another type than it is given in, whatever the model can take."""
        return not self.keeps_nullable and is_nullable(column.dtype, self._trained.get(column.name))

    def made_plain(self, frame: pd.DataFrame) -> np.ndarray:
        """(n,) rows with a gap in such a column."""
        names = [name for name in frame.columns if self.makes_plain(frame[name])]
        return np.asarray(frame[names].isna().to_numpy(dtype=bool).any(1))

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame itself where nothing is to be done."""
        return self._assign(frame, frame.columns)

    def _assign(self, frame: pd.DataFrame, names: Iterable[Any]) -> pd.DataFrame:
        changed = {}
        for name in names:
            column = frame[name]
            plain = self._column(name, column)
            if plain is not column:
                changed[name] = plain
        return frame.assign(**changed) if changed else frame

    def _as_trained(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame in the types of the training table, as far as its cells fit them."""
        changed = {}
        for name, wanted in self._trained.items():
            if name in frame.columns and frame[name].dtype != wanted and self._like is not None:
                column = retype(frame[name].to_numpy(dtype=object), self._like[name])
                if column.dtype == wanted:
                    changed[name] = column.set_axis(frame.index)
        return frame.assign(**changed) if changed else frame

    def _booleans(self, frame: pd.DataFrame) -> pd.DataFrame:
        objects = [name for name in frame.columns if frame[name].dtype == np.dtype(object)]
        names = [n for n in objects if all(is_missing(c) or isinstance(c, (bool, np.bool_)) for c in frame[n])]
        return frame.astype(dict.fromkeys(names, "boolean")) if names else frame

    def _levels_as_objects(self, frame: pd.DataFrame) -> pd.DataFrame:
        names = [name for name in frame.columns if name in self._levels and frame[name].dtype.kind in "biuf"]
        return frame.astype(dict.fromkeys(names, object)) if names else frame

    def _missing_as_none(self, frame: pd.DataFrame) -> pd.DataFrame:
        changed = {}
        for name in self._levels.intersection(frame.columns[frame.isna().any()]):
            if not isinstance(frame[name].dtype, pd.CategoricalDtype):
                column = frame[name].astype(object)
                changed[name] = column.where(column.notna(), None)
        return frame.assign(**changed) if changed else frame

    def _column(self, name: str, column: pd.Series) -> pd.Series:
        dtype, absent = column.dtype, column.isna()
        if isinstance(dtype, pd.CategoricalDtype):
            return column
        if dtype.kind == "f" and isinstance(dtype, np.dtype):
            # nothing but missing cells in a column of words, read as numbers
            return column.astype(object) if name in self._named else column
        if isinstance(dtype, np.dtype) and dtype.kind != "O":
            return column
        if dtype.kind in "iuf" or (dtype.kind == "b" and not absent.any()):
            if dtype.kind == "f" or absent.any():
                return pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan), index=column.index)
            return pd.Series(column.to_numpy(dtype=np.bool_ if dtype.kind == "b" else np.int64), index=column.index)
        if name in self._numeric:
            try:
                return pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan), index=column.index)
            except (TypeError, ValueError):
                return column
        if isinstance(dtype, np.dtype) and not absent.any():
            return column
        plain_cells = column.to_numpy(dtype=object, copy=True)
        plain_cells[absent] = self._marks.get(name, np.nan)
        return pd.Series(plain_cells, index=column.index, dtype=object)


def lower_as_given(margin: np.ndarray, odd: np.ndarray, ask: Callable[[np.ndarray], np.ndarray]) -> None:
    """Lower the margins of odd rows (n,) to those as given, in place, where the model can take them as they are."""
    if odd.any():
        with contextlib.suppress(ModelError):
            margin[odd] = np.fmin(margin[odd], ask(odd))


class EstimatorJudge:
    """Margins of raw rows from one plain call of a fitted estimator.

    The sign is the estimator's own: P(yes) >= threshold in its own precision, or, with `own_predict`, its own
    predict, which is asked again only for rows nearer than TIE to the boundary (or for all, with `always_predict`).

    Gaps that are <NA> as given reach a model that was not trained on them as NaN. Encoders may take <NA> too, for a
    level that they do not know: such a row has the lower of both margins.
    """

    encoded = False

    def __init__(
        self,
        original: Estimator,
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
        self.own_predict = own_predict and isinstance(decision, ClassDecision)
        self.always_predict = always_predict

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
        ask = lambda odd: self._margins(self.original.ask_as_given, table[odd])  # noqa: E731
        lower_as_given(margin, self.original.made_plain(table), ask)
        return margin

    def _margins(self, ask: Callable[[Ask, pd.DataFrame], np.ndarray], table: pd.DataFrame) -> np.ndarray:
        out = ask(self.decision.ask, table)
        self._check_shape(out, len(table))
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


@dataclass(frozen=True)
class CutOff:
    """The cut-off by which a threshold classifier of scikit-learn predicts its positive class: P(positive) >= value."""

    value: float
    positive: object
    found_by: str


def look_through(estimator: Any) -> tuple[Any, CutOff | None]:
    """The estimator inside parameter searches and threshold classifiers, and the cut-off of the outermost of these."""
    cut_off: CutOff | None = None
    while True:
        name = type(estimator).__name__
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif name == "FrozenEstimator":
            estimator = estimator.estimator
        elif name in _CUT_OFFS and (found := _read_cut_off(estimator)) is not None:
            cut_off = cut_off or found
            estimator = _inner(estimator)
        else:
            return estimator, cut_off


def has_library_predict(estimator: Any, ask: Ask, outermost: bool = True) -> bool:
    """Whether predict and the scores that are asked come from a library, where the one follows the other.

    Searches, Pipelines and the like pass predict on, so what they hold is looked at too. A threshold classifier does
    not: its predict follows the probabilities of what it holds, by a cut-off that must be known to `look_through`.
    """
    name = type(estimator).__name__
    if name in _CUT_OFFS:
        return outermost and _is_library(estimator, "predict") and _read_cut_off(estimator) is not None
    if not all(_is_library(estimator, method) for method in ("predict", ask)):
        return False
    if hasattr(estimator, "best_estimator_"):
        return has_library_predict(estimator.best_estimator_, ask, outermost)
    if name == "FrozenEstimator":
        return has_library_predict(estimator.estimator, ask, outermost)
    held = [getattr(estimator, part, None) for part in ("estimator_", "final_estimator_")]
    if name == "Pipeline" and (steps := getattr(estimator, "steps", None)):
        held.append(steps[-1][1])
    return all(has_library_predict(inner, ask, outermost=False) for inner in held if hasattr(inner, "predict"))


def _is_library(estimator: Any, method: str) -> bool:
    """Whether the class that defines a method is a library's, and the instance does not hide it."""
    if method in getattr(estimator, "__dict__", {}):
        return False
    for base in type(estimator).__mro__:
        if method in vars(base):
            return base.__module__.split(".")[0] in _LIBRARIES
    is_theirs = type(estimator).__module__.split(".")[0] in _LIBRARIES  # FrozenEstimator passes on by __getattr__
    return is_theirs or not hasattr(estimator, method)


def _inner(estimator: Any) -> Any:
    """What a threshold classifier asks: a fitted copy, or what it was given, fitted before."""
    return getattr(estimator, "estimator_", estimator.estimator)


def _read_cut_off(estimator: Any) -> CutOff | None:
    """The cut-off of a threshold classifier on probabilities; None if it is on scores, or not to be found."""
    inner = _inner(estimator)
    if estimator.response_method == "decision_function" or not hasattr(inner, "predict_proba"):
        return None
    try:
        if type(estimator).__name__ == "FixedThresholdClassifier":
            value, positive = estimator.threshold, estimator.pos_label
        else:
            value, positive = estimator.best_threshold_, estimator._curve_scorer._get_pos_label()
        if positive is None:
            positive = estimator.classes_[-1]
    except AttributeError:  # not fitted, or another release
        return None
    return CutOff(0.5 if isinstance(value, str) else float(value), positive, type(estimator).__name__)


def is_nullable(dtype: Any, trained: Any = None) -> bool:
    """Whether missing cells of a column type are <NA>, and the model was not trained on a column of that type."""
    return getattr(dtype, "na_value", None) is pd.NA and dtype != trained


def _all_levels(feature: Any, types: tuple[type, ...], but: type | tuple[type, ...] = ()) -> bool:
    return all(isinstance(level, types) and not isinstance(level, but) for level in getattr(feature, "levels", ()))
