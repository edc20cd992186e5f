"""Intervals against scipy, textbook values and their own coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from turnabout.errors import TurnaboutError
from turnabout.intervals import binomial_cdf, clopper_pearson, lower_bound, mean_interval, upper_bound, wilson


@pytest.mark.parametrize(("k", "n"), [(0, 1), (0, 59), (26, 735), (474, 500), (500, 500), (3, 7)])
def test_intervals_of_a_share_are_those_of_scipy(k, n):
    for confidence in (0.8, 0.95, 0.999):
        exact = stats.binomtest(k, n).proportion_ci(confidence, method="exact")
        assert clopper_pearson(k, n, confidence) == pytest.approx((exact.low, exact.high), abs=1e-10)
        score = stats.binomtest(k, n).proportion_ci(confidence, method="wilson")
        assert wilson(k, n, confidence) == pytest.approx((score.low, score.high), abs=1e-10)
    assert binomial_cdf(k, n, 0.05) == pytest.approx(stats.binom.cdf(k, n, 0.05), rel=1e-10)


def test_one_sided_bounds_solve_their_equation():
    low, high = lower_bound(480, 500, 0.95), upper_bound(480, 500, 0.95)
    assert 1 - binomial_cdf(479, 500, low) == pytest.approx(0.05)
    assert binomial_cdf(480, 500, high) == pytest.approx(0.05)


def test_nothing_counted_says_nothing():
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert wilson(0, 0) == (0.0, 1.0)
    assert binomial_cdf(-1, 5, 0.5) == 0.0 and binomial_cdf(5, 5, 0.5) == 1.0


@pytest.mark.parametrize("p", [0.02, 0.3, 0.95])
def test_the_exact_interval_covers_at_least_as_often_as_it_says(p):
    n = 60
    k = np.arange(n + 1)
    covered = np.array([low <= p <= high for low, high in (clopper_pearson(int(i), n, 0.9) for i in k)])
    assert stats.binom.pmf(k, n, p)[covered].sum() >= 0.9


def test_mean_interval_is_students():
    values = [0.686, 0.687, 0.719]
    low, high = mean_interval(values)
    exact = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    assert (low, high) == pytest.approx(exact)
    assert mean_interval([0.5]) == (-math.inf, math.inf)


def test_errors_say_what_is_wrong():
    with pytest.raises(TurnaboutError, match="6 of 5 is not a share"):
        clopper_pearson(6, 5)
    with pytest.raises(TurnaboutError, match="strictly between 0 and 1"):
        wilson(1, 5, 1.0)
    with pytest.raises(TurnaboutError, match="NaN or an infinity"):
        mean_interval([0.1, math.nan])
    with pytest.raises(TurnaboutError, match=r"confidence=2\.0"):
        clopper_pearson(1, 2, 2.0)
