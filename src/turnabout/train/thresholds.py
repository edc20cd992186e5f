"""Thresholds: the rank behind a guarantee (Park et al., 2020), and the best threshold below a limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Literal, get_args

import numpy as np

from turnabout.errors import TrainingError
from turnabout.intervals import binomial_cdf
from turnabout.parameters import Choice, Declared, Share, Whole, checked

Measure = Literal["f1", "accuracy"]

HAIR = 1e-12  # of a score: far beyond what the last bits of a computation make of it


LEVELS = Declared(
    TrainingError,
    epsilon=Share(
        above=0, below=1, hint="epsilon is the share of people who may be left without recourse; 0.05 is usual."
    ),
    alpha=Share(above=0, below=1, hint="alpha is the probability with which the guarantee may fail; 0.05 is usual."),
)


@checked(TrainingError, n=Whole(0, hint="count the calibration rows."))
def pac_rank(n: int, epsilon: float = 0.05, alpha: float = 0.05) -> int | None:
    """How many of n people may fall short; None where n is too small to promise anything.

        k = max { k : P(Binomial(n, epsilon) <= k) <= alpha }                                              (1)

    >>> pac_rank(735), pac_rank(58)
    (26, None)
    """
    LEVELS.check(epsilon=epsilon, alpha=alpha)
    if binomial_cdf(0, n, epsilon) > alpha:
        return None
    low, high = 0, n  # (1) holds at low and not at high
    while high - low > 1:
        middle = (low + high) // 2
        if binomial_cdf(middle, n, epsilon) <= alpha:
            low = middle
        else:
            high = middle
    return low


def rows_needed(epsilon: float = 0.05, alpha: float = 0.05) -> int:
    """The fewest people with whom anything can be promised: (1 - epsilon)^n <= alpha.

    >>> rows_needed()
    59
    """
    LEVELS.check(epsilon=epsilon, alpha=alpha)
    n = max(1, math.ceil(math.log(alpha) / math.log1p(-epsilon)))
    while pac_rank(n, epsilon, alpha) is None:  # rounding of the logarithms
        n += 1
    while n > 1 and pac_rank(n - 1, epsilon, alpha) is not None:
        n -= 1
    return n


def rank_or_refuse(n: int, epsilon: float, alpha: float, who: str = "calibration people") -> int:
    """pac_rank, or an error that says how many more people are needed."""
    k = pac_rank(n, epsilon, alpha)
    if k is None:
        needed = rows_needed(epsilon, alpha)
        more = needed - n
        raise TrainingError(
            f"{n} {who} are too few for epsilon={epsilon:g} and alpha={alpha:g}: even if none of them fell short, the "
            f"guarantee could fail with probability {binomial_cdf(0, n, epsilon):.2g}. {more} more "
            f"{'is' if more == 1 else 'are'} needed ({needed} in all).",
            hint=f"calibrate on at least {needed} people, or allow a larger epsilon or alpha.",
        )
    return k


def smallest(scores: np.ndarray, k: int) -> float:
    """The (k + 1)-th smallest score: at most k lie below it, ties or not."""
    return float(np.partition(scores, k)[k])


def no_ties(scores: np.ndarray, score: float, k: int) -> bool:
    """Whether the (k + 1)-th smallest score is one person's alone, by more than a hair."""
    near = scores - HAIR * np.abs(scores) <= score
    return int((scores < just_below(score)).sum()) == k and int(near.sum()) == k + 1


def just_below(score: float) -> float:
    """A threshold just below a score, which the score reaches also when it is computed again with other rounding.

    The score of a row differs in its last bits between a table and the row alone, so decisions must not depend on them.
    Cut to 12 digits, at least 1e-12 of the score lower. 0 stays 0: as P(yes), everyone reaches it.

    >>> just_below(0.65), just_below(0.12345678901234567), just_below(0.0)
    (0.649999999999, 0.123456789012, 0.0)
    """
    lower = Decimal(repr(float(score - HAIR * abs(score))))
    return float(cut(lower, 12)) if lower else 0.0


