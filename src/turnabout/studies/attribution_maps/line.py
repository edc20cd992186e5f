"""One dimension, decided exactly: can any continuous explanation point everyone to a yes within reach?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.parameters import Choice, Positive, checked
from turnabout.studies.attribution_maps.number_line import AcceptedIntervals, Curve, Interval, without
from turnabout.typing import Moves, Tensor

TIES = 32  # units in the last place within which a length of moves counts as equal to a width, or to half of it
OFF_CENTRE = 0.382  # a start pair is not symmetric, or the first midpoint would fall on the zero of an odd map


@dataclass(frozen=True)
class Component(Document):
    """A connected piece of the refused numbers from which some move succeeds.

    Attributes
    ----------
    where : the piece.
    left, right : the parts of it from which a move to the left, or to the right, succeeds; None for none.
    """

    where: Interval
    left: Interval | None
    right: Interval | None


@dataclass(frozen=True)
class LineConflict(Document):
    """A component on which every continuous explanation fails somewhere.

    Attributes
    ----------
    where : the component.
    left_only, right_only : the parts from which only a move to the left, or only one to the right, succeeds.
    start : a point of each, not symmetric: where a search for a witness begins.
    """

    where: Interval
    left_only: Interval
    right_only: Interval
    start: tuple[float, float]

    def __str__(self) -> str:
        return f"{self.where}: only left succeeds on {self.left_only}, only right on {self.right_only}"


@dataclass(frozen=True)
class LineReport(Document):
    """Whether a continuous and recourse-sensitive explanation exists on a line.

    Attributes
    ----------
    possible : whether there is one.
    components : the pieces of the refused numbers from which some move succeeds.
    conflicts : the components that forbid it.
    exact : whether the roots of f are known. Otherwise the answer holds for the roots that the scan found.
    """

    delta: float
    possible: bool
    components: tuple[Component, ...]
    conflicts: tuple[LineConflict, ...]
    exact: bool

    keys = "delta possible exact components conflicts"

    def __str__(self) -> str:
        how = "" if self.exact else " (roots found by a scan)"
        if self.possible:
            return f"delta {self.delta:g}: an explanation can be continuous and recourse sensitive{how}"
        where = "; ".join(str(c) for c in self.conflicts)
        return f"delta {self.delta:g}: no explanation is both continuous and recourse sensitive{how}: {where}"


@checked(AuditError, delta=Positive(), moves=Choice("free", "up", "down", "fixed"))
def one_dimension(
    f: Curve | AcceptedIntervals,
    delta: float,
    low: float | None = None,
    high: float | None = None,
    *,
    roots: Iterable[float] | None = None,
    moves: Moves = "free",
    cells: int = 4096,
) -> LineReport:
    r"""Whether a continuous phi can point every refused x to a yes at most delta away.

        L, R = refused x from which some move of length <= delta to the left, right ends in f >= 0
        possible  iff  each connected component of L u R lies in L or lies in R                              (1)

    On a component with points of both L \ R and R \ L a continuous phi changes sign, so it vanishes where it must not.
    In a refused interval of width w between two intervals of yes that happens for w / 2 <= delta < w (2); the ends
    change sides where the refused interval holds both of its own. Moves do not leave [low, high]. A delta that equals w
    or w / 2 up to rounding counts as equal to it.

    Parameters
    ----------
    f : margins of values on the line, or `AcceptedIntervals` that are known already.
    delta : how far a move may go.
    low, high : the range; not for AcceptedIntervals.
    roots : all roots of a continuous f in the range; without them f is scanned on a grid, and exact is False.
    moves : "up" leaves only R, "down" only L, "fixed" neither.
    cells : cells of the grid.

    References
    ----------
    Fokkema, de Heide, van Erven (2023), Attribution-based explanations that provide recourse cannot be robust.
    """
    line = _read(f, low, high, roots, cells)
    components: list[Component] = []
    conflicts: list[LineConflict] = []
    for gap in line.refused:
        left, right = _successes(line, gap, delta, moves)
        if left is None or right is None:
            components += [Component(side, left, right) for side in (left, right) if side is not None]
            continue
        bad = _conflict_range(gap, delta)
        if delta < bad.low or (delta == bad.low and not bad.has_low):  # L and R do not meet
            components += [Component(left, left, None), Component(right, None, right)]
            continue
        components.append(Component(gap, left, right))
        if delta in bad:
            left_only = Interval(gap.low, right.low, gap.has_low, not right.has_low)
            right_only = Interval(left.high, gap.high, not left.has_high, gap.has_high)
            start = left_only.low / 2 + left_only.high / 2, _mix(right_only.low, right_only.high)
            conflicts.append(LineConflict(gap, left_only, right_only, start))
    return LineReport(float(delta), not conflicts, tuple(components), tuple(conflicts), line.exact)


@checked(AuditError, moves=Choice("free", "up", "down", "fixed"))
def conflict_free_deltas(
    f: Curve | AcceptedIntervals,
    low: float | None = None,
    high: float | None = None,
    *,
    roots: Iterable[float] | None = None,
    moves: Moves = "free",
    cells: int = 4096,
) -> tuple[Interval, ...]:
    """The delta for which `one_dimension` answers possible, as intervals within (0, inf); parameters as there."""
    line = _read(f, low, high, roots, cells)
    bad = [
        _conflict_range(gap, math.inf)
        for gap in line.refused
        if all(side is not None for side in _successes(line, gap, math.inf, moves))
    ]
    return without(Interval(0.0, math.inf, False, False), bad)


def settled(width: Tensor, delta: float, scale: Tensor) -> Tensor:
    """Widths (m,), made equal to delta, or twice delta, where only rounding tells them apart.

    Parameters
    ----------
    scale : (m,) size of the numbers that a width is the difference of.
    """
    if not math.isfinite(delta):
        return width
    tie = TIES * torch.finfo(width.dtype).eps * (scale + delta)
    width = torch.where((width - delta).abs() <= tie, delta, width)
    return torch.where((width - 2 * delta).abs() <= tie, 2 * delta, width)


def _width(gap: Interval, delta: float) -> float:
    width, scale = torch.tensor([gap.high - gap.low, max(abs(gap.low), abs(gap.high))], dtype=torch.float64)
    return float(settled(width, delta, scale))


def _conflict_range(gap: Interval, delta: float) -> Interval:
    """The delta that make a refused interval between two of yes a conflict: (2)."""
    width, both = _width(gap, delta), gap.has_low and gap.has_high
    return Interval(width / 2, width, not both, both)


def _successes(
    line: AcceptedIntervals, gap: Interval, delta: float, moves: Moves
) -> tuple[Interval | None, Interval | None]:
    """The parts of a refused interval from which a move to the left, to the right succeeds."""
    left = right = None
    width = _width(gap, delta)
    up_to, down_to = gap.low + delta, gap.high - delta
    if width == delta:  # the ends themselves, whatever rounding makes of them
        up_to, down_to = gap.high, gap.low
    elif width == 2 * delta:
        up_to = down_to = gap.low / 2 + gap.high / 2
    if gap.low > line.low or not gap.has_low:
        # from an open end of the yes nobody steps onto the end itself, so the farthest start is open too
        left = gap & Interval(-math.inf, up_to, False, not gap.has_low)
    if gap.high < line.high or not gap.has_high:
        right = gap & Interval(down_to, math.inf, not gap.has_high, False)
    return left if moves in ("free", "down") else None, right if moves in ("free", "up") else None


def _mix(low: float, high: float) -> float:
    return high - OFF_CENTRE * (high - low)


def _read(
    f: Curve | AcceptedIntervals, low: float | None, high: float | None, roots: Iterable[float] | None, cells: int
) -> AcceptedIntervals:
    if isinstance(f, AcceptedIntervals):
        if low is not None or high is not None or roots is not None:
            raise AuditError("AcceptedIntervals have their own range and roots.", hint="leave out low, high and roots.")
        return f
    if low is None or high is None:
        raise AuditError("the range of the line is not given.", hint="pass low= and high=.")
    return (
        AcceptedIntervals.scan(f, low, high, cells)
        if roots is None
        else AcceptedIntervals.from_roots(f, roots, low, high)
    )
