"""From parameters to plans that can be printed: every state on the grid, and still accepted."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from turnabout.actions import BoundActions
from turnabout.actions.steps import TINY
from turnabout.core.candidates import places
from turnabout.core.plan import PlanColumns, Plans, replay
from turnabout.core.problem import Problem
from turnabout.core.run import Run
from turnabout.core.verify import clearance
from turnabout.methods.sequences.sequence_set import Pairs, owned
from turnabout.methods.sequences.solve import STARTS
from turnabout.typing import Tensor

PUSHES = (0.0, 1e-9, 1e-7, 1e-5, 1e-3, 1e-2, 5e-2)  # how far beyond a plan to look when rounding lost the decision
COARSE = 1e-3  # grid step, as a share of the change, above which neighbours on the grid are tried
ROUNDS = 12
EARLIER = (1.0, 2.0, 4.0, 16.0)  # how much farther than the next one a step is pushed where rules join columns
Accept = Callable[[Tensor, Tensor, Tensor], Tensor]  # rows, sequences, r -> which of them will do


@dataclass
class Printed:
    """For m plans: parameters (m, T, P) whose replay is allowed and accepted, and its cost, inf where there is none."""

    r: Tensor
    cost: Tensor


def printable(
    problem: Problem,
    x: Tensor,
    sequences: Tensor,
    r: Tensor,
    least: float,
    ask: Callable[[Tensor], Tensor],
    expired: Callable[[], bool] = lambda: False,
    accept: Accept | None = None,
) -> Printed:
    """People x (m, d), sequences (m, T), r (m, T, P) -> the cheapest printed plan near each.

    Each parameter is rounded down and up (all combinations for a few parameters); where nothing survives, a little
    beyond; on coarse grids neighbours are tried as long as they are cheaper. `accept(rows, sequences, r)` may refuse
    more.
    """
    actions = problem.actions
    assert actions is not None
    ground = PlanColumns.of(problem.schema, actions, x.device)
    line = torch.where(sequences >= 0, sequences, len(actions.names))
    used = actions.tables.used[line]
    step = _steps(ground, actions.tables.gain[line]) * used  # (m, T, P)
    out = Printed(r.clone(), torch.full_like(r[:, 0, 0], torch.inf))

    def offer(rows: Tensor, trial: Tensor) -> Tensor:
        """Replay r (rows, v, T, P) variants and keep the cheapest good one; returns who improved."""
        many = rows.repeat_interleave(trial.shape[1])
        run = replay(problem, x[many], sequences[many], trial.flatten(0, 1))
        good = run.allowed.clone()
        where = good.nonzero().squeeze(1)
        good[where] = ask(run.end[where]) >= least
        if accept is not None:
            good = _cheapest(torch.where(good, run.total, torch.inf).reshape(trial.shape[:2])).flatten()
            where = good.nonzero().squeeze(1)
            good[where] &= accept(many[where], sequences[many[where]], run.r[where])
        cost = torch.where(good, run.total, torch.inf).reshape(trial.shape[:2])
        pick = cost.argmin(1)
        found = cost.gather(1, pick.unsqueeze(1)).squeeze(1)
        better = found < out.cost[rows] * (1 - 1e-12)
        at = torch.arange(len(rows), device=x.device) * trial.shape[1] + pick
        out.r[rows[better]], out.cost[rows[better]] = run.r[at][better], found[better]
        return better

    everyone = torch.arange(len(x), device=x.device)
    signs = _signs(int(used.flatten(1).sum(1).max()) if len(x) else 0, used)  # (m, v, T, P)
    for further, push in enumerate(PUSHES):
        rows = everyone[torch.isinf(out.cost)]
        if not len(rows) or expired():
            break
        outward = signs[rows] * torch.where(r[rows] < 0, -1.0, 1.0).unsqueeze(1)
        # a whole step further each time: what lies just beyond a grid point is rounded back to it
        beyond = (push * r[rows].abs() + further * step[rows]).unsqueeze(1) * (signs[rows] > 0)
        ways = [beyond * grade for grade in _grades(sequences[rows], EARLIER if problem.rules and further else (1.0,))]
        half = 0.4999 * step[rows].unsqueeze(1)
        offer(rows, torch.cat([r[rows].unsqueeze(1) + outward * (half + way) for way in ways], 1))
    coarse = (step > COARSE * (r.abs() + step)).flatten(1).any(1)
    rows = everyone[coarse & torch.isfinite(out.cost)]
    for _ in range(ROUNDS):
        if not len(rows) or expired():
            break
        moves = _moves(used[rows])  # (rows, v, T, P)
        better = offer(rows, out.r[rows].unsqueeze(1) + moves * step[rows].unsqueeze(1))
        rows = rows[better]
    return out


@dataclass(frozen=True)
class PlanPrinter:
    """Prints what a search has found for the people of a chunk; `longest` is the length of its plans."""

    problem: Problem
    run: Run
    ask: Callable[[Tensor], Tensor]
    longest: int

    def plans(
        self, x: Tensor, chosen: Pairs, given: list[Tensor], accept: Accept | None = None
    ) -> tuple[Plans, Tensor]:
        """Sequences of people with their parameters as printable plans, (n, k, ...); -1 where `accept` refuses.

        Also the cost (n,) of each person's cheapest, inf for none.
        """
        assert self.problem.actions is not None
        size = self.problem.actions.tables.gain.shape[1]
        counts = torch.bincount(torch.tensor([i for i, _ in chosen], dtype=torch.long), minlength=len(x))
        width = max(1, int(counts.max())) if len(x) else 1
        sequences = torch.full((len(x), width, self.longest), -1, dtype=torch.long, device=x.device)
        r = torch.zeros(len(x), width, self.longest, size, dtype=x.dtype, device=x.device)
        least = torch.full_like(x[:, 0], torch.inf)
        if not chosen:
            return Plans(sequences, r), least
        owner, flat = owned(chosen, self.longest, x.device)
        start = torch.zeros(len(chosen), self.longest, size, dtype=x.dtype, device=x.device)
        for k, parameters in enumerate(given):
            start[k, : len(parameters)] = parameters
        clear, expired = clearance(self.problem), lambda: self.run.expired
        cost = torch.full_like(start[:, 0, 0], torch.inf)
        slot = places(owner)
        turns = torch.arange(len(owner), device=x.device)
        if self.run.time_limit is not None:  # everyone's first plan first
            turns = slot.argsort(stable=True)
        for part in self.run.parts(len(chosen), len(chosen), "print", STARTS):
            at = turns[part]
            mine = None if accept is None else _of_part(accept, at)
            printed = printable(self.problem, x[owner[at]], flat[at], start[at], clear, self.ask, expired, mine)
            start[at], cost[at] = printed.r, printed.cost
        if accept is not None:
            flat = torch.where(torch.isfinite(cost).unsqueeze(1), flat, -1)
        sequences[owner, slot], r[owner, slot] = flat, start
        return Plans(sequences, r), least.scatter_reduce(0, owner, cost, "amin")


def _of_part(accept: Accept, at: Tensor) -> Accept:
    """`accept` for some of the plans, those at places `at`."""
    return lambda rows, sequences, r: accept(at[rows], sequences, r)


def tightened(problem: Problem) -> BoundActions:
    """The problem's actions with strict conditions drawn in by half a grid step, where a search may go up to them."""
    actions = problem.actions
    assert actions is not None
    ground = PlanColumns.of(problem.schema, actions, actions.tables.columns.device)
    tables = actions.tables
    reads = torch.where((tables.of_new != 0).any(-1, keepdim=True), tables.of_new, tables.of_old)
    room = 0.5 * (reads.abs() * ground.step).sum(-1)  # (A+1, C)
    out = copy.copy(actions)
    out.tables = replace(tables, offset=torch.where(tables.strict, tables.offset - room, tables.offset))
    return out


