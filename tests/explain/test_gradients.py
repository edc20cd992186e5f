"""Gradients at a row and along a path: formulas by hand, exact for linear scores, and what they refuse."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.errors import ExplainError
from turnabout.explain import engine
from turnabout.explain.score import Score
from turnabout.explain.slopes.gradients import DegenerateGradient, Gradient, GradientTimesInput, IntegratedGradients
from turnabout.explain.slopes.paths import Uniform

compose = pytest.importorskip("sklearn.compose")
ensemble = pytest.importorskip("sklearn.ensemble")
linear_model = pytest.importorskip("sklearn.linear_model")
pipeline = pytest.importorskip("sklearn.pipeline")
preprocessing = pytest.importorskip("sklearn.preprocessing")

SCHEMA = ta.Schema(
    (
        ta.Number("income", 0, 10),
        ta.Category("home", levels=("own", "rent", "free")),
        ta.Number("debt", 0, 5, missing=True),
    )
)


def people(n=6, seed=3):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"income": rng.random(n) * 10, "home": rng.choice(["own", "rent", "free"], n), "debt": rng.random(n) * 5}
    )


def fitted(*steps):
    """A pipeline on one-hot columns, wrapped."""
    table = people(300, 0)
    encode = compose.make_column_transformer((preprocessing.OneHotEncoder(), ["home"]), remainder="passthrough")
    yes = table.income - table.debt + 2 * (table.home == "own") > 4
    return ta.models.wrap(pipeline.make_pipeline(encode, *steps).fit(table, yes), SCHEMA)


@pytest.fixture(scope="module")
def linear():
    impute = pytest.importorskip("sklearn.impute").SimpleImputer(strategy="constant", fill_value=0)
    wrapped = fitted(impute, linear_model.LogisticRegression())
    assert isinstance(wrapped, ta.models.LinearMargin)
    return wrapped


# -- linear scores: every preset gives the coefficients (check 1) ------------------------------------------------------

W = np.array([1.5, -2.0, 0.25])
X = np.random.default_rng(0).normal(size=(5, 3))
SCORES = {
    "with structure": Score.by_autograd(lambda x: x @ torch.as_tensor(W) + 0.7),
    "gradient given": Score(lambda x: x.numpy() @ W + 0.7, lambda x: np.broadcast_to(W, x.shape).copy()),
}


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_linear_scores_give_their_coefficients(score):
    np.testing.assert_allclose(Gradient().explain(score, X).values, np.tile(W, (5, 1)), atol=1e-10)
    np.testing.assert_allclose(GradientTimesInput().explain(score, X).values, X * W, atol=1e-10)
    for baseline in (None, [0.5, -1.0, 2.0]):
        for nodes in (1, 7, 64):
            told = IntegratedGradients(baseline, nodes).explain(score, X)
            way = X - (0.0 if baseline is None else np.array(baseline))
            np.testing.assert_allclose(told.values, way * W, atol=1e-10)


def test_differences_give_the_coefficients_too_but_for_rounding():
    told = Gradient(differences=True).explain(lambda x: x.numpy() @ W + 0.7, X)
    np.testing.assert_allclose(told.values, np.tile(W, (5, 1)), atol=1e-9)
    assert not told.exact and "central differences" in told.notes[-1]


def test_a_linear_model_gives_its_weights_and_adds_them_up_by_feature(linear):
    table = people()
    x, w = SCHEMA.encode(table).numpy(), linear.weights.numpy()
    slope = Gradient().explain(linear, table)
    assert slope.names == list(SCHEMA.columns) and slope.exact and slope.seed is None and slope.errors is None
    np.testing.assert_allclose(slope.values, np.tile(w, (6, 1)), atol=1e-10)
    owed = GradientTimesInput().explain(linear, table)
    assert owed.names == ["income", "home", "debt"]
    parts = np.column_stack([(x * w)[:, s].sum(1) for s in SCHEMA.slices])
    np.testing.assert_allclose(owed.values, parts, atol=1e-10)
    np.testing.assert_allclose(owed.values.sum(axis=1) + linear.bias, owed.output, atol=1e-10)
    background = people(50, 1)
    path = IntegratedGradients().explain(linear, table, background=background)
    start = SCHEMA.encode(background).numpy().mean(0)
    np.testing.assert_allclose(
        path.values, np.column_stack([((x - start) * w)[:, s].sum(1) for s in SCHEMA.slices]), atol=1e-10
    )
    assert path.exact and path.notes[0] == "baseline: the mean of the background."
    np.testing.assert_allclose(path.base, linear.bias + start @ w, atol=1e-10)
    np.testing.assert_allclose(path.gap, 0.0, atol=1e-10)


# -- curved scores -----------------------------------------------------------------------------------------------------


def curved(x):
    return torch.exp(x[:, 0]) * x[:, 1] + x[:, 1] ** 3


def slope_of_curved(x):
    return np.column_stack([np.exp(x[:, 0]) * x[:, 1], np.exp(x[:, 0]) + 3 * x[:, 1] ** 2])


def test_gradients_of_a_curved_score():
    x = np.random.default_rng(1).normal(size=(20, 2)) * [1, 30]  # |x| above and below 1
    told = Gradient().explain(Score.by_autograd(curved), x)
    np.testing.assert_allclose(told.values, slope_of_curved(x), rtol=1e-13)
    near = Gradient(differences=True).explain(curved, x)
    np.testing.assert_allclose(near.values, slope_of_curved(x), rtol=1e-6, atol=1e-7)
    assert near.asked == 20 * 2 * 2
    owed = GradientTimesInput().explain(Score.by_autograd(curved), x)
    np.testing.assert_allclose(owed.values, x * slope_of_curved(x), rtol=1e-13)


def test_integrated_gradients_of_a_product_by_hand():
    # f = x y^2 from 0: integral of (a y)^2 = y^2 / 3, and of 2 a^2 x y = 2 x y / 3
    score = Score.by_autograd(lambda x: x[:, 0] * x[:, 1] ** 2)
    told = IntegratedGradients(nodes=2).explain(score, np.array([[3.0, 2.0]]))
    np.testing.assert_allclose(told.values, [[3 * 4 / 3, 2 * 2 * 3 * 2 / 3]], atol=1e-13)
    assert not told.exact and told.errors is None and told.notes[0].startswith("baseline: zeros")
    assert told.gap.abs().max() < 1e-13


def test_integrated_gradients_are_complete_and_the_gap_is_told():
    x = np.random.default_rng(2).normal(size=(8, 2))
    smooth = IntegratedGradients().explain(Score.by_autograd(curved), x)
    assert smooth.gap.abs().max() < 1e-12
    kink = Score.by_autograd(lambda x: torch.relu(x[:, 0] - 0.31))
    few, many = (IntegratedGradients(nodes=n).explain(kink, np.array([[1.0]])) for n in (5, 500))
    assert abs(few.gap[0]) > 10 * abs(many.gap[0]) > 0
    assert f"within {abs(few.gap[0]):.2g}" in few.notes[1]


def test_the_probability_has_the_slope_of_the_logistic_curve(linear):
    table = people()
    p = linear.probability(SCHEMA.encode(table)).numpy()
    told = Gradient().explain(linear, table, output="probability")
    np.testing.assert_allclose(told.values, (p * (1 - p))[:, None] * linear.weights.numpy(), atol=1e-14)
    assert told.score == "P(yes)"
    path = IntegratedGradients().explain(linear, table, output="probability")
    assert path.gap.abs().max() < 1e-10 and not path.exact


def test_few_points_are_held_at_a_time(monkeypatch):
    sizes = []

    def gradient(x):
        sizes.append(len(x))
        return torch.as_tensor(slope_of_curved(x.numpy()))

    x = np.random.default_rng(2).normal(size=(50, 2))
    whole = IntegratedGradients(nodes=10).explain(Score(curved, gradient), x)
    monkeypatch.setattr(engine, "CHUNK", 100)
    parts = IntegratedGradients(nodes=10).explain(Score(curved, gradient), x)
    assert sizes == [500] + [50] * 10  # 5 people x 10 nodes x 2 columns
    np.testing.assert_allclose(parts.values, whole.values, rtol=1e-13)


# -- scores without a useful gradient ----------------------------------------------------------------------------------


def test_trees_have_a_degenerate_gradient():
    model = fitted(ensemble.RandomForestClassifier(5, max_depth=3, random_state=0))
    assert isinstance(model, ta.models.Trees)
    for explainer in (Gradient(), GradientTimesInput()):
        with pytest.warns(DegenerateGradient, match=r"flat almost everywhere.*SmoothGrad\(estimator='stein'\)") as seen:
            told = explainer.explain(model, people())
        assert (told.values == 0).to_numpy().all()
        assert "flat almost everywhere" in told.notes[0]
        assert seen[0].filename == __file__  # where someone can act on it
    with pytest.raises(ExplainError, match="gradients along a path are 0"):
        IntegratedGradients().explain(model, people())


def test_other_steps_are_degenerate_too():
    step = Score.by_autograd(lambda x: (x[:, 0] > 0).double(), constant_pieces=True)
    for explainer in (Gradient(), Gradient(differences=True)):
        with pytest.warns(DegenerateGradient):
            told = explainer.explain(step, np.array([[0.4, 1.0]]))
        assert (told.values == 0).to_numpy().all()


def judged():
    return ta.models.wrap(lambda table: (table.income / 10).to_numpy(float), SCHEMA)


def test_a_model_without_a_gradient_is_refused_and_told_of_a_way():
    for explainer in (Gradient(), GradientTimesInput()):
        with pytest.raises(ExplainError, match=r"has no gradient(.|\n)*Gradient\(differences=True\)"):
            explainer.explain(judged(), people())
    with pytest.raises(ExplainError, match="has no gradient"):
        IntegratedGradients().explain(curved, np.ones((1, 2)))
    with pytest.warns(DegenerateGradient):  # it is asked at the nearest legal row, so that differences are 0
        told = Gradient(differences=True).explain(judged(), people())
    assert not told.exact


def test_smooth_scores_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Gradient().explain(Score.by_autograd(curved), np.ones((1, 2)))


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("baseline", [[0.0], [0.0, np.nan], [[0.0, 0.0]], "mean", [0.0, "a"], 3])
def test_a_baseline_is_a_row(baseline):
    with pytest.raises(ExplainError, match="is no row of 2 numbers"):
        IntegratedGradients(baseline).explain(Score.by_autograd(curved), np.ones((1, 2)))


@pytest.mark.parametrize("nodes", [0, -1, 2.5, True, None])
def test_nodes_are_counted(nodes):
    with pytest.raises(ExplainError, match=r"nodes=.* is not a whole number from 1 up"):
        IntegratedGradients(nodes=nodes).explain(Score.by_autograd(curved), np.ones((1, 2)))


def test_other_bad_parameters():
    with pytest.raises(ExplainError, match="differences='yes', which is not True or False"):
        Gradient("yes").explain(Score.by_autograd(curved), np.ones((1, 2)))
    with pytest.raises(ExplainError, match="a place on a path is one number"):
        Uniform().design(2, np.random.default_rng(0))


def test_presets_are_frozen_and_print_their_parameters():
    assert repr(IntegratedGradients(nodes=8)) == "IntegratedGradients(baseline=None, nodes=8)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        Gradient().differences = True


def test_differences_in_single_precision_are_poor_and_do_not_say_otherwise():
    def single(x):
        return torch.sin(3 * x.float()).sum(1).double()

    x = np.random.default_rng(0).random((20, 3))
    told = Gradient(differences=True).explain(single, x)
    far = np.abs(told.values - 3 * np.cos(3 * x)).to_numpy().max()
    assert 1e-4 < far < 0.2  # measured: two digits, not ten
    assert "in double precision" in told.notes[-1] and "two where it is computed in single precision" in told.notes[-1]


def test_gradient_times_input_says_what_it_is():
    told = GradientTimesInput().explain(Score.by_autograd(lambda x: x.square().sum(1)), np.ones((1, 2)))
    assert "times the slope" in told.notes[-1] and told.gap is None
