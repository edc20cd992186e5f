"""Steps as tensors: what a set of actions does, costs and asks for, and how a batch of plans is rolled out.

Every declared action becomes one line of `StepTables`. From the same line come the roll (with gradients), the hard
check, the limits of a parameter, the bounds of a certificate and the rows of an integer program.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import torch

from turnabout.typing import Tensor

TINY = 1e-12  # guards a division by a value of zero: a relative change of nothing is as good as infinite
NOISE = 1e-9  # share of its size by which a condition that a parameter does not reach may seem broken


@dataclass(frozen=True)
class StepTables:
    r"""A actions over e columns, with at most P parameters and C conditions each; the last line is "do nothing".

    A state s (e,) holds units: numbers as a person writes them, an ordinal by position, a level or binary 0 or 1.
    One step of action a with parameters r (P,) goes from s to s':

        s'_j = keep_j s_j + add_j + sum_p r_p gain_pj                 for columns without a leader          (1)
        s'_j = s_j s'_l / s_l                                         for columns whose leader is l         (2)
        cost = constant + sum_j absolute_j |D_j| + absolute_relative_j |D_j / s_j|
                        + squared_j D_j^2 + squared_relative_j (D_j / s_j)^2,       D = s' - s              (3)
        allowed iff  of_old_c . s + of_new_c . s' + offset_c >= 0  (> 0 where strict), for every c          (4)
        duration = takes + takes_old . s + takes_new . s'                                                   (5)

    So a step is affine in r once s is known. `size` (A+1, C) is the natural size of a condition, by which its slack
    is divided; `unit` (A+1, P) that of a parameter; low and high (A+1, P) the limits declared for it.
    """

    columns: Tensor  # (e,) encoded columns, in the schema's order
    bottom: Tensor  # (e,) units = bottom + x * span
    span: Tensor
    keep: Tensor  # (A+1, e)
    add: Tensor
    gain: Tensor  # (A+1, P, e)
    leader: Tensor  # (A+1, e) long; a column's own index where it has none
    constant: Tensor  # (A+1,)
    absolute: Tensor  # (A+1, e)
    absolute_relative: Tensor
    squared: Tensor
    squared_relative: Tensor
    of_old: Tensor  # (A+1, C, e)
    of_new: Tensor
    offset: Tensor  # (A+1, C)
    strict: Tensor  # (A+1, C) bool
    size: Tensor  # (A+1, C)
    takes: Tensor  # (A+1,)
    takes_old: Tensor  # (A+1, e)
    takes_new: Tensor
    low: Tensor  # (A+1, P)
    high: Tensor
    unit: Tensor
    used: Tensor  # (A+1, P) bool: which parameters an action has

    @property
    def actions(self) -> int:
        """How many actions there are, without the idle one."""
        return self.keep.shape[0] - 1

    def to(self, device: str | torch.device) -> Self:
        """The same tables on a device."""
        return type(self)(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})

    def units(self, x: Tensor) -> Tensor:
        """Encoded people (..., d) -> states (..., e)."""
        return self.bottom + x[..., self.columns] * self.span

    def encoded(self, x: Tensor, state: Tensor) -> Tensor:
        """People (..., d) with their columns set to states (..., e); differentiable in the state."""
        out = x.clone()
        out[..., self.columns] = (state - self.bottom) / self.span
        return out

    def script(self, sequences: Tensor) -> Script:
        """The lines for a batch of sequences (B, T), -1 for no action, for many rolls."""
        return Script(
            self, torch.where(sequences >= 0, sequences, torch.full_like(sequences, self.actions)).T.contiguous()
        )

    # A condition speaks of one or two columns and a price of one, out of many: the roll reads only those.

    @cached_property
    def asked_old(self) -> Sparse:
        """The columns of the old state that conditions read."""
        return Sparse.of(self.of_old)

    @cached_property
    def asked_new(self) -> Sparse:
        """The columns of the new state that conditions read."""
        return Sparse.of(self.of_new)

    @cached_property
    def priced(self) -> tuple[Tensor, ...]:
        """(Q, A+1) columns whose change is priced, and four weights (Q, A+1) in the order of (3)."""
        weights = (self.absolute, self.absolute_relative, self.squared, self.squared_relative)
        at = Sparse.of(sum(w.abs() for w in weights)).at  # type: ignore[arg-type]
        return at, *(w.gather(1, at.T).T.contiguous() for w in weights)

    @cached_property
    def is_relative(self) -> bool:
        """Whether any price is relative to the old value."""
        return bool((self.absolute_relative != 0).any() or (self.squared_relative != 0).any())

    @cached_property
    def led(self) -> Sparse:
        """The columns that have a leader; the weight is 1."""
        own = torch.arange(self.leader.shape[1], device=self.leader.device)
        return Sparse.of((self.leader != own).to(torch.float64))


@dataclass(frozen=True)
class Sparse:
    """Weights (A+1, ..., e) that are mostly zero: at most M places `at` (M, A+1, ...) and their `weight` (same)."""

    at: Tensor
    weight: Tensor

    @classmethod
    def of(cls, dense: Tensor) -> Sparse:
        most = int((dense != 0).sum(-1).max())
        first = (dense == 0).to(torch.int8).argsort(dim=-1, stable=True)[..., :most]
        weight = dense.gather(-1, first)
        return cls(first.movedim(-1, 0).contiguous(), weight.movedim(-1, 0).contiguous())

    def take(self, line: Tensor) -> Sparse:
        """Those of the lines (B,) of a step: (M, B, ...)."""
        return Sparse(self.at[:, line], self.weight[:, line])

    def dot(self, state: Tensor, out: Tensor) -> Tensor:
        """out (B, C) plus the weighted sums of states (B, e)."""
        for at, weight in zip(self.at, self.weight, strict=True):
            out = torch.addcmul(out, state.gather(-1, at), weight)
        return out


@dataclass(frozen=True)
class AffineStep:
    """One step from known states: s' = still + sum_p r_p moved_p; still (B, e), moved (B, P, e)."""

    still: Tensor
    moved: Tensor

    def at(self, r: Tensor) -> Tensor:
        """Parameters (B, P) -> states (B, e)."""
        out = self.still
        for p in range(r.shape[-1]):  # few; a sum over them would write (B, P, e) first
            out = torch.addcmul(out, r[..., p : p + 1], self.moved[..., p, :])
        return out


