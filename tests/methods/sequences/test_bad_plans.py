"""What the search of plans does not take, each with its words."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from tests.methods.sequences.toys import (
    answered,
    check_plans,
    costs,
    plain,
    shifts,
    straight,
)

from turnabout.actions import (
    Absolute,
    Action,
    ActionSet,
    ConstantPrice,
    Parameter,
    Set,
    Shift,
    Squared,
    new,
)
from turnabout.core import Problem, Status
from turnabout.errors import ActionError, MethodError
from turnabout.methods import ActionSequences
from turnabout.models import wrap
from turnabout.schema import Category, Number, Ordinal, Schema
from turnabout.testing.deciders import weighing


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"max_steps": 0}, "max_steps=0, which is not a whole number from 1 up"),
        ({"max_steps": -1}, "max_steps=-1, which is not a whole number from 1 up"),
        ({"max_steps": True}, "max_steps=True, which is not a whole number from 1 up"),
        ({"max_steps": 2.0}, "max_steps=2.0, which is not a whole number from 1 up"),
        ({"score": "depth"}, "score='depth', which is not one of"),
        ({"relaxation": "hinge"}, "relaxation='hinge', which is not one of"),
        ({"engine": "guess"}, "engine='guess', which is not one of 'auto', 'branch', 'milp', or a ProofEngine"),
        ({"beam": 0}, "=0, which is not a whole number from 1 up"),
        ({"iterations": 0}, "=0, which is not a whole number from 1 up"),
        ({"robust": 0}, "robust=0, which is not a number strictly between 0 and 1"),
        ({"robust": 1.5}, "robust=1.5, which is not a number strictly between 0 and 1"),
        ({"robust": math.nan}, "robust=nan, which is not a number strictly between 0 and 1"),
        ({"robust_share": 0}, "robust_share=0, which is not a number above 0, at most 1"),
        ({"robust_share": 1.01}, "robust_share=1.01, which is not a number above 0, at most 1"),
        ({"robust_share": math.nan}, "robust_share=nan, which is not a number above 0, at most 1"),
        ({"robust_limit": 0.5}, "robust_limit=0.5, which is not a number from 1 up"),
        ({"robust_limit": math.nan}, "robust_limit=nan, which is not a number from 1 up"),
    ],
)
def test_parameters_that_make_no_sense(parameters, text):
    schema = plain(1)
    problem = Problem(schema, straight(schema, [1], -1), actions=shifts("a", Absolute))
    with pytest.raises(MethodError) as caught:
        ActionSequences(**parameters).fit(problem)
    assert text in str(caught.value) and "Hint:" in str(caught.value)


def test_a_problem_without_actions():
    schema = plain(1)
    with pytest.raises(MethodError, match="actions") as caught:
        ActionSequences().fit(Problem(schema, straight(schema, [1], -1)))
    assert "Hint:" in str(caught.value)


def test_the_gradient_score_needs_gradients():
    schema = plain(1)
    problem = Problem(
        schema, wrap(lambda table: np.where(table["a"] > 1, 0.9, 0.1), schema), actions=shifts("a", Absolute)
    )
    with pytest.raises(MethodError, match="the gradient score needs a model that is Differentiable"):
        ActionSequences(score="gradient").fit(problem)


SMALL = Schema(
    (
        Number("a", 0, 10, decimals=3),
        Number("age", 18, 80, step=1, moves="fixed"),
        Category("job", ("none", "some")),
        Ordinal("grade", ("low", "mid", "high")),
    )
)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Action("X", Shift("age"), 1), "age"),
        (lambda: Action("X", Set("a", 11), 1), "11"),
        (lambda: Action("X", Set("job", "boss"), 1), "boss"),
        (lambda: Action("X", Shift("wage"), 1), "wage"),
        (lambda: Action("X", Shift("a"), -1), "below zero"),
        (lambda: Action("X", Shift("a"), -1 * Absolute("a")), "below zero"),
        (lambda: Action("X", Shift("a"), ConstantPrice(math.nan)), "nan"),
        (lambda: Action("X", Shift("a"), Absolute("a", per=0)), "per"),
        (lambda: Action("X", Shift("a"), math.inf), "inf"),
        (lambda: Action("X", Shift("a"), 1, [new("a") > 10]), "nobody can take the action"),
        (lambda: Action("X", Shift("a"), 1, [new("a") > 5, new("a") < 4]), "contradict each other"),
        (lambda: Action("X", Shift("a"), 1, parameters=[Parameter("a", -1e400, 5)]), "inf"),
        (lambda: Action("X", Shift("a"), 1, parameters=[Parameter("a", 0, math.nan)]), "nan"),
        (lambda: Action("X", Shift("a"), 1, parameters=[Parameter("a", 2, 1)]), "above high"),
        (
            lambda: Action("X", Shift("a"), 1, parameters=[Parameter("a", -1e30, 5)]),
            "not a finite number of ordinary size",
        ),
        (lambda: Action("X", Shift("a", by=1e400), 1), "inf"),
        (lambda: Action("X", [], 1), "has no effect"),
    ],
)
def test_actions_that_make_no_sense(make, text):
    model = weighing("linear", SMALL, {"a": 1.0}, -0.9)
    with pytest.raises(ActionError) as caught:
        Problem(SMALL, model, actions=ActionSet((make(),)))
    assert text in str(caught.value) and "Hint:" in str(caught.value)


@pytest.mark.parametrize("limit", [1e6, 1e15])
def test_wide_limits_are_only_limits(limit):
    schema = plain(2, 0, 10)
    actions = ActionSet(
        (
            Action("A", Shift("a", by="x"), Absolute("a"), parameters=[Parameter("x", -limit, limit)]),
            Action("B", Shift("b"), Squared("b", weight=1e-12)),
        )
    )
    problem = Problem(schema, straight(schema, [1, 1], -15), actions=actions)
    people = pd.DataFrame({"a": [1.0, 9.0], "b": [1.0, 1.0]})
    for relaxation in ("projection", "exponential"):
        answer = answered(problem, people, max_steps=2, relaxation=relaxation)
        assert costs(answer).tolist() == pytest.approx([4, 0], abs=1e-5)
        check_plans(problem, answer)


@pytest.mark.parametrize("cell", [math.nan, math.inf, "much"])
def test_people_who_cannot_be_read(cell):
    schema = plain(1)
    problem = Problem(schema, straight(schema, [1], -1), actions=shifts("a", Absolute))
    answer = answered(problem, pd.DataFrame({"a": [0.0, cell]}, dtype=object))
    assert answer.status.tolist() == [Status.FOUND, Status.UNREADABLE]
