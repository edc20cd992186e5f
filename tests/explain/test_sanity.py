"""The model-randomisation check: methods that look at the model, and one that does not."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from plain_explainers import Itself, Slope

from turnabout.errors import ExplainError
from turnabout.explain.score import Score
from turnabout.explain.trust.sanity import _compare, randomisation


def linear(weights: np.ndarray) -> Score:
    w = torch.as_tensor(weights)
    return Score(lambda x: x @ w, lambda x: w.expand_as(x).clone())


def random_linear(seed: int) -> Score:
    return linear(np.random.default_rng(seed).normal(size=12))


POINTS = np.random.default_rng(5).normal(size=(8, 12))


def test_a_method_that_looks_at_the_model_differs():
    found = randomisation(Slope(), random_linear(1), random_linear, POINTS, count=20)
    assert found.verdict == "DIFFER"
    assert found.models == 20
    assert found.people == 8
    assert found.size is not None
    assert abs(found.size) < 0.3
    assert str(found).startswith("DIFFER: rank correlation of sizes")
    assert "does not show that they are right" in str(found)


def test_a_method_that_does_not_is_alike():
    found = randomisation(Itself(), random_linear(1), random_linear, POINTS, count=3)
    assert found.verdict == "ALIKE"
    assert found.size == pytest.approx(1.0)
    assert found.between == pytest.approx(1.0)
    assert "hardly shows" in str(found)


def test_correlations_by_hand():
    # sizes 1 2 3 against 3 2 1 and 1 3 2: -1 and 0.5; signed: 1 2 3 against -3 2 1 (1 3 2) and 1 3 2: 0.5 and 0.5
    models = [linear(np.array([-3.0, 2.0, 1.0])), linear(np.array([1.0, 3.0, 2.0]))]
    found = randomisation(Slope(), linear(np.array([1.0, 2.0, 3.0])), models, np.ones((1, 3)))
    assert found.table["size"].tolist() == pytest.approx([-1.0, 0.5])
    assert found.table["signed"].tolist() == pytest.approx([0.5, 0.5])
    assert found.size == pytest.approx(-0.25)
    assert found.between == pytest.approx(-0.5)  # 3 2 1 against 1 3 2
    assert found.verdict == "UNDETERMINED"  # two models say little
    assert list(found.to_frame().columns) == ["model", "person", "size", "signed"]
    json.dumps(found.to_dict(), allow_nan=False)


def test_an_attribution_of_zeros_is_undetermined():
    zero = linear(np.zeros(4))
    found = randomisation(Slope(), zero, [linear(np.arange(4.0))] * 2, np.ones((2, 4)))
    assert found.size is None
    assert found.verdict == "UNDETERMINED"
    assert "no rank correlation is defined" in str(found)
    assert found.to_dict()["size"] == {"value": None, "low": None, "high": None}


def test_same_seed_same_answer():
    one, two = (randomisation(Slope(), random_linear(1), random_linear, POINTS, count=4, seed=3) for _ in range(2))
    pd.testing.assert_frame_equal(one.table, two.table)
    other = randomisation(Slope(), random_linear(1), random_linear, POINTS, count=4, seed=4)
    assert not one.table.equals(other.table)


def test_the_interval_covers_the_mean_over_models():
    """1,000 repeats of 10 random models each, seen at 3 people with 5 features: 93 to 97 % of intervals hold the mean.

    The base has sizes that follow the random ones in part, so that the mean is neither 0 nor 1.
    """
    rng = np.random.default_rng(0)
    base = rng.normal(size=(3, 5))
    draws = base + 1.5 * rng.normal(size=(1000, 10, 3, 5))
    runs = [_compare(base, one, pd.RangeIndex(3), 0.5, "") for one in draws]
    for name in ("size", "signed"):
        truth = np.mean(
            [getattr(run, name) for run in runs]
        )  # 10,000 models: its own error is a hundredth of the width
        ends = np.array([getattr(run, f"{name}_interval") for run in runs])
        assert 0.93 <= ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean() <= 0.97


def test_bad_input():
    model = random_linear(0)
    with pytest.raises(ExplainError, match="is not an explainer"):
        randomisation("Slope", model, random_linear, POINTS)  # type: ignore[arg-type]
    with pytest.raises(ExplainError, match="at least two randomised models"):
        randomisation(Slope(), model, [model], POINTS)
    with pytest.raises(ExplainError, match="at least two randomised models"):
        randomisation(Slope(), model, model, POINTS)  # type: ignore[arg-type]
    with pytest.raises(ExplainError, match="count=1 is not a whole number"):
        randomisation(Slope(), model, random_linear, POINTS, count=1)
    with pytest.raises(ExplainError, match="seed=-1"):
        randomisation(Slope(), model, random_linear, POINTS, seed=-1)
    for alike in (1.0, float("nan"), "high"):
        with pytest.raises(ExplainError, match="is not a number strictly between -1 and 1"):
            randomisation(Slope(), model, random_linear, POINTS, alike=alike)  # type: ignore[arg-type]
    with pytest.raises(ExplainError, match="2 features have no ranks"):
        randomisation(Slope(), linear(np.ones(2)), [linear(np.ones(2))] * 2, np.ones((3, 2)))
    with pytest.raises(ExplainError, match="no people"):
        randomisation(Slope(), model, [model, model], POINTS[:0])
