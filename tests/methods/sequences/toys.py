"""Small problems with actions, and what every plan of an answer must be. Shared by the tests of action sequences."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import torch
from torch import nn

from turnabout.actions import Action, ActionSet, Shift
from turnabout.core import Problem, replay
from turnabout.core.plan_noise import read_plans
from turnabout.core.run import Run
from turnabout.methods import ActionSequences
from turnabout.models import wrap
from turnabout.schema import Number, Schema
from turnabout.testing.deciders import affine
from turnabout.testing.steps_by_hand import duration, price, wrong_step

LETTERS = "abcdefgh"


def plain(d: int, low: float = -300.0, high: float = 300.0, decimals: int = 6, **more) -> Schema:
    """Numbers a, b, c, ..., finely printed."""
    return Schema(tuple(Number(LETTERS[j], low, high, decimals=decimals, **more) for j in range(d)))


def straight(schema: Schema, weights, bias: float):
    """The model  weights . units + bias >= 0,  for schemas of numbers."""
    bottom = torch.tensor([feature.low for feature in schema], dtype=torch.float64)
    span = torch.tensor([feature.high - feature.low for feature in schema], dtype=torch.float64)
    weights = torch.as_tensor(np.asarray(weights, dtype=float))
    return wrap(nn.Sequential(affine(weights * span, float(bias + weights @ bottom))), schema)


def tiny_net(schema: Schema, seed: int, hidden: int = 6, outputs: int = 1, target=None, accepted: float = 0.3):
    """A ReLU net with random numbers that accepts such a share of random encoded rows."""
    rng = np.random.default_rng(seed)
    first = nn.Linear(schema.d, hidden, dtype=torch.float64)
    last = nn.Linear(hidden, outputs, dtype=torch.float64)
    yes = 0 if target is None else target
    with torch.no_grad():
        first.weight.copy_(torch.from_numpy(rng.normal(0, 2, (hidden, schema.d))))
        first.bias.copy_(torch.from_numpy(rng.normal(0, 1, hidden)))
        last.weight.copy_(torch.from_numpy(rng.normal(0, 1, (outputs, hidden))))
        last.bias.zero_()
        scores = last(first(torch.from_numpy(rng.random((500, schema.d)))).relu())
        others = [j for j in range(outputs) if j != yes]
        last.bias[others] -= scores[:, others].mean(0)  # every class has its turn
        scores = scores + last.bias
        margin = scores[:, yes] - (scores[:, others].amax(1) if others else 0.0)
        last.bias[yes] -= margin.quantile(1 - accepted)
    return wrap(nn.Sequential(first, nn.ReLU(), last), schema, target=target)


def shifts(names, cost, **more) -> ActionSet:
    """One action for each feature, which shifts it at the cost given by `cost(name)`."""
    return ActionSet([Action(f"move_{name}", Shift(name), cost(name), **more) for name in names])


def crowd(schema: Schema, n: int, seed: int, middle: float = 1.0) -> pd.DataFrame:
    """People within that share of the bounds of a schema of numbers, with three decimals or on its grid."""
    rng = np.random.default_rng(seed)
    out = {}
    for feature in schema:
        center, half = (feature.low + feature.high) / 2, middle * (feature.high - feature.low) / 2
        value = rng.uniform(center - half, center + half, n)
        step = feature.step or 1e-3
        out[feature.name] = np.round(np.clip(np.round(value / step) * step, feature.low, feature.high), 9)
    return pd.DataFrame(out)


def refused(problem: Problem, people: pd.DataFrame) -> pd.DataFrame:
    return people[problem.judge(people) < 0]


def check_plans(problem: Problem, answer) -> None:
    """Every plan of an answer holds: by the replay, by hand, and by the model; and costs what it says."""
    schema, actions, names = problem.schema, problem.actions, list(problem.schema.names)
    told = read_plans(problem, answer)
    run = replay(problem, told.x, told.sequences, told.r)
    assert run.allowed.all()
    assert list(told.index) == list(answer.options.index)
    steps = answer.steps.groupby(level=["person", "option"], sort=False)["cost"].sum()
    for cost in (run.total.numpy(), answer.plans["cost"].to_numpy(), steps.to_numpy()):
        np.testing.assert_allclose(cost, answer.options["cost"].to_numpy(), rtol=1e-9, atol=1e-15)
    assert (problem.margin(run.end) >= 0).all()
    assert (problem.judge(answer.options[names]) >= 0).all()
    torch.testing.assert_close(run.end, schema.encode(answer.options[names]), rtol=0, atol=1e-12)
    by_name = dict(zip(actions.names, actions.actions, strict=True))
    for k, key in enumerate(told.index[:40]):
        rows = answer.states_of(*key).astype(object).to_dict("records")
        for t, (_, step) in enumerate(answer.steps_of(*key).iterrows()):
            action, before, after = by_name[step["action"]], rows[t], rows[t + 1]
            assert wrong_step(schema, action, before, after) == ""
            if not action.is_free:
                assert np.isclose(price(schema, action, before, after), step["cost"], rtol=1e-9, atol=1e-15)
                assert np.isclose(duration(schema, action, before, after), step["duration"], atol=1e-9)
            torch.testing.assert_close(
                schema.encode(pd.DataFrame([after])), run.states[k, t + 1 : t + 2], rtol=0, atol=1e-12
            )
            assert set(json.loads(step["becomes"])) <= set(action.writes)


def sequences_of(answer) -> dict:
    """The actions of every plan, in order, by person and option."""
    grouped = answer.steps.groupby(level=["person", "option"], sort=False)["action"]
    return {key: tuple(group) for key, group in grouped}


def costs(answer) -> np.ndarray:
    """Cost of each person's first plan, inf for those without, in the order of the people."""
    first = answer.options["cost"].xs(0, level="option") if len(answer.options) else pd.Series(dtype=float)
    return first.reindex(answer.people.index).fillna(np.inf).to_numpy(dtype=float)


def fitted(problem: Problem, **parameters) -> ActionSequences:
    """A fitted method that stands in the middle of a call, for tests of its parts."""
    method = ActionSequences(**parameters).fit(problem)
    method.run = Run()
    return method


def batch_of(problem: Problem, people: pd.DataFrame, sequences, **parameters):
    """One row for each person and their sequence, ready to be rolled out."""
    solver = fitted(problem, **parameters)._solver(problem.schema.encode(people))
    return solver.batch(torch.arange(len(people)), torch.as_tensor(sequences))


def answered(problem: Problem, people: pd.DataFrame, options=1, seed=0, time_limit=None, **parameters):
    """What a method with these parameters finds."""
    return ActionSequences(**parameters).fit(problem).find(people, options=options, seed=seed, time_limit=time_limit)
