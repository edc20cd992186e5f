"""The conditional auto-encoders: their bounds by hand, what training brings, and what stays as it is given."""

from __future__ import annotations

import math

import pytest
import torch

import turnabout as ta
from turnabout.nn.csvae import ADVERSARY, APART, ConditionalSubspaceVae, train_csvae
from turnabout.nn.network_training import Schedule
from turnabout.nn.vae import KL_WEIGHT, ConditionalVae, divergence, random_given, train_vae

SCHEMA = ta.Schema(
    (
        ta.Number("income", 0, 1),
        ta.Number("savings", 0, 1),
        ta.Category("job", ("none", "part", "full")),
        ta.Binary("sex", levels=("f", "m"), moves="fixed"),
    )
)
FIXED = torch.tensor([False, False, False, True])
QUICK = Schedule(400, 64, 5e-3)


def people(n: int = 400, seed: int = 0) -> torch.Tensor:
    """(n, d) savings follow income, jobs follow both; women have less of either."""
    draw = torch.Generator().manual_seed(seed)
    sex = (torch.rand(n, generator=draw) < 0.5).float()
    income = (0.2 + 0.3 * sex + 0.4 * torch.rand(n, generator=draw)).round(decimals=2)
    savings = (income * 0.8 + 0.05 * torch.rand(n, generator=draw)).round(decimals=2)
    job = nn_one_hot((income > 0.4).long() + (income > 0.6).long())
    return torch.cat([income[:, None], savings[:, None], job, sex[:, None]], 1)


def nn_one_hot(levels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.one_hot(levels, 3).float()


def labels(x: torch.Tensor) -> torch.Tensor:
    return x[:, 0] > 0.5


def vae(latent: int = 3, hidden=(32,), seed: int = 0) -> ConditionalVae:
    return ConditionalVae(SCHEMA, people(), FIXED, latent, hidden, seed)


def csvae(seed: int = 0) -> ConditionalSubspaceVae:
    return ConditionalSubspaceVae(SCHEMA, people(), FIXED, 3, 2, (32,), seed)


def given(n: int, *features: int) -> torch.Tensor:
    out = FIXED.expand(n, -1).clone()
    out[:, list(features)] = True
    return out


@pytest.fixture(scope="module")
def trained() -> ConditionalVae:
    network = vae()
    train_vae(network, people(), QUICK, 0)
    return network.double().requires_grad_(False)


def silence(*layers: torch.nn.Module) -> None:
    """All weights and biases 0."""
    with torch.no_grad():
        for part in layers:
            for weight in part.parameters():
                weight.zero_()


def test_the_divergence_by_hand():
    mean, log_variance = torch.tensor([1.0, -2.0]), torch.tensor([0.0, math.log(4.0)])
    assert float(divergence(mean, log_variance)) == pytest.approx(0.5 * 1 + 0.5 * (4 + 4 - 1 - math.log(4)))


def test_the_bound_by_hand():
    network = vae(latent=2)
    silence(network.encoder, network.first, network.later)
    with torch.no_grad():
        network.encoder[-1].bias.copy_(torch.tensor([1.0, 0.0, 0.0, math.log(4.0)]))  # N((1, 0), diag(1, 4))
    x = people()[:5]
    apart = 0.5 + 0.5 * (4 - 1 - math.log(4.0))
    raw = torch.zeros(5, network.heads.width)
    likely = network.heads.log_likelihood(raw, x, ~network.heads.spread_given(given(5)))
    assert torch.allclose(network.elbo(x, given(5)), likely - apart, atol=1e-5)
    assert torch.allclose(network.elbo(x, given(5), weight=0.1), likely - 0.1 * apart, atol=1e-5)
    # at the mean code and with noise the codes differ, and the decoder here does not look at them
    noise = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(network.elbo(x, given(5), noise), likely - apart, atol=1e-5)


def test_what_is_given_counts_for_nothing_in_the_bound():
    network, x = vae(), people()[:6]
    other = x.clone()
    other[:, 5] = 1 - other[:, 5]  # sex, always given, has no likelihood of its own
    silence(network.encoder, network.first, network.later)
    assert torch.allclose(network.elbo(x, given(6)), network.elbo(other, given(6)))
    other = x.clone()
    other[:, 0] = 0.99
    assert not torch.allclose(network.elbo(x, given(6)), network.elbo(other, given(6)))
    assert torch.allclose(network.elbo(x, given(6, 0)), network.elbo(other, given(6, 0)))


def test_the_code_is_drawn_from_the_posterior():
    network, x = vae(), people()[:4]
    mean, log_variance = network.encode(x, given(4))
    noise = torch.ones(4, 3)
    z = mean + (0.5 * log_variance).exp()
    likely = network.log_likelihood(z, network.condition(x, given(4)))
    assert torch.allclose(network.elbo(x, given(4), noise, weight=0.0), likely)


def test_the_decoder_sees_what_is_given_and_nothing_else():
    network, x = vae(), people()[:8]
    other = x.clone()
    other[:, :5] = people(seed=9)[:8, :5]
    z = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
    same = network.outputs(z, network.condition(other, given(8)))
    assert torch.equal(network.outputs(z, network.condition(x, given(8))), same)
    moved = network.outputs(z, network.condition(other, given(8, 1)))
    assert not torch.allclose(network.outputs(z, network.condition(x, given(8, 1))), moved)


def test_outputs_are_those_of_one_perceptron_over_code_and_what_is_given():
    network, x = vae(hidden=(16, 8)), people()[:8]
    z = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
    known = torch.cat([network.heads.standardise(x) * network.heads.spread_given(given(8, 1)), given(8, 1).float()], 1)
    whole = network.later(network.first(torch.cat([z, known], 1)))
    assert torch.allclose(network.outputs(z, network.condition(x, given(8, 1))), whole, atol=1e-6)


def test_decoded_rows_hold_what_is_given():
    network, x = vae(), people()[:50]
    z = 3 * torch.randn(50, 3, generator=torch.Generator().manual_seed(1))
    row = network.decode(z, network.condition(x, given(50, 0)))
    assert torch.equal(row[:, [0, 5]], x[:, [0, 5]])  # income was asked to stay, sex always stays
    assert not torch.isclose(row[:, 1], x[:, 1]).any()


def test_training_raises_the_bound_of_people_it_has_not_seen():
    network, fresh = vae(), people(200, seed=5)
    noise = torch.randn(200, 3, generator=torch.Generator().manual_seed(3))
    before = [network.elbo(fresh, given(200), noise, weight).mean().item() for weight in (1.0, KL_WEIGHT)]
    losses = train_vae(network, people(), QUICK, 0)
    after = [network.elbo(fresh, given(200), noise, weight).mean().item() for weight in (1.0, KL_WEIGHT)]
    assert after[0] > before[0]
    assert after[1] > before[1] + 1  # what it is trained for
    assert min(losses) < losses[0]


def test_a_row_survives_its_round_trip_better_than_the_mean_row_does(trained):
    x = people(200, seed=5).double()
    z, _ = trained.encode(x, given(200))
    back = trained.decode(z, trained.condition(x, given(200)))
    middle = people().double().mean(0)
    lost, lost_by_mean = (back - x).abs()[:, :5].mean(0), (middle - x).abs()[:, :5].mean(0)
    assert (lost < 0.5 * lost_by_mean).all()
    assert ((back[:, 2:5].argmax(1) == x[:, 2:5].argmax(1)).double().mean()) > 0.9


def test_the_same_seed_gives_the_same_network():
    def state(seed):
        network = vae(seed=seed)
        train_vae(network, people(), Schedule(40, 64), seed)
        return network.state_dict()

    first, second, other = state(1), state(1), state(2)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["first.weight"], other["first.weight"])


