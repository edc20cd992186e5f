"""Rules that a missing cell leaves open: no plan touches them, or the answer says that they were waived."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from turnabout import methods, rules
from turnabout.errors import TurnaboutError
from turnabout.render import write_plan
from turnabout.rules import Falls, Implies, Is, Linear, Ordered, Rises
from turnabout.schema import Binary, Number, Ordinal, Schema

SCHEMA = Schema(
    (
        Number("income", 0, 6, step=1, missing=True),
        Number("loan", 0, 4, step=1),
        Number("age", 0, 3, step=1, moves="up", missing=True),
        Ordinal("school", levels=("low", "mid", "high")),
        Binary("owner", missing=True),
    )
)
NAN = float("nan")
PEOPLE = pd.DataFrame(
    [
        {"income": NAN, "loan": 1.0, "age": 1.0, "school": "low", "owner": 0.0},
        {"income": 4.0, "loan": 1.0, "age": NAN, "school": "low", "owner": 0.0},
        {"income": 4.0, "loan": 1.0, "age": 1.0, "school": "low", "owner": NAN},
        {"income": NAN, "loan": 1.0, "age": NAN, "school": "low", "owner": NAN},
        {"income": 4.0, "loan": 1.0, "age": 1.0, "school": "low", "owner": 0.0},
    ]
)
WEIGHT = {"income": 0.1, "loan": 0.5, "age": 0.3, "owner": 0.4}
SCHOOL = {"low": 0.0, "mid": 0.4, "high": 0.8}


def score(table: pd.DataFrame) -> np.ndarray:
    """By hand: a sum in which a missing cell counts for nothing."""
    out = np.zeros(len(table))
    for name, weight in WEIGHT.items():
        out += weight * table[name].astype(float).fillna(0.0).to_numpy()
    return out + table["school"].map(SCHOOL).astype(float).to_numpy()


# -- the rules by hand: plain numbers, nothing of the library -----------------------------------------------------


def gone(value: object) -> bool:
    return isinstance(value, float) and np.isnan(value)


def loan_below_half_income(own: dict, new: dict) -> bool:
    if gone(own["income"]):
        return new["loan"] == own["loan"]
    return new["loan"] <= new["income"] / 2


def school_takes_age(own: dict, new: dict) -> bool:
    places = list(SCHOOL)
    if places.index(new["school"]) <= places.index(own["school"]):
        return True
    return not gone(own["age"]) and new["age"] - own["age"] >= 2


def owners_borrow_less(own: dict, new: dict) -> bool:
    if gone(own["owner"]):
        return new["loan"] == own["loan"] or new["loan"] < own["loan"]
    return new["owner"] != 1 or new["loan"] < own["loan"]


def age_below_income(own: dict, new: dict) -> bool:
    if gone(own["age"]) or gone(own["income"]):
        unmoved = [gone(own[name]) or own[name] == new[name] for name in ("age", "income")]
        return all(unmoved)
    return new["age"] <= new["income"]


CASES = {
    "linear": ([Linear({"loan": 1.0, "income": -0.5})], [loan_below_half_income]),
    "implies": ([Implies(Rises("school"), Rises("age", by=2))], [school_takes_age]),
    "is": ([Implies(Is("owner", 1), Falls("loan"))], [owners_borrow_less]),
    "ordered": ([Ordered("age", "income")], [age_below_income]),
    "two": (
        [Linear({"loan": 1.0, "income": -0.5}), Implies(Rises("school"), Rises("age", by=2))],
        [loan_below_half_income, school_takes_age],
    ),
}


def reachable(own: dict):
    """Every row that the schema lets this person reach."""
    values = {
        "income": [own["income"]] if gone(own["income"]) else [float(v) for v in range(7)],
        "loan": [float(v) for v in range(5)],
        "age": [own["age"]] if gone(own["age"]) else [float(v) for v in range(4) if v >= own["age"]],
        "school": list(SCHOOL),
        "owner": [own["owner"]] if gone(own["owner"]) else [0.0, 1.0],
    }
    for row in itertools.product(*values.values()):
        yield dict(zip(values, row, strict=True))


def some_row(own: dict, kept, bar: float) -> bool:
    rows = [row for row in reachable(own) if all(rule(own, row) for rule in kept)]
    return bool(len(rows)) and bool((score(pd.DataFrame(rows)) > bar + 1e-6).any())


@pytest.mark.parametrize("cls", [methods.ExactLinear, methods.LocalSearch], ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("bar", [1.45, 2.05, 3.15])
def test_exact_answers_are_those_of_brute_force(cls, case, bar) -> None:
    declared, by_hand = CASES[case]
    model = ta.models.wrap(linear_model(bar), SCHEMA)
    answer = cls().fit(ta.Problem(SCHEMA, model, rules=declared)).find(PEOPLE)
    for label, own in PEOPLE.iterrows():
        status = str(answer.status.loc[label].value)
        if status == "ACCEPTED":
            continue
        assert status == ("FOUND" if some_row(own.to_dict(), by_hand, bar) else "IMPOSSIBLE"), (label, status)
    for (person, _), row in answer.options.iterrows():
        own = PEOPLE.loc[person].to_dict()
        assert all(rule(own, row.to_dict()) for rule in by_hand), (person, row.to_dict())


def linear_model(bar: float):
    """The same score as a pipeline that is read as a linear model."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder

    numbers = list(WEIGHT)
    columns = ColumnTransformer(
        [
            ("n", SimpleImputer(strategy="constant", fill_value=0.0), numbers),
            ("c", OneHotEncoder(categories=[list(SCHOOL)], sparse_output=False), ["school"]),
        ]
    )
    pipeline = Pipeline([("columns", columns), ("model", LogisticRegression())])
    pipeline.fit(PEOPLE, [0, 1, 0, 1, 1])
    pipeline[-1].coef_ = np.array([[*WEIGHT.values(), *SCHOOL.values()]])
    pipeline[-1].intercept_ = np.array([-bar])
    return pipeline


