"""Differences between groups, with the published example of their interval."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from hand import SCHEMA, Raise, linear, table
from turnabout.audit.disparity import Difference, disparity, threshold_at_precision
from turnabout.intervals import Rate
from turnabout.rules import Box


@pytest.fixture(scope="module")
def answer():
    problem = ta.Problem(SCHEMA, linear((0.06, 0.0, 0.0)), rules=[Box({"income": 10})])  # yes from 42 on
    return Raise().fit(problem).find(table([50, 45, 40, 35, 30, 20], 0, index=list("abcdef")))


def test_newcombe_published_example():
    # Newcombe (1998), Statistics in Medicine 17, 873-890, table II: 56/70 - 48/80, method 10: 0.0524 to 0.3339
    difference = Difference.of(Rate.of(56, 70), Rate.of(48, 80))
    assert difference.value == pytest.approx(0.2)
    assert (difference.low, difference.high) == (pytest.approx(0.0524, abs=1e-4), pytest.approx(0.3339, abs=1e-4))
    none = Difference.of(Rate.of(0, 10), Rate.of(0, 20))  # same table: -0.1611 to 0.2775
    assert (none.low, none.high) == (pytest.approx(-0.1611, abs=1e-4), pytest.approx(0.2775, abs=1e-4))


def test_majority_minus_the_others(answer):
    report = disparity(answer, ["w", "w", "w", "w", "o", "o"])
    assert report.of == "w" and report.against is None
    assert report.everyone.value == 1.0 and (report.everyone.first.n, report.everyone.second.n) == (4, 2)
    assert report.refused.value == 1.0 and report.refused.first.n == 2
    assert "w minus everyone else" in str(report) and "+1.000" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["everyone"]["value"] == 1.0


def test_named_groups(answer):
    groups = pd.Series(["w", "u", "w", "u", "o", "w"], index=answer.people.index)
    report = disparity(answer, groups, of="o", against="w")
    assert report.everyone.value == pytest.approx(0 - 2 / 3)
    assert disparity(answer, groups, against="w").of == "u"


def test_one_group_only_is_unknown(answer):
    report = disparity(answer, ["w"] * 6)
    assert report.everyone.value is None and (report.everyone.low, report.everyone.high) == (-1.0, 1.0)
    assert "unknown" in str(report)


def test_threshold_at_precision():
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    truth = np.array([1, 1, 0, 1, 0, 0])  # precision from the top: 1, 1, 2/3, 3/4, 3/5, 1/2
    assert threshold_at_precision(scores, truth, 0.65) == 0.7
    assert threshold_at_precision(scores, truth, 1.0) == 0.8
    assert threshold_at_precision(scores, truth, 0.0) == 0.4
    assert threshold_at_precision(scores, truth == 1, 0.66) == 0.7
    # equal scores stand together: from 0.5 on there are 2 of 4, never 2 of 3
    assert threshold_at_precision([0.9, 0.5, 0.5, 0.5], [1, 1, 0, 0], 0.66) == 0.5


def test_of_equally_near_thresholds_the_lowest_counts():
    rng = np.random.default_rng(0)
    scores = rng.random(5000)
    truth = rng.random(5000) < scores  # precision from t on: (1 + t) / 2, so 0.65 at 0.3
    assert threshold_at_precision(scores, truth) == pytest.approx(0.3, abs=0.04)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda a: disparity(a, ["w"] * 6, of="z"), "nobody belongs to a group 'z'"),
        (lambda a: disparity(a, None), "no groups to compare"),
        (lambda a: disparity(a, ["w", "o"] * 3, of="o", against="o"), "'o' is compared with itself"),
        (lambda a: disparity(a, ["w"] * 6, against="w"), "'w' is compared with itself"),
        (lambda a: threshold_at_precision(["a"], [1]), "not numbers"),
        (lambda a: threshold_at_precision([0.1], [1], precision="a"), "precision='a' is not a number from 0 to 1"),
        (lambda a: threshold_at_precision([0.1], [1, 0]), "1 scores and 2 labels"),
        (lambda a: threshold_at_precision([], []), "0 scores"),
        (lambda a: threshold_at_precision([0.1, np.nan], [1, 0]), "have gaps"),
        (lambda a: threshold_at_precision([0.1], [1], precision=65), "precision=65 is not a number from 0 to 1"),
    ],
)
def test_errors_say_what_to_do(answer, call, text):
    with pytest.raises(ta.TurnaboutError, match=text):
        call(answer)
