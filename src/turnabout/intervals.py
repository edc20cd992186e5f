"""Intervals beside numbers: exact and approximate ones for shares, and one for a mean over a few seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from turnabout.errors import TurnaboutError
from turnabout.parameters import Declared, Share

LEVEL = Declared(TurnaboutError, confidence=Share(above=0, below=1, hint="use 0.95."))


def binomial_cdf(k: int, n: int, p: float) -> float:
    """P(at most k of n), each with probability p."""
    from scipy.special import betainc

    if k < 0:
        return 0.0
    return 1.0 if k >= n else float(betainc(n - k, k + 1, 1.0 - p))


def lower_bound(k: int, n: int, confidence: float = 0.95) -> float:
    """A share that the true one exceeds with this confidence, after k of n; one-sided and exact."""
    from scipy.special import betaincinv

    _check(k, n, confidence)
    return float(betaincinv(k, n - k + 1, 1.0 - confidence)) if k else 0.0


def upper_bound(k: int, n: int, confidence: float = 0.95) -> float:
    """A share that the true one stays below with this confidence, after k of n; one-sided and exact."""
    from scipy.special import betaincinv

    _check(k, n, confidence)
    return float(betaincinv(k + 1, n - k, confidence)) if k < n else 1.0


def clopper_pearson(k: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a share after k of n: it covers with at least the confidence, whatever the share.

    >>> low, high = clopper_pearson(474, 500)
    >>> f"{low:.3f} to {high:.3f}"
    '0.925 to 0.966'
    """
    _check(k, n, confidence)
    sided = (1.0 + confidence) / 2.0
    return lower_bound(k, n, sided), upper_bound(k, n, sided)


def wilson(k: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The score interval of a share after k of n: shorter than the exact one, and right on average over shares."""
    from scipy.special import ndtri

    _check(k, n, confidence)
    if n == 0:
        return 0.0, 1.0
    z = float(ndtri((1.0 + confidence) / 2.0))
    share, weight = k / n, z * z / n
    middle = (share + weight / 2.0) / (1.0 + weight)
    half = z * math.sqrt(share * (1.0 - share) / n + weight / (4.0 * n)) / (1.0 + weight)
    return (0.0 if k == 0 else max(0.0, middle - half)), (1.0 if k == n else min(1.0, middle + half))


def mean_interval(values: Iterable[float], confidence: float = 0.95) -> tuple[float, float]:
    """Student's interval of a mean, for a few seeds or splits; one value says nothing, so (-inf, inf)."""
    from scipy.special import stdtrit

    _check(0, 0, confidence)
    sample = np.asarray(list(values), dtype=np.float64)
    if not np.isfinite(sample).all():
        raise TurnaboutError("the values hold NaN or an infinity.", hint="leave out the runs that gave no number.")
    if len(sample) < 2:
        return -math.inf, math.inf
    half = (
        float(stdtrit(len(sample) - 1, (1.0 + confidence) / 2.0)) * float(sample.std(ddof=1)) / math.sqrt(len(sample))
    )
    mean = float(sample.mean())
    return mean - half, mean + half


def _check(k: int, n: int, confidence: float) -> None:
    if not 0 <= k <= n:
        raise TurnaboutError(f"{k} of {n} is not a share.", hint="count k successes among n, with 0 <= k <= n.")
    LEVEL.check(confidence=confidence)
