"""Drafts that protect people: what names and data say, useful steps, relations between columns."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import turnabout as ta
from turnabout import Derived, Schema
from turnabout.errors import SchemaError
from turnabout.schema.column_words import WORDS, says, words_of
from turnabout.schema.identity_search import find_relations
from turnabout.schema.trends import trends
from turnabout.schema.useful import draft_choices, useful_step


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NumInqLast6M", ["num", "inq", "last", "6", "m"]),
        ("monthly_income", ["monthly", "income"]),
        ("État civil", ["etat", "civil"]),
        ("FICOScore", ["fico", "score"]),
        ("Straße 2", ["strasse", "2"]),
    ],
)
def test_words_of_a_name(name, words):
    assert words_of(name) == words


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("Geschlecht", "protected", True),
        ("marital_status", "protected", True),
        ("birth date", "protected", True),
        ("mortgage", "protected", False),
        ("average_balance", "protected", False),
        ("customer_id", "identity", True),
        ("idle_hours", "identity", False),
        ("months_since_last_default", "time", True),
        ("earliest_credit_line", "time", True),
        ("annual_income_joint", "others", True),
        ("CoapplicantIncome", "others", True),
        ("NumInqLast6M", "past", True),
        ("unemployment_rate", "others", True),
        ("int_rate", "others", True),
        ("loan_purpose", "asked", True),
        ("times_90_days_late", "past", True),
        ("PercentTradesNeverDelq", "worse", False),
        ("total_debt", "worse", True),
        ("debt_to_income_ratio", "worse", True),
        ("debt_to_income_ratio", "better", False),
        ("debt_to_income_ratio", "amounts", True),
        ("loan_to_value", "worse", True),
        ("payment per income", "better", False),
        ("revol_util", "worse", True),
        ("total_bal_il", "worse", True),
        ("living expenses", "worse", True),
        ("open_credit_lines", "worse", True),
        ("real_estate_loans", "worse", True),
        ("num_satisfactory_accounts", "worse", False),
        ("num_satisfactory_accounts", "better", True),
        ("PercentTradesNeverDelq", "better", True),
        ("num_cc_accounts", "worse", True),
        ("open_il_12m", "past", True),
        ("delinq_2yrs", "past", True),
        ("impagos 6 meses", "past", True),
        ("income_12m", "past", False),
        ("term_36", "past", False),
        ("hschool", "better", True),
        ("credit lines", "worse", True),
        ("condominium", "asked", True),
        ("insurance", "asked", True),
        ("Records", "past", True),
        ("Home", "identity", True),
        ("home_ownership", "identity", True),
        ("home_value", "identity", False),
        ("Einkommen", "better", True),
        ("ingresos mensuales", "better", True),
    ],
)
def test_what_names_say(name, kind, found):
    assert (says(name, kind) is not None) is found


def test_words_can_be_added(monkeypatch):
    assert says("kyn", "protected") is None
    monkeypatch.setitem(WORDS["protected"], "sex", [*WORDS["protected"]["sex"], "kyn"])
    assert says("kyn", "protected") == "sex"


def people(n=900, seed=0):
    rng = np.random.default_rng(seed)
    income = rng.lognormal(8, 0.4, n).round(0)
    table = pd.DataFrame(
        {
            "customer_number": np.arange(n) + 70_001,
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(18, 80, n),
            "income": income,
            "loan": (rng.integers(10, 200, n) * 100).astype(float),
            "value": rng.gamma(5, 9000, n).round(0) + 2000,
            "hours": rng.integers(5, 60, n),
            "noise": rng.normal(0, 1, n).round(3),
            "unemployment_rate": rng.choice([4.1, 4.4, 5.0], n),
            "debts": rng.gamma(2, 3000, n).round(0),
            "constant": 3,
        }
    )
    table["ltv"] = (table.loan / table.value).round(3)
    table["days"] = table.hours * 7
    score = np.log(income) * 2 - table.ltv * 2 + table.hours * 0.06 + table.debts / 8000 + rng.normal(0, 0.6, n)
    return table, score > score.median()


def test_a_draft_protects_people_and_says_why():
    table, good = people()
    schema = Schema.infer(table, labels=good)
    moves = {f.name: f.moves for f in schema}
    for name in ("sex", "age", "unemployment_rate", "constant", "customer_number"):
        assert moves[name] == "fixed", name
    assert moves["income"] == "up"
    assert moves["debts"] == "down"  # although the data say the opposite
    assert moves["hours"] == "up"  # by evidence alone
    assert moves["noise"] == "free"
    assert isinstance(schema["ltv"], Derived) and schema["ltv"].formula == "loan / value"
    assert isinstance(schema["days"], Derived) and schema["days"].formula == "7 * hours"
    notes = "\n".join(schema.notes)
    assert "age: fixed: its name speaks of age" in notes
    assert "hours: may only go up: people fare better so, AUC" in notes
    assert "debts: the data say the opposite" in notes
    assert "ltv: computed from others: loan / value" in notes
    assert schema["loan"].useful_step == 100  # as its values end
    assert Schema.from_yaml(schema.to_yaml()) == schema


def test_the_caller_has_the_last_word():
    table, good = people()
    schema = Schema.infer(table, labels=good, free=["age", "days"], decreasing=["income"], immutable=["hours"])
    assert {n: schema[n].moves for n in ("age", "income", "hours")} == {
        "age": "free",
        "income": "down",
        "hours": "fixed",
    }
    assert not isinstance(schema["days"], Derived)
    with pytest.raises(SchemaError, match="is declared both"):
        Schema.infer(table, free=["age"], immutable=["age"])


def test_a_leak_is_told():
    table, good = people()
    schema = Schema.infer(table.assign(granted=np.where(good, "yes", "no")), labels=good)
    assert schema["granted"].moves == "fixed"
    assert any(note.startswith("granted: fixed: it equals the labels") for note in schema.notes)


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_few_rows_make_a_draft_and_no_leaks(rows):
    """In two rows every other column equals the labels."""
    table = pd.DataFrame(
        {
            "n": range(5, 5 + rows),
            "c": list("abcd")[:rows],
            "flag": [k % 2 == 0 for k in range(rows)],
            "opened": pd.date_range("2020-01-01", periods=rows),
            "rank": pd.Series([np.nan] * rows),
        }
    )
    schema = Schema.infer(table, labels=table["flag"], ordinal={"rank": ["low", "high"]})
    assert not any("leak" in note for note in schema.notes)
    assert schema["flag"] == ta.Binary("flag", levels=(False, True)) or rows == 1
    assert schema["opened"] == ta.Passthrough("opened")
    assert schema["rank"] == ta.Ordinal("rank", levels=("low", "high"), missing=True)
    assert Schema.from_yaml(schema.to_yaml()) == schema
    assert not schema.read(table).lost.any()


def test_drafts_of_columns_without_company():
    """Nothing to add up, nobody with a level, a part that is 0 wherever the sum is known."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200)).round(3)
    late = np.arange(200) >= 150
    table = pd.DataFrame({"a": a, "b": np.where(late, np.nan, b), "c": np.where(late, a, 0.0), "gone": np.nan})
    table["whole"] = (table.a + table.b).round(3)
    good = rng.random(200) < 0.5
    for columns in (["a"], ["a", "gone"], ["gone"], list(table)):
        ordinal = {"gone": ["low", "high"]} if "gone" in columns else None
        schema = Schema.infer(table[columns], labels=good, ordinal=ordinal)
        assert Schema.from_yaml(schema.to_yaml()) == schema and schema.names == tuple(columns)
    assert isinstance(schema["whole"], Derived) and schema["whole"].formula == "a + b"
    parts = {"a": np.where(late, np.nan, a), "b": np.where(late, np.nan, b), "c": np.where(late, a, 0.0)}
    parts |= {"d": np.where(late, np.nan, (a - b).round(3) + a), "t": (3 * a - b).round(3)}
    assert not [r for r in find_relations(parts) if "c" in r.formula]


