"""The command line: data on stdout, talk on stderr, exit 0 / 1 / 2 for done / failed / misused."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from unittest import mock

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import turnabout as ta
from turnabout.cli import main


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def turnabout(*arguments, stdin=""):
    """Call the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    code: int | None = 0
    with (
        mock.patch.object(sys, "argv", ["turnabout", *map(str, arguments)]),
        mock.patch.object(sys, "stdin", io.StringIO(stdin)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Files as a user would have them: training rows, people, a saved pipeline, a schema."""
    folder = tmp_path_factory.mktemp("desk")
    rng = np.random.default_rng(0)
    train = pd.DataFrame(
        {"income": rng.integers(0, 100, 300), "debt": rng.random(300).round(3) * 50, "age": rng.integers(18, 80, 300)}
    )
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
        "find",
        desk / "people.csv",
        "--model",
        desk / "model.joblib",
        "--schema",
        desk / "schema.yaml",
        "--method",
        "wachter",
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
    command = [sys.executable, "-m", "turnabout.cli", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Test people" in done.stdout and "FOUND" in done.stdout and "can do" in done.stdout


def test_tables_show_what_was_verified(tmp_path):
    from rich.console import Console

    from turnabout.cli import frame_table

    console = Console(width=120, record=True, file=io.StringIO())
    console.print(frame_table(pd.DataFrame({"a [b]": [25254.34], "home": ["own [paid]"]}), "[t]"))
    text = console.export_text()
    assert "25254.34" in text and "own [paid]" in text and "a [b]" in text


def test_words_that_look_missing_are_levels_if_the_schema_says_so(desk, tmp_path):
    from turnabout.cli import read_table

    (tmp_path / "t.csv").write_text("k,n\nNone,1\nNA,\n")
    schema = ta.Schema((ta.Category("k", levels=("None", "b")), ta.Number("n", low=0, high=2)))
    table = read_table(str(tmp_path / "t.csv"), schema)
    assert table.k[0] == "None" and pd.isna(table.k[1]) and pd.isna(table.n[1])


def test_the_id_may_stand_in_the_background_too(desk, tmp_path):
    background = pd.read_csv(desk / "train.csv").assign(name="b")
    background.to_csv(tmp_path / "train.csv", index=False)
    done = turnabout(
        "find", desk / "people.csv", "--model", desk / "model.joblib", "--background", tmp_path / "train.csv",
        "--labels", "good", "--id", "name",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for arguments in (["find", "-"], ["find", str(tmp_path)]):
        done = turnabout(*arguments, "--model", desk / "model.joblib")
        assert done.returncode == 2 and "Traceback" not in done.stderr
