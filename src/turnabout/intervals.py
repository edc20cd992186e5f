"""Intervals beside numbers: exact and approximate ones for shares, one for a mean over a few seeds; and Rate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnabout.documents import Document
from turnabout.errors import TurnaboutError
from turnabout.markup import report_html
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


@dataclass(frozen=True)
class Rate(Document):
    """A share of n people, with its exact (Clopper-Pearson) interval.

    Where nobody was counted there is no share: the value is None and the interval is all of [0, 1].

    Attributes
    ----------
    value : hits / n, or None.
    low, high : ends of the interval.
    hits, n : how many of how many. Hits need not be whole where each person counts by a share of several draws.
    """

    value: float | None
    low: float
    high: float
    hits: float
    n: int

    @classmethod
    def of(cls, hits: float, n: int, confidence: float = 0.95) -> Rate:
        """The rate of `hits` among n people.

        Hits that are not whole (shares in [0, 1], added up over people) get the interval from the whole number below
        to the one above: a share varies less than a yes or no of the same mean, so that interval is wide enough.
        """
        low = clopper_pearson(math.floor(hits + 1e-9), n, confidence)[0]
        high = clopper_pearson(math.ceil(hits - 1e-9), n, confidence)[1]
        return cls(hits / n if n else None, low, high, hits, n)

    @classmethod
    def among(cls, yes: Iterable[Any], confidence: float = 0.95) -> Rate:
        """The rate of True among booleans, or the mean of shares in [0, 1]: one entry per person."""
        values = np.asarray(yes if isinstance(yes, np.ndarray) else list(yes))
        if values.dtype == bool:
            return cls.of(int(values.sum()), len(values), confidence)
        try:
            shares = values.astype(float)
        except (TypeError, ValueError):
            shares = np.array([np.nan])
        if not ((shares >= 0) & (shares <= 1 + 1e-9)).all():  # NaN is neither
            raise TurnaboutError(
                "a rate is asked for among values that are no shares.",
                hint="give True or False, or a share from 0 to 1, for each person; leave out who is unknown.",
            )
        return cls.of(float(shares.sum()), len(values), confidence)

    _repr_html_ = report_html

    def __str__(self) -> str:
        if self.value is None:
            return "unknown (nobody to count)"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] ({self.hits:.6g} of {self.n})"


def _check(k: int, n: int, confidence: float) -> None:
    if not 0 <= k <= n:
        raise TurnaboutError(f"{k} of {n} is not a share.", hint="count k successes among n, with 0 <= k <= n.")
    LEVEL.check(confidence=confidence)
