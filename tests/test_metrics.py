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
