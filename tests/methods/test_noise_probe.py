"""Probe: its rate against simulation and by hand, equation (2) by hand, and rows that bear noise."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import Problem, Status
from turnabout.costs import L1
from turnabout.errors import MethodError
from turnabout.methods.noise_probe import Probe
from turnabout.models import wrap
from turnabout.schema import Category, Derived, Number, Schema

CUBE = Schema(tuple(Number(name, 0, 1) for name in "abc"))
PEOPLE = pd.DataFrame(np.random.default_rng(0).random((9, 3)) * 0.3, columns=list("abc"))
WEIGHTS = (2.0, 1.0, -1.0)


def problem(module: torch.nn.Module, schema: Schema = CUBE) -> Problem:
    return Problem(schema, wrap(module.double(), schema, threshold=0.5, output="logit"), cost=L1())


def linear(schema: Schema = CUBE, weights: tuple[float, ...] = WEIGHTS, bias: float = -1.0) -> Problem:
    module = torch.nn.Linear(len(weights), 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([weights]))
        module.bias.fill_(bias)
    return problem(module, schema)


def bend() -> Problem:
    """Margin 4 min(a, 0.5) + 0 b + 0 c - 1.6: flat from a = 0.5 on, where to first order nothing can go wrong."""
    first, last = torch.nn.Linear(3, 2), torch.nn.Linear(2, 1)
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[1.0, 0, 0], [1.0, 0, 0]]))
        first.bias.copy_(torch.tensor([2.0, -0.5]))
        last.weight.copy_(torch.tensor([[4.0, -4.0]]))
        last.bias.fill_(-1.6 - 8.0)
    return problem(torch.nn.Sequential(first, torch.nn.ReLU(), last))


def net(activation: type[torch.nn.Module]) -> Problem:
    torch.manual_seed(5)
    layers = (torch.nn.Linear(3, 8), activation(), torch.nn.Linear(8, 4), activation(), torch.nn.Linear(4, 1))
    return problem(torch.nn.Sequential(*layers))


def simulated(asked: Problem, rows: torch.Tensor, sigma: float, draws: int = 100_000) -> torch.Tensor:
    """The share of refused copies with independent noise."""
    noise = sigma * torch.from_numpy(np.random.default_rng(4).standard_normal((draws, rows.shape[1])))
    return torch.stack([(asked.margin(row + noise) < 0).double().mean() for row in rows])


def rows(n: int = 12) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).random((n, 3)))


def test_the_rate_by_hand():
    # f(0.6, 0.4, 0.1) = 0.5, and the slope is sqrt(6) long
    probe = Probe(sigma=0.1).fit(linear())
    row = torch.tensor([[0.6, 0.4, 0.1]], dtype=torch.float64)
    want = 0.5 * math.erfc(0.5 / (0.1 * math.sqrt(6)) / math.sqrt(2))
    assert probe.invalidation_rate(row).item() == pytest.approx(want)
    assert probe.first_order_rate(row).item() == pytest.approx(want)


@pytest.mark.parametrize("sigma", [0.05, 0.1, 0.5])
def test_of_a_linear_model_the_rate_is_within_one_percent_of_simulation(sigma):
    asked = linear()
    probe = Probe(sigma=sigma).fit(asked)
    assert (probe.invalidation_rate(rows()) - simulated(asked, rows(), sigma)).abs().max() < 0.01


@pytest.mark.parametrize("asked", [bend(), net(torch.nn.ReLU), net(torch.nn.Tanh)], ids=["bend", "ReLU", "tanh"])
def test_of_a_net_the_rate_is_near_simulation(asked):
    probe = Probe(sigma=0.2, draws=4096).fit(asked)
    assert (probe.invalidation_rate(rows()) - simulated(asked, rows(), 0.2)).abs().max() < 0.02


def test_beyond_a_bend_the_first_order_is_not_enough():
    asked, row = bend(), torch.tensor([[0.51, 0.5, 0.5]], dtype=torch.float64)  # margin 0.4, refused below a = 0.4
    probe = Probe(sigma=0.1, draws=512).fit(asked)
    assert probe.first_order_rate(row).item() < 1e-6
    assert probe.invalidation_rate(row).item() == pytest.approx(simulated(asked, row, 0.1).item(), abs=0.01)
    assert not probe.criterion(row, row).item()
    options = probe.find(PEOPLE.assign(a=0.1)).options
    assert simulated(asked, CUBE.encode(options), 0.1).max() < 0.06


def test_the_loss_by_hand():
    probe = Probe(rate=0.05, sigma=0.5, weight=3.0, kappa=0.6).fit(linear())
    space = probe.space(torch.tensor([[0.1, 0.2, 0.1]], dtype=torch.float64))
    z = torch.tensor([[0.6, 0.4, 0.1]], dtype=torch.float64, requires_grad=True)
    loss = probe.loss(space, z, torch.tensor([0.5]))
    u = 0.5 / (0.5 * math.sqrt(6))
    rate = 0.5 * math.erfc(u / math.sqrt(2))
    assert loss.item() == pytest.approx(3 * (rate - 0.05) + 0.1 + 0.5 * 0.7)
    loss.sum().backward()
    density = math.exp(-u * u / 2) / math.sqrt(2 * math.pi) / (0.5 * math.sqrt(6))
    assert z.grad is not None
    assert z.grad[0, 0].item() == pytest.approx(-3 * density * 2 - 2 + 0.5)


def test_the_slope_of_the_rate_takes_a_second_derivative():
    # of a smooth net the rate also falls where the slope does: compare with differences of the rate itself
    asked = net(torch.nn.Tanh)
    probe = Probe(rate=1e-9, sigma=0.3, weight=1.0, lam=0.0, kappa=0.0).fit(asked)
    row = rows(3)
    row = row[asked.margin(row) > 0][:1] if bool((asked.margin(row) > 0).any()) else row[:1]
    z = row.clone().requires_grad_()
    loss = probe.loss(Smooth(probe.problem_, row), z, torch.zeros(1))
    (slope,) = torch.autograd.grad(loss.sum(), z)
    step = 1e-5 * torch.eye(3, dtype=torch.float64)

    def value(at: torch.Tensor) -> torch.Tensor:
        return probe.first_order_rate(at) + (-asked.margin(at)).clamp(min=0)

    assert torch.allclose(slope[0], (value(row + step) - value(row - step)) / 2e-5, atol=1e-5)


class Smooth:
    """A space that does not round."""

    def __init__(self, asked: Problem, x: torch.Tensor):
        self.problem, self.x = asked, x

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        return z


def test_options_bear_noise_and_cost_no_more_than_that_takes():
    asked = linear()
    answer = Probe(rate=0.05).fit(asked).find(PEOPLE)
    assert (answer.status == Status.FOUND).all()
    refused = simulated(asked, CUBE.encode(answer.options), 0.1)
    assert (refused - 0.05).abs().max() < 0.01


def test_a_flat_model_has_no_rate_but_its_own_decision():
    schema = Schema((Number("a", 0, 1),))
    probe = Probe().fit(linear(schema, (0.0,), -1.0))
    assert probe.invalidation_rate(torch.tensor([[0.5]], dtype=torch.float64)).item() == 1.0
    assert Probe().fit(linear(schema, (0.0,), 1.0)).invalidation_rate(torch.zeros(1, 1).double()).item() == 0.0
    assert list(probe.find(pd.DataFrame({"a": [0.5]})).status) == [Status.NOT_FOUND]


def test_categories_and_what_follows_are_disturbed_as_the_model_sees_them():
    schema = Schema((Number("a", 0, 1), Category("c", ("x", "y")), Derived("double", "2 * a", high=2)))
    asked = linear(schema, (1.0, -1.0, 1.0, 1.0), -1.0)
    probe = Probe(draws=4096).fit(asked)
    row = torch.tensor([[0.3, 0.0, 1.0, 0.9]], dtype=torch.float64)  # the last follows: it is 0.3
    assert asked.margin(row).item() == pytest.approx(0.6)
    want = 0.5 * math.erfc(0.6 / (0.1 * math.sqrt(2.0**2 + 1 + 1)) / math.sqrt(2))
    assert probe.invalidation_rate(row).item() == pytest.approx(want, abs=0.005)


def test_asks_for_a_differentiable_model():
    model = wrap(lambda table: (table["a"] > 0.5).to_numpy(float), CUBE)
    with pytest.raises(MethodError, match="needs a model that is Differentiable"):
        Probe().fit(Problem(CUBE, model))


def test_rows_do_not_depend_on_the_company_they_keep():
    probe = Probe(draws=16).fit(net(torch.nn.ReLU))
    many = rows(7000)
    assert torch.equal(probe.invalidation_rate(many)[-5:], probe.invalidation_rate(many[-5:]))


def test_counting_stops_where_it_is_decided():
    probe = Probe(sigma=0.3).fit(bend())
    whole = probe.invalidation_rate(rows(200))
    stop = float(whole.median())
    stopped = probe.invalidation_rate(rows(200), stop=stop)
    low = whole <= stop
    assert torch.equal(stopped[low], whole[low])
    assert (stopped[~low] > stop).all() and (stopped <= whole).all() and (stopped < whole).any()
