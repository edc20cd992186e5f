"""How often do intervals of 95 % hold the truth? Each is measured where the truth is known."""

from __future__ import annotations

import numpy as np
import torch
from ledger import Outcome

from lecture.known import POINT, SIGMA, probit
from turnabout.audit.disparity import Difference
from turnabout.audit.fairness.contrasts import MeanDifference
from turnabout.explain.shapley.coalitions import ShapleySizes
from turnabout.explain.shapley.games import coalition_sizes, shapley
from turnabout.explain.shapley.kernel import Efficient, ShapleyKernel
from turnabout.explain.slopes.smooth import CLime, SmoothGrad
from turnabout.intervals import Rate
from turnabout.studies.gaussian.coverage import risk_coverage
from turnabout.studies.lime_limits import lime_exact, lime_limit
from turnabout.typing import Tensor

WIDTH = 1.959964  # standard errors in half an interval of 95 %


def intervals(repeats: int) -> Outcome:
    """Shares of repeats in which the interval held the truth, and the least and the most of them."""
    out = Outcome()
    found = risk_coverage(n=500, repeats=repeats, bootstrap=1000)
    shares = {f"risk.{name}": float(rate.value or 0.0) for name, rate in found.by_figure.items()}
    shares |= _attributions(repeats) | _groups(repeats)
    for name, share in shares.items():
        out.figures[f"interval.coverage.{name}"] = (share, repeats)
    exact = {name: share for name, share in shares.items() if not name.startswith("conservative.")}
    out.figures["interval.coverage"] = (shares["risk.excess.given"], repeats)
    out.figures["interval.coverage_least"] = (min(exact.values()), repeats)
    out.figures["interval.coverage_most"] = (max(exact.values()), repeats)
    return out


def _attributions(repeats: int) -> dict[str, float]:
    """Standard errors of the sampled attributions, one seed per repeat."""
    return _by_noise(repeats) | {"kernelshap": _kernel_shap(repeats), "lime_limit": _lime_limit(repeats)}


def _by_noise(repeats: int) -> dict[str, float]:
    """SmoothGrad by Stein and C-LIME on the probit, whose gradient is known."""
    truth = SmoothGrad(SIGMA).explain(probit(), POINT).values.to_numpy()
    explainers = {"stein": SmoothGrad(SIGMA, estimator="stein"), "clime": CLime(SIGMA)}
    out = {}
    for name, explainer in explainers.items():
        held = []
        for seed in range(repeats):
            told = explainer.explain(probit(), POINT, seed=seed)
            assert told.errors is not None
            held.append(np.abs(told.values.to_numpy() - truth) <= WIDTH * told.errors.to_numpy())
        out[name] = float(np.mean(held))
    return out


def _game(m: int, order: int) -> Tensor:
    """A random game without interactions beyond an order."""
    values = torch.as_tensor(np.random.default_rng(1).standard_normal(2**m)) * (coalition_sizes(m) <= order)
    for axis in range(m):
        cube = values.reshape(2**axis, 2, -1)
        cube[:, 1] += cube[:, 0]
    return values


def _kernel_shap(repeats: int, m: int = 10, samples: int = 200) -> float:
    game, held = _game(m, 4), []
    truth, powers = shapley(game), 2.0 ** torch.arange(m - 1, -1, -1, dtype=torch.float64)
    for seed in range(repeats):
        design = ShapleySizes(samples, True).design(m, np.random.default_rng(seed))
        omega = design.mass * ShapleyKernel()(design.xi)
        fit = Efficient().fit(design, omega, game[(design.xi @ powers).long()].unsqueeze(0), 0.0)
        assert fit.error is not None
        held.append(((fit.slope - truth).abs() <= WIDTH * fit.error).double().mean())
    return float(torch.stack(held).mean())


def _lime_limit(repeats: int, m: int = 8) -> float:
    game = _game(m, 3).numpy()

    def ask(masks: np.ndarray) -> np.ndarray:
        return game[(np.asarray(masks) @ 2 ** np.arange(m - 1, -1, -1)).astype(int)]

    truth, held = lime_exact(ask, m).values, []
    for seed in range(repeats):
        found = lime_limit(ask, m, 1000, seed=seed)
        assert found.errors is not None
        held.append(np.abs(found.values - truth) <= WIDTH * found.errors)
    return float(np.mean(held))


def _groups(repeats: int) -> dict[str, float]:
    """Intervals of the comparison of groups: 60 people beside 200, shares of 0.75 and 0.6, skewed costs."""
    rng = np.random.default_rng(1)
    held: dict[str, list[bool]] = {name: [] for name in ("share_difference", "mean", "mean_difference")}
    held["conservative.share"] = []
    for _ in range(repeats):
        first, second = (Rate.among(rng.random(n) < p) for n, p in ((60, 0.75), (200, 0.6)))
        gap = Difference.of(first, second)
        held["share_difference"].append(gap.low <= 0.15 <= gap.high)
        held["conservative.share"].append(first.low <= 0.75 <= first.high)
        means = MeanDifference.of(rng.gamma(3, 1, 60), rng.gamma(2, 1, 200))
        held["mean_difference"].append(means.low <= 1.0 <= means.high)
        held["mean"].append(means.first.low <= 3.0 <= means.first.high)
    return {f"groups.{name}" if "." not in name else name: float(np.mean(each)) for name, each in held.items()}
