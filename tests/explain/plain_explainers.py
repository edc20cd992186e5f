"""Explainers of one line each, for tests of what is done with attributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from turnabout.core.attribution import Kind
from turnabout.explain.engine import Fit
from turnabout.explain.explainer import Explained, Explainer, ExplanationTask


@dataclass(frozen=True)
class Slope(Explainer):
    """The gradient of a score."""

    kind: ClassVar[Kind] = "slope"

    def _explain(self, question: ExplanationTask) -> Explained:
        return Explained(Fit(question.score.gradients(question.x), None, exact=True), question.columns)


@dataclass(frozen=True)
class Itself(Explainer):
    """The point itself: looks at the person and not at the model."""

    kind: ClassVar[Kind] = "contribution"

    def _explain(self, question: ExplanationTask) -> Explained:
        return Explained(Fit(question.x.clone(), None, exact=True), question.columns)
