"""Options before retrained models: counts by hand, the guarantee by simulation, German credit, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import turnabout as ta
from hand import SCHEMA, Raise, linear, table
from turnabout.audit.promises.refit import Refit
from turnabout.audit.promises.retrain import _over_models, after_retraining
from turnabout.audit.promises.training_sets import Bootstrap, DatasetShift, Dropped, Jittered, LeaveOut, Newer, Retrain
from turnabout.audit.promises.validity import validity_of_counts
from turnabout.errors import AuditError
from turnabout.intervals import Rate, lower_bound
from turnabout.rules import Box


class FirstYes(ClassifierMixin, BaseEstimator):
    """Says yes from the lowest income that was accepted in training."""

    def fit(self, people, labels):
        self.classes_ = np.array([False, True])
        self.cut_ = people["income"][np.asarray(labels, dtype=bool)].min()
        return self

    def predict_proba(self, people):
        yes = (people["income"] >= self.cut_).to_numpy(dtype=float) * 0.8 + 0.1
        return np.column_stack([1 - yes, yes])

    def predict(self, people):
        return self.predict_proba(people)[:, 1] >= 0.5


TRAINING = table([30, 42, 50, 60], 0)
LABELS = np.array([False, True, True, True])


@pytest.fixture(scope="module")
def case():
    model = ta.models.wrap(FirstYes().fit(TRAINING, LABELS), SCHEMA, threshold=0.5)
    problem = ta.Problem(SCHEMA, model, rules=[Box({"income": 20})])
    answer = Raise(by=20.0).fit(problem).find(table([40, 35, 10, 55], 0, index=list("abcd")))
    assert answer.options["income"].tolist() == [42, 42]
    return problem, answer


def retrained(case, **changes):
    arguments = {"estimator": FirstYes(), "people": TRAINING, "labels": LABELS, "threshold": 0.5} | changes
    return after_retraining(*case, **arguments)


def test_leave_one_out_by_hand(case):
    # without 30 one class is left: passed over. Without 42 the cut is 50; without 50 or 60 it stays 42: 2 of 3.
    report = retrained(case, retrain=LeaveOut(models=None), groups=["x", "y", "x", "y"])
    assert (report.models, report.single_class, report.complete) == (3, 1, False)
    assert report.options["accepts"].tolist() == [2, 2]
    assert (report.options["share"] == 2 / 3).all() and (report.options["credible_low"] < 2 / 3).all()
    assert not report.options["robust"].any() and report.robust == Rate.of(0, 2)
    assert report.kept.value == pytest.approx(2 / 3) and report.kept.n == 2
    assert report.over_models.low < 2 / 3 < report.over_models.high  # one set is missing
    assert report.by_group["x"].n == 1 and report.by_group["x"].value == pytest.approx(2 / 3)
    assert report.reproduced.value == 1.0


# one more refused: each person can leave, and without 42 the cut is 50
MORE = {"people": table([20, 30, 42, 50, 60], 0), "labels": np.array([False, False, True, True, True])}


def test_all_sets_there_are(case):
    report = retrained(case, retrain=LeaveOut(models=None), **MORE)
    assert (report.models, report.single_class, report.complete) == (5, 0, True)
    assert (report.options[["share", "credible_low", "exact_low"]] == 0.8).all(axis=None)
    assert (report.over_models.low, report.over_models.high) == (report.over_models.value,) * 2
    assert "all there are" in str(report) and not report.options["robust"].any()
    assert retrained(case, retrain=LeaveOut(models=None), validity=0.7, **MORE).options["robust"].all()
    assert retrained(case, retrain=LeaveOut(models=5), **MORE).complete
    assert not retrained(case, retrain=LeaveOut(models=4), **MORE).complete


class Undecided(FirstYes):
    """Adds to its cut by chance."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, people, labels):
        super().fit(people, labels)
        self.cut_ += np.random.default_rng(self.random_state).integers(0, 2)
        return self


@pytest.mark.parametrize("retrain", [LeaveOut(models=None), Newer(*MORE.values())], ids=["leave out", "newer"])
def test_random_training_is_never_complete(case, retrain):
    for estimator in (Undecided(), make_pipeline("passthrough", Undecided())):
        loose = retrained(case, retrain=retrain, estimator=estimator, **MORE)
        assert not loose.complete and "all there are" not in str(loose)
        if loose.models == 1:  # of how many others would say the same, one model tells nothing
            assert (loose.over_models.low, loose.over_models.high) == (None, None)
        else:
            assert loose.over_models.low < loose.over_models.value <= loose.over_models.high
    fixed = retrained(case, retrain=retrain, estimator=make_pipeline("passthrough", Undecided(random_state=3)), **MORE)
    assert fixed.complete


