"""A mixed integer program as it is written down: unknowns, rows, and linear expressions in them; solved by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from turnabout.stdout import stdout_for_data

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult


@dataclass(frozen=True)
class LinearSum:
    """constant + sum of weight * unknown."""

    terms: dict[int, float] = field(default_factory=dict)
    constant: float = 0.0

    @classmethod
    def of(cls, weights: np.ndarray) -> LinearSum:
        """The sum with these weights (N,) of the unknowns, in the order in which they were added."""
        some = np.flatnonzero(weights)
        return cls(dict(zip(some.tolist(), weights[some].tolist(), strict=True)))

    def __add__(self, other: LinearSum | float) -> LinearSum:
        if not isinstance(other, LinearSum):
            return LinearSum(self.terms, self.constant + other)
        terms = dict(self.terms)
        for unknown, weight in other.terms.items():
            terms[unknown] = terms.get(unknown, 0.0) + weight
        return LinearSum(terms, self.constant + other.constant)

    def __mul__(self, factor: float) -> LinearSum:
        if factor == 0.0:
            return LinearSum()
        return LinearSum({unknown: factor * weight for unknown, weight in self.terms.items()}, factor * self.constant)

    def __sub__(self, other: LinearSum | float) -> LinearSum:
        return self + other * -1.0 if isinstance(other, LinearSum) else self + -other

    def at(self, values: np.ndarray) -> float:
        """Its value at a solution."""
        return self.constant + sum(weight * float(values[unknown]) for unknown, weight in self.terms.items())


class MixedProgram:
    """Unknowns and rows, added one by one; the objective is a line to be made small.

    scaled : whether each row is divided by its largest weight, so that one tolerance suits all, and one without weights
        is left out; False where rows come in a scale of their own.
    """

    def __init__(self, scaled: bool = True) -> None:
        self.scaled = scaled
        self._low: list[float] = []
        self._high: list[float] = []
        self._whole: list[bool] = []
        self._rows: list[tuple[dict[int, float], float, float]] = []
        self.objective = LinearSum()

    def unknown(self, low: float, high: float, whole: bool = False) -> LinearSum:
        """A new unknown, as a line; held in a unit of its own size, so that one tolerance suits all."""
        size = max(abs(low), abs(high)) if np.isfinite([low, high]).all() and not whole else 1.0
        size = size if size > 0 else 1.0
        self._low.append(low / size)
        self._high.append(high / size)
        self._whole.append(whole)
        return LinearSum({len(self._low) - 1: size})

    def between(self, line: LinearSum, low: float = -np.inf, high: float = np.inf) -> None:
        """Ask for low <= line <= high."""
        if not self.scaled:
            self._rows.append((line.terms, low - line.constant, high - line.constant))
            return
        size = max((abs(weight) for weight in line.terms.values()), default=0.0)
        if size > 0 and (np.isfinite(low) or np.isfinite(high)):
            terms = {unknown: weight / size for unknown, weight in line.terms.items() if abs(weight) > 1e-12 * size}
            self._rows.append((terms, (low - line.constant) / size, (high - line.constant) / size))

    @stdout_for_data()
    def solve(self, seconds: float, gap: float) -> OptimizeResult:
        """Ask HiGHS."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # half a second that most calls never need
        from scipy.sparse import csr_matrix

        size = len(self._low)
        at = [(r, unknown, weight) for r, (terms, _, _) in enumerate(self._rows) for unknown, weight in terms.items()]
        row, column, weight = np.array(at).T if at else np.zeros((3, 0))
        matrix = csr_matrix((weight, (row.astype(int), column.astype(int))), shape=(len(self._rows), size))
        cost = np.zeros(size)
        for unknown, share in self.objective.terms.items():
            cost[unknown] = share
        rows = [LinearConstraint(matrix, [low for _, low, _ in self._rows], [high for _, _, high in self._rows])]
        return milp(
            cost,
            integrality=np.array(self._whole, dtype=np.int64),
            bounds=Bounds(np.array(self._low), np.array(self._high)),
            constraints=rows if self._rows else [],
            options={"time_limit": max(0.01, seconds), "mip_rel_gap": gap},
        )
