"""Plans of every kind of step: factors, ordinals, constants, whole numbers, free-form actions."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from tests.methods.sequences.toys import (
    answered,
    check_plans,
    costs,
    crowd,
    plain,
    refused,
    sequences_of,
    shifts,
    straight,
    tiny_net,
)

from turnabout.actions import (
    Absolute,
    Action,
    ActionSet,
    Parameter,
    Scale,
    Set,
    Shift,
    Squared,
    new,
    old,
)
from turnabout.core import Problem
from turnabout.methods.sequences.carlini import Descent
from turnabout.methods.sequences.solve import SearchEffort
from turnabout.schema import Number, Ordinal, Schema
from turnabout.testing.deciders import weighing

# -- kinds of effect ---------------------------------------------------------------------------------------------------


def test_two_parameters_of_one_action():
    schema = plain(2, 0, 10)
    action = Action("AB", [Shift("a", by="x"), Shift("b", by="y")], Squared("a") + Squared("b"))
    problem = Problem(schema, straight(schema, [1, 2], -20), actions=ActionSet([action]))
    answer = answered(problem, pd.DataFrame({"a": [3.0], "b": [5.0]}), max_steps=1)
    assert costs(answer)[0] == pytest.approx(49 / 5, rel=1e-5)
    check_plans(problem, answer)


def test_factors_ordinals_and_chosen_values():
    schema = Schema(
        (
            Number("debt", 1, 100, decimals=2),
            Number("fee", 1, 100, decimals=2),
            Ordinal("grade", ("low", "mid", "high", "top")),
            Number("hours", 0, 60, step=1),
        )
    )
    cut = Action("Cut", [Scale("debt", by="share"), Scale("fee", by="share")], Squared("debt", relative=True))
    rise = Action("Rise", Shift("grade"), Absolute("grade"), [new("grade") > old("grade")])
    work = Action("Work", Set("hours", "to"), Absolute("hours", per=10), parameters=[Parameter("to", 0, 50)])
    people = pd.DataFrame({"debt": [50.0], "fee": [70.0], "grade": ["low"], "hours": [20]})
    wanted = {
        "Cut": ({"debt": -99.0, "fee": -99.0}, 60 - 2, "debt 50 -> 24.99, fee 70 -> 34.99"),  # together below 60
        "Rise": ({"grade": 3.0}, -1.5, "grade low -> high"),
        "Work": ({"hours": 60.0}, -36.5, "hours 20 -> 37"),
    }
    for name, (weights, bias, change) in wanted.items():
        problem = Problem(schema, weighing("linear", schema, weights, bias), actions=ActionSet([cut, rise, work]))
        answer = answered(problem, people, max_steps=2)
        assert sequences_of(answer) == {(0, 0): (name,)} and answer.steps["change"].tolist() == [change]
        check_plans(problem, answer)


def test_a_narrow_beam_still_answers():
    schema = plain(3, 0, 10)
    problem = Problem(schema, straight(schema, [1, 2, 1], -30), actions=shifts("abc", Squared))
    people = pd.DataFrame({"a": [3.0, 1.0], "b": [5.0, 4.0], "c": [1.0, 9.0]})
    narrow, wide = (answered(problem, people, max_steps=3, beam=beam) for beam in (1, 1000))
    assert np.isfinite(costs(narrow)).all() and (costs(narrow) >= costs(wide) - 1e-9).all()
    check_plans(problem, narrow)


# -- prices that are constants -----------------------------------------------------------------------------------------


def test_actions_that_cost_the_same_however_far_they_go():
    schema = plain(2, 0, 100)
    actions = ActionSet((Action("A", Shift("a"), 2), Action("B", Shift("b"), 3), Action("C", Shift("b", by=50), 0)))
    problem = Problem(schema, straight(schema, [1, 1], -120), actions=actions)
    people = pd.DataFrame({"a": [30.0, 10.0], "b": [30.0, 5.0]})
    answer = answered(problem, people, max_steps=3)
    assert sequences_of(answer)[0, 0] == ("A",)
    # 10 + 5: C gives 50 for nothing, and then A reaches
    assert set(sequences_of(answer)[1, 0]) == {"A", "C"} and costs(answer).tolist() == [2, 2]
    check_plans(problem, answer)


# -- coarse grids ------------------------------------------------------------------------------------------------------


def by_trying(problem, person):
    """The least cost of a plan of one or two actions over every whole number; read in plain Python."""
    names = list(problem.schema.names)
    a, b, c = (int(person[name]) for name in names)
    everywhere = range(21)
    ends = {}  # row -> cost

    def note(row, cost):
        ends[row] = min(cost, ends.get(row, math.inf))

    for v in everywhere:
        note((v, b, c), abs(v - a) / 2)  # A
        note((a, v, c), (v - b) ** 2 / 10)  # B
        if a >= 5:
            note((a, b, v), abs(v - c) / 4 + 0.5)  # C
        for u in everywhere:
            note((v, u, c), abs(v - a) / 2 + (u - b) ** 2 / 10)
            if v >= 5 or a >= 5:  # A first, or C first
                note((v, b, u), abs(v - a) / 2 + abs(u - c) / 4 + 0.5)
            if a >= 5:
                note((a, v, u), (v - b) ** 2 / 10 + abs(u - c) / 4 + 0.5)
    rows = pd.DataFrame(list(ends), columns=names)
    good = problem.judge(rows) >= 1e-9
    return np.array(list(ends.values()))[good].min(initial=math.inf)


@pytest.mark.parametrize("seed", range(3))
def test_whole_numbers_as_by_trying_them_all(seed):
    schema = Schema(tuple(Number(name, 0, 20, step=1) for name in "abc"))
    actions = ActionSet(
        (
            Action("A", Shift("a"), Absolute("a", per=2)),
            Action("B", Shift("b"), Squared("b", weight=0.1)),
            Action("C", Shift("c"), Absolute("c", per=4) + 0.5, [old("a") >= 5]),
        )
    )
    problem = Problem(schema, tiny_net(schema, seed, 5, accepted=0.2), actions=actions)
    people = refused(problem, crowd(schema, 60, seed)).iloc[:20]
    answer = answered(problem, people, max_steps=2)
    check_plans(problem, answer)
    best = np.array([by_trying(problem, row) for _, row in people.iterrows()])
    found = costs(answer)
    assert (found >= best - 1e-9).all()
    assert (np.isfinite(found) == np.isfinite(best)).all()
    within = found / best
    assert (within <= 1.02).mean() >= 0.95 and within.max() <= 1.1  # a step that only rounding makes worthwhile is lost


# -- free-form actions -------------------------------------------------------------------------------------------------


def test_free_form_actions():
    """A step of any direction in the plane, of a length from 1/20 to 1/5 of it: the way is as straight as it can be."""
    schema = plain(2, 0, 10)

    def length(r):
        return r.norm(dim=1).clamp(min=1e-9)

    step = Action.free(
        "Walk",
        [Parameter("x", -1, 1), Parameter("y", -1, 1)],
        effect=lambda x, r: x + r,
        cost=lambda x, x_new, r: length(r),
        precondition=lambda x, x_new, r: torch.stack(
            [length(r) - 0.05, 0.2 - length(r), x_new.amin(1), 1 - x_new.amax(1)], 1
        ),
        footprint=("a", "b"),
        reads=(),
        repeatable=True,
        project=lambda x, r: r * (length(r).clamp(0.0501, 0.1999) / length(r)).unsqueeze(1),
    )
    problem = Problem(schema, straight(schema, [0.6, 0.8], -7), actions=ActionSet([step]))
    people = pd.DataFrame({"a": [5.0, 4.0, 1.0], "b": [4.8, 3.0, 1.0]})
    answer = answered(problem, people, max_steps=3)
    short = -problem.judge(people) / 10
    assert short.tolist() == pytest.approx([0.016, 0.22, 0.56])
    assert (answer.plans["steps"].to_numpy() >= [1, 2, 3]).all()  # none is longer than 1/5
    np.testing.assert_allclose(costs(answer), [0.05, 0.22, 0.56], rtol=0.02)
    check_plans(problem, answer)


def test_free_form_beside_declared_actions():
    schema = plain(2, 0, 10)
    boost = Action.free(
        "Boost",
        [Parameter("s", 0, 1)],
        effect=lambda x, r: torch.cat([x[:, :1] + 0.3 * r, x[:, 1:]], 1),
        cost=lambda x, x_new, r: r[:, 0] ** 2,
        footprint=("a",),
    )
    problem = Problem(
        schema, straight(schema, [1, 1], -12), actions=ActionSet([boost, Action("B", Shift("b"), Squared("b", per=2))])
    )
    people = pd.DataFrame({"a": [4.0], "b": [5.0]})
    # least s^2 + (d / 2)^2 with 3 s + d >= 3: as in the closed form for squared costs, 3^2 / (3^2 + 2^2)
    longer = SearchEffort(draws=64, restarts=8, descent=Descent(steps=300, lr=0.2))
    for effort, slack in ((None, 0.05), (longer, 0.002)):
        answer = answered(problem, people, max_steps=2, effort=effort)
        assert costs(answer)[0] == pytest.approx(9 / 13, rel=slack)
        check_plans(problem, answer)
