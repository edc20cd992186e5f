"""Branch and bound over boxes of parameters, for many people and sequences in one batch."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from turnabout.methods.sequences.certificate.certificate_task import ONE, CertificateTask, CheapestPlans
from turnabout.methods.sequences.certificate.dual import cheapest_in_box, cheapest_under_rows
from turnabout.methods.sequences.certificate.jobs import Jobs
from turnabout.methods.sequences.certificate.parameter_boxes import Rolled, Rows, roll
from turnabout.methods.sequences.certificate.roots import shrink_by_price, shrink_by_rows
from turnabout.solvers.bounds import MarginBound
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

TRIED = 256  # points of a batch put to the model itself
SMALLEST = 1e-9  # a side narrower than this, beside that of the first box, is not split
EVENLY = 0.05  # weight of a side's length, beside the looseness it causes, when a box is split


@dataclass(frozen=True)
class OpenBoxes(TensorRows):
    """Boxes yet to be split: job (N,), low and high (N, K), bound (N,)."""

    job: Tensor
    low: Tensor
    high: Tensor
    bound: Tensor

    def __len__(self) -> int:
        return len(self.job)


class BranchAndBound:
    r"""Lower bounds on the cost of plans, by splitting boxes until what is left cannot be much cheaper than known.

    A box is bounded by the cheapest point that its plane above the margin still accepts,

        min over theta in the box   cost(theta)     s.t.   slope . delta + top >= 0,                             (1)

    and dropped once this reaches (1 - gap) times the cheapest plan known. Before that it is cut down to where
    conditions, prices and the plane leave room. All boxes of all people wait in one pool, from which those with the
    lowest bounds are taken, many at a time; a box is split where its plane is loosest. The points of (1) are put to
    the model itself, so cheaper plans are met on the way. The least bound of the boxes dropped, of those still open,
    and the cheapest plan known together bound every plan of the sequences asked about.

    Parameters
    ----------
    task, bound : what is to be proved, and the model's bound.
    found : the cheapest plans known; those met on the way are entered.
    gap : relative distance at which a box is dropped.
    batch : boxes bounded at a time.
    """

    def __init__(self, task: CertificateTask, bound: MarginBound, found: CheapestPlans, gap: float, batch: int):
        self.task, self.bound, self.found, self.gap, self.batch = task, bound, found, gap, batch
        self.dropped = torch.full_like(found.cost, torch.inf)  # least bound of boxes that need no more splitting
        self.rounded = torch.full_like(found.cost, torch.inf)  # cost of plans that rounding may make accepted
        self.boxes = self.rounds = 0

    @property
    def target(self) -> Tensor:
        """(n,) a box with this bound is dropped."""
        return torch.minimum(self.found.known, self.rounded) * (1 - self.gap)

    def run(
        self, jobs: Jobs, base: Tensor, low: Tensor, high: Tensor, until: float | None = None, boxes: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Split the boxes (J, K) of jobs with this base (J, h) until done, or out of time or boxes.

        Returns bounds (n,) and whether the proof is complete (n,).
        """
        self.jobs, self.rest = jobs, base
        self.width = high - low
        pool = self._useful(OpenBoxes(torch.arange(len(jobs), device=low.device), low, high, jobs.constant.clone()))
        while len(pool) and (until is None or time.monotonic() < until) and (boxes is None or self.boxes < boxes):
            if len(pool) > self.batch:
                target = self.target[jobs.person[pool.job]]
                order = torch.where(torch.isinf(target), pool.bound, pool.bound / target).argsort()
                now, later = pool.take(order[: self.batch]), pool.take(order[self.batch :])
                pool = self._useful(OpenBoxes.join([later, self._split(now)]))
            else:
                pool = self._useful(self._split(pool))
        least = torch.minimum(self.found.known, self.dropped)
        done = torch.ones_like(least, dtype=torch.bool)
        done[jobs.person[pool.job]] = False
        return least.scatter_reduce(0, jobs.person[pool.job], pool.bound, "amin"), done

    def _useful(self, pool: OpenBoxes) -> OpenBoxes:
        """The boxes below their target; those at it are dropped."""
        person = self.jobs.person[pool.job]
        over = pool.bound >= self.target[person]
        self.dropped.scatter_reduce_(0, person[over], pool.bound[over], "amin")
        return pool.take((~over).nonzero().squeeze(1))

    def _split(self, pool: OpenBoxes) -> OpenBoxes:
        """Bound the boxes, drop those without a plan, halve the others."""
        self.boxes += len(pool)
        self.rounds += 1
        jobs = self.jobs.take(pool.job)
        rolled = roll(jobs, pool.low, pool.high)
        plane = self.bound.plane(self.rest[pool.job], rolled.end)
        top = plane.top.unsqueeze(1)
        rows = Rows.join([*rolled.rows, Rows(plane.slope.unsqueeze(1), top, top, top)], dim=1)  # the plane comes last
        low, high, allowed = shrink_by_rows(rows, pool.low, pool.high)
        low, high, cheap = shrink_by_price(rolled.price, low, high, self.found.known[jobs.person])
        alive = rolled.alive & allowed & cheap & self.task.may_end(jobs, rolled.end.low, rolled.end.high)
        rows = _over_part(rows, pool, low, high)
        bound, point = self._bounds(jobs, rolled, rows, low, high, alive)
        bound = torch.where(alive, torch.maximum(bound, pool.bound), torch.inf)
        self._try(jobs, bound, low, high, rows.slope[:, -1], point)

        return self._halves(pool, OpenBoxes(pool.job, low, high, bound), plane.blame, ParameterCuts.of(jobs, rolled))

    def _halves(self, pool: OpenBoxes, kept: OpenBoxes, blame: Tensor, cuts: ParameterCuts) -> OpenBoxes:
        """What was kept of some boxes, each cut in two; one that holds a single point is dropped at its bound.

        A box that shrank to a point just now comes back whole: its bound is that of the larger box.
        """
        size, was = kept.high - kept.low, pool.high - pool.low
        root = torch.where(self.width[pool.job] > 0, self.width[pool.job], 1.0)
        left = size / root
        blame = blame * torch.where(was > 0, size / torch.where(was > 0, was, 1.0), 0.0)
        blame = blame / blame.sum(-1, keepdim=True).clamp(min=1e-300) + EVENLY * left
        wide = (left > SMALLEST) & ~cuts.single(size)
        worst, axis = torch.where(wide, blame, 0.0).max(1, keepdim=True)
        alive, split = torch.isfinite(kept.bound), worst.squeeze(1) > 0
        again = ((was / root > SMALLEST) & ~cuts.single(was)).any(1)
        point = kept.take((alive & ~split & ~again).nonzero().squeeze(1))
        self.dropped.scatter_reduce_(0, self.jobs.person[point.job], point.bound, "amin")
        rows = (alive & split).nonzero().squeeze(1)
        box, axis = kept.take(rows), axis[rows]
        middle = cuts.take(rows).middle(axis, box.low, box.high)
        below = OpenBoxes(box.job, box.low, box.high.scatter(1, axis, middle), box.bound)
        above = OpenBoxes(box.job, box.low.scatter(1, axis, middle), box.high, box.bound)
        return OpenBoxes.join([below, above, kept.take((alive & ~split & again).nonzero().squeeze(1))])

    def _bounds(
        self, jobs: Jobs, rolled: Rolled, rows: Rows, low: Tensor, high: Tensor, alive: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(1): bounds (B,) and points (B, K); where they matter, other conditions than acceptance count too."""
        slope, top = rows.slope[:, -1], rows.top[:, -1]
        bound, point = cheapest_in_box(rolled.price, low, high, slope, top)
        unsure = (alive & (bound < self.target[jobs.person])).nonzero().squeeze(1)
        if len(unsure):
            parts = low[unsure], high[unsure], slope[unsure], top[unsure]
            known = bound[unsure], point[unsure]
            better = cheapest_under_rows(rolled.price.take(unsure), *parts, rows.take(unsure), known)
            bound[unsure], point[unsure] = better
        return bound, point

    def _try(self, jobs: Jobs, bound: Tensor, low: Tensor, high: Tensor, slope: Tensor, point: Tensor) -> None:
        """Put the most promising points to the model, each moved a little to the inside, and the middles of boxes."""
        rows = (bound < self.target[jobs.person]).nonzero().squeeze(1)
        rows = rows[bound[rows].argsort()[:TRIED]]
        if len(rows):
            low, high, point = low[rows], high[rows], point[rows]
            moved = point + 1e-6 * (high - low) * slope[rows].sign()
            inner = torch.minimum(torch.maximum(moved, low), high)
            some = jobs.take(torch.cat([rows, rows]))
            self.task.try_out(some, torch.cat([inner, (low + high) / 2]), self.found)
            if self.task.grid is None and bool((jobs.rounding > 0).any()):
                self._round(jobs.take(rows), inner)

    def _round(self, jobs: Jobs, point: Tensor) -> None:
        """Keep the price of points (B, K) that would be accepted if coupled columns were rounded in their favor.

        No plan need have it, but no bound can be raised above it: there is nothing to gain from smaller boxes.
        """
        rolled = roll(jobs, point, point)
        top = self.bound.plane(self.bound.base(self.task.rest(jobs)), rolled.end).top
        cost = torch.where(rolled.alive & (top >= 0), rolled.price.at(point), torch.inf)
        self.rounded.scatter_reduce_(0, jobs.person, cost, "amin")


def _over_part(rows: Rows, pool: OpenBoxes, low: Tensor, high: Tensor) -> Rows:
    """The same rows, written for a part [low, high] of their boxes."""
    radius = (pool.high - pool.low) / 2
    tilt = rows.slope / torch.where(radius > 0, radius, torch.inf).unsqueeze(1)
    shift = (low + high - pool.low - pool.high) / 2
    top = rows.top + (tilt @ shift.unsqueeze(-1)).squeeze(-1)
    return Rows(tilt * ((high - low) / 2).unsqueeze(1), top, rows.most, rows.least)


# -- where a box is split ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParameterCuts(TensorRows):
    """The values that a parameter leads to:  base + slope theta_k  is a multiple of `step`; (B, K) each.

    step is 0 where a parameter shows no such column, or where the state before it is not known well enough. Nothing
    rests on them but where boxes are split, so that what they leave out, such as a person's own value, is not lost.
    """

    base: Tensor
    slope: Tensor
    step: Tensor

    @classmethod
    def of(cls, jobs: Jobs, rolled: Rolled) -> ParameterCuts:
        """Read off the columns that parameters move alone, and those that scalings lead."""
        low = torch.stack([hull.low for hull in rolled.states[:-1]], 1)  # (B, T, m) before each step
        high = torch.stack([hull.high for hull in rolled.states[:-1]], 1)
        turns = jobs.scales.unsqueeze(-1)  # (B, T, 1)
        alone = jobs.own & ~turns.unsqueeze(-1) & (jobs.grid > 0).unsqueeze(2)  # (B, T, P, m)
        lead = torch.zeros_like(jobs.grid).scatter(2, jobs.lead.clamp(min=0).unsqueeze(-1), 1.0) > 0
        dial = torch.zeros_like(jobs.low).scatter(2, jobs.dial.unsqueeze(-1), 1.0) > 0
        led = (turns & dial).unsqueeze(-1) & (lead & (jobs.grid > 0)).unsqueeze(2)
        shown = alone | led
        j = shown.to(torch.int8).argmax(-1)  # (B, T, P): the first of them
        step = torch.where(shown.any(-1), jobs.grid.gather(2, j), 0.0)
        before, after = low.gather(2, j), high.gather(2, j)
        known = after - before <= ONE * step
        start = jobs.start.unsqueeze(1).expand_as(low).gather(2, j)
        even = (start / torch.where(step > 0, step, 1.0)).frac().abs()
        fits = known | (~turns & (torch.minimum(even, 1 - even) <= ONE))
        gain = jobs.gain.gather(3, j.unsqueeze(-1)).squeeze(-1)
        slope = torch.where(turns, before, gain)
        base = torch.where(turns | ~known, 0.0, before)
        step = torch.where(fits & (slope != 0), step, 0.0)
        return cls(base.flatten(1), slope.flatten(1), step.flatten(1))

    def single(self, size: Tensor) -> Tensor:
        """(B, K) whether boxes with sides of this size leave a parameter one value only."""
        return (self.step > 0) & (size * self.slope.abs() <= ONE * self.step)

    def middle(self, axis: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """(B, 1) where to split boxes (B, K) along an axis (B, 1): near the middle, and between two values."""
        a, b = low.gather(1, axis), high.gather(1, axis)
        middle = (a + b) / 2
        base, slope, step = (part.gather(1, axis) for part in (self.base, self.slope, self.step))
        unit = torch.where(step > 0, step, 1.0)
        between = (torch.floor((base + slope * middle) / unit) + 0.5) * unit
        cut = (between - base) / torch.where(slope == 0, 1.0, slope)
        return torch.where((step > 0) & (cut > a) & (cut < b), cut, middle)
