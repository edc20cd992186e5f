"""The engine on numbers done by hand, what it refuses, and the way from a model to a score."""

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.errors import ExplainError
from turnabout.explain import engine
from turnabout.explain.engine import (
    Affine,
    Alike,
    Design,
    GradientMatching,
    LocalApproximation,
    SquaredError,
    inverse_gram,
    mean_error,
    paired_squares,
)
from turnabout.explain.explainer import Explainer
from turnabout.explain.lime.lime_table import LimeTable
from turnabout.explain.score import Score, as_points
from turnabout.explain.shapley.exact import ExactShapley
from turnabout.explain.shapley.kernel import KernelShap
from turnabout.explain.shapley.occlusion import Occlusion
from turnabout.explain.slopes.gaussian_noise import Add, Gaussian, covariance_of
from turnabout.explain.slopes.gradients import Gradient, GradientTimesInput, IntegratedGradients
from turnabout.explain.slopes.smooth import CLime, SmoothGrad

linear_model = pytest.importorskip("sklearn.linear_model")


def tensor(rows):
    return torch.tensor(rows, dtype=torch.float64)


class Given:
    """The perturbations it is given."""

    def __init__(self, design):
        self.known = design

    def design(self, width, rng):
        return self.known


# -- least squares -----------------------------------------------------------------------------------------------------


def test_a_weighted_line_through_three_points_by_hand():
    design = Design(tensor([[0.0], [1.0], [2.0]]), torch.ones(3, dtype=torch.float64))
    fit = Affine().fit(design, tensor([1.0, 2.0, 1.0]), tensor([[0.0, 1.0, 4.0]]), 0.0)
    # weighted mean of xi 1, of f 1.5; slope = (1 * -1 * -1.5 + 0 + 1 * 1 * 2.5) / 2 = 2; intercept 1.5 - 2
    assert fit.slope.item() == pytest.approx(2.0, abs=1e-14)
    assert fit.intercept.item() == pytest.approx(-0.5, abs=1e-14)
    shrunk = Affine().fit(design, tensor([1.0, 2.0, 1.0]), tensor([[0.0, 1.0, 4.0]]), 2.0)
    assert shrunk.slope.item() == pytest.approx(1.0, abs=1e-14)  # 4 / (2 + 2): the intercept is not penalised


@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize("paired", [False, True])
def test_errors_are_those_of_the_sandwich(paired, leave_out):
    rng = np.random.default_rng(0)
    xi = rng.normal(size=(40, 2))
    values, omega = rng.normal(size=(3, 40)), rng.random(40) + 0.1
    design = Design(tensor(xi), tensor(omega), paired=paired)
    fit = Affine(leave_out).fit(design, tensor(omega), tensor(values), 0.0)
    rows = np.column_stack([np.ones(40), xi])
    bread = np.linalg.inv(rows.T @ (omega[:, None] * rows))
    for i in range(3):
        beta = bread @ rows.T @ (omega * values[i])
        residual = values[i] - rows @ beta
        parts = np.arange(40).reshape(-1, 2 if paired else 1)
        if leave_out:  # fit once more without each part
            for part in parts:
                kept = np.setdiff1d(np.arange(40), part)
                weighted = rows[kept].T * omega[kept]
                residual[part] = values[i, part] - rows[part] @ np.linalg.solve(
                    weighted @ rows[kept], weighted @ values[i, kept]
                )
        moment = (rows * (omega * residual)[:, None])[parts].sum(1)
        count = 1.0 if leave_out else len(parts) / (len(parts) - 3)
        variance = bread @ moment.T @ moment @ bread * count
        np.testing.assert_allclose(fit.slope[i], beta[1:], atol=1e-13)
        np.testing.assert_allclose(fit.error[i], np.sqrt(np.diag(variance))[1:], rtol=1e-10)


def test_too_few_draws_have_no_known_error():
    design = Design(tensor([[-1.0], [1.0]]), torch.ones(2, dtype=torch.float64), paired=True)
    fit = Affine().fit(design, design.mass, tensor([[0.0, 1.0]]), 0.0)
    assert fit.slope.item() == pytest.approx(0.5) and torch.isinf(fit.error).all()
    told = CLime(0.1, samples=4).explain(lambda x: x[:, 0], np.zeros((1, 1)))
    assert told.errors.isna().to_numpy().all()  # two pairs, two coefficients
    assert told.to_json()


