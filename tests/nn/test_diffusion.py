"""Diffusion over codes: preconditioning by hand, samplers where the exact denoiser is known, what training brings."""

from __future__ import annotations

import math

import pytest
import torch

import turnabout as ta
from turnabout.nn.diffusion import (
    LARGEST,
    SMALLEST,
    Denoiser,
    DiffusedVae,
    first_state,
    guided,
    heun,
    noise_levels,
    train_diffusion,
)
from turnabout.nn.network_training import Schedule, held_out
from turnabout.nn.vae import train_vae

SCHEMA = ta.Schema(
    (
        ta.Number("income", 0, 1),
        ta.Category("job", ("none", "part", "full")),
        ta.Binary("sex", levels=("f", "m"), moves="fixed"),
    )
)
FIXED = torch.tensor([False, False, True])
MEAN = torch.tensor([0.6, -0.3], dtype=torch.float64)
COVARIANCE = torch.tensor([[0.3, 0.12], [0.12, 0.2]], dtype=torch.float64)


def of_gaussian(u: torch.Tensor, sigma: float) -> torch.Tensor:
    """The exact denoiser of codes that follow N(MEAN, COVARIANCE): the mean of u given u + sigma * noise."""
    gain = COVARIANCE @ torch.linalg.inv(COVARIANCE + sigma**2 * torch.eye(2, dtype=u.dtype))
    return MEAN + (u - MEAN) @ gain.T


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def people(n: int = 400, seed: int = 0) -> torch.Tensor:
    """(n, d) men earn more, and jobs follow earnings."""
    draw = torch.Generator().manual_seed(seed)
    sex = (torch.rand(n, generator=draw) < 0.5).float()
    income = 0.2 + 0.4 * sex + 0.2 * torch.rand(n, generator=draw)
    job = torch.nn.functional.one_hot((income > 0.3).long() + (income > 0.7).long(), 3).float()
    return torch.cat([income[:, None], job, sex[:, None]], 1)


def network(seed: int = 0) -> DiffusedVae:
    return DiffusedVae(SCHEMA, people(), FIXED, 2, (32,), (32, 32), seed)


@pytest.fixture(scope="module")
def trained():
    """A network, and the held-out losses of its denoiser."""
    made = network()
    train_vae(made, people(), Schedule(400, 64, 5e-3), 0)
    losses = train_diffusion(made, people(), Schedule(600, 64, 5e-3), 0)
    return made.double().requires_grad_(False), losses


# -- the network -------------------------------------------------------------------------------------------------------


def bare() -> Denoiser:
    return Denoiser(2, 3, (8,), torch.Generator().manual_seed(0)).double()


def test_a_network_that_says_nothing_shrinks_codes_as_a_gaussian_would():
    """F = 0 leaves c_skip u, which is exact for codes that follow N(0, 1/4)."""
    silent = bare()
    with torch.no_grad():
        for weight in silent.later.parameters():
            weight.zero_()
    u = normal(5, 2)
    out = silent(u, torch.tensor([2.0], dtype=u.dtype), silent.told(normal(5, 3)))
    assert torch.allclose(out, u * 0.25 / (4 + 0.25))


@pytest.mark.parametrize("level", [0.01, 0.7, 9.0])
def test_the_preconditioning_by_hand(level):
    denoiser, u, known = bare(), normal(5, 2), normal(5, 3)
    sigma, told = torch.tensor([level], dtype=u.dtype), denoiser.told(known)
    scale = math.sqrt(level**2 + 0.25)
    raw = denoiser.raw(u, sigma, told)
    expected = 0.25 / scale**2 * u + 0.5 * level / scale * raw
    assert torch.allclose(denoiser(u, sigma, told), expected)
    # what the perceptron sees: u / sqrt(sigma^2 + 1/4), waves of ln(sigma) / 4, what is known
    angle = math.log(level) / 4 * torch.tensor([1.0, 2.0, 4.0, 8.0], dtype=u.dtype)
    seen = torch.cat([u / scale, angle.sin().expand(5, -1), angle.cos().expand(5, -1), known], 1)
    by_hand = denoiser.later(torch.nn.functional.linear(seen, denoiser.first.weight, denoiser.first.bias))
    assert torch.allclose(raw, by_hand)


