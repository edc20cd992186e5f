"""Landing: new rows lie where asked, by the numbers of whoever says P(good)."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from turnabout import landing
from turnabout.core.landing_targets import levels

SCHEMA = ta.Schema(
    (
        ta.Number("income", 0, 100, step=0.01),
        ta.Number("debt", 0, 50, step=0.01),
        ta.Binary("insured", (False, True)),
    )
)


def chance(table: pd.DataFrame) -> np.ndarray:
    score = 0.08 * table["income"] - 0.1 * table["debt"] + 0.5 * table["insured"].astype(float) - 3.0
    return (1 / (1 + np.exp(-score))).to_numpy(dtype=float)


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "income": np.round(rng.uniform(5, 60, 60), 2),
            "debt": np.round(rng.uniform(0, 40, 60), 2),
            "insured": rng.random(60) < 0.5,
        },
        index=[f"p{i}" for i in range(60)],
    )


@pytest.fixture(scope="module")
def logistic(people):
    """A linear model in log-odds, fitted on outcomes drawn from `chance`."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    many = people.sample(2000, replace=True, random_state=0).reset_index(drop=True)
    good = rng.random(2000) < chance(many)
    fitted = LogisticRegression(C=100, max_iter=1000).fit(many, good)
    return ta.models.wrap(fitted, SCHEMA, threshold=0.4, background=many)


def problem_of(model, people):
    """With a background in which some people do very well."""
    well = pd.DataFrame({"income": [80.0, 90.0, 95.0, 99.0], "debt": [5.0, 1.0, 0.0, 0.0], "insured": True})
    return ta.Problem(SCHEMA, model, background=pd.concat([people, well], ignore_index=True))


METHODS = [m for m in ta.methods.ALL if not m.needs_actions]


@pytest.fixture(scope="module")
def searched(people, logistic):
    """Of each method, a fitted one and its plain answer to a few people: made once."""

    @cache
    def search(cls):
        method = cls.small().fit(problem_of(logistic, people))
        return method, method.find(people.iloc[:8])

    return search


def check(answer, model, landed, people):
    """Options are accepted by the original, land where asked, and say the original's margin."""
    rows = SCHEMA.table(answer.options)
    assert len(rows)
    assert (model.judge(rows) >= 0).all()
    np.testing.assert_allclose(answer.options["margin"], model.judge(rows))
    own = people.loc[answer.options.index.get_level_values("person")]
    asked = landed.targets(landed.chances(model, SCHEMA.table(own)))
    assert (landed.chances(model, rows) >= asked - 1e-9).all()


@pytest.mark.parametrize("cls", METHODS, ids=lambda c: c.__name__)
@pytest.mark.parametrize(
    "asked", [landing.Probability(0.7), landing.Mirror(), landing.Profit(gain=1, loss=3, compliance=0.8)], ids=repr
)
def test_every_method_lands_where_asked(cls, asked, people, logistic, searched):
    few = people.iloc[:8]
    method, plain = searched(cls)
    landed = method.find(few, landing=asked)
    check(landed, logistic, asked, people)
    assert (landed.status == "ACCEPTED").equals(plain.status == "ACCEPTED")
    assert landed == method.find(few, landing=asked)  # same seed, same answer
    assert landed == ta.Recourse.from_json(landed.to_json())
    assert repr(asked) in landed.made_by
    if cls.exact:
        both = landed.options.index.intersection(plain.options.index)
        assert (landed.options["cost"][both] >= plain.options["cost"][both] - 1e-9).all()


@pytest.mark.parametrize("cls", [ta.methods.ExactLinear, ta.methods.LocalSearch, ta.methods.Wachter])
def test_a_separate_eta_is_kept_too(cls, people, logistic):
    eta = ta.models.wrap(lambda table: chance(table) ** 2, SCHEMA)  # a stricter, judged-only opinion
    asked = landing.Probability(0.6, eta=eta)
    answer = cls.small().fit(problem_of(logistic, people)).find(people, options=2, landing=asked)
    check(answer, logistic, asked, people)
    assert list(answer.options.index.get_level_values("option").unique()) == [0, 1]
    first = answer.options[answer.options.index.get_level_values("option") == 0].droplevel("option")
    assert (chance(first) ** 2 >= 0.6 - 1e-9).all()
    assert answer.counts()["FOUND"] == len(first)


