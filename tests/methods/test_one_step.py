"""OneStep: the step of equation (1) by hand, its sign, and existence of recourse for linear models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout import datasets
from turnabout.core import Problem, Run, Status
from turnabout.errors import MethodError
from turnabout.methods.one_step import OneStep, _slope, region_of
from turnabout.models import Additive, ReluNet, wrap
from turnabout.rules import AtMost
from turnabout.rules.regions import Box, Budget
from turnabout.schema import Category, Number, Schema

MIXED = Schema(
    (
        Number("hours", 0, 100),
        Number("school", 0, 20, moves="up"),
        Number("debt", 0, 10, moves="down"),
        Number("age", 0, 100, moves="fixed"),
        Category("home", ("rent", "own", "free")),
    )
)
PERSON = pd.DataFrame({"hours": [40.0], "school": [10.0], "debt": [5.0], "age": [30.0], "home": ["rent"]})
WEIGHTS = [-1.0, 2.0, 1.0, 5.0, 0.0, 3.0, 1.0]


def linear(schema: Schema, weights: list[float] | torch.Tensor, bias: float):
    """A wrapped torch model with margin w @ x + b."""
    module = torch.nn.Linear(len(weights), 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.as_tensor(weights, dtype=torch.float64).unsqueeze(0))
        module.bias.fill_(bias)
    return wrap(module, schema, threshold=0.5, output="logit")


def step(problem: Problem, people: pd.DataFrame) -> torch.Tensor:
    """The change (n, d) that a search proposes."""
    method = OneStep().fit(problem)
    method.run = Run()
    x = problem.schema.encode(people)
    return method._search(x).x_new[:, 0] - x


def close(a: torch.Tensor, *b: float) -> bool:
    return torch.allclose(a, torch.tensor(b, dtype=torch.float64), atol=1e-9)


def test_the_step_by_hand():
    problem = Problem(MIXED, linear(MIXED, WEIGHTS, -6.0))
    # hours fall to 0, school rises to 20; debt may only fall, which does not help; age is fixed; own is the best home
    assert close(step(problem, PERSON)[0], -0.4, 0.5, 0.0, 0.0, -1.0, 1.0, 0.0)


def test_the_step_stays_in_the_region():
    box = Problem(MIXED, linear(MIXED, WEIGHTS, -6.0), rules=[AtMost(4), Box({"hours": 9, "school": 2, "debt": 1})])
    assert close(step(box, PERSON)[0], -0.09, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0)
    # a unit of budget buys 1/100 of margin by hours and 2/20 by school: school first, as far as it goes
    budget = Budget(12.0, reach={"hours": 30, "school": 2})
    assert close(
        step(Problem(MIXED, linear(MIXED, WEIGHTS, -6.0), rules=[budget]), PERSON)[0],
        -0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0,
    )  # fmt: skip


def test_without_a_region_it_is_all_the_schema_allows():
    box = Box({"hours": 9})
    assert region_of(Problem(MIXED, linear(MIXED, WEIGHTS, 0.0), rules=[AtMost(2), box])).name == str(box)
    around = region_of(Problem(MIXED, linear(MIXED, WEIGHTS, 0.0))).around(MIXED.encode(PERSON))
    low, high = MIXED.bounds(MIXED.encode(PERSON))
    assert torch.equal(around.x + around.lo, low) and torch.equal(around.x + around.hi, high)


def test_find_takes_back_what_is_not_needed():
    # margin of PERSON: -0.4 + 1.0 + 0.5 + 1.5 - 6 = -3.4; a home of their own gives 3, the rest is 0.4 or more of
    # school, worth 2 for 20 years
    answer = OneStep().fit(Problem(MIXED, linear(MIXED, WEIGHTS, -6.0))).find(PERSON)
    option = answer.options.iloc[0]
    assert option["home"] == "own"
    assert option["margin"] == pytest.approx(0.0, abs=1e-4)
    assert option["cost"] < 1.5  # 1 for the home, 0.2 of school or 0.4 of hours


def random_problem(seed: int, moves=("free", "up", "down", "fixed")) -> tuple[Problem, pd.DataFrame]:
    """A logistic regression on twelve numbers and a box of random reach."""
    rng = np.random.default_rng(seed)
    schema = Schema(tuple(Number(f"n{j}", 0, 1, moves=moves[j % len(moves)], decimals=9) for j in range(12)))
    weights = torch.from_numpy(rng.normal(0, 2, 12))
    reach = zip(schema.names, (0.2 * rng.random(12)).tolist())
    box = Box({name: most for name, most in reach if schema[name].moves != "fixed"})
    people = pd.DataFrame(rng.random((200, 12)).round(3), columns=list(schema.names))
    bias = -float((schema.encode(people) @ weights).quantile(0.8))
    return Problem(schema, linear(schema, weights, bias), rules=[box]), people


def highest(problem: Problem, x: torch.Tensor) -> torch.Tensor:
    """(n,) w @ x + b + sum_j max(w_j lo_j, w_j hi_j): the most a person can have under a linear model."""
    around = region_of(problem).around(x)
    w = problem.model.weights
    return problem.model.margin(x) + torch.maximum(w * around.lo, w * around.hi).sum(1)


@pytest.mark.parametrize("seed", range(5))
def test_the_step_never_lowers_the_margin_of_a_linear_model(seed):
    problem, people = random_problem(seed)
    x = problem.schema.encode(people)
    margin = problem.model.margin
    after = margin(x + step(problem, people))
    assert (after >= margin(x)).all() and (after > margin(x)).any()
    assert torch.allclose(after, highest(problem, x), atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_recourse_of_a_linear_model_is_found_exactly_where_it_exists(seed):
    problem, people = random_problem(seed)
    x = problem.schema.encode(people)
    exists, refused = highest(problem, x) >= 0, problem.model.margin(x) < 0
    assert (highest(problem, x).abs() > 1e-6).all()  # nobody on the very edge
    status = OneStep().fit(problem).find(people).status
    assert ((status == Status.FOUND).to_numpy() == (exists & refused).numpy()).all()
    assert ((status == Status.NOT_FOUND).to_numpy() == (~exists & refused).numpy()).all()
    assert (exists & refused).any() and (~exists & refused).any()


def test_german_credit_agrees_with_the_closed_form_for_everyone():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data = datasets.load("german")
    people = data.people[["duration", "amount", "age"]].astype(float)
    schema = Schema(
        (
            Number("duration", 0, 80, moves="down", decimals=6),
            Number("amount", 0, 20000, decimals=6),
            Number("age", 18, 80, moves="up", decimals=6),
        )
    )
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(people, data.accepted)
    model = wrap(fitted, schema, threshold=0.75, background=people)
    problem = Problem(schema, model, rules=[Box.measured(people, schema, deviations=0.75)])
    x = schema.encode(people)
    w, margin = model.weights.numpy(), model.margin(x).numpy()
    sd = people.std().to_numpy()
    own, low, high = people.to_numpy(), np.array([0, 0, 18]), np.array([80, 20000, 80])
    down, up = np.maximum(-0.75 * sd, low - own), np.minimum(0.75 * sd, high - own)
    down[:, 2], up[:, 0] = 0.0, 0.0  # years only pass, loans only get shorter
    span = high - low
    top = margin + np.maximum(w * down / span, w * up / span).sum(1)
    expected = np.where(margin >= 0, "ACCEPTED", np.where(top >= 0, "FOUND", "NOT_FOUND"))
    assert (np.abs(top) > 1e-6).all()
    status = OneStep().fit(problem).find(people).status
    assert (status.to_numpy() == expected).all()
    assert {"ACCEPTED", "FOUND", "NOT_FOUND"} == set(expected)


def test_a_flat_model_gives_nothing_and_no_proof():
    schema = Schema((Number("a", 0, 1),))
    dead = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU(), torch.nn.Linear(1, 1)).double()
    with torch.no_grad():
        for layer, (weight, bias) in zip((dead[0], dead[2]), ((10.0, -9.0), (1.0, -0.5))):
            layer.weight.fill_(weight)
            layer.bias.fill_(bias)
    problem = Problem(schema, wrap(dead, schema, output="logit"))
    answer = OneStep().fit(problem).find(pd.DataFrame({"a": [0.2, 0.92]}))  # accepted from 0.95 on
    assert list(answer.status) == [Status.NOT_FOUND, Status.FOUND]
    assert answer.options["a"].iloc[0] == pytest.approx(0.95, abs=1e-5)


def test_the_fast_slope_of_a_net_is_its_gradient():
    torch_rng = torch.Generator().manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(7, 20), torch.nn.ReLU(), torch.nn.Linear(20, 9), torch.nn.ReLU(), torch.nn.Linear(9, 1)
    )
    for weight in net.parameters():
        torch.nn.init.normal_(weight, generator=torch_rng)
    model = wrap(net, MIXED, output="logit")
    assert isinstance(model, ReluNet) and not isinstance(model, Additive)
    x = torch.rand(500, 7, generator=torch_rng, dtype=torch.float64)
    own = x.clone()
    assert torch.allclose(_slope(model, x), model.gradient(x), rtol=1e-4, atol=1e-4)
    assert torch.equal(x, own)


def test_large_tables_are_searched_in_one_piece():
    problem, _ = random_problem(0)
    people = pd.DataFrame(np.random.default_rng(1).random((3000, 12)), columns=list(problem.schema.names))
    seen = []
    OneStep().fit(problem).find(people, progress=lambda done, total: seen.append(done))
    assert len(seen) == 2


def test_needs_a_differentiable_model():
    schema = Schema((Number("a", 0, 1),))
    model = wrap(lambda table: (table["a"] > 0.5).to_numpy(float), schema)
    with pytest.raises(MethodError, match="needs a model that is Differentiable"):
        OneStep().fit(Problem(schema, model))
