"""The family of methods that follow the model's gradient: Adam in rounds, everyone at once.

A method of the family says what it lessens (`loss`) and what it searches (`space`). Four objects do the rest:

- `Space`: the search variable z of each row, which may be the encoded row itself (`PrintedSpace`: as it would be
  printed), acts with consequences, or a latent code; `decode` turns it into a row, and gradients pass through.
- `Weights`: how the weight of the cost changes from round to round, and who is searched again.
- `Assessed`: what a printed row is worth: rows that meet all that the method aims for come first, then the cheapest.
- `Cheapest`: the best row of everyone so far.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, Self, TypeVar

import torch

from turnabout.core import Method, Problem, Proposal, Run
from turnabout.core.verify import clearance
from turnabout.models import Differentiable
from turnabout.nn.adam import Adam
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor


class Space:
    """What is searched for n people: here the encoded row itself, z = x'.

    Several searches of one person, from other starts or of other kinds, are several rows of x.

    Parameters
    ----------
    problem : the rules and directions that rows keep to.
    x : (n, ..., d) the people's own rows.
    """

    def __init__(self, problem: Problem, x: Tensor):
        self.problem = problem
        self.x = x

    def take(self, who: Tensor) -> Self:
        """The part of some people."""
        return type(self)(self.problem, self.x[who])

    def start(self, turn: int, met: Tensor, run: Run) -> Tensor:
        """Where a round begins: at x; in later rounds elsewhere, for people without a hit (met (n,) is False)."""
        if turn == 0:
            return self.x
        share = torch.as_tensor(run.rng("start", turn).random(self.x.shape[1])).to(self.x)  # the same for everyone
        lo, hi = self.problem.bounds(self.x)
        return torch.where(met.unsqueeze(1), self.x, self.reachable(lo + share * (hi - lo)))

    def reachable(self, z: Tensor) -> Tensor:
        """The nearest z at which a search may start."""
        return self.project(z)

    def decode(self, z: Tensor) -> Tensor:
        """z -> x' (n, ..., d), differentiable."""
        return z

    def project(self, z: Tensor) -> Tensor:
        """z within what people may do; after every step."""
        return self.problem.relax(self.x, z)

    def printed(self, z: Tensor) -> Tensor:
        """z -> the legal row that a person would be shown."""
        return self.problem.snap(self.x, self.decode(z))


class PrintedSpace(Space):
    """The encoded row, seen as it would be printed; gradients pass through the rounding as if it were not there."""

    def decode(self, z: Tensor) -> Tensor:
        return self.printed(z.detach()) + (z - z.detach())  # the printed row to the last bit

    def printed(self, z: Tensor) -> Tensor:
        return self.problem.snap(self.x, z)


class Weights(ABC):
    """The weight of the cost for each of n people."""

    now: Tensor  # (n,)
    active: Tensor  # (n,) who takes part in the next round

    @abstractmethod
    def turn(self, hit: Tensor) -> None:
        """After a round; hit (n,) says who met an accepted point in it, False for people who took no part."""


class Bracket(Weights):
    """The largest weight with which each person is still accepted, closed in from both sides.

    It is raised after a round that met an accepted point and lowered after one that did not. While only one side is
    known, it grows fourfold or shrinks tenfold; then it halves the interval. Never below zero.

    Parameters
    ----------
    lam : the first weight.
    x : (n, ...) rows, whose kind and place the weights take.
    """

    def __init__(self, lam: float, x: Tensor):
        self.now = x.new_full((len(x),), lam)
        self.active = torch.ones_like(self.now, dtype=torch.bool)
        self.upper = torch.full_like(self.now, torch.inf)  # smallest weight that failed
        self.lower = torch.zeros_like(self.now)  # largest weight that succeeded

    def turn(self, hit: Tensor) -> None:
        self.lower = torch.where(hit, torch.maximum(self.lower, self.now), self.lower)
        self.upper = torch.where(hit, self.upper, torch.minimum(self.upper, self.now))
        middle = (self.lower + self.upper) / 2
        grown = torch.where(torch.isfinite(self.upper), middle, self.now * 4)
        shrunk = torch.where(self.lower > 0, middle, self.now / 10)
        self.now = torch.where(hit, grown, shrunk)


class Fading(Weights):
    """A weight that is multiplied by `factor` after every round; people who met an accepted point leave."""

    def __init__(self, factor: float, x: Tensor):
        self.factor = factor
        self.now = x.new_ones(len(x))
        self.active = torch.ones_like(self.now, dtype=torch.bool)

    def turn(self, hit: Tensor) -> None:
        self.now = self.now * self.factor
        self.active &= ~hit


@dataclass(frozen=True)
class Assessed:
    """What printed rows are worth, (n,) each."""

    cost: Tensor  # the lowest is kept; infinite for what is not worth keeping
    hit: Tensor  # allowed, accepted, and all else that the method aims for: comes before what is not, at any cost
    margin: Tensor  # the highest is remembered as nearest


@dataclass
class Cheapest(TensorRows):
    """The best printed row of each of n people (NaN: none), and the x' whose printed row had the highest margin."""

    row: Tensor  # (n, ..., d)
    cost: Tensor  # (n,) infinite where there is no row
    met: Tensor  # (n,) whether the row is a hit
    nearest: Tensor  # (n, ..., d)
    margin: Tensor  # (n,)

    @classmethod
    def none(cls, x: Tensor) -> Self:
        """Nothing yet, for people x (n, ..., d)."""
        nothing, far = torch.full_like(x, torch.nan), x.new_full((len(x),), torch.inf)
        return cls(nothing, far, torch.zeros_like(far, dtype=torch.bool), nothing.clone(), -far)

    @property
    def found(self) -> Tensor:
        """(n,) who has a row."""
        return torch.isfinite(self.cost)


