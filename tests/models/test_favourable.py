"""Which class is a yes: names that read as a no raise a question, and so do labels that contradict the class."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import turnabout as ta
from turnabout.errors import ModelError, ProblemError
from turnabout.models import wrap
from turnabout.models.favourable import FEW, LabelAgreement, sense, some_of_each

RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame({"income": RNG.integers(10, 90, 200), "debt": RNG.integers(0, 60, 200)})
GOOD = (PEOPLE.income - PEOPLE.debt + RNG.normal(0, 8, 200) > 20).to_numpy()
SCHEMA = ta.Schema([ta.Number("income", low=0, high=120, step=1), ta.Number("debt", low=0, high=90, step=1)])


def fitted(no, yes, estimator=None):
    """A model that says `yes` to those who did well."""
    labels = np.array([yes if good else no for good in GOOD])
    return make_pipeline(StandardScaler(), estimator or LogisticRegression()).fit(PEOPLE, labels)


BAD = """
deny denied Denied DENIAL default Defaulted reject REJECTED refuse refused bad fraud churn churned no No N
decline declined fail failed loss False LoanDenied loan_denied late charge-off spam abgelehnt Nein refusé échec
rechazado negado não afgewezen rifiutato odrzucony нет отказано 拒绝 不通过 却下 거절
"""
BAD = [*BAD.split(), "not approved", "no loan", "Charged Off", "high risk", "default: yes", "approved=0", "not paid"]
GOOD_NAMES = """
approve approved Accepted good yes Y grant granted paid repaid hired admitted passed True genehmigt oui
aprobado одобрено 批准 승인
"""
GOOD_NAMES = [
    *GOOD_NAMES.split(),
    "no default",
    "non-default",
    "default: no",
    "default=0",
    "not fraud",
    "low risk",
    "Fully Paid",
]
NEITHER = [
    "A",
    "B",
    ">50K",
    "<=50K",
    "class 0",
    "0",
    "1",
    "",
    "--",
    "bank",
    "latent",
    "female",
    "group_2",
    "Denver",
    0,
    1,
]


@pytest.mark.parametrize("name", BAD)
def test_names_that_read_as_a_no(name):
    assert sense(name) == "bad"


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_names_that_read_as_a_yes(name):
    assert sense(name) == "good"


@pytest.mark.parametrize("name", NEITHER)
def test_names_that_say_neither(name):
    assert sense(name) is None


@pytest.mark.parametrize(
    ("yes", "no"),
    [("approve", "deny"), ("accepted", "rejected"), ("Paid", "default"), ("approved", "no"), ("good", "poor"),
     ("A", "bad"), ("approved", "pending"), ("ham", "spam")],
)  # fmt: skip
def test_a_second_class_that_reads_as_a_no_is_asked_about(yes, no):
    model = fitted(no, yes)
    if list(model.classes_) != [yes, no]:  # sorted by chance so that the second class is the good one
        model.steps[-1][1].classes_ = np.array([yes, no])
    with pytest.raises(ModelError, match=rf"'{no}' would be taken(.|\n)*target='{yes}'(.|\n)*--target {yes}"):
        wrap(model, SCHEMA)
    with pytest.raises(ModelError, match="which of them is a yes is not said"):
        ta.find(model, PEOPLE.head(3), schema=SCHEMA)
    said = wrap(model, SCHEMA, target=yes)
    assert f"{yes!r}" in said.rule and said.guessed is None


def test_whoever_says_so_is_obeyed():
    model = fitted("deny", "approve")
    denied = ta.find(model, PEOPLE.head(20), schema=SCHEMA, target="deny")
    assert denied.yes == "predict is 'deny'" and "predict is 'deny'" in repr(denied)
    assert (model.predict(denied.options[list(SCHEMA.names)]) == "deny").all()


@pytest.mark.parametrize(
    "pair", [(0, 1), (False, True), ("no", "yes"), ("<=50K", ">50K"), (-1, 1), (1, 2), ("bad", "good")]
)
def test_names_that_raise_no_question(pair):
    model = wrap(fitted(*pair), SCHEMA, background=PEOPLE)
    assert ((model.judge(PEOPLE) >= 0) == (fitted(*pair).predict(PEOPLE) == pair[1])).all()
    assert any("say target=" in note for note in model.notes) == (pair not in ((0, 1), (False, True)))
    assert model.guessed.taken == pair[1] and model.guessed.other == pair[0]


def test_zero_as_the_second_class_is_asked_about():
    model = fitted(0, 1)
    model.steps[-1][1].classes_ = np.array([1, 0])
    with pytest.raises(ModelError, match="0 would be taken"):
        wrap(model, SCHEMA)


@pytest.mark.parametrize("estimator", [LogisticRegression(), DecisionTreeClassifier(max_depth=3), LinearSVC()])
@pytest.mark.parametrize("pair", [(0, 1), (False, True), ("A", "B"), (1, 2)])
def test_labels_that_contradict_the_class_stop(pair, estimator):
    flipped = fitted(pair[1], pair[0], estimator)  # its second class is what befell those who did badly
    with pytest.raises(ProblemError, match=r"labels= contradict the class(.|\n)*AUC 0\.\d+(.|\n)*target="):
        ta.find(flipped, PEOPLE.head(5), schema=SCHEMA, background=PEOPLE, labels=GOOD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = ta.find(flipped, PEOPLE, schema=SCHEMA, background=PEOPLE, labels=GOOD, target=pair[0])
    assert (flipped.predict(answer.options[list(SCHEMA.names)]) == pair[0]).all()


@pytest.mark.parametrize("labels", [GOOD, GOOD.astype(int), GOOD.tolist(), pd.Series(GOOD, index=range(500, 700))])
def test_labels_that_agree_pass_in_silence(labels):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ta.Problem(SCHEMA, wrap(fitted(0, 1), SCHEMA, background=PEOPLE), background=PEOPLE, labels=labels)


def test_labels_against_a_class_that_was_said_are_warned_of():
    model = wrap(fitted(1, 0), SCHEMA, target=1, background=PEOPLE)
    with pytest.warns(UserWarning, match=r"asked for, which is obeyed: .* \d+% of \d+ people .*AUC 0\.0"):
        ta.Problem(SCHEMA, model, background=PEOPLE, labels=GOOD)


def test_a_model_that_refuses_everyone_is_caught_by_its_margins():
    """A rare class: nobody's P(default) reaches the cut-off, so that shares of yes tell nothing."""
    rare = PEOPLE.assign(late=~GOOD & (np.arange(200) % 8 == 0))
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(PEOPLE, rare.late)
    with pytest.raises(ProblemError, match=r"to 0% of \d+ people .* to 0% of \d+ others"):
        ta.Problem(SCHEMA, wrap(model, SCHEMA, 0.99, background=PEOPLE), background=PEOPLE, labels=~rare.late)