@pytest.mark.parametrize(("shuffle", "is_random"), [(True, True), (False, False)])
def test_a_splitter_may_be_random_too(case, shuffle, is_random):
    parts = StratifiedKFold(3, shuffle=shuffle)
    estimator = GridSearchCV(LogisticRegression(random_state=0), {"C": [1.0]}, cv=parts)
    assert Refit(case[0], estimator, lambda fitted: fitted).is_random is is_random


def test_bootstrap_finds_the_chance_that_a_row_is_drawn(case):
    # 42 is accepted if row 42 is in the sample: 1 - (3/4)^4, given that 30 (the only no) is; redrawn otherwise
    report = retrained(case, retrain=Bootstrap(models=100), seed=1)
    both = 1 - 2 * (3 / 4) ** 4 + (2 / 4) ** 4
    no_is_in = 1 - (3 / 4) ** 4 - (1 / 4) ** 4  # and somebody accepted
    truth = both / no_is_in
    assert report.options["share"].iloc[0] == pytest.approx(truth, abs=0.1)
    assert report.single_class > 0 and report.models == 100 and not report.complete
    assert (report.over_models.low < truth) and (truth < report.over_models.high)
    one, same, other = (retrained(case, retrain=Bootstrap(models=20), seed=seed).options for seed in (1, 1, 2))
    assert one.equals(same) and not one.equals(other)


def test_newer_people(case):
    newer = Newer(table([30, 41, 50], 0), [False, True, True])
    report = retrained(case, retrain=newer)
    assert report.models == 1 and report.complete and report.kept.value == 1.0 and report.options["robust"].all()
    assert retrained(case, retrain=Newer(table([30, 45, 50], 0), [False, True, True])).kept.value == 0.0
    assert retrained(case, retrain=Newer(table([30, 41, 50], 0), [False, True, True], models=5)).models == 5


def test_shifted_people(case):
    gone = retrained(case, retrain=DatasetShift(Dropped("income", 42, 1.0), models=5))
    assert gone.kept.value == 0.0  # the cut is 50 or more without row 42
    sure = retrained(case, retrain=DatasetShift([1, 50, 0, 0], models=3))
    assert sure.kept.value == 1.0 and "weights=of 4 people" in sure.retrain
    richer = retrained(case, retrain=DatasetShift(change=lambda t, rng: t.assign(income=t["income"] + 5), models=5))
    assert richer.kept.value == 0.0
    noisy = retrained(case, retrain=DatasetShift(change=Jittered({"income": 0.5}), models=12))
    assert 0.0 < noisy.kept.value < 1.0


def test_leave_out_several(case):
    report = retrained(case, retrain=LeaveOut(k=2, models=60))
    # of 6 pairs to leave, 3 take the only no; of the other 3, those with row 42 are 2: kept in 1 of 3
    assert report.models == 60 and report.kept.value == pytest.approx(1 / 3, abs=0.2)


def test_progress_and_words(case):
    calls = []
    report = retrained(
        case, retrain=Bootstrap(3), progress=lambda done, of: calls.append((done, of)), groups=list("xyxy")
    )
    assert calls == [(1, 3), (2, 3), (3, 3)]
    assert "Bootstrap(models=3)" in str(report) and "robust, with a validity of 0.9" in str(report)
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert (
        document["models"] == 3
        and document["options"]["person"] == ["a", "b"]
        and set(document["by_group"]) == {"x", "y"}
    )
    assert list(report.to_frame().columns[:2]) == ["person", "option"]
    single = str(retrained(case, retrain=LeaveOut(models=None)))
    assert "1 samples of a single class were passed over" in single and "all there are" not in single


def test_nobody_found(case):
    problem, _ = case
    answer = Raise().fit(problem).find(table([20, 10], 0))
    report = retrained((problem, answer), retrain=Bootstrap(2))
    assert report.kept.value is None and report.over_models.value is None and len(report.options) == 0
    json.dumps(report.to_dict(), allow_nan=False)


def test_a_level_that_a_sample_lacks_is_no_answer():
    people = pd.DataFrame({"income": [10, 20, 40, 50], "debt": 0, "sex": ["f", "f", "f", "m"]})
    labels = np.array([False, False, True, True])
    strict = make_column_transformer((OneHotEncoder(), ["sex"]), ("passthrough", ["income", "debt"]))
    estimator = make_pipeline(strict, LogisticRegression())
    problem = ta.Problem(SCHEMA, ta.models.wrap(estimator.fit(people, labels), SCHEMA))
    answer = Raise(by=60.0).fit(problem).find(table([5, 5], 0, ["f", "m"]))
    assert len(answer.options) == 2
    report = after_retraining(problem, answer, estimator, people, labels, retrain=LeaveOut(models=None))
    assert report.unanswered == 1 and "1 answers were not given" in str(report)  # nobody is m without the fourth row


# -- the guarantee --------------------------------------------------------------------------------------------


