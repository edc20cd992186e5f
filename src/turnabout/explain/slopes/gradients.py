"""Gradients at a person's own row, and along the way to it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from turnabout.core.attribution import Kind
from turnabout.errors import ExplainError
from turnabout.explain.engine import CHUNK, Affine, Alike, Fit, GradientMatching, LocalApproximation, Operation
from turnabout.explain.explainer import Explained, Explainer, ExplanationTask
from turnabout.explain.score import Score
from turnabout.explain.slopes.gaussian_noise import Add
from turnabout.explain.slopes.paths import Along, Arrival, Nothing, Uniform
from turnabout.parameters import Flag, Whole, checked
from turnabout.typing import Tensor

STEP = float(np.finfo(np.float64).eps) ** (1 / 3)  # where rounding and curvature err alike

DIFFERENCES = (
    "by central differences: good to about ten digits where the score is smooth and computed in double precision, "
    "and to about two where it is computed in single precision."
)  # fmt: skip
TIMES_INPUT = (
    "each value is the encoded cell times the slope there: what the score owes to the feature against 0 if the score "
    "is linear, and only as near to it as the score is to a line otherwise."
)  # fmt: skip


class DegenerateGradient(UserWarning):
    """A gradient that is 0 almost everywhere was asked for: it says nothing of the score."""


@dataclass(frozen=True)
@checked(ExplainError, differences=Flag())
class Gradient(Explainer):
    r"""The slope of the score at the person's own row, one number for each encoded column.

        phi = grad f(x)                                                                                         (1)
        phi_j = (f(x + h_j e_j) - f(x - h_j e_j)) / (2 h_j),    h_j = eps^(1/3) max(1, |x_j|)                    (2)

    By autograd (1), exactly; by central differences (2) on request, for scores without a gradient. It looks at no
    more than the row itself: of trees, and of models that are only asked at legal rows, it is 0 and tells nothing
    (a DegenerateGradient warning says so); use SmoothGrad there.

    Parameters
    ----------
    differences : take (2), also where there is a gradient.

    References
    ----------
    Simonyan, Vedaldi, Zisserman (2014), Deep inside convolutional networks.
    """

    differences: bool = False
    kind: ClassVar[Kind] = "slope"

    def _explain(self, question: ExplanationTask) -> Explained:
        operation: Operation = Differences() if self.differences else Add()
        engine = LocalApproximation(Nothing(), operation, Alike(), GradientMatching(), Affine())
        fit = engine.fit(question.score, question.x, question.seed)
        notes = _degenerate(question.score)
        if self.differences:
            fit = replace(fit, exact=False)
            notes = (*notes, DIFFERENCES)
        return Explained(fit, question.columns, notes=notes, drawn=False)


@dataclass(frozen=True)
class GradientTimesInput(Explainer):
    r"""The gradient times the row itself, one number for each feature: what a linear score owes to it.

        phi_j = x_j * grad_j f(x),    added up over the columns of a feature                                     (3)

    The row is the encoded one, so that a number counts from the lowest value its schema knows, and a category gives
    the slope of the level the person has. For linear scores the values add up to f(x) - f(0), and each is what the
    score owes to the feature against 0; for others they add up to nothing in particular, and a note says so: use
    IntegratedGradients there.

    References
    ----------
    Shrikumar, Greenside, Shcherbina, Kundaje (2016), Not just a black box.
    """

    kind: ClassVar[Kind] = "contribution"

    def _explain(self, question: ExplanationTask) -> Explained:
        operation = Along(torch.zeros(question.x.shape[1], dtype=torch.float64))
        engine = LocalApproximation(Arrival(), operation, Alike(), GradientMatching(), Affine())
        fit = engine.fit(question.score, question.x, question.seed)  # (3)
        notes = (*_degenerate(question.score), TIMES_INPUT)
        return Explained(_by_feature(question, fit), question.features, notes=notes, drawn=False)


@dataclass(frozen=True)
@checked(ExplainError, nodes=Whole(1, hint="use 64, or more for a crooked score."))
class IntegratedGradients(Explainer):
    r"""The mean gradient on the straight line from a baseline, times the way: one number for each feature.

        phi_j = (x_j - b_j) * integral over a in (0, 1) of grad_j f(b + a (x - b)),    added up over its columns  (4)

    Completeness: the values add up to f(x) - f(b). The integral is taken by Gauss and Legendre, so that a kink on the
    way leaves a gap, which is told (`Attribution.gap`, and in the notes); it shrinks with more nodes. A small gap is
    needed for a good integral, and is no proof of one. Everything depends on the baseline: say whose row it is.

    Parameters
    ----------
    baseline : b, an encoded row of d numbers. None: the mean of the background; without one, zeros.
    nodes : how often the gradient is asked for each person. A linear score needs one.

    References
    ----------
    Sundararajan, Taly, Yan (2017), Axiomatic attribution for deep networks.
    """

    baseline: Sequence[float] | None = None
    nodes: int = 64
    kind: ClassVar[Kind] = "contribution"

    def _explain(self, question: ExplanationTask) -> Explained:
        score, x = question.score, question.x
        if score.constant_pieces:
            raise ExplainError(
                "this score is flat almost everywhere, so that gradients along a path are 0 and do not add up to it.",
                hint="use Shapley values, or SmoothGrad(estimator='stein').",
            )
        start, name = self._start(question)
        engine = LocalApproximation(Uniform(self.nodes), Along(start), Alike(), GradientMatching(), Affine())
        fit = engine.fit(score, x, question.seed)  # (4)
        is_linear = score.ridge is not None and score.ridge.link == "identity"
        fit = _by_feature(question, replace(fit, error=None, exact=is_linear))  # nodes are no random draws
        base = score.values(start.unsqueeze(0)).expand(len(x))
        gap = float((score.values(x) - base - fit.slope.sum(1)).abs().max())
        notes = (f"baseline: {name}.", f"completeness: the values add up to the score within {gap:.2g}.")
        return Explained(fit, question.features, base=base.clone(), notes=notes, drawn=False)

    def _start(self, question: ExplanationTask) -> tuple[Tensor, str]:
        """The baseline (d,), and its name."""
        d = question.x.shape[1]
        if self.baseline is None:
            if question.background is None:
                return torch.zeros(d, dtype=torch.float64), "zeros, the lowest of every number and no level at all"
            return question.background.mean(0), "the mean of the background"
        try:
            given = np.asarray(self.baseline, dtype=np.float64)
        except (TypeError, ValueError):
            given = np.full(d, np.nan)
        if given.shape != (d,) or not np.isfinite(given).all():
            raise ExplainError(
                f"baseline={self.baseline!r} is no row of {d} numbers.",
                hint="use an encoded row, schema.encode(table)[0], or None for the mean of the background.",
            )
        return torch.as_tensor(given.copy()), "as given"


@dataclass(frozen=True)
class Differences(Add):
    """Z = x + xi, with gradients by central differences (2)."""

    def gradients(self, score: Score, x: Tensor, xi: Tensor) -> Tensor:
        people = max(1, CHUNK // max(1, len(xi) * x.shape[1] ** 2))
        return torch.cat([self._slopes(score, part.unsqueeze(1) + xi) for part in x.split(people)])

    def _slopes(self, score: Score, z: Tensor) -> Tensor:
        """(n, s, d) -> (n, s, d)."""
        step = STEP * z.abs().clamp(min=1.0)
        above, below = z + step, z - step
        own = torch.eye(z.shape[-1], dtype=torch.bool)
        up, down = (  # of points (n, s, d, d): one column is moved in each row
            score.values(torch.where(own, moved.unsqueeze(-2), z.unsqueeze(-2))) for moved in (above, below)
        )
        return (up - down) / (above - below)  # (2), by the steps as they were rounded


def _by_feature(question: ExplanationTask, fit: Fit) -> Fit:
    """Slopes of columns (n, d), added up to features."""
    total = fit.slope.new_zeros(len(fit.slope), len(question.features))
    return replace(fit, slope=total.index_add_(1, question.feature_of, fit.slope))


def _degenerate(score: Score) -> tuple[str, ...]:
    """Warn of a score whose gradient says nothing; the same as a note."""
    if not score.constant_pieces:
        return ()
    text = "this score is flat almost everywhere: its gradient is 0, which does not say that nothing matters."
    warnings.warn(f"{text} Use SmoothGrad(estimator='stein').", DegenerateGradient, stacklevel=4)
    return (text,)
