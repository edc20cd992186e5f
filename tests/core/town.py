"""A town where people study, earn and buy: some things only after others. Shared by the tests of plans."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

import turnabout as ta
from turnabout.actions import Absolute, Action, ActionSet, Follow, Parameter, Scale, Set, Shift, Squared, new, old
from turnabout.core import Plans, Problem, Proposal

SCHEMA = ta.Schema(
    (
        ta.Number("income", low=0, high=100, step=1, unit="kEUR"),
        ta.Number("debt", low=1, high=50, decimals=2, moves="down"),
        ta.Number("school", low=0, high=20, step=1, moves="up"),
        ta.Number("age", low=18, high=70, step=1, moves="up"),
        ta.Category("home", levels=("own", "rent", "free")),
        ta.Number("rate", low=0, high=10, step=0.5, missing=True),
        ta.Binary("sex", levels=("f", "m"), moves="fixed"),
    )
)

ACTIONS = ActionSet(
    (
        Action(
            "Study",
            [Shift("school", by="years"), Follow("age", "school", times=2)],
            Absolute("school"),
            [new("school") > old("school"), new("age") < 66],
            duration=2 * (new("school") - old("school")),
            label="study for {years} more years",
        ),
        Action("Earn", Shift("income", by="more"), Absolute("income", per=10), [old("school") >= 12]),
        Action("Buy", Set("home", "own"), 3, [old("home") != "own", old("income") >= 50], duration=1),
        Action("Settle", Scale("debt", by="share"), Squared("debt", relative=True)),
        Action("Wait", Shift("age", by="years"), Absolute("age"), [new("age") > old("age")], repeatable=True),
        Action("Work", Shift("income", by="more"), 1, parameters=[Parameter("more", -20, 20)], repeatable=True),
        Action("Bargain", Shift("rate"), 1),
    ),
    time_unit="years",
)


def bank(table):
    """P(yes): who earns 60 and owns a home, or nearly."""
    score = 0.1 * table.income + 2.0 * (table.home == "own") - 0.02 * table.debt + 0.05 * table.school - 7.0
    return 1 / (1 + np.exp(-score.to_numpy(dtype=float)))


def people():
    return pd.DataFrame(
        {
            "income": [30, 50.4, 20, 90],
            "debt": [10.0, 5.25, 20.0, 1.0],
            "school": [10, 14, 12, 20],
            "age": [30, 40, 55, 60],
            "home": ["rent", "rent", "free", "own"],
            "rate": [2.0, np.nan, 0.5, 1.0],
            "sex": ["f", "m", "f", "m"],
        },
        index=["ann", "bob", "cid", "dee"],
    )


def problem(**more):
    return Problem(SCHEMA, ta.models.wrap(bank, SCHEMA), actions=ACTIONS, **more)


def spelled(actions, plans):
    """[[("Study", 2), ("Earn", 20)], ...] -> sequences (k, T) and parameters (k, T, P)."""
    longest = max(map(len, plans))
    sequences = torch.full((len(plans), longest), -1)
    r = torch.zeros(len(plans), longest, actions.tables.gain.shape[1], dtype=torch.float64)
    for i, plan in enumerate(plans):
        for t, (name, amount) in enumerate(plan):
            sequences[i, t] = actions.names.index(name)
            r[i, t] = amount
    return sequences, r


class Told(ta.Method):
    """Proposes the plans it is told, to everyone."""

    needs_actions = True

    def __init__(self, plans, lower_bound=None, tolerance=None, impossible=False):
        self.plans = plans
        self.lower_bound = lower_bound
        self.tolerance = tolerance
        self.impossible = impossible

    def _search(self, x):
        sequences, r = spelled(self.problem_.actions, self.plans)
        n = len(x)
        bound = None if self.lower_bound is None else torch.full((n,), float(self.lower_bound), dtype=torch.float64)
        withstood = None if self.tolerance is None else torch.tensor([self.tolerance] * n, dtype=torch.float64)
        plans = Plans(sequences.expand(n, -1, -1), r.expand(n, -1, -1, -1), bound, withstood)
        none = torch.ones(n, dtype=torch.bool) if self.impossible else None
        return Proposal(x.unsqueeze(1), none, {0: "shown by hand."}, plans=plans)