@pytest.mark.parametrize("labels", [[1, 2, 3], ["a"] * 900, [True] * 3, [None] * 900])
def test_labels_that_are_none(labels):
    with pytest.raises(SchemaError, match="not 900 times true or false"):
        Schema.infer(people()[0], labels=labels)


def test_direction_needs_the_column_itself_and_not_its_company():
    """A column that is good only because another is, is not said to be good."""
    rng = np.random.default_rng(1)
    n = 4000
    cause = rng.normal(size=n)
    company = cause + rng.normal(size=n)
    good = cause + 0.3 * rng.normal(size=n) > 0
    found = trends({"cause": cause, "company": company, "noise": rng.normal(size=n)}, good)
    assert found["cause"].good == "up"
    assert found["company"].good is None
    assert found["noise"].good is None
    assert (found["cause"].leans, found["company"].leans, found["noise"].leans) == ("up", "up", None)
    few = trends({"cause": cause[:50]}, good[:50])
    assert few["cause"].good is None and "only" in few["cause"].words
    assert few["cause"].leans is None


def test_where_the_data_lean_advice_does_not_go_the_other_way():
    """What people with more of it have, where holding the others does not contradict: no proof, but no advice against.

    What shows only when the others are held binds nobody: readers do not see it, and it may be an accident of the rest.
    """
    rng = np.random.default_rng(0)
    n = 6000
    weak, spent, rich = rng.normal(size=(3, n))
    mixed = rich + 0.7 * rng.normal(size=n)  # better alone, worse for people as rich as each other
    spent += 0.4 * rich  # worse only when the others are held
    good = 0.12 * weak - 0.3 * spent + 1.5 * rich - 0.8 * mixed + rng.logistic(size=n) > 0
    found = trends({"weak": weak, "spent": spent, "rich": rich, "mixed": mixed, "noise": rng.normal(size=n)}, good)
    assert {name: trend.good for name, trend in found.items()}["weak"] is None
    assert {name: trend.leans for name, trend in found.items()} == {
        "weak": "up", "spent": None, "rich": "up", "mixed": None, "noise": None
    }  # fmt: skip
    table = pd.DataFrame({"weak": weak, "spent": spent, "rich": rich, "mixed": mixed})
    schema = Schema.infer(table, labels=good)
    assert [f.moves for f in schema] == ["up", "free", "up", "free"]
    assert any(note.startswith("weak: may only go up: the data lean that way, AUC 0.5") for note in schema.notes)


