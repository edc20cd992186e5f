"""One person's cheapest plan as an integer program, solved by HiGHS: any separable cost, any rule with a linear form.

The new row is affine in the unknowns. The legal values of a feature, other than the person's own, are cut into
*runs*: stretches of neighbouring values over which the cost is close to a straight line. A run has a binary unknown z
(is the new value in this run?) and, if longer than one value, an integer unknown s <= length * z (how far into it). So

    x_new = x + sum_r  z_r * start_r + s_r * step_r           sum of z over the runs of a feature <= 1         (1)

and acceptance, cost and rules are rows in z and s: "the feature changes" is the sum of its z, and "age rises by at
least 2" is the sum of some of them, once runs are cut at that value.

The lines are lowered by their error, so that the program bounds the cost from below. Where the true cost of its plan
is higher than the bound, the runs the plan uses are cut finer and the program is solved again.               (2)
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
from scipy.sparse import csr_matrix

from turnabout.actions import BoundRule
from turnabout.actions.rules import BoundAtMost, BoundCondition, BoundImplies
from turnabout.actions.rules.base import TOLERANCE
from turnabout.core import Problem
from turnabout.methods.levers import ladder, on_ladder, stuck
from turnabout.schema import Category, Scalar
from turnabout.typing import Tensor

Shape = Literal["linear", "sum", "squares", "max"]
SAMPLES = 2048  # values of a feature at which a cost that is not linear is read
ERROR = {"linear": 1e-12, "sum": 1e-5, "squares": 1e-4, "max": 1e-5}  # of the first straight lines, by shape
ROUNDS = 24
SCALE = 1e3  # of objective and rows, so that the solver's absolute tolerances of 1e-6 are small beside them
TRIES = 4


@dataclass(frozen=True)
class Run:
    """Neighbouring legal values of one feature: start (d,) is added to x, then up to `length` steps in one column."""

    feature: int
    start: np.ndarray
    column: int
    step: float
    length: int
    cost: float
    slope: float  # cost of one step
    q: int = 0  # first multiple of the feature's step, for scalars
    side: int = 0
    place: int = 0  # of that multiple in the ladder of its side


@dataclass(frozen=True)
class Plan:
    """What the program says: a row (d,) or None, a bound on the cost, and how it ended."""

    x_new: Tensor | None
    bound: float
    outcome: Literal["optimal", "stopped", "infeasible"]


@dataclass
class Curve:
    """What one side of a scalar costs: places in its ladder, the values and costs there, and where runs must start."""

    first: int
    count: int
    at: np.ndarray
    values: np.ndarray
    costs: np.ndarray
    cuts: np.ndarray


def fits(rule: BoundRule, d: int) -> bool:
    """Whether a rule can be written as rows of the program."""
    known = isinstance(rule, (BoundAtMost, BoundImplies))
    return known or rule.linear_form(torch.zeros(1, d, dtype=torch.float64)) is not None


class Program:
    """The integer program of one person.

    Parameters
    ----------
    problem, weights, bias : the question, and the model's linear form.
    x : her row (1, d), on the CPU in float64.
    blocked : (F,) features she may not use.
    shape : how the cost is made of its features' shares: "linear" in distances and changes, a "sum", the root of a
        sum of "squares", or their "max".
    """

    def __init__(self, problem: Problem, weights: Tensor, bias: float, x: Tensor, blocked: np.ndarray, shape: Shape):
        self.problem, self.x, self.shape = problem, x, shape
        self.weights = weights.numpy()
        self.margin = float(x[0] @ weights) + bias
        self.free = [f for f in range(len(problem.schema)) if not blocked[f]]
        self.curves: dict[tuple[int, int], Curve | None] = {}
        self._build()

    def _build(self) -> None:
        self.runs = [run for f in self.free for run in self._runs(f)]
        self.longer = [r for r, run in enumerate(self.runs) if run.length > 0]
        p = len(self.runs)
        self.size = p + len(self.longer) + (self.shape == "max")
        self.effect = np.zeros((self.problem.schema.d, self.size))  # x_new - x = effect @ unknowns
        for r, run in enumerate(self.runs):
            self.effect[:, r] = run.start
        for i, r in enumerate(self.longer):
            self.effect[self.runs[r].column, p + i] = self.runs[r].step
        self.feature = np.array([run.feature for run in self.runs], dtype=int)

    # -- runs -------------------------------------------------------------------------------------------------

    def _runs(self, f: int) -> list[Run]:
        schema = self.problem.schema
        feature, s = schema.features[f], schema.slices[f]
        own = self.x[:, s]
        if bool(stuck(feature, own)):
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
            runs = [Run(f, row, s.start, 0.0, 0, float(c), 0.0) for row, c in zip(rows, costs)]
            return [run for run in runs if self.problem.rules or run.start @ self.weights > 0]
        assert isinstance(feature, Scalar)
        sides: tuple[int, ...] = (1, -1)
        if not self.problem.rules:  # nobody moves the wrong way for nothing
            sides = tuple(side for side in sides if side * self.weights[s.start] > 0)
        return [run for side in sides for run in self._side(f, feature, side)]

    def _side(self, f: int, feature: Scalar, side: int) -> list[Run]:
        """Runs of a scalar's values above, or below, her own."""
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
            step, q = side * feature.unit_step / feature.span, curve.first + side * int(at[a])
            runs.append(Run(f, start, column, step, length, costs[a] - error, slope, q, side, int(at[a])))  # (2)
        return runs

    def _curve(self, f: int, feature: Scalar, side: int) -> Curve | None:
        own = self.x[:, self.problem.schema.slices[f].start]
        first, count = (int(v) for v in ladder(feature, own, side > 0))
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
        q = feature.units(values).numpy() / feature.unit_step
        return np.unique(np.concatenate([np.floor(q), np.ceil(q)])).astype(np.int64)

    def _read(self, f: int, feature: Scalar, side: int, curve: Curve, places: np.ndarray) -> None:
        """Read the cost at more places."""
        places = np.setdiff1d(places, curve.at)
        values = on_ladder(feature, torch.from_numpy(curve.first + side * places).to(torch.float64))
        rows = self.x.expand(len(places), -1).clone()
        rows[:, self.problem.schema.slices[f].start] = values
        order = np.argsort(at := np.concatenate([curve.at, places]))
        curve.values = np.concatenate([curve.values, values.numpy()])[order]
        curve.costs = np.concatenate([curve.costs, self._costs(f, rows)])[order]
        curve.at = at[order]

    def _refine(self) -> bool:
        """Cut the runs of the last plan around the values it uses; False where there is nothing left to cut."""
        finer = False
        for r, steps in self.chosen.items():
            run = self.runs[r]
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
        if finer:
            self._build()
        return finer

    def _cuts(self, f: int, feature: Scalar, first: int, side: int, count: int) -> np.ndarray:
        """Places in the ladder (0 .. count - 1) at which a condition on this feature begins or ends to hold."""
        own = float(self.x[0, self.problem.schema.slices[f].start])
        start = float(on_ladder(feature, torch.tensor(float(first), dtype=torch.float64)))
        notch = feature.unit_step / feature.span
        places: set[int] = set()
        for rule in self.problem.rules:
            for condition in (rule.condition, rule.consequence) if isinstance(rule, BoundImplies) else ():
                if condition.feature != f:
                    continue
                if condition.target is not None:
                    k = round(side * (float(condition.target[0]) - start) / notch)
                    places |= {k, k + 1}
                elif condition.threshold is not None:
                    away = condition.threshold - side * (start - own)
                    places.add(int(np.ceil((away - TOLERANCE) / notch)))
        return np.array(sorted(k for k in places if 0 < k < count), dtype=np.int64)

    def _costs(self, f: int, rows: Tensor) -> np.ndarray:
        share = self.problem.cost.per_feature(self.x.expand_as(rows), rows)[:, f].numpy()
        return share**2 if self.shape == "squares" else share

    # -- rows -------------------------------------------------------------------------------------------------

    def _changes(self, features: np.ndarray) -> np.ndarray:
        """Coefficients of the number of these features (F,) that change."""
        row = np.zeros(self.size)
        row[: len(self.runs)] = features[self.feature]
        return row

    def _holds(self, condition: BoundCondition) -> tuple[np.ndarray, float]:
        """Coefficients and constant of a sum that is 1 where the condition holds and 0 where it does not."""
        here = float(condition.holds(self.x, self.x)[0])
        row = np.zeros(self.size)
        for r, run in enumerate(self.runs):
            if run.feature == condition.feature:
                there = float(condition.holds(self.x, self.x + torch.from_numpy(run.start))[0])
                row[r] = there - here
        return row, here

    def _structure(self) -> tuple[list[np.ndarray], list[float]]:
        """Rows a @ unknowns <= b that hold whatever the rules: one run per feature, steps only within a run."""
        rows, most = [], []
        for f in np.unique(self.feature):
            rows.append(self._changes(np.arange(len(self.problem.schema)) == f))
            most.append(1.0)
        for i, r in enumerate(self.longer):
            row = np.zeros(self.size)
            row[len(self.runs) + i], row[r] = 1.0, -float(self.runs[r].length)
            rows.append(row)
            most.append(0.0)
        if self.shape == "max":
            share = self._share()
            for f in np.unique(self.feature):
                row = np.where(np.append(np.append(self.feature, self.feature[self.longer]), -1) == f, share, 0.0)
                row[-1] = -1.0
                rows.append(row * SCALE)
                most.append(0.0)
        return rows, most

    def _rules(self, tighten: float) -> tuple[list[np.ndarray], list[float]]:
        rows: list[np.ndarray] = []
        most: list[float] = []
        for rule in self.problem.rules:
            if isinstance(rule, BoundAtMost):
                rows.append(self._changes(rule.mask.numpy()))
                most.append(float(rule.k))
            elif isinstance(rule, BoundImplies):
                if bool(rule._silent(self.x)[0]):
                    continue
                (condition, a), (consequence, b) = self._holds(rule.condition), self._holds(rule.consequence)
                rows.append(condition - consequence)
                most.append(b - a)
            else:
                form = rule.linear_form(self.x)
                assert form is not None
                for a_row, limit in zip(form.a.numpy(), form.b[0].numpy()):
                    if np.isfinite(limit):
                        rows.append(SCALE * (a_row @ self.effect))
                        most.append(SCALE * (float(limit - a_row @ self.x[0].numpy()) - tighten))
        return rows, most

    def _share(self) -> np.ndarray:
        """Coefficients of the sum of all features' costs."""
        runs = [run.cost for run in self.runs] + [self.runs[r].slope for r in self.longer]
        return np.array(runs + [0.0] * (self.size - len(runs)))

    # -- solving ----------------------------------------------------------------------------------------------

    def cheapest(self, aim: float, seconds: float, tolerance: float) -> Plan:
        """The cheapest allowed row with margin >= aim."""
        if not self.runs:
            return Plan(None, np.inf, "infeasible")
        until = time.monotonic() + seconds
        best, price, bound = None, np.inf, -np.inf
        for _ in range(ROUNDS):
            plan = self._solve(aim, until - time.monotonic())
            bound = max(bound, plan.bound)
            if plan.x_new is None:
                if best is None:
                    return plan
                break
            here = float(self.problem.cost(self.x, plan.x_new.unsqueeze(0))[0])
            if here < price:
                best, price = plan.x_new, here
            if plan.outcome == "optimal" and (self.shape == "linear" or price - bound <= tolerance):
                return Plan(best, bound, "optimal")
            if plan.outcome != "optimal" or time.monotonic() > until or not self._refine():  # (2)
                break
        return Plan(best, bound, "stopped")

    def _solve(self, aim: float, seconds: float) -> Plan:
        objective = self._share()
        if self.shape == "max":
            objective = np.append(np.zeros(self.size - 1), 1.0)
        gain = self.weights @ self.effect
        short = tighten = 0.0  # what rounding to whole unknowns took, to be asked for on top
        bound = -np.inf
        for _ in range(TRIES):
            scale = SCALE / max(1e-12, float(np.abs(gain).max(initial=0.0)))
            rows, most = self._rules(tighten)
            rows, most = [*rows, -scale * gain], [*most, -scale * (aim + short - self.margin)]
            result = self._milp(SCALE * objective, rows, most, seconds)
            if result.status == 2:
                return Plan(None, np.inf, "infeasible" if bound == -np.inf else "stopped")
            lower = getattr(result, "mip_dual_bound", None)
            if bound == -np.inf:
                bound = max(0.0, float(lower) / SCALE) if lower is not None else 0.0
                bound = float(np.sqrt(bound)) if self.shape == "squares" else bound
            if result.x is None:
                return Plan(None, bound, "stopped")
            x_new = self._row(result.x)
            missing = aim - self.margin - float((x_new - self.x)[0].numpy() @ self.weights)
            broken = float(self.problem.violation(self.x, x_new)[0])
            if missing <= 0 and broken <= 0:
                return Plan(x_new[0], bound, "optimal" if result.status == 0 else "stopped")
            short += 1.5 * max(0.0, missing)
            tighten += 1.5 * broken
        return Plan(None, bound, "stopped")

    def highest(self, seconds: float) -> float:
        """A bound on the margin of every row that keeps the rules; -inf where no row keeps them."""
        gain = self.weights @ self.effect
        scale = SCALE / max(1e-12, float(np.abs(gain).max(initial=0.0)))
        result = self._milp(-scale * gain, *self._rules(-1e-6), seconds)
        if result.status == 2:
            return -np.inf
        lower = getattr(result, "mip_dual_bound", None)
        return self.margin - float(lower) / scale if lower is not None else np.inf

    def _milp(self, objective: np.ndarray, rows: list[np.ndarray], most: list[float], seconds: float) -> OptimizeResult:
        always, limits = self._structure()
        p = len(self.runs)
        upper = np.ones(self.size)
        upper[p : p + len(self.longer)] = [self.runs[r].length for r in self.longer]
        whole = np.ones(self.size, dtype=np.int64)
        if self.shape == "max":
            upper[-1], whole[-1] = np.inf, 0
        return milp(
            objective,
            integrality=whole,
            bounds=Bounds(np.zeros(self.size), upper),
            constraints=LinearConstraint(csr_matrix(np.array(always + rows)), -np.inf, np.array(limits + most)),
            options={"time_limit": max(0.01, seconds), "mip_rel_gap": 0.0},
        )

    def _row(self, unknowns: np.ndarray) -> Tensor:
        """The new row (1, d), on legal values."""
        x_new = self.x.clone()
        p = len(self.runs)
        steps = np.zeros(p, dtype=np.int64)
        steps[self.longer] = np.rint(unknowns[p : p + len(self.longer)])
        self.chosen: dict[int, int] = {}
        for r in np.flatnonzero(unknowns[:p] > 0.5).tolist():
            run = self.runs[r]
            feature = self.problem.schema.features[run.feature]
            self.chosen[r] = int(min(steps[r], run.length))
            if isinstance(feature, Scalar):
                q = torch.tensor(float(run.q + run.side * self.chosen[r]), dtype=torch.float64)
                x_new[0, run.column] = on_ladder(feature, q)
            else:
                x_new += torch.from_numpy(run.start)
        return x_new


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
