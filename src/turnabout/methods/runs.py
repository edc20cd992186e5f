"""The values one person's features may take, cut into runs of neighbours that a linear program can price.

A *run* is a stretch of legal values of one feature over which its cost is close to a straight line, and what it adds
to the margin is one. Runs also end where a condition of a rule begins or ends to hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from turnabout.core import Problem
from turnabout.methods.moves import bent_features
from turnabout.models import Terms
from turnabout.rules.rule import TOLERANCE
from turnabout.schema import Category, Scalar
from turnabout.schema.features import GRID_NOISE
from turnabout.schema.legal_values import first_beyond, is_stuck, legal_multiples, value_at
from turnabout.typing import Tensor

Shape = Literal["linear", "sum", "squares", "max"]
"""How a cost is made of its features' shares: linear in distances and changes, a sum, the root of a sum of squares, or
the largest share."""

SAMPLES = 2048  # values of a feature at which a cost that is not linear is read
ERROR = {"linear": 1e-12, "sum": 1e-5, "squares": 1e-4, "max": 1e-5}  # of the first straight lines, by shape


@dataclass(frozen=True)
class ValueRun:
    """Neighbouring legal values of one feature: start (d,) is added to x, then up to `length` steps in one column."""

    feature: int
    start: np.ndarray
    column: int
    step: float
    length: int
    cost: float
    slope: float  # cost of one step
    gain: float  # of margin, at the start
    rise: float  # of margin, with each step
    q: int = 0  # first multiple of the feature's step, for scalars
    side: int = 0
    place: int = 0  # of that multiple among the legal values of its side


@dataclass
class Curve:
    """What one side of a scalar costs: places among its legal values, what they cost, and where runs must start."""

    first: int
    count: int
    at: np.ndarray
    values: np.ndarray
    costs: np.ndarray
    cuts: np.ndarray


class Runs:
    """The runs of one person.

    Parameters
    ----------
    problem, terms : the question, and the model's margin.
    x : their row (1, d), on the CPU in float64.
    blocked : (F,) features they may not use.
    """

    def __init__(self, problem: Problem, terms: Terms, x: Tensor, blocked: np.ndarray, shape: Shape):
        self.problem, self.terms, self.x, self.shape = problem, terms, x, shape
        self.weights = terms.weights.numpy()
        self.bent = bent_features(problem.schema, terms)
        self.free = [f for f in range(len(problem.schema)) if not blocked[f]]
        self.curves: dict[tuple[int, int], Curve | None] = {}

    def all(self) -> list[ValueRun]:
        """Of all features, as finely as they are cut so far."""
        return [run for f in self.free for run in self._runs(f)]

    def refine(self, chosen: Iterable[tuple[ValueRun, int]]) -> bool:
        """Cut runs around the values a plan uses, so many steps into each; False where there is nothing left to cut."""
        finer = False
        for run, steps in chosen:
            curve = self.curves.get((run.feature, run.side))
            feature = self.problem.schema.features[run.feature]
            if run.length == 0 or curve is None or not isinstance(feature, Scalar):
                continue
            here, reach = run.place + steps, max(1, run.length // 8)
            marks = np.array([run.place, here - reach, here, here + 1, here + reach])
            marks = np.unique(np.clip(marks, run.place, run.place + run.length))
            marks = marks[(marks > 0) & (marks < curve.count)]
            finer |= bool(np.setdiff1d(marks, curve.cuts).size)
            self._read(run.feature, feature, run.side, curve, marks)
            curve.cuts = np.union1d(curve.cuts, marks)
        return finer

    def _runs(self, f: int) -> list[ValueRun]:
        schema = self.problem.schema
        feature, s = schema.features[f], schema.slices[f]
        own = self.x[:, s]
        if bool(is_stuck(feature, own)):
            return []
        if isinstance(feature, Category):
            here = int(own[0, : len(feature.levels)].argmax())
            rows = []
            for level in range(len(feature.levels)):
                if level != here:
                    start = np.zeros(schema.d)
                    start[s.start + here], start[s.start + level] = -1.0, 1.0
                    rows.append(start)
            costs = self._costs(f, torch.from_numpy(np.stack(rows)) + self.x)
            gains = np.stack(rows) @ self.weights
            runs = [
                ValueRun(f, row, s.start, 0.0, 0, float(c), 0.0, float(g), 0.0) for row, c, g in zip(rows, costs, gains)
            ]
            return [run for run in self._known(runs) if self.problem.rules or run.gain > 0]
        assert isinstance(feature, Scalar)
        sides: tuple[int, ...] = (1, -1)
        if not self.problem.rules and f not in self.bent:
            sides = tuple(side for side in sides if side * self.weights[s.start] > 0)
        runs = [run for side in sides for run in self._side(f, feature, side)]
        # without rules, a change that lowers the margin is in no cheapest plan
        return [r for r in self._known(runs) if self.problem.rules or max(r.gain, r.gain + r.length * r.rise) > 0]

    def _known(self, runs: list[ValueRun]) -> list[ValueRun]:
        """The runs without those of levels that a rule avoids."""
        for rule in self.problem.rules:
            if rule.avoided:
                runs = [r for r in runs if not bool(rule.violation(self.x, self.x + torch.from_numpy(r.start))[0] > 0)]
        return runs

    def _side(self, f: int, feature: Scalar, side: int) -> list[ValueRun]:
        """Runs of a scalar's values above, or below, their own."""
        column, d = self.problem.schema.slices[f].start, self.problem.schema.d
        if (f, side) not in self.curves:
            self.curves[f, side] = self._curve(f, feature, side)
        curve = self.curves[f, side]
        if curve is None:
            return []
        runs = []
        at, costs = curve.at, curve.costs
        ends = _straight(at, costs, curve.cuts, ERROR[self.shape])
        for a, b in itertools.pairwise(ends):
            last = curve.count if b == len(at) else int(at[b])  # one past the run's last value
            length = last - 1 - int(at[a])
            tip = min(b, len(at) - 1)
            slope = (costs[tip] - costs[a]) / max(1, at[tip] - at[a]) if length else 0.0
            line = costs[a] + slope * (at[a : tip + 1] - at[a])
            error = max(0.0, float((line - costs[a : tip + 1]).max())) if length else 0.0
            start = np.zeros(d)
            start[column] = curve.values[a] - float(self.x[0, column])
            step, q = side * feature.choice_step / feature.span, curve.first + side * int(at[a])
            gain, rise = self.weights[column] * start[column], self.weights[column] * step
            if f in self.bent:
                tip_q = torch.tensor(float(q + side * length), dtype=torch.float64)
                gain, rise = self._gains(column, curve.values[a], float(value_at(feature, tip_q)), length)
            price = (costs[a] - error, slope)  # never above the true cost
            runs.append(ValueRun(f, start, column, step, length, *price, gain, rise, q, side, int(at[a])))
        return runs

    def _gains(self, column: int, start: float, end: float, length: int) -> tuple[float, float]:
        """Margin that a run of a bent feature adds at its start, and with each step."""
        points = torch.tensor([float(self.x[0, column]), start, end], dtype=torch.float64)
        own, near, far = self.terms.term(column, points).tolist()
        return near - own, (far - near) / max(1, length)

    def _curve(self, f: int, feature: Scalar, side: int) -> Curve | None:
        own = self.x[:, self.problem.schema.slices[f].start]
        first, count = (int(v) for v in legal_multiples(feature, own, side > 0))
        if count == 0:
            return None
        samples = min(count, 2 if self.shape == "linear" else SAMPLES)
        few = np.unique(np.rint(np.linspace(0, count - 1, samples)).astype(np.int64))
        if self.shape != "linear" and self.problem.background_x is not None:  # where percentiles bend
            bends = self._bends(f, feature)
            places = side * (bends - first)
            few = np.union1d(few, places[(places >= 0) & (places < count)])
        cuts = self._cuts(f, feature, first, side, count)
        curve = Curve(first, count, np.zeros(0, np.int64), np.zeros(0), np.zeros(0), cuts)
        self._read(f, feature, side, curve, np.union1d(few, cuts))
        return curve

    def _bends(self, f: int, feature: Scalar) -> np.ndarray:
        """Multiples of the step beside the values that background people have, SAMPLES of them at most."""
        assert self.problem.background_x is not None
        values = torch.unique(self.problem.background_x[:, self.problem.schema.slices[f].start])
        values = values[:: max(1, 2 * len(values) // SAMPLES)]
        q = feature.units(values).numpy() / feature.choice_step
        return np.unique(np.concatenate([np.floor(q), np.ceil(q)])).astype(np.int64)

    def _read(self, f: int, feature: Scalar, side: int, curve: Curve, places: np.ndarray) -> None:
        """Read the cost at more places."""
        places = np.setdiff1d(places, curve.at)
        values = value_at(feature, torch.from_numpy(curve.first + side * places).to(torch.float64))
        rows = self.x.expand(len(places), -1).clone()
        rows[:, self.problem.schema.slices[f].start] = values
        order = np.argsort(at := np.concatenate([curve.at, places]))
        curve.values = np.concatenate([curve.values, values.numpy()])[order]
        curve.costs = np.concatenate([curve.costs, self._costs(f, rows)])[order]
        curve.at = at[order]

    def _cuts(self, f: int, feature: Scalar, first: int, side: int, count: int) -> np.ndarray:
        """Places among the legal values (0 .. count - 1) where the margin bends or has jumped, or a condition turns."""
        own = float(self.x[0, self.problem.schema.slices[f].start])
        start = float(value_at(feature, torch.tensor(float(first), dtype=torch.float64)))
        grid_step = feature.choice_step / feature.span
        places: set[int] = set()
        for knot in self.terms.knots[self.terms.columns == self.problem.schema.slices[f].start].tolist():
            places.add(int(np.ceil(side * (knot - start) / grid_step - GRID_NOISE)))
        for q in first_beyond(feature, self.terms.cuts(self.problem.schema.slices[f].start)).tolist():
            places.add(int(q) - first if side > 0 else first - int(q) + 1)
        for rule in self.problem.rules:
            for k in (side * (level - first) for level in rule.avoided.get(f, ())):
                places |= {k, k + 1}
            for condition in (part for row in rule.count_form or () for _, part in row.terms):
                if condition.feature != f:
                    continue
                if condition.target is not None:
                    k = round(side * (float(condition.target[0]) - start) / grid_step)
                    places |= {k, k + 1}
                elif condition.threshold is not None:
                    away = condition.threshold - side * (start - own)
                    places.add(int(np.ceil((away - TOLERANCE) / grid_step)))
        return np.array(sorted(k for k in places if 0 < k < count), dtype=np.int64)

    def _costs(self, f: int, rows: Tensor) -> np.ndarray:
        share = self.problem.cost.per_feature(self.x.expand_as(rows), rows)[:, f].numpy()
        return share**2 if self.shape == "squares" else share


def _straight(at: np.ndarray, costs: np.ndarray, cuts: np.ndarray, error: float) -> list[int]:
    """Cut a curve, costs over places `at`, into runs: starts of the runs and the number of places.

    A run goes on up to the next one's start; over both, the straight line errs by at most `error`.
    """
    fixed = [0, *np.searchsorted(at, cuts).tolist()]
    ends: list[int] = []
    for a, b in zip(fixed, [*fixed[1:], len(at)]):
        ends += _split(at, costs, a, min(b, len(at) - 1), error)
    return sorted(set(ends) | {len(at)})


def _split(at: np.ndarray, costs: np.ndarray, a: int, b: int, error: float) -> Sequence[int]:
    """Starts of runs between places a and b, by halving at the worst point."""
    starts, todo = [], [(a, b)]
    while todo:
        a, b = todo.pop()
        starts.append(a)
        if b - a < 2:
            continue
        line = costs[a] + (costs[b] - costs[a]) * (at[a : b + 1] - at[a]) / (at[b] - at[a])
        off = np.abs(costs[a : b + 1] - line)
        worst = int(off.argmax())
        if off[worst] > error:
            starts.pop()
            todo += [(a, a + worst), (a + worst, b)]
    return starts
