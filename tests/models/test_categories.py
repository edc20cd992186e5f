"""Categories by name: what a booster is handed has the categories of training, in the order of training."""

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from turnabout.errors import ModelError
from turnabout.models import wrap
from turnabout.models.libraries.xgboost import BoosterCategories
from turnabout.schema import Category, Number, Schema

xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")

CITIES = ["Köln", "München", "Zürich", "東京", "Ulm", "Bonn"]
ODD = ['a "b"', "c\\d", "e, f", "ä:[ö]", "{g}", "ß"]


def town(levels=CITIES, n=300, seed=0):
    """People with a category in this order of levels, and who gets a yes."""
    rng = np.random.default_rng(seed)
    code = rng.integers(len(levels), size=n)
    table = pd.DataFrame(
        {
            "city": pd.Categorical([levels[c] for c in code], categories=levels),
            "income": rng.integers(0, 100, n),
        }
    )
    return table, (code % 2 * 40 + table["income"] + rng.normal(0, 5, n) > 75).to_numpy(dtype=int)


def schema_of(levels=CITIES):
    return Schema([Category("city", levels), Number("income", 0, 100, step=1)])


def booster(kind, table, yes):
    if kind == "xgboost":
        return xgboost.XGBClassifier(n_estimators=8, max_depth=3, enable_categorical=True, n_jobs=1).fit(table, yes)
    return lightgbm.LGBMClassifier(n_estimators=8, min_child_samples=5, verbose=-1, n_jobs=1).fit(table, yes)


def as_trained(table, rows):
    """The rows as a frame built as the training frame was."""
    out = rows[list(table.columns)].copy()
    for name in table.columns:
        out[name] = out[name].astype(object).astype(table[name].dtype)
    return out


def check_promises(model, table, answer):
    """Who is told yes is accepted, and who is refused is not; alone and in a batch."""
    options = as_trained(table, answer.options.reset_index(drop=True))
    assert len(options)
    assert (model.predict(options) == 1).all()
    assert all(model.predict(options.iloc[i : i + 1])[0] == 1 for i in range(0, len(options), 7))
    said = (answer.status == ta.Status.ACCEPTED).to_numpy()
    assert np.array_equal(said, model.predict(as_trained(table, answer.people)) == 1)


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
@pytest.mark.parametrize(
    "levels", [CITIES, CITIES[::-1], ODD, [30, 4, 1, 22, 7]], ids=["cities", "turned", "odd", "int"]
)
def test_names_of_any_script_are_handed_as_trained(kind, levels):
    table, yes = town(levels)
    model = booster(kind, table, yes)
    answer = ta.find(model, table, schema=schema_of(sorted(levels)), background=table, target=1)
    check_promises(model, table, answer)


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_names_of_any_script_are_compiled(kind):
    table, yes = town()
    model = wrap(booster(kind, table, yes), schema_of(), background=table)
    assert model.compiled, model.notes


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_a_background_in_another_order_is_recoded(kind):
    table, yes = town()
    model = booster(kind, table, yes)
    turned = table.assign(city=table["city"].cat.set_categories(CITIES[::-1]))
    answer = ta.find(model, turned, schema=schema_of(), background=turned, target=1)
    check_promises(model, table, answer)


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_people_as_plain_text_are_read_as_trained(kind):
    table, yes = town()
    model = booster(kind, table, yes)
    plain = table.astype({"city": object})
    answer = ta.find(model, plain, schema=schema_of(), background=plain, target=1)
    check_promises(model, table, answer)


def test_a_booster_in_a_pipeline_is_recoded_too():
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    table, yes = town()
    model = Pipeline([("same", FunctionTransformer()), ("trees", booster("xgboost", table, yes))])
    turned = table.assign(city=table["city"].cat.set_categories(CITIES[::-1]))
    answer = ta.find(model, turned, schema=schema_of(), background=turned, target=1)
    check_promises(model, table, answer)


def test_a_booster_inside_another_estimator_is_handed_categories():
    from sklearn.calibration import CalibratedClassifierCV

    table, yes = town()
    model = CalibratedClassifierCV(xgboost.XGBClassifier(n_estimators=4, enable_categorical=True, n_jobs=1), cv=2)
    model.fit(table, yes)
    plain = table.astype({"city": object})
    check_promises(model, table, ta.find(model, plain, schema=schema_of(), background=plain, target=1))
    check_promises(model, table, ta.find(model, plain, schema=schema_of(), target=1))


def test_categories_that_cannot_be_known_are_refused():
    levels = ["北京", "東京", "大阪", "京都"]  # of one length, and mostly cut off
    table, yes = town(levels)
    model = booster("xgboost", table, yes)
    with pytest.raises(ModelError, match="cannot be known"):
        wrap(model, schema_of(levels), background=table.astype({"city": object}))
    assert wrap(model, schema_of(levels), background=table).compiled


def test_levels_of_another_type_are_refused():
    table, yes = town(["1", "2", "3"])
    model = booster("xgboost", table, yes)
    with pytest.raises(ModelError, match="has none of them"):
        wrap(model, schema_of([1, 2, 3]))


def test_a_model_trained_on_codes_is_handed_codes():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"city": rng.integers(12, size=400), "income": rng.integers(0, 100, 400)})
    yes = (table["city"] % 2 * 40 + table["income"] > 75).astype(int)
    model = xgboost.XGBClassifier(n_estimators=6, enable_categorical=True, feature_types=["c", "q"], n_jobs=1)
    model.fit(table, yes)
    answer = ta.find(model, table, schema=schema_of(range(12)), background=table, target=1)
    check_promises(model, table, answer)


def test_a_cell_of_no_category_is_not_asked_about():
    table, yes = town()
    model = wrap(booster("xgboost", table, yes), schema_of([*CITIES, "Wien"]), background=table)
    with pytest.raises(ModelError, match="'Wien', a level that the model was not trained on"):
        model.judge(table.head(2).assign(city="Wien"))


@pytest.mark.parametrize("name", ["c\\ity", "c\\bity", "tab\tcity", "the city"])
def test_a_column_name_that_breaks_lightgbms_json(name):
    table, yes = town()
    table = table.rename(columns={"city": name})
    model = booster("lightgbm", table, yes)
    schema = Schema([Category(name, CITIES), Number("income", 0, 100, step=1)])
    assert wrap(model, schema, background=table).compiled
    for background in (table, table.astype({name: object})):
        answer = ta.find(model, table, schema=schema, background=background, target=1)
        check_promises(model, table, answer)


def test_ordered_categories_of_lightgbm_are_found_by_their_levels():
    table, yes = town()
    table = table.assign(size=pd.Categorical(["s", "m", "l"] * 100, categories=["s", "m", "l"], ordered=True))
    model = booster("lightgbm", table, yes)
    schema = Schema([*schema_of().features, Category("size", ["l", "m", "s"])])
    answer = ta.find(model, table, schema=schema, background=table.astype({"size": object, "city": object}), target=1)
    check_promises(model, table, answer)


def test_what_xgboost_keeps_of_names():
    kept = BoosterCategories(text="KölnMünchen".encode()[:11], offsets=(0, 4, 11))
    assert kept.names is None
    assert kept.fits(["Köln", "München"]) and not kept.fits(["München", "Köln"])
    assert kept.order(["Ulm", "München", "Köln"]) == ("Köln", "München")
    assert kept.order(["Ulm", "Köln"]) is None
    plain = BoosterCategories(text=b"UlmBonn", offsets=(0, 3, 7))
    assert plain.names == ("Ulm", "Bonn") and plain.order([]) == ("Ulm", "Bonn")
