"""The nearest point that a forest accepts: an exact search over the cells where its leaves meet."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from turnabout.core.candidates import places
from turnabout.models.forest import Forest
from turnabout.models.model import Model, Trees
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

NUMBERS = 1 << 21  # numbers held at a time
WIDE = 4  # cells of one person looked at at a time
SLACK = 1e-9  # of the largest score: sums in another order may differ by less

Size = Callable[[Tensor], Tensor]
"""The length of moves, (k, d) -> (k,): a norm."""


@dataclass(frozen=True, eq=False)
class LeafResult:
    """What was found for n people.

    Attributes
    ----------
    distance : (n,) to the point; inf where none was found.
    point : (n, d) a point at which the model said yes; the person's own where none was found.
    unknown : (n,) whether the search ended before it was through: a point may be missing, or a nearer one.
    """

    distance: Tensor
    point: Tensor
    unknown: Tensor


@dataclass(frozen=True, eq=False)
class LeafBoxes(TensorRows):
    """Boxes of points, one person each; `turn` says when each is looked at, the highest first."""

    person: Tensor  # (k,)
    lower: Tensor  # (k, d), open
    upper: Tensor  # (k, d), closed
    allows: Tensor  # (k, d)
    turn: Tensor  # (k,)


def has_boxes(forest: Forest) -> bool:
    """Whether leaves are boxes between encoded rows too: no node looks at several columns at once."""
    return not len(forest.sets)


class LeafSearch:
    """Finds the nearest point of {margin >= 0} for a forest, or says that none is within a distance.

    Depth first: a cell is left when it is too far away, or when the best leaves that it meets within reach add up to a
    no; else it is cut into the leaves of the tree that matters most in it. What comes out is exact, however large the
    forest, unless a budget ends the search.

    Parameters
    ----------
    model : offers Trees.
    size : the norm of a move.
    whole : True: a level of a category changes as a whole (which moves two columns by 1) and a missing cell stays
        missing. False: every encoded column moves continuously, levels and indicators too; only where `has_boxes`.
    """

    def __init__(self, model: Model, size: Size, whole: bool = True):
        assert isinstance(model, Trees) and (whole or has_boxes(model.forest))
        self.model = model
        self.size = size
        forest, schema = model.forest, model.schema
        self.is_level, self.indicator, self._feature_of = (
            forest.is_level.cpu(),
            schema.missing_column,
            schema.feature_of,
        )
        if not whole:
            own = torch.arange(len(self.is_level))
            self.is_level, self.indicator = torch.zeros_like(self.is_level), torch.full_like(own, -1)
            forest = replace(forest, is_level=self.is_level, feature_of=own)
        leaves = forest.leaves
        value = leaves.value / forest.divisor
        if value.shape[1] > 1:  # the lead over each rival; the margin is the smallest
            rivals = [c for c in range(value.shape[1]) if c != forest.target]
            value = value[:, [forest.target]] - value[:, rivals]
            self.start = forest.bias[forest.target] - forest.bias[rivals]
        else:
            self.start = forest.bias
        order = torch.argsort(leaves.tree, stable=True)
        self.tree, self.value = leaves.tree[order], value[order]
        self.lower, self.upper, self.allows = leaves.lower[order], leaves.upper[order], leaves.allows[order]
        self.first = np.flatnonzero(np.diff(self.tree.numpy(), prepend=-1))  # the first leaf of each tree
        self.slack = forest.tolerance + SLACK * (1.0 + float(value.abs().max()) + float(self.start.abs().max()))

    @cached_property
    def _flags(self) -> Tensor:
        """The columns that say that a cell is missing."""
        return torch.unique(self.indicator[self.indicator >= 0])

    @cached_property
    def _groups(self) -> tuple[Tensor, ...]:
        """The columns of each category, without its missing indicator."""
        levels = self.is_level & ~torch.isin(torch.arange(len(self.is_level)), self._flags)
        features = self._feature_of[levels].unique()
        return tuple(torch.nonzero(levels & (self._feature_of == f)).squeeze(1) for f in features)

    @cached_property
    def _belongs(self) -> Tensor:
        """(d, groups) 1 where a column is a level of a category."""
        out = torch.zeros(len(self.is_level), len(self._groups), dtype=torch.float64)
        for g, columns in enumerate(self._groups):
            out[columns, g] = 1.0
        return out

    def find(
        self,
        x: Tensor,
        within: float,
        box: tuple[Tensor, Tensor] | None = None,
        each: int | None = None,
        total: int | None = None,
        stop_at_first: bool = False,
    ) -> LeafResult:
        """The nearest accepted point of each person x (n, d), within a distance.

        Parameters
        ----------
        box : lowest and highest values that each may reach, (n, d) each; by default all numbers.
        each, total : cells that may be looked at, for one person and for all of them; people whose search has not
            ended by then are unknown. With `each` alone, answers do not depend on the other rows.
        stop_at_first : whether some accepted point will do. Its distance need not be the least then.
        """
        accepted = self.model.margin(x) >= 0
        best = torch.where(accepted, 0.0, torch.full((len(x),), math.inf, dtype=torch.float64))
        point, unknown = x.clone(), torch.zeros(len(x), dtype=torch.bool)
        wide = torch.full_like(x, math.inf)
        low, high = (-wide, wide) if box is None else box
        low = torch.nextafter(low, -wide)  # an open end is the double before
        left = math.inf if total is None else total
        refused = torch.nonzero(~accepted).squeeze(1)
        for who in refused.split(max(1, NUMBERS // (WIDE * self.lower.numel()))):
            if left < 0:
                unknown[who] = True
                continue
            search = _Search(self, x[who], within, (low[who], high[who]), each, left, stop_at_first)
            search.run()
            best[who], point[who], unknown[who], left = search.best, search.point, search.unknown, search.left
        return LeafResult(best, point, unknown)

    def cut(self, cells: LeafBoxes) -> LeafBoxes:
        """Every cell with every leaf, (k * leaves)."""
        d = cells.lower.shape[1]
        return LeafBoxes(
            cells.person.repeat_interleave(len(self.tree)),
            torch.maximum(cells.lower.unsqueeze(1), self.lower).reshape(-1, d),
            torch.minimum(cells.upper.unsqueeze(1), self.upper).reshape(-1, d),
            (cells.allows.unsqueeze(1) & self.allows).reshape(-1, d),
            cells.turn.repeat_interleave(len(self.tree)),
        )

    def per_tree(self, how: np.ufunc, values: Tensor) -> Tensor:
        """(k, leaves) -> (k, trees), taken together over the leaves of each tree."""
        return torch.from_numpy(how.reduceat(values.numpy(), self.first, axis=1))

    def _missing(self, x: Tensor) -> Tensor:
        """(k, d) True in the columns of a missing cell."""
        return (x[:, self.indicator.clamp(min=0)] > 0.5) & (self.indicator >= 0)

    def away(self, x: Tensor, cells: LeafBoxes) -> Tensor:
        """(k,) distance from people to the landing points in their cells; inf to an empty one."""
        stuck = self._missing(x)
        gap = (_inside(x, cells) - x).abs()
        gap.masked_fill_(cells.lower >= cells.upper, math.inf).masked_fill_(stuck | self.is_level, 0.0)
        if self._groups:
            allowed = cells.allows.to(torch.float64)
            turn = torch.where(allowed @ self._belongs > 0, gap.new_ones(()), math.inf)
            stays = ((x * allowed) @ self._belongs > 0.5) | stuck[:, [int(columns[0]) for columns in self._groups]]
            turn.masked_fill_(stays, 0.0)
            gap = torch.cat([gap, turn, turn], dim=1)  # one level down, another up
        away = self.size(gap)
        barred = (x[:, self._flags] > 0.5) & ~cells.allows[:, self._flags]
        return away.masked_fill_(barred.any(1), math.inf)

    def landing(self, x: Tensor, cells: LeafBoxes) -> Tensor:
        """(k, d) the nearest point of each cell, just inside where its end is open."""
        stuck = self._missing(x)
        moved = torch.where(stuck | self.is_level, x, _inside(x, cells))
        for columns in self._groups:
            own = x[:, columns].argmax(1)
            allowed = cells.allows[:, columns]
            stay = allowed.gather(1, own.unsqueeze(1)).squeeze(1) | stuck[:, columns[0]]
            other = torch.nn.functional.one_hot(allowed.long().argmax(1), len(columns)).to(x.dtype)
            moved[:, columns] = torch.where(stay.unsqueeze(1), x[:, columns], other)
        return moved


def _inside(x: Tensor, cells: LeafBoxes) -> Tensor:
    """The nearest point to x between the ends of a cell, the double after an open one."""
    return torch.minimum(torch.maximum(x, torch.nextafter(cells.lower, cells.upper)), cells.upper)


def _places(person: Tensor, turn: Tensor) -> Tensor:
    """(k,) the place of each cell among those of its person, the highest turn first."""
    order = torch.argsort(turn, descending=True, stable=True)
    order = order[torch.argsort(person[order], stable=True)]
    out = torch.empty_like(order)
    out[order] = places(person[order])
    return out


class _Search:
    """One search for a few people, who are refused."""

    def __init__(
        self,
        leaves: LeafSearch,
        x: Tensor,
        within: float,
        box: tuple[Tensor, Tensor],
        each: int | None,
        left: float,
        stop_at_first: bool,
    ):
        self.leaves, self.x, self.within = leaves, x, within
        self.each, self.left, self.stop_at_first = each, left, stop_at_first
        person = torch.arange(len(x))
        self.cells = LeafBoxes(person, *box, torch.ones_like(x, dtype=torch.bool), torch.zeros_like(person))
        self.best, self.point = torch.full((len(x),), math.inf, dtype=torch.float64), x.clone()
        self.unknown, self.used = torch.zeros(len(x), dtype=torch.bool), torch.zeros(len(x), dtype=torch.long)

    def run(self) -> None:
        """Look at each person's latest cells until none are left."""
        turn = 0
        while len(self.cells.person):
            now = _places(self.cells.person, self.cells.turn) < WIDE
            cells, self.cells = self.cells.take(now), self.cells.take(~now)
            self._spend(cells.person)
            turn += len(self.leaves.tree)
            self.cells = LeafBoxes.join([self.cells, self._look(cells, turn)])
            self.cells = self.cells.take(self._is_open(self.cells.person))

    def _is_open(self, person: Tensor) -> Tensor:
        """(k,) whether people are still searched for."""
        open_ = ~self.unknown[person]
        return open_ & ~torch.isfinite(self.best[person]) if self.stop_at_first else open_

    def _spend(self, person: Tensor) -> None:
        """Count cells, and stop for people who have used up their budget."""
        self.used.index_add_(0, person, torch.ones_like(person))
        self.left -= len(person)
        if self.left < 0:
            self.unknown[person], self.unknown[self.cells.person] = True, True
        elif self.each is not None:
            self.unknown[person[self.used[person] > self.each]] = True

    def _look(self, cells: LeafBoxes, turn: int) -> LeafBoxes:
        """Settle cells in which one leaf of each tree is left, and cut the others that may hold a yes."""
        leaves = self.leaves
        parts = leaves.cut(cells)
        away = leaves.away(self.x[parts.person], parts)
        open_ = (away <= self.within) & (away < self.best[parts.person])
        open_, away = (part.reshape(len(cells.person), -1) for part in (open_, away))
        spread = torch.zeros(len(open_), len(leaves.first), dtype=torch.float64)
        live = self._is_open(cells.person)
        for c in range(leaves.value.shape[1]):
            top = leaves.per_tree(np.maximum, torch.where(open_, leaves.value[:, c], -math.inf))
            live &= leaves.start[c] + top.sum(1) >= -leaves.slack
            spread += top - leaves.per_tree(np.minimum, torch.where(open_, leaves.value[:, c], math.inf))
        count = leaves.per_tree(np.add, open_.long())
        whole = (count <= 1).all(1)
        self._settle(cells.take(live & whole))
        tree = torch.where(count > 1, spread, -math.inf).argmax(1)
        mine = open_ & (leaves.tree == tree.unsqueeze(1)) & (live & ~whole).unsqueeze(1)
        cell, leaf = torch.nonzero(mine, as_tuple=True)
        merit = leaves.value[leaf].sum(1) if self.stop_at_first else -away[cell, leaf]
        rank = torch.empty_like(leaf)
        rank[torch.argsort(merit, stable=True)] = torch.arange(len(leaf))
        new = parts.take(cell * len(leaves.tree) + leaf)
        rank = len(leaves.tree) - 1 - _places(cell, rank)  # the best is looked at next
        return LeafBoxes(new.person, new.lower, new.upper, new.allows, turn + rank)

    def _settle(self, cells: LeafBoxes) -> None:
        """Keep each person's nearest cell whose landing point the forest accepts."""
        own = self.x[cells.person]
        away, landing = self.leaves.away(own, cells), self.leaves.landing(own, cells)
        good = torch.nonzero((away < self.best[cells.person]) & (self.leaves.model.margin(landing) >= 0)).squeeze(1)
        rows = good[torch.argsort(away[good], stable=True)]
        person, first = np.unique(cells.person[rows].numpy(), return_index=True)  # the first is the nearest
        mine, rows = torch.from_numpy(person), rows[torch.from_numpy(first)]
        self.best[mine] = away[rows]
        self.point[mine] = landing[rows]
