"""The family of methods that search the codes of an auto-encoder: whatever a code decodes to resembles the people.

One conditional network serves everyone: what a person cannot change is given to it, and it draws the rest.
`LatentSpace` is what searches move in: a code z of each person, decoded to the row that would be printed. Gradients
pass through the rounding as if it were not there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self, cast

import torch
from torch import nn

from turnabout.core import Problem, Proposal, Run
from turnabout.methods.gradient import GradientMethod, Space
from turnabout.methods.networks import NetworkMethod
from turnabout.nn.network_training import Schedule
from turnabout.nn.vae import ConditionalVae, GivenCells, train_vae
from turnabout.typing import Tensor

SCORED = 4096  # accepted background rows whose densities set the threshold, and among which starts are looked for
FURTHEST = 4.0  # largest absolute entry of a code: the prior is standard normal
BLOCK = 1 << 22  # numbers in one block of rows that are decoded together
TRIED = 64  # accepted rows whose codes are tried as a start for a person


class RowCoder(Protocol):
    """A network that decodes codes to rows, given some of their features, and says how likely a row is."""

    def condition(self, x: Tensor, given: Tensor) -> GivenCells: ...

    def decode(self, code: Tensor, condition: GivenCells) -> Tensor: ...

    def elbo(self, x: Tensor, given: Tensor) -> Tensor: ...


Starts = Callable[[int, Tensor], Tensor]
"""(turn, places of m people) -> (m, q) where a search begins again for people without a plan."""


class LatentSpace(Space):
    """Codes of n people, z (n, q).

    Parameters
    ----------
    problem, x : as every space; x may be (n, 1, d) where several codes of each person are decoded.
    coder : the network.
    first : (n, q) where the search begins.
    starts : where it begins again.
    rest : (n, r) the part of the code that is held, appended to z.
    condition : what the network is told of x; all that the person cannot change, where it is not said.
    """

    def __init__(
        self,
        problem: Problem,
        x: Tensor,
        coder: RowCoder,
        first: Tensor,
        starts: Starts | None = None,
        rest: Tensor | None = None,
        condition: GivenCells | None = None,
    ):
        super().__init__(problem, x)
        self.coder, self.first, self.starts = coder, first, starts
        self.rest = first[..., :0] if rest is None else rest
        self.condition = coder.condition(x, given_of(problem, x)) if condition is None else condition

    def take(self, who: Tensor) -> Self:
        begin = self.starts

        def starts(turn: int, mine: Tensor) -> Tensor:
            assert begin is not None
            return begin(turn, who[mine])

        parts = None if begin is None else starts, self.rest[who], self.condition.take(who)
        return type(self)(self.problem, self.x[who], self.coder, self.first[who], *parts)

    def start(self, turn: int, met: Tensor, run: Run) -> Tensor:
        z = self.first.clone()
        lost = (~met).nonzero().squeeze(1)
        if turn > 0 and len(lost) and self.starts is not None:
            z[lost] = self.starts(turn, lost)
        return z

    def project(self, z: Tensor) -> Tensor:
        return z.clamp(-FURTHEST, FURTHEST)

    def decode(self, z: Tensor) -> Tensor:
        """The row as it would be printed; its gradient is that of the row before it was rounded."""
        soft = self._soft(z)
        return soft + (self._rounded(soft.detach()) - soft).detach()

    def printed(self, z: Tensor) -> Tensor:
        with torch.no_grad():
            return self._rounded(self._soft(z))

    def _soft(self, z: Tensor) -> Tensor:
        return self.coder.decode(torch.cat([z, self.rest], -1), self.condition)

    def _rounded(self, soft: Tensor) -> Tensor:
        x = self.x.expand_as(soft)
        return self.problem.snap(x, self.problem.relax(x, soft) if self.problem.rules else soft)


def immutable(problem: Problem) -> Tensor:
    """(F,) True for features that nobody can change, however they limit themselves."""
    return torch.tensor([f.moves == "fixed" for f in problem.declared_schema.features])


def given_of(problem: Problem, x: Tensor) -> Tensor:
    """(n, F) True for features of which a person can change nothing."""
    low, high = problem.bounds(x)
    spread = nn.functional.one_hot(problem.schema.feature_of.to(x.device), len(problem.schema)).to(x.dtype)
    return ((high > low).to(x.dtype) @ spread) == 0


class LatentMethod(NetworkMethod):
    """A method that searches codes; subclasses store the parameters below in their `__init__`.

    Parameters
    ----------
    plausible : share of the accepted background rows (of all, where none is accepted) whose density is lower than that
        of rows that meet the method's criterion. Density is the network's bound of log p(features that may change |
        immutable features).
    latent, hidden : width of the code and of the hidden layers.
    training_steps : of 256 rows each; fewer for small tables.
    seed : of the network.
    """

    training: ClassVar[tuple[str, ...]] = ("latent", "hidden", "training_steps", "seed")

    plausible: float
    latent: int
    hidden: tuple[int, ...]
    training_steps: int

    threshold_: float
    anchors_: Tensor

    def _key(self, problem: Problem) -> tuple[Any, ...]:
        return (*super()._key(problem), tuple(immutable(problem).tolist()))

    def _network(self, problem: Problem) -> nn.Module:
        assert problem.background_x is not None
        rows = problem.background_x.cpu().float()
        return ConditionalVae(problem.schema, rows, immutable(problem), self.latent, tuple(self.hidden), self.seed)

    def _train(self, network: nn.Module, problem: Problem) -> None:
        assert isinstance(network, ConditionalVae) and problem.background_x is not None
        rows, schedule = problem.background_x.float(), Schedule(self.training_steps)
        train_vae(network, rows, schedule, self.seed, self._training)

    @property
    def coder(self) -> Any:
        """The trained network."""
        return self.network_

    def _fit(self, problem: Problem) -> None:
        super()._fit(problem)
        rows, margin = problem.background_x, problem.background_margin
        assert rows is not None and margin is not None
        self.anchors_ = some_of(rows[margin >= 0])
        scored = self.anchors_ if len(self.anchors_) else some_of(rows)
        self.threshold_ = float(self.density(scored).quantile(self.plausible))

    def density(self, x: Tensor) -> Tensor:
        """(m,) how likely rows x (m, d) are, given their immutable features."""
        out = x.new_empty(len(x))
        fixed = immutable(self.problem_).to(x.device)
        for part in blocks(len(x), x.shape[1]):
            out[part] = cast(Tensor, self.coder.elbo(x[part], fixed.expand(len(x[part]), -1)))
        return out

    def criterion(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(m,) whether rows are as likely as most accepted people."""
        with torch.no_grad():
            return self.density(x_new) >= self.threshold_

    def codes(self, rows: Tensor, given: Tensor) -> Tensor:
        """(..., q) of accepted rows (..., d): the whole of what is decoded."""
        return cast(Tensor, self.coder.encode(rows, given)[0])

    def anchor_rows(self, x: Tensor, near: bool) -> Tensor:
        """(n, k, d) accepted background rows as the people x could become them: the nearest, or spread evenly."""
        k = min(TRIED, len(self.anchors_))
        at = torch.linspace(0, max(0, len(self.anchors_) - 1), k, device=x.device).long().expand(len(x), k)
        if near and k:
            some = blocks(len(x), len(self.anchors_))
            at = torch.cat([torch.cdist(x[b], self.anchors_, p=1).topk(k, largest=False).indices for b in some])
        rows = self.anchors_[at]
        return self.problem_.snap(x.unsqueeze(1).expand_as(rows), rows)

    def start_codes(self, x: Tensor, first: Tensor, near: bool) -> Tensor:
        """(n, q) the code of an accepted row that decodes to the row of highest margin for the person."""
        rows, z = self.anchor_rows(x, near), first.clone()
        for b in blocks(len(x), rows.shape[1] * rows.shape[2]) if rows.shape[1] else ():
            own = x[b].unsqueeze(1)
            given = given_of(self.problem_, own)
            codes = self.codes(rows[b], given.expand(*rows[b].shape[:-1], -1))
            space = LatentSpace(self.problem_, own, self.coder, codes, condition=self.coder.condition(own, given))
            best = self.ask(space.printed(codes)).argmax(1)
            z[b] = codes[torch.arange(len(best), device=x.device), best]
        return z