def _steps(ground: PlanColumns, gain: Tensor) -> Tensor:
    """Gains (m, T, P, e) -> (m, T, P): the change of a parameter by which its finest column moves one grid step."""
    size = torch.where(gain != 0, ground.step / gain.abs().clamp(min=TINY), torch.inf).amin(-1)
    return torch.where(torch.isfinite(size), size, torch.zeros_like(size))


def _grades(sequences: Tensor, bases: tuple[float, ...]) -> list[Tensor]:
    """(m, 1, T, 1) for each base: base^k with k the steps after each; what comes first makes room for the rest."""
    after = (sequences >= 0).sum(1, keepdim=True) - 1 - torch.arange(sequences.shape[1], device=sequences.device)
    return [(base ** after.clamp(min=0).to(torch.float64))[:, None, :, None] for base in bases]


def _cheapest(cost: Tensor, few: int = 3) -> Tensor:
    """(m, v) bool: the few cheapest variants of each plan that are any good."""
    rank = cost.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    return (rank < few) & torch.isfinite(cost)


def _spread(used: Tensor, patterns: Tensor) -> Tensor:
    """Patterns (v, K) over the used parameters of each row, in order -> (m, v, T, P)."""
    flat = used.flatten(1)
    place = (flat.cumsum(1) - 1).clamp(0, max(patterns.shape[1] - 1, 0))  # which used parameter a cell is
    values = patterns.T[place] if patterns.shape[1] else patterns.new_zeros(*flat.shape, len(patterns))  # (m, TP, v)
    values = torch.where(flat.unsqueeze(-1), values, torch.zeros_like(values))
    return values.transpose(1, 2).reshape(len(used), len(patterns), *used.shape[1:])


def _signs(most: int, used: Tensor) -> Tensor:
    """Ways to round: nearest, then all combinations of down and up, or each alone when there are many parameters."""
    nearest = [[0.0] * most]
    if most <= 4:
        combos = [list(c) for c in itertools.product((-1.0, 1.0), repeat=most)]
    else:
        combos = [[s] * most for s in (-1.0, 1.0)]
        combos += [[s if k == j else 0.0 for k in range(most)] for j in range(most) for s in (-1.0, 1.0)]
    return _spread(used, torch.tensor(nearest + combos, dtype=torch.float64, device=used.device))


def _moves(used: Tensor) -> Tensor:
    """Neighbours on the grid: one parameter a step (or four) either way, or two against each other."""
    most = int(used.flatten(1).sum(1).max())
    out = []
    for j in range(most):
        for size in (-4.0, -1.0, 1.0, 4.0):
            out.append([size if k == j else 0.0 for k in range(most)])
    for j, k in itertools.permutations(range(min(most, 4)), 2):
        for size in (1.0, 2.0):
            out.append([1.0 if i == j else -size if i == k else 0.0 for i in range(most)])
            out.append([-1.0 if i == j else size if i == k else 0.0 for i in range(most)])
            out.append([1.0 if i == j else size if i == k else 0.0 for i in range(most)])
            out.append([-1.0 if i == j else -size if i == k else 0.0 for i in range(most)])
    return _spread(used, torch.tensor(out or [[0.0] * most], dtype=torch.float64, device=used.device))
