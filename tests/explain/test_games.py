"""Shapley values of games: enumeration, closed forms, and the numbers of the specification."""

import itertools
import math
import time

import numpy as np
import pytest
import torch

from turnabout.errors import ExplainError
from turnabout.explain.shapley.games import (
    coalition_sizes,
    coalitions,
    constrained,
    dividends,
    kernel_matrix,
    kernel_weights,
    players,
    shapley,
    shapley_of_pairs,
)


def random_game(m, seed=0, n=()):
    return torch.as_tensor(np.random.default_rng(seed).standard_normal((*n, 2**m)))


def by_permutations(v, m):
    """The mean marginal contribution over all orders, the definition."""
    place = lambda S: sum(1 << (m - 1 - i) for i in S)  # noqa: E731
    phi = np.zeros(m)
    for order in itertools.permutations(range(m)):
        for k, i in enumerate(order):
            phi[i] += float(v[place(order[: k + 1])] - v[place(order[:k])])
    return phi / math.factorial(m)


def by_printed_weight(v, m):
    """The slide's formula: |z|!(m-|z|-1)!/m! beside v(z) - v(z without i)."""
    masks = coalitions(m).bool().numpy()
    phi = np.zeros(m)
    for z, row in enumerate(masks):
        k = int(row.sum())
        for i in np.flatnonzero(row):
            weight = math.factorial(k) * math.factorial(max(m - k - 1, 0)) / math.factorial(m)
            phi[i] += weight * float(v[z] - v[z - (1 << (m - 1 - i))])
    return phi


def by_regression(v, m):
    """All masks with the kernel, one variable eliminated by the constraint."""
    z = coalitions(m)[1:-1]
    root = kernel_weights(m)[z.sum(1).long()].sqrt()
    total = v[-1] - v[0]
    design = z[:, :-1] - z[:, -1:]
    target = v[1:-1] - v[0] - z[:, -1] * total
    head = torch.linalg.lstsq(design * root[:, None], (target * root)[:, None]).solution[:, 0]
    return torch.cat([head, (total - head.sum())[None]])


def by_closed_form(v, m):
    z = coalitions(m)[1:-1]
    weight = kernel_weights(m)[z.sum(1).long()]
    weight = weight / weight.sum()
    b = (weight * (v[1:-1] - v[0])) @ z
    return constrained(torch.linalg.inv(kernel_matrix(m)), b, v[-1] - v[0])


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_enumeration_is_the_mean_over_all_orders(m):
    v = random_game(m, seed=m)
    np.testing.assert_allclose(shapley(v).numpy(), by_permutations(v, m), atol=1e-13)


@pytest.mark.parametrize("m", [6, 7, 9, 12])
def test_enumeration_regression_and_closed_form_agree(m):
    v = random_game(m, seed=m)
    phi = shapley(v)
    assert (phi - by_regression(v, m)).abs().max() < 1e-12
    assert (phi - by_closed_form(v, m)).abs().max() < 1e-12


def test_the_printed_weight_is_wrong():
    v = random_game(6, seed=6)
    assert np.abs(by_printed_weight(v, 6) - shapley(v).numpy()).max() > 0.1


def test_the_kernel_matrix():
    a = kernel_matrix(6)
    assert (a.diagonal() == 0.5).all()
    assert abs(float(a[0, 1]) - 0.2810218978) < 1e-10
    z = coalitions(6)[1:-1]
    weight = kernel_weights(6)[z.sum(1).long()]
    assert (z.t() @ (z * (weight / weight.sum())[:, None]) - a).abs().max() < 1e-15


def test_games_are_taken_in_batches():
    v = random_game(5, n=(3, 2))
    assert torch.equal(shapley(v)[1, 1], shapley(v[1, 1])) or (shapley(v)[1, 1] - shapley(v[1, 1])).abs().max() < 1e-15
    assert shapley(v).shape == (3, 2, 5)


def test_a_large_base_does_not_swamp_the_shares():
    v = random_game(10)
    assert (shapley(v + 1e6) - shapley(v)).abs().max() < 1e-8


def test_dividends_rebuild_the_game_and_give_the_same_shares():
    v = random_game(6)
    d = dividends(v)
    masks = coalitions(6)
    inside = (masks.unsqueeze(0) <= masks.unsqueeze(1)).all(2).to(torch.float64)  # row S: its subsets
    assert (inside @ d - v).abs().max() < 1e-12
    share = d / coalition_sizes(6).clamp(min=1)
    assert (share @ masks - shapley(v)).abs().max() < 1e-12


def test_games_of_order_two_need_few_values():
    rng = np.random.default_rng(1)
    m, masks = 7, coalitions(7)
    q = torch.as_tensor(rng.standard_normal((m, m)))
    v = torch.einsum("si,ij,sj->s", masks, q, masks) + masks @ torch.as_tensor(rng.standard_normal(m)) + 3
    place = 2 ** torch.arange(m - 1, -1, -1)
    found = shapley_of_pairs(v[0], v[place], v[2**m - 1 - place], v[-1])
    assert (found - shapley(v)).abs().max() < 1e-12
    rough = random_game(m)
    wrong = shapley_of_pairs(rough[0], rough[place], rough[2**m - 1 - place], rough[-1])
    assert (wrong - shapley(rough)).abs().max() > 0.1


def test_sixteen_features_take_a_tenth_of_a_second():
    v = random_game(16)
    shapley(v)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        shapley(v)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: players(torch.zeros(3)), "3 values are no game"),
        (lambda: players(torch.zeros(1)), "1 values are no game"),
        (lambda: coalitions(0), "m=0 is not a whole number from 1 to 22"),
        (lambda: coalitions(23), "m=23 is not a whole number from 1 to 22"),
        (lambda: kernel_matrix(1), "m=1 is not a whole number from 2 up"),
    ],
)
def test_what_is_no_game_is_refused(call, text):
    with pytest.raises(ExplainError, match=text):
        call()
