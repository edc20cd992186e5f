"""LIME's limits: constants, exact slopes, the unbiased estimate and the usual fit."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnabout.errors import ExplainError
from turnabout.explain.lime.masks import draw_masks, log_kernel
from turnabout.explain.shapley.games import coalitions
from turnabout.studies.lime_limits import (
    LimeConstants,
    Tilted,
    crowd_constants,
    lime_constants,
    lime_exact,
    lime_limit,
    lime_reference,
    shape_slopes,
    wide_constants,
)

LAWS = ("image", "text")


def numbers(constants: LimeConstants) -> list[float]:
    return [constants.c1, constants.c2, constants.c3]


def game(d: int, seed: int = 0):
    table = np.random.default_rng(seed).normal(size=2**d)
    return lambda masks: table[(masks @ (1 << np.arange(d))).astype(int)]


def brute_force(f, d: int, width: float, law: str) -> np.ndarray:
    """(a, theta) by least squares over all masks, with probabilities counted one by one."""
    masks = np.array(list(itertools.product([0.0, 1.0], repeat=d)))
    removed = d - masks.sum(1)
    if law == "image":
        chance = np.full(len(masks), 2.0**-d)
    else:
        chance = np.array([0 if s == 0 else 1 / (d * math.comb(d, int(s))) for s in removed])
    weight = chance * np.exp(-((1 - np.sqrt(1 - removed / d)) ** 2) / (2 * width**2))
    root = np.sqrt(weight)[:, None]
    rows = np.hstack([np.ones((len(masks), 1)), masks])
    return np.linalg.lstsq(rows * root, f(masks) * root[:, 0], rcond=None)[0]


# -- constants ------------------------------------------------------------------------------------------------


def test_constants_of_six_superpixels():  # check 11
    assert numbers(lime_constants(6, 0.25)) == pytest.approx([-6.941846, 8.529944, 0.565745], abs=5e-7)


def test_constants_of_a_wide_kernel():  # check 12
    assert numbers(lime_constants(8, 10.0)) == pytest.approx([-2.002026, 4.002247, 0.000166], abs=5e-7)


@pytest.mark.parametrize("d", [2, 3, 5, 12, 100, 3000])
def test_text_constants_of_an_endless_kernel(d):  # check 13
    assert numbers(lime_constants(d, math.inf, "text")) == pytest.approx(numbers(wide_constants(d, "text")), abs=1e-9)
    assert numbers(lime_constants(d, 1e6, "text")) == pytest.approx(numbers(wide_constants(d, "text")), abs=1e-6)


@pytest.mark.parametrize("d", [1, 2, 7, 2000])
def test_image_constants_of_an_endless_kernel(d):
    assert numbers(lime_constants(d, math.inf)) == pytest.approx(numbers(wide_constants(d)), abs=1e-9)


def test_constants_of_a_thousand_superpixels():  # check 15
    constants = lime_constants(1000)
    assert (constants.c1, constants.c2) == pytest.approx((-3.9907, 7.9457), abs=5e-5)


def test_constants_of_many_superpixels_tend_to_those_of_a_crowd():
    limit = numbers(crowd_constants(0.25))
    assert limit == pytest.approx([-3.973, 7.945, 0.0], abs=5e-4)
    gaps = [np.abs(np.subtract(numbers(lime_constants(d)), limit)).max() for d in (100, 1000, 10_000, 100_000)]
    assert gaps[3] < 2e-4
    assert all(8 < near / far < 12 for near, far in itertools.pairwise(gaps))  # O(1 / d)


def test_constants_agree_with_the_inverse_of_the_normal_matrix():
    d, width = 7, 0.4
    masks = coalitions(d).numpy()
    weight = np.exp(log_kernel(1 - masks.mean(1), width)) / 2**d
    a0, a1, a2 = weight.sum(), (weight * masks[:, 0]).sum(), (weight * masks[:, 0] * masks[:, 1]).sum()
    det = (d - 1) * a0 * a2 - d * a1**2 + a0 * a1
    c2 = ((d - 2) * a0 * a2 - (d - 1) * a1**2 + a0 * a1) / ((a1 - a2) * det)
    expected = [-a1 / det, c2, (a1**2 - a0 * a2) / ((a1 - a2) * det)]
    assert numbers(lime_constants(d, width)) == pytest.approx(expected, rel=1e-10)


# -- exact slopes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("d", "width"), [(2, 0.25), (6, 0.25), (6, 1.0), (8, 10.0)])
def test_exact_slopes_are_those_of_least_squares(d, width, law):
    found = lime_exact(game(d), d, width, law)
    expected = brute_force(game(d), d, width, law)
    assert found.values == pytest.approx(expected[1:], abs=1e-12)
    assert found.intercept == pytest.approx(expected[0], abs=1e-12)
    assert found.errors is None and found.asked == 2**d


def test_a_narrow_kernel_leaves_one_out():  # check 14
    d, f = 6, game(6, 3)
    full = np.ones((1, d))
    left_out = np.array([f(full)[0] - f(full - np.eye(d)[[j]])[0] for j in range(d)])
    gap = np.abs(lime_exact(f, d, 0.03).values - left_out).max()
    assert 0 < gap < 1e-5
    assert lime_exact(f, d, 0.01).values == pytest.approx(left_out, abs=1e-12)  # weights below 1e-16


def test_an_endless_kernel_compares_with_the_mean():
    d, f = 7, game(7, 1)
    masks = coalitions(d).numpy()
    values = f(masks)
    expected = [2 * (values[masks[:, j] == 1].mean() - values.mean()) for j in range(d)]
    assert lime_exact(f, d, math.inf).values == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("law", LAWS)
@given(width=st.floats(0.06, 5), d=st.integers(2, 9), seed=st.integers(0, 99))
def test_linear_functions_keep_their_coefficients(law, width, d, seed):  # check 1
    slope = np.random.default_rng(seed).normal(size=d)
    found = lime_exact(lambda masks: masks @ slope - 2, d, width, law)
    assert found.values == pytest.approx(slope, abs=1e-10)
    assert found.intercept == pytest.approx(-2, abs=1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_exact_slopes_are_linear_in_the_function(law):
    f, g = game(6, 1), game(6, 2)
    both = lime_exact(lambda z: f(z) + g(z), 6, law=law).values
    assert both == pytest.approx(lime_exact(f, 6, law=law).values + lime_exact(g, 6, law=law).values, abs=1e-12)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_shape_detectors(p, law):  # check 17
    d = 7
    found = lime_exact(lambda masks: masks[:, :p].prod(1), d, 0.25, law).values
    inside, outside = shape_slopes(d, p, 0.25, law)
    assert found[:p] == pytest.approx([inside] * p, abs=1e-12)
    assert found[p:] == pytest.approx([outside] * (d - p), abs=1e-12)


def test_a_shape_of_everything():
    inside, _ = shape_slopes(4, 4)
    assert lime_exact(lambda masks: masks.prod(1), 4).values == pytest.approx([inside] * 4, abs=1e-12)


def test_moments_of_the_tilted_law():
    d, masks = 6, coalitions(6).numpy()
    weight = np.exp(log_kernel(1 - masks.mean(1), 0.25))
    for p in range(4):
        expected = (weight * masks[:, :p].prod(1)).sum() / weight.sum()
        assert Tilted.of(d).all_kept(p) == pytest.approx(expected, abs=1e-14)


# -- estimates ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
def test_the_estimate_is_unbiased_and_its_errors_cover(law):
    d, f = 5, game(5, 7)
    truth = lime_exact(f, d, 0.5, law).values
    estimates, errors = [], []
    for seed in range(1000):
        found = lime_limit(f, d, 300, 0.5, law, seed)
        estimates.append(found.values)
        errors.append(found.errors)
    z = (np.array(estimates) - truth) / np.array(errors)
    covered = (np.abs(z) < 1.96).mean(0)
    assert ((covered >= 0.93) & (covered <= 0.97)).all(), covered
    spread = np.std(estimates, axis=0) / math.sqrt(1000)
    assert (np.abs(np.mean(estimates, 0) - truth) < 4 * spread).all()


def test_the_estimate_is_unbiased_for_three_masks():
    d, f = 3, game(3, 2)
    truth = lime_exact(f, d, 0.5).values
    few = np.array([lime_limit(f, d, 3, 0.5, seed=seed).values for seed in range(2000)])
    assert (np.abs(few.mean(0) - truth) < 4 * few.std(0) / math.sqrt(2000)).all()


@pytest.mark.parametrize("law", LAWS)
def test_the_usual_fit_covers_the_limit(law):
    d, f = 5, game(5, 9)
    truth = lime_exact(f, d, 0.5, law).values
    found = [lime_reference(f, d, 400, 0.5, law, ridge=0.0, seed=seed) for seed in range(1000)]
    covered = (np.abs(np.array([(one.values - truth) / one.errors for one in found])) < 1.96).mean(0)
    assert ((covered >= 0.93) & (covered <= 0.97)).all(), covered


@pytest.mark.parametrize("law", LAWS)
def test_exact_limit_and_reference_agree(law):
    d, f = 6, game(6, 4)
    truth = lime_exact(f, d, law=law).values
    for estimate in (lime_limit(f, d, 200_000, law=law), lime_reference(f, d, 200_000, law=law, ridge=1.0)):
        assert (np.abs(estimate.values - truth) < 4.5 * estimate.errors).all()
        assert estimate.asked == 200_000


def test_the_estimate_serves_thousands_of_concepts():
    d = 2000
    found = lime_limit(lambda masks: masks[:, 0] * 3.0, d, 200, seed=1)
    assert abs(found.values[0] - 3) < 5 * found.errors[0]


def test_same_seed_same_slopes():
    f = game(4)
    for estimate in (lime_limit, lime_reference):
        assert (estimate(f, 4, 50, seed=3).values == estimate(f, 4, 50, seed=3).values).all()
        assert (estimate(f, 4, 50, seed=3).values != estimate(f, 4, 50, seed=4).values).any()


def test_masks_of_texts_remove_uniformly_many():
    masks = draw_masks(4, 40_000, "text", np.random.default_rng(0))
    removed = np.bincount((4 - masks.sum(1)).astype(int), minlength=5) / 40_000
    assert removed == pytest.approx([0, 0.25, 0.25, 0.25, 0.25], abs=0.01)
    assert masks.mean(0) == pytest.approx([0.375] * 4, abs=0.01)


# -- words and errors -----------------------------------------------------------------------------------------


def test_reports_are_plain_data():
    found = lime_limit(game(3), 3, 50)
    assert set(found.to_dict()) == {"values", "intercept", "errors", "asked"}
    assert "3 slopes from 50 masks" in str(found) and "exact" in str(lime_exact(game(3), 3))
    assert str(wide_constants(4)) == "c1 -2.000000, c2 4.000000, c3 0.000000"
    assert lime_constants(3).to_dict()["c1"] < 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lime_constants(0), "d=0 is not a whole number from 1 up"),
        (lambda: lime_constants(5, float("nan")), "width=nan"),
        (lambda: lime_constants(5, -1), "width=-1"),
        (lambda: lime_constants(5, law="video"), "law='video'"),
        (lambda: lime_constants(20_000, 0.005), "too small for a number"),
        (lambda: lime_exact(game(6), 6, 0.001), "removes equally many"),
        (lambda: lime_constants(1, law="text"), "removes equally many"),
        (lambda: wide_constants(1, "text"), "one word"),
        (lambda: crowd_constants(0.001), "too narrow"),
        (lambda: shape_slopes(4, 5), "p=5"),
        (lambda: lime_exact(game(3), 19), "2^19"),
        (lambda: lime_exact(lambda z: z, 3), r"shape (8, 3)"),
        (lambda: lime_exact(lambda z: z[:, 0] / 0, 3), "no numbers"),
        (lambda: lime_limit(game(3), 3, 1), "n=1"),
        (lambda: lime_limit(game(3), 3, 10, seed=-1), "seed=-1"),
        (lambda: lime_reference(game(3), 3, 10, ridge=-1), "ridge=-1"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_errors_say_what_is_wrong(call, words):
    with pytest.raises(ExplainError) as error:
        call()
    assert words in str(error.value)


def test_errors_that_are_not_known_are_told_so():
    few = lime_reference(lambda z: z.sum(1), 10, n=8)  # fewer masks than slopes
    assert np.isnan(few.errors).all() and "standard errors not known" in str(few)
    assert json.loads(json.dumps(few.to_dict(), allow_nan=False))["errors"] == [None] * 10
