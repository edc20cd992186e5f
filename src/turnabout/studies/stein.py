"""Stein's identity on a given score: SmoothGrad and C-LIME are one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from turnabout.documents import Document
from turnabout.errors import ExplainError
from turnabout.explain.explainer import ExplanationTask
from turnabout.explain.score import Function, Output, Score, as_points, check_seed
from turnabout.explain.slopes.gaussian_noise import Spread, covariance_of
from turnabout.explain.slopes.smooth import CLime, Estimator, SmoothGrad
from turnabout.models import Model

LIMIT = 4.0  # joint standard errors
ROUNDING = 1e-13  # share of the values' size that is lost in a slope's arithmetic


@dataclass(frozen=True, eq=False)
class SteinCheck(Document):
    """Two estimates of one slope, and how far they are apart.

    Attributes
    ----------
    smoothgrad, smoothgrad_error : (n, d) the mean gradient, and its standard errors; 0 for a closed form.
    clime, clime_error : (n, d) the least-squares slope, from other draws, and its sandwich errors.
    rounding : (n, d) how much of a difference may be floating-point noise.
    """

    smoothgrad: np.ndarray
    smoothgrad_error: np.ndarray
    clime: np.ndarray
    clime_error: np.ndarray
    rounding: np.ndarray

    keys = "smoothgrad smoothgrad_error clime clime_error difference error z passed"

    @property
    def difference(self) -> np.ndarray:
        """(n, d) SmoothGrad less C-LIME."""
        return self.smoothgrad - self.clime

    @property
    def error(self) -> np.ndarray:
        """(n, d) joint standard errors, of independent draws."""
        return np.hypot(self.smoothgrad_error, self.clime_error)

    @property
    def z(self) -> np.ndarray:
        """(n, d) differences in joint standard errors; what rounding may do counts as one."""
        return self.difference / np.maximum(np.hypot(self.error, self.rounding), np.finfo(np.float64).tiny)

    @property
    def passed(self) -> bool:
        """Whether no difference is beyond 4 joint standard errors."""
        return bool((np.abs(self.z) < LIMIT).all())

    def __str__(self) -> str:
        verdict = "agree" if self.passed else "do not agree"
        worst, largest = np.abs(self.z).max(), np.abs(self.difference).max()
        return (
            f"SmoothGrad and C-LIME {verdict}: differences up to {largest:.2g}, at most {worst:.1f} joint standard "
            f"errors over {self.z.size} slopes"
        )


def check_stein(
    model: Model | Score | Function,
    x: Any,
    covariance: Spread = 0.1,
    samples: int = 10_000,
    seed: int = 0,
    output: Output = "margin",
) -> SteinCheck:
    r"""Estimate both sides of Stein's identity, from independent draws:

        E grad f(Z) = Sigma^{-1} E[f(Z)(Z - x)],    Z ~ N(x, Sigma)                                             (1)

    The left is SmoothGrad; the right is the slope of C-LIME. A difference beyond 4 joint standard errors says that
    the gradient is not that of the score: a wrong derivative, or a score that jumps. For trees the left side is the
    closed form. Other scores that are flat almost everywhere are refused: their mean gradient, 0, is not (1).

    Parameters
    ----------
    x : people: a table for a wrapped model, points (n, d) or one point (d,) otherwise.
    covariance : Sigma, or deviations, as `spread` in SmoothGrad.
    samples : how many draws for each side, in pairs.
    output : the margin, or P(yes).

    References
    ----------
    Agarwal, Jabbari, Agarwal, Upadhyay, Wu, Lakkaraju (2021), Towards the unification and robustness of perturbation
    and gradient based explanations.
    """
    seed = check_seed(seed)
    score = Score.of(model, output)
    schema = model.schema if isinstance(model, Model) else None
    points = as_points(x) if schema is None or isinstance(x, np.ndarray | torch.Tensor) else schema.encode(x)
    if not len(points):
        raise ExplainError("there is nobody to check.", hint="pass some rows.")
    sigma = covariance_of(covariance, points.shape[1])
    first, second = (int(word) for word in np.random.SeedSequence(seed).generate_state(2))
    road: Estimator = "closed" if score.forest is not None else "pathwise"
    questions = [ExplanationTask(score, points, schema, None, draw) for draw in (first, second)]
    left = SmoothGrad(covariance, samples, road)._explain(questions[0]).fit
    right = CLime(covariance, samples)._explain(questions[1]).fit
    assert right.error is not None
    if right.error.isinf().any():
        raise ExplainError(
            f"samples={samples} are too few draws to know the errors of {points.shape[1]} slopes.", hint="use 10,000."
        )
    size = score.values(points).abs().unsqueeze(1) / sigma.diagonal().sqrt() + left.slope.abs() + right.slope.abs()
    return SteinCheck(
        left.slope.numpy(),
        (left.slope * 0.0 if left.error is None else left.error).numpy(),
        right.slope.numpy(),
        right.error.nan_to_num(nan=0.0).numpy(),  # columns that noise leaves alone are 0 on both sides
        (ROUNDING * size).numpy(),
    )
