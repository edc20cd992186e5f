"""Columns that are computed from others: formulas, how they are filled in, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import turnabout as ta
from turnabout import Binary, Category, Derived, Number, Ordinal, Schema
from turnabout.errors import ProblemError, SchemaError
from turnabout.schema.formula import Formula

BASE = (
    Number("loan", low=5, high=500, step=1),
    Number("value", low=20, high=800, step=1, moves="fixed"),
    Number("income in euro", low=5, high=120, decimals=1),
    Number("term", low=6, high=60, step=1),
)
DERIVED = (
    Derived("ltv", "loan / value", high=3, decimals=2),
    Derived("days", "30 * term", high=1800, step=1),
    Derived("lti", "loan / `income in euro`", high=30, decimals=3),
)


def people(n=300, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "loan": rng.gamma(3, 40, n).round(0) + 5,
            "value": rng.gamma(5, 50, n).round(0) + 20,
            "income in euro": rng.gamma(3, 10, n).round(1) + 5,
            "term": rng.integers(6, 60, n),
        }
    )
    return table.assign(ltv=(table.loan / table.value).round(2), days=table.term * 30).assign(
        lti=(table.loan / table["income in euro"]).round(3)
    )


@pytest.fixture(scope="module")
def bank():
    table = people()
    good = -2 * table.ltv - 0.3 * table.lti + 0.05 * table["income in euro"] - 0.01 * table.term > -1.5
    models = {
        "line": make_pipeline(StandardScaler(), LogisticRegression()),
        "trees": GradientBoostingClassifier(n_estimators=10, random_state=0),
    }
    return table, good, {name: model.fit(table, good) for name, model in models.items()}


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("a / b", {"a": 3.0, "b": 2.0}, 1.5),
        ("30 * a", {"a": 2.0}, 60.0),
        ("-(a - b) ** 2 + 1", {"a": 5.0, "b": 2.0}, -8.0),
        ("max(a, b, 7) - min(a, b)", {"a": 5.0, "b": 2.0}, 5.0),
        ("`a b` >= 2", {"a b": 2.0}, 1.0),
        ("a < 2", {"a": 2.0}, 0.0),
        ("sqrt(a) + abs(b)", {"a": 9.0, "b": -1.0}, 4.0),
        ('job == "none"', {"job=none": 1.0}, 1.0),
        ('job != "none"', {"job=none": 1.0}, 0.0),
    ],
)
def test_formulas_by_hand(text, values, expected):
    columns = {name: torch.tensor([v], dtype=torch.float64) for name, v in values.items()}
    assert Formula(text).compute(columns).tolist() == [expected]


def test_formulas_that_are_sums_are_known():
    assert Formula("2 * (a - b) / 4 + 1").linear() == {"a": 0.5, "b": -0.5, "": 1.0}
    assert Formula("a / b").linear() is None
    assert Formula("max(a, b)").linear() is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no formula"),
        ("a +", "cannot be read"),
        ("1 + 1", "names no column"),
        ("__import__('os')", "do not know"),
        ("a.b", "do not know"),
        ("a if b else c", "do not know"),
        ("min()", "do not know"),
        ("(" * 3000, "no formula"),
        (3, "no formula"),
    ],
)
def test_texts_that_are_no_formula(text, what):
    with pytest.raises(SchemaError, match=what):
        Formula(text)


@pytest.mark.parametrize(
    ("features", "what"),
    [
        ((Number("a"), Derived("b", "c / a")), "no such column"),
        ((Number("a"), Derived("b", "c + a"), Derived("c", "b + a")), "in a circle"),
        ((Number("a"), Category("c", levels=("x", "y", "z")), Derived("b", "a + c")), "takes 'c' for a number"),
        ((Number("a"), Category("c", levels=("x", "y", "z")), Derived("b", 'c == "w"')), "no such level"),
    ],
)
def test_schemas_that_cannot_be_derived(features, what):
    with pytest.raises(SchemaError, match=what):
        Schema(features)


def test_nobody_chooses_what_follows():
    with pytest.raises(SchemaError, match="nobody chooses"):
        Derived("a", "b + 1", moves="free")
    with pytest.raises(SchemaError, match="from itself"):
        Derived("a", "a + 1")


def test_files_both_ways():
    schema = Schema(BASE + DERIVED)
    assert Schema.from_yaml(schema.to_yaml()) == schema
    assert Schema.from_json(schema.to_json()) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert schema.summary().set_index("feature").loc["ltv", "values"] == "loan / value"


def test_levels_and_chains_in_formulas():
    schema = Schema(
        (
            Number("a", high=10, step=1),
            Ordinal("o", levels=(1, 2, 5)),
            Binary("b", levels=("no", "yes")),
            Category("c", levels=("x", "y", "z")),
            Derived("twice", "2 * first", high=100, step=1),
            Derived("first", 'a + o + b + (c == "y")', high=50, step=1),
        )
    )
    own = pd.DataFrame({"a": [1], "o": [2], "b": ["no"], "c": ["x"], "twice": [6], "first": [3]})
    x = schema.encode(own)
    new = schema.encode(own.assign(a=3, o=5, b="yes", c="y"))
    assert schema.decode(schema.fill(new))[["first", "twice"]].to_numpy().tolist() == [[10, 20]]
    written = schema.write(own, x, new)
    assert written[["first", "twice"]].to_numpy().tolist() == [[10, 20]]
    assert not schema.breaches(own, written).any()
    assert schema.breaches(own, written.assign(twice=21))[0, 4]
    assert schema.breaches(own, own.assign(first=4))[0, 5]  # nothing moved, so nothing follows


@pytest.mark.parametrize("name", ["line", "trees"])
@pytest.mark.parametrize("method", ta.methods.ALL, ids=lambda m: m.__name__)
def test_options_are_consistent_and_accepted(bank, name, method):
    table, good, models = bank
    schema = Schema(BASE + DERIVED)
    model = ta.models.wrap(models[name], schema, background=table)
    problem = ta.Problem(schema, model, background=table, labels=good)
    if method.needs_actions or (method.requires is not None and not isinstance(problem.model, method.requires)):
        pytest.skip("the method needs another model or actions")
    refused = table[~models[name].predict(table)].head(15)
    answer = method.small().fit(problem).find(refused, options=2)
    options = answer.options
    assert len(options)
    assert models[name].predict(options[list(table.columns)]).all()
    assert (options.days == 30 * options.term).all()
    assert np.allclose(options.ltv, options.loan / options.value, atol=0.0051)
    assert np.allclose(options.lti, options.loan / options["income in euro"], atol=0.00051)
    assert set(answer.changes().feature) <= {f.name for f in BASE}
    assert ta.Recourse.from_json(answer.to_json()) == answer
    assert "ltv" not in answer.of(options.index[0][0]).index


def test_what_follows_costs_nothing():
    schema = Schema(BASE + DERIVED)
    table = people(5)
    x = schema.encode(table)
    moved = schema.encode(table.assign(term=table.term + 1))
    cost = ta.costs.L1().bind(schema)
    assert torch.allclose(cost(x, schema.fill(moved)), cost(x, moved))
    assert cost(x, schema.fill(x)).max() == 0


def test_a_missing_parent_leaves_what_follows():
    schema = Schema(
        (
            Number("a", high=10, step=1, missing=True),
            Number("b", high=10, step=1),
            Derived("s", "a + b", high=20, step=1),
        )
    )
    own = pd.DataFrame({"a": [np.nan, 2], "b": [1, 1], "s": [7, 3]})
    x = schema.encode(own)
    new = x.clone()
    new[:, schema.slices[1].start] = 0.5
    assert schema.write(own, x, new)["s"].tolist() == [7, 7]


def test_rules_see_what_follows():
    schema = Schema(BASE + DERIVED)
    table = people(40)
    model = ta.models.wrap(lambda t: (t["loan"] <= 40).astype(float), schema)
    rule = ta.rules.Linear({"ltv": 1.0}, ">=", 0.2)
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, model, rules=[rule])).find(table)
    moved = answer.options
    assert len(moved)
    assert (moved.ltv >= 0.2 - 1e-9).all()


def test_identities_that_do_not_hold_in_the_data_are_told(bank):
    table, _, models = bank
    wrong = Schema((*BASE, Derived("ltv", "value / loan", high=3, decimals=2), *DERIVED[1:]))
    model = ta.models.wrap(models["line"], wrong, background=table)
    with pytest.raises(ProblemError, match=r"'ltv' is declared as value / loan, which holds for 0\.\d% of 300"):
        ta.Problem(wrong, model, background=table)
    some = table.assign(ltv=table.ltv.where(table.index % 10 > 0, 9.0))
    schema = Schema(BASE + DERIVED)
    model = ta.models.wrap(models["line"], schema, background=table)
    with pytest.warns(UserWarning, match=r"holds for 90\.0% of 300"):
        ta.Problem(schema, model, background=some)


# -- people whose own cells are not what their formula says ----------------------------------------------------------

TORN = Schema(
    (
        Number("loan", high=100, step=10, moves="down"),
        Number("years", high=9, step=1),
        Derived("k", "loan / 100", decimals=1),
    )
)
ODD = pd.DataFrame({"loan": [50], "years": [1], "k": [1.0]})


def test_rules_read_the_printed_cell_where_nothing_follows():
    model = ta.models.wrap(lambda t: (t["years"] >= 5).astype(float), TORN)
    rule = ta.rules.Linear({"k": 1.0}, "<=", 0.6)
    answer = ta.methods.LocalSearch().fit(ta.Problem(TORN, model, ta.costs.L1(), rules=[rule])).find(ODD)
    assert (answer.options.k <= 0.6).all()
    even = ta.methods.LocalSearch().fit(ta.Problem(TORN, model, ta.costs.L1(), rules=[rule])).find(ODD.assign(k=0.5))
    assert even.options[["loan", "years", "k"]].to_numpy().tolist() == [[50, 5, 0.5]]


def test_nothing_is_proved_of_a_row_that_the_search_does_not_see():
    """The search takes k for 0.5; the person's own row says 1, and years alone would do."""
    model = ta.models.wrap(lambda t: ((t["years"] >= 5) & (t["k"] >= 0.9)).astype(float), TORN)
    method = ta.methods.LocalSearch().fit(ta.Problem(TORN, model))
    assert method.find(ODD.assign(k=0.5)).status.tolist() == ["IMPOSSIBLE"]
    assert method.find(ODD).status.tolist() != ["IMPOSSIBLE"]
