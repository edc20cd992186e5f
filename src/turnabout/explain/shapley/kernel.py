"""KernelSHAP: Shapley values as a regression over masks (Lundberg and Lee, 2017)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch

from turnabout.core.attribution import Kind, Space
from turnabout.errors import ExplainError
from turnabout.explain.engine import Design, Fit, LocalApproximation, SquaredError, inverse_gram
from turnabout.explain.explainer import Explained, Explainer, ExplanationTask
from turnabout.explain.shapley.coalitions import ShapleySizes, Strata
from turnabout.explain.shapley.games import constrained, kernel_matrix, kernel_weights
from turnabout.explain.shapley.remove import Background, Removal
from turnabout.parameters import Flag, Whole, checked
from turnabout.typing import Tensor

NORMAL = 1.959963984540054  # the normal quantile of a two-sided 95 % interval


@dataclass(frozen=True)
class ShapleyKernel:
    """pi(k) = (m - 1) / (C(m, k) k (m - k)) for masks of size k; infinite for the empty and the full mask."""

    def __call__(self, xi: Tensor) -> Tensor:
        return kernel_weights(xi.shape[1])[xi.sum(1).round().long()]


@dataclass(frozen=True)
class Efficient:
    r"""g(z) = v(empty) + slope @ z with slopes that add up to v(all) - v(empty): the two hard constraints.

    One slope is eliminated by the constraint, and the others solve

        min  sum of omega (v(z) - v(empty) - z_m total - (z_1 - z_m, ..., z_{m-1} - z_m) @ head)^2                   (1)

    A mask and its complement enter as one equation, with (v(z) - v(complement) + total) / 2 in place of
    v(z) - v(empty): that is the same minimum. With `unbiased`, the normal matrix is its known expectation and only the
    right-hand side is drawn: no bias at any budget, but the error is larger, since what is linear is no longer free.

    Errors are the sandwich of the sampled part alone: variances within kinds of masks, shrunk by the share of each kind
    that was taken, so masks taken whole add nothing. Residuals are divided by sqrt(1 - leverage), and errors are scaled
    by Student's quantile over the normal one, so that 1.96 of them cover 95 %. Below ten degrees of freedom they are
    not known.
    """

    unbiased: bool = False

    def fit(self, design: Design, omega: Tensor, values: Tensor, ridge: float) -> Fit:
        if ridge:
            raise ExplainError("slopes under hard constraints have no ridge.", hint="use SquaredError(ridge=0).")
        size, m = design.xi.sum(1).round(), design.xi.shape[1]
        empty, full = values[:, size == 0][:, 0], values[:, size == m][:, 0]
        total = full - empty
        inner = torch.isfinite(omega)
        z, weight, v = design.xi[inner], omega[inner], values[:, inner]
        if not len(z):
            return Fit(total.unsqueeze(1), None, empty, True)  # a single feature
        if design.paired:
            z, weight = z[::2], 2 * weight[::2]
            v = (v[:, ::2] - v[:, 1::2] + total.unsqueeze(1)) / 2
        else:
            v = v - empty.unsqueeze(1)
        weight = weight / weight.sum()
        solve = self._from_expectation if self.unbiased else self._regress
        slope, reader, residual = solve(z, weight, v, total)
        return Fit(slope, None if design.exact else _error(design, reader, residual), empty, design.exact)

    def _regress(self, z: Tensor, weight: Tensor, v: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(1): slopes (n, m); the map (m, p) from values to slopes; residuals (n, p)."""
        if z.shape[1] == 1:
            return total.unsqueeze(1), z.new_zeros(1, len(z)), torch.zeros_like(v)
        rows = z[:, :-1] - z[:, -1:]
        target = v - total.unsqueeze(1) * z[:, -1]
        try:
            inverse = inverse_gram(rows.t() @ (rows * weight.unsqueeze(1)))
        except ExplainError:
            raise ExplainError(
                f"{len(z)} masks or pairs of masks do not determine {z.shape[1]} values.", hint="use more samples."
            ) from None
        reader = inverse @ (rows * weight.unsqueeze(1)).t()  # (m - 1, p)
        head = target @ reader.t()  # (1)
        slope = torch.cat([head, (total - head.sum(1)).unsqueeze(1)], 1)
        leverage = (rows * reader.t()).sum(1)
        residual = (target - head @ rows.t()) / (1 - leverage).clamp(min=1e-6).sqrt()
        return slope, torch.cat([reader, -reader.sum(0, keepdim=True)]), residual

    def _from_expectation(self, z: Tensor, weight: Tensor, v: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The closed form with the known normal matrix; what is drawn is b = mean of z v."""
        m = z.shape[1]
        inverse = torch.linalg.inv(kernel_matrix(m)) if m > 1 else z.new_ones(1, 1)
        # a pair's z v + (1 - z) (total - v) has the mean 2 z v + constant: constants fall to the constraint
        centred = v - total.unsqueeze(1) / 2
        factor = (z * weight.unsqueeze(1)).t()  # (m, p)
        reader = inverse @ factor - (inverse.sum(1) / inverse.sum()).outer(inverse.sum(0) @ factor)
        slope = constrained(inverse, centred @ factor.t(), torch.zeros_like(total)) + total.unsqueeze(1) / m
        return slope, reader, centred


def _error(design: Design, reader: Tensor, residual: Tensor) -> Tensor:
    """Standard errors (n, m) of reader @ values, from what varies within the kinds of masks."""
    if not isinstance(design, Strata):
        raise ExplainError("these masks do not say how they were drawn.", hint="use ShapleySizes or AllCoalitions.")
    from scipy.stats import t

    variance = residual.new_zeros(len(residual), len(reader))
    free = 1 - len(reader)  # degrees of freedom, counted as if the masks taken whole had told nothing
    for kind, share in enumerate(design.share.tolist()):
        own = (design.stratum == kind).nonzero()[:, 0]
        if share == 1.0:
            continue
        free += len(own) - 1
        if len(own) < 2:
            return torch.full_like(variance, torch.inf)
        r, h = residual[:, own], reader[:, own]
        spread = r.square() @ h.square().t() - (r @ h.t()).square() / len(own)
        variance += spread.clamp(min=0.0) * ((1 - share) * len(own) / (len(own) - 1))
    if free < 10:
        return torch.full_like(variance, torch.inf)
    return variance.sqrt() * float(t.ppf(0.975, free) / NORMAL)


@dataclass(frozen=True)
@checked(ExplainError, samples=Whole(2), paired=Flag(), unbiased=Flag())
class KernelShap(Explainer):
    r"""Shapley values by sampling coalitions.

        min over g(z) = phi_0 + phi @ z  of  sum over z of pi(|z|) (f_x(z) - g(z))^2,  g(0) = f_x(0), g(1) = f_x(1)  (1)

    with pi the Shapley kernel and f_x(z) the score with the features outside z removed. The masks are the same for
    everyone, so one factorisation serves all people, and an attribution does not depend on the other rows of the table.
    base + sum of the values is the output, without error.

    Use it where ExactShapley does not apply: many features and a score whose structure is not known. It samples masks,
    not the background: errors are against the Shapley values over the same stand-in rows. With samples >= 2^m - 2 the
    result is exact, for stand-in rows that are no random draws. It says how f_x answers to features coming and going;
    it is no recourse.

    Where it differs from shap.KernelExplainer: there masks are drawn with replacement and for each person anew, and the
    default keeps only ten features by a lasso (l1_reg); with l1_reg=0 both estimate the same values. link="logit" there
    means the log-odds of the mean probability, which is neither of the two outputs here. One-hot columns are one
    feature here, and as many as there are columns there unless groups are given.

    Parameters
    ----------
    samples : masks asked for each person, besides the empty and the full one.
    removal : what stands in for removed features.
    paired : every mask with its complement, which makes games without interactions of three or more features exact.
    unbiased : use the known normal matrix (Covert and Lee, 2021); unbiased at every budget, with larger errors.

    References
    ----------
    Lundberg, Lee (2017), A unified approach to interpreting model predictions.
    Covert, Lee (2021), Improving KernelSHAP: practical Shapley value estimation using linear regression.
    """

    samples: int = 2048
    removal: Removal = field(default_factory=Background)
    paired: bool = True
    unbiased: bool = False
    space: ClassVar[Space] = "concept"
    kind: ClassVar[Kind] = "contribution"

    def _explain(self, question: ExplanationTask) -> Explained:
        engine = LocalApproximation(
            ShapleySizes(self.samples, self.paired),
            self.removal.operation(question),
            ShapleyKernel(),
            SquaredError(),
            Efficient(self.unbiased),
        )
        fit = engine.fit(question.score, question.x, question.seed)
        fit = replace(fit, exact=fit.exact and not self.removal.drawn)
        return Explained(fit, question.features, fit.intercept, (self.removal.note(question),))
