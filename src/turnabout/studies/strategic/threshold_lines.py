"""Thresholds on a line: a population of two Gaussians or a sample of people, before a boundary that may be moved."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnabout.audit.aligned import aligned
from turnabout.audit.estimate import Estimate
from turnabout.audit.risk.accepting import check_probabilities, numbers
from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.models import LinearMargin, Model
from turnabout.parameters import Positive, Share, checked
from turnabout.schema import as_frame
from turnabout.studies.strategic.ball_search import steepest
from turnabout.studies.strategic.effective import check_distance, dual_norm

STEPS = 40  # shifts tried per distance D, from -D to 2 D
EDGE = 9.0  # deviations beyond the class means where nobody is
FINE = 4000  # shifts tried in each part of a population before the best is refined
ROUNDING = 1e-15  # of a risk


@dataclass(frozen=True)
class Figures(Document):
    """What one shift of the boundary does to the lender and to people, everyone within reach having moved."""

    risk: Estimate
    approved: Estimate
    newly_approved: Estimate
    newly_refused: Estimate
    newly_forced: Estimate
    forced_distance: Estimate


@dataclass(frozen=True)
@checked(AuditError, mean=Positive(), sd=Positive(), share=Share(above=0, below=1))
class GaussianLine:
    r"""A population on a line: t given the label is N(+-mean, sd^2), a share of the labels is good.

    Positions are counted from the best threshold of all, t* = -sd^2 / (2 mean) log(share / (1 - share)); so a shift of
    0 is the Bayes classifier f*. All figures are in closed form, but for the rounding of the normal distribution.

    Parameters
    ----------
    mean, sd : of the good; the bad have -mean and the same deviation. Of two Gaussian classes in the plane, take
        these along the normal of the boundary.
    share : of the good.
    """

    mean: float
    sd: float
    share: float = 0.5

    @property
    def threshold(self) -> float:
        """t*, the threshold of the Bayes classifier on the original line."""
        return -(self.sd**2) / (2.0 * self.mean) * math.log(self.share / (1.0 - self.share))

    def eta(self, position: np.ndarray | float) -> np.ndarray:
        """P(good) at positions counted from t*: 1/2 at 0."""
        from scipy.special import expit

        return expit(2.0 * self.mean / self.sd**2 * np.asarray(position, dtype=np.float64))

    def risk(self, shift: np.ndarray | float, distance: float, compliance: float) -> np.ndarray:
        r"""The lender's risk after recourse, for boundaries moved by `shift`.

        P(t < s - D, good) + P(t >= s, bad) + rho P(M) (1 - eta(s)) + (1 - rho) P(M, bad),    M = {s - D <= t < s}   (1)
        """
        s = np.asarray(shift, dtype=np.float64)
        good, bad = (lambda a, b: self._mass(True, a, b)), (lambda a, b: self._mass(False, a, b))
        low = s - distance
        held = good(-math.inf, low) + bad(s, math.inf)
        real = (good(low, s) + bad(low, s)) * (1.0 - self.eta(s))
        return held + compliance * real + (1.0 - compliance) * bad(low, s)  # (1)

    def figures(self, shift: float, distance: float, compliance: float) -> Figures:
        """Exact: each interval is a point."""
        low = shift - distance
        forced_from, forced_to = max(0.0, low), max(shift, 0.0, low)
        forced = self._all(forced_from, forced_to)
        paid = self._paid(forced_from, forced_to, shift)
        return Figures(
            _exact(float(self.risk(shift, distance, compliance))),
            _exact(self._all(low, math.inf)),
            _exact(self._all(low, max(low, 0.0))),
            _exact(self._all(0.0, max(low, 0.0))),
            _exact(forced),
            _exact(paid / forced) if forced > 0 else Estimate(None, None, None, 0),
        )

    def best(self, distance: float, compliance: float, shifts: np.ndarray | None) -> float:
        """The shift of the least risk: the best of those given, or refined.

        Near its minimum the risk is flat to the last digit: a single minimum is met to about 1e-7 deviations, and its
        risk to rounding. Where D is as good as what was found, it is D.
        """
        from scipy.optimize import minimize_scalar

        if shifts is not None:
            return float(shifts[np.argmin(self.risk(shifts, distance, compliance))])
        edge = self.mean + EDGE * self.sd
        near = np.linspace(-edge - self.threshold, edge - self.threshold, FINE)
        between = np.linspace(near[0], near[-1] + distance, FINE)
        grid = np.unique(np.concatenate([near, near + distance, between]))  # fine where someone is at s, or at s - D
        at = int(np.argmin(self.risk(grid, distance, compliance)))
        ends = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
        found = minimize_scalar(
            lambda s: float(self.risk(s, distance, compliance)),
            bounds=ends,
            method="bounded",
            options={"xatol": 1e-10 * self.sd},
        )
        as_good = self.risk(distance, distance, compliance) <= found.fun + ROUNDING
        return distance if as_good else float(found.x)

    def _mass(self, good: bool, a: Any, b: Any) -> np.ndarray:
        """P(a <= t < b, label)."""
        from scipy.special import ndtr

        centre = (self.mean if good else -self.mean) - self.threshold
        weight = self.share if good else 1.0 - self.share
        return weight * (ndtr((b - centre) / self.sd) - ndtr((a - centre) / self.sd))

    def _all(self, a: float, b: float) -> float:
        return float(self._mass(True, a, b) + self._mass(False, a, b))

    def _paid(self, a: float, b: float, shift: float) -> float:
        """E[(shift - t) 1(a <= t < b)]."""
        total = 0.0
        for good in (True, False):
            centre = (self.mean if good else -self.mean) - self.threshold
            weight = self.share if good else 1.0 - self.share
            bell = [math.exp(-0.5 * ((end - centre) / self.sd) ** 2) / math.sqrt(2.0 * math.pi) for end in (a, b)]
            total += (shift - centre) * float(self._mass(good, a, b)) - weight * self.sd * (bell[0] - bell[1])
        return total


@dataclass(frozen=True, eq=False)
class PeopleLine:
    """People on a line: their signed distances to a boundary, what is known of their labels, and what a move changes.

    Attributes
    ----------
    position : (n,) signed distance to the boundary; from 0 on is a yes.
    eta : (n,) P(good) of each person as they stand; their label, 0 or 1, does as well.
    landing : from a shift to (n,) P(good) of each person if they stood at that position.
    """

    position: np.ndarray
    eta: np.ndarray
    landing: Callable[[float], np.ndarray]

    def __post_init__(self) -> None:
        try:
            position, eta = np.asarray(self.position, dtype=np.float64), np.asarray(self.eta, dtype=np.float64)
        except (TypeError, ValueError):
            raise AuditError("positions or eta hold what is no number.", hint="give one number per person.") from None
        if position.ndim != 1 or position.shape != eta.shape or len(position) < 2:
            raise AuditError(
                f"there are {position.size} positions and {eta.size} probabilities.",
                hint="give one of each per person, for two people or more.",
            )
        if not np.isfinite(position).all():
            raise AuditError("some positions are NaN or infinite.", hint="leave out who has no signed distance.")
        check_probabilities("eta", eta)
        object.__setattr__(self, "position", position)
        object.__setattr__(self, "eta", eta)

    @classmethod
    def of(
        cls, model: Model, people: Any, eta: Callable[[Any], Any], labels: Any = None, norm: float = 2
    ) -> PeopleLine:
        """People before the boundary of a linear model; moves go the shortest way in the encoded space.

        Parameters
        ----------
        eta : from a table to P(good), asked about the legal rows nearest to where people arrive.
        labels : True for the good, one per person; a Series goes by the people's index. They stand for eta at
            people's own rows, without its errors.
        norm : of the moves: 1, 2 or math.inf.
        """
        _, norm = check_distance(0.0, norm)
        if not isinstance(model, LinearMargin) or dual_norm(model, norm) == 0:
            raise AuditError(
                f"{model!r} has no straight boundary to be moved.", hint="use a linear model with weights other than 0."
            )
        if not callable(eta):
            raise AuditError(f"eta={eta!r} is no function.", hint="pass a function from a table to P(good).")
        table = model.schema.table(as_frame(people))
        x = model.schema.encode(table)
        position = (model.margin(x) / dual_norm(model, norm)).numpy()
        direction = steepest(model.weights.unsqueeze(0), norm)

        def landing(shift: float) -> np.ndarray:
            gap = x.new_tensor(shift - position).unsqueeze(1)
            return numbers("eta", eta(model.schema.decode(x + gap * direction)))

        return cls(position, eta(table) if labels is None else aligned("labels", labels, table.index), landing)

    def losses(self, shift: float, distance: float, compliance: float) -> np.ndarray:
        """(n,) probability of a wrong decision about each person after they may have moved; its mean is the risk."""
        t, chance = self.position, self.eta
        moves = (t >= shift - distance) & (t < shift)
        if moves.any() and compliance > 0:
            there = numbers("landing", self.landing(shift))
            if there.shape != t.shape:
                raise AuditError(
                    f"landing gives values of shape {there.shape} for {len(t)} people.", hint="give one per person."
                )
            check_probabilities("landing", there)
            chance = np.where(moves, compliance * there + (1.0 - compliance) * chance, chance)
        return np.where(t >= shift - distance, 1.0 - chance, chance)

    def best(self, distance: float, compliance: float, shifts: np.ndarray | None) -> float:
        """The shift of the least risk among these people; of those given, or from -D to 2 D in steps of D / 40."""
        if shifts is None:
            shifts = distance / STEPS * np.arange(-STEPS, 2 * STEPS + 1) if distance > 0 else np.zeros(1)
        return float(min(shifts, key=lambda s: self.losses(s, distance, compliance).mean()))

    def half(self, seed: int) -> tuple[PeopleLine, PeopleLine]:
        """The people in two halves, by chance."""
        if len(self.position) < 4:
            raise AuditError(
                f"{len(self.position)} people cannot be split into two halves that tell anything.",
                hint="give four people or more; some hundreds tell more.",
            )
        first = np.random.default_rng(seed).permutation(len(self.position)) < len(self.position) // 2
        return self._part(first), self._part(~first)

    def _part(self, rows: np.ndarray) -> PeopleLine:
        return PeopleLine(self.position[rows], self.eta[rows], lambda shift: np.asarray(self.landing(shift))[rows])

    def figures(self, shift: float, distance: float, compliance: float) -> Figures:
        """With intervals over people: score intervals for shares and risks, Student's for the distance."""
        t, low = self.position, shift - distance
        forced = (t >= max(0.0, low)) & (t < shift)
        return Figures(
            Estimate.share(self.losses(shift, distance, compliance)),
            Estimate.share(t >= low),
            Estimate.share((t >= low) & (t < 0)),
            Estimate.share((t < low) & (t >= 0)),
            Estimate.share(forced),
            Estimate.mean(shift - t[forced]),
        )


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value, 0)
