"""The same proofs by integer programs: one sequence of one person at a time, solved by HiGHS."""

from __future__ import annotations

import heapq
import time
from itertools import count

import numpy as np
import torch

from turnabout.methods.sequences.certificate.box_program import TOLERANCE, BoxAnswer, BoxProgram
from turnabout.methods.sequences.certificate.certificate_task import CertificateTask, CheapestPlans
from turnabout.methods.sequences.certificate.jobs import Jobs
from turnabout.methods.sequences.certificate.parameter_boxes import roll
from turnabout.methods.sequences.certificate.roots import shrink
from turnabout.solvers.bounds import MarginBound, NetBound, TreeBound
from turnabout.typing import Tensor

ROUNDS = 3
NUDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)


class IntegerPrograms:
    """Bounds for many jobs, one after the other; a box whose program leaves a gap is split and both halves are asked.

    Parameters
    ----------
    task, bound : what is to be proved, and the model's bound.
    found : the cheapest plans known; those that programs propose are entered, if they hold.
    gap : relative distance at which a box is done.
    until : when to stop, on the monotonic clock.
    most : programs for each job, at most.
    """

    def __init__(
        self,
        task: CertificateTask,
        bound: MarginBound,
        found: CheapestPlans,
        gap: float,
        until: float | None,
        most: int,
    ):
        self.task, self.bound, self.found = task, bound, found
        self.gap, self.until, self.most = gap, until, most
        self.lower = torch.full_like(found.cost, torch.inf)
        self.done = torch.ones_like(self.lower, dtype=torch.bool)
        self.rounded = torch.full_like(self.lower, torch.inf)  # cost of plans that only rounding makes accepted
        self.solved, self._turn = 0, count()

    def run(self, jobs: Jobs, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds (n,) over the jobs' boxes (J, K), and whether the proofs are complete (n,)."""
        base = self.bound.base(self.task.rest(jobs))
        for j in range(len(jobs)):
            row = slice(j, j + 1)
            self._solve(jobs.take(torch.tensor([j])), low[row], high[row], base[row])
        return torch.minimum(self.lower, self.found.known), self.done

    def _solve(self, job: Jobs, low: Tensor, high: Tensor, base: Tensor) -> None:
        person, root, last = int(job.person[0]), (high - low)[0].numpy(), self.solved + self.most
        heap = [(float(job.constant[0]), next(self._turn), low, high)]
        while heap:
            least, _, a, b = heapq.heappop(heap)
            known = float(self.found.known[person])
            proved = least >= min(known, float(self.rounded[person])) * (1 - self.gap)
            late = self.until is not None and time.monotonic() > self.until
            if proved or late or self.solved >= last:
                self.done[person] &= proved
                self.lower[person] = min(float(self.lower[person]), least)
                continue
            a, b, program = _pose(job, a, b, known, self.bound, base)
            if program is None:
                continue
            left = 1e9 if self.until is None else self.until - time.monotonic()
            answer = program.solve(known, self.gap, left)
            self.solved += 1
            least = max(least, answer.bound)
            if answer.theta is not None:
                points = _nearby(torch.from_numpy(answer.theta).to(a), a, b, program, self.bound, base)
                self.task.try_out(job.take(torch.zeros(len(points), dtype=torch.long)), points, self.found)
                loose = self.task.grid is None and bool((job.rounding > 0).any())
                if loose and answer.error.max() < TOLERANCE:
                    cost = program.rolled.price.at(points[:1])
                    self.rounded[person] = torch.minimum(self.rounded[person], cost[0])
            if np.isfinite(least):
                for part in _halves(a, b, answer, root):
                    heapq.heappush(heap, (least, next(self._turn), *part))


def _pose(
    job: Jobs, low: Tensor, high: Tensor, known: float, bound: MarginBound, base: Tensor
) -> tuple[Tensor, Tensor, BoxProgram | None]:
    """The box made smaller, and its program; None if it holds no plan."""
    budget = low.new_tensor([known])
    for _ in range(ROUNDS):
        low, high, alive = shrink(roll(job, low, high), low, high, budget)
        if not bool(alive):
            return low, high, None
    rolled = roll(job, low, high)
    if not bool(rolled.alive):
        return low, high, None
    program = BoxProgram(job, low, high, rolled)
    if isinstance(bound, NetBound):
        program.ask_net(bound, base)
    elif isinstance(bound, TreeBound):
        program.ask_trees(bound, base)
    return low, high, program


def _nearby(theta: Tensor, low: Tensor, high: Tensor, program: BoxProgram, bound: MarginBound, base: Tensor) -> Tensor:
    """The program's parameters (K,), and some slightly beyond: the solver keeps its rows only within its tolerance."""
    rolled = program.rolled
    uphill = bound.plane(base, rolled.end).slope.sign() * (high - low)
    outward = theta - rolled.price.kink
    steps = torch.tensor(NUDGES, dtype=theta.dtype).unsqueeze(1)
    points = torch.cat([theta + steps * uphill, theta + steps * outward])
    return torch.minimum(torch.maximum(points, low), high)


def _halves(low: Tensor, high: Tensor, answer: BoxAnswer, root: np.ndarray) -> list[tuple[Tensor, Tensor]]:
    """The box cut in two where the program's products are worst, else at its longest side."""
    width = (high - low)[0].numpy() / np.where(root > 0, root, 1.0)
    score = width * (answer.error + 1e-6)
    k = int(score.argmax())
    middle = float(low[0, k] + high[0, k]) / 2
    below, above = high.clone(), low.clone()
    below[0, k] = above[0, k] = middle
    return [(low, below), (above, high)] if width[k] > 1e-9 else [(low, high)]
