"""Recourse by group: numbers by hand, intervals by simulation, and what it says where nothing is known."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from hand import SCHEMA, Raise, linear, table
from turnabout.audit import recourse_under_noise
from turnabout.audit.estimate import Estimate
from turnabout.audit.fairness.burden import Burden, dominance
from turnabout.audit.fairness.contrasts import Contrast, MeanDifference, holm
from turnabout.audit.fairness.fairness_of_recourse import fairness_of_recourse
from turnabout.audit.fairness.outcomes import Noise
from turnabout.core.result import PLANS
from turnabout.errors import AuditError
from turnabout.intervals import clopper_pearson
from turnabout.rules import Box

NOISE = Noise(sd={"income": 1.0})


@pytest.fixture(scope="module")
def case():
    # yes from 0.06 income - 2.5 >= 0, that is from 42 on; a raise of up to 10 helps from 32 on
    problem = ta.Problem(SCHEMA, linear((0.06, 0.0, 0.0)), ta.costs.L1(), rules=[Box({"income": 10})])
    answer = Raise().fit(problem).find(table([50, 45, 40, 35, 30, 20], 0, index=list("abcdef")))
    assert answer.options["income"].tolist() == [42, 42]
    return problem, answer


def test_numbers_by_hand(case):
    report = fairness_of_recourse(*case, ["x", "y"] * 3, noise=None)
    x, y = report.groups
    assert (x.people, x.refused, y.people, y.refused) == (3, 2, 3, 2)
    assert x.measures["availability"].value == 0.5 and x.measures["availability"].n == 2
    assert (x.measures["availability"].low, x.measures["availability"].high) == clopper_pearson(1, 2)
    assert x.measures["cost"].value == pytest.approx(0.02) and y.measures["cost"].value == pytest.approx(0.07)
    assert x.measures["changes"].value == 1.0
    assert x.against["cost"].contrast.difference.value == pytest.approx(-0.05)
    assert x.against["availability"].contrast.difference.value == 0.0
    assert x.against["availability"].contrast.p == pytest.approx(1.0)
    assert (x.burden.value, x.burden.low, x.burden.high) == (pytest.approx(0.02), 0.0, None)
    assert (x.dominance, y.dominance) == ("better", "worse")
    assert report.everyone.measures["cost"].value == pytest.approx(0.045)
    assert report.everyone.against == {}
    assert "robustness" not in x.measures and "steps" not in x.measures


def test_two_groups_are_one_comparison(case):
    report = fairness_of_recourse(*case, ["x", "y"] * 3, noise=None)
    assert report.tests == 3  # availability, cost, changes
    assert [g.against["cost"].survives for g in report.groups] == [False, False]
    assert report.surviving == ()
    assert fairness_of_recourse(*case, ["x", "y", "z"] * 2, noise=None).tests == 3 + 2 * 2  # y has no option to price


def test_a_real_difference_survives():
    problem = ta.Problem(SCHEMA, linear((0.06, 0.0, 0.0)), rules=[Box({"income": 10})])
    rich = np.arange(80) % 2 == 0
    people = table(np.where(rich, 41 - np.arange(80) % 5, 36 - np.arange(80) % 7), 0)
    report = fairness_of_recourse(problem, Raise().fit(problem).find(people), np.where(rich, "n", "s"), noise=None)
    assert {(group.name, measure) for group, measure in report.surviving} >= {
        ("group = n", "cost"),
        ("group = s", "cost"),
    }
    assert "* more than chance, with" in str(report) and report.to_dict()["groups"][0]["against"]["cost"]["survives"]


def test_robustness_is_that_of_recourse_under_noise(case):
    report = fairness_of_recourse(*case, ["x", "y"] * 3, noise=Noise(sd={"income": 1.0}, draws=40), seed=3)
    whole = recourse_under_noise(*case, sd={"income": 1.0}, draws=40, seed=3)
    assert report.everyone.measures["robustness"] == whole
    assert 0.3 < whole.value < 0.9  # on the boundary of 41.67, one step inside
    parts = [g.measures["robustness"] for g in report.groups]
    assert sum(part.hits for part in parts) == pytest.approx(whole.hits) and [part.n for part in parts] == [1, 1]


def test_effort_of_plans(case):
    problem, answer = case
    index = pd.MultiIndex.from_tuples([("c", 0), ("d", 0)], names=["person", "option"])
    plans = pd.DataFrame({name: pd.Series([1, 3], dtype=kind) for name, kind in PLANS.items()}).set_axis(index)
    report = fairness_of_recourse(problem, replace(answer, plans=plans), ["x", "y"] * 3, noise=None)
    assert [g.measures["steps"].value for g in report.groups] == [1.0, 3.0]
    assert [g.measures["duration"].value for g in report.groups] == [1.0, 3.0]
    assert report.groups[1].against["steps"].contrast.difference.value == 2.0


def test_several_attributes_and_their_crossing(case):
    groups = pd.DataFrame({"sex": list("fmfmfm"), "city": list("uuuvvv")}, index=list("abcdef"))
    report = fairness_of_recourse(*case, groups.sample(frac=1, random_state=0), noise=None, crossed=2)
    names = [g.name for g in report.groups]
    assert names[:4] == ["sex = f", "sex = m", "city = u", "city = v"]
    assert names[4:] == ["sex = f & city = u", "sex = f & city = v", "sex = m & city = u", "sex = m & city = v"]
    assert [g.people for g in report.groups[4:]] == [2, 1, 1, 2]
    assert report.groups[4].measures["availability"].value == 1.0
    assert len(fairness_of_recourse(*case, groups, noise=None).groups) == 4


@pytest.mark.parametrize("wrapped", [True, False])
def test_level_with_nobody_is_unknown(case, wrapped):
    labels = pd.Categorical(["x"] * 6, categories=["x", "nobody"])
    labels = pd.Series(labels, index=case[1].people.index) if wrapped else labels
    full, empty = fairness_of_recourse(*case, labels, noise=NOISE).groups
    assert empty.people == 0 and all(value.value is None for value in empty.measures.values())
    assert empty.dominance == full.dominance == "unknown"
    assert "nobody, so nothing is known" in str(empty)
    assert full.against["cost"].contrast.difference.value is None


def test_nobody_refused_and_nobody_found(case):
    happy = ta.Problem(SCHEMA, linear((0.06, 0.0, 0.0), bias=9.0))
    report = fairness_of_recourse(happy, Raise().fit(happy).find(case[1].people), ["x", "y"] * 3, noise=NOISE)
    assert report.everyone.refused == 0 and report.everyone.measures["availability"].value is None
    sad = ta.Problem(SCHEMA, linear((0.06, 0.0, 0.0), bias=-9.0), rules=[Box({"income": 10})])
    report = fairness_of_recourse(sad, Raise().fit(sad).find(case[1].people), ["x", "y"] * 3, noise=NOISE)
    assert report.everyone.measures["availability"].value == 0.0 and report.everyone.measures["cost"].value is None
    assert report.everyone.burden.value is None and "no recourse" in str(report.everyone.burden)
    assert [g.dominance for g in report.groups] == ["alike", "alike"]
    json.dumps(report.to_dict(), allow_nan=False)


def test_written_and_tidy(case):
    report = fairness_of_recourse(*case, pd.Series(list("xyxyxy"), index=list("abcdef"), name="town"), noise=NOISE)
    text = str(report)
    assert "town = x: 3 people, 2 refused" in text and "minus everyone else" in text
    assert "at every budget fewer of its refused" in text and "no difference is more than chance" in text
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert document["groups"][0]["labels"] == ["x"] and document["groups"][0]["against"]["cost"]["low"] is None
    frame = report.to_frame()
    assert len(frame) == 3 * 5 and set(frame["measure"]) == {"availability", "cost", "changes", "robustness", "burden"}
    line = frame[(frame["group"] == "x") & (frame["measure"] == "cost")].iloc[0]
    assert line["difference"] == pytest.approx(-0.05) and pd.isna(line["difference_low"])


def test_labels_by_person_in_a_mapping(case):
    labels = dict(zip("fedcba", "yxyxyx", strict=True))
    x, y = fairness_of_recourse(*case, labels, noise=None).groups
    assert (x.name, x.people, y.people) == ("group = x", 3, 3)
    assert x == fairness_of_recourse(*case, ["x", "y"] * 3, noise=None).groups[0]


def test_labels_with_the_same_text_are_not_confused(case):
    report = fairness_of_recourse(*case, [1, "1"] * 3, noise=None)
    assert len(report.to_frame()["group"].unique()) == 3
    with pytest.raises(AuditError, match="two have the same text"):
        report.to_dict()
    towns = pd.DataFrame({"town": ["1"] * 6, "street": ["1"] * 6}, index=list("abcdef"))
    assert len(fairness_of_recourse(*case, towns, noise=None).to_dict()["groups"]) == 2  # of two attributes


def test_german_by_age():
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    data = ta.datasets.load("german")
    numbers = ["duration", "amount", "age"]
    levels = [name for name in data.people if name not in numbers]
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), levels), (StandardScaler(), numbers))
    fitted = make_pipeline(encode, LogisticRegression(max_iter=500)).fit(data.people, data.accepted)
    model = ta.models.wrap(fitted, data.schema, threshold=0.7)
    problem = ta.Problem(data.schema, model, background=data.people, labels=data.accepted)
    answer = ta.methods.ExactLinear().fit(problem).find(data.people.iloc[:300])
    age = pd.cut(answer.people["age"], [0, 25, 99], labels=["young", "old"])
    young, old = fairness_of_recourse(problem, answer, age).groups
    assert young.refused + old.refused == (answer.status != ta.Status.ACCEPTED).sum()
    assert young.against["cost"].contrast.p == pytest.approx(old.against["cost"].contrast.p)
    first = answer.options["cost"].groupby(level="person").first()
    assert young.measures["cost"].value == pytest.approx(first[age[first.index] == "young"].mean())
    assert young.burden.value == pytest.approx(
        np.quantile(first[age[first.index] == "young"], 0.5, method="inverted_cdf")
    )


# -- burden and dominance -------------------------------------------------------------------------------------


def test_burden_by_hand():
    assert Burden.of(np.array([3.0, 1.0, 2.0]), 5).value == 3.0  # 3 of 5 have one, and the third costs 3
    assert Burden.of(np.array([3.0, 1.0]), 5).value is None  # 2 of 5: half have none
    ten = Burden.of(np.arange(1.0, 11.0), 10)  # P(Bin(10, 1/2) <= 1) = 0.0107, <= 2: 0.0547
    assert (ten.value, ten.low, ten.high) == (5.0, 2.0, 9.0)
    assert Burden.of(np.arange(1.0, 9.0), 10).high is None
    lost = Burden.of(np.array([1.0]), 40)
    assert lost.low is None and str(lost) == "no recourse [no recourse, no recourse]"
    assert "nobody refused" in str(Burden.of(np.zeros(0), 0))


def test_dominance_by_hand():
    one, two = np.array([1.0]), np.array([2.0])
    assert dominance(two, 2, one, 2) == "worse" and dominance(one, 2, two, 2) == "better"
    assert dominance(one, 4, two, 2) == "crossing"  # cheaper for some, absent for more
    assert dominance(one, 3, np.array([1.0, 1.0]), 6) == "alike"
    assert dominance(one, 0, two, 2) == "unknown"


# -- differences ----------------------------------------------------------------------------------------------


def test_welch_is_that_of_scipy():
    from scipy.stats import ttest_ind

    rng = np.random.default_rng(0)
    first, second = rng.gamma(2, 1, 12), rng.gamma(2, 2, 30)
    known = ttest_ind(first, second, equal_var=False)
    ours = MeanDifference.of(first, second)
    interval = known.confidence_interval(0.95)
    assert (ours.low, ours.high) == (pytest.approx(interval.low), pytest.approx(interval.high))


def test_people_who_are_all_alike_show_no_spread():
    rest = np.array([1.0, 2.0, 3.0, 2.0] * 30)
    same = Contrast.of(np.full(3, 2.5), rest, is_share=False)
    assert same.difference.value == 0.5 and same.difference.low is None and "unknown" in str(same.difference)
    # of C(123, 3) trios, only those of three 1 or three 3 show a mean as far off for their spread: 2 C(30, 3) of them
    assert same.p == pytest.approx(2 * 4060 / 302621, rel=0.2)
    assert Estimate.mean(np.full(3, 2.5)).low is None and Estimate.mean(rest).low is not None
    assert MeanDifference.of(np.zeros(0), rest).value is None


def test_p_by_hand():
    # the lady tasting tea: 3 of 4 against 1 of 4; of 70 ways to share out four hits, 1 + 16 + 16 + 1 differ as much
    assert Contrast.of(np.array([1.0, 1, 1, 0]), np.array([1.0, 0, 0, 0]), is_share=True).p == pytest.approx(34 / 70)
    assert Contrast.of(np.ones(900), np.zeros(900), is_share=True).p < 1e-12
    assert Contrast.of(np.ones(0), np.zeros(9), is_share=True).p is None
    # 10, 11, 12 beside 1, ..., 7: of 120 ways only this one and, by size of the statistic, 1, 2, 3 come as far
    far = Contrast.of(np.array([10.0, 11, 12]), np.arange(1.0, 8.0), is_share=False)
    assert far.p == pytest.approx(1 / 120, abs=0.004)
    assert Contrast.of(np.full(4, 2.0), np.full(5, 2.0), is_share=False).p == 1.0


def test_p_is_near_that_of_welch_for_many_people_and_does_not_depend_on_the_side():
    from scipy.stats import ttest_ind

    rng = np.random.default_rng(5)
    first, second = rng.normal(0.0, 1, 300), rng.normal(0.1, 1, 500)
    there, back = Contrast.of(first, second, False).p, Contrast.of(second, first, False).p
    assert there == back == pytest.approx(ttest_ind(first, second, equal_var=False).pvalue, abs=0.005)
    assert Contrast.of(first, second, False, seed=1).p != there
    few, many = rng.gamma(2, 1, 40), rng.gamma(2, 1.4, 9000)  # a part of the many is shuffled
    assert Contrast.of(few, many, False).p == Contrast.of(many, few, False).p < 0.05
    enough = Contrast.of(many[:4000], many[4000:] + 0.05, False).p
    assert enough == pytest.approx(ttest_ind(many[:4000], many[4000:] + 0.05, equal_var=False).pvalue, abs=0.01)


def test_p_of_two_sides_of_equal_size_does_not_depend_on_which_is_first():
    rng = np.random.default_rng(0)
    for _ in range(5):
        first, second = rng.lognormal(size=20), 1.8 * rng.lognormal(size=20)
        assert Contrast.of(first, second, False).p == Contrast.of(second, first, False).p


def test_p_of_skewed_costs_of_many_people_is_no_smaller_than_chance(monkeypatch):
    # equal log-normal costs, 1,000 people against 9,000: Welch's p falls to 0.01 in 4 % of cases
    monkeypatch.setattr("turnabout.audit.fairness.contrasts.SHUFFLES", 199)
    rng = np.random.default_rng(0)
    costs = (rng.lognormal(0, 2.0, 10_000) for _ in range(600))
    found = np.array([Contrast.of(row[:1000], row[1000:], False).p for row in costs])
    assert (found <= 0.01).mean() <= 0.0222 and (found <= 0.05).mean() <= 0.0767  # and three deviations


def test_only_a_part_of_very_many_people_is_shuffled(monkeypatch):
    monkeypatch.setattr("turnabout.audit.fairness.contrasts.SHUFFLES", 199)
    sizes = []
    monkeypatch.setattr(
        "turnabout.audit.fairness.contrasts._shuffled", lambda side, pooled, rng: sizes.append(len(pooled))
    )
    rng = np.random.default_rng(0)
    for first, second in ((9000, 30_000), (100, 30_000), (300, 400)):
        Contrast.of(rng.normal(size=first), rng.normal(1.0, size=second), False)
    assert sizes == [10_000, 10_000, 700]


def test_holm_by_hand():
    # 0.01 <= 0.05/4, 0.015 <= 0.05/3, 0.03 > 0.05/2: the rest fall with it
    assert holm([0.03, 0.01, None, 0.04, 0.015]) == [False, True, None, False, True]
    assert holm([]) == []


def covered(low, high, truth):
    return np.mean([(a <= truth) & (truth <= b) for a, b in zip(low, high, strict=True)])


def test_coverage_of_difference_of_shares():
    rng = np.random.default_rng(1)
    draws = [(rng.random(60) < 0.75, rng.random(200) < 0.6) for _ in range(1000)]
    gaps = [Contrast.of(a * 1.0, b * 1.0, is_share=True) for a, b in draws]
    assert 0.93 <= covered([g.difference.low for g in gaps], [g.difference.high for g in gaps], 0.15) <= 0.97


def test_coverage_of_means_and_their_difference():
    rng = np.random.default_rng(2)
    draws = [(rng.gamma(3, 1, 60), rng.gamma(2, 1, 200)) for _ in range(1000)]
    gaps = [MeanDifference.of(a, b) for a, b in draws]
    assert 0.93 <= covered([g.low for g in gaps], [g.high for g in gaps], 1.0) <= 0.97
    assert 0.93 <= covered([g.first.low for g in gaps], [g.first.high for g in gaps], 3.0) <= 0.97


def test_coverage_of_availability_and_burden_is_at_least_that():
    # costs 0.1, 0.2, ..., 0.9 alike, and a third without any: P(cost <= 0.7) = 14/27 is the first above a half
    rng = np.random.default_rng(3)
    hit, median = 0, 0
    for _ in range(1000):
        found = rng.random(80) < 2 / 3
        low, high = clopper_pearson(int(found.sum()), 80)
        hit += low <= 2 / 3 <= high
        burden = Burden.of(rng.integers(1, 10, int(found.sum())) / 10, 80)
        low, high = (np.inf if end is None else end for end in (burden.low, burden.high))
        median += low <= 0.7 <= high
    assert hit >= 940 and median >= 940  # both are conservative: at least 95 %, less chance


def test_family_wise_error(monkeypatch):
    monkeypatch.setattr("turnabout.audit.fairness.contrasts.SHUFFLES", 999)
    # six groups of 20 with the same skewed costs, for which Welch's p errs in more than one of ten families
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(6), 20)
    wrong = 0
    for _ in range(200):
        values = rng.lognormal(0, 1, 120)
        wrong += any(holm([Contrast.of(values[group == g], values[group != g], False).p for g in range(6)]))
    assert wrong <= 19  # 5 %, and three deviations


# -- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        (["x"], "1 group labels for 6 people"),
        ([None] * 6, "'a' belongs to no group"),
        (None, "gives no label per person"),
        ("sex", "gives no label per person"),
        (5, "gives no label per person"),
        ({"x", "y"}, "gives no label per person"),
        ([["x"]] * 6, "cannot be told apart"),
        ({"a": "x"}, "'b' has no group label"),
        (np.zeros((6, 2)), "groups have the shape"),
        (pd.DataFrame(index=list("abcdef")), "has no columns"),
        (pd.DataFrame([[1, 2]] * 6, columns=["s", "s"], index=list("abcdef")), "share a name"),
        (pd.Series(["x"], index=["a"]), "has no group label"),
    ],
)
def test_labels_that_do_not_fit(case, groups, text):
    with pytest.raises(ta.TurnaboutError, match=text):
        fairness_of_recourse(*case, groups, noise=None)


def test_too_many_labels():
    problem = ta.Problem(SCHEMA, linear((0.06, 0.0, 0.0)))
    answer = Raise().fit(problem).find(table(np.linspace(0, 100, 201).round(), 0))
    with pytest.raises(AuditError, match="201 different labels"):
        fairness_of_recourse(problem, answer, np.arange(201), noise=None)


def test_parameters_that_make_no_sense(case):
    problem, answer = case
    other = ta.Problem(SCHEMA, linear((0.06, 0.0, 0.0), bias=-3.0))
    groups = ["x", "y"] * 3
    for call, text in [
        (lambda: fairness_of_recourse(problem, answer, groups), "noise=None leaves robustness out"),
        (lambda: fairness_of_recourse(problem, answer, groups, noise=0.1), "noise=0.1 is not a Noise, or None"),
        (lambda: fairness_of_recourse(problem, answer, groups, noise=NOISE, seed=-1), "seed=-1"),
        (lambda: fairness_of_recourse(problem, answer, groups, confidence=95), "confidence=95"),
        (lambda: fairness_of_recourse(problem, answer, groups, crossed=0), "crossed=0"),
        (lambda: fairness_of_recourse(other, answer, groups, noise=None), "one to another problem"),
        (lambda: fairness_of_recourse(problem, answer.options, groups), "a DataFrame> is not an answer"),
        (lambda: fairness_of_recourse(SCHEMA, answer, groups), "problem=Schema.* is not a Problem"),
        (lambda: fairness_of_recourse(problem, Raise().fit(problem).find(table([], [])), []), "about nobody"),
    ]:
        with pytest.raises(ta.TurnaboutError, match=text):
            call()
    renamed = ta.Schema((ta.Number("wage", low=0, high=100, step=1),))
    strange = ta.Problem(renamed, linear((0.06,), schema=renamed))
    with pytest.raises(AuditError, match="knows no feature 'wage'"):
        fairness_of_recourse(strange, answer, groups)
