"""The command line and files: what people, models and answers hold survives the way in and the way out."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import turnabout as ta
from command_line import turnabout
from turnabout.cli.outputs import check_files, check_folder
from turnabout.schema import bare_text, spreadsheet_csv
from yaml_bomb import BOMB

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


def test_a_model_of_plain_pandas_finds_its_columns_again(desk):
    folder = desk[0]
    train = pd.read_csv(folder / "train.csv")  # zip, digit: whole numbers; "None" and "NA": missing
    names = ["zip", "digit", "flag", "income", "debt"]
    assert train.zip.dtype == train.digit.dtype == "int64"
    model = RandomForestClassifier(20, max_depth=4, random_state=0).fit(train[names], train.good)
    joblib.dump(model, folder / "numbers.joblib")
    features = (
        ta.Number("zip", 0, 99999, step=1, moves="fixed"),
        ta.Binary("digit", (1, 2)),
        ta.Binary("flag", (False, True)),
        ta.Number("income", 0, 90, step=1),
        ta.Number("debt", 0, 60, decimals=2),
    )
    ta.Schema(features).save(folder / "numbers.yaml")
    asked = ["--model", folder / "numbers.joblib", "--schema", folder / "numbers.yaml", "--id", "id"]
    done = turnabout("find", folder / "people.csv", *asked)
    assert done.returncode == 0, done.stderr
    answer = ta.Recourse.from_json(done.stdout)
    plain = pd.read_csv(folder / "people.csv")[names]
    pd.testing.assert_frame_equal(answer.people[names].reset_index(drop=True), plain)
    assert answer.counts()["FOUND"] > 3
    again = pd.read_csv(io.StringIO(answer.options[names].to_csv(index=False)))
    assert model.predict(again).all()


def test_stdin_is_read_as_bytes():
    command = [sys.executable, "-m", "turnabout.cli", "schema", "infer", "-"]
    done = subprocess.run(command, input=b"a\nM\xfcnchen\n", capture_output=True, timeout=300)
    assert done.returncode == 2 and b"not UTF-8" in done.stderr and b"Traceback" not in done.stderr


def test_labels_of_any_kind_stay_labels(desk):
    folder, _, people = desk
    files = ["--model", folder / "model.joblib", "--schema", folder / "schema.yaml", "--id", "id"]
    people = people.head(6)
    people.to_csv(folder / "few.csv", index=False)
    done = turnabout("explain", folder / "few.csv", *files, "--explainer", "occlusion")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["attribution"]["values"]["index"] == people.id.tolist()
    days = people.assign(id=pd.date_range("2020-01-01", periods=len(people)).date)
    days.to_parquet(folder / "days.parquet")
    done = turnabout("explain", folder / "days.parquet", *files, "--explainer", "occlusion", "--out", folder / "days")
    assert done.returncode == 0, done.stderr
    assert "2020-01-01" in (folder / "days.html").read_text()
    done = turnabout("find", folder / "days.parquet", *files)
    assert ta.Recourse.from_json(done.stdout).people.index.tolist() == days.id.tolist()


def test_every_command_reads_tables_alike(desk):
    folder, _, people = desk
    schema = ["--schema", folder / "schema.yaml"]
    outcome = people.assign(good=np.where(merit(people) > 20, "01", "00"), town=people.zip)
    outcome.to_csv(folder / "outcomes.csv", index=False)
    model = ["--model", folder / "model.joblib"]
    label = ["--labels", "good", "--yes", "01", "--groups", "town", "--outside", 1, "--bootstrap", 100]
    done = turnabout("audit", folder / "outcomes.csv", *model, *schema, *label, "--id", "id")
    assert done.returncode == 0, done.stderr
    groups = {group["group"] for group in json.loads(done.stdout)["groups"][0]["groups"]}
    assert groups == {"02134", "00501", "10001"}
    train = ["--label", "good", "--yes", "01", "--epochs", 1, "--epsilon", 0.4, "--alpha", 0.4, "--out"]
    done = turnabout("train", folder / "outcomes.csv", *schema, *train, folder / "trained.joblib", "--json")
    assert done.returncode == 0, done.stderr
    done = turnabout("find", folder / "people.csv", "--model", folder / "trained.joblib", "--id", "id")
    assert done.returncode == 0, done.stderr
    assert ta.Recourse.from_json(done.stdout).people.zip.isin(["02134", "00501", "10001"]).all()
    given = ["--epsilon", 0.4, "--alpha", 0.4, "--group", "town", "--reach", "income=9", "--json"]
    done = turnabout("calibrate", folder / "outcomes.csv", *model, *schema, *given, "--used-on", folder / "train.csv")
    assert done.returncode == 0, done.stderr
    assert {part["label"] for part in json.loads(done.stdout)["groups"]} == {"02134", "00501", "10001"}
    (folder / "actions.yaml").write_text("actions:\n - {name: Save, effect: [{shift: debt}], cost: 1}\n")
    (folder / "gold.yaml").write_text("actions:\n - {name: Gold, effect: [{set: plan, to: '=gold'}], cost: 1}\n")
    done = turnabout("actions", "review", folder / "gold.yaml", *schema, "--people", folder / "people.csv")
    assert done.returncode == 0, done.stderr
    asked = ["--actions", folder / "actions.yaml", "--id", "id", "--max-steps", 1, "--format", "json"]
    done = turnabout("plan", folder / "people.csv", *model, *schema, *asked)
    assert done.returncode == 0, done.stderr
    answer = ta.Recourse.from_json(done.stdout)
    assert answer.people.index.tolist() == people.id.tolist() and answer.counts()["FOUND"]


def test_a_drafted_schema_keeps_codes(desk):
    folder = desk[0]
    done = turnabout("schema", "infer", folder / "train.csv", "--ignore", "id", "--ignore", "good")
    assert done.returncode == 0 and "is read as text, not as numbers, because of '00501'" in done.told
    schema = ta.Schema.from_yaml(done.stdout)
    assert schema["zip"].levels == ("00501", "02134", "10001") and "NA" in schema["plan"].levels
    assert schema["truth"].levels == (False, True) and not any(feature.missing for feature in schema)


def test_one_cell_that_cannot_be_read_costs_one_person(desk):
    folder, models, people = desk
    names = [*TEXTS, *NUMBERS]
    refused = people[~models["model"].predict(people[names])].head(6)
    spoilt = refused.astype({"income": object, "debt": object}).reset_index(drop=True)
    spoilt.loc[1, "income"], spoilt.loc[2, "debt"], spoilt.loc[3, "plan"] = "much", "", "golden"
    spoilt.loc[4, "zip"] = "99999"  # fixed, so that it is passed through
    spoilt.to_csv(folder / "spoilt.csv", index=False)
    files = ["--model", folder / "model.joblib", "--schema", folder / "schema.yaml", "--id", "id"]
    done = turnabout("find", folder / "spoilt.csv", *files)
    assert done.returncode == 0, done.stderr
    answer = ta.Recourse.from_json(done.stdout)
    whole = ta.Recourse.from_json(turnabout("find", folder / "people.csv", *files).stdout)
    unread = [label for label, status in answer.status.items() if status == "UNREADABLE"]
    assert unread == refused.id.tolist()[1:4]
    assert answer.why.reason[unread[0]] == "column 'income' holds 'much', which is not a number."
    for label in refused.id.tolist()[:1] + refused.id.tolist()[5:]:
        assert answer.status[label] == whole.status[label] == "FOUND"
        same = answer.options.xs(label, level="person")[names], whole.options.xs(label, level="person")[names]
        pd.testing.assert_frame_equal(*same)
    fourth = answer.options.xs(refused.id.tolist()[4], level="person")[names]
    assert fourth.zip.tolist() == ["99999"] and models["model"].predict(fourth).all()


# -- what is written ------------------------------------------------------------------------------------------------


def test_no_cell_of_csv_is_a_formula(desk):
    folder, models, people = desk
    ids = ["=cmd|' /C calc'!A0", "+1", "-2+3", "@x", "\tx", "\rx", "'=a", "plain, with a comma", 'quo"te', "ü"]
    refused = people[~models["model"].predict(people[[*TEXTS, *NUMBERS]])].head(10).assign(id=ids)
    refused.to_json(folder / "evil.json", orient="records")
    files = ["--model", folder / "model.joblib", "--schema", folder / "schema.yaml", "--id", "id"]
    done = turnabout("find", folder / "evil.json", *files, "--format", "csv", "--options", 3)
    assert done.returncode == 0, done.stderr
    lines = list(csv.reader(io.StringIO(done.stdout, newline="")))
    answer = ta.Recourse.from_json(turnabout("find", folder / "evil.json", *files, "--options", 3).stdout)
    changes = answer.changes()
    assert len(lines) == len(changes) + 1 and "'=gold" in {line[4] for line in lines}
    for line, (_, change) in zip(lines[1:], changes.iterrows(), strict=True):
        for cell, value in zip(line, change, strict=True):
            if isinstance(value, str):
                assert cell[:1] not in ("=", "+", "-", "@", "\t", "\r") and bare_text(cell) == value
            else:
                assert cell == str(value)  # numbers stay numbers


def test_plans_as_csv_hold_no_formula(desk):
    folder = desk[0]
    actions = "actions:\n - {name: '=Save', label: '=repay', effect: [{shift: debt}], cost: 1}\n"
    (folder / "evil.yaml").write_text(actions)
    files = ["--model", folder / "model.joblib", "--schema", folder / "schema.yaml", "--actions", folder / "evil.yaml"]
    done = turnabout("plan", folder / "people.csv", *files, "--max-steps", 1, "--format", "csv")
    assert done.returncode == 0, done.stderr
    lines = list(csv.reader(io.StringIO(done.stdout)))
    assert len(lines) > 3 and {line[3] for line in lines[1:]} == {"'=Save"}


@given(
    st.lists(st.text(max_size=6) | st.sampled_from(["=x", "'=x", "''-", "-5", "a\rb", "\n"]), min_size=1, max_size=6)
)
def test_marked_texts_are_read_back(texts):
    text = spreadsheet_csv(pd.DataFrame({"=x": texts, "n": -5.5, "t": pd.Timedelta(-1)}))
    header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert header == ["'=x", "n", "t"] and [bare_text(row[0]) for row in rows] == texts
    assert not any(row[0].startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for row in rows)
    assert all(row[1] == "-5.5" and row[2].startswith("'-1 days") for row in rows)


def test_one_column_of_gaps_keeps_its_rows():
    assert spreadsheet_csv(pd.DataFrame({"x": ["a", None, ""]})) == 'x\na\n""\n""\n'


FILES = ["--model", "{d}/model.joblib", "--schema", "{d}/schema.yaml"]
OUTPUTS = {
    "explain": (["explain", "{d}/people.csv", *FILES], "--out"),
    "audit": (["audit", "{d}/train.csv", *FILES, "--labels", "good"], "--out"),
    "train": (["train", "{d}/train.csv", *FILES[2:], "--label", "good"], "--out"),
    "certificate": (["train", "{d}/train.csv", *FILES[2:], "--label", "good", "--out", "{d}/new"], "--certificate"),
    "plan": (["plan", "{d}/people.csv", *FILES, "--actions", "x.yaml"], "--picture"),
}


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("{d}/absent/report", "is not there"),
        ("{d}/people.csv/report", ""),
        ("/proc/report", "cannot be written"),  # nobody may write there, not even root
        ("{d}/" + "x" * 300, "cannot be written"),
    ],
)
def test_what_cannot_be_written_is_told_before_the_work(desk, name, place, text, monkeypatch):
    command, option = OUTPUTS[name]
    if place.startswith("/proc") and not os.path.isdir("/proc/self"):
        pytest.skip("no such folder here")
    if option == "--picture" and "absent" in place:
        pytest.skip("folders for pictures are made")
    folder = desk[0]
    monkeypatch.setattr("turnabout.cli.named_files.open_table", lambda path: pytest.fail("the work has begun"))
    monkeypatch.setattr("turnabout.cli.posed_question.open_table", lambda path: pytest.fail("the work has begun"))
    before = sorted(path.name for path in folder.iterdir())
    done = turnabout(*(part.format(d=folder) for part in command), option, place.format(d=folder))
    assert done.returncode == 2 and text in done.told and option in done.told, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == before and not done.stdout


def test_a_report_has_a_name(desk):
    folder = desk[0]
    files = [part.format(d=folder) for part in FILES]
    for place in (folder, "", "."):
        done = turnabout("explain", folder / "people.csv", *files, "--out", place)
        assert done.returncode == 2 and "is a folder; name the report in it" in done.told


def test_a_trial_leaves_files_as_they_were(tmp_path):
    (tmp_path / "old.json").write_text("kept")
    check_files(out=tmp_path / "old.json", certificate=tmp_path / "new.json")
    check_folder("picture", tmp_path / "a" / "b")
    assert (tmp_path / "old.json").read_text() == "kept" and [p.name for p in tmp_path.iterdir()] == ["old.json"]
    (tmp_path / "link").symlink_to(tmp_path / "nowhere.json")
    check_files(out=tmp_path / "link")
    assert not (tmp_path / "nowhere.json").exists() and (tmp_path / "link").is_symlink()
    check_files(out=Path(os.devnull))
    with pytest.raises(typer.BadParameter, match="two files have the same name"):
        check_files(out=tmp_path / "x", certificate=tmp_path / "x")
    with pytest.raises(typer.BadParameter, match="is a folder"):
        check_files(out=tmp_path)
    with pytest.raises(typer.BadParameter, match="is not a folder"):
        check_folder("picture", tmp_path / "old.json")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind root")
def test_permissions_are_told(tmp_path):
    (tmp_path / "shut").mkdir(mode=0o500)
    with pytest.raises(typer.BadParameter, match="Permission denied"):
        check_files(out=tmp_path / "shut" / "x.json")
    with pytest.raises(typer.BadParameter, match="Permission denied"):
        check_folder("picture", tmp_path / "shut" / "new")


def test_a_stdout_that_takes_nothing_is_told():
    if not os.path.exists("/dev/full"):
        pytest.skip("no such device here")
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "turnabout.cli", "methods"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 1 and "No space left" in done.stderr and "Traceback" not in done.stderr


# -- whatever is given ----------------------------------------------------------------------------------------------

BAD_TABLES = {
    "empty.csv": (b"", 2, "is empty"),
    "latin.csv": ("zip\nMünchen\n".encode("latin-1"), 2, "not UTF-8"),
    "semicolons.csv": (b"zip;plan\n1;2\n", 2, "separated by semicolons"),
    "twice.csv": (b"zip,zip\n1,2\n", 2, "more than one column 'zip'"),
    "ragged.csv": (b"zip,plan\n1\n", 2, "has 1 cells"),
    "deep.json": (b"[" * 100_000, 2, "nested too deeply"),
    "torn.json": (b"{", 2, "is not JSON"),
    "torn.parquet": (b"PAR1", 2, "is not a parquet file"),
    "sheet.xlsx": (b"PK", 2, "save it as CSV"),
    "other.csv": (b"x,y\n1,2\n", 1, "no column 'zip'"),
}
BAD_SCHEMAS = {
    "torn.yaml": (b"features: [", "not valid YAML"),
    "deep.yaml": (b"[" * 1000, "nested too deeply"),
    "deep.json": (b'{"a":' * 50_000, "nested too deeply"),
    "bomb.yaml": (BOMB.encode(), "aliases"),
    "twice.yaml": (b"features: []\nfeatures: []", "stands twice"),
    "latin.yaml": (b"\xff\xfe", "cannot be read"),
    "actions.yaml": (b"actions: []", "it has no list 'features'"),
    "number.yaml": (b"features: 3", "it has no list 'features'"),
    "future.yaml": (b"turnabout_schema: 99\nfeatures: []", "version 99"),
}
BAD_MODELS = {
    "junk.joblib": b"\x80\x04junk",
    "void.joblib": b"",
    "module.joblib": b"cnosuchmodule\nThing\n.",
    "leave.joblib": b"csys\nexit\n(I3\ntR.",
}


def told(done, code, text):
    assert done.returncode == code, done.stderr
    assert text in done.told and not done.stdout, done.told


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_are_told(desk, name, tmp_path):
    content, code, text = BAD_TABLES[name]
    (tmp_path / name).write_bytes(content)
    folder = desk[0]
    files = ["--model", folder / "model.joblib", "--schema", folder / "schema.yaml"]
    told(turnabout("find", tmp_path / name, *files), code, text)
    told(turnabout("find", folder / "people.csv", *files, "--background", tmp_path / name), code, text)
    if name != "other.csv":
        told(turnabout("calibrate", tmp_path / name, *files), code, text)
        told(turnabout("schema", "infer", tmp_path / name), code, text)
        told(turnabout("audit", tmp_path / name, *files, "--labels", "good"), code, text)


@pytest.mark.parametrize("name", BAD_SCHEMAS)
def test_bad_schemas_are_told(desk, name, tmp_path):
    content, text = BAD_SCHEMAS[name]
    (tmp_path / name).write_bytes(content)
    folder = desk[0]
    told(
        turnabout("find", folder / "people.csv", "--model", folder / "model.joblib", "--schema", tmp_path / name),
        1,
        text,
    )
    told(turnabout("actions", "draft", "--schema", tmp_path / name), 1, text)


@pytest.mark.parametrize("name", BAD_MODELS)
def test_bad_models_are_told(desk, name, tmp_path):
    (tmp_path / name).write_bytes(BAD_MODELS[name])
    folder = desk[0]
    told(turnabout("find", folder / "people.csv", "--model", tmp_path / name), 2, "cannot be loaded as a model")


def test_warnings_are_told_without_their_place_in_the_code(desk):
    folder = desk[0]
    files = ["--model", folder / "model.joblib", "--schema", folder / "schema.yaml"]
    done = turnabout("find", folder / "people.csv", *files)
    assert "warning: column 'income' holds" in done.told and "UserWarning" not in done.stderr
