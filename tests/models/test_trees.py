"""Tree ensembles behind preprocessing, and on raw columns with categories and missing cells."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from turnabout.models import Differentiable, LinearMargin, ReluNet, Trees, wrap

pytest.importorskip("sklearn")

from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

pytestmark = pytest.mark.filterwarnings("ignore")

SKLEARN = [
    DecisionTreeClassifier(max_depth=5, random_state=0),
    RandomForestClassifier(10, random_state=0),
    ExtraTreesClassifier(10, random_state=0),
    GradientBoostingClassifier(n_estimators=10, random_state=0),
    GradientBoostingClassifier(n_estimators=10, loss="exponential", random_state=0),
    HistGradientBoostingClassifier(max_iter=10),
]


def prepared(estimator, number=None, imputer=None) -> Pipeline:
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    return make_pipeline(
        ColumnTransformer(
            [
                ("numbers", make_pipeline(imputer or SimpleImputer(), number or StandardScaler()), ["income", "age"]),
                ("words", words, ["housing", "phone"]),
                ("order", OrdinalEncoder(), ["school"]),
            ]
        ),
        estimator,
    )


def boosters():
    out = []
    for module, name, options in (
        ("xgboost", "XGBClassifier", {"n_estimators": 10, "n_jobs": 1}),
        ("lightgbm", "LGBMClassifier", {"n_estimators": 10, "n_jobs": 1, "verbose": -1}),
    ):
        try:
            out.append(getattr(__import__(module), name)(**options))
        except ImportError:
            continue
    return out


@pytest.mark.parametrize("estimator", [*SKLEARN, *boosters()], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("threshold", [None, 0.7])
def test_pipelines_become_trees(estimator, threshold, people, accepted, schema):
    pipeline = prepared(estimator).fit(people, accepted)
    model = wrap(pipeline, schema, threshold, background=people)
    assert isinstance(model, Trees), model.notes
    assert not isinstance(model, (LinearMargin, ReluNet, Differentiable))
    x = schema.encode(people)
    asked, fast = model.judge(people), model.margin(x).numpy()
    assert np.abs(asked - fast).max() < (1e-4 if "XGB" in model.notes[-1] else 1e-9)
    p = pipeline.predict_proba(people)[:, 1]
    assert np.array_equal(asked >= 0, pipeline.predict(people) == 1 if threshold is None else p >= threshold)
    assert model.scale == ("log-odds" if "Boosting" in repr(model) or boosted(estimator) else "probability")
    assert torch.equal(pickle.loads(pickle.dumps(model)).margin(x), model.margin(x))


def boosted(estimator) -> bool:
    return type(estimator).__name__ in ("XGBClassifier", "LGBMClassifier")


@pytest.mark.parametrize(
    "parts",
    [
        {"number": MinMaxScaler(), "imputer": SimpleImputer(add_indicator=True)},
        {"number": KBinsDiscretizer(4, encode="ordinal")},
    ],
    ids=["indicator", "bins"],
)
def test_inputs_need_not_be_straight(parts, people, accepted, schema):
    model = wrap(prepared(DecisionTreeClassifier(max_depth=4, random_state=0), **parts).fit(people, accepted), schema)
    assert isinstance(model, Trees), model.notes
    assert np.allclose(model.judge(people), model.margin(schema.encode(people)).numpy())


def test_inputs_of_two_features_are_refused(people, accepted, schema):
    from sklearn.decomposition import PCA

    pipeline = prepared(RandomForestClassifier(5, random_state=0), number=PCA(2)).fit(people, accepted)
    assert "depends on both 'age' and 'income'" in wrap(pipeline, schema).notes[-1]


@pytest.mark.parametrize("name", ["HistGradientBoostingClassifier", "XGBClassifier", "LGBMClassifier"])
@pytest.mark.parametrize("background", [True, False], ids=["background", "alone"])
def test_native_categories_and_missing_cells(name, background, people, accepted, schema):
    if name == "HistGradientBoostingClassifier":
        estimator = HistGradientBoostingClassifier(max_iter=10, categorical_features="from_dtype")
    elif name == "XGBClassifier":
        xgboost = pytest.importorskip("xgboost")
        estimator = xgboost.XGBClassifier(n_estimators=10, enable_categorical=True, max_cat_to_onehot=1, n_jobs=1)
    else:
        lightgbm = pytest.importorskip("lightgbm")
        estimator = lightgbm.LGBMClassifier(n_estimators=10, min_data_per_group=5, cat_smooth=1, n_jobs=1, verbose=-1)
    columns = ["phone", "school", "income", "housing", "age"]
    typed = people.astype(dict.fromkeys(("housing", "school", "phone"), "category"))[columns]
    estimator.fit(typed, accepted)
    model = wrap(estimator, schema, background=typed if background else None)
    assert isinstance(model, Trees), model.notes
    plain = people.astype(dict.fromkeys(("housing", "school", "phone"), object))
    assert np.array_equal(model.judge(plain), model.judge(typed))
    assert np.array_equal(model.judge(plain) >= 0, estimator.predict(typed) == 1)
    assert np.abs(model.judge(plain) - model.margin(schema.encode(people)).numpy()).max() < 1e-4


def test_multiclass_trees(people, accepted, schema):
    grades = np.where(accepted == 1, "A", np.where(people.age > 45, "B", "C"))
    for estimator in (RandomForestClassifier(6, random_state=0), HistGradientBoostingClassifier(max_iter=5)):
        pipeline = prepared(estimator).fit(people, grades)
        model = wrap(pipeline, schema, target="C", background=people)
        assert isinstance(model, Trees)
        assert np.array_equal(model.judge(people) >= 0, pipeline.predict(people) == "C")
        assert np.abs(model.judge(people) - model.margin(schema.encode(people)).numpy()).max() < 1e-9
    forest = prepared(RandomForestClassifier(6, random_state=0)).fit(people, grades)
    assert isinstance(wrap(forest, schema, 0.4, target="C"), Trees)
    assert "a cut-off on one of several classes" in wrap(pipeline, schema, 0.4, target="C").notes[-1]


def test_regression_trees(people, schema):
    amount = people.age * 10 + people.income.fillna(0)
    for estimator in (RandomForestRegressor(5, random_state=0), GradientBoostingRegressor(n_estimators=5)):
        pipeline = prepared(estimator).fit(people, amount)
        model = wrap(pipeline, schema, target_range=(None, 2500), background=people)
        assert isinstance(model, Trees)
        assert np.allclose(model.judge(people), 2500 - pipeline.predict(people))
        assert np.allclose(model.margin(schema.encode(people)).numpy(), model.judge(people))
        assert "leave one side open" in wrap(pipeline, schema, target_range=(2000, 2500)).notes[-1]


def test_bare_trees_on_numbers(numbers, numbers_schema):
    forest = RandomForestClassifier(5, random_state=0).fit(numbers.to_numpy(), numbers.a > 5)
    model = wrap(forest, numbers_schema)
    assert isinstance(model, Trees)
    assert model.margin(numbers_schema.encode(numbers).reshape(30, 5, 3)).shape == (30, 5)
