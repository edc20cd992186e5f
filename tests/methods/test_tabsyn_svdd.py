"""TabsynSvdd: its reward by hand, where it leads, and what it asks of the model."""

from __future__ import annotations

import copy

import pytest
import torch

from plain_codes import PERSON, PLANE, PlainDiffusion, sloped, with_plain_codes
from turnabout.core import Problem, Run
from turnabout.methods import TabsynSvdd
from turnabout.methods.tabsyn_svdd import REFUSED
from turnabout.rules import Linear

X = PLANE.encode(PERSON)


class Recorded(TabsynSvdd):
    """Remembers the codes it goes through."""

    def _keep(self, x, some, z, *more):
        self.seen.append(z.clone())
        return super()._keep(x, some, z, *more)


def plain(centre=0.7, spread=0.1, threshold=-torch.inf, **params):
    made = Recorded(**{"latent": 2, "denoiser_steps": 1, "denoiser": (4,), **params})
    method = with_plain_codes(made, threshold=threshold, coder=PlainDiffusion(centre, spread))
    method.seen = []
    return method


def test_the_reward_by_hand():
    method = plain(kappa=0.5)
    z = torch.tensor([[[0.52, 0.31], [0.9, 0.8]]], dtype=torch.float64)  # printed as 0.5, 0.3: margin -0.2, cost 0.5
    assert method.reward(X, z)[0].tolist() == pytest.approx([-0.5 - REFUSED * 0.7, -1.4])


def test_what_breaks_a_rule_is_never_gone_on_with(monkeypatch):
    method = plain()
    problem, rule = method.problem_, [Linear({"a": 1.0, "b": 1.0}, "<=", 1.2)]
    method.problem_ = Problem(PLANE, sloped(), problem.declared_cost, rule, background=problem.background)
    monkeypatch.setattr(method.problem_, "violation", lambda x, x_new: (x_new[..., 0] > 0.55).double())
    z = torch.tensor([[[0.9, 0.2], [0.5, 0.6]]], dtype=torch.float64)  # the first cannot be repaired, say
    reward = method.reward(X, z)[0]
    assert reward[0] == -torch.inf and torch.isfinite(reward[1])


def test_the_cost_leads_the_steps():
    def cost(lam):
        method = plain(lam=lam, chains=200, candidates=8, steps=12)
        method._search(X)
        rows = method.problem_.snap(X.expand(200, -1), method.seen[-1][0])
        return method.problem_.cost(X.expand_as(rows), rows).mean().item()

    free, led = cost(1e-9), cost(30.0)
    assert free == pytest.approx(1.1, abs=0.03)  # of the centre, 0.7 and 0.7
    assert led < free - 0.1


def test_the_decision_leads_the_steps():
    """Codes around 0.4 and 0.4, of which few are accepted."""

    def accepted(**params):
        method = plain(centre=0.4, chains=300, lam=1.0, steps=12, **params)
        method._search(X)
        rows = method.problem_.snap(X.expand(300, -1), method.seen[-1][0])
        return (method.problem_.margin(rows) >= 0).double().mean().item()

    assert accepted(candidates=1) < 0.2  # no choice: the plain diffusion
    assert accepted(candidates=8) > 0.6


def test_it_asks_so_many_rows():
    method = plain(chains=3, candidates=5, steps=7)
    method._search(X.repeat(4, 1))
    assert method.run.asked == 4 * 3 * (5 * 6 + 7)  # each of 6 choices, and where the chain stands at 7 levels


def test_rows_met_on_the_way_count():
    method = plain(lam=1e-9, chains=1, candidates=1, steps=12)
    best = method._search(X).x_new[0, 0]
    met = method.problem_.snap(X.expand(12, -1), torch.cat(method.seen, 1)[0])
    accepted = met[method.problem_.margin(met) > 0]
    costs = method.problem_.cost(X.expand_as(accepted), accepted)
    assert len(method.seen) == 12
    assert method.problem_.cost(X[0], best).item() == pytest.approx(costs.min().item())


def test_people_who_meet_none_begin_again_around_accepted_people():
    method = plain(threshold=-0.9, steps=5)  # rows with a + b > 1 are never likely enough
    method._search(X)
    assert len(method.seen) == 10
    easy = plain(steps=5)
    easy._search(X)
    assert len(easy.seen) == 5


def test_draws_are_the_same_for_everyone_and_of_the_seed():
    method = plain(steps=8)
    alone, many = method._search(X).x_new.nan_to_num(), method._search(X.repeat(5, 1)).x_new.nan_to_num()
    assert all(torch.equal(rows, alone[0]) for rows in many)
    other = copy.copy(method)
    other.run = Run(seed=1)
    assert not torch.equal(other._search(X).x_new.nan_to_num(), alone)
