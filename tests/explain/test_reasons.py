"""Reason codes: by hand on three features, and against the plan, the rules and the judge."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from turnabout.actions import AtMost
from turnabout.core import Attribution, Problem, Recourse, Status
from turnabout.errors import ExplainError
from turnabout.explain.reasons import reasons
from turnabout.methods import ExactLinear
from turnabout.schema import Category, Number, Schema
from turnabout.testing.deciders import weighing

# margin = income / 10 + 0.5 [job is b] - 0.5 age / 10 - 0.9, in encoded units
SCHEMA = Schema(
    (
        Number("income", 0, 10, step=1, unit="k", label="Yearly income"),
        Category("job", levels=("a", "b")),
        Number("age", 0, 10, step=1, moves="fixed"),
    )
)
WEIGHTS = {"income": 1.0, "job=b": 0.5, "age": -0.5}
PEOPLE = pd.DataFrame(
    {"income": [6, 2, 10, 5], "job": ["a", "a", "b", "a"], "age": [1, 8, 0, 10]}, index=["ann", "bob", "cat", "dan"]
)
# ann: 0.6 - 0.05 - 0.9 = -0.35: income needs 9.5, so 10 (1 of 10 values); job b (1 of 1)
# bob: 0.2 - 0.4 - 0.9 = -1.1: income alone ends at -0.3, job alone at -0.6, both at 0.2
# cat: accepted
# dan: 0.5 - 0.5 - 0.9 = -0.9: income alone ends at -0.4, job alone at -0.4, both at 0.1


def problem(**rest: object) -> Problem:
    return Problem(SCHEMA, weighing("linear", SCHEMA, WEIGHTS, -0.9), **rest)  # type: ignore[arg-type]


def answer_of(question: Problem, people: pd.DataFrame = PEOPLE) -> Recourse:
    return ExactLinear().fit(question).find(people)


def importance(rows: list[list[float]], **rest: object) -> Attribution:
    fields = {
        "values": pd.DataFrame(rows, index=["ann", "bob", "dan"], columns=["income", "job", "age"]),
        "errors": None,
        "base": None,
        "output": pd.Series(-1.0, index=["ann", "bob", "dan"]),
        "kind": "importance",
        "space": "concept",
        "score": "margin (log-odds)",
        "made_by": "By hand",
        "exact": True,
        "asked": 0,
        "seed": None,
    }
    return Attribution(**(fields | rest))  # type: ignore[arg-type]


def test_by_responsiveness_then_by_the_plan():
    found = reasons(answer_of(problem()), problem())
    assert list(found.people.index) == ["ann", "bob", "dan"]  # cat is accepted
    ann = found.table.loc["ann"]
    assert ann["feature"].tolist() == ["job", "income"]
    assert ann["share"].tolist() == [1.0, 0.1]
    assert ann["recourse"].tolist() == ["alone", "alone"]
    bob = found.table.loc["bob"]
    assert set(bob["feature"]) == {"income", "job"}
    assert bob["share"].tolist() == [0.0, 0.0]
    assert bob["in_plan"].all()
    assert (bob["recourse"] == "with others").all()
    assert "age" not in found.table["feature"].tolist()
    assert not found.without_recourse.any()


def test_plans_are_those_of_the_answer():
    answer = answer_of(problem())
    found = reasons(answer, problem())
    changes = answer.changes().set_index(["person", "feature"])["to"]
    lines = found.table.reset_index().set_index(["person", "feature"])
    planned = lines[lines["in_plan"]]
    assert set(planned.index) == set(changes.index)
    assert all(planned.loc[key, "plan_to"] == changes.loc[key] for key in planned.index)


def test_an_attribution_orders_reasons_and_those_without_recourse_are_flagged():
    # for everyone age lowers the score most; ann's income lowers it too, her job raises it
    given = importance([[-0.2, 0.3, -0.5], [-0.1, -0.2, -0.5], [0.0, 0.0, -0.5]])
    found = reasons(answer_of(problem()), problem(), given)
    assert found.table.loc["ann", "feature"].tolist() == ["age", "income"]
    assert found.table.loc["ann", "importance"].tolist() == [-0.5, -0.2]
    assert found.table.loc["bob", "feature"].tolist() == ["age", "job", "income"]
    assert found.table.loc["dan", "feature"].tolist() == ["age"]
    age = found.table[found.table["feature"] == "age"]
    assert (age["recourse"] == "not actionable").all()
    assert age["without_recourse"].all()
    assert found.without_recourse.to_dict() == {"ann": False, "bob": False, "dan": True}
    assert found.people.loc["dan", "plan_only"] == ["income", "job"]
    assert "1 of 3 people, 0.333 [0.008, 0.906], have only reasons without recourse" in str(found)


def test_a_reason_that_no_change_bears_out_is_flagged():
    # dan may change one thing only: neither turns the decision, and no plan exists
    one = problem(rules=[AtMost(1)])
    found = reasons(answer_of(one), one, importance([[-1.0, 0, 0]] * 3))
    dan = found.table.loc["dan"].iloc[0]
    assert dan["recourse"] == "none shown"
    assert dan["without_recourse"]
    assert found.without_recourse["dan"]
    assert "never turns the decision (all values within reach counted)" in found.of("dan")
    assert "a reason without recourse" in found.of("dan")


def test_slopes_of_columns_count_by_their_size():
    slopes = importance([], values=pd.DataFrame(
        np.tile([[0.2, -0.9, 0.1, -0.5]], (3, 1)), index=["ann", "bob", "dan"], columns=list(SCHEMA.columns)
    ), space="input")  # fmt: skip
    found = reasons(answer_of(problem()), problem(), slopes, most=2)
    assert found.table.loc["ann", "feature"].tolist() == ["job", "age"]
    assert found.table.loc["ann", "importance"].tolist() == [-0.9, -0.5]
    assert "how strongly each moves" in found.ordered_by


def test_at_most_so_many():
    found = reasons(answer_of(problem()), problem(), most=1)
    assert (found.table.groupby(level="person").size() == 1).all()
    assert found.people.loc["bob", "plan_only"] != []
    assert "The plan also changes" in found.of("bob")


def test_plain_words():
    said = reasons(answer_of(problem()), problem()).of("ann")
    assert said.splitlines() == [
        "Refused. Principal reasons, by the share of her own changes of each that turn the decision, then by the plan:",
        "  1. job, now a: changing it alone turns the decision for 100 % of the values within reach (all counted), "
        "for example b; the plan leaves it.",
        "  2. Yearly income, now 6 k: changing it alone turns the decision for 10 % of the values within reach "
        "(all counted), the nearest being 10 k; the plan changes it to 10 k.",
        "  The plan changes only what is among these reasons.",
    ]


def test_no_plan_is_said_as_it_is():
    few = problem(rules=[AtMost(1)])
    answer = answer_of(few)
    found = reasons(answer, few)
    last = found.of("bob").splitlines()[-1]
    assert ("proved" in last) == (answer.status["bob"] == Status.IMPOSSIBLE)
    assert found.of("bob").startswith("Refused. No feature stands out")
    assert not found.without_recourse["bob"]  # no reasons were given that could be empty


def test_a_claim_of_no_recourse_is_checked():
    answer = answer_of(problem())
    status = answer.status.copy()
    status["ann"] = Status.IMPOSSIBLE
    left = answer.options[answer.options.index.get_level_values("person") != "ann"]
    found = reasons(replace(answer, status=status, options=left), problem())
    assert "says that person 'ann' has no recourse, yet" in found.notes[0]
    assert found.notes[0] in str(found)


def test_nobody_refused():
    cat = PEOPLE.loc[["cat"]]
    found = reasons(answer_of(problem(), cat), problem())
    assert len(found.table) == 0
    assert str(found) == "nobody is refused: there are no reasons to give."
    assert found.to_dict()["reasons"] == []
    assert len(found.to_frame()) == 0
    assert len(found.without_recourse) == 0
    with pytest.raises(ExplainError, match="no refused person 'cat'"):
        found.of("cat")


def test_json_and_frame():
    found = reasons(answer_of(problem()), problem())
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["people"][0]["person"] == "ann"
    assert document["people"][0]["status"] == "FOUND"
    assert document["reasons"][0]["feature"] == "job"
    assert document["reasons"][0]["importance"] is None
    assert list(found.to_frame().columns[:3]) == ["person", "rank", "feature"]


def test_bad_input():
    question = problem()
    answer = answer_of(question)
    with pytest.raises(ExplainError, match="takes an answer and its problem"):
        reasons(question, answer)  # type: ignore[arg-type]
    with pytest.raises(ExplainError, match="most=0"):
        reasons(answer, question, most=0)
    with pytest.raises(ExplainError, match="not an Attribution"):
        reasons(answer, question, "shap")  # type: ignore[arg-type]
    with pytest.raises(ExplainError, match="a direction says where to move"):
        reasons(answer, question, answer.as_attribution(SCHEMA))
    given = importance([[0.0, 0, 0]] * 3)
    with pytest.raises(ExplainError, match="'dan' is refused and not in the attribution"):
        reasons(answer, question, replace(given, values=given.values[:2]))
    with pytest.raises(ExplainError, match="holds NaN"):
        reasons(answer, question, importance([[np.nan, 0, 0]] * 3))
    with pytest.raises(ExplainError, match=r"speaks of \['x'\]"):
        reasons(answer, question, replace(given, values=given.values.rename(columns={"job": "x"})))
    lenient = Problem(SCHEMA, weighing("linear", SCHEMA, WEIGHTS, 5.0))
    with pytest.raises(ExplainError, match="decide person 'ann' differently"):
        reasons(answer, lenient)
    strict = Problem(SCHEMA, weighing("linear", SCHEMA, WEIGHTS | {"job=b": 0.1}, -0.99))
    with pytest.raises(ExplainError, match="the plan of person 'ann' is refused"):
        reasons(answer_of(question, PEOPLE.drop("cat")), strict)
