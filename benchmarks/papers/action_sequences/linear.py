"""Linear models, for which the cheapest plan is known in closed form."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import torch
from ledger import Outcome

import turnabout as ta
from turnabout.actions import Absolute, Action, ActionSet, Shift, Squared
from turnabout.methods.action_sequences import ActionSequences

WIDE, NARROW = 1_000.0, 20.0  # half the range of a feature: out of the way, or in it
DECIMALS = 6


def cheapest_squared(w: np.ndarray, s: np.ndarray, need: float) -> float:
    """min sum (D_j / s_j)^2 with w . D = need: D_j = s_j^2 w_j need / sum_k s_k^2 w_k^2."""
    return need**2 / float((s**2 * w**2).sum())


def cheapest_absolute(w: np.ndarray, s: np.ndarray, need: float, room: np.ndarray) -> float:
    """min sum |D_j| / s_j with w . D = need and |D_j| <= room_j: the best value for money first, until it is full."""
    cost = 0.0
    for j in np.argsort(-np.abs(w) * s):
        step = min(room[j], need / abs(w[j]))
        cost += step / s[j]
        need -= step * abs(w[j])
        if need <= 1e-12:
            return cost
    return np.inf


def random_linear(problems: int, people: int = 20, seed: int = 0) -> Outcome:
    """Random models of two to four features, one action each; half with squared costs, half with absolute ones in a
    box that often binds. Printed costs beside the closed form."""
    rng = np.random.default_rng(seed)
    worst, missed, count = {"squared": 0.0, "absolute": 0.0}, 0, 0
    for k in itertools.count():
        if count >= problems:
            break
        kind, d = ("squared", "absolute")[k % 2], int(rng.integers(2, 5))
        half = WIDE if kind == "squared" else NARROW
        w = rng.uniform(0.2, 2.0, d) * rng.choice([-1.0, 1.0], d)
        s = np.exp(rng.uniform(-1, 1, d))
        names = [f"x{j}" for j in range(d)]
        schema = ta.Schema(tuple(ta.Number(name, -half, half, None, decimals=DECIMALS) for name in names))
        price = Squared if kind == "squared" else Absolute
        actions = ActionSet(
            [Action(f"move {n}", [Shift(n, by="r")], cost=price(n, per=float(p))) for n, p in zip(names, s)]
        )
        raw = rng.uniform(-10, 10, (people, d)).round(DECIMALS)
        score = raw @ w
        top = score + (np.abs(w) * (half - np.sign(w) * raw)).sum(1)  # the most that the box allows
        reach = 5.0 if kind == "squared" else float(rng.uniform(0.05, 0.5) * (top - score).min())
        b = -(float(score.max()) + reach)
        layer = torch.nn.Linear(d, 1, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.as_tensor(2 * half * w))
            layer.bias.fill_(b - half * float(w.sum()))
        problem = ta.Problem(schema, ta.models.wrap(layer, schema, output="logit"), actions=actions)
        table = pd.DataFrame(raw, columns=names)
        answer = ActionSequences(max_steps=d).fit(problem).find(table)
        costs = answer.plans["cost"].droplevel("option")
        for i in range(people):
            need = -(float(score[i]) + b)
            exact = (
                cheapest_squared(w, s, need)
                if kind == "squared"
                else cheapest_absolute(w, s, need, np.where(w > 0, half - raw[i], half + raw[i]))
            )
            if not np.isfinite(exact):
                continue
            count += 1
            if i not in costs.index:
                missed += 1
                continue
            worst[kind] = max(worst[kind], abs(float(costs[i]) / exact - 1))
    figures = {
        "linear.worst_relative_gap": (max(worst.values()), count),
        "linear.worst_relative_gap_squared": (worst["squared"], count),
        "linear.worst_relative_gap_absolute": (worst["absolute"], count),
        "linear.missed": (float(missed), count),
    }
    return Outcome(figures)
