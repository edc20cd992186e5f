"""P(repays): calibrated, cross-fitted, and known only where there are people."""

import numpy as np
import pytest
import torch
from sklearn.isotonic import isotonic_regression

from turnabout.audit.risk.calibration import CalibrationError, VennAbers, cross_fitted
from turnabout.audit.risk.support import support
from turnabout.studies.gaussian.gaussians import Gaussians

STUDY = Gaussians()


def test_venn_abers_is_two_isotonic_regressions():
    rng = np.random.default_rng(0)
    scores = rng.random(900)
    labels = rng.random(900) < scores
    calibrate = VennAbers(scores, labels)
    cell = np.searchsorted(calibrate.cuts, scores, side="right")
    assert 200 < len(np.unique(cell)) <= 256
    for at in (0.0003, 0.3, 0.52, 0.995):
        found = calibrate(np.array([at]))
        ends = []
        for y in (0.0, 1.0):
            cells = np.append(cell, np.searchsorted(calibrate.cuts, at, side="right"))
            _, inverse, size = np.unique(cells, return_inverse=True, return_counts=True)
            good = np.bincount(inverse, np.append(labels, y))
            ends.append(isotonic_regression(good / size, sample_weight=size)[inverse[-1]])
        low, high = ends
        assert (found.low[0], found.high[0]) == pytest.approx((low, high), abs=1e-12)
        assert found.value[0] == pytest.approx(high / (1 - low + high))
        assert low <= found.value[0] <= high


def test_fitted_eta_comes_near_the_truth():
    n = 3000
    draw = STUDY.sample(n, seed=1)
    x, landing = (draw.x + 11) / 22, (STUDY.project(draw.x, 0.7) + 11) / 22
    before, after = cross_fitted(x, draw.y, (x, landing), np.arange(n))
    refused = STUDY.margin(draw.x) < 0
    assert np.sqrt(np.mean((before.value - STUDY.eta(draw.x)) ** 2)) < 0.08
    assert after.value[refused].mean() == pytest.approx(0.7, abs=0.06)
    assert ((before.low <= before.value) & (before.value <= before.high)).all()
    found = CalibrationError.of(before.value, draw.y.astype(float), np.ones(n))
    assert found.error < 0.05 and found.above(0.05) == []


def test_own_labels_do_not_speak_on_own_rows():
    """Labels are pure noise: an eta that has seen them would agree with them."""
    rng = np.random.default_rng(0)
    x, y = rng.random((600, 3)), rng.random(600) < 0.5
    (eta,) = cross_fitted(x, y, (x,), np.arange(600))
    assert abs(np.corrcoef(eta.value, y)[0, 1]) < 0.1


def test_calibration_error_by_hand():
    eta = np.repeat([0.2, 0.6], 50)
    labels = np.repeat([0.0, 1.0, 0.0, 1.0], [40, 10, 25, 25])  # 0.2 and 0.5 of them repaid
    found = CalibrationError.of(eta, labels, np.zeros(100))
    assert (found.error, found.bias, found.n) == (pytest.approx(0.05), pytest.approx(0.05), 100)
    # two bins of 50: sqrt(2/pi) (sqrt(50 * 0.16) + sqrt(50 * 0.24)) / 100
    assert found.noise == pytest.approx(np.sqrt(2 / np.pi) * (np.sqrt(8) + np.sqrt(12)) / 100)
    assert found.near_error is None and found.near_n == 0


def test_noise_is_what_chance_makes_of_the_error():
    rng = np.random.default_rng(1)
    eta = rng.random(2000)
    errors = [CalibrationError.of(eta, (rng.random(2000) < eta) * 1.0, np.zeros(2000)).error for _ in range(200)]
    noise = CalibrationError.of(eta, eta, np.zeros(2000)).noise
    assert np.mean(errors) == pytest.approx(noise, rel=0.05)


def test_badly_calibrated_scores_are_told_with_their_error():
    rng = np.random.default_rng(2)
    eta = rng.random(3000)
    labels = (rng.random(3000) < eta**3) * 1.0
    (sentence,) = CalibrationError.of(eta, labels, np.zeros(3000)).above(0.05)
    assert "over all is 0.2" in sentence and "chance alone" in sentence


def test_support_by_hand():
    rows = torch.tensor([[0.0], [0.1], [0.2], [0.3], [1.0]], dtype=torch.float64)
    # distances to the nearest other: 0.1 four times and 0.7
    landings = torch.tensor([[0.35], [0.55], [2.0], [0.0]], dtype=torch.float64)
    found = support(rows, landings, np.array([-1, -1, 0, 0]), quantile=0.75)
    # 0.05, 0.25, 1 and 0.1 away, of which 0.1 is ordinary; their own row at 0 does not count for the last
    assert found.outside.tolist() == [False, True, True, False]
    assert found.nearest.tolist() == [3, 3, 4, 1]


def test_one_in_a_hundred_ordinary_people_is_outside():
    x = torch.as_tensor((STUDY.sample(6000).x + 11) / 22)
    found = support(x[:3000], x[3000:], np.full(3000, -1))
    assert 0.004 < found.outside.mean() < 0.02
    assert support(x[:3000], x[3000:] + 0.5, np.full(3000, -1)).outside.mean() > 0.9
