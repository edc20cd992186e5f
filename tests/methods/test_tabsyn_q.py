"""TabsynQ: whose rows the diffusion learns, what is drawn, and equation (2) by hand."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from earners import SCHEMA, decider, earners, question
from plain_codes import PERSON, PLANE, PlainDiffusion, with_plain_codes
from turnabout.core import Run
from turnabout.methods import Cchvae, TabsynQ, TabsynSvdd, latent, latent_diffusion
from turnabout.methods.latent import LatentSpace
from turnabout.methods.latent_diffusion import AGAIN, FEWEST, accepted_rows
from turnabout.nn.diffusion import LARGEST, first_state, heun, noise_levels

X = PLANE.encode(PERSON)
BOTH = pytest.mark.parametrize("cls", [TabsynQ, TabsynSvdd], ids=lambda cls: cls.__name__)


class Recorded(TabsynQ):
    """Remembers the codes it decodes."""

    def _keep(self, x, some, z, *more):
        self.seen.append(z.clone())
        return super()._keep(x, some, z, *more)


def plain(cls=Recorded, threshold=-torch.inf, coder=None, **params):
    made = cls(**{"latent": 2, "denoiser_steps": 1, "denoiser": (4,), **params})
    method = with_plain_codes(made, threshold=threshold, coder=coder or PlainDiffusion())
    method.seen = []
    return method


# -- what the diffusion learns -----------------------------------------------------------------------------------------


def test_it_learns_from_people_whom_model_and_labels_accept():
    background = earners(200, 1)
    model = decider()
    decided = model.judge(background) >= 0
    labels = decided.copy()
    labels[np.flatnonzero(decided)[:5]] = False
    labels[np.flatnonzero(~decided)[:5]] = True
    problem = ta.Problem(SCHEMA, model, background=background, labels=labels)
    assert torch.equal(accepted_rows(problem), SCHEMA.encode(background[decided & labels]))
    without = ta.Problem(SCHEMA, model, background=background)
    assert torch.equal(accepted_rows(without), SCHEMA.encode(background[decided]))


def test_too_few_accepted_people_are_joined_by_others():
    def rows(accepted: int, both: int) -> int:
        table = pd.DataFrame({"a": [0.9] * accepted + [0.1] * 30, "b": 0.5})
        labels = np.arange(len(table)) < both
        model = ta.models.wrap(lambda people: (people["a"] > 0.5).to_numpy(float), PLANE)
        return len(accepted_rows(ta.Problem(PLANE, model, background=table, labels=labels)))

    assert rows(40, FEWEST) == FEWEST
    assert rows(40, FEWEST - 1) == 40  # all whom the model accepts
    assert rows(FEWEST - 1, 1) == FEWEST - 1 + 30  # everyone
    assert rows(0, 0) == 30


@BOTH
def test_the_auto_encoder_is_trained_once_for_all_latent_methods(cls, monkeypatch):
    trained = []
    for module in (latent, latent_diffusion):

        def train(*args, before=module.train_vae):
            trained.append(args[0])
            return before(*args)

        monkeypatch.setattr(module, "train_vae", train)
    same = {"latent": 4, "hidden": (32,), "training_steps": 60}
    problem = question(150)
    first = Cchvae(**same).fit(problem)
    second = cls(**same, denoiser=(16,), denoiser_steps=20).fit(problem)
    assert len(trained) == 1
    weights = second.network_.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in first.network_.state_dict().items())
    other = question(150)
    third = cls(**same, denoiser=(16,), denoiser_steps=20).fit(other)
    assert Cchvae(**same).fit(other) and len(trained) == 2  # and the other way round
    assert all(torch.equal(value, weights[name]) for name, value in third.network_.state_dict().items())


def test_both_share_one_diffusion():
    problem = question(150)
    same = {"latent": 4, "hidden": (32,), "training_steps": 60, "denoiser": (16,), "denoiser_steps": 20}
    assert TabsynQ(**same).fit(problem).network_ is TabsynSvdd(**same).fit(problem).network_
    other = TabsynQ(**{**same, "denoiser_steps": 21}).fit(problem)
    assert other.network_ is not TabsynQ(**same).fit(problem).network_


@BOTH
def test_training_tells_of_both_parts_in_one_bar(cls):
    told = []
    cls(latent=4, hidden=(32,), training_steps=60, denoiser=(16,), denoiser_steps=40).fit(
        question(120), progress=lambda *step: told.append(step)
    )
    assert told == sorted(told) and told[-1] == (100, 100) and {total for _, total in told} == {100}
    assert len({done for done, _ in told if done > 60}) > 5


# -- what is drawn -----------------------------------------------------------------------------------------------------


def test_codes_follow_the_diffusion():
    method = plain(samples=4000, steps=30)
    method._search(X)
    z = method.seen[0][0]
    assert z.mean(0).tolist() == pytest.approx([0.7, 0.7], abs=0.01)
    assert z.std(0).tolist() == pytest.approx([0.1, 0.1], rel=0.1)
    assert method.coder.levels[0] == pytest.approx(LARGEST)


class Three(PlainDiffusion):
    """Every draw ends in the same three rows, in this order."""

    rows = torch.tensor([[0.6, 0.6], [0.7, 0.7], [0.9, 0.2]], dtype=torch.float64)

    def denoise(self, x, given):
        return lambda u, sigma: self.rows.expand(u.shape)


def test_the_chances_of_equation_2():
    """First draws, and second draws given the first, over many seeds."""
    method = plain(TabsynQ, coder=Three(), samples=3, lam=2.0, steps=2)
    costs = np.array([0.9, 1.1, 0.8])
    q = np.exp(-2 * costs) / np.exp(-2 * costs).sum()
    first, second = np.zeros(3), np.zeros(3)
    for seed in range(1500):
        worker = copy.copy(method)
        worker.run = Run(seed=seed)
        drawn = worker._search(X).x_new[0]
        order = [int((Three.rows - row).abs().sum(1).argmin()) for row in drawn[:3]]
        assert sorted(order) == [0, 1, 2]  # without replacement
        first[order[0]] += 1 / 1500
        second[order[1]] += order[0] == 2
    assert first == pytest.approx(q, abs=0.04)
    assert second[:2] / second.sum() == pytest.approx(q[:2] / q[:2].sum(), abs=0.06)


def test_a_large_weight_proposes_the_nearest_first():
    rows = plain(TabsynQ, coder=Three(), samples=3, lam=1e6, steps=2)._search(X).x_new[0]
    assert rows[0].tolist() == [0.9, 0.2] and rows[1].tolist() == [0.6, 0.6] and rows[2].tolist() == [0.7, 0.7]


def test_people_who_meet_none_are_drawn_for_again_around_accepted_people():
    method = plain(threshold=-0.9, samples=16, steps=4)  # rows with a + b > 1 are never likely enough
    rows = method._search(X).x_new[0]
    assert len(method.seen) == 2
    assert [level for level in method.coder.levels if level == AGAIN]
    kept = rows[torch.isfinite(rows).all(1)]
    assert (method.problem_.margin(kept) > 0).any()  # accepted rows are kept in case of need
    easy = plain(samples=16, steps=4)
    easy._search(X)
    assert len(easy.seen) == 1


def test_draws_are_the_same_for_everyone_and_of_the_seed():
    method = plain(samples=16)
    alone, many = method._search(X).x_new.nan_to_num(), method._search(X.repeat(5, 1)).x_new.nan_to_num()
    assert all(torch.equal(rows, alone[0]) for rows in many)
    other = copy.copy(method)
    other.run = Run(seed=1)
    assert not torch.equal(other._search(X).x_new.nan_to_num(), alone)


class Impatient(Run):
    """Says that the time is over from the third time it is asked."""

    asked_for_time = 0

    @property
    def expired(self):
        self.asked_for_time += 1
        return self.asked_for_time > 3


@BOTH
def test_a_diffusion_stops_when_the_time_is_over(cls):
    method = plain(cls, steps=50)
    method.run = Impatient()
    rows = method._search(X).x_new
    assert len(method.coder.levels) < 15 and torch.isfinite(rows[0, -1]).all()  # what it has is looked at


@BOTH
def test_any_model_will_do(cls):
    model = ta.models.wrap(lambda table: (table["a"] > 0.5).to_numpy(float), PLANE)
    table = pd.DataFrame({"a": torch.linspace(0, 1, 60).numpy().round(1), "b": 0.5})
    answer = cls.small().fit(ta.Problem(PLANE, model, background=table)).find(table)
    assert set(answer.status) == {"ACCEPTED", "FOUND"}


@BOTH
def test_a_group_without_accepted_members_is_left_without_options_and_disturbs_nobody(cls):
    schema = ta.Schema((*PLANE.features, ta.Category("group", ("x", "y"), moves="fixed")))
    model = ta.models.wrap(lambda t: ((t["a"] + t["b"] > 1.2) & (t["group"] == "x")).to_numpy(float), schema)
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"a": draw.random(200).round(1), "b": draw.random(200).round(1)})
    table["group"] = draw.choice(["x", "y"], 200)
    answer = cls.small().fit(ta.Problem(schema, model, background=table)).find(table.head(60))
    mine = table.head(60)["group"] == "x"
    assert set(answer.status[mine]) == {"ACCEPTED", "FOUND"} and set(answer.status[~mine]) == {"NOT_FOUND"}


@BOTH
def test_labels_of_one_kind_leave_it_to_the_model(cls):
    table = pd.DataFrame({"a": np.linspace(0, 1, 60).round(1), "b": 0.5})
    model = ta.models.wrap(lambda people: (people["a"] > 0.5).to_numpy(float), PLANE)
    for labels in ([False] * 60, [True] * 60):
        answer = cls.small().fit(ta.Problem(PLANE, model, background=table, labels=labels)).find(table)
        assert set(answer.status) == {"ACCEPTED", "FOUND"}


def test_rows_look_like_those_of_accepted_people():
    """Drawn rows of many people, as a whole, beside those of accepted people: means of the numbers."""
    problem = question(1500)
    method = TabsynQ(latent=6, hidden=(64,), training_steps=800, denoiser=(64, 64), denoiser_steps=800).fit(problem)
    people = earners(200, seed=4)
    x = SCHEMA.encode(people)
    method.run = Run()
    denoise, levels = method.denoise(x), noise_levels(10)
    noise = torch.randn(200, 8, 6, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    u = heun(denoise, first_state(denoise, noise, levels[0]), levels)
    own = x.unsqueeze(1)
    rows = LatentSpace(problem, own, method.coder, u)._soft(method.unscaled(u)).flatten(0, 1)
    accepted = problem.background_x[problem.background_margin >= 0]
    refused = problem.background_x[problem.background_margin < 0]
    for name in ("income", "debt"):
        j = SCHEMA.slices[SCHEMA.names.index(name)].start
        apart = abs(accepted[:, j].mean() - refused[:, j].mean())
        assert abs(rows[:, j].mean() - accepted[:, j].mean()) < 0.25 * apart
    assert (problem.margin(method.problem_.snap(x.repeat_interleave(8, 0), rows)) >= 0).double().mean() > 0.7
