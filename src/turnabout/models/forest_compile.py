"""From the estimator's inputs to the schema's columns.

`compile_forest` carries the splits of a `RawForest`, which speak of the estimator's own inputs, back through the
preprocessing to the schema's columns. Nothing is approximated: a cut on a scaled input becomes the last double on
its left side in the person's units, a split on one-hot or ordinal codes becomes a set of levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from turnabout.models.encoded_cuts import Floats, encoded_cuts
from turnabout.models.forest import Forest
from turnabout.models.libraries.raw_forest import NotCompilable, RawForest
from turnabout.schema import Category, Feature, Number, Schema

_FAR = 1e300  # stands for "beyond every cut" in a virtual column
_MOST_NODES = 3_000_000  # a split on one of several steps is written as two, and what hangs on it twice


@dataclass(frozen=True)
class Input:
    """How one input of the final estimator follows from one feature of the schema.

    Parameters
    ----------
    feature : index into ``schema.features``; -1 for an input that is the constant ``at_missing``.
    levels : for Binary, Ordinal and Category: the input's value at each level, in the order of the levels.
    to_input : for Number: raw values -> the input's values, vectorised, rising or falling; None for the value itself.
    steps : for a Number that enters in steps: cuts in its encoded column, and the input's values between them.
    at_missing : the input's value where the feature is missing; NaN if it stays missing.
    """

    feature: int
    levels: NDArray[np.generic] | None = None
    to_input: Callable[[Floats], Floats] | None = None
    at_missing: float = math.nan
    steps: tuple[Floats, Floats] | None = None


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
        if isinstance(feature, Number) and source.steps is not None:
            cuts, values = source.steps
            sides = [left if self._goes_left(node, value) else right for value in values.tolist()]
            return self._rewrite_steps(s.start, indicator, cuts.tolist(), sides, missing)
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
        """Levels in one column, k / (K - 1): a cut between each two."""
        top = max(len(sides) - 1, 1)
        return self._rewrite_steps(column, indicator, [(k + 0.5) / top for k in range(top)], sides, missing)

    def _rewrite_steps(self, column: int, indicator: int, cuts: list[float], sides: list[int], missing: int) -> int:
        """One split wherever the sides of neighbouring steps differ; a missing cell is encoded as 0."""
        turns = [k for k in range(len(sides) - 1) if sides[k] != sides[k + 1]]
        guard = indicator >= 0 and missing != sides[sum(cut < 0 for cut in cuts[: len(sides) - 1])]
        if guard and turns and missing in (sides[0], sides[-1]):
            column = self._shifted(column, indicator, _FAR if missing == sides[-1] else -_FAR)
            guard = False
        node = sides[-1]
        for k in reversed(turns):
            node = self._add(column, cuts[k], sides[k], node)
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
            if not isinstance(feature, Number) or not len(nodes) or source.steps is not None:
                continue
            cuts, place = np.unique(self.raw.cut[nodes], return_inverse=True)
            encoded, falling = encoded_cuts(feature, source.to_input, cuts)
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
            if here >= _MOST_NODES:
                raise NotCompilable(
                    f"its trees split numbers that enter in steps so often that they have more than {_MOST_NODES} "
                    "nodes; ordinal codes (KBinsDiscretizer(encode='ordinal')) need far fewer."
                )
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