def test_the_loss_is_the_error_of_the_perceptron():
    """Divided by c_out, the target is (u - c_skip (u + sigma noise)) / c_out: variance 1 at every level."""
    denoiser, u, noise = bare(), 0.5 * normal(4000, 2, seed=1), normal(4000, 2, seed=2)
    told = denoiser.told(normal(4000, 3))
    for level in (0.05, 0.5, 5.0):
        sigma = torch.full((4000, 1), level, dtype=u.dtype)
        scale = math.sqrt(level**2 + 0.25)
        target = (u - 0.25 / scale**2 * (u + level * noise)) / (0.5 * level / scale)
        assert target.var().item() == pytest.approx(1, abs=0.06)
        error = (denoiser.raw(u + level * noise, sigma, told) - target) ** 2
        assert torch.allclose(denoiser.loss(u, sigma, noise, told), error.mean(-1))


def test_codes_are_scaled_to_a_half_and_back():
    denoiser = bare()
    codes = torch.stack([3 + 7 * normal(500), torch.full((500,), 2.0, dtype=torch.float64)], 1)
    denoiser.fit_scale(codes)
    u = denoiser.scaled(codes)
    assert u[:, 0].mean().item() == pytest.approx(0, abs=1e-9)
    assert u[:, 0].std(correction=0).item() == pytest.approx(0.5)
    assert (u[:, 1] == 0).all()  # a constant code is not blown up
    assert torch.allclose(denoiser.unscaled(u), codes)


# -- the samplers ------------------------------------------------------------------------------------------------------


def test_levels_fall_to_nothing():
    levels = noise_levels(9)
    assert levels[0] == pytest.approx(LARGEST) and levels[-2] == pytest.approx(SMALLEST) and levels[-1] == 0
    assert levels[4] == pytest.approx(((LARGEST ** (1 / 7) + SMALLEST ** (1 / 7)) / 2) ** 7)
    assert levels == sorted(levels, reverse=True) and len(levels) == 10
    assert noise_levels(3, 1.0)[0] == 1.0


def test_the_sampler_returns_the_gaussian_of_its_denoiser():
    levels = noise_levels(24)
    u = heun(of_gaussian, first_state(of_gaussian, normal(40000, 2), levels[0]), levels)
    assert torch.allclose(u.mean(0), MEAN, atol=0.01)
    assert torch.allclose(u.T.cov(), COVARIANCE, atol=0.012)


def test_heuns_steps_are_of_second_order():
    """The error against the exact flow, u = mean + sqrt(s^2 / (s^2 + sigma^2)) (u - mean), falls as 1 / steps^2."""

    def denoise(u, sigma):
        return 0.25 / (0.25 + sigma**2) * u

    start, errors = torch.ones(1, 1, dtype=torch.float64), []
    for steps in (20, 40, 80):
        levels = [2 - i * 1.5 / steps for i in range(steps + 1)]
        errors.append(abs(heun(denoise, start, levels).item() - math.sqrt(0.5 / 4.25)))
    assert errors[0] / errors[1] == pytest.approx(4, abs=0.4) and errors[1] / errors[2] == pytest.approx(4, abs=0.4)


def draws(k: int, m: int):
    def step(i: int):
        luck = torch.rand(k, m, generator=torch.Generator().manual_seed(100 + i), dtype=torch.float64)
        return normal(k, m, 2, seed=i), -(-luck.log()).log()

    return step


def ends(value, steps: int, k: int, m: int) -> torch.Tensor:
    levels = noise_levels(steps)
    first = first_state(of_gaussian, normal(1, k, 2, seed=999), levels[0])
    return list(guided(of_gaussian, value, first, levels, draws(k, m)))[-1][0]


def test_without_a_choice_the_steps_are_the_plain_diffusion():
    u = ends(lambda z: z.new_zeros(z.shape[:-1]), 200, 20000, 1)
    assert torch.allclose(u.mean(0), MEAN, atol=0.015)
    assert torch.allclose(u.T.cov(), COVARIANCE, atol=0.02)


def test_a_value_tilts_the_samples():
    """N(MEAN, COVARIANCE) times exp(a u) is N(MEAN + COVARIANCE a, COVARIANCE)."""
    a = torch.tensor([1.0, 0.5], dtype=torch.float64)
    u = ends(lambda z: z @ a, 150, 8000, 16)
    assert torch.allclose(u.mean(0), MEAN + COVARIANCE @ a, atol=0.05)
    assert torch.allclose(u.T.cov(), COVARIANCE, atol=0.03)


