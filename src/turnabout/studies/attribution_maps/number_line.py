"""Sets of numbers as intervals that know their ends, and where on a line the answer is yes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.parameters import Whole, checked
from turnabout.typing import Json, Tensor, is_number

HALVINGS = 1200  # enough to bring any two doubles together
LOOKS = 512  # places at which given roots are put to the test
ZERO = 1e-9  # of |f| beside it: how far from 0 f may be at a root, and how near to one it is not asked

Curve = Callable[[Tensor], Tensor]
"""Margins of values on a line, (m,) -> (m,); non-negative is a yes."""


@dataclass(frozen=True)
class Interval(Document):
    """The numbers from low to high; `has_low` and `has_high` say whether the ends belong to it."""

    low: float
    high: float
    has_low: bool = True
    has_high: bool = True

    def __contains__(self, value: float) -> bool:
        above = value > self.low or (self.has_low and value == self.low)
        return above and (value < self.high or (self.has_high and value == self.high))

    @property
    def is_empty(self) -> bool:
        """Whether no number lies in it."""
        return self.low > self.high or (self.low == self.high and not (self.has_low and self.has_high))

    def __and__(self, other: Interval) -> Interval:
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(
            low,
            high,
            all(i.has_low or i.low < low for i in (self, other)),
            all(i.has_high or i.high > high for i in (self, other)),
        )

    def __str__(self) -> str:
        return f"{'[' if self.has_low else '('}{self.low:.6g}, {self.high:.6g}{']' if self.has_high else ')'}"

    def to_dict(self) -> Json:
        """Plain values for JSON; an infinite end is null."""
        ends = {"low": self.low, "high": self.high}
        return super().to_dict() | {name: end if math.isfinite(end) else None for name, end in ends.items()}


@dataclass(frozen=True)
class AcceptedIntervals:
    """Where on [low, high] the answer is yes: finitely many intervals, in order.

    Attributes
    ----------
    accepted : the intervals of yes, apart from each other; a single number may be one.
    exact : whether they are all there are. False after a scan, which may pass by two roots within one cell.
    """

    low: float
    high: float
    accepted: tuple[Interval, ...]
    exact: bool

    @property
    def refused(self) -> tuple[Interval, ...]:
        """The intervals of no, in order."""
        out, low, has_low = [], self.low, True
        for yes in self.accepted:
            out.append(Interval(low, yes.low, has_low, not yes.has_low))
            low, has_low = yes.high, not yes.has_high
        out.append(Interval(low, self.high, has_low, True))
        return tuple(part for part in out if not part.is_empty)

    @classmethod
    def from_cells(cls, ends: list[float], at: list[bool], between: list[bool], exact: bool) -> AcceptedIntervals:
        """From the answer at some numbers in order, the range's ends first and last, and between each two of them."""
        parts: list[Interval] = []
        for i, end in enumerate(ends):
            if at[i]:
                parts.append(Interval(end, end))
            if i < len(between) and between[i]:
                parts.append(Interval(end, ends[i + 1], False, False))
        joined: list[Interval] = []
        for part in parts:
            last = joined[-1] if joined else None
            if last is not None and last.high == part.low and (last.has_high or part.has_low):
                joined[-1] = Interval(last.low, part.high, last.has_low, part.has_high)
            else:
                joined.append(part)
        return cls(ends[0], ends[-1], tuple(joined), exact)

    @classmethod
    def from_roots(cls, f: Curve, roots: Iterable[float], low: float, high: float) -> AcceptedIntervals:
        """From all roots of a continuous f within [low, high].

        Refused where f is not 0 at one of them, or where on a coarse grid it says yes and no between two of them: that
        all roots are there is taken on trust beyond this grid.
        """
        check_range(low, high)
        inside = sorted({float(r) for r in roots})
        if not all(math.isfinite(r) for r in inside):
            raise AuditError("a root is NaN or infinite.", hint="give the numbers at which f is 0.")
        line = cls.between(f, inside, low, high)
        _check_roots(f, inside, line)
        return line

    @classmethod
    def between(cls, f: Curve, roots: Iterable[float], low: float, high: float) -> AcceptedIntervals:
        """From roots that are known to be all there are; the sign of f between them is asked once."""
        inside = sorted(roots)
        ends = [float(low), *(r for r in inside if low < r < high), float(high)]
        middle = _ask(f, torch.tensor([(a + b) / 2 for a, b in itertools.pairwise(ends)], dtype=torch.float64))
        border = _ask(f, torch.tensor([low, high], dtype=torch.float64))
        outer = [bool(border[0]) or float(low) in inside, bool(border[1]) or float(high) in inside]
        at = [outer[0], *(True for _ in ends[1:-1]), outer[1]]
        return cls.from_cells(ends, at, [bool(v) for v in middle], exact=True)

    @classmethod
    @checked(AuditError, cells=Whole(1))
    def scan(cls, f: Curve, low: float, high: float, cells: int = 4096) -> AcceptedIntervals:
        """From a grid, each change of the answer brought to neighbouring doubles by halving."""
        check_range(low, high)
        grid = torch.linspace(low, high, cells + 1, dtype=torch.float64)
        yes = _ask(f, grid)
        turns = (yes[1:] != yes[:-1]).nonzero().squeeze(1)
        a, b, start = grid[turns], grid[turns + 1], yes[turns]
        for _ in range(HALVINGS):
            middle = a / 2 + b / 2
            if not ((middle > a) & (middle < b)).any():
                break
            same = _ask(f, middle) == start
            a, b = torch.where(same, middle, a), torch.where(same, b, middle)
        # the accepted side of each change is the end of an interval of yes, and belongs to it
        ends = [low, *torch.where(start, a, b).tolist(), high]
        at = [bool(yes[0]), *(True for _ in turns), bool(yes[-1])]
        between = [bool(yes[0]), *(bool(v) for v in yes[turns + 1])]
        return cls.from_cells([float(e) for e in ends], at, between, exact=False)


