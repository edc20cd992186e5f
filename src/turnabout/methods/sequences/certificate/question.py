"""What a certificate is asked about, and plans put to the model itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.actions.steps import StepTables
from turnabout.methods.sequences.certificate.jobs import STRICT, Jobs, Kinds, loosening
from turnabout.models.base import Model
from turnabout.typing import Tensor

CLOSED = 1e-9  # conditions may be broken by this share of their size, if they are not strict
IDLE = 1e-6  # a parameter smaller than this share of its natural size moves nothing


@dataclass
class Found:
    """The cheapest plans met so far: cost (n,), inf where none was; words (n, T); r (n, T, P)."""

    cost: Tensor
    words: Tensor
    r: Tensor

    @classmethod
    def none(cls, question: Question, people: int) -> Found:
        """Nothing found yet."""
        x, steps = question.x, question.steps
        return cls(
            x.new_full((people,), torch.inf),
            torch.full((people, steps), -1, device=x.device),
            x.new_zeros(people, steps, question.tables.used.shape[1]),
        )

    def take(self, other: Found) -> None:
        """Keep what is cheaper of another."""
        everybody = torch.arange(len(self.cost), device=self.cost.device)
        self.update(everybody, other.cost, other.words, other.r)

    def update(self, person: Tensor, cost: Tensor, words: Tensor, r: Tensor) -> None:
        """Keep what is cheaper, (B,), (B,), (B, T), (B, T, P)."""
        order = cost.argsort(descending=True)
        order = order[cost[order] < self.cost[person[order]]]
        best = {int(p): int(b) for p, b in zip(person[order].tolist(), order.tolist())}  # the last one is the cheapest
        if best:
            at, rows = (torch.tensor(list(part), device=cost.device) for part in (best.keys(), best.values()))
            self.cost[at], self.words[at], self.r[at] = cost[rows], words[rows], r[rows]


@dataclass(frozen=True)
class Question:
    """The model, the actions, people's rows (n, d), the reach of their states (n, e), and the length of words."""

    model: Model
    tables: StepTables
    kinds: Kinds
    x: Tensor
    lo: Tensor
    hi: Tensor
    steps: int

    @property
    def start(self) -> Tensor:
        """(n, e) where people stand, in units."""
        return self.tables.units(self.x)

    def rest(self, jobs: Jobs) -> Tensor:
        """(J, d) the rows at the end of each job, their moving columns at zero units."""
        return self.tables.encoded(self.x[jobs.person], jobs.fixed.index_fill(1, self.kinds.moving, 0.0))

    def tidy(self, found: Found) -> None:
        """Leave out the steps of plans that move next to nothing, where the plan is none the worse for it."""
        line = torch.where(found.words >= 0, found.words, self.tables.actions)
        idle = (found.r.abs() <= IDLE * self.tables.unit[line]).all(-1) & self.tables.used[line].any(-1)
        first = (idle | (found.words < 0)).to(torch.int8).argsort(dim=1, stable=True)
        words = torch.where(idle, -1, found.words).gather(1, first)
        r = torch.where((words < 0).unsqueeze(-1), 0.0, found.r.gather(1, first.unsqueeze(-1).expand_as(found.r)))
        path = self.tables.script(words).roll(self.start, r)
        least = torch.where(loosening(self.tables) < 0, 0.0, -CLOSED)[
            torch.where(words >= 0, words, self.tables.actions)
        ]
        cost = path.cost.sum(1)
        better = (path.slack >= least).all(-1).all(-1) & (cost <= found.cost) & idle.any(1)
        better &= self.model.margin(self.tables.encoded(self.x, path.end)) >= 0
        found.cost[better], found.words[better], found.r[better] = cost[better], words[better], r[better]

    def try_out(self, jobs: Jobs, theta: Tensor, found: Found | None = None) -> tuple[Tensor, Tensor]:
        """Plans at theta (B, K): their cost (B,), inf where not allowed or not accepted, and their r (B, T, P).

        A step may be idle, whatever change its conditions ask for.
        """
        script = self.tables.script(jobs.words)
        theta = theta.reshape(len(jobs), jobs.steps, -1)
        x = self.x[jobs.person]
        state, lo, hi = self.tables.units(x), self.lo[jobs.person], self.hi[jobs.person]
        loose = CLOSED * (1 + torch.maximum(lo.abs(), hi.abs()).nan_to_num(posinf=0.0))
        least = torch.where(loosening(self.tables) < 0, 0.5 * STRICT, -CLOSED)[script.line]
        cost = torch.zeros_like(jobs.constant)
        allowed = torch.ones_like(cost, dtype=torch.bool)
        taken = []
        for t in range(jobs.steps):
            lead, dial = jobs.lead[:, t, None].clamp(min=0), jobs.dial[:, t, None]
            gain = jobs.gain[:, t].sum(1).gather(1, lead)
            own = state[:, self.kinds.moving].gather(1, lead)
            shift = own * (theta[:, t].gather(1, dial) - 1) / torch.where(gain == 0, 1.0, gain)  # (1) of Kinds
            turned = torch.zeros_like(theta[:, t]).scatter(1, dial, shift)
            r = torch.where(jobs.scales[:, t, None], turned, theta[:, t])
            new = script.affine(t, state).at(r)
            cost = cost + script.price(t, state, new)
            allowed &= (script.slack(t, state, new) >= least[t]).all(1)
            allowed &= ((new >= lo - loose) & (new <= hi + loose)).all(1)
            state = new
            taken.append(r)
        allowed &= self.model.margin(self.tables.encoded(x, state)) >= 0
        cost, r = torch.where(allowed, cost, torch.inf), torch.stack(taken, 1)
        if found is not None:
            found.update(jobs.person, cost, jobs.words, r)
        return cost, r
