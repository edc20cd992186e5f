"""Where the leaves of a forest lie in words of bits, and what rows are looked up by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from turnabout.typing import Tensor

if TYPE_CHECKING:
    from turnabout.models.forest import Forest

ONES = np.array([(1 << k) - 1 for k in range(65)], dtype=np.uint64)


@dataclass(frozen=True)
class Layout:
    """The leaves of all trees in order, in words of up to 64 leaves; a tree begins with a word of its own."""

    words: list[tuple[int, int, int]]  # tree, first and last leaf (exclusive)
    spans: list[tuple[int, int]]  # nodes of each tree
    leaves: NDArray[np.int64]  # node of each leaf
    before: NDArray[np.int64]  # (m + 1,) leaves before each node, in depth-first order
    end: NDArray[np.int64]  # (m,) the node after each subtree

    @classmethod
    def of(cls, forest: Forest) -> Layout:
        column, right, roots = forest.column.cpu().numpy(), forest.right.tolist(), forest.roots.tolist()
        spans = list(zip(roots, [*roots[1:], len(column)], strict=True))
        before = np.concatenate([[0], np.cumsum(column < 0)])
        end = list(range(1, len(column) + 1))
        for i in np.flatnonzero(column >= 0)[::-1].tolist():
            end[i] = end[right[i]]
        words = []
        for tree, (a, b) in enumerate(spans):
            first, last = int(before[a]), int(before[b])
            words += [(tree, leaf, min(leaf + 64, last)) for leaf in range(first, last, 64)]
        return cls(words, spans, np.flatnonzero(column < 0), before, np.array(end))


def splits(forest: Forest, layout: Layout, words: Sequence[tuple[int, int, int]]) -> tuple[NDArray[Any], ...]:
    """Column, cut, word, and the leaves of that word to the left and to the right, of every split that touches it."""
    column, cut, right = forest.column.cpu().numpy(), forest.cut.cpu().numpy(), forest.right.cpu().numpy()
    parts: list[tuple[NDArray[Any], ...]] = []
    for w, (tree, first, last) in enumerate(words):
        a, b = layout.spans[tree]
        nodes = np.flatnonzero(column[a:b] >= 0) + a
        edges = np.stack([layout.before[nodes], layout.before[right[nodes]], layout.before[layout.end[nodes]]])
        low, middle, high = np.clip(edges, first, last) - first
        touches = low < high
        to_left, to_right = ONES[middle] ^ ONES[low], ONES[high] ^ ONES[middle]
        part = column[nodes], cut[nodes], np.full(len(nodes), w), to_left, to_right
        parts.append(tuple(array[touches] for array in part))
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


@dataclass(frozen=True, eq=False)
class Columns:
    """The d + q columns of a forest, told apart: those of a category say no more than its level does.

    Only a category that is split by sets of its levels counts as one here: it may have more sets than levels. Others
    are looked up by their one-hot columns, like scalars.

    Attributes
    ----------
    category : (d + q,) the category each column belongs to; -1 for the rest, here scalars.
    place : (d + q,) row of each scalar column among the rows that `look` gives.
    made_of : (d + q, d).  levels : per category its one-hot columns, a missing indicator being one more level.
    shifts : (s, d) the virtual columns among the scalars.
    one_hot : (L,) one-hot columns of these categories.
    counts, numbers : (categories, L) 1, and the number of the level, where a column belongs to the category; else 0.
    """

    category: NDArray[np.int64]
    place: NDArray[np.int64]
    made_of: NDArray[np.float64]
    levels: tuple[NDArray[np.int64], ...]
    shifts: Tensor
    one_hot: Tensor
    counts: Tensor
    numbers: Tensor

    @classmethod
    def of(cls, forest: Forest) -> Columns:
        d, device = forest.sets.shape[1], forest.cut.device
        made_of = np.vstack([np.eye(d), forest.sets.cpu().numpy()])
        feature_of, is_level = forest.feature_of.cpu().numpy(), forest.is_level.cpu().numpy()
        owner = feature_of[np.abs(made_of).argmax(1)]  # every column, virtual or not, belongs to one feature
        features = [f for f in np.unique(owner[d:]) if is_level[feature_of == f].all()]
        levels = tuple(np.flatnonzero(feature_of == f) for f in features)
        category = np.full(len(owner), -1)
        for i, f in enumerate(features):
            category[owner == f] = i
        shifted = np.flatnonzero(category[d:] < 0)
        place = np.arange(len(owner))
        place[d + shifted] = d + np.arange(len(shifted))
        one_hot = np.concatenate([np.zeros(0, dtype=np.int64), *levels])
        counts = (category[one_hot] == np.arange(len(levels))[:, None]).astype(np.float64)
        numbers = counts * np.concatenate([np.zeros(0), *(np.arange(len(mine)) for mine in levels)])
        tensors = (made_of[d + shifted], one_hot, counts, numbers)
        return cls(category, place, made_of, levels, *(torch.from_numpy(array).to(device) for array in tensors))

    def at_levels(self, column: int) -> NDArray[np.float64]:
        """The value of a category's column at each of its levels."""
        return self.made_of[column, self.levels[self.category[column]]]

    def look(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(n, d) -> scalars (d + s, n), level numbers (categories, n), whether each category is at one level (n,)."""
        columns = x.t().contiguous()
        cells = columns[self.one_hot]
        chosen = (cells == 1).to(cells.dtype)
        settled = (cells == chosen).all(0) & (self.counts @ chosen == 1).all(0)  # each cell 0 or 1, one of them 1
        scalars = torch.cat([columns, self.shifts @ columns]) if len(self.shifts) else columns
        return scalars, self.numbers @ chosen, settled
