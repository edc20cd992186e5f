"""How a group differs from everyone else: differences with intervals, and which of many are more than chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turnabout.audit.disparity import Difference
from turnabout.audit.estimate import Estimate
from turnabout.documents import Document
from turnabout.intervals import Rate

CLEAR = 0.2  # a difference with a larger p is chance at any level in use
SHUFFLES = 4999
MANY = 5000  # people of the smaller side who are shuffled, and half of all
FEW = 1000  # people up to whom whole permutations cost less than drawing one side
CELLS = 1 << 20  # shuffled at a time


@dataclass(frozen=True)
class MeanDifference(Document):
    """The first mean minus the second, with Welch's interval.

    For strongly skewed numbers it is somewhat narrow: it covered 92 % of 1,000 times for log-normal costs (sigma = 1)
    in a group of 30 against 200, and 95 % for gamma costs (shape 2 and 3) in 60 against 200.

    The value is None where one group is empty. The ends are None where a group has a single person, or people who are
    all alike: then nothing tells how far chance reaches. Three people with two changes each do not show that everybody
    like them has two.
    """

    value: float | None
    low: float | None
    high: float | None
    first: Estimate
    second: Estimate

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray, confidence: float = 0.95) -> MeanDifference:
        r"""Welch's interval, from the means m, the variances v = s^2 / n and Student's quantile t:

        m1 - m2 -+ t(nu) sqrt(v1 + v2),      nu = (v1 + v2)^2 / (v1^2 / (n1 - 1) + v2^2 / (n2 - 1))              (1)
        """
        from scipy.special import stdtrit

        means = Estimate.mean(first, confidence), Estimate.mean(second, confidence)
        if means[0].value is None or means[1].value is None:
            return cls(None, None, None, *means)
        value = means[0].value - means[1].value
        error, freedom = _welch(first, second)
        if not error:
            return cls(value, None, None, *means)
        half = float(stdtrit(freedom, (1.0 + confidence) / 2.0)) * error  # (1)
        return cls(value, value - half, value + half, *means)

    def __str__(self) -> str:
        if self.value is None:
            return "unknown (one group is empty)"
        if self.low is None:
            return f"{self.value:+.4g} [unknown, unknown]"
        return f"{self.value:+.4g} [{self.low:+.4g}, {self.high:+.4g}]"


@dataclass(frozen=True)
class Contrast:
    """A difference with its interval, and p: how often people shuffled between the two sides differ as much.

    The interval tells how large the difference is, p whether it matters at all on which side a person stands. "As much"
    is by the difference of shares, and by Welch's statistic for means. Held against a level of up to 0.2, p assumes
    nothing about how costs are distributed, so that it serves for the small levels that many groups ask for, at which
    Welch's interval is too narrow for skewed costs. Near the edge the two may disagree. Above 0.2, p of means is
    Welch's approximation. Of more than 10,000 people a random part is shuffled, which costs power and not validity. p
    is None where a side is empty.
    """

    difference: Difference | MeanDifference
    p: float | None

    @classmethod
    def of(
        cls, first: np.ndarray, second: np.ndarray, is_share: bool, confidence: float = 0.95, seed: int = 0
    ) -> Contrast:
        """First minus second, one number per person; see `difference_of`."""
        return cls(difference_of(first, second, is_share, confidence), _p(first, second, seed))


def difference_of(
    first: np.ndarray, second: np.ndarray, is_share: bool, confidence: float = 0.95
) -> Difference | MeanDifference:
    """First minus second, one number per person: shares by Newcombe's interval, means by Welch's."""
    if is_share:
        return Difference.of(Rate.among(first, confidence), Rate.among(second, confidence), confidence)
    return MeanDifference.of(first, second, confidence)


def holm(p: Sequence[float | None], level: float = 0.05) -> list[bool | None]:
    """Which of many differences survive at a family-wise error of `level` (Holm, 1979); None where p is.

    The smallest p is held against level / m, the next against level / (m - 1), and so on until one fails.

    >>> holm([0.01, 0.04, None, 0.03])
    [True, False, None, False]
    """
    known = sorted((value, place) for place, value in enumerate(p) if value is not None)
    out: list[bool | None] = [None if value is None else False for value in p]
    for rank, (value, place) in enumerate(known):
        if value > level / (len(known) - rank):
            break
        out[place] = True
    return out


def _welch(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """(standard error, degrees of freedom) of a difference of means; (0, 0) where chance cannot be told."""
    if not all(len(values) and np.ptp(values) > 0 for values in (first, second)):
        return 0.0, 0.0
    v1, v2 = (float(np.var(values, ddof=1)) / len(values) for values in (first, second))
    freedom = (v1 + v2) ** 2 / (v1**2 / (len(first) - 1) + v2**2 / (len(second) - 1))
    return math.sqrt(v1 + v2), freedom


def _p(first: np.ndarray, second: np.ndarray, seed: int) -> float | None:
    """Exact for zeros and ones. Otherwise by random shuffles, unless Welch's p is clearly not small.

    To return Welch's there can turn a small p into a large one, never the other way round: at levels up to CLEAR the
    test stays valid.
    """
    from scipy.special import stdtr

    if not len(first) or not len(second):
        return None
    if all(np.isin(side, (0.0, 1.0)).all() for side in (first, second)):
        hits = int(first.sum())
        return _fisher(hits, len(first), hits + int(second.sum()), len(first) + len(second))
    error, freedom = _welch(first, second)
    if error:
        rough = 2.0 * float(stdtr(freedom, -abs(float(first.mean() - second.mean())) / error))
        if rough > CLEAR:
            return rough
    sides = (np.sort(first), np.sort(second))
    small, large = sorted(sides, key=lambda side: (len(side), side.tolist()))  # whichever of the two comes first
    rng = np.random.default_rng(seed)
    small = _part(small, MANY, rng)
    return _shuffled(small, np.concatenate([small, _part(large, 2 * MANY - len(small), rng)]), rng)


def _part(side: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    return side if len(side) <= most else rng.choice(side, most, replace=False)


def _fisher(hits: int, size: int, all_hits: int, n: int) -> float:
    """Chance that a random side of this size holds a share of the hits as far from the other side's, or farther."""
    from scipy.special import gammaln

    def ways(total: int, chosen: np.ndarray) -> np.ndarray:
        return gammaln(total + 1) - gammaln(chosen + 1) - gammaln(total - chosen + 1)

    k = np.arange(max(0, size + all_hits - n), min(size, all_hits) + 1)
    chance = np.exp(ways(all_hits, k) + ways(n - all_hits, size - k) - ways(n, np.array(size)))
    far = np.abs(k * n - size * all_hits) >= abs(hits * n - size * all_hits)  # in whole numbers: |k/s - (K-k)/(n-s)|
    return min(1.0, float(chance[far].sum()))


