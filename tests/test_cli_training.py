"""`turnabout train` and `turnabout calibrate`: models that grant recourse, and promises that hold."""

from __future__ import annotations

import json
import re

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import turnabout as ta
from command_line import turnabout
from turnabout.train import Certificate, Pare

SCHEMA = ta.Schema(
    (
        ta.Number("hours", 0, 80, step=1),
        ta.Number("education", 0, 20, step=1, moves="up"),
        ta.Number("debt", 0, 60, step=0.5),
        ta.Number("savings", 0, 60, step=0.5),
        ta.Number("age", 18, 100, step=1, moves="fixed"),
        ta.Category("sex", ("f", "m"), "fixed"),
    )
)
NUMBERS = ["debt", "hours", "education", "savings", "age"]  # in another order than the schema's
LOOSE = ["--epsilon", "0.2", "--alpha", "0.1"]


def applicants(n, seed, older=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "hours": rng.integers(5, 60, n),
            "education": rng.integers(1, 16, n),
            "debt": rng.integers(0, 100, n) / 2,
            "savings": rng.integers(0, 100, n) / 2,
            "age": rng.integers(18, 80, n) + older,
            "sex": rng.choice(["f", "m"], n),
        }
    )
    merit = table.hours / 10 + table.education / 3 - table.debt / 20 + rng.normal(0, 0.5, n)
    return table.assign(accepted=np.where(merit > 5, "good", "bad"), one=1, yes=(merit > 5).astype(int))


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Files as a user would have them."""
    folder = tmp_path_factory.mktemp("desk")
    SCHEMA.save(folder / "schema.yaml")
    people = applicants(300, 0)
    people.to_csv(folder / "people.csv", index=False)
    people.head(90).to_csv(folder / "few.csv", index=False)
    people.assign(accepted=people.accepted.mask(people.index == 3)).to_csv(folder / "gaps.csv", index=False)
    applicants(150, 1).to_csv(folder / "fresh.csv", index=False)
    applicants(150, 2, older=20).to_csv(folder / "older.csv", index=False)
    deciders = {
        "logistic": LogisticRegression(max_iter=3000),
        "forest": RandomForestClassifier(10, max_depth=4, random_state=0),
        "neighbours": KNeighborsClassifier(5),
        "vectors": LinearSVC(),
    }
    for name, decider in deciders.items():
        joblib.dump(decider.fit(people[NUMBERS], people.accepted), folder / f"{name}.joblib")
    return folder


@pytest.fixture(scope="module")
def trained(desk):
    """A network as the command line trains it, and what it said."""
    out = ["--out", desk / "model.joblib", "--certificate", desk / "certificate.json", "--json"]
    done = turnabout(*training(desk), "--yes", "good", "--reach", "hours=9", "--reach", "education=2", *out)
    assert done.returncode == 0, done.stderr
    return done


def training(desk, people="people.csv", label="accepted"):
    base = ["train", desk / people, "--label", label, "--schema", desk / "schema.yaml"]
    return [*base, "--epochs", 3, "--lam", 0.8, *LOOSE]


def calibrating(desk, model="model", people="fresh.csv", schema="schema.yaml"):
    return ["calibrate", desk / people, "--model", desk / f"{model}.joblib", "--schema", desk / schema, *LOOSE]


# -- train --------------------------------------------------------------------------------------------------------


def test_train_writes_a_model_with_a_promise_and_tells_how_it_does(desk, trained):
    told = json.loads(trained.stdout)
    assert told["people"] == {"train": 210, "calibration": 45, "test": 45}
    assert told["region"]["reach"] == {"hours": 9.0, "education": 2.0}
    certificate = Certificate.from_json((desk / "certificate.json").read_text())
    assert certificate == Certificate.from_dict(told["certificate"])
    assert certificate.n == 45 and certificate.permits(told["threshold"]) and certificate.made_by == "Pare.attain"
    model = joblib.load(desk / "model.joblib")
    assert isinstance(model, Pare) and model.threshold == told["threshold"] and model.lam == 0.8 and model.epochs == 3
    for line, (lam, certified) in zip(told["test"], [(0.8, True), (0.0, True), (0.0, False)], strict=True):
        assert (line["lam"], line["certified"]) == (lam, certified)
        for name in ("accuracy", "refused", "recourse_all"):
            rate = line[name]
            assert rate["n"] == 45 and rate["low"] <= rate["value"] <= rate["high"]
        assert line["recourse_refused"]["n"] == round(line["refused"]["hits"])
    assert "45 test people" in trained.stderr and str(certificate)[:60] in trained.told
    assert all(words in trained.stderr for words in ("trained for", "ordinary, no", "recourse among", "accuracy"))


def test_the_numbers_are_those_of_people_who_took_no_part(desk, trained):
    told, model = json.loads(trained.stdout), joblib.load(desk / "model.joblib")
    people = pd.read_csv(desk / "people.csv")
    order = np.random.default_rng(0).permutation(300)
    calibration, test = people.iloc[np.sort(order[210:255])], people.iloc[np.sort(order[255:])]
    assert model.trained_on_.share(SCHEMA.encode(people), people.index) == pytest.approx(210 / 300)
    assert model.score(test, test.accepted == "good") == pytest.approx(told["test"][0]["accuracy"]["value"])
    best = np.maximum(model.score_of(calibration), model.score_of(model.attain(calibration)))
    assert Certificate.from_dict(told["certificate"]).check(best)


def test_find_and_calibrate_take_what_train_wrote(desk, trained):
    threshold = json.loads(trained.stdout)["threshold"]
    done = turnabout("find", desk / "fresh.csv", "--model", desk / "model.joblib", "--schema", desk / "schema.yaml")
    assert done.returncode == 0, done.stderr
    answer, model = ta.Recourse.from_json(done.stdout), joblib.load(desk / "model.joblib")
    fresh = pd.read_csv(desk / "fresh.csv")
    assert ((answer.status == "ACCEPTED").to_numpy() == model.predict(fresh)).all()
    assert len(answer.options) and model.predict(answer.options).all()
    done = turnabout("calibrate", desk / "fresh.csv", "--model", desk / "model.joblib", *LOOSE)  # knows its schema
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("With 90 % confidence over the draw of 150 calibration people, at least 80 %")
    assert "Pare.attain" in done.stdout and f"The model says yes from {threshold:g} on" in done.told


def test_train_prints_numbers_that_agree(trained):
    bound = float(re.search(r"threshold is at most ([\d.]+) ", trained.told)[1])
    used = float(re.search(r"it says yes from ([\d.]+) on", trained.told)[1])
    assert used <= bound and used == json.loads(trained.stdout)["threshold"]


def test_whether_a_promise_is_made_at_the_models_own_threshold(desk, trained, tmp_path):
    def told(threshold, *more):
        model = joblib.load(desk / "model.joblib")
        model.threshold = threshold
        joblib.dump(model, tmp_path / "model.joblib")
        done = turnabout("calibrate", desk / "fresh.csv", "--model", tmp_path / "model.joblib", *LOOSE, *more)
        assert done.returncode == 0, done.stderr
        return done.told

    assert "says yes from 0.01 on: there, this promise holds." in told(0.01)
    assert "says yes from 0.999 on: this promise is not made there." in told(0.999)
    groups = ["--group", "sex"]
    promise = Certificate.from_json(
        turnabout("calibrate", desk / "fresh.csv", "--model", desk / "model.joblib", *LOOSE, *groups, "--json").stdout
    )
    low, high = sorted(promise.by_group, key=lambda label: promise.by_group[label].threshold)
    between = np.mean([part.threshold for part in promise.by_group.values()])
    assert f"there, this promise holds for {high!r} and is not made for {low!r}." in told(float(between), *groups)
    assert "this promise is not made there." in told(0.999, *groups)


def test_another_librarys_threshold_is_no_cut_of_probabilities(desk):
    people = pd.read_csv(desk / "people.csv")
    fixed = FixedThresholdClassifier(
        LogisticRegression(max_iter=5000), threshold=0.0, response_method="decision_function"
    )
    joblib.dump(fixed.fit(people[NUMBERS], people.accepted), desk / "fixed.joblib")
    done = turnabout(*calibrating(desk, "fixed"), "--reach", "hours=9")
    assert done.returncode == 0 and "says yes from" not in done.told, done.stderr


def test_a_wider_reach_promises_more(desk, trained):
    promised = [
        json.loads(turnabout(*calibrating(desk), *reach, "--json").stdout)["threshold"]
        for reach in (["--reach", "hours=0", "--reach", "education=1"], ["--reach", "hours=40"])
    ]
    assert promised[0] < promised[1]


def test_same_seed_same_model(desk, tmp_path):
    base = [*training(desk, "few.csv", "yes"), "--deviations", 0.5, "--reach", "debt=0", "--seed", 3, "--json"]
    first, second = (turnabout(*base, "--out", tmp_path / f"{name}.joblib") for name in "ab")
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    a, b = (joblib.load(tmp_path / f"{name}.joblib") for name in "ab")
    assert all(torch.equal(p, q) for p, q in zip(a.module_.parameters(), b.module_.parameters(), strict=True))
    reach = json.loads(first.stdout)["region"]["reach"]
    order = np.random.default_rng(3).permutation(90)
    train = pd.read_csv(desk / "few.csv").iloc[order[:64]]
    assert set(reach) == {"hours", "education", "debt", "savings"} and reach["debt"] == 0
    assert reach["hours"] == pytest.approx(0.5 * train.hours.std())


def test_without_a_reach_the_schema_decides_and_stdin_is_read(desk, tmp_path):
    text = (desk / "people.csv").read_text()
    base = ["--label", "yes", "--schema", desk / "schema.yaml", "--epochs", 1, *LOOSE, "--out", tmp_path / "m.joblib"]
    done = turnabout("train", "-", *base, stdin=text)
    assert done.returncode == 0 and not done.stdout, done.stderr
    assert joblib.load(tmp_path / "m.joblib").region is None


def test_trees_are_trained_too(desk, tmp_path):
    out = ["--out", tmp_path / "trees.joblib", "--json"]
    done = turnabout(*training(desk, "few.csv"), "--yes", "good", "--trees", "--reach", "hours=9", "--epochs", 1, *out)
    assert done.returncode == 0, done.stderr
    told, model = json.loads(done.stdout), joblib.load(tmp_path / "trees.joblib")
    assert told["certificate"]["made_by"] == "GrantingTrees.attain" and model.threshold == told["threshold"]
    done = turnabout("find", desk / "few.csv", "--model", tmp_path / "trees.joblib", "--schema", desk / "schema.yaml")
    assert done.returncode == 0, done.stderr
    answer = ta.Recourse.from_json(done.stdout)
    assert ((answer.status == "ACCEPTED").to_numpy() == model.predict(pd.read_csv(desk / "few.csv"))).all()


@pytest.mark.parametrize(
    ("changed", "more", "code", "text"),
    [
        ({"label": "granted"}, [], 2, "no column 'granted'"),
        ({"label": "age"}, [], 2, "'age' is also a feature of the schema"),
        ({}, [], 2, "'accepted' holds bad, good; say which of them is the favourable one"),
        ({}, ["--yes", "great"], 2, "'accepted' has no value 'great'; it holds bad, good"),
        ({"label": "one"}, [], 2, "all 300 people have one = 1"),
        ({"people": "gaps.csv"}, ["--yes", "good"], 2, "1 people have no 'accepted'"),
        ({"people": "absent.csv"}, [], 2, "there is no file"),
        ({"label": "yes"}, ["--reach", "wealth=3"], 2, "the schema has no column 'wealth'"),
        ({"label": "yes"}, ["--reach", "hours"], 2, "'hours' is not NAME=NUMBER, like hours=9"),
        ({"label": "yes"}, ["--reach", "hours=lots"], 2, "'hours=lots' is not NAME=NUMBER"),
        ({"label": "yes"}, ["--reach", "age=3"], 2, "the schema holds 'age' fixed"),
        ({"label": "yes"}, ["--reach", "hours=-3"], 1, "the reach of 'hours' in a Box is -3.0"),
        ({"label": "yes"}, ["--reach", "hours=0"], 2, "nothing may move"),
        ({"label": "yes"}, ["--trees"], 2, "4 columns may move (hours, education, debt, savings). Trees have no slope"),
        ({"label": "yes"}, ["--lam", "-1"], 1, "lam=-1.0, which is not a number from 0 up"),
        ({"label": "yes"}, ["--certificate", "absent/c.json"], 2, "lies in a folder that is not there"),
        ({"label": "yes"}, ["--out", "{desk}"], 2, "is a folder"),
    ],
)  # fmt: skip
def test_misuse_of_train_is_told(desk, tmp_path, changed, more, code, text):
    more = [argument.format(desk=desk) for argument in more]
    done = turnabout(*training(desk, **changed), "--out", tmp_path / "m.joblib", *more)
    assert done.returncode == code, done.stderr
    assert text in done.told and not done.stdout and "Traceback" not in done.stderr
    assert not (tmp_path / "m.joblib").exists()


def test_too_few_people_are_told_how_many_are_needed(desk, tmp_path):
    arguments = [*training(desk, "few.csv", "yes"), "--epsilon", 0.05, "--alpha", 0.05, "--out", tmp_path / "m.joblib"]
    done = turnabout(*arguments)
    assert done.returncode == 1 and not done.stdout
    assert "90 people are too few for epsilon=0.05 and alpha=0.05: 15 % of them calibrate" in done.told
    assert "which makes 13, and 59 are needed. Hint: bring at least 394 people" in done.told


# -- calibrate ----------------------------------------------------------------------------------------------------


def test_any_classifier_is_calibrated_by_its_best_row(desk):
    fresh = pd.read_csv(desk / "fresh.csv")
    tried = [fresh.assign(hours=(fresh.hours + change).clip(0, 80)) for change in range(-9, 10)]
    for name in ("logistic", "forest"):
        done = turnabout(*calibrating(desk, name), "--reach", "hours=9", "--json")
        assert done.returncode == 0, done.stderr
        certificate, model = Certificate.from_json(done.stdout), joblib.load(desk / f"{name}.joblib")
        assert certificate.threshold > 0
        best = np.max([model.predict_proba(rows[NUMBERS])[:, 1] for rows in tried], axis=0)  # all there are
        assert certificate.threshold == pytest.approx(np.partition(best, certificate.k)[certificate.k], abs=1e-9)
    assert certificate.made_by == "the best change that CellSearch finds (hours changes by at most 9)"


def test_models_that_cannot_be_looked_into_are_tried_on_a_grid(desk):
    done = turnabout(*calibrating(desk, "neighbours"), "--reach", "hours=30")
    assert done.returncode == 0 and "the best change that CellSearch finds" in done.stdout, done.stderr
    done = turnabout(*calibrating(desk, "neighbours"), "--reach", "savings=1", "--epsilon", 0.05)
    assert done.returncode == 0 and "a threshold of 0 accepts everyone" in done.told, done.stderr


def test_the_other_class_may_be_the_yes(desk):
    fresh, model = pd.read_csv(desk / "fresh.csv"), joblib.load(desk / "logistic.joblib")
    rows = fresh.assign(hours=(fresh.hours - 9).clip(0, 80))  # the fewer, the likelier is "bad"
    best = model.predict_proba(rows[NUMBERS])[:, 0]
    done = turnabout(*calibrating(desk, "logistic"), "--reach", "hours=9", "--target", "bad", "--json")
    certificate = Certificate.from_json(done.stdout)
    assert certificate.threshold == pytest.approx(np.partition(best, certificate.k)[certificate.k], abs=1e-9)


def test_groups_get_thresholds_of_their_own_and_shifts_are_warned_of(desk):
    reach = ["--deviations", 1, "--trained-on", desk / "people.csv"]
    done = turnabout(*calibrating(desk, "logistic"), *reach, "--group", "sex", "--used-on", desk / "older.csv")
    assert done.returncode == 0, done.stderr
    assert "in each group" in done.stdout and "for 'f' and" in done.stdout and "for 'm'" in done.stdout
    assert "warning: the guarantee holds for people like those calibrated on" in done.told
    assert "1 of 6 columns shifted: 'age' by" in done.told and "shifted" not in done.stdout


@pytest.mark.parametrize(
    ("changed", "more", "code", "text"),
    [
        ({"model": "absent"}, [], 2, "there is no file"),
        ({"model": "vectors"}, [], 2, "LinearSVC gives no probabilities"),
        ({"model": "forest"}, [], 2, "The model has no slope to follow, so that all rows within reach are tried"),
        ({"model": "logistic"}, ["--deviations", 1], 2, "give them by --trained-on"),
        ({"model": "logistic"}, ["--group", "race"], 2, "no column 'race'"),
        ({"model": "logistic"}, ["--epsilon", "0.01"], 1, "150 calibration people are too few"),
        ({"model": "logistic", "people": "people.csv"}, ["--trained-on", "{desk}/people.csv"], 1, "were trained on"),
        ({"model": "logistic"}, ["--target", "great"], 2, "no class 'great'"),
        ({"people": "people.csv"}, [], 1, "the calibration people were trained on: 210 of 300 rows"),
        ({"schema": "other.yaml"}, [], 2, "trained with another schema"),
        ({}, ["--target", "False"], 2, "was trained to grant its yes"),
    ],
)
def test_misuse_of_calibrate_is_told(desk, trained, changed, more, code, text):
    ta.Schema(SCHEMA.features[:-1]).save(desk / "other.yaml")
    done = turnabout(*calibrating(desk, **changed), *(str(a).format(desk=desk) for a in more))
    assert done.returncode == code, done.stderr
    assert text in done.told and not done.stdout and "Traceback" not in done.stderr


def test_a_model_that_knows_no_schema_is_given_one(desk):
    done = turnabout("calibrate", desk / "fresh.csv", "--model", desk / "forest.joblib")
    assert done.returncode == 2 and "RandomForestClassifier does not know its schema" in done.told


def test_find_keeps_to_the_region_the_model_was_trained_with(desk, trained):
    """Without --schema and --reach; with --reach the person's own limits count."""
    done = turnabout("find", desk / "fresh.csv", "--model", desk / "model.joblib")
    answer = ta.Recourse.from_json(done.stdout)
    assert done.returncode == 0 and len(answer.options)
    moved = answer.changes()
    assert set(moved["feature"]) <= {"hours", "education"}
    done = turnabout("find", desk / "fresh.csv", "--model", desk / "model.joblib", "--reach", "debt=20")
    assert set(ta.Recourse.from_json(done.stdout).changes()["feature"]) <= {"debt"}
    done = turnabout("find", desk / "fresh.csv", "--model", desk / "logistic.joblib", "--reach", "debt=20")
    assert done.returncode == 2 and "it names columns of a schema" in done.told
