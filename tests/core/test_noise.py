"""Plans that are not followed to the letter: shares under slips in closed form, and plans read back from print."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.core import town

import turnabout as ta
from turnabout.actions import (
    Absolute,
    Action,
    ActionSet,
    Follow,
    KeepRatio,
    Parameter,
    Scale,
    Set,
    Shift,
    new,
    old,
)
from turnabout.core import Problem, replay
from turnabout.core.plan_noise import ROWS, draws_of, largest_theta, read_plans, under_noise
from turnabout.errors import MethodError
from turnabout.schema import Binary, Category, Number, Ordinal, Schema
from turnabout.testing.deciders import weighing

LINE = Schema((Number("a", 0, 100, decimals=3), Number("b", 0, 100, decimals=3)))


def problem_of(*actions, bias=-0.5, weights=None, schema=LINE):
    model = weighing("linear", schema, {"a": 1.0} if weights is None else weights, bias)
    return Problem(schema, model, actions=ActionSet(actions))


def one(problem, a, r, b=50.0, sequence=0):
    x = problem.schema.encode(pd.DataFrame({"a": [a], "b": [b]}))
    return x, torch.tensor([[sequence]]), torch.tensor([[[float(r)]]], dtype=torch.float64)


def even(draws=2001):
    """Every slip from -1 to 1, equally often."""
    return torch.linspace(-1, 1, draws, dtype=torch.float64).reshape(-1, 1, 1)


MOVE = Action("Move", Shift("a"), Absolute("a"))


# -- shares -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theta", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("beyond", [0.0, 0.5, 2.0, 9.0])
def test_the_share_in_closed_form(theta, beyond):
    """From 20 one must reach 50: r = 30 + beyond succeeds while r (1 + theta u) >= 30."""
    problem = problem_of(MOVE)
    r = 30 + beyond
    least = (30 / r - 1) / theta  # u from here on
    wanted = np.clip((1 - least) / 2, 0, 1)
    kept = under_noise(problem, *one(problem, 20.0, r), theta, even())
    assert float(kept.accepted) == pytest.approx(wanted, abs=1e-3)
    assert float(kept.allowed) == float(kept.accepted)


def test_conditions_and_bounds_count_too():
    capped = problem_of(Action("Move", Shift("a"), 1, [new("a") <= 52]))
    x, sequence, r = one(capped, 20.0, 31.0)
    kept = under_noise(capped, x, sequence, r, 0.1, even())
    # accepted where 31 + 3.1 u >= 30; allowed where it is at most 32 as well
    assert float(kept.accepted) == pytest.approx((1 + 1 / 3.1) / 2, abs=1e-3)
    assert float(kept.allowed) == pytest.approx((1 / 3.1 + 1 / 3.1) / 2, abs=1e-3)
    edge = problem_of(MOVE)
    kept = under_noise(edge, *one(edge, 20.0, 79.0), 0.1, even())  # 99 of 100
    assert float(kept.accepted) == 1 and float(kept.allowed) == pytest.approx((1 + 1 / 7.9) / 2, abs=1e-3)


def test_limits_of_a_direction_count_too():
    """Who may only grow does not; a negative parameter slips both ways as well."""
    schema = Schema((Number("a", 0, 100, decimals=3, moves="up"), Number("b", 0, 100, decimals=3)))
    problem = problem_of(MOVE, weights={"b": -1.0}, bias=0.3, schema=schema)
    x = schema.encode(pd.DataFrame({"a": [50.0], "b": [10.0]}))
    sequence = torch.tensor([[0]])
    down = under_noise(problem, x, sequence, torch.tensor([[[-5.0]]], dtype=torch.float64), 0.1, even())
    assert float(down.accepted) == 1 and float(down.allowed) == 0
    shrink = problem_of(MOVE, weights={"a": -1.0}, bias=0.3)
    kept = under_noise(shrink, *one(shrink, 60.0, -31.0), 0.1, even())  # 30 is enough
    assert float(kept.allowed) == pytest.approx((1 + 1 / 3.1) / 2, abs=1e-3)


def test_two_steps_slip_on_their_own():
    problem = problem_of(MOVE, Action("Other", Shift("b"), Absolute("b")), weights={"a": 1.0, "b": 1.0}, bias=-1.0)
    x = problem.schema.encode(pd.DataFrame({"a": [30.0], "b": [30.0]}))
    sequences, r = torch.tensor([[0, 1]]), torch.tensor([[[20.0], [20.0]]], dtype=torch.float64)
    noise = draws_of(20_000, 2, 1, np.random.default_rng(0))
    kept = under_noise(problem, x, sequences, r, 0.1, noise)
    assert float(kept.allowed) == pytest.approx(0.5, abs=0.02)  # u + v >= 0
    more = under_noise(problem, x, sequences, r * 1.05, 0.1, noise)
    edge = -2 / 2.1  # 42 + 2.1 (u + v) >= 40: below it lies a triangle of the square
    assert float(more.allowed) == pytest.approx(1 - (2 + edge) ** 2 / 8, abs=0.02)


def test_actions_without_parameters_do_not_slip():
    schema = Schema((Number("a", 0, 10), Category("home", ("rent", "own"))))
    problem = problem_of(Action("Buy", Set("home", "own"), 1), schema=schema, weights={"home=own": 1.0}, bias=-0.5)
    x = schema.encode(pd.DataFrame({"a": [1.0], "home": ["rent"]}))
    sequences, r = torch.tensor([[0, -1]]), torch.zeros(1, 2, 1, dtype=torch.float64)
    kept = under_noise(problem, x, sequences, r, 0.9, draws_of(50, 2, 1, np.random.default_rng(0)))
    assert float(kept.accepted) == float(kept.allowed) == 1
    tolerated = largest_theta(problem, x, sequences, r, 1.0, draws_of(50, 2, 1, np.random.default_rng(0)))
    assert float(tolerated) == 0.5


def test_each_plan_its_own_theta_and_many_at_once():
    problem = problem_of(MOVE)
    x, sequence, r = one(problem, 20.0, 31.0)
    thetas = torch.tensor([0.0, 0.02, 0.1, 0.3], dtype=torch.float64)
    together = under_noise(problem, x.expand(4, -1), sequence.expand(4, -1), r.expand(4, -1, -1), thetas, even())
    apart = [float(under_noise(problem, x, sequence, r, float(t), even()).allowed) for t in thetas]
    assert together.allowed.tolist() == apart
    assert apart[0] == apart[1] == 1 and apart[2] > apart[3] > 0.5
    many = ROWS // 2001 + 3  # more than are rolled out at a time
    shares = under_noise(problem, x.expand(many, -1), sequence.expand(many, -1), r.expand(many, -1, -1), 0.1, even())
    assert set(shares.allowed.tolist()) == {apart[2]} and len(shares.allowed) == many
    none = under_noise(problem, x[:0], sequence[:0], r[:0], 0.1, even())
    assert none.allowed.shape == (0,)


def test_draws():
    noise = draws_of(500, 2, 3, np.random.default_rng(1))
    assert noise.shape == (500, 2, 3) and noise.dtype == torch.float64
    assert noise.min() >= -1 and noise.max() <= 1 and abs(float(noise.mean())) < 0.05
    assert torch.equal(noise, draws_of(500, 2, 3, np.random.default_rng(1)))


# -- the largest theta --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.5, 0.8, 1.0])
def test_the_largest_theta_in_closed_form(share):
    """r = 33, 30 needed: r (1 - theta (2 share - 1)) = 30, up to a half."""
    problem = problem_of(MOVE)
    found = float(largest_theta(problem, *one(problem, 20.0, 33.0), share, even()))
    wanted = 0.5 if share == 0.5 else (1 - 30 / 33) / (2 * share - 1)
    assert found == pytest.approx(min(0.5, wanted), abs=2e-3)
    assert float(largest_theta(problem, *one(problem, 20.0, 30.0), 1.0, even())) < 2e-3
    assert float(largest_theta(problem, *one(problem, 20.0, 29.0), 1.0, even())) == 0


# -- read back ----------------------------------------------------------------------------------------------------

EVERY_KIND = Schema(
    (
        Number("amount", 1, 100, decimals=1),
        Number("months", 1, 60, step=1),
        Number("fee", 1, 9, step=0.1),
        Ordinal("grade", ("low", "mid", "high", "top")),
        Binary("phone", (False, True)),
        Category("job", ("none", "part", "full")),
        Number("hours", 0, 60, step=0.5),
        Number("age", 18, 90, step=1),
    )
)
EVERY_EFFECT = ActionSet(
    (
        Action("Resize", [Shift("amount", by="by"), KeepRatio("months", "amount")], "|amount|"),
        Action("Cut", Scale("fee", by="share"), "|fee|"),
        Action("Rise", Shift("grade", times=1), "|grade|", repeatable=True),
        Action("Call", Set("phone", True), 2, [old("phone") == False]),  # noqa: E712
        Action("Join", Set("job", "full"), 1, [old("job") != "full"]),
        Action("Work", Set("hours", "to"), "|hours|", parameters=[Parameter("to", 0, 60)]),
        Action("Study", [Shift("hours", by=-1.5), Shift("age", by="years"), Follow("months", "age", times=-2)], 1),
    )
)
PERSON = {
    "amount": 40.0,
    "months": 20,
    "fee": 4.0,
    "grade": "low",
    "phone": False,
    "job": "part",
    "hours": 20.0,
    "age": 30,
}


def anything_else(table):
    """P(yes): every row but theirs."""
    return np.where((table[list(PERSON)] == list(PERSON.values())).all(axis=1), 0.1, 0.9)


KINDS = Problem(EVERY_KIND, ta.models.wrap(anything_else, EVERY_KIND), actions=EVERY_EFFECT)


def printed(plan):
    """The answer that shows a plan, as far as it may be taken."""
    return town.Told([plan]).fit(KINDS).find(pd.DataFrame([PERSON], index=["ann"]))


@given(st.lists(st.tuples(st.sampled_from(KINDS.actions.names), st.integers(-8, 8)), min_size=1, max_size=3))
def test_plans_of_every_kind_read_back_as_they_were(drawn):
    sequences, r = town.spelled(KINDS.actions, [drawn])
    r = r * KINDS.actions.tables.unit[sequences] / 8
    plan = [(name, float(amount)) for (name, _), amount in zip(drawn, r.flatten(), strict=True)]
    answer = printed(plan)
    run = replay(KINDS, EVERY_KIND.encode(pd.DataFrame([PERSON])), sequences, r)
    assert len(answer.plans) == int(run.allowed)
    if not bool(run.allowed):
        return
    told = read_plans(KINDS, answer)
    assert torch.equal(told.sequences, sequences)
    torch.testing.assert_close(told.r, run.r, rtol=0, atol=1e-9)
    again = replay(KINDS, told.x, told.sequences, told.r)
    assert bool(again.allowed)
    torch.testing.assert_close(again.states, run.states, rtol=0, atol=1e-12)
    torch.testing.assert_close(again.cost, run.cost)


@pytest.mark.parametrize(
    ("name", "amount", "parameters", "becomes"),
    [
        ("Resize", 10, {"by": 10.0}, {"amount": 50.0, "months": 25}),
        ("Cut", -1, {"share": 0.75}, {"fee": 3.0}),  # counted as the shift of the fee
        ("Rise", 2, {"grade": 2.0}, {"grade": "high"}),
        ("Call", 0, {}, {"phone": True}),
        ("Join", 0, {}, {"job": "full"}),
        ("Work", 35, {"to": 35.0}, {"hours": 35.0}),
        ("Study", 3, {"years": 3.0}, {"hours": 18.5, "age": 33, "months": 14}),
    ],
)
def test_parameters_read_back_by_hand(name, amount, parameters, becomes):
    answer = printed([(name, amount)])
    step = answer.steps_of("ann").iloc[0]
    assert json.loads(step["parameters"]) == pytest.approx(parameters) and json.loads(step["becomes"]) == becomes
    told = read_plans(KINDS, answer)
    assert float(told.r) == pytest.approx(amount, abs=1e-12)
    assert told.sequences.tolist() == [[KINDS.actions.names.index(name)]]


def test_plans_of_an_answer_read_back():
    problem = town.problem()
    plans = [[("Study", 2), ("Earn", 30)], [("Study", 3), ("Earn", 40), ("Settle", -2)]]
    answer = town.Told(plans).fit(problem).find(town.people(), options=2)
    told = read_plans(problem, answer)
    assert list(told.index) == list(answer.plans.index) and len(told.index) >= 3
    run = replay(problem, told.x, told.sequences, told.r)
    assert run.allowed.all()
    assert run.total.tolist() == pytest.approx(answer.plans["cost"].tolist())
    names = list(problem.schema.names)
    ends = problem.schema.encode(answer.options[names])
    torch.testing.assert_close(run.end, ends, rtol=0, atol=1e-12)


def test_answers_without_plans():
    problem = town.problem()
    nothing = town.Told([[("Earn", 1)]]).fit(problem).find(town.people().iloc[[3]])
    with pytest.raises(MethodError, match="no plans of steps to read"):
        read_plans(problem, nothing)
    bare = Problem(town.SCHEMA, ta.models.wrap(town.bank, town.SCHEMA))
    with pytest.raises(MethodError, match="no plans of steps to read") as caught:
        read_plans(bare, nothing)
    assert "Hint:" in str(caught.value)
