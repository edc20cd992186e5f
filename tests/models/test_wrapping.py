"""`wrap` itself: what it passes on, and what it refuses to ignore."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from turnabout.errors import ModelError
from turnabout.models import Trees, wrap
from turnabout.schema import Number, Schema


def share(table: pd.DataFrame) -> pd.Series:
    return table["a"] / 10


@pytest.mark.parametrize(
    "arguments",
    [{"threshold": 0.7}, {"target": 0}, {"target_range": (0, 1)}, {"background": []}, {"output": "logit"}],
    ids=lambda arguments: next(iter(arguments)),
)
def test_a_wrapped_model_takes_no_further_arguments(arguments, numbers_schema):
    model = wrap(share, numbers_schema, 0.3)
    with pytest.raises(ModelError, match=rf"wrapped already, so {next(iter(arguments))}= would be ignored(.|\n)*Hint:"):
        wrap(model, numbers_schema, **arguments)


def test_a_wrapped_model_keeps_its_schema(numbers_schema):
    model = wrap(share, numbers_schema)
    assert wrap(model, Schema(numbers_schema.features, notes=("drafted",))) is model
    with pytest.raises(ModelError, match="wrapped already, with another schema"):
        wrap(model, Schema(numbers_schema.features[:2]))


def test_functions_get_the_categoricals_of_the_background(people, accepted, schema):
    lightgbm = pytest.importorskip("lightgbm")
    words = ["housing", "school", "phone"]
    typed = people.astype(dict.fromkeys(words, "category"))
    booster = lightgbm.LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1).fit(typed, accepted)
    model = wrap(lambda table: booster.predict_proba(table)[:, 1], schema, background=typed)
    expected = booster.predict_proba(typed)[:, 1] - 0.5
    assert np.array_equal(model.judge(typed), expected)
    assert np.array_equal(model.judge(people.astype(dict.fromkeys(words, object))), expected)
    assert np.isfinite(model.margin(schema.encode(people)).numpy()).all()


def test_a_level_the_background_does_not_hold_stays_itself(people, schema):
    seen = []

    def look(table):
        seen.append(table)
        return np.full(len(table), 0.5)

    renters = people[people.housing == "rent"].astype({"housing": "category"})
    wrap(look, schema, background=renters).judge(people)
    assert seen[-1]["housing"].dtype == pd.CategoricalDtype(["rent", "own", "free"])
    assert seen[-1]["housing"].astype(object).equals(people["housing"].astype(object))
    assert seen[-1]["school"].dtype == people["school"].dtype


# LightGBM writes underscores for spaces -------------------------------------------------------------------------------


def fitted_by_lightgbm(table: pd.DataFrame, **options):
    lightgbm = pytest.importorskip("lightgbm")
    estimator = lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1, **options)
    return estimator.fit(table, table.iloc[:, 0] + table.iloc[:, 1] > 10)


def spaced(*names: str, n: int = 200) -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.integers(0, 11, n) for name in names})
    return table, Schema(tuple(Number(name, low=0, high=10, step=1) for name in names))


@pytest.mark.filterwarnings("ignore")
def test_lightgbm_columns_with_spaces():
    table, schema = spaced("in come", "b", "how long  ago")
    estimator = fitted_by_lightgbm(table)
    model = wrap(estimator, schema, background=table)
    assert isinstance(model, Trees), model.notes
    turned = table[["how long  ago", "b", "in come"]]
    assert np.array_equal(model.judge(turned) >= 0, estimator.predict(table))


@pytest.mark.filterwarnings("ignore")
def test_lightgbm_with_spaces_inside_scikit_learn():
    calibration, pipeline = pytest.importorskip("sklearn.calibration"), pytest.importorskip("sklearn.pipeline")
    table, schema = spaced("in come", "b")
    y = table["in come"] + table["b"] > 10
    lightgbm = pytest.importorskip("lightgbm")
    booster = lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1)
    for estimator in (calibration.CalibratedClassifierCV(booster, cv=2), pipeline.make_pipeline(booster)):
        estimator.fit(table, y)
        assert np.array_equal(wrap(estimator, schema, background=table).judge(table) >= 0, estimator.predict(table))


@pytest.mark.filterwarnings("ignore")
def test_lightgbm_columns_that_could_be_either():
    table, schema = spaced("in come", "b", "in_come")
    with pytest.raises(ModelError, match=r"'in_come' could be 'in come' or 'in_come'(.|\n)*Hint:"):
        wrap(fitted_by_lightgbm(table[["in come", "b"]]), schema, background=table)


@pytest.mark.filterwarnings("ignore")
def test_lightgbm_categories_with_spaces():
    table, schema = spaced("a", "b", "my home")
    homes = pd.Series(np.array(["own", "rent", "free"])[table["my home"] % 3], dtype="category")
    table["my home"] = homes
    schema = Schema.infer(table)
    estimator = fitted_by_lightgbm(table, min_data_per_group=5, cat_smooth=1)
    model = wrap(estimator, schema)
    assert isinstance(model, Trees), model.notes
    assert np.array_equal(model.judge(table.astype({"my home": object})) >= 0, estimator.predict(table))


def test_only_lightgbm_renames(numbers, numbers_schema):
    linear = pytest.importorskip("sklearn.linear_model")
    table = numbers.rename(columns={"a": "a_a"})
    schema = Schema((Number("a a", low=0, high=10), *numbers_schema.features[1:]))
    with pytest.raises(ModelError, match="wants the column 'a_a'"):
        wrap(linear.LogisticRegression().fit(table, table.a_a > 5), schema)
