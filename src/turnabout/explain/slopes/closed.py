"""Mean slopes under Gaussian noise where they are known: ridges, sums over features, tree ensembles."""

from __future__ import annotations

import torch

from turnabout.explain.score import Ridge, Score
from turnabout.explain.slopes.smoothed_trees import on_levels, smooth_forest
from turnabout.models.model import Terms
from turnabout.typing import Tensor

STEP = 0.5  # of the trapezoidal rule, in deviations of the noise or in log-odds, whichever is narrower
REACH = 40.0  # log-odds beyond which the logistic density is below 1e-17
TAILS = 12.0  # deviations beyond which the normal density is below 1e-31


def closed_slope(score: Score, x: Tensor, sigma: Tensor) -> Tensor | str:
    """E grad f(Z) for Z ~ N(x, Sigma), people (n, d) -> (n, d); or why there is no closed form.

    For forests it is the gradient of E f(Z), which is what smoothing means where f itself has no slope.
    """
    if score.ridge is not None:
        return _ridge(score.ridge, x, sigma)
    if score.terms is not None:
        return _terms(score.terms, x, sigma)
    if score.forest is None:
        return "the score is no linear, probit or logit function, no sum over features and no sum of trees"
    scalar = ~score.forest.is_level
    noise = sigma[scalar][:, scalar]
    if bool((noise - torch.diag(noise.diagonal())).any()):
        return "trees need noise that is independent from column to column"
    if not on_levels(score.forest, x):
        return "a row lies between the levels of a category"
    return smooth_forest(score.forest, x, sigma.diagonal().sqrt()).gradient


def _ridge(ridge: Ridge, x: Tensor, sigma: Tensor) -> Tensor:
    r"""f = g(w @ x + b), with m = w @ x + b and s^2 = w' Sigma w:

    w                                              identity
    w * phi(m / sqrt(1 + s^2)) / sqrt(1 + s^2)     probit                                                   (1)
    w * E lambda(m + s e),   e ~ N(0, 1)           logit, lambda the logistic density                       (2)
    """
    w = ridge.weights
    if ridge.link == "identity":
        return w.expand_as(x).clone()
    m, square = x @ w + ridge.bias, w @ sigma @ w
    if ridge.link == "probit":
        root = (1 + square).sqrt()
        return torch.exp(-0.5 * (m / root).square()).unsqueeze(1) / (root * (2 * torch.pi) ** 0.5) * w  # (1)
    return mean_logistic(m, float(square.sqrt())).unsqueeze(1) * w  # (2)


def mean_logistic(m: Tensor, s: float) -> Tensor:
    """E lambda(m + s e), (n,) -> (n,), with lambda the logistic density and e standard normal.

    By the trapezoidal rule, which converges exponentially for functions that are smooth in the complex plane: the sum
    runs over e where the noise is narrower than lambda, else over u = m + s e. It errs by less than 1e-13.
    """
    if s < 1:
        e = STEP * torch.arange(-int(TAILS / STEP), int(TAILS / STEP) + 1, dtype=torch.float64)
        p = torch.sigmoid(m.unsqueeze(1) + s * e)
        return (p * (1 - p)) @ torch.exp(-0.5 * e.square()) * (STEP / (2 * torch.pi) ** 0.5)
    u = STEP * torch.arange(-int(REACH / STEP), int(REACH / STEP) + 1, dtype=torch.float64)
    p = torch.sigmoid(u)
    return torch.exp(-0.5 * ((u - m.unsqueeze(1)) / s).square()) @ (p * (1 - p)) * (STEP / (s * (2 * torch.pi) ** 0.5))


def _terms(terms: Terms, x: Tensor, sigma: Tensor) -> Tensor:
    """weights, and slope * P(Z_c > knot) for every knot on a column c: only the deviation of that column matters.

    A jump adds its height times the density of Z_c at its cut, the slope of the smoothed step.
    """
    slope = terms.weights.expand_as(x).clone()
    beyond = torch.special.ndtr((x[:, terms.columns] - terms.knots) / sigma.diagonal()[terms.columns].sqrt())
    slope.index_add_(1, terms.columns, beyond * terms.slopes)
    if (jumps := terms.jumps) is not None:
        deviation = sigma.diagonal()[jumps.columns].sqrt()
        away = (x[:, jumps.columns] - jumps.cuts) / deviation
        density = torch.exp(-0.5 * away.square()) / (deviation * (2 * torch.pi) ** 0.5)
        slope.index_add_(1, jumps.columns, torch.where(deviation > 0, density * jumps.heights, 0.0))
    return slope