@dataclass(frozen=True)
class Path:
    """A batch of plans rolled out: states (B, T+1, e), cost (B, T), slack (B, T, C) in natural sizes."""

    states: Tensor
    cost: Tensor
    slack: Tensor

    @property
    def end(self) -> Tensor:
        return self.states[:, -1]


class Script:
    """The lines of a batch of sequences, ready to be rolled out many times.

    line (T, B) says which line of the tables each step of each sequence uses. Every table is an attribute here too,
    gathered to the leading axes (T, B) when it is first asked for: script.gain[t] (B, P, e), script.low[t] (B, P).
    """

    keep: Tensor
    add: Tensor
    gain: Tensor
    leader: Tensor
    constant: Tensor
    absolute: Tensor
    absolute_relative: Tensor
    squared: Tensor
    squared_relative: Tensor
    of_old: Tensor
    of_new: Tensor
    offset: Tensor
    strict: Tensor
    size: Tensor
    takes: Tensor
    takes_old: Tensor
    takes_new: Tensor
    low: Tensor
    high: Tensor
    unit: Tensor
    used: Tensor

    def __init__(self, tables: StepTables, line: Tensor):
        self.tables, self.line = tables, line
        self._taken: dict[tuple[str, int], Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in GATHERED or "tables" not in self.__dict__:
            raise AttributeError(f"a script has no attribute {name!r}")
        self.__dict__[name] = gathered = getattr(self.tables, name)[self.line]
        return gathered

    @property
    def steps(self) -> int:
        """How long the sequences are."""
        return len(self.line)

    def take(self, rows: Tensor) -> Script:
        """The same script for some of its rows."""
        return Script(self.tables, self.line[:, rows])

    def _sparse(self, name: str, t: int) -> Sparse:
        """A sparse table for the rows of step t, gathered once."""
        if (name, t) not in self._taken:
            self._taken[name, t] = getattr(self.tables, name).take(self.line[t])
        return self._taken[name, t]

    def _followers(self, t: int) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Columns (B, 1) of step t that have a leader, their leaders (B, 1), and where (B, 1) that is so; once."""
        if ("followers", t) not in self._taken:
            led = self._sparse("led", t)
            columns = [(at.unsqueeze(-1), weight.unsqueeze(-1) > 0) for at, weight in zip(led.at, led.weight)]
            self._taken["followers", t] = [(j, self.leader[t].gather(-1, j), w) for j, w in columns if bool(w.any())]
        return self._taken["followers", t]

    def affine(self, t: int, old: Tensor) -> AffineStep:
        """Step t from states (B, e), as a function of its parameters."""
        still, moved = torch.addcmul(self.add[t], self.keep[t], old), self.gain[t]
        for j, leader, where in self._followers(t):
            share = old.gather(-1, j) / _nonzero(old.gather(-1, leader))
            there = torch.where(where, share * still.gather(-1, leader), still.gather(-1, j))  # (2)
            still = still.scatter(-1, j, there)
            j, leader = (k.unsqueeze(-2).expand(-1, moved.shape[-2], 1) for k in (j, leader))
            with_r = share.unsqueeze(-2) * moved.gather(-1, leader)
            moved = moved.scatter(-1, j, torch.where(where.unsqueeze(-2), with_r, moved.gather(-1, j)))
        return AffineStep(still, moved)

    def move(self, t: int, old: Tensor, r: Tensor) -> Tensor:
        """(B, e) where step t leads from states (B, e) with parameters (B, P); (1) and (2)."""
        new = AffineStep(torch.addcmul(self.add[t], self.keep[t], old), self.gain[t]).at(r)
        for j, leader, where in self._followers(t):
            share = old.gather(-1, j) / _nonzero(old.gather(-1, leader))
            new = new.scatter(-1, j, torch.where(where, share * new.gather(-1, leader), new.gather(-1, j)))
        return new

    def price(self, t: int, old: Tensor, new: Tensor, r: Tensor | None = None) -> Tensor:
        """(B,) cost of step t; (3). Only free-form actions look at r."""
        if ("priced", t) not in self._taken:
            self._taken["priced", t] = [part[:, self.line[t]] for part in self.tables.priced]
        cost = self.constant[t]
        for at, absolute, absolute_relative, squared, squared_relative in zip(*self._taken["priced", t], strict=True):
            column = at.unsqueeze(-1)
            before = old.gather(-1, column).squeeze(-1)
            moved = new.gather(-1, column).squeeze(-1) - before
            if self.tables.is_relative:
                base = before.abs().clamp(min=TINY)
                absolute = absolute + absolute_relative / base
                squared = squared + squared_relative / (base * base)
            cost = cost + absolute * moved.abs() + squared * moved * moved
        return cost

    def slack(self, t: int, old: Tensor, new: Tensor, r: Tensor | None = None) -> Tensor:
        """(B, C) how far the conditions of step t are from being broken, in their natural sizes; (4)."""
        raw = self._sparse("asked_old", t).dot(old, self.offset[t])
        return self._sparse("asked_new", t).dot(new, raw) / self.size[t]

    def duration(self, t: int, old: Tensor, new: Tensor) -> Tensor:
        """(B,) how long step t takes; (5)."""
        return self.takes[t] + (self.takes_old[t] * old + self.takes_new[t] * new).sum(-1)

    def roll(self, start: Tensor, r: Tensor) -> Path:
        """States (B, e) and parameters (B, T, P) -> the whole path, differentiable in both."""
        states, costs, slacks = [start], [], []
        for t in range(self.steps):
            old = states[-1]
            new = self.move(t, old, r[:, t])
            states.append(new)
            costs.append(self.price(t, old, new, r[:, t]))
            slacks.append(self.slack(t, old, new, r[:, t]))
        return Path(torch.stack(states, 1), torch.stack(costs, 1), torch.stack(slacks, 1))

    def project(self, t: int, old: Tensor, r: Tensor) -> Tensor:
        """(B, P) parameters moved to where free-form preconditions hold; declared ones have `limits`."""
        return r

    def limits(self, t: int, old: Tensor, r: Tensor, p: int, lo: Tensor, hi: Tensor) -> tuple[Tensor, Tensor]:
        """(B,), (B,): where parameter p of step t may lie, the others at r (B, P), so that all conditions hold and
        the new state stays within lo and hi (B, e). Empty (low above high) where a condition cannot be mended by it.
        """
        step, asked = self.affine(t, old), self._sparse("asked_new", t)
        others = r.clone()
        others[:, p] = 0.0
        base, slope = step.at(others), step.moved[:, p]  # s' = base + r_p slope
        fixed = asked.dot(base, self._sparse("asked_old", t).dot(old, self.offset[t]))
        lean = asked.dot(slope, torch.zeros_like(fixed))
        a = torch.cat([fixed, base - lo, hi - base], -1)  # all of a + r_p b >= 0
        b = torch.cat([lean, slope, -slope], -1)
        span = self.tables.span.expand_as(base)
        give = NOISE * torch.cat([self.size[t], span, span], -1)
        cut = -a / torch.where(b.abs() < TINY, torch.ones_like(b), b)
        inf = torch.full_like(cut, torch.inf)
        low = torch.where(b > TINY, cut, -inf).amax(-1)
        high = torch.where(b < -TINY, cut, inf).amin(-1)
        low, high = torch.maximum(low, self.low[t, :, p]), torch.minimum(high, self.high[t, :, p])
        lost = ((b.abs() <= TINY) & (a < -give)).any(-1)
        return torch.where(lost, inf[:, 0], low), torch.where(lost, -inf[:, 0], high)


def _nonzero(value: Tensor) -> Tensor:
    return torch.where(value.abs() < TINY, torch.full_like(value, TINY), value)


GATHERED = frozenset(Script.__annotations__)