def cut(value: Decimal, digits: int, rounding: str = ROUND_FLOOR) -> Decimal:
    """A number other than 0 in so many significant digits."""
    return value.quantize(Decimal(1).scaleb(value.adjusted() - digits + 1), rounding)


@checked(TrainingError, measure=Choice(*get_args(Measure)))
def best_threshold(
    scores: Any,
    accepted: Any,
    at_most: float = 1.0,
    grid: int | Sequence[float] | None = None,
    measure: Measure = "f1",
) -> float:
    """The threshold up to `at_most` at which "score >= threshold" agrees best with who was really accepted.

    Every threshold that a certificate permits keeps the guarantee, so the choice among them may look at any labels,
    those of the calibration people too: best_threshold(scores, accepted, at_most=certificate.threshold). Where the
    best threshold is somebody's score, the one a hair below it is returned (`just_below`).

    Parameters
    ----------
    scores : (n,) P(yes) of people as they are.
    accepted : (n,) who was really accepted.
    at_most : the highest threshold allowed.
    grid : the thresholds to try: a list of them, or a number m for 0 and m equal steps up to at_most (the paper's
        choice is 10). None tries all that make a difference.
    measure : "f1" or "accuracy"; of equals the lowest threshold, which refuses the fewest.
    """
    s = check_scores(scores)
    y = np.asarray(accepted)
    if y.shape != s.shape or y.dtype.kind not in "biuf" or not np.isin(y, (0, 1)).all():
        raise TrainingError(
            f"accepted must say yes or no for each of the {len(s)} scores.", hint="pass booleans in the same order."
        )
    if not len(s) or not math.isfinite(at_most):
        raise TrainingError(
            f"there is no threshold to choose with {len(s)} scores and at_most={at_most!r}.",
            hint="pass the scores of at least one person, and at_most=certificate.threshold.",
        )
    tried = _candidates(s, float(at_most), grid)
    order = np.argsort(s, kind="stable")
    ordered, label = s[order], y.astype(bool)[order]
    below = np.searchsorted(ordered, tried, side="left")  # people refused at each threshold
    yes = label.sum() - np.concatenate([[0], np.cumsum(label)])[below]
    said_yes = len(s) - below
    if measure == "f1":
        value = 2.0 * yes / np.maximum(1, said_yes + label.sum())
    else:
        value = (2.0 * yes - said_yes + len(s) - label.sum()) / len(s)
    best = float(tried[int(np.argmax(value))])
    return just_below(best) if np.isclose(s, best, rtol=HAIR / 10, atol=0.0).any() else best


def _candidates(scores: np.ndarray, at_most: float, grid: int | Sequence[float] | None) -> np.ndarray:
    """The thresholds to try, from low to high."""
    if grid is None:
        return np.unique(np.append(scores[scores <= at_most], at_most))
    if isinstance(grid, (int, np.integer)):
        if grid < 1:
            raise TrainingError(f"grid={grid} steps is no grid.", hint="use grid=10.")
        return np.linspace(0.0, at_most, int(grid) + 1)
    tried = np.unique(np.asarray(grid, dtype=np.float64))
    tried = tried[tried <= at_most]
    if not len(tried):
        raise TrainingError(
            f"no threshold of the grid is at most {at_most:g}.", hint="add lower ones, or leave grid out."
        )
    return tried


def check_scores(scores: Any) -> np.ndarray:
    """(n,) float64, all of them finite numbers."""
    if hasattr(scores, "detach"):
        scores = scores.detach().cpu()
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise TrainingError("the scores are not numbers.", hint="pass one P(yes) for each person.") from None
    if values.ndim != 1:
        raise TrainingError(
            f"the scores have shape {values.shape}; expected one for each person.",
            hint="of predict_proba, that is its column [:, 1].",
        )
    bad = ~np.isfinite(values)
    if bad.any():
        i = int(bad.argmax())
        raise TrainingError(
            f"score {i} is {values[i]}, which is not a number to compare with a threshold.",
            hint="a person who can do nothing has the score of their own row; do not drop them.",
        )
    return values