def without(whole: Interval, parts: Iterable[Interval]) -> tuple[Interval, ...]:
    """What is left of an interval when some others are taken out, in order."""
    out, low, has_low = [], whole.low, whole.has_low
    for part in sorted(parts, key=lambda p: (p.low, not p.has_low)):
        before = Interval(low, part.low, has_low, not part.has_low) & whole
        out += [] if before.is_empty else [before]
        if (part.high, part.has_high) >= (low, not has_low):
            low, has_low = part.high, not part.has_high
    last = Interval(low, whole.high, has_low, whole.has_high) & whole
    return (*out, *(() if last.is_empty else (last,)))


def _check_roots(f: Curve, roots: list[float], line: AcceptedIntervals) -> None:
    """Refuse roots at which f is not 0, and those between which it changes its answer."""
    inside = [r for r in roots if line.low <= r <= line.high]
    known = torch.tensor([line.low, *inside, line.high], dtype=torch.float64).unique()
    beside = _values(f, known[:-1] / 2 + known[1:] / 2).abs()
    if inside:
        at = torch.tensor(inside, dtype=torch.float64)
        gap = torch.searchsorted(known, at)
        scale = torch.maximum(beside[(gap - 1).clamp(min=0)], beside[gap.clamp(max=len(beside) - 1)])
        value = _values(f, at)
        off = (value.abs() > ZERO * scale).nonzero().squeeze(1)
        if len(off):
            i = int(off[0])
            raise AuditError(
                f"f is {float(value[i]):g} at the root {inside[i]:g}.",
                hint="give the numbers at which f is 0, or leave roots out.",
            )
    grid = torch.linspace(line.low, line.high, LOOKS + 1, dtype=torch.float64)
    near = ZERO * (line.high - line.low)
    grid = grid[(grid.unsqueeze(1) - known).abs().amin(1) > near]
    said = [any(v in part for part in line.accepted) for v in grid.tolist()]
    other = (_ask(f, grid) != torch.tensor(said, dtype=torch.bool)).nonzero().squeeze(1)
    if len(other):
        raise AuditError(
            f"f changes its answer between the roots that are given: at {float(grid[other[0]]):g}.",
            hint="give all its roots, or leave roots out.",
        )


def _ask(f: Curve, values: Tensor) -> Tensor:
    """(m,) whether f says yes."""
    return _values(f, values) >= 0


def _values(f: Curve, values: Tensor) -> Tensor:
    """(m,) what f says, checked."""
    if not callable(f):
        raise AuditError(f"f is a {type(f).__name__}, not a function.", hint="pass margins of numbers (m,) -> (m,).")
    with torch.no_grad():
        said = f(values)
    try:
        answer = torch.as_tensor(said).detach().to(torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise AuditError(f"f answers with {type(said).__name__}.", hint="return one margin per number.") from None
    if answer.shape != values.shape:
        raise AuditError(
            f"f answers {len(values)} numbers with shape {tuple(answer.shape)}.", hint="return one margin per number."
        )
    if answer.isnan().any():
        bad = values[answer.isnan()][0].item()
        raise AuditError(f"f is NaN at {bad:g}.", hint="choose a range on which f is defined.")
    return answer


def check_range(low: float, high: float) -> None:
    """Refuse what is no range."""
    if not (is_number(low) and is_number(high) and low < high):
        raise AuditError(f"[{low!r}, {high!r}] is no range.", hint="use two finite numbers, low < high.")