def test_fixed_features_are_always_given_and_others_now_and_then():
    shown = random_given(FIXED, 2000, torch.Generator().manual_seed(0))
    assert shown[:, 3].all()
    share = shown[:, :3].double().mean(0)
    assert ((share > 0.2) & (share < 0.3)).all()  # half of the time, by a share that is 1/2 on average
    assert 0.45 < float((shown[:, :3].sum(1) == 0).double().mean()) < 0.75


# -- the code that holds the label apart -------------------------------------------------------------------------------


def test_the_loss_of_the_subspace_by_hand():
    network, x = csvae(), people()[:6]
    silence(network.encoder, network.label_encoder, network.first, network.later, network.adversary)
    y = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
    raw = torch.zeros(6, network.heads.width)
    likely = network.heads.log_likelihood(raw, x, ~network.heads.spread_given(given(6)))
    apart = y * 0.5 * 2 * APART**2  # w is coded at 0, where the refused people's prior lies
    entropy = guess = math.log(2)  # of an adversary without an opinion
    loss = network.loss(x, y, given(6), torch.Generator().manual_seed(0), weight=0.3)
    assert torch.allclose(loss, -likely + 0.3 * apart - ADVERSARY * entropy + guess, atol=1e-5)


def test_the_bound_of_the_subspace_is_that_of_an_accepted_person():
    network, x = csvae(), people()[:6]
    silence(network.encoder, network.label_encoder, network.first, network.later)
    likely = network.log_likelihood(torch.zeros(6, 5), network.condition(x, given(6)))
    assert torch.allclose(network.elbo(x, given(6)), likely - APART**2, atol=1e-5)


def test_the_encoder_is_trained_to_leave_the_adversary_in_doubt_and_the_adversary_to_guess():
    network, x = csvae(), people(64)
    y = labels(x).float()
    noise = torch.Generator().manual_seed(0)
    base = network.loss(x, y, given(64), noise, 0.0).mean()
    base.backward()
    assert network.adversary[0].weight.grad is not None
    of_loss = network.adversary[0].weight.grad.clone()
    z, log_variance = network.encode(x, given(64))
    draw = torch.Generator().manual_seed(0)
    torch.randn(64, 2, generator=draw)
    z = z + torch.randn(64, 3, generator=draw) * (0.5 * log_variance).exp()
    network.zero_grad()
    guess = torch.nn.functional.binary_cross_entropy_with_logits(network.adversary(z.detach()).squeeze(1), y)
    guess.backward()
    assert torch.allclose(of_loss, network.adversary[0].weight.grad, atol=1e-7)  # its own loss and nothing else


def test_w_tells_who_is_accepted_and_z_does_not():
    network, x = csvae(), people()
    y = labels(x)
    train_csvae(network, x, y, Schedule(500, 64, 5e-3), 0)
    fresh = people(300, seed=5)
    accepted = labels(fresh)
    z, _ = network.encode(fresh, given(300))
    code = torch.cat([network.prior[1].expand(300, -1), z], 1)
    moved = network.decode(code, network.condition(fresh, given(300)))
    refused = network.decode(torch.cat([network.prior[0].expand(300, -1), z], 1), network.condition(fresh, given(300)))
    up = (moved - refused)[:, 0]  # income decides
    assert float((up > 0).double().mean()) > 0.9
    assert (
        float((moved[~accepted, 0] > 0.5).double().mean()) > float((refused[~accepted, 0] > 0.5).double().mean()) + 0.3
    )
