"""The transformer that writes rows: cached steps equal the full pass, masks hold, draws follow the probabilities."""

from __future__ import annotations

import pytest
import torch
from test_cell_tokens import SCHEMA, legal_of, people

from turnabout.nn.cell_tokens import KEEP, CellTokens
from turnabout.nn.row_transformer import RowTransformer, Written

X = SCHEMA.encode(people(6, 1))
ASKED = torch.rand(6, len(SCHEMA), 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture(scope="module")
def network():
    tokens = CellTokens(SCHEMA, SCHEMA.encode(people()), bins=10)
    made = RowTransformer(tokens, extras=2, width=16, heads=2, layers=2, seed=3)
    with torch.no_grad():  # biases and norms that do something
        noise = torch.Generator().manual_seed(4)
        for weight in made.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=noise)
    return made.double().eval()


def uniform(samples, seed=7):
    return torch.rand(samples, len(SCHEMA), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_cached_steps_equal_the_full_pass(network):
    legal = legal_of(network.tokens, X)
    token, _ = network.sample(X, ASKED, legal, 3, uniform(3))
    with torch.no_grad():
        memory = network.remember(X, ASKED)
        whole = network.logits(X, token, memory)
        written, before = Written(), None
        rows = network.tokens.written(X.unsqueeze(1).expand(-1, 3, -1), token)
        for j in range(len(SCHEMA)):
            step = network.step(j, before, memory, written, 3)
            assert torch.allclose(step, whole[:, :, j], atol=1e-9)
            place = torch.tensor([j])
            before = network.embed(rows, place).squeeze(-2) + (token[..., j] == 0).unsqueeze(-1) * network.kept


def test_a_place_sees_only_those_before_it(network):
    token = torch.zeros(6, 1, len(SCHEMA), dtype=torch.long)
    other = token.clone()
    other[..., 3] = 1
    with torch.no_grad():
        memory = network.remember(X, ASKED)
        first, second = network.logits(X, token, memory), network.logits(X, other, memory)
    assert torch.equal(first[:, :, :4], second[:, :, :4])
    assert not torch.allclose(first[:, :, 4:], second[:, :, 4:])


def test_what_is_not_legal_is_never_drawn(network):
    legal = legal_of(network.tokens, X)
    token, chance = network.sample(X, ASKED, legal, 200, uniform(200))
    assert legal.unsqueeze(1).expand(-1, 200, -1, -1).gather(-1, token.unsqueeze(-1)).all()
    assert torch.isfinite(chance).all() and (chance <= 0).all()
    only = torch.zeros_like(legal)
    only[..., KEEP] = True
    token, chance = network.sample(X, ASKED, only, 5, uniform(5))
    assert (token == KEEP).all() and (chance == 0).all()
    assert torch.equal(network.tokens.written(X, token[:, 0]), X)


def test_log_probabilities_are_those_of_the_full_pass(network):
    legal = legal_of(network.tokens, X)
    token, chance = network.sample(X, ASKED, legal, 4, uniform(4), temperature=0.5)
    with torch.no_grad():
        logits = network.logits(X, token, network.remember(X, ASKED))
    told = (logits.masked_fill(~legal.unsqueeze(1), -torch.inf) / 0.5).log_softmax(-1)
    assert torch.allclose(told.gather(-1, token.unsqueeze(-1)).squeeze(-1).sum(-1), chance, atol=1e-9)


def test_draws_follow_the_probabilities(network):
    legal = legal_of(network.tokens, X[:1])
    token, _ = network.sample(X[:1], ASKED[:1], legal, 20_000, uniform(20_000))
    with torch.no_grad():
        logits = network.logits(X[:1], token[:, :1], network.remember(X[:1], ASKED[:1]))[0, 0, 0]
    chance = logits.masked_fill(~legal[0, 0], -torch.inf).softmax(-1)
    drawn = torch.bincount(token[0, :, 0], minlength=len(chance)) / 20_000
    assert torch.allclose(drawn.double(), chance, atol=0.015)


def test_near_zero_temperature_takes_the_likeliest(network):
    legal = legal_of(network.tokens, X)
    token, _ = network.sample(X, ASKED, legal, 3, uniform(3), temperature=1e-6)
    assert torch.equal(token[:, 0], token[:, 1]) and torch.equal(token[:, 0], token[:, 2])


def test_people_do_not_depend_on_each_other(network):
    legal = legal_of(network.tokens, X)
    many, _ = network.sample(X, ASKED, legal, 3, uniform(3))
    alone, _ = network.sample(X[2:3], ASKED[2:3], legal[2:3], 3, uniform(3))
    assert torch.equal(many[2:3], alone)


def test_what_is_asked_matters(network):
    with torch.no_grad():
        token = torch.zeros(6, 1, len(SCHEMA), dtype=torch.long)
        first = network.logits(X, token, network.remember(X, ASKED))
        second = network.logits(X, token, network.remember(X, ASKED + 1))
    assert not torch.allclose(first, second)


def test_the_same_seed_gives_the_same_weights():
    tokens = CellTokens(SCHEMA, SCHEMA.encode(people()), bins=10)
    made = [RowTransformer(tokens, 2, 16, 2, 1, seed).state_dict() for seed in (1, 1, 2)]
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])
    assert not torch.equal(made[0]["head"], made[2]["head"])
