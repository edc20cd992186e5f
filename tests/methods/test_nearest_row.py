"""NearestRow: equal to brute force, the three pools, what a row becomes for a person, and mixtures by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import Problem, Run, Status
from turnabout.costs import L0, L1, L2, MAD
from turnabout.errors import MethodError
from turnabout.methods import nearest_row
from turnabout.methods.confidence import confident_margin
from turnabout.methods.nearest_row import NearestRow
from turnabout.models import wrap
from turnabout.rules import AtMost
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

MIXED = Schema(
    (
        Number("income", 0, 10, step=1),
        Number("debt", 0, 5, step=1, moves="down"),
        Ordinal("school", ("none", "some", "full"), moves="up"),
        Binary("owner", ("no", "yes"), missing=True),
        Category("job", ("a", "b", "c"), missing=True),
        Number("age", 0, 9, step=1, moves="fixed"),
        Category("home", ("x", "y"), moves="fixed"),
    )
)


def crowd(n: int, seed: int) -> pd.DataFrame:
    """People of MIXED, some cells missing."""
    rng = np.random.default_rng(seed)
    owner, job = rng.choice(["no", "yes"], n).astype(object), rng.choice(["a", "b", "c"], n).astype(object)
    owner[rng.random(n) < 0.15] = None
    job[rng.random(n) < 0.15] = None
    return pd.DataFrame(
        {
            "income": rng.integers(0, 11, n),
            "debt": rng.integers(0, 6, n),
            "school": rng.choice(["none", "some", "full"], n),
            "owner": owner,
            "job": job,
            "age": rng.integers(0, 3, n),
            "home": rng.choice(["x", "y"], n),
        }
    )


def score(table: pd.DataFrame) -> pd.Series:
    """P(yes) of MIXED rows."""
    gain = 0.3 * table["income"] - 0.4 * table["debt"] + 0.8 * (table["school"] != "none")
    gain += 0.5 * (table["owner"] == "yes") + 0.7 * (table["job"] == "b") + 0.4 * (table["home"] == "x")
    return 1 / (1 + np.exp(2.6 - gain))


def mixed(cost=None, rules=(), rows: int = 300) -> Problem:
    background = crowd(rows, 1)
    labels = score(background) + np.random.default_rng(2).normal(0, 0.2, rows) > 0.5
    return Problem(MIXED, wrap(score, MIXED, threshold=0.5), cost, rules, background, labels)


def refused(problem: Problem, n: int = 60) -> pd.DataFrame:
    people = crowd(n, 7)
    return people[(score(people) < 0.5).to_numpy()].reset_index(drop=True)


def nearest(method: NearestRow, people: pd.DataFrame, k: int) -> torch.Tensor:
    """Costs (n, k) of the rows proposed, infinite where there are fewer."""
    method.run = Run()
    x = method.problem_.schema.encode(people)
    rows = method._nearest(x, k)
    cost = method.problem_.cost(x.unsqueeze(1), rows)
    refused = ~(method.problem_.margin(torch.nan_to_num(rows)) >= 1e-9)  # proposed for want of an accepted one
    return torch.nan_to_num(cost, nan=torch.inf).masked_fill(refused, torch.inf).sort(1).values


def brute_force(problem: Problem, pool: torch.Tensor, people: pd.DataFrame, k: int, adapt: bool) -> torch.Tensor:
    """The same, person by person and row by row, through snap."""
    out = torch.full((len(people), k), torch.inf, dtype=torch.float64)
    rows = problem.background_x[pool]
    absent = problem.schema.missing_column
    for i, x in enumerate(problem.schema.encode(people)):
        own = x.expand_as(rows)
        goal = rows.clone()
        for j, column in enumerate(absent.tolist()):
            if adapt and column >= 0:
                goal[:, j] = torch.where(rows[:, column] > 0.5, own[:, j], rows[:, j])
        x_new = problem.snap(own, goal)
        good = (problem.margin(x_new) >= 1e-9) & (problem.violation(own, x_new) <= 0)
        if not adapt:
            good &= (x_new == rows).all(1)
        if adapt:
            x_new = x_new[good].unique(dim=0)
        else:
            x_new = x_new[good]
        cost = problem.cost(x.expand_as(x_new), x_new).sort().values[:k]
        out[i, : len(cost)] = cost
    return out


@pytest.mark.parametrize("adapt", [True, False])
@pytest.mark.parametrize("cost", [L1(), L1(difficulty={"debt": 3.0}) + 0.2 * L0(), MAD(), L2()], ids=repr)
def test_equals_brute_force(cost, adapt):
    problem = mixed(cost)
    people = refused(problem)
    method = NearestRow(pool="labels", adapt=adapt).fit(problem)
    got = nearest(method, people, 1)
    assert torch.allclose(got, brute_force(problem, problem.labels, people, 1, adapt), atol=1e-9)
    assert torch.isfinite(got).any()


@pytest.mark.parametrize("adapt", [True, False])
def test_equals_brute_force_with_rules(adapt):
    problem = mixed(rules=[AtMost(2)])
    people = refused(problem)
    method = NearestRow(pool="labels", adapt=adapt).fit(problem)
    assert torch.allclose(nearest(method, people, 1), brute_force(problem, problem.labels, people, 1, adapt), atol=1e-9)


def test_looks_further_when_the_nearest_rows_are_refused_and_in_any_blocks(monkeypatch):
    problem = mixed()
    people = refused(problem)
    want = nearest(NearestRow().fit(problem), people, 1)
    for name, value in (("FIRST", 1), ("GROW", 2), ("BLOCK", 700), ("CELLS", 500)):
        monkeypatch.setattr(nearest_row, name, value)
    assert torch.equal(nearest(NearestRow().fit(problem), people, 1), want)


def line(labels=(True, False, True, True)) -> Problem:
    """One number; log-odds 10 v - 5; rows at 0.52, 0.6, 0.7 and 0.3."""
    schema = Schema((Number("v", 0, 1),))
    module = torch.nn.Linear(1, 1).double()
    with torch.no_grad():
        module.weight.fill_(10.0)
        module.bias.fill_(-5.0)
    model = wrap(module, schema, threshold=0.5, output="logit")
    background = pd.DataFrame({"v": [0.52, 0.6, 0.7, 0.3]})
    return Problem(schema, model, background=background, labels=None if labels is None else list(labels))


@pytest.mark.parametrize(
    ("pool", "row"),
    [
        ("labels", 0.52),  # accepted in the records, and by the model
        ("model", 0.6),  # P(yes) = 0.73, refused in the records
        ("both", 0.7),
    ],
)
def test_the_three_pools(pool, row):
    method = NearestRow(pool=pool, sparsity=False).fit(line())
    method.run = Run()
    x = torch.tensor([[0.1]], dtype=torch.float64)
    assert float(method._nearest(x, 1)) == row


def test_confidence_as_a_margin():
    margins = torch.tensor([-3.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0])

    def sure(model, confidence, margin=margins):
        return confident_margin(SimpleNamespace(model=model, background_margin=margin), confidence)

    schema = Schema((Number("a", 0, 1),))
    net = wrap(torch.nn.Linear(1, 1).double(), schema, output="logit")
    assert sure(net, 0.7) == pytest.approx(math.log(7 / 3))
    strict = wrap(torch.nn.Linear(1, 1).double(), schema, threshold=0.6, output="logit")
    assert sure(strict, 0.7) == pytest.approx(math.log(7 / 3) - math.log(6 / 4))
    assert sure(strict.shifted(2.0), 0.7) == 0.0  # a yes asks for more already
    chance = wrap(lambda table: table["a"], schema)
    assert sure(chance, 0.7) == pytest.approx(0.2)
    amount = wrap(lambda table: table["a"], schema, target_range=(0.5, None))
    assert sure(amount, 0.7) == pytest.approx(2.6)  # 0.4 of the way through 1 to 5
    assert sure(amount, 0.5) == 1.0
    assert sure(amount, 0.7, margins[:1]) == 0.0


def test_a_mixture_copies_what_gains_most_for_its_cost():
    # log-odds 4 a + 3 b + 1.5 c - 5. Copying (1, 1, 1) into (0, 0, 0): a gains most; then b completes the plan
    schema = Schema(tuple(Number(name, 0, 1) for name in "abc"))
    module = torch.nn.Linear(3, 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[4.0, 3.0, 1.5]]))
        module.bias.fill_(-5.0)
    model = wrap(module, schema, threshold=0.5, output="logit")
    background = pd.DataFrame({name: [1.0] for name in "abc"})
    x = torch.zeros(1, 3, dtype=torch.float64)
    for cost, want in (
        (L1(), [1.0, 1.0, 0.0]),
        (L1(difficulty={"a": 5.0}), [1.0, 1.0, 0.0]),  # b first; c gains more per cost then, but a completes
        (L1(difficulty={"b": 5.0}), [1.0, 0.0, 1.0]),  # a, then c completes, cheaper than b
    ):
        method = NearestRow().fit(Problem(schema, model, cost, background=background))
        method.run = Run()
        mixture = method._mixtures(x, torch.ones(1, 1, 3, dtype=torch.float64))
        assert mixture[0, 0].tolist() == want, repr(cost)


def test_only_the_cheapest_of_each_kind_is_proposed():
    method = NearestRow().fit(line())
    x = torch.zeros(1, 1, dtype=torch.float64)
    x_new = torch.tensor([[[0.9], [torch.nan], [0.6], [0.7]]], dtype=torch.float64)
    kept = method._one_of_each_kind(x, x_new)
    assert kept[torch.isfinite(kept)].tolist() == [0.6]


def test_strict_rows_must_agree_in_what_is_fixed():
    schema = Schema((Number("v", 0, 1), Binary("sex", moves="fixed")))
    model = wrap(lambda t: t["v"].to_numpy(), schema, threshold=0.5)
    background = pd.DataFrame({"v": [0.8, 0.9], "sex": [0, 0]})
    problem = Problem(schema, model, background=background)
    people = pd.DataFrame({"v": [0.1, 0.1], "sex": [0, 1]})
    strict = NearestRow(adapt=False).fit(problem).find(people)
    assert strict.status.tolist() == [Status.FOUND, Status.NOT_FOUND]
    assert (NearestRow().fit(problem).find(people).status == Status.FOUND).all()


@pytest.mark.parametrize("sparsity", [True, False])
def test_answers_of_a_mixed_problem(sparsity):
    problem = mixed(rules=[AtMost(3)])
    people = refused(problem)
    answer = NearestRow(sparsity=sparsity).fit(problem).find(people, options=2)
    assert (answer.status == Status.FOUND).mean() > 0.5
    found = answer.options
    own = people.loc[found.index.get_level_values("person")].set_axis(found.index)
    assert (found["age"] == own["age"]).all()
    assert (found["debt"] <= own["debt"]).all()
    assert (found["job"].isna() == own["job"].isna()).all()
    assert (answer.changes().groupby(["person", "option"]).size() <= 3).all()


def test_the_same_twice_in_any_order_and_for_any_seed():
    problem = mixed()
    people = refused(problem)
    method = NearestRow.small().fit(problem)
    answer = method.find(people)
    assert answer == method.find(people, seed=5)
    pd.testing.assert_frame_equal(method.find(people.iloc[::-1]).options.sort_index(), answer.options)


def test_an_empty_pool_is_no_error():
    problem = line(labels=(False, False, False, False))
    answer = NearestRow(pool="labels").fit(problem).find(pd.DataFrame({"v": [0.1]}))
    assert answer.status.tolist() == [Status.NOT_FOUND]


def test_at_most_so_many_rows():
    method = NearestRow(rows=10).fit(mixed())
    assert len(method.rows_) == 10
    assert len(NearestRow(rows=10**6).fit(mixed()).rows_) > 10


def test_says_what_is_missing():
    with pytest.raises(MethodError, match=r"needs to know who was accepted(.|\n)*labels="):
        NearestRow(pool="both").fit(line(labels=None))
    NearestRow(pool="model").fit(line(labels=None))
    problem = line()
    with pytest.raises(MethodError, match="needs a background table"):
        NearestRow().fit(Problem(problem.schema, problem.model))


@pytest.mark.parametrize(
    "bad", [{"pool": "best"}, {"confidence": 0.3}, {"confidence": 1.0}, {"neighbours": 0}, {"rows": -5}, {"rows": 2.5}]
)
def test_refuses_bad_parameters(bad):
    with pytest.raises(MethodError, match=f"NearestRow has {next(iter(bad))}="):
        NearestRow(**bad).fit(line())
