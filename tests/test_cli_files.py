"""The command line and files: what people, models and answers hold survives the way in and the way out."""

from __future__ import annotations

import json

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import turnabout as ta
from command_line import turnabout

TEXTS = ["zip", "plan", "digit", "truth"]
NUMBERS = ["flag", "income", "debt"]


def applicants(n: int, seed: int) -> pd.DataFrame:
    """Columns that a careless reader changes: codes with zeros, levels that look missing, numbers that are names."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": [f"{i:05d}" for i in rng.permutation(n)],
            "zip": rng.choice(["02134", "00501", "10001"], n),
            "plan": rng.choice(["None", "NA", "basic", "=gold"], n),
            "digit": rng.choice(["1", "2"], n),
            "truth": rng.choice(["True", "False"], n),
            "flag": rng.random(n) < 0.5,
            "income": rng.integers(10, 90, n),
            "debt": rng.normal(20, 5, n).round(2),
        }
    )


def merit(table: pd.DataFrame) -> pd.Series:
    words = {"None": -15, "NA": 5, "basic": 0, "=gold": 10}
    total = table.income - 2 * table.debt + table.plan.map(words) + 8 * (table.zip == "02134")
    return total + 10 * (table.digit == "2") + 6 * (table.truth == "True") + 5 * table.flag


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Files as a user would have them, and the frame as the model knew it."""
    folder = tmp_path_factory.mktemp("files")
    train = applicants(400, 0)
    models = {}
    for file, texts in (("model", TEXTS), ("less", TEXTS[:2])):
        encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        columns = make_column_transformer((encoder, texts), ("passthrough", NUMBERS))
        decider = make_pipeline(columns, LogisticRegression(max_iter=5000))
        models[file] = decider.fit(train[[*texts, *NUMBERS]], merit(train) > 20)
        joblib.dump(models[file], folder / f"{file}.joblib")
    people = applicants(60, 1)
    features = (
        ta.Category("zip", ("00501", "02134", "10001"), moves="fixed"),
        ta.Category("plan", ("None", "NA", "basic", "=gold")),
        ta.Binary("digit", ("1", "2")),
        ta.Binary("truth", ("False", "True")),
        ta.Binary("flag", (False, True)),
        ta.Number("income", 0, 60, step=1, moves="up"),
        ta.Number("debt", 0, 60, decimals=2),
    )
    ta.Schema(features).save(folder / "schema.yaml")
    train.assign(good=(merit(train) > 20).astype(int)).to_csv(folder / "train.csv", index=False)
    people.to_csv(folder / "people.csv", index=False)
    (folder / "people.json").write_text(json.dumps(people.to_dict("records")))
    people.to_parquet(folder / "people.parquet")
    return folder, models, people


def as_trained(answer: ta.Recourse, people: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """The printed options as the user would build them: their own rows of the original frame, with the new cells."""
    own = people.set_index("id")
    assert set(answer.people.index) == set(own.index)
    rows = []
    for (person, _), option in answer.options.iterrows():
        row = own.loc[person, names].copy()
        for name in names:
            if option[name] != row[name] or type(option[name]) is not type(row[name]):
                row[name] = option[name]
        rows.append(row)
    return pd.DataFrame(rows).astype(dict(people[names].dtypes))


@pytest.mark.parametrize("file", ["people.csv", "people.json", "people.parquet", "-"])
@pytest.mark.parametrize("given", ["a schema", "a background"])
def test_printed_options_are_accepted_by_the_original(desk, file, given):
    folder, models, people = desk
    if given == "a schema":
        name, names, more = "model", [*TEXTS, *NUMBERS], ["--schema", folder / "schema.yaml"]
    else:  # then digits and truths are read as such, and must not be texts in training
        name, names, more = "less", [*TEXTS[:2], *NUMBERS], ["--background", folder / "train.csv", "--labels", "good"]
    stdin = (folder / "people.csv").read_text() if file == "-" else ""
    source = file if file == "-" else folder / file
    files = ["--model", folder / f"{name}.joblib", *more, "--id", "id"]
    done = turnabout("find", source, *files, "--options", 2, stdin=stdin)
    assert done.returncode == 0, done.stderr
    answer = ta.Recourse.from_json(done.stdout)
    refused = ~models[name].predict(people[names])
    assert set(people.id[refused]) == set(answer.status.index[answer.status != ta.Status.ACCEPTED])
    assert answer.counts()["FOUND"] > 10
    assert models[name].predict(as_trained(answer, people, names)).all()
    pd.testing.assert_frame_equal(answer.people[names].reset_index(drop=True), people[names])
    assert answer.people.index.tolist() == people.id.tolist()
