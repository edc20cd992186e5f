"""Plans that keep rules which join columns, at every step: against every plan there is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.methods.sequences.by_force import cheapest, random_problem
from tests.methods.sequences.toys import answered, check_plans, costs, plain, sequences_of, shifts, straight

from turnabout.actions import Absolute, Action, ActionSet, ConstantPrice, Set, Shift, old
from turnabout.core import Problem, Status
from turnabout.rules import AtMost, Ball, Implies, Linear, Ordered, Rises
from turnabout.schema import Category, Number, Ordinal, Schema
from turnabout.testing.deciders import weighing


@pytest.mark.parametrize(("kind", "seed"), [*(("net", seed) for seed in range(3)), ("linear", 4), ("trees", 5)])
def test_plans_under_random_rules_are_the_cheapest_there_are(kind, seed):
    problem, people = random_problem(seed, kind, rules=True)
    answer = answered(problem, people, max_steps=2)
    best = [cheapest(problem, row, 2) for row in people.to_dict("records")]
    assert costs(answer).tolist() == pytest.approx(best, rel=1e-6)
    if len(answer.options):
        check_plans(problem, answer)


def test_what_a_rule_asks_for_comes_first():
    schema = plain(2, 0, 20, decimals=3)
    model = straight(schema, [1, 0], -8)
    people = pd.DataFrame({"a": [3.0], "b": [5.0]})
    for rule, cost in (
        (Ordered("a", "b"), 8),
        (Linear({"a": 2.0, "b": -1.0}, "<=", 3.0), 5 + 8),
        (Implies(Rises("a"), Rises("b", by=2)), 5 + 2),
    ):
        problem = Problem(schema, model, actions=shifts("ab", Absolute), rules=[rule])
        answer = answered(problem, people, max_steps=2)
        assert sequences_of(answer) == {(0, 0): ("move_b", "move_a")}
        assert costs(answer)[0] == pytest.approx(cost, abs=5e-3)
        check_plans(problem, answer)
        assert answered(problem, people, max_steps=1).status.tolist() == [Status.NOT_FOUND]


def test_a_level_that_a_rule_asks_for_comes_first():
    schema = Schema((Number("a", 0, 10, step=1), Category("job", ("none", "some"))))
    model = weighing("linear", schema, {"a": 1.0}, -0.75)
    actions = ActionSet(
        [Action("earn", Shift("a"), Absolute("a")), Action("work", Set("job", "some"), ConstantPrice(2.0))]
    )
    rule = Linear({"a": 1.0, "job=some": -6.0}, "<=", 4.0)
    answer = answered(Problem(schema, model, actions=actions, rules=[rule]), pd.DataFrame({"a": [3], "job": ["none"]}))
    assert sequences_of(answer) == {(0, 0): ("work", "earn")}
    assert costs(answer)[0] == pytest.approx(7)


def test_rules_about_the_person_keep_one_order_of_actions():
    schema = plain(3, 0, 10, decimals=3)
    model = straight(schema, [1, 1, 1], -16)
    people = pd.DataFrame({"a": [3.0], "b": [5.0], "c": [1.0]})
    for rule in (AtMost(2), Ball(9.0, {"a": 1.0, "b": 1.0, "c": 1.0})):
        problem = Problem(schema, model, actions=shifts("abc", Absolute), rules=[rule])
        answer = answered(problem, people, max_steps=3)
        assert costs(answer)[0] == pytest.approx(7, abs=1e-2)
        check_plans(problem, answer)


@pytest.mark.parametrize("hole", [None, np.nan, pd.NA])
def test_a_rule_that_cannot_be_checked_keeps_steps_away(hole):
    schema = Schema((Number("a", 0, 10, step=1), Number("b", 0, 10, step=1, missing=True), Number("c", 0, 10, step=1)))
    model = weighing("linear", schema, {"a": 1.0, "c": 1.0}, -1.2)
    people = pd.DataFrame({"a": [3, 3], "b": [5, hole], "c": [4, 4]}, dtype=object)
    dear = Action("move_c", Shift("c"), Absolute("c", per=0.5))
    actions = ActionSet([Action("move_a", Shift("a"), Absolute("a")), dear])
    answer = answered(Problem(schema, model, actions=actions, rules=[Ordered("a", "b")]), people, max_steps=2)
    assert sequences_of(answer) == {(0, 0): ("move_a", "move_c"), (1, 0): ("move_c",)}


@pytest.mark.parametrize("hole", [None, np.nan, pd.NA])
@pytest.mark.parametrize("certify", [False, True])
def test_missing_cells_close_what_needs_them(hole, certify):
    schema = Schema(
        (
            Number("a", 0, 10, step=1, missing=True),
            Ordinal("b", ("low", "mid", "high"), missing=True),
            Category("c", ("x", "y"), missing=True),
        )
    )
    model = weighing("linear", schema, {"a": 1.0, "b": 1.0, "c=y": 1.0}, -0.9)
    actions = ActionSet(
        [
            Action("a", Shift("a"), Absolute("a")),
            Action("b", Shift("b", 1), ConstantPrice(3.0), [old("a") >= 1], repeatable=True),
            Action("c", Set("c", "y"), ConstantPrice(20.0), [old("b") != "high"]),
        ]
    )
    people = pd.DataFrame({"a": [1, hole, hole, 1], "b": ["low", hole, "low", hole], "c": ["x", "x", "x", hole]})
    answer = answered(Problem(schema, model, actions=actions), people.astype(object), max_steps=3, certify=certify)
    steps = {key: answer.steps.loc[key[:2], "action"].tolist() for key in answer.options.index}
    assert steps[0, 0] == ["b", "b"]
    assert steps[2, 0] == ["c"]  # what needs a is closed
    assert 1 not in answer.options.index.get_level_values(0)  # both a and b are missing
    assert steps[3, 0] == ["a"]
    assert answer.status[1] in (Status.NOT_FOUND, Status.IMPOSSIBLE)
