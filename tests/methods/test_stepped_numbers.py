"""ExactLinear where the margin moves in steps, as behind bins: against brute force, for other costs and for rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from test_exact_linear import COSTS, RULES, AdditiveStub, compare, known, random_case, ruled_case

from turnabout import costs
from turnabout.core import Problem, Status
from turnabout.errors import MethodError
from turnabout.methods import ExactLinear
from turnabout.models import Jumps, Terms
from turnabout.rules import AtMost, Implies, Linear, Rises
from turnabout.schema import Category, Number, Ordinal, Schema


def step(problem, seed, also_straight=False):
    """The same problem with jumps in every number and ordinal, at legal values, a hair before them, and between."""
    r, schema = np.random.default_rng(seed), problem.schema
    terms, at, cuts = problem.model.terms, [], []
    weights = terms.weights.clone()
    for f, s in zip(schema.features, schema.slices):
        if isinstance(f, (Number, Ordinal)):
            on = float(r.integers(0, 5)) * f.unit_step / f.span
            places = [-0.02, on, np.nextafter(on, -1), *r.uniform(0, 1, 3)]
            at, cuts = at + [s.start] * len(places), cuts + places
            if not also_straight:
                weights[s.start] = 0.0
    jumps = Jumps(torch.tensor(at), torch.tensor(cuts).double(), torch.from_numpy(r.normal(size=len(at)) * 2))
    stepped = replace(terms, weights=weights, bias=0.0, jumps=jumps if at else None)
    return stepped


def posed(case, seed, cost, rules=(), also_straight=False):
    problem, people = case
    terms = step(problem, seed, also_straight)
    margin = terms.margin(problem.schema.encode(people))
    model = AdditiveStub(problem.schema, replace(terms, bias=-float(margin.quantile(0.7)) - 0.3))
    return Problem(problem.schema, model, cost=cost, rules=rules, background=people), people


@pytest.mark.filterwarnings("ignore:column .* holds")
@pytest.mark.parametrize("straight", [False, True], ids=["steps only", "steps on a slope"])
@pytest.mark.parametrize("name", COSTS)
def test_reaches_every_optimum(name, straight):
    found = impossible = 0
    for seed in range(3):
        case = random_case(seed, costs.L1())
        more = compare(*posed(case, seed, known(COSTS[name], case[0].schema.names), also_straight=straight))
        found, impossible = found + more[0], impossible + more[1]
    assert found > 3
    assert impossible > 0


@pytest.mark.filterwarnings("ignore:column .* holds")
@pytest.mark.parametrize(
    "cost",
    [
        costs.L2(squared=True),
        costs.L2(),
        costs.PercentileShift() + 0.01 * costs.L1(),
        costs.PercentileShift(reduce="max"),
    ],
    ids=["squares", "Euclidean", "percentiles", "largest percentile"],
)
def test_reaches_every_optimum_of_other_costs(cost):
    found = 0
    for seed in range(3):
        case = random_case(seed, costs.L1(), people=4)
        found += compare(*posed(case, seed, cost, also_straight=seed % 2 == 0), tolerance=1.1e-5)[0]
    assert found > 0


@pytest.mark.parametrize("name", RULES)
def test_reaches_every_optimum_under_rules(name):
    found = 0
    for seed in range(2):
        cost = costs.L1() + (seed % 2) * 0.1 * costs.L0()
        case = ruled_case(seed, [], cost)
        found += compare(*posed(case, seed, cost, RULES[name], also_straight=seed % 3 == 0))[0]
    assert found > 0


# -- long grids -----------------------------------------------------------------------------------------------------


def long_case(seed, cost, rules=()):
    """Numbers with some hundred values each, all in steps: too long to read value by value."""
    r = np.random.default_rng(seed)
    schema = Schema((Number("a", 0, 40, decimals=1), Number("b", -20, 20, decimals=1, moves="up", missing=True)))
    people = pd.DataFrame({"a": r.uniform(-1, 41, 6).round(2), "b": r.uniform(-20, 20, 6).round(1)})
    people.loc[0, "b"] = np.nan
    cuts = torch.from_numpy(np.concatenate([r.choice(np.arange(401), 6) / 400, r.uniform(0, 1, 6)]))
    at = torch.tensor([0] * 6 + [1] * 6)
    terms = Terms.straight(torch.tensor([0.0, 0.0, 0.3]).double(), 0.0)
    terms = replace(terms, jumps=Jumps(at, cuts, torch.from_numpy(r.normal(size=12))))
    bias = -float(terms.margin(schema.encode(people)).quantile(0.8)) - 0.2
    return Problem(schema, AdditiveStub(schema, replace(terms, bias=bias)), cost=cost, rules=rules), people


@pytest.mark.filterwarnings("ignore:column .* holds")
@pytest.mark.parametrize(
    "rules",
    [[], [AtMost(1)], [Linear({"a": 1.0, "b": 1.0}, "<=", 30.0)], [Implies(Rises("a", by=3.05), Rises("b", by=2))]],
    ids=["no rule", "at most 1", "linear", "implies"],
)
def test_long_grids_are_read_at_the_ends_of_their_steps(rules):
    found = 0
    for seed in range(2):
        problem, people = long_case(seed, costs.L1(), rules)
        keep = people if not rules else people.drop(0)
        found += compare(problem, keep)[0]
    assert found > 0


@pytest.mark.filterwarnings("ignore:column .* holds")
def test_long_grids_with_a_cost_that_is_no_line():
    problem, people = long_case(0, costs.L2())
    compare(problem, people.head(4), tolerance=1.1e-5)


def test_long_grids_on_a_slope_are_refused():
    problem, _ = long_case(0, costs.L1())
    sloped = replace(problem.model.terms, weights=torch.tensor([1.0, 0.0, 0.0]).double())
    with pytest.raises(MethodError, match="there are 401 of them"):
        ExactLinear().fit(Problem(problem.schema, AdditiveStub(problem.schema, sloped)))


# -- by hand --------------------------------------------------------------------------------------------------------


def by_hand(bias):
    """20 points from 30, 45 from 60, 10 for owning a home."""
    schema = Schema((Number("income", 0, 100, decimals=2), Category("home", ("rent", "own"))))
    jumps = Jumps(
        torch.tensor([0, 0]), torch.tensor([0.3, 0.6], dtype=torch.float64), torch.tensor([20.0, 25.0]).double()
    )
    jumps = replace(jumps, cuts=torch.nextafter(jumps.cuts, torch.zeros(2).double()))  # 30.00 is in the second bin
    terms = replace(Terms.straight(torch.tensor([0.0, 0.0, 10.0]).double(), bias), jumps=jumps)
    return Problem(schema, AdditiveStub(schema, terms), costs.L1())


def test_the_first_value_of_a_bin_is_the_plan():
    people = pd.DataFrame({"income": [12.5, 29.99, 59.5], "home": ["rent", "rent", "rent"]})
    answer = ExactLinear().fit(by_hand(-19.0)).find(people)
    assert answer.options["income"].tolist() == [30.0, 30.0]  # the third is accepted
    assert answer.options["cost"].tolist() == pytest.approx([0.175, 0.0001])
    assert answer.status.tolist() == [Status.FOUND, Status.FOUND, Status.ACCEPTED]


def test_the_proof_names_the_points():
    people = pd.DataFrame({"income": [12.5], "home": ["rent"]})
    answer = ExactLinear().fit(by_hand(-56.0)).find(people)
    assert answer.status[0] == Status.IMPOSSIBLE
    assert "adds 45" in answer.why.loc[0, "proof"]
    assert "home to own adds 10" in answer.why.loc[0, "proof"]
    assert "brings it to -1" in answer.why.loc[0, "proof"]


def test_terms_with_jumps_by_hand():
    problem = by_hand(-1.0)
    terms = problem.model.terms
    x = problem.schema.encode(pd.DataFrame({"income": [29.99, 30.0, 60.0], "home": ["rent", "own", "own"]}))
    assert terms.margin(x).tolist() == [-1.0, 29.0, 54.0]
    assert terms.term(0, x[:, 0]).tolist() == [0.0, 20.0, 45.0]
    assert terms.to("cpu").margin(x).tolist() == [-1.0, 29.0, 54.0]
    assert terms.size == 56.0
