"""The manipulability probe: angles known by hand, constraints kept, what cannot be turned."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from plain_explainers import Itself, Slope

from turnabout.errors import ExplainError
from turnabout.explain.score import Score
from turnabout.explain.trust.manipulation import angle_between, manipulability
from turnabout.schema import Category, Number, Schema
from turnabout.testing.deciders import weighing

FLAT = Score(lambda x: x[:, 0] * 0, lambda x: torch.zeros_like(x))


def test_a_linear_score_has_an_attribution_that_cannot_be_turned():
    w = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    score = Score(lambda x: x @ w, lambda x: w.expand_as(x).clone())
    found = manipulability(Slope(), score, np.zeros((2, 3)), radius=1.0, tolerance=10.0)
    assert found.worst == 0.0
    assert (found.table["moved"] == 0.0).all()


def test_the_corner_of_a_box_by_hand():
    # phi(x) = x from (1, 0), box of half-width 0.5: the largest angle is at (0.5, +-0.5): 45 degrees
    found = manipulability(Itself(), FLAT, np.array([[1.0, 0.0]]), radius=0.5, tolerance=0.0, rounds=20)
    assert 44.0 < found.worst <= 45.0 + 1e-9  # type: ignore[operator]
    assert found.table["moved"].tolist() == pytest.approx([0.5], abs=0.02)


def test_the_score_stays_within_the_tolerance():
    # the score is 10 * second coordinate, so that it may move by 0.005 only: angle at most atan(0.005 / 0.5)
    score = Score(lambda x: 10 * x[:, 1])
    found = manipulability(Itself(), score, np.array([[1.0, 0.0]]), radius=0.5, tolerance=0.05, rounds=20)
    most = np.degrees(np.arctan(0.005 / 0.5))
    assert 0.9 * most < found.worst <= most + 1e-9  # type: ignore[operator]
    assert (found.table["score_change"].abs() <= 0.05).all()


def test_what_is_reported_is_at_the_points_reported():
    rng = np.random.default_rng(0)
    w = torch.as_tensor(rng.normal(size=(4, 4)))
    score = Score(lambda x: torch.tanh(x @ w).sum(1), lambda x: (1 - torch.tanh(x @ w) ** 2) @ w.T)
    x = torch.as_tensor(rng.normal(size=(6, 4)))
    found = manipulability(Slope(), score, x, radius=0.2, tolerance=0.1)
    there = torch.as_tensor(found.points.to_numpy(copy=True))
    explain = Slope().as_map(score)
    assert found.table["angle"].astype(float).tolist() == pytest.approx(
        angle_between(explain(x), explain(there)).tolist()
    )
    assert ((score.values(there) - score.values(x)).abs() <= 0.1).all()
    assert ((there - x).abs().amax(1) <= 0.2 + 1e-12).all()
    assert found.worst > 1.0  # type: ignore[operator]
    again = manipulability(Slope(), score, x, radius=0.2, tolerance=0.1)
    pd.testing.assert_frame_equal(found.table, again.table)


def test_a_wider_search_finds_no_less():
    w = torch.as_tensor(np.random.default_rng(3).normal(size=(4, 4)))
    score = Score(lambda x: torch.tanh(x @ w).sum(1), lambda x: (1 - torch.tanh(x @ w) ** 2) @ w.T)
    x = np.random.default_rng(4).normal(size=(3, 4))
    short, long = (manipulability(Slope(), score, x, 0.3, 0.2, rounds=r) for r in (2, 8))
    assert (long.table["angle"] >= short.table["angle"]).all()


def test_levels_and_missing_cells_stay_and_ranges_hold():
    schema = Schema((Number("a", 0, 1), Category("job", levels=("x", "y")), Number("m", 0, 1, missing=True)))
    model = weighing("net", schema, {"a": 1.0, "job=y": 1.0, "m": -1.0}, 0.1)
    people = pd.DataFrame({"a": [0.98, 0.5], "job": ["x", "y"], "m": [np.nan, 0.2]}, index=["p", "q"])
    x = schema.encode(people)
    found = manipulability(Itself(), model, people, radius=0.1, tolerance=1.0)
    there = torch.as_tensor(found.points.to_numpy(copy=True))
    assert list(found.points.columns) == list(schema.columns)
    assert list(found.table.index) == ["p", "q"]
    assert torch.equal(there[:, 1:3], x[:, 1:3])
    assert torch.equal(there[0, 3:], x[0, 3:])
    assert there[0, 0] <= 1.0
    assert (there - x).abs().max() > 0


def test_an_attribution_of_zero_has_no_angle():
    found = manipulability(Slope(), FLAT, np.ones((2, 3)))
    assert found.worst is None
    assert found.table["angle"].isna().all()
    assert "no angle to turn" in str(found)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["people"][0]["angle"] is None


def test_words_say_that_it_is_a_lower_bound():
    found = manipulability(Itself(), FLAT, np.array([[1.0, 0.0]]), radius=0.5, rounds=3)
    assert "at least" in str(found)
    assert "Lower bounds" in str(found)


def test_bad_input():
    x = np.ones((1, 2))
    with pytest.raises(ExplainError, match="is not an explainer"):
        manipulability(angle_between, FLAT, x)  # type: ignore[arg-type]
    for radius in (0, -1.0, float("nan"), "wide"):
        with pytest.raises(ExplainError, match="radius="):
            manipulability(Itself(), FLAT, x, radius=radius)  # type: ignore[arg-type]
    with pytest.raises(ExplainError, match="tolerance=-1"):
        manipulability(Itself(), FLAT, x, tolerance=-1)
    for name, value in (("rounds", 0), ("draws", 1.5), ("seed", -1)):
        with pytest.raises(ExplainError, match=f"{name}="):
            manipulability(Itself(), FLAT, x, **{name: value})  # type: ignore[arg-type]
    with pytest.raises(ExplainError, match="no people"):
        manipulability(Itself(), FLAT, x[:0])
    with pytest.raises(ExplainError, match="no table of finite numbers"):
        manipulability(Itself(), FLAT, np.array([[np.nan, 1.0]]))
