"""Tap: shortfall, bar and loss by hand; a verifier that learns; rows that reach the region; what is no question."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.core import Problem, Run, Status
from turnabout.costs import L1
from turnabout.errors import MethodError
from turnabout.methods.tap import DEEPER, Tap
from turnabout.models import wrap
from turnabout.nn.network_training import Schedule
from turnabout.nn.pair_verifier import PairVerifier, train_verifier
from turnabout.schema import Category, Number, Schema

PLANE = Schema((Number("a", 0, 1), Number("b", 0, 1)))
GROUND = pd.DataFrame(np.random.default_rng(0).random((400, 2)), columns=["a", "b"])
PEOPLE = pd.DataFrame(np.random.default_rng(1).random((9, 2)) * 0.4, columns=["a", "b"])
SMALL = {"hidden": (16,), "training_steps": 300}


def plane(labels=None, threshold: float = 0.5, ground: pd.DataFrame | None = GROUND) -> Problem:
    """Margin 8 a + 4 b - 6 in log-odds."""
    module = torch.nn.Linear(2, 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[8.0, 4.0]], dtype=torch.float64))
        module.bias.fill_(-6.0)
    model = wrap(module, PLANE, threshold=threshold, output="logit")
    return Problem(PLANE, model, cost=L1(), background=ground, labels=labels)


def row(a: float, b: float) -> torch.Tensor:
    return torch.tensor([[a, b]], dtype=torch.float64)


def at(chance: float) -> torch.Tensor:
    """A row with this P(yes), b = 0."""
    return row((math.log(chance / (1 - chance)) + 6) / 8, 0.0)


def doubting(tap: Tap, says: float) -> Tap:
    """With a verifier that says the same of every pair."""
    tap.chance_of_difference = lambda x, x_new: torch.full_like(x_new[:, 0], says) + 0 * x_new.sum(-1)  # type: ignore[method-assign]
    return tap


def test_the_shortfall_by_hand():
    tap = Tap(p=0.9, **SMALL).fit(plane())
    want = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    assert tap.shortfall(at(0.5)).item() == pytest.approx(want)
    assert tap.shortfall(at(0.95)).item() == 0.0 == tap.shortfall(at(0.9001)).item()
    p = 1 - DEEPER * 0.1
    deeper = 0.9 * math.log(0.9 / p) + 0.1 * math.log(0.1 / (1 - p))
    assert tap.shortfall(at(0.9), DEEPER).item() == pytest.approx(deeper)


def test_a_higher_cut_off_takes_the_place_of_p():
    tap = Tap(p=0.6, **SMALL).fit(plane(threshold=0.8))
    assert tap.shortfall(at(0.79)).item() > 0 and tap.shortfall(at(0.81)).item() == 0


def test_the_bar_by_hand():
    # D(0.5) = 0.5108 and D(0.1) = 1.7578: the bar at P = 0.5 is 0.51 (1 - 0.2906) = 0.3618
    tap = Tap(p=0.9, verified=0.51, **SMALL).fit(plane())
    x, half = at(0.1), at(0.5)
    assert tap.shortfall(x).item() == pytest.approx(1.7578, abs=1e-4)
    for says, good in ((0.361, False), (0.363, True)):
        assert doubting(tap, says).is_verified(x, half).item() is good
    for says, good in ((0.509, False), (0.511, True)):
        assert doubting(tap, says).is_verified(x, at(0.95)).item() is good
        assert doubting(tap, says).criterion(x, at(0.95)).item() is good
    assert doubting(tap, 0.0).is_verified(x, x).item()  # as published; but x is not in the region
    assert not doubting(tap, 1.0).criterion(x, half).item()


def test_the_loss_by_hand():
    tap = doubting(Tap(p=0.9, verified=0.51, kappa=0.05, **SMALL).fit(plane()), 0.4)
    x, x_new = row(0.1, 0.2), row(0.65, 0.2)  # margin 0: P = 0.5
    p = 1 - DEEPER * 0.1
    short = 0.5 * math.log(0.5 / p) + 0.5 * math.log(0.5 / (1 - p))
    loss = tap.loss(tap.space(x), x_new, torch.tensor([0.5]))
    assert loss.item() == pytest.approx(short + 0.11 + 0.05 + 0.5 * 0.55)


def test_the_loss_follows_the_verifier():
    tap = Tap(p=0.5, verified=1.0, lam=0.0, kappa=0.0, **SMALL).fit(plane())
    z = row(0.9, 0.5).requires_grad_()  # in the region and accepted: only the verifier is left
    (slope,) = torch.autograd.grad(tap.loss(tap.space(row(0.1, 0.2)), z, torch.zeros(1)).sum(), z)
    assert slope.abs().sum() > 0 and (slope <= 0).all()


def test_of_rows_short_of_the_region_verified_ones_come_first():
    tap = Tap(p=0.99, **SMALL).fit(plane())
    tap.run = Run()
    space = tap.space(row(0.1, 0.2))
    cost = [doubting(tap, says).assess(space, row(0.75, 0.2)) for says in (1.0, 0.0)]
    assert not cost[0].hit.item() and not cost[1].hit.item()
    assert cost[0].cost.item() == pytest.approx(0.65) and cost[1].cost.item() > 1000


def test_the_verifier_tells_pairs_of_different_classes():
    rng = np.random.default_rng(3)
    x = torch.from_numpy(rng.random((600, 3))).float()
    y = (x[:, 0] > 0.7).long()
    network = PairVerifier(x[:400], (32, 32), seed=0)
    losses = train_verifier(network, x[:400], y[:400], Schedule(400), seed=0)
    assert losses[-1] < 0.35 < math.log(2) < losses[0] + 0.3
    a, b = x[400:500], x[500:]
    said = network(a, b) > 0
    assert (said == (y[400:500] != y[500:])).float().mean() > 0.9
    again = PairVerifier(x[:400], (32, 32), seed=0)
    train_verifier(again, x[:400], y[:400], Schedule(400), seed=0)
    assert all(torch.equal(u, v) for u, v in zip(network.state_dict().values(), again.state_dict().values()))


def test_options_reach_the_region_and_are_verified():
    asked = plane()
    tap = Tap(p=0.9, **SMALL).fit(asked)
    answer = tap.find(PEOPLE)
    assert (answer.status == Status.FOUND).all()
    x, x_new = PLANE.encode(PEOPLE), PLANE.encode(answer.options)
    assert tap.criterion(x, x_new).all()
    chance = asked.model.probability(x_new)
    assert (chance >= 0.9).all() and (chance.min() < 0.901)


def test_labels_overrule_a_model_that_errs():
    """The model likes b as much as a, the labels do not know b: options that b alone buys are doubted."""
    module = torch.nn.Linear(2, 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[8.0, 8.0]], dtype=torch.float64))
        module.bias.fill_(-8.0)
    model = wrap(module, PLANE, threshold=0.5, output="logit")
    asked = Problem(PLANE, model, cost=L1(), background=GROUND, labels=GROUND["a"] > 0.5)
    tap = Tap(p=0.6, hidden=(32,), training_steps=600).fit(asked)
    people = pd.DataFrame({"a": [0.2, 0.3], "b": [0.2, 0.1]})
    x = PLANE.encode(people)
    only_b = x.clone()
    only_b[:, 1] = 1.0
    assert (asked.margin(only_b) > 0).all() and not tap.criterion(x, only_b).any()
    assert (tap.find(people).options["a"] > 0.4).all()


def test_a_saved_verifier_is_loaded(tmp_path):
    tap = Tap(**SMALL).fit(plane())
    tap.save(tmp_path / "tap.safetensors")
    back = Tap.load(tmp_path / "tap.safetensors").fit(plane())
    assert repr(back) == repr(tap) and back.find(PEOPLE) == tap.find(PEOPLE)


def test_one_class_only_is_no_question():
    for labels, word in ((np.ones(400, dtype=bool), "accepted"), (np.zeros(400, dtype=bool), "refused")):
        asked = plane()
        asked.labels = torch.from_numpy(labels)
        with pytest.raises(MethodError, match=f"all 400 of the background are {word}[\\s\\S]*people of both kinds"):
            Tap.small().fit(asked)


def test_nobody_accepted_and_no_labels():
    ground = GROUND * 0.3
    with pytest.raises(MethodError, match="all 400 of the background are refused"):
        Tap.small().fit(plane(ground=ground))


def test_a_background_is_needed():
    with pytest.raises(MethodError, match="Tap needs a background"):
        Tap().fit(plane(ground=None))
    with pytest.raises(MethodError, match="trains on the background, which has 1 row"):
        Tap().fit(plane(ground=GROUND.iloc[:1]))


def test_a_probability_is_needed():
    module = torch.nn.Linear(2, 1).double()
    model = wrap(module, PLANE, target_range=(0.5, None))
    with pytest.raises(MethodError, match=r"Tap aims at a probability[\s\S]*decides by no probability"):
        Tap().fit(Problem(PLANE, model, background=GROUND, labels=GROUND["a"] > 0.5))


@pytest.mark.parametrize("kind", ["constant columns", "categories only"])
def test_odd_tables(kind):
    rng = np.random.default_rng(5)
    if kind == "constant columns":
        schema = Schema((Number("a", 0, 1), Number("b", 0, 1)))
        ground, weights = pd.DataFrame({"a": rng.random(50), "b": 0.5}), [4.0, 1.0]
    else:
        schema = Schema((Category("a", ("x", "y")), Category("b", ("u", "v", "w"))))
        ground = pd.DataFrame({"a": rng.choice(["x", "y"], 50), "b": rng.choice(["u", "v", "w"], 50)})
        weights = [-2.0, 2.0, 0.0, 0.5, 1.0]
    module = torch.nn.Linear(len(weights), 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([weights], dtype=torch.float64))
        module.bias.fill_(-2.2)
    asked = Problem(schema, wrap(module, schema, threshold=0.5, output="logit"), background=ground)
    refused = ground[asked.judge(ground) < 0].head(5)
    for cls in (Tap, ta.methods.Roar, ta.methods.Probe):
        answer = cls.small().fit(asked).find(refused)
        assert (answer.status == Status.FOUND).all()
