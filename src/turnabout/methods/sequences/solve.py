"""Parameters for many sequences at once: draw, screen, descend, walk the boundary, keep the best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from turnabout.actions import BoundActions
from turnabout.core.run import Run
from turnabout.errors import MethodError
from turnabout.methods.sequences.batch import Batch, Best
from turnabout.methods.sequences.carlini import Descent, Relaxation
from turnabout.methods.sequences.parameter_prices import own_prices
from turnabout.methods.sequences.rules import Rules
from turnabout.methods.sequences.starts import draw, scan, screen
from turnabout.methods.sequences.state_margins import StateMargins
from turnabout.methods.sequences.trust import walk
from turnabout.models import Differentiable
from turnabout.parameters import Instance, Maybe, Whole, checked
from turnabout.typing import Tensor

Parts = Callable[..., Iterator[slice]]
STARTS = 64  # rows that one sequence stands for, roughly
WIDER = 4  # how many times more draws are looked at where no gradient leads on
HALVINGS = 16
FINELY = 40  # where rules join columns: no convex step has found their edge before
ROWS = {"cpu": 1 << 13, "cuda": 1 << 17}  # rows improved at a time


@dataclass(frozen=True)
@checked(
    MethodError,
    draws=Whole(1),
    restarts=Whole(1),
    descent=Maybe(Instance(Descent)),
    rounds=Whole(0),
    teeth=Whole(0),
)
class SearchEffort:
    """How hard to look for the parameters of one sequence.

    draws : points looked at; restarts : how many of them are improved; descent : Adam on (3) of the paper before the
    walk, None for none; rounds : convex steps along the boundary; teeth : points of the grid over a single parameter.
    """

    draws: int = 64
    restarts: int = 4
    descent: Descent | None = None
    rounds: int = 20
    teeth: int = 1024

    def within(self, rows: float) -> SearchEffort:
        """This effort, or as much of it as asks about so many rows for each sequence."""
        if rows >= max(WIDER * self.draws, self.teeth):
            return self
        draws, teeth = max(1, int(rows) // WIDER), max(4, int(rows) // 4 * 4)
        return replace(self, draws=min(draws, self.draws), teeth=min(teeth, self.teeth), restarts=1)


@dataclass
class Solver:
    """Solves sequences for the people of one chunk.

    lo, hi (n, e) : what each person's states may reach; target : margin to reach.
    """

    decision: StateMargins
    actions: BoundActions
    lo: Tensor
    hi: Tensor
    target: float
    effort: SearchEffort
    relaxation: Relaxation
    generator: Callable[..., np.random.Generator]
    expired: Callable[[], bool]
    parts: Parts = field(default_factory=lambda: Run().parts)
    last: bool = False  # whether the first look is the only one
    rules: Rules | None = None

    def solve(self, owner: Tensor, sequences: Tensor, budget: Tensor, warm: Tensor, again: bool = False) -> Best:
        """Sequences (B, T) of people owner (B,): the cheapest parameters found for each.

        budget (B,) is what a plan may cost to be of interest; warm (B, w, T, P) are starts from elsewhere; a second
        look, `again`, has random draws of its own and is as precise as the effort allows.
        """
        wide = self.effort.restarts + warm.shape[1]
        rows = max(1, ROWS.get(owner.device.type, 1 << 13) // wide)
        parts = [
            self._solve(owner[some], sequences[some], budget[some], warm[some], again)
            for some in self.parts(len(owner), rows, f"solve {_look(again)} {sequences.shape[1]}", STARTS)
        ]
        if (done := sum(len(part.cost) for part in parts)) < len(owner):  # no time
            parts.append(Best.none(warm[done:, 0]))
        return Best.join(parts)

    def batch(self, owner: Tensor, sequences: Tensor) -> Batch:
        """Rows for one sequence and person each."""
        script = self.actions.script(sequences)
        return Batch(self.decision, owner, script, self.lo[owner], self.hi[owner], rules=self.rules)

    def _solve(self, owner: Tensor, sequences: Tensor, budget: Tensor, warm: Tensor, again: bool) -> Best:
        batch, effort = self.batch(owner, sequences), self.effort
        precise = again or self.last  # a first look need not be: a second follows
        target = torch.full_like(budget, self.target)
        start = torch.cat([self._starts(batch, sequences, budget, target, again), warm], 1)
        count = start.shape[1]
        rows = torch.arange(len(owner), device=owner.device).repeat_interleave(count)
        many, r = batch.take(rows), start.flatten(0, 1)
        r = many.limits(torch.where(many.used, r, torch.zeros_like(r)))[0]
        goal = target[rows]
        best = Best.none(r)
        path = many.script.roll(many.start, r)
        with torch.no_grad():
            best.offer(r, path.cost.sum(1), many.margin(path), many.kept(path), goal)
        smooth = isinstance(self.decision.model, Differentiable)
        if bool(many.used.any()) and not self.expired():
            if smooth and effort.descent is not None:
                r = effort.descent.run(many, r, best, goal, self.relaxation, self.expired)
            if smooth and not self.actions.free:
                rounds = effort.rounds if precise else max(4, effort.rounds // 2)
                walk(many, r, best, goal, rounds, self.expired)
            elif not self.actions.free:
                shrink(many, best, goal, 3, self.expired)
        out = _first(best, len(owner), count)
        if precise and not self.actions.free:
            shrink(batch, out, target, 1, self.expired)
        return out

    def _starts(self, batch: Batch, sequences: Tensor, budget: Tensor, target: Tensor, again: bool) -> Tensor:
        """(B, restarts, T, P): the best of some draws; of a grid for sequences with one parameter; 0 without any."""
        steps, effort = sequences.shape[1], self.effort
        draws = effort.draws * (1 if isinstance(self.decision.model, Differentiable) else WIDER)
        if self.actions.free:
            generator = self.generator("free", _look(again), steps)
            return screen(batch, self._free_starts(batch, sequences, draws, generator), effort.restarts, target)
        count = batch.used.flatten(1).sum(1)
        r = torch.zeros(len(sequences), effort.restarts, steps, batch.script.gain.shape[2]).to(batch.start)
        several, single = (count > 1).nonzero().squeeze(1), (count == 1).nonzero().squeeze(1)
        if len(several):
            part = batch.take(several)
            drawn = draw(part, draws, budget[several], self.generator("draw", _look(again), steps))
            r[several] = screen(part, drawn, effort.restarts, target[several])
        if len(single):
            part = batch.take(single)
            grid = scan(part, effort.teeth, budget[single])
            r[single] = screen(part, grid, effort.restarts, target[single])
        return r

    def _free_starts(self, batch: Batch, sequences: Tensor, draws: int, generator: np.random.Generator) -> Tensor:
        """(B, draws, T, P) for sequences with free-form actions, step by step from where the steps before lead."""
        from turnabout.actions.free import starts

        rows = torch.arange(len(sequences), device=sequences.device).repeat_interleave(draws)
        many = batch.take(rows)
        r = torch.zeros(len(rows), sequences.shape[1], batch.script.gain.shape[2], dtype=many.start.dtype).to(
            sequences.device
        )
        old = many.start
        tables = self.actions.tables
        for t in range(sequences.shape[1]):
            torch_generator = torch.Generator().manual_seed(int(generator.integers(2**31)))
            drawn = draw(many, 1, torch.full_like(old[:, 0], torch.inf), generator)[:, 0, t]
            for a, action in self.actions.free.items():
                which = (sequences[rows, t] == a).nonzero().squeeze(1)
                if len(which):
                    x = (old[which] - tables.bottom) / tables.span
                    drawn[which, : len(action.parameters)] = starts(action, x, torch_generator).to(drawn.dtype)
            r[:, t] = drawn
            old = many.script.move(t, old, r[:, t])
        return r.reshape(len(sequences), draws, *r.shape[1:])


def _look(again: bool) -> str:
    """The name of a look, in random draws and shares of time."""
    return "again" if again else "first"


def _first(best: Best, rows: int, count: int) -> Best:
    """The best of `count` candidates for each row: the cheapest accepted, else the nearest."""
    cost, margin = best.cost.reshape(rows, count), best.margin.reshape(rows, count)
    pick = torch.where(torch.isfinite(cost).any(1), cost.argmin(1), margin.argmax(1))
    at = torch.arange(rows, device=cost.device) * count + pick
    return best.take(at)


# -- back to the boundary without gradients ---------------------------------------------------------------------------


def shrink(
    batch: Batch, best: Best, target: Tensor, rounds: int = 1, expired: Callable[[], bool] = lambda: False
) -> None:
    """Improve best in place: bisection of rho s towards s = 0, and of one parameter at a time.

    Works for any model; where acceptance is not monotone along the way, it stops at the first boundary it brackets.
    """
    for _ in range(rounds):
        live = torch.isfinite(best.cost).nonzero().squeeze(1)
        if not len(live) or expired():
            return
        r = best.r[live]
        part = batch.take(live)
        count = r[0].numel()
        # which parameters go back: all of them, or one alone; the whole of them side by side
        marks = torch.cat([torch.ones(1, count), torch.eye(count)]).to(r).reshape(-1, *r.shape[1:])
        rows = torch.arange(len(live), device=r.device).repeat_interleave(len(marks))
        many = part.take(rows)
        which = marks.repeat(len(live), 1, 1)
        out = best.take(live[rows])
        halvings = HALVINGS if batch.rules is None else FINELY
        _bisect(many, out, own_prices(part, r)[2][rows], which, target[live][rows], halvings)
        best.put(live, _first(out, len(live), len(marks)))


def _bisect(batch: Batch, best: Best, rest: Tensor, which: Tensor, target: Tensor, halvings: int) -> None:
    """Halve the way from the parameters of best back to `rest`, for the parameters marked by `which` (B, T, P)."""
    far = best.r.clone()
    low, high = torch.zeros_like(target), torch.ones_like(target)
    for _ in range(halvings):
        middle = (low + high) / 2
        share = 1 - which * (1 - middle.view(-1, 1, 1))
        r = batch.limits(rest + share * (far - rest))[0]
        with torch.no_grad():
            path = batch.script.roll(batch.start, r)
            margin, cost = batch.margin(path), path.cost.sum(1)
        good = batch.kept(path) & (margin >= target)
        best.offer(r, cost, margin, good, target)
        high, low = torch.where(good, middle, high), torch.where(good, low, middle)
