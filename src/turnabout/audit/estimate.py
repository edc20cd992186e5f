"""A number with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from turnabout.errors import AuditError
from turnabout.intervals import mean_interval
from turnabout.typing import Json


@dataclass(frozen=True)
class Estimate:
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
    def between(cls, value: float, low: float, high: float, n: int) -> Estimate:
        """From plain floats, of which infinite and NaN ones stand for the unknown."""
        value_, low_, high_ = (float(v) if math.isfinite(v) else None for v in (value, low, high))
        return cls(value_, low_, high_, n)

    def __str__(self) -> str:
        if self.value is None:
            return f"unknown ({self.n} people)"
        ends = ", ".join("unknown" if end is None else f"{end:.4g}" for end in (self.low, self.high))
        return f"{self.value:.4g} [{ends}]"

    def to_dict(self) -> Json:
        """Plain values for JSON; the unknown is null."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}
