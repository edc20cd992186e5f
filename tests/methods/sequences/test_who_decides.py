"""Plans for models of every kind, and for people in every state."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
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
)

from turnabout.actions import Absolute, Action, ActionSet, Shift, old
from turnabout.core import Problem, Status
from turnabout.models import Differentiable, wrap
from turnabout.rules import Ordered
from turnabout.schema import Category, Number, Schema
from turnabout.testing.deciders import weighing


def stairs(table):
    """P(yes) of a model that can only be asked."""
    return np.where((table["a"] >= 6.3) & (table["b"] >= 4.2) | (table["c"] >= 9), 0.9, 0.2)


def test_models_that_can_only_be_asked():
    schema = plain(3, 0, 10, decimals=3)
    problem = Problem(schema, wrap(stairs, schema), actions=shifts("abc", Absolute))
    assert not isinstance(problem.model, Differentiable)
    people = pd.DataFrame({"a": [5.0, 1.0, 6.5, 3.0], "b": [4.0, 1.0, 1.0, 9.9], "c": [0.0, 5.0, 0.0, 1.0]})
    answer = answered(problem, people, max_steps=2)
    assert costs(answer).tolist() == pytest.approx([1.5, 4, 3.2, 3.3], abs=2e-3)
    assert sequences_of(answer)[0, 0] == ("move_a", "move_b")
    check_plans(problem, answer)


@pytest.mark.parametrize("seed", range(3))
def test_trees(seed):
    from sklearn.tree import DecisionTreeClassifier

    schema = Schema((Number("a", 0, 30, step=1), Number("b", 0, 30, step=1)))
    train = crowd(schema, 300, seed)
    rng = np.random.default_rng(seed)
    wanted = (train["a"] - 15) * rng.normal() + (train["b"] - 15) * rng.normal() + rng.normal(0, 4, len(train)) > 6
    tree = DecisionTreeClassifier(max_depth=5, random_state=0).fit(train, wanted)
    problem = Problem(schema, wrap(tree, schema), actions=shifts("ab", Absolute))
    people = refused(problem, crowd(schema, 40, seed + 10)).iloc[:12]
    answer = answered(problem, people, max_steps=2)
    check_plans(problem, answer)
    everywhere = pd.DataFrame(list(itertools.product(range(31), range(31))), columns=["a", "b"])
    good = everywhere[tree.predict(everywhere)].to_numpy()
    best = np.abs(people.to_numpy()[:, None] - good[None]).sum(-1).min(1)
    assert (costs(answer) >= best - 1e-9).all()
    assert np.median(costs(answer) / best) <= 1.1 and (costs(answer) / best).max() <= 2


@pytest.mark.parametrize("more", [{}, {"score": "objective"}])
def test_a_model_that_never_says_yes(more):
    schema = plain(2, 0, 10)
    people = crowd(schema, 3, 0)
    never = [wrap(lambda table: np.full(len(table), 0.1), schema), straight(schema, [1, 1], -1e6)]
    for model in never:
        answer = answered(Problem(schema, model, actions=shifts("ab", Absolute)), people, max_steps=2, **more)
        assert answer.status.tolist() == [Status.NOT_FOUND] * 3 and len(answer.options) == 0
        assert answer.why["reason"].str.len().gt(0).all()
    flat = straight(schema, [0, 0], -1.0)  # nothing anyone does matters
    answer = answered(Problem(schema, flat, actions=shifts("ab", Absolute)), people, max_steps=2, **more)
    assert answer.status.tolist() == [Status.NOT_FOUND] * 3


def test_accepted_people_are_left_alone():
    schema = plain(3, 0, 10)
    problem = Problem(schema, straight(schema, [1, 1, 1], -20), actions=shifts("abc", Absolute))
    everyone = crowd(schema, 40, 9)
    people, happy = refused(problem, everyone), everyone[problem.judge(everyone) >= 0].iloc[:3]
    assert len(happy) == 3
    answer = answered(problem, pd.concat([happy, people.iloc[:2]]).reset_index(drop=True), max_steps=1)
    assert answer.status.tolist()[:3] == [Status.ACCEPTED] * 3
    assert set(answer.options.index.get_level_values("person")) <= {3, 4}
    nobody = answered(problem, happy, max_steps=1)
    assert len(nobody.options) == 0 and len(answered(problem, people.iloc[:0], max_steps=1)) == 0


def test_nothing_that_a_person_may_do():
    schema = Schema((*plain(2, 0, 10), Category("job", ("none", "some", "much"))))
    guard = [old("job") == "some"]
    actions = ActionSet((Action("A", Shift("a"), Absolute("a"), guard), Action("B", Shift("b"), Absolute("b"), guard)))
    model = weighing("linear", schema, {"a": 1.0}, -0.8)
    problem = Problem(schema, model, actions=actions)
    people = pd.DataFrame({"a": [1.0, 1.0], "b": [1.0, 1.0], "job": ["none", "some"]})
    answer = answered(problem, people, max_steps=3)
    assert answer.status.tolist() == [Status.NOT_FOUND, Status.FOUND]
    assert sequences_of(answer) == {(1, 0): ("A",)}


def test_missing_cells_close_some_actions_and_not_others():
    schema = Schema((Number("a", 0, 10, decimals=3, missing=True), Number("b", 0, 10, decimals=3)))
    ways = [Action(f"A{k}", Shift("a"), Absolute("a", per=10 + k)) for k in range(10)]
    model = weighing("linear", schema, {"a": 1.0, "b": 1.0}, -0.9)
    problem = Problem(schema, model, actions=ActionSet([*ways, Action("B", Shift("b"), Absolute("b"))]))
    people = pd.DataFrame({"a": [np.nan, 1.0], "b": [1.0, 1.0]})
    answer = answered(problem, people, max_steps=1)
    assert sequences_of(answer) == {(0, 0): ("B",), (1, 0): ("A9",)}


def test_own_values_outside_the_bounds_or_off_the_grid():
    schema = plain(2, 0, 10)
    problem = Problem(schema, straight(schema, [1, 0], -8), actions=shifts("ab", Absolute))
    people = pd.DataFrame({"a": [3.0, -3.0], "b": [12.0, 1.0]})
    with pytest.warns(UserWarning, match="outside"):
        answer = answered(problem, people, max_steps=2)
    assert costs(answer).tolist() == pytest.approx([5, 11], abs=1e-5)
    coarse = Schema((Number("a", 0, 10, step=1), Number("b", 0, 10, step=1)))
    problem = Problem(coarse, straight(coarse, [1, 1], -12.2), actions=shifts("ab", Absolute))
    answer = answered(problem, pd.DataFrame({"a": [3.4], "b": [1.7]}), max_steps=2)
    assert answer.steps_of(0)["change"].tolist() == ["b 1.7 -> 9"]


def test_rules_are_kept_on_the_way():
    schema = plain(2, 0, 10)
    actions = shifts("ab", Absolute)
    problem = Problem(schema, straight(schema, [1, 0], -8), actions=actions, rules=[Ordered("a", "b")])
    answer = answered(problem, pd.DataFrame({"a": [3.0], "b": [5.0]}), max_steps=2)
    assert sequences_of(answer) == {(0, 0): ("move_b", "move_a")}
    assert costs(answer)[0] == pytest.approx(8, abs=1e-5)