def test_beta_bernoulli_by_hand():
    known = validity_of_counts(30)
    assert known.loc[30, "credible_low"] == pytest.approx(0.05 ** (1 / 31))  # Beta(31, 1)
    assert known.loc[30, "exact_low"] == pytest.approx(0.05 ** (1 / 30)) == pytest.approx(lower_bound(30, 30))
    assert known.loc[30, "probability"] == pytest.approx(1 - 0.9**31)
    assert known.loc[0, "exact_low"] == 0.0 and known.loc[0, "probability"] == pytest.approx(0.1**31)
    assert known["robust"].tolist() == [False] * 30 + [True]
    assert validity_of_counts(30, prior=(5, 1)).loc[30, "credible_low"] == pytest.approx(0.05 ** (1 / 35))
    assert (known["exact_low"] < known["credible_low"]).all()  # Beta(k, m - k + 1) lies below Beta(k + 1, m - k + 1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0,), "models=0"),
        ((2.5,), "models=2.5"),
        ((3, 1.5), "validity=1.5"),
        ((3, 0.9, (0, 1)), "no Beta prior"),
        ((3, 0.9, (1, 1), 95), "confidence=95"),
    ],
)
def test_counts_that_make_no_sense(arguments, text):
    with pytest.raises(ta.TurnaboutError, match=text):
        validity_of_counts(*arguments)


def test_bounds_hold_as_often_as_they_say():
    rng = np.random.default_rng(0)
    known = validity_of_counts(30)
    theta = rng.random(1000)  # drawn from the prior
    low = known["credible_low"].to_numpy()[rng.binomial(30, theta)]
    assert 0.93 <= (low <= theta).mean() <= 0.97
    for fixed in (0.5, 0.9, 0.97):  # whatever the validity: at least 95 %, less chance
        low = known["exact_low"].to_numpy()[rng.binomial(30, fixed, 1000)]
        assert (low <= fixed).mean() >= 0.93


def test_interval_over_models_covers():
    rng = np.random.default_rng(1)
    piled_up = [
        (lambda: rng.beta(8, 4, 30), 8 / 12),
        (lambda: rng.beta(20, 1, 30), 20 / 21),
        (lambda: rng.binomial(5, rng.beta(40, 1, 30)) / 5, 40 / 41),  # five people before thirty models
        (lambda: (rng.random(100) < 0.97) * 1.0, 0.97),  # one person: Student's interval covers 84 %
    ]
    for draw, truth in piled_up:
        reports = [_over_models(draw(), False, 0.95) for _ in range(1000)]
        assert 0.92 <= np.mean([r.low <= truth <= r.high for r in reports]) <= 0.985
    agreed = _over_models(np.ones(30), False, 0.95)  # thirty that agree are no proof of all
    assert agreed.value == 1.0 and 0.85 < agreed.low < 0.9 and agreed.high == 1.0


def test_interval_over_people_covers_at_least():
    rng = np.random.default_rng(2)
    rates = [Rate.among(rng.binomial(30, rng.beta(4, 2, 60)) / 30) for _ in range(1000)]
    assert np.mean([r.low <= 4 / 6 <= r.high for r in rates]) >= 0.95  # shares vary less than yes and no


# -- German credit --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def german():
    data = ta.datasets.load("german")
    numbers = ["duration", "amount", "age"]
    levels = [name for name in data.people if name not in numbers]
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), levels), (StandardScaler(), numbers))
    estimator = make_pipeline(encode, LogisticRegression(max_iter=500))
    model = ta.models.wrap(estimator.fit(data.people, data.accepted), data.schema, threshold=0.7)
    problem = ta.Problem(data.schema, model, ta.costs.L1(), background=data.people, labels=data.accepted)
    return data, estimator, problem


def test_boundary_options_do_not_last_and_deeper_ones_do(german):
    data, estimator, problem = german
    people = data.people.iloc[:80]
    near = ta.methods.ExactLinear().fit(problem).find(people)
    strict = ta.models.wrap(estimator, data.schema, threshold=0.85)
    deep = ta.methods.ExactLinear().fit(ta.Problem(data.schema, strict, ta.costs.L1())).find(people)
    keep = {"people": deep.people.loc[near.people.index], "status": near.status}
    refused = near.status == ta.Status.FOUND
    options = deep.options[deep.options.index.get_level_values("person").isin(refused.index[refused])]
    deep = ta.Recourse(keep["people"], options, near.status, near.why, "deeper", 0.0)
    shares = []
    for answer in (near, deep):
        report = after_retraining(
            problem, answer, estimator, data.people, data.accepted, threshold=0.7, retrain=Bootstrap(4)
        )
        assert report.reproduced.value == 1.0
        shares.append(report.kept.value)
    assert shares[0] < 0.7 < 0.9 < shares[1]


