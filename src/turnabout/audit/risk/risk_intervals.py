"""Intervals of the figures of a risk report: people weighted by chance, with a little room for people not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from turnabout.audit.estimate import Estimate
from turnabout.audit.risk.sums import Population, Sums

FEW = 10  # people below whom no interval is given and no verdict passed
FAR = 1e300  # stands for infinity where quantiles interpolate
SAME = 1e-9  # spread below which replicates are all alike
MEANS = ("cost", "eta0", "eta1", "before", "complies", "outcome")


@dataclass(frozen=True, eq=False)
class Ends:
    """Figures at either end of what is not known (or once), with bootstrap replicates, and under other fits of eta.

    Attributes
    ----------
    people : figure -> how many people it rests on.
    """

    value: list[Sums]
    drawn: list[Sums]
    others: list[Sums]
    confidence: float
    people: dict[str, int]

    @cached_property
    def intervals(self) -> list[dict[str, tuple[float, float]]]:
        r"""Percentile intervals by figure, at either end; infinite or NaN where nothing is known.

        The tails are those of Student's distribution, for a figure that rests on m people:

            tail = Phi(-t sqrt((m + 1) / (m - 1))),   t Student's quantile at `confidence` for m - 1                 (1)

        With k other fits of eta, each half h of an interval grows to

            sqrt( h^2 + (t s)^2 ),   s the deviation of the figure over the fits, t Student's quantile for k - 1     (2)

        References
        ----------
        Hesterberg (2015), What teachers should know about the bootstrap, for (1); there with m in place of m + 1, which
        is the person imagined beside them (see `unseen`).
        """
        from scipy.special import stdtrit

        side = 1.0 - (1.0 - self.confidence) / 2.0
        out = []
        for value, drawn, others in zip(self.value, self.drawn, self.others):
            names = list(drawn)
            replicates = np.sort(np.clip(np.stack(list(drawn.values())), -FAR, FAR), axis=1)  # (figures, replicates)
            tail = _tails(np.array([self.people[name] for name in names]), side)
            ends = _quantiles(replicates, np.stack([tail, 1.0 - tail]))
            unknown = np.abs(ends) > FAR / 1e6
            middle, fits = np.array([value[name] for name in names]), np.stack(list(others.values()))
            ends = np.stack([np.fmin(ends[0], middle), np.fmax(ends[1], middle)])
            ends[unknown] = np.inf
            if fits.shape[1]:
                wider = float(stdtrit(fits.shape[1] - 1, side)) * fits.std(1, ddof=1)
                ends = middle + np.array([[-1.0], [1.0]]) * np.hypot(ends - middle, wider)  # (2)
            out.append({name: (float(low), float(high)) for name, low, high in zip(names, *ends)})
        return out

    def estimates(self, name: str) -> tuple[Estimate, Estimate]:
        """The lowest and the highest the figure may be, each with its interval; the same twice where it is known."""
        out = []
        n = self.people[name]
        for value, intervals in zip(self.value, self.intervals):
            low, high = intervals[name] if n >= FEW else (np.nan, np.nan)
            out.append(Estimate.between(float(value[name]), low, high, n))
        if len({one.value for one in out}) == 1:  # an estimate, not an end that is taken for granted
            out = [replace(one, low=None, high=None) if _alike(one) else one for one in out]
        if any(one.value is None for one in out):  # an end that does not exist bounds nothing
            unknown = out[0] if len(out) == 1 else Estimate(None, None, None, n)
            return unknown, unknown
        return min(out, key=_value), max(out, key=_value)

    def estimate(self, name: str) -> Estimate:
        """The figure with its interval; of two ends only the interval around both."""
        first, last = self.estimates(name)
        if first == last:
            return first
        return Estimate(None, first.low, last.high, self.people[name])


def unseen(people: Population, inside: np.ndarray) -> tuple[Population, np.ndarray]:
    """Imagined people, and (m,) how much each counts: half a person of either label, approved, moving and staying.

    Where all of 12 people who move repaid, resampling them says that all people do. With half a person who did not
    among them, and half a person who did, it says about what Jeffreys' interval of a share says. In all else the
    imagined are like the mean of their kind; where labels are not known, in that too.

    Parameters
    ----------
    inside : (n,) the people whom the imagined join.
    """
    moving = inside & (people.moves > 0)
    staying = inside & ~people.accepted & ~moving
    high = people.before if people.before_high is None else people.before_high
    rows, count = [], []
    for who, approved in ((inside & people.accepted, True), (moving, False), (staying, False)):
        goes = who is moving
        if not approved and not who.any() and (goes or moving.any()):
            continue
        of = {name: _mean(getattr(people, name), who, people.moves if goes else None) for name in MEANS}
        known = approved or not people.bounded
        choices = (0.0, 1.0) if goes and people.offer is not None else (0.0,)  # worth an offer, or not
        for label, offer in product((0.0, 1.0), choices):
            row = {"accepted": approved, "offered": goes, "moves": _mean(people.moves, who, None), "offer": offer}
            ends = (label, label) if known else (of["before"], _mean(high, who, people.moves if goes else None))
            eta0 = label if known else of["eta0"]
            rows.append(of | row | {"before": ends[0], "before_high": ends[1], "eta0": eta0, "offer_high": offer})
            count.append(0.5 / len(choices))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0] if getattr(people, name) is not None}
    return replace(people, **columns), np.array(count)


def _mean(values: np.ndarray | None, who: np.ndarray, weights: np.ndarray | None) -> float:
    """Of these people; 0 where there are none, or nothing of them."""
    if values is None or not who.any():
        return 0.0
    return float(np.average(values[who], weights=None if weights is None else weights[who]))


def _tails(people: np.ndarray, side: float) -> np.ndarray:
    """(1) for each figure."""
    from scipy.special import ndtr, stdtrit

    m = np.maximum(people, 2).astype(np.float64)
    return ndtr(-stdtrit(m - 1.0, side) * np.sqrt((m + 1.0) / (m - 1.0)))


def _quantiles(ordered: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(2, figures) quantiles of ascending rows, NaN last and left out: replicates with nobody to divide by."""
    last = (~np.isnan(ordered)).sum(1) - 1
    place = shares * np.maximum(last, 0)
    below = np.floor(place).astype(np.int64)
    rows = np.arange(len(ordered))
    low, high = ordered[rows, below], ordered[rows, np.minimum(below + 1, np.maximum(last, 0))]
    return low + (place - below) * (high - low)


def _alike(estimate: Estimate) -> bool:
    """Whether all replicates are the same: nothing is known of how much the figure may vary."""
    return estimate.low is not None and estimate.high is not None and estimate.high - estimate.low <= SAME


def _value(estimate: Estimate) -> float:
    assert estimate.value is not None
    return estimate.value
