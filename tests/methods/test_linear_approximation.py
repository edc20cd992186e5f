"""LinearApproximation: the line by hand, the optimum of linear models, fits on samples, further rounds."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout import costs, datasets
from turnabout.core import Problem, Run, Status
from turnabout.demo import credit_model
from turnabout.errors import MethodError
from turnabout.methods.exact_linear import ExactLinear
from turnabout.methods.linear_approximation import LinearApproximation
from turnabout.models import wrap
from turnabout.rules import AtMost, Implies, Linear, Rises
from turnabout.rules.regions import Ball, Box
from turnabout.schema import Category, Number, Schema

PLANE = Schema((Number("a", 0, 1), Number("b", 0, 1)))
PERSON = pd.DataFrame({"a": [0.1], "b": [0.2]})


class Curved(torch.nn.Module):
    """Logit scale * (a^power - level) + b / 10."""

    def __init__(self, power: float, level: float, scale: float = 1.0):
        super().__init__()
        self.power, self.level, self.scale = power, level, scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * (x[:, 0] ** self.power - self.level) + x[:, 1] / 10


def curved(power: float, level: float, scale: float = 1.0, rules=()) -> Problem:
    return Problem(PLANE, wrap(Curved(power, level, scale), PLANE, output="logit"), rules=rules)


def linear(schema: Schema, weights: list[float], bias: float):
    """A wrapped torch model with margin w @ x + b."""
    module = torch.nn.Linear(len(weights), 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([weights], dtype=torch.float64))
        module.bias.fill_(bias)
    return wrap(module, schema, threshold=0.5, output="logit")


def proposals(method: LinearApproximation, problem: Problem, people: pd.DataFrame) -> torch.Tensor:
    """What a search proposes, (n, rounds, d)."""
    method.fit(problem).run = Run()
    return method._search(problem.schema.encode(people))


# -- the line ----------------------------------------------------------------------------------------------------


def test_the_first_line_by_hand():
    # at a = 0.5, b = 0: margin 0.25 - 0.49 = -0.24, slope 2 a = 1; the line reaches 0 at a = 0.74, the model at 0.7
    x_new = proposals(LinearApproximation(), curved(2.0, 0.49), pd.DataFrame({"a": [0.5], "b": [0.0]})).x_new
    assert x_new[0, 0].tolist() == pytest.approx([0.74, 0.0], abs=2e-6)


def test_further_rounds_draw_the_line_at_the_plan():
    # square root: at a = 0.09, margin 0.3 - 0.7 = -0.4, slope 1 / (2 * 0.3) = 5/3: the line says 0.33, the model 0.49
    problem, person = curved(0.5, 0.7), pd.DataFrame({"a": [0.09], "b": [0.0]})
    x_new = proposals(LinearApproximation(rounds=3), problem, person).x_new[0, :, 0].tolist()
    newton = [0.33]
    for _ in range(2):
        root = math.sqrt(newton[-1])
        newton.append(newton[-1] + (0.7 - root) * 2 * root)
    assert x_new == pytest.approx(newton, abs=5e-6)
    assert newton == pytest.approx([0.33, 0.474239, 0.489871], abs=1e-6)


def test_a_plan_that_is_accepted_is_not_drawn_again():
    x_new = proposals(LinearApproximation(rounds=3), curved(2.0, 0.49), pd.DataFrame({"a": [0.5], "b": [0.0]})).x_new
    assert torch.isfinite(x_new[0, 0]).all() and x_new[0, 1:].isnan().all()


def test_further_rounds_find_what_the_first_line_misses():
    people = pd.DataFrame({"a": [0.01, 0.09, 0.2], "b": [0.0, 0.1, 0.3]})
    few, more = (LinearApproximation(rounds=rounds).fit(curved(0.1, 0.95)).find(people).status for rounds in (1, 6))
    assert (few == Status.NOT_FOUND).any() and (more == Status.FOUND).all()


def test_without_hope_the_best_row_of_the_line_is_proposed():
    # at a = 0.1 the slope is 0.2: the line promises -0.48 + 0.18 + 0.1 at most, the model gives 0.51 + 0.1 there
    problem, person = curved(2.0, 0.49), pd.DataFrame({"a": [0.1], "b": [0.0]})
    assert proposals(LinearApproximation(), problem, person).x_new[0, 0].tolist() == [1.0, 1.0]
    assert LinearApproximation().fit(problem).find(person).status[0] == Status.FOUND


def test_nobody_is_told_impossible():
    answer = LinearApproximation().fit(curved(2.0, 3.0)).find(PERSON)
    assert answer.status[0] == Status.NOT_FOUND
    assert answer.why["best_margin"].iloc[0] == pytest.approx(1 - 3.0 + 0.1)
    hopeless = Problem(PLANE, linear(PLANE, [1.0, 1.0], -3.0))
    assert LinearApproximation().fit(hopeless).find(PERSON).status[0] == Status.NOT_FOUND


# -- what the released code forgot -------------------------------------------------------------------------------


def test_the_true_threshold_is_aimed_at():
    # P(yes) >= 0.8 means logit >= log 4
    module = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Sigmoid()).double()
    with torch.no_grad():
        module[0].weight.copy_(torch.tensor([[4.0, 1.0]]))
        module[0].bias.fill_(-1.0)
    model = wrap(module, PLANE, threshold=0.8)
    x_new = proposals(LinearApproximation(), Problem(PLANE, model), PERSON).x_new[0, 0]
    assert float(4 * x_new[0] + x_new[1] - 1) == pytest.approx(math.log(4), abs=1e-5)
    assert x_new[1] == 0.2


def test_directions_rules_and_regions_are_kept():
    schema = Schema(
        (Number("a", 0, 1), Number("b", 0, 1, moves="up"), Number("c", 0, 1, moves="fixed"), Category("d", ("x", "y")))
    )
    model = linear(schema, [2.0, -3.0, 5.0, -1.0, 1.0], -0.9)
    # margins 0.4 - 0.3 + 0.5 - 1 - 0.9 = -1.3 and 0 - 0.9 + 0.5 + 1 - 0.9 = -0.3
    people = pd.DataFrame({"a": [0.2, 0.0], "b": [0.1, 0.3], "c": [0.1, 0.1], "d": ["x", "y"]})
    rules = [AtMost(2), Box({"a": 0.3, "b": 0.2, "d": 1})]
    answer = LinearApproximation().fit(Problem(schema, model, rules=rules)).find(people)
    assert list(answer.status) == [Status.FOUND, Status.FOUND]
    found = answer.options.droplevel("option")
    assert (found["a"] - people["a"]).max() <= 0.3 + 1e-9
    assert (found["b"] >= people["b"]).all() and (found["c"] == people["c"]).all()
    assert found["d"].tolist() == ["y", "y"]  # 0.65 of a is out of reach
    assert found["a"].tolist() == pytest.approx([0.2, 0.15], abs=1e-5)


# -- linear models: the optimum ----------------------------------------------------------------------------------


def mixed(seed: int, cost, rules) -> tuple[Problem, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    schema = Schema(
        (
            Number("years", 0, 20, step=1, moves="up"),
            Number("rate", 0, 1, step=0.05),
            Number("wealth", 0, 100),
            Number("debt", 0, 50, step=5, moves="down"),
            Category("home", ("rent", "own", "free")),
        )
    )
    weights = rng.normal(0, 2, schema.d).tolist()
    people = pd.DataFrame(
        {
            "years": rng.integers(0, 20, 25),
            "rate": rng.random(25).round(2),  # off its grid, for some
            "wealth": (100 * rng.random(25)).round(1),
            "debt": 5 * rng.integers(0, 10, 25),
            "home": rng.choice(["rent", "own", "free"], 25),
        }
    )
    x = schema.encode(people)
    model = linear(schema, weights, -float((x @ torch.tensor(weights, dtype=torch.float64)).quantile(0.8)))
    return Problem(schema, model, cost=cost, rules=rules, background=people), people


@pytest.mark.parametrize(
    ("cost", "rules"),
    [
        (costs.L1(), ()),
        (costs.L1() + 0.1 * costs.L0(), ()),
        (costs.L2(), ()),
        (costs.L1(), (AtMost(2),)),
        (costs.L1(), (Implies(Rises("years"), Rises("wealth", by=2)), Linear({"wealth": 1.0, "debt": 1.0}, "<=", 90))),
        (costs.L1(), (Box({"years": 6, "rate": 0.3, "wealth": 30.0, "home": 1}),)),
    ],
    ids=["L1", "L1 and L0", "L2", "at most", "two rules", "box"],
)
def test_a_linear_model_gets_the_optimum(cost, rules):
    problem, people = mixed(3, cost, rules)
    people = people.iloc[: 4 if isinstance(cost, costs.L2) else 12]  # squares take half a second each
    ours = LinearApproximation().fit(problem).find(people)
    best = ExactLinear().fit(problem).find(people)
    assert ((ours.status == Status.FOUND) == (best.status == Status.FOUND)).all()
    assert (ours.status == Status.FOUND).sum() >= 2
    assert np.allclose(ours.options["cost"], best.options["cost"], atol=2e-5)
    assert (ours.status != Status.IMPOSSIBLE).all()


def test_german_credit_is_never_cheaper_than_the_optimum():
    train, test = datasets.load("german").split()
    model = wrap(credit_model(train), train.schema, background=train.people)  # bends in the levels of ordinals
    problem = Problem(train.schema, model)
    people = test.people[model.judge(test.people) < 0].iloc[:20]
    ours = LinearApproximation().fit(problem).find(people)
    best = ExactLinear().fit(problem).find(people)
    assert (ours.status == Status.FOUND).all()
    gap = ours.options["cost"].to_numpy() - best.options["cost"].to_numpy()
    assert (gap >= -1e-9).all() and (gap <= 1e-9).mean() >= 0.5


# -- fits on samples ---------------------------------------------------------------------------------------------


def test_a_fit_on_samples_finds_the_line_of_a_linear_model():
    problem, people = mixed(3, costs.L1(), ())
    method = LinearApproximation(samples=200).fit(problem)
    method.run = Run()
    x = problem.schema.encode(people)
    slope = method._slope(x, x, 0)
    w = problem.model.weights.clone()
    numbers, home = slice(0, 4), slice(4, 7)
    moving = problem.schema.bounds(x)[1] > problem.schema.bounds(x)[0]
    assert torch.allclose(slope[:, numbers], torch.where(moving, w, 0.0)[:, numbers], atol=1e-8)
    between = slope[:, home] - slope[:, home].mean(1, keepdim=True)  # levels are known up to a constant
    assert torch.allclose(between, (w[home] - w[home].mean()).expand_as(between), atol=1e-8)


def test_a_fit_on_samples_reaches_the_optimum_of_a_linear_model():
    problem, people = mixed(3, costs.L1(), ())
    ours = LinearApproximation(samples=200).fit(problem).find(people)
    best = ExactLinear().fit(problem).find(people)
    assert ((ours.status == Status.FOUND) == (best.status == Status.FOUND)).all()
    assert np.allclose(ours.options["cost"], best.options["cost"], atol=1e-5)


def test_a_fit_sees_further_than_the_gradient():
    # a^2 from a = 0: no slope there, but the rows around show one
    x = PLANE.encode(pd.DataFrame({"a": [0.0], "b": [0.0]}))
    flat, fitted = LinearApproximation().fit(curved(2.0, 0.49)), LinearApproximation(samples=400).fit(curved(2.0, 0.49))
    flat.run = fitted.run = Run()
    assert flat._slope(x, x, 0)[0, 0] == 0
    # E[a^3] / E[a^2] = 3/4 for a uniform; a little less, as near rows weigh more
    assert 0.6 < fitted._slope(x, x, 0)[0, 0] < 0.75


def test_the_weights_of_samples_are_local():
    x = PLANE.encode(pd.DataFrame({"a": [0.5], "b": [0.5]}))
    slopes = []
    for width in (0.05, 100.0):
        method = LinearApproximation(samples=4000, width=width).fit(curved(3.0, 0.49))
        method.run = Run()
        slopes.append(float(method._slope(x, x, 0)[0, 0]))
    # near 0.5 the slope of a^3 is 3 a^2 = 0.75; over all of [0, 1], E[t^4] / E[t^2] = 0.15 more
    assert slopes == pytest.approx([0.75, 0.9], abs=0.04)  # draws are not quite even


def test_samples_are_legal_rows_and_the_same_for_the_same_seed():
    problem, people = mixed(1, costs.L1(), ())
    method = LinearApproximation(samples=50).fit(problem)
    asked = []
    method.ask = lambda rows: asked.append(rows) or problem.margin(rows)
    x = problem.schema.encode(people)
    for seed in (0, 0, 1):
        method.run = Run(seed=seed)
        method._slope(x, x, 0)
    own = x.unsqueeze(1).expand_as(asked[0])
    assert torch.allclose(problem.schema.snap(own, asked[0]), asked[0], atol=1e-12)
    assert torch.equal(asked[0], asked[2]) and not torch.equal(asked[0], asked[4])  # between: their own rows


def test_samples_stay_in_the_region():
    method = LinearApproximation(samples=50).fit(curved(2.0, 0.49, rules=[Box({"a": 0.2})]))
    asked = []
    method.ask = lambda rows: asked.append(rows) or method.problem_.margin(rows)
    method.run = Run()
    x = PLANE.encode(PERSON)
    method._slope(x, x, 0)
    assert (asked[0][..., 0] <= 0.3 + 1e-9).all() and (asked[0][..., 1] == 0.2).all()


# -- parameters, limits, errors ----------------------------------------------------------------------------------


def test_stops_at_the_time_limit():
    problem, people = mixed(3, costs.L2(), (AtMost(3),))
    many = pd.concat([people] * 40, ignore_index=True)
    assert LinearApproximation(rounds=50).fit(problem).find(many, time_limit=0.3).seconds < 5


def test_costs_that_are_no_sums_are_taken():
    problem, people = mixed(3, costs.L2() + costs.L1(), ())
    answer = LinearApproximation().fit(problem).find(people.iloc[:6])
    assert (answer.status == Status.FOUND).any()


@pytest.mark.parametrize(
    "params",
    [{"samples": -1}, {"samples": 2.5}, {"rounds": 0}, {"rounds": True}, {"width": 0.0}, {"seconds": -1.0}],
    ids=str,
)
def test_parameters_are_checked(params):
    name = next(iter(params))
    with pytest.raises(MethodError, match=f"LinearApproximation has {name}="):
        LinearApproximation(**params).fit(curved(2.0, 0.49))


def test_rules_without_a_linear_form_are_refused():
    with pytest.raises(MethodError, match="cannot write the rule"):
        LinearApproximation().fit(curved(2.0, 0.49, rules=[Ball(1.0, {"a": 0.2, "b": 0.2})]))
