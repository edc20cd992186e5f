"""How maps change between neighbours: constants, angles and churn by hand, jumps, noise and sets."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from turnabout.errors import AuditError, ProblemError
from turnabout.studies.attribution_maps.continuity import continuity, hausdorff

X = torch.as_tensor(np.random.default_rng(0).uniform(-1, 1, (40, 3)))


def test_a_linear_map_has_its_norm_at_every_distance():
    a = torch.tensor([[2.0, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=torch.float64)
    report = continuity(lambda x: x @ a + 5, X, directions=64)
    for entry in report.radii:
        assert 1.8 < entry.lipschitz <= 2.0 + 1e-6 and entry.noisy == 0.0
        assert 1.0 <= entry.typical <= 2.0
    assert [entry.rho for entry in report.radii] == [0.1, 0.01, 0.001, 0.0001]
    assert not report.diverges and report.jump is None and not report.noise_limited
    assert json.dumps(report.to_dict(), allow_nan=False) and "no sign of divergence" in str(report)


def test_angles_and_churn_by_hand():
    turn = lambda x: torch.stack([torch.cos(x[:, 0]), torch.sin(x[:, 0])], 1)  # noqa: E731
    flat = torch.tensor([[0.3, 0.0]], dtype=torch.float64)
    report = continuity(turn, flat, rhos=[0.1], directions=2000, top=1)
    assert report.at(0.1).angle == pytest.approx(math.degrees(0.1), rel=1e-3) and report.at(0.1).churn == 0.0
    # at 45 degrees the main column changes on one side of the line: half of the directions
    diagonal = torch.tensor([[math.pi / 4 - 1e-9, 0.0]], dtype=torch.float64)
    assert continuity(turn, diagonal, rhos=[0.1], directions=2000, top=1).at(0.1).churn == pytest.approx(0.5, abs=0.01)
    assert continuity(turn, diagonal, rhos=[0.1], top=2).at(0.1).churn == 0.0


def test_a_jump_between_points_is_found_by_halving():
    step = lambda x: torch.where(x[:, :1] > 0.05, 3.0, 1.0) * torch.ones_like(x)  # noqa: E731
    x = torch.zeros(1, 3, dtype=torch.float64)
    report = continuity(step, x)
    assert report.at(1e-2).lipschitz == 0.0  # too near to see it
    assert report.jump.size == pytest.approx(2 * math.sqrt(3)) and report.jump.x[0] == pytest.approx(0.05)
    assert report.jump.width < 1e-9 and report.diverges and "changes by 3.46" in str(report)


def test_a_steep_map_is_no_jump():
    report = continuity(lambda x: torch.tanh(300 * x), torch.zeros(1, 1, dtype=torch.float64))
    assert report.jump is None and not report.diverges
    assert report.at(1e-4).lipschitz == pytest.approx(300, rel=1e-3)


def test_the_typical_change_is_the_median():
    report = continuity(lambda x: x**2, torch.tensor([[0.0], [1.0]], dtype=torch.float64), rhos=[0.01])
    assert report.at(0.01).typical == pytest.approx((0.01 + 2.01) / 2)


def test_sets_are_compared_by_hausdorff():
    a = torch.tensor([[[0.0, 0], [3, 4]]], dtype=torch.float64)
    b = torch.tensor([[[3.0, 4], [0, 0]]], dtype=torch.float64)
    assert hausdorff(a, b)[0] == 0.0
    assert hausdorff(a, torch.zeros(1, 1, 2, dtype=torch.float64))[0] == 5.0
    assert hausdorff(a[:, :1], b[:, :1])[0] == 5.0
    # two options that change places: continuous as a set, not as a list
    swap = lambda x: torch.where((x > 0).unsqueeze(2), x.new_tensor([[[-1.0], [1.0]]]), x.new_tensor([[[1.0], [-1.0]]]))  # noqa: E731
    report = continuity(swap, torch.linspace(-0.01, 0.01, 21, dtype=torch.float64).unsqueeze(1))
    assert report.at(1e-4).lipschitz == 0.0 and report.jump is None
    assert report.at(1e-4).angle is None and report.at(1e-4).churn is None


def noisy(sd, seed=None):
    """2 x with Gaussian noise; with a seed, always the same draws."""
    source = np.random.default_rng(1)

    def phi(x):
        rng = source if seed is None else np.random.default_rng(seed)
        error = torch.full_like(x, sd)
        return 2 * x + error * torch.as_tensor(rng.standard_normal(tuple(x.shape))), error

    return phi


def test_noise_that_averages_out():
    x = torch.zeros(5, 1, dtype=torch.float64)
    report = continuity(noisy(2e-3), x, rhos=[0.5], repeats=16)
    # a difference of 1 with error 2e-3 sqrt 2 stands out at once; with 2e-2 sqrt 2 it takes 8 draws
    assert report.at(0.5).noisy == 0.0 and report.at(0.5).lipschitz == pytest.approx(2.0, abs=0.05)
    assert continuity(noisy(2e-2), x, rhos=[0.5], repeats=16).at(0.5).noisy == 0.0
    few = continuity(noisy(2e-2), x, rhos=[0.5], repeats=4)
    assert few.at(0.5).noisy == 1.0 and few.at(0.5).lipschitz is None and few.noise_limited
    assert "noise limited" in str(few) and few.to_dict()["radii"][0]["lipschitz"] is None


def test_noise_that_repeats_itself_cannot_be_averaged():
    calls = []

    def phi(x):
        calls.append(len(x))
        return noisy(2e-2, seed=3)(x)

    report = continuity(phi, torch.zeros(5, 1, dtype=torch.float64), rhos=[0.5], repeats=100)
    assert report.noise_limited and len(calls) < 6


def test_one_distance_can_be_limited_and_another_not():
    report = continuity(noisy(1e-4), torch.zeros(5, 1, dtype=torch.float64), rhos=[0.5, 1e-4], repeats=2)
    assert report.at(0.5).lipschitz == pytest.approx(2.0, abs=0.01) and report.at(1e-4).lipschitz is None
    assert report.noise_limited and not report.diverges and report.jump is None


def test_nobody_and_the_zero_map():
    empty = continuity(torch.zeros_like, X[:0])
    assert empty.n == 0 and all(entry.lipschitz is None for entry in empty.radii) and not empty.diverges
    assert "unknown" in str(empty)
    zero = continuity(torch.zeros_like, X)
    assert zero.at(0.1).lipschitz == 0.0 and zero.at(0.1).angle is None and not zero.diverges


def test_same_seed_same_answer():
    phi = lambda x: torch.sin(9 * x)  # noqa: E731
    assert continuity(phi, X, seed=2) == continuity(phi, X, seed=2) != continuity(phi, X, seed=3)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: continuity(torch.sign, X, rhos=[]), "rhos=[] is not a list of 1 or more"),
        (lambda: continuity(torch.sign, X, rhos=[0.0]), "is not a list of 1 or more, each a number above 0"),
        (lambda: continuity(torch.sign, X, directions=0), "directions=0"),
        (lambda: continuity(torch.sign, X, top=0), "top=0"),
        (lambda: continuity(torch.sign, X, repeats=0), "repeats=0"),
        (lambda: continuity(torch.sign, X, seed=0.5), "seed=0.5"),
        (lambda: continuity(torch.sign, X * math.inf), "holds NaN or an infinity"),
        (lambda: continuity(torch.log, X), "phi is NaN or infinite"),
        (lambda: continuity(torch.sign, X).at(0.5), "nothing was measured at rho=0.5"),
    ],
)
def test_errors(call, text):
    with pytest.raises((AuditError, ProblemError)) as error:
        call()
    assert text in str(error.value)
