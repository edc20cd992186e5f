"""Two Gaussian classes for which every risk of recourse is known: the study of the lecture on these risks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.core import Method, Problem, Proposal
from turnabout.costs import L2
from turnabout.errors import TurnaboutError
from turnabout.models import Model, wrap
from turnabout.parameters import Share, Whole, checked
from turnabout.schema import Number, Schema
from turnabout.typing import Tensor

LEGACY_SEED, LEGACY_PER_CLASS = 1502, 500  # of the authors' figure
NUDGE = 1e-6  # beyond a probability of 1/2, so that the printed row is accepted
REACH = 10.0  # deviations beyond a class mean at which the schema's columns end


@dataclass(frozen=True, eq=False)
class Draw:
    """People of a Gaussian study.

    Attributes
    ----------
    x : (n, d) their features.
    y : (n,) True for the good class.
    fresh : (n,) a number from [0, 1) for each person: their label is drawn anew at a point z as fresh < eta(z).
    """

    x: np.ndarray
    y: np.ndarray
    fresh: np.ndarray


@dataclass(frozen=True)
class Gaussians:
    r"""Two Gaussian classes around m and -m, with one covariance S and equal shares.

        log-odds(x) = 2 m' S^-1 x,        eta(x) = P(good | x) = 1 / (1 + exp(-log-odds(x)))                 (1)
        Bayes risk R = Phi(-sqrt(m' S^-1 m))                                                                 (2)

    Recourse moves a refused person straight along the normal of the boundary {eta = 1/2} to the line {eta = p}. With t
    the position on that normal, a class is N(+-mu, s^2) there: mu is `normal_mean`, s is `normal_sd`. For people who
    accept with probability r, of whom a share rho complies,

        R_Q = R + r (1/2 - (2 - rho) R / 2 - rho p / 2)                                                      (3)

    Use it to check estimates of risk. The defaults are the parameters of the authors' figure, where R is 0.1241, and
    R_Q on the boundary 0.3121 for compliant and 0.5 for defiant people.

    Parameters
    ----------
    mean : m, the centre of the good class; the bad one has -m.
    covariance : S.

    References
    ----------
    Fokkema, Garreau, van Erven (2024), The risks of recourse in binary classification.
    """

    mean: Sequence[float] = (1.0, 1.0)
    covariance: Sequence[Sequence[float]] = ((1.0, 0.5), (0.5, 1.0))

    def __post_init__(self) -> None:
        try:
            mean, cov = np.asarray(self.mean, dtype=np.float64), np.asarray(self.covariance, dtype=np.float64)
        except (TypeError, ValueError):
            raise TurnaboutError(
                f"mean={self.mean!r} and covariance={self.covariance!r} hold what is no number.",
                hint="give d numbers and a (d, d) matrix.",
            ) from None
        if mean.ndim != 1 or not len(mean) or cov.shape != (len(mean), len(mean)):
            raise TurnaboutError(
                f"a mean of shape {mean.shape} and a covariance of shape {cov.shape} do not fit.",
                hint="give d numbers and a (d, d) matrix.",
            )
        finite = bool(np.isfinite(mean).all() and np.isfinite(cov).all())
        if not finite or not mean.any() or not np.allclose(cov, cov.T) or np.linalg.eigvalsh(cov)[0] <= 0:
            raise TurnaboutError(
                "the classes coincide, or the covariance is not positive definite.",
                hint="give a mean other than 0 and a symmetric matrix with positive eigenvalues.",
            )
        object.__setattr__(self, "mean", tuple(mean.tolist()))  # hashable, whatever was given
        object.__setattr__(self, "covariance", tuple(map(tuple, cov.tolist())))

    # -- the classes ------------------------------------------------------------------------------------------

    @cached_property
    def weights(self) -> np.ndarray:
        """(d,) of the log-odds, whose intercept is 0: the Bayes classifier says yes where x @ weights >= 0."""
        return 2.0 * np.linalg.solve(np.asarray(self.covariance), np.asarray(self.mean))  # (1)

    @cached_property
    def normal(self) -> np.ndarray:
        """(d,) unit normal of the boundary, towards the good class."""
        return self.weights / np.linalg.norm(self.weights)

    @property
    def normal_mean(self) -> float:
        """mu, the mean of the good class along the normal."""
        return float(self.normal @ np.asarray(self.mean))

    @property
    def normal_sd(self) -> float:
        """s, the deviation of either class along the normal."""
        return math.sqrt(float(self.normal @ np.asarray(self.covariance) @ self.normal))

    def margin(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n,) log-odds; non-negative is a yes of the Bayes classifier."""
        return np.asarray(x, dtype=np.float64) @ self.weights

    def eta(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n,) P(good | x)."""
        margin = self.margin(x)
        small = np.exp(-np.abs(margin))  # never overflows
        return np.where(margin >= 0, 1.0, small) / (1.0 + small)

    @checked(TurnaboutError, n=Whole(1), seed=Whole(0))
    def sample(self, n: int, seed: int = 0) -> Draw:
        """n people, each of either class with probability 1/2."""
        rng = np.random.default_rng(seed)
        y = rng.random(n) < 0.5
        root = np.linalg.cholesky(np.asarray(self.covariance))
        x = rng.standard_normal((n, len(self.mean))) @ root.T + np.where(y, 1.0, -1.0)[:, None] * np.asarray(self.mean)
        return Draw(x, y, rng.random(n))

    def legacy_sample(self) -> Draw:
        """The 1,000 people of the lecture's figure: numpy's old generator with seed 1502, the good class drawn first.

        The refused get the generator's next numbers as `fresh`, in their order, then the accepted. With them the risk
        is 0.109 before and 0.300 after recourse to the boundary.
        """
        old = np.random.RandomState(LEGACY_SEED)
        mean, cov = np.asarray(self.mean), np.asarray(self.covariance)
        x = np.concatenate([old.multivariate_normal(centre, cov, LEGACY_PER_CLASS) for centre in (mean, -mean)])
        y = np.repeat([True, False], LEGACY_PER_CLASS)
        refused = self.margin(x) < 0
        fresh = np.empty(len(x))
        fresh[refused] = old.random_sample(int(refused.sum()))
        fresh[~refused] = old.random_sample(int((~refused).sum()))
        return Draw(x, y, fresh)

    # -- recourse ---------------------------------------------------------------------------------------------

    def project(self, x: np.ndarray, probability: float | np.ndarray = 0.5) -> np.ndarray:
        """(n, d) -> (n, d): the refused moved along the normal to where eta is `probability`; the accepted stay.

        A probability of 1/2 is the nearest accepted point, up to rounding. One per person is possible: `mirror`.
        """
        x = np.asarray(x, dtype=np.float64)
        p = _probability(probability)
        margin = self.margin(x)
        away = np.log(p) - np.log1p(-p) - margin  # log-odds still to be gained
        return x + np.where(margin < 0, away / np.linalg.norm(self.weights), 0.0)[:, None] * self.normal

    def mirror(self, x: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, d): the refused moved as far beyond the boundary as they were before it: eta1 = 1 - eta0."""
        x = np.asarray(x, dtype=np.float64)
        gap = np.minimum(self.margin(x), 0.0) / np.linalg.norm(self.weights)
        return x - 2.0 * gap[:, None] * self.normal

    # -- what is known ----------------------------------------------------------------------------------------

    @property
    def bayes_risk(self) -> float:
        """R, the risk before recourse."""
        return _below(-self.normal_mean / self.normal_sd)  # (2)

    @checked(TurnaboutError, compliance=Share(), accept=Share())
    def risk_after(self, probability: float = 0.5, compliance: float = 1.0, accept: float = 1.0) -> float:
        """R_Q when everyone refused is led to the line {eta = probability}, from 1/2 up."""
        p, rho, r = _accepted(probability), float(compliance), float(accept)
        before = self.bayes_risk
        return before + r * (0.5 - (2.0 - rho) * before / 2.0 - rho * p / 2.0)  # (3)

    def break_even(self, probability: float = 0.5) -> float:
        """The compliance at which R_Q = R; on the boundary it is 2 for all such classes, and so out of reach."""
        p, before = _accepted(probability), self.bayes_risk
        return (1.0 - 2.0 * before) / (p - before)

    def mean_cost(self, probability: float = 0.5) -> float:
        """Mean Euclidean length of the move of a refused person to the line {eta = probability}, from 1/2 up."""
        p = _accepted(probability)
        mu, s = self.normal_mean, self.normal_sd
        away = s * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * (mu / s) ** 2) + mu * (1.0 - 2.0 * _below(-mu / s))
        return away + math.log(p / (1.0 - p)) / float(np.linalg.norm(self.weights))

    # -- as a problem of turnabout ----------------------------------------------------------------------------

    @cached_property
    def schema(self) -> Schema:
        """A Number x1, x2, ... for each feature, of one and the same range, so that L2 costs are true to scale."""
        sd = math.sqrt(max(row[i] for i, row in enumerate(self.covariance)))
        reach = math.ceil(max(map(abs, self.mean)) + REACH * sd)
        return Schema(tuple(Number(f"x{i + 1}", low=-reach, high=reach, decimals=6) for i in range(len(self.mean))))

    @property
    def unit(self) -> float:
        """Units of x in one unit of cost: the width of the schema's columns."""
        first = self.schema.features[0]
        assert isinstance(first, Number)
        return first.span

    def table(self, x: np.ndarray) -> pd.DataFrame:
        """(n, d) -> a table of the schema's columns."""
        return pd.DataFrame(np.asarray(x, dtype=np.float64), columns=list(self.schema.names))

    def model(self) -> Model:
        """The Bayes classifier: a linear model whose margin is the log-odds."""
        layer = torch.nn.Linear(len(self.mean), 1, dtype=torch.float64)
        low = self.schema.features[0].low  # type: ignore[attr-defined]
        with torch.no_grad():
            layer.weight[:] = torch.as_tensor(self.weights * self.unit)
            layer.bias[:] = float(self.weights.sum() * low)
        return wrap(torch.nn.Sequential(layer), self.schema)

    def problem(self, draw: Draw | None = None) -> Problem:
        """The question with the Bayes classifier and Euclidean costs; the people of a draw are its background."""
        background = None if draw is None else self.table(draw.x)
        return Problem(
            self.schema, self.model(), cost=L2(), background=background, labels=None if draw is None else draw.y
        )


class GaussianProjection(Method):
    """Leads the refused of a Gaussian study straight to where eta is `probability`.

    Parameters
    ----------
    study : the Gaussians.
    probability : of repaying, where people land; None for the mirror landing at 1 - eta0.
    """

    def __init__(self, study: Gaussians, probability: float | None = 0.5):
        self.study = study
        self.probability = probability

    def _search(self, x: Tensor) -> Proposal:
        low = self.study.schema.features[0].low  # type: ignore[attr-defined]
        units = x.numpy() * self.study.unit + low
        p = self.probability
        new = self.study.mirror(units) if p is None else self.study.project(units, max(p, 0.5 + NUDGE))
        return Proposal(torch.as_tensor((new - low) / self.study.unit).unsqueeze(1), minimal=True)


def _below(z: float) -> float:
    """Phi(z), the standard normal distribution."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def _probability(value: Any) -> np.ndarray:
    """One or many probabilities, strictly between 0 and 1."""
    p = np.asarray(value, dtype=np.float64)
    if not ((p > 0) & (p < 1)).all():  # NaN is neither
        raise TurnaboutError(
            f"probability={value!r} is no landing probability.", hint="use numbers strictly between 0 and 1, like 0.7."
        )
    return p


def _accepted(probability: float) -> float:
    """One probability from 1/2 up: people who land lower are still refused."""
    p = _probability(probability)
    if p.ndim or p < 0.5:
        raise TurnaboutError(f"landing at {probability!r} is refused.", hint="land at 0.5 or more, all at one place.")
    return float(p)
