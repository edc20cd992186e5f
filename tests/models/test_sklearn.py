"""Fitted scikit-learn estimators: what is compiled, what is asked, and what is refused."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.errors import ModelError
from turnabout.models import Differentiable, LinearMargin, Model, ReluNet, Trees, wrap
from turnabout.models import estimators as adapter
from turnabout.schema import Binary, Category, Number, Schema

pytest.importorskip("sklearn")

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC

pytestmark = pytest.mark.filterwarnings("ignore")


def prepared(estimator, number=None, category=None, imputer=None, order=None) -> Pipeline:
    order = order or OrdinalEncoder(categories=[["low", "mid", "high"]])
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), category or OneHotEncoder())
    return make_pipeline(
        ColumnTransformer(
            [
                ("numbers", make_pipeline(imputer or SimpleImputer(), number or StandardScaler()), ["income", "age"]),
                ("words", words, ["housing", "phone"]),
                ("order", order, ["school"]),
            ]
        ),
        estimator,
    )


def gap(model: Model, table: pd.DataFrame) -> float:
    return float(np.abs(model.margin(model.schema.encode(table)).numpy() - model.judge(table)).max())


LINEAR = [
    LogisticRegression(max_iter=500),
    LogisticRegressionCV(Cs=2, cv=2, max_iter=300),
    LinearSVC(),
    RidgeClassifier(),
    Perceptron(),
    SGDClassifier(loss="log_loss", random_state=0),
    SGDClassifier(loss="hinge", random_state=0),
    LinearDiscriminantAnalysis(),
    MLPClassifier((4,), activation="identity", max_iter=30, random_state=0),
]


@pytest.mark.parametrize("estimator", LINEAR, ids=lambda e: type(e).__name__)
def test_linear_pipelines_become_linear(estimator, people, accepted, schema):
    pipeline = prepared(estimator).fit(people, accepted)
    model = wrap(pipeline, schema, background=people)
    assert model.compiled, model.notes
    assert isinstance(model, LinearMargin)
    assert isinstance(model, Differentiable)
    assert not isinstance(model, (ReluNet, Trees))
    assert gap(model, people) < 1e-9
    x = schema.encode(people)
    assert torch.allclose(x @ model.weights + model.bias, model.margin(x))
    assert torch.allclose(model.gradient(x)[0], model.weights)
    assert np.array_equal(model.judge(people) >= 0, pipeline.predict(people) == 1)


@pytest.mark.parametrize(
    "parts",
    [
        {"number": MinMaxScaler()},
        {"imputer": SimpleImputer(strategy="median", add_indicator=True)},
        {"category": OneHotEncoder(drop="first")},
        {"category": OneHotEncoder(handle_unknown="ignore", sparse_output=False)},
        {"category": OrdinalEncoder()},
    ],
    ids=["minmax", "indicator", "drop", "ignore", "ordinal"],
)
def test_preprocessing_is_probed(parts, people, accepted, schema):
    model = wrap(prepared(LogisticRegression(max_iter=500), **parts).fit(people, accepted), schema, background=people)
    assert isinstance(model, LinearMargin), model.notes
    assert gap(model, people) < 1e-9


def test_one_hot_ordinal_bends_the_margin(people, accepted, schema):
    model = wrap(prepared(LogisticRegression(max_iter=500), order=OneHotEncoder()).fit(people, accepted), schema)
    assert isinstance(model, ReluNet)
    assert not isinstance(model, LinearMargin)
    assert "levels of school do not act in equal steps" in " ".join(model.notes)
    assert gap(model, people) < 1e-9


@pytest.mark.parametrize("order", [None, OneHotEncoder()], ids=["straight", "bent"])
def test_relu_perceptron_becomes_a_relu_net(order, people, accepted, schema):
    net = MLPClassifier((6, 4), max_iter=40, random_state=0)
    model = wrap(prepared(net, order=order).fit(people, accepted), schema, 0.4, background=people)
    assert isinstance(model, ReluNet)
    assert model.layers[-1][0].shape[0] == 1
    h = schema.encode(people)
    for i, (weight, bias) in enumerate(model.layers):
        h = (h if i == 0 else h.relu()) @ weight.T + bias
    assert torch.allclose(h[:, 0], model.margin(schema.encode(people)))
    assert gap(model, people) < 1e-7
    assert model.scale == "log-odds"


@pytest.mark.parametrize("activation", ["tanh", "logistic"])
@pytest.mark.parametrize("order", [None, OneHotEncoder()], ids=["straight", "bent"])
def test_smooth_perceptrons_are_differentiable_only(activation, order, people, accepted, schema):
    net = MLPClassifier((5,), activation=activation, max_iter=30, random_state=0)
    model = wrap(prepared(net, order=order).fit(people, accepted), schema, background=people)
    assert isinstance(model, Differentiable)
    assert not isinstance(model, (LinearMargin, ReluNet, Trees))
    assert gap(model, people) < 1e-7
    assert model.gradient(schema.encode(people)).abs().sum() > 0


@pytest.mark.parametrize(
    ("pipeline", "reason"),
    [
        (prepared(LogisticRegression(), number=QuantileTransformer(n_quantiles=20)), "straight line"),
        (prepared(make_pipeline(PolynomialFeatures(interaction_only=True), LogisticRegression())), "straight-line"),
        (prepared(GaussianNB(), category=OneHotEncoder(sparse_output=False)), "inner form"),
        (prepared(CalibratedClassifierCV(LinearSVC(), cv=2)), "inner form"),
        (prepared(VotingClassifier([("a", LogisticRegression())], voting="hard")), "inner form"),
    ],
    ids=["curve", "interactions", "bayes", "calibrated", "voting"],
)
def test_what_is_not_recognised_is_only_asked(pipeline, reason, people, accepted, schema):
    model = wrap(pipeline.fit(people, accepted), schema, background=people)
    assert not model.compiled
    assert model.capabilities == ()
    assert reason in model.notes[-1]
    assert gap(model, people) < 1e-12
    assert np.array_equal(model.judge(people) >= 0, pipeline.predict(people) == 1)


def test_a_disagreeing_form_is_refused(monkeypatch, people, accepted, schema):
    compile_estimator = adapter.compile_estimator

    def crooked(*arguments):
        model = compile_estimator(*arguments)
        model.bias += 0.5
        return model

    monkeypatch.setattr(adapter, "compile_estimator", crooked)
    model = wrap(prepared(LogisticRegression(max_iter=500)).fit(people, accepted), schema, background=people)
    assert not model.compiled
    assert "disagrees with the original on 240 of 240 rows; at worst it says" in model.notes[-1]


def test_own_cut_off(people, accepted, schema):
    for estimator in (LogisticRegression(max_iter=500), RandomForestClassifier(7, random_state=0)):
        pipeline = prepared(estimator).fit(people, accepted)
        p = pipeline.predict_proba(people)[:, 1]
        cut = float(np.sort(p)[100])  # a cut-off that someone hits exactly
        model = wrap(pipeline, schema, threshold=cut, background=people)
        assert model.compiled, model.notes
        assert np.array_equal(model.judge(people) >= 0, p >= cut)


@pytest.mark.parametrize("threshold", [0, 1, -0.2, 1.5, "half", True, float("nan")])
def test_cut_offs_that_are_none(threshold, people, accepted, schema):
    pipeline = prepared(LogisticRegression(max_iter=500)).fit(people, accepted)
    with pytest.raises(ModelError, match="strictly between 0 and 1"):
        wrap(pipeline, schema, threshold)


def test_scores_have_no_cut_off(people, accepted, schema):
    pipeline = prepared(LinearSVC()).fit(people, accepted)
    assert wrap(pipeline, schema, threshold=0.5).scale == "score"
    with pytest.raises(ModelError, match="CalibratedClassifierCV"):
        wrap(pipeline, schema, threshold=0.7)


def test_string_labels(people, accepted, schema):
    labels = np.where(accepted == 1, "bad", "excellent")
    pipeline = prepared(LogisticRegression(max_iter=500)).fit(people, labels)
    default, named = wrap(pipeline, schema), wrap(pipeline, schema, target="bad")
    assert "a yes is the class 'excellent'" in default.notes[0]
    assert np.array_equal(named.judge(people) >= 0, pipeline.predict(people) == "bad")
    assert np.allclose(named.judge(people), -default.judge(people))
    assert isinstance(named, LinearMargin)
    with pytest.raises(ModelError, match=r"target='god' is not a class(.|\n)*'bad', 'excellent'"):
        wrap(pipeline, schema, target="god")


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(max_iter=500),
        LinearSVC(),
        MLPClassifier((5,), max_iter=60, random_state=0),
        RandomForestClassifier(8, random_state=0),
    ],
    ids=lambda e: type(e).__name__,
)
def test_multiclass(estimator, people, accepted, schema):
    grades = np.where(accepted == 1, "A", np.where(people.age > 45, "B", "C"))
    pipeline = prepared(estimator).fit(people, grades)
    model = wrap(pipeline, schema, target="B", background=people)
    assert model.compiled, model.notes
    assert not isinstance(model, LinearMargin)
    assert np.array_equal(model.judge(people) >= 0, pipeline.predict(people) == "B")
    assert gap(model, people) < 1e-6
    if hasattr(pipeline, "predict_proba"):
        cut = wrap(pipeline, schema, 0.3, target="B", background=people)
        assert np.array_equal(cut.judge(people) >= 0, pipeline.predict_proba(people)[:, 1] >= 0.3)
    with pytest.raises(ModelError, match="3 classes, and which of them is a yes"):
        wrap(pipeline, schema)


@pytest.mark.parametrize(
    "estimator", [LinearRegression(), Ridge(), Lasso(), MLPRegressor(hidden_layer_sizes=(4,), max_iter=50)], ids=repr
)
def test_regressors(estimator, people, schema):
    amount = people.age / 10 + people.income.fillna(0) / 1000
    pipeline = prepared(estimator).fit(people, amount)
    y = pipeline.predict(people)
    above = wrap(pipeline, schema, target_range=(7, None), background=people)
    assert np.allclose(above.judge(people), y - 7)
    assert isinstance(above, ReluNet if isinstance(estimator, MLPRegressor) else LinearMargin)
    assert above.scale == "target"
    within = wrap(pipeline, schema, target_range=(5, 7), background=people)
    assert np.allclose(within.judge(people), np.minimum(y - 5, 7 - y))
    assert isinstance(within, Differentiable)
    assert gap(within, people) < 1e-9
    with pytest.raises(ModelError, match="pass target_range"):
        wrap(pipeline, schema)
    with pytest.raises(ModelError, match="is not a range of predictions"):
        wrap(pipeline, schema, target_range=(7, 5))
    with pytest.raises(ModelError, match="exclude each other"):
        wrap(pipeline, schema, 0.5, target_range=(5, 7))


def test_a_classifier_has_no_target_range(people, accepted, schema):
    with pytest.raises(ModelError, match="target_range is for regressors"):
        wrap(prepared(LogisticRegression()).fit(people, accepted), schema, target_range=(0, 1))


def test_columns_are_matched_by_name(numbers, numbers_schema):
    y = numbers.a + 3 * numbers.b > 5
    model = wrap(LogisticRegression().fit(numbers[["c", "a"]], y), numbers_schema, background=numbers)
    assert isinstance(model, LinearMargin)
    assert model.notes[0] == "the model does not look at b."
    assert model.weights[1] == 0
    shuffled = numbers[["b", "c", "a"]].assign(extra=1)
    assert np.array_equal(model.judge(shuffled), model.judge(numbers))
    with pytest.raises(ModelError, match="wants the column 'z'"):
        wrap(LogisticRegression().fit(numbers.assign(z=1), y), numbers_schema)
    with pytest.raises(ModelError, match="no column 'c'"):
        model.judge(numbers[["a", "b"]])


def test_fitted_without_names(numbers, numbers_schema):
    y = numbers.a + 3 * numbers.b > 5
    model = wrap(LogisticRegression().fit(numbers.to_numpy(), y), numbers_schema)
    assert "schema's order" in model.notes[0]
    assert isinstance(model, LinearMargin)
    assert np.array_equal(model.judge(numbers[["c", "b", "a"]]), model.judge(numbers))
    with pytest.raises(ModelError, match="fitted on 2 columns without names"):
        wrap(LogisticRegression().fit(numbers[["a", "b"]].to_numpy(), y), numbers_schema)


def _ratio(table):
    return np.column_stack([table["a"] / (table["b"] + 2), table["c"]])


def test_a_pipeline_that_needs_names_gets_a_table(numbers, numbers_schema):
    pipeline = make_pipeline(FunctionTransformer(_ratio), LogisticRegression()).fit(numbers, numbers.a > 5)
    model = wrap(pipeline, numbers_schema, background=numbers)
    assert np.array_equal(model.judge(numbers) >= 0, pipeline.predict(numbers))
    assert not model.compiled


def test_unfitted(people, schema):
    for estimator in (LogisticRegression(), prepared(LogisticRegression()), GridSearchCV(LogisticRegression(), {})):
        with pytest.raises(ModelError, match=r"is not fitted yet(.|\n)*call fit"):
            wrap(estimator, schema)
    with pytest.raises(ModelError, match="is a class, not a fitted model"):
        wrap(LogisticRegression, schema)


def test_looks_through_searches_and_fixed_cut_offs(people, accepted, schema):
    search = GridSearchCV(prepared(LogisticRegression(max_iter=500)), {"logisticregression__C": [0.1, 1]}, cv=2)
    assert isinstance(wrap(search.fit(people, accepted), schema), LinearMargin)
    fixed = FixedThresholdClassifier(prepared(LogisticRegression(max_iter=500)), threshold=0.3).fit(people, accepted)
    model = wrap(fixed, schema)
    assert isinstance(model, LinearMargin)
    assert np.array_equal(model.judge(people) >= 0, fixed.predict(people) == 1)


def test_svc_is_judged_by_its_score(numbers, numbers_schema):
    svc = SVC().fit(numbers, numbers.a > 5)
    model = wrap(svc, numbers_schema)
    assert model.scale == "score"
    assert np.array_equal(model.judge(numbers) >= 0, svc.predict(numbers))


class Stubborn(ClassifierMixin, BaseEstimator):
    """Predicts otherwise than its probabilities say, or misbehaves on request."""

    def __init__(self, answer: str = "fine"):
        self.answer = answer

    def fit(self, table, y):
        self.classes_ = np.array([0, 1])
        self.calls = []
        return self

    def predict(self, table):
        self.calls.append(("predict", len(table)))
        return (table["a"] > 8).astype(int).to_numpy()

    def predict_proba(self, table):
        self.calls.append(("predict_proba", len(table)))
        p = table["a"].to_numpy() / 10
        if self.answer == "nan":
            p = np.where(p > 0.5, np.nan, p)
        if self.answer == "raise":
            raise RuntimeError("out of order")
        if self.answer == "shape":
            return p
        if self.answer == "mutate":
            table["a"] = -1.0
            table.drop(columns="b", inplace=True)
        return np.column_stack([1 - p, p])


def test_predict_has_the_last_word(numbers, numbers_schema):
    model = wrap(Stubborn().fit(numbers, None), numbers_schema)
    assert "it is asked about every row" in model.notes[0]
    assert np.array_equal(model.judge(numbers) >= 0, numbers.a > 8)


def test_one_plain_call(numbers, numbers_schema):
    estimator = Stubborn().fit(numbers, None)
    model = wrap(estimator, numbers_schema, 0.5)
    estimator.calls.clear()
    model.judge(numbers)
    assert estimator.calls == [("predict_proba", 150)]


def test_misbehaviour(numbers, numbers_schema):
    margin = wrap(Stubborn("nan").fit(numbers, None), numbers_schema, 0.3).judge(numbers)
    assert np.array_equal(np.isnan(margin), numbers.a > 5)
    with pytest.raises(ModelError, match="raised RuntimeError when asked about 150 row") as caught:
        wrap(Stubborn("raise").fit(numbers, None), numbers_schema, 0.5).judge(numbers)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "Hint:" in str(caught.value)
    with pytest.raises(ModelError, match=r"shape \(150,\) for 150 rows; expected \(150, 2\)"):
        wrap(Stubborn("shape").fit(numbers, None), numbers_schema, 0.5).judge(numbers)
    before = numbers.copy()
    wrap(Stubborn("mutate").fit(numbers, None), numbers_schema, 0.5).judge(numbers)
    pd.testing.assert_frame_equal(numbers, before)


def test_a_missing_cell_the_model_cannot_take(numbers):
    gaps = Schema((Number("a", low=0, high=10, missing=True), Number("b", low=-1, high=1)))
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(numbers[["a", "b"]], numbers.a > 5)
    model = wrap(estimator, gaps)
    assert "NaN or infinite inputs when 'a=missing' moves" in model.notes[-1]
    with pytest.raises(ModelError, match="NaN"):
        model.judge(numbers.assign(a=np.nan))


def test_none_and_nan_are_one_kind_of_missing(people, accepted, schema):
    model = wrap(prepared(LogisticRegression(max_iter=500)).fit(people, accepted), schema)
    nones = people.astype({"housing": object})
    nones["housing"] = pd.Series([None if pd.isna(v) else v for v in people.housing], dtype=object)
    assert np.array_equal(model.judge(nones), model.judge(people))


def test_pickle_repr_and_empty(people, accepted, schema):
    model = wrap(prepared(LogisticRegression(max_iter=500)).fit(people, accepted), schema, 0.4, background=people)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.judge(people), model.judge(people))
    assert torch.equal(again.margin(schema.encode(people)), model.margin(schema.encode(people)))
    assert repr(model) == (
        "LinearModel(LogisticRegression in a Pipeline; Differentiable, LinearMargin; yes when P(1) >= 0.4)"
    )
    assert model.judge(people.iloc[:0]).shape == (0,)
    assert model.to("cpu").margin(schema.encode(people)[:3].unsqueeze(1)).shape == (3, 1)
    assert np.array_equal(model.judge(people), model.judge(people))
    assert wrap(model, schema) is model


@pytest.mark.slow
def test_judging_costs_about_one_call():
    rng = np.random.default_rng(0)
    n = 20_000
    table = pd.DataFrame({f"n{i}": rng.integers(0, 100, n) for i in range(6)})
    for i in range(8):
        table[f"c{i}"] = np.array([f"level {k}" for k in range(12)])[rng.integers(0, 12, n)]
    words = [c for c in table if c.startswith("c")]
    schema = Schema.infer(table)
    pipeline = make_pipeline(
        ColumnTransformer([("c", OneHotEncoder(), words)], remainder=StandardScaler()), LogisticRegression(max_iter=50)
    ).fit(table, table.n0 + table.n1 > 100)
    model = wrap(pipeline, schema, 0.5)

    def seconds(call) -> float:
        start = time.perf_counter()
        call(table)
        return time.perf_counter() - start

    pairs = [(seconds(pipeline.predict_proba), seconds(model.judge)) for _ in range(7)]
    plain, judged = (min(column) for column in zip(*pairs, strict=True))
    assert judged < 1.3 * plain + 0.005


class Foreign:
    """Answers like an estimator and is none."""

    def predict(self, table):
        return (table["a"].to_numpy() > 5).astype(int)

    def predict_proba(self, table):
        p = table["a"].to_numpy() / 10
        return np.column_stack([1 - p, p])


def test_anything_with_predict_proba(numbers, numbers_schema):
    model = wrap(Foreign(), numbers_schema)
    assert "no classes_" in model.notes[0]
    assert np.array_equal(model.judge(numbers) >= 0, numbers.a > 5)


def test_an_unreadable_inner_form_is_only_asked(monkeypatch, people, accepted, schema):
    def fail(*arguments):
        raise KeyError("coef_")

    monkeypatch.setattr(adapter, "compile_estimator", fail)
    model = wrap(prepared(LogisticRegression(max_iter=500)).fit(people, accepted), schema)
    assert "reading it raised KeyError" in model.notes[-1]
    assert np.isfinite(model.judge(people)).all()


def test_one_person_with_nothing_but_missing_cells():
    """A lone missing cell is read from a file as a float column, whatever the feature."""
    schema = Schema(
        (
            Number("a"),
            Category("k", levels=("x", "y", "z"), missing=True),
            Binary("b", levels=(False, True), missing=True),
        )
    )
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "a": rng.random(200),
            "k": rng.choice(np.array(["x", "y", "z", np.nan], dtype=object), 200),
            "b": rng.choice(np.array([True, False, np.nan], dtype=object), 200),
        }
    )
    columns = ColumnTransformer(
        [
            ("a", "passthrough", ["a"]),
            ("k", OneHotEncoder(), ["k"]),
            (
                "b",
                OrdinalEncoder(categories=[[False, True]], handle_unknown="use_encoded_value", unknown_value=-1),
                ["b"],
            ),
        ]
    )
    model = make_pipeline(columns, LogisticRegression()).fit(table, table.a + (table.k == "x") > 0.8)
    wrapped = wrap(model, schema, background=table)
    assert wrapped.compiled
    lone = pd.DataFrame({"a": [0.2], "k": [np.nan], "b": [np.nan]})
    assert wrapped.judge(lone)[0] == pytest.approx(float(wrapped.margin(schema.encode(lone))[0]))
