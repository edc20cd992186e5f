"""Rays and reach: what linear models, trees and nets answer along a line and within a ball, against brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from hand import linear
from turnabout.studies.attribution_maps.attainable import attainable
from turnabout.studies.attribution_maps.map_moves import Anywhere, OneFeature
from turnabout.studies.attribution_maps.map_questions import asking
from turnabout.studies.attribution_maps.ray import first_yes

SCHEMA = ta.Schema((ta.Number("a", 0, 1), ta.Number("b", 0, 1)))
NORMS = (1, 2, math.inf)


def points(n, d=2, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).uniform(size=(n, d)))


def forest(trees=6, depth=3, noise=0.0):
    from sklearn.ensemble import GradientBoostingClassifier

    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.uniform(size=400), "b": rng.uniform(size=400)})
    y = (rows.a > 0.75) & (rows.b > 0.6) | (rows.a < 0.1) & (rows.b < 0.2)
    y ^= rng.uniform(size=400) < noise
    fitted = GradientBoostingClassifier(n_estimators=trees, max_depth=depth, learning_rate=0.5, random_state=0)
    return ta.models.wrap(fitted.fit(rows, y), SCHEMA)


def net(seed=0, width=12):
    torch.manual_seed(seed)
    parts = [torch.nn.Linear(2, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU()]
    module = torch.nn.Sequential(*parts, torch.nn.Linear(width, 1)).double()
    with torch.no_grad():
        for part in module[::2]:
            part.weight *= 3
        module[-1].bias -= module(points(500)).quantile(0.85)
    return ta.models.wrap(module, SCHEMA)


# -- rays ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [forest(), forest(20), net(0), net(1)], ids=["trees", "forest", "net", "other net"])
def test_rays_meet_what_a_fine_grid_meets(model):
    x = points(60)
    x = x[model.margin(x) < 0]
    v = torch.as_tensor(np.random.default_rng(1).standard_normal(tuple(x.shape)))
    length = torch.full((len(x),), 0.4, dtype=torch.float64)
    hits = first_yes(model, x, v, length)
    assert hits.exact and 0 < hits.found.sum() < len(x)
    t = torch.linspace(0, 0.4, 4001, dtype=torch.float64)
    yes = model.margin(x.unsqueeze(1) + t[None, :, None] * v.unsqueeze(1)) >= 0  # (n, grid)
    assert not (yes.any(1) & ~hits.found).any()
    assert (model.margin(hits.place)[hits.found] >= 0).all()
    assert torch.equal(hits.place[~hits.found], x[~hits.found])
    both = yes.any(1)
    first = t[yes[both].to(torch.int8).argmax(1)]
    late = first - hits.t[both]
    assert (late > -1e-9).all() and late.median() < 2e-4  # the grid comes second, by less than one step mostly


def test_a_sliver_is_met_by_breakpoints_and_missed_by_the_grid():
    bend = torch.nn.Sequential(torch.nn.Linear(1, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)).double()
    c, w = 0.3001, 1e-6  # a tent of width 2e-6 around c, 1 high at its top
    with torch.no_grad():
        bend[0].weight[:] = torch.tensor([[1.0], [1.0], [1.0]])
        bend[0].bias[:] = torch.tensor([-(c - w), -c, -(c + w)], dtype=torch.float64)
        bend[2].weight[:] = torch.tensor([[1 / w, -2 / w, 1 / w]], dtype=torch.float64)
        bend[2].bias[:] = -0.5
    model = ta.models.wrap(bend, ta.Schema((ta.Number("a", 0, 1),)))
    start, unit, far = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64), torch.ones(1)
    assert first_yes(model, start, unit, far.double()).t[0] == pytest.approx(c - w / 2, abs=1e-9)
    blind = first_yes(model.margin, start, unit, far.double())
    assert not blind.found[0] and not blind.exact


# -- is there anything within reach? --------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
def test_the_steepest_move_is_allowed_and_never_beaten(norm):
    x, w = points(40, 4), torch.tensor([1.0, -3.0, 0.5, 0.0], dtype=torch.float64)
    for moves in (Anywhere(norm=norm), Anywhere(lambda x: (x - 0.1, torch.ones_like(x)), norm=norm)):
        best = moves.steepest(x, w, 0.3)
        low, high = moves.room(x, 0.3)
        assert (moves.size(best) <= 0.3 + 1e-12).all() and (best >= low).all() and (best <= high).all()
        drawn = moves.draw(x, 0.3, 2000, np.random.default_rng(0))
        assert (moves.size(drawn) <= 0.3 + 1e-12).all()
        assert ((drawn @ w).amax(1) <= best @ w + 1e-12).all()
        assert ((drawn @ w).amax(1) >= 0.6 * (best @ w)).all()
    dual = {1: 3.0, 2: float(w.norm()), math.inf: 4.5}[norm]
    assert torch.allclose(Anywhere(norm=norm).steepest(x, w, 0.3) @ w, torch.tensor(0.3 * dual, dtype=torch.float64))


def test_linear_models_by_formula():
    model = linear((0.06, -0.08, 0.0))
    x = points(200, 3)
    x = x[model.margin(x) < 0]
    for norm, dual in (
        (1, model.weights.abs().max()),
        (2, model.weights.norm()),
        (math.inf, model.weights.abs().sum()),
    ):
        within = attainable(model, x, Anywhere(norm=norm), 0.2)
        assert torch.equal(within.status == 1, model.margin(x) + 0.2 * dual >= 0)
        assert not (within.status == -1).any()
        found = within.status == 1
        assert (model.margin(within.place)[found] >= 0).all() and found.any() and not found.all()
        assert (Anywhere(norm=norm).size(within.place - x) <= 0.2).all()


def cells_within(model, x, norm, delta):
    """Brute force: the nearest point of every cell between cuts."""
    cuts = [[-np.inf, *c.tolist(), np.inf] for c in model.forest.cuts]
    out = torch.zeros(len(x), dtype=torch.bool)
    for (a0, a1), (b0, b1) in itertools.product(*(list(itertools.pairwise(c)) for c in cuts)):
        low = torch.tensor([np.nextafter(a0, np.inf), np.nextafter(b0, np.inf)])
        y = torch.minimum(torch.maximum(x, low), torch.tensor([a1, b1], dtype=torch.float64))
        near = torch.linalg.vector_norm(y - x, ord=norm, dim=1) <= delta
        out |= near & (model.margin(y) >= 0)
    return out


@pytest.mark.parametrize("norm", NORMS)
def test_trees_are_decided_exactly(norm):
    model = forest()
    x = points(150, seed=3)
    x = x[model.margin(x) < 0]
    within = attainable(model, x, Anywhere(norm=norm), 0.15)
    assert within.engine.endswith("boxes of leaves") and not (within.status == -1).any()
    expected = cells_within(model, x, norm, 0.15)
    assert torch.equal(within.status == 1, expected) and 5 < expected.sum() < len(x) - 5
    assert (model.margin(within.place)[expected] >= 0).all()
    assert (Anywhere(norm=norm).size(within.place - x) <= 0.15).all()


@pytest.mark.parametrize("model", [net(0), net(1), forest(20), forest(40, noise=0.1)], ids=["0", "1", "20", "40"])
def test_the_model_says_yes_at_every_place_that_is_named(model):
    x = points(150, seed=3)
    x = x[model.margin(x) < 0]
    bounds = lambda x: (x - 0.05, torch.full_like(x, 0.9).maximum(x))  # noqa: E731
    for delta in (0.1, 0.3):
        for moves in (*(Anywhere(norm=norm) for norm in NORMS), OneFeature(), Anywhere(bounds), OneFeature(bounds)):
            within = attainable(model, x, moves, delta)
            yes = within.status == 1
            assert yes.any() and torch.equal(within.place[~yes], x[~yes])
            assert all(model.margin(row.unsqueeze(0))[0] >= 0 for row in within.place[yes])  # asked alone
            assert (moves.size(within.place - x) <= delta).all()
            if moves.bounds is not None:
                low, high = moves.bounds(x)
                assert ((within.place >= low) & (within.place <= high)).all()


@pytest.mark.parametrize("model", [forest(40, noise=0.2), net(1), lambda x: x[:, 0] - 2 * x[:, 1] - 0.5])
def test_the_same_person_gets_the_same_answer_in_any_company(model):
    x = points(120, seed=8)
    x = x[asking(model)(x) < 0]
    order = torch.as_tensor(np.random.default_rng(0).permutation(len(x)))
    first, other = (attainable(model, rows, Anywhere(), 0.05).status for rows in (x, x[order]))
    assert torch.equal(first[order], other)
    assert torch.equal(attainable(model, x[:7], Anywhere(), 0.05).status, first[:7])


def test_what_rounding_decides_is_not_called_proved():
    """A tent whose top is 0: whether it is a yes hangs on the last digit."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        c, k = rng.uniform(0.3, 0.7), rng.uniform(0.5, 3)
        tent = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1)).double()
        with torch.no_grad():
            tent[0].weight[:] = torch.tensor([[k], [-k]], dtype=torch.float64)
            tent[0].bias[:] = torch.tensor([-k * c, k * c], dtype=torch.float64)
            tent[2].weight[:], tent[2].bias[:] = torch.tensor([[-1.0, -1.0]]), 0.0
        model = ta.models.wrap(tent, ta.Schema((ta.Number("a", 0, 1),)))
        assert int(attainable(model, torch.tensor([[0.1]], dtype=torch.float64), Anywhere(), 0.8).status[0]) != 0
    model = linear((0.06, -0.08, 0.0))
    x = points(300, 3, seed=2)
    x = x[model.margin(x) < 0]
    norm = float(model.weights.norm())
    for row in x:
        status = int(
            attainable(model, row.unsqueeze(0), Anywhere(), -float(model.margin(row[None])[0]) / norm).status[0]
        )
        assert status != 0  # the length is the very distance


