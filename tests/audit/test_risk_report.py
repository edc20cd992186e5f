"""The risk report: on a study with known answers, with groups, money, few labels, and bad input."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from turnabout.audit.risk.accepting import WithinCost
from turnabout.audit.risk.assess import Setting, assess
from turnabout.audit.risk.calibration import cross_fitted, folds_of
from turnabout.audit.risk.compliance import Causes
from turnabout.audit.risk.risk_of_recourse import risk_of_recourse
from turnabout.audit.risk.risk_report import Verdict
from turnabout.audit.risk.sums import Population
from turnabout.errors import AuditError
from turnabout.studies.gaussian.gaussians import GaussianProjection, Gaussians

STUDY = Gaussians()
DRAW = STUDY.sample(1500, seed=7)
PEOPLE = STUDY.table(DRAW.x)
PROBLEM = STUDY.problem(DRAW)
MODEL = PROBLEM.model
REFUSED = STUDY.margin(DRAW.x) < 0
COIN = np.where(DRAW.fresh < 0.4, "heads", "tails")


def true_eta(table):
    return STUDY.eta(table.to_numpy())


def landing_at(probability):
    return GaussianProjection(STUDY, probability).fit(PROBLEM).find(PEOPLE)


AT = {p: landing_at(p) for p in (0.5, 0.7, 0.97, None)}


def report(p=0.7, *, people=PEOPLE, labels=DRAW.y, method=None, eta=true_eta, **rest):
    method = AT[p] if method is None else method
    return risk_of_recourse(MODEL, people, labels, method, eta=eta, bootstrap=rest.pop("bootstrap", 400), **rest)


def test_figures_by_hand():
    found = report(compliance=0.25, accept=0.6, gain=1.0, loss=3.0)
    y, eta1 = DRAW.y, 0.7
    w = 0.6 * REFUSED
    wrong = np.where(REFUSED, y, ~y).mean()
    repays = 0.25 * eta1 + 0.75 * y
    assert found.risk_before.value == pytest.approx(wrong)
    assert found.excess.given.value == pytest.approx((w * (1 - repays - y)).mean(), abs=1e-5)
    assert found.excess.compliant.value == pytest.approx((w * (1 - eta1 - y)).mean(), abs=1e-5)
    assert found.excess.defiant.value == pytest.approx((w * (1 - 2 * y)).mean())
    assert found.risk_after.given.value == pytest.approx(wrong + found.excess.given.value)
    assert found.excess.given.value == pytest.approx(found.spoiled.value - found.mended.value)
    assert found.approvals_after.value == pytest.approx((~REFUSED).mean() + w.mean())
    defaults = ((~REFUSED) * ~y + w * (1 - repays)).sum() / ((~REFUSED) + w).sum()
    assert found.defaults_after.value == pytest.approx(defaults, abs=1e-5)
    assert found.profit.value == pytest.approx((w * (4 * repays - 3)).mean(), abs=1e-4)
    assert found.landing.value == pytest.approx(0.7, abs=1e-5)
    assert found.mirror.value == pytest.approx((1 - STUDY.eta(DRAW.x))[REFUSED].mean())
    assert found.break_even.value == pytest.approx((w * (1 - 2 * y)).sum() / (w * (eta1 - y)).sum(), abs=1e-4)
    assert found.cost.value * STUDY.unit == pytest.approx(
        np.linalg.norm(STUDY.project(DRAW.x, 0.7) - DRAW.x, axis=1)[REFUSED].mean(), abs=1e-5
    )
    assert found.movers == pytest.approx(w.sum()) and found.compliance == pytest.approx(0.25)
    assert sum(found.histogram) == pytest.approx(1.0) and found.histogram[6] + found.histogram[7] == pytest.approx(1)


def test_interval_of_the_excess_is_its_standard_error():
    found = report(0.7, bootstrap=4000, compliance=1.0).excess.given
    each = REFUSED * (0.3 - DRAW.y)
    half = 1.96 * each.std() / np.sqrt(len(each))
    assert found.value - found.low == pytest.approx(half, rel=0.06)
    assert found.high - found.value == pytest.approx(half, rel=0.06)


def test_boundary_landing_breaks_even_at_two():  # check 23, through the report
    exact = (STUDY.eta(DRAW.x), STUDY.eta(STUDY.project(DRAW.x)))
    for before in ("labels", "eta"):
        found = report(0.5, eta=exact, before=before)
        assert found.break_even.value == pytest.approx(2.0, abs=1e-9)
        assert found.verdict is Verdict.HARM and found.break_even_note.startswith("above 1")


def test_mirror_landing_is_neutral():  # check 24, through the report
    exact = (STUDY.eta(DRAW.x), STUDY.eta(STUDY.mirror(DRAW.x)))
    found = report(None, eta=exact, before="eta")
    assert abs(found.excess.compliant.value) < 1e-9
    assert found.landing.value == pytest.approx(found.mirror.value, abs=1e-9)


def test_verdicts():
    assert report(0.5).verdict is Verdict.HARM
    assert report(0.97).verdict is Verdict.BENEFIT
    assert report(0.97, compliance=0.0).verdict is Verdict.HARM
    neutral = float(report(0.7).neutral_landing.value)
    near = (STUDY.eta(DRAW.x), np.full(len(DRAW.y), neutral))
    assert report(0.7, eta=near).verdict is Verdict.UNDETERMINED


def test_least_landing_is_where_the_verdict_turns():
    found = report(0.7, compliance=0.9)
    at = lambda p: report(0.7, compliance=0.9, eta=(STUDY.eta(DRAW.x), np.full(len(DRAW.y), p))).verdict  # noqa: E731
    assert at(found.least_landing - 1e-3) is Verdict.HARM
    assert at(found.least_landing + 1e-3) is Verdict.UNDETERMINED
    assert found.least_landing < found.neutral_landing.value
    assert report(0.7, compliance=0.0).least_landing is None  # defiant people do harm wherever they land
    # compliant people: where the mean of 1 - eta0 is, up to labels in place of eta0
    assert report(0.7, before="eta").neutral_landing.value == pytest.approx(found.mirror.value)


def test_groups_add_up_and_an_empty_group_is_unknown():
    groups = pd.Categorical(COIN, categories=["heads", "tails", "edge"])
    found = report(groups=pd.Series(groups), accept={"heads": 1.0, "tails": WithinCost(0.09), "edge": 0.0})
    assert sum(g.part for g in found.groups if g.part is not None) == pytest.approx(found.excess.given.value)
    by = {g.group: g for g in found.groups}
    heads = COIN == "heads"
    assert by["heads"].excess.value == pytest.approx((REFUSED * (0.3 - DRAW.y))[heads].mean(), abs=1e-5)
    assert by["edge"].n == 0 and by["edge"].excess.value is None and by["edge"].without.value is None
    assert by["tails"].cost.high <= 0.09 and by["heads"].cost.high > 0.09
    table = found.by_group().set_index(["group", "metric"])
    assert table.loc[("tails", "excess"), "value"] == by["tails"].excess.value
    assert pd.isna(table.loc[("edge", "cost"), "value"])


def test_nobody_without_option_moves():
    class Half(ta.Method):
        """Leads those with a positive x1 to 0.7, and has nothing for others."""

        def _search(self, x):
            proposal = GaussianProjection(STUDY, 0.7)._search(x)
            proposal.x_new[x[:, 0] < 0.5] = np.nan
            return proposal

    answer = Half().fit(PROBLEM).find(PEOPLE)
    found = report(method=answer, groups=COIN)
    offered = REFUSED & (DRAW.x[:, 0] > 0)
    assert found.offered == offered.sum() and found.movers == offered.sum()
    assert found.groups[0].without.value == pytest.approx(1 - offered[REFUSED & (COIN == "heads")].mean())
    lines = found.landings()
    assert lines["moved"].to_numpy().tolist() == offered.tolist() and lines.loc[~offered, "eta1"].isna().all()
    assert lines.loc[offered, "eta1"].to_numpy() == pytest.approx(0.7, abs=1e-5)


def test_profit_rule_chooses_offers():
    spread = np.linspace(0.5, 1.0, len(DRAW.y))
    found = report(0.7, eta=(STUDY.eta(DRAW.x), spread), gain=1.0, loss=4.0)
    assert found.chosen.value == pytest.approx((spread[REFUSED] >= 0.8).mean())
    assert found.profit_if_chosen.value == pytest.approx((REFUSED * (spread >= 0.8) * (5 * spread - 4)).mean())
    assert found.profit_if_chosen.value > found.profit.value
    assert report(0.7).profit is None


def test_curve_runs_from_defiant_to_compliant():
    found = report(0.7, gain=1.0, loss=2.0)
    curve = found.curve()
    assert list(curve.columns) == ["compliance", "metric", "value", "low", "high"]
    for metric, of in (("excess", found.excess), ("risk_after", found.risk_after)):
        part = curve[curve["metric"] == metric].set_index("compliance")
        assert part.loc[0.0, "value"] == of.defiant.value and part.loc[1.0, "low"] == of.compliant.low
        assert (part["low"] <= part["value"]).all() and (part["value"] <= part["high"]).all()
    assert set(curve["metric"]) == {"excess", "risk_after", "profit"}


@pytest.mark.parametrize("p", [0.5, 0.7, 0.97])
def test_bounds_hold_the_truth_where_the_refused_are_not_seen(p):
    labels = pd.Series(np.where(REFUSED, None, DRAW.y), dtype=object)
    found = report(p, labels=labels, observed="approved", compliance=0.8, groups=COIN)
    full = report(p, compliance=0.8)
    for name in ("risk_before", "break_even", "defaults_after", "approvals_after"):
        low, high = found.bounds[name]
        if low.value is not None:
            assert low.value - 1e-12 <= getattr(full, name).value <= high.value + 1e-12
    low, high = found.bounds["excess"]
    assert low.value <= full.excess.given.value <= high.value
    # by hand: eta0 of the refused anything from 0 to 1
    assert low.value == pytest.approx(REFUSED.mean() * (1 - 1.2 - 0.8 * found.landing.value), abs=1e-9)
    assert high.value == pytest.approx(REFUSED.mean() * (1 - 0.8 * found.landing.value), abs=1e-9)
    assert (
        found.excess.given.value is None and found.excess.given.low < low.value < high.value < found.excess.given.high
    )
    assert found.verdict is Verdict.UNDETERMINED and "bounds" in " ".join(found.notes)
    assert found.groups[0].part is None
    json.loads(found.to_json())


def test_bounds_of_risk_after_take_either_end_person_by_person():
    found = report(0.7, observed="approved", accept=0.5, compliance=1.0, refused=(0.1, 0.4))
    # a refused person errs with 1/2 b + 1/2 (1 - 0.7): lowest at b = 0.1, highest at 0.4; the approved by their labels
    sure = (~REFUSED & ~DRAW.y).sum()
    low, high = found.bounds["risk_after"]
    assert low.value == pytest.approx((sure + REFUSED.sum() * 0.20) / len(DRAW.y), abs=1e-5)
    assert high.value == pytest.approx((sure + REFUSED.sum() * 0.35) / len(DRAW.y), abs=1e-5)
    # defiant: 1/2 b + 1/2 (1 - b) is 1/2 at either end
    curve = found.curve().query("metric == 'risk_after' and compliance == 0.0").iloc[0]
    assert curve["value"] == pytest.approx((sure + REFUSED.sum() * 0.5) / len(DRAW.y))
    narrow = report(0.7, observed="approved", refused=(0.0, 0.2))
    assert narrow.verdict is Verdict.HARM  # 1 - b - 0.7 is at least 0.1 for each


def test_fitted_eta_and_refits():
    few = PEOPLE.iloc[:600]
    answer = GaussianProjection(STUDY, 0.7).fit(PROBLEM).find(few)
    ask = {"people": few, "labels": DRAW.y[:600], "method": answer, "eta": None}
    once = report(**ask, refit=0)
    assert once.excess.given.value == pytest.approx(0.09, abs=0.06)
    assert once.calibration.error < 0.1 and "refit=" in " ".join(once.notes)
    wide = report(**ask, refit=6)
    assert wide.refit == 6 and wide.excess.given.value == once.excess.given.value
    width = [r.landing.high - r.landing.low for r in (once, wide)]
    assert width[1] > 1.3 * width[0]  # the error of eta is in the interval of what rests on it
    assert report(**ask, refit=0).to_json() == once.to_json()  # same seed, same answer
    assert wide.risk_before == once.risk_before  # rests on labels alone


def test_methods_and_answers_are_all_taken():
    by_answer = report(0.7)
    fitted = report(method=GaussianProjection(STUDY, 0.7).fit(PROBLEM))
    bare = report(method=GaussianProjection(STUDY, 0.7))
    assert by_answer.excess == fitted.excess == bare.excess
    assert by_answer.made_by == fitted.made_by


def test_compliance_by_causes_and_by_outcome():
    half = report(compliance=Causes({"x1": True, "x2": False}))
    assert half.compliance == pytest.approx(0.5, abs=1e-6)  # the projection moves both alike
    certain = report(compliance=lambda before, after: np.ones(len(after)))
    assert certain.spoiled.value == 0.0 and certain.compliance is None and certain.least_landing is None
    assert certain.excess.given.value == pytest.approx(-(REFUSED & DRAW.y).mean())
    assert certain.excess.compliant == report().excess.compliant


def test_nobody_refused_or_nobody_with_an_option():
    happy = PEOPLE[~REFUSED]
    answer = GaussianProjection(STUDY, 0.7).fit(PROBLEM).find(happy)
    found = report(people=happy, labels=DRAW.y[~REFUSED], method=answer)
    assert found.verdict is Verdict.UNDETERMINED and "nobody moves" in found.reason
    assert found.excess.given.value == 0.0 and found.excess.given.low is None
    assert found.landing.value is None and found.histogram is None and found.least_landing is None
    assert found.risk_before.value == found.risk_after.given.value
    assert "nobody moves" in str(found) and "NaN" not in found.to_json()
    stuck = report(accept=WithinCost(0.0))
    assert stuck.verdict is Verdict.UNDETERMINED and stuck.offered == REFUSED.sum() and stuck.movers == 0
    with pytest.raises(AuditError, match=r"accept= holds 5.0"):
        report(people=happy, labels=DRAW.y[~REFUSED], method=answer, accept=5.0)
    few = report(accept=np.where(np.cumsum(REFUSED) <= 4, 1.0, 0.0))
    assert few.verdict is Verdict.UNDETERMINED and "only 4 people would move" in few.reason


def test_report_is_readable_and_plain():
    found = report(groups=COIN, gain=1.0, loss=2.0)
    document = json.loads(found.to_json())
    assert document["verdict"] == "HARM" and document["excess"]["given"]["value"] == found.excess.given.value
    assert document["groups"][0]["group"] == "heads" and len(document["curve"]) == 33
    text = str(found)
    assert text.startswith("HARM: the 95% interval") and "break-even compliance" in text and "heads (n=" in text
    assert found.excess_if_outside[0] <= found.excess.given.value <= found.excess_if_outside[1]


def test_landing_points_outside_the_data_are_refused_with_their_share():
    far = STUDY.project(DRAW.x, 0.7) + np.array([7.0, -7.0])  # the same eta, where nobody is

    class Away(ta.Method):
        def _search(self, x):
            proposal = GaussianProjection(STUDY, 0.7)._search(x)
            proposal.x_new[..., 0] += 7 / STUDY.unit
            proposal.x_new[..., 1] -= 7 / STUDY.unit
            return proposal

    assert STUDY.eta(far)[REFUSED] == pytest.approx(0.7)
    answer = Away().fit(PROBLEM).find(PEOPLE)
    with pytest.raises(AuditError, match=r"100.0% of the landing points"):
        report(method=answer)
    found = report(method=answer, outside=1.0)
    assert found.outside.value == 1.0
    low, high = found.excess_if_outside  # eta1 anything from 0 to 1 there
    assert (low, high) == pytest.approx(((REFUSED * (0.0 - DRAW.y)).mean(), (REFUSED * (1.0 - DRAW.y)).mean()))


def test_uncalibrated_eta_is_warned_of_with_its_error():
    with pytest.warns(UserWarning, match="calibration error of eta") as warned:
        report(eta=lambda table: true_eta(table) ** 4)
    first, second = (str(one.message) for one in warned)
    assert "calibration error of eta over all is 0.1" in first and "near the landing points is 0.5" in second
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report()


def test_the_model_itself_is_no_eta():
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression().fit(PEOPLE, DRAW.y)
    model = ta.models.wrap(fitted, STUDY.schema)
    with pytest.warns(UserWarning, match="eta is the deployed model itself"):
        risk_of_recourse(model, PEOPLE, DRAW.y, GaussianProjection(STUDY, 0.9), eta=fitted, bootstrap=100)
    scores = ta.landing.Calibration.of(model, PEOPLE, DRAW.y)
    with pytest.warns(UserWarning, match="rests on its scores"):
        risk_of_recourse(model, PEOPLE, DRAW.y, GaussianProjection(STUDY, 0.9), eta=scores, bootstrap=100)
    with pytest.raises(ValueError, match="gives no P"), pytest.warns(UserWarning, match="model itself"):
        report(eta=MODEL)


def broken(table):
    return np.where(np.arange(len(table)) == 3, np.nan, 0.4)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"labels": np.ones(1500)}, "single class"),
        ({"labels": DRAW.y[:9]}, "labels= has 9 values for 1500 people"),
        ({"labels": np.where(REFUSED, None, DRAW.y)}, "labels hold None"),
        ({"labels": np.full(1500, 0.5)}, "labels hold 0.5"),
        ({"labels": 3}, "labels= is 3, not one value per person"),
        ({"labels": pd.Series(DRAW.y, index=PEOPLE.index + 1)}, "index is not that of the people"),
        ({"eta": broken}, "eta= holds nan"),
        ({"eta": lambda table: np.full(len(table), 1.2)}, "eta= holds 1.2"),
        ({"eta": lambda table: np.ones(3)}, "gives shape"),
        ({"eta": (np.zeros(3), np.zeros(3))}, "3 and 3 values for 1500 people"),
        ({"eta": (np.zeros(3),)}, "eta= holds 1 parts"),
        ({"eta": 0.5}, "gives no P"),
        ({"eta": (["often"] * 1500, DRAW.y)}, "no numbers"),
        ({"eta": lambda table: ["often"] * len(table)}, "no numbers"),
        ({"compliance": 1.5}, "holds 1.5"),
        ({"compliance": [0.5, 0.5]}, "2 values for 1500 people"),
        ({"accept": -0.1}, "holds -0.1"),
        ({"groups": [None] * 1500}, "every group label is missing"),
        ({"groups": ["a"] * 3}, "groups= has 3 values for 1500 people"),
        ({"groups": [None, *["a"] * 1499]}, "belongs to no group"),
        ({"gain": 1.0}, "go together"),
        ({"gain": 1.0, "loss": -1.0}, "loss=-1.0 is not a number above 0"),
        ({"observed": "some"}, "observed='some' is not one of 'all', 'approved'"),
        ({"before": "after"}, "before='after' is not one of 'labels', 'eta'"),
        ({"refused": (0.5, 0.2)}, "is no range"),
        ({"refused": "all"}, "is no range"),
        ({"outside": 2.0}, "outside=2.0"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"bootstrap": 10}, "bootstrap=10"),
        ({"folds": 1}, "folds=1"),
        ({"folds": 1200, "eta": None}, "folds=1200 are more than"),
        ({"groups": PEOPLE[["x1"]]}, "groups= is a table"),
        ({"groups": 5}, "groups= is 5"),
        ({"labels": [[True]] * 1500}, "labels hold"),
        ({"seed": -1}, "seed=-1"),
        ({"refit": 2}, "eta= was given"),
        ({"refit": 1, "eta": None}, "refit=1 is no number of fits"),
        ({"method": "Wachter"}, "no answer and no method"),
        ({"people": PEOPLE.iloc[:0]}, "no people"),
        ({"people": pd.concat([PEOPLE, PEOPLE])}, "share an index label"),
        ({"people": PEOPLE.iloc[::-1]}, "not about the 1500 of the table"),
    ],
)
def test_bad_input(change, text):
    with pytest.raises(ValueError, match=text):
        report(**change)


def test_an_estimator_must_say_which_class_repaid():
    from sklearn.linear_model import LogisticRegression

    words = LogisticRegression().fit(PEOPLE, np.where(DRAW.y, "good", "bad"))
    with pytest.raises(ValueError, match="which of them means repaid"):
        report(eta=words)
    plain = LogisticRegression().fit(PEOPLE, DRAW.y)
    assert report(eta=plain).landing.value == pytest.approx(0.7, abs=0.05)


def test_answers_of_another_model_are_refused():
    other = Gaussians(mean=(1, 0.2))
    model = ta.models.wrap(lambda table: other.eta(table.to_numpy()), STUDY.schema)
    with pytest.raises(ValueError, match="disagree on who is accepted"):
        risk_of_recourse(model, PEOPLE, DRAW.y, AT[0.7], eta=true_eta)
    with pytest.raises(ValueError, match="problem of another model"):
        risk_of_recourse(model, PEOPLE, DRAW.y, GaussianProjection(STUDY, 0.7).fit(PROBLEM), eta=true_eta)
    with pytest.raises(ValueError, match="not a wrapped model"):
        risk_of_recourse(true_eta, PEOPLE, DRAW.y, AT[0.7], eta=true_eta)


def test_nan_scores_are_refused():
    model = ta.models.wrap(lambda table: np.where(table["x1"] > 1.5, np.nan, true_eta(table)), STUDY.schema)
    with pytest.raises(ValueError, match="is NaN"):
        risk_of_recourse(model, PEOPLE, DRAW.y, AT[0.7], eta=true_eta)


def test_an_answer_about_other_people_is_refused():
    """The same labels of the index, the same people accepted, other rows among the refused."""
    where = np.flatnonzero(REFUSED)
    other = PEOPLE.copy()
    other.iloc[where] = PEOPLE.iloc[where[np.argsort(STUDY.margin(DRAW.x)[where])]].to_numpy()
    with pytest.raises(AuditError, match="people with other values"):
        report(people=other)
    labels = DRAW.y.copy()
    labels[where] = DRAW.y[where[np.argsort(STUDY.margin(DRAW.x)[where])]]
    assert report(people=other, labels=labels, method=GaussianProjection(STUDY, 0.7).fit(PROBLEM)).n == 1500
    assert report(people=PEOPLE.astype(object)).n == 1500  # types may differ


def test_what_rests_on_labels_of_the_refused_is_bounded():
    labels = np.where(REFUSED, None, DRAW.y)
    found = report(labels=labels, observed="approved", compliance=0.5, gain=1.0, loss=1.0)
    full = report(compliance=0.5, gain=1.0, loss=1.0, before="eta")
    assert found.mirror.value is None and found.mirror.low <= 0.0 and found.mirror.high >= 1.0
    assert [end.value for end in found.bounds["mirror"]] == pytest.approx([0.0, 1.0])
    # worth an offer: 0.5 b + 0.35 >= 0.5, for nobody at b = 0 and for all at b = 1
    assert [end.value for end in found.bounds["chosen"]] == pytest.approx([0.0, 1.0])
    low, high = found.bounds["profit_if_chosen"]
    assert low.value <= full.profit_if_chosen.value <= high.value
    narrow = report(labels=labels, observed="approved", refused=(0.1, 0.3))
    assert [end.value for end in narrow.bounds["mirror"]] == pytest.approx([0.7, 0.9])
    assert "Landing probabilities rest on eta" in " ".join(found.notes)


def test_what_is_said_of_break_even():
    hidden = report(0.5, labels=np.where(REFUSED, None, DRAW.y), observed="approved")
    assert hidden.break_even_note == "not known without labels of the refused"
    assert "compliance does not help" not in str(hidden)
    n = 60
    people = {"accepted": np.zeros(n, bool), "offered": np.ones(n, bool), "moves": np.ones(n), "cost": np.ones(n)}
    same = np.full(n, 0.3)
    population = Population(**people, eta0=same, eta1=same, before=(np.arange(n) < 19) * 1.0, complies=np.ones(n))
    worse = assess(population, {}, Setting(bootstrap=300))
    assert worse.break_even.value is None and worse.break_even_note.endswith("compliance does not help")
    # most are good, and landing is hardly better: in some replicates it is not, so that there is no lower end
    most = (np.arange(n) < 42) * 1.0
    population = Population(**people, eta0=most, eta1=np.full(n, 0.72), before=most, complies=np.ones(n))
    open_ended = assess(population, {}, Setting(bootstrap=300)).break_even
    assert open_ended.value == pytest.approx(-24 / 1.2) and open_ended.low is None and open_ended.high < 0


def test_least_landing_tells_unknown_from_none():
    assert report(0.7, compliance=0.0).least_landing_note == "none would do: nobody complies"
    assert "least landing without proven harm: none would do" in str(report(0.7, compliance=0.0))
    few = report(accept=np.where(np.cumsum(REFUSED) <= 4, 1.0, 0.0))
    assert few.least_landing is None and few.least_landing_note == "not known: too few people move"
    assert "none would do" not in str(few)
    outcome = report(compliance=lambda before, after: np.ones(len(after)))
    assert outcome.least_landing is None and "an outcome is given" in outcome.least_landing_note
    happy = PEOPLE[~REFUSED]
    nobody = report(people=happy, labels=DRAW.y[~REFUSED], method=GaussianProjection(STUDY, 0.7))
    assert nobody.least_landing is None and nobody.least_landing_note == "not known: nobody moves"
    # defiant people of whom as many are good as not: no harm, wherever they land
    even = np.where(REFUSED, np.arange(1500) % 2 == 0, DRAW.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        free = report(labels=even, compliance=0.0)
    assert free.verdict is Verdict.UNDETERMINED and (free.least_landing, free.least_landing_note) == (
        0.0,
        "any will do",
    )


def test_no_interval_has_no_width():
    perfect = ~REFUSED  # nobody is decided about wrongly
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = report(labels=perfect, gain=1.0, loss=1e6)
    n, m = len(perfect), int(REFUSED.sum())
    # about Jeffreys' intervals of none among n, m
    for figure, of in ((found.risk_before, n), (found.defaults_before, n - m), (found.mended, n), (found.chosen, m)):
        assert figure.value == figure.low == 0.0 and 0.5 / of < figure.high < 6.0 / of
    exact = (STUDY.eta(DRAW.x), np.full(n, 0.7))
    assert report(eta=exact).landing.low is None  # the same for everyone


def test_profit_of_few_offers_has_no_interval():
    spread = np.where(np.cumsum(REFUSED) <= 9, 0.9, 0.6)
    found = report(0.7, eta=(STUDY.eta(DRAW.x), spread), gain=1.0, loss=4.0, outside=1.0)
    assert found.profit_if_chosen.n == 9 and found.profit_if_chosen.low is None and found.profit.low is not None


def test_refits_have_both_labels_to_learn_from(monkeypatch):
    few = PEOPLE.iloc[:200]
    labels = np.zeros(200, dtype=bool)
    labels[:10] = True  # five of them in either fold: the second draw with this seed leaves none in one
    drawn = []

    def recorded(*given):
        drawn.append(given[-1])
        return cross_fitted(*given)

    monkeypatch.setattr("turnabout.audit.risk.eta.cross_fitted", recorded)
    ask = {
        "people": few,
        "labels": labels,
        "method": GaussianProjection(STUDY, 0.7),
        "eta": None,
        "folds": 2,
        "refit": 2,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report(**ask, seed=102, outside=1.0)
    fold = folds_of(labels, 2, 102)
    assert len(drawn) == 3 and drawn[0] is None
    for k in (0, 1):
        for times in drawn[1:]:
            left = times * (fold != k)
            assert left[labels].sum() > 0 and left[~labels].sum() > 0


def test_few_labels_teach_nothing():
    few = PEOPLE.iloc[:40]
    labels = np.arange(40) < 3
    with pytest.raises(ValueError, match="3 good and 37 bad labels: too few"):
        report(people=few, labels=labels, method=GaussianProjection(STUDY, 0.7), eta=None)
