"""Linear models, one action per feature: the cheapest plan is a formula."""

from __future__ import annotations

import numpy as np
import pytest
from tests.methods.sequences.toys import check_plans, costs, crowd, plain, refused, shifts, straight

import turnabout as ta
from turnabout.actions import Absolute, Squared
from turnabout.methods import ActionSequences

PEOPLE = 170
MANY = pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))])


def posed(seed, price, box=1000.0, middle=0.02, bias=(10.0, 20.0)):
    """A line with weights and sizes that all matter, and people whom it refuses; what each lacks."""
    rng = np.random.default_rng(seed)
    schema = plain(3, low=-box, high=box, decimals=6 if box > 100 else 8)
    weights, sizes = rng.uniform(0.3, 2.0, 3) * rng.choice([-1, 1], 3), rng.uniform(0.5, 3.0, 3)
    per = dict(zip(schema.names, sizes, strict=True))
    model = straight(schema, weights, -rng.uniform(*bias) * np.abs(weights).sum())
    problem = ta.Problem(schema, model, actions=shifts(schema.names, lambda name: price(name, per=per[name])))
    people = refused(problem, crowd(schema, 3 * PEOPLE, seed, middle)).iloc[:PEOPLE]
    assert len(people) == PEOPLE
    return problem, people, weights, sizes, -problem.judge(people)


@MANY
def test_squared_costs(seed):
    problem, people, weights, sizes, short = posed(seed, Squared)
    answer = ActionSequences(max_steps=3, passes=1).fit(problem).find(people)
    total = (sizes**2 * weights**2).sum()
    np.testing.assert_allclose(costs(answer), short**2 / total, rtol=1e-4)
    if seed == 0:  # all features move, in proportion
        moved = answer.options[list(problem.schema.names)].to_numpy() - people.to_numpy()
        np.testing.assert_allclose(moved, short[:, None] * sizes**2 * weights / total, rtol=1e-2)
        check_plans(problem, answer)


@MANY
def test_absolute_costs(seed):
    problem, people, weights, sizes, short = posed(seed, Absolute)
    answer = ActionSequences(max_steps=3, passes=1).fit(problem).find(people)
    worth = np.abs(weights) * sizes
    np.testing.assert_allclose(costs(answer), short / worth.max(), rtol=1e-4)
    best = f"move_{problem.schema.names[worth.argmax()]}"
    assert answer.steps["action"].eq(best).all() and answer.plans["steps"].eq(1).all()


@MANY
def test_absolute_costs_spill_over_when_boxed(seed):
    problem, people, weights, sizes, short = posed(seed, Absolute, box=10.0, middle=1.0, bias=(3.0, 8.0))
    room = np.where(weights > 0, 10.0 - people.to_numpy(), 10.0 + people.to_numpy()) * np.abs(weights)
    need, expected = short.copy(), np.zeros(PEOPLE)
    for j in (-np.abs(weights) * sizes).argsort():  # a knapsack: the best feature first, to the end of its box
        taken = np.minimum(need, room[:, j])
        expected += taken / (np.abs(weights[j]) * sizes[j])
        need -= taken
    assert need.max() < 1e-9
    answer = ActionSequences(max_steps=3, passes=1).fit(problem).find(people)
    np.testing.assert_allclose(costs(answer), expected, rtol=1e-4)
    assert answer.plans["steps"].nunique() > 1
    if seed == 0:
        check_plans(problem, answer)
