"""Estimators that hold the one that answers: Pipelines, parameter searches, threshold classifiers, frozen ones.

They are those of scikit-learn and of libraries that derive theirs from it, so they are known by class name alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turnabout.models.decision import Ask
from turnabout.models.libraries import Library, class_library, recognise

_CUT_OFFS = ("TunedThresholdClassifierCV", "FixedThresholdClassifier")


@dataclass(frozen=True)
class EstimatorParts:
    """An estimator taken apart: transforms in order, and the final estimator that answers."""

    transforms: tuple[Any, ...]
    final: Any

    @property
    def library(self) -> Library:
        """Where the final estimator's class comes from, or the class it derives from."""
        return recognise(self.final)[0]

    @property
    def name(self) -> str:
        """Class name of the final estimator, or of the library class it derives from."""
        return recognise(self.final)[1]

    @property
    def title(self) -> str:
        return type(self.final).__name__ + (" in a Pipeline" if self.transforms else "")


def unstack(estimator: Any) -> EstimatorParts:
    """Look through nested Pipelines and parameter searches inside them.

    Steps that resample (`fit_resample`, as in imbalanced-learn) act on training rows only and are left out.
    """
    transforms: list[Any] = []
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif type(estimator).__name__ == "Pipeline" and hasattr(estimator, "steps"):
            transforms += _transforms(estimator)
            estimator = estimator.steps[-1][1]
        else:
            return EstimatorParts(tuple(transforms), estimator)


def _transforms(pipeline: Any) -> list[Any]:
    """What a Pipeline does to a row before its last step."""
    steps = [step for _, step in pipeline.steps[:-1]]
    if not any(hasattr(step, "fit_resample") for step in steps):
        return [pipeline[:-1]] if steps else []
    return [s for s in steps if not hasattr(s, "fit_resample") and s is not None and not isinstance(s, str)]


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
            return not class_library(base).runs_own_code
    is_theirs = not class_library(type(estimator)).runs_own_code  # FrozenEstimator passes on by __getattr__
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
