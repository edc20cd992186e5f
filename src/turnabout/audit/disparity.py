"""Do groups have recourse alike? A difference of shares, with its interval."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnabout.audit.rates import members
from turnabout.core import Recourse, Status
from turnabout.documents import Document
from turnabout.errors import TurnaboutError
from turnabout.intervals import Rate, wilson
from turnabout.markup import report_html
from turnabout.parameters import Share, checked

NEAR = 0.005  # precisions that count as equally near


@dataclass(frozen=True)
class Difference(Document):
    """The first share minus the second, with Newcombe's interval; unknown (None, within [-1, 1]) if one of them is."""

    value: float | None
    low: float
    high: float
    first: Rate
    second: Rate

    @classmethod
    def of(cls, first: Rate, second: Rate, confidence: float = 0.95) -> Difference:
        r"""Newcombe's hybrid score interval, from the Wilson intervals [l, u] of the two shares p:

        p1 - p2 - sqrt((p1 - l1)^2 + (u2 - p2)^2)   to   p1 - p2 + sqrt((u1 - p1)^2 + (p2 - l2)^2)               (1)
        """
        if first.value is None or second.value is None:
            return cls(None, -1.0, 1.0, first, second)
        (l1, u1), (l2, u2) = (wilson(round(rate.hits), rate.n, confidence) for rate in (first, second))
        p1, p2 = first.value, second.value
        low = p1 - p2 - math.hypot(p1 - l1, u2 - p2)  # (1)
        high = p1 - p2 + math.hypot(u1 - p1, p2 - l2)
        return cls(p1 - p2, low, high, first, second)

    def __str__(self) -> str:
        if self.value is None:
            return "unknown (one group is empty)"
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


@dataclass(frozen=True)
class Disparity(Document):
    """By how much one group is better off than another.

    Attributes
    ----------
    of, against : the two groups; against is None for all other people together.
    everyone : difference of the shares of people who are accepted or have recourse.
    refused : difference of the shares of refused people who have recourse.
    """

    of: Hashable
    against: Hashable | None
    everyone: Difference
    refused: Difference

    _repr_html_ = report_html

    def __str__(self) -> str:
        other = "everyone else" if self.against is None else self.against
        return f"{self.of} minus {other}: accepted or with recourse {self.everyone}; among the refused {self.refused}"


def disparity(answer: Recourse, groups: Any, of: Hashable | None = None, against: Hashable | None = None) -> Disparity:
    """How much more often one group has recourse than another; positive where `of` is better off.

    Parameters
    ----------
    answer : of any method. Compare models at thresholds of equal precision: see threshold_at_precision.
    groups : one label per person: a Series with the people's index, or values in the people's order.
    of : the first group; by default the largest.
    against : the second; by default all other people.
    """
    inside = members(groups, answer.people.index)
    if not inside:
        raise TurnaboutError("there are no groups to compare.", hint="give one label per person.")
    for label in (of, against):
        if label is not None and label not in inside:
            raise TurnaboutError(f"nobody belongs to a group {label!r}.", hint=f"the groups are {list(inside)}.")
    if of is None:
        of = max(
            (label for label in inside if label != against), key=lambda label: inside[label].sum(), default=against
        )
    if of == against:
        raise TurnaboutError(f"the group {of!r} is compared with itself.", hint=f"the groups are {list(inside)}.")
    second = ~inside[of] if against is None else inside[against]
    accepted = (answer.status == Status.ACCEPTED).to_numpy(dtype=bool)
    found = (answer.status == Status.FOUND).to_numpy(dtype=bool)
    refusal = answer.refused.to_numpy(dtype=bool)
    everyone, refused = (
        Difference.of(Rate.among(yes[inside[of] & counted]), Rate.among(yes[second & counted]))
        for yes, counted in ((accepted | found, accepted | refusal), (found, refusal))
    )
    return Disparity(of, against, everyone, refused)


@checked(TurnaboutError, precision=Share(hint="use a number from 0 to 1."))
def threshold_at_precision(scores: Any, accepted: Any, precision: float = 0.65) -> float:
    """The threshold on scores (yes from it on) at which the share of truly accepted is nearest to a precision.

    Chosen among the scores themselves. Of thresholds that come equally near, to half a percent, the lowest: it says
    yes to most people, and does not rest on the few at the top. Choose it on rows that the model was not trained on.

    Parameters
    ----------
    scores : P(yes) of people, or any score.
    accepted : True for those who were really accepted, in the same order.

    >>> threshold_at_precision([0.1, 0.4, 0.6, 0.9], [False, False, True, True], precision=0.65)
    0.4
    """
    try:
        score = np.asarray(scores, dtype=float)
    except (TypeError, ValueError):
        raise TurnaboutError("some scores are not numbers.", hint="give one finite score per person.") from None
    truth = np.asarray(accepted)
    if score.ndim != 1 or score.shape != truth.shape or not len(score):
        raise TurnaboutError(
            f"there are {score.size} scores and {truth.size} labels.", hint="give one score and one label per person."
        )
    if not np.isfinite(score).all() or not np.isin(truth, (0, 1)).all():
        raise TurnaboutError("scores or labels have gaps.", hint="give finite scores, and labels of True and False.")
    order = np.argsort(-score, kind="stable")
    ranked = score[order]
    reached = np.cumsum(truth[order].astype(int)) / np.arange(1, len(score) + 1)
    last = np.append(ranked[1:] != ranked[:-1], True)  # equal scores are accepted together
    gap = np.abs(reached[last] - precision)
    near = np.flatnonzero(gap <= gap.min() + NEAR)
    return float(ranked[last][near[-1]])
