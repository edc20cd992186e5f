"""Missing cells that people can provide: ranges that hold, for every value in them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import turnabout as ta
from turnabout import Derived, Number, Schema
from turnabout.errors import SchemaError, TurnaboutError


def lender(seed=0, n=600):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "income": rng.lognormal(8, 0.4, n).round(0),
            "debts": rng.gamma(2, 900, n).round(0),
            "hours": rng.integers(5, 60, n),
        }
    )
    score = np.log(table.income) * 2 - table.debts / 900 + table.hours * 0.05 + rng.normal(0, 0.3, n)
    good = score > score.median()
    table.loc[rng.random(n) < 0.3, "income"] = np.nan
    return table, good


MODELS = {
    "line": lambda: make_pipeline(SimpleImputer(strategy="constant", fill_value=0), LogisticRegression(max_iter=2000)),
    "trees": lambda: HistGradientBoostingClassifier(max_iter=20, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", [ta.methods.LocalSearch, ta.methods.ExactLinear, ta.methods.GrowingSpheres])
def test_an_option_holds_for_every_value_of_its_range(name, method):
    table, good = lender()
    schema = Schema.infer(table, labels=good)
    assert schema["income"].provide and not schema["debts"].provide
    fitted = MODELS[name]().fit(table, good)
    problem = ta.Problem(schema, ta.models.wrap(fitted, schema, background=table), background=table, labels=good)
    if method.requires is not None and not isinstance(problem.model, method.requires):
        pytest.skip("the method needs another model")
    refused = table[(fitted.predict(table) == 0) & table.income.isna()].head(8)
    answer = method.small().fit(problem).find(refused, options=2)
    assert (answer.status == "FOUND").all()
    assert len(answer.provided) > 3
    step = schema["income"].useful_step or 1
    for (person, option), asked in answer.provided.iterrows():
        row = answer.options.loc[[(person, option)], list(table.columns)]
        assert row.income.iloc[0] == asked.low
        values = np.arange(asked.low, asked.high + step / 2, step)
        rows = pd.concat([row] * len(values), ignore_index=True).assign(income=values)
        assert fitted.predict(rows).all()
        assert answer.options.loc[(person, option), "cost"] >= 0.1
    untouched = answer.options.index.difference(answer.provided.index)
    assert answer.options.loc[untouched, "income"].isna().all()
    assert answer.options.groupby(level=0).cost.apply(lambda c: c.is_monotonic_increasing).all()
    assert ta.Recourse.from_json(answer.to_json()) == answer
    assert method.small().fit(problem).find(refused, options=2) == answer


def test_providing_alone_by_hand():
    schema = Schema((Number("income", high=100, step=1, useful_step=10, missing=True, provide=True, moves="up"),))
    model = ta.models.wrap(lambda t: (t["income"].fillna(0) >= 41).astype(float), schema)
    people = pd.DataFrame({"income": [np.nan, 20.0, 60.0]})
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, model)).find(people)
    assert answer.status.tolist() == ["FOUND", "FOUND", "ACCEPTED"]
    assert answer.options.loc[(0, 0), ["income", "cost"]].tolist() == [50.0, 0.1]
    assert answer.provided.to_numpy().tolist() == [["income", 50.0, 100.0]]
    window = ta.models.wrap(lambda t: t["income"].fillna(0).between(35, 75).astype(float), schema)
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, window)).find(people.head(1))
    assert answer.provided.to_numpy().tolist() == [["income", 40.0, 70.0]]


def test_a_range_that_no_payslip_would_meet_is_not_asked_for():
    """Accepted from 50 to 52 and at 200 or more: who is asked for 50 is told of three values, and of no others."""
    schema = Schema((Number("income", low=0, high=300, step=1, least_change=2, missing=True, provide=True),))
    table = pd.DataFrame({"income": np.repeat([51.0, 10.0], 20)})
    person = pd.DataFrame({"income": [np.nan]})

    def narrow(t):
        return np.where(t.income.between(50, 52) | (t.income >= 200), 0.9, 0.1)

    def wide(t):
        return np.where(t.income.between(50, 60), 0.9, 0.1)

    def open_above(t):
        return np.where(t.income >= 297, 0.9, 0.1)

    for ask, cells, asked in ((narrow, 51.0, None), (wide, 51.0, (50, 60)), (open_above, 299.0, (297, 300))):
        seen = table.replace(51.0, cells)
        problem = ta.Problem(schema, ta.models.wrap(ask, schema), background=seen, labels=seen.income > 20)
        provided = ta.methods.LocalSearch().fit(problem).find(person).provided
        assert [(row.low, row.high) for row in provided.itertuples()] == ([asked] if asked else [])


def test_what_nobody_can_provide_stays_missing():
    schema = Schema((Number("income", high=100, step=1, missing=True), Number("b", high=3, step=1)))
    model = ta.models.wrap(lambda t: (t["income"].fillna(0) >= 41).astype(float), schema)
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, model)).find(pd.DataFrame({"income": [np.nan], "b": [1]}))
    assert answer.status.tolist() == ["IMPOSSIBLE"]
    assert not len(answer.provided)


def test_provide_goes_with_missing():
    with pytest.raises(SchemaError, match="provide=True goes with missing=True"):
        Number("income", provide=True)


def test_a_torn_document_is_told():
    schema = Schema((Number("income", high=100, step=1, missing=True, provide=True),))
    model = ta.models.wrap(lambda t: (t["income"].fillna(0) >= 41).astype(float), schema)
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, model)).find(pd.DataFrame({"income": [np.nan]}))
    document = answer.to_dict()
    document["provided"]["index"] = [[0, 7]]
    with pytest.raises(TurnaboutError, match="speak of an option that there is not"):
        ta.Recourse.from_dict(document)


# -- in words ---------------------------------------------------------------------------------------------------------


def asked_to_provide(moves, provided):
    """An answer that asks one person for an income between two ends."""
    people = pd.DataFrame({"income": [np.nan, 20.0], "hours": [10, 10]}, index=["Ada", "Bo"])
    index = pd.MultiIndex.from_tuples([("Ada", 0), ("Bo", 0)], names=["person", "option"])
    held = provided[1 if moves == "down" else 0]
    options = pd.DataFrame({"income": [held, 50.0], "hours": [20, 10], "cost": 1.0, "margin": 1.0}, index=index)
    asked = pd.DataFrame({"feature": ["income"], "low": [provided[0]], "high": [provided[1]]}, index=index[:1])
    status = pd.Series([ta.Status.FOUND] * 2, index=people.index, dtype=object)
    why = pd.DataFrame(columns=["reason", "best_margin", "asked", "binding", "proof"])
    return ta.Recourse(people, options, status, why, "by hand", 0.0, provided=asked)


@pytest.mark.parametrize(
    ("moves", "provided", "said"),
    [
        ("up", (3160.0, 8260.0), "at least 3,160 (up to 8,260)"),
        ("down", (3160.0, 8260.0), "at most 8,260 (down to 3,160)"),
        ("up", (1234.5, 1234.5), "exactly 1,234.5"),
        ("up", (-20.0, 0.25), "at least -20 (up to 0.25)"),
    ],
)
def test_a_provided_cell_is_told_as_a_range(moves, provided, said):
    answer = asked_to_provide(moves, provided)
    told = answer.changes_in_words()
    assert told[told.person == "Ada"].to.tolist() == [said, 20]
    assert told[told.person == "Bo"].to.tolist() == [50.0]
    assert said in answer._repr_html_()
    assert answer.of("Ada").loc["income", "option 0"] == said and answer.of("Ada").loc["hours"].tolist() == [10, 20]
    assert answer.of("Bo").loc["income"].tolist() == [20.0, 50.0]
    assert answer.changes().to.iloc[0] in provided  # the table of numbers stays one
    pd.testing.assert_frame_equal(told.drop(columns="to"), answer.changes().drop(columns="to"))


def test_without_provided_cells_words_are_the_changes():
    answer = asked_to_provide("up", (1.0, 2.0))
    plain = dataclasses.replace(answer, provided=answer.provided.head(0))
    pd.testing.assert_frame_equal(plain.changes_in_words(), plain.changes())


def test_the_review_tells_the_range():
    answer = asked_to_provide("up", (18.0, 30.0))
    names = {"income": "age"}
    aged = dataclasses.replace(
        answer, people=answer.people.rename(columns=names), options=answer.options.rename(columns=names),
        provided=answer.provided.assign(feature="age"),
    )  # fmt: skip
    said = [c.says for c in aged.review().concerns if c.kind == "not theirs to change"]
    assert said and said[0].startswith("age from missing to at least 18 (up to 30) for person Ada, option 0;")


def test_letters_tell_the_range():
    table, good = lender()
    schema = Schema.infer(table, labels=good)
    fitted = MODELS["line"]().fit(table, good)
    problem = ta.Problem(schema, ta.models.wrap(fitted, schema, background=table), background=table, labels=good)
    refused = table[(fitted.predict(table) == 0) & table.income.isna()].head(3)
    answer = ta.methods.ExactLinear().fit(problem).find(refused)
    person = answer.provided.index[0][0]
    range_ = answer.changes_in_words().query("person == @person and feature == 'income'").to.iloc[0]
    assert range_.startswith("at least ") and "(up to " in range_
    told = ta.explain.reasons(answer, problem).of(person)
    assert f"the plan asks to provide it: {range_}" in told


# -- what follows, what rules say, and what is proved --------------------------------------------------------------


def test_what_follows_from_a_provided_cell_is_computed_too():
    """The share of a loan in an unknown value is missing with it, and is there once the value is."""
    schema = Schema(
        (
            Number("loan", low=10, high=100, step=10, moves="fixed"),
            Number("value", low=50, high=200, step=10, missing=True, provide=True),
            Derived("ltv", "loan / value", high=2, decimals=2, missing=True),
        )
    )
    model = ta.models.wrap(lambda t: ((t["ltv"] <= 0.5) & t["value"].notna()).astype(float), schema)
    people = pd.DataFrame({"loan": [60], "value": [np.nan], "ltv": [np.nan]})
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, model)).find(people)
    assert answer.provided.to_numpy().tolist() == [["value", 120.0, 200.0]]
    assert answer.options[["value", "ltv"]].to_numpy().tolist() == [[120.0, 0.5]]


def test_rules_hold_within_the_range():
    schema = Schema((Number("low", high=9, step=1), Number("high", high=9, step=1, missing=True, provide=True)))
    model = ta.models.wrap(lambda t: t["high"].notna().astype(float), schema)
    problem = ta.Problem(schema, model, rules=[ta.rules.Ordered("low", "high")])
    answer = ta.methods.LocalSearch().fit(problem).find(pd.DataFrame({"low": [4], "high": [np.nan]}))
    assert answer.provided.to_numpy().tolist() == [["high", 4.0, 9.0]]


def test_nobody_is_proved_impossible_for_want_of_a_cell():
    """One value in the far corner does: it is not tried, so nothing is proved."""
    schema = Schema((Number("a", high=9, step=1, missing=True, provide=True), Number("b", high=1, step=1)))
    model = ta.models.wrap(lambda t: ((t["a"] == 9) & (t["b"] == 1)).astype(float), schema)
    own = pd.DataFrame({"a": [np.nan], "b": [0]})
    method = ta.methods.LocalSearch(exhaustive=100).fit(ta.Problem(schema, model))
    assert method.find(own).status.tolist() == ["FOUND"]
    there = pd.DataFrame({"a": [2], "b": [0]})
    assert method.find(there, limits={0: {"b": "fixed"}}).status.tolist() == ["IMPOSSIBLE"]
    answer = method.find(own, limits={0: {"b": "fixed"}})
    assert answer.status.tolist() == ["NOT_FOUND"]
    assert "while 'a' is missing" in answer.why.loc[0, "reason"]
    assert answer.why.loc[0, "proof"] == ""


def test_provided_rows_keep_the_types_of_the_table():
    schema = Schema((Number("a", high=9, step=1, missing=True, provide=True), Number("b", high=1, decimals=4)))
    model = ta.models.wrap(lambda t: t["a"].notna().astype(float), schema)
    own = pd.DataFrame({"a": np.array([np.nan], dtype=np.float32), "b": np.array([0.2122], dtype=np.float32)})
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, model)).find(own)
    assert answer.status.tolist() == ["FOUND"]
    assert answer.options.dtypes[["a", "b"]].tolist() == [np.float32, np.float32]
    assert str(answer.options.b.iloc[0]) == "0.2122"
