r"""One engine for local explanations: the best simple function near a person.

For each person x, solves

    g* = argmin over g in family   E_xi [ weight(xi) * loss(f, g, x, xi) ],    Z = x (+) xi                   (1)

with (+) the operation: adding noise, keeping or removing concepts, going along a path. Named methods are presets: see
`turnabout.explain`. The expectation smooths f, and the law of xi says by how much: g* is near to a smoothed f, not to
the boundary of f, and is no distance to it.

References
----------
Han, Srinivas, Lakkaraju (2022), Which explanation should I choose? A function approximation perspective.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from turnabout.errors import ExplainError
from turnabout.explain.score import Score
from turnabout.typing import Tensor

CHUNK = 1 << 22  # numbers held at a time: people x perturbations x width


@dataclass(frozen=True)
class Design:
    """s perturbations of width m, the same for everyone.

    Attributes
    ----------
    xi : (s, m).
    mass : (s,) how often each counts: 1 for a random draw, a quadrature weight or a probability otherwise.
    exact : whether these are all there are, so that the sum is the expectation.
    paired : whether rows 2i and 2i + 1 belong together (a draw and its mirror image), as far as errors go.
    """

    xi: Tensor
    mass: Tensor
    exact: bool = False
    paired: bool = False


class Perturbation(Protocol):
    """The law of xi."""

    def design(self, width: int, rng: np.random.Generator) -> Design:
        """Perturbations of m = width numbers each."""
        ...


class Operation(Protocol):
    """How a perturbation meets a person."""

    def width(self, d: int) -> int:
        """m, for points of d columns."""
        ...

    def values(self, score: Score, x: Tensor, xi: Tensor) -> Tensor:
        """f(x (+) xi): people (n, d), perturbations (s, m) -> (n, s)."""
        ...

    def gradients(self, score: Score, x: Tensor, xi: Tensor) -> Tensor:
        """Derivatives of f(x (+) xi) with respect to what is attributed to: (n, s, width)."""
        ...


class Weight(Protocol):
    """How much a perturbation counts, beside its probability."""

    def __call__(self, xi: Tensor) -> Tensor:
        """(s, m) -> (s,)."""
        ...


@dataclass(frozen=True)
class Alike:
    """Every perturbation counts alike."""

    def __call__(self, xi: Tensor) -> Tensor:
        return torch.ones(len(xi), dtype=torch.float64)


@dataclass(frozen=True)
class Fit:
    """The best function of the family, for n people.

    Attributes
    ----------
    slope : (n, m).  error : (n, m) standard errors of random draws, or None where there are none.
    intercept : (n,) g at xi = 0, or None where the family has none.
    """

    slope: Tensor
    error: Tensor | None
    intercept: Tensor | None = None
    exact: bool = False


class Family(Protocol):
    """Simple functions with a least-squares fit: how values at the perturbations become slopes."""

    def fit(self, design: Design, omega: Tensor, values: Tensor, ridge: float) -> Fit:
        """Weights omega (s,), values (n, s) -> the fit."""
        ...


class Loss(Protocol):
    """What (1) asks of g at one perturbation."""

    def solve(
        self, family: Family, operation: Operation, design: Design, omega: Tensor, score: Score, x: Tensor
    ) -> Fit: ...


@dataclass(frozen=True)
class SquaredError:
    """(f(Z) - g(xi))^2, plus ridge * |slope|^2."""

    ridge: float = 0.0

    def solve(
        self, family: Family, operation: Operation, design: Design, omega: Tensor, score: Score, x: Tensor
    ) -> Fit:
        return family.fit(design, omega, operation.values(score, x, design.xi), self.ridge)


@dataclass(frozen=True)
class GradientMatching:
    """|gradient of f(Z) - slope of g|^2, whose minimum is the mean gradient."""

    def solve(
        self, family: Family, operation: Operation, design: Design, omega: Tensor, score: Score, x: Tensor
    ) -> Fit:
        slopes = operation.gradients(score, x, design.xi)  # (n, s, w)
        share = omega / omega.sum()
        mean = torch.einsum("nsw,s->nw", slopes, share)
        return Fit(mean, None if design.exact else mean_error(slopes, share, design.paired), None, design.exact)


@dataclass(frozen=True)
class Affine:
    r"""g(xi) = a + slope @ xi, by weighted least squares with a free intercept:

        (a, slope) = (D' W D + ridge * I_0)^{-1} D' W f,    D = [1, xi],    I_0 = diag(0, 1, ..., 1)             (2)

    Errors are those of the sandwich, A^{-1} (sum w_i^2 r_i^2 D_i D_i') A^{-1}, with pairs of draws taken together.
    They are scaled up by s / (s - m - 1), where s counts independent draws (HC1).

    Parameters
    ----------
    leave_out : take every residual r_i as it is when the line is fitted without that draw or pair (HC3), in place of
        that scale. Errors are larger, and nearer the truth where far draws have large residuals, as Gaussian ones do
        on a curved score. They are unknown where a draw cannot be left out.
    """

    leave_out: bool = False

    def fit(self, design: Design, omega: Tensor, values: Tensor, ridge: float) -> Fit:
        s, m = design.xi.shape
        rows = torch.cat([torch.ones(s, 1, dtype=torch.float64), design.xi], 1)  # D (s, m + 1)
        weighted = rows * omega.unsqueeze(1)
        penalty = torch.full((m + 1,), float(ridge), dtype=torch.float64)
        penalty[0] = 0.0
        inverse = inverse_gram(weighted.t() @ rows + torch.diag(penalty))
        reader = inverse @ weighted.t()  # (m + 1, s): coefficients = reader @ f
        fitted = values @ reader.t()  # (n, m + 1)  (2)
        if design.exact:
            return Fit(fitted[:, 1:], None, fitted[:, 0], True)
        residual = values - fitted @ rows.t()
        draws = s // 2 if design.paired else s
        scale = draws / (draws - m - 1) if draws > m + 1 else torch.inf
        if self.leave_out and draws > m + 1:
            without = left_out(residual, rows, reader, design.paired)
            residual, scale = (residual, torch.inf) if without is None else (without, 1.0)
        if scale == torch.inf:
            return Fit(fitted[:, 1:], torch.full_like(fitted[:, 1:], torch.inf), fitted[:, 0])
        variance = paired_squares(residual, reader, design.paired)[:, 1:]
        return Fit(fitted[:, 1:], (variance * scale).sqrt(), fitted[:, 0])


@dataclass(frozen=True)
class LocalApproximation:
    """The best simple function near each person, (1).

    Parameters
    ----------
    perturbation : the law of xi: Gaussian, Masks, Path, ...
    operation : how xi meets the person: Add, Remove, Along, ...
    weight : how much a perturbation counts: Alike, Near, ShapleyKernel, ...
    loss : SquaredError or GradientMatching.
    family : Affine, or one with constraints.
    """

    perturbation: Perturbation
    operation: Operation
    weight: Weight
    loss: Loss
    family: Family

    def fit(self, score: Score, x: Tensor, seed: int = 0) -> Fit:
        """People (n, d) -> the fit; everyone has the same perturbations: answers do not depend on the other rows."""
        design = self.perturbation.design(self.operation.width(x.shape[1]), np.random.default_rng(seed))
        omega = design.mass * self.weight(design.xi)
        if not bool(omega.sum() > 0):
            raise ExplainError("every perturbation has weight 0.", hint="use a wider kernel or more samples.")
        people = max(1, CHUNK // max(1, len(design.xi) * max(design.xi.shape[1], x.shape[1])))
        fits = [self.loss.solve(self.family, self.operation, design, omega, score, part) for part in x.split(people)]
        return join(fits, x)


def join(fits: list[Fit], x: Tensor) -> Fit:
    """Fits of parts of the people, as one."""
    if not fits:
        return Fit(x.new_zeros(0, x.shape[1]), None)
    first = fits[0]
    return Fit(
        torch.cat([fit.slope for fit in fits]),
        None if first.error is None else torch.cat([fit.error for fit in fits if fit.error is not None]),
        None if first.intercept is None else torch.cat([fit.intercept for fit in fits if fit.intercept is not None]),
        first.exact,
    )


def inverse_gram(gram: Tensor) -> Tensor:
    """The inverse of a normal matrix; refuses perturbations that do not determine the slopes."""
    scale = gram.diagonal().clamp(min=torch.finfo(torch.float64).tiny).rsqrt()
    root, info = torch.linalg.cholesky_ex(gram * scale.unsqueeze(0) * scale.unsqueeze(1))
    if bool(info) or float(root.diagonal().min()) < 1e-7:
        raise ExplainError(
            f"the perturbations do not determine {len(gram) - 1} slopes.", hint="use more samples, or a ridge above 0."
        )
    return torch.cholesky_inverse(root) * scale.unsqueeze(0) * scale.unsqueeze(1)


def left_out(residual: Tensor, rows: Tensor, reader: Tensor, paired: bool) -> Tensor | None:
    """Residuals (n, s) of a fit without the draw, or the pair, itself; None where one cannot be left out.

    They are (I - H_g)^{-1} r_g, with H_g the part of the hat matrix H = rows @ reader that belongs to g.
    """
    own = 1.0 - (rows * reader.t()).sum(1)  # (s,)
    if not paired:
        return residual / own if bool((own > 1e-9).all()) else None
    (r0, r1), (a, b) = (residual[:, ::2], residual[:, 1::2]), (own[::2], own[1::2])
    h01 = (rows[::2] * reader.t()[1::2]).sum(1)
    h10 = (rows[1::2] * reader.t()[::2]).sum(1)
    size = a * b - h01 * h10
    if not bool((size > 1e-9).all()):
        return None
    return torch.stack([(b * r0 + h01 * r1) / size, (a * r1 + h10 * r0) / size], 2).reshape(residual.shape)


def paired_squares(residual: Tensor, reader: Tensor, paired: bool) -> Tensor:
    """Variances of reader @ values: sum over draws, or pairs of draws, of (residual * reader)^2; (n, s), (k, s)."""
    if not paired:
        return residual.square() @ reader.square().t()
    (r0, r1), (h0, h1) = (residual[:, ::2], residual[:, 1::2]), (reader[:, ::2], reader[:, 1::2])
    both = r0.square() @ h0.square().t() + r1.square() @ h1.square().t()
    return (both + 2 * (r0 * r1) @ (h0 * h1).t()).clamp(min=0.0)


def mean_error(draws: Tensor, share: Tensor, paired: bool) -> Tensor:
    """Standard errors of a weighted mean of draws (n, s, w) with shares (s,)."""
    if paired:
        weight = share[::2] + share[1::2]
        draws = (draws[:, ::2] * share[::2, None] + draws[:, 1::2] * share[1::2, None]) / weight[:, None]
        share = weight
    count = draws.shape[1]
    if count < 2:
        return torch.full_like(draws[:, 0], torch.inf)
    mean = torch.einsum("nsw,s->nw", draws, share)
    spread = torch.einsum("nsw,s->nw", (draws - mean.unsqueeze(1)).square(), share.square())
    return (spread * (count / (count - 1))).sqrt()
