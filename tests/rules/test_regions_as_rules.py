"""Regions as rules: files, sentences, errors, and methods that stay inside."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import Problem
from turnabout.errors import RuleError
from turnabout.methods.exact_linear import ExactLinear
from turnabout.methods.wachter import Wachter
from turnabout.models import wrap
from turnabout.rules import Ball, BoundRegion, Box, Budget, Polytope, Region, Rule, from_dict, to_dict
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

BANK = Schema(
    (
        Number("hours", 0, 99, step=1),
        Ordinal("education", levels=("a", "b", "c", "d"), moves="up"),
        Category("housing", levels=("own", "rent", "free")),
        Number("amount", 0, 1000, step=10, missing=True),
        Binary("phone"),
        Number("age", 18, 90, step=1, moves="fixed"),
    )
)
REACH = {"hours": 9.5, "education": 2, "housing": 1, "amount": 105}
REGIONS = {
    "box": Box(REACH),
    "budget": Budget(12, REACH, {"education": 3, "housing": 4, "amount": 0.1}),
    "polytope": Polytope([({"hours": -1, "education": -4}, 12), ({"hours": 1, "amount": -0.1}, 0)], {"amount": 105}),
}
BALL = Ball(1.0, {"hours": 9, "education": 2, "amount": 100})
ALL = {**REGIONS, "ball": BALL}


def people(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    amount = 10.0 * rng.integers(0, 101, n)
    amount[::4] = np.nan
    return pd.DataFrame(
        {
            "hours": rng.integers(0, 100, n),
            "education": rng.choice(list("abcd"), n),
            "housing": rng.choice(["own", "rent", "free"], n),
            "amount": amount,
            "phone": rng.integers(0, 2, n),
            "age": rng.integers(18, 91, n),
        }
    )


def noise(n: int, size: float, seed: int = 1) -> torch.Tensor:
    return size * torch.randn(n, BANK.d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# -- files and sentences ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("region", [*ALL.values(), Box(), Box({"hours": 1}, name="few hours"), Budget(3)], ids=str)
def test_files_give_the_region_back(region):
    again = from_dict(json.loads(json.dumps(to_dict(region))))
    assert again == region
    assert type(again) is type(region)
    assert pickle.loads(pickle.dumps(region)) == region
    assert isinstance(region, Region) and isinstance(region.bind(BANK), BoundRegion)


@pytest.mark.parametrize(
    ("region", "sentence"),
    [
        (Box({"hours": 9, "education": 2}), "hours changes by at most 9; education by at most 2"),
        (Box(), "everything changes as far as the schema lets it"),
        (Box({"hours": 9}, name="what people manage"), "what people manage"),
        (Budget(12), "all changes together weigh at most 12"),
        (
            Budget(12, {"hours": 9}, {"hours": 0.5}),
            "hours changes by at most 9; all changes together weigh at most 12 (hours 0.5 a unit)",
        ),
        (
            Ball(1, {"hours": 12.3, "debt": 2}),
            "the length of the change is at most 1, where 1 is 12.3 of hours, 2 of debt",
        ),
        (Polytope([({"hours": -1, "debt": 2}, 12)]), "-change of hours + 2 x change of debt >= -12"),
    ],
)
def test_a_region_is_its_sentence(region, sentence):
    assert str(region) == repr(region) == sentence


def test_the_frame_of_regions_is_no_kind_of_rule():
    assert "region" not in Rule.KINDS
    with pytest.raises(RuleError, match="does not describe a rule"):
        from_dict({"rule": "region"})


# -- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Box({"hours": -1}), "the reach of 'hours' in a Box is -1"),
        (lambda: Box({"hours": float("nan")}), "the reach of 'hours' in a Box is nan"),
        (lambda: Box({"hours": "far"}), "the reach of 'hours' in a Box is 'far'"),
        (lambda: Box({"hours": True}), "in a Box is True"),
        (lambda: Box({}), "Box has reach={}"),
        (lambda: Box(["hours"]), "Box has reach="),
        (lambda: Box({"income": 1}).bind(BANK), "names the feature 'income', which is not one of"),
        (lambda: Box.measured(people(1), BANK), "cannot be measured on 1 people"),
        (lambda: Box.measured(people(9), BANK, deviations=0), "deviations of a measured Box is 0"),
        (lambda: Box.measured(people(9), BANK, features=["income"]), "names the feature 'income'"),
        (lambda: Budget(-1), "the limit of a Budget is -1"),
        (lambda: Budget(1, weights={"hours": -1}), "the weights of 'hours' in a Budget is -1"),
        (lambda: Budget(1, weights={"income": 1}).bind(BANK), "names the feature 'income'"),
        (lambda: Ball(-1, {"hours": 1}), "the radius of a Ball is -1"),
        (lambda: Ball(1, {"hours": 0}), "the scales of 'hours' in a Ball is 0"),
        (lambda: Ball(1, None), "Ball has scales=None"),
        (lambda: Ball(1, {"housing": 1}).bind(BANK), "names the category 'housing', whose levels are no numbers"),
        (lambda: Polytope([]), r"Polytope has rows=\[\]"),
        (lambda: Polytope([{"hours": 1}]), "row 1 of a Polytope is"),
        (lambda: Polytope([(2, 1)]), "row 1 of a Polytope has the coefficients 2"),
        (lambda: Polytope([({"hours": 0}, 1)]), "all coefficients of row 1 of a Polytope are zero"),
        (lambda: Polytope([({"hours": float("inf")}, 1)]), "the coefficient of 'hours' in row 1 of a Polytope is inf"),
        (lambda: Polytope([({"hours": 1}, float("nan"))]), "b of row 1 of a Polytope is nan"),
        (
            lambda: Polytope([({"hours": 1}, 1), ({"hours": 1}, -2)]),
            "Delta does not contain 0: row 2, 'change of hours",
        ),
        (lambda: Polytope([({"hours": 1}, -2), ({"hours": -1}, 1)]), "it has no point at all"),
        (lambda: Polytope([({"hours": 1}, -2)], {"hours": 1}), "it has no point at all"),
        (lambda: Polytope([({"housing": 1}, 2)]).bind(BANK), "names the category 'housing'"),
        (lambda: Polytope([({"income": 1}, 2)]).bind(BANK), "names the feature 'income'"),
        (lambda: from_dict({"rule": "box", "range": {}}), "do not make a rule of kind 'box'"),
    ],
)
def test_errors_say_what_is_wrong(make, text):
    with pytest.raises(RuleError, match=text):
        make()


# -- kept and repaired --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_snap_lands_inside_on_legal_values(name):
    region, table = ALL[name].bind(BANK), people(200)
    x = BANK.encode(table)
    wished = BANK.snap(x, x + noise(200, 0.3))
    assert (region.violation(x, wished) > 0).any()
    row = region.snap(x, wished)
    assert (region.violation(x, row) == 0).all()
    printed = BANK.write(table, x, row)
    assert not BANK.breaches(table, printed).any()
    assert (region.violation(x, BANK.encode(printed)) == 0).all()
    inside = region.violation(x, wished) == 0
    assert torch.equal(row[inside], wished[inside])
    assert ((row - x).abs().sum(1) > 0).double().mean() > 0.7  # most still change something


@pytest.mark.parametrize("name", ALL)
def test_snap_leaves_no_step_towards_the_wish_unused(name):
    # no scalar can go one more step towards what was wished
    region = ALL[name].bind(BANK)
    x = BANK.encode(people(60))
    wished = BANK.snap(x, x + noise(60, 0.3))
    row = region.snap(x, wished)
    for f, feature in enumerate(BANK):
        j = BANK.slices[f].start
        if j not in region.columns or isinstance(feature, Category):
            continue
        step = feature.unit_step / feature.span
        further = row.clone()
        further[:, j] += (wished[:, j] - row[:, j]).sign() * step
        short = (wished[:, j] - row[:, j]).abs() >= step - 1e-9
        assert (region.violation(x, further)[short] > 0).all(), feature.name


@pytest.mark.parametrize("name", ALL)
def test_relax_lands_inside_and_leaves_what_is(name):
    region, x = ALL[name].bind(BANK), BANK.encode(people(100))
    wished = BANK.relax(x, x + noise(100, 0.3))
    soft = region.relax(x, wished)
    assert region.violation(x, soft).max() <= 1e-9
    inside = region.violation(x, wished) == 0
    assert torch.equal(soft[inside], wished[inside])
    assert torch.equal(region.relax(x, x), x)


@pytest.mark.parametrize("name", ALL)
def test_violation_takes_options_and_single_precision(name):
    region, x = ALL[name].bind(BANK), BANK.encode(people(10))
    options = BANK.snap(x.unsqueeze(1), x.unsqueeze(1) + torch.stack([noise(10, 0.3, seed=i) for i in range(3)], 1))
    gaps = region.violation(x.unsqueeze(1), options)
    assert gaps.shape == (10, 3)
    torch.testing.assert_close(gaps[:, 2], region.violation(x, options[:, 2]))
    row = region.snap(x, options[:, 0])
    assert (region.violation(x.float(), row.float()) == 0).all()


DEAR = Schema((Number("savings", 0, 1e8, step=1, moves="up"), Number("hours", 0, 99, step=1, moves="up")))
CHEAP_HOURS = {
    "budget": Budget(0.035, weights={"savings": 100.0, "hours": 0.01}),
    "ball": Ball(0.035, {"savings": 0.01, "hours": 100.0}),
    "polytope": Polytope([({"savings": -100.0, "hours": -0.01}, 0.035)]),
}


@pytest.mark.parametrize("name", CHEAP_HOURS)
def test_a_cheap_column_beside_a_dear_one_keeps_to_the_limit(name):
    region = CHEAP_HOURS[name].bind(DEAR)
    x = DEAR.encode(pd.DataFrame({"savings": [100] * 3, "hours": [40] * 3}))
    x_new = DEAR.encode(pd.DataFrame({"savings": [100, 100, 101], "hours": [43, 44, 40]}))
    violation = region.violation(x, x_new)
    assert violation[0] == 0
    assert violation[1].item() == pytest.approx(0.5 / 99)  # half an hour too much
    assert violation[2].item() == pytest.approx(1e-8, rel=1e-3)  # a unit of savings too much
    assert torch.equal(region.snap(x, x_new)[1], x_new[0])
    farthest = region.snap(x[:1], torch.ones_like(x[:1]))
    assert region.violation(x[:1], farthest).item() == 0


@pytest.mark.parametrize(
    "region",
    [Budget(3), Budget(0.3, weights={"savings": 0.1}), Ball(3, {"savings": 1}), Polytope([({"savings": -1}, 3)])],
    ids=str,
)
def test_rounding_of_encoded_rows_breaks_no_limit(region):
    # a unit of savings is 1e-8 of its range: differences of encoded rows are right to eight digits only
    own = np.arange(1, 10_000_000, 99_991)
    x = DEAR.encode(pd.DataFrame({"savings": own, "hours": 40}))
    rows = [DEAR.encode(pd.DataFrame({"savings": own + k, "hours": 40})) for k in (3, 4)]
    assert (region.bind(DEAR).violation(x, rows[0]) == 0).all()
    assert (region.bind(DEAR).violation(x, rows[1]) > 0).all()


def test_a_missing_cell_does_not_silence_a_region():
    table = people(2)
    assert np.isnan(table["amount"][0])
    x = BANK.encode(table)
    x_new = x.clone()
    x_new[:, 0] = 1 - x_new[:, 0].round()
    assert (Box({"hours": 1}).bind(BANK).violation(x, x_new) > 0).all()


@pytest.mark.parametrize("name", REGIONS)
def test_the_linear_form_says_the_same(name):
    region, table = REGIONS[name].bind(BANK), people(300)
    x = BANK.encode(table)
    row = BANK.snap(x, x + noise(300, 0.06))
    form = region.linear_form(x)
    kept = (row @ form.a.T <= form.b + 1e-12).all(1)
    assert torch.equal(kept, region.violation(x, row) == 0)
    assert 20 < kept.sum() < 280


def test_what_is_not_linear_has_no_form():
    x = BANK.encode(people(2))
    assert BALL.bind(BANK).linear_form(x) is None
    wide = Schema(tuple(Number(f"n{i}") for i in range(9)))
    assert Budget(1).bind(wide).linear_form(torch.zeros(1, 9, dtype=torch.float64)) is None
    assert Box().bind(BANK).linear_form(x).a.shape == (0, BANK.d)


# -- methods ------------------------------------------------------------------------------------------------------


def question(region: Region) -> Problem:
    """Hours, education, a small amount and an own house help; so does a telephone, which no region names."""
    weights = dict.fromkeys(BANK.columns, 0.0) | {
        "hours": 4.0, "education": 1.0, "housing=own": 0.4, "amount": -2.0, "phone": 3.0
    }  # fmt: skip
    module = torch.nn.Linear(BANK.d, 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([list(weights.values())], dtype=torch.float64))
        module.bias.fill_(-2.6)
    return Problem(BANK, wrap(module, BANK, threshold=0.5, output="logit"), rules=[region])


def near_the_border(problem: Problem, n: int) -> pd.DataFrame:
    table = people(400, seed=3)
    margin = problem.margin(BANK.encode(table)).numpy()
    return table[(margin < 0) & (margin > -0.6)].head(n).reset_index(drop=True)


def assert_inside(region: Region, table: pd.DataFrame, answer) -> None:
    options = answer.options.reset_index()
    x, rows = BANK.encode(table.loc[options["person"]]), BANK.encode(options)
    assert (region.bind(BANK).violation(x, rows) == 0).all()
    # a telephone would be the cheapest way, but no region names it
    assert (options["phone"].to_numpy() == table.loc[options["person"], "phone"].to_numpy()).all()


@pytest.mark.parametrize("name", REGIONS)
def test_exact_plans_stay_inside_and_are_proved(name):
    region = REGIONS[name]
    problem = question(region)
    table = near_the_border(problem, 12)
    answer = ExactLinear().fit(problem).find(table)
    assert_inside(region, table, answer)
    found = set(answer.status.map(lambda s: s.name))
    assert found <= {"FOUND", "IMPOSSIBLE"} and "FOUND" in found
    # where even the best change of the region, between grid values, is refused, there is no plan
    around = region.bind(BANK).around(BANK.encode(table))
    rows = torch.cat([torch.zeros(1, BANK.d, dtype=torch.float64), torch.eye(BANK.d, dtype=torch.float64)])
    at = problem.margin(rows)
    slope = (at[1:] - at[0]).expand(len(table), -1)
    hopeless = problem.margin(around.x + around.steepest(slope)) < -1e-9
    assert {answer.status.iloc[i].name for i in hopeless.nonzero().squeeze(1).tolist()} <= {"IMPOSSIBLE"}


@pytest.mark.parametrize("name", ALL)
def test_gradient_plans_stay_inside(name):
    region = ALL[name]
    problem = question(region)
    table = near_the_border(problem, 12)
    answer = Wachter(steps=40, rounds=1).fit(problem).find(table)
    assert len(answer.options)
    assert_inside(region, table, answer)
