"""A schema file that also says rules, a cost and limits: one object reads it all, and nothing in it goes unread."""

from __future__ import annotations

import pandas as pd
import pytest

import turnabout as ta
from turnabout.errors import TurnaboutError

TEXT = """
features:
- {kind: number, name: income, high: 100, step: 1, moves: up}
- {kind: number, name: debt, high: 100, step: 1}
- {kind: category, name: home, levels: [own, rent]}
notes: [income was looked at]
rules:
- {rule: at_most, k: 2}
- {rule: linear, coefficients: {debt: 1, income: -0.5}, bound: 0, waivable: true}
cost: {kind: L1, difficulty: {income: 2}}
limits:
  Ada: {income: fixed}
  7: {debt: [null, 30], home: [own]}
"""
PEOPLE = pd.DataFrame({"income": 40, "debt": 20, "home": "rent"}, index=pd.Index(["Ada", 7, "Bo"], name="person"))


@pytest.fixture
def path(tmp_path):
    (tmp_path / "schema.yaml").write_text(TEXT)
    return tmp_path / "schema.yaml"


def test_one_object_reads_all_of_the_file(path):
    file = ta.ProblemFile.load(path)
    assert [str(rule) for rule in file.rules] == ["at most 2 changes", "debt - 0.5 income <= 0"]
    assert file.cost == ta.costs.L1(difficulty={"income": 2.0})
    assert file.limits_of(PEOPLE.index) == {"Ada": {"income": "fixed"}, 7: {"debt": [None, 30], "home": ["own"]}}
    assert file.schema.names == ("income", "debt", "home") and file.schema.notes == ("income was looked at",)


def test_those_who_want_the_schema_read_the_same_file(path):
    assert ta.Schema.load(path) == ta.ProblemFile.load(path).schema
    ta.Schema.load(path).save(path)
    alone = ta.ProblemFile.load(path)
    assert alone == ta.ProblemFile(ta.Schema.load(path)) and not alone.rules and alone.cost is None
    assert alone.limits_of(PEOPLE.index) == {}


@pytest.mark.parametrize("name", ["all.yaml", "all.json"])
def test_files_both_ways(path, tmp_path, name):
    file = ta.ProblemFile.load(path)
    file.save(tmp_path / name)
    again = ta.ProblemFile.load(tmp_path / name)
    assert again.to_dict() == file.to_dict() and again.limits_of(PEOPLE.index) == file.limits_of(PEOPLE.index)
    by_hand = ta.ProblemFile(file.schema, limits={"Ada": {"debt": (None, 30)}})
    by_hand.save(tmp_path / name)
    assert ta.ProblemFile.load(tmp_path / name).limits == {"Ada": {"debt": [None, 30]}}


def test_the_problem_and_the_plans_keep_to_the_file(path):
    file = ta.ProblemFile.load(path)
    model = ta.models.wrap(lambda t: (t.income - t.debt + 10 * (t.home == "own") >= 45).astype(float), file.schema)
    problem = file.problem(model, background=PEOPLE)
    assert problem.declared_rules == file.rules and problem.declared_cost is file.cost
    answer = ta.methods.LocalSearch().fit(problem).find(PEOPLE, limits=file.limits_of(PEOPLE.index))
    changes = answer.changes()
    assert "income" in set(changes[changes.person == "Bo"].feature)
    assert "income" not in set(changes[changes.person == "Ada"].feature)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rules:", "rule:", "has the entry 'rule', which nobody reads"),
        ("- {rule: at_most, k: 2}", "- {rule: at_least, k: 2}", "does not describe a rule"),
        ("features:", "rules: at_most\nfeatures:", "holds 'at_most' as its rules"),
        ("kind: L1", "kind: L9", "does not describe a cost"),
        ("Ada: {income: fixed}", "Ada: fixed", "'fixed' as the limits of person 'Ada'"),
        ("features:", "columns:", "no list 'features'"),
    ],
)
def test_what_nobody_could_read_is_refused(path, old, new, said):
    assert old in TEXT
    kept = TEXT if "at_most\n" not in new else TEXT[: TEXT.index("rules:")]
    path.write_text(kept.replace(old, new, 1))
    with pytest.raises(TurnaboutError, match=said):
        ta.ProblemFile.load(path)


def test_limits_of_people_who_are_not_there(path):
    with pytest.raises(TurnaboutError, match="the schema names the person 'Ada', who is not among"):
        ta.ProblemFile.load(path).limits_of(PEOPLE.index[1:])
    with pytest.raises(TurnaboutError, match="there is no schema file"):
        ta.ProblemFile.load(path.parent / "absent.yaml")


def test_plans_of_actions_keep_limits():
    schema = ta.Schema((ta.Number("income", high=100, step=1),))
    model = ta.models.wrap(lambda t: (t.income >= 50).astype(float), schema)
    problem = ta.Problem(schema, model, actions=ta.ActionSet.draft(schema))
    method = ta.methods.ActionSequences().fit(problem)
    people = pd.DataFrame({"income": [40]}, index=["Ada"])
    assert not len(method.find(people, limits={"Ada": {"income": (None, 45)}}).plans)
    assert len(method.find(people, limits={}).plans) == 1
