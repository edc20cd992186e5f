"""Sampling in growing shells around the person (Laugel et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from turnabout.core import Method, Problem, Proposal
from turnabout.core.verify import clearance
from turnabout.errors import MethodError
from turnabout.parameters import Positive, Whole, checked
from turnabout.schema import Category, Feature, Scalar, Schema
from turnabout.typing import Tensor

CELLS = 1 << 21  # numbers in one block of samples; fits a processor's cache better than one block for all
SPARE = 4  # samples proposed beyond the options asked for


@checked(MethodError, samples=Whole(1), radius=Positive(), halvings=Whole(0))
class GrowingSpheres(Method):
    r"""The cheapest accepted one of random points, in shells that grow until one is met.

    For each refused person x, with m features that may move, draws points

        x' = x + rho * u,    u uniform on the unit sphere of R^m,    rho uniform in [a, b]              (1)

    first in the ball [0, radius], which is halved as long as it holds an accepted point, then in shells [a, b] with
    b - a the radius that was left, one after another, until one holds an accepted point or nothing is further
    away. The cheapest accepted point met, by the problem's cost, is proposed.                      (2)

    One axis of R^m stands for one feature, and a move of length t along it means: a number moves by t and an ordinal or
    a number on a grid by t on average, rounded up or down at random; a binary flips, and a category goes to
    another level, with probability min(1, |t|). So the chance of a flip grows with the radius: common code flips
    every binary with probability 1/2 at any radius, and so never finds the cheap plans. An axis that the person can
    walk one way only is folded onto that side, and moves end at their bounds. The directions and other draws are the
    same for everyone. The published second half, which undoes small changes while the point stays accepted, is
    done by `find` for all methods.

    Use it for models of which nothing is known. It asks many questions (hundreds for each shell) and finds plans
    of many small changes with difficulty; use a gradient, a tree or a linear method where the model allows.

    Parameters
    ----------
    samples : points in each shell.
    radius : of the first ball, in encoded units (1 is a feature's range); also the width of shells if it is empty.
    halvings : how often the ball may be halved.

    References
    ----------
    Laugel, Lesot, Marsala, Renard, Detyniecki (2018), Comparison-based inverse classification for interpretability in
    machine learning. Radii there are Euclidean in numbers only, and the nearest point is meant in that distance.
    """

    def __init__(self, samples: int = 200, radius: float = 1.0, halvings: int = 8):
        self.samples = samples
        self.radius = radius
        self.halvings = halvings

    @classmethod
    def small(cls) -> Self:
        return cls(samples=100)

    def _search(self, x: Tensor) -> Proposal:
        found = BestSamples.none(x, self.run.options + SPARE)
        shells = Shells.first(x, self.radius, self._furthest(x))
        axes = Axes.of(self.problem_.schema)
        while len(shells.active) and not self.run.expired:
            draws = ShellDraws.of(self.run.rng("shell", shells.count), self.samples, x, len(axes.features))
            hit = torch.zeros(len(x), dtype=torch.bool, device=x.device)
            most = max(1, CELLS // (self.samples * x.shape[1]))
            for part in self.run.parts(len(shells.active), most, "samples", self.samples):
                if self.run.expired:
                    break
                some = shells.active[part]
                x_new = axes.move(self.problem_, x[some], shells.low[some], shells.high[some], draws)  # (a, s, d)
                hit[some] = self._keep(x[some], some, x_new, found)
            shells.turn(hit, self.halvings)
        return Proposal(torch.cat([found.x_new, found.nearest.unsqueeze(1)], 1))

    def _furthest(self, x: Tensor) -> Tensor:
        """(n,) a radius beyond which samples only pile up at the bounds: all features at their far ends."""
        low, high = self.problem_.bounds(x)
        reach = torch.maximum(high - x, x - low)
        spread = torch.nn.functional.one_hot(self.problem_.schema.feature_of.to(x.device)).to(x.dtype)
        per_feature = (reach.unsqueeze(2) * spread).amax(1)  # (n, F)
        return 2 * torch.linalg.vector_norm(per_feature, dim=1)

    def _keep(self, x: Tensor, some: Tensor, x_new: Tensor, found: BestSamples) -> Tensor:
        """Put samples (a, s, d) of people `some` to the model and keep the best; (a,) who had an accepted one."""
        own = x.unsqueeze(1).expand_as(x_new)
        margin = self.ask(x_new)
        if self.problem_.rules:
            margin = margin.masked_fill(self.problem_.violation(own, x_new) > 0, -torch.inf)
        found.note_nearest(some, x_new, margin)
        accepted = margin >= clearance(self.problem_)
        hit = accepted.any(1)
        cost = self.problem_.cost(own[hit], x_new[hit]).masked_fill(~accepted[hit], torch.inf)
        found.add(some[hit], x_new[hit], cost)  # (2)
        return hit


@dataclass
class Shells:
    """Where each person is searched now: the shell [low, high], and who is searched at all."""

    low: Tensor  # (n,) 0 as long as they are searched in a ball
    high: Tensor  # (n,)
    width: Tensor  # (n,)
    furthest: Tensor  # (n,)
    active: Tensor  # (a,) people still searched
    count: int = 0

    @classmethod
    def first(cls, x: Tensor, radius: float, furthest: Tensor) -> Shells:
        """The first ball of everyone."""
        width = torch.full_like(furthest, radius)
        return cls(torch.zeros_like(width), width.clone(), width, furthest, torch.arange(len(x), device=x.device))

    def turn(self, hit: Tensor, halvings: int) -> None:
        """Next: half the ball after a hit in one, the next shell after none, nothing after a hit in a shell."""
        in_ball = self.low == 0
        self.width = torch.where(in_ball & hit, self.width / 2, self.width)
        low = torch.where(hit, self.low, self.high)
        self.high = torch.where(in_ball & hit, self.width, low + self.width)
        self.low = low
        self.count += 1
        goes_on = torch.where(hit, in_ball & (self.count <= halvings), self.low < self.furthest)
        self.active = self.active[goes_on[self.active]]


@dataclass
class BestSamples:
    """The cheapest accepted samples of each person, and the one with the highest margin."""

    x_new: Tensor  # (n, k, d), NaN where there are fewer
    cost: Tensor  # (n, k)
    nearest: Tensor  # (n, d)
    margin: Tensor  # (n,)

    @classmethod
    def none(cls, x: Tensor, k: int) -> BestSamples:
        """Nothing yet."""
        empty = x.new_full((len(x), k + 1, x.shape[1]), torch.nan)
        cost = x.new_full((len(x), k), torch.inf)
        return cls(empty[:, 1:], cost, empty[:, 0].clone(), -cost[:, 0])

    def note_nearest(self, some: Tensor, x_new: Tensor, margin: Tensor) -> None:
        """x_new (a, s, d), margin (a, s) of people `some` (a,)."""
        top = margin.max(1)
        better = top.values > self.margin[some]
        self.nearest[some[better]] = x_new[better, top.indices[better]]
        self.margin[some[better]] = top.values[better]

    def add(self, some: Tensor, x_new: Tensor, cost: Tensor) -> None:
        """x_new (a, s, d), cost (a, s), infinite for what is not accepted."""
        k, d = self.x_new.shape[1:]
        cost, order = cost.topk(min(k, cost.shape[1]), largest=False)
        x_new = x_new.gather(1, order.unsqueeze(2).expand(-1, -1, d))
        x_new = torch.cat([self.x_new[some], x_new.masked_fill(torch.isinf(cost).unsqueeze(2), torch.nan)], 1)
        self.cost[some], order = torch.cat([self.cost[some], cost], 1).topk(k, largest=False)
        self.x_new[some] = x_new.gather(1, order.unsqueeze(2).expand(-1, -1, d))


@dataclass(frozen=True)
class ShellDraws:
    """Random numbers of one shell, the same for everyone."""

    direction: Tensor  # (s, m) normal
    radius: Tensor  # (s, 1) uniform
    chance: Tensor  # (s, m) uniform: rounds up, or switches
    level: Tensor  # (s, m) uniform: to which level

    @classmethod
    def of(cls, rng: np.random.Generator, samples: int, x: Tensor, m: int) -> ShellDraws:
        """Drawn in double precision, placed beside x."""
        normal, uniform = rng.standard_normal((samples, m)), rng.random((samples, 2 * m + 1))
        numbers = torch.from_numpy(uniform).to(x)
        return cls(torch.from_numpy(normal).to(x), numbers[:, :1], numbers[:, 1 : m + 1], numbers[:, m + 1 :])


@dataclass(frozen=True)
class Axes:
    """One axis for each feature that may move: scalars first, then categories."""

    features: tuple[Feature, ...]
    scalars: Tensor  # (p,) encoded columns of the scalars
    grid: Tensor  # (3, p) bottom, span, step
    categories: tuple[slice, ...]  # encoded columns of the levels of each category

    @classmethod
    def of(cls, schema: Schema) -> Axes:
        """Read the axes off a schema."""
        free = [(f, s) for f, s in zip(schema.features, schema.slices) if f.moves != "fixed"]
        scalars = [(f, s) for f, s in free if isinstance(f, Scalar)]
        others = [(f, s) for f, s in free if isinstance(f, Category)]
        grid = [[f.bottom, f.span, f.choice_step] for f, _ in scalars]
        return cls(
            tuple(f for f, _ in scalars + others),
            torch.tensor([s.start for _, s in scalars], dtype=torch.long),
            torch.tensor(grid, dtype=torch.float64).reshape(-1, 3).T,
            tuple(slice(s.start, s.start + len(f.levels)) for f, s in others),
        )

    def move(self, problem: Problem, x: Tensor, low: Tensor, high: Tensor, draws: ShellDraws) -> Tensor:
        """People x (a, d), shells [low, high] (a,) -> their samples (a, s, d), possible for them."""
        p = len(self.scalars)
        lo, hi = problem.bounds(x)
        up, down = hi > x, lo < x
        movable = torch.cat(
            [(up | down)[:, self.scalars], *(up[:, s].any(1, keepdim=True) for s in self.categories)], 1
        )
        t = draws.direction * movable.unsqueeze(1)  # (a, s, m)
        rho = low.view(-1, 1, 1) + (high - low).view(-1, 1, 1) * draws.radius
        t = t * (rho / torch.linalg.vector_norm(t, dim=2, keepdim=True).clamp(min=1e-12))  # (1)
        x_new = x.unsqueeze(1).repeat(1, len(draws.radius), 1)
        bounds = (b[:, self.scalars].unsqueeze(1) for b in (lo, hi, up, down))
        x_new[..., self.scalars] = self._walk(x_new[..., self.scalars], t[..., :p], draws.chance[:, :p], *bounds)
        for j, s in enumerate(self.categories, start=p):
            own = x[:, s].argmax(1).unsqueeze(1)  # (a, 1)
            other = (own + 1 + (draws.level[:, j] * (s.stop - s.start - 1)).long()) % (s.stop - s.start)
            row, sample = (draws.chance[:, j] < t[..., j].abs()).nonzero(as_tuple=True)
            x_new[row, sample, s] = torch.nn.functional.one_hot(other[row, sample], s.stop - s.start).to(x.dtype)
        own_rows = x.unsqueeze(1).expand_as(x_new)
        return problem.snap(own_rows, x_new) if problem.rules else x_new

    def _walk(self, x: Tensor, t: Tensor, chance: Tensor, lo: Tensor, hi: Tensor, up: Tensor, down: Tensor) -> Tensor:
        """Scalars x (a, s, p) moved by t, folded to where there is room, rounded at random, kept in bounds."""
        bottom, span, step = self.grid.to(x)
        t = torch.where(up & down, t, torch.where(up, t.abs(), -t.abs()))
        multiple = torch.floor((bottom + (x + t) * span) / step + chance)
        there = torch.clamp((multiple * step - bottom) / span, lo, hi)
        return torch.where(t == 0, x, there)
