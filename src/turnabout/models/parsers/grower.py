"""Collects the nodes of a tree ensemble while it is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnabout.models.parsers.raw import Link, RawForest, SetSplit


@dataclass
class Grower:
    """Collects nodes; children are filled in as they become known."""

    scores: int
    input: list[int] = field(default_factory=list)
    cut: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    missing_left: list[bool] = field(default_factory=list)
    set_index: list[int] = field(default_factory=list)
    value: list[NDArray[np.float64]] = field(default_factory=list)
    sets: list[SetSplit] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)

    def leaf(self, value: ArrayLike, score: int | None = None) -> int:
        """A leaf with a vector of scores, or with one number for one ``score``."""
        row = np.zeros((1, self.scores))
        row[0, slice(None) if score is None else score] = value
        self.value.append(row)
        return self._node(-1, 0.0, -1, -1, False, -1)

    def split(self, input: int, cut: float, left: int, right: int, missing_left: bool) -> int:
        self.value.append(np.zeros((1, self.scores)))
        return self._node(input, cut, left, right, missing_left, -1)

    def set_split(self, input: int, split: SetSplit, left: int, right: int, missing_left: bool) -> int:
        self.value.append(np.zeros((1, self.scores)))
        self.sets.append(split)
        return self._node(input, np.nan, left, right, missing_left, len(self.sets) - 1)

    def _node(self, input: int, cut: float, left: int, right: int, missing_left: bool, set_index: int) -> int:
        self.input.append(input)
        self.cut.append(cut)
        self.left.append(left)
        self.right.append(right)
        self.missing_left.append(missing_left)
        self.set_index.append(set_index)
        return len(self.input) - 1

    def forest(
        self,
        *,
        bias: ArrayLike,
        link: Link,
        n_inputs: int,
        source: str,
        divisor: float = 1.0,
        scale: float = 1.0,
        accepts_missing: bool = True,
        precision: type[np.floating[Any]] = np.float64,
    ) -> RawForest:
        value = np.concatenate(self.value) * scale
        biases = np.broadcast_to(np.asarray(bias, dtype=np.float64) * scale, (self.scores,)).copy()
        roots = np.array(self.roots, dtype=np.int64)
        starts = np.concatenate([[0], roots[:-1] + 1])  # a tree's root is the last of its nodes
        largest = np.maximum.reduceat(np.abs(value).max(1), starts)
        reach = float(np.abs(biases).max()) + float(largest.sum()) / divisor
        return RawForest(
            input=np.array(self.input, dtype=np.int64),
            cut=np.array(self.cut, dtype=np.float64),
            left=np.array(self.left, dtype=np.int64),
            right=np.array(self.right, dtype=np.int64),
            missing_left=np.array(self.missing_left, dtype=np.bool_),
            set_index=np.array(self.set_index, dtype=np.int64),
            sets=tuple(self.sets),
            value=value,
            roots=roots,
            bias=biases,
            divisor=divisor,
            link=link,
            n_inputs=n_inputs,
            accepts_missing=accepts_missing,
            tolerance=(len(roots) + 4) * float(np.finfo(precision).eps) / 2 * reach,
            source=source,
        )
