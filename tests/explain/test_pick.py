"""SP-LIME: the known example, and the guarantee of the greedy choice."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import turnabout as ta
from turnabout.errors import ExplainError
from turnabout.explain.trust.pick import pick

TOY = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 1, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 1, 1]], dtype=float)


def coverage(weights: np.ndarray, rows: tuple[int, ...]) -> float:
    importance = np.sqrt(np.abs(weights).sum(0))
    return float(importance[(np.abs(weights[list(rows)]) > 0).any(0)].sum())


def test_the_toy_example():  # check 18
    found = pick(TOY, budget=2)
    assert found.importance.tolist() == pytest.approx([1, 2, math.sqrt(2), 1, 1])
    assert found.positions == (1, 4)  # rows 2 and 5
    assert set(found.importance.index) - set(found.covered) == {"x0"}
    assert found.share == pytest.approx((4 + math.sqrt(2)) / (5 + math.sqrt(2)))


def test_signs_do_not_matter():
    assert pick(-TOY, budget=2).positions == (1, 4)


@given(
    weights=arrays(
        np.float64,
        st.tuples(st.integers(1, 7), st.integers(1, 5)),
        elements=st.sampled_from([0.0, 0.0, 1.0, -2.0, 0.5]),
    ),
    budget=st.integers(1, 4),
)
def test_greedy_reaches_its_share_of_the_best(weights, budget):
    found = pick(weights, budget=budget)
    best = max(
        coverage(weights, rows) for rows in itertools.combinations(range(len(weights)), min(budget, len(weights)))
    )
    assert coverage(weights, found.positions) >= (1 - 1 / math.e) * best - 1e-12
    everyone = coverage(weights, tuple(range(len(weights))))
    if everyone:
        assert found.share == pytest.approx(coverage(weights, found.positions) / everyone)
    else:
        assert found.share is None


@given(
    weights=arrays(
        np.float64, st.tuples(st.integers(1, 8), st.integers(1, 5)), elements=st.sampled_from([0.0, 1.0, 3.0])
    )
)
def test_the_lazy_choice_is_the_plain_one(weights):
    chosen: list[int] = []
    while len(chosen) < 3:
        gains = [
            round(coverage(weights, (*chosen, i)) - coverage(weights, tuple(chosen)), 9) for i in range(len(weights))
        ]
        if max(gains) <= 0:
            break
        chosen.append(int(np.argmax(gains)))
    assert list(pick(weights, budget=3).positions) == chosen


def test_it_stops_when_nothing_is_added():
    assert pick(np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), budget=3).positions == (0,)
    nothing = pick(np.zeros((3, 2)), budget=2)
    assert nothing.positions == () and nothing.share is None and "%" not in str(nothing)
    assert json.loads(json.dumps(nothing.to_dict()))["share"] is None


def test_tiny_weights_do_not_cover():
    weights = np.array([[1.0, 1e-9], [0.0, 1.0]])
    assert pick(weights, budget=2).positions == (0,)
    assert set(pick(weights, budget=2, tol=1e-6).positions) == {0, 1}


def test_the_share_is_of_what_is_shown():
    found = pick(np.array([[1, 0.05], [0.9, 0.04]]), tol=0.1)  # nobody shows the second feature
    assert found.covered == ("x0",) and found.share == 1.0
    assert str(found) == "1 people show 1 of 2 features (100% of what everyone together shows): 0"


def test_labels_and_names_are_kept():
    table = pd.DataFrame(TOY, index=list("abcde"), columns=[f"f{j}" for j in range(1, 6)])
    found = pick(table, budget=2)
    assert found.people == ("b", "e") and found.covered == ("f2", "f3", "f4", "f5")
    assert "2 people show 4 of 5 features" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["people"] == ["b", "e"]


def test_attributions_and_directions_of_recourse():
    from sklearn.linear_model import LogisticRegression

    data = ta.datasets.load("german")
    numbers = [feature.name for feature in data.schema if isinstance(feature, ta.Number)]
    schema = ta.Schema(tuple(data.schema[name] for name in numbers))
    people, accepted = data.people[numbers], data.accepted
    model = ta.models.wrap(LogisticRegression(max_iter=500).fit(people, accepted), schema)
    problem = ta.Problem(schema, model, background=people, labels=accepted)
    answer = ta.methods.Wachter(steps=60).fit(problem).find(people.iloc[:12], seed=0)
    direction = answer.to_directions(schema)
    found = pick(direction, budget=2)
    assert set(found.people) <= set(direction.values.index)
    assert 1 <= len(found.people) <= 2 and set(found.covered) <= set(direction.names)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pick(np.zeros(3)), "shape (3,)"),
        (lambda: pick(np.zeros((0, 3))), "0 x 3"),
        (lambda: pick(np.array([[np.nan, 1.0]])), "finite"),
        (lambda: pick(pd.DataFrame({"a": ["x"]})), "finite"),
        (lambda: pick(TOY, budget=0), "budget=0"),
        (lambda: pick(TOY, tol=-1.0), "tol=-1.0"),
        (lambda: pick(TOY, tol=float("nan")), "tol=nan"),
    ],
)
def test_errors_say_what_is_wrong(call, words):
    with pytest.raises(ExplainError) as error:
        call()
    assert words in str(error.value)