def test_a_function_that_returns_p_no_is_asked_about():
    model = fitted(1, 0)

    def default(table):
        return model.predict_proba(table)[:, 1]

    given = {"schema": SCHEMA, "background": PEOPLE, "labels": GOOD}
    with pytest.raises(ProblemError, match=r"let the function return P\(yes\), not P\(no\)"):
        ta.find(default, PEOPLE.head(5), **given)
    with pytest.warns(UserWarning, match="contradict the yes that was asked for"):
        ta.find(default, PEOPLE.head(5), target=1, **given)
    with pytest.raises(ModelError, match="target=1 says that it does"):
        wrap(default, SCHEMA, target=0)


def test_a_network_is_asked_about_too():
    net = torch.nn.Linear(2, 1)
    with torch.no_grad():
        net.weight[:], net.bias[:] = torch.tensor([[-5.0, 5.0]]), 0.0
    with pytest.raises(ProblemError, match=r"target=0(.|\n)*target=1"):
        ta.Problem(SCHEMA, wrap(net, SCHEMA, output="logit"), background=PEOPLE, labels=GOOD)
    ta.Problem(SCHEMA, wrap(net, SCHEMA, target=0, output="logit"), background=PEOPLE, labels=GOOD)


def test_amounts_in_a_range_are_said():
    model = wrap(lambda table: table.income - table.debt, SCHEMA, target_range=(None, 20))
    with pytest.warns(UserWarning, match="contradict the yes that was asked for"):
        ta.Problem(SCHEMA, model, background=PEOPLE, labels=GOOD)
    assert model.guessed is None


def test_chance_is_no_contradiction():
    model = wrap(fitted(0, 1), SCHEMA, background=PEOPLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(20):
            labels = np.random.default_rng(seed).random(200) < 0.5
            ta.Problem(SCHEMA, model, background=PEOPLE, labels=labels)
        ta.Problem(SCHEMA, model, background=PEOPLE, labels=np.ones(200))
        ta.Problem(SCHEMA, model, background=PEOPLE.head(3), labels=~GOOD[:3])  # three people show nothing


def test_a_model_that_fails_on_some_rows_is_judged_by_the_others():
    def odd(table):
        if (table.income < 20).any():
            raise RuntimeError("no such income")
        return 1 / (1 + np.exp(table.income - table.debt - 20.0))

    with pytest.raises(ProblemError, match="labels= contradict"):
        ta.Problem(SCHEMA, wrap(odd, SCHEMA), background=PEOPLE, labels=GOOD)


def test_agreement_by_hand():
    found = LabelAgreement.of(np.array([1.0, -1, 2, -2, np.nan]), np.array([True, True, False, False, True]))
    assert (found.good, found.bad, found.good_yes, found.bad_yes, found.auc) == (2, 2, 0.5, 0.5, 0.5)
    assert found.z == 0 and LabelAgreement.of(np.ones(3), np.ones(3, dtype=bool)) is None
    from scipy.stats import mannwhitneyu

    margin, labels = RNG.integers(-3, 4, 60).astype(float), RNG.random(60) < 0.4
    test = mannwhitneyu(margin[labels], margin[~labels], use_continuity=False, alternative="less", method="asymptotic")
    from scipy.stats import norm

    found = LabelAgreement.of(margin, labels)
    assert found.auc == pytest.approx(test.statistic / (found.good * found.bad))
    assert norm.cdf(found.z) == pytest.approx(test.pvalue)


def test_some_of_each_label_are_looked_at():
    accepted = np.arange(10_000) % 100 != 0
    some = some_of_each(accepted)
    assert (~accepted[some]).sum() == 100 and accepted[some].sum() == FEW and len(set(some.tolist())) == len(some)
    assert len(some_of_each(np.ones(9, dtype=bool))) == 0
