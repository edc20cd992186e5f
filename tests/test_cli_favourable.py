"""Which class is a yes, on the command line: asked for where a guess would be wrong, said in what is written."""

from __future__ import annotations

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

FEATURES = ["income", "debt"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A lender whose model is of words, one whose 1 is a default, and a function."""
    folder = tmp_path_factory.mktemp("lender")
    rng = np.random.default_rng(0)
    train = pd.DataFrame({"income": rng.integers(10, 90, 200), "debt": rng.integers(0, 60, 200)})
    repaid = train.income - train.debt + rng.normal(0, 10, 200) > 20
    ta.Schema.infer(train).save(folder / "schema.yaml")
    words = np.where(repaid, "approve", "deny")
    for name, labels in {"words": words, "default": (~repaid).astype(int)}.items():
        fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(train, labels)
        joblib.dump(fitted, folder / f"{name}.joblib")
    train.head(30).to_csv(folder / "people.csv", index=False)
    columns = {"repaid": repaid.astype(int), "default": (~repaid).astype(int), "word": words}
    train.assign(**columns).to_csv(folder / "train.csv", index=False)
    return folder


def find(desk, model, *more, command="find"):
    files = [desk / "people.csv", "--model", desk / f"{model}.joblib", "--schema", desk / "schema.yaml"]
    return turnabout(command, *files, *more)


@pytest.mark.parametrize("command", ["find", "explain"])
def test_a_class_that_reads_as_a_no_is_asked_about(desk, command):
    done = find(desk, "words", command=command)
    assert done.returncode == 1 and not done.stdout
    assert "'deny' would be taken, the second, and reads as a no" in done.told and "--target approve" in done.told
    done = find(desk, "words", "--target", "approve", command=command)
    assert done.returncode == 0, done.stderr
    written = json.loads(done.stdout)
    assert (written["yes"] if command == "find" else written["answer"]["yes"]) == "predict is 'approve'"
    assert command == "explain" or "yes when predict is 'approve'" in done.told
    assert find(desk, "words", "--target", "Approve", command=command).returncode == 0
    assert "no class 'granted'" in find(desk, "words", "--target", "granted", command=command).told


def test_labels_that_contradict_the_class_stop(desk):
    told = ["--background", desk / "train.csv", "--labels", "repaid"]
    done = find(desk, "default", *told)
    assert done.returncode == 1 and "labels= contradict the class" in done.told and "--target 0" in done.told
    done = find(desk, "default", *told, "--target", 0)
    assert done.returncode == 0, done.stderr
    answer = ta.Recourse.from_json(done.stdout)
    model = joblib.load(desk / "default.joblib")
    assert len(answer.options) and (model.predict(answer.options[FEATURES]) == 0).all()


@pytest.mark.parametrize("column", ["default", "word"])
def test_labels_may_say_which_value_is_favourable(desk, column):
    told = ["--background", desk / "train.csv", "--labels", column, "--target", 0]
    done = find(desk, "default", *told)
    assert done.returncode != 0
    assert column == "word" or "'default' reads as what nobody hopes for" in done.told
    done = find(desk, "default", *told, "--yes", {"default": 0, "word": "approve"}[column])
    assert done.returncode == 0 and "contradict" not in done.told, done.stderr


def test_audits_and_training_ask_what_a_bad_label_means(desk, tmp_path):
    audit = ["audit", desk / "train.csv", "--model", desk / "default.joblib", "--schema", desk / "schema.yaml"]
    done = turnabout(*audit, "--labels", "default", "--target", 0)
    assert done.returncode == 2 and "--yes" in done.told
    done = turnabout(*audit, "--labels", "default", "--yes", 0)
    assert done.returncode == 1 and "labels= contradict the class" in done.told
    files = ["--schema", desk / "schema.yaml", "--out", tmp_path / "model.joblib"]
    done = turnabout("train", desk / "train.csv", "--label", "default", *files)
    assert done.returncode == 2 and "'default' reads as what nobody hopes for" in done.told


class Chance:
    """P(default) of a table."""

    def __call__(self, table):
        return 1 / (1 + np.exp((table.income - table.debt - 20) / 5.0))


def test_a_function_can_be_confirmed(desk, tmp_path):
    joblib.dump(Chance(), desk / "chance.joblib")
    told = ["--background", desk / "train.csv", "--labels", "repaid"]
    done = find(desk, "chance", *told)
    assert done.returncode == 1 and "let the function return P(yes), not P(no)" in done.told
    done = find(desk, "chance", *told, "--target", 1)
    assert done.returncode == 0, done.stderr
