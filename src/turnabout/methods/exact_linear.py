"""The cheapest plan for a linear or additive model, with a proof (after Ustun, Spangher and Liu, 2019)."""

from __future__ import annotations

import math
import warnings
from typing import ClassVar

import numpy as np
import torch

from turnabout.core import Method, Problem, Proposal
from turnabout.core.candidates import places, repeats
from turnabout.core.verify import clearance
from turnabout.costs import L2, Cost, PercentileShift, Scaled, Weighted
from turnabout.errors import MethodError
from turnabout.methods.knapsack import cover
from turnabout.methods.moves import Moves, bent_features, straighten, worthwhile
from turnabout.methods.program import PersonProgram, check_rules, load_solver
from turnabout.methods.runs import Shape
from turnabout.models import Additive
from turnabout.parameters import Finite, Whole, checked
from turnabout.schema import Category, Scalar
from turnabout.schema.legal_values import grid_ends
from turnabout.typing import Tensor

CURVED = 1e-5  # tolerance for costs that are not linear in distances and changes
LONGEST = 128  # values of a feature in which the margin bends
GENERATIONS = 3  # features of a plan that are ruled out together when looking for other options


@checked(MethodError, tolerance=Finite(least=0), nodes=Whole(0), seconds=Finite(least=0))
class ExactLinear(Method):
    r"""The proved cheapest plan, or a proof that there is none, for models in which each feature acts on its own.

    For each refused person x, solves

        min over x'   c(x, x')    s.t.   b + sum_f t_f(x'_f) >= aim,   x' legal for them, rules kept          (1)

    with t_f(x_f) = w_f @ x_f for a linear model, and with bends in between for an additive one: a logistic regression
    behind a one-hot encoder, in which the levels of an ordinal need not act in equal steps, or behind bins, which
    make it a scorecard. The search is over exactly
    the values that can be printed: grids, levels, directions, bounds, missing cells, their own value even where it is
    off the grid. `aim` is the margin the judge asks for plus an allowance for rounding errors.

    Two engines. A cost of the form sum_f w_f * distance_f + u_f * [f changed] makes (1) without rules a knapsack,
    solved by branch and bound for everyone at once (`knapsack.py`). Its plan is also the answer to (1) with rules
    where it happens to keep them. Everyone else gets an integer program (`program.py`), one after another. It takes
    any separable cost, the Euclidean L2 and the largest percentile shift, and the rules Linear, Ordered, AtMost and
    Implies.

    What is proved: no legal row that keeps the rules and is accepted by `aim` costs less than the plan by more than
    `tolerance`, or by more than 1e-5 for a cost without the form above, which is read at some 2000 values of each
    feature and at those of the background, and taken as straight between them. People for whom `seconds` or the time
    limit ran out get the best plan found, and a warning counts them. IMPOSSIBLE comes with the highest margin within
    reach.

    Further options avoid, one by one, the features that the best plan changes (then the features of those plans, up
    to three together); each is the cheapest of its kind, so that options pull different moves.

    Use it whenever the model is linear or additive: nothing is cheaper.

    Parameters
    ----------
    tolerance : cost by which a plan may miss the optimum; with the default cost, a share of a feature's range.
    nodes : nodes of branch and bound for one person before the integer program takes over.
    seconds : limit of one integer program.

    References
    ----------
    Ustun, Spangher, Liu (2019), Actionable recourse in linear classification. Their program has a binary unknown for
    every value of every feature; this one has runs of values, so that grids may be fine.
    """

    requires = Additive
    exact: ClassVar[bool] = True
    finds_ways: ClassVar[bool] = True
    chunk: ClassVar[int] = 8192

    def __init__(self, tolerance: float = 1e-9, nodes: int = 1000, seconds: float = 10.0):
        self.tolerance = tolerance
        self.nodes = nodes
        self.seconds = seconds

    # -- fit --------------------------------------------------------------------------------------------------

    def _fit(self, problem: Problem) -> None:
        assert isinstance(problem.model, Additive)
        self.terms_ = straighten(problem.schema, problem.model.terms.to("cpu"))
        for f, feature in bent_features(problem.schema, self.terms_).items():
            column, (least, most) = problem.schema.slices[f].start, grid_ends(feature)
            values = most - least + 1
            if self.terms_.only_jumps(column):
                values = len(worthwhile(feature, self.terms_, column))
            if feature.moves != "fixed" and values > LONGEST:
                raise MethodError(
                    f"the margin bends in '{feature.name}', so ExactLinear would read it value by value, and there are "
                    f"{values} of them.",
                    hint=f"give it a step that leaves at most {LONGEST} values, or use a method such as LocalSearch.",
                )
        self.allowance_ = max(problem.model.noise, 1e-12 * self.terms_.size)  # for rounding errors of the margin
        self.aim_ = clearance(problem) + self.allowance_
        self.shape_: Shape = shape_of(problem)
        if problem.rules or self.shape_ != "linear":
            load_solver()
        hint = "use Linear, Ordered, AtMost or Implies rules, or a method such as LocalSearch."
        check_rules(problem, "ExactLinear", hint)
        zeros = torch.zeros(len(problem.schema), dtype=torch.float64)
        price, fixed = problem.cost.linear_weights, problem.cost.fixed_weights
        self.price_, self.fixed_ = (zeros if price is None else price), (zeros if fixed is None else fixed)
        self.quantum_ = _quantum(problem, self.price_, self.fixed_) if self.shape_ == "linear" else 0.0

    # -- search -----------------------------------------------------------------------------------------------

    def _search(self, x: Tensor) -> Proposal:
        x = x.to(torch.float64)
        self.unproved = 0  # people for whom this search runs out of time
        none = torch.zeros(len(x), len(self.problem_.schema), dtype=torch.bool, device=x.device)
        moves = self._moves(x, none)
        top = self._margin(x) + moves.reach
        impossible = top < -self.allowance_
        proof = self._proofs(x, moves, top, impossible)
        best, infeasible = self._solve(x, none, moves)
        for i, highest in infeasible.items():
            impossible[i], proof[i] = True, self._proof_by_rules(highest)
        edge = (~impossible & (top < self.aim_)).nonzero().squeeze(1)  # accepted on the very boundary, if at all
        best[edge] = moves.take(edge).place(x[edge], moves.count[edge])
        plans = [best]
        if self.run.options > 1:
            plans += self._others(x, best)
        # proved rows of a linear cost need no walk back; others may still have a step to spare
        minimal = self.shape_ == "linear" and not self.problem_.rules and not self.unproved
        return Proposal(torch.stack(plans, 1), impossible, proof, minimal)

    def _moves(self, x: Tensor, blocked: Tensor) -> Moves:
        return Moves.of(self.problem_.schema, self.terms_.to(x.device), x, blocked, self.price_, self.fixed_)

    def _margin(self, x: Tensor) -> Tensor:
        return self.terms_.to(x.device).margin(x)

    def _solve(self, x: Tensor, blocked: Tensor, moves: Moves) -> tuple[Tensor, dict[int, float]]:
        """(n, d), (n, F) -> cheapest rows (n, d), NaN for none; highest margins where rules forbid all."""
        x_new = torch.full_like(x, torch.nan)
        gap = self.aim_ - self._margin(x)
        within = (moves.reach >= gap).nonzero().squeeze(1)
        proved = torch.zeros(len(within), dtype=torch.bool, device=x.device)
        bound = torch.zeros(len(within), dtype=x.dtype, device=x.device)
        if self.shape_ == "linear" and len(within):
            mine, own = moves.take(within), x[within]
            found = cover(
                mine, gap[within], 0.5 * self.allowance_, self.tolerance, self._quanta(mine), self.nodes,
                lambda: self.run.expired,
            )  # fmt: skip
            rows = mine.place(own, found.steps)
            good = (self._margin(rows) >= clearance(self.problem_)) & (self.problem_.violation(own, rows) <= 0)
            x_new[within[good]] = rows[good]
            bound = found.bound
            proved = good & (found.cost - bound <= 1.001 * self.tolerance)
        return x_new, self._programs(x, blocked, x_new, within[~proved], bound[~proved])

    def _quanta(self, moves: Moves) -> Tensor:
        """(n,) the quantum for people whose values all lie on their grids, 0 for the others."""
        steps = moves.first / moves.grid_step
        on_grid = ((steps - steps.round()).abs() < 1e-7) | (moves.count == 0)
        return on_grid.all(1).to(moves.first.dtype) * self.quantum_

    def _programs(self, x: Tensor, blocked: Tensor, x_new: Tensor, rows: Tensor, bound: Tensor) -> dict[int, float]:
        """Integer programs for some people; writes what is better than x_new has. Returns who has no plan, and why."""
        hopeless: dict[int, float] = {}
        open_ended = 0
        for i, low in zip(rows.tolist(), bound.tolist()):
            left = min(self.seconds, self.run.left / 4)  # one hard program must not take the time of all others
            if self.run.over or left <= 0:
                open_ended += 1
                continue
            own, out = x[i : i + 1].cpu(), blocked[i].cpu().numpy()
            program = PersonProgram(self.problem_, self.terms_, own, out, self.shape_)
            plan = program.cheapest(self.aim_, left, max(self.tolerance, CURVED))
            if plan.outcome == "infeasible":
                highest = program.highest(min(left, max(0.0, self.run.left)))
                if highest < -self.allowance_:
                    hopeless[i] = highest
                else:
                    open_ended += 1
                continue
            cost = math.inf
            old = x_new[i : i + 1].cpu()
            if bool(torch.isfinite(old).all()):
                cost = float(self.problem_.cost(own, old)[0])
            if plan.x_new is not None and (price := float(self.problem_.cost(own, plan.x_new.unsqueeze(0))[0])) < cost:
                x_new[i], cost = plan.x_new.to(x.device), price
            open_ended += plan.outcome != "optimal" and cost - max(low, plan.bound) > 2 * self.tolerance
        self.unproved += open_ended
        if open_ended:
            warnings.warn(
                f"ExactLinear could not prove the plans of {open_ended} people to be the cheapest: they are the best "
                "found. Where time ran out, raise seconds or time_limit.",
                stacklevel=5,
            )
        return hopeless

    # -- further options --------------------------------------------------------------------------------------

    def _others(self, x: Tensor, best: Tensor) -> list[Tensor]:
        """Cheapest rows (n, d) that leave alone features which earlier ones change, where that is another set."""
        plans: list[Tensor] = []
        owner = torch.isfinite(best).all(1).nonzero().squeeze(1)
        parent = best[owner]
        blocked = torch.zeros(len(owner), len(self.problem_.schema), dtype=torch.bool, device=x.device)
        whose, ways = owner, self.problem_.schema.changed(x[owner], parent)  # features changed by each plan so far
        for _ in range(GENERATIONS):
            row, feature = self.problem_.schema.changed(x[owner], parent).nonzero(as_tuple=True)
            who = owner[row]
            out = blocked[row].clone()
            out[torch.arange(len(row), device=x.device), feature] = True
            have = torch.bincount(whose, minlength=len(x))
            wanted = have[who] < self.run.options
            who, out = _distinct(who[wanted], out[wanted])
            if not len(who) or self.run.expired:
                break
            rows, _ = self._solve(x[who], out, self._moves(x[who], out))
            found = torch.isfinite(rows).all(1)
            owner, parent, blocked = who[found], rows[found], out[found]
            both = torch.cat([whose, owner]), torch.cat([ways, self.problem_.schema.changed(x[owner], parent)])
            fresh = ~repeats(both[0], both[1].to(x.dtype))
            new = fresh[len(whose) :]
            whose, ways, mine, rows = both[0][fresh], both[1][fresh], owner[new], parent[new]
            place = places(mine)
            for slot in range(int(place.max()) + 1 if len(place) else 0):
                plan = torch.full_like(x, torch.nan)
                plan[mine[place == slot]] = rows[place == slot]
                plans.append(plan)
        return plans

    # -- proofs -----------------------------------------------------------------------------------------------

    def _proofs(self, x: Tensor, moves: Moves, top: Tensor, impossible: Tensor) -> dict[int, str]:
        """For people out of reach: the best value of every feature, what it adds, and the sum."""
        rows = impossible.nonzero().squeeze(1)
        if not len(rows):
            return {}
        schema, mine = self.problem_.schema, moves.take(rows)
        gains = mine.points(mine.count).gain.cpu().numpy()
        placed = mine.place(x[rows], mine.count).cpu()
        words = []
        for f in mine.features:
            feature, part = schema.features[f], placed[:, schema.slices[f]].numpy()
            values = feature.decode(part)
            words.append([f"{feature.title} to {v} adds" for v in values.tolist()])
        own, highest = self._margin(x)[rows].tolist(), top[rows].tolist()
        out = {}
        for r, i in enumerate(rows.tolist()):
            parts = [f"{words[j][r]} {gain:.6g}" for j, gain in enumerate(gains[r]) if gain > 0]
            best = f" ({'; '.join(parts)})" if parts else " (nothing they may change adds to it)"
            out[i] = (
                f"their margin is {own[r]:.6g}, and the best allowed value of every feature{best} brings it to "
                f"{highest[r]:.6g}, below the 0 that a yes needs."
            )
        return out

    def _proof_by_rules(self, highest: float) -> str:
        names = "; ".join(rule.name for rule in self.problem_.rules)
        if highest == -math.inf:
            return f"no allowed row keeps all rules ({names}), by an integer program over all of them."
        return (
            f"the highest margin of an allowed row that keeps the rules ({names}) is {highest:.6g}, below the 0 that a "
            "yes needs, by an integer program over all of them."
        )


