"""Rows that are alike cannot be told apart; rows that are not, can."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from turnabout.audit.robustness import classifier_two_sample
from turnabout.audit.robustness.ordinary import _one_row_each

SCHEMA = ta.Schema((ta.Number("a", -9, 9), ta.Number("b", -9, 9), ta.Category("c", levels=("x", "y"))))


def draw(n, seed, shift=0.0, start=0):
    rng = np.random.default_rng(seed)
    columns = {"a": rng.normal(size=n) + shift, "b": rng.normal(size=n), "c": rng.choice(["x", "y"], n)}
    return pd.DataFrame(columns, index=range(start, start + n))


def test_alike():
    report = classifier_two_sample(draw(900, 0), draw(900, 1, start=5000), SCHEMA)
    assert set(report.accuracy) == {"network", "forest", "linear"}
    for rate in report.accuracy.values():
        assert abs(rate.value - 0.5) < 0.06 and rate.low < 0.5 < rate.high
    assert not report.told_apart and "0.5 is guessing" in str(report)


def test_apart():
    report = classifier_two_sample(draw(300, 0), draw(300, 1, shift=6.0, start=5000), SCHEMA)
    assert all(rate.value > 0.97 and rate.low > 0.9 for rate in report.accuracy.values()) and report.told_apart


def test_pairs_are_not_torn_apart():
    """Learned halves of pairs give false leads about the other halves: torn pairs would score far below one half."""
    own = draw(600, 0)
    near = own.assign(a=own.a + 1e-6)
    kept = classifier_two_sample(own, near, SCHEMA, kinds=["forest"]).accuracy["forest"]
    torn = classifier_two_sample(own, near.set_axis(near.index + 5000), SCHEMA, kinds=["forest"]).accuracy["forest"]
    assert kept.low < 0.5 < kept.high
    assert torn.high < 0.45


def test_classes_are_balanced_and_no_person_is_tested_twice():
    own, new = draw(400, 0), draw(100, 1)
    first, second = _one_row_each(own, new, np.random.default_rng(0))
    assert len(first) == len(second) > 60
    assert not set(first.index) & set(second.index)
    report = classifier_two_sample(own, new, SCHEMA, kinds=["linear"])
    assert report.learned_on % 2 == 0 and report.tested_on % 2 == 0 and report.tested_on <= 100


def test_options_of_an_answer_and_repeats():
    index = pd.MultiIndex.from_product([range(200), [0, 1]], names=["person", "option"])
    options = draw(400, 1).set_axis(index)
    report = classifier_two_sample(draw(200, 0), options, SCHEMA, seed=3, kinds=["linear"])
    first = options[index.get_level_values("option") == 0].droplevel("option")
    assert report == classifier_two_sample(draw(200, 0), first, SCHEMA, seed=3, kinds=["linear"])
    assert report.to_dict()["accuracy"]["linear"]["n"] == report.tested_on


def test_too_few_rows_are_no_answer():
    report = classifier_two_sample(draw(50, 0), draw(3, 1), SCHEMA)
    assert all(rate.value is None for rate in report.accuracy.values()) and "too few" in str(report)
    assert classifier_two_sample(draw(50, 0), draw(0, 1), SCHEMA).tested_on == 0


def test_errors_say_what_to_do():
    with pytest.raises(ta.TurnaboutError, match="'svm' is no kind"):
        classifier_two_sample(draw(9, 0), draw(9, 1), SCHEMA, kinds=["svm"])
    with pytest.raises(ta.TurnaboutError, match="share the index label 1"):
        classifier_two_sample(draw(9, 0), draw(2, 1).set_axis([1, 1]), SCHEMA)
    odd = draw(4, 0).set_axis(pd.MultiIndex.from_product([[0, 1], [0, 1]]))
    with pytest.raises(ta.TurnaboutError, match="index of the levels"):
        classifier_two_sample(odd, draw(9, 1), SCHEMA)
    with pytest.raises(ta.TurnaboutError, match="seed=-1"):
        classifier_two_sample(draw(9, 0), draw(9, 1), SCHEMA, seed=-1)
