"""A number with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.intervals import mean_interval

ROUNDING = 1e-9


@dataclass(frozen=True)
class Estimate(Document):
    """A number estimated from n people, with its interval.

    Attributes
    ----------
    value : the number; None where there is nobody to tell it from, or where it does not exist.
    low, high : ends of the interval; None where nothing is known on that side.
    n : how many people it rests on.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int

    @classmethod
    def mean(cls, values: np.ndarray, confidence: float = 0.95) -> Estimate:
        """The mean of one number for each person, with Student's interval.

        There is none for one person, and none where all have the same number: it would have no width.
        """
        values = np.asarray(values, dtype=np.float64).reshape(-1)
        if not np.isfinite(values).all():
            raise AuditError("a mean is asked for over NaN or an infinity.", hint="leave out who has no number.")
        if not len(values):
            return cls(None, None, None, 0)
        if np.ptp(values) == 0:
            return cls(float(values[0]), None, None, len(values))
        low, high = mean_interval(values, confidence)
        return cls.between(float(values.mean()), low, high, len(values))

    @classmethod
    def share(cls, values: np.ndarray, confidence: float = 0.95) -> Estimate:
        r"""The mean of numbers from 0 to 1, with Wilson's score interval at the effective number of people.

            m = n p (1 - p) / (variance of the values),    then Wilson's interval of p after m people              (1)

        For yes and no, m = n - 1; where all have the same number, m = n; one person tells no interval. For other
        numbers, whose variance has to be estimated apart from the mean, Student's quantile stands for the normal one.

        Student's interval of such a mean is too short where shares pile up near 0 or 1, and has no width at 0: it
        covered 84 % of 2,000 times for yes and no at 0.97 of 100 people, this one 96 %. Both are too short where almost
        everyone is at 1 and few are far from it: for Beta(5, 0.1), whose mean is 0.98, this one covered 92 % of 4,000
        times for n = 100, 88 % for 30 and 78 % for 10.
        """
        from scipy.special import ndtri, stdtrit

        shares = np.asarray(values, dtype=np.float64).reshape(-1)
        if not ((shares >= -ROUNDING) & (shares <= 1 + ROUNDING)).all():  # NaN is neither
            raise AuditError("a mean is asked for over values that are no shares.", hint="give numbers from 0 to 1.")
        if not len(shares):
            return cls(None, None, None, 0)
        shares = shares.clip(0.0, 1.0)
        n, p, level = len(shares), float(shares.mean()), (1.0 + confidence) / 2.0
        if n == 1:
            return cls(p, None, None, 1)
        m = n if np.ptp(shares) == 0 else n * p * (1.0 - p) / float(shares.var(ddof=1))  # (1)
        is_plain = np.ptp(shares) == 0 or bool(np.isin(shares, (0.0, 1.0)).all())
        weight = float(ndtri(level) if is_plain else stdtrit(n - 1, level)) ** 2 / m
        middle = (p + weight / 2.0) / (1.0 + weight)
        half = math.sqrt(weight * p * (1.0 - p) + weight**2 / 4.0) / (1.0 + weight)
        low, high = max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half))  # p lies within, rounded as well
        return cls(p, low, high, n)

    @classmethod
    def between(cls, value: float, low: float, high: float, n: int) -> Estimate:
        """From plain floats, of which infinite and NaN ones stand for the unknown."""
        value_, low_, high_ = (float(v) if math.isfinite(v) else None for v in (value, low, high))
        return cls(value_, low_, high_, n)

    def __str__(self) -> str:
        if self.value is None:
            return f"unknown ({self.n} people)"
        ends = ", ".join("unknown" if end is None else f"{end:.4g}" for end in (self.low, self.high))
        return f"{self.value:.4g} [{ends}]"
