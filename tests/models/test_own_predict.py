"""Without a threshold the estimator's own predict decides: tuned cut-offs, and classes that override predict."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from turnabout.models import LinearMargin, Trees, wrap
from turnabout.schema import Number, Schema

pytest.importorskip("sklearn")

from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

pytestmark = pytest.mark.filterwarnings("ignore")

SCHEMA = Schema((Number("a", low=0, high=10, step=1), Number("b", low=0, high=10, step=1)))


@pytest.fixture(scope="module")
def grid() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.integers(0, 11, 600), "b": rng.integers(0, 11, 600)})


@pytest.fixture(scope="module")
def good(grid) -> np.ndarray:
    return (grid.a + grid.b + np.random.default_rng(1).normal(0, 3, len(grid)) > 10).to_numpy().astype(int)


def assert_its_own_predict_decides(estimator, table, yes=1, **arguments):
    """Every margin has the sign of predict, and every plan found is accepted by predict."""
    model = wrap(estimator, SCHEMA, background=table, **arguments)
    assert np.array_equal(model.judge(table) >= 0, estimator.predict(table) == yes)
    answer = ta.find(model, table[:100], background=table)
    assert len(answer.options) > 0
    assert (estimator.predict(answer.options[["a", "b"]]) == yes).all()
    return model


# cut-offs fixed or tuned by scikit-learn ------------------------------------------------------------------------------


@pytest.mark.parametrize("pos_label", [0, 1, None])
@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("inner", [LogisticRegression(), RandomForestClassifier(10, random_state=0)], ids=repr)
def test_a_fixed_cut_off_belongs_to_the_positive_class(inner, pos_label, target, grid, good):
    fixed = FixedThresholdClassifier(inner, threshold=0.3, pos_label=pos_label).fit(grid, good)
    model = assert_its_own_predict_decides(fixed, grid, yes=target, target=target)
    assert model.compiled == (target == (1 if pos_label is None else pos_label)), model.notes


def test_a_fixed_cut_off_of_named_classes(grid, good):
    named = np.where(good == 1, "good", "bad")
    fixed = FixedThresholdClassifier(LogisticRegression(), threshold=0.3, pos_label="bad").fit(grid, named)
    assert_its_own_predict_decides(fixed, grid, yes="good")
    assert isinstance(assert_its_own_predict_decides(fixed, grid, yes="bad", target="bad"), LinearMargin)


@pytest.mark.parametrize("pos_label", [0, 1])
def test_a_tuned_cut_off_belongs_to_the_class_it_was_tuned_for(pos_label, grid, good):
    scorer = make_scorer(fbeta_score, beta=3.0, pos_label=pos_label)
    tuned = TunedThresholdClassifierCV(LogisticRegression(), scoring=scorer, cv=3).fit(grid, good)
    assert tuned.best_threshold_ < 0.4
    model = assert_its_own_predict_decides(tuned, grid)
    assert isinstance(model, LinearMargin) == (pos_label == 1)
    if pos_label == 1:
        assert f"the cut-off {tuned.best_threshold_:g} is the one TunedThresholdClassifierCV found." in model.notes


def test_a_threshold_given_by_hand_comes_before_a_fixed_one(grid, good):
    fixed = FixedThresholdClassifier(LogisticRegression(), threshold=0.3, pos_label=0).fit(grid, good)
    model = wrap(fixed, SCHEMA, 0.6, background=grid)
    assert isinstance(model, LinearMargin)
    assert np.array_equal(model.judge(grid) >= 0, fixed.predict_proba(grid)[:, 1] >= 0.6)


def test_the_outer_estimator_is_the_one_asked(grid, good):
    fixed = FixedThresholdClassifier(LogisticRegression(), threshold=0.3).fit(grid, good)
    model = wrap(fixed, SCHEMA, background=grid)
    fixed.estimator_ = LogisticRegression().fit(grid, 1 - good)  # as seen by the outer one only
    assert np.array_equal(model.judge(grid) >= 0, fixed.predict(grid) == 1)


@pytest.mark.parametrize(
    "build",
    [
        lambda x, y: FixedThresholdClassifier(LogisticRegression().fit(x, y), threshold=0.3),
        lambda x, y: FixedThresholdClassifier(FrozenEstimator(LogisticRegression().fit(x, y)), threshold=0.3).fit(x, y),
        lambda x, y: FixedThresholdClassifier(
            make_pipeline(StandardScaler(), LogisticRegression()), threshold="auto"
        ).fit(x, y),
        lambda x, y: GridSearchCV(
            FixedThresholdClassifier(LogisticRegression(), threshold=0.3), {"estimator__C": [0.1, 1.0]}, cv=2
        ).fit(x, y),
        lambda x, y: FixedThresholdClassifier(
            GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2), threshold=0.3
        ).fit(x, y),
    ],
    ids=["prefit", "frozen", "pipeline", "searched", "of a search"],
)
def test_fixed_cut_offs_in_many_clothes(build, grid, good):
    assert isinstance(assert_its_own_predict_decides(build(grid, good), grid), LinearMargin)


@pytest.mark.parametrize(
    "build",
    [
        lambda: FixedThresholdClassifier(LinearSVC(), threshold=0.4),
        lambda: FixedThresholdClassifier(LogisticRegression(), threshold=0.4, response_method="decision_function"),
        lambda: make_pipeline(StandardScaler(), FixedThresholdClassifier(LogisticRegression(), threshold=0.505)),
        lambda: make_pipeline(
            StandardScaler(),
            GridSearchCV(FixedThresholdClassifier(LogisticRegression()), {"threshold": [0.505]}, cv=2),
        ),
    ],
    ids=["no probabilities", "by score", "inside a pipeline", "searched inside a pipeline"],
)
@pytest.mark.parametrize("target", [0, 1])
def test_cut_offs_that_are_not_looked_through_are_still_obeyed(build, target, grid, good):
    model = assert_its_own_predict_decides(build().fit(grid, good), grid, yes=target, target=target)
    assert not model.compiled
    assert any("it is asked about every row" in note for note in model.notes)


# classes that override predict ----------------------------------------------------------------------------------------


class Cautious(LogisticRegression):
    """Says yes a little later than its probabilities do."""

    def predict(self, table):
        return (self.predict_proba(table)[:, 1] >= 0.51).astype(int)


class CautiousForest(RandomForestClassifier):
    """Leaves ties and near ties to a person: a no."""

    def predict(self, table):
        return (self.predict_proba(table)[:, 1] > 0.55).astype(int)


class Logged(LogisticRegression):
    """Overrides predict and changes nothing."""

    def predict(self, table):
        return super().predict(table)


CAUTIOUS = {
    "bare": lambda x, y: Cautious().fit(x, y),
    "pipeline": lambda x, y: make_pipeline(StandardScaler(), Cautious()).fit(x, y),
    "search": lambda x, y: GridSearchCV(Cautious(), {"C": [0.1, 1.0]}, cv=2).fit(x, y),
    "forest": lambda x, y: CautiousForest(20, random_state=0).fit(x, y),
}


@pytest.mark.parametrize("name", CAUTIOUS)
@pytest.mark.parametrize("target", [0, 1])
def test_an_overridden_predict_is_asked_about_every_row(name, target, grid, good):
    estimator = CAUTIOUS[name](grid, good)
    model = assert_its_own_predict_decides(estimator, grid, yes=target, target=target)
    assert any("it is asked about every row" in note for note in model.notes)


def test_rows_between_the_two_boundaries_are_looked_for():
    """A window of P(yes) that no background row and few random rows fall into."""
    rng = np.random.default_rng(0)
    schema = Schema((Number("a", low=0, high=10), Number("b", low=0, high=10)))
    table = pd.DataFrame({"a": rng.random(400) * 10, "b": rng.random(400) * 10})
    estimator = Cautious(C=100).fit(table, table.a + table.b + rng.normal(0, 0.1, 400) > 10)
    p = estimator.predict_proba(table)[:, 1]
    model = wrap(estimator, schema, background=table[(p < 0.4) | (p > 0.6)])
    assert not model.compiled
    assert "disagrees with the original" in model.notes[-1]
    options = ta.find(model, table[p < 0.4][:50], background=table).options
    assert len(options) > 0
    assert estimator.predict(options[["a", "b"]]).all()


def test_an_overridden_predict_that_agrees_may_be_compiled(grid, good):
    assert isinstance(assert_its_own_predict_decides(Logged().fit(grid, good), grid), LinearMargin)


def test_a_predict_put_on_the_instance_counts_as_overridden(grid, good):
    estimator = LogisticRegression().fit(grid, good)
    estimator.predict = lambda table: (estimator.predict_proba(table)[:, 1] >= 0.51).astype(int)
    assert_its_own_predict_decides(estimator, grid)


def test_an_overridden_predict_yields_to_a_threshold(grid, good):
    for estimator, form in ((Cautious(), LinearMargin), (CautiousForest(20, random_state=0), Trees)):
        model = wrap(estimator.fit(grid, good), SCHEMA, 0.5, background=grid)
        assert isinstance(model, form)
        assert np.array_equal(model.judge(grid) >= 0, estimator.predict_proba(grid)[:, 1] >= 0.5)
