"""Cuts so near a legal value that encoding cannot tell the two apart."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from turnabout.models import Trees, wrap
from turnabout.models.encoded_cuts import encoded_cuts
from turnabout.models.libraries.raw_forest import cut_of_float32
from turnabout.schema import Number, Schema

WHOLE = np.arange(-9.0, 101.0)
BELOW_ZERO = cut_of_float32([0.0], strict=True)  # x < 0 in float32: ends a hair below zero


def encode(feature: Number, v: np.ndarray) -> np.ndarray:
    return (v - feature.low) / feature.span


@pytest.mark.parametrize("feature", [Number("v", -9, 100, step=1), Number("v", -9, 100), Number("v", -9, 100.5)])
@pytest.mark.parametrize("cut", [float(BELOW_ZERO[0]), -1e-35, np.nextafter(0.0, -1.0)])
def test_a_cut_a_hair_below_a_legal_value_sends_it_right(feature, cut):
    assert encode(feature, np.array(cut)) == encode(feature, np.array(0.0))  # what makes it hard
    (encoded,), falling = encoded_cuts(feature, None, np.array([cut]))
    assert not falling
    assert np.array_equal(encode(feature, WHOLE) <= encoded, cut >= WHOLE)


@pytest.mark.parametrize("cut", [0.0, 7e-46, 1e-35])
def test_a_cut_at_or_a_hair_above_a_legal_value_sends_it_left(cut):
    feature = Number("v", -9, 100, step=1)
    (encoded,), _ = encoded_cuts(feature, None, np.array([cut]))
    assert np.array_equal(encode(feature, WHOLE) <= encoded, cut >= WHOLE)


@pytest.mark.parametrize("low", [-9.0, -1e6, -0.7, 0.0, 0.1])
@pytest.mark.parametrize("strict", [False, True])
def test_all_cuts_at_short_decimals(low, strict):
    feature = Number("v", low, low + 37.3, decimals=2)
    v = np.unique(np.round(np.concatenate([low + np.linspace(0, 37.3, 1000), [0.0]]), 2))
    cuts = np.nextafter(v, -np.inf) if strict else v
    encoded, _ = encoded_cuts(feature, None, cuts)
    assert np.array_equal(encode(feature, v)[:, None] <= encoded, v[:, None] <= cuts)


@pytest.mark.parametrize("to_input", [lambda v: v - 3.0, lambda v: 3.0 - v, lambda v: -v, lambda v: v / 3.7])
@pytest.mark.parametrize("strict", [False, True])
def test_short_decimals_behind_a_transform(to_input, strict):
    feature = Number("v", -9, 100.3, decimals=1)
    v = np.round(np.arange(-9, 20, 0.1), 1)
    cuts = np.unique(to_input(v))
    cuts = np.nextafter(cuts, -np.inf) if strict else cuts
    encoded, falling = encoded_cuts(feature, to_input, cuts)
    assert np.array_equal((encode(feature, v)[:, None] <= encoded) != falling, to_input(v)[:, None] <= cuts)


def test_infinite_cuts_stay_infinite():
    with np.errstate(all="raise"):
        encoded, _ = encoded_cuts(Number("v", -9, 100), None, np.array([-np.inf, np.inf, -3e38, 3e38]))
    assert encoded[:2].tolist() == [-np.inf, np.inf]
    assert encoded[2] < 0 < encoded[3]


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_boosted_codes_below_zero(name):
    """Negative codes for missing cells make the boosters split at x < 0."""
    library = pytest.importorskip(name)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.integers(-9, 30, 800), "b": rng.integers(-3, 12, 800)})
    y = ((table.a >= 0) ^ (table.b < 0)) & (rng.random(800) < 0.95)
    options = {"xgboost": {"n_estimators": 8}, "lightgbm": {"n_estimators": 8, "verbose": -1}}[name]
    cls = getattr(library, {"xgboost": "XGBClassifier", "lightgbm": "LGBMClassifier"}[name])
    model = cls(n_jobs=1, **options).fit(table, y)
    schema = Schema((Number("a", -9, 29, step=1), Number("b", -3, 11, step=1)))
    wrapped = wrap(model, schema, background=table)
    assert isinstance(wrapped, Trees), wrapped.notes
    assert np.abs(wrapped.judge(table) - wrapped.margin(schema.encode(table)).numpy()).max() < 1e-4


def test_raw_heloc_is_compiled():
    xgboost = pytest.importorskip("xgboost")
    path = Path(os.environ.get("TURNABOUT_DATA", "data")) / "heloc" / "heloc_dataset_v1.csv.gz"
    if not path.is_file():
        pytest.skip("raw HELOC is not in TURNABOUT_DATA")
    with gzip.open(path) as file:
        table = pd.read_csv(file)
    y = table.pop("RiskPerformance") == "Good"
    schema = Schema(tuple(Number(c, low=table[c].min(), high=table[c].max(), step=1) for c in table))
    model = xgboost.XGBClassifier(n_estimators=30, max_depth=4, n_jobs=1).fit(table, y)
    wrapped = wrap(model, schema, background=table)
    assert isinstance(wrapped, Trees), wrapped.notes
    assert np.abs(wrapped.judge(table) - wrapped.margin(schema.encode(table)).numpy()).max() < 1e-4
