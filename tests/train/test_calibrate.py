"""The threshold comes with a guarantee: for rules, for methods, for groups; and what would void it is refused."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import turnabout as ta
from turnabout.core import Recourse, Status
from turnabout.errors import TrainingError
from turnabout.train.calibrate import calibrate, calibrate_search, pac_threshold
from turnabout.train.certificate import Certificate
from turnabout.train.seen import Seen
from turnabout.train.thresholds import just_below, pac_rank

SCHEMA = ta.Schema(
    (
        ta.Number("income", low=0, high=100, step=1),
        ta.Number("debt", low=0, high=50, decimals=2, moves="down"),
        ta.Binary("sex", levels=("f", "m"), moves="fixed"),
    )
)


def town(seed=0, n=400):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": rng.integers(0, 80, n),
            "debt": np.round(rng.random(n) * 50, 2),
            "sex": rng.choice(["f", "m"], n),
        },
        index=[f"p{seed}-{i}" for i in range(n)],
    )


def bank(table):
    """P(yes)."""
    return 1 / (1 + np.exp(-(0.08 * table.income - 0.06 * table.debt - 2).to_numpy(dtype=float)))


def work_more(table):
    """Everyone earns ten more, within bounds."""
    return table.assign(income=(table.income + 10).clip(upper=100))


class Trained:
    """What a trained model looks like to calibrate."""

    def __init__(self, seen=None):
        self.trained_on_ = seen
        self.schema = SCHEMA

    def predict_proba(self, people):
        p = bank(people)
        return np.stack([1 - p, p], 1)

    def attain(self, people):
        return work_more(people)


# -- scores -----------------------------------------------------------------------------------------------------------


def test_a_model_that_knows_what_people_reach():
    people = town()
    certificate = calibrate(Trained(), people)
    scores = np.maximum(bank(people), bank(work_more(people)))
    assert certificate.threshold == just_below(np.sort(scores)[pac_rank(400)])
    assert certificate.check(scores) and certificate.made_by == "Trained.attain"
    assert len(certificate.assumptions) == 4 and "by Trained.attain when" in str(certificate)


def test_functions_and_classifiers_are_calibrated_alike():
    people = town()
    by_function = calibrate(bank, people, work_more, schema=SCHEMA)
    assert by_function.threshold == calibrate(Trained(), people).threshold
    numbers = people[["income", "debt"]]
    judge = LogisticRegression().fit(numbers.to_numpy(), bank(people) > 0.5)
    fitted = LogisticRegression().fit(numbers, bank(people) > 0.5)
    certificate = calibrate(fitted, town(1)[["income", "debt"]], work_more)
    reached = judge.predict_proba(work_more(town(1))[["income", "debt"]].to_numpy())[:, 1]
    assert certificate.check(reached) and certificate.made_by == "work_more"


def test_tighter_never_lowers_the_threshold():
    def worsen_half(table):
        return table.assign(
            debt=table.debt.where(table.income % 2 == 0, 0.0), income=table.income.where(table.income % 3 > 0, 0)
        )

    for seed in range(30):
        people = town(seed, 150)
        loose = calibrate(bank, people, worsen_half, tighter=False)
        tight = calibrate(bank, people, worsen_half, tighter=True)
        assert tight.threshold >= loose.threshold
    assert tight.threshold > loose.threshold


def test_groups_get_thresholds_of_their_own():
    people = town(0, 600)
    certificate = calibrate(Trained(), people, groups=people["sex"])
    assert set(certificate.by_group) == {"f", "m"} and certificate.alpha == 0.05
    scores = bank(work_more(people))
    for label, part in certificate.groups:
        own = scores[(people.sex == label).to_numpy()]
        assert part.alpha == 0.025 and part.k == pac_rank(len(own), 0.05, 0.025)
        assert part.threshold == just_below(np.sort(own)[part.k])
    assert certificate.threshold == min(part.threshold for part in certificate.by_group.values())
    assert certificate.failure <= 0.05
    shuffled = people["sex"].sample(frac=1, random_state=0)
    assert calibrate(Trained(), people, groups=shuffled) == certificate  # matched by index
    assert calibrate(Trained(), people, groups=people["sex"].tolist()) == certificate


def test_groups_hold_together():
    rng = np.random.default_rng(0)
    n, draws = 240, 500
    groups = np.arange(n) % 3
    bad = 0
    for _ in range(draws):
        certificate = pac_threshold(rng.random(n), 0.1, 0.1, groups=groups)  # P(score < t) = t in each group
        bad += any(part.threshold > 0.1 for part in certificate.by_group.values())
    assert bad / draws <= 0.1 + 2 * np.sqrt(0.09 / draws)


def test_too_few_people_are_refused_with_what_is_missing():
    with pytest.raises(TrainingError, match=r"58 calibration people are too few .* 1 more is needed \(59 in all\)"):
        pac_threshold(np.linspace(0, 1, 58))
    assert pac_threshold(np.linspace(0, 1, 59)).k == 0
    with pytest.raises(TrainingError, match=r"10 people of group 'b' are too few .*alpha=0\.025"):
        pac_threshold(np.linspace(0, 1, 100), groups=["a"] * 90 + ["b"] * 10)
    asked = []
    with pytest.raises(TrainingError, match="48 more are needed"):
        calibrate(asked.append, town(0, 11), work_more)
    assert asked == []


def test_scores_must_be_numbers():
    scores = np.linspace(0, 1, 100)
    with pytest.raises(TrainingError, match="score 7 is nan"):
        pac_threshold(np.where(np.arange(100) == 7, np.nan, scores))
    with pytest.raises(TrainingError, match="score 0 is -inf"):
        pac_threshold(np.where(np.arange(100) == 0, -np.inf, scores))
    with pytest.raises(TrainingError, match="expected one for each person"):
        pac_threshold(np.zeros((100, 2)))
    with pytest.raises(TrainingError, match="the scores are not numbers"):
        pac_threshold(["high"] * 100)
    for epsilon, alpha in ((0, 0.05), (0.05, 1.5)):
        with pytest.raises(TrainingError, match="is not a number strictly between 0 and 1"):
            pac_threshold(scores, epsilon, alpha)


def test_groups_must_cover_everyone():
    scores = pd.Series(np.linspace(0, 1, 200))
    with pytest.raises(TrainingError, match="1 people belong to no group"):
        pac_threshold(scores, groups=[None] + ["a"] * 199)
    with pytest.raises(TrainingError, match="3 group labels for 200 people"):
        pac_threshold(scores, groups=list("abc"))
    with pytest.raises(TrainingError, match="groups and people have different indexes"):
        pac_threshold(scores, groups=pd.Series("a", index=range(5, 205)))


def test_what_cannot_be_calibrated_is_said():
    people = town()
    cases = {
        "Model gives no probabilities": (ta.models.wrap(bank, SCHEMA), work_more),
        "does not say which rows people can reach": (bank, None),
        "is neither a function nor a method": (bank, "Wachter"),
        "do not have the index and the columns": (bank, lambda t: t.reset_index(drop=True)),
        "may not change 'sex'": (bank, lambda t: t.assign(sex="m")),
        "may not change 'debt'": (bank, lambda t: t.assign(debt=t.debt + 1)),
        r"the model gave 3 scores for 400 rows": (lambda t: [0.1, 0.2, 0.3], work_more),
        "has not seen a problem yet": (bank, ta.methods.LocalSearch()),
    }
    for text, (model, recourse) in cases.items():
        with pytest.raises(TrainingError, match=text):
            calibrate(model, people, recourse, schema=SCHEMA)
    three = LogisticRegression().fit(people[["income"]], people.income // 30)
    with pytest.raises(TrainingError, match=r"predict_proba returned shape \(400, 3\)"):
        calibrate(three, people[["income"]], lambda t: t)
    with pytest.raises(TrainingError, match="thresholds= is for methods only"):
        calibrate(bank, people, work_more, thresholds=[0.5])


# -- what voids a guarantee -------------------------------------------------------------------------------------------


def test_training_people_are_refused():
    people = town()
    seen = Seen.of(SCHEMA.encode(people), people.index)
    with pytest.raises(TrainingError, match="the calibration people were trained on"):
        calibrate(Trained(seen), people[:100])
    with pytest.raises(TrainingError, match="the calibration people were trained on"):
        calibrate(Trained(), people[:100].reset_index(drop=True), trained_on=people)
    with pytest.raises(TrainingError, match="the calibration people were trained on"):
        calibrate(bank, people[:100], work_more, trained_on=people)
    certificate = calibrate(Trained(seen), town(1), trained_on=town(2, 50))
    assert "(compared with 400 training rows)" in certificate.assumptions[1]
    with pytest.raises(TrainingError, match="3 of 200 rows have the values of a training row, 3 of them under"):
        calibrate(Trained(seen), pd.concat([town(1, 197), people[:3]]))


def test_coincidences_that_chance_explains_are_counted():
    people = town()
    train = people.assign(debt=people.debt.round(-1))  # many are alike
    other = town(1, 200).assign(debt=lambda table: table.debt.round(-1))
    said = calibrate(bank, other, work_more, schema=SCHEMA, trained_on=train).assumptions[1]
    assert "(compared with 400 training rows: " in said and " of 200 coincide with one, " in said
    method = ta.methods.LocalSearch.small().fit(ta.Problem(SCHEMA, ta.models.wrap(bank, SCHEMA)))
    assert calibrate(bank, other, method, thresholds=[0.2], trained_on=train).assumptions[1] == said


def test_no_yes_hangs_on_the_last_bit_of_a_score():
    for n in (60, 61, 199):
        scores = np.random.default_rng(n).random(n)
        certificate = pac_threshold(scores)
        setter = np.sort(scores)[certificate.k]
        assert setter * (1 - 1e-11) < certificate.threshold < setter * (1 - 9e-13)
        assert certificate.check(scores) and certificate.check(scores - 3e-16) and certificate.permits(setter - 1e-11)
        assert not certificate.permits(setter) and certificate.short == certificate.k


def test_a_shift_is_warned_of():
    people = town()
    with pytest.warns(UserWarning, match="1 of 3 columns shifted: 'debt' by"):
        calibrate(Trained(), people, used_on=town(1).assign(debt=0.5))


def test_people_of_the_same_kind_raise_no_warning(recwarn):
    calibrate(Trained(), town(), used_on=town(1))
    assert not [w for w in recwarn if "guarantee" in str(w.message)]


# -- methods ----------------------------------------------------------------------------------------------------------


def reply(reached, index=None):
    """An answer in which these people are accepted or have an option."""
    status = pd.Series(np.where(reached, Status.FOUND, Status.NOT_FOUND), index=index, dtype=object)
    nothing = pd.DataFrame()
    return Recourse(pd.DataFrame(index=status.index), nothing, status, nothing, "Fake()", 0.0)


def test_search_stops_at_the_first_threshold_that_fails():
    best = np.linspace(0, 1, 200, endpoint=False)
    asked = []

    def find(threshold):
        asked.append(threshold)
        return reply(best >= threshold)

    certificate = calibrate_search(find, [0.3, 0.01, 0.02, 0.025, 0.04])
    assert asked == [0.01, 0.02, 0.025]  # in order; the others are never asked
    assert pac_rank(200) == 4 and certificate.threshold == 0.02 and certificate.short == 4
    assert certificate.kind == "search" and "by Fake() when the threshold is at most 0.02" in str(certificate)
    assert certificate.check(best >= 0.02) and not certificate.check(best >= 0.025)
    assert Certificate.from_json(certificate.to_json()) == certificate


def test_all_thresholds_may_pass():
    assert calibrate_search(lambda t: reply(np.ones(100, bool)), [0.2, 0.9]).threshold == 0.9


def test_search_by_groups():
    best = np.tile([0.5, 0.9], 100)
    groups = np.tile(["a", "b"], 100)
    certificate = calibrate_search(lambda t: reply(best >= t), [0.4, 0.5, 0.6, 0.9, 0.95], groups=groups)
    assert {label: part.threshold for label, part in certificate.groups} == {"a": 0.5, "b": 0.9}
    assert certificate.threshold == 0.5


def test_search_without_a_promise_says_how_far_it_is():
    with pytest.raises(
        TrainingError, match=r"at the lowest one tested, 0\.3, 60 of 200 people fall short and at most 4"
    ):
        calibrate_search(lambda t: reply(np.arange(200) >= 60), [0.3])
    with pytest.raises(TrainingError, match="there are no thresholds to test"):
        calibrate_search(lambda t: reply([True] * 99), [])
    with pytest.raises(TrainingError, match="find answered for other people"):
        calibrate_search(lambda t: reply(np.ones(100 + int(10 * t), bool)), [0.3, 0.9])


@cache
def with_short(n, short):
    return reply(np.arange(n) >= short)


@pytest.mark.parametrize("short", [(0.05, 0.1, 0.12, 0.2, 0.3), (0.02, 0.1, 0.03, 0.1, 0.2)])
def test_promises_about_searches_are_kept(short):
    """Also for a search that fails less often at a higher threshold. The worst case: exactly epsilon fall short."""
    rng = np.random.default_rng(3)
    thresholds, n, draws = np.array([0.1, 0.2, 0.3, 0.4, 0.5]), 100, 1000
    truth = np.array(short)
    counts = rng.binomial(n, truth, (draws, 5))
    k = pac_rank(n, 0.1, 0.1)
    broken = 0
    for row in counts[counts[:, 0] <= k]:  # else nothing is promised
        found = dict(zip(thresholds, row))
        certificate = calibrate_search(lambda t, found=found: with_short(n, found[t]), thresholds, 0.1, 0.1)
        broken += (truth[thresholds <= certificate.threshold] >= 0.1).any()
    assert 0 < broken / draws <= 0.1 + 2 * np.sqrt(0.09 / draws)


def test_a_method_of_the_library_is_calibrated():
    people = town(0, 120)
    problem = ta.Problem(SCHEMA, ta.models.wrap(bank, SCHEMA), rules=[ta.rules.AtMost(1)])
    method = ta.methods.LocalSearch.small().fit(problem)
    certificate = calibrate(bank, people, method, thresholds=[0.2, 0.9, 0.999])
    assert certificate.threshold in (0.2, 0.9) and certificate.made_by == repr(method)
    at = ta.Problem(SCHEMA, ta.models.wrap(bank, SCHEMA, certificate.threshold), rules=[ta.rules.AtMost(1)])
    assert certificate.check(method.clone().fit(at).find(people).status)
    assert method.problem_ is problem  # the method itself is left alone
    with pytest.raises(TrainingError, match="the calibration people were trained on"):
        calibrate(bank, people, method, trained_on=people)


def test_a_model_may_decide_for_itself_at_each_threshold():
    class Network(Trained):
        asked = ()

        def model(self, threshold):
            self.asked += (threshold,)
            return ta.models.wrap(bank, SCHEMA, threshold)

    network, people = Network(), town(0, 100)
    method = ta.methods.LocalSearch.small().fit(ta.Problem(SCHEMA, network.model(0.5)))
    certificate = calibrate(network, people, method, thresholds=[0.3])
    assert network.asked == (0.5, 0.3) and certificate.threshold == 0.3
