"""Metrics on answers whose numbers can be counted by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta


class Given(ta.Method):
    """Propose rows that were written down beforehand."""

    ranked = False

    def __init__(self, rows: tuple = ()):
        self.rows = rows

    def _search(self, x):
        rows = torch.tensor(self.rows, dtype=torch.float64)
        return ta.Proposal(rows.expand(len(x), *rows.shape).clone())


@pytest.fixture(scope="module")
def setting():
    schema = ta.Schema((ta.Number("a", low=0, high=10, step=1), ta.Number("b", low=0, high=10, step=1)))
    model = ta.models.wrap(lambda t: (np.maximum(t.a, t.b) >= 5).to_numpy(dtype=float), schema)
    background = pd.DataFrame({"a": np.arange(40) % 10, "b": 7})
    return ta.Problem(schema, model, ta.costs.L1(), background=background)


def test_counts_by_hand(setting):
    people = pd.DataFrame({"a": [0, 2, 9], "b": [0, 0, 9]}, index=["x", "y", "z"])
    answer = Given(((0.5, 0.0), (0.0, 0.5))).fit(setting).find(people, options=2)
    table = ta.metrics.measure(answer, setting).set_index("metric")
    assert table.loc["found", "value"] == 1.0 and table.loc["found", "n"] == 2
    assert table.loc["validity", "value"] == 1.0
    assert table.loc["cost", "value"] == pytest.approx((0.5 + 0.3) / 2)
    assert table.loc["changes", "value"] == 1.0
    assert table.loc["diversity", "value"] == 1.0
    assert (table.low <= table.value + 1e-12).all() and (table.value <= table.high + 1e-12).all()


def test_each_option_has_a_line(setting):
    people = pd.DataFrame({"a": [0, 2], "b": [0, 0]})
    answer = Given(((0.5, 0.0), (0.0, 0.5))).fit(setting).find(people, options=2)
    table = ta.metrics.per_option(answer, setting)
    assert table.index.equals(answer.options.index)
    assert table.valid.all() and np.allclose(table.cost, answer.options.cost)
    # (5, 0): the nearest accepted background rows are (5, 7) four times and (4, 7): distances 0.7 and 0.8
    assert table.neighbour_distance.iloc[0] == pytest.approx((4 * 0.7 + 0.8) / 5)


def test_nobody_to_measure(setting):
    answer = Given(((0.0, 0.0),)).fit(setting).find(pd.DataFrame({"a": [9], "b": [9]}))
    table = ta.metrics.measure(answer, setting).set_index("metric")
    assert table.loc["found", "n"] == 0 and np.isnan(table.loc["cost", "value"])


def test_options_nearly_the_same_are_counted():
    """Of (50, 0), (52, 0) and (0, 50), the first two change one feature to values less than 5 % apart."""
    schema = ta.Schema((ta.Number("a", low=0, high=100, step=1), ta.Number("b", low=0, high=100, step=1)))
    model = ta.models.wrap(lambda t: (np.maximum(t.a, t.b) >= 50).to_numpy(dtype=float), schema)
    problem = ta.Problem(schema, model, ta.costs.L1())
    people = pd.DataFrame({"a": [0, 0, 90], "b": [0, 10, 0]}, index=["x", "y", "z"])
    answer = made_up(people, {"x": [(50, 0), (52, 0), (0, 50)], "y": [(60, 10)]})
    table = ta.metrics.measure(answer, problem).set_index("metric")
    assert table.loc["alike", "value"] == pytest.approx(1 / 3) and table.loc["alike", "n"] == 1
    assert table.loc["tiny", "value"] == 0.0 and table.loc["tiny", "n"] == 2


def test_changes_too_small_are_counted():
    """a declares a least change of 5; b's ordinary range is 1000, so that changes below 10 are tiny; c is missing."""
    schema = ta.Schema(
        (
            ta.Number("a", high=100, step=1, least_change=5),
            ta.Number("b", high=1000, step=1),
            ta.Number("c", high=100, step=1, missing=True),
        )
    )
    model = ta.models.wrap(lambda t: np.ones(len(t)), schema)
    background = pd.DataFrame({"a": np.arange(101), "b": np.repeat([0, 1000, 500], [50, 50, 1]), "c": 1.0})
    people = pd.DataFrame({"a": [10], "b": [100], "c": [np.nan]}, index=["x"])
    rows = [(14, 100, np.nan), (15, 100, np.nan), (10, 109, np.nan), (20, 110, np.nan), (10, 100, 1)]
    answer = made_up(people, {"x": rows})
    for given, tiny in ((background, [True, False, True, False, False]), (None, [True, False, False, False, False])):
        problem = ta.Problem(schema, model, ta.costs.L1(), background=given)
        assert ta.metrics.per_option(answer, problem).tiny.tolist() == tiny
        measured = ta.metrics.measure(answer, problem).set_index("metric")
        assert measured.loc["tiny", "value"] == pytest.approx(sum(tiny) / 5)


def made_up(people, rows):
    """An answer with options that were written down."""
    index = pd.MultiIndex.from_tuples([(p, k) for p, own in rows.items() for k in range(len(own))])
    options = pd.DataFrame([row for own in rows.values() for row in own], columns=people.columns, index=index)
    options.index.names = ["person", "option"]
    status = pd.Series(
        [ta.Status.FOUND if p in rows else ta.Status.ACCEPTED for p in people.index], index=people.index, dtype=object
    )
    why = pd.DataFrame(columns=["reason", "best_margin", "asked", "binding", "proof"])
    return ta.Recourse(people, options.assign(cost=1.0, margin=1.0), status, why, "by hand", 0.0)
