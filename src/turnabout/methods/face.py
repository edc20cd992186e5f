"""The shortest way through the crowd to an accepted row (FACE, Poyiadzi et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch.utils.weak import WeakIdKeyDictionary

from turnabout.core import Method, Problem, Proposal
from turnabout.core.verify import clearance
from turnabout.errors import MethodError
from turnabout.methods.latent import immutable
from turnabout.methods.nearest_row import Screen
from turnabout.methods.people_graph import SAME, PeopleGraph, PointMap, Ways
from turnabout.parameters import Flag, Maybe, Positive, Share, Whole, checked
from turnabout.schema import Schema
from turnabout.typing import Tensor

ENDS = 8  # ends of ways that are put to the model for each person, and at least four for each option
CELLS = 1 << 22  # numbers in one block of candidate rows
EQUAL = 1e-6  # encoded difference below which two cells are the same
DIRECT = (64, 1024)  # targets that a person without an accepted one is joined to directly, at first and at last
_graphs: WeakIdKeyDictionary = WeakIdKeyDictionary()  # background rows -> {key: graph}, as long as the rows live


@checked(
    MethodError,
    neighbours=Whole(1),
    epsilon=Maybe(Positive()),
    plausible=Share(below=1),
    adapt=Flag(),
    rows=Maybe(Whole(1)),
)
class Face(Method):
    r"""The end of the shortest way through real people, along which there are always many of them.

    The background rows are nodes, each joined to the `neighbours` nearest by edges of length

        w(a, b) = |z_a - z_b| * (1 + log(p_max / p((z_a + z_b) / 2)))                                   (1)

    with z a row as a point, p a kernel density of the background given what nobody can change, p_max the highest at
    a node. A refused person x is joined to their nearest nodes by such edges too, and

        min over ways x -> a -> ... -> t   w(x, a) + ... + w(., t),       t accepted, p(t) >= threshold            (2)

    is solved for all nodes at once, by Dijkstra's search from all targets t together. The row at the end of the way is
    proposed, the nearest end first. The threshold is the density that a share `plausible` of the accepted rows do not
    reach. It is the method's criterion: `find` brings a row nearer only as far as its density stays above it.

    With `adapt`, the person takes from a row on their way what they may: what is fixed stays theirs, and moves in a
    forbidden direction are left out. The model and the density must accept what they become. Who is accepted at no
    end of a way is joined to the nearest targets directly, at the price (1) of a long edge through few people.
    Without `adapt`, edges only lead from rows to rows that they could become as they stand, so that whoever shares
    what is fixed with no accepted person has no way.

    The published benchmark of this method (CARLA) has edges of equal length, whatever the distance and density, keeps
    only the last immutable feature fixed, and there overwrites its own constraints. Ours weighs every edge and keeps
    every feature. The weight of the paper, -log p, is negative where p is above 1, which no shortest path bears;
    (1) measures p in units of p_max / e.

    Use it where plans should lead to rows like those of many real people. Not for small backgrounds, nor where
    people should change as little as they can.

    Parameters
    ----------
    neighbours : that each row, and each person, is joined to.
    epsilon : length of the longest edge, before it is weighed; with many neighbours, the paper's epsilon graph. A
        number's range, or another level, counts 1. None for no limit.
    plausible : share of the accepted background rows whose density is lower than that of every row proposed.
    adapt : whether people adapt the rows to what they may do.
    rows : at most so many nodes, evenly spaced in the background; None for all.

    References
    ----------
    Poyiadzi, Sokol, Santos-Rodriguez, De Bie, Flach (2020), FACE: feasible and actionable counterfactual explanations.
    Pawelczyk et al. (2021), CARLA: a Python library to benchmark algorithmic recourse and counterfactual explanation
    algorithms.
    """

    needs_background = True
    ranked: ClassVar[bool] = False

    graph_: PeopleGraph
    targets_: Tensor
    threshold_: float
    ways_: Ways

    def __init__(
        self,
        neighbours: int = 20,
        epsilon: float | None = None,
        plausible: float = 0.1,
        adapt: bool = True,
        rows: int | None = 8000,
    ):
        self.neighbours = neighbours
        self.epsilon = epsilon
        self.plausible = plausible
        self.adapt = adapt
        self.rows = rows

    @classmethod
    def small(cls) -> Self:
        return cls(neighbours=5, rows=300)

    # -- fit --------------------------------------------------------------------------------------------------

    def _fit(self, problem: Problem) -> None:
        assert problem.background_x is not None and problem.background_margin is not None
        kept = _graphs.setdefault(problem.background_x, {})
        key = self._key(problem)
        if key not in kept:
            kept[key] = self._graph(problem)
        self.graph_, place = kept[key]
        accepted = problem.background_margin[place] >= clearance(problem)
        density = self.graph_.density(self.graph_.z, self.graph_.centre_of)
        reached = density[accepted].sort().values
        self.threshold_ = float(reached[int(self.plausible * len(reached))]) if len(reached) else torch.inf
        self.targets_ = accepted & (density >= self.threshold_)  # (m,)
        self.ways_ = self.graph_.ways(self.targets_)  # (2)

    def _key(self, problem: Problem) -> tuple[Any, ...]:
        """What the graph depends on, apart from the background."""
        moves = None if self.adapt else repr(problem.schema.features)
        return self.neighbours, self.epsilon, self.rows, tuple(immutable(problem).tolist()), moves

    def _graph(self, problem: Problem) -> tuple[PeopleGraph, Tensor]:
        """The graph, and (m,) the places of its nodes in the background."""
        x, schema = problem.background_x, problem.schema
        assert x is not None
        points = PointMap(schema)
        place = _first_of_equals(points(x))
        if self.rows is not None and len(place) > self.rows:
            place = place[torch.linspace(0, len(place) - 1, self.rows, device=x.device).long()]
        fixed = immutable(problem)[schema.feature_of].to(x.device)
        allowed = None if self.adapt else StepScreen(schema, x[place])
        longest = torch.inf if self.epsilon is None else self.epsilon
        return PeopleGraph(points, x[place], fixed, self.neighbours, longest, allowed=allowed), place

    # -- search -----------------------------------------------------------------------------------------------

    def criterion(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(m,) whether rows are as likely as most accepted people."""
        return self.graph_.density(self.graph_.points(x_new)) >= self.threshold_

    def _search(self, x: Tensor) -> Proposal:
        found = Found.none(x, 2 * self.run.options)
        todo = torch.arange(len(x) if self.targets_.any() else 0, device=x.device)
        for width in (0, *DIRECT):
            left = [todo[:0]]
            for part in self.run.parts(len(todo), max(1, CELLS // (max(ENDS, width) * x.shape[1])), f"ways {width}"):
                if self.run.expired:
                    return Proposal(found.x_new)
                some = todo[part]
                length, end = self._direct(x[some], width) if width else self._ends(x[some])
                left.append(some[~self._look(x[some], some, length, end, found)])
            todo = torch.cat(left)
        return Proposal(found.x_new)

    def _ends(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(2): lengths and ends (n, k) of the shortest ways of people, one for each end."""
        apart, near = self.graph_.near(x, self.neighbours)
        length = self._first_edge(x, apart, near) + self.ways_.length[near]
        end, order = self.ways_.end[near], length.round(decimals=SAME).argsort(dim=1, stable=True)
        length, end = length.gather(1, order), end.gather(1, order)
        length[(end.unsqueeze(2) == end.unsqueeze(1)).tril(-1).any(2)] = torch.inf  # by a longer way
        order = length.argsort(dim=1, stable=True)[:, : max(ENDS, 4 * self.run.options)]
        return length.gather(1, order), end.gather(1, order)

    def _direct(self, x: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Lengths and ends (n, k) of single edges to the nearest targets."""
        apart, near = self.graph_.near_among(x, self.targets_.nonzero().squeeze(1), width)
        length, order = self._first_edge(x, apart, near).round(decimals=SAME).sort(dim=1, stable=True)
        return length, near.gather(1, order)

    def _first_edge(self, x: Tensor, apart: Tensor, near: Tensor) -> Tensor:
        """(1) of edges between people (n, d) and nodes (n, k); infinite where these are."""
        out, there = apart.clone(), torch.isfinite(apart)
        z = self.graph_.points(x).unsqueeze(1).expand(*near.shape, -1)
        out[there] = self.graph_.weight(z[there], self.graph_.z[near[there]])
        return out

    def _look(self, x: Tensor, some: Tensor, length: Tensor, end: Tensor, found: Found) -> Tensor:
        """Put the ends (n, k) of ways to the model, the shortest in front; (n,) who has one that meets all."""
        own, rows = x.unsqueeze(1).expand(*end.shape, -1), self.graph_.rows[end]
        x_new, allowed = self.problem_.snap(own, rows), torch.isfinite(length)
        if not self.adapt:
            allowed &= ((x_new - rows).abs() <= EQUAL).all(-1)
        if self.problem_.rules:
            allowed &= self.problem_.violation(own, x_new) <= 0
        margin = torch.full_like(length, -torch.inf)
        margin[allowed] = self.ask(x_new[allowed])
        accepted = margin >= clearance(self.problem_)
        good = accepted.clone()
        good[accepted] = self.criterion(own[accepted], x_new[accepted])
        found.enter(some, x_new, margin, accepted, good)
        return good.any(1)


@dataclass
class Found:
    """For each person the best rows seen: those that meet all before the accepted ones, these before the others."""

    x_new: Tensor  # (n, k, d)
    tier: Tensor  # (n,) of the first one: 0, 1 or 2; 3 for none

    @classmethod
    def none(cls, x: Tensor, k: int) -> Found:
        return cls(x.new_full((len(x), k, x.shape[1]), torch.nan), torch.full((len(x),), 3, device=x.device))

    def enter(self, some: Tensor, x_new: Tensor, margin: Tensor, accepted: Tensor, good: Tensor) -> None:
        """Rows (a, w, d) of people `some` (a,), in order; they replace what was seen if their first is better."""
        w = x_new.shape[1]
        if not w:
            return
        tier = 2 - accepted.long() - good.long()  # (a, w)
        tier.masked_fill_(torch.isinf(margin), 3)
        by_margin = (-margin).argsort(dim=1, stable=True).argsort(dim=1)
        place = torch.where(tier < 2, torch.arange(w, device=margin.device), by_margin)
        order = (tier * w + place).argsort(dim=1)[:, : self.x_new.shape[1]]
        better = tier.amin(1) < self.tier[some]
        best = x_new.gather(1, order.unsqueeze(2).expand(-1, -1, x_new.shape[2]))
        best[tier.gather(1, order) == 3] = torch.nan
        self.x_new[some[better], : order.shape[1]] = best[better]
        self.tier[some[better]] = tier.amin(1)[better]


class StepScreen:
    """Which of some rows (m, d) people (a, d) could become as they stand: (a, m) bool."""

    def __init__(self, schema: Schema, rows: Tensor):
        none = torch.zeros(len(schema), dtype=rows.dtype)
        self.screen = Screen(schema, rows, none, none, adapt=False)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.isfinite(self.screen(x))


def _first_of_equals(z: Tensor) -> Tensor:
    """Places of the first of all points (n, d) that are equal, in their old order."""
    _, first = np.unique(z.cpu().numpy().round(SAME), axis=0, return_index=True)
    return torch.as_tensor(np.sort(first), device=z.device)
