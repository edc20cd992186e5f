"""Parsed splits and leaves agree with their libraries exactly where it is hardest: at and beside every threshold."""

import numpy as np
import pandas as pd
import pytest

from turnabout.models.libraries import read_forest
from turnabout.models.libraries.lightgbm import grow_zero_as_missing
from turnabout.models.libraries.raw_forest import Grower, NotCompilable, RawForest, SetSplit, cut_of_float32

ensemble = pytest.importorskip("sklearn.ensemble")
tree = pytest.importorskip("sklearn.tree")


def training_rows(seed=0, n=300, missing=0.0):
    """Three numbers of different grain and a code from 0 to 7, with a label in three classes."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=n), rng.integers(-3, 4, n), rng.exponential(1e4, n), rng.integers(0, 8, n)])
    x = x.astype(np.float64)
    score = x[:, 0] + 0.4 * x[:, 1] + 1e-4 * x[:, 2] + np.isin(x[:, 3], [1, 4, 6]) + rng.normal(size=n) * 0.3
    x[rng.random(x.shape) < missing] = np.nan
    return x, score, (score > 1.3).astype(int), np.digitize(score, [0.5, 2.0])


def hard_rows(raw: RawForest, x, seed=1, missing=False):
    """Training rows with cells moved onto each cut and one double to either side of it; some of them missing."""
    rng = np.random.default_rng(seed)
    rows = [x]
    for step in (None, -np.inf, np.inf):
        moved = x[rng.integers(0, len(x), 400)].copy()
        splits = np.flatnonzero((raw.input >= 0) & (raw.set_index < 0) & np.isfinite(raw.cut))
        for row in moved:
            for node in rng.choice(splits, 3):
                cut = raw.cut[node]
                row[raw.input[node]] = cut if step is None else np.nextafter(cut, step)
        rows.append(moved)
    rows = np.concatenate(rows)
    if missing:
        rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows


def assert_same(raw, rows, expected):
    expected = np.asarray(expected, dtype=np.float64).reshape(len(rows), -1)
    difference = np.abs(raw.scores(rows) - expected).max()
    assert difference <= raw.tolerance, (difference, raw.tolerance)


# the cut ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
def test_a_float32_threshold_becomes_the_last_double_on_its_left(strict):
    rng = np.random.default_rng(0)
    single = np.concatenate([rng.normal(size=300) * 10.0 ** rng.integers(-40, 38, 300), [0.0, -0.0, 1, -1, 2, 1e-45]])
    t = np.concatenate([single.astype(np.float32).astype(np.float64), single, [3.4028234663852886e38, -3.4e38]])
    cut = cut_of_float32(t, strict=strict)

    def goes_left(v):
        with np.errstate(over="ignore"):
            rounded = v.astype(np.float32).astype(np.float64)
        return rounded < t if strict else rounded <= t

    assert goes_left(cut).all()
    assert not goes_left(np.nextafter(cut, np.inf)).any()


def test_infinite_thresholds_keep_everything_on_one_side():
    assert cut_of_float32(np.inf, strict=False) == np.inf
    assert cut_of_float32(-np.inf, strict=True) < -3.4e38


def test_a_set_split_knows_members_and_strangers():
    split = SetSplit(frozenset({1, "a"}), frozenset({2}), others_left=True)
    assert [split.goes_left(v) for v in (1, 1.0, "a", 2, 2.5, np.float64(2), 9, "b")] == [
        True, True, True, False, False, False, True, True
    ]  # fmt: skip


# scikit-learn -----------------------------------------------------------------------------------------------------

FORESTS = [
    (tree.DecisionTreeClassifier, {"max_depth": 4}, True),
    (ensemble.RandomForestClassifier, {"n_estimators": 8, "max_depth": 5}, True),
    (ensemble.ExtraTreesClassifier, {"n_estimators": 8}, False),
]


@pytest.mark.parametrize(("cls", "options", "missing"), FORESTS, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("classes", [2, 3])
def test_sklearn_forests(cls, options, missing, classes):
    x, _, binary, many = training_rows(missing=0.05 if missing else 0)
    model = cls(random_state=0, **options).fit(x, binary if classes == 2 else many)
    raw = read_forest(model)
    assert raw.link == "probability"
    rows = hard_rows(raw, x, missing=missing)
    expected = model.predict_proba(rows)
    assert_same(raw, rows, expected[:, 1] if classes == 2 else expected)


@pytest.mark.parametrize(
    "model",
    [
        tree.DecisionTreeRegressor(max_depth=4),
        ensemble.RandomForestRegressor(6, max_depth=4, random_state=0),
        ensemble.ExtraTreesRegressor(6, max_depth=4, random_state=0),
        ensemble.GradientBoostingRegressor(n_estimators=12, loss="huber"),
        ensemble.HistGradientBoostingRegressor(max_iter=12),
    ],
    ids=lambda m: type(m).__name__,
)
def test_sklearn_regressors(model):
    x, target, _, _ = training_rows()
    raw = read_forest(model.fit(x, target))
    assert raw.link == "identity"
    rows = hard_rows(raw, x)
    assert_same(raw, rows, model.predict(rows))


@pytest.mark.parametrize("options", [{}, {"init": "zero"}, {"loss": "exponential"}], ids=str)
def test_gradient_boosting(options):
    x, _, accepted, _ = training_rows()
    model = ensemble.GradientBoostingClassifier(n_estimators=15, random_state=0, **options).fit(x, accepted)
    raw = read_forest(model)
    assert raw.link == "log-odds"
    assert not raw.accepts_missing
    rows = hard_rows(raw, x)
    p = model.predict_proba(rows)[:, 1]
    np.testing.assert_allclose(raw.scores(rows)[:, 0], np.log(p / (1 - p)), atol=1e-9)
    if not options:
        assert_same(raw, rows, model.decision_function(rows))


def test_gradient_boosting_of_three_classes():
    x, _, _, many = training_rows()
    model = ensemble.GradientBoostingClassifier(n_estimators=8, random_state=0).fit(x, many)
    raw = read_forest(model)
    assert raw.link == "softmax"
    assert_same(raw, hard_rows(raw, x), model.decision_function(hard_rows(raw, x)))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("categorical", [None, [3], [1, 3]])
def test_histogram_boosting(classes, categorical):
    x, _, binary, many = training_rows(missing=0.05)
    y = binary if classes == 2 else many
    model = ensemble.HistGradientBoostingClassifier(max_iter=12, categorical_features=categorical).fit(x, y)
    raw = read_forest(model)
    rows = hard_rows(raw, x, missing=True)
    rows[:5, 3] = 77.0  # never seen
    assert raw.accepts_missing
    assert_same(raw, rows, model.decision_function(rows))


def test_histogram_boosting_keeps_the_names_of_categories():
    x, _, accepted, _ = training_rows()
    table = pd.DataFrame(x, columns=list("abcd"))
    table["d"] = pd.Categorical([f"level {int(v)}" for v in x[:, 3]])
    model = ensemble.HistGradientBoostingClassifier(max_iter=10, categorical_features="from_dtype")
    model.fit(table, accepted)
    raw = read_forest(model)
    assert any("level 4" in s.left | s.right for s in raw.sets)
    assert_same(raw, table.to_numpy(dtype=object), model.decision_function(table))


# XGBoost ----------------------------------------------------------------------------------------------------------


def xgboost_model(kind, **options):
    xgboost = pytest.importorskip("xgboost")
    return getattr(xgboost, kind)(**{"n_estimators": 12, "max_depth": 4, "n_jobs": 1, **options})


@pytest.mark.parametrize(
    "options",
    [{}, {"base_score": 0.2}, {"booster": "dart", "rate_drop": 0.3}, {"num_parallel_tree": 2, "subsample": 0.7}],
    ids=str,
)
@pytest.mark.parametrize("classes", [2, 3])
def test_xgboost_classifiers(options, classes):
    x, _, binary, many = training_rows(missing=0.05)
    model = xgboost_model("XGBClassifier", **options).fit(x, binary if classes == 2 else many)
    raw = read_forest(model)
    assert raw.link == ("log-odds" if classes == 2 else "softmax")
    rows = hard_rows(raw, x, missing=True)
    assert_same(raw, rows, model.predict(rows, output_margin=True))


def test_xgboost_regressor_and_early_stopping():
    x, target, _, _ = training_rows()
    model = xgboost_model("XGBRegressor", n_estimators=60, learning_rate=0.9, early_stopping_rounds=2)
    model.fit(x[:200], target[:200], eval_set=[(x[200:], target[200:])], verbose=False)
    raw = read_forest(model)
    assert len(raw.roots) == model.best_iteration + 1 < 60
    rows = hard_rows(raw, x)
    assert_same(raw, rows, model.predict(rows))


@pytest.mark.parametrize("named", [False, True])
def test_xgboost_categories(named):
    x, _, accepted, _ = training_rows()
    table = pd.DataFrame(x, columns=list("abcd"))
    table["d"] = pd.Categorical([f"level {int(v)}" if named else int(v) for v in x[:, 3]])
    model = xgboost_model("XGBClassifier", enable_categorical=True, max_cat_to_onehot=1).fit(table, accepted)
    raw = read_forest(model)
    assert raw.sets
    assert_same(raw, table.to_numpy(dtype=object), model.predict(table, output_margin=True))


# LightGBM ---------------------------------------------------------------------------------------------------------


def lightgbm_model(kind, **options):
    lightgbm = pytest.importorskip("lightgbm")
    return getattr(lightgbm, kind)(**{"n_estimators": 12, "num_leaves": 9, "verbose": -1, "n_jobs": 1, **options})


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    "options",
    [{}, {"zero_as_missing": True}, {"use_missing": False}],
    ids=str,
)
@pytest.mark.parametrize("classes", [2, 3])
def test_lightgbm_classifiers(options, classes):
    x, _, binary, many = training_rows(missing=0.05)
    x[::7, 2] = 0.0
    model = lightgbm_model("LGBMClassifier", **options).fit(x, binary if classes == 2 else many)
    raw = read_forest(model)
    rows = hard_rows(raw, x, missing=True)
    z = float(np.float32(1e-35))
    rows[:12, 0] = [0.0, -0.0, z, -z, *np.nextafter([z, z, -z, -z], [0, 1, 0, -1]), 1e-36, -1e-36, 1e-34, -1e-34]
    assert_same(raw, rows, model.predict(rows, raw_score=True))


def test_lightgbm_averages_a_random_forest():
    x, _, accepted, _ = training_rows()
    table = pd.DataFrame(x)
    model = lightgbm_model("LGBMClassifier", boosting_type="rf", subsample=0.7, subsample_freq=1).fit(table, accepted)
    p = model.predict_proba(table)[:, 1]
    np.testing.assert_allclose(read_forest(model).scores(x)[:, 0], np.log(p / (1 - p)), atol=1e-9)


@pytest.mark.parametrize("cut", [-1.0, 1.0, 0.0, 1e-36, -1e-36])
@pytest.mark.parametrize("default_left", [False, True])
def test_zero_as_missing_is_written_in_plain_splits(cut, default_left):
    grower = Grower(scores=1)
    left, right = grower.leaf([1.0]), grower.leaf([0.0])
    grower.roots.append(grow_zero_as_missing(grower, 0, cut, left, right, default_left))
    raw = grower.forest(bias=0.0, link="identity", n_inputs=1, source="by hand")
    z = float(np.float32(1e-35))
    v = np.array([-2, -1, np.nextafter(-1, 0), -1e-34, np.nextafter(-z, -1), -z, 0, 1e-36, z, np.nextafter(z, 1), 1, 2])
    expected = np.where(np.abs(v) <= z, default_left, v <= cut)
    assert (raw.scores(v[:, None])[:, 0] == expected).all()
    assert raw.scores([[np.nan]])[0, 0] == default_left


@pytest.mark.parametrize("named", [False, True])
def test_lightgbm_categories(named):
    x, _, accepted, _ = training_rows(n=600, missing=0.03)
    table = pd.DataFrame(x, columns=list("abcd"))
    table["d"] = pd.Categorical([np.nan if v != v else f"level {int(v)}" if named else int(v) for v in x[:, 3]])
    model = lightgbm_model("LGBMClassifier", min_data_per_group=5, cat_smooth=1).fit(table, accepted)
    raw = read_forest(model)
    assert raw.sets
    assert_same(raw, table.to_numpy(dtype=object), model.predict(table, raw_score=True))


def test_lightgbm_regressor_and_scaled_sigmoid():
    x, target, accepted, _ = training_rows()
    table = pd.DataFrame(x)
    model = lightgbm_model("LGBMRegressor").fit(table, target)
    assert_same(read_forest(model), x, model.predict(table))
    model = lightgbm_model("LGBMClassifier", sigmoid=0.5).fit(table, accepted)
    p = model.predict_proba(table)[:, 1]
    np.testing.assert_allclose(read_forest(model).scores(x)[:, 0], np.log(p / (1 - p)), atol=1e-9)


# refusals ---------------------------------------------------------------------------------------------------------


def test_other_estimators_are_left_to_others():
    assert read_forest(object()) is None
    assert read_forest(ensemble.AdaBoostClassifier()) is None


def test_refusals_say_why():
    x, target, accepted, _ = training_rows()
    base = tree.DecisionTreeClassifier(max_depth=1)
    cases = [
        (ensemble.GradientBoostingClassifier(n_estimators=2, init=base).fit(x, accepted), "starts from a model"),
        (tree.DecisionTreeRegressor().fit(x, np.c_[target, target]), "2 outputs"),
        (tree.DecisionTreeClassifier().fit(x, np.zeros(len(x))), "single class"),
        (ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=2).fit(x, accepted), "exponential"),
    ]
    for model, reason in cases:
        with pytest.raises(NotCompilable, match=reason) as caught:
            read_forest(model)
        assert reason in caught.value.reason


def test_xgboost_refusals_say_why():
    x, target, accepted, _ = training_rows()
    for model, y, reason in [
        (xgboost_model("XGBClassifier", missing=-999.0), accepted, "missing=-999.0"),
        (xgboost_model("XGBRegressor", booster="gblinear", max_depth=None), target, "not made of trees"),
        (xgboost_model("XGBRegressor", objective="count:poisson"), accepted, "count:poisson"),
    ]:
        with pytest.raises(NotCompilable, match=reason):
            read_forest(model.fit(x, y))


def test_lightgbm_refusals_say_why():
    x, target, accepted, _ = training_rows()
    for model, y, reason in [
        (lightgbm_model("LGBMRegressor", linear_tree=True), target, "linear model in each leaf"),
        (lightgbm_model("LGBMRegressor", objective="poisson"), accepted, "poisson"),
    ]:
        with pytest.raises(NotCompilable, match=reason):
            read_forest(model.fit(pd.DataFrame(x), y))


def test_catboost_is_refused_by_name():
    class CatBoostClassifier:
        __module__ = "catboost.core"

    with pytest.raises(NotCompilable, match="CatBoost"):
        read_forest(CatBoostClassifier())
