"""Masks of concepts: their laws, all of them, and the weight of each.

A mask z in {0, 1}^m keeps (1) or removes (0) concepts. Near masks count more:

    pi(z) = exp(-dist(z, 1)^2 / (2 width^2)),    dist(z, 1) = 1 - sqrt(share kept)                                  (1)

The reference writes sqrt(exp(-dist^2 / width^2)), which is the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from turnabout.errors import ExplainError
from turnabout.explain.engine import Design
from turnabout.explain.shapley.games import coalitions
from turnabout.typing import Tensor

Law = Literal["image", "text"]

MOST = 18  # concepts whose 2^m masks are asked one by one


def log_kernel(share: np.ndarray, width: float) -> np.ndarray:
    """log pi of (1), for shares of removed concepts."""
    return -0.5 * ((1 - np.sqrt(np.clip(1 - share, 0, 1))) / width) ** 2


def log_size_law(d: int, law: Law) -> np.ndarray:
    """(d + 1,) log-probabilities that s of d concepts are removed."""
    s = np.arange(d + 1)
    if law == "text":
        return np.where(s > 0, -math.log(d), -np.inf)
    steps = np.concatenate([[0.0], np.log((d - s[1:] + 1) / s[1:])])
    return np.cumsum(steps) - d * math.log(2)


def draw_masks(m: int, n: int, law: Law, rng: np.random.Generator) -> np.ndarray:
    """(n, m) masks of 0 and 1."""
    if law == "image":
        return rng.integers(0, 2, (n, m)).astype(np.float64)
    removed = rng.integers(1, m + 1, n)
    rank = rng.random((n, m)).argsort(1).argsort(1)
    return (rank >= removed[:, None]).astype(np.float64)


@dataclass(frozen=True)
class RandomMasks:
    """Random masks, after one that keeps everything.

    Images: every concept by a fair coin. Texts: first how many words are removed, uniform from 1 up, then which.
    """

    samples: int
    law: Law = "image"

    def design(self, width: int, rng: np.random.Generator) -> Design:
        drawn = draw_masks(width, self.samples - 1, self.law, rng)
        xi = torch.from_numpy(np.concatenate([np.ones((1, width)), drawn]))
        return Design(xi, torch.ones(len(xi), dtype=torch.float64))


@dataclass(frozen=True)
class EveryMask:
    """All 2^m masks with their probabilities; m <= 18."""

    law: Law = "image"

    def design(self, width: int, rng: np.random.Generator) -> Design:
        if width > MOST:
            raise ExplainError(f"{width} concepts have 2^{width} masks.", hint=f"exact=True serves up to {MOST}.")
        masks = coalitions(width).numpy()
        log_one_of = np.array([math.log(math.comb(width, s)) for s in range(width + 1)])
        mass = np.exp(log_size_law(width, self.law) - log_one_of)[(width - masks.sum(1)).astype(int)]
        return Design(torch.from_numpy(masks), torch.from_numpy(mass), exact=True)


@dataclass(frozen=True)
class CosineKernel:
    """(1), by the cosine distance of a mask to the full one; the empty mask, where that is 0 / 0, is at distance 1."""

    width: float = 0.25

    def __call__(self, xi: Tensor) -> Tensor:
        removed = 1 - xi.mean(1).numpy()
        weight = np.exp(log_kernel(removed, self.width))
        if not weight[removed > 0].any() and (removed > 0).any():
            raise ExplainError(
                f"width={self.width!r} gives weight 0 to every mask but the full one.", hint="the reference uses 0.25."
            )
        return torch.from_numpy(weight)