def test_a_draw_that_cannot_be_left_out_leaves_errors_unknown():
    xi = tensor([[0.0], [0.0], [0.0], [1.0]])  # one draw alone sets the slope
    design = Design(xi, torch.ones(4, dtype=torch.float64))
    values = tensor([[0.0, 0.1, 0.2, 3.0]])
    assert torch.isinf(Affine(leave_out=True).fit(design, design.mass, values, 0.0).error).all()
    assert torch.isfinite(Affine().fit(design, design.mass, values, 0.0).error).all()
    pairs = Design(
        tensor([[0.0], [0.0], [0.0], [0.0], [1.0], [-1.0], [0.0], [0.0]]), torch.ones(8).double(), paired=True
    )
    known = Affine(leave_out=True).fit(pairs, pairs.mass, torch.arange(8.0).double().unsqueeze(0), 0.0)
    assert torch.isinf(known.error).all()


def test_pairs_and_means_of_draws_by_hand():
    draws = tensor([[[1.0], [3.0], [2.0], [6.0]]])
    share = torch.full((4,), 0.25, dtype=torch.float64)
    assert mean_error(draws, share, False).item() == pytest.approx(np.std([1, 3, 2, 6], ddof=1) / 2)
    assert mean_error(draws, share, True).item() == pytest.approx(np.std([2, 4], ddof=1) / np.sqrt(2))
    assert torch.isinf(mean_error(draws[:, :2], tensor([0.5, 0.5]), True)).all()
    squares = paired_squares(tensor([[1.0, 2.0]]), tensor([[3.0, -1.0]]), True)
    assert squares.item() == pytest.approx((3 - 2) ** 2)


def test_perturbations_must_determine_the_slopes():
    with pytest.raises(ExplainError, match="do not determine 2 slopes"):
        inverse_gram(tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]))
    with pytest.raises(ExplainError, match="do not determine 3 slopes"):
        CLime(0.1, samples=4).explain(lambda x: x[:, 0], np.zeros((1, 3)))


def test_some_weight_is_needed():
    law = Given(Design(tensor([[1.0]]), torch.zeros(1, dtype=torch.float64)))
    with pytest.raises(ExplainError, match="every perturbation has weight 0"):
        LocalApproximation(law, Add(), Alike(), SquaredError(), Affine()).fit(Score(lambda x: x[:, 0]), tensor([[0.0]]))


def test_weights_of_perturbations_count_for_gradients_too():
    law = Given(Design(tensor([[0.0], [1.0]]), tensor([1.0, 3.0]), exact=True))
    score = Score(lambda x: x[:, 0] ** 2, lambda x: 2 * x)
    fit = LocalApproximation(law, Add(), Alike(), GradientMatching(), Affine()).fit(score, tensor([[0.0]]))
    assert fit.slope.item() == pytest.approx(1.5) and fit.exact and fit.error is None


def test_neither_order_nor_company_nor_chunks_change_an_answer(monkeypatch):
    def wavy(x):
        return torch.sin(3 * x).sum(1)

    x = np.random.default_rng(1).random((7, 3))
    for explainer in (CLime(0.2, 100), SmoothGrad(0.2, 100), SmoothGrad(0.2, 100, "pathwise")):
        score = Score.by_autograd(wavy)
        whole = explainer.explain(score, x).values.to_numpy()
        turned = explainer.explain(score, x[::-1].copy()).values.to_numpy()
        alone = explainer.explain(score, x[2:3]).values.to_numpy()
        np.testing.assert_allclose(turned[::-1], whole, atol=1e-12)
        np.testing.assert_allclose(alone, whole[2:3], atol=1e-12)
        monkeypatch.setattr(engine, "CHUNK", 700)
        np.testing.assert_allclose(explainer.explain(score, x).values.to_numpy(), whole, atol=1e-12)
        monkeypatch.undo()


def test_same_seed_same_answer_and_another_seed_another():
    people = np.zeros((1, 2))
    first, again, other = (SmoothGrad(0.5, 50).explain(lambda x: x.prod(1), people, seed=s) for s in (3, 3, 4))
    assert first == again
    assert first != other
    assert first.seed == 3


# -- noise -------------------------------------------------------------------------------------------------------------


def test_noise_has_its_covariance_and_comes_in_pairs():
    sigma = [[0.5, 0.2], [0.2, 0.8]]
    design = Gaussian(sigma, 200_000).design(2, np.random.default_rng(0))
    assert torch.equal(design.xi[::2], -design.xi[1::2]) and design.paired
    np.testing.assert_allclose(design.xi.t() @ design.xi / len(design.xi), sigma, atol=0.01)


def test_spread_is_a_deviation_some_deviations_or_a_covariance():
    assert torch.equal(covariance_of(0.5, 2), tensor([[0.25, 0.0], [0.0, 0.25]]))
    assert torch.equal(covariance_of([0.5, 1.0], 2), tensor([[0.25, 0.0], [0.0, 1.0]]))
    assert torch.equal(covariance_of([[0.5]], 1), tensor([[0.5]]))


