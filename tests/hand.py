"""A line whose shares can be counted by hand: income and debt move, sex does not."""

from __future__ import annotations

import pandas as pd
import torch

import turnabout as ta

SCHEMA = ta.Schema(
    (
        ta.Number("income", low=0, high=100, step=1),
        ta.Number("debt", low=0, high=50, step=1, moves="down"),
        ta.Binary("sex", levels=("f", "m"), moves="fixed"),
    )
)


def linear(weights=(0.06, -0.08, 0.0), bias=-2.5, schema=SCHEMA):
    """A torch model with these weights per unit; it says yes from 0 on."""
    spans = [f.span for f in schema]
    lows = [f.bottom for f in schema]
    layer = torch.nn.Linear(schema.d, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.weight[:] = torch.tensor([[w * s for w, s in zip(weights, spans)]])
        layer.bias[:] = bias + sum(w * b for w, b in zip(weights, lows))
    return ta.models.wrap(torch.nn.Sequential(layer), schema)


def table(income, debt, sex="f", index=None):
    return pd.DataFrame({"income": income, "debt": debt, "sex": sex}, index=index)


class Raise(ta.Method):
    """Propose that everyone earns so much more."""

    def __init__(self, by: float = 10.0):
        self.by = by

    def _search(self, x):
        x_new = x.clone()
        x_new[:, 0] = (x_new[:, 0] + self.by / 100).clamp(max=1)
        return ta.Proposal(x_new.unsqueeze(1))
