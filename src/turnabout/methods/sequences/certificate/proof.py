"""Certificates: how cheap any plan over some sequences can be, proved.

Conditions and reach are loosened by 1e-8 of their size and bounds lowered by 1e-9, far above rounding errors in
float64, so rounding cannot make a proof wrong. A strict condition is taken to hold by 1e-10 of its size, or, if it
only asks for a change (new age > old age), as closed.

Without a grid plans may use any value. Printed plans are among them, except for columns that move together with another
one (a ratio kept, a share followed) and are rounded for themselves: such a plan can be cheaper than every exact one.
Pass the grid for bounds on printed plans, or at least the rounding.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from turnabout.core.pace import Pace
from turnabout.methods.sequences.certificate.branch import BranchAndBound
from turnabout.methods.sequences.certificate.certificate_task import CertificateTask, CheapestPlans
from turnabout.methods.sequences.certificate.first_plans import probe
from turnabout.methods.sequences.certificate.jobs import Jobs
from turnabout.methods.sequences.certificate.reduce import Reduction
from turnabout.methods.sequences.certificate.rewrite import Rewritten
from turnabout.methods.sequences.certificate.roots import root_boxes
from turnabout.methods.sequences.proof_engines import ENGINES, ProofBudget, ProofEngine
from turnabout.models.model import LinearMargin
from turnabout.solvers.bounds import MarginBound, bound_on
from turnabout.typing import Tensor

AT_ONCE = 1 << 15  # jobs looked at together
PROGRAMS = 1000  # for each sequence, at most
INNER = 0.98  # share of the gap worked to, so that rounding does not spoil it
SAFE = 1e-9  # share by which bounds are lowered in the end


@dataclass(frozen=True)
class Certificates:
    """What was proved about n people.

    Attributes
    ----------
    lower_bound : (n,) no plan over the sequences is cheaper; inf where there is none.
    how : what proved it.
    complete : (n,) whether the bound is within the gap, or there is no plan; else time or boxes ran out.
    cost, sequences, r : (n,), (n, T), (n, T, P) the cheapest plan met by the proof itself, continuous and with strict
        conditions just touched; inf, -1 and 0 where it met none. The optimum lies between lower_bound and the lower
        of this cost and that of the plan it was given.
    boxes : how many boxes were bounded, or programs solved.
    seconds : how long it took.
    """

    lower_bound: Tensor
    how: list[str]
    complete: Tensor
    cost: Tensor
    sequences: Tensor
    r: Tensor
    boxes: int
    seconds: float


@dataclass(frozen=True)
class Work:
    """What must be proved: jobs with their boxes, and (n,) the least cost of what cannot be, for want of limits."""

    jobs: Jobs
    low: Tensor
    high: Tensor
    loose: Tensor


def certify(
    task: CertificateTask,
    upper: Tensor,
    gap: float = 0.005,
    time_limit: float | None = None,
    *,
    engine: str | ProofEngine = "auto",
    batch: int | None = None,
    boxes: int | None = 200_000,
) -> Certificates:
    r"""Lower bounds on the cost of every allowed plan that ends where the model's margin is not negative.

        lower_bound <= min over sequences and r of the cost      and, if complete,     >= (1 - gap) * what is known, (1)

    where known is the cheaper of `upper` and of the plans met on the way. Dropped first are sequences that cost too
    much by constants, whose guards fail, or that another one covers (`Reduction`). What remains is bounded by branch
    and bound over boxes of parameters (`BranchAndBound`) or by integer programs (`milp`).

    Parameters
    ----------
    task : the people, the sequences and the model.
    upper : (n,) cost of the cheapest plan known, inf for none.
    gap : relative distance between bound and known cost to aim for.
    time_limit : seconds for all people together.
    engine : "branch", "milp", "auto", or a `ProofEngine`.
    batch : boxes bounded at a time; chosen by the size of the model if not given.
    boxes : boxes allowed for each person, on average over those worked on together.
    """
    began = time.monotonic()
    until = None if time_limit is None else began + time_limit
    with torch.no_grad():
        x, tables, sequences = task.x.to(torch.float64), task.tables, task.sequences
        rewritten, start = Rewritten.of(tables), tables.units(x)
        hidden = torch.isin(sequences, sequences.new_tensor(list(task.opaque))).any(1)
        lo, hi = torch.minimum(task.lo.to(x), start), torch.maximum(task.hi.to(x), start)
        task = replace(task, tables=rewritten.tables, x=x, sequences=sequences[~hidden], lo=lo, hi=hi)
        moving = task.kinds.moving
        bound = bound_on(task.model, tables.columns[moving], tables.span[moving], task.noise)
        proofs = Proofs(task, bound, CheapestPlans.none(task, upper.to(x)), gap * INNER, ENGINES.get(engine))
        most, done = max(1, AT_ONCE // max(1, len(sequences))), 0
        pace = Pace(time_limit or 0.0, 1)  # people whose preparation takes little of the time limit
        while done < len(x) and (until is None or time.monotonic() < until):
            count = most if until is None else min(most, pace.rows)
            who = torch.arange(done, min(len(x), done + count), device=x.device)
            left = None if until is None else (until - time.monotonic()) * len(who) / (len(x) - done)
            prepared = proofs.work(who, left, batch, boxes)
            done += len(who)
            pace.note(len(who), prepared)
        proofs.lower[done:] = 0.0  # no time for these
        if bool(hidden.any()):
            proofs.lower.clamp_(max=0.0)
            proofs.complete[:] = False
        task.tidy(proofs.found)
        proofs.found.r = rewritten.as_declared(start, proofs.found.sequences, proofs.found.r)
    return proofs.certificates(time.monotonic() - began)


class Proofs:
    """The people worked through so far, and what was proved about them."""

    def __init__(
        self, task: CertificateTask, bound: MarginBound | None, found: CheapestPlans, gap: float, engine: ProofEngine
    ):
        self.task, self.bound, self.found, self.gap, self.engine = task, bound, found, gap, engine
        self.lower = torch.full_like(found.cost, torch.inf)
        self.complete = torch.zeros_like(self.lower, dtype=torch.bool)
        self.how = [""] * len(self.lower)
        self.boxes = 0

    @cached_property
    def reduction(self) -> Reduction:
        """Which sequences cover which."""
        return Reduction(self.task)

    def certificates(self, seconds: float) -> Certificates:
        """What is proved by now."""
        lower = torch.where(torch.isinf(self.lower), self.lower, self.lower * (1 - SAFE))
        found = self.found
        return Certificates(lower, self.how, self.complete, found.cost, found.sequences, found.r, self.boxes, seconds)

    def work(self, who: Tensor, seconds: float | None, batch: int | None, boxes: int | None) -> float:
        """Prove what can be about some people; returns the seconds it took to prepare."""
        began = time.monotonic()
        late = math.inf if seconds is None else began + seconds
        work = self._prepare(who)
        lost = torch.isinf(self.found.known[who])
        if bool(lost.any()) and len(work.jobs) and time.monotonic() < late:
            rows = torch.isin(work.jobs.person, who[lost]).nonzero().squeeze(1)
            probe(self.task, work.jobs.take(rows), work.low[rows], work.high[rows], self.found, until=late)
            work = self._prepare(who)
        prepared = time.monotonic() - began
        busy = torch.zeros_like(self.complete)
        busy[work.jobs.person] = True
        known = self.found.known
        self._write(who, known, torch.ones_like(busy), "conditions and costs alone", work)
        who = who[busy[who]]
        if self.bound is None:
            least = work.loose.scatter_reduce(0, work.jobs.person, work.jobs.constant, "amin")
            self._write(who, torch.minimum(known, least), least >= self._target, "costs alone", work)
            return prepared
        budget = ProofBudget(began, seconds, batch or _batch(self.bound), boxes)
        self.engine.prove(self, who, work, budget)
        return prepared

    def branch(self, who: Tensor, work: Work, budget: ProofBudget, until: float | None) -> Tensor:
        """Branch and bound; (n,) for whom no box is left, so that nothing more is to be learned."""
        assert self.bound is not None
        search = BranchAndBound(self.task, self.bound, self.found, self.gap, budget.batch)
        base = self.bound.base(self.task.rest(work.jobs))
        most = None if budget.boxes is None else budget.boxes * len(who)
        lower, done = search.run(work.jobs, base, work.low, work.high, until, most)
        self.boxes += search.boxes
        straight = isinstance(self.task.model, LinearMargin) and search.rounds <= 1
        self._write(who, lower, done, "closed form" if straight else "branch and bound", work)
        return done

    def programs(self, who: Tensor, work: Work, until: float | None, only_better: bool = False) -> None:
        """Integer programs, until a time; with `only_better` what is known stays where they say less."""
        from turnabout.methods.sequences.certificate.plan_milp import IntegerPrograms

        assert self.bound is not None
        rows = torch.isin(work.jobs.person, who).nonzero().squeeze(1)
        programs = IntegerPrograms(self.task, self.bound, self.found, self.gap, until, PROGRAMS)
        lower, done = programs.run(work.jobs.take(rows), work.low[rows], work.high[rows])
        self.boxes += programs.solved
        better = who[(lower > self.lower)[who] | done[who]] if only_better else who
        self._write(better, lower, done, "integer programs", work)

    @property
    def _target(self) -> Tensor:
        return self.found.known * (1 - self.gap)

    def _prepare(self, who: Tensor) -> Work:
        """The jobs of these people that must be proved, in boxes that hold every plan cheaper than what is known."""
        known, sequences = self.found.known, self.task.sequences
        pairs = torch.cartesian_prod(who, torch.arange(len(sequences), device=who.device)).reshape(-1, 2)
        jobs, possible = self.task.jobs(sequences[pairs[:, 1]], pairs[:, 0])
        jobs = jobs.take((possible & (jobs.constant < known[jobs.person])).nonzero().squeeze(1))
        jobs, low, high, alive, bounded = root_boxes(jobs, known[jobs.person])
        loose = torch.full_like(known, torch.inf)
        wild = (alive & ~bounded).nonzero().squeeze(1)
        loose = loose.scatter_reduce(0, jobs.person[wild], jobs.constant[wild], "amin")
        rows = (alive & bounded).nonzero().squeeze(1)
        jobs, low, high = jobs.take(rows), low[rows], high[rows]
        rows = self.reduction.needed(jobs, low, high).nonzero().squeeze(1)
        return Work(jobs.take(rows), low[rows], high[rows], loose)

    def _write(self, who: Tensor, lower: Tensor, done: Tensor, how: str, work: Work) -> None:
        """Keep the bounds (n,) of the people in question."""
        lower = torch.minimum(lower, work.loose)
        self.lower[who] = lower[who]
        self.complete[who] = (done & (lower >= self._target))[who]
        for i in who.tolist():
            self.how[i] = how


def _batch(bound: MarginBound) -> int:
    """Boxes bounded at a time: as many as keep the largest tensors small enough for a cache."""
    return max(128, min(4096, (1 << 16) // bound.width))
