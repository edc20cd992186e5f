"""The commands audit and explain: a JSON that holds everything, a page drawn from it, and clear words for bad input."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from unittest import mock

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import turnabout as ta
from command_line import turnabout
from turnabout.core.attribution import Attribution

EVIL = "<script>alert('x')</script> --> & \"east\""
FEATURES = ["income", "savings"]


def told(done, code, text):
    assert done.returncode == code, done.stderr
    assert text in " ".join(done.stderr.replace("│", " ").split()), done.stderr
    assert "Traceback" not in done.stderr


def gaussians(n, seed):
    """The lecture's two classes, in units of money."""
    rng = np.random.default_rng(seed)
    good = rng.random(n) < 0.5
    z = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], n) + np.where(good, 1, -1)[:, None]
    table = pd.DataFrame({"income": (30 + 10 * z[:, 0]).round(1), "savings": (20 + 8 * z[:, 1]).round(1)})
    table["repaid"] = np.where(good, "good", "bad")
    table["town"] = np.where(rng.random(n) < 0.5, "north", EVIL)  # no feature
    return table


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Files as a lender would have them."""
    folder = tmp_path_factory.mktemp("lender")
    train, people = gaussians(300, 0), gaussians(240, 1)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(train[FEATURES], train.repaid == "good")
    joblib.dump(model, folder / "model.joblib")
    joblib.dump({"not": "a model"}, folder / "dict.joblib")
    people.insert(0, "name", [f"person {i} {EVIL} $a$" for i in range(len(people))])
    train.to_csv(folder / "train.csv", index=False)
    people.to_csv(folder / "people.csv", index=False)
    yes = model.predict(people[FEATURES])
    people[yes].to_csv(folder / "accepted.csv", index=False)
    people.assign(repaid=people.repaid.where(yes)).to_csv(folder / "approved.csv", index=False)
    people.assign(repaid="good").to_csv(folder / "alike.csv", index=False)
    people.head(0).to_csv(folder / "nobody.csv", index=False)
    people.assign(income=people.income.astype(object).mask(people.index == 3, "much")).to_csv(
        folder / "words.csv", index=False
    )
    wide = (ta.Number(name, low=-100, high=300, decimals=1, label=f"The {name}") for name in FEATURES)
    ta.Schema(tuple(wide)).save(folder / "schema.yaml")
    fixed = (ta.Number(name, low=-100, high=300, decimals=1, moves="fixed") for name in FEATURES)
    ta.Schema(tuple(fixed)).save(folder / "fixed.yaml")
    return folder


def asked(desk, people="people.csv", model="model.joblib", schema="schema.yaml"):
    files = ["--model", desk / model, "--labels", "repaid", "--yes", "good", "--outside", 1]
    return ["audit", desk / people, *files, "--schema", desk / schema, "--bootstrap", 200]


def test_an_audit_loads_no_testing_code_and_no_study(desk):
    """A lender's audit rests on the product alone: in a process of its own."""
    arguments = [str(part) for part in ("turnabout", *asked(desk), "--out", desk / "alone")]
    code = f"""
import contextlib, io, sys
sys.argv = {arguments!r}
from turnabout.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
print(*sorted(name for name in sys.modules if name.startswith("turnabout.")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rooms = {name.split(".")[1] for name in done.stdout.split()}
    assert "audit" in rooms
    assert rooms & {"testing", "studies"} == set()


@pytest.fixture(scope="module")
def report(desk):
    """One audit with everything in it: what was said, the JSON, and the page."""
    done = turnabout(
        *asked(desk), "--background", desk / "train.csv", "--groups", "town", "--id", "name", "--landing", 0.8,
        "--gain", 1, "--loss", 3, "--retrain", 3, "--out", desk / "report",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stdout
    return done, json.loads((desk / "report.json").read_text()), (desk / "report.html").read_text()


def test_audit_says_the_verdict_of_the_document(report):
    done, document, _ = report
    risk = document["risk"]
    said = " ".join(done.stderr.split())
    assert f"{risk['verdict']}: " in said and "Break-even compliance: " in said
    assert f"{risk['refused']} refused, {risk['offered']} with an option" in said


def test_audit_is_what_the_functions_say(desk, report):
    """The command adds nothing: its risk is that of risk_of_recourse on the answer with that landing."""
    from turnabout.audit.risk.risk_of_recourse import risk_of_recourse
    from turnabout.core.landing_targets import Calibration, Probability

    _, document, _ = report
    schema = ta.Schema.load(desk / "schema.yaml")
    people = pd.read_csv(desk / "people.csv").set_index("name")
    train = pd.read_csv(desk / "train.csv")
    model = ta.models.wrap(joblib.load(desk / "model.joblib"), schema, background=train)
    problem = ta.Problem(schema, model, background=train[FEATURES], labels=train.repaid == "good")
    good = people.repaid == "good"
    landing = Probability(0.8, eta=Calibration.of(model, people[FEATURES], good))
    answer = ta.methods.ExactLinear().fit(problem).find(people[FEATURES], landing=landing)
    again = risk_of_recourse(
        model, people, good, answer, gain=1, loss=3, outside=1, bootstrap=200, groups=people.town
    ).to_dict()
    assert document["risk"] == json.loads(json.dumps(again))
    assert document["answer"]["counts"] == answer.counts()
    assert (
        document["price"]["ratio"] > 1 and document["without_landing"]["landing"]["value"] < again["landing"]["value"]
    )


def test_the_document_holds_every_part(report):
    _, document, _ = report
    parts = {"asked", "risk", "groups", "fairness", "subgroup", "lasting", "retrained", "price", "without_landing"}
    assert parts | {"plane", "landings", "command", "versions", "warnings", "notes", "answer", "model"} <= set(document)
    assert document["turnabout_audit"] == 1 and document["command"].startswith("turnabout audit ")
    assert {group["group"] for group in document["groups"][0]["groups"]} == {"north", EVIL}
    assert len(document["lasting"]["threats"]) == 2 and document["retrained"]["models"] == 3
    assert len(document["landings"]["person"]) == document["risk"]["offered"] == document["plane"]["moved"]
    assert document["plane"]["area"] is not None  # two features


def test_the_page_is_drawn_from_the_document_alone(desk, report):
    from turnabout.render.audit_page import audit_page

    _, document, page = report
    assert audit_page(document) == page
    document = json.loads(json.dumps(document))
    document["risk"]["risk_before"]["value"] = 0.123456
    assert "0.123" in audit_page(document)


def test_the_page_tells_the_verdict_first_and_escapes_everything(report):
    _, document, page = report
    assert page.index("(" + document["risk"]["verdict"] + ")") < page.index("<h2")
    assert "<script" not in page and "alert(&#x27;x&#x27;)" in page and page.count("<svg") == 4
    for text in ("It does not mean", "The price of landing higher", "Do the options last?", "2,000", "turnabout audit"):
        assert (text in page) == (text != "2,000")  # 200 replicates were asked for
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/", "")


def test_audit_writes_json_on_stdout_and_the_same_twice(desk):
    arguments = [*asked(desk), "--accept", 0.5, "--compliance", 0.5, "--noise", 0]
    done, again = turnabout(*arguments), turnabout(*arguments)
    assert done.returncode == 0, done.stderr
    document, other = json.loads(done.stdout), json.loads(again.stdout)
    document["answer"]["seconds"] = other["answer"]["seconds"] = 0
    assert document == other
    assert document["risk"]["compliance"] == 0.5 and not document["lasting"]["threats"] and document["fairness"] is None
    assert document["risk"]["movers"] == pytest.approx(document["risk"]["offered"] / 2)


def test_audit_of_the_approved_gives_bounds(desk, tmp_path):
    done = turnabout(*asked(desk, "approved.csv"), "--observed", "approved", "--out", tmp_path / "bounds.html")
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "bounds.json").read_text())
    assert document["risk"]["excess"]["given"]["value"] is None and document["risk"]["bounds"]
    page = (tmp_path / "bounds.html").read_text()
    assert "bounds and not points" in page and "not known, as outcomes of the refused are not" in page


@pytest.mark.parametrize(("people", "schema"), [("accepted.csv", "schema.yaml"), ("people.csv", "fixed.yaml")])
def test_where_nobody_moves_the_report_says_so(desk, tmp_path, people, schema):
    """Nobody refused, or nobody with an option: no recourse is an answer."""
    done = turnabout(*asked(desk, people, schema=schema), "--groups", "town", "--out", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    assert "UNDETERMINED" in done.stderr and "nobody moves" in " ".join(done.stderr.split())
    page = (tmp_path / "r.html").read_text()
    assert "Nobody has an option" in page and "NaN" not in page and "None" not in page


def test_groups_may_be_numbers_flags_or_missing():
    from turnabout.audit.fairness import group_words

    table = pd.DataFrame({"age": range(40), "flag": [True, False] * 20, "town": ["a", None] * 20, "kind": [1, 2] * 20})
    parts, notes = group_words(table, table.index)
    assert notes == ("'age' has 40 different numbers; its groups are quarters of the people.",)
    assert sorted(parts.age.unique()) == [" 0 to 9", "10 to 19", "20 to 29", "30 to 39"]
    assert (
        set(parts.flag) == {"True", "False"} and set(parts.town) == {"a", "missing"} and set(parts.kind) == {"1", "2"}
    )


def test_labels_to_train_on_are_those_of_the_model():
    from turnabout.cli.audited import as_trained

    def asked_of(classes, target=None):
        model = mock.Mock(classes_=np.array(classes))
        return mock.Mock(fitted=model, target=target)

    words, good = pd.Series(["yes", "no", "yes"]), np.array([True, False, True])
    assert as_trained(words, good, asked_of([False, True])).tolist() == [True, False, True]
    assert as_trained(words, good, asked_of([0, 1], target=0)).tolist() == [0, 1, 0]
    assert as_trained(words, good, asked_of(["no", "yes"])).tolist() == ["yes", "no", "yes"]


@pytest.mark.parametrize(
    ("changed", "more", "code", "text"),
    [
        ({"people": "absent.csv"}, [], 2, "there is no file"),
        ({"people": "nobody.csv"}, [], 2, "there is nobody in"),
        ({"people": "alike.csv"}, [], 2, "there is nothing to tell apart"),
        ({"people": "approved.csv"}, [], 2, "have no 'repaid'"),
        ({"model": "train.csv"}, [], 2, "cannot be loaded as a model"),
        ({"model": "dict.joblib"}, [], 1, "dict"),
        ({}, ["--labels", "wealth"], 2, "no column 'wealth'; it has name, income"),
        ({}, ["--labels", "income"], 2, "is also a feature of the schema"),
        ({}, ["--yes", "perhaps"], 2, "has no value 'perhaps'"),
        ({}, ["--groups", "sex"], 2, "no column 'sex'; it has name, income"),
        ({}, ["--method", "magic"], 2, "no method 'magic'"),
        ({}, ["--landing", "high"], 2, "'high' is no probability"),
        ({}, ["--landing", "1.5"], 2, "'1.5' is no probability"),
        ({}, ["--landing", "mirror", "--observed", "approved"], 2, "their outcomes are not known"),
        ({}, ["--gain", "2"], 2, "go together"),
        ({}, ["--gain", "-2", "--loss", "1"], 1, "gain=-2.0 is not a number above 0"),
        ({}, ["--retrain", "2"], 2, "give them by --background"),
        ({}, ["--accept", "2"], 2, "--accept"),
        ({}, ["--outside", "0"], 1, "lie outside the data"),
        ({}, ["--out", "no/such/folder/report"], 2, "lies in a folder that is not there"),
        ({}, ["--id", "number"], 2, "no column 'number'"),
        ({}, ["--target", "7"], 2, "no class '7'"),
    ],
)  # fmt: skip
def test_misuse_of_audit_is_told(desk, changed, more, code, text):
    done = turnabout(*asked(desk, **changed), *more)
    told(done, code, text)
    assert not done.stdout


# -- explain ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def why(desk):
    done = turnabout(
        "explain", desk / "people.csv", "--model", desk / "model.joblib", "--schema", desk / "schema.yaml",
        "--background", desk / "train.csv", "--id", "name", "--most", 2, "--out", desk / "why",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stdout
    return done, json.loads((desk / "why.json").read_text()), (desk / "why.html").read_text()


def test_explain_writes_exact_shapley_values_for_everyone(desk, why):
    from turnabout.explain.shapley.exact import ExactShapley

    done, document, _ = why
    found = Attribution.from_dict(document["attribution"])
    people = pd.read_csv(desk / "people.csv").set_index("name")
    train = pd.read_csv(desk / "train.csv")
    model = ta.models.wrap(joblib.load(desk / "model.joblib"), ta.Schema.load(desk / "schema.yaml"), background=train)
    known = ExactShapley().explain(model, people[FEATURES], background=train[FEATURES])
    np.testing.assert_allclose(found.values, known.values, atol=1e-12)
    assert found.exact and len(found) == len(people)
    assert "not a distance to the boundary, and not advice" in " ".join(done.stderr.split())


def test_reasons_are_checked_against_the_plan(why):
    _, document, _ = why
    reasons = pd.DataFrame(document["reasons"]["reasons"])
    assert reasons["rank"].max() <= 4 and set(reasons["recourse"]) <= {"alone", "with others", "none shown", "unknown"}
    assert reasons["in_plan"].any() and document["answer"]["counts"]["FOUND"] == len(document["reasons"]["people"])


def test_the_page_of_explain(why):
    from turnabout.render.explain_page import explain_page

    _, document, page = why
    assert explain_page(document) == page
    assert "not a distance to the boundary, and it is not advice" in page
    assert page.count("<svg") == 4  # two overviews, two people
    left = len(document["reasons"]["people"]) - 2
    assert f"{left} more refused people" in page and "<script" not in page
    assert html.escape(document["letters"][1]["person"]) in page
    assert "The income" in page  # by its title


def test_people_who_cannot_be_read_are_left_out_and_told(desk):
    done = turnabout(*asked(desk, people="words.csv"), "--id", "name")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["risk"]["n"] == 239 and "1 of 240 people cannot be read and is left out" in done.told
    assert "column 'income' holds 'much', which is not a number." in document["notes"][0]
    pd.read_csv(desk / "words.csv").assign(income="much").to_csv(desk / "all.csv", index=False)
    told(turnabout(*asked(desk, people="all.csv")), 1, "column 'income' holds 'much', which is not a number")


@pytest.mark.parametrize("name", ["kernel-shap", "lime", "c-lime", "occlusion", "gradient", "smooth-grad",
                                  "integrated-gradients", "gradient-times-input"])  # fmt: skip
def test_every_explainer_has_a_name_and_a_page(desk, tmp_path, name):
    few = pd.read_csv(desk / "people.csv").head(12)
    few.to_csv(tmp_path / "few.csv", index=False)
    done = turnabout(
        "explain", tmp_path / "few.csv", "--model", desk / "model.joblib", "--schema", desk / "schema.yaml",
        "--background", desk / "train.csv", "--explainer", name, "--output", "probability", "--most", 1,
        "--method", "wachter", "--out", tmp_path / "why",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "why.json").read_text())
    assert document["attribution"]["score"] == "P(yes)" and document["answer"]["made_by"] == "Wachter()"
    assert "Why people were refused" in (tmp_path / "why.html").read_text()


def test_sampling_takes_over_where_coalitions_are_too_many(tmp_path):
    """Twelve features of a function without structure: KernelShap."""
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(12)]
    table = pd.DataFrame(rng.random((30, 12)).round(3), columns=names)
    joblib.dump(bumpy, tmp_path / "f.joblib")
    table.to_csv(tmp_path / "t.csv", index=False)
    done = turnabout("explain", tmp_path / "t.csv", "--model", tmp_path / "f.joblib", "--method", "growing-spheres")
    assert done.returncode == 0, done.stderr
    assert "KernelShap" in json.loads(done.stdout)["attribution"]["made_by"] and "schema was drafted" in done.stderr


def bumpy(table):
    """P(yes) of a table, without structure that could be recognised."""
    x = table.to_numpy(dtype=float)
    return 1 / (1 + np.exp(-4 * (x[:, 0] * x[:, 1] + x[:, 2] - 0.8)))


def test_where_nobody_is_refused_there_are_no_reasons(desk, tmp_path):
    files = ["--model", desk / "model.joblib", "--schema", desk / "schema.yaml"]
    done = turnabout("explain", desk / "accepted.csv", *files, "--out", tmp_path / "why")
    assert done.returncode == 0, done.stderr
    assert "nobody is refused" in " ".join(done.stderr.split())
    assert "there are no reasons to give" in (tmp_path / "why.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["{desk}/absent.csv", "--model", "{desk}/model.joblib"], 2, "there is no file"),
        (["{desk}/people.csv", "--model", "{desk}/train.csv"], 2, "cannot be loaded as a model"),
        (["{desk}/people.csv", "--model", "{desk}/model.joblib", "--explainer", "tarot"], 2, "--explainer"),
        (["{desk}/people.csv", "--model", "{desk}/model.joblib", "--most", "0"], 2, "--most"),
        (["{desk}/people.csv", "--model", "{desk}/model.joblib", "--background", "{desk}/nobody.csv"], 1, "Hint"),
    ],
)
def test_misuse_of_explain_is_told(desk, arguments, code, text):
    told(turnabout("explain", *(argument.format(desk=desk) for argument in arguments)), code, text)


# -- find ---------------------------------------------------------------------------------------------------------


def test_find_lands_where_asked(desk):
    arguments = ["find", desk / "people.csv", "--model", desk / "model.joblib", "--schema", desk / "schema.yaml"]
    plain, high, mirror = (turnabout(*arguments, *more) for more in ([], ["--landing", 0.8], ["--landing", "mirror"]))
    assert high.returncode == mirror.returncode == 0, high.stderr + mirror.stderr
    model = joblib.load(desk / "model.joblib")
    answers = [ta.Recourse.from_json(done.stdout) for done in (plain, high, mirror)]
    chances = [model.predict_proba(answer.options[FEATURES])[:, 1] for answer in answers]
    assert chances[0].min() < 0.55 and chances[1].min() >= 0.8
    own = model.predict_proba(answers[2].people.loc[answers[2].options.index.get_level_values(0), FEATURES])[:, 1]
    assert (chances[2] >= 1 - own - 1e-9).all()
    told(turnabout(*arguments, "--landing", "0"), 2, "'0' is no probability")