def test_an_exact_method_pays_exactly_for_the_shift(people, logistic):
    # linear in log-odds: a landing at 0.7 is the same question as a threshold of 0.7
    from sklearn.linear_model import LogisticRegression

    assert isinstance(logistic, ta.models.LinearMargin)
    asked = ta.methods.ExactLinear().fit(problem_of(logistic, people)).find(people, landing=landing.Probability(0.7))
    original = logistic._judge.original.estimator
    assert isinstance(original, LogisticRegression)
    strict = ta.models.wrap(original, SCHEMA, threshold=0.7, background=people)
    direct = ta.methods.ExactLinear().fit(problem_of(strict, people)).find(people)
    refused = asked.options.index
    np.testing.assert_allclose(asked.options["cost"], direct.options.loc[refused, "cost"], atol=1e-6)


def test_calibration_by_hand():
    model = ta.models.wrap(chance, SCHEMA)
    known = landing.Calibration(None, np.array([-1.0, 0.0, 1.0]), np.array([0.1, 0.5, 0.8]))
    np.testing.assert_allclose(known.probability(np.array([-2.0, -0.5, 0.5, 3.0])), [0.1, 0.3, 0.65, 0.8])
    assert known.margin_at(0.65) == pytest.approx(0.5)
    assert known.margin_at(0.05) == -np.inf and known.margin_at(0.9) == np.inf
    assert repr(known) == "Calibration(3 steps)"
    assert landing.Probability(0.9, eta=known).demanding(model, 0.9) is None


def test_calibration_is_learned_and_rises(people, logistic):
    good = np.random.default_rng(1).random(len(people)) < chance(people)
    known = landing.Calibration.of(logistic, people, good)
    assert (np.diff(known.probabilities) >= 0).all()
    top = known.probabilities.max()
    asked = landing.Probability(min(0.9, float(top) - 0.05), eta=known)
    answer = ta.methods.ExactLinear().fit(problem_of(logistic, people)).find(people, landing=asked)
    check(answer, logistic, asked, people)


def test_calibration_of_another_model(people, logistic):
    from sklearn.ensemble import HistGradientBoostingClassifier

    many = pd.concat([people] * 20, ignore_index=True)
    good = np.random.default_rng(1).random(len(many)) < chance(many)
    trees = HistGradientBoostingClassifier(max_iter=20, max_depth=2, random_state=0).fit(many, good)
    known = landing.Calibration.of(ta.models.wrap(trees, SCHEMA, background=many), many, good)
    np.testing.assert_allclose(known(people), known.probability(known.model.judge(people)))
    asked = landing.Probability(float(known.probabilities.max()) - 0.05, eta=known)
    for cls in (ta.methods.LocalSearch, ta.methods.ExactLinear):
        answer = cls.small().fit(problem_of(logistic, people)).find(people, landing=asked)
        check(answer, logistic, asked, people)
        assert (known(SCHEMA.table(answer.options)) >= asked.probability - 1e-9).all()
    with pytest.raises(ta.TurnaboutError, match="does not know its model"):
        landing.Calibration(None, known.margins, known.probabilities)(people)


def test_outcomes_go_by_label(people, logistic):
    good = pd.Series(np.random.default_rng(1).random(len(people)) < chance(people), people.index)
    known, shuffled = (landing.Calibration.of(logistic, people, g) for g in (good, good.sample(frac=1, random_state=0)))
    np.testing.assert_array_equal(known.probabilities, shuffled.probabilities)
    with pytest.raises(ta.TurnaboutError, match="indexed otherwise"):
        landing.Calibration.of(logistic, people, good.reset_index(drop=True))


def test_nearest_row_does_not_ask_twice(people):
    # its own confidence of 0.7 must not come on top of the landing
    from sklearn.ensemble import RandomForestClassifier

    many = pd.concat([people] * 10, ignore_index=True)
    many["income"] = many["income"] + np.tile([0.0, 40.0], 300)
    good = np.random.default_rng(1).random(len(many)) < chance(many)
    forest = RandomForestClassifier(50, min_samples_leaf=5, random_state=0).fit(many, good)
    model = ta.models.wrap(forest, SCHEMA, threshold=0.5, background=many)
    assert (model.probability(SCHEMA.encode(many)) > 0.85).any()
    asked = landing.Probability(0.8)
    answer = ta.methods.NearestRow().fit(ta.Problem(SCHEMA, model, background=many)).find(people, landing=asked)
    assert answer.counts()["FOUND"] > 0 and answer.counts()["NOT_FOUND"] == 0
    check(answer, model, asked, people)


