"""The lecture's Gaussian study: 0.109 -> 0.300, and what is known of its population."""

import math

import numpy as np
import pytest

from turnabout.audit.risk.excess import break_even, excess_risk
from turnabout.studies.gaussian.gaussians import GaussianProjection, Gaussians

STUDY = Gaussians(mean=(1, 1), covariance=[[1, 0.5], [0.5, 1]])


def risks(draw, landing, compliant=True):
    """Share of wrong decisions before and after, with labels of movers drawn anew (compliant) or kept (defiant)."""
    refused = STUDY.margin(draw.x) < 0
    labels = np.where(refused, draw.fresh < STUDY.eta(landing), draw.y) if compliant else draw.y
    return (draw.y == refused).mean(), (~labels).mean()  # after recourse everyone is accepted


def test_the_figure_of_the_lecture():  # check 21
    draw = STUDY.legacy_sample()
    before, after = risks(draw, STUDY.project(draw.x))
    assert (before, after) == (0.109, 0.300)
    assert len(draw.x) == 1000 and draw.y.sum() == 500


def test_population():  # check 22
    n = 400_000
    draw = STUDY.sample(n, seed=3)
    landing = STUDY.project(draw.x)
    before, compliant = risks(draw, landing)
    _, defiant = risks(draw, landing, compliant=False)
    for found, truth in ((before, 0.1241065), (compliant, 0.3120533), (defiant, 0.5)):
        assert abs(found - truth) < 4 * math.sqrt(truth * (1 - truth) / n)
    assert STUDY.bayes_risk == pytest.approx(0.1241065, abs=1e-7)
    assert STUDY.risk_after() == pytest.approx(0.3120533, abs=1e-7)
    assert STUDY.risk_after(compliance=0) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
def test_excess_is_that_of_the_population(rho):
    draw = STUDY.sample(200_000, seed=1)
    moves = 0.7 * (STUDY.margin(draw.x) < 0)
    landing = STUDY.eta(STUDY.project(draw.x, 0.7))
    for before in (draw.y, STUDY.eta(draw.x)):
        each = excess_risk(before, landing, moves, rho)
        truth = STUDY.risk_after(0.7, rho, accept=0.7) - STUDY.bayes_risk
        assert abs(each.mean() - truth) < 4 * each.std() / math.sqrt(len(each))


def test_boundary_landing_breaks_even_at_two():  # check 23
    draw = STUDY.sample(2000)
    moves = (STUDY.margin(draw.x) < 0) * np.random.default_rng(0).random(2000)
    landing = STUDY.eta(STUDY.project(draw.x))
    assert break_even(STUDY.eta(draw.x), landing, moves) == pytest.approx(2.0, abs=1e-9)
    assert break_even(draw.y, landing, moves) == pytest.approx(2.0, abs=1e-9)  # labels too: (1 - 2y) / (1/2 - y)


def test_mirror_landing_is_neutral():  # check 24
    draw = STUDY.sample(2000)
    moves = (STUDY.margin(draw.x) < 0) * np.random.default_rng(0).random(2000)
    each = excess_risk(STUDY.eta(draw.x), STUDY.eta(STUDY.mirror(draw.x)), moves, 1.0)
    assert np.abs(each).max() < 1e-9


def test_numbers_of_the_specification():
    assert STUDY.normal_mean == pytest.approx(math.sqrt(2))
    assert STUDY.normal_sd == pytest.approx(1.224745, abs=1e-6)
    assert [round(STUDY.risk_after(p), 4) for p in (0.7, 0.9)] == [0.2121, 0.1121]
    assert [round(STUDY.break_even(p), 3) for p in (0.5, 0.7, 0.9)] == [2.0, 1.305, 0.969]
    safe = 1 - STUDY.bayes_risk
    assert safe == pytest.approx(0.8759, abs=1e-4) and STUDY.risk_after(safe) == pytest.approx(STUDY.bayes_risk)
    assert [round(STUDY.mean_cost(p), 3) for p in (0.5, 0.7, safe, 0.9)] == [1.565, 2.014, 2.601, 2.730]


def test_costs_and_landings_of_a_sample():
    draw = STUDY.sample(100_000, seed=2)
    refused = STUDY.margin(draw.x) < 0
    for landing, cost in ((STUDY.project(draw.x, 0.7), 2.014), (STUDY.mirror(draw.x), 3.130)):
        moved = np.linalg.norm(landing - draw.x, axis=1)
        assert (moved[~refused] == 0).all()
        assert moved[refused].mean() == pytest.approx(cost, abs=0.02)
    assert STUDY.eta(STUDY.project(draw.x, 0.7))[refused] == pytest.approx(0.7, abs=1e-9)
    assert STUDY.eta(STUDY.mirror(draw.x))[refused] == pytest.approx(1 - STUDY.eta(draw.x)[refused], abs=1e-9)


def test_eta_is_bayes_rule_and_never_overflows():
    from scipy.stats import multivariate_normal

    x = np.array([[0.3, -0.4], [1.0, 2.0], [-2.0, 0.5]])
    good, bad = (multivariate_normal(np.multiply(s, STUDY.mean), STUDY.covariance).pdf(x) for s in (1, -1))
    assert STUDY.eta(x) == pytest.approx(good / (good + bad), abs=1e-12)
    assert STUDY.eta(np.array([[1e6, 1e6], [-1e6, -1e6]])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("probability", "landing"), [(0.5, 0.500001), (0.7, 0.7), (None, None)])
def test_as_a_problem_of_turnabout(probability, landing):
    draw = STUDY.sample(300, seed=5)
    people = STUDY.table(draw.x)
    answer = GaussianProjection(STUDY, probability).fit(STUDY.problem(draw)).find(people)
    refused = STUDY.margin(draw.x) < 0
    assert answer.counts()["FOUND"] == refused.sum()
    rows = answer.options[["x1", "x2"]].to_numpy()
    aim = 1 - STUDY.eta(draw.x)[refused] if landing is None else landing
    assert STUDY.eta(rows) == pytest.approx(aim, abs=2e-6)
    length = np.linalg.norm(rows - draw.x[refused], axis=1)
    assert answer.options["cost"].to_numpy() * STUDY.unit == pytest.approx(length, abs=1e-9)
    assert STUDY.model().judge(people) == pytest.approx(STUDY.margin(draw.x), abs=1e-9)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda: Gaussians(mean=(1, 1), covariance=[[1]]), "do not fit"),
        (lambda: Gaussians(mean=(0, 0)), "classes coincide"),
        (lambda: Gaussians(covariance=[[1, 2], [2, 1]]), "not positive definite"),
        (lambda: STUDY.sample(0), "n=0 is not a whole number from 1 up"),
        (lambda: STUDY.project(np.zeros((1, 2)), 1.0), "no landing probability"),
        (lambda: STUDY.project(np.zeros((1, 2)), float("nan")), "no landing probability"),
        (lambda: STUDY.risk_after(compliance=1.2), "compliance=1.2 is not a number from 0 to 1"),
        (lambda: STUDY.break_even(0.3), "landing at 0.3 is refused"),  # whoever lands there stays refused
        (lambda: STUDY.risk_after(0.3), "landing at 0.3 is refused"),
        (lambda: STUDY.risk_after(np.array([0.6, 0.7])), "all at one place"),
        (lambda: Gaussians(mean=("a", "b")), "no number"),
        (lambda: Gaussians(covariance=[[1, 2], [2]]), "no number"),
        (lambda: STUDY.mean_cost(0.4), "is refused"),
    ],
)
def test_what_makes_no_sense_is_refused(ask, text):
    with pytest.raises(ValueError, match=text):
        ask()
