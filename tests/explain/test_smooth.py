"""SmoothGrad by three roads and C-LIME: known answers, honest errors, and the scores each road is refused for."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.errors import ExplainError
from turnabout.explain.engine import Design
from turnabout.explain.explainer import ExplanationTask
from turnabout.explain.score import Ridge, Score, as_points
from turnabout.explain.slopes.closed import mean_logistic
from turnabout.explain.slopes.smooth import CLime, KnownCovariance, SmoothGrad
from turnabout.models.model import Terms

W = torch.tensor([1.0, -2.0], dtype=torch.float64)
SIGMA = [[0.5, 0.2], [0.2, 0.8]]
HERE = np.array([[0.4, 0.1]])
EXACT = np.array([0.19564019, -0.39128037])

PROBIT = Score.by_autograd(lambda x: torch.special.ndtr(x @ W + 0.3))
KNOWN = Score.by_autograd(lambda x: torch.special.ndtr(x @ W + 0.3), ridge=Ridge(W, 0.3, "probit"))

ROADS = {
    "pathwise": SmoothGrad(SIGMA, 1000, "pathwise"),
    "stein": SmoothGrad(SIGMA, 1000, "stein"),
    "clime": CLime(SIGMA, 1000),
}

# -- linear scores (check 1) -------------------------------------------------------------------------------------------

SPREADS = {"one": 0.1, "wide": 3.0, "each": [0.1, 2.0, 0.01], "covariance": np.diag([1.0, 2.0, 3.0]) + 0.5}


@pytest.mark.parametrize("spread", SPREADS.values(), ids=SPREADS)
def test_linear_scores_give_their_coefficients_whatever_the_noise(spread):
    w = np.array([1.5, -2.0, 0.25])
    x = np.random.default_rng(0).normal(size=(4, 3))
    plain = Score.by_autograd(lambda x: x @ torch.as_tensor(w) + 0.7)
    ridge = Score.by_autograd(plain.function, ridge=Ridge(torch.as_tensor(w), 0.7, "identity"))
    told = [SmoothGrad(spread, 100).explain(score, x) for score in (plain, ridge)]
    told += [SmoothGrad(spread, 100, "pathwise").explain(ridge, x), CLime(spread, 100).explain(plain.function, x)]
    for answer in told:
        np.testing.assert_allclose(answer.values, np.tile(w, (4, 1)), atol=1e-10)
    assert [answer.exact for answer in told] == [False, True, False, False]
    sampled = SmoothGrad(spread, 20_000, "stein").explain(plain, x)  # values alone: right, but for its errors
    assert (np.abs(sampled.values - w) < 4.5 * sampled.errors).to_numpy().all()


# -- the probit (checks 2 and 3) ---------------------------------------------------------------------------------------


def test_the_probit_in_closed_form():
    told = SmoothGrad(SIGMA).explain(KNOWN, HERE)
    np.testing.assert_allclose(told.values.iloc[0], EXACT, atol=5e-9)
    assert told.exact and told.errors is None and told.seed is None and told.asked == 0
    assert told.notes == ("in closed form.",)


@pytest.mark.parametrize("explainer", [SmoothGrad(SIGMA, 4_000_000, "stein"), CLime(SIGMA, 4_000_000)], ids=repr)
def test_values_alone_lead_to_the_closed_form(explainer):
    told = explainer.explain(PROBIT.function, HERE)
    z = (told.values.iloc[0] - EXACT) / told.errors.iloc[0]
    assert (z.abs() < 4).all() and (told.errors < 5e-4).to_numpy().all()
    assert told.asked == 4_000_000 and not told.exact


def test_the_pathwise_estimate_is_near_too_and_less_noisy():
    path, stein = (SmoothGrad(SIGMA, 100_000, road).explain(PROBIT, HERE) for road in ("pathwise", "stein"))
    assert ((path.values.iloc[0] - EXACT).abs() < 4 * path.errors.iloc[0]).all()
    assert (path.errors < stein.errors).to_numpy().all()


def test_auto_takes_the_best_road_there_is():
    answers = [SmoothGrad(SIGMA, 100).explain(score, HERE) for score in (KNOWN, PROBIT, PROBIT.function)]
    assert [answer.notes[0] for answer in answers] == [
        "in closed form.", "pathwise.", "by Stein's identity, from values alone."
    ]  # fmt: skip
    with pytest.raises(ExplainError, match="there is no closed form: the score is no linear, probit or logit"):
        SmoothGrad(SIGMA, 100, "closed").explain(PROBIT, HERE)


# -- errors cover ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROADS)
def test_estimates_lie_within_their_errors_as_often_as_they_say(name):
    """Estimate +- 1.96 standard errors over 1,000 seeds: 93 to 97 %."""
    exact = SmoothGrad(SIGMA).explain(KNOWN, HERE).values.to_numpy()
    hits = np.zeros(2)
    for seed in range(1000):
        fit = ROADS[name]._explain(ExplanationTask(PROBIT, as_points(HERE), None, None, seed)).fit
        hits += (np.abs(fit.slope.numpy() - exact) < 1.96 * fit.error.numpy())[0]
    assert (hits >= 930).all() and (hits <= 970).all(), hits


def test_errors_of_few_draws_are_not_too_small():
    question = [ExplanationTask(PROBIT, as_points(HERE), None, None, seed) for seed in range(1000)]
    fits = [CLime(SIGMA, 100)._explain(one).fit for one in question]
    slopes, errors = (torch.cat(part).numpy() for part in zip(*((fit.slope, fit.error) for fit in fits), strict=True))
    ratio = np.sqrt((errors**2).mean(0)) / slopes.std(0)
    assert (ratio > 0.95).all() and (errors.mean(0) / slopes.std(0) > 0.95).all(), ratio


# -- other closed forms ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("s", [1e-6, 0.1, 0.99, 1.0, 1.01, 4.0, 50.0])
def test_the_logit_by_quadrature(s):
    integrate, special = pytest.importorskip("scipy.integrate"), pytest.importorskip("scipy.special")
    for m in (-30.0, -2.0, 0.0, 0.3, 7.0):

        def f(u, m=m):
            return special.expit(u) * special.expit(-u) * np.exp(-0.5 * ((u - m) / s) ** 2) / (s * np.sqrt(2 * np.pi))

        def g(e, m=m):
            return special.expit(m + s * e) * special.expit(-m - s * e) * np.exp(-0.5 * e**2) / np.sqrt(2 * np.pi)

        ends = (-14, 14) if s < 2 else (-45, 45)
        expected = integrate.quad(g if s < 2 else f, *ends, epsabs=1e-15, epsrel=1e-13, limit=400)[0]
        assert float(mean_logistic(torch.tensor([m], dtype=torch.float64), s)) == pytest.approx(expected, abs=1e-12)


def test_the_logit_agrees_with_sampling():
    logit = Score.by_autograd(lambda x: torch.sigmoid(x @ W + 0.3), ridge=Ridge(W, 0.3, "logit"))
    exact = SmoothGrad(SIGMA).explain(logit, HERE)
    path = SmoothGrad(SIGMA, 200_000, "pathwise").explain(logit, HERE)
    assert exact.exact and (np.abs(exact.values - path.values) < 4 * path.errors).to_numpy().all()


@pytest.mark.parametrize("spread", [[0.3, 0.7], SIGMA], ids=["diagonal", "covariance"])
def test_sums_over_features_in_closed_form(spread):
    knots, bends = (torch.tensor(row, dtype=torch.float64) for row in ([0.2, -0.1, 0.5], [3.0, -1.0, 2.0]))
    terms = Terms(W, 0.1, torch.tensor([0, 1, 1]), knots, bends)
    score = Score(terms.margin, terms.gradient, terms=terms)
    exact = SmoothGrad(spread).explain(score, HERE)
    path = SmoothGrad(spread, 200_000, "pathwise").explain(score, HERE)
    assert exact.exact and (np.abs(exact.values - path.values) < 4 * path.errors).to_numpy().all()
    sd = 0.3 if spread[0] == 0.3 else 0.5**0.5
    beyond = 0.5 + 0.5 * math.erf((0.4 - 0.2) / sd / math.sqrt(2))
    assert exact.values.iloc[0, 0] == pytest.approx(1 + 3 * beyond, abs=1e-12)


def test_quadratic_scores_keep_their_gradient_under_any_noise():
    a = np.array([[2.0, 0.5], [0.5, -1.0]])
    score = Score.by_autograd(lambda x: 0.5 * torch.einsum("ni,ij,nj->n", x, torch.as_tensor(a), x) + x @ W)
    for spread in (0.1, 2.0, SIGMA):
        told = SmoothGrad(spread, 50).explain(score, HERE)  # a pair's gradients average to the one at x
        np.testing.assert_allclose(told.values, HERE @ a + W.numpy(), atol=1e-12)
        assert told.errors.to_numpy().max() < 1e-12


# -- steps (check 4) ---------------------------------------------------------------------------------------------------

STEP = Score.by_autograd(lambda x: (x[:, 0] > 0).double(), constant_pieces=True)
STEP_SIGMA = [[0.5, 0.0], [0.0, 0.8]]


@pytest.mark.parametrize("explainer", [SmoothGrad(STEP_SIGMA, 400_000), CLime(STEP_SIGMA, 400_000)], ids=repr)
def test_a_step_has_a_slope_once_it_is_smoothed(explainer):
    told = explainer.explain(STEP, HERE)
    z = (told.values.iloc[0] - [0.48077065, 0.0]) / told.errors.iloc[0]
    assert (z.abs() < 4).all() and (told.errors < 0.005).to_numpy().all()


def test_averaged_gradients_of_a_step_are_refused():
    with pytest.raises(ExplainError, match=r"gradients are 0 wherever they are drawn(.|\n)*estimator='stein'"):
        SmoothGrad(STEP_SIGMA, 100, "pathwise").explain(STEP, HERE)


def test_pathwise_needs_a_gradient():
    with pytest.raises(ExplainError, match="this score has no gradient"):
        SmoothGrad(0.1, 100, "pathwise").explain(PROBIT.function, HERE)


# -- models that are asked at legal rows only --------------------------------------------------------------------------

SCHEMA = ta.Schema(
    (
        ta.Number("income", 0, 10, step=0.01),
        ta.Category("home", levels=("own", "rent", "free")),
        ta.Number("debt", 0, 5, step=0.01, missing=True),
    )
)
PEOPLE = pd.DataFrame({"income": [4.0, 6.0], "home": ["own", "rent"], "debt": [2.0, np.nan]}, index=["ann", "bob"])


def bank(table):
    return (0.3 + 0.05 * table.income - 0.04 * table.debt.fillna(1.0) + 0.05 * (table.home == "own")).to_numpy(float)


@pytest.mark.parametrize("explainer", [SmoothGrad(0.05, 4000), CLime(0.05, 4000)], ids=repr)
def test_noise_leaves_levels_and_missing_cells_alone(explainer):
    told = explainer.explain(ta.models.wrap(bank, SCHEMA), PEOPLE)
    assert "says nothing of them" in told.notes[-1]
    assert (told.values.filter(like="=") == 0).to_numpy().all()
    assert told.values.loc["bob", "debt"] == 0 and np.isnan(told.errors.loc["bob", "debt"])  # not known, and not 0
    assert told.errors.filter(like="=").isna().to_numpy().all() and told.errors["income"].gt(0).all()
    np.testing.assert_allclose(told.values["income"], 0.5, atol=0.05)  # 0.05 a unit, over a range of 10
    assert told.values.loc["ann", "debt"] == pytest.approx(-0.2, abs=0.05)


def test_noise_needs_a_column_to_move():
    schema = ta.Schema((ta.Category("home", levels=("own", "rent")),))
    model = ta.models.wrap(lambda table: (table.home == "own").to_numpy(float), schema)
    with pytest.raises(ExplainError, match="every column is a level"):
        CLime().explain(model, pd.DataFrame({"home": ["own"]}))


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_stein_by_hand():
    design = Design(torch.tensor([[1.0], [-1.0], [2.0], [-2.0]]).double(), torch.ones(4).double(), paired=True)
    values = torch.tensor([[3.0, 1.0, 6.0, -1.0]]).double()
    fit = KnownCovariance(torch.tensor([[2.0]]).double()).fit(design, design.mass, values, 0.0)
    pairs = np.array([(3 - 1) * 1 / 2, (6 + 1) * 2 / 2]) / 2  # (f+ - f-) / 2 * e / Sigma
    assert fit.slope.item() == pytest.approx(pairs.mean())
    assert fit.error.item() == pytest.approx(pairs.std(ddof=1) / np.sqrt(2))
    loose = Design(design.xi, design.mass)  # without pairs, the mean of f is taken off
    fit = KnownCovariance(torch.tensor([[2.0]]).double()).fit(loose, loose.mass, values, 0.0)
    draws = (values[0].numpy() - 2.25) * design.xi[:, 0].numpy() / 2
    assert fit.slope.item() == pytest.approx(draws.mean())
    assert fit.error.item() == pytest.approx(draws.std(ddof=1) / 2)
    shrunk = KnownCovariance(torch.tensor([[2.0]]).double()).fit(design, design.mass, values, 8.0)
    assert shrunk.slope.item() == pytest.approx(pairs.mean() / 2)  # Sigma + 8 / 4
    alone = Design(design.xi[:2], design.mass[:2], paired=True)
    assert torch.isinf(KnownCovariance(torch.eye(1).double()).fit(alone, alone.mass, values[:, :2], 0.0).error).all()
    every = Design(design.xi, design.mass, exact=True)
    assert KnownCovariance(torch.eye(1).double()).fit(every, every.mass, values, 0.0).error is None


def test_a_constant_that_is_added_changes_nothing():
    for explainer in ROADS.values():
        near = explainer.explain(PROBIT, HERE)
        far = explainer.explain(Score.by_autograd(lambda x: PROBIT.function(x) + 1000.0), HERE)
        np.testing.assert_allclose(far.values, near.values, atol=1e-9)
        np.testing.assert_allclose(far.errors, near.errors, atol=1e-9)


def test_an_unknown_estimator_is_refused():
    with pytest.raises(
        ExplainError, match="estimator='magic', which is not one of 'auto', 'closed', 'pathwise', 'stein'"
    ):
        SmoothGrad(0.1, 100, "magic").explain(PROBIT, HERE)
