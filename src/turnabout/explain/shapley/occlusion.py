"""Occlusion: what the score loses when one feature is removed (leave one out)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch

from turnabout.core.attribution import Kind, Space
from turnabout.explain.engine import Alike, Design, Fit, LocalApproximation, SquaredError, inverse_gram
from turnabout.explain.explainer import Explained, Explainer, ExplanationTask
from turnabout.explain.shapley.coalitions import OneOut
from turnabout.explain.shapley.remove import Background, Removal
from turnabout.typing import Tensor


@dataclass(frozen=True)
class Anchored:
    """g(z) = v(all) - slope @ (1 - z): through the full mask, which is the first row; else by least squares."""

    def fit(self, design: Design, omega: Tensor, values: Tensor, ridge: float) -> Fit:
        out = 1 - design.xi[1:]
        weighted = out * omega[1:].unsqueeze(1)
        inverse = inverse_gram(weighted.t() @ out + ridge * torch.eye(out.shape[1], dtype=torch.float64))
        lost = values[:, :1] - values[:, 1:]
        return Fit(lost @ weighted @ inverse, None, None, design.exact)


@dataclass(frozen=True)
class Occlusion(Explainer):
    r"""What the score loses without each feature.

        phi_i = f_x(all) - f_x(all but i)                                                                           (1)

    Fast, m + 1 masks, and exact for the stand-in rows used. Two features that can replace each other both get nothing,
    and the values do not add up to the score: see ExactShapley.

    Parameters
    ----------
    removal : what stands in for removed features.

    References
    ----------
    Zeiler, Fergus (2014), Visualizing and understanding convolutional networks. Covert, Lundberg, Lee (2021),
    Explaining by removing.
    """

    removal: Removal = field(default_factory=Background)
    space: ClassVar[Space] = "concept"
    kind: ClassVar[Kind] = "contribution"

    def _explain(self, question: ExplanationTask) -> Explained:
        operation = self.removal.operation(question)
        engine = LocalApproximation(OneOut(), operation, Alike(), SquaredError(), Anchored())
        fit = engine.fit(question.score, question.x, question.seed)
        fit = replace(fit, exact=not self.removal.drawn)
        return Explained(fit, question.features, notes=(self.removal.note(question),))
