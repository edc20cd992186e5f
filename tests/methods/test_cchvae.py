"""CCHVAE: shells of equation (1) by hand, the first plausible one ends the search, its cheapest rows are proposed."""

from __future__ import annotations

import copy

import pandas as pd
import pytest
import torch

import turnabout as ta
from plain_codes import PERSON, PLANE, with_plain_codes
from turnabout.core import Run
from turnabout.methods import Cchvae

X = PLANE.encode(PERSON)


class Recorded(Cchvae):
    """Remembers the codes it decodes."""

    def _keep(self, x, some, z, plausible, accepted):
        hit = super()._keep(x, some, z, plausible, accepted)
        self.seen.append((z.clone(), hit.tolist()))
        return hit


def recorded(threshold=-torch.inf, **params):
    method = with_plain_codes(
        Recorded(**{"samples": 64, "radius": 0.3, "shells": 4, "latent": 2, **params}), threshold=threshold
    )
    method.seen = []
    return method


def test_codes_lie_in_shells_that_grow_until_one_is_accepted():
    method = recorded()
    method._search(X)
    assert torch.equal(method.seen[0][0][0, 0], X[0])  # the person's own code is tried first
    for shell, (z, hit) in enumerate(method.seen):
        radius = (z[0] - X[0]).norm(dim=1)
        inside = (radius >= 0.3 * shell - 1e-9) & (radius <= 0.3 * (shell + 1) + 1e-9)
        assert inside.all()
        assert hit == [shell == len(method.seen) - 1]  # the first shell with an accepted row is the last
    assert len(method.seen) == 2  # a row with a + b > 1 lies at least 0.5 away


def test_directions_cover_the_circle_and_radii_the_shell():
    method = recorded(shells=1, samples=4000)
    method._search(X)
    step = method.seen[0][0][0, 1:] - X[0]
    radius = step.norm(dim=1)
    assert step.mean(0).tolist() == pytest.approx([0, 0], abs=0.02)
    assert radius.mean().item() == pytest.approx(0.15, abs=0.01)  # uniform in [0, 0.3]


def test_the_cheapest_rows_of_the_last_shell_are_proposed():
    method = recorded()
    rows = method._search(X).x_new[0]
    rows = rows[torch.isfinite(rows).all(1)]
    shell = method.problem_.snap(X.expand(64, -1), method.seen[-1][0][0])
    accepted = shell[method.problem_.margin(shell) >= 1e-9]
    costs = method.problem_.cost(X.expand_as(accepted), accepted)
    assert method.problem_.cost(X[0], rows[0]).item() == pytest.approx(costs.min().item())
    assert (method.problem_.margin(rows) > 0).all()


def test_an_accepted_row_that_is_not_plausible_does_not_end_the_search():
    method = recorded(threshold=-0.9, shells=3)  # rows with a + b > 1 are never likely enough
    rows = method._search(X).x_new[0]
    assert len(method.seen) == 6  # all shells around the person, and around the nearest accepted row
    assert not any(any(hit) for _, hit in method.seen)
    kept = rows[torch.isfinite(rows).all(1)]
    assert (method.problem_.margin(kept) > 0).any()  # but it is kept in case of need


def test_who_meets_nothing_is_searched_around_the_nearest_accepted_row():
    method = recorded(shells=1, radius=0.05)  # too near to be accepted
    rows = method._search(X).x_new[0]
    assert len(method.seen) == 2
    assert method.seen[1][0][0, 0].tolist() == [0.9, 0.8]  # its code: as it decodes for them
    assert torch.isfinite(rows).all(1).any()


def test_draws_are_the_same_for_everyone_and_of_the_seed():
    method = recorded()
    alone, many = method._search(X).x_new.nan_to_num(), method._search(X.repeat(5, 1)).x_new.nan_to_num()
    assert all(torch.equal(rows, alone[0]) for rows in many)
    other = copy.copy(method)
    other.run = Run(seed=1)
    assert not torch.equal(other._search(X).x_new.nan_to_num(), alone)


def test_any_model_will_do():
    model = ta.models.wrap(lambda table: (table["a"] > 0.5).to_numpy(float), PLANE)
    table = pd.DataFrame({"a": torch.linspace(0, 1, 60).numpy().round(1), "b": 0.5})
    answer = Cchvae.small().fit(ta.Problem(PLANE, model, background=table)).find(table)
    assert set(answer.status) == {"ACCEPTED", "FOUND"}