def _shuffled(side: np.ndarray, pooled: np.ndarray, rng: np.random.Generator) -> float:
    """(1 + shuffles with a Welch statistic as large) / (1 + shuffles): valid for any number of them."""
    n, size = len(pooled), len(side)
    centred = pooled - pooled.mean()
    observed = _statistic(side[None] - pooled.mean(), centred)[0]
    as_large, rows = 0, max(1, CELLS // n)
    for start in range(0, SHUFFLES, rows):
        mixed = _sides(centred, size, min(rows, SHUFFLES - start), rng)
        as_large += int((_statistic(mixed, centred) >= observed * (1.0 - 1e-9)).sum())
    return (1 + as_large) / (1 + SHUFFLES)


def _sides(pooled: np.ndarray, size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """(n,) -> (count, size) random sides, each drawn without replacement."""
    if len(pooled) <= FEW:
        return rng.permuted(np.broadcast_to(pooled, (count, len(pooled))), axis=1)[:, :size]
    return np.stack([rng.choice(pooled, size, replace=False, shuffle=False) for _ in range(count)])


def _statistic(side: np.ndarray, centred: np.ndarray) -> np.ndarray:
    """(b, size) draws of one side -> (b,) squared difference of means over its squared error."""
    n, size = len(centred), side.shape[1]
    total, square = side.sum(1), (side**2).sum(1)
    mean, other = total / size, -total / (n - size)
    error = np.full(len(side), 1e-12 * float(centred @ centred) / n + np.finfo(np.float64).tiny)
    for m, part, count in ((mean, square, size), (other, (centred**2).sum() - square, n - size)):
        error += np.maximum(part / count - m**2, 0.0) / max(count - 1, 1)
    return (mean - other) ** 2 / error
