"""Shares of people with recourse, counted by hand."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from hand import SCHEMA, Raise, linear, table
from turnabout.audit import recourse_rates
from turnabout.intervals import Rate, clopper_pearson
from turnabout.rules import Box


@pytest.fixture(scope="module")
def answer():
    # yes from 0.06 income - 2.5 >= 0, that is from 42 on; a raise of 10 helps from 32 on
    problem = ta.Problem(SCHEMA, linear((0.06, 0.0, 0.0)), rules=[Box({"income": 10})])
    people = table([50, 45, 40, 35, 30, 20], 0, index=list("abcdef"))
    answer = Raise().fit(problem).find(people)
    counted = {name: n for name, n in answer.counts().items() if n}
    assert counted == {"ACCEPTED": 2, "FOUND": 2, "NOT_FOUND": 2}
    return answer


def test_shares_by_hand(answer):
    rates = recourse_rates(answer)
    assert (rates.refused.value, rates.refused.hits, rates.refused.n) == (0.5, 2, 4)
    assert (rates.everyone.value, rates.everyone.hits, rates.everyone.n) == (4 / 6, 4, 6)
    assert (rates.refused.low, rates.refused.high) == clopper_pearson(2, 4)
    assert rates.by_group == {}


def test_groups_by_index_or_by_place(answer):
    labels = pd.Series({"f": "y", "e": "y", "d": "x", "c": "x", "b": "x", "a": "y"})
    by_index, by_place = (recourse_rates(answer, g).by_group for g in (labels, ["y", "x", "x", "x", "y", "y"]))
    assert by_index == by_place
    assert by_index["x"].refused.value == 1.0 and by_index["x"].everyone.value == 1.0
    assert by_index["y"].refused.value == 0.0 and by_index["y"].everyone.value == pytest.approx(1 / 3)


def test_groups_by_mapping_are_by_person(answer):
    labels = {"f": "y", "e": "y", "d": "x", "c": "x", "b": "x", "a": "y"}
    assert recourse_rates(answer, labels).by_group == recourse_rates(answer, pd.Series(labels)).by_group


def test_labels_that_cannot_be_ordered_are_groups_all_the_same(answer):
    by_group = recourse_rates(answer, [(1, "x"), ("x", 1)] * 3).by_group
    assert {label: rates.everyone.n for label, rates in by_group.items()} == {(1, "x"): 3, ("x", 1): 3}


def test_empty_group_is_unknown(answer):
    labels = pd.Categorical(["x"] * 6, categories=["x", "nobody"])
    empty = recourse_rates(answer, pd.Series(labels, index=answer.people.index)).by_group["nobody"]
    assert empty.everyone == Rate(None, 0.0, 1.0, 0, 0)
    assert "nobody to count" in str(empty.everyone)


def test_nobody_refused(answer):
    problem = ta.Problem(SCHEMA, linear((0.06, 0.0, 0.0), bias=9.0))
    rates = recourse_rates(Raise().fit(problem).find(answer.people))
    assert rates.refused.value is None and rates.everyone.value == 1.0


def test_written_and_tidy(answer):
    rates = recourse_rates(answer, ["x", "y"] * 3)
    assert "0.667" in str(rates) and "4 of 6" in str(rates) and "x: refused" in str(rates)
    assert json.loads(json.dumps(rates.to_dict()))["by_group"]["x"]["everyone"]["n"] == 3
    frame = rates.to_frame()
    assert list(frame.columns) == ["group", "metric", "value", "low", "high", "n"] and len(frame) == 6


def test_share_of_draws_keeps_an_interval_over_people():
    rate = Rate.among([1.0, 0.75, 0.5, 1.0])
    assert rate.value == pytest.approx(3.25 / 4) and rate.n == 4
    assert rate.low == clopper_pearson(3, 4)[0] and rate.high == 1.0


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        (["x"], "1 group labels for 6 people"),
        (["x", None] * 3, "'b' belongs to no group"),
        (pd.Series(["x"], index=["a"]), "has no group label"),
        (pd.Series(["x", "y"], index=["a", "a"]), "two group labels share"),
        ({"a": "x", "b": "y"}, "'c' has no group label"),
        ("abcdef", "gives no label per person"),
        (6, "gives no label per person"),
        (pd.DataFrame({"sex": ["x"] * 6}), "gives no label per person"),
        ([{}] * 6, "cannot be told apart"),
        (np.zeros((6, 2)), "groups have the shape"),
    ],
)
def test_labels_that_do_not_fit(answer, groups, text):
    with pytest.raises(ta.TurnaboutError, match=text):
        recourse_rates(answer, groups)


def test_groups_with_the_same_text_are_not_lost(answer):
    rates = recourse_rates(answer, [1, "1"] * 3)
    assert len(rates.to_frame()) == 6
    with pytest.raises(ta.TurnaboutError, match="two have the same text"):
        rates.to_dict()


@pytest.mark.parametrize("values", [[0.5, float("nan")], [0.5, 2.0], [-0.1], ["a"], [None]])
def test_what_is_no_share_has_no_rate(values):
    with pytest.raises(ta.TurnaboutError, match="no shares"):
        Rate.among(values)
