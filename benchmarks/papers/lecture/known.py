"""Attributions whose numbers are known: each beside its closed form."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from ledger import Outcome

from turnabout.explain.score import Ridge, Score
from turnabout.explain.shapley.games import kernel_matrix, shapley
from turnabout.explain.slopes.smooth import CLime, SmoothGrad
from turnabout.studies.lime_limits import lime_constants, wide_constants

WEIGHTS, BIAS = torch.tensor([1.0, -2.0], dtype=torch.float64), 0.3
SIGMA, POINT = ((0.5, 0.2), (0.2, 0.8)), torch.tensor([[0.4, 0.1]], dtype=torch.float64)


def probit() -> Score:
    def value(x: torch.Tensor) -> torch.Tensor:
        return torch.special.ndtr(x @ WEIGHTS + BIAS)

    return Score(value, ridge=Ridge(WEIGHTS, BIAS, "probit"))


def answers() -> Outcome:
    """Probit, Shapley's weights with and without the slip of the slides, and LIME's constants."""
    out = Outcome()
    exact = SmoothGrad(SIGMA).explain(probit(), POINT).values.to_numpy()[0]
    sampled = CLime(SIGMA, samples=40_000).explain(probit(), POINT)
    for j in range(2):
        out.figures[f"smoothgrad.probit.{j}"] = (float(exact[j]), 1)
        out.figures[f"clime.probit.{j}"] = (float(sampled.values.iloc[0, j]), 1)
    assert sampled.errors is not None
    gap = np.abs(sampled.values.to_numpy()[0] - exact) / sampled.errors.to_numpy()[0]
    out.figures["clime.probit.z"] = (float(gap.max()), 1)

    m = 6
    game = torch.as_tensor(np.random.default_rng(0).standard_normal((1, 2**m)))
    right = shapley(game)[0].numpy()
    out.figures["shapley.slide_error"] = (float(np.abs(_as_printed(game[0].numpy(), m) - right).max()), 1)
    out.figures["kernelshap.off_diagonal"] = (float(kernel_matrix(m)[0, 1]), 1)

    for name, found in (
        ("image", lime_constants(6, 0.25)),
        ("image_wide", lime_constants(8, 10.0)),
        ("image_many", lime_constants(1000, 0.25)),
        ("text_limit", wide_constants(8, "text")),
    ):
        for c in ("c1", "c2", "c3"):
            out.figures[f"lime.{name}.{c}"] = (float(getattr(found, c)), 1)
    return out


def _as_printed(values: np.ndarray, m: int) -> np.ndarray:
    """The weight |z|! (m - |z| - 1)! / m! on f(z) - f(z without i), as the slides print it: off by one."""
    phi = np.zeros(m)
    for i, z in itertools.product(range(m), range(2**m)):
        bit, size = 1 << (m - 1 - i), z.bit_count()  # the first feature is the highest bit
        if z & bit and size < m:
            weight = math.factorial(size) * math.factorial(m - size - 1) / math.factorial(m)
            phi[i] += weight * (values[z] - values[z ^ bit])
    return phi
