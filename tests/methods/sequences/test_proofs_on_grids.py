"""Proofs over values that can be printed: small problems against every plan there is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from tests.methods.sequences.by_force import cheapest, random_problem
from tests.methods.sequences.toys import answered, check_plans, costs, crowd, refused, shifts, straight, tiny_net

from turnabout.actions import Absolute, Action, ActionSet, ConstantPrice, Follow, Set, Shift, old
from turnabout.core import Problem, Status
from turnabout.core.plan import PlanColumns
from turnabout.methods.sequences.certificate import CertificateTask, certify
from turnabout.methods.sequences.sequence_set import SequenceSet, as_tensor
from turnabout.rules import AtMost, Implies, Linear, Ordered, Rises
from turnabout.schema import Category, Number, Schema
from turnabout.testing.deciders import weighing

NEAR = {"rel": 1e-6, "abs": 1e-9}


def bounds(answer) -> np.ndarray:
    """The lower bound of each person's first plan, NaN for those without."""
    if not len(answer.plans):
        return np.full(len(answer.people), np.nan)
    first = answer.plans["lower_bound"].xs(0, level="option").reindex(answer.people.index)
    return first.to_numpy(dtype=float, na_value=np.nan)


@pytest.mark.parametrize(
    ("kind", "seed"), [("net", 4), ("net", 9), ("net", 16), ("linear", 3), ("linear", 7), ("trees", 2)]
)
def test_bounds_are_the_cost_of_the_cheapest_plan_there_is(kind, seed):
    problem, people = random_problem(seed, kind)
    answer = answered(problem, people, max_steps=2, certify=True)
    best = np.array([cheapest(problem, row, 2) for row in people.to_dict("records")])
    assert costs(answer) == pytest.approx(best, **NEAR)
    for status, low, cost in zip(answer.status, bounds(answer), best, strict=True):
        assert (status == Status.IMPOSSIBLE) == np.isinf(cost)
        assert np.isinf(cost) or 0.994 * cost <= low <= cost * (1 + 1e-9)
    if len(answer.options):
        check_plans(problem, answer)


@pytest.mark.parametrize("seed", range(3))
def test_few_boxes_where_values_are_whole(seed):
    schema = Schema(tuple(Number(name, 0, 12, step=1) for name in "abc"))
    model = tiny_net(schema, seed, hidden=12, accepted=0.03)
    problem = Problem(schema, model, actions=shifts("abc", Absolute))
    people = refused(problem, crowd(schema, 20, seed)).iloc[:2]
    x, tables = schema.encode(people), problem.actions.tables
    lo, hi = (tables.units(end) for end in problem.bounds(x))
    sequences = as_tensor(SequenceSet(problem.actions).up_to(3), 3)
    step = PlanColumns.of(schema, problem.actions, x.device).step
    everywhere = np.stack(np.meshgrid(*[np.arange(13.0)] * 3, indexing="ij"), -1).reshape(-1, 3)
    good = everywhere[problem.judge(pd.DataFrame(everywhere, columns=list("abc"))) >= 0]
    best = np.abs(people.to_numpy()[:, None] - good).sum(-1).min(1)
    free = CertificateTask(model, tables, x, sequences, lo, hi, rounding=0.5 * step)
    task = replace(free, grid=step)
    nothing = certify(task, torch.full((2,), torch.inf).double(), 1e-6, engine="branch")
    known = certify(task, torch.as_tensor(best), 1e-6, engine="branch")
    free = certify(free, torch.as_tensor(best), 1e-6, engine="branch")
    for proof in (nothing, known):
        assert proof.complete.all()
        assert proof.lower_bound.tolist() == pytest.approx(best.tolist(), rel=1e-6)
    assert nothing.cost.tolist() == pytest.approx(best.tolist())
    assert known.boxes <= nothing.boxes <= 80 and free.boxes > 3 * known.boxes


def town() -> Schema:
    return Schema((Number("a", 0, 10, step=1), Category("job", ("none", "some", "much"))))


