"""What a certificate is asked about, and plans put to the model itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch

from turnabout.actions.steps import AffineStep, StepTables
from turnabout.methods.sequences.certificate.jobs import STRICT, Jobs, Kinds, loosening
from turnabout.models.model import Model
from turnabout.typing import Tensor

CLOSED = 1e-9  # conditions may be broken by this share of their size, if they are not strict
Choice: TypeAlias = Callable[[int, Tensor], Tensor]
Keeps: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # people (B,), states (B, e) -> (B,)
ONE = 1e-6  # share of a step within which there is one value only
IDLE = 1e-6  # a parameter smaller than this share of its natural size moves nothing


@dataclass
class CheapestPlans:
    """The cheapest plans met so far: cost (n,), inf where none was; sequences (n, T); r (n, T, P)."""

    cost: Tensor
    sequences: Tensor
    r: Tensor

    @classmethod
    def none(cls, question: CertificateTask, people: int) -> CheapestPlans:
        """Nothing found yet."""
        x, steps = question.x, question.steps
        return cls(
            x.new_full((people,), torch.inf),
            torch.full((people, steps), -1, device=x.device),
            x.new_zeros(people, steps, question.tables.used.shape[1]),
        )

    def take(self, other: CheapestPlans) -> None:
        """Keep what is cheaper of another."""
        everybody = torch.arange(len(self.cost), device=self.cost.device)
        self.update(everybody, other.cost, other.sequences, other.r)

    def update(self, person: Tensor, cost: Tensor, sequences: Tensor, r: Tensor) -> None:
        """Keep what is cheaper, (B,), (B,), (B, T), (B, T, P)."""
        order = cost.argsort(descending=True)
        order = order[cost[order] < self.cost[person[order]]]
        best = {int(p): int(b) for p, b in zip(person[order].tolist(), order.tolist())}  # the last one is the cheapest
        if best:
            at, rows = (torch.tensor(list(part), device=cost.device) for part in (best.keys(), best.values()))
            self.cost[at], self.sequences[at], self.r[at] = cost[rows], sequences[rows], r[rows]


@dataclass(frozen=True)
class CertificateTask:
    """The model, the actions, people's rows (n, d), the reach of their states (n, e), and the length of sequences.

    grid : (e,) or None: the distance between values that a step may lead to.
    keeps : whether people may be at states, by rules that no step knows of; None for everywhere.
    """

    model: Model
    tables: StepTables
    kinds: Kinds
    x: Tensor
    lo: Tensor
    hi: Tensor
    steps: int
    grid: Tensor | None = None
    keeps: Keeps | None = None

    @property
    def start(self) -> Tensor:
        """(n, e) where people stand, in units."""
        return self.tables.units(self.x)

    def rest(self, jobs: Jobs) -> Tensor:
        """(J, d) the rows at the end of each job, their moving columns at zero units."""
        return self.tables.encoded(self.x[jobs.person], jobs.fixed.index_fill(1, self.kinds.moving, 0.0))

    def tidy(self, found: CheapestPlans) -> None:
        """Leave out the steps of plans that move next to nothing, where the plan is none the worse for it."""
        line = torch.where(found.sequences >= 0, found.sequences, self.tables.actions)
        idle = (found.r.abs() <= IDLE * self.tables.unit[line]).all(-1) & self.tables.used[line].any(-1)
        first = (idle | (found.sequences < 0)).to(torch.int8).argsort(dim=1, stable=True)
        sequences = torch.where(idle, -1, found.sequences).gather(1, first)
        r = torch.where((sequences < 0).unsqueeze(-1), 0.0, found.r.gather(1, first.unsqueeze(-1).expand_as(found.r)))
        everybody = torch.arange(len(sequences), device=sequences.device)
        cost, taken = self._walk(everybody, sequences, lambda t, state: r[:, t])
        better = (cost <= found.cost) & idle.any(1)
        found.cost[better], found.sequences[better], found.r[better] = cost[better], sequences[better], taken[better]

    def try_out(self, jobs: Jobs, theta: Tensor, found: CheapestPlans | None = None) -> tuple[Tensor, Tensor]:
        """Plans at theta (B, K): their cost (B,), inf where not allowed or not accepted, and their r (B, T, P).

        A step may be idle, whatever change its conditions ask for.
        """
        theta = theta.reshape(len(jobs), jobs.steps, -1)

        def choose(t: int, state: Tensor) -> Tensor:
            lead, dial = jobs.lead[:, t, None].clamp(min=0), jobs.dial[:, t, None]
            gain = jobs.gain[:, t].sum(1).gather(1, lead)
            own = state[:, self.kinds.moving].gather(1, lead)
            shift = own * (theta[:, t].gather(1, dial) - 1) / torch.where(gain == 0, 1.0, gain)  # (1) of Kinds
            turned = torch.zeros_like(theta[:, t]).scatter(1, dial, shift)
            return torch.where(jobs.scales[:, t, None], turned, theta[:, t])

        cost, r = self._walk(jobs.person, jobs.sequences, choose)
        if found is not None:
            found.update(jobs.person, cost, jobs.sequences, r)
        return cost, r

    def _walk(self, person: Tensor, sequences: Tensor, choose: Choice) -> tuple[Tensor, Tensor]:
        """Cost (B,) and parameters (B, T, P) of the plans whose r (B, P) `choose` gives at each step and state."""
        script = self.tables.script(sequences)
        x = self.x[person]
        state, lo, hi = self.tables.units(x), self.lo[person], self.hi[person]
        loose = CLOSED * (1 + torch.maximum(lo.abs(), hi.abs()).nan_to_num(posinf=0.0))
        least = torch.where(loosening(self.tables) < 0, 0.5 * STRICT, -CLOSED)[script.line]
        cost, taken = torch.zeros_like(x[:, 0]), []
        allowed = torch.ones_like(cost, dtype=torch.bool)
        for t in range(sequences.shape[1]):
            step, r = script.affine(t, state), choose(t, state)
            new = step.at(r)
            if self.grid is not None:
                r, new = self._print(script.line[t], step, state, r)
            cost = cost + script.price(t, state, new)
            allowed &= (script.slack(t, state, new) >= least[t]).all(1)
            allowed &= ((new >= lo - loose) & (new <= hi + loose)).all(1)
            if self.keeps is not None:
                allowed &= self.keeps(person, new) | (new == state).all(1)
            state = new
            taken.append(r)
        allowed &= self.model.margin(self.tables.encoded(x, state)) >= 0
        return torch.where(allowed, cost, torch.inf), torch.stack(taken, 1)

    def may_end(self, jobs: Jobs, low: Tensor, high: Tensor) -> Tensor:
        """(B,) False where the moving columns can end at one state only, between low and high (B, m), and rules forbid
        it. Only ends are looked at: the sequences that stand for a job may have come there another way.
        """
        out = torch.ones_like(jobs.person, dtype=torch.bool)
        if self.keeps is None or self.grid is None:
            return out
        step, start = self.grid[self.kinds.moving], jobs.start
        unit = torch.where(step > 0, step, 1.0)
        rows = (high - low <= torch.where(step > 0, ONE * step, 0.0)).all(1).nonzero().squeeze(1)
        value, start = low[rows], start[rows]
        near = torch.where(step > 0, torch.round(value / unit) * unit, value)
        value = torch.where((value - start).abs() <= ONE * unit, start, near)
        end = jobs.fixed[rows].index_copy(1, self.kinds.moving, value)
        out[rows] = self.keeps(jobs.person[rows], end)
        return out

    def _print(self, line: Tensor, step: AffineStep, old: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        """One step on the grid: the parameters (B, P) as their leading columns show them, and the state (B, e)."""
        assert self.grid is not None
        moving = self.kinds.moving
        unit = torch.where(self.grid > 0, self.grid, 1.0)[moving]
        on = (self.grid > 0)[moving]
        for p in range(r.shape[1]):
            lead = self.kinds.leading[line, p]  # (B, m)
            value, slope = step.at(r)[:, moving], step.moved[:, p][:, moving]
            miss = torch.where(lead & on, torch.round(value / unit) * unit - value, 0.0)
            shift = torch.where(lead & (slope != 0), miss / torch.where(slope == 0, 1.0, slope), 0.0).sum(1)
            r = torch.cat([r[:, :p], (r[:, p] + shift).unsqueeze(1), r[:, p + 1 :]], 1)
        new = step.at(r)
        value, before = new[:, moving], old[:, moving]
        nearest = torch.where(on & self.kinds.written[line], torch.round(value / unit) * unit, value)
        printed = torch.where((value - before).abs() <= 1e-9 * unit, before, nearest)
        return r, new.index_copy(1, moving, printed)
