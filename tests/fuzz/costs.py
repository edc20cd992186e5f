"""What a change costs, computed a second time on the cells of two rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from fuzz.columns import Cell, Column

PER_CHANGE = 0.1  # what Effort takes for each column that changes


@dataclass(frozen=True)
class Price:
    """A sum of L1, L0, L2, MAD, percentile shifts and Effort, each with a factor.

    parts : kind -> factor. difficulty : weight of each column. background : rows, for MAD, percentiles and Effort.
    measured : whether the library has the background too; without it, Effort takes the ranges.
    """

    parts: Mapping[str, float]
    difficulty: Mapping[str, float] = field(default_factory=dict)
    measured: bool = True

    def cost(
        self, columns: Sequence[Column], background: Sequence[Sequence[Cell]], old: Sequence[Cell], new: Sequence[Cell]
    ) -> float:
        """The cost of a change."""
        total = 0.0
        for kind, factor in self.parts.items():
            w = [self.difficulty.get(c.name, 1.0) for c in columns]
            gaps = [c.distance(a, b) for c, a, b in zip(columns, old, new)]
            if kind == "L2":
                total += factor * sum((w_f * gap) ** 2 for w_f, gap in zip(w, gaps)) ** 0.5
                continue
            if kind == "L0":
                gaps = [float(gap > 1e-12) for gap in gaps]
            elif kind == "MAD":
                gaps = [
                    gap / spread(c, [row[i] for row in background]) for i, (c, gap) in enumerate(zip(columns, gaps))
                ]
            elif kind == "Effort":
                rows = background if self.measured else []
                widths = [ordinary(c, [row[i] for row in rows]) for i, c in enumerate(columns)]
                gaps = [gap / width + PER_CHANGE * (gap > 1e-12) for gap, width in zip(gaps, widths)]
            elif kind == "PercentileShift":
                gaps = [_overtakes(c, [row[i] for row in background], old[i], new[i]) for i, c in enumerate(columns)]
            total += factor * sum(w_f * gap for w_f, gap in zip(w, gaps))
        return total

    def spec(self) -> dict[str, Any]:
        """The cost as turnabout's own documents write it."""
        terms = []
        for kind, factor in self.parts.items():
            leaf: dict[str, Any] = {"kind": kind} | ({"difficulty": dict(self.difficulty)} if self.difficulty else {})
            terms.append(leaf if factor == 1.0 else {"kind": "Scaled", "factor": factor, "cost": leaf})
        return terms[0] if len(terms) == 1 else {"kind": "Sum", "terms": terms}

    @property
    def background_needed(self) -> bool:
        return bool({"MAD", "PercentileShift"} & set(self.parts))


def spread(column: Column, cells: Sequence[Cell]) -> float:
    """Median absolute deviation, else standard deviation, else the range, as a share of the range."""
    seen = [cell for cell in cells if cell is not None]
    if not seen or column.kind == "passthrough":
        return 1.0
    if column.kind == "category":
        share = [sum(column.position(cell) == k for cell in seen) / len(seen) for k in range(len(column.levels))]
        return (sum(p * (1 - p) for p in share) / 2) ** 0.5 or 1.0
    places = [_place(column, cell) for cell in seen]
    middle = median(places)
    mad = median(abs(v - middle) for v in places)
    return mad if mad > 1e-12 else float(np.std(places)) if np.std(places) > 1e-12 else 1.0


def ordinary(column: Column, cells: Sequence[Cell]) -> float:
    """From the 5th to the 95th hundredth of people, else from the 1st to the 99th, else one standard deviation."""
    if column.kind in ("category", "passthrough"):
        return 1.0
    places = sorted(_place(column, cell) for cell in cells if cell is not None)
    if not places:
        return 1.0
    last = len(places) - 1
    widths = [places[round(high * last)] - places[round(low * last)] for low, high in ((0.05, 0.95), (0.01, 0.99))]
    return next((width for width in [*widths, float(np.std(places))] if width > 1e-12), 1.0)


def _place(column: Column, cell: Cell) -> float:
    return (column.unit(cell) - (column.low if column.kind == "number" else 0.0)) / column.span


def _overtakes(column: Column, cells: Sequence[Cell], old: Cell, new: Cell) -> float:
    """The share of the background between two values; straight lines between the values that occur."""
    seen = sorted(_place(column, cell) for cell in cells if cell is not None) if column.kind != "category" else []
    if old is None or new is None or column.kind in ("binary", "category") or not column.chosen or not seen:
        return column.distance(old, new)
    knots = sorted(set(seen))
    shares = [sum(v <= knot for v in seen) / len(seen) for knot in knots]
    if knots[0] > 0:
        knots, shares = [0.0, *knots], [0.0, *shares]
    return abs(float(np.interp(_place(column, new), knots, shares) - np.interp(_place(column, old), knots, shares)))
