"""Gaussian noise that is added to a person's row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from turnabout.errors import ExplainError
from turnabout.explain.engine import Design
from turnabout.explain.score import Score
from turnabout.parameters import Whole, checked
from turnabout.typing import Tensor

PAIRS = Whole(2, even=True, hint="draws come in pairs: use an even number, like 1000.")
Spread = float | Sequence[float] | Sequence[Sequence[float]]


@dataclass(frozen=True)
@checked(ExplainError, samples=PAIRS)
class Gaussian:
    """xi ~ N(0, Sigma), drawn in pairs e, -e.

    Parameters
    ----------
    spread : one deviation for every column, one for each, or the covariance matrix Sigma.
    samples : how many draws, both of a pair counted.
    """

    spread: Spread = 0.1
    samples: int = 1000

    def covariance(self, d: int) -> Tensor:
        """Sigma (d, d)."""
        return covariance_of(self.spread, d)

    def design(self, width: int, rng: np.random.Generator) -> Design:
        root = torch.linalg.cholesky(self.covariance(width))
        half = torch.as_tensor(rng.standard_normal((self.samples // 2, width))) @ root.t()
        xi = torch.stack([half, -half], 1).reshape(-1, width)
        return Design(xi, torch.ones(len(xi), dtype=torch.float64), paired=True)


def covariance_of(spread: Spread, d: int) -> Tensor:
    """Sigma (d, d), positive definite, from one deviation, d of them, or Sigma itself."""
    try:
        given = np.asarray(spread, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.full(3, np.nan).reshape(1, 1, 3)
    if given.ndim == 0 or given.shape == (d,):
        sigma = np.diag(np.broadcast_to(given, (d,)) ** 2)
        good = bool((np.diag(sigma) > 0).all()) and bool((given > 0).all())
    else:
        sigma = given
        good = given.shape == (d, d) and np.allclose(given, given.T) and bool(np.isfinite(given).all())
        if good:
            least, *_, most = np.linalg.eigvalsh(given) if d > 1 else (given.item(), given.item())
            good = bool(least > 1e-13 * abs(most))  # else no Cholesky factor
    if not good or not np.isfinite(sigma).all():
        raise ExplainError(
            f"spread={spread!r} is no deviation above 0, no {d} of them, and no covariance matrix.",
            hint="use a number such as 0.1, one number for each column, or a positive definite matrix.",
        )
    return torch.as_tensor(sigma.copy())


@dataclass(frozen=True)
class Add:
    """Z = x + xi."""

    def width(self, d: int) -> int:
        return d

    def values(self, score: Score, x: Tensor, xi: Tensor) -> Tensor:
        return score.values(x.unsqueeze(1) + xi)

    def gradients(self, score: Score, x: Tensor, xi: Tensor) -> Tensor:
        return score.gradients(x.unsqueeze(1) + xi)
