"""What a self-interested lender does when everyone near the boundary moves, and who pays for it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from turnabout.audit.estimate import Estimate
from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.parameters import Share, Whole, checked
from turnabout.studies.strategic.effective import check_distance
from turnabout.studies.strategic.threshold_lines import Figures, GaussianLine, PeopleLine


@dataclass(frozen=True)
class Response(Document):
    """What the lender may do about one kind of people.

    Attributes
    ----------
    compliance : share of movers whose improvement is real.
    stay : the boundary is left where it is.
    shift : it is moved by D, so that in effect it is where it was (the partner classifier).
    best : it is moved to where the lender's risk is least, by `best_shift`. In a sample that shift is chosen on one
        half of the people and these figures are of the other: at a shift chosen on the same people the risk would look
        too low. They say what this shift does, which is a little more risk than the best one of the population has.
    """

    compliance: float
    stay: Figures
    shift: Figures
    best: Figures
    best_shift: float

    keys = "compliance best_shift stay shift best"


@dataclass(frozen=True)
class StrategicResponse(Document):
    """The lender's response to recourse within a distance, and what it means for people.

    Attributes
    ----------
    distance : D; people farther from the boundary do not move.
    exact : True for a population, whose figures have no error but rounding (a best shift is met to about 1e-7
        deviations); else they are estimates from n people.
    risk_before, approved_before : without any recourse.
    responses : for compliant people, for defiant ones, and for the mixture asked for if it is neither.
    """

    distance: float
    exact: bool
    risk_before: Estimate
    approved_before: Estimate
    responses: tuple[Response, ...]

    @property
    def compliant(self) -> Response:
        """When every improvement is real."""
        return self.responses[0]

    @property
    def defiant(self) -> Response:
        """When none is."""
        return self.responses[1]

    def to_frame(self) -> pd.DataFrame:
        """A line per kind of people, boundary and figure: compliance, boundary, shift, figure, value, low, high, n."""
        rows = []
        for response in self.responses:
            moves = {"stay": 0.0, "shift": self.distance, "best": response.best_shift}
            for boundary, by in moves.items():
                for figure, estimate in _figures(getattr(response, boundary)).items():
                    ends = (estimate.value, estimate.low, estimate.high, estimate.n)
                    rows.append((response.compliance, boundary, by, figure, *ends))
        columns = ["compliance", "boundary", "shift", "figure", "value", "low", "high", "n"]
        return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(("value", "low", "high"), "Float64"))

    def __str__(self) -> str:
        show = _plain if self.exact else str
        lines = [
            f"before recourse: risk {show(self.risk_before)}, approved {show(self.approved_before)}",
            f"with recourse to who is within {self.distance:g} of the boundary:",
        ]
        for r in self.responses:
            lines += [
                f"  compliance {r.compliance:g}: boundary kept, risk {show(r.stay.risk)}; "
                f"moved by {self.distance:g}, risk {show(r.shift.risk)}",
                f"    best for the lender: moved by {r.best_shift:.4g}, risk {show(r.best.risk)}, "
                f"approved {show(r.best.approved)}",
                f"    approved before, must now move: {show(r.best.newly_forced)}; "
                f"no longer approved: {show(r.best.newly_refused)}",
            ]
        return "\n".join(lines)


@checked(AuditError, compliance=Share(), seed=Whole(0))
def strategic_response(
    line: GaussianLine | PeopleLine,
    distance: float,
    compliance: float = 1.0,
    shifts: Any = None,
    seed: int = 0,
) -> StrategicResponse:
    r"""Where a lender that minimises its own risk puts the boundary, when people within a distance of it move onto it.

        users at   s - D <= t < s   move to s;    R(s) = P(wrong decision after the moves)                     (1)

    Two theorems say what to expect. With defiant people R(s) is the risk of the threshold s - D without recourse, so
    the best the lender can do is to move the boundary by D, and recourse is cancelled: the risk and who is approved are
    as before, only that people near the boundary must now pay. With compliant people the risk after moving by D bounds
    the least one from above. Both hold for families that are invariant under recourse, as all thresholds together are.

    Parameters
    ----------
    line : a population, GaussianLine, whose figures are exact; or a sample, PeopleLine, whose figures have intervals.
    distance : D, in the units of the line.
    compliance : share of movers whose improvement is real, answered beside 1 and 0.
    shifts : where to look for the best boundary. By default everywhere for a population, and from -D to 2 D in steps
        of D / 40 for a sample.
    seed : of the two halves of a sample, one to choose the shift on and one to judge it on.

    References
    ----------
    Fokkema, Garreau, van Erven (2024), The risks of recourse in binary classification.
    """
    if not isinstance(line, (GaussianLine, PeopleLine)):
        raise AuditError(
            f"{type(line).__name__} is no line of people.",
            hint="pass a GaussianLine, or PeopleLine.of(model, people, eta).",
        )
    distance, _ = check_distance(distance, 2)
    where = _read_shifts(shifts)
    before = line.figures(0.0, 0.0, 0.0)
    kinds = [1.0, 0.0, *([float(compliance)] if 0 < compliance < 1 else [])]
    responses = tuple(_respond(line, distance, kind, where, seed) for kind in kinds)
    return StrategicResponse(distance, isinstance(line, GaussianLine), before.risk, before.approved, responses)


def _respond(
    line: GaussianLine | PeopleLine, distance: float, compliance: float, shifts: np.ndarray | None, seed: int
) -> Response:
    stay, shift = (line.figures(s, distance, compliance) for s in (0.0, distance))
    chosen_on, judged_on = line.half(seed) if isinstance(line, PeopleLine) else (line, line)
    at = chosen_on.best(distance, compliance, shifts)
    return Response(compliance, stay, shift, judged_on.figures(at, distance, compliance), at)


def _read_shifts(shifts: Any) -> np.ndarray | None:
    if shifts is None:
        return None
    try:
        where = np.asarray(shifts, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        where = np.array([np.nan])
    if not len(where) or not np.isfinite(where).all():
        raise AuditError(f"shifts={shifts!r} are no places for a boundary.", hint="give finite numbers, or None.")
    return where


def _figures(figures: Figures) -> dict[str, Estimate]:
    return {field.name: getattr(figures, field.name) for field in fields(figures)}


def _plain(estimate: Estimate) -> str:
    return "unknown" if estimate.value is None else f"{estimate.value:.5f}"
