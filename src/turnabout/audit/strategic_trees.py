"""The nearest point that a forest accepts, within a distance: an exact search over the cells where its leaves meet."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from turnabout.errors import AuditError
from turnabout.models import Model, Trees
from turnabout.typing import Tensor

NUMBERS = 1 << 21  # numbers in one block of cells
MOST = 1_500_000  # pairs of a person and a partial cell that one search may look at
SLACK = 1e-9  # of the largest score: sums in another order may differ by less


@dataclass(frozen=True, eq=False)
class Block:
    """Partial cells, one person each: where the leaves of the first `tree` trees meet."""

    tree: int
    person: Tensor  # (k,)
    lower: Tensor  # (k, d), open
    upper: Tensor  # (k, d), closed
    allows: Tensor  # (k, d)
    score: Tensor  # (k, c)

    def __getitem__(self, rows: Tensor | slice) -> Block:
        parts = (self.person, self.lower, self.upper, self.allows, self.score)
        return Block(self.tree, *(part[rows] for part in parts))


class NearestCell:
    """Finds the nearest point of {margin >= 0} for a forest, or says that none is within a distance.

    Numbers, ordinals and binaries move continuously in the encoded space, a level of a category changes as a whole
    (which moves two columns by 1), a missing cell stays missing. Cells are met tree by tree, and left as soon as they
    are farther away than the best point so far, or cannot be accepted whatever other leaves within reach say. What
    comes out is exact, however large the forest; a search that would not end in reasonable time is refused.

    Parameters
    ----------
    model : offers Trees.
    norm : 1, 2 or infinity.
    """

    def __init__(self, model: Model, norm: float):
        assert isinstance(model, Trees)
        self.model = model
        self.norm = norm
        forest, schema = model.forest, model.schema
        self.is_level = forest.is_level.cpu()
        self.indicator = schema.missing_column
        leaves = forest.leaves
        value = leaves.value / forest.divisor
        if value.shape[1] > 1:  # the lead over each rival; the margin is the smallest
            rivals = [c for c in range(value.shape[1]) if c != forest.target]
            value = value[:, [forest.target]] - value[:, rivals]
            self.start = forest.bias[forest.target] - forest.bias[rivals]
        else:
            self.start = forest.bias
        spread = [
            float(value[leaves.tree == t].max() - value[leaves.tree == t].min()) for t in range(len(forest.roots))
        ]
        order = sorted(range(len(spread)), key=lambda t: -spread[t])
        self.trees = [
            (leaves.lower[own], leaves.upper[own], leaves.allows[own], value[own])
            for own in (leaves.tree == t for t in order)
        ]
        self.slack = SLACK * (1.0 + float(value.abs().max()) + float(self.start.abs().max()))

    @cached_property
    def _flags(self) -> Tensor:
        """The columns that say that a cell is missing."""
        return torch.unique(self.indicator[self.indicator >= 0])

    @cached_property
    def _groups(self) -> tuple[Tensor, ...]:
        """The columns of each category, without its missing indicator."""
        feature_of = self.model.schema.feature_of
        levels = self.is_level & ~torch.isin(torch.arange(len(self.is_level)), self._flags)
        return tuple(torch.nonzero(levels & (feature_of == f)).squeeze(1) for f in feature_of[levels].unique())

    @cached_property
    def _belongs(self) -> Tensor:
        """(d, groups) 1 where a column is a level of a category."""
        out = torch.zeros(len(self.is_level), len(self._groups), dtype=torch.float64)
        for g, columns in enumerate(self._groups):
            out[columns, g] = 1.0
        return out

    def find(self, x: Tensor, within: float) -> tuple[Tensor, Tensor]:
        """x (n, d) -> distance (n,), inf where nothing accepted is within reach, and the point (n, d), or x itself."""
        accepted = self.model.margin(x) >= 0
        best = torch.where(accepted, 0.0, torch.full((len(x),), math.inf, dtype=torch.float64))
        point, budget = x.clone(), MOST
        refused = torch.nonzero(~accepted).squeeze(1)
        widest = max(len(tree[0]) for tree in self.trees)
        for who in refused.split(max(1, NUMBERS // (widest * x.shape[1]))):
            best[who], point[who], budget = self._find(x[who], within, budget)
        return best, point

    def _find(self, x: Tensor, within: float, budget: int) -> tuple[Tensor, Tensor, int]:
        """For a few people, who are refused; with the number of pairs that others may still look at."""
        n, d = x.shape
        best, point = torch.full((n,), math.inf, dtype=torch.float64), x.clone()
        near = [self._near(x, tree, within) for tree in self.trees]
        most = [
            torch.where(ok.unsqueeze(2), tree[3], -math.inf).amax(1) for ok, tree in zip(near, self.trees, strict=True)
        ]
        rest = torch.stack([*most, torch.zeros_like(most[0])]).flip(0).cumsum(0).flip(0)  # (T + 1, n, c) still to come
        stack = [self._anywhere(torch.arange(n), d)]
        while stack:
            block = stack.pop()
            away = self._away(x[block.person], block)
            keep = (away <= within) & (away < best[block.person])
            keep &= (block.score + rest[block.tree][block.person] >= -self.slack).all(1)
            block, away = block[keep], away[keep]
            if not len(away):
                continue
            if block.tree == len(self.trees):
                self._settle(x, block, away, best, point)
                continue
            block = block[torch.argsort(away, stable=True)]
            ahead = near[block.tree][block.person].sum(1).cumsum(0)  # pairs up to each cell
            fit = max(1, int(torch.searchsorted(ahead, NUMBERS // d)))
            if len(away) > fit:  # the nearer cells first: they make others needless
                stack.append(block[slice(fit, None)])
                block = block[slice(fit)]
            budget -= int(ahead[min(fit, len(away)) - 1])
            if budget < 0:
                raise AuditError(
                    "the forest has too many cells within reach of these people for an exact answer.",
                    hint="ask about fewer people or a smaller distance, or use a forest of fewer or smaller trees.",
                )
            stack.append(self._meet(block, near[block.tree]))
        return best, point, budget

    def _anywhere(self, person: Tensor, d: int) -> Block:
        """Cells before the first tree: all of space."""
        wide = torch.full((len(person), d), math.inf, dtype=torch.float64)
        allows = torch.ones(len(person), d, dtype=torch.bool)
        return Block(0, person, -wide, wide, allows, self.start.expand(len(person), -1))

    def _near(self, x: Tensor, tree: tuple[Tensor, Tensor, Tensor, Tensor], within: float) -> Tensor:
        """(n, leaves) which leaves of one tree are within reach of whom."""
        n, leaves = len(x), len(tree[0])
        person = torch.arange(n).repeat_interleave(leaves)
        lower, upper, allows, score = (part.repeat(n, 1) for part in tree)
        return (self._away(x[person], Block(0, person, lower, upper, allows, score)) <= within).reshape(n, leaves)

    def _meet(self, block: Block, near: Tensor) -> Block:
        """Every cell with every leaf of the next tree that is within reach."""
        lower, upper, allows, value = self.trees[block.tree]
        cell, leaf = torch.nonzero(near[block.person], as_tuple=True)
        return Block(
            block.tree + 1,
            block.person[cell],
            torch.maximum(block.lower[cell], lower[leaf]),
            torch.minimum(block.upper[cell], upper[leaf]),
            block.allows[cell] & allows[leaf],
            block.score[cell] + value[leaf],
        )

    def _missing(self, x: Tensor) -> Tensor:
        """(k, d) True in the columns of a missing cell."""
        return (x[:, self.indicator.clamp(min=0)] > 0.5) & (self.indicator >= 0)

    def _away(self, x: Tensor, block: Block) -> Tensor:
        """(k,) distance from people to their cells; inf to an empty one."""
        stuck = self._missing(x)
        gap = torch.maximum(block.lower - x, x - block.upper).clamp(min=0.0)
        gap.masked_fill_(block.lower >= block.upper, math.inf).masked_fill_(stuck | self.is_level, 0.0)
        if self._groups:
            allowed = block.allows.to(torch.float64)
            turn = torch.where(allowed @ self._belongs > 0, gap.new_ones(()), math.inf)
            stays = ((x * allowed) @ self._belongs > 0.5) | stuck[:, [int(columns[0]) for columns in self._groups]]
            turn.masked_fill_(stays, 0.0)
            gap = torch.cat([gap, turn, turn], dim=1)  # one level down, another up
        away = torch.linalg.vector_norm(gap, ord=self.norm, dim=1)
        barred = (x[:, self._flags] > 0.5) & ~block.allows[:, self._flags]
        return away.masked_fill_(barred.any(1), math.inf)

    def _settle(self, x: Tensor, block: Block, away: Tensor, best: Tensor, point: Tensor) -> None:
        """Whole cells: keep each person's nearest one whose landing point the forest accepts."""
        landing = self._landing(x[block.person], block)
        good = torch.nonzero(self.model.margin(landing) >= 0).squeeze(1)
        rows = good[torch.argsort(away[good], stable=True)]
        person, first = np.unique(block.person[rows].numpy(), return_index=True)  # the first is the nearest
        mine, rows = torch.from_numpy(person), rows[torch.from_numpy(first)]
        best[mine] = away[rows]
        point[mine] = landing[rows]

    def _landing(self, x: Tensor, block: Block) -> Tensor:
        """(k, d) the nearest point of each cell, just inside where its end is open."""
        inside = torch.nextafter(block.lower, torch.tensor(math.inf, dtype=torch.float64))
        moved = torch.minimum(torch.maximum(x, inside), block.upper)
        stuck = self._missing(x)
        moved = torch.where(stuck | self.is_level, x, moved)
        for columns in self._groups:
            own = x[:, columns].argmax(1)
            allowed = block.allows[:, columns]
            stay = allowed.gather(1, own.unsqueeze(1)).squeeze(1) | stuck[:, columns[0]]
            other = torch.nn.functional.one_hot(allowed.long().argmax(1), len(columns)).to(x.dtype)
            moved[:, columns] = torch.where(stay.unsqueeze(1), x[:, columns], other)
        return moved
