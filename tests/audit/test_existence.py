"""Existence on problems where brute force or a formula knows the answer."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from hand import SCHEMA, Raise, linear, table
from turnabout.audit import existence
from turnabout.rules import AtMost, Box, Budget
from turnabout.solvers.boxes import never_accepted


@pytest.fixture
def people():
    rng = np.random.default_rng(3)
    return table(rng.integers(0, 101, 60), rng.integers(0, 51, 60), index=[f"p{i}" for i in range(60)])


def best_by_hand(people, reach):
    """Income as high, debt as low as bounds and reach allow."""
    income = np.minimum(people.income + reach, 100)
    debt = np.maximum(people.debt - reach, 0)
    return 0.06 * income - 0.08 * debt - 2.5


def test_linear_model_is_its_formula(people):
    problem = ta.Problem(SCHEMA, linear(), rules=[Box({"income": 9, "debt": 9})])
    report = existence(problem, people, best=True)
    assert report.exact
    refused = ~report.people.accepted
    assert 10 < refused.sum() < 55
    best = best_by_hand(people, 9)
    assert np.allclose(report.people.best_margin[refused], best[refused])
    assert (report.people.exists == (best >= 1e-9)).all()
    assert report.refused.n == refused.sum() and report.everyone.hits == (best >= 1e-9).sum()
    assert report.best.loc[refused[refused].index[0]].income == min(people.income[refused].iloc[0] + 9, 100)
    assert "exact" in str(report) and report.to_dict()["exact"] is True
    quick = existence(problem, people)
    assert quick.people.exists.equals(report.people.exists) and quick.exact


def test_rules_are_kept(people):
    problem = ta.Problem(SCHEMA, linear(), rules=[Box({"income": 9, "debt": 9}), AtMost(1)])
    report = existence(problem, people)
    income_only = 0.06 * np.minimum(people.income + 9, 100) - 0.08 * people.debt - 2.5
    debt_only = 0.06 * people.income - 0.08 * np.maximum(people.debt - 9, 0) - 2.5
    assert report.exact
    assert (report.people.exists == (np.maximum(income_only, debt_only) >= 1e-9)).all()


@pytest.fixture
def bumpy():
    """Yes only on a diagonal, on whole numbers and a category; a plain function."""
    schema = ta.Schema(
        (
            ta.Number("a", 0, 12, step=1),
            ta.Ordinal("b", levels=("low", "mid", "high"), moves="up"),
            ta.Category("c", levels=("x", "y", "z")),
            ta.Number("d", 0, 1, moves="fixed"),
        )
    )

    def yes(t):
        code = t.b.map({"low": 0, "mid": 1, "high": 2}).to_numpy(float) + t.c.map({"x": 0, "y": 3, "z": 6}).to_numpy(
            float
        )
        return ((t.a.to_numpy(float) == code) & (t.d.to_numpy(float) < 0.5)).astype(float)

    return ta.Problem(schema, ta.models.wrap(yes, schema), rules=[Box({"a": 2, "b": 1, "c": 1})]), yes


def test_every_row_is_tried(bumpy):
    problem, yes = bumpy
    rng = np.random.default_rng(0)
    n = 40
    people = pd.DataFrame(
        {
            "a": rng.integers(0, 13, n),
            "b": rng.choice(["low", "mid", "high"], n),
            "c": rng.choice(["x", "y", "z"], n),
            "d": rng.random(n).round(2),
        }
    )
    report = existence(problem, people)
    order = ["low", "mid", "high"]
    for i, row in people.iterrows():
        levels = order[order.index(row.b) : order.index(row.b) + 2]
        numbers = range(max(0, row.a - 2), min(12, row.a + 2) + 1)
        reach = pd.DataFrame(itertools.product(numbers, levels, "xyz", [row.d]), columns=list("abcd"))
        assert report.people.exists[i] == bool(yes(reach).any())
        if not report.people.exists[i]:
            assert report.people.rows[i] >= len(reach)
    assert report.exact and 5 < report.people.exists.sum() < 35


def test_stuck_cells_do_not_move():
    schema = ta.Schema((ta.Number("a", 0, 10, step=1, missing=True), ta.Number("b", 0, 10, step=1, moves="fixed")))
    model = ta.models.wrap(lambda t: (t.a.fillna(-1) >= 5).to_numpy(float), schema)
    report = existence(ta.Problem(schema, model), pd.DataFrame({"a": [np.nan, 2.0], "b": [1, 1]}))
    assert report.people.exists.tolist() == [False, True] and report.exact


@pytest.fixture
def wave():
    """A small ReLU net on two continuous columns and one that is fixed."""
    schema = ta.Schema((ta.Number("a", -3, 3), ta.Number("b", -3, 3, moves="up"), ta.Number("c", -3, 3, moves="fixed")))
    generator = torch.Generator().manual_seed(2)
    net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    people = pd.DataFrame(np.random.default_rng(1).normal(size=(300, 3)).clip(-3, 3), columns=schema.names)
    with torch.no_grad():
        net[-1].bias -= net(schema.encode(people)).quantile(0.8)
    return ta.Problem(schema, ta.models.wrap(net, schema), rules=[Box({"a": 0.75, "b": 0.75})]), people


def test_bound_never_contradicts_a_fine_grid(wave):
    problem, people = wave
    quick, full = existence(problem, people, points=9), existence(problem, people, points=61, best=True)
    assert full.people.exists[quick.people.exists].all()
    proved = quick.people.settled & ~quick.people.exists
    assert proved.sum() > 100
    assert not full.people.exists[proved].any()
    assert (full.people.best_margin >= quick.people.best_margin - 1e-12).all()
    assert full.people.exists.sum() - full.people.accepted.sum() > 20


def test_selection_says_that_it_is_a_lower_bound(wave):
    problem, people = wave
    smooth = ta.models.wrap(
        lambda t: 1 / (1 + np.exp(9 * (t.a - 0.123).abs().to_numpy(float))) + 0.0, problem.schema, 0.4999
    )
    report = existence(ta.Problem(problem.schema, smooth, rules=problem.declared_rules), people.iloc[:5], points=3)
    assert not report.exact and "lower bounds" in str(report)
    assert (report.people.settled == report.people.exists).all()


def test_bound_excludes_exactly_what_a_line_excludes(people):
    problem = ta.Problem(SCHEMA, linear())
    x = SCHEMA.encode(people)
    low, high = (x - 0.05).clamp(0, 1), (x + 0.05).clamp(0, 1)
    low[:, 2], high[:, 2] = x[:, 2], x[:, 2]
    top = problem.margin(torch.stack([high[:, 0], low[:, 1], x[:, 2]], 1))
    assert torch.equal(never_accepted(problem, x, low, high), top < 0)


def test_trees_are_bounded_too(people):
    from sklearn.tree import DecisionTreeClassifier

    truth = 0.06 * people.income - 0.08 * people.debt > 2.5
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(people[["income", "debt"]].assign(sex=0), truth)
    schema = ta.Schema((ta.Number("income", 0, 100), ta.Number("debt", 0, 50), ta.Number("sex", 0, 1, moves="fixed")))
    rows = people.assign(sex=0).astype(float)
    problem = ta.Problem(schema, ta.models.wrap(tree, schema, background=rows), rules=[Box({"income": 5, "debt": 5})])
    quick = existence(problem, rows)
    assert quick.exact and not quick.people.exists.all()
    assert existence(problem, rows, points=65, best=True).people.exists.equals(quick.people.exists)


def test_corners_of_a_budget_are_among_the_rows():
    # the best point spends all of the budget on a: 2.5 units of it, which no even selection of three values holds
    schema = ta.Schema((ta.Number("a", 0, 10, decimals=3), ta.Number("b", 0, 10, decimals=3)))
    smooth = ta.models.wrap(lambda t: ((t.a + 0.1 * t.b).to_numpy(float) / 20).clip(0, 1), schema, threshold=0.1249)
    problem = ta.Problem(schema, smooth, rules=[Budget(2.5, weights={"a": 1.0, "b": 1.0})])
    report = existence(problem, pd.DataFrame({"a": [0.0, 0.0], "b": [0.0, 0.1]}), points=3, best=True)
    assert report.best.a.tolist() == [2.5, 2.5]
    assert report.people.exists.tolist() == [True, True]


def test_levels_may_switch_and_are_bounded():
    schema = ta.Schema(
        (ta.Number("a", 0, 10), ta.Category("c", levels=("x", "y", "z")), ta.Number("b", 0, 10, moves="fixed"))
    )
    layer = torch.nn.Linear(schema.d, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.weight[:] = torch.tensor([[1.0, 0.0, 0.3, 0.9, 1.0]])
        layer.bias[:] = -1.6
    problem = ta.Problem(
        schema, ta.models.wrap(torch.nn.Sequential(layer), schema), rules=[Box({"a": 2.0, "c": 1}), AtMost(1)]
    )
    people = pd.DataFrame({"a": 3.0, "c": ["x", "y", "x"], "b": [9.0, 4.1, 1.0]})
    report = existence(problem, people, points=9)
    # own 1.2; 1.01, of which 0.3 by their level; 0.4: a switch to z adds 0.9 or 0.6, two more of a add 0.2
    assert report.people.exists.tolist() == [True, True, False] and report.exact
    assert report.best.c.tolist()[:2] == ["z", "z"] and report.best.a.tolist()[:2] == [3.0, 3.0]


def test_found_by_a_method(people):
    problem = ta.Problem(SCHEMA, linear(), rules=[Box({"income": 9, "debt": 9})])
    report = existence(problem, people)
    rate = report.found_by(Raise(9).fit(problem).find(people))
    assert rate.n == (report.people.exists & ~report.people.accepted).sum() and 0 < rate.value < 1
    with pytest.raises(ta.TurnaboutError, match="not in the answer"):
        report.found_by(Raise(9).fit(problem).find(people.iloc[:1]))


def test_nobody_refused_and_nobody_at_all():
    problem = ta.Problem(SCHEMA, linear(bias=20.0))
    report = existence(problem, table([10], [10]))
    assert report.refused.value is None and report.everyone.value == 1.0 and report.exact
    nobody = existence(problem, table([10], [10]).iloc[:0])
    assert nobody.everyone.n == 0 and nobody.exact and nobody.best.empty


def test_nothing_may_move():
    schema = ta.Schema((ta.Number("a", 0, 1, moves="fixed"),))
    problem = ta.Problem(schema, ta.models.wrap(lambda t: t.a.to_numpy(float), schema))
    report = existence(problem, pd.DataFrame({"a": [0.2, 0.7]}))
    assert report.people.exists.tolist() == [False, True] and report.exact


def test_what_is_refused():
    many = ta.Schema(tuple(ta.Number(name, 0, 9, step=1) for name in "abcd"))
    problem = ta.Problem(many, ta.models.wrap(lambda t: t.a.to_numpy(float) / 9, many))
    with pytest.raises(ta.TurnaboutError, match="4 features may move"):
        existence(problem, pd.DataFrame({name: [1] for name in "abcd"}))
    problem = ta.Problem(SCHEMA, linear())
    with pytest.raises(ta.TurnaboutError, match="points=1 is not"):
        existence(problem, table([1], [1]), points=1)
    with pytest.raises(ta.TurnaboutError, match="rows per person"):
        existence(problem, table([1], [1]), points=5000)
    with pytest.raises(ta.TurnaboutError, match="device='foo' is none"):
        existence(problem, table([1], [1]), device="foo")