@pytest.mark.parametrize("cls", [methods.GrowingSpheres, methods.NearestRow, methods.Dice], ids=lambda c: c.__name__)
def test_other_methods_touch_no_open_rule(cls) -> None:
    declared, by_hand = CASES["two"]
    model = ta.models.wrap(linear_model(2.05), SCHEMA)
    background = pd.DataFrame(list(itertools.islice(reachable(PEOPLE.loc[4].to_dict()), 0, 400, 3)))
    problem = ta.Problem(SCHEMA, model, rules=declared, background=background, labels=score(background) > 2.05)
    answer = cls.small().fit(problem).find(PEOPLE)
    for (person, _), row in answer.options.iterrows():
        own = PEOPLE.loc[person].to_dict()
        assert all(rule(own, row.to_dict()) for rule in by_hand), (person, row.to_dict())


# -- waived --------------------------------------------------------------------------------------------------------


def waived_answer() -> ta.Recourse:
    rule = Linear({"loan": 1.0, "income": -0.5}, name="the loan is at most half the income").waivable()
    model = ta.models.wrap(linear_model(2.05), SCHEMA)
    return methods.ExactLinear().fit(ta.Problem(SCHEMA, model, rules=[rule])).find(PEOPLE)


def test_a_waived_rule_is_named_for_those_it_was_waived_for() -> None:
    answer = waived_answer()
    touched = [key for key, row in answer.options.iterrows() if row["loan"] != PEOPLE.loc[key[0], "loan"]]
    expected = [key for key in touched if gone(PEOPLE.loc[key[0], "income"])]
    assert expected  # else this test is empty
    assert list(answer.waived.index) == expected
    assert set(answer.waived["rule"]) == {"the loan is at most half the income"}
    assert f"{len(expected)} with a rule waived" in repr(answer)
    person, option = expected[0]
    text = "Not checked, because a cell is missing: the loan is at most half the income."
    assert answer.waivers(person, option) == text
    assert answer.waivers(4) == ""


def test_waived_rules_travel_as_json_and_damage_is_seen() -> None:
    answer = waived_answer()
    again = ta.Recourse.from_json(answer.to_json())
    assert again == answer
    pd.testing.assert_frame_equal(again.waived, answer.waived)
    for harm, text in (("rule", "no column 'rule'"), ("option", "an option that there is not"), ("text", "no rule")):
        document = json.loads(answer.to_json())
        table = document["waived"]
        text_of = json.dumps(table)
        if harm == "rule":
            text_of = text_of.replace('"rule"', '"role"')
        elif harm == "text":
            text_of = text_of.replace("the loan is at most half the income", "")
        else:
            table["index"] = [[label[0], 7] for label in table["index"]]
            text_of = json.dumps(table)
        document["waived"] = json.loads(text_of)
        with pytest.raises(TurnaboutError, match=text):
            ta.Recourse.from_dict(document)


def test_waivable_rules_are_written_and_read() -> None:
    rule = Linear({"loan": 1.0, "income": -0.5}).waivable()
    assert rule.waivable() is rule
    assert rules.from_dict(rules.to_dict(rule)) == rule
    assert rules.to_dict(rule)["waivable"] is True
    assert str(rule) == "loan - 0.5 income <= 0"
    with pytest.raises(TurnaboutError, match="waivable='yes'"):
        rules.from_dict({"rule": "at_most", "k": 1, "waivable": "yes"})
    with pytest.raises(TurnaboutError, match="Waivable is given"):
        rules.Waivable(3)  # type: ignore[arg-type]


def test_a_landing_and_a_letter_keep_what_was_waived() -> None:
    rule = Implies(Rises("school"), Rises("age", by=2)).waivable()
    model = ta.models.wrap(linear_model(1.45), SCHEMA)
    problem = ta.Problem(SCHEMA, model, rules=[rule], actions=ta.actions.ActionSet.draft(SCHEMA))
    answer = methods.ExactLinear().fit(problem).find(PEOPLE.iloc[[1]], landing=0.8)
    assert list(answer.waived.index) == [key for key, row in answer.options.iterrows() if row["school"] != "low"]
    plans = methods.ActionSequences.small().fit(problem).find(PEOPLE.iloc[[1, 3]], options=2)
    for person, option in plans.waived.index:
        assert "Not checked, because a cell is missing" in write_plan(plans, person, option).replace("\n  ", " ")


def test_the_command_line_shows_what_was_waived(capsys) -> None:
    from turnabout.cli.screen import show_why

    show_why(waived_answer())
    shown = " ".join(capsys.readouterr().out.split())
    assert "Rules not checked, because a cell is missing" in shown
    assert "half" in shown
