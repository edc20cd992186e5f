"""Training keeps its best checkpoint, its seed and its word to whoever watches."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from turnabout.nn.network_training import LOOKS, MOST_EPOCHS, Schedule, perceptron, train


class Level(nn.Module):
    """One number, which training is to bring to the mean of some others."""

    def __init__(self):
        super().__init__()
        self.at = nn.Parameter(torch.zeros(1))


def towards(values: torch.Tensor, network: Level):
    return lambda some, done, noise: (values[some] - network.at) ** 2


def test_the_loss_falls_and_the_best_weights_stay():
    network = Level()
    losses = train(network, towards(torch.full((100,), 2.0), network), 100, Schedule(200, 16, 0.1), seed=0)
    assert len(losses) == LOOKS
    assert losses[-1] < 0.01 < losses[0]
    assert float(network.at.detach()) == pytest.approx(2.0, abs=0.1)
    assert not network.training


def test_the_checkpoint_is_that_of_the_lowest_held_out_loss():
    network = Level()

    def loss(some, done, noise):  # what is trained for leads away from what is held out: the first look is the best
        target = 1.0 if noise.initial_seed() == 7 + 2 else -1.0
        return (network.at - target).expand(len(some)) ** 2

    losses = train(network, loss, 100, Schedule(100, 16, 0.1), seed=7)
    assert losses[0] == min(losses) < losses[-1]
    assert (float(network.at.detach()) - 1) ** 2 == pytest.approx(losses[0], rel=1e-5)


def test_a_loss_that_is_not_finite_ends_at_the_best_checkpoint():
    network = Level()

    def loss(some, done, noise):
        near = (network.at - 1).expand(len(some)) ** 2
        return near if done < 0.5 else near * math.nan

    losses = train(network, loss, 100, Schedule(100, 16, 0.1), seed=0)
    assert 0 < len(losses) <= LOOKS // 2 + 1
    assert math.isfinite(float(network.at.detach()))


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    def weights(seed):
        network = perceptron([1, 1], torch.Generator().manual_seed(0))
        x = torch.linspace(0, 1, 60).unsqueeze(1)

        def loss(some, done, noise):
            return (network(x[some] + 0.1 * torch.randn(len(some), 1, generator=noise)) - x[some]).squeeze(1) ** 2

        train(network, loss, 60, Schedule(30, 8), seed)
        return network[0].weight.detach().clone()

    state = torch.get_rng_state()
    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))
    assert torch.equal(state, torch.get_rng_state())  # nobody else's draws


def test_progress_ends_with_the_last_step():
    network, told = Level(), []
    train(network, towards(torch.ones(50), network), 50, Schedule(45, 10), 0, lambda *step: told.append(step))
    assert told[-1] == (45, 45) and told == sorted(told)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_small_table_is_not_gone_through_too_often(rows):
    network, told = Level(), []
    losses = train(network, towards(torch.ones(rows), network), rows, Schedule(10**6, 4), 0, lambda *s: told.append(s))
    assert told[-1][1] <= MOST_EPOCHS
    assert len(losses) >= LOOKS


def test_a_perceptron_has_silu_between_its_layers():
    generator = torch.Generator().manual_seed(0)
    made = perceptron([3, 4, 2], generator)
    assert [type(part).__name__ for part in made] == ["Linear", "SiLU", "Linear"]
    x = torch.randn(5, 3)
    hidden = x @ made[0].weight.T
    assert torch.allclose(made(x), (hidden * hidden.sigmoid()) @ made[2].weight.T, atol=1e-6)
    assert made[0].weight.abs().max().item() <= 1.0  # sqrt(3 / 3)
