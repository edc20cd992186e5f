"""Which options survive: noise and retraining side by side, by group."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import turnabout as ta
from hand import SCHEMA, Raise, linear, table
from turnabout.audit import recourse_under_noise
from turnabout.audit.fairness.outcomes import Noise
from turnabout.audit.promises.lasting import lasting
from turnabout.audit.promises.retrain import after_retraining
from turnabout.audit.promises.training_sets import Bootstrap, LeaveOut
from turnabout.errors import AuditError
from turnabout.rules import Box

NUMBERS = ta.Schema((ta.Number("income", low=0, high=100, step=1), ta.Number("debt", low=0, high=50, step=1)))
NOISE = Noise(sd={"income": 3.0})


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"income": rng.integers(0, 101, 200), "debt": rng.integers(0, 51, 200)})
    labels = rng.random(200) < 1 / (1 + np.exp(-(people["income"] - 50) / 10))
    estimator = LogisticRegression().fit(people, labels)
    problem = ta.Problem(NUMBERS, ta.models.wrap(estimator, NUMBERS), background=people)
    answer = Raise(by=40.0).fit(problem).find(people.iloc[:60])
    reports = [
        after_retraining(problem, answer, estimator, people, labels, retrain=retrain)
        for retrain in (Bootstrap(10), LeaveOut(models=10))
    ]
    return problem, answer, reports, np.where(people["debt"].iloc[:60] > 25, "deep", "free")


def test_each_threat_by_group(case):
    problem, answer, reports, groups = case
    report = lasting(problem, answer, groups, noise=NOISE, retrained=reports, seed=2)
    assert [t.threat for t in report.threats] == [
        "noise of deviations {'income': 3.0} in execution",
        "Bootstrap(models=10)",
        "LeaveOut(k=1, models=10)",
    ]
    assert report.threats[0].kept == recourse_under_noise(problem, answer, sd={"income": 3.0}, seed=2)
    assert [t.kept for t in report.threats[1:]] == [r.kept for r in reports]
    for threat in report.threats:
        assert sum(rate.hits for rate in threat.by_group.values()) == pytest.approx(threat.kept.hits)
        assert threat.against["deep"].value == pytest.approx(-threat.against["free"].value)
        assert threat.against["deep"].first == threat.by_group["deep"]
    assert report.options == report.threats[0].kept.n > 5


def test_written_and_tidy(case):
    problem, answer, reports, groups = case
    report = lasting(problem, answer, groups, retrained=reports)
    assert "noise of 0.1 deviations in execution" in str(report) and "deep: " in str(report)
    assert len(json.loads(json.dumps(report.to_dict(), allow_nan=False))["threats"][1]["groups"]) == 2
    assert len(report.to_frame()) == 3 * 3
    assert lasting(problem, answer, noise=None).threats == ()


def test_nobody_found(case):
    stuck = ta.Problem(NUMBERS, case[0].model, rules=[Box({"income": 1})])
    none = Raise(by=1.0).fit(stuck).find(pd.DataFrame({"income": [0], "debt": [50]}))
    report = lasting(stuck, none, noise=NOISE)
    assert report.threats[0].kept.value is None and str(report) == "nobody has an option that could be lost"


class Less(ta.Method):
    """Propose that everyone pays all debt, and earns so much more."""

    def _search(self, x):
        x_new = x.clone()
        x_new[:, 0], x_new[:, 1] = (x_new[:, 0] + 0.5).clamp(max=1), 0.0
        return ta.Proposal(x_new.unsqueeze(1))


def test_a_report_on_other_options_of_the_same_people_is_refused(case):
    problem, answer, *_ = case
    both = answer.people.loc[answer.options.index.get_level_values("person")]
    mine, other = (method.fit(problem).find(both) for method in (Raise(by=40.0), Less()))
    assert mine.options.index.equals(other.options.index) and not mine.options.equals(other.options)
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"income": rng.integers(0, 101, 200), "debt": rng.integers(0, 51, 200)})
    labels = rng.random(200) < 1 / (1 + np.exp(-(people["income"] - 50) / 10))
    report = after_retraining(problem, other, LogisticRegression(), people, labels, retrain=Bootstrap(2))
    assert lasting(problem, other, noise=None, retrained=[report]).options == len(both)
    again = ta.Recourse.from_json(other.to_json())
    assert lasting(problem, again, noise=None, retrained=[report]).options == len(both)
    with pytest.raises(AuditError, match="no report on this answer"):
        lasting(problem, mine, noise=None, retrained=[report])


def test_groups_with_the_same_text(case):
    problem, answer, *_ = case
    with pytest.raises(AuditError, match="two have the same text"):
        lasting(problem, answer, [1, "1"] * 30, noise=NOISE).to_dict()


def test_errors_say_what_to_do(case):
    problem, answer, reports, groups = case
    other = Raise(by=40.0).fit(problem).find(answer.people.iloc[:20])
    no_numbers = ta.Problem(SCHEMA, linear())
    for call, text in [
        (lambda: lasting(problem, other, retrained=reports), "no report on this answer"),
        (lambda: lasting(problem, answer, retrained=["x"]), "no report on this answer"),
        (lambda: lasting(problem, answer, groups[1:]), "59 group labels for 60 people"),
        (lambda: lasting(problem, answer, confidence=2), "confidence=2"),
        (lambda: lasting(problem, answer, noise=Noise(draws=0)), "draws=0"),
        (lambda: lasting(problem, answer, noise=Noise(deviations=-1.0)), "deviations=-1.0"),
        (lambda: lasting(no_numbers, Raise().fit(no_numbers).find(table([40], 0))), "noise=None leaves"),
    ]:
        with pytest.raises(ta.TurnaboutError, match=text):
            call()
    with pytest.raises(ta.TurnaboutError, match="seed=None"):
        lasting(problem, answer, seed=None)