@pytest.mark.parametrize(
    ("values", "grid", "step"),
    [
        (np.arange(0, 10_000, 1.0), 1.0, 100.0),
        (np.repeat(np.arange(1, 9) * 6.0, 20), 1.0, 6.0),
        (np.linspace(0, 1, 500).round(4), 1e-4, 0.01),
        (np.repeat(np.arange(5.0), 50), 1.0, 1.0),
        (np.concatenate([np.zeros(900), np.arange(100) * 1000.0]), 1.0, 1000.0),
    ],
)
def test_useful_steps_by_hand(values, grid, step):
    assert useful_step(values, grid) == step


def test_choices_by_hand():
    values = np.arange(0, 10_001, 1.0)
    drafted = draft_choices(values, 1.0, 0.0, 10_000.0, values[values >= 2000])
    assert (drafted.useful_step, drafted.least_change) == (100.0, 200.0)
    assert (drafted.reach.absolute, drafted.reach.low, drafted.reach.high) == (18000.0, 2100.0, 9900.0)
    assert drafted.reach.shares == (0.2, 0.5)
    assert draft_choices(values[:5], 1.0, 0.0, 4.0, None).reach is None


def test_a_mark_of_which_nobody_knows_whether_it_is_good_is_not_advised():
    """Yes or no without a direction, by name or by data; terms that are offered stay, and all without labels."""
    rng = np.random.default_rng(0)
    n = 4000
    table = pd.DataFrame({"suite": rng.choice(["no", "yes"], n), "vip": rng.choice([0, 1], n)})
    table["term"], table["months"] = rng.choice(["36 months", "60 months"], n), rng.choice([36, 60], n)
    table["said"] = table.suite.sample(frac=1, random_state=1).to_numpy()
    good = rng.logistic(size=n) + table.vip > 0.5
    moves = {f.name: f.moves for f in Schema.infer(table, labels=good, free=["said"])}
    assert moves == {"suite": "fixed", "vip": "up", "term": "free", "months": "free", "said": "free"}
    notes = Schema.infer(table, labels=good).notes
    assert any(n.startswith("suite: fixed: neither its name nor the data say which way is good, AUC 0.") for n in notes)
    assert Schema.infer(table)["suite"].moves == "free"
    assert Schema.infer(table[:60], labels=good[:60])["suite"].moves == "free"  # too few people to know


def test_an_amount_that_many_lack_moves_by_a_part_of_what_others_have():
    """Who has nothing does not come by a fortune: a few rich people stretch the ordinary range."""
    rich = np.full(100, 20_000.0)
    assets = np.concatenate([np.zeros(600), np.repeat(np.arange(1000.0, 3001.0, 100.0), 30), rich])
    table = pd.DataFrame({"assets": assets, "other": np.random.default_rng(0).permutation(assets)})
    table["loan_amount"] = 1000.0 + np.arange(len(assets)) // 2
    schema = Schema.infer(table)
    assert schema["assets"].reach.absolute == 1100  # half of 2200, the median of those who have some
    assert schema["assets"].reach.relative is None
    assert schema["other"].reach.absolute == 40_000
    assert schema["loan_amount"].reach.relative == 0.5