@pytest.mark.parametrize(
    "spread",
    [0, -0.1, np.nan, np.inf, "wide", None, [0.1], [0.1, 0.0], [0.1, -0.2], [[1.0, 2.0], [2.0, 1.0]],
     [[1.0, 0.5], [0.4, 1.0]], [[1.0, 1.0], [1.0, 1.0]], [[1.0, np.nan], [np.nan, 1.0]], np.ones((2, 2, 2))],
)  # fmt: skip
def test_other_spreads_are_refused(spread):
    with pytest.raises(ExplainError, match="no covariance matrix"):
        covariance_of(spread, 2)
    with pytest.raises(ExplainError, match="no covariance matrix"):
        SmoothGrad(spread).explain(lambda x: x[:, 0], np.zeros((1, 2)))


@pytest.mark.parametrize("samples", [0, -2, 7, 10.0, True, "many", None])
def test_draws_that_are_no_pairs_are_refused(samples):
    for explainer in (SmoothGrad, CLime, Gaussian):
        with pytest.raises(ExplainError, match=r"is not an even number from 2 up(.|\n)*draws come in pairs"):
            explainer(0.1, samples)


# -- scores ------------------------------------------------------------------------------------------------------------


def test_a_score_counts_what_it_is_asked_and_takes_any_shape():
    score = Score(lambda x: x.sum(1).numpy())
    assert score.values(torch.ones(2, 3, 4)).tolist() == [[4.0] * 3] * 2
    assert score.asked == 6
    assert Score.of(score).asked == 0


def test_a_score_is_a_number_everywhere():
    with pytest.raises(ExplainError, match="NaN or infinite at 1 of 2 points"):
        Score(lambda x: torch.log(x[:, 0])).values(tensor([[0.0], [1.0]]))
    with pytest.raises(ExplainError, match="gave 1 numbers for 2 points"):
        Score(lambda x: x.sum()).values(tensor([[0.0], [1.0]]))
    with pytest.raises(ExplainError, match="gradient is NaN or infinite"):
        Score.by_autograd(lambda x: x[:, 0].sqrt()).gradients(tensor([[0.0]]))
    with pytest.raises(ExplainError, match=r"gradient has shape \(2,\) for points of shape \(2, 1\)"):
        Score(lambda x: x[:, 0], lambda x: x[:, 0]).gradients(tensor([[0.0], [1.0]]))


def test_what_cannot_be_explained_is_said():
    with pytest.raises(ExplainError, match="str cannot be explained"):
        Gradient().explain("model", np.zeros((1, 2)))
    for x in (np.zeros((2, 0)), np.zeros((1, 2, 3)), np.array([[np.nan]]), np.array(1.0)):
        with pytest.raises(ExplainError, match="are no table of finite numbers"):
            as_points(x)
    with pytest.raises(ExplainError, match="points must be numbers"):
        as_points([["ann"]])


def test_autograd_of_a_program_without_a_slope_is_zero():
    score = Score.by_autograd(lambda x: (x[:, 0] > 0).double())
    assert torch.equal(score.gradients(tensor([[0.3, 1.0]])), tensor([[0.0, 0.0]]))
    assert torch.equal(Score.by_autograd(lambda x: 2 * x[:, 0]).gradients(tensor([[0.3, 1.0]])), tensor([[2.0, 0.0]]))


SCHEMA = ta.Schema((ta.Number("income", 0, 10), ta.Category("home", levels=("own", "rent", "free"))))
PEOPLE = pd.DataFrame({"income": [1.0, 4.0, 7.5], "home": ["own", "rent", "free"]}, index=["ann", "bob", "cid"])


def bank(table):
    score = 0.5 * table.income.to_numpy(float) - (table.home == "rent").to_numpy() - 1.0
    return 1 / (1 + np.exp(-score))


def logistic(threshold=0.5):
    pipeline = pytest.importorskip("sklearn.pipeline")
    compose, preprocessing = pytest.importorskip("sklearn.compose"), pytest.importorskip("sklearn.preprocessing")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"income": rng.random(200) * 10, "home": rng.choice(["own", "rent", "free"], 200)})
    yes = rng.random(200) < bank(table)
    columns = compose.make_column_transformer((preprocessing.OneHotEncoder(), ["home"]), remainder="passthrough")
    model = pipeline.make_pipeline(columns, linear_model.LogisticRegression()).fit(table, yes)
    return ta.models.wrap(model, SCHEMA, threshold=threshold)


