"""People whose numbers hang together, and a small network that decides about them, for methods that learn rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

import turnabout as ta

SCHEMA = ta.Schema(
    (
        ta.Number("age", 18, 80, step=1, moves="up"),
        ta.Number("income", 0, 100, step=1),
        ta.Number("debt", 0, 50, step=1, moves="down"),
        ta.Number("savings", 0, 40, step=1, missing=True),
        ta.Category("job", ("none", "part", "full")),
        ta.Binary("owner", levels=("no", "yes"), moves="up"),
        ta.Category("region", ("north", "south", "west"), moves="fixed"),
        ta.Binary("sex", levels=("f", "m"), moves="fixed"),
    )
)
WEIGHTS = {"age": 0.5, "income": 4.0, "debt": -3.0, "savings": 1.5, "owner": 0.5}


def earners(n: int, seed: int = 0, refused: bool | None = None) -> pd.DataFrame:
    """n people; only refused ones, or only accepted ones, if asked."""
    draw = np.random.default_rng(seed)
    n, kept = (n, n) if refused is None else (8 * n + 40, n)
    sex, region = draw.choice(["f", "m"], n), draw.choice(["north", "south", "west"], n)
    age = draw.integers(18, 80, n)
    income = np.clip(np.round(20 + 10 * (sex == "m") + 0.3 * age + draw.normal(0, 15, n)), 0, 100)
    debt = np.clip(np.round(30 - 0.2 * income + draw.normal(0, 8, n)), 0, 50)
    savings = np.clip(np.round(0.3 * income + draw.normal(0, 5, n)), 0, 40)
    table = pd.DataFrame(
        {
            "age": age,
            "income": income,
            "debt": debt,
            "savings": np.where(draw.random(n) < 0.15, np.nan, savings),
            "job": np.where(income < 25, "none", np.where(income < 45, "part", "full")),
            "owner": np.where(draw.random(n) < income / 100, "yes", "no"),
            "region": region,
            "sex": sex,
        }
    )
    if refused is not None:
        table = table[(decider().judge(table) < 0) == refused].head(kept).reset_index(drop=True)
    return table


def decider() -> ta.models.Model:
    """Income, savings and a home speak for a person, debt against them; all of it bends a little."""
    row = torch.zeros(SCHEMA.d, dtype=torch.float64)
    for name, weight in WEIGHTS.items():
        row[SCHEMA.slices[SCHEMA.names.index(name)].start] = weight
    first, last = torch.nn.Linear(SCHEMA.d, 2, dtype=torch.float64), torch.nn.Linear(2, 1, dtype=torch.float64)
    with torch.no_grad():
        first.weight.copy_(torch.stack([row, -row]))
        first.bias.copy_(torch.tensor([-1.0, 1.0]))
        last.weight.copy_(torch.tensor([[1.0, -1.2]]))
        last.bias.fill_(-0.3)
    return ta.models.wrap(torch.nn.Sequential(first, torch.nn.ReLU(), last), SCHEMA, threshold=0.5, output="logit")


def question(n: int = 400, seed: int = 1, **more) -> ta.Problem:
    """A problem with n background people and their labels."""
    background = earners(n, seed)
    labels = decider().judge(background) >= 0
    return ta.Problem(SCHEMA, decider(), background=background, labels=labels, **more)
