"""Perturbations that are no noise: a person's own row, and the straight line to it from a baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from turnabout.errors import ExplainError
from turnabout.explain.engine import Design
from turnabout.explain.score import Score
from turnabout.parameters import Whole, checked
from turnabout.typing import Tensor


@dataclass(frozen=True)
class Nothing:
    """xi = 0: noise in the limit of no noise."""

    def design(self, width: int, rng: np.random.Generator) -> Design:
        return Design(torch.zeros(1, width, dtype=torch.float64), torch.ones(1, dtype=torch.float64), exact=True)


@dataclass(frozen=True)
class Arrival:
    """a = 1: the end of a path, the person's own row."""

    def design(self, width: int, rng: np.random.Generator) -> Design:
        return Design(torch.ones(1, width, dtype=torch.float64), torch.ones(1, dtype=torch.float64), exact=True)


@dataclass(frozen=True)
@checked(ExplainError, nodes=Whole(1, hint="use 64, or more for a crooked score."))
class Uniform:
    """a ~ U(0, 1), by the nodes and weights of Gauss and Legendre: exact for polynomials in a of degree 2 nodes - 1."""

    nodes: int = 64

    def design(self, width: int, rng: np.random.Generator) -> Design:
        if width != 1:
            raise ExplainError(
                f"a place on a path is one number, and {width} were asked for.", hint="use it with Along."
            )
        node, weight = np.polynomial.legendre.leggauss(int(self.nodes))
        return Design(torch.as_tensor((node + 1) / 2).unsqueeze(1), torch.as_tensor(weight / 2))


@dataclass(frozen=True, eq=False)
class Along:
    """Z = b + a (x - b), on the straight line from the baseline b (d,) to the person; gradients: (x - b) * grad f(Z).

    What is attributed to is how far each column has come, so that the mean gradient along the path adds up to
    f(x) - f(b).
    """

    baseline: Tensor

    def width(self, d: int) -> int:
        return 1

    def values(self, score: Score, x: Tensor, xi: Tensor) -> Tensor:
        return score.values(self._points(x, xi))

    def gradients(self, score: Score, x: Tensor, xi: Tensor) -> Tensor:
        return (x - self.baseline).unsqueeze(1) * score.gradients(self._points(x, xi))

    def _points(self, x: Tensor, xi: Tensor) -> Tensor:
        """(n, d), (s, 1) -> (n, s, d)."""
        return self.baseline + xi * (x - self.baseline).unsqueeze(1)
