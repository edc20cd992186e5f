"""The closed form for tree ensembles: by hand, against sampling, and against its own derivative."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.errors import ExplainError
from turnabout.explain.score import Score
from turnabout.explain.slopes import smoothed_trees
from turnabout.explain.slopes.smooth import CLime, SmoothGrad
from turnabout.explain.slopes.smoothed_trees import smooth_forest

compose = pytest.importorskip("sklearn.compose")
ensemble = pytest.importorskip("sklearn.ensemble")
pipeline = pytest.importorskip("sklearn.pipeline")
preprocessing = pytest.importorskip("sklearn.preprocessing")
tree = pytest.importorskip("sklearn.tree")

HOMES = ["own", "rent", "free"]
SCHEMA = ta.Schema(
    (
        ta.Number("income", 0, 10),
        ta.Number("debt", 0, 5, missing=True),
        ta.Category("home", levels=tuple(HOMES)),
        ta.Ordinal("school", levels=("low", "mid", "high")),
    )
)
NUMBERS = ta.Schema((ta.Number("a", 0, 1), ta.Number("b", 0, 1), ta.Number("c", 0, 1)))


def people(n=12, seed=3):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "income": rng.random(n) * 10,
            "debt": rng.random(n) * 5,
            "home": rng.choice(HOMES, n),
            "school": rng.choice(["low", "mid", "high"], n),
        }
    )
    table.loc[rng.random(n) < 0.3, "debt"] = np.nan
    return table


def wanted(table):
    school = table.school.map({"low": 0, "mid": 1, "high": 2})
    return table.income - table.debt.fillna(4) + 2 * (table.home == "own") + school > 4


def fitted(estimator):
    table = people(400, 0)
    grades = preprocessing.OrdinalEncoder(categories=[["low", "mid", "high"]])
    columns = compose.make_column_transformer(
        (preprocessing.OneHotEncoder(), ["home"]), (grades, ["school"]), remainder="passthrough"
    )
    return ta.models.wrap(pipeline.make_pipeline(columns, estimator).fit(table, wanted(table)), SCHEMA)


ESTIMATORS = {
    "forest": ensemble.RandomForestClassifier(8, max_depth=6, random_state=0),
    "boosting": ensemble.HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=12),
}


@pytest.fixture(scope="module", params=ESTIMATORS)
def model(request):
    wrapped = fitted(ESTIMATORS[request.param])
    assert isinstance(wrapped, ta.models.Trees)
    return wrapped


def deviations(size, d=SCHEMA.d):
    return torch.full((d,), size, dtype=torch.float64)


def of_numbers(estimator, target):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((300, 3)), columns=list("abc"))
    return ta.models.wrap(estimator.fit(table, target(table)), NUMBERS)


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_one_cut_by_hand():
    model = of_numbers(tree.DecisionTreeClassifier(max_depth=1), lambda t: t.a > 0.4)
    (cut,) = model.forest.cuts[0].tolist()
    x, s = 0.55, 0.2
    z = (x - cut) / s
    found = smooth_forest(model.forest, torch.tensor([[x, 0.1, 0.9]]).double(), deviations(s, 3))
    assert found.value.item() == pytest.approx(-0.5 + 0.5 * (1 + math.erf(z / math.sqrt(2))), abs=1e-7)
    assert found.gradient[0, 0].item() == pytest.approx(math.exp(-z * z / 2) / (s * math.sqrt(2 * math.pi)), abs=1e-7)
    assert found.gradient[0, 1:].tolist() == [0.0, 0.0]


def test_an_interval_and_two_columns_by_hand():
    model = of_numbers(tree.DecisionTreeClassifier(), lambda t: (t.a > 0.3) & (t.a < 0.7) & (t.b > 0.5))
    (a0, a1), (b0,) = model.forest.cuts[0].tolist(), model.forest.cuts[1].tolist()
    normal = pytest.importorskip("scipy.stats").norm
    x, s = np.array([0.35, 0.6]), np.array([0.1, 0.3])
    inside = normal.cdf((a1 - x[0]) / s[0]) - normal.cdf((a0 - x[0]) / s[0])
    above = normal.cdf((x[1] - b0) / s[1])
    slope = (normal.pdf((a0 - x[0]) / s[0]) - normal.pdf((a1 - x[0]) / s[0])) / s[0]
    found = smooth_forest(model.forest, torch.tensor([[*x, 0.2]]).double(), torch.tensor([*s, 1.0]).double())
    assert found.value.item() == pytest.approx(inside * above - 0.5, abs=1e-12)
    expected = [slope * above, inside * normal.pdf((x[1] - b0) / s[1]) / s[1], 0.0]
    np.testing.assert_allclose(found.gradient[0], expected, atol=1e-12)


# -- against the forest itself -----------------------------------------------------------------------------------------


def test_sampling_leads_to_the_closed_form(model):
    """Check 5: within 4 standard errors at every coordinate, for Stein and for C-LIME."""
    table = people()
    exact = SmoothGrad(0.15).explain(model, table)
    assert exact.exact and exact.errors is None and exact.asked == 0 and exact.notes[0] == "in closed form."
    held = np.array(["=" in name for name in exact.names])
    for explainer in (SmoothGrad(0.15, 20_000, "stein"), CLime(0.15, 20_000)):
        told = explainer.explain(model, table)
        gap = np.abs(told.values - exact.values).to_numpy()
        known = told.errors.notna().to_numpy()
        assert (gap[known] <= 4 * told.errors.to_numpy()[known]).all() and (gap[~known] == 0).all()
        assert (exact.values.to_numpy()[:, held] == 0).all() and not known[:, held].any()
        assert told.notes[-1] == exact.notes[-1]  # levels stay: said by both
    assert (exact.values.to_numpy()[:, ~held] != 0).mean() > 0.8


def test_its_mean_is_the_mean_of_the_forest(model):
    x = SCHEMA.encode(people())
    draws = torch.as_tensor(np.random.default_rng(0).normal(size=(20_000, SCHEMA.d)) * 0.2)
    draws[:, model.forest.is_level] = 0.0
    found = smooth_forest(model.forest, x, deviations(0.2))
    for i in range(len(x)):
        own = draws.clone()
        own[:, 1] *= 1 - x[i, 2]  # a missing cell stays
        values = model.margin(x[i] + own)
        assert abs(float(values.mean() - found.value[i])) < 4 * float(values.std()) / 20_000**0.5 + 1e-12


def test_its_gradient_is_the_slope_of_its_value(model):
    x, s = SCHEMA.encode(people()), deviations(0.1)
    found = smooth_forest(model.forest, x, s)
    for j in torch.nonzero(~model.forest.is_level).squeeze(1).tolist():
        step = torch.zeros(SCHEMA.d, dtype=torch.float64)
        step[j] = 1e-6
        rise = smooth_forest(model.forest, x + step, s).value - smooth_forest(model.forest, x - step, s).value
        np.testing.assert_allclose(found.gradient[:, j], rise / 2e-6, atol=1e-7)


def test_little_noise_leaves_the_forest_as_it_is(model):
    x = SCHEMA.encode(people())
    np.testing.assert_allclose(smooth_forest(model.forest, x, deviations(1e-9)).value, model.margin(x), atol=1e-9)


def test_missing_cells_stay_missing(model):
    table = people()
    told = SmoothGrad(0.15).explain(model, table)
    missing = table.debt.isna().to_numpy()
    assert missing.any() and (told.values.loc[missing, "debt"] == 0).all()
    assert (told.values.loc[~missing, "debt"] != 0).any()


def test_noise_does_not_make_a_missing_cell_a_number():
    table = people(400, 0)
    low = table.debt.isna() | (table.debt < 0.4)  # a missing cell is encoded as 0, and is near the cut
    schema = ta.Schema((SCHEMA["income"], SCHEMA["debt"]))
    boosting = ensemble.HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=2, min_samples_leaf=5)
    model = ta.models.wrap(boosting.fit(table[["income", "debt"]], low), schema)
    rows = pd.DataFrame({"income": [5.0, 5.0], "debt": [np.nan, 0.5]})
    exact = SmoothGrad(0.2).explain(model, rows)
    assert exact.values.loc[0, "debt"] == 0 and exact.values.loc[1, "debt"] < -1
    for explainer in (SmoothGrad(0.2, 1000, "stein"), CLime(0.2, 1000)):
        told = explainer.explain(model, rows)
        np.testing.assert_allclose(told.values.loc[0], 0.0, atol=1e-12)
        assert told.errors.loc[0, "income"] < 1e-12 and np.isnan(told.errors.loc[0, "debt"])  # noise does not meet it
        assert abs(told.values.loc[1, "debt"] - exact.values.loc[1, "debt"]) < 4 * told.errors.loc[1, "debt"]


def test_chunks_of_people_change_nothing(model, monkeypatch):
    x, s = SCHEMA.encode(people()), deviations(0.1)
    whole = smooth_forest(model.forest, x, s)
    monkeypatch.setattr(smoothed_trees, "CHUNK", 1)
    parts = smooth_forest(model.forest, x, s)
    np.testing.assert_allclose(parts.gradient, whole.gradient, atol=1e-13)
    np.testing.assert_allclose(parts.value, whole.value, atol=1e-13)


def test_a_cut_off_and_the_unit_of_the_score():
    wrapped = fitted(ESTIMATORS["forest"])  # its margin is P(yes) - 0.5
    table = people()
    margin, chance = (SmoothGrad(0.1).explain(wrapped, table, output=output) for output in ("margin", "probability"))
    np.testing.assert_array_equal(margin.values, chance.values)
    np.testing.assert_allclose(chance.output - margin.output, 0.5, atol=1e-12)
    boosted = fitted(ESTIMATORS["boosting"])  # sums of trees in log-odds: P(yes) is no sum of trees
    told = SmoothGrad(0.1, 100).explain(boosted, table, output="probability")
    assert told.notes[0].startswith("by Stein's identity")


# -- where there is none -----------------------------------------------------------------------------------------------


def test_noise_must_be_independent_from_column_to_column():
    model = of_numbers(tree.DecisionTreeClassifier(max_depth=3), lambda t: t.a + t.b > 1)
    together = np.full((3, 3), 0.005) + 0.01 * np.eye(3)
    table = pd.DataFrame({"a": [0.5], "b": [0.4], "c": [0.1]})
    with pytest.raises(ExplainError, match="trees need noise that is independent"):
        SmoothGrad(together, 100, "closed").explain(model, table)
    assert SmoothGrad(together, 100).explain(model, table).notes[0].startswith("by Stein's identity")


def test_averaged_gradients_of_trees_are_refused(model):
    with pytest.raises(ExplainError, match="gradients are 0 wherever they are drawn"):
        SmoothGrad(0.1, 100, "pathwise").explain(model, people())


def test_rows_between_levels_have_no_closed_form(model):
    x = SCHEMA.encode(people()).mean(0, keepdim=True)
    with pytest.raises(ExplainError, match="between the levels of a category"):
        smooth_forest(model.forest, x, deviations(0.1))
    score = Score.of(model)
    with pytest.raises(ExplainError, match="no closed form: a row lies between the levels"):
        SmoothGrad(0.1, 100, "closed").explain(score, x)
    assert SmoothGrad(0.1, 100).explain(score, x).notes[0].startswith("by Stein's identity")


def test_several_scores_have_no_closed_form():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((300, 3)), columns=list("abc"))
    kind = np.digitize(table.a + table.b, [0.7, 1.3])
    forest = ensemble.RandomForestClassifier(5, max_depth=3, random_state=0).fit(table, kind)
    model = ta.models.wrap(forest, NUMBERS, target=2)
    assert len(model.forest.bias) == 3
    with pytest.raises(ExplainError, match="the forest has 3 scores"):
        smooth_forest(model.forest, NUMBERS.encode(table), deviations(0.1, 3))
    assert SmoothGrad(0.1, 100).explain(model, table[:2]).notes[0].startswith("by Stein's identity")


def test_deviations_are_one_for_each_column(model):
    for wrong in (deviations(0.0), deviations(0.1, 2), deviations(math.nan)):
        with pytest.raises(ExplainError, match="are no 7 numbers above 0"):
            smooth_forest(model.forest, SCHEMA.encode(people()), wrong)


def test_a_tree_without_a_cut_is_flat():
    model = of_numbers(tree.DecisionTreeClassifier(min_samples_split=1000), lambda t: t.a > 0.4)
    found = smooth_forest(model.forest, torch.rand(4, 3, dtype=torch.float64), deviations(0.1, 3))
    assert (found.gradient == 0).all() and torch.allclose(found.value, model.margin(torch.zeros(1, 3).double()))
