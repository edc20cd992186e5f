"""SmoothGrad and C-LIME are one number, and a wrong gradient is found out."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.errors import ExplainError
from turnabout.explain.score import Score
from turnabout.studies.stein import check_stein

W = torch.tensor([1.0, -2.0], dtype=torch.float64)
SIGMA = [[0.5, 0.2], [0.2, 0.8]]
HERE = np.array([0.4, 0.1])
PROBIT = Score.by_autograd(lambda x: torch.special.ndtr(x @ W + 0.3))


def test_both_sides_of_the_identity_agree_on_the_probit():
    check = check_stein(PROBIT, HERE, SIGMA, 100_000)
    assert check.passed and (np.abs(check.z) < 4).all() and check.z.shape == (1, 2)
    np.testing.assert_allclose(check.smoothgrad, [[0.19564019, -0.39128037]], atol=4 * check.smoothgrad_error.max())
    np.testing.assert_allclose(check.difference, check.smoothgrad - check.clime)
    np.testing.assert_allclose(check.error**2, check.smoothgrad_error**2 + check.clime_error**2)
    assert str(check).startswith("SmoothGrad and C-LIME agree")
    written = json.loads(json.dumps(check.to_dict(), allow_nan=False))
    assert written["passed"] is True and written["z"] == check.z.tolist()


def test_differences_are_as_large_as_their_errors_say():
    x = np.random.default_rng(0).normal(size=(1, 2))
    z = np.concatenate([check_stein(PROBIT, x, SIGMA, 1000, seed).z[0] for seed in range(300)])
    assert 0.9 < z.std() < 1.1 and abs(z.mean()) < 0.15


def test_a_wrong_gradient_is_found_out():
    wrong = Score(PROBIT.function, lambda x: 1.1 * PROBIT.derivative(x))
    check = check_stein(wrong, HERE, SIGMA, 100_000)
    assert not check.passed and "do not agree" in str(check)


def test_a_step_that_does_not_say_so_is_found_out():
    step = Score.by_autograd(lambda x: (x[:, 0] > 0).double())  # autograd says 0
    assert not check_stein(step, HERE, SIGMA, 10_000).passed


def test_a_step_that_says_so_is_refused():
    step = Score.by_autograd(lambda x: (x[:, 0] > 0).double(), constant_pieces=True)
    with pytest.raises(ExplainError, match="gradients are 0 wherever they are drawn"):
        check_stein(step, HERE, SIGMA, 1000)


def test_linear_scores_agree_but_for_rounding():
    far = Score.by_autograd(lambda x: x @ W + 1e6)
    for score in (far, Score.by_autograd(lambda x: 0 * x[:, 0])):
        check = check_stein(score, np.random.default_rng(0).normal(size=(5, 2)), 0.01, 1000)
        assert check.passed and np.abs(check.difference).max() < 1e-4


def test_trees_are_compared_in_closed_form():
    ensemble = pytest.importorskip("sklearn.ensemble")
    schema = ta.Schema((ta.Number("a", 0, 1), ta.Number("b", 0, 1)))
    table = pd.DataFrame(np.random.default_rng(0).random((200, 2)), columns=["a", "b"])
    forest = ensemble.RandomForestClassifier(5, max_depth=4, random_state=0).fit(table, table.a + table.b > 1)
    check = check_stein(ta.models.wrap(forest, schema), table[:4], 0.2, 10_000)
    assert check.passed and (check.smoothgrad_error == 0).all() and (check.smoothgrad != 0).all()
    assert (check.clime_error > 0).all()
    points = check_stein(ta.models.wrap(forest, schema), schema.encode(table[:4]), 0.2, 10_000)
    np.testing.assert_array_equal(points.z, check.z)


def test_what_cannot_be_checked_is_said():
    with pytest.raises(ExplainError, match="this score has no gradient"):
        check_stein(PROBIT.function, HERE, SIGMA, 1000)
    with pytest.raises(ExplainError, match="no covariance matrix"):
        check_stein(PROBIT, HERE, -1.0, 1000)
    with pytest.raises(ExplainError, match="samples=5, which is not an even number"):
        check_stein(PROBIT, HERE, SIGMA, 5)
    with pytest.raises(ExplainError, match="too few draws"):
        check_stein(PROBIT, HERE, SIGMA, 6)
    with pytest.raises(ExplainError, match="seed=-1 is not a whole number"):
        check_stein(PROBIT, HERE, SIGMA, 1000, seed=-1)
    with pytest.raises(ExplainError, match="there is nobody to check"):
        check_stein(PROBIT, np.zeros((0, 2)), SIGMA, 1000)
