"""Asking for more margin, and two decision makers at once: the same numbers, the same capabilities."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import turnabout as ta
from turnabout.models.derived import both

SCHEMA = ta.Schema((ta.Number("a", 0, 10), ta.Number("b", 0, 10)))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.uniform(0, 10, 200), "b": rng.uniform(0, 10, 200)})


MAKERS = {
    "linear": LogisticRegression(),
    "net": make_pipeline(StandardScaler(), MLPClassifier((4,), max_iter=200, random_state=0)),
    "tanh": make_pipeline(StandardScaler(), MLPClassifier((4,), activation="tanh", max_iter=200, random_state=0)),
    "boosted": GradientBoostingClassifier(n_estimators=5),
    "hist": HistGradientBoostingClassifier(max_iter=5),
    "forest": RandomForestClassifier(n_estimators=5, random_state=0),
}


@pytest.fixture(scope="module", params=MAKERS)
def model(request, rows):
    good = (rows["a"] - rows["b"] + np.random.default_rng(1).normal(0, 2, len(rows))) > 0
    fitted = MAKERS[request.param].fit(rows, good)
    return ta.models.wrap(fitted, SCHEMA, threshold=0.6, background=rows)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_margins_fall_by_the_shift(model, rows):
    more = model.shifted(0.1)
    x = SCHEMA.encode(rows)
    assert more.capabilities == model.capabilities and type(more) is type(model)
    torch.testing.assert_close(more.margin(x), model.margin(x) - 0.1)
    np.testing.assert_allclose(more.judge(rows), model.judge(rows) - 0.1)
    torch.testing.assert_close(more.shifted(-0.1).margin(x), model.margin(x))
    assert "by a margin of 0.1" in repr(more)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_probabilities_are_the_originals(model, rows):
    original = model._judge.original.estimator
    p = original.predict_proba(rows)[:, 1]
    np.testing.assert_allclose(model.probability(SCHEMA.encode(rows)).numpy(), p, atol=1e-9)
    np.testing.assert_allclose(model.shifted(0.1).probability(SCHEMA.encode(rows)).numpy(), p, atol=1e-9)
    assert model.margin_at(0.6) == pytest.approx(0.0, abs=1e-12)
    at = model.margin_at(0.75)
    assert ((model.judge(rows) >= at) == (p >= 0.75)).all()


def test_both_must_say_yes(rows):
    linear = ta.models.wrap(LogisticRegression().fit(rows, rows["a"] > rows["b"]), SCHEMA, background=rows)
    other = ta.models.wrap(lambda table: table["a"].to_numpy() / 10, SCHEMA)
    pair, twins = both(linear, other), both(linear, linear.shifted(1.0))
    x = SCHEMA.encode(rows)
    assert ((pair.judge(rows) >= 0) == ((linear.judge(rows) >= 0) & (other.judge(rows) >= 0))).all()
    torch.testing.assert_close(pair.margin(x), torch.minimum(linear.margin(x), other.margin(x)))
    assert not pair.compiled and twins.compiled
    assert not isinstance(pair, ta.models.Differentiable) and isinstance(twins, ta.models.Differentiable)
    torch.testing.assert_close(twins.gradient(x), linear.gradient(x))
    torch.testing.assert_close(twins.shifted(0.5).margin(x), linear.margin(x) - 1.5)
    with pytest.raises(ta.TurnaboutError, match="different schemas"):
        both(linear, ta.models.wrap(lambda table: table["a"], ta.Schema(SCHEMA.features[:1])))


def test_scores_without_probabilities_are_refused(rows):
    amount = ta.models.wrap(lambda table: table["a"].to_numpy(dtype=float), SCHEMA, target_range=(4, None))
    with pytest.raises(ta.TurnaboutError, match="decides by no probability"):
        amount.margin_at(0.5)
    linear = ta.models.wrap(LogisticRegression().fit(rows, rows["a"] > rows["b"]), SCHEMA, background=rows)
    assert linear.margin_at(1.0) == np.inf and linear.margin_at(0.0) == -np.inf
    for odd in (1.5, -0.1, float("nan"), "half"):
        with pytest.raises(ta.TurnaboutError, match="is no probability"):
            linear.margin_at(odd)


def test_one_column_is_compiled_too(rows):
    schema = ta.Schema(SCHEMA.features[:1])
    fitted = LogisticRegression().fit(rows[["a"]], rows["a"] > 5)
    assert isinstance(ta.models.wrap(fitted, schema, background=rows[["a"]]), ta.models.LinearMargin)
