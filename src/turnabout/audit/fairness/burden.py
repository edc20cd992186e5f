"""What recourse costs a group of refused people when some of them have none, without inventing a cost for those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from turnabout.documents import Document

Dominance = Literal["worse", "better", "alike", "crossing", "unknown"]


@dataclass(frozen=True)
class Burden(Document):
    r"""The cost up to which half of the refused have an option; the cost of people without one is infinite.

    With F(c) the share of refused people who have a first option of cost at most c,

        value = min {c : F(c) >= 1/2}                                                                              (1)

    and its interval runs between two order statistics of the costs, whatever their distribution: it covers with at
    least the confidence, and with more in small groups.

    Attributes
    ----------
    value : (1); None where fewer than half have an option at all, or nobody was refused.
    low : lower end; None where not even that is a cost: surely fewer than half have an option.
    high : upper end; None where it lies beyond every cost.
    n : how many were refused.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int

    @classmethod
    def of(cls, costs: np.ndarray, refused: int, confidence: float = 0.95) -> Burden:
        """From the costs of those who have an option, among so many refused people."""
        from scipy.special import bdtr

        if not refused:
            return cls(None, 0.0, None, 0)
        ranked = np.concatenate([np.sort(costs), np.full(refused - len(costs), np.inf)])
        tails = bdtr(np.arange(refused, dtype=np.float64), refused, 0.5)
        rank = int((tails <= (1.0 - confidence) / 2.0).sum())  # of the interval's ends, counted from either end
        ends = (ranked[(refused + 1) // 2 - 1], ranked[rank - 1] if rank else 0.0, ranked[-rank] if rank else np.inf)
        value, low, high = (float(end) if np.isfinite(end) else None for end in ends)  # (1)
        return cls(value, low, high, refused)

    def __str__(self) -> str:
        if not self.n:
            return "unknown (nobody refused)"
        value, low, high = ("no recourse" if end is None else f"{end:.4g}" for end in (self.value, self.low, self.high))
        return f"{value} [{low}, {high}]"


def dominance(costs: np.ndarray, refused: int, other_costs: np.ndarray, other_refused: int) -> Dominance:
    """Whether the refused of one group are worse off than others at every budget, in this sample.

    A budget c buys recourse for the share F(c) of a group, as in `Burden`: "worse" where F is nowhere above the
    others' and somewhere below, "better" the other way round, "crossing" where it depends on the budget. People
    without an option are above every budget. This describes the sample; whether it is chance is left to the intervals.
    """
    if not refused or not other_refused:
        return "unknown"
    budgets = np.unique(np.concatenate([costs, other_costs]))
    mine = np.searchsorted(np.sort(costs), budgets, side="right") * other_refused  # both in 1 / (refused * others)
    theirs = np.searchsorted(np.sort(other_costs), budgets, side="right") * refused
    below, above = bool((mine < theirs).any()), bool((mine > theirs).any())
    if below and above:
        return "crossing"
    return "worse" if below else "better" if above else "alike"
