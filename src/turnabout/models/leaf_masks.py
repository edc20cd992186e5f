"""Leaf masks: the leaves that a row reaches, by table look-up (after QuickScorer, Lucchese et al., 2015).

Number the leaves of a tree from left to right, one bit each. A split rules out the leaves of the subtree it does not
enter; the one bit that no split rules out is the leaf reached. For one scalar column, the bits that survive depend only
on how many of its cuts lie below x; for a category, only on its level, however many sets of levels the splits ask for.
So there is one table per column or category, with one row per such count or level, for all trees.
"""

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

_BLOCK = 128  # words of leaf masks that are looked up together
_MASK_WORDS = 1024  # beyond, trees are walked: the tables would take some hundred megabytes
_GROUP = 64  # rows of a table that is shared by several switches and categories
_AT_ONCE = 1 << 17  # rows times words, or times columns, worked on at a time, to stay in cache
_WORDS = ((8, np.uint8, np.uint8), (16, np.uint16, np.int16), (32, np.uint32, np.int32), (64, np.uint64, np.int64))

ONES = np.array([(1 << k) - 1 for k in range(65)], dtype=np.uint64)

Masks = NDArray[Any]


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
        made_of, owner = forest.made_of
        feature_of, is_level = forest.feature_of.cpu().numpy(), forest.is_level.cpu().numpy()
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