S = TypeVar("S", bound=Space)


class GradientMethod(Method, Generic[S]):
    """A method that descends on its `loss`; subclasses store the parameters below in their `__init__`.

    Parameters
    ----------
    lam : first weight of the cost; larger keeps closer to x.
    kappa : margin to reach beyond bare acceptance, in the model's own scale.
    lr, steps : Adam's step size, and its count in each round.
    rounds : rounds of the search over weights.
    patience : steps between two looks at the rounded point.
    """

    requires = Differentiable
    share: ClassVar[float] = 1.0  # of the time left for a round, where something comes after the descent

    lam: float  # of the default weights
    lr: float
    steps: int
    rounds: int
    patience: int

    # -- what a method says -----------------------------------------------------------------------------------

    @abstractmethod
    def space(self, x: Tensor) -> S:
        """What is searched for people x (n, d)."""

    @abstractmethod
    def loss(self, space: S, z: Tensor, weight: Tensor) -> Tensor:
        """What is lessened, (n,) at z, with weights (n,); differentiable in z. It may ask for the model's gradient."""

    def weights(self, x: Tensor) -> Weights:
        """How the weight of the cost changes, for rows x (n, ..., d) that are searched: from lam on, unless said."""
        return Bracket(self.lam, x)

    def assess(self, space: S, row: Tensor) -> Assessed:
        """What printed rows are worth: their cost, if they are allowed and accepted; hits meet the criterion too."""
        problem = space.problem
        margin, cost = self.ask(row), problem.cost(space.x, row)
        hit = (margin >= clearance(problem)) & (problem.violation(space.x, row) <= 0)
        cost = cost.masked_fill(~hit, torch.inf)
        if self.criterion is not None and bool(hit.any()):
            hit[hit.clone()] = self.criterion(space.x[hit], row[hit])
        return Assessed(cost, hit, margin)

    def confirm(self, space: S, row: Tensor) -> Tensor:
        """(n,) whether rows that would be kept pass a last check, one too dear to be made for all rows."""
        return torch.ones(len(row), dtype=torch.bool, device=row.device)

    # -- the search -------------------------------------------------------------------------------------------

    def _search(self, x: Tensor) -> Proposal:
        best = self.descend(self.space(x))
        return Proposal(torch.stack([best.row, best.nearest], 1))

    def descend(self, space: S) -> Cheapest:
        """Rounds of descent until no person is active, time is up, or all rounds are done."""
        best, weights = Cheapest.none(space.x), self.weights(space.x)
        for turn in range(max(1, self.rounds)):
            who = weights.active.nonzero().squeeze(1)
            part, hit = best.take(who), torch.zeros_like(weights.active)
            with self.run.within(self.share):
                hit[who] = self._round(space.take(who), turn, weights.now[who], part)
            best.put(who, part)
            weights.turn(hit)
            if self.run.cut or self.run.expired or not bool(weights.active.any()):
                break
        return best

    def _round(self, space: S, turn: int, weight: Tensor, best: Cheapest) -> Tensor:
        """One round; updates best, returns (n,) who met an accepted point."""
        hit = torch.zeros(len(space.x), dtype=torch.bool, device=space.x.device)
        z, adam = space.start(turn, best.met, self.run).clone(), Adam(self.lr)
        for step in range(1, self.steps + 1):
            z = z.requires_grad_()
            (slope,) = torch.autograd.grad(self.loss(space, z, weight).sum(), z)
            z = space.project(adam.step(z.detach(), slope))  # stay within what people may do
            last = step == self.steps or self.run.nearly_over
            if step % self.patience == 0 or last:
                hit |= self._look(space, z, best)
            if last or self.run.expired:
                break
        return hit

    def _look(self, space: S, z: Tensor, best: Cheapest) -> Tensor:
        """Print the iterate and keep what is better; (n,) who is accepted."""
        row = space.printed(z)
        assessed = self.assess(space, row)
        hit, cheaper = assessed.hit, assessed.cost < best.cost
        better = ((hit & ~best.met) | ((hit == best.met) & cheaper)).nonzero().squeeze(1)
        if len(better):
            sure = self.confirm(space.take(better), row[better])
            hit[better[~sure]] = False
            better = better[sure]
        best.row[better], best.cost[better], best.met[better] = row[better], assessed.cost[better], hit[better]
        nearer = (assessed.margin > best.margin).nonzero().squeeze(1)
        best.nearest[nearer] = space.take(nearer).decode(z[nearer])
        best.margin[nearer] = assessed.margin[nearer]
        return hit


class PrintedDescent(GradientMethod[PrintedSpace]):
    """A method that sees every row as it would be printed, and proposes only rows that keep every rule."""

    def space(self, x: Tensor) -> PrintedSpace:
        return PrintedSpace(self.problem_, x)

    def assess(self, space: PrintedSpace, row: Tensor) -> Assessed:
        seen = super().assess(space, row)
        broken = space.problem.violation(space.x, row) > 0
        return Assessed(seen.cost, seen.hit, seen.margin.masked_fill(broken, -torch.inf))
