"""What a certificate is asked about, and plans put to the model itself."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch

from turnabout.actions.steps import TINY, AffineStep, StepTables
from turnabout.methods.sequences.certificate.jobs import SLACK, STRICT, Jobs, Kinds, gains, loosening, prices, size_of
from turnabout.models.model import Model
from turnabout.typing import Tensor

CLOSED = 1e-9  # conditions may be broken by this share of their size, if they are not strict
Choice: TypeAlias = Callable[[int, Tensor], Tensor]
Keeps: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # people (B,), states (B, e) -> (B,)
ONE = 1e-6  # share of a step within which there is one value only
IDLE = 1e-6  # a parameter smaller than this share of its natural size moves nothing


@dataclass
class CheapestPlans:
    """The cheapest plans met so far: cost (n,), inf where none was; sequences (n, T); r (n, T, P).

    upper : (n,) cost of plans known from elsewhere, inf for none.
    """

    upper: Tensor
    cost: Tensor
    sequences: Tensor
    r: Tensor

    @classmethod
    def none(cls, task: CertificateTask, upper: Tensor) -> CheapestPlans:
        """Nothing found yet."""
        shape = len(upper), task.sequences.shape[1]
        return cls(
            upper,
            torch.full_like(upper, torch.inf),
            torch.full(shape, -1, device=upper.device),
            task.x.new_zeros(*shape, task.tables.used.shape[1]),
        )

    @property
    def known(self) -> Tensor:
        """(n,) cost of the cheapest plan known by now."""
        return torch.minimum(self.upper, self.cost)

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
    """The plans that a proof is about: sequences (W, T) of actions for people x (n, d), whose ends the model judges.

    A plan is a sequence with parameters r; it is allowed if every step keeps its conditions and its state within reach.

    Parameters
    ----------
    model : linear, ReLU net or tree ensemble; about others only costs and conditions are used.
    tables : the actions.
    lo, hi : (n, e) reach of the states, in units.
    grid : (e,) distance between printed values, in units: a step leads to a multiple of it, or to the value a person
        has; coupled columns to the nearest one. 0 for any value.
    rounding : (e,) how far a printed value may lie from the exact one, in units; for coupled columns, without a grid.
    leads : (A+1, P) the column of a state that shows each parameter, -1 for none; see `Kinds`.
    keeps : people (B,) and states (B, e) -> (B,) whether rules allow them, for rules that no action knows of.
    noise : how far below zero a margin may be that the model's owner still calls accepted.
    opaque : actions of which the tables do not tell the effect; sequences with them are bounded by zero.
    """

    model: Model
    tables: StepTables
    x: Tensor
    sequences: Tensor
    lo: Tensor
    hi: Tensor
    grid: Tensor | None = None
    rounding: Tensor | None = None
    leads: Tensor | None = None
    keeps: Keeps | None = None
    noise: float = 0.0
    opaque: Collection[int] = ()

    @cached_property
    def kinds(self) -> Kinds:
        """What the actions do to the columns that move."""
        return Kinds.of(self.tables, self.leads)

    @cached_property
    def start(self) -> Tensor:
        """(n, e) where people stand, in units."""
        return self.tables.units(self.x)

    @property
    def off(self) -> Tensor:
        """(e,) how far coupled columns may lie from their exact value."""
        if self.grid is not None:
            return 0.5 * self.grid
        return torch.zeros_like(self.tables.span) if self.rounding is None else self.rounding

    def jobs(self, sequences: Tensor, person: Tensor) -> tuple[Jobs, Tensor]:
        """Sequences (J, T) for people (J,) -> jobs, and (J,) False where a guard or the reach of a constant column
        fails. The grid holds all columns that a step writes, `off` loosens only those that are coupled."""
        tables, kinds = self.tables, self.kinds
        line = torch.where(sequences >= 0, sequences, torch.full_like(sequences, tables.actions))
        columns, start = kinds.moving, self.start[person]
        fixed, constant, offset, possible = self._fold(line, person)
        place = torch.full((start.shape[1],), 0, device=start.device)
        place[columns] = torch.arange(len(columns), device=start.device)
        used = tables.used[line]
        jobs = Jobs(
            person=person,
            sequences=sequences,
            start=start[:, columns],
            lo=self.lo[person][:, columns],
            hi=self.hi[person][:, columns],
            fixed=fixed,
            constant=constant,
            **{
                name: getattr(tables, name)[..., columns][line]
                for name in ("keep", "add", "absolute", "absolute_relative", "squared", "squared_relative")
            },
            gain=gains(tables)[..., columns][line],
            leader=place[tables.leader[:, columns]][line],
            of_old=tables.of_old[..., columns][line],
            of_new=tables.of_new[..., columns][line],
            offset=offset,
            low=torch.where(used, tables.low[line], 0.0),
            high=torch.where(used, tables.high[line], 0.0),
            lead=kinds.lead[line],
            dial=kinds.dial[line],
            scaled=kinds.scaled[line],
            own=kinds.own[line],
            rounding=kinds.coupled[line] * self.off[columns],
            grid=kinds.written[line] * (0.0 if self.grid is None else self.grid[columns]),
            scales=torch.zeros_like(line, dtype=torch.bool),
        )
        return jobs, possible

    def _fold(self, line: Tensor, person: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What the columns that do not move come to: end states (J, e), cost (J,), offsets (J, T, C), all possible
        (J,)."""
        tables, state = self.tables, self.start[person]
        rest = torch.ones(state.shape[1], dtype=torch.bool, device=state.device)
        rest[self.kinds.moving] = False
        low, high = self.lo[person][:, rest], self.hi[person][:, rest]
        free = SLACK * size_of(low, high)
        constant = torch.zeros(len(line), dtype=state.dtype, device=state.device)
        possible = torch.ones(len(line), dtype=torch.bool, device=state.device)
        offsets = []
        for t in range(line.shape[1]):
            a, old = line[:, t], state
            state = tables.keep[a] * old + tables.add[a]
            before, after = old[:, rest], state[:, rest]
            possible &= ((after >= low - free) & (after <= high + free)).all(1)
            base, size = before.abs().clamp(min=TINY), (after - before).abs()
            absolute, absolute_relative, squared, squared_relative = (part[a][:, rest] for part in prices(tables))
            linear, curved = absolute + absolute_relative / base, squared + squared_relative / (base * base)
            constant = constant + tables.constant[a] + (linear * size + curved * size * size).sum(1)
            known = (tables.of_old[a][..., rest] * before.unsqueeze(1)).sum(-1)
            known += (tables.of_new[a][..., rest] * after.unsqueeze(1)).sum(-1)
            offsets.append(known + tables.offset[a] + loosening(tables)[a])
        return state, constant, torch.stack(offsets, 1), possible

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
        loose = CLOSED * size_of(lo, hi)
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