def test_relations_are_found_and_nothing_else():
    rng = np.random.default_rng(1)
    n = 1500
    columns = {
        "loan": rng.gamma(3, 4000, n).round(0) + 500,
        "value": rng.gamma(5, 9000, n).round(0) + 2000,
        "term": rng.integers(6, 60, n).astype(float),
        "age": rng.integers(18, 80, n).astype(float),
        "b1": rng.gamma(1, 100, n).round(2),
        "b2": rng.gamma(1, 100, n).round(2),
        "b3": rng.gamma(1, 100, n).round(2),
        "noise": rng.normal(0, 1, n),
        "count": rng.poisson(0.1, n).astype(float),
    }
    job = rng.choice(["a", "b", "c"], n)
    columns["ltv"] = (columns["loan"] / columns["value"]).round(2)
    columns["days"] = 30 * columns["term"]
    columns["total"] = (columns["b1"] + columns["b2"] + columns["b3"]).round(2)
    columns["gap"] = columns["b1"] - columns["b2"]
    columns["a rate"] = columns["loan"] / columns["term"]
    columns["senior"] = (columns["age"] >= 65).astype(float)
    columns["is_b"] = (job == "b").astype(float)
    columns["nearly"] = columns["ltv"] + rng.normal(0, 0.1, n)
    found = {r.target: r.formula for r in find_relations(columns, {"job": job.astype(object)})}
    assert found == {
        "ltv": "loan / value",
        "days": "30 * term",
        "total": "b1 + b2 + b3",
        "gap": "b1 - b2",
        "a rate": "loan / term",
        "senior": "age >= 65",
        "is_b": 'job == "b"',
    }


def test_a_relation_that_holds_for_few_rows_is_none():
    rng = np.random.default_rng(0)
    a = rng.integers(1, 100, 500).astype(float)
    b = np.where(np.arange(500) % 20 == 0, a * 2 + 9, a * 2)
    assert find_relations({"a": a, "b": b}) == []
    assert find_relations({}) == []


def test_find_says_what_a_drafted_schema_lets_move():
    table, good = people()
    features = table[["income", "hours", "age"]]
    model = LogisticRegression(max_iter=500).fit(features, good)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        answer = ta.find(model, features.head(30), background=features, labels=good)
    said = [str(w.message) for w in told if "drafted" in str(w.message)]
    assert len(said) == 1
    assert "plans may change income (up), hours (up)" in said[0]
    assert "age" not in said[0].split("Hint")[0].split("change")[1]
    assert set(answer.changes().feature) <= {"income", "hours"}


def test_a_few_numbers_that_are_offered_are_levels():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"term": rng.choice([36, 60], 300), "months": rng.choice([12, 24, 48], 300)})
    table["visits"] = rng.choice([1, 2, 3], 300)
    schema = Schema.infer(table)
    assert schema["term"] == ta.Binary("term", levels=(36, 60))
    assert schema["months"] == ta.Ordinal("months", levels=(12, 24, 48))
    assert schema["visits"].kind == "number"
    assert "term: only 36, 60 occur, taken as levels in this order." in schema.notes


def test_a_table_in_german_is_drafted_as_one_in_english():
    """Words grow together, a term of few numbers is a part of an identity, amounts stand in texts."""
    rng = np.random.default_rng(1)
    n = 2000
    table = pd.DataFrame(
        {
            "Nettoeinkommen": rng.lognormal(7.7, 0.45, n).round(),
            "Kreditbetrag": (rng.gamma(3, 4000, n) + 1000).round(-2),
            "Laufzeit": rng.choice([12, 24, 36, 48], n),
            "Überfällige Raten": rng.poisson(0.4, n),
            "Leitzins": rng.choice([1.5, 2.0, 2.5], n),
        }
    )
    table["Rate"] = (table["Kreditbetrag"] / table["Laufzeit"]).round(2)
    schema = Schema.infer(table)
    assert {f.name: f.moves for f in schema if f.kind != "derived"} == {
        "Nettoeinkommen": "up",
        "Kreditbetrag": "down",
        "Laufzeit": "free",
        "Überfällige Raten": "down",
        "Leitzins": "fixed",
    }
    assert (schema["Rate"].kind, schema["Rate"].formula) == ("derived", "Kreditbetrag / Laufzeit")
    assert schema["Nettoeinkommen"].reach.relative == schema["Kreditbetrag"].reach.relative == 0.5
