"""One person's cheapest plan as an integer program, solved by HiGHS: any separable cost, any rule with a linear form.

The new row is affine in the unknowns. The legal values of a feature, other than the person's own, are cut into
*runs* (`runs.py`): stretches of neighbouring values over which the cost is close to a straight line, and the margin is
one. A run has a binary unknown z (is the new value in this run?) and, if longer than one value, an integer unknown
s <= length * z (how far into it). So

    x_new = x + sum_r  z_r * start_r + s_r * step_r           sum of z over the runs of a feature <= 1         (1)

and acceptance, cost and rules are rows in z and s: "the feature changes" is the sum of its z, and "age rises by at
least 2" is the sum of some of them, once runs are cut at that value.

The lines are lowered by their error, so that the program bounds the cost from below. Where the true cost of its plan
is higher than the bound, the runs the plan uses are cut finer and the program is solved again.               (2)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch

from turnabout.core import Problem
from turnabout.core.run import now
from turnabout.errors import MethodError
from turnabout.methods.runs import Runs, Shape
from turnabout.models import Terms
from turnabout.rules import BoundRule, CountForm
from turnabout.schema import Scalar
from turnabout.schema.legal_values import value_at
from turnabout.solvers.milp import LinearSum, MixedProgram
from turnabout.typing import Tensor

Row: TypeAlias = tuple[np.ndarray, float]  # a, b of  a @ unknowns <= b
ROUNDS = 24
SCALE = 1e3  # of objective and rows, so that the solver's absolute tolerances of 1e-6 are small beside them
TRIES = 4
TIE = 1e-2  # in scaled units, where the largest gain is SCALE


def load_solver() -> None:
    """Import the solver, which takes half a second: when a method is fitted, not within a time limit of find."""
    import scipy.optimize  # noqa: F401


def check_rules(problem: Problem, method: str, hint: str) -> None:
    """Refuse rules that cannot be written as rows of the program."""
    for rule in problem.rules:
        if rule.count_form is None and rule.linear_form(torch.zeros(1, problem.schema.d, dtype=torch.float64)) is None:
            raise MethodError(f"{method} cannot write the rule '{rule.name}' as rows of an integer program.", hint=hint)


@dataclass(frozen=True)
class Plan:
    """What the program says: a row (d,) or None, a bound on the cost, and how it ended."""

    x_new: Tensor | None
    bound: float
    outcome: Literal["optimal", "retried", "stopped", "infeasible"]


class PersonProgram:
    """The integer program of one person.

    Parameters
    ----------
    problem, terms : the question, and the model's margin.
    x : their row (1, d), on the CPU in float64.
    blocked : (F,) features they may not use.
    shape : how the cost is made of its features' shares.
    """

    def __init__(self, problem: Problem, terms: Terms, x: Tensor, blocked: np.ndarray, shape: Shape):
        self.problem, self.terms, self.x, self.shape = problem, terms, x, shape
        self.margin = float(terms.margin(x))
        self.values = Runs(problem, terms, x, blocked, shape)
        self._build()

    def _build(self) -> None:
        self.runs = self.values.all()
        self.longer = [r for r, run in enumerate(self.runs) if run.length > 0]
        p = len(self.runs)
        self.size = p + len(self.longer) + (self.shape == "max")
        self.effect = np.zeros((self.problem.schema.d, self.size))  # x_new - x = effect @ unknowns
        for r, run in enumerate(self.runs):
            self.effect[:, r] = run.start
        self.starts = torch.from_numpy(self.effect[:, :p].T)  # (p, d)
        for i, r in enumerate(self.longer):
            self.effect[self.runs[r].column, p + i] = self.runs[r].step
        self.feature = np.array([run.feature for run in self.runs], dtype=int)
        gains = [run.gain for run in self.runs] + [self.runs[r].rise for r in self.longer]
        self.gain = np.array(gains + [0.0] * (self.size - len(gains)))  # margin(x_new) = margin(x) + gain @ unknowns

    # -- rows -------------------------------------------------------------------------------------------------

    def _count(self, count: CountForm) -> tuple[np.ndarray, float]:
        """Coefficients and limit of a row over what holds: each run holds or breaks a condition as a whole."""
        row, most = np.zeros(self.size), count.most
        for weight, condition in count.terms:
            mine = np.flatnonzero(self.feature == condition.feature)
            here = float(condition.holds(self.x, self.x)[0])
            there = condition.holds(self.x, self.x + self.starts[mine]).to(torch.float64)
            row[mine] += weight * (there.numpy() - here)
            most -= weight * here
        return row, most

    def _structure(self) -> Iterator[Row]:
        """What holds whatever the rules: one run per feature, steps only within a run."""
        for f in np.unique(self.feature):
            yield np.append(self.feature == f, np.zeros(self.size - len(self.runs))), 1.0
        for i, r in enumerate(self.longer):
            row = np.zeros(self.size)
            row[len(self.runs) + i], row[r] = 1.0, -float(self.runs[r].length)
            yield row, 0.0
        if self.shape == "max":
            share = self._share()
            for f in np.unique(self.feature):
                row = np.where(np.append(np.append(self.feature, self.feature[self.longer]), -1) == f, share, 0.0)
                row[-1] = -1.0
                yield row * SCALE, 0.0

    def _rules(self, tighten: float) -> Iterator[Row]:
        """What the rules ask for, by so much more than they do."""
        for rule in self.problem.rules:
            if bool(rule.silent(self.x)[0]):
                if not rule.waivable:
                    yield self._open(rule), 0.0
            elif rule.count_form is not None:  # levels that it avoids are in no run
                yield from map(self._count, rule.count_form)
            else:
                form = rule.linear_form(self.x)
                assert form is not None
                for a_row, limit in zip(form.a.numpy(), form.b[0].numpy()):
                    if np.isfinite(limit):
                        most = float(limit - a_row @ self.x[0].numpy()) - tighten
                        yield SCALE * (a_row @ self.effect), SCALE * most

    def _open(self, rule: BoundRule) -> np.ndarray:
        """Coefficients of the number of runs that touch a rule which a missing cell leaves open."""
        row = np.zeros(self.size)
        row[: len(self.runs)] = rule.unknown(self.x, self.x + self.starts).numpy()
        return row

    def _share(self) -> np.ndarray:
        """Coefficients of the sum of all features' costs."""
        runs = [run.cost for run in self.runs] + [self.runs[r].slope for r in self.longer]
        return np.array(runs + [0.0] * (self.size - len(runs)))

    # -- solving ----------------------------------------------------------------------------------------------

    def cheapest(self, aim: float, seconds: float, tolerance: float) -> Plan:
        """The cheapest allowed row with margin >= aim."""
        if not self.runs:
            return Plan(None, np.inf, "infeasible")
        until = now() + seconds
        best, price, bound = None, np.inf, -np.inf
        for _ in range(ROUNDS):
            plan = self._solve(aim, until)
            bound = max(bound, plan.bound)
            if plan.x_new is None:
                if best is None:
                    return plan
                break
            here = float(self.problem.cost(self.x, plan.x_new.unsqueeze(0))[0])
            if here < price:
                best, price = plan.x_new, here
            proved = plan.outcome == "optimal" and self.shape == "linear"
            if proved or (plan.outcome != "stopped" and price - bound <= tolerance):
                return Plan(best, bound, "optimal")
            if plan.outcome == "stopped" or self.shape == "linear" or now() > until:
                break
            if not self._refine():  # (2)
                break
        return Plan(best, bound, "stopped")

    def _refine(self) -> bool:
        """Cut the runs of the last plan finer; False where that is not possible."""
        finer = self.values.refine((self.runs[r], steps) for r, steps in self.chosen.items())
        if finer:
            self._build()
        return finer

    def _solve(self, aim: float, until: float) -> Plan:
        objective = self._share()
        if self.shape == "max":
            objective = np.append(np.zeros(self.size - 1), 1.0)
        gain = self.gain
        short = tighten = 0.0  # what rounding to whole unknowns took, to be asked for on top
        bound = -np.inf
        for i in range(TRIES):
            if i and now() > until:
                break
            scale = SCALE / max(1e-12, float(np.abs(gain).max(initial=0.0)))
            accepted = -scale * gain, -scale * (aim + short - self.margin)
            result = self._milp(SCALE * objective, tighten, [accepted]).solve(until - now(), 0.0)
            if result.status == 2:
                return Plan(None, np.inf, "infeasible") if bound == -np.inf else Plan(None, bound, "stopped")
            lower = getattr(result, "mip_dual_bound", None)
            if bound == -np.inf:
                bound = max(0.0, float(lower) / SCALE) if lower is not None else 0.0
                bound = float(np.sqrt(bound)) if self.shape == "squares" else bound
            if result.x is None:
                return Plan(None, bound, "stopped")
            x_new = self._row(result.x)
            missing = aim - float(self.terms.margin(x_new))
            broken = float(self.problem.violation(self.x, x_new)[0])
            if missing <= 0 and broken <= 0:
                first = short == tighten == 0.0
                return Plan(x_new[0], bound, "stopped" if result.status else "optimal" if first else "retried")
            if missing > 0:  # a tie: less than this on top the solver cannot tell from nothing
                short += max(1.5 * missing, TIE / scale)
            tighten += 1.5 * broken
        return Plan(None, bound, "stopped")

    def highest(self, seconds: float) -> float:
        """A bound on the margin of every row that keeps the rules; -inf where no row keeps them."""
        if not self.runs:  # nothing is left to choose
            return self.margin if float(self.problem.violation(self.x, self.x)[0]) <= 0 else -np.inf
        gain = self.gain
        scale = SCALE / max(1e-12, float(np.abs(gain).max(initial=0.0)))
        result = self._milp(-scale * gain, -1e-6).solve(seconds, 0.0)
        if result.status == 2:
            return -np.inf
        lower = getattr(result, "mip_dual_bound", None)
        return self.margin - float(lower) / scale if lower is not None else np.inf

    def _milp(self, objective: np.ndarray, tighten: float, more: Iterable[Row] = ()) -> MixedProgram:
        """The program with these coefficients to make small, and these rows beside its own."""
        out = MixedProgram(scaled=False)
        for _ in self.runs:
            out.unknown(0.0, 1.0, whole=True)  # z
        for r in self.longer:
            out.unknown(0.0, self.runs[r].length, whole=True)  # s
        if self.shape == "max":
            out.unknown(0.0, np.inf)  # the largest share
        for row, most in (*self._structure(), *self._rules(tighten), *more):
            out.between(LinearSum.of(row), high=most)
        out.objective = LinearSum.of(objective)
        return out

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
                x_new[0, run.column] = value_at(feature, q)
            else:
                x_new += torch.from_numpy(run.start)
        return x_new
