"""Cells where leaves meet: the nearest accepted point against brute force over all cells, boxes and budgets."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.solvers.leaf_search import LeafSearch, has_boxes

SCHEMA = ta.Schema((ta.Number("a", 0, 1), ta.Number("b", 0, 1)))


def points(n, seed):
    return torch.as_tensor(np.random.default_rng(seed).uniform(size=(n, 2)))


def forest(trees=8):
    from sklearn.ensemble import GradientBoostingClassifier

    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.uniform(size=300), "b": rng.uniform(size=300)})
    y = (rows.a * rows.b > 0.25) ^ (rng.uniform(size=300) < 0.2)
    model = GradientBoostingClassifier(n_estimators=trees, learning_rate=0.4, random_state=0).fit(rows, y)
    return ta.models.wrap(model, SCHEMA)


def size(norm):
    return lambda move: torch.linalg.vector_norm(move, ord=norm, dim=-1)


def brute(model, x, norm, low, high):
    """The least distance over the nearest points of all cells between cuts, within a box each."""
    cuts = [[-np.inf, *c.tolist(), np.inf] for c in model.forest.cuts]
    out = torch.full((len(x),), math.inf, dtype=torch.float64)
    for (a0, a1), (b0, b1) in itertools.product(*(list(itertools.pairwise(c)) for c in cuts)):
        floor = torch.maximum(torch.tensor([np.nextafter(a0, np.inf), np.nextafter(b0, np.inf)]), low)
        roof = torch.minimum(torch.tensor([a1, b1], dtype=torch.float64), high)
        y = torch.minimum(torch.maximum(x, floor), roof)
        good = (floor <= roof).all(1) & (model.margin(y) >= 0)
        out = torch.where(good, torch.minimum(out, size(norm)(y - x)), out)
    return out


@pytest.mark.parametrize("norm", [1, 2, math.inf])
@pytest.mark.parametrize("whole", [True, False])
def test_the_nearest_point_is_that_of_all_cells(norm, whole):
    model = forest()
    x = points(40, 1)
    x = x[model.margin(x) < 0]
    for low, high in ((x - math.inf, x + math.inf), (x - 0.05, x + 0.02)):
        expected = brute(model, x, norm, low, high)
        for within in (0.06, 9.0):
            found = LeafSearch(model, size(norm), whole).find(x, within, (low, high))
            there = torch.isfinite(found.distance)
            assert torch.equal(there, expected <= within) and not found.unknown.any()
            assert torch.equal(found.distance[there], expected[there])
            assert (model.margin(found.point)[there] >= 0).all() and torch.equal(found.point[~there], x[~there])
            assert torch.equal(size(norm)(found.point - x)[there], found.distance[there])
            assert ((found.point >= low) & (found.point <= high)).all()
            some = LeafSearch(model, size(norm), whole).find(x, within, (low, high), stop_at_first=True)
            assert torch.equal(torch.isfinite(some.distance), there) and (some.distance >= found.distance).all()
            assert (some.distance[there] <= within).all() and (model.margin(some.point)[there] >= 0).all()


def test_budgets_leave_people_unknown_and_each_one_alone():
    model = forest(20)
    x = points(60, 2)
    x = x[model.margin(x) < 0]
    cells = LeafSearch(model, size(2))
    full = cells.find(x, 0.1)
    short = cells.find(x, 0.1, each=20)
    assert 3 < short.unknown.sum() < len(x) and not full.unknown.any()
    assert torch.equal(short.distance[~short.unknown], full.distance[~short.unknown])
    for i in range(0, len(x), 5):  # in any company
        alone = cells.find(x[i : i + 1], 0.1, each=20)
        assert alone.unknown[0] == short.unknown[i] and alone.distance[0] == short.distance[i]
    assert cells.find(x, 0.1, total=10).unknown.any()
    accepted = points(60, 2)[model.margin(points(60, 2)) >= 0]
    at_once = cells.find(accepted, 0.1, total=0)
    assert (at_once.distance == 0).all() and not at_once.unknown.any() and torch.equal(at_once.point, accepted)


def test_columns_of_levels_may_move_continuously_or_as_a_whole():
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.uniform(size=300), "home": rng.choice(["own", "rent"], 300)})
    schema = ta.Schema((ta.Number("a", 0, 1), ta.Category("home", ("own", "rent"))))
    pipe = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["home"]), remainder="passthrough"),
        GradientBoostingClassifier(n_estimators=5, random_state=0),
    )
    model = ta.models.wrap(pipe.fit(rows, rows.home == "own"), schema)
    assert has_boxes(model.forest)
    x = schema.encode(rows[rows.home == "rent"].head(5))
    whole, free = (LeafSearch(model, size(2), kind).find(x, 5.0) for kind in (True, False))
    assert whole.distance.tolist() == pytest.approx([math.sqrt(2)] * 5)  # one level down, the other up
    assert (free.distance < 0.75).all() and (model.margin(free.point) >= 0).all()  # half way is enough
