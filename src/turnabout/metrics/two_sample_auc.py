"""Can a classifier tell two sets of rows apart? Its cross-validated AUC, with an interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LEAST_ROWS = 40  # of each set
MOST_ROWS = 2000
FOLDS = 5
DRAWS = 1000
WIDER = (1 + FOLDS / (FOLDS - 1)) ** 0.5


class Auc(NamedTuple):
    """The AUC, the ends of its 95 % interval, and how many rows of each set it stands on."""

    value: float
    low: float
    high: float
    n: int


def two_sample_auc(a: np.ndarray, b: np.ndarray, seed: int) -> Auc | None:
    """How well a classifier tells rows a (n, d) from rows b (m, d): 0.5 is guessing, 1 is without error.

    As many rows of each, at most 2,000. Every row is scored by boosted trees that were fitted on the other four fifths,
    and the AUC is that of all scores together. None where there are fewer than 40 rows of either.

    The interval is a bootstrap over the rows of both sets, each half of it times (1 + 5/4)^(1/2) = 1.5, the correction
    of Nadeau and Bengio: the five classifiers share most of their rows, so that a plain bootstrap is too short.

    References: Lopez-Paz, Oquab (2017), Revisiting classifier two-sample tests. Nadeau, Bengio (2003), Inference for
    the generalization error.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    n = min(len(a), len(b), MOST_ROWS)
    if n < LEAST_ROWS:
        return None
    rng = np.random.default_rng(seed)
    x = np.vstack([rows[rng.permutation(len(rows))[:n]] for rows in (a, b)])
    y = np.repeat([1, 0], n)
    fold = np.tile(np.arange(n) % FOLDS, 2)  # rows stand in random order: as many of each set in every fold
    scores = np.zeros(2 * n)
    for k in range(FOLDS):
        trees = HistGradientBoostingClassifier(
            max_iter=50, max_leaf_nodes=15, min_samples_leaf=min(20, n // 8), early_stopping=False, random_state=seed
        )
        trees.fit(x[fold != k], y[fold != k])
        scores[fold == k] = trees.predict_proba(x[fold == k])[:, 1]
    levels, codes = np.unique(scores, return_inverse=True)
    first, second = codes[:n], codes[n:]
    drawn = [_auc(first[rng.integers(0, n, n)], second[rng.integers(0, n, n)], len(levels)) for _ in range(DRAWS)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    value = _auc(first, second, len(levels))
    return Auc(
        value, max(0.0, value - WIDER * (value - float(low))), min(1.0, value + WIDER * (float(high) - value)), n
    )


def _auc(a: np.ndarray, b: np.ndarray, levels: int) -> float:
    """P(a > b) + P(a = b) / 2 of ranks below `levels`."""
    above, below = np.bincount(a, minlength=levels), np.bincount(b, minlength=levels)
    return float((above * (np.cumsum(below) - below / 2)).sum() / (len(a) * len(b)))