def test_out_of_reach_is_an_honest_answer(people, logistic):
    known = landing.Calibration(None, np.array([-1.0, 1.0]), np.array([0.1, 0.6]))
    method = ta.methods.LocalSearch.small().fit(problem_of(logistic, people))
    answer = method.find(people, landing=landing.Probability(0.9, eta=known))
    assert answer.counts()["FOUND"] == 0 and answer.counts()["NOT_FOUND"] > 0
    assert answer.why["reason"].str.contains("nobody is known to land where").all()


def test_impossible_says_what_was_asked(logistic, people):
    fixed = ta.Schema((ta.Number("income", 0, 100, step=0.01, moves="fixed"), *SCHEMA.features[1:]))
    model = ta.models.wrap(logistic._judge.original.estimator, fixed, threshold=0.4, background=people)
    poor = pd.DataFrame({"income": [5.0], "debt": [30.0], "insured": [False]})
    asked = landing.Probability(0.95)
    answer = ta.methods.ExactLinear().fit(ta.Problem(fixed, model)).find(poor, landing=asked)
    assert answer.counts()["IMPOSSIBLE"] == 1
    assert "P(good) >= 0.95" in answer.why["reason"].iloc[0]


def test_time_runs_out_without_noise(people, logistic):
    method = ta.methods.LocalSearch.small().fit(problem_of(logistic, people))
    answer = method.find(people, landing=landing.Mirror(), time_limit=1e-6)
    assert answer.counts()["FOUND"] == 0
    assert answer.why["reason"].str.contains("time limit").all()


def test_progress_ends_at_everyone(people, logistic):
    seen = []
    method = ta.methods.ExactLinear().fit(problem_of(logistic, people))
    method.find(people, landing=landing.Mirror(), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (60, 60) and seen == sorted(seen)


def test_levels_round_up():
    targets = np.linspace(0.5, 0.9, 100)
    rounded = levels(targets, most=5)
    assert len(np.unique(rounded)) == 5 and (rounded >= targets).all()
    assert rounded.max() == targets.max()
    np.testing.assert_array_equal(levels(targets[:4]), targets[:4])


def test_targets_by_hand():
    before = np.array([0.2, 0.4])
    np.testing.assert_allclose(landing.Mirror().targets(before), [0.8, 0.6])
    # (3/4 - 0.5 * 0.2) / 0.5 = 1.3 and (3/4 - 0.5 * 0.4) / 0.5 = 1.1: half of the people comply, so no row is safe
    np.testing.assert_allclose(landing.Profit(1, 3, compliance=0.5).targets(before), [1.3, 1.1])
    np.testing.assert_allclose(landing.Profit(gain=1, loss=3).targets(before), [0.75, 0.75])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: landing.Probability(1.0), "not a number strictly between 0 and 1"),
        (lambda: landing.Probability(float("nan")), "not a number strictly between 0 and 1"),
        (lambda: landing.Profit(gain=0), "gain=0, which is not a number above 0"),
        (lambda: landing.Profit(compliance=0), "compliance=0, which is not a number above 0, at most 1"),
    ],
)
def test_bad_parameters(make, text):
    with pytest.raises(ta.TurnaboutError, match=text):
        make()


def test_bad_questions(people, logistic):
    method = ta.methods.LocalSearch.small().fit(problem_of(logistic, people))
    with pytest.raises(ta.TurnaboutError, match="is not a Landing"):
        method.find(people, landing="moon")
    other = ta.Schema(SCHEMA.features[:2])
    eta = ta.models.wrap(lambda table: np.full(len(table), 0.5), other)
    with pytest.raises(ta.TurnaboutError, match="another schema"):
        method.find(people, landing=landing.Mirror(eta=eta))
    with pytest.raises(ta.TurnaboutError, match="all outcomes are the same"):
        landing.Calibration.of(logistic, people, np.ones(60, dtype=bool))
    with pytest.raises(ta.TurnaboutError, match="3 outcomes for 60 people"):
        landing.Calibration.of(logistic, people, [True, False, True])
    amount = ta.models.wrap(lambda table: table["income"].to_numpy(dtype=float), SCHEMA, target_range=(40, None))
    judged = ta.methods.LocalSearch.small().fit(problem_of(amount, people))
    with pytest.raises(ta.TurnaboutError, match="decides by no probability"):
        judged.find(people, landing=landing.Probability(0.7))
