"""A tree ensemble over the encoded columns: fast margins, and the leaves as boxes for exact search.

`compile_forest` carries the splits of a `RawForest`, which speak of the estimator's own inputs, back through the
preprocessing to the schema's columns. Nothing is approximated: a cut on a scaled input becomes the last double on
its left side in the person's units, a split on one-hot or ordinal codes becomes a set of levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from turnabout.models.tree_parsers import Link, NotCompilable, RawForest
from turnabout.schema import Category, Feature, Number, Schema
from turnabout.typing import Tensor

Floats = NDArray[np.float64]

_FAR = 1e300  # stands for "beyond every cut" in a virtual column
_BLOCK = 128  # words of leaf masks that are looked up together
_MASK_WORDS = 1024  # beyond, trees are walked: the tables would take some hundred megabytes
_GROUP = 6  # columns with one cut that share a table, of 2**6 rows
_AT_ONCE = 1 << 17  # rows times trees worked on at a time, to stay in cache
_WALK_NODES = 1 << 13  # nodes of trees that are walked together, likewise
_WORDS = ((8, np.uint8, np.uint8), (16, np.uint16, np.int16), (32, np.uint32, np.int32), (64, np.uint64, np.int64))


_ONES = np.array([(1 << k) - 1 for k in range(65)], dtype=np.uint64)


@dataclass(frozen=True)
class Input:
    """How one input of the final estimator follows from one feature of the schema.

    Parameters
    ----------
    feature : index into ``schema.features``; -1 for an input that is the constant ``at_missing``.
    levels : for Binary, Ordinal and Category: the input's value at each level, in the order of the levels.
    to_input : for Number: raw values -> the input's values, vectorised, rising or falling; None for the value itself.
    at_missing : the input's value where the feature is missing; NaN if it stays missing.
    """

    feature: int
    levels: NDArray[np.generic] | None = None
    to_input: Callable[[Floats], Floats] | None = None
    at_missing: float = math.nan


@dataclass(frozen=True, eq=False)
class Leaves:
    """The L leaves of a forest as boxes over the d encoded columns; the boxes of one tree do not overlap.

    A person is in leaf l when each of her scalar values lies in ``lower < x <= upper``, and each of her levels and
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
        columns = self.extend(x).t().contiguous()  # (d + q, n)
        blocks = self._blocks
        if blocks is None:
            return self.bias + self._descend(columns) / self.divisor
        return self.bias + torch.stack([block.sum(columns) for block in blocks]).sum(0) / self.divisor

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
        width = sum(self.sets.shape)
        column, cut = self.column.tolist(), self.cut.tolist()
        left, right = self.left.tolist(), self.right.tolist()
        nodes: list[int] = []
        trees: list[int] = []
        lowers: list[Floats] = []
        uppers: list[Floats] = []
        for tree, root in enumerate(self.roots.tolist()):
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
        return self._boxes(np.array(nodes), np.array(trees), np.array(lowers), np.array(uppers))

    def _boxes(self, nodes: NDArray[np.int64], trees: NDArray[np.int64], lower: Floats, upper: Floats) -> Leaves:
        """Fold bounds on virtual columns (L, d + q) into bounds and permitted levels of the encoded ones (L, d)."""
        d = self.sets.shape[1]
        made_of = np.vstack([np.eye(d), self.sets.cpu().numpy()])  # (d + q, d)
        feature_of, is_level = self.feature_of.cpu().numpy(), self.is_level.cpu().numpy()
        owner = feature_of[np.abs(made_of).argmax(1)]  # every column, virtual or not, belongs to one feature
        low, high = np.full((len(nodes), d), -np.inf), np.full((len(nodes), d), np.inf)
        allows = np.ones((len(nodes), d), dtype=bool)
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
        device = self.cut.device
        return Leaves(
            tree=torch.from_numpy(trees).to(device),
            value=self.value[torch.from_numpy(nodes).to(device)],
            lower=torch.from_numpy(low).to(device),
            upper=torch.from_numpy(high).to(device),
            allows=torch.from_numpy(allows).to(device),
        )

    @cached_property
    def _blocks(self) -> list[_MaskBlock] | None:
        """Leaf-mask tables, or None where they would take more memory than they are worth."""
        layout = _Layout.of(self)
        if len(layout.words) > _MASK_WORDS:
            return None
        return [_MaskBlock.build(self, layout, i, i + _BLOCK) for i in range(0, len(layout.words), _BLOCK)]

    def _descend(self, columns: Tensor) -> Tensor:
        """Walk down a few trees at once, one level at a time: for trees with many leaves. (d + q, n) -> (n, C)."""
        n, (column, cut, child, batches) = columns.shape[1], self._walk
        if n * len(self.roots) <= _AT_ONCE:  # few rows: fewer calls are worth more than the cache
            ends = torch.cat([self.roots, self.roots.new_tensor([len(column)])])
            batches = [(ends, max(depth for _, depth in batches))]
        x, values = columns.t().contiguous(), self.value.t().contiguous()
        width = x.shape[1]
        total = x.new_zeros(n, len(values))
        for roots, depth in batches:
            first, stop = int(roots[0]), int(roots[-1])
            rows = max(64, _AT_ONCE // (len(roots) - 1))
            c, t, down = column[first:stop], cut[first:stop], child[2 * first : 2 * stop] - first
            done = self.column[first:stop] < 0
            for start in range(0, n, rows):
                block = x[start : start + rows]
                at = torch.arange(0, block.numel(), width, device=x.device).repeat_interleave(len(roots) - 1)
                node = (roots[:-1] - first).repeat(len(block))
                reached = node.clone()
                place = torch.arange(len(node), device=x.device)
                for level in range(depth):
                    goes_left = block.take(c.take(node) + at) <= t.take(node)
                    node = down.take(2 * node + goes_left)
                    if level % 4 == 3:  # go on with those who are still on their way
                        reached[place] = node
                        going = (~done.take(node)).nonzero()[:, 0]
                        node, place, at = node[going], place[going], at[going]
                reached[place] = node
                for k, value in enumerate(values[:, first:stop]):
                    total[start : start + rows, k] += value.take(reached).view(len(block), -1).sum(1)
        return total

    @cached_property
    def _walk(self) -> tuple[Tensor, Tensor, Tensor, list[tuple[Tensor, int]]]:
        """Tables for `_descend`, leaves being their own children; and batches of trees: roots with an end, depth."""
        is_leaf = self.column < 0
        own = torch.arange(len(is_leaf), device=is_leaf.device)
        child = torch.stack([torch.where(is_leaf, own, self.right), torch.where(is_leaf, own, self.left)], 1).flatten()
        ends = torch.cat([self.roots, self.roots.new_tensor([len(own)])])
        batches, first = [], 0
        for tree in range(1, len(ends)):
            if tree == len(ends) - 1 or ends[tree + 1] - ends[first] > _WALK_NODES:
                level, depth = self.roots[first:tree], 0
                while len(level := level[~is_leaf[level]]):
                    level, depth = torch.cat([self.left[level], self.right[level]]), depth + 1
                batches.append((ends[first : tree + 1], depth))
                first = tree
        return self.column.clamp(min=0), self.cut, child, batches


@dataclass(frozen=True)
class _Layout:
    """The leaves of all trees in order, in words of up to 64 leaves; a tree begins with a word of its own."""

    words: list[tuple[int, int, int]]  # tree, first and last leaf (exclusive)
    spans: list[tuple[int, int]]  # nodes of each tree
    leaves: NDArray[np.int64]  # node of each leaf
    before: NDArray[np.int64]  # (m + 1,) leaves before each node, in depth-first order
    end: NDArray[np.int64]  # (m,) the node after each subtree

    @classmethod
    def of(cls, forest: Forest) -> _Layout:
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


@dataclass(frozen=True, eq=False)
class _MaskBlock:
    """Some trees, answered by table look-up instead of by walking (after QuickScorer, Lucchese et al., 2015).

    Number the leaves of a tree from left to right, one bit each. A split rules out the leaves of the subtree it does
    not enter; the one bit that no split rules out is the leaf reached. For one column, the bits that survive depend
    only on how many of its cuts lie below x: one table row for all trees per such count. Trees with more leaves than
    a word has bits take several words, all but one of which end up empty and count as 0.
    """

    tables: tuple[Tensor, ...]  # (cuts + 1, words), per column or group of columns
    searched: tuple[tuple[int, Tensor], ...]  # column and its sorted cuts, for the first tables
    switches: Tensor  # columns with a single cut, which share the other tables
    switch_cuts: Tensor
    switch_places: Tensor  # (switches, groups) place value of each in its table's row number
    offsets: Tensor  # (words,) start of each word's values
    values: Tensor  # (C, places)
    may_be_empty: bool

    @classmethod
    def build(cls, forest: Forest, layout: _Layout, start: int, stop: int) -> _MaskBlock:
        device, value = forest.cut.device, forest.value.cpu().numpy()
        words = layout.words[start:stop]
        size = max(last - first for _, first, last in words)
        leaves_of = [int(layout.before[b] - layout.before[a]) for a, b in layout.spans]
        may_be_empty = any(last - first < leaves_of[tree] for tree, first, last in words)
        unsigned, signed = next(kinds for bits, *kinds in _WORDS if size <= bits)
        full = np.array([_ONES[last - first] for _, first, last in words]).astype(unsigned)

        tables: dict[int, tuple[Floats, NDArray[Any]]] = {}
        column, cut, word, ruled_left, ruled_right = _splits(forest, layout, words)
        for c in np.unique(column).tolist():
            mine = column == c
            cuts, rank = np.unique(cut[mine], return_inverse=True)
            above, below = (np.tile(full, (len(cuts) + 1, 1)) for _ in range(2))
            np.bitwise_and.at(above, (rank + 1, word[mine]), ~ruled_left[mine].astype(unsigned))
            np.bitwise_and.at(below, (rank, word[mine]), ~ruled_right[mine].astype(unsigned))
            survive = np.bitwise_and.accumulate(above) & np.bitwise_and.accumulate(below[::-1])[::-1]
            tables[c] = (cuts, survive)

        single = [c for c, (cuts, _) in tables.items() if len(cuts) == 1]
        searched = [c for c, (cuts, _) in tables.items() if len(cuts) > 1]
        groups = [single[i : i + _GROUP] for i in range(0, len(single), _GROUP)]
        places = np.zeros((len(single), len(groups)))
        joint = []
        for g, members in enumerate(groups):
            table = full[None]
            for k, c in enumerate(members):
                table = np.concatenate([table & tables[c][1][0], table & tables[c][1][1]])
                places[g * _GROUP + k, g] = 2**k
            joint.append(table)

        values = np.zeros((len(words), size + may_be_empty, value.shape[1]))
        for w, (_, first, last) in enumerate(words):
            values[w, may_be_empty : may_be_empty + last - first] = value[layout.leaves[first:last]]
        if unsigned is np.uint8:  # a byte of surviving leaves is itself the place of the value
            lowest = np.array([max((m & -m).bit_length() - 1, 0) for m in range(256)])
            values = values[:, np.minimum(lowest + may_be_empty, size + may_be_empty - 1)]
            values[:, 0] *= not may_be_empty

        def put(array: NDArray[np.generic]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        stacked = [*(tables[c][1] for c in searched), *joint]
        return cls(
            tables=tuple(put(np.ascontiguousarray(table).view(signed)) for table in stacked),
            searched=tuple((c, put(tables[c][0])) for c in searched),
            switches=put(np.array(single, dtype=np.int64)),
            switch_cuts=put(np.array([tables[c][0][0] for c in single], dtype=np.float64)),
            switch_places=put(places),
            offsets=put(np.arange(len(words)) * values.shape[1]),
            values=put(values.reshape(-1, value.shape[1]).T),
            may_be_empty=may_be_empty,
        )

    def sum(self, columns: Tensor) -> Tensor:
        """(d + q, n) -> (n, C): the values of the leaves reached, summed over trees."""
        n = columns.shape[1]
        if not self.tables:  # every tree is a single leaf, the first bit
            one = torch.ones(len(self.offsets), dtype=torch.uint8, device=self.offsets.device)
            return self.values[:, self._places(one) + self.offsets].sum(1).expand(n, -1)
        ranks = [torch.searchsorted(cuts, columns[c], out_int32=True) for c, cuts in self.searched]
        if len(self.switches):
            above = (columns[self.switches] > self.switch_cuts[:, None]).to(self.switch_places.dtype)
            ranks += (self.switch_places.t() @ above).to(torch.int32).unbind(0)
        trees, first = len(self.offsets), self.tables[0]
        rows = max(64, _AT_ONCE // trees)
        out = columns.new_empty(n, len(self.values))
        alive, spare = first.new_empty(min(rows, n), trees), first.new_empty(min(rows, n), trees)
        for start in range(0, n, rows):
            stop = min(start + rows, n)
            alive, spare = alive[: stop - start], spare[: stop - start]
            torch.index_select(first, 0, ranks[0][start:stop], out=alive)
            for table, rank in zip(self.tables[1:], ranks[1:], strict=True):
                alive &= torch.index_select(table, 0, rank[start:stop], out=spare)
            place = self._places(alive).add_(self.offsets)
            for c, values in enumerate(self.values):
                out[start:stop, c] = values.take(place).sum(1)
        return out

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


def _splits(forest: Forest, layout: _Layout, words: Sequence[tuple[int, int, int]]) -> tuple[NDArray[Any], ...]:
    """Column, cut, word, and the leaves of that word to the left and to the right, of every split that touches it."""
    column, cut, right = forest.column.cpu().numpy(), forest.cut.cpu().numpy(), forest.right.cpu().numpy()
    parts: list[tuple[NDArray[Any], ...]] = []
    for w, (tree, first, last) in enumerate(words):
        a, b = layout.spans[tree]
        nodes = np.flatnonzero(column[a:b] >= 0) + a
        edges = np.stack([layout.before[nodes], layout.before[right[nodes]], layout.before[layout.end[nodes]]])
        low, middle, high = np.clip(edges, first, last) - first
        touches = low < high
        to_left, to_right = _ONES[middle] ^ _ONES[low], _ONES[high] ^ _ONES[middle]
        part = column[nodes], cut[nodes], np.full(len(nodes), w), to_left, to_right
        parts.append(tuple(array[touches] for array in part))
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


# from the estimator's inputs to the schema's columns ----------------------------------------------------------------


def compile_forest(raw: RawForest, inputs: Sequence[Input], schema: Schema) -> Forest:
    """The forest over encoded columns, given how each input of the estimator follows from a feature.

    Raises NotCompilable where an input neither rises nor falls with its number, or where a number is split as if it
    were a category.
    """
    if len(inputs) != raw.n_inputs:
        raise NotCompilable(f"{raw.source} has {raw.n_inputs} inputs, but {len(inputs)} were described.")
    compiler = _Compiler(raw, inputs, schema)
    grown = compiler.run()
    d = schema.d
    is_level = torch.zeros(d, dtype=torch.bool)
    for feature, s in zip(schema.features, schema.slices, strict=True):
        is_level[s] = isinstance(feature, Category)
        if feature.missing:
            is_level[s.stop - 1] = True
    return Forest(
        column=torch.tensor(grown.column, dtype=torch.int64),
        cut=torch.tensor(grown.cut, dtype=torch.float64),
        left=torch.tensor(grown.left, dtype=torch.int64),
        right=torch.tensor(grown.right, dtype=torch.int64),
        value=torch.from_numpy(np.where(np.array(grown.leaf)[:, None] >= 0, raw.value[grown.leaf], 0.0)),
        roots=torch.tensor(grown.roots, dtype=torch.int64),
        bias=torch.from_numpy(raw.bias.copy()),
        sets=torch.from_numpy(np.array(compiler.virtual).reshape(-1, d)),
        feature_of=schema.feature_of.clone(),
        is_level=is_level,
        divisor=raw.divisor,
        link=raw.link,
        tolerance=raw.tolerance,
    )


@dataclass
class _Grown:
    """Trees in depth-first order."""

    column: list[int]
    cut: list[float]
    left: list[int]
    right: list[int]
    leaf: list[int]  # node of the raw forest, or -1
    roots: list[int]


class _Compiler:
    """Rewrites raw nodes, children first, into nodes over encoded columns; then unfolds them into trees."""

    def __init__(self, raw: RawForest, inputs: Sequence[Input], schema: Schema) -> None:
        self.raw, self.inputs, self.schema = raw, inputs, schema
        self.nodes: list[tuple[int, float, int, int]] = []  # column, cut, left, right; a leaf: -1, 0, raw node, -1
        self.virtual: list[Floats] = []
        self._known: dict[bytes, int] = {}
        self._number_cuts = self._carry_cuts()
        self._places = list(zip(schema.features, schema.slices, strict=True))

    def run(self) -> _Grown:
        made: dict[int, int] = {}
        inputs, lefts, rights = self.raw.input.tolist(), self.raw.left.tolist(), self.raw.right.tolist()
        for root in self.raw.roots.tolist():
            stack = [root]
            while stack:
                node = stack[-1]
                if node in made:
                    stack.pop()
                elif inputs[node] < 0:
                    made[node] = self._add(-1, 0.0, node, -1)
                else:
                    left, right = made.get(lefts[node], -1), made.get(rights[node], -1)
                    if left < 0:
                        stack.append(lefts[node])
                    if right < 0:
                        stack.append(rights[node])
                    if left >= 0 and right >= 0:
                        made[node] = self._rewrite(node, self.inputs[inputs[node]], left, right)
        grown = _Grown([], [], [], [], [], [])
        for root in self.raw.roots.tolist():
            grown.roots.append(self._unfold(made[root], grown))
        return grown

    def _add(self, column: int, cut: float, left: int, right: int) -> int:
        if column >= 0 and left == right:
            return left
        self.nodes.append((column, cut, left, right))
        return len(self.nodes) - 1

    def _rewrite(self, node: int, source: Input, left: int, right: int) -> int:
        if source.feature < 0:
            return left if self._goes_left(node, source.at_missing) else right
        feature, s = self._places[source.feature]
        indicator, missing = -1, -1
        if feature.missing:
            indicator, missing = s.stop - 1, left if self._goes_left(node, source.at_missing) else right
        if isinstance(feature, Number):
            return self._rewrite_number(node, feature, s.start, indicator, left, right, missing)
        if source.levels is None:
            raise NotCompilable(f"the input made from {feature.name!r} was described without its levels.")
        sides = [left if self._goes_left(node, level) else right for level in source.levels.tolist()]
        if isinstance(feature, Category):
            return self._rewrite_category(s, sides + ([missing] if feature.missing else []), left, right)
        return self._rewrite_scale(s.start, indicator, sides, missing)

    def _goes_left(self, node: int, value: object) -> bool:
        if value is None or value != value:
            return bool(self.raw.missing_left[node])
        if (s := self.raw.set_index[node]) >= 0:
            return self.raw.sets[s].goes_left(value)
        return bool(value <= self.raw.cut[node])

    def _rewrite_number(
        self, node: int, feature: Feature, column: int, indicator: int, left: int, right: int, missing: int
    ) -> int:
        if self.raw.set_index[node] >= 0:
            raise NotCompilable(
                f"{self.raw.source} splits {feature.name!r} as a category; in the schema it is a Number."
            )
        cut, falling = self._number_cuts[node]
        below, above = (right, left) if falling else (left, right)
        if math.isinf(cut):
            present = below if cut > 0 else above
            return self._add(indicator, 0.5, present, missing) if indicator >= 0 else present
        if indicator < 0 or missing == (below if cut >= 0 else above):  # a missing cell is encoded as 0
            return self._add(column, cut, below, above)
        return self._add(self._shifted(column, indicator, -_FAR if missing == below else _FAR), cut, below, above)

    def _rewrite_scale(self, column: int, indicator: int, sides: list[int], missing: int) -> int:
        """Levels in one column, k / (K - 1): one cut wherever neighbouring levels go different ways."""
        top = max(len(sides) - 1, 1)
        turns = [k for k in range(len(sides) - 1) if sides[k] != sides[k + 1]]
        guard = indicator >= 0 and missing != sides[0]
        if guard and turns and missing == sides[-1]:
            column, guard = self._shifted(column, indicator, _FAR), False
        node = sides[-1]
        for k in reversed(turns):
            node = self._add(column, (k + 0.5) / top, sides[k], node)
        return self._add(indicator, 0.5, node, missing) if guard else node

    def _rewrite_category(self, s: slice, sides: list[int], left: int, right: int) -> int:
        """Levels in one-hot columns, a missing cell counting as one more level."""
        go_left = np.array([side == left for side in sides])
        if left == right or go_left.all() or not go_left.any():
            return sides[0]
        chosen, inside, outside = (go_left, left, right) if go_left.sum() <= len(sides) / 2 else (~go_left, right, left)
        if chosen.sum() == 1:
            return self._add(s.start + int(chosen.argmax()), 0.5, outside, inside)
        row = np.zeros(self.schema.d)
        row[s] = chosen
        return self._add(self._virtual(row), 0.5, outside, inside)

    def _shifted(self, column: int, indicator: int, distance: float) -> int:
        row = np.zeros(self.schema.d)
        row[column], row[indicator] = 1.0, distance
        return self._virtual(row)

    def _virtual(self, row: Floats) -> int:
        key = row.tobytes()
        if key not in self._known:
            self._known[key] = self.schema.d + len(self.virtual)
            self.virtual.append(row)
        return self._known[key]

    def _carry_cuts(self) -> dict[int, tuple[float, bool]]:
        """For each split of a Number: its cut in the encoded column; whether the input falls as the number rises."""
        out: dict[int, tuple[float, bool]] = {}
        for i, source in enumerate(self.inputs):
            nodes = np.flatnonzero((self.raw.input == i) & (self.raw.set_index < 0))
            feature = self.schema.features[source.feature] if source.feature >= 0 else None
            if not isinstance(feature, Number) or not len(nodes):
                continue
            cuts, place = np.unique(self.raw.cut[nodes], return_inverse=True)
            encoded, falling = _encoded_cuts(feature, source.to_input, cuts)
            out.update(zip(nodes.tolist(), ((e, falling) for e in encoded[place].tolist()), strict=True))
        return out

    def _unfold(self, start: int, grown: _Grown) -> int:
        """Write one tree depth first, without the branches that the splits above them rule out."""
        bounds: dict[int, tuple[float, float]] = {}

        def unfold(node: int) -> int:
            column, cut, left, right = self.nodes[node]
            if column >= 0:
                low, high = bounds.get(column, (-math.inf, math.inf))
                if high <= cut:
                    return unfold(left)
                if low >= cut:
                    return unfold(right)
            here = len(grown.column)
            grown.column.append(column)
            grown.cut.append(cut)
            grown.left.append(-1)
            grown.right.append(-1)
            grown.leaf.append(left if column < 0 else -1)
            if column >= 0:
                bounds[column] = (low, cut)
                grown.left[here] = unfold(left)
                bounds[column] = (cut, high)
                grown.right[here] = unfold(right)
                bounds[column] = (low, high)
            return here

        return unfold(start)


def _encoded_cuts(feature: Number, to_input: Callable[[Floats], Floats] | None, cuts: Floats) -> tuple[Floats, bool]:
    """Cuts on an input -> cuts on the encoded column of its Number; whether the input falls as the number rises.

    Encoding is monotone, so v <= t gives encode(v) <= encode(t), with the formula of `Schema.encode`. For a falling
    input the right side begins at a value r; the cut is then the last double before encode(r).
    """

    def encode(v: Floats) -> Floats:
        return (v - feature.low) / feature.span

    if to_input is None:
        return encode(cuts), False
    ends = _domain(feature, to_input)
    probe = to_input(np.linspace(feature.low, feature.high, 129))
    rise = np.diff(np.concatenate([to_input(ends[:1]), probe, to_input(ends[1:])]))
    if np.isnan(rise).any() or ((rise > 0).any() and (rise < 0).any()):
        raise NotCompilable(f"an input neither rises nor falls with {feature.name!r} over its range.")
    falling = bool((rise < 0).any())
    if falling:
        last = _last_true(lambda v: to_input(v) > cuts, ends, len(cuts))
        encoded = np.nextafter(encode(np.nextafter(last, np.inf)), -np.inf)
        return np.where(np.isinf(last), last, encoded), True
    return encode(_last_true(lambda v: to_input(v) <= cuts, ends, len(cuts))), False


def _domain(feature: Number, to_input: Callable[[Floats], Floats]) -> Floats:
    """The widest interval about [low, high] where the input is known to be a finite number."""
    for reach in (1000.0, 1.0, 0.0):
        ends = np.array([feature.low - reach * feature.span, feature.high + reach * feature.span])
        with np.errstate(all="ignore"):
            values = to_input(ends)
        if np.isfinite(values).all():
            return ends
    raise NotCompilable(f"an input is not a finite number at the bounds of {feature.name!r}.")


def _last_true(test: Callable[[Floats], NDArray[np.bool_]], ends: Floats, count: int) -> Floats:
    """The last double in [ends] where a test that turns from true to false holds; infinite if it never turns."""
    low, high = np.full(count, _rank(ends[:1])[0]), np.full(count, _rank(ends[1:])[0])
    never, always = ~test(_unrank(low)), test(_unrank(high))
    while (high > low + 1).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # low + high may not fit a word
        holds = test(_unrank(middle))
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return np.where(always, np.inf, np.where(never, -np.inf, _unrank(low)))


def _rank(v: Floats) -> NDArray[np.int64]:
    """Doubles -> whole numbers in the same order, neighbours to neighbours."""
    bits = v.astype(np.float64).view(np.int64)
    return np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)


def _unrank(rank: NDArray[np.int64]) -> Floats:
    return np.where(rank >= 0, rank, np.int64(-(2**63)) - rank).view(np.float64)
