"""The command line: data on stdout, talk on stderr, exit 0 / 1 / 2 for done / failed / misused."""

from __future__ import annotations

import json
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import turnabout as ta


def turnabout(*arguments, stdin=None):
    command = [sys.executable, "-m", "turnabout.cli", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Files as a user would have them: training rows, people, a saved pipeline, a schema."""
    folder = tmp_path_factory.mktemp("desk")
    rng = np.random.default_rng(0)
    train = pd.DataFrame({"income": rng.integers(0, 100, 300), "debt": rng.random(300).round(3) * 50, "age": rng.integers(18, 80, 300)})
    train["good"] = (train.income - train.debt + rng.normal(0, 10, 300) > 20).astype(int)
    features = ["income", "debt", "age"]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(train[features], train.good)
    people = train[features][model.predict(train[features]) == 0].head(12)
    people.insert(0, "name", [f"person {i}" for i in range(12)])
    joblib.dump(model, folder / "model.joblib")
    train.to_csv(folder / "train.csv", index=False)
    people.to_csv(folder / "people.csv", index=False)
    ta.Schema.infer(train[features], immutable=["age"]).save(folder / "schema.yaml")
    return folder


def test_find_writes_json_on_stdout(desk):
    done = turnabout(
        "find", desk / "people.csv", "--model", desk / "model.joblib", "--schema", desk / "schema.yaml",
        "--background", desk / "train.csv", "--labels", "good", "--id", "name", "--options", 2,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = ta.Recourse.from_json(done.stdout)
    assert answer.counts()["FOUND"] == 12 and "person 3" in answer.status.index
    model = joblib.load(desk / "model.joblib")
    assert (model.predict(answer.options[["income", "debt", "age"]]) == 1).all()
    assert "12 FOUND" in done.stderr


def test_find_reads_stdin_and_writes_csv_and_tables(desk):
    base = ["--model", desk / "model.joblib", "--schema", desk / "schema.yaml", "--id", "name"]
    done = turnabout("find", "-", *base, "--format", "csv", stdin=(desk / "people.csv").read_text())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "person,option,feature,from,to"
    done = turnabout("find", desk / "people.csv", *base, "--format", "table", "--threshold", 0.999999999)
    assert done.returncode == 0 and "person 0" in done.stdout


def test_every_method_has_a_name_on_the_command_line(desk):
    listed = turnabout("methods")
    assert listed.returncode == 0
    for cls in ta.methods.ALL:
        assert cls.__name__.lower() in listed.stdout.replace("-", "")
    done = turnabout(
        "find", desk / "people.csv", "--model", desk / "model.joblib", "--schema", desk / "schema.yaml", "--method", "wachter"
    )
    assert done.returncode == 0 and json.loads(done.stdout)["made_by"] == "Wachter()"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["find", "absent.csv", "--model", "{desk}/model.joblib"], 2, "there is no file"),
        (["find", "{desk}/people.csv", "--model", "absent.joblib"], 2, "there is no file"),
        (["find", "{desk}/people.csv", "--model", "{desk}/train.csv"], 2, "cannot be loaded as a model"),
        (["find", "{desk}/people.csv", "--model", "{desk}/model.joblib", "--method", "magic"], 2, "no method 'magic'"),
        (["find", "{desk}/people.csv", "--model", "{desk}/model.joblib", "--id", "nobody"], 2, "no column 'nobody'"),
        (["find", "{desk}/people.csv", "--model", "{desk}/model.joblib", "--target", "7"], 2, "no class '7'"),
        (["find", "{desk}/people.csv", "--model", "{desk}/model.joblib", "--schema", "no.yaml"], 1, "no schema file"),
        (["find", "{desk}/people.csv"], 2, "--model"),
        (["schema", "infer", "{desk}/people.csv", "--immutable", "wealth"], 1, "no column 'wealth'"),
        (["dance"], 2, "dance"),
    ],
)
def test_misuse_is_told(desk, arguments, code, text):
    done = turnabout(*(a.format(desk=desk) for a in arguments))
    assert done.returncode == code, done.stderr
    assert text in " ".join(done.stderr.replace("│", " ").split()) and not done.stdout
    assert "Traceback" not in done.stderr


def test_schema_infer_drafts_yaml(desk):
    done = turnabout("schema", "infer", desk / "train.csv", "--immutable", "age", "--ignore", "good")
    assert done.returncode == 0
    schema = ta.Schema.from_yaml(done.stdout)
    assert schema["age"].moves == "fixed" and "good" not in schema.names
    assert "guessed" in done.stderr
    assert ta.Schema.from_json(turnabout("schema", "infer", desk / "train.csv", "--json").stdout)


def test_datasets_and_version():
    done = turnabout("datasets")
    assert done.returncode == 0 and "german" in done.stdout
    assert turnabout("--version").stdout.strip() == ta.__version__


def test_demo_runs_and_shows_a_plan():
    done = turnabout("demo")
    assert done.returncode == 0, done.stderr
    assert "Everyone in the test part" in done.stdout and "FOUND" in done.stdout and "can do" in done.stdout
