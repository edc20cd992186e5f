"""Reports are public functions: called from Python they give the document that the command writes."""

from __future__ import annotations

import html
import json

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import turnabout as ta
from command_line import turnabout
from turnabout.audit.promises import Bootstrap, Retraining
from turnabout.errors import AuditError, ExplainError, TrainingError
from turnabout.explain.lime import LimeTable
from turnabout.render import audit_page, explain_page
from turnabout.train import Certificate, Pare, TrainReport

FEATURES = ["income", "savings"]
BY_FILE = {"people", "model", "labels", "background", "landing"}  # what only a command knows


def gaussians(n, seed):
    rng = np.random.default_rng(seed)
    good = rng.random(n) < 0.5
    z = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], n) + np.where(good, 1, -1)[:, None]
    table = pd.DataFrame({"income": (30 + 10 * z[:, 0]).round(1), "savings": (20 + 8 * z[:, 1]).round(1)})
    return table.assign(repaid=good, town=np.where(rng.random(n) < 0.5, "north", "east"), age=rng.integers(18, 80, n))


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Files of a lender, and the same as objects."""
    folder = tmp_path_factory.mktemp("lender")
    train, people = gaussians(300, 0), gaussians(200, 1)
    people.insert(0, "name", [f"person {i}" for i in range(len(people))])
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(train[FEATURES], train.repaid)
    joblib.dump(model, folder / "model.joblib")
    train.to_csv(folder / "train.csv", index=False)
    people.to_csv(folder / "people.csv", index=False)
    ta.Schema(tuple(ta.Number(name, low=-100, high=300, decimals=1) for name in FEATURES)).save(folder / "schema.yaml")
    return folder


@pytest.fixture(scope="module")
def posed(desk):
    """problem, people, training people and the estimator, as a Python user has them."""
    schema = ta.Schema.load(desk / "schema.yaml")
    train, people = pd.read_csv(desk / "train.csv"), pd.read_csv(desk / "people.csv").set_index("name")
    fitted = joblib.load(desk / "model.joblib")
    model = ta.models.wrap(fitted, schema, background=train)
    problem = ta.Problem(schema, model, background=train[FEATURES], labels=train.repaid)
    return problem, people, train, fitted


def files(desk, *more):
    named = ["--model", desk / "model.joblib", "--schema", desk / "schema.yaml", "--background", desk / "train.csv"]
    return [*named, "--id", "name", *more]


def comparable(document):
    """A document as JSON holds it, without what differs between a command and a call."""
    out = json.loads(json.dumps(document))
    out["answer"]["seconds"] = 0
    out["asked"] = {name: value for name, value in out["asked"].items() if name not in BY_FILE}
    for part in [out.get("retrained") or {}]:
        part.pop("seconds", None)
    return {name: value for name, value in out.items() if name != "command"}


# -- audit --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audited(posed):
    problem, people, train, fitted = posed
    again = Retraining(fitted, train, train.repaid, Bootstrap(models=3))
    return ta.audit.report(
        problem, people, people.repaid, groups=people[["town", "age"]], gain=1, loss=3, landing=0.8, outside=1,
        retrain=again, bootstrap=200,
    )  # fmt: skip


def test_the_audit_is_what_the_command_writes(desk, audited):
    done = turnabout(
        "audit", desk / "people.csv", *files(desk, "--labels", "repaid", "--groups", "town", "--groups", "age"),
        "--gain", 1, "--loss", 3, "--landing", 0.8, "--outside", 1, "--retrain", 3, "--bootstrap", 200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = json.loads(done.stdout)
    assert comparable(audited.to_dict()) == comparable(written)
    assert list(audited.to_dict()) == list(written)
    assert written["command"].startswith("turnabout audit ") and audited.command.startswith("turnabout.audit.report(")
    assert written["asked"]["landing"] == "0.8" and audited.asked["landing"] == "0.8"


def test_an_audit_holds_its_parts_and_is_drawn(audited):
    assert audited.risk.verdict in ("HARM", "BENEFIT", "UNDETERMINED") and audited.price.ratio > 1
    assert audited.retrained.models == 3 and list(audited.by_attribute) == ["town", "age"]
    assert any("its groups are quarters" in note for note in audited.notes)
    assert str(audited.risk) in str(audited) and audited.answer.made_by in str(audited)
    page = audit_page(audited)
    assert page == audit_page(json.loads(audited.to_json())) and "turnabout.audit.report(" in page
    with pytest.raises(AttributeError):
        audited.notes = ()


def test_an_audit_says_what_a_reader_would_question(posed, audited):
    problem, people, _, _ = posed
    assert audited.review == audited.answer.review(problem)
    assert audited.incentives == ta.audit.incentives(problem, people)
    document = audited.to_dict()
    assert len(document["review"]["concerns"]) == len(audited.review) > 0
    assert str(audited.review) in str(audited) and str(audited.incentives) in str(audited)
    page = html.unescape(audit_page(audited))
    assert "What a reader would question" in page and "What the model pays people for" in page
    for concern in audited.review.concerns:
        assert concern.says in page and concern.mend in page
    for column in audited.incentives.columns:
        assert column.because in page


def test_an_audit_without_a_background_reads_the_options_too(posed):
    problem, people, _, _ = posed
    bare = ta.Problem(problem.schema, problem.model)
    report = ta.audit.report(bare, people, people.repaid, noise=None, outside=1, bootstrap=100)
    assert report.review == report.answer.review(bare) and report.incentives.people == len(people)
    page = audit_page(report)
    assert "What a reader would question" in page
    assert "No column has a direction" in page or "a good direction." in page
    nobody = people[problem.judge(people[FEATURES]) >= 0]
    document = ta.audit.report(bare, nobody, nobody.repaid, noise=None, outside=1, bootstrap=100).to_dict()
    assert "there is nothing to read" in audit_page(document)
    older = {name: part for name, part in document.items() if name not in ("review", "incentives")}
    assert "What a reader would question" not in audit_page(older)


def test_an_audit_takes_what_people_type(posed):
    """One column of groups, a method by name, a way of accepting, no noise; and people whose row cannot be read."""
    problem, people, _, _ = posed
    spoilt = people.assign(income=people.income.astype(object).mask(people.index == "person 3", "much"))
    accept = ta.audit.risk.WithinCost(0.2)
    report = ta.audit.report(
        problem, spoilt, people.repaid, method="growing-spheres", groups=people.town, accept=accept, noise=None,
        outside=1, bootstrap=100,
    )  # fmt: skip
    assert report.risk.n == 199 and "person 'person 3'" in report.notes[0] and not report.lasting.threats
    assert list(report.by_attribute) == ["town"] and "GrowingSpheres" in report.answer.made_by
    assert "taken up as WithinCost(" in audit_page(report)


def test_an_audit_of_the_approved_reads_no_other_labels(posed):
    problem, people, _, _ = posed
    yes = problem.judge(people[FEATURES]) >= 0
    known = people.repaid.astype(object).where(yes)
    report = ta.audit.report(problem, people, known, observed="approved", landing=0.7, outside=1, bootstrap=100)
    assert report.risk.excess.given.value is None and report.asked["observed"] == "approved"
    with pytest.raises(AuditError, match="their outcomes are not known"):
        ta.audit.report(problem, people, known, observed="approved", landing="mirror")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"problem": None}, "is not a Problem"),
        ({"gain": 1.0}, "gain= and loss= go together"),
        ({"noise": -1}, "noise=-1 is not a number from 0 up"),
        ({"retrain": 3}, "retrain=3 is not a Retraining, or None"),
        ({"observed": "some"}, "observed='some' is not one of 'all', 'approved'"),
        ({"labels": [True]}, "labels= has 1 values for 200 people"),
        ({"groups": pd.DataFrame([[1, 2]] * 200, columns=["a", "a"])}, "two columns of groups share a name"),
    ],
)
def test_misuse_of_an_audit_is_told(posed, wrong, text):
    problem, people, _, _ = posed
    given = {"problem": problem, "people": people, "labels": people.repaid} | wrong
    with pytest.raises(AuditError, match=text.replace("(", r"\(")):
        ta.audit.report(**given)


# -- explain ------------------------------------------------------------------------------------------------------


def test_the_explanation_is_what_the_command_writes(desk, posed):
    problem, people, _, _ = posed
    done = turnabout("explain", desk / "people.csv", *files(desk, "--most", 2))
    assert done.returncode == 0, done.stderr
    written, report = json.loads(done.stdout), ta.explain.report(problem, people, most=2)
    assert comparable(report.to_dict()) == comparable(written) and list(report.to_dict()) == list(written)
    assert explain_page(report) == explain_page(json.loads(report.to_json()))
    assert len(report.letters) == 2 and report.summary[0] in str(report) and "not advice" in str(report)


def test_explainers_are_given_by_name_or_as_objects(posed):
    problem, people, _, _ = posed
    few = people.head(6)
    named = ta.explain.report(problem, few, explainer="lime", output="probability", method="wachter")
    given = ta.explain.report(problem, few, explainer=LimeTable(), output="probability", method=ta.methods.Wachter)
    pd.testing.assert_frame_equal(named.attribution.values, given.attribution.values)
    assert named.answer.made_by == "Wachter()" and named.attribution.score == "P(yes)"
    with pytest.raises(ExplainError, match="there is no explainer 'tarot'"):
        ta.explain.report(problem, few, explainer="tarot")
    with pytest.raises(ExplainError, match="most=0 is not a whole number from 1 up"):
        ta.explain.report(problem, few, most=0)


def test_the_command_line_names_every_explainer():
    from typing import get_args

    from turnabout.cli.explaining import Name
    from turnabout.explain.presets import NAMED

    assert get_args(Name) == tuple(NAMED)


# -- train --------------------------------------------------------------------------------------------------------


def test_training_is_what_the_command_writes(desk, tmp_path):
    people = pd.read_csv(desk / "train.csv")
    schema = ta.Schema.load(desk / "schema.yaml")
    loose = {"epsilon": 0.2, "alpha": 0.1}
    done = turnabout(
        "train", desk / "train.csv", "--label", "repaid", "--schema", desk / "schema.yaml", "--epochs", 2, "--json",
        "--deviations", 0.5, "--reach", "savings=2", "--out", tmp_path / "m.joblib", "--epsilon", 0.2, "--alpha", 0.1,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    asked = Pare(schema, ta.rules.Box({"savings": 2.0}), epochs=2)
    report = ta.train.report(asked, people, people.repaid, deviations=0.5, **loose)
    assert json.loads(report.to_json()) == json.loads(done.stdout)
    assert report.region.reach["savings"] == 2.0 and report.region.reach["income"] > 2.0
    assert isinstance(report, TrainReport) and isinstance(report.certificate, Certificate)
    assert report.model.threshold == report.threshold and asked.threshold == 0.5 and not hasattr(asked, "module_")
    assert "45 test people" in str(report) and report.ordinary.lam == 0.0


def test_misuse_of_training_is_told(desk):
    people = pd.read_csv(desk / "train.csv")
    schema = ta.Schema.load(desk / "schema.yaml")
    with pytest.raises(TrainingError, match="is not a Pare or GrantingTrees"):
        ta.train.report(LogisticRegression(), people, people.repaid)
    ball = Pare(schema, ta.rules.Ball(1.0, {"income": 2.0}))
    with pytest.raises(TrainingError, match="deviations= measures a Box"):
        ta.train.report(ball, people, people.repaid, deviations=1.0, epsilon=0.2, alpha=0.1)


# -- rules and costs in files ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def declared(desk):
    """Rules, costs, and files that are none."""
    texts = {
        "rules.yaml": "- {rule: at_most, k: 1}\n- {rule: linear, coefficients: {savings: 1}, sense: '<=', bound: 25}\n",
        "income.yaml": "- {rule: at_most, k: 1}\n- {rule: linear, coefficients: {income: 1}, sense: '<=', bound: 40}\n",
        "rules.json": '[{"rule": "at_most", "k": 1}]',
        "one.yaml": "rule: at_most\nk: 1\n",
        "torn.yaml": "- {rule: at_most",
        "odd.yaml": "- {rule: fair}",
        "empty.yaml": "[]",
        "strange.yaml": "- {rule: linear, coefficients: {wealth: 1}, sense: '<=', bound: 1}",
        "ranges.yaml": "kind: L1\n",
        "cost.yaml": "kind: L1\ndifficulty: {income: 100, savings: 1}\n",
        "dear.yaml": "kind: L1\ndifficulty: {income: 1, savings: 100}\n",
        "bad_cost.yaml": "kind: Gold",
        "strange_cost.yaml": "kind: L1\ndifficulty: {wealth: 2}\n",
    }
    for name, text in texts.items():
        (desk / name).write_text(text)
    actions = (
        "actions:\n"
        "  - {name: Earn, effect: [{shift: income}], cost: '|income| / 10', precondition: [new income > old income]}\n"
        "  - {name: Save, effect: [{shift: savings}], cost: '|savings|', precondition: [new savings > old savings]}\n"
    )
    (desk / "actions.yaml").write_text(actions)
    pd.read_csv(desk / "people.csv").head(40).to_csv(desk / "some.csv", index=False)
    return desk


COMMANDS = {
    "find": [],
    "plan": ["--actions", "{desk}/actions.yaml", "--max-steps", 2, "--format", "json"],
    "audit": ["--labels", "repaid", "--outside", 1, "--bootstrap", 100],
    "explain": [],
}


def asked(desk, command, *more):
    people = "people.csv" if command == "audit" else "some.csv"
    own = [str(part).format(desk=desk) for part in COMMANDS[command]]
    return turnabout(command, desk / people, *files(desk, *own, *more))


def plans(done):
    assert done.returncode == 0, done.stderr
    answer = ta.Recourse.from_json(done.stdout)
    people = answer.people.loc[answer.options.index.get_level_values("person")]
    return people[FEATURES].reset_index(drop=True), answer.options[FEATURES].reset_index(drop=True)


@pytest.mark.parametrize(("command", "name", "column", "most"), [
    ("find", "rules.yaml", "savings", 25), ("plan", "income.yaml", "income", 40)
])  # fmt: skip
def test_rules_of_a_file_are_kept(declared, command, name, column, most):
    price = ["--cost", declared / "ranges.yaml"] if command == "find" else []  # plans pay for their actions
    before, free = plans(asked(declared, command, *price))
    assert (free[column] > most).any()
    before, kept = plans(asked(declared, command, *price, "--rules", declared / name))
    assert len(kept) and ((kept != before).sum(axis=1) == 1).all() and (kept[column] <= most).all()


def test_a_cost_of_a_file_decides_what_is_found(declared):
    before, after = plans(asked(declared, "find", "--cost", declared / "cost.yaml"))
    assert (before.income == after.income).all()
    before, after = plans(asked(declared, "find", "--cost", declared / "dear.yaml"))
    assert (before.savings == after.savings).all()


@pytest.mark.parametrize("command", ["audit", "explain"])
def test_reports_keep_rules_and_costs_of_files(declared, command):
    reports, ranges = [], ["--cost", declared / "ranges.yaml"]
    for more in (ranges, [*ranges, "--rules", declared / "rules.yaml"], ["--cost", declared / "dear.yaml"]):
        done = asked(declared, command, *more)
        assert done.returncode == 0, done.stderr
        reports.append(json.loads(done.stdout))
    if command == "audit":
        costs = [report["risk"]["cost"]["value"] for report in reports]
        assert len(set(costs)) == 3 and costs[0] == min(costs)
        return
    told = [[line for line in report["reasons"]["reasons"] if line["in_plan"]] for report in reports]
    assert any(line["feature"] == "savings" and line["plan_to"] > 25 for line in told[0])
    assert all(line["plan_to"] <= 25 for line in told[1] if line["feature"] == "savings")
    assert {line["feature"] for line in told[2]} == {"income"}


@pytest.mark.parametrize("command", list(COMMANDS))
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("absent.yaml", "cannot be read"),
        ("torn.yaml", "is not valid YAML"),
        ("odd.yaml", "does not describe a rule"),
        ("empty.yaml", "no list of rules"),
        ("strange.yaml", "'wealth', which is not one of"),
    ],
)
def test_damaged_rules_are_told(declared, command, name, text):
    done = asked(declared, command, "--rules", declared / name)
    assert done.returncode == 1 and text in done.told and not done.stdout and "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["find", "audit", "explain"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("absent.yaml", "cannot be read"),
        ("torn.yaml", "is not valid YAML"),
        ("bad_cost.yaml", "does not describe a cost"),
        ("strange_cost.yaml", "wealth"),
    ],
)
def test_a_damaged_cost_is_told(declared, command, name, text):
    done = asked(declared, command, "--cost", declared / name)
    assert done.returncode == 1 and text in done.told and not done.stdout and "Traceback" not in done.stderr


def test_rules_and_costs_are_loaded_in_python(declared):
    one = ta.rules.AtMost(1)
    assert ta.rules.load(declared / "one.yaml") == ta.rules.load(declared / "rules.json") == (one,)
    assert ta.costs.load(declared / "cost.yaml") == ta.costs.L1({"income": 100.0, "savings": 1.0})
