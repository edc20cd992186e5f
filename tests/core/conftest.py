"""A small bank, and a method that only proposes the corners of what a person may do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta


class Corners(ta.Method):
    """Propose, for each person, the far ends of their bounds and random points between."""

    def __init__(self, points: int = 32):
        self.points = points

    def _search(self, x):
        lo, hi = self.problem_.bounds(x)
        share = torch.as_tensor(self.run.rng("points").random((self.points, x.shape[1])))
        share[0], share[1] = 0.0, 1.0
        return ta.Proposal(lo.unsqueeze(1) + share * (hi - lo).unsqueeze(1))


@pytest.fixture(scope="module")
def schema():
    return ta.Schema(
        (
            ta.Number("income", low=0, high=100, step=1, unit="kEUR"),
            ta.Number("debt", low=0, high=50, decimals=2, moves="down"),
            ta.Category("home", levels=("own", "rent", "free")),
            ta.Binary("sex", levels=("f", "m"), moves="fixed"),
        )
    )


def crowd():
    """Sixty people."""
    rng = np.random.default_rng(1)
    n = 60
    return pd.DataFrame(
        {
            "income": rng.integers(0, 100, n),
            "debt": rng.random(n) * 50,
            "home": rng.choice(["own", "rent", "free"], n),
            "sex": rng.choice(["f", "m"], n),
        },
        index=[f"p{i}" for i in range(n)],
    )


@pytest.fixture
def people():
    return crowd()


def bank(table):
    """P(yes) of a small bank."""
    score = 0.06 * table.income - 0.08 * table.debt + 1.0 * (table.home == "own") - 2.5
    return 1 / (1 + np.exp(-score.to_numpy(dtype=float)))


@pytest.fixture(scope="module")
def problem(schema):
    return ta.Problem(schema, ta.models.wrap(bank, schema))
