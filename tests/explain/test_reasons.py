"""Reason codes: by hand on three features, and against the plan, the rules and the judge."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from turnabout.core import Attribution, Problem, Recourse, Status
from turnabout.errors import ExplainError
from turnabout.explain.lime.lime_table import LimeTable
from turnabout.explain.reason_codes.reasons import reasons
from turnabout.explain.shapley.exact import ExactShapley
from turnabout.explain.shapley.occlusion import Occlusion
from turnabout.explain.slopes.gradients import IntegratedGradients
from turnabout.methods import ExactLinear
from turnabout.rules import AtMost
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


def contributions(rows: list[list[float]], **rest: object) -> Attribution:
    fields = {
        "values": pd.DataFrame(rows, index=["ann", "bob", "dan"], columns=["income", "job", "age"]),
        "errors": None,
        "base": None,
        "output": pd.Series(-1.0, index=["ann", "bob", "dan"]),
        "kind": "contribution",
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
    # for everyone age lowers the score most; ann's income lowers it too, ann's job raises it
    given = contributions([[-0.2, 0.3, -0.5], [-0.1, -0.2, -0.5], [0.0, 0.0, -0.5]])
    found = reasons(answer_of(problem()), problem(), given)
    assert found.table.loc["ann", "feature"].tolist() == ["age", "income"]
    assert found.table.loc["ann", "contribution"].tolist() == [-0.5, -0.2]
    assert found.table.loc["bob", "feature"].tolist() == ["age", "job", "income"]
    assert found.table.loc["dan", "feature"].tolist() == ["age"]
    age = found.table[found.table["feature"] == "age"]
    assert (age["recourse"] == "not actionable").all()
    assert age["without_recourse"].all()
    assert found.without_recourse.to_dict() == {"ann": False, "bob": False, "dan": True}
    assert found.people.loc["dan", "plan_only"] == ["income", "job"]
    assert "1 of 3 people, 0.333 [0.008, 0.906], have only reasons through which no recourse was shown" in str(found)


def test_a_reason_that_no_change_bears_out_is_flagged():
    # dan may change one thing only: neither turns the decision, and no plan exists
    one = problem(rules=[AtMost(1)])
    found = reasons(answer_of(one), one, contributions([[-1.0, 0, 0]] * 3))
    dan = found.table.loc["dan"].iloc[0]
    assert dan["recourse"] == "none shown"
    assert dan["without_recourse"]
    assert found.without_recourse["dan"]
    assert "never turns the decision (all values within reach counted)" in found.of("dan")
    assert "counted); no recourse through it was shown." in found.of("dan")


@pytest.mark.parametrize("status", [Status.IMPOSSIBLE, Status.NOT_FOUND])
def test_no_plan_is_cited_where_there_is_none(status):
    answer = answer_of(problem())
    told = answer.status.where(answer.status != Status.FOUND, status)
    nothing = replace(answer, status=told, options=answer.options[:0])
    given = contributions([[-0.1, -0.2, -0.5]] * 3)
    for person in ("ann", "bob", "dan"):
        *lines, last = reasons(nothing, problem(), given).of(person).splitlines()
        assert len(lines) == 4 and not any("the plan" in line for line in lines)
        assert last.strip().startswith(("There is no plan", "No plan was found"))
    assert "age, now 8: cannot be changed alone" in reasons(nothing, problem(), given).of("bob")


def test_what_the_first_plan_does_not_use_is_not_called_hopeless():
    said = reasons(answer_of(problem()), problem(), contributions([[-0.1, -0.2, -0.5]] * 3)).of("bob")
    assert "the plan leaves it, and no recourse through it was shown." in said
    assert "without recourse" not in said


@pytest.mark.parametrize("space", ["input", "concept"])
def test_only_what_lowers_the_score_is_a_reason(space):
    given = contributions([[0.9, -0.1, -0.5], [0.9, -0.2, 0.5], [0.9, 0.1, 0.5]], space=space)
    found = reasons(answer_of(problem()), problem(), given)
    assert found.table.loc["ann", "feature"].tolist() == ["age", "job"]
    assert found.table.loc["bob", "feature"].tolist() == ["job"]
    assert "dan" not in found.table.index.get_level_values("person")
    assert found.ordered_by.startswith("how much each lowers the margin")


def test_slopes_are_no_reasons():
    with pytest.raises(ExplainError, match=r"a slope says how the score reacts(.|\n)*ExactShapley"):
        reasons(answer_of(problem()), problem(), contributions([[-1.0, -1.0, -1.0]] * 3, kind="slope"))
    question, people = problem(), PEOPLE.loc[["ann", "bob", "dan"]]
    slopes = LimeTable(discretize=False, samples=50).explain(question.model, people, background=PEOPLE)
    with pytest.raises(ExplainError, match="a slope says how the score reacts"):
        reasons(answer_of(question, people), question, slopes)


def test_zero_debt_is_no_reason():
    # ann owes nothing: debt cannot be what lowers ann's score, though the score falls with debt
    schema = Schema((Number("income", 0, 100, step=1), Number("debt", 0, 100, step=1)))
    model = weighing("linear", schema, {"income": 3.0, "debt": -3.0}, -1.0)
    question = Problem(schema, model)
    ann = pd.DataFrame({"income": [10], "debt": [0]}, index=["ann"])
    others = pd.DataFrame({"income": [50, 60, 40], "debt": [50, 40, 60]})
    for explainer in (ExactShapley(), IntegratedGradients(), Occlusion(), LimeTable(samples=2000)):
        told = explainer.explain(model, ann, background=others)
        found = reasons(answer_of(question, ann), question, told)
        assert found.table["feature"].tolist() == ["income"]
        assert found.notes == told.notes  # what must be known of the values goes along


def test_notes_of_the_attribution_go_along():
    given = contributions([[-1.0, 0, 0]] * 3, notes=("against 1 of 7 rows.",))
    found = reasons(answer_of(problem()), problem(), given)
    assert found.notes == ("against 1 of 7 rows.",) and "note: against 1 of 7 rows." in str(found)
    assert found.to_dict()["notes"] == ["against 1 of 7 rows."]


def test_at_most_so_many():
    found = reasons(answer_of(problem()), problem(), most=1)
    assert (found.table.groupby(level="person").size() == 1).all()
    assert found.people.loc["bob", "plan_only"] != []
    assert "The plan also changes" in found.of("bob")


def test_plain_words():
    said = reasons(answer_of(problem()), problem()).of("ann")
    assert said.splitlines() == [
        "Refused. Principal reasons, by the share of their own changes of each that turn the decision, then by the "
        "plan:",
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
    assert document["reasons"][0]["contribution"] is None
    assert list(found.to_frame().columns[:3]) == ["person", "rank", "feature"]


def test_bad_input():
    question = problem()
    answer = answer_of(question)
    with pytest.raises(ExplainError, match="is not an answer"):
        reasons(question, answer)  # type: ignore[arg-type]
    with pytest.raises(ExplainError, match="most=0"):
        reasons(answer, question, most=0)
    with pytest.raises(ExplainError, match="attribution='shap' is not an Attribution"):
        reasons(answer, question, "shap")  # type: ignore[arg-type]
    with pytest.raises(ExplainError, match="a direction says where to move"):
        reasons(answer, question, answer.to_directions(SCHEMA))
    given = contributions([[0.0, 0, 0]] * 3)
    with pytest.raises(ExplainError, match="'dan' is refused and not in the attribution"):
        reasons(answer, question, replace(given, values=given.values[:2]))
    with pytest.raises(ExplainError, match="holds NaN"):
        reasons(answer, question, contributions([[np.nan, 0, 0]] * 3))
    with pytest.raises(ExplainError, match=r"speaks of \['x'\]"):
        reasons(answer, question, replace(given, values=given.values.rename(columns={"job": "x"})))
    lenient = Problem(SCHEMA, weighing("linear", SCHEMA, WEIGHTS, 5.0))
    with pytest.raises(ExplainError, match="decide person 'ann' differently"):
        reasons(answer, lenient)
    strict = Problem(SCHEMA, weighing("linear", SCHEMA, WEIGHTS | {"job=b": 0.1}, -0.99))
    with pytest.raises(ExplainError, match="the plan of person 'ann' is refused"):
        reasons(answer_of(question, PEOPLE.drop("cat")), strict)
