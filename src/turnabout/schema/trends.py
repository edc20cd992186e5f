"""Which way a column is good: whether the outcome plainly gets better as it rises, alone and holding the others.

Alone: the probability that an accepted person has a higher value than another one (AUC), with an interval

    AUC +- z sqrt( (AUC (1 - AUC) + (m - 1)(Q1 - AUC^2) + (n - m - 1)(Q2 - AUC^2)) / (m (n - m)) ),                (1)
    Q1 = AUC / (2 - AUC),    Q2 = 2 AUC^2 / (1 + AUC)

(Hanley, McNeil 1982). Holding the others: the coefficient of the column's ranks in a logistic regression on the ranks
of all columns, with the interval of its standard error. Where both say the same, the direction is proved. Where (1)
lies on one side of 0.5 and the coefficient does not contradict, the data lean that way: not enough to say what is good,
enough not to advise the opposite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

Z = 2.58  # of 99 percent intervals: many columns are looked at
PLAIN = 0.53  # an AUC whose whole interval lies above this, or below its mirror, is plain
EACH = 20  # people of the rarer outcome for each column, so that the others can be held
LEAST = 40  # people of the rarer outcome below whom nothing is said
RIDGE = 1e-3
Way = Literal["up", "down"]


@dataclass(frozen=True)
class Trend:
    """Which way a column is good, with the evidence in words; None where it is not plain.

    leans : which way the data lean, proved or not; None where they say nothing, or both ways.
    looked : whether there were people enough to look.
    """

    good: Way | None
    words: str
    leans: Way | None = None
    looked: bool = True


def trends(columns: Mapping[str, np.ndarray], accepted: np.ndarray) -> dict[str, Trend]:
    """Of columns (n,) in a common order of rows, NaN where missing, and who was accepted."""
    rare = int(min(accepted.sum(), (~accepted).sum()))
    if rare < LEAST or not columns:
        return {name: Trend(None, f"only {rare} people of the rarer outcome", looked=False) for name in columns}
    ranks = {name: _ranks(values) for name, values in columns.items()}
    held = _held(ranks, accepted) if rare >= EACH * len(columns) else {}
    out = {}
    for name, values in columns.items():
        there = np.isfinite(values)
        auc, low, high = _auc(values[there], accepted[there])
        alone, leans = _way(low - PLAIN, high - 1 + PLAIN), _way(low - 0.5, high - 0.5)
        words = f"AUC {auc:.2f} ({low:.2f} to {high:.2f})"
        if name in held:
            slope, error = held[name]
            words += f"; holding the others {slope:+.2f} ({slope - Z * error:+.2f} to {slope + Z * error:+.2f})"
            held_way = _way(slope - Z * error, slope + Z * error)
            alone = alone if alone == held_way else None
            leans = leans if held_way in (None, leans) else None
        out[name] = Trend(alone, words, leans)
    return out


def _way(low: float, high: float) -> Way | None:
    """The sign of an interval that does not hold 0."""
    return "up" if low > 0 else "down" if high < 0 else None


def _ranks(values: np.ndarray) -> np.ndarray:
    """Middle ranks from -1 to 1, 0 where missing."""
    there = np.isfinite(values)
    ordered, place, count = np.unique(values[there], return_inverse=True, return_counts=True)
    out = np.zeros(len(values))
    if len(ordered) > 1:
        middle = np.cumsum(count) - count / 2
        out[there] = (2 * middle / middle[-1] - 1)[place] if middle[-1] else 0.0
    return out


def _auc(values: np.ndarray, accepted: np.ndarray) -> tuple[float, float, float]:
    """AUC and its interval (1)."""
    m, n = int(accepted.sum()), len(accepted)
    if m == 0 or m == n:
        return 0.5, 0.0, 1.0
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    middle = (np.cumsum(count) - (count - 1) / 2)[place]
    auc = float((middle[accepted].sum() - m * (m + 1) / 2) / (m * (n - m)))
    q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = (auc * (1 - auc) + (m - 1) * (q1 - auc**2) + (n - m - 1) * (q2 - auc**2)) / (m * (n - m))
    half = Z * float(np.sqrt(max(variance, 0.0)))
    return auc, auc - half, auc + half


def _held(ranks: Mapping[str, np.ndarray], accepted: np.ndarray) -> dict[str, tuple[float, float]]:
    """Coefficient and standard error of each column in one logistic regression, by Newton's method."""
    names = [name for name, r in ranks.items() if np.ptp(r) > 0]
    x = np.column_stack([np.ones(len(accepted)), *(ranks[name] for name in names)])
    beta, y = np.zeros(x.shape[1]), accepted.astype(float)
    penalty = RIDGE * len(y) * np.eye(x.shape[1]) * (np.arange(x.shape[1]) > 0)
    curve = penalty
    for _ in range(25):
        p = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
        curve = (x * (p * (1 - p))[:, None]).T @ x + penalty
        step = np.linalg.lstsq(curve, x.T @ (y - p) - penalty @ beta, rcond=None)[0]
        beta += step
        if np.abs(step).max() < 1e-8:
            break
    errors = np.sqrt(np.clip(np.diag(np.linalg.pinv(curve)), 0, None))
    return {name: (float(b), float(e)) for name, b, e in zip(names, beta[1:], errors[1:], strict=True)}
