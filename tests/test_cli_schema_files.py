"""One schema file that says everything, as every command reads it; and the JSON Schemas that editors check it with."""

from __future__ import annotations

import json

import joblib
import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator
from sklearn.linear_model import LogisticRegression

import turnabout as ta
from command_line import turnabout
from turnabout.documents.text import read_yaml

FEATURES = """features:
- {kind: number, name: income, high: 100, step: 1, moves: up}
- {kind: number, name: debt, high: 100, step: 1, moves: down}
- {kind: number, name: hours, high: 60, step: 1}
"""
RULES = "[{rule: at_most, k: 1}]"
COST = "{kind: L1, difficulty: {income: 50}}"
LIMITS = "{Ada: {debt: fixed}, Bo: {debt: [70, null]}, Ed: {debt: fixed}}"
ACTIONS = """
actions:
- {name: Earn, effect: [{shift: income}], cost: "|income|", precondition: [new income > old income]}
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    train = pd.DataFrame({name: rng.integers(0, 100 if name != "hours" else 60, 300) for name in HEADS})
    train["good"] = (train.income - train.debt > 10).astype(int)
    joblib.dump(LogisticRegression(max_iter=5000).fit(train[HEADS], train.good), folder / "model.joblib")
    train.to_csv(folder / "train.csv", index=False)
    people = pd.DataFrame(
        {"name": ["Ada", "Bo", "Cy", "Di", "Ed"], "income": [40, 60, 50, 90, 20], "debt": [60, 90, 70, 10, 50]}
    )
    people.assign(hours=20, good=[0, 1, 0, 1, 0]).to_csv(folder / "people.csv", index=False)
    for name, text in (("rules", RULES), ("cost", COST), ("limits", LIMITS)):
        (folder / f"{name}.yaml").write_text(text)
    (folder / "schema.yaml").write_text(FEATURES)
    (folder / "all.yaml").write_text(f"{FEATURES}rules: {RULES}\ncost: {COST}\nlimits: {LIMITS}\n")
    (folder / "actions.yaml").write_text(ACTIONS)
    return folder


HEADS = ["income", "debt", "hours"]


def ask(desk, command, schema, *more):
    given = [command, desk / "people.csv", "--id", "name", "--model", desk / "model.joblib", "--schema", desk / schema]
    return turnabout(*given, "--background", desk / "train.csv", *more)


def named(desk, *names):
    return [part for name in names for part in (f"--{name}", desk / f"{name}.yaml")]


def answer_of(done):
    assert done.returncode == 0, done.stderr
    return ta.Recourse.from_json(done.stdout)


def test_find_reads_rules_cost_and_limits_beside_the_features(desk):
    free, whole = (answer_of(ask(desk, "find", name)) for name in ("schema.yaml", "all.yaml"))
    assert whole == answer_of(ask(desk, "find", "schema.yaml", *named(desk, "rules", "cost", "limits")))
    assert whole != free
    changes = whole.changes()
    assert set(changes[changes.person == "Ada"].feature) == {"income"}
    assert set(changes[changes.person == "Cy"].feature) == {"debt"}  # income is 50 times as hard
    assert not (changes[changes.person == "Bo"].feature == "debt").any()  # not below 70, which would not do
    unlimited = answer_of(ask(desk, "find", "schema.yaml", *named(desk, "rules", "cost"))).changes()
    assert set(unlimited[unlimited.person == "Bo"].feature) == {"debt"}


def test_what_a_command_names_goes_before_the_file(desk, tmp_path):
    (tmp_path / "cost.yaml").write_text("{kind: L1, difficulty: {debt: 50}}")
    (tmp_path / "limits.yaml").write_text("{Ada: {debt: {low: 0}}, Cy: {income: fixed}}")
    (tmp_path / "rules.yaml").write_text("[{rule: box, reach: {income: 1, debt: 1}}]")
    changes = answer_of(ask(desk, "find", "all.yaml", "--cost", tmp_path / "cost.yaml")).changes()
    assert set(changes[changes.person == "Cy"].feature) == {"income"}
    changes = answer_of(ask(desk, "find", "all.yaml", "--limits", tmp_path / "limits.yaml")).changes()
    assert set(changes[changes.person == "Ada"].feature) == {"debt"} == set(changes[changes.person == "Cy"].feature)
    assert answer_of(ask(desk, "find", "all.yaml", "--rules", tmp_path / "rules.yaml")).counts()["FOUND"] == 0


def test_explain_keeps_plans_and_reasons_to_limits(desk):
    free, held = (
        json.loads(ask(desk, "explain", *more).stdout)
        for more in (["schema.yaml", *named(desk, "cost")], ["schema.yaml", *named(desk, "cost", "limits")])
    )
    assert free["asked"]["limits"] == 0 and held["asked"]["limits"] == 3
    planned = [
        {r["person"] for r in document["reasons"]["reasons"] if r["feature"] == "debt" and r["in_plan"]}
        for document in (free, held)
    ]
    assert planned == [{"Ada", "Bo", "Cy", "Ed"}, {"Bo", "Cy"}]

    def score(document, person, feature):
        scores = document["responsiveness"]["scores"]
        return next(s for s in scores if (s["person"], s["feature"]) == (person, feature))

    assert score(free, "Ada", "debt")["actionable"] and not score(held, "Ada", "debt")["actionable"]
    assert score(held, "Ada", "debt")["why"] == "their own limits leave it as it is"
    assert score(held, "Cy", "debt") == score(free, "Cy", "debt")
    assert score(held, "Bo", "debt")["reachable"] == 20 and score(free, "Bo", "debt")["reachable"] == 90
    told = {letter["person"]: letter["text"] for letter in held["letters"]}
    assert "cannot be changed alone (their own limits leave it as it is)" in told["Ada"]
    people = [line["person"] for line in held["reasons"]["people"]]
    assert people == ["Ada", "Bo", "Cy", "Ed"]
    scored = [s["person"] for s in held["responsiveness"]["scores"]]
    assert list(dict.fromkeys(scored)) == people  # as in the table, although limits part them


def test_audit_keeps_options_to_limits(desk, tmp_path):
    train = pd.read_csv(desk / "train.csv").head(120)
    train.assign(name=[f"p{i}" for i in range(120)]).to_csv(tmp_path / "people.csv", index=False)
    held = "{" + ", ".join(f"p{i}: {{debt: fixed}}" for i in range(0, 120, 2)) + "}"
    (tmp_path / "all.yaml").write_text(f"{FEATURES}limits: {held}\n")

    def landings(schema):
        asked = ["--id", "name", "--model", desk / "model.joblib", "--schema", schema, "--labels", "good"]
        done = turnabout("audit", tmp_path / "people.csv", *asked, "--bootstrap", 100, "--outside", 1)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        return document["asked"]["limits"], document["landings"]

    (none, free), (some, kept) = landings(desk / "schema.yaml"), landings(tmp_path / "all.yaml")
    assert (none, some) == (0, 60)
    odd = {i for i, person in enumerate(free["person"]) if int(person[1:]) % 2}
    assert kept["person"] != [] and [free["person"][i] for i in sorted(odd)] == [
        p for p in kept["person"] if int(p[1:]) % 2
    ]
    assert free != kept


def test_limits_of_people_who_cannot_be_read_do_not_stop_a_report(desk, tmp_path):
    people = pd.read_csv(desk / "people.csv").astype(object)
    people.loc[0, "income"] = "much"
    people.to_csv(tmp_path / "people.csv", index=False)
    asked = ["--id", "name", "--model", desk / "model.joblib", "--schema", desk / "all.yaml"]
    done = turnabout("explain", tmp_path / "people.csv", *asked)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["asked"]["limits"] == 2
    (tmp_path / "limits.yaml").write_text("{Eve: {income: fixed}}")
    done = turnabout("explain", tmp_path / "people.csv", *asked, "--limits", tmp_path / "limits.yaml")
    assert done.returncode == 1 and "'Eve', who is not among the people asked about" in done.told


def test_plans_keep_rules_and_limits(desk, tmp_path):
    more = ["--actions", desk / "actions.yaml", "--format", "json"]
    free = answer_of(ask(desk, "plan", "all.yaml", *more))  # its limits are about debt, and people only earn
    assert (
        free.counts()["FOUND"] == 4 and free.plans.cost.loc[("Ada", 0)] == 31
    )  # the price of the action, not the cost
    limits = tmp_path / "limits.yaml"
    limits.write_text("{Ada: {income: fixed}, Cy: {income: [null, 60]}, Bo: {income: [null, 100]}}")
    kept = answer_of(ask(desk, "plan", "all.yaml", "--limits", limits, *more))
    assert kept.status[["Ada", "Cy"]].isin(["IMPOSSIBLE", "NOT_FOUND"]).all()
    assert kept.plans.cost[["Bo", "Ed"]].tolist() == free.plans.cost[["Bo", "Ed"]].tolist()


@pytest.mark.parametrize("command", ["train", "calibrate"])
def test_what_makes_promises_refuses_rules_that_it_would_not_keep(desk, tmp_path, command):
    files = {
        "train": ["--label", "good", "--out", tmp_path / "made.joblib"],
        "calibrate": ["--model", desk / "model.joblib"],
    }
    done = turnabout(command, desk / "people.csv", "--schema", desk / "all.yaml", *files[command])
    assert done.returncode == 2 and "the schema file has rules and limits" in done.told
    assert f"`turnabout {command}` does not keep" in done.told


def test_an_entry_that_nobody_reads_is_refused(desk, tmp_path):
    (tmp_path / "typo.yaml").write_text(f"{FEATURES}rule: {RULES}\n")
    done = ask(desk, "find", tmp_path / "typo.yaml")
    assert done.returncode == 1 and "has the entry 'rule', which nobody reads" in done.told


def test_schema_review_tells_all_of_the_file(desk):
    told = turnabout("schema", "review", desk / "all.yaml").stdout
    for line in ("rule: at most 1 change", "cost: L1(difficulty={'income': 50.0})", "limit: Ada, debt", "limit: Bo"):
        assert f"- {line}" in told
    assert "rule:" not in turnabout("schema", "review", desk / "schema.yaml").stdout


@pytest.mark.parametrize(
    ("name", "file"),
    [("schema", "all"), ("schema", "schema"), ("rules", "rules"), ("cost", "cost"), ("limits", "limits")],
)
def test_json_schemas_are_printed_and_accept_the_files(desk, name, file):
    done = turnabout("schema", "json-schema", name)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    Draft202012Validator(document).validate(read_yaml((desk / f"{file}.yaml").read_text(), ""))
    assert not Draft202012Validator(document).is_valid({"boat": 3})


def test_the_json_schema_of_schema_files_is_the_one_printed_first():
    assert turnabout("schema", "json-schema").stdout == turnabout("schema", "json-schema", "schema").stdout
    assert turnabout("schema", "json-schema", "boats").returncode == 2
