"""A tree ensemble over the encoded columns: fast margins, and the leaves as boxes for exact search."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from turnabout.models.leaf_masks import LeafMasks
from turnabout.models.libraries.raw_forest import Link
from turnabout.typing import Tensor

Floats = NDArray[np.float64]

_AT_ONCE = 1 << 17  # rows times trees worked on at a time, to stay in cache
_NODES = 1 << 13  # nodes of trees that are walked together, likewise


@dataclass(frozen=True, eq=False)
class Forest:
    r"""A sum of trees over encoded columns, T trees with m nodes and C scores:

        score(x) = bias + (1 / divisor) * sum over trees of value[leaf(x)]                        (1)

    A node looks at one column of [x | x @ sets.T], (n, d + q), and goes left when it is <= cut. The q virtual columns
    say that a level lies in a set (more than .5), or hold a number with its missing cells sent beyond every cut on the
    side where the model sends them; so missing values need no rule of their own.

    Scores equal the library's up to ``tolerance``, the rounding of its sums. The side of a split is exact except for
    raw values within a few units in the last place above a cut, which `Schema.encode` maps onto the cut itself.

    Attributes
    ----------
    column, cut, left, right : (m,), trees in depth-first order; column -1 at a leaf.  roots : (T,).
    value : (m, C).  bias : (C,).  sets : (q, d).
    target : for C > 1, the score whose lead over the best other one is the margin.
    feature_of : (d,) feature of each encoded column.
    is_level : (d,) True for one-hot columns and missing indicators.
    """

    column: Tensor
    cut: Tensor
    left: Tensor
    right: Tensor
    value: Tensor
    roots: Tensor
    bias: Tensor
    sets: Tensor
    feature_of: Tensor
    is_level: Tensor
    divisor: float
    link: Link
    tolerance: float
    target: int = 0

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}  # leave the cached tables behind

    def scores(self, x: Tensor) -> Tensor:
        """(n, d) -> (n, C): formula (1)."""
        if not len(x):
            return x.new_zeros(0, len(self.bias))
        if self._masks is None:
            return self.bias + self._walk.sum(self.extend(x)) / self.divisor
        total, settled = self._masks.sum(x)
        if not settled.all():  # rows between the levels of a category
            total[~settled] = self._walk.sum(self.extend(x[~settled]))
        return self.bias + total / self.divisor

    def margin(self, x: Tensor) -> Tensor:
        """(n, d) -> (n,): the score, or the lead of the target's score over the best other one."""
        scores = self.scores(x)
        if scores.shape[1] == 1:
            return scores[:, 0]
        others = scores.clone()
        others[:, self.target] = -math.inf
        return scores[:, self.target] - others.amax(1)

    def scaled(self, factor: float = 1.0, shift: float = 0.0) -> Forest:
        """The forest with scores ``factor * score + shift``; shift = -cut-off makes the margin's sign the decision."""
        return replace(
            self, value=self.value * factor, bias=self.bias * factor + shift, tolerance=self.tolerance * abs(factor)
        )

    def aimed(self, target: int) -> Forest:
        """The forest whose margin is the lead of this score over the best other one."""
        return replace(self, target=target)

    def to(self, device: torch.device | str) -> Forest:
        """The same forest on another device."""
        moved = {k: v.to(device) for k, v in self.__getstate__().items() if isinstance(v, torch.Tensor)}
        return replace(self, **moved)  # type: ignore[arg-type]

    def extend(self, x: Tensor) -> Tensor:
        """(n, d) -> (n, d + q): the columns that nodes look at."""
        return torch.cat([x, x @ self.sets.t()], dim=1) if len(self.sets) else x

    @property
    def made_of(self) -> tuple[Floats, NDArray[np.int64]]:
        """(d + q, d) encoded columns in each column that nodes look at; the one feature that each belongs to."""
        made_of = np.vstack([np.eye(self.sets.shape[1]), self.sets.cpu().numpy()])
        return made_of, self.feature_of.cpu().numpy()[np.abs(made_of).argmax(1)]

    @cached_property
    def cuts(self) -> tuple[Tensor, ...]:
        """Per encoded column, the sorted cuts at which some tree changes its answer; each cut is still on the left."""
        d = self.sets.shape[1]
        found: list[set[float]] = [set() for _ in range(d)]
        members = [[j for j in np.flatnonzero(row).tolist() if abs(row[j]) == 1.0] for row in self.sets.cpu().numpy()]
        for column, cut in zip(self.column.tolist(), self.cut.tolist(), strict=True):
            for j in [] if column < 0 else [column] if column < d else members[column - d]:
                found[j].add(cut)
        return tuple(torch.tensor(sorted(cuts), dtype=torch.float64, device=self.cut.device) for cuts in found)

    @cached_property
    def leaves(self) -> Leaves:
        """Every leaf as a box; see `Leaves`."""
        return Leaves.of(self)

    @cached_property
    def _masks(self) -> LeafMasks | None:
        return LeafMasks.of(self)

    @cached_property
    def _walk(self) -> TreeWalk:
        return TreeWalk.of(self)


