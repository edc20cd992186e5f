"""The rank behind the guarantee, on published numbers and by simulation; the best threshold by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from turnabout.errors import TrainingError
from turnabout.intervals import binomial_cdf
from turnabout.train.calibrate import pac_threshold
from turnabout.train.thresholds import best_threshold, just_below, pac_rank, rows_needed


@pytest.mark.parametrize(("n", "k"), [(58, None), (59, 0), (100, 1), (500, 16), (735, 26), (1583, 64), (6012, 272)])
def test_rank_at_five_percent(n, k):
    assert pac_rank(n, 0.05, 0.05) == k


def test_rank_at_a_quarter():
    assert pac_rank(6012, 0.25, 0.25) == 1479


@pytest.mark.parametrize(("n", "failure"), [(100, 0.0371), (500, 0.0343), (735, 0.0363), (6012, 0.0465)])
def test_failure_probability(n, failure):
    assert pac_threshold(np.linspace(0, 1, n)).failure == pytest.approx(failure, abs=5e-5)


@pytest.mark.parametrize("levels", [(0.05, 0.05), (0.25, 0.1), (0.01, 0.001), (0.5, 0.9)])
def test_rank_is_the_largest_that_keeps_alpha(levels):
    epsilon, alpha = levels
    for n in (1, 7, 60, 459, 1000):
        allowed = [k for k in range(n) if stats.binom.cdf(k, n, epsilon) <= alpha]
        assert pac_rank(n, epsilon, alpha) == max(allowed, default=None)


@pytest.mark.parametrize("levels", [(0.05, 0.05), (0.1, 0.1), (0.25, 0.25), (0.01, 0.05), (0.5, 0.9)])
def test_rows_needed_is_the_least_that_allows_a_promise(levels):
    n = rows_needed(*levels)
    assert pac_rank(n, *levels) is not None and pac_rank(n - 1, *levels) is None


def test_fifty_nine_people_are_needed():
    assert rows_needed(0.05, 0.05) == 59


@pytest.mark.parametrize("n", [100, 500, 735, 6012])
def test_guarantee_fails_as_often_as_computed(n):
    rng = np.random.default_rng(n)
    k = pac_rank(n)
    thresholds = np.concatenate([np.partition(rng.random((500, n)), k)[:, k] for _ in range(8)])
    assert len(thresholds) == 4000
    # of uniform scores, the share below a threshold is the threshold itself
    assert (thresholds > 0.05).mean() == pytest.approx(binomial_cdf(k, n, 0.05), abs=0.012)


@pytest.mark.parametrize("levels", [2, 10, 21, 100])
def test_ties_never_hurt(levels):
    rng = np.random.default_rng(levels)
    n, draws = 300, 2000
    scores = rng.integers(0, levels, (draws, n)) / levels
    k = pac_rank(n)
    thresholds = np.partition(scores, k)[:, k]
    failed = (thresholds > 0.05 + 1e-12).mean()  # P(score < i / levels) = i / levels
    assert failed <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / draws)
    assert just_below(thresholds[0]) == pac_threshold(scores[0]).threshold


def test_levels_outside_the_unit_interval_are_refused():
    for epsilon, alpha, name in (
        (0.0, 0.05, "epsilon"),
        (0.05, 1.0, "alpha"),
        (95, 0.05, "epsilon"),
        (0.05, True, "alpha"),
    ):
        with pytest.raises(TrainingError, match=f"{name}=.* is not a number strictly between 0 and 1"):
            pac_rank(100, epsilon, alpha)
    with pytest.raises(TrainingError, match="n=-1 is not a whole number from 0 up"):
        pac_rank(-1)


# -- the best threshold -----------------------------------------------------------------------------------------------


def f1(scores, accepted, threshold):
    said = scores >= threshold
    return 2 * (said & accepted).sum() / max(1, said.sum() + accepted.sum())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("measure", ["f1", "accuracy"])
def test_best_threshold_beats_every_other(seed, measure):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 30, 80) / 30
    accepted = rng.random(80) < scores
    value = {"f1": f1, "accuracy": lambda s, y, t: ((s >= t) == y).mean()}[measure]
    for at_most in (1.0, 0.4, 0.05):
        best = best_threshold(scores, accepted, at_most, measure=measure)
        assert best <= at_most
        others = [value(scores, accepted, t) for t in np.linspace(0, at_most, 301)]
        assert value(scores, accepted, best) >= max(others) - 1e-12


def test_best_threshold_on_a_grid():
    scores, accepted = np.array([0.1, 0.35, 0.65, 0.8]), np.array([False, False, True, True])
    assert best_threshold(scores, accepted, grid=10) == pytest.approx(0.4)
    assert best_threshold(scores, accepted, at_most=0.5, grid=5) == pytest.approx(0.4)
    assert best_threshold(scores, accepted, grid=[0.2, 0.45, 0.7]) == 0.45
    assert best_threshold(scores, accepted) == just_below(0.65) == 0.649999999999
    assert best_threshold(scores, np.zeros(4, bool), measure="accuracy") == 1.0  # refuse everyone


def test_best_threshold_is_never_exactly_somebodys_score():
    rng = np.random.default_rng(0)
    for scores in (rng.random(50), rng.integers(1, 20, 50) / 20, rng.normal(size=50)):
        best = best_threshold(scores, rng.random(50) < 0.5)
        assert np.abs(scores - best).min() > 1e-13 * abs(best)
        assert best_threshold(scores, rng.random(50) < 0.5, at_most=best) <= best
    assert best_threshold([0.2, 0.4, 0.6], [0, 1, 1], grid=[0.4]) < 0.4 - 1e-13
    assert best_threshold([0.2, 0.4, 0.6], [0, 1, 1], at_most=just_below(0.4)) == just_below(0.4)


@pytest.mark.parametrize("score", [1.0, 0.5, 0.1 + 0.2, 1e-300, 123456.789, -0.25, 1 / 3])
def test_just_below_is_a_hair_lower(score):
    assert 1e-12 <= (score - just_below(score)) / abs(score) * (1 + 1e-3) < 2e-11
    assert just_below(0.0) == 0.0


def test_best_threshold_explains_itself():
    scores, accepted = np.array([0.1, 0.9]), np.array([0, 1])
    with pytest.raises(TrainingError, match="accepted must say yes or no for each of the 2 scores"):
        best_threshold(scores, [0, 2])
    with pytest.raises(TrainingError, match="measure='recall' is not one of 'f1', 'accuracy'"):
        best_threshold(scores, accepted, measure="recall")
    with pytest.raises(TrainingError, match=r"no threshold of the grid is at most 0\.2"):
        best_threshold(scores, accepted, at_most=0.2, grid=[0.5])
    with pytest.raises(TrainingError, match="grid=0 steps is no grid"):
        best_threshold(scores, accepted, grid=0)
    with pytest.raises(TrainingError, match="no threshold to choose with 0 scores"):
        best_threshold([], np.zeros(0, bool))
