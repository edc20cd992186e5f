"""A number with its interval, by hand."""

import numpy as np
import pytest

from turnabout.audit.estimate import Estimate


def test_mean_of_three_by_hand():
    # mean 2, sd 1, Student's 97.5 % quantile with 2 degrees of freedom is 4.302653
    estimate = Estimate.mean(np.array([1.0, 2.0, 3.0]))
    assert estimate.value == 2.0 and estimate.n == 3
    assert estimate.high - 2.0 == pytest.approx(4.302653 / 3**0.5, abs=1e-6)
    assert str(estimate) == "2 [-0.4841, 4.484]"


def test_nobody_and_one():
    assert Estimate.mean(np.array([])).to_dict() == {"value": None, "low": None, "high": None, "n": 0}
    assert Estimate.mean(np.array([3.0])) == Estimate(3.0, None, None, 1)
    assert "unknown" in str(Estimate.mean(np.array([])))


def test_equal_numbers_have_no_interval():
    assert Estimate.mean(np.full(9, 0.25)) == Estimate(0.25, None, None, 9)


def test_share_by_hand():
    # 3 of 20: n p (1 - p) over the variance is 19, and Wilson's interval of 0.15 after 19 people
    z, m, p = 1.959964, 19, 0.15
    half = z * (p * (1 - p) / m + z**2 / (4 * m**2)) ** 0.5
    ends = [(p + z**2 / (2 * m) + side * half) / (1 + z**2 / m) for side in (-1, 1)]
    share = Estimate.share(np.arange(20) < 3)
    assert (share.value, share.n) == (0.15, 20) and [share.low, share.high] == pytest.approx(ends)
    # 1/4 and 3/4, ten of each: m = 20 (1/4) / (1/16 * 20/19) = 76, with Student's 2.093024
    m, t = 76, 2.093024
    half = t * (0.25 / m + t**2 / (4 * m**2)) ** 0.5 / (1 + t**2 / m)
    share = Estimate.share(np.array([0.25, 0.75] * 10))
    assert (share.low, share.high) == (pytest.approx(0.5 - half), pytest.approx(0.5 + half))


def test_share_of_those_who_agree_keeps_a_width():
    assert Estimate.share(np.zeros(20)).high == pytest.approx(1.959964**2 / (20 + 1.959964**2))
    tenth = Estimate.share(np.full(30, 0.1))
    assert tenth.low < 0.05 and tenth.high > 0.2
    ones = Estimate.share(np.ones(30))
    assert ones.value == ones.high == 1.0
    assert Estimate.share(np.array([1.0 + 1e-15])) == Estimate(1.0, None, None, 1)
    assert Estimate.share(np.zeros(0)) == Estimate(None, None, None, 0)


@pytest.mark.parametrize("values", [[0.5, np.nan], [1.5], [-0.1]])
def test_what_is_no_share_is_refused(values):
    with pytest.raises(ValueError, match="no shares"):
        Estimate.share(np.array(values))


def test_gaps_are_refused():
    with pytest.raises(ValueError, match="NaN or an infinity"):
        Estimate.mean(np.array([1.0, np.nan]))