def test_scores_of_models_know_their_structure():
    model = logistic()
    margin, chance = Score.of(model), Score.of(model, "probability")
    assert margin.ridge.link == "identity" and chance.ridge.link == "logit"
    x = SCHEMA.encode(PEOPLE)
    np.testing.assert_allclose(chance.values(x), model.probability(x), atol=1e-14)
    m = x @ chance.ridge.weights + chance.ridge.bias
    np.testing.assert_allclose(chance.values(x), torch.sigmoid(m), atol=1e-14)
    judged = Score.of(ta.models.wrap(bank, SCHEMA))
    assert judged.derivative is None and judged.constant_pieces  # asked at the nearest legal row
    with pytest.raises(ExplainError, match="output='odds' is no score"):
        Score.of(model, "odds")


def test_a_cut_off_moves_no_slope():
    for output in ("margin", "probability"):
        low, high = (Gradient().explain(logistic(t), PEOPLE, output=output) for t in (0.2, 0.7))
        np.testing.assert_allclose(low.values, high.values, atol=1e-13)
    np.testing.assert_allclose(low.output, high.output, atol=1e-13)  # P(yes) is the same too


# -- from people to an attribution -----------------------------------------------------------------------------------


def test_people_keep_their_labels_and_columns_their_names():
    told = SmoothGrad().explain(logistic(), PEOPLE)
    assert list(told.values.index) == ["ann", "bob", "cid"]
    assert told.names == ["income", "home=own", "home=rent", "home=free"]
    assert told.made_by == "SmoothGrad(spread=0.1, samples=1000, estimator='auto')"
    assert told.score == "margin (log-odds)" and told.kind == "slope" and told.space == "input"
    assert told.unit == "per whole range of a feature"


def test_points_may_come_as_a_table():
    told = CLime().explain(lambda x: x[:, 0], pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]}, index=["u", "v"]))
    assert list(told.values.index) == ["u", "v"] and told.names == ["x0", "x1"]


def test_bad_questions_are_refused():
    score = Score(lambda x: x[:, 0])
    for seed in (-1, 1.5, None, True):
        with pytest.raises(ExplainError, match=r"seed=.* is not a whole number"):
            CLime().explain(score, np.zeros((1, 2)), seed=seed)
    with pytest.raises(ExplainError, match="no people to explain"):
        CLime().explain(logistic(), PEOPLE[:0])
    with pytest.raises(ExplainError, match="none in the background"):
        CLime().explain(logistic(), PEOPLE, background=PEOPLE[:0])
    for model, people in ((logistic(), PEOPLE), (score, pd.DataFrame({"a": [1.0]}))):
        with pytest.raises(ExplainError, match="two people share an index label"):
            CLime().explain(model, pd.concat([people, people]))


@pytest.mark.parametrize(
    "explainer",
    [Gradient(), SmoothGrad(), CLime(), IntegratedGradients(), KernelShap(), Occlusion(), ExactShapley(), LimeTable()],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("width", [2, 4])
def test_a_background_of_another_width_is_refused(explainer, width):
    score = Score.by_autograd(lambda x: x.sum(1))
    with pytest.raises(ExplainError, match=f"the background has {width} columns and the people have 3"):
        explainer.explain(score, np.zeros((2, 3)), background=np.zeros((5, width)))
    with pytest.raises(ExplainError, match=f"the background has {width} columns"):
        explainer.as_map(score, background=np.zeros((5, width)))(torch.zeros(2, 3, dtype=torch.float64))


def test_a_map_checks_its_seed_at_once():
    with pytest.raises(ExplainError, match="seed=-1 is not a whole number"):
        CLime().as_map(logistic(), seed=-1)


@pytest.mark.parametrize(
    ("explainer", "kind", "unit"),
    [
        (Gradient(), "slope", "per unit of a column"),
        (SmoothGrad(), "slope", "per unit of a column"),
        (CLime(), "slope", "per unit of a column"),
        (LimeTable(discretize=False, samples=50), "slope", "per deviation of the background"),
        (LimeTable(samples=50), "contribution", None),
        (IntegratedGradients(), "contribution", None),
        (GradientTimesInput(), "contribution", None),
        (KernelShap(), "contribution", None),
        (ExactShapley(), "contribution", None),
        (Occlusion(), "contribution", None),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Explainer) else None,
)
def test_every_explainer_says_what_its_numbers_are(explainer, kind, unit):
    rows = np.random.default_rng(0).normal(size=(30, 3))
    told = explainer.explain(Score.by_autograd(lambda x: x.sum(1)), rows[:2], background=rows)
    assert explainer.kind == told.kind == kind and told.unit == unit


def test_an_explainer_as_a_map_of_points():
    model = logistic()
    x = SCHEMA.encode(PEOPLE)
    told = SmoothGrad(0.3, 200, "pathwise").explain(model, PEOPLE, output="probability", seed=2)
    attribute = SmoothGrad(0.3, 200, "pathwise").as_map(model, output="probability", seed=2)
    np.testing.assert_array_equal(attribute(x), told.values)
    assert isinstance(SmoothGrad(), Explainer)