def test_candidates_are_chosen_in_proportion_to_exp_of_their_value():
    """Three candidates with values 0, ln 2 and ln 5 in the only step that has noise."""
    values = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log()
    k = 20000
    chosen = []

    def value(z):
        chosen.append(z)
        return values.expand(z.shape[:-1])

    levels = [1.0, 0.5, 0.0]
    *_, last = guided(of_gaussian, value, normal(1, k, 2), levels, draws(k, 3))
    which = (chosen[0] == last.unsqueeze(2)).all(-1).double().mean((0, 1))
    assert which.tolist() == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=0.015)


def test_one_step_by_hand():
    u = torch.tensor([[[0.8, -0.4]]], dtype=torch.float64)
    noise = torch.tensor([[[1.0, -2.0], [0.5, 0.0]]], dtype=torch.float64)
    seen = []

    def value(z):
        seen.append(z)
        return torch.tensor([[[0.0, -1.0]]], dtype=torch.float64)

    luck = torch.tensor([[0.0, 1.5]], dtype=torch.float64)  # outweighs the lower value
    first, last = guided(of_gaussian, value, u, [1.0, 0.5, 0.0], lambda step: (noise, luck))
    clean = of_gaussian(u, 1.0)
    assert torch.equal(first, clean)
    states = clean + 0.25 * (u - clean) + 0.5 * math.sqrt(0.75) * noise
    assert torch.allclose(seen[0][0], of_gaussian(states, 0.5))
    assert torch.allclose(last[0, 0], of_gaussian(states, 0.5)[0, 1])


# -- training ----------------------------------------------------------------------------------------------------------


def test_the_loss_falls(trained):
    _, losses = trained
    assert min(losses) < 0.8 * losses[0]
    assert losses[-1] < losses[0]


def test_the_auto_encoder_is_not_touched():
    made = network()
    before = {name: value.clone() for name, value in made.state_dict().items() if not name.startswith("denoiser")}
    train_diffusion(made, people(), Schedule(20, 64), 0)
    assert all(torch.equal(made.state_dict()[name], value) for name, value in before.items())


def test_the_same_seed_gives_the_same_network():
    def weights(seed):
        made = network(seed)
        train_diffusion(made, people(100), Schedule(20, 64), seed)
        return made.state_dict()

    first, second, other = weights(0), weights(0), weights(1)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["denoiser.first.weight"], other["denoiser.first.weight"])


def test_what_is_drawn_fits_what_is_given(trained):
    """Men's rows are drawn with men's incomes, women's with women's."""
    made, _ = trained
    x = torch.tensor([[0.0, 1, 0, 0, 0], [0.0, 1, 0, 0, 1]], dtype=torch.float64).unsqueeze(1)
    given = FIXED.expand(2, 1, 3)
    denoise, levels = made.denoise(x, given), noise_levels(16)
    u = heun(denoise, first_state(denoise, normal(300, 2).expand(2, -1, -1), levels[0]), levels)
    rows = made.decode(made.denoiser.unscaled(u), made.condition(x, given))
    real = people().double()
    for i in range(2):
        mine = real[real[:, 4] == i]
        assert rows[i, :, 0].mean().item() == pytest.approx(mine[:, 0].mean().item(), abs=0.04)
        assert rows[i, :, 0].std().item() == pytest.approx(mine[:, 0].std().item(), rel=0.5)
        assert torch.allclose(rows[i, :, 1:4].mean(0), mine[:, 1:4].mean(0), atol=0.15)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows_are_enough_to_train_on(rows):
    made = network()
    losses = train_diffusion(made, people(rows), Schedule(20, 64), 0)
    assert losses and all(math.isfinite(loss) for loss in losses)
    assert all(torch.isfinite(value).all() for value in made.state_dict().values())


def test_a_schedule_says_how_many_steps_it_takes():
    assert held_out(1) == 0 and held_out(2) == 1 and held_out(100) == 10
    told = []
    train_diffusion(network(), people(30), Schedule(1000, 256), 0, lambda done, total: told.append((done, total)))
    assert told[-1] == (Schedule(1000, 256).steps_on(30),) * 2 and told[-1][0] < 1000