@dataclass(frozen=True, eq=False)
class Leaves:
    """The L leaves of a forest as boxes over the d encoded columns; the boxes of one tree do not overlap.

    A person is in leaf l when each of their scalar values lies in ``lower < x <= upper``, and each of their levels and
    missing cells is one that ``allows`` permits. Only the present cells are held to ``lower`` and ``upper``.

    Attributes
    ----------
    tree : (L,) the tree of each leaf.  value : (L, C), to be summed over trees and divided as in the forest.
    lower, upper : (L, d) open and closed end of each scalar column; infinite elsewhere.
    allows : (L, d) at a one-hot column, whether that level may be the one chosen; at a missing indicator, whether
        the cell may be missing; True at scalar columns.
    """

    tree: Tensor
    value: Tensor
    lower: Tensor
    upper: Tensor
    allows: Tensor

    @classmethod
    def of(cls, forest: Forest) -> Leaves:
        """Follow every path from a root, narrowing the box at each split."""
        width = sum(forest.sets.shape)
        column, cut = forest.column.tolist(), forest.cut.tolist()
        left, right = forest.left.tolist(), forest.right.tolist()
        nodes: list[int] = []
        trees: list[int] = []
        lowers: list[Floats] = []
        uppers: list[Floats] = []
        for tree, root in enumerate(forest.roots.tolist()):
            stack = [(root, np.full(width, -np.inf), np.full(width, np.inf))]
            while stack:
                node, lower, upper = stack.pop()
                if (c := column[node]) < 0:
                    nodes.append(node)
                    trees.append(tree)
                    lowers.append(lower)
                    uppers.append(upper)
                    continue
                below, above = upper.copy(), lower.copy()
                below[c], above[c] = min(upper[c], cut[node]), max(lower[c], cut[node])
                stack += [(right[node], above, upper), (left[node], lower, below)]
        low, high, allows = _boxes(forest, np.array(lowers), np.array(uppers))
        device = forest.cut.device
        return cls(
            tree=torch.tensor(trees, device=device),
            value=forest.value[torch.tensor(nodes, device=device)],
            lower=torch.from_numpy(low).to(device),
            upper=torch.from_numpy(high).to(device),
            allows=torch.from_numpy(allows).to(device),
        )


