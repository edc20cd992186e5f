"""Fitted estimators in the manner of scikit-learn: bare, in a Pipeline, or from XGBoost, LightGBM and CatBoost.

Nothing here imports those libraries: an estimator is known by its methods, and by the name of its class where the
meaning of its numbers matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from turnabout.documents import shown
from turnabout.errors import ModelError
from turnabout.models.agreement import boundary_sample, compare, sample, step_sample
from turnabout.models.batch_noise import note_gap, note_noise
from turnabout.models.column_types import training_types
from turnabout.models.decision import ByLabel, ByProbability, ByScore, ClassDecision, Decision, InRange
from turnabout.models.derived import Typed
from turnabout.models.favourable import Guess, check_names
from turnabout.models.libraries import library_of, recognise
from turnabout.models.libraries.meta_estimators import (
    CutOff,
    EstimatorParts,
    has_library_predict,
    look_through,
    unstack,
)
from turnabout.models.libraries.raw_forest import NotCompilable
from turnabout.models.model import Model, Scale, ShiftedJudge
from turnabout.models.original import AskedEstimator, EstimatorJudge
from turnabout.models.pipeline import compile_estimator
from turnabout.models.probe import base_row, random_rows
from turnabout.schema import Schema, mold

_OVERRIDDEN = "predict is not the library's own and may not follow the scores"


def is_estimator(model: object) -> bool:
    """Whether a model is asked by predict, as estimators are."""
    return any(callable(getattr(model, name, None)) for name in ("predict", "predict_proba", "decision_function"))


def wrap_estimator(
    estimator: Any,
    schema: Schema,
    threshold: float | None,
    target: object,
    target_range: object,
    background: pd.DataFrame | None,
) -> Model:
    """An estimator on raw columns: its judge, and its compiled form where one is found and agrees."""
    library, name = recognise(estimator)
    if name in library.bare:
        raise ModelError(
            f"a bare {library.name} {name} does not say what its columns and classes are.",
            hint=f"wrap an {library.bare[name]}, or a function table -> P(yes).",
        )
    notes: list[str] = []
    inner, cut_off = look_through(estimator)
    _check_fitted(inner)
    stages = unstack(inner)
    decision = _decide(estimator, stages, threshold, target, target_range, cut_off, notes)
    original = _original(estimator, inner, stages, schema, background, notes)
    judge = EstimatorJudge(original, decision, stages.title, _noise(stages, decision), own_predict=threshold is None)
    pairs = sample(schema, background, judge)
    doubt = _doubt(estimator, judge, cut_off, pairs)
    if doubt:
        notes.append(f"{doubt}, so it is asked about every row.")
        judge.always_predict = True
    if note := note_noise(judge, pairs[0][1] if pairs else None, labels_only=_labels_only(judge)):
        notes.append(note)
    if doubt and doubt != _OVERRIDDEN:
        return Model(schema, judge, (*notes, f"not compiled: {doubt}."))
    return _in_best_form(schema, judge, tuple(notes), stages, pairs)


def in_types(model: Model, types: Mapping[str, Any]) -> Model:
    """The same decision maker as searches see it in some column types, where the training table does not say them.

    A compiled form is made anew, since a number may lie on another side of a jump in another precision.
    """
    typed, judge, by = Typed(model, types), model._judge, 0.0
    while isinstance(judge, ShiftedJudge):
        by += judge.by
        judge = judge.judge
    if not (model.compiled and isinstance(judge, EstimatorJudge)):
        return typed
    estimator = judge.original.estimator
    like = mold(typed.decode(random_rows(model.schema, missing=any(f.missing for f in model.schema.features))))
    known = judge.trained_on(like)
    pairs = sample(model.schema, None, known)
    note_noise(known, pairs[0][1] if pairs else None, labels_only=_labels_only(known))
    stages = unstack(look_through(estimator)[0])
    made = _in_best_form(model.schema, known, model.notes, stages, pairs)
    made.unseen = model.unseen
    return made.shifted(by) if made.compiled else typed


def _in_best_form(
    schema: Schema, judge: EstimatorJudge, notes: tuple[str, ...], stages: EstimatorParts, pairs: list[Any]
) -> Model:
    """The compiled form of an estimator, if there is one that agrees with it on the pairs; else it is asked itself."""
    try:
        if not pairs:
            raise NotCompilable("there are no rows to check a compiled form on; pass background=")
        model = compile_estimator(schema, judge, notes, stages, pairs)
        if judge.always_predict:
            pairs = [*pairs, *boundary_sample(model)]
        if stages.transforms:
            pairs = [*pairs, *step_sample(model)]
        found = compare(model, pairs, 1e-4 if stages.library.single_precision or judge.noise > 1e-9 else 1e-6)
        if found.reason:
            raise NotCompilable(found.reason)
        note_gap(judge, found.gap)
    except NotCompilable as error:
        return Model(schema, judge, (*notes, f"not compiled: {error.reason.rstrip('.')}."))
    except Exception as error:  # an inner form of another version than those known; the original still answers
        return Model(schema, judge, (*notes, f"not compiled: reading it raised {type(error).__name__}: {error}."))
    return model


def _doubt(estimator: Any, judge: EstimatorJudge, cut_off: CutOff | None, pairs: list[Any]) -> str | None:
    """Why predict may differ from the sign of the margin, or None if it need only be asked about ties."""
    decision = judge.decision
    if not judge.own_predict or not isinstance(decision, ClassDecision):
        return None
    if not has_library_predict(estimator, decision.ask):
        return _OVERRIDDEN
    if cut_off is not None and cut_off.positive != decision.labels[decision.yes]:
        return f"predict follows a cut-off of P({cut_off.positive}), which is not the yes"
    return None if _signs_agree(judge, pairs) else "predict does not follow the model's own scores"


def _check_fitted(estimator: Any) -> None:
    error: Exception | None = None
    try:
        if library_of(estimator).is_fitted(estimator):
            return
    except (ImportError, TypeError):  # not an estimator in the strict sense: no way to know
        return
    except Exception as caught:
        error = caught
    raise ModelError(f"this {type(estimator).__name__} is not fitted yet.", hint="call fit before wrapping.") from error


def _decide(
    estimator: Any,
    stages: EstimatorParts,
    threshold: float | None,
    target: object,
    target_range: object,
    cut_off: CutOff | None,
    notes: list[str],
) -> Decision:
    """Which output is the yes, and on which scale it is measured."""
    classes = getattr(estimator, "classes_", getattr(stages.final, "classes_", None))
    if classes is None and hasattr(estimator, "predict_proba"):
        classes = np.array([0, 1])
        notes.append("it has no classes_: the second column of its predict_proba is taken for P(yes).")
    if target_range is not None:
        if classes is not None:
            raise ModelError(
                f"target_range is for regressors, and {stages.title} is a classifier.",
                hint="use threshold= for a cut-off of P(yes), or target= for the class that is a yes.",
            )
        if threshold is not None or target is not None:
            raise ModelError("threshold, target and target_range exclude each other.", hint="give one of them.")
        return InRange.of(target_range)
    if classes is None:
        raise ModelError(
            f"{stages.title} has no classes_: it predicts an amount, and which amounts are a yes is not said.",
            hint="pass target_range=(low, high), with None for an open side.",
        )
    if isinstance(classes, list) or np.ndim(classes) != 1:
        raise ModelError(f"{stages.title} answers several questions at once.", hint="wrap one classifier per question.")
    labels = tuple(label.item() if isinstance(label, np.generic) else label for label in classes)
    yes = _yes_class(labels, target, stages.title, notes)
    name, final = stages.name, stages.final
    has_score = hasattr(estimator, "decision_function")
    scale: Scale = "log-odds" if stages.library.is_logistic(name, final) else "probability"
    if not hasattr(estimator, "predict_proba"):
        if threshold not in (None, 0.5):
            raise ModelError(
                f"{stages.title} gives no probabilities, so threshold={threshold:g} means nothing to it.",
                hint="leave threshold at None, or calibrate it first: CalibratedClassifierCV(estimator).fit(...).",
            )
        return ByScore("score", labels, yes) if has_score else ByLabel("probability", labels, yes)
    if threshold is None and cut_off is not None:
        if cut_off.positive == labels[yes]:
            notes.append(f"the cut-off {cut_off.value:g} is the one {cut_off.found_by} found.")
            return ByProbability(scale, labels, yes, cut_off.value)
        return ByProbability(scale, labels, yes, 1.0 - cut_off.value)
    if threshold is None and has_score:
        if stages.library.has_log_odds(name, final):
            return ByScore("log-odds", labels, yes)
        if stages.library.has_sign(name) and len(labels) == 2:
            return ByScore("score", labels, yes)
    return ByProbability(scale, labels, yes, threshold)


def _yes_class(labels: tuple[object, ...], target: object, title: str, notes: list[str]) -> int:
    if len(labels) < 2:
        raise ModelError(f"{title} knows only the class {labels[0]!r}.", hint="fit it on yes and no examples.")
    if target is not None:
        place = next((i for i, label in enumerate(labels) if _is_label(target, label)), None)
        if place is None:
            raise ModelError(
                f"target={shown(target)} is not a class of {title}.", hint=f"its classes are {list(labels)}."
            )
        return place
    if len(labels) > 2:
        raise ModelError(
            f"{title} has {len(labels)} classes, and which of them is a yes is not said.",
            hint=f"pass target=, one of {list(labels)}.",
        )
    check_names(Guess(labels[1], labels[0]), title)
    if labels not in ((0, 1), (False, True)):
        notes.append(f"a yes is the class {labels[1]!r} (and not {labels[0]!r}); say target= if it is the other one.")
    return 1


def _is_label(target: object, label: object) -> bool:
    """Whether a target is this class; what cannot be compared with it, such as an array or <NA>, is not."""
    try:
        return bool(target == label)
    except (TypeError, ValueError):
        return False


def _noise(stages: EstimatorParts, decision: Decision) -> float:
    size = 1.0
    if isinstance(decision, InRange):
        size = max(1.0, *(abs(end) for end in (decision.low, decision.high) if np.isfinite(end)))
    return (1e-6 if stages.library.single_precision else 1e-12) * size


def _original(
    estimator: Any,
    inner: Any,
    stages: EstimatorParts,
    schema: Schema,
    background: pd.DataFrame | None,
    notes: list[str],
) -> AskedEstimator:
    """The estimator with the columns, container and column types that what is inside it wants."""
    names = library_of(inner).column_names(inner)
    like = None if background is None else mold(schema.table(background))
    bare = not stages.transforms
    if names is not None:
        names = _own_names(names, stages, schema)
        if absent := [name for name in names if name not in schema.names]:
            raise ModelError(
                f"{stages.title} wants the column '{absent[0]}', which the schema does not have.",
                hint=f"the schema has {', '.join(schema.names)}; add the column (moves='fixed' keeps it as it is).",
            )
        if unused := [name for name in schema.names if name not in names]:
            notes.append(f"the model does not look at {', '.join(unused)}.")
        dtypes, strict = training_types(inner, stages.final, bare, schema, names, background)
        return AskedEstimator(estimator, schema, names, False, dtypes, like, strict)
    count = getattr(inner, "n_features_in_", None)
    if count is not None and count != len(schema):
        raise ModelError(
            f"{stages.title} was fitted on {count} columns without names, and the schema has {len(schema)}.",
            hint="fit it on a DataFrame, so that columns are matched by name.",
        )
    as_array = AskedEstimator(estimator, schema, schema.names, True, {}, like)
    dtypes, strict = training_types(inner, stages.final, bare, schema, schema.names, background)
    as_table = AskedEstimator(estimator, schema, schema.names, False, dtypes, like, strict)
    row = (
        schema.table(background).iloc[:1]
        if background is not None and len(background)
        else schema.decode(base_row(schema))
    )
    for original in (as_array, as_table) if count is not None else (as_table, as_array):
        try:
            original.ask("predict", row)
        except ModelError:
            continue
        if original.as_array:
            notes.append("fitted without column names: it is given the schema's columns in the schema's order.")
        return original
    return as_array if count is not None else as_table


def _own_names(names: tuple[str, ...], stages: EstimatorParts, schema: Schema) -> tuple[str, ...]:
    """The schema's names of columns; libraries that write names otherwise may sit in a CalibratedClassifierCV."""
    held = unstack(getattr(stages.final, "estimator", None))
    for library in {} if stages.transforms else dict.fromkeys((stages.library, held.library)):
        names = tuple(library.own_name(name, schema) for name in names)
    return names


def _labels_only(judge: EstimatorJudge) -> bool:
    """Whether the decision is that of predict, and how clear it is cannot be known."""
    return isinstance(judge.decision, ByLabel) or (judge.own_predict and judge.always_predict)


def _signs_agree(judge: EstimatorJudge, pairs: list[Any]) -> bool:
    """Whether predict follows the sign of the margin on the sampled rows."""
    for _, table in pairs:
        margin = judge(table)
        yes = judge.decision.is_yes(judge.original.ask("predict", table))  # type: ignore[attr-defined]
        if not np.array_equal((margin >= 0)[~np.isnan(margin)], yes[~np.isnan(margin)]):
            return False
    return True