def test_forests_without_a_random_state_repeat_by_the_seed(german):
    data = german[0]
    estimator = make_pipeline(german[1][0], RandomForestClassifier(n_estimators=5))
    rows = data.people.iloc[:150], data.accepted.iloc[:150]
    fitted = make_pipeline(german[1][0], RandomForestClassifier(n_estimators=5, random_state=0)).fit(*rows)
    problem = ta.Problem(data.schema, ta.models.wrap(fitted, data.schema))
    answer = (
        ta.methods.LocalSearch()
        .fit(ta.Problem(data.schema, problem.model, background=rows[0]))
        .find(data.people.iloc[150:170])
    )
    runs = [after_retraining(problem, answer, estimator, *rows, retrain=Bootstrap(2), seed=4) for _ in range(2)]
    assert runs[0].options.equals(runs[1].options) and len(runs[0].options)


# -- errors ---------------------------------------------------------------------------------------------------


class Silly(Retrain):
    def count(self, n):
        return 2

    def samples(self, people, labels, rng):
        while True:
            yield people, np.ones(len(people), dtype=bool)


def made(changes):
    """Arguments, of which some are refused when they are made."""
    return {name: value() if name == "retrain" and callable(value) else value for name, value in changes.items()}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"estimator": object()}, "cannot be trained again: it is no instance"),
        ({"estimator": FirstYes}, "cannot be trained again: it is no instance"),
        ({"estimator": LogisticRegression()}, "LogisticRegression cannot be trained again"),
        ({"threshold": 0.8}, "asks for another P"),
        ({"people": TRAINING.drop(columns="debt")}, "training people have no column 'debt'"),
        ({"labels": LABELS[1:]}, "3 labels for 4 training people"),
        ({"labels": [True] * 4}, "are all True"),
        ({"target": False}, "decides otherwise for 100% of people"),
        ({"labels": [True, False, None, True]}, "labels of the training people are missing"),
        ({"groups": ["x"]}, "1 group labels for 4 people"),
        ({"retrain": 30}, "retrain=30 is not a way"),
        ({"retrain": lambda: Bootstrap(0)}, "models=0"),
        ({"retrain": LeaveOut(k=4)}, "leave nobody"),
        ({"retrain": LeaveOut(k=2, models=None)}, "there are too many"),
        ({"retrain": lambda: LeaveOut(k=0)}, "k=0"),
        ({"retrain": DatasetShift([1, 2])}, "not one number from 0 up"),
        ({"retrain": DatasetShift([1, 2, 3, np.nan])}, "not one number from 0 up"),
        ({"retrain": DatasetShift("abcd")}, "not one number from 0 up"),
        ({"retrain": DatasetShift([0, 0, 0, 0])}, "not one number from 0 up"),
        ({"retrain": DatasetShift(change=lambda t, rng: t.head(1))}, "did not return a table of as many"),
        ({"retrain": DatasetShift(Dropped("wealth", 1, 0.5))}, "no column 'wealth'"),
        ({"retrain": DatasetShift(Dropped("income", 1, 0.5))}, "nobody has 'income' = 1"),
        ({"retrain": lambda: DatasetShift(Dropped("income", 42, 5))}, "share=5, which is not a number from 0 to 1"),
        ({"retrain": DatasetShift(change=Jittered({"sex": 1.0}))}, "no column of numbers"),
        ({"retrain": DatasetShift(change=Jittered({"income": -1.0}))}, "noise on 'income' is -1.0"),
        ({"retrain": Newer(TRAINING[["debt"]], LABELS)}, "newer people have no column"),
        ({"retrain": Silly()}, "hold one class only"),
        ({"validity": 1.0}, "validity=1.0"),
        ({"confidence": 0}, "confidence=0"),
        ({"prior": (0, 1)}, "no Beta prior"),
        ({"prior": 1}, "no Beta prior"),
        ({"seed": -1}, "seed=-1"),
        ({"wrap_as": lambda fitted: fitted}, "did not return a Model"),
    ],
)
def test_errors_say_what_to_do(case, changes, text):
    with pytest.raises(ta.TurnaboutError, match=text):
        retrained(case, **made(changes))


def test_answers_of_another_problem(case):
    other = ta.Problem(SCHEMA, linear((0.06, 0.0, 0.0), bias=-3.0))
    with pytest.raises(AuditError, match="one to another problem"):
        retrained((other, case[1]))


def test_one_class_left_by_all_sets(case):
    two = {"people": TRAINING.iloc[:2], "labels": LABELS[:2]}
    with pytest.raises(AuditError, match="left no training set with both classes"):
        retrained(case, retrain=LeaveOut(models=None), **two)


def test_groups_with_the_same_text(case):
    with pytest.raises(AuditError, match="two have the same text"):
        retrained(case, retrain=Bootstrap(1), groups=[1, "1", 1, "1"]).to_dict()
