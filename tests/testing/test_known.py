"""Problems with known answers: the answers are right, and the reading by hand agrees with the rooms it checks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnabout.core import Problem
from turnabout.costs import L1
from turnabout.models import Trees
from turnabout.rules import AtMost, Implies, Is, Linear, Ordered, Rises
from turnabout.schema import Binary, Category, Number, Ordinal, Schema
from turnabout.testing import brute_force, known_problems
from turnabout.testing.by_hand import keeps, legal_values, through_csv, wrong_value
from turnabout.testing.deciders import OFFERS, kinds_for, weighing
from turnabout.testing.known import closed_form, contradiction, countable, every_row, everybody, nobody
from turnabout.testing.strategies import people, problems, rules, schemas


def test_brute_force_by_hand():
    schema = Schema((Number("a", 0, 4, step=1), Binary("b", ("no", "yes"), moves="up")))
    model = weighing("linear", schema, {"a": 4.0, "b": 2.5}, -3.3)  # a + 2.5 b >= 3.3, with b 0 or 1
    table = pd.DataFrame({"a": [0, 2, 3, 4], "b": ["no", "yes", "no", "no"]})
    # from (0, no): a to 4 costs 1, b and a to 1 costs 1.25; (2, yes) is accepted; from (3, no): a to 4 costs 0.25
    assert brute_force(Problem(schema, model, L1()), table) == pytest.approx([1.0, 0.0, 0.25, 0.0])


def test_brute_force_keeps_rules_and_directions():
    schema = Schema((Number("a", 0, 4, step=1, moves="down"), Category("k", ("x", "y"))))
    model = weighing("function", schema, {"a": 4.0, "k=y": 2.0}, -1.5)
    table = pd.DataFrame({"a": [1, 1], "k": ["x", "y"]})
    assert brute_force(Problem(schema, model, L1()), table) == [1.0, 0.0]
    forbidden = Linear({"k=y": 1.0}, "<=", 0)
    assert brute_force(Problem(schema, model, L1(), rules=[forbidden]), table.iloc[:1]) == [None]


def test_brute_force_refuses_what_is_too_large():
    case = closed_form()
    assert not countable(case.problem, case.people)
    with pytest.raises(ValueError, match=r"too many|more than"):
        brute_force(case.problem, case.people)


def test_closed_form_is_the_optimum_of_a_fine_grid():
    case = closed_form()
    coarse = Schema(tuple(Number(f.name, f.low, f.high, step=f.span / 100, moves=f.moves) for f in case.problem.schema))
    problem = Problem(coarse, weighing("linear", coarse, {"income": 2.0, "debt": -3.0, "age": 1.0}, -1.3), L1())
    tried = brute_force(problem, case.people)
    for exact, by_trying in zip(case.best, tried, strict=True):
        assert by_trying == pytest.approx(exact, abs=0.03)
        assert by_trying >= exact - 1e-9


@pytest.mark.parametrize("kind", OFFERS)
def test_problems_without_an_answer_have_none(kind):
    for case in (nobody(kind), contradiction(kind)):
        assert (case.problem.model.judge(case.people) < 0).all()
        assert brute_force(case.problem, case.people) == list(case.best) == [None] * len(case.people)
    case = everybody(kind)
    assert (case.problem.model.judge(case.people) >= 0).all()


@pytest.mark.parametrize("kind", OFFERS)
def test_models_offer_what_their_kind_says(kind):
    model = nobody(kind).problem.model
    assert set(model.capabilities) == set(OFFERS[kind])


def test_known_problems_offer_what_is_required():
    cases = known_problems(Trees)
    assert cases
    assert all(isinstance(case.problem.model, Trees) for case in cases)


def test_an_unknown_capability_is_tried():
    class Odd:
        pass

    assert kinds_for(Odd) == ()


# -- reading by hand ---------------------------------------------------------------------------------------------

SCHEMA = Schema(
    (
        Number("a", 0, 10, step=2),
        Number("b", 0, 1, decimals=2, missing=True),
        Ordinal("o", ("low", "mid", "high"), moves="up"),
        Category("k", ("x", "y", "z")),
        Binary("f", (0, 1), moves="fixed"),
    )
)


def test_wrong_values_are_named():
    assert wrong_value(SCHEMA["a"], 3) == "is not a multiple of 2"
    assert wrong_value(SCHEMA["a"], 12) == "lies outside [0, 10]"
    assert wrong_value(SCHEMA["b"], 0.125) == "has more than 2 decimals"
    assert wrong_value(SCHEMA["b"], float("nan")) == "is missing"
    assert wrong_value(SCHEMA["k"], "w") == "is not one of the levels ['x', 'y', 'z']"
    assert wrong_value(SCHEMA["a"], 4) == wrong_value(SCHEMA["b"], 0.12) == wrong_value(SCHEMA["k"], "z") == ""


def test_legal_values():
    assert legal_values(SCHEMA["a"], 3) == [3, 0, 2, 4, 6, 8, 10]
    assert legal_values(SCHEMA["o"], "mid") == ["mid", "high"]
    assert legal_values(SCHEMA["f"], 1) == [1]
    assert len(legal_values(SCHEMA["b"], np.nan)) == 1


def test_rules_by_hand():
    own = {"a": 2, "b": np.nan, "o": "low", "k": "x", "f": 0}

    def kept(rule, **new):
        return keeps(rule, SCHEMA, own, own | new)

    assert kept(AtMost(1), a=4) is True
    assert kept(AtMost(1), a=4, k="y") is False
    assert kept(Implies(Rises("o"), Rises("a", by=4)), o="mid", a=4) is False
    assert kept(Implies(Rises("o"), Rises("a", by=4)), o="mid", a=6) is True
    assert kept(Implies(Is("k", level="y"), Is("o", level="high")), k="y") is False
    assert kept(Linear({"a": 1.0, "k=y": 3.0}, "<=", 5.0), a=4, k="y") is False
    assert kept(Ordered("b", "a"), a=0) is False  # open: b is missing
    assert kept(Ordered("b", "a"), k="y") is True  # and not touched
    assert kept(Ordered("b", "a").waivable(), a=0) is True


@given(source=st.data())
@settings(max_examples=40)
def test_rules_by_hand_agree_with_bound_rules(source):
    schema = source.draw(schemas(tiny=True))
    own, new = (source.draw(people(schema, most=1, plain=True)) for _ in range(2))
    for f in schema:  # a missing cell stays missing, and no other becomes so
        if own[f.name].isna().any() or new[f.name].isna().any():
            new[f.name] = own[f.name]
    for rule in source.draw(rules(schema)):
        violation = rule.bind(schema).violation(schema.encode(own), schema.encode(new))
        assert keeps(rule, schema, own.iloc[0], new.iloc[0]) is bool(violation[0] <= 0), rule


@given(case=problems(tiny=True, most=2))
@settings(max_examples=15)
@pytest.mark.filterwarnings("ignore")
def test_legal_rows_are_those_the_schema_snaps_to(case):
    problem, table = case
    schema = problem.schema
    for place in range(len(table)):
        own = table.iloc[[place]]
        rows = every_row(schema, [legal_values(f, own[f.name].iloc[0]) for f in schema])
        x, x_new = schema.encode(own), schema.encode(rows)
        repeated = own.iloc[np.zeros(len(rows), int)]
        assert not schema.breaches(repeated.reset_index(drop=True), rows).any()
        np.testing.assert_allclose(schema.snap(x, x_new).numpy(), x_new.numpy(), atol=1e-9)


@given(case=problems(most=4))
@settings(max_examples=15)
def test_rows_survive_text(case):
    problem, table = case
    read = through_csv(problem.schema, table)
    np.testing.assert_array_equal(problem.schema.encode(read).numpy(), problem.schema.encode(table).numpy())
