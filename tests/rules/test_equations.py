"""Structural equations: consequences by hand, what breaks them, their estimates, their errors."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

import turnabout as ta
from turnabout import costs, rules
from turnabout.errors import RuleError
from turnabout.rules import Equation, StructuralEquations
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

BETA, GAMMA = 12.5, 0.004  # amount per year, months per unit of amount
FINE = Schema(
    (
        Category("status", ("a", "b", "c")),
        Number("age", 18, 80, decimals=9),
        Number("amount", 0, 10_000, decimals=7),
        Number("duration", 0, 80, decimals=9),
    )
)
WHOLE = Schema(
    (
        Category("status", ("a", "b", "c")),
        Number("age", 18, 80, step=1),
        Number("amount", 0, 10_000, step=10),
        Number("duration", 4, 72, step=1),
    )
)
CHAIN = (
    Equation("duration", 3.0, {"amount": GAMMA}),  # in no particular order
    Equation("amount", 500.0, {"age": BETA, "status=b": -300.0, "status=c": 100.0}),
)
ROW = {"status": "a", "age": 30.0, "amount": 2000.0, "duration": 20.0}


def encoded(schema: Schema, *changes: dict[str, object]) -> torch.Tensor:
    return schema.encode(pd.DataFrame([ROW | change for change in changes]))


def units(schema: Schema, x: torch.Tensor, name: str) -> list[float]:
    return schema[name].units(x[..., schema.slices[schema.index(name)].start]).flatten().tolist()  # type: ignore[attr-defined]


# -- consequences -------------------------------------------------------------------------------------------------


def test_an_act_passes_down_the_chain_and_noise_is_kept() -> None:
    rule = StructuralEquations(CHAIN).bind(FINE)
    x, acts = encoded(FINE, {}, {"amount": 3333.3}), encoded(FINE, {"age": 37.25}, {"age": 29.0, "amount": 3333.3})
    for printed in (False, True):
        out = rule.predict(x, acts, printed=printed)
        assert units(FINE, out, "amount") == pytest.approx([2000 + BETA * 7.25, 3333.3 - BETA], abs=1e-7)
        assert units(FINE, out, "duration") == pytest.approx(
            [20 + GAMMA * BETA * 7.25, 20 - GAMMA * BETA], abs=1e-8, rel=0
        )
        assert rule.violation(x, out).tolist() == [0.0, 0.0]
        before = np.array(units(FINE, x, "duration")) - GAMMA * np.array(units(FINE, x, "amount"))
        after = np.array(units(FINE, out, "duration")) - GAMMA * np.array(units(FINE, out, "amount"))
        np.testing.assert_allclose(after, before, atol=1e-8, rtol=0)


def test_a_switch_of_category_has_consequences() -> None:
    rule = StructuralEquations(CHAIN).bind(WHOLE)
    out = rule.snap(encoded(WHOLE, {}, {"status": "b"}), encoded(WHOLE, {"status": "b"}, {"status": "c"}))
    assert units(WHOLE, out, "amount") == pytest.approx([1700.0, 2400.0])
    assert units(WHOLE, out, "duration") == pytest.approx([19.0, 22.0])  # 20 - 1.2, 20 + 1.6


def test_an_intervention_cuts_from_parents() -> None:
    rule = StructuralEquations(CHAIN, acts=["amount"]).bind(WHOLE)
    x, acts = encoded(WHOLE, {}), encoded(WHOLE, {"age": 40, "amount": 3000})
    assert rule.choices == (WHOLE.index("amount"),)
    set_by_hand, follows = (rule.predict(x, acts, torch.tensor([[held]]), printed=True) for held in (True, False))
    assert units(WHOLE, set_by_hand, "amount") == pytest.approx([3000.0])
    assert units(WHOLE, set_by_hand, "duration") == pytest.approx([24.0])
    assert units(WHOLE, follows, "amount") == pytest.approx([2120.0])  # 2125 is a tie, and goes to the even step
    assert rule.held(x, set_by_hand).tolist() == [[True]]
    assert rule.held(x, follows).tolist() == [[False]]
    kept = encoded(WHOLE, {"age": 40})  # amount held where it was
    assert rule.violation(x, kept).tolist() == [0.0]
    assert rule.held(x, kept).tolist() == [[True]]


def test_what_is_rounded_is_what_children_follow() -> None:
    equations = (Equation("amount", 0, {"age": 4.0}), Equation("duration", 0, {"amount": 0.1}))
    rule = StructuralEquations(equations).bind(WHOLE)
    out = rule.snap(encoded(WHOLE, {}), encoded(WHOLE, {"age": 31}))
    assert units(WHOLE, out, "amount") == pytest.approx([2000.0])  # 2004 is written as 2000
    assert units(WHOLE, out, "duration") == pytest.approx([20.0])
    out = rule.snap(encoded(WHOLE, {}), encoded(WHOLE, {"age": 32}))
    assert units(WHOLE, out, "amount") == pytest.approx([2010.0])  # 2008
    assert units(WHOLE, out, "duration") == pytest.approx([21.0])  # by 10, not by 8


def test_more_than_half_a_step_away_breaks_the_rule() -> None:
    rule = StructuralEquations((Equation("amount", 0, {"age": 4.0}),)).bind(WHOLE)
    x = encoded(WHOLE, {})
    off = rule.violation(x, encoded(WHOLE, {"age": 32}, {"age": 32, "amount": 2010}, {"age": 32, "amount": 2020}, {}))
    torch.testing.assert_close(off, torch.tensor([0.0003, 0.0, 0.0007, 0.0], dtype=torch.float64), atol=1e-8, rtol=0)


def test_consequences_leave_bounds_that_limit_choices() -> None:
    rule = StructuralEquations((Equation("duration", 0, {"amount": 0.05}),)).bind(WHOLE)
    x = encoded(WHOLE, {}, {}, {"duration": 80}, {"duration": 80})
    wishes = [{"amount": 9000}, {"amount": 0}, {"amount": 1990, "duration": 80}, {"duration": 72}]
    out = rule.snap(x, encoded(WHOLE, *wishes))
    assert units(WHOLE, out, "duration") == pytest.approx([370.0, -80.0, 80.0, 80.0])  # 79.5 is a tie: theirs
    assert rule.violation(x, out).tolist() == [0.0, 0.0, 0.0, 0.0]
    assert units(WHOLE, rule.predict(x, out), "duration") == pytest.approx([370.0, -80.0, 79.5, 80.0])
    stopped = encoded(WHOLE, {"amount": 9000, "duration": 72}, {"amount": 0, "duration": 4}, {}, {"duration": 72})
    assert (rule.violation(x, stopped) > 0).tolist() == [True, True, True, True]


def test_a_value_beyond_the_bounds_follows_its_causes_and_nothing_else() -> None:
    schema = Schema((Number("loan", 0, 100, step=1), Number("ltv", 0.3, 0.9, decimals=2)))
    rule = StructuralEquations((Equation("ltv", 0, {"loan": 0.01}),)).bind(schema)
    person = pd.DataFrame({"loan": [20.0], "ltv": [0.20]})
    x = schema.encode(person)
    moved = schema.decode(rule.snap(x, schema.encode(person.assign(loan=24.0))))
    assert moved["ltv"].tolist() == [0.24]
    assert (rule.violation(x, schema.encode(person.assign(loan=24.0))) > 0).all()
    assert (rule.violation(x, schema.encode(person.assign(ltv=0.3))) > 0).all()  # no cause
    assert schema.decode(rule.snap(x, schema.encode(person.assign(ltv=0.3))))["ltv"].tolist() == [0.20]


def test_a_consequence_that_cannot_be_told_forbids_its_causes() -> None:
    schema = Schema((Number("age", 18, 80, step=1), Number("amount", 0, 10_000, step=10, missing=True)))
    people = pd.DataFrame({"age": [30.0, 30.0], "amount": [2000.0, np.nan]})
    x, x_new = schema.encode(people), schema.encode(people.assign(age=40.0))
    equations = StructuralEquations((Equation("amount", 0, {"age": 20.0}),))
    rule = equations.bind(schema)
    assert rule.unknown(x, x_new).tolist() == [False, True]
    out = schema.decode(rule.snap(x, x_new))
    assert out["age"].tolist() == [40.0, 30.0]
    assert out["amount"].tolist()[0] == 2200.0
    assert (rule.violation(x, rule.snap(x, x_new)) == 0).all()
    waived = equations.waivable().bind(schema)
    assert waived.waived(x, x_new).tolist() == [False, True]
    assert schema.decode(waived.snap(x, x_new))["age"].tolist() == [40.0, 40.0]


def test_a_consequence_against_its_direction_is_not_allowed() -> None:
    schema = Schema((Number("age", 18, 80, step=1), Number("amount", 0, 10_000, step=10, moves="up")))
    rule = StructuralEquations((Equation("amount", 0, {"age": 20.0}),)).bind(schema)
    people = pd.DataFrame([ROW])
    x = schema.encode(people)
    up, down = (rule.snap(x, schema.encode(people.assign(age=age))) for age in (35, 25))
    assert rule.violation(x, up).tolist() == [0.0]
    assert units(schema, down, "amount") == pytest.approx([2000.0])
    assert (rule.violation(x, down) > 0).all()


def test_a_function_of_the_parents() -> None:
    grows = Equation("amount", function=lambda p: p["age"] ** 2 + 100 * p["status=b"], parents=("age", "status=b"))
    rule = StructuralEquations((grows, Equation("duration", 0, {"amount": GAMMA}))).bind(FINE)
    x, acts = encoded(FINE, {}), encoded(FINE, {"age": 32, "status": "b"}).requires_grad_()
    out = rule.predict(x, acts)
    assert units(FINE, out, "amount") == pytest.approx([2000 + 32**2 - 30**2 + 100])
    assert units(FINE, out, "duration") == pytest.approx([20 + GAMMA * 224])
    (slope,) = torch.autograd.grad(out[0, FINE.slices[3].start], acts)
    assert slope[0, 3].item() == pytest.approx(GAMMA * 2 * 32 * 62 / 80)
    # no inequality says this: methods that need one refuse
    assert rule.linear_form(x) is None


def test_missing_cells_explain_nothing() -> None:
    schema = Schema((Number("age", 18, 80, missing=True), Number("amount", 0, 10_000, step=10, missing=True)))
    people = pd.DataFrame({"age": [30.0, np.nan, 30.0], "amount": [2000.0, 2000.0, np.nan]})
    x, x_new = schema.encode(people), schema.encode(people.assign(age=[40.0, np.nan, 40.0]))
    linear = StructuralEquations((Equation("amount", 0, {"age": 20.0}),)).bind(schema)
    out = schema.decode(linear.snap(x, x_new))
    assert out["amount"].tolist()[:2] == [2200.0, 2000.0]
    assert math.isnan(out["amount"][2])
    assert out["age"].tolist()[2] == 30.0  # whose consequence nobody could tell
    free = StructuralEquations((Equation("amount", function=lambda p: p["age"], parents=("age",)),)).bind(schema)
    any_amount = schema.encode(people.assign(amount=[2000.0, 9000.0, np.nan]))
    assert free.violation(x, any_amount).tolist() == [0.0, 0.0, 0.0]


def test_ordinals_count_by_position_and_binaries_follow_past_one_half() -> None:
    schema = Schema((Ordinal("school", ("low", "mid", "high")), Number("pay", 0, 100, step=1), Binary("car")))
    rule = StructuralEquations((Equation("pay", 0, {"school": 20.0}), Equation("car", 0, {"pay": 0.015}))).bind(schema)
    person = pd.DataFrame({"school": ["low"], "pay": [30], "car": [0]})
    acts = pd.concat([person.assign(school=level) for level in ("mid", "high")])
    out = schema.decode(rule.snap(schema.encode(person), schema.encode(acts)))
    assert out["pay"].tolist() == [50, 70]
    assert out["car"].tolist() == [0, 1]  # 0.3, 0.6


def test_relax_turns_a_wish_for_a_consequence_into_one_for_its_cause() -> None:
    rule = StructuralEquations((Equation("duration", 0, {"amount": 0.008}),)).bind(FINE)  # one for one, encoded
    x = encoded(FINE, {})
    out = rule.relax(x, encoded(FINE, {"duration": 28}))
    assert units(FINE, out, "amount") == pytest.approx([2500.0])  # half way: the nearest consistent row
    assert units(FINE, out, "duration") == pytest.approx([24.0])
    assert rule.violation(x, out).tolist() == [0.0]
    kept = rule.predict(x, encoded(FINE, {"amount": 3000}))
    assert torch.equal(rule.relax(x, kept), kept)


def test_leading_dimensions_and_draws_broadcast() -> None:
    equations = StructuralEquations((Equation("amount", 0, {"age": BETA}, covariance=((1.0, 0.0), (0.0, 4.0))),))
    rule = equations.bind(FINE)
    x, acts = encoded(FINE, {}, {"age": 50}), encoded(FINE, {"age": 40}, {"age": 40})
    draws = equations.draw(seed=0, n=5)
    out = rule.predict(x, acts, draws=draws)
    assert out.shape == (5, 2, FINE.d)
    slope = draws["amount"][:, 1]
    assert units(FINE, out, "amount") == pytest.approx(
        [v for b in slope.tolist() for v in (2000 + 10 * b, 2000 - 10 * b)]
    )
    assert rule.violation(x.unsqueeze(0), out).shape == (5, 2)
    assert StructuralEquations(()).bind(FINE).predict(x, acts, draws={"amount": slope}).shape == (5, 2, FINE.d)


# -- estimates ----------------------------------------------------------------------------------------------------


def test_fit_recovers_the_german_equations() -> None:
    german = ta.datasets.load("german")
    graph = {"amount": ["personal_status_sex", "age"], "duration": ["amount"]}
    amount, duration = StructuralEquations.fit(german.people, german.schema, graph).equations
    sd = german.people[["age", "amount", "duration"]].std()
    assert duration.coefficients["amount"] * sd["amount"] / sd["duration"] == pytest.approx(0.625, abs=5e-4)
    assert amount.coefficients["age"] * sd["age"] / sd["amount"] == pytest.approx(-0.013, abs=5e-4)
    levels = [weight / sd["amount"] for name, weight in amount.coefficients.items() if name != "age"]
    # beside the first: -0.070, 0.214 and -0.367 less 0.223
    assert levels == pytest.approx([-0.293, -0.009, -0.590], abs=1e-3)
    assert amount.noise_sd is not None and duration.noise_sd is not None
    assert 1 - 995 * amount.noise_sd**2 / (999 * sd["amount"] ** 2) == pytest.approx(0.035, abs=5e-4)
    assert 1 - 998 * duration.noise_sd**2 / (999 * sd["duration"] ** 2) == pytest.approx(0.391, abs=5e-4)


def test_covariance_is_that_of_least_squares_and_draws_have_it() -> None:
    rng = np.random.default_rng(3)
    age = rng.uniform(20, 70, 300)
    status = rng.choice(["a", "b", "c"], 300)
    amount = 500 + BETA * age - 300 * (status == "b") + rng.normal(0, 200, 300)
    people = pd.DataFrame({"status": status, "age": age, "amount": amount, "duration": 10.0})
    equations = StructuralEquations.fit(people, FINE, {"amount": ["age", "status"]})
    (fitted,) = equations.equations
    a = np.column_stack([np.ones(300), age, status == "b", status == "c"])
    weights, rest, *_ = np.linalg.lstsq(a, amount, rcond=None)
    assert [fitted.intercept, *fitted.coefficients.values()] == pytest.approx(weights)
    assert list(fitted.coefficients) == ["age", "status=b", "status=c"]
    cov = rest[0] / 296 * np.linalg.inv(a.T @ a)
    np.testing.assert_allclose(fitted.covariance, cov, rtol=1e-7)
    draws = equations.draw(seed=0, n=20_000)["amount"].numpy()
    np.testing.assert_allclose(draws.mean(0), weights, atol=5 * np.sqrt(cov.diagonal() / 20_000).max())
    scale = np.sqrt(np.outer(cov.diagonal(), cov.diagonal()))
    np.testing.assert_allclose(np.cov(draws.T) / scale, cov / scale, atol=0.05)
    assert torch.equal(equations.draw(0, 5)["amount"], equations.draw(0, 5)["amount"])
    assert not torch.equal(equations.draw(0, 5)["amount"], equations.draw(1, 5)["amount"])


def test_fit_leaves_out_people_with_missing_cells() -> None:
    schema = Schema((Number("a", 0, 1, missing=True), Number("b", 0, 1)))
    people = pd.DataFrame({"a": [0.1, 0.4, np.nan, 0.8, 0.9], "b": [0.2, 0.5, 0.1, 0.9, 1.0]})
    (fitted,) = StructuralEquations.fit(people, schema, {"b": ["a"]}).equations
    assert fitted.coefficients["a"] == pytest.approx(1.0)
    assert fitted.intercept == pytest.approx(0.1)


def test_fit_refuses_what_it_cannot_tell() -> None:
    people = pd.DataFrame([ROW | {"age": age, "amount": 10 * age} for age in (20.0, 30.0, 40.0, 50.0, 60.0, 70.0)])
    with pytest.raises(RuleError, match="nobody in the table has status=b"):
        StructuralEquations.fit(people, WHOLE, {"duration": ["status"]})
    with pytest.raises(RuleError, match="effects of age, amount on 'duration' cannot be told apart"):
        StructuralEquations.fit(people, WHOLE, {"duration": ["age", "amount"]})
    with pytest.raises(RuleError, match="effects of duration on 'amount' cannot be told apart: one is constant"):
        StructuralEquations.fit(people, WHOLE, {"amount": ["duration"]})
    with pytest.raises(RuleError, match="2 people without missing cells cannot tell the 2 coefficients of 'amount'"):
        StructuralEquations.fit(people.iloc[:2], WHOLE, {"amount": ["age"]})
    with pytest.raises(RuleError, match="gives the category 'status' parents"):
        StructuralEquations.fit(people, WHOLE, {"status": ["age"]})
    with pytest.raises(RuleError, match="names the feature 'wealth'"):
        StructuralEquations.fit(people, WHOLE, {"amount": ["wealth"]})


# -- declaring ----------------------------------------------------------------------------------------------------


def test_travels_as_json_yaml_and_pickle() -> None:
    rule = StructuralEquations(
        (CHAIN[0], Equation("amount", 1.5, {"age": 2.0}, noise_sd=3.0, covariance=((1, 0.5), (0.5, 2)))),
        acts=["amount"],
    )
    assert rules.from_dict(json.loads(json.dumps(rules.to_dict(rule)))) == rule
    assert rules.from_dict(yaml.safe_load(yaml.safe_dump(rule.to_dict()))) == rule
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert str(rule) == "duration follows amount; amount follows age"
    assert repr(StructuralEquations(())) == "nothing follows"
    with pytest.raises(RuleError, match="do not make a rule of kind 'causal'"):
        rules.from_dict({"rule": "causal", "equations": [], "graph": {}})
    with pytest.raises(RuleError, match="has a function, which cannot be written to a file"):
        StructuralEquations((Equation("amount", function=lambda p: p["age"], parents=("age",)),)).to_dict()


def test_price_counts_acts_alone() -> None:
    rule = StructuralEquations(CHAIN, acts=["amount"])
    cost = rule.price(costs.L1())
    assert cost == costs.Weighted({"duration": 0.0}, costs.L1())
    x, x_new = encoded(WHOLE, {}), encoded(WHOLE, {"amount": 3000, "duration": 24})
    assert cost.bind(WHOLE)(x, x_new).tolist() == pytest.approx([0.1])
    assert costs.from_dict(cost.to_dict()) == cost
    with pytest.raises(RuleError, match="is not a cost"):
        rule.price("L1")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Equation(""), "has the target ''"),
        (lambda: Equation("a", coefficients=[1.0]), "has coefficients="),
        (lambda: Equation("a", 0, {"b": "much"}), "has the coefficient of 'b' 'much'"),
        (lambda: Equation("a", math.inf), "has the intercept inf"),
        (lambda: Equation("a", noise_sd=math.nan), "has the noise_sd nan"),
        (lambda: Equation("a", function=abs), "and 0 coefficients"),
        (lambda: Equation("a", 0, {"b": 1.0}, function=abs, parents=("b",)), "and 1 coefficients"),
        (lambda: Equation("a", 0, {"b": 1.0}, covariance=((1.0,),)), r"a covariance of shape \(1, 1\)"),
        (lambda: StructuralEquations(("amount",)), "'amount' is not an Equation"),
        (lambda: StructuralEquations((Equation("a"), Equation("a"))), "two equations of 'a'"),
        (lambda: StructuralEquations((Equation("a", 0, {"a": 1.0}),)), "in a circle: a -> a"),
        (lambda: StructuralEquations(Equation("a", 0, {"b": 1.0})), "is no list"),
        (lambda: StructuralEquations(CHAIN, acts=None), "None does not list features"),
        (lambda: StructuralEquations(CHAIN, acts=[1]), r"\[1\] does not list features"),
        (lambda: StructuralEquations.fit(None, WHOLE, ["amount"]), "names no parents"),
        (lambda: StructuralEquations(CHAIN).draw(-1, 5), "seed=-1"),
        (lambda: Equation("a", 0, {"b": 1.0}, noise_sd=-1.0), "noise_sd -1.0"),
        (lambda: Equation("a", 0, {"b": 1.0}, covariance=((1.0, 2.0), (2.0, 1.0))), "not positive semidefinite"),
        (lambda: Equation("a", 0, {"b": 1.0}, covariance=((math.inf, 0.0), (0.0, 1.0))), "not positive semidefinite"),
        (lambda: Equation("a", 0, {"b": 1.0}, covariance=(("x", 0.0), (0.0, 1.0))), "no table of numbers"),
        (
            lambda: StructuralEquations(
                (Equation("a", 0, {"c": 1.0}), Equation("b", 0, {"a": 1.0}), Equation("c", 0, {"b": 1.0}))
            ),
            "in a circle: a -> b -> c -> a",
        ),
    ],
)
def test_declarations_that_cannot_be(make, text) -> None:
    with pytest.raises(RuleError, match=text):
        make()


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (StructuralEquations((Equation("wealth", 0, {"age": 1.0}),)), "names the feature 'wealth'"),
        (StructuralEquations((Equation("amount", 0, {"wealth": 1.0}),)), "names the feature 'wealth'"),
        (StructuralEquations((Equation("amount", 0, {"status=z": 1.0}),)), "names the level 'z'"),
        (StructuralEquations((Equation("amount", 0, {"status": 1.0}),)), "uses the category 'status' as a number"),
        (StructuralEquations((Equation("status", 0, {"age": 1.0}),)), "an equation of the category 'status'"),
        (StructuralEquations(CHAIN, acts=["wealth"]), "names the feature 'wealth'"),
    ],
)
def test_names_that_the_schema_does_not_have(rule, text) -> None:
    with pytest.raises(RuleError, match=text):
        rule.bind(WHOLE)


def test_a_fixed_feature_cannot_follow_what_moves() -> None:
    schema = Schema(
        (Number("age", 18, 80), Number("amount", 0, 10_000, moves="fixed"), Number("b", 0, 1, moves="fixed"))
    )
    with pytest.raises(RuleError, match="'amount' must follow 'age', which may change"):
        StructuralEquations((Equation("amount", 0, {"age": 1.0}),)).bind(schema)
    StructuralEquations((Equation("amount", 0, {"b": 1.0}),)).bind(schema)  # neither moves
    StructuralEquations((Equation("amount", 0, {"b": 1.0}),), acts=["amount"]).bind(schema)
    with pytest.raises(RuleError, match="an intervention that nobody can make"):  # it would be held without a word
        StructuralEquations((Equation("amount", 0, {"age": 1.0}),), acts=["amount"]).bind(schema)
