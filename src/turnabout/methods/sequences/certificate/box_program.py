"""The integer program of one sequence of one person over one box of its parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from turnabout.methods.sequences.certificate.jobs import Jobs
from turnabout.methods.sequences.certificate.parameter_boxes import Rolled
from turnabout.solvers.bounds import Hull, NetBound, TreeBound
from turnabout.solvers.milp import LinearSum, MixedProgram
from turnabout.typing import Tensor

TANGENTS = 33
TOLERANCE = 1e-6  # the solver's own, by which its bounds are lowered
SCALE = 100.0  # of the objective at the cost known, so that absolute tolerances are small beside it
COARSE = 200  # values of a column that are told apart, at most


@dataclass(frozen=True)
class BoxAnswer:
    """A bound on one box; the parameters (K,) of the program's plan, if any; how wrong its products are (K,)."""

    bound: float
    theta: np.ndarray | None
    error: np.ndarray


class BoxProgram:
    r"""The integer program of one job over one box of parameters.

    Unknowns are the parameters and, for every unit of the net whose input can have both signs, its value z and a
    binary b, with l and u the bounds of its input h that the planes of `NetBound` are made of:

        z >= 0,    z >= h,    z <= u b,    z <= h - l (1 - b).                                                   (1)

    A tree has one share for each leaf that the box can reach, at most the binaries of the cuts on its way. Absolute
    prices are written exactly, squares by tangents from below, whose error (w / 32)^2 / 4 on an interval of width w is
    small beside any gap of interest. A product of two parameters lies in its McCormick envelope; where this is too
    wide, the box is split. So the program's optimum bounds the cost from below in any case.
    """

    def __init__(self, jobs: Jobs, low: Tensor, high: Tensor, rolled: Rolled):
        self.jobs, self.rolled = jobs, rolled
        self.low, self.high = low[0].tolist(), high[0].tolist()
        self.milp = MixedProgram()
        self.theta = [
            self.milp.unknown(a, b) if b > a else LinearSum(constant=a)
            for a, b in zip(self.low, self.high, strict=True)
        ]
        self.products: list[tuple[LinearSum, LinearSum, LinearSum, list[int]]] = []
        self.states = self._states()
        self.cost = self._price()

    # -- the plan ---------------------------------------------------------------------------------------------

    def _states(self) -> list[list[LinearSum]]:
        """The states of the path as lines; conditions and reach as rows."""
        jobs = self.jobs
        states = [[LinearSum(constant=v) for v in jobs.start[0].tolist()]]
        for t in range(jobs.steps):
            old, hull = states[-1], self.rolled.states[t + 1]
            new = [self._column(t, j, old, hull) for j in range(len(old))]
            for j, leader in enumerate(jobs.leader[0, t].tolist()):
                if leader != j and not self._turned(t, j):
                    new[j] = self._follower(old, new, j, leader, hull)
            new = [self._printed(line, t, j, hull) for j, line in enumerate(new)]
            for j, line in enumerate(new):
                self.milp.between(line, float(hull.low[0, j]), float(hull.high[0, j]))
            for c, offset in enumerate(jobs.offset[0, t].tolist()):
                line = LinearSum(constant=offset)
                for j, (a, b) in enumerate(zip(jobs.of_old[0, t, c].tolist(), jobs.of_new[0, t, c].tolist())):
                    line = line + old[j] * a + new[j] * b
                self.milp.between(line, 0.0)
            states.append(new)
        return states

    def _turned(self, t: int, j: int) -> bool:
        return bool(self.jobs.scales[0, t] & self.jobs.scaled[0, t, j])

    def _column(self, t: int, j: int, old: list[LinearSum], hull: Hull) -> LinearSum:
        """One column after step t, if it has no leader."""
        jobs, p = self.jobs, self.jobs.parameters
        if self._turned(t, j):
            line = self._product(old[j], t * p + int(jobs.dial[0, t]), t, j, hull)
        else:
            line = old[j] * float(jobs.keep[0, t, j]) + float(jobs.add[0, t, j])
            for q, gain in enumerate(jobs.gain[0, t, :, j].tolist()):
                line = line + self.theta[t * p + q] * gain
        return line

    def _printed(self, line: LinearSum, t: int, j: int, hull: Hull) -> LinearSum:
        """A column after step t as it is printed: on its grid, if that is coarse; else as far off as rounding goes."""
        rounding, step = float(self.jobs.rounding[0, t, j]), float(self.jobs.grid[0, t, j])
        start, low, high = float(self.jobs.start[0, j]), float(hull.low[0, j]), float(hull.high[0, j])
        free = bool(line.terms) or rounding > 0
        if step > 0 and free and high - low <= COARSE * step and abs(start / step - round(start / step)) < 1e-6:
            count = self.milp.unknown(math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6), whole=True)
            self.milp.between(line - count * step, -rounding, rounding)
            return count * step
        return line + self.milp.unknown(-rounding, rounding) if rounding > 0 else line

    def _product(self, old: LinearSum, k: int, t: int, j: int, hull: Hull) -> LinearSum:
        """old * theta_k: exact if one of them is known, else between the four McCormick planes."""
        factor = self.theta[k]
        if not old.terms:
            return factor * old.constant
        if not factor.terms:
            return old * factor.constant
        before = self.rolled.states[t]
        a, b = float(before.low[0, j]), float(before.high[0, j])
        c, d = self.low[k], self.high[k]
        line = self.milp.unknown(float(hull.low[0, j]), float(hull.high[0, j]))
        for x, y, sign in ((a, c, 1.0), (b, d, 1.0), (a, d, -1.0), (b, c, -1.0)):
            self.milp.between((line - factor * x - old * y + x * y) * sign, 0.0)
        moves = (before.slope[0, j] != 0).nonzero().squeeze(1).tolist()
        self.products.append((line, old, factor, [*moves, k]))
        return line

    def _follower(self, old: list[LinearSum], new: list[LinearSum], j: int, leader: int, hull: Hull) -> LinearSum:
        """A column that keeps its ratio to another one."""
        if not old[j].terms and not old[leader].terms and abs(old[leader].constant) > 1e-9:
            return new[leader] * (old[j].constant / old[leader].constant)
        return self.milp.unknown(float(hull.low[0, j]), float(hull.high[0, j]))

    def _price(self) -> LinearSum:
        price = self.rolled.price
        total = LinearSum(constant=float(price.constant[0]))
        parts = (part[0].tolist() for part in (price.linear, price.curved, price.kink))
        for k, (linear, curved, kink) in enumerate(zip(*parts, strict=True)):
            z, a, b = self.theta[k] - kink, self.low[k] - kink, self.high[k] - kink
            if not z.terms:
                total = total + linear * abs(z.constant) + curved * z.constant**2
                continue
            if linear > 0:
                size = self.milp.unknown(0.0, max(abs(a), abs(b)))
                self.milp.between(size - z, 0.0)
                self.milp.between(size + z, 0.0)
                total = total + size * linear
            if curved > 0:
                square = self.milp.unknown(0.0, max(a * a, b * b))
                for at in np.linspace(a, b, TANGENTS):
                    self.milp.between(square - z * (2 * at), -at * at)
                total = total + square * curved
        return total

    # -- the model --------------------------------------------------------------------------------------------

    def ask_net(self, bound: NetBound, base: Tensor) -> None:
        """Rows for a net; its margin must not be negative."""
        inputs = bound.inputs(base, self.rolled.end)
        end = self.states[-1]
        lines = [LinearSum(constant=v) for v in base[0].tolist()]
        for i, weights in enumerate(bound.first.tolist()):
            for weight, state in zip(weights, end, strict=True):
                lines[i] = lines[i] + state * weight
        for (low, high, _), (weight, bias) in zip(inputs, bound.layers[1:], strict=True):
            units = [self._unit(h, float(l), float(u)) for h, l, u in zip(lines, low[0], high[0], strict=True)]
            lines = []
            for row, start in zip(weight.tolist(), bias.tolist(), strict=True):
                terms: dict[int, float] = {}
                for w, unit in zip(row, units, strict=True):
                    start += w * unit.constant
                    for unknown, share in unit.terms.items():
                        terms[unknown] = terms.get(unknown, 0.0) + w * share
                lines.append(LinearSum(terms, start))
        self.milp.between(lines[0], -bound.noise - TOLERANCE)
        self.never = not lines[0].terms and lines[0].constant < -bound.noise

    def _unit(self, h: LinearSum, low: float, high: float) -> LinearSum:
        """relu(h), (1)."""
        if high <= 0 or not h.terms:
            return LinearSum(constant=max(0.0, h.constant) if not h.terms else 0.0)
        z = self.milp.unknown(max(0.0, low), high)
        if low >= 0:
            self.milp.between(z - h, 0.0, 0.0)
            return z
        b = self.milp.unknown(0.0, 1.0, whole=True)
        self.milp.between(z - h, 0.0)
        self.milp.between(z - b * high, high=0.0)
        self.milp.between(z - h - b * low, high=-low)
        return z

    def ask_trees(self, bound: TreeBound, base: Tensor) -> None:
        """Rows for a tree ensemble; no lead of the target may be negative."""
        forest, end = bound.forest, self.states[-1]
        least, most = bound.sides(base, self.rolled.end)
        left, right = (way[0].tolist() for way in bound.ways(least, most))
        column, cut = forest.column.tolist(), forest.cut.tolist()
        below, above = forest.left.tolist(), forest.right.tolist()
        sides: dict[tuple[int, float], LinearSum] = {}
        leads = [LinearSum(constant=v) for v in bound.bias.tolist()]

        def side(node: int) -> LinearSum:
            """1 if the column lies below the cut of a node."""
            key = (column[node], cut[node])
            if key not in sides:
                c, at = key
                line = LinearSum(constant=float(base[0, c]))
                for weight, state in zip(bound.effect[c].tolist(), end, strict=True):
                    line = line + state * weight
                sides[key] = b = self.milp.unknown(0.0, 1.0, whole=True)
                self.milp.between(line + b * (float(most[0, c]) - at), high=float(most[0, c]))
                self.milp.between(line + b * (at - float(least[0, c])), low=at)
            return sides[key]

        for root in forest.roots.tolist():
            stack: list[tuple[int, list[LinearSum]]] = [(root, [])]
            whole = LinearSum()
            while stack:
                node, way = stack.pop()
                if column[node] < 0:
                    share = self.milp.unknown(0.0, 1.0)
                    for limit in way:
                        self.milp.between(share - limit, high=0.0)
                    whole = whole + share
                    leads = [lead + share * float(v) for lead, v in zip(leads, bound.value[node].tolist(), strict=True)]
                elif left[node] and right[node]:
                    b = side(node)
                    stack += [(below[node], [*way, b]), (above[node], [*way, LinearSum(constant=1.0) - b])]
                else:
                    stack.append((below[node] if left[node] else above[node], way))
            self.milp.between(whole, 1.0, 1.0)
        for lead in leads:
            self.milp.between(lead, -bound.noise - TOLERANCE)
        self.never = False

    # -- the answer -------------------------------------------------------------------------------------------

    def solve(self, known: float, gap: float, seconds: float) -> BoxAnswer:
        """The bound over the box, inf if it holds no plan that costs less than known."""
        nothing = np.zeros(len(self.theta))
        if self.never:
            return BoxAnswer(np.inf, None, nothing)
        unit = known if np.isfinite(known) and known > 0 else 1.0
        self.milp.objective = self.cost * (SCALE / unit)
        if np.isfinite(known):
            self.milp.between(self.milp.objective, high=SCALE * known / unit)
        result = self.milp.solve(seconds, gap / 4)
        if result.status == 2:
            return BoxAnswer(np.inf, None, nothing)
        dual = getattr(result, "mip_dual_bound", None)
        if dual is None and result.status == 0:  # without binaries it is no integer program
            dual = result.fun
        bound = self.cost.constant + (0.0 if dual is None else float(dual) * unit / SCALE)
        bound -= TOLERANCE * max(abs(bound), unit)
        if result.x is None:
            return BoxAnswer(max(0.0, bound), None, nothing)
        error = nothing.copy()
        for line, old, factor, moves in self.products:
            miss = abs(line.at(result.x) - old.at(result.x) * factor.at(result.x))
            error[moves] += miss / (1e-9 + abs(line.at(result.x)))
        return BoxAnswer(max(0.0, bound), np.array([line.at(result.x) for line in self.theta]), error)
