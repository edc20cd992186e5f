"""Noise on lines, where the share that survives and the nearest change have formulas."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from hand import SCHEMA, Raise, linear, table
from turnabout.audit.robustness import deepfool, model_under_noise, natural, recourse_under_noise
from turnabout.intervals import Rate
from turnabout.rules import Box

SD = {"income": 20.0, "debt": 10.0}


@pytest.fixture(scope="module")
def background():
    rng = np.random.default_rng(5)
    return table(rng.integers(0, 101, 400), rng.integers(0, 51, 400), sex=rng.choice(["f", "m"], 400))


def test_recourse_under_noise_is_a_normal_probability():
    # everyone earns 41 and is told 50: margin 0.06 * 50 - 2.5 = 0.5, noise 0.06 * 10, so P(kept) = Phi(0.5 / 0.6)
    problem = ta.Problem(SCHEMA, linear((0.06, 0.0, 0.0)), rules=[Box({"income": 9})])
    answer = Raise(9).fit(problem).find(table([41] * 500, 0))
    answer.options["income"] = 50  # as told, before polishing took it to 42
    rate = recourse_under_noise(problem, answer, sd={"income": 10.0}, draws=40)
    assert rate.n == 500 and rate.value == pytest.approx(NormalDist().cdf(0.5 / 0.6), abs=0.01)
    once = recourse_under_noise(problem, answer, sd={"income": 10.0}, seed=1)
    assert once.hits == int(once.hits) and abs(once.value - rate.value) < 0.08
    assert once == recourse_under_noise(problem, answer, sd={"income": 10.0}, seed=1)


def test_model_under_noise_counts_both_decisions():
    problem = ta.Problem(SCHEMA, linear((0.06, 0.0, 0.0), bias=-3.0))  # yes from 50 on
    people = table([45, 55] * 200, 0)
    rate = model_under_noise(problem, people, sd={"income": 5.0}, draws=20)
    assert rate.n == 400 and rate.value == pytest.approx(NormalDist().cdf(1.0), abs=0.01)
    assert model_under_noise(problem, people, sd={"debt": 5.0}).value == 1.0


def test_deviations_are_those_of_the_background(background):
    problem = ta.Problem(SCHEMA, linear(), background=background)
    named = {name: 0.1 * float(background[name].std()) for name in ("income", "debt")}
    people = background.iloc[:100]
    assert model_under_noise(problem, people) == model_under_noise(problem, people, sd=named)


def test_nobody_found_and_nobody_at_all(background):
    problem = ta.Problem(SCHEMA, linear(bias=-99.0), background=background)
    answer = Raise().fit(problem).find(table([1], [1]))
    assert recourse_under_noise(problem, answer).value is None
    assert model_under_noise(problem, background.iloc[:0]).n == 0
    assert natural(problem, background.iloc[:0]).typical.n == 0
    assert len(deepfool(problem, background.iloc[:0]).size) == 0


def test_missing_cells_are_not_shaken():
    schema = ta.Schema((ta.Number("a", 0, 10, missing=True), ta.Number("b", 0, 10)))
    model = ta.models.wrap(lambda t: (t.a.fillna(5.0) >= 5).to_numpy(float), schema)
    problem = ta.Problem(schema, model)
    assert model_under_noise(problem, pd.DataFrame({"a": [np.nan] * 50, "b": 1.0}), sd={"a": 100.0}).value == 1.0


def test_deepfool_on_a_line_is_the_distance_to_it(background):
    problem = ta.Problem(SCHEMA, linear())
    people = background.iloc[:80]
    turns = deepfool(problem, people, sd=SD)
    margin = 0.06 * people.income - 0.08 * people.debt - 2.5
    distance = margin.abs() / np.hypot(0.06 * 20, 0.08 * 10)
    assert np.allclose(turns.size, distance, atol=1e-6)
    assert (turns.accepted == (margin >= 0)).all()
    moved = margin + 0.06 * 20 * turns.change.income - 0.08 * 10 * turns.change.debt
    assert np.allclose(moved, 0, atol=1e-6)
    assert turns.survives(0.5).hits == (distance > 0.5).sum()
    assert turns.settled.all() and turns.survives(0.5) == Rate.among((distance > 0.5).to_numpy())
    assert "decisions that survive" in str(turns) and len(turns.to_dict()["size"]) == 80


def test_deepfool_turns_decisions_of_a_net_and_is_no_shorter_than_the_truth():
    schema = ta.Schema((ta.Number("a", -3, 3), ta.Number("b", -3, 3), ta.Number("c", -3, 3, moves="fixed")))
    net = torch.nn.Sequential(torch.nn.Linear(3, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1)).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    problem = ta.Problem(schema, ta.models.wrap(net, schema))
    people = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)).clip(-3, 3), columns=schema.names)
    turns = deepfool(problem, people, sd={"a": 1.0, "b": 1.0})
    found = np.isfinite(turns.size)
    assert found.sum() > 30
    assert np.isinf(turns.size[~found]).all() and (turns.change[~found] == 0).all(axis=None)
    moved = people.copy()
    moved[["a", "b"]] += turns.change.to_numpy() * (1 + 1e-6)  # clear of rounding
    now = problem.margin(schema.encode(moved)).numpy() >= 0
    assert (now != turns.accepted)[found].all()
    angle = np.linspace(0, 2 * np.pi, 721)
    for i in np.flatnonzero(found)[:5]:  # nothing turns well within the distance on a circle of directions
        ring = pd.DataFrame({"a": np.cos(angle), "b": np.sin(angle), "c": 0.0}) * 0.3 * turns.size.iloc[i]
        near = problem.margin(schema.encode(ring + people.iloc[i])).numpy() >= 0
        assert (near == turns.accepted.iloc[i]).all()


def test_what_cannot_move_is_not_turned():
    flat = ta.Problem(SCHEMA, linear((0.0, 0.0, 1.0), bias=-0.5))
    turns = deepfool(flat, table([50, 50], [10, 10], ["f", "m"]), sd=SD)
    assert np.isinf(turns.size).all() and turns.survives(100.0).value == 1.0
    assert turns.to_dict()["size"] == [None, None]
    assert turns.settled.all() and turns.survives(100.0).low > 0  # nothing on a line turns them: known


def test_who_was_not_turned_is_not_known_to_survive():
    schema = ta.Schema((ta.Number("a", 0, 10),))
    net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU(), torch.nn.Linear(1, 1)).double()
    with torch.no_grad():  # margin relu(a - 5) - 1: flat up to 5, yes from 6 on
        for parameter, value in zip(net.parameters(), (10.0, -5.0, 1.0, -1.0), strict=True):
            parameter.fill_(value)
    problem = ta.Problem(schema, ta.models.wrap(net, schema, threshold=0.5, output="logit"))
    turns = deepfool(problem, pd.DataFrame({"a": [4.9, 5.5]}), sd={"a": 1.0})
    assert np.isinf(turns.size[0]) and turns.size[1] == pytest.approx(0.5)  # though 1.1 turns the first
    assert turns.settled.tolist() == [False, False] == turns.to_dict()["settled"]
    rate = turns.survives(2.0)
    assert (rate.value, rate.hits, rate.low) == (0.5, 1, 0.0)
    assert "survival is at most" in str(turns) and "gave up on 1 of 2 people" in str(turns)


def test_natural_moves_go_part_of_the_way_to_neighbours():
    schema = ta.Schema((ta.Number("a", 0, 10), ta.Number("b", 0, 10, moves="fixed")))
    problem = ta.Problem(schema, ta.models.wrap(lambda t: (t.a >= 5).to_numpy(float), schema))
    near = pd.DataFrame({"a": [4.0, 4.8, 6.0, 4.8], "b": [1.0, 1.0, 1.0, 9.0]})
    people = pd.DataFrame({"a": [4.8], "b": [1.0]})
    # neighbours at 4 and 6 differ; a quarter of the way to 6 is 5.1, a tenth of it 4.92
    half = natural(problem, people, near, share=0.25, neighbours=2)
    assert half.typical.value == 0.5 and half.worst.value == 0.0
    assert half.size == pytest.approx(0.25 * (0.8 + 1.2) / 2 / near.a.std())
    small = natural(problem, people, near, share=0.1, neighbours=2)
    assert small.typical.value == 1.0 and small.worst.value == 1.0
    assert "natural change" in str(small) and small.to_dict()["worst"]["n"] == 1


def test_natural_on_a_line(background):
    problem = ta.Problem(SCHEMA, linear(), background=background)
    report = natural(problem, background, rows=200)
    assert 0.8 < report.typical.value <= 1 and report.worst.value <= report.typical.value
    assert 0 < report.size < 0.5 and report == natural(problem, background, rows=200)


def test_errors_say_what_to_do(background):
    bare, full = ta.Problem(SCHEMA, linear()), ta.Problem(SCHEMA, linear(), background=background)
    with pytest.raises(ta.TurnaboutError, match="no background to measure"):
        model_under_noise(bare, background)
    with pytest.raises(ta.TurnaboutError, match="on 'sex', which is no number"):
        model_under_noise(bare, background, sd={"sex": 1.0})
    with pytest.raises(ta.TurnaboutError, match="noise on 'debt' is -1"):
        model_under_noise(bare, background, sd={"debt": -1})
    with pytest.raises(ta.TurnaboutError, match="deviations=0"):
        model_under_noise(full, background, deviations=0)
    with pytest.raises(ta.TurnaboutError, match="draws=0"):
        model_under_noise(full, background, draws=0)
    with pytest.raises(ta.TurnaboutError, match="share=2"):
        natural(full, background, share=2)
    for name, value in (("deviations", "x"), ("seed", -1), ("sd", 5.0), ("draws", "x")):
        with pytest.raises(ta.TurnaboutError, match=f"{name}={value!r}"):
            model_under_noise(full, background, **{name: value})
    with pytest.raises(ta.TurnaboutError, match="noise on 'income' is 'x'"):
        model_under_noise(bare, background, sd={"income": "x"})
    with pytest.raises(ta.TurnaboutError, match="share='a'"):
        natural(full, background, share="a")
    with pytest.raises(ta.TurnaboutError, match="steps=0"):
        deepfool(full, background, steps=0)
    with pytest.raises(ta.TurnaboutError, match="size=nan"):
        deepfool(full, background.iloc[:3]).survives(float("nan"))
    with pytest.raises(ta.TurnaboutError, match="neighbours=0"):
        natural(full, background, neighbours=0)
    fixed = ta.Schema((ta.Binary("a"), ta.Number("b", moves="fixed")))
    judged = ta.models.wrap(lambda t: t.a.to_numpy(float), fixed)
    with pytest.raises(ta.TurnaboutError, match="nothing for noise to shake"):
        model_under_noise(ta.Problem(fixed, judged), pd.DataFrame({"a": [1], "b": [0.0]}))
    loose = ta.Schema((ta.Number("a"),))
    with pytest.raises(ta.TurnaboutError, match="DeepFool needs a model with a gradient"):
        deepfool(ta.Problem(loose, ta.models.wrap(lambda t: t.a.to_numpy(float), loose)), pd.DataFrame({"a": [0.5]}))
