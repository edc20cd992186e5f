"""Batch: people x sequences x restarts on one axis, with everything a step of the search asks of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from turnabout.actions.free import FreeScript
from turnabout.actions.steps import Path, Script
from turnabout.methods.sequences.rules import Rules
from turnabout.methods.sequences.state_margins import StateMargins
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

SLACK = 1e-12  # conditions may be touched this closely, in natural sizes; the hard check comes on printed states


@dataclass(frozen=True)
class Batch:
    """B rows, each one sequence for one person: owner (B,), script over (T, B), limits of states lo and hi (B, e).

    With `theta`, limits keep such a share of room: r (1 + theta u) stays inside them for every u in [-1, 1].
    """

    decision: StateMargins
    owner: Tensor
    script: Script
    lo: Tensor
    hi: Tensor
    theta: float = 0.0
    rules: Rules | None = None

    @property
    def start(self) -> Tensor:
        """(B, e) where each person stands."""
        return self.decision.start[self.owner]

    @property
    def used(self) -> Tensor:
        """(B, T, P) which parameters a row has."""
        return self.script.used.transpose(0, 1)

    def take(self, rows: Tensor) -> Batch:
        """Some of the rows."""
        return replace(self, owner=self.owner[rows], script=self.script.take(rows), lo=self.lo[rows], hi=self.hi[rows])

    def margin(self, path: Path) -> Tensor:
        """(B,) at the end of the path."""
        return self.decision.margin(self.owner, path.end)

    def gradients(self, r: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Margin (B,), its slope (B, T, P), cost (B,), its slope (B, T, P), and whether all is kept (B,), at r."""
        r = r.detach().requires_grad_()
        with torch.enable_grad():
            path = self.script.roll(self.start, r)
            margin, cost = self.margin(path), path.cost.sum(1)
            (up,) = torch.autograd.grad(margin.sum(), r, retain_graph=True)
            # where every price is a constant, the cost has no slope to ask for
            dear = torch.autograd.grad(cost.sum(), r, allow_unused=True)[0] if cost.requires_grad else None
        dear = torch.zeros_like(r) if dear is None else dear
        return margin.detach(), up, cost.detach(), dear, self.kept(path).detach()

    def limits(self, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """r moved, step by step, to where conditions and bounds hold; and the limits (B, T, P) found on the way.

        A parameter whose interval is empty (an earlier step has made the condition impossible) stays where it is.
        """
        r = r.clone()
        low, high = torch.zeros_like(r), torch.zeros_like(r)
        old = self.start
        for t in range(self.script.steps):
            for p in range(r.shape[2]):
                a, b = self.range(t, old, r[:, t], p)
                if self.theta:
                    a = torch.where(a > 0, a / (1 - self.theta), a / (1 + self.theta))
                    b = torch.where(b > 0, b / (1 + self.theta), b / (1 - self.theta))
                empty = (a > b) | ~self.script.used[t, :, p]
                now = r[:, t, p]
                low[:, t, p], high[:, t, p] = torch.where(empty, now, a), torch.where(empty, now, b)
                r[:, t, p] = torch.minimum(torch.maximum(now, low[:, t, p]), high[:, t, p])
            r[:, t] = self.script.project(t, old, r[:, t])
            old = self.script.move(t, old, r[:, t])
        return r, low, high

    def range(self, t: int, old: Tensor, r: Tensor, p: int) -> tuple[Tensor, Tensor]:
        """(B,), (B,): where parameter p of step t may lie, the others at r (B, P), for conditions, bounds and rules."""
        low, high = self.script.limits(t, old, r, p, self.lo, self.hi)
        if self.rules is None or isinstance(self.script, FreeScript):
            return low, high
        step, others = self.script.affine(t, old), r.clone()
        others[:, p] = 0.0
        least, most = self.rules.limits(self.owner, step.at(others), step.moved[:, p])
        return torch.maximum(low, least), torch.minimum(high, most)

    def kept(self, path: Path) -> Tensor:
        """(B,) whether every condition, bound and rule holds on the path, closed."""
        states, give = path.states[:, 1:], SLACK * self.decision.tables.span
        inside = (states >= self.lo.unsqueeze(1) - give) & (states <= self.hi.unsqueeze(1) + give)
        kept = inside.all(-1).all(-1) & (path.slack >= -SLACK).all(-1).all(-1)
        return kept if self.rules is None else kept & self.rules.kept(self.owner, states)


@dataclass
class Best(TensorRows):
    """The cheapest allowed and accepted parameters of each row so far, and what they cost."""

    r: Tensor  # (B, T, P)
    cost: Tensor  # (B,), inf where nothing was accepted
    margin: Tensor  # (B,) of r; of the nearest miss where nothing was accepted

    @classmethod
    def none(cls, r: Tensor) -> Best:
        cost = torch.full_like(r[:, 0, 0], torch.inf)
        return cls(r.clone(), cost, -cost)

    def offer(self, r: Tensor, cost: Tensor, margin: Tensor, kept: Tensor, target: float | Tensor) -> Tensor:
        """Keep what is better; returns (B,) where it was."""
        good = kept & (margin >= target)
        cheaper = good & (cost < self.cost)
        nearer = ~good & kept & torch.isinf(self.cost) & (margin > self.margin)
        take = cheaper | nearer
        self.r[take], self.margin[take] = r[take], margin[take]
        self.cost[cheaper] = cost[cheaper]
        return cheaper