def shape_of(problem: Problem) -> Shape:
    """How the problem's cost is made of its features' shares."""
    cost = problem.cost
    if cost.linear_weights is not None and cost.fixed_weights is not None:
        return "linear"
    if cost.separable:
        return "sum"
    inner: Cost = problem.declared_cost
    while isinstance(inner, (Scaled, Weighted)):
        inner = inner.cost
    if isinstance(inner, L2):
        return "squares"
    if isinstance(inner, PercentileShift):
        return "max"
    raise MethodError(
        f"ExactLinear cannot minimise the cost {problem.declared_cost!r}: it is not a sum over features.",
        hint="use L1, L0, MAD, PercentileShift or sums of them, or one L2 or PercentileShift(reduce='max') alone.",
    )


def _quantum(problem: Problem, price: Tensor, fixed: Tensor) -> float:
    """A cost of which all costs of people on their grids are multiples, or 0 where there is none worth using."""
    parts: list[float] = []
    for f, feature in enumerate(problem.schema.features):
        if feature.moves == "fixed":
            continue
        grid_step = feature.choice_step / feature.span if isinstance(feature, Scalar) else 1.0
        assert isinstance(feature, (Scalar, Category))
        parts += [v for v in (float(price[f]) * grid_step, float(fixed[f])) if v > 0]
    if not parts:
        return 0.0
    steps = np.array(parts)
    for divisor in range(1, 61):
        unit = steps.min() / divisor
        if (np.abs(steps / unit - np.rint(steps / unit)) < 1e-9 * np.maximum(1.0, steps / unit)).all():
            return float(unit)
    return 0.0


def _distinct(owner: Tensor, blocked: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of (owner, blocked) without repetition, by owner."""
    both = torch.cat([owner.unsqueeze(1), blocked.long()], 1).unique(dim=0)
    return both[:, 0], both[:, 1:].bool()