def test_nets_are_settled_by_bounds_and_never_wrongly():
    model = net(2)
    x = points(80, seed=4)
    x = x[model.margin(x) < 0]
    within = attainable(model, x, Anywhere(), 0.1)
    angle = torch.linspace(0, 2 * math.pi, 721, dtype=torch.float64)
    ring = torch.stack([angle.cos(), angle.sin()], 1) * 0.1
    disk = torch.cat([ring * r for r in torch.linspace(0.05, 1, 20)])
    brute = (model.margin(x.unsqueeze(1) + disk) >= 0).any(1)
    assert not (brute & (within.status == 0)).any()
    assert (within.status[brute] == 1).all()
    assert (within.status == 0).sum() > 10 and (within.status == 1).sum() > 5
    assert (within.status == -1).double().mean() < 0.1


def test_categories_of_trees_are_settled_by_bounds():
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.uniform(size=300), "home": rng.choice(["own", "rent", "free"], 300)})
    schema = ta.Schema((ta.Number("a", 0, 1), ta.Category("home", ("own", "rent", "free"))))
    pipe = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["home"]), remainder="passthrough"),
        GradientBoostingClassifier(n_estimators=5, random_state=0),
    )
    model = ta.models.wrap(pipe.fit(rows, (rows.a > 0.6) & (rows.home != "rent")), schema)
    x = schema.encode(rows)
    x = x[model.margin(x) < 0]
    within = attainable(model, x, Anywhere(), 0.2)
    drawn = Anywhere().draw(x, 0.2, 2000, np.random.default_rng(1))
    brute = (model.margin(x.unsqueeze(1) + drawn) >= 0).any(1)
    assert not (brute & (within.status == 0)).any() and (within.status == 0).sum() > 20
    assert (model.margin(within.place)[within.status == 1] >= 0).all()
