"""LIME for tables: which features speak for the answer, batched over people (Ribeiro, Singh, Guestrin, 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from turnabout.core.attribution import Kind
from turnabout.errors import ExplainError
from turnabout.explain.engine import Fit, join
from turnabout.explain.explainer import Explained, Explainer, ExplanationTask
from turnabout.explain.lime.common import batched_fit, lone_notes, warn_of_selection
from turnabout.explain.lime.draws import LimeDraws, NormalFeature, Part, parts_of
from turnabout.parameters import Choice, Finite, Flag, Maybe, Positive, Whole, checked
from turnabout.typing import Tensor

Around = Literal["person", "mean"]

HELD = 1 << 19  # numbers held at a time: people x samples x features; few enough for the cache
SLOPES = (
    "values of numbers are slopes per deviation of the background, those of levels are against the other levels; they "
    "do not add up to the score."
)  # fmt: skip


@dataclass(frozen=True)
@checked(
    ExplainError,
    discretize=Flag(),
    around=Choice("person", "mean"),
    samples=Whole(2),
    width=Maybe(Positive(hint="None is 0.75 sqrt(number of features).")),
    ridge=Finite(least=0, hint="the reference uses 1.0."),
    select=Maybe(Whole(1, hint="use None for all features.")),
)
class LimeTable(Explainer):
    r"""Weighted ridge regression of the score on features of random people, nearer ones counting more.

        min over (a, theta)   sum_i pi_i (f(Z_i) - a - theta @ z_i)^2 + ridge |theta|^2
        pi_i = exp(-|z_i - z(x)|^2 / (2 width^2)),    x itself comes first                                          (1)

    Discretized: numbers fall into quartile bins; the levels of other features are bins already; z_ij = 1 if feature j
    of Z_i is in the bin of x. Bins are drawn from their frequencies in the background, numbers from the truncated
    normal of the bin. theta_j is what the bin of x adds to the score against the other bins.
    Continuous: z_ij is the number in deviations of the background, with Gaussian draws, and theta_j a slope per
    deviation; features with levels, and numbers that may be missing, stay as above.

    `around` says where the draws lie. "person", our default: a feature drawn in the bin of x takes the value of x, so
    that z = 1 is the person's own row; Gaussian draws are centered on x. That asks people * samples rows. "mean", the
    reference: draws are the same for everyone, which asks samples + people rows in all; a feature in the bin of x has
    some value of that bin, and Gaussian draws are centered on the mean, however far away x is.

    `LimeTable.reference()` has the reference's defaults. With its draws and weights the fits are equal; with our own
    they agree within standard errors. One thing differs: where a bin is a single value, that value is drawn, while the
    reference gives the value's distance from the bin's mean, which is 0.

    Errors are those of the ridge fit about its expectation: the bias of the ridge is not in them. It falls like
    ridge / samples, but not where no draw falls into the bin of x (a level or a missing cell that the background does
    not have): that theta rests on the row of x alone, and a ridge of 1 leaves at most half of it however many samples
    there are. A note says so, and it has no error. theta is a smoothed association of the score, not what a person
    should do.

    Parameters
    ----------
    discretize : bins for numbers, or deviations.
    around : "person" or "mean".
    samples : draws, x itself counted; the same for all people.
    width : of the kernel; None is 0.75 sqrt(number of features).
    ridge : weight of |theta|^2.
    select : keep so many features of each person, as the reference chooses them: up to 6 by forward selection, more by
        largest weight. This breaks linearity in the score, and warns.

    References
    ----------
    Ribeiro, Singh, Guestrin (2016), "Why should I trust you?": explaining the predictions of any classifier.
    """

    discretize: bool = True
    around: Around = "person"
    samples: int = 5000
    width: float | None = None
    ridge: float = 1.0
    select: int | None = None

    space: ClassVar[Any] = "concept"

    @property
    def kind(self) -> Kind:
        """Contributions of bins, or slopes."""
        return "contribution" if self.discretize else "slope"

    def unit(self, question: ExplanationTask) -> str | None:
        return None if self.discretize else "per deviation of the background"

    @classmethod
    def reference(
        cls, discretize: bool = True, samples: int = 5000, ridge: float = 1.0, select: int | None = 10
    ) -> LimeTable:
        """The reference's defaults: the same draws for everyone, and ten features."""
        return cls(discretize=discretize, around="mean", samples=samples, ridge=ridge, select=select)

    def _explain(self, question: ExplanationTask) -> Explained:
        if question.background is None:
            raise ExplainError("LimeTable draws from a background.", hint="pass background=training people.")
        names = question.features
        notes = warn_of_selection(self.select, len(names))
        width = 0.75 * math.sqrt(len(names)) if self.width is None else self.width
        parts = parts_of(question.schema, question.background, self.discretize)
        draws = LimeDraws.of(parts, self.samples - 1, np.random.default_rng(question.seed))
        shared = question.score.values(draws.values) if self.around == "mean" else None
        held = self.samples * (len(names) if shared is not None else question.x.shape[1])
        fits, lone = [], []
        for x in question.x.split(max(1, HELD // held)):
            fit, alone = self._fit(question, parts, draws, shared, x, float(width))
            fits.append(fit)
            lone.append(alone)
        fit = join(fits, question.x)
        notes = (*notes, *lone_notes(torch.cat(lone), names, self.ridge))
        if self.discretize:
            return Explained(fit, names, fit.intercept, notes)
        return Explained(fit, names, None, (*notes, SLOPES))

    def _fit(
        self,
        question: ExplanationTask,
        parts: list[Part],
        draws: LimeDraws,
        shared: Tensor | None,
        x: Tensor,
        width: float,
    ) -> tuple[Fit, Tensor]:
        """The fit for some people (k, d), and which of their bins no draw has, (k, m)."""
        own = torch.stack([part.place(x) for part in parts], 1)  # (k, m) bins, or deviations
        is_bin = torch.tensor([not isinstance(part, NormalFeature) for part in parts])
        same = draws.places == own.unsqueeze(2)  # (k, m, s - 1)
        center = 0.0 if shared is not None else own.unsqueeze(2)
        z = torch.empty(len(x), len(parts), self.samples, dtype=torch.float64)
        z[..., 0] = torch.where(is_bin, 1.0, own)
        if bool(is_bin.all()):
            z[..., 1:] = same
            far = len(parts) - z.sum(1)
        else:
            z[..., 1:] = torch.where(is_bin[:, None], same.to(z.dtype), center + draws.places)
            far = (z - z[..., :1]).square_().sum(1)
        if shared is None:
            others = question.score.values(_around(parts, draws, same, x))
        else:
            others = shared.expand(len(x), -1)
        values = torch.cat([question.score.values(x).unsqueeze(1), others], 1)
        omega = torch.exp(far / (-2 * width**2))  # (1)
        if bool((omega[:, 1:] == 0).all(1).any()):
            raise ExplainError(
                f"width={width:g} gives weight 0 to every draw, for some person.",
                hint='use a wider kernel, or around="person".',
            )
        fit = batched_fit(z, omega, values, self.ridge, self.select, z[..., 0])
        lone = is_bin & ~same.any(2)
        assert fit.error is not None
        return replace(fit, error=fit.error.masked_fill(lone, torch.nan)), lone


def _around(parts: list[Part], draws: LimeDraws, same: Tensor, x: Tensor) -> Tensor:
    """Points (k, s - 1, d) drawn around each of k people."""
    points = draws.values.expand(len(x), -1, -1).clone()
    for j, part in enumerate(parts):
        here = x[:, None, part.columns]
        if isinstance(part, NormalFeature):
            points[..., part.columns] = here + draws.places[j, :, None] * part.spread
        else:
            points[..., part.columns] = torch.where(same[:, j, :, None], here, draws.values[:, part.columns])
    return points
