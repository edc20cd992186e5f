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


def test_gaps_are_refused():
    with pytest.raises(ValueError, match="NaN or an infinity"):
        Estimate.mean(np.array([1.0, np.nan]))