def _boxes(forest: Forest, lower: Floats, upper: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Fold bounds on virtual columns (L, d + q) into bounds and permitted levels of the encoded ones (L, d)."""
    count, d = len(lower), forest.sets.shape[1]
    made_of, owner = forest.made_of
    feature_of, is_level = forest.feature_of.cpu().numpy(), forest.is_level.cpu().numpy()
    low, high = np.full((count, d), -np.inf), np.full((count, d), np.inf)
    allows = np.ones((count, d), dtype=bool)
    for j in range(d):
        if is_level[j]:  # the values of the feature's columns when this level is the one chosen
            mine = np.flatnonzero(owner == feature_of[j])
            allows[:, j] = ((lower[:, mine] < made_of[mine, j]) & (made_of[mine, j] <= upper[:, mine])).all(1)
        else:
            mine = np.flatnonzero(made_of[:, j] == 1.0)
            low[:, j], high[:, j] = lower[:, mine].max(1), upper[:, mine].min(1)
            present = [i for i in np.flatnonzero(owner == feature_of[j]) if made_of[i, j] == 0]
            blocked = (lower[:, present] >= 0).any(1)  # this leaf is for missing cells only
            high[blocked, j] = -np.inf
    return low, high, allows


@dataclass(frozen=True, eq=False)
class TreeWalk:
    """The m nodes as tables in which a leaf is its own child; for trees with many leaves, and for rows of any kind.

    Attributes
    ----------
    column, cut : (m,).  child : (2 m,), right and left child of each node in turn.  is_leaf : (m,).
    value : (C, m).  batches : trees walked together, as their roots with an end, and their depth.
    """

    column: Tensor
    cut: Tensor
    child: Tensor
    is_leaf: Tensor
    value: Tensor
    batches: tuple[tuple[Tensor, int], ...]

    @classmethod
    def of(cls, forest: Forest) -> TreeWalk:
        is_leaf, roots = forest.column < 0, forest.roots
        own = torch.arange(len(is_leaf), device=is_leaf.device)
        child = torch.stack([torch.where(is_leaf, own, side) for side in (forest.right, forest.left)], 1).flatten()
        ends = torch.cat([roots, roots.new_tensor([len(own)])])
        batches, first = [], 0
        for tree in range(1, len(ends)):
            if tree == len(ends) - 1 or ends[tree + 1] - ends[first] > _NODES:
                level, depth = roots[first:tree], 0
                while len(level := level[~is_leaf[level]]):
                    level, depth = torch.cat([forest.left[level], forest.right[level]]), depth + 1
                batches.append((ends[first : tree + 1], depth))
                first = tree
        return cls(
            forest.column.clamp(min=0), forest.cut, child, is_leaf, forest.value.t().contiguous(), tuple(batches)
        )

    def sum(self, x: Tensor) -> Tensor:
        """(n, d + q) -> (n, C): the values of the leaves reached, summed over trees."""
        n, batches = len(x), self.batches
        if n * sum(len(roots) - 1 for roots, _ in batches) <= _AT_ONCE:  # fewer calls are worth more than the cache
            roots = torch.cat([*(roots[:-1] for roots, _ in batches), batches[-1][0][-1:]])
            batches = ((roots, max(depth for _, depth in batches)),)
        total = x.new_zeros(n, len(self.value))
        for roots, depth in batches:
            first, stop = int(roots[0]), int(roots[-1])
            rows = max(64, _AT_ONCE // (len(roots) - 1))
            for start in range(0, n, rows):
                block = x[start : start + rows]
                reached = self._descend(block, roots, depth)
                for k, value in enumerate(self.value[:, first:stop]):
                    total[start : start + rows, k] += value.take(reached).view(len(block), -1).sum(1)
        return total

    def _descend(self, x: Tensor, roots: Tensor, depth: int) -> Tensor:
        """The leaves reached in some trees, (n * trees,), counted from the first root."""
        first, stop, trees = int(roots[0]), int(roots[-1]), len(roots) - 1
        column, cut, done = self.column[first:stop], self.cut[first:stop], self.is_leaf[first:stop]
        child = self.child[2 * first : 2 * stop] - first
        at = torch.arange(0, x.numel(), x.shape[1], device=x.device).repeat_interleave(trees)
        node = (roots[:-1] - first).repeat(len(x))
        reached = node.clone()
        place = torch.arange(len(node), device=x.device)
        for level in range(depth):
            goes_left = x.take(column.take(node) + at) <= cut.take(node)
            node = child.take(2 * node + goes_left)
            if level % 4 == 3:  # go on with those who are still on their way
                reached[place] = node
                going = (~done.take(node)).nonzero()[:, 0]
                node, place, at = node[going], place[going], at[going]
        reached[place] = node
        return reached