def test_proofs_where_no_action_has_a_parameter():
    schema = town()
    model = weighing("linear", schema, {"a": 1.0, "job=much": 0.5}, -0.8)
    people = pd.DataFrame({"a": [5, 1, 7], "job": ["none", "none", "some"]})
    study = Action("study", Set("job", "much"), ConstantPrice(2.0))
    more = Action("more", Shift("a", 5), ConstantPrice(1.0), [old("a") <= 5])
    level = [Status.FOUND, Status.IMPOSSIBLE, Status.FOUND]
    for actions, status, expected in (
        ([study], level, [2, np.inf, 2]),
        ([study, more], [Status.FOUND] * 3, [1, 3, 2]),
    ):
        problem = Problem(schema, model, actions=ActionSet(actions))
        answer = answered(problem, people, max_steps=2, certify=True)
        assert answer.status.tolist() == status
        assert costs(answer).tolist() == expected
        assert bounds(answer)[np.isfinite(expected)] == pytest.approx([c for c in expected if np.isfinite(c)])


def test_proofs_where_only_a_category_may_move():
    schema = Schema((Number("a", 0, 10, moves="fixed"), Category("job", ("none", "some", "much"))))
    model = weighing("linear", schema, {"a": 1.0, "job=much": 0.5}, -0.8)
    study = Action("study", Set("job", "much"), ConstantPrice(2.0))
    people = pd.DataFrame({"a": [5.5, 1.0], "job": ["none", "none"]})
    answer = answered(Problem(schema, model, actions=ActionSet([study])), people, certify=True)
    assert answer.status.tolist() == [Status.FOUND, Status.IMPOSSIBLE]


def test_the_column_that_shows_a_parameter_is_the_one_that_plans_are_printed_by():
    schema = Schema((Number("a", 0, 8, step=1), Number("b", 1, 7, step=0.5)))
    follow = Action("follow", [Shift("b"), Follow("a", "b", times=0.37)], Absolute("a") + Absolute("b"))
    problem = Problem(schema, straight(schema, [4, -2], 1.5), actions=ActionSet([follow]))
    answer = answered(problem, pd.DataFrame({"a": [0], "b": [1.0]}), max_steps=1, certify=True)
    assert answer.steps_of(0)["change"].tolist() == ["a 0 -> 1, b 1 -> 2.5"]  # a would be 0.555
    assert bounds(answer) == pytest.approx([2.5])


@pytest.mark.parametrize(("kind", "seed"), [("net", 1), ("linear", 2), ("linear", 6)])
def test_bounds_under_rules(kind, seed):
    problem, people = random_problem(seed, kind, rules=True)
    answer = answered(problem, people, max_steps=2, certify=True)
    best = np.array([cheapest(problem, row, 2) for row in people.to_dict("records")])
    assert costs(answer) == pytest.approx(best, **NEAR)
    for status, low, cost in zip(answer.status, bounds(answer), best, strict=True):
        assert (status == Status.FOUND) == np.isfinite(cost)
        assert np.isinf(cost) or low <= cost * (1 + 1e-9)


def test_what_rules_forbid_is_impossible():
    schema = Schema((Number("a", 0, 10, step=1), Number("b", 0, 10, step=1)))
    people = pd.DataFrame({"a": [3], "b": [5]})
    for rule, status in (
        (Ordered("a", "b"), Status.FOUND),
        (Linear({"a": 1.0, "b": 1.0}, "<=", 12.0), Status.IMPOSSIBLE),
        (AtMost(1), Status.IMPOSSIBLE),
        (Implies(Rises("a"), Rises("b", by=6)), Status.IMPOSSIBLE),
    ):
        model = straight(schema, [1, 0.5], -12.8)
        problem = Problem(schema, model, actions=shifts("ab", Absolute), rules=[rule])
        answer = answered(problem, people, max_steps=2, certify=True)
        assert answer.status.tolist() == [status]
        if status == Status.FOUND:
            assert bounds(answer) == pytest.approx([cheapest(problem, {"a": 3, "b": 5}, 2)])
