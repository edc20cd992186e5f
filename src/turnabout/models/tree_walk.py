"""Walk down the trees of a forest, a few trees and one level at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from turnabout.typing import Tensor

if TYPE_CHECKING:
    from turnabout.models.forest import Forest

_AT_ONCE = 1 << 17  # rows times trees worked on at a time, to stay in cache
_NODES = 1 << 13  # nodes of trees that are walked together, likewise


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