@dataclass(frozen=True, eq=False)
class LeafMasks:
    """All trees of a forest in blocks of tables."""

    columns: Columns
    blocks: tuple[_Block, ...]

    @classmethod
    def of(cls, forest: Forest) -> LeafMasks | None:
        """The tables, or None where they would take more memory than they are worth."""
        layout = Layout.of(forest)
        if len(layout.words) > _MASK_WORDS:
            return None
        columns = Columns.of(forest)
        starts = range(0, len(layout.words), _BLOCK)
        return cls(columns, tuple(_Block.build(forest, layout, columns, i, i + _BLOCK) for i in starts))

    def sum(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(n, d) -> (n, C), (n,): the values of the leaves reached, summed over trees; whether the row has an answer.

        It has none where a category is not exactly at one of its levels.
        """
        n, d = x.shape
        out = x.new_empty(n, len(self.blocks[0].values))
        settled = torch.empty(n, dtype=torch.bool, device=x.device)
        rows = max(64, _AT_ONCE // max(d, len(self.blocks[0].offsets)))
        for start in range(0, n, rows):
            here = slice(start, start + rows)
            scalars, codes, settled[here] = self.columns.look(x[here])
            out[here] = torch.stack([block.sum(scalars, codes) for block in self.blocks]).sum(0)
        return out, settled


@dataclass(frozen=True, eq=False)
class _Block:
    """Some words of leaves.

    Trees with more leaves than a word has bits take several words, all but one of which end up empty and count as 0.
    Columns with many cuts have a table each. Those with a single cut, here switches, and categories are digits: a few
    of them share a table, whose row number they spell.
    """

    tables: tuple[Tensor, ...]  # (rows, words): of the searched columns, then of the groups of digits
    searched: tuple[tuple[int, Tensor], ...]  # scalar column and its sorted cuts
    switches: Tensor  # scalar columns
    switch_cuts: Tensor
    coded: Tensor  # categories
    places: Tensor  # (groups, switches + coded) place value of each digit in its table's row number
    offsets: Tensor  # (words,) start of each word's values
    values: Tensor  # (C, places)
    may_be_empty: bool

    @classmethod
    def build(cls, forest: Forest, layout: Layout, columns: Columns, start: int, stop: int) -> _Block:
        words = layout.words[start:stop]
        size = max(last - first for _, first, last in words)
        leaves_of = [int(layout.before[b] - layout.before[a]) for a, b in layout.spans]
        may_be_empty = any(last - first < leaves_of[tree] for tree, first, last in words)
        unsigned, signed = next(kinds for bits, *kinds in _WORDS if size <= bits)
        full = np.array([ONES[last - first] for _, first, last in words]).astype(unsigned)

        by_column = _tables(splits(forest, layout, words), full)
        scalar = {columns.place[c]: t for c, t in by_column.items() if columns.category[c] < 0}
        searched = {c: t for c, t in scalar.items() if len(t[0]) > 1}
        switches = {c: t for c, t in scalar.items() if len(t[0]) == 1}
        coded = _by_level(columns, by_column, full)
        places, joint = _join([table for _, table in switches.values()] + list(coded.values()), full)
        values = _values(forest.value.cpu().numpy(), layout, words, size, may_be_empty, unsigned is np.uint8)

        def put(array: NDArray[np.generic]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(forest.cut.device)

        stacked = [*(table for _, table in searched.values()), *joint]
        return cls(
            tables=tuple(put(np.ascontiguousarray(table).view(signed)) for table in stacked),
            searched=tuple((c, put(cuts)) for c, (cuts, _) in searched.items()),
            switches=put(np.array(list(switches), dtype=np.int64)),
            switch_cuts=put(np.array([cuts for cuts, _ in switches.values()], dtype=np.float64).reshape(-1, 1)),
            coded=put(np.array(list(coded), dtype=np.int64)),
            places=put(places),
            offsets=put(np.arange(len(words)) * values.shape[1]),
            values=put(values.reshape(-1, values.shape[2]).T),
            may_be_empty=may_be_empty,
        )

    def sum(self, scalars: Tensor, codes: Tensor) -> Tensor:
        """(scalars, n), (categories, n) -> (n, C): the values of the leaves reached, summed over words."""
        n = scalars.shape[1]
        if not self.tables:  # every tree is a single leaf, the first bit
            one = torch.ones(len(self.offsets), dtype=torch.uint8, device=self.offsets.device)
            return self.values[:, self._places(one) + self.offsets].sum(1).expand(n, -1)
        ranks = [torch.searchsorted(cuts, scalars[c], out_int32=True) for c, cuts in self.searched]
        if len(self.places):
            above = (scalars[self.switches] > self.switch_cuts).to(codes.dtype)
            ranks += (self.places @ torch.cat([above, codes[self.coded]])).to(torch.int32).unbind(0)
        alive = self.tables[0].index_select(0, ranks[0])
        spare = torch.empty_like(alive)
        for table, rank in zip(self.tables[1:], ranks[1:], strict=True):
            alive &= torch.index_select(table, 0, rank, out=spare)
        place = self._places(alive).add_(self.offsets)
        return torch.stack([values.take(place).sum(1) for values in self.values], 1)

    def _places(self, alive: Tensor) -> Tensor:
        """Places of the leaves reached: the one surviving bit, read from the exponent of the word as a float."""
        match alive.dtype:
            case torch.uint8:
                return alive.to(torch.int64)
            case torch.int64:
                place = ((alive.to(torch.float64).view(torch.int64) >> 52) & 2047).sub_(1023)
            case _:
                place = ((alive.to(torch.float32).view(torch.int32) >> 23) & 255).sub_(127).to(torch.int64)
        return place.clamp_(min=-1).add_(1) if self.may_be_empty else place


def _tables(found: tuple[NDArray[Any], ...], full: Masks) -> dict[int, tuple[NDArray[np.float64], Masks]]:
    """Per column of the forest: its sorted cuts, and the leaves that survive above each number of them."""
    column, cut, word, ruled_left, ruled_right = found
    tables = {}
    for c in np.unique(column).tolist():
        mine = column == c
        cuts, rank = np.unique(cut[mine], return_inverse=True)
        above, below = (np.tile(full, (len(cuts) + 1, 1)) for _ in range(2))
        np.bitwise_and.at(above, (rank + 1, word[mine]), ~ruled_left[mine].astype(full.dtype))
        np.bitwise_and.at(below, (rank, word[mine]), ~ruled_right[mine].astype(full.dtype))
        survive = np.bitwise_and.accumulate(above) & np.bitwise_and.accumulate(below[::-1])[::-1]
        tables[c] = (cuts, survive)
    return tables


def _by_level(
    columns: Columns, by_column: dict[int, tuple[NDArray[np.float64], Masks]], full: Masks
) -> dict[int, Masks]:
    """Per category that is split: the leaves that survive at each of its levels, by all its columns together."""
    tables: dict[int, Masks] = {}
    for c, (cuts, survive) in by_column.items():
        if (category := int(columns.category[c])) >= 0:
            at_levels = columns.at_levels(c)
            table = tables.setdefault(category, np.tile(full, (len(at_levels), 1)))
            table &= survive[np.searchsorted(cuts, at_levels)]
    return tables


def _join(digits: Sequence[Masks], full: Masks) -> tuple[NDArray[np.float64], list[Masks]]:
    """Tables of single digits -> place values (groups, digits), and one table per group of digits."""
    joint: list[Masks] = []
    spelled: list[tuple[int, int]] = []  # group and place value of each digit
    for table in digits:
        if not joint or len(joint[-1]) * len(table) > _GROUP:
            joint.append(full[None])
        spelled.append((len(joint) - 1, len(joint[-1])))
        joint[-1] = (table[:, None] & joint[-1]).reshape(-1, len(full))
    places = np.zeros((len(joint), len(digits)))
    for digit, (group, place) in enumerate(spelled):
        places[group, digit] = place
    return places, joint


def _values(
    value: NDArray[np.float64],
    layout: Layout,
    words: Sequence[tuple[int, int, int]],
    size: int,
    may_be_empty: bool,
    bytewise: bool,
) -> NDArray[np.float64]:
    """The value at each place of each word, (words, places, C)."""
    values = np.zeros((len(words), size + may_be_empty, value.shape[1]))
    for w, (_, first, last) in enumerate(words):
        values[w, may_be_empty : may_be_empty + last - first] = value[layout.leaves[first:last]]
    if bytewise:  # a byte of surviving leaves is itself the place of the value
        lowest = np.array([max((m & -m).bit_length() - 1, 0) for m in range(256)])
        values = values[:, np.minimum(lowest + may_be_empty, size + may_be_empty - 1)]
        values[:, 0] *= not may_be_empty
    return values
