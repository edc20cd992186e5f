"""CausalRecourse: acts through the equations, against every row; chances under estimated equations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import GUARD, Problem, Status
from turnabout.costs import L1
from turnabout.errors import MethodError
from turnabout.methods import CausalRecourse, ExactLinear, LocalSearch, Wachter, success_probability
from turnabout.models import wrap
from turnabout.rules import AtMost, Box, Equation, Linear, StructuralEquations
from turnabout.schema import Category, Number, Schema
from turnabout.testing.known import every_row

# school years raise income, income raises savings; the lender looks at savings, and a little at income
LINE = Schema(
    (
        Number("school", 0, 10, step=1, moves="up"),
        Number("income", 0, 20, step=1),
        Number("savings", 0, 30, step=1),
        Category("town", ("a", "b"), moves="fixed"),
    )
)
EQUATIONS = (Equation("income", 1.0, {"school": 1.5, "town=b": 2.0}), Equation("savings", 0.0, {"income": 1.2}))
PEOPLE = pd.DataFrame(
    {"school": [2, 5, 9, 0], "income": [5, 3, 10, 9], "savings": [4, 10, 2, 12], "town": ["a", "b", "a", "b"]}
)


def lender(schema: Schema = LINE, income: float = 1.0, savings: float = 4.0, bias: float = -2.6):
    """A wrapped torch model with margin income * x_income + savings * x_savings + bias."""
    by_name = {"income": income, "savings": savings}
    module = torch.nn.Linear(schema.d, 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[by_name.get(c, 0.0) for c in schema.columns]], dtype=torch.float64))
        module.bias.fill_(bias)
    return wrap(module, schema, threshold=0.5, output="logit")


def posed(acts=(), *more, cost=None) -> Problem:
    equations = StructuralEquations(EQUATIONS, acts=acts)
    return Problem(LINE, lender(), cost=equations.price(L1()) if cost is None else cost, rules=[equations, *more])


def cheapest(problem: Problem) -> dict[int, float]:
    """The least cost of each of PEOPLE who has recourse, by asking about every row there is."""
    table = every_row(LINE, [range(11), range(21), range(31), ("a", "b")])
    rows, x = LINE.encode(table), LINE.encode(PEOPLE)
    accepted = rows[problem.margin(rows) >= GUARD]
    out = {}
    for i, own in enumerate(x):
        mine = accepted[(accepted[:, 3:] == own[3:]).all(1) & (accepted[:, 0] >= own[0])]
        mine = mine[problem.violation(own.expand_as(mine), mine) <= 0]
        if len(mine):
            out[i] = float(problem.cost(own.expand_as(mine), mine).min())
    return out


def consistent(problem: Problem, answer) -> bool:
    own = answer.people.loc[answer.options.index.get_level_values(0)]
    x, x_new = problem.schema.encode(own), problem.schema.encode(answer.options)
    return bool((problem.rules[0].violation(x, x_new) == 0).all())


@pytest.mark.parametrize("acts", [(), ("income",), ("income", "savings")])
def test_reaches_the_cheapest_acts_of_all(acts):
    problem = posed(acts)
    answer = CausalRecourse().fit(problem).find(PEOPLE)
    assert answer.options["cost"].droplevel("option").to_dict() == pytest.approx(cheapest(problem), abs=1e-9)
    assert consistent(problem, answer)


def test_a_yes_comes_by_consequences_alone():
    answer = CausalRecourse().fit(posed()).find(PEOPLE.iloc[:1])
    row = answer.options.iloc[0]
    assert row["school"] == 8  # the one thing they do
    assert (row["income"], row["savings"]) == (14, 15)  # 5 + 1.5 * 6; 4 + 1.2 * 9 = 14.8
    assert row["cost"] == pytest.approx(0.6)  # six of ten years, and nothing for what follows


def test_setting_what_could_follow_pays_where_it_is_cheaper():
    follows, may_set = (CausalRecourse().fit(posed(acts)).find(PEOPLE.iloc[[1]]) for acts in ((), ("savings",)))
    assert follows.options["school"].iloc[0] > 5
    assert may_set.options["school"].iloc[0] == 5
    assert may_set.options["cost"].iloc[0] < follows.options["cost"].iloc[0]


def test_other_rules_are_kept_too():
    problem = posed(("income",), Linear({"income": 1.0}, "<=", 14.0))
    answer = CausalRecourse().fit(problem).find(PEOPLE)
    assert answer.options["cost"].droplevel("option").to_dict() == pytest.approx(cheapest(problem), abs=1e-9)
    assert (answer.options["income"] <= 14).all()
    few = CausalRecourse().fit(posed(("savings",), AtMost(1))).find(PEOPLE)
    assert (few.changes().groupby("person").size() == 1).all()
    reach = {"school": 7, "income": 11, "savings": 14}
    inside = CausalRecourse().fit(posed((), Box(reach))).find(PEOPLE)
    assert inside.status[0] == Status.FOUND
    own = PEOPLE.loc[inside.options.index.get_level_values(0)]
    for name, far in reach.items():
        assert (inside.options[name].to_numpy() - own[name].to_numpy() <= far).all()


@pytest.mark.parametrize("method", [Wachter(), LocalSearch()], ids=repr)
def test_other_methods_give_consistent_rows(method):
    for acts in ((), ("income",)):
        problem = posed(acts)
        answer = method.fit(problem).find(PEOPLE)
        assert (answer.status == Status.FOUND).sum() >= 2
        assert consistent(problem, answer)


def test_wachter_moves_causes_for_their_effects_only():
    problem = Problem(
        LINE, lender(income=0.0, bias=-2.0), rules=[StructuralEquations(EQUATIONS)]
    )  # school has no gradient
    answer = Wachter().fit(problem).find(PEOPLE.iloc[[0]])
    assert answer.status.iloc[0] == Status.FOUND
    assert answer.options["school"].iloc[0] > 2


def test_exact_methods_say_that_they_do_not_take_equations():
    with pytest.raises(MethodError, match="cannot write the rule 'income follows school, town=b; savings follows"):
        ExactLinear().fit(posed())


def test_without_equations_it_searches_like_wachter():
    problem = Problem(LINE, lender())
    ours, theirs = (method.fit(problem).find(PEOPLE) for method in (CausalRecourse(), Wachter()))
    pd.testing.assert_frame_equal(ours.options, theirs.options)


def test_a_nonlinear_equation_given_as_a_function():
    root = Equation("savings", function=lambda p: 6 * torch.sqrt(p["income"].clamp(min=1e-9)), parents=("income",))
    problem = Problem(LINE, lender(), rules=[StructuralEquations((EQUATIONS[0], root))])
    answer = CausalRecourse().fit(problem).find(PEOPLE)
    assert consistent(problem, answer)
    assert answer.options["cost"].droplevel("option").to_dict() == pytest.approx(cheapest(problem), abs=1e-9)


# -- estimated equations ------------------------------------------------------------------------------------------

SMOOTH = Schema((Number("school", 0, 10, step=0.01, moves="up"), Number("income", -100, 200, decimals=6)))
MEAN, SD = 1.5, 0.2
ESTIMATED = StructuralEquations((Equation("income", 0.0, {"school": MEAN}, covariance=((1.0, 0.0), (0.0, SD**2))),))


def uncertain() -> Problem:
    """Accepted from an income of 10; school years pay 1.5 +- 0.2 each."""
    model = lender(SMOOTH, income=3.0, bias=-3.0 * 110 / 300)
    return Problem(SMOOTH, model, cost=ESTIMATED.price(L1()), rules=[ESTIMATED])


ASKING = pd.DataFrame({"school": [1.0, 2.0, 3.0], "income": [4.0, 1.0, -90.0]}, index=["ann", "bob", "cy"])


def test_success_probability_is_that_of_the_gaussian():
    years = np.array([4.0, 4.5, 5.0])
    rows = pd.DataFrame({"school": 1.0 + years, "income": 4.0 + MEAN * years}, index=["ann"] * 3)
    told = success_probability(uncertain(), ASKING, rows, draws=20_000, seed=1)
    normal = torch.distributions.Normal(MEAN, SD)
    expected = 1 - normal.cdf(torch.as_tensor(6.0 / years)).numpy()
    assert list(told.columns) == ["probability", "standard_error"]
    assert list(told.index) == ["ann"] * 3
    np.testing.assert_array_less(np.abs(told["probability"] - expected), 4 * told["standard_error"])
    np.testing.assert_allclose(told["standard_error"], np.sqrt(expected * (1 - expected) / 20_000), rtol=0.05)
    sure = success_probability(uncertain(), ASKING, rows.assign(school=10.0), draws=50)
    assert (sure["probability"] == 1).all() and (sure["standard_error"] > 0).all()


def test_an_intervention_does_not_depend_on_the_equations_it_cuts():
    cut = StructuralEquations(ESTIMATED.equations, acts=["income"])
    problem = Problem(SMOOTH, uncertain().model, rules=[cut])
    rows = pd.DataFrame({"school": [1.0, 5.0], "income": [10.5, 10.0]}, index=["ann", "ann"])  # set; follows
    told = success_probability(problem, ASKING, rows, draws=400)["probability"]
    assert told.iloc[0] == 1.0
    assert 0.4 < told.iloc[1] < 0.6


def test_only_rows_that_reach_the_chance_are_proposed():
    problem = uncertain()
    known, sure = CausalRecourse().fit(problem), CausalRecourse(draws=200, chance=0.9).fit(problem)
    bare, safe = known.find(ASKING), sure.find(ASKING)
    assert bare.status.to_dict() == {"ann": Status.FOUND, "bob": Status.FOUND, "cy": Status.NOT_FOUND}
    assert bare.options["school"].to_numpy() == pytest.approx([5.0, 8.0], abs=0.011)
    assert (success_probability(problem, ASKING, bare.options, seed=9)["probability"] < 0.65).all()
    # ann needs 6 = years * b with b at its tenth percentile; bob would need 7.3 years and has 8
    assert safe.status.to_dict() == bare.status.to_dict()
    tenth = MEAN - 1.2816 * SD
    assert (safe.options["school"].to_numpy() >= np.array([1 + 6 / tenth, 2 + 9 / tenth]) - 0.1).all()
    assert (safe.options["school"].to_numpy() <= np.array([1 + 6 / tenth, 2 + 9 / tenth]) + 0.6).all()
    fresh = success_probability(problem, ASKING, safe.options, draws=4000, seed=9)
    assert (fresh["probability"] >= 0.9 - 2 * fresh["standard_error"]).all()


def test_who_cannot_reach_the_chance_is_told_so():
    answer = CausalRecourse(draws=100, chance=0.999).fit(uncertain()).find(ASKING.loc[["bob"]])
    assert answer.status.iloc[0] == Status.NOT_FOUND
    assert "accepted in 0.999 of 100 draws of the equations" in answer.why["binding"].iloc[0]


def test_rows_are_judged_by_chance_whatever_proposed_them():
    method = CausalRecourse(draws=100, chance=0.9).fit(uncertain())
    x = SMOOTH.encode(ASKING.iloc[:1])
    rows = SMOOTH.encode(pd.DataFrame({"school": [5.01, 7.0], "income": [10.015, 13.0]}))
    assert (method.problem_.violation(x, rows) > 0).tolist() == [True, False]


def test_many_choices_are_not_tried_in_all_combinations():
    schema = Schema(tuple(Number(f"v{i}", 0, 1) for i in range(7)))
    chain = [Equation(f"v{i}", 0.0, {f"v{i - 1}": 0.5}) for i in range(1, 7)]
    module = torch.nn.Linear(7, 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[0.0] * 6 + [1.0]]))
        module.bias.fill_(-0.5)
    problem = Problem(
        schema,
        wrap(module, schema, threshold=0.5, output="logit"),
        cost=L1(),
        rules=[StructuralEquations(chain, acts=schema.names)],
    )
    method = CausalRecourse.small().fit(problem)
    assert len(method.modes_) == 8
    answer = method.find(pd.DataFrame([[0.1] * 7], columns=schema.names))
    assert answer.options["cost"].iloc[0] == pytest.approx(0.4, abs=1e-5)  # setting the last is cheapest


def test_the_same_twice_and_in_any_order():
    method = CausalRecourse(steps=20, rounds=2, draws=50, chance=0.8).fit(uncertain())
    answer = method.find(ASKING)
    assert answer == method.find(ASKING)
    turned = method.find(ASKING.iloc[::-1])
    pd.testing.assert_frame_equal(turned.options.sort_index(), answer.options.sort_index())


def test_parameters_and_problems_that_cannot_be():
    with pytest.raises(MethodError, match="has draws=-1"):
        CausalRecourse(draws=-1).fit(posed())
    with pytest.raises(MethodError, match="has chance=2"):
        CausalRecourse(chance=2).fit(posed())
    with pytest.raises(MethodError, match="none of the structural equations has a covariance"):
        CausalRecourse(draws=10).fit(posed())
    with pytest.raises(MethodError, match="two sets of structural equations"):
        CausalRecourse().fit(posed((), StructuralEquations(())))
    with pytest.raises(MethodError, match="has 0 sets of structural equations"):
        success_probability(Problem(LINE, lender()), PEOPLE, PEOPLE)
    with pytest.raises(MethodError, match="draws=0 is not a whole number from 1 up"):
        success_probability(posed(), PEOPLE, PEOPLE, draws=0)
    with pytest.raises(MethodError, match="row 'dora' belongs to none of the people"):
        success_probability(uncertain(), ASKING, ASKING.rename(index={"ann": "dora"}))
    with pytest.raises(MethodError, match="two people share the index label 'ann'"):
        success_probability(uncertain(), pd.concat([ASKING, ASKING]), ASKING)
    wrong = [
        ("patience", 0),
        ("lam", "a"),
        ("lam", float("nan")),
        ("steps", "a"),
        ("rounds", 0),
        ("lr", 0),
        ("seed", -1),
    ]
    for name, value in wrong:
        with pytest.raises(MethodError, match=f"has {name}={value!r}"):
            CausalRecourse(**{name: value}).fit(uncertain())
    CausalRecourse(draws=10).fit(Problem(LINE, lender()))  # nothing follows, so nothing is uncertain