class LatentDescent(LatentMethod, GradientMethod[LatentSpace]):
    """A method that descends along a loss of codes.

    Parameters
    ----------
    kappa : margin to reach beyond bare acceptance, in the model's own scale.
    """

    kappa: float

    @property
    def aim(self) -> float:
        """The margin that the search goes for."""
        return self.kappa

    def loss(self, space: LatentSpace, z: Tensor, weight: Tensor) -> Tensor:
        row = space.decode(z)
        f, c = space.problem.model.margin, space.problem.cost
        return (self.aim - f(row)).clamp(min=0) + weight * c(space.x, row)  # (1)

    def _search(self, x: Tensor) -> Proposal:
        best = self.descend(self.space(x))
        return Proposal(torch.stack([best.row, best.nearest], 1))


def some_of(rows: Tensor) -> Tensor:
    """At most `SCORED` of the rows, spread evenly."""
    if len(rows) <= SCORED:
        return rows
    return rows[torch.linspace(0, len(rows) - 1, SCORED, device=rows.device).long()]


def block_size(width: int) -> int:
    """How many rows of such a width are decoded together."""
    return max(1, BLOCK // max(1, width))


def blocks(rows: int, width: int) -> list[slice]:
    """Slices of rows, each of about `BLOCK` numbers."""
    size = block_size(width)
    return [slice(start, min(rows, start + size)) for start in range(0, rows, size)]
