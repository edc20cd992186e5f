"""Searches in turns and limits of single people: what they may ask, how long, and what they leave alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import turnabout as ta
from turnabout import Category, Number, Schema
from turnabout.schema.reach import Reach

TURNS = (0.2, 0.5)


def counted(schema, yes):
    """A function model that counts the rows it is asked about, one by one."""
    asked = []

    def model(table):
        asked.append(len(table))
        return yes(table).astype(float)

    return ta.models.wrap(model, schema), asked


def numbers(usual):
    reach = Reach(absolute=500, usual=usual)
    return Schema(tuple(Number(f"n{i}", low=0, high=1000, step=1, reach=reach) for i in range(4)))


@pytest.mark.parametrize("usual", [(), TURNS, (0.1, 0.2, 0.3, 0.4, 0.5)], ids=str)
def test_turns_share_the_rows_that_may_be_asked(usual):
    schema = numbers(usual)
    model, asked = counted(schema, lambda t: t.n0 > 2000)
    method = ta.methods.LocalSearch().fit(ta.Problem(schema, model))
    people = pd.DataFrame(np.zeros((2, 4)), columns=schema.names)
    asked.clear()
    answer = method.find(people, query_limit=100)
    assert sum(asked) <= 2 * 100 + 3 * 2  # and the people themselves
    assert (answer.why.asked <= 100).all() and (answer.status == "UNFINISHED").all()


def test_what_was_asked_in_narrower_turns_counts():
    people = pd.DataFrame(np.zeros((1, 4)), columns=[f"n{i}" for i in range(4)])
    told = {}
    for usual in ((), TURNS):
        schema = numbers(usual)
        model, asked = counted(schema, lambda t: t.n0 > 2000)
        method = ta.methods.LocalSearch().fit(ta.Problem(schema, model))
        asked.clear()
        told[usual] = int(method.find(people).why.asked.iloc[0]), sum(asked)
    assert told[TURNS][0] > told[()][0]
    for said, really in told.values():
        assert said <= really <= said + 4


class Clock(ta.Method):
    """Finds nothing, and notes how long it may take."""

    def _search(self, x):
        LEFT.append(self.run.left)
        return ta.Proposal(x.unsqueeze(1))


LEFT: list[float] = []


def test_narrower_turns_leave_time_to_wider_ones():
    schema = numbers(TURNS)
    model, _ = counted(schema, lambda t: t.n0 > 2000)
    LEFT.clear()
    people = pd.DataFrame(np.zeros((2, 4)), columns=schema.names)
    Clock().fit(ta.Problem(schema, model)).find(people, time_limit=100)
    first, second, last = LEFT
    assert first < 100 / 3 and second < 100 / 2 and 50 < last < 100


def test_progress_counts_people_who_have_their_answer():
    schema = numbers(TURNS)
    model, _ = counted(schema, lambda t: t.n0 > 450)
    seen = []
    method = ta.methods.LocalSearch().fit(ta.Problem(schema, model))
    people = pd.DataFrame(np.zeros((3, 4)), columns=schema.names)
    method.find(people, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 3) and seen[-1] == (3, 3)
    assert all(done == 0 for done, _ in seen[:-1])  # nobody has an answer before the last turn


@pytest.mark.parametrize("options", [1, 3])
def test_a_limit_that_leaves_nothing_stops_nobody_else(options):
    schema = Schema(
        (Number("age", low=18, high=80, step=1, moves="fixed"), Category("housing", levels=("rent", "own", "free")))
    )
    net = torch.nn.Linear(schema.d, 1, dtype=torch.float64)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 0, 2, 3]]))
        net.bias.fill_(-1.5)
    model = ta.models.wrap(net, schema, threshold=0.5, output="logit")
    people = pd.DataFrame({"age": [20, 30], "housing": ["rent"] * 2}, index=["Ada", "Bo"])
    method = ta.methods.ExactLinear().fit(ta.Problem(schema, model))
    answer = method.find(people, options=options, limits={"Ada": {"housing": ["rent"]}})
    assert answer.status.to_dict() == {"Ada": "IMPOSSIBLE", "Bo": "FOUND"}


def test_who_limits_a_missing_cell_provides_it_within_that_or_not_at_all():
    schema = Schema(
        (Number("income", low=0, high=1000, step=10, missing=True, provide=True), Number("debt", high=1000, step=1))
    )
    model = ta.models.wrap(lambda t: (t.income.fillna(0) - t.debt > -100).astype(float), schema)
    method = ta.methods.LocalSearch().fit(ta.Problem(schema, model))
    people = pd.DataFrame({"income": [np.nan] * 4, "debt": [500.0] * 4}, index=["fixed", "low", "some", "free"])
    answer = method.find(
        people,
        limits={
            "fixed": {"income": "fixed", "debt": "fixed"},
            "low": {"income": (None, 100), "debt": "fixed"},
            "some": {"income": (None, 700), "debt": "fixed"},
            "free": {"debt": "fixed"},
        },
    )
    assert (answer.status[["fixed", "low"]] != "FOUND").all() and (answer.status[["some", "free"]] == "FOUND").all()
    ranges = answer.provided.reset_index().set_index("person")
    assert ranges.loc["some", ["low", "high"]].tolist() == [410, 700]
    assert ranges.loc["free", ["low", "high"]].tolist() == [410, 1000]


def test_providing_keeps_to_the_rows_that_may_be_asked():
    schema = Schema(
        (Number("income", low=0, high=1000, step=1, missing=True, provide=True), Number("debt", high=1000, step=1))
    )
    model, asked = counted(schema, lambda t: t.income.fillna(0) - t.debt > -100)
    method = ta.methods.LocalSearch().fit(ta.Problem(schema, model))
    people = pd.DataFrame({"income": [np.nan] * 2, "debt": [500.0, 510.0]})
    asked.clear()
    method.find(people, query_limit=60, limits={0: {"debt": "fixed"}, 1: {"debt": "fixed"}})
    assert sum(asked) <= 2 * 60 + 12


def test_steps_are_shortened_in_a_turn_as_distances_are():
    assert [Reach(steps=50, usual=TURNS).near(turn).steps for turn in range(3)] == [10, 25, 50]
    assert Reach(steps=1, usual=0.1).near(0).steps == 1
    assert Reach(absolute=1, usual=None) == Reach(absolute=1)


def test_nobody_who_could_provide_a_cell_is_impossible_where_no_query_is_left():
    """The margin is income - debt - 500, and a missing income counts as none."""
    income = Number("income", low=0, high=1000, step=10, missing=True, provide=True)
    schema = Schema((income, Number("debt", high=3, step=1)))
    table = pd.DataFrame({"income": [0.0, 1000.0], "debt": [3, 0]})
    classifier = make_pipeline(SimpleImputer(strategy="constant", fill_value=0.0), LogisticRegression())
    classifier.fit(table, [0, 1])[-1].coef_ = np.array([[1.0, -1.0]])
    classifier[-1].intercept_ = np.array([-500.0])
    method = ta.methods.LocalSearch().fit(ta.Problem(schema, ta.models.wrap(classifier, schema)))
    people = pd.DataFrame({"income": [np.nan], "debt": [2]})
    assert method.find(people).status[0] == "FOUND"  # by a payslip of more than 500
    assert method.find(people, query_limit=1).status[0] in ("NOT_FOUND", "UNFINISHED")
