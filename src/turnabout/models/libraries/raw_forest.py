"""A tree ensemble as its library grew it: splits on the estimator's own inputs, with exact thresholds.

`Grower` collects its nodes while a library's model is read.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnabout.errors import ModelError

Link = Literal["log-odds", "probability", "softmax", "identity"]

_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103  # the smallest double that rounds to an infinite float32


class NotCompilable(ModelError):
    """A model that was recognised and has no compiled form; the reason says why, and becomes a note."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason, hint="it is still usable: the original model is asked instead, which is slower.")

    def __reduce__(self) -> tuple[type[NotCompilable], tuple[str]]:  # type: ignore[override]
        return type(self), (self.reason,)


@dataclass(frozen=True)
class SetSplit:
    """A split on a category: left for ``left``, right for ``right``, and one way for every other value.

    Members are input values as the estimator receives them: category codes (whole numbers), or the categories
    themselves where the library keeps their names.
    """

    left: frozenset[Hashable]
    right: frozenset[Hashable]
    others_left: bool

    def goes_left(self, value: Hashable) -> bool:
        """Whether a (not missing) value goes left; codes are compared after dropping their fraction."""
        if isinstance(value, np.generic):
            value = value.item()
        if value not in self.left and value not in self.right and isinstance(value, float) and np.isfinite(value):
            value = int(value)
        if value in self.left:
            return True
        return False if value in self.right else self.others_left


@dataclass(frozen=True)
class RawForest:
    r"""A tree ensemble in the space of its own inputs, m nodes in T trees with C scores:

        score(v) = bias + (1 / divisor) * sum over trees of value[leaf(v)]                        (1)

    A node sends v left when ``v[input] <= cut`` in double arithmetic, by ``sets[set_index]`` where that is not -1,
    and by ``missing_left`` when the input is NaN. A node may have two parents, so trees are read from their roots.

    Attributes
    ----------
    input, cut, left, right, missing_left, set_index : (m,); ``input`` is -1 at a leaf. Children are node numbers.
    value : (m, C), zero at inner nodes. C = 1 for regressors and binary classifiers (the second class).
    roots : (T,).
    bias : (C,).  divisor : 1, or the number of trees that are averaged.
    link : what a score is: "log-odds" and "softmax" (boosting), "probability" (forests), "identity" (regressors).
    accepts_missing : whether the library takes NaN at all.
    tolerance : bound on the difference to the library's own score, from the order and precision of its sums
        (XGBoost adds leaves in float32, the others in float64).
    """

    input: NDArray[np.int64]
    cut: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    missing_left: NDArray[np.bool_]
    set_index: NDArray[np.int64]
    sets: tuple[SetSplit, ...]
    value: NDArray[np.float64]
    roots: NDArray[np.int64]
    bias: NDArray[np.float64]
    divisor: float
    link: Link
    n_inputs: int
    accepts_missing: bool
    tolerance: float
    source: str

    def scores(self, inputs: ArrayLike) -> NDArray[np.float64]:
        """(n, n_inputs) -> (n, C): formula (1), written for clarity rather than speed."""
        v = np.asarray(inputs)
        total = np.zeros((len(v), len(self.bias)))
        for root in self.roots:
            node = np.full(len(v), root)
            while (inner := np.flatnonzero(self.input[node] >= 0)).size:
                here = node[inner]
                left = self._goes_left(here, v[inner, self.input[here]])
                node[inner] = np.where(left, self.left[here], self.right[here])
            total += self.value[node]
        return self.bias + total / self.divisor

    def _goes_left(self, node: NDArray[np.int64], cell: NDArray[Any]) -> NDArray[np.bool_]:
        missing = np.array([c is None or c != c for c in cell.tolist()], dtype=bool)
        by_set = ~missing & (self.set_index[node] >= 0)
        plain = ~missing & ~by_set
        left = self.missing_left[node]
        left[plain] = cell[plain].astype(np.float64) <= self.cut[node[plain]]
        left[by_set] = [
            self.sets[s].goes_left(c) for s, c in zip(self.set_index[node[by_set]], cell[by_set], strict=True)
        ]
        return left


def cut_of_float32(threshold: ArrayLike, *, strict: bool) -> NDArray[np.float64]:
    """The double ``cut`` with ``float32(v) <= threshold  <=>  v <= cut`` for all doubles v (strict: with ``<``).

    With p the largest float32 on the left side and q the next one, the doubles that round to p or less end at the
    midpoint of p and q, which a double holds exactly; on the midpoint itself the even neighbour wins.
    """
    t = np.asarray(threshold, dtype=np.float64)
    with np.errstate(over="ignore"):
        p = t.astype(np.float32)
        beyond = p >= t if strict else p > t
        p = np.where(beyond, np.nextafter(p, np.float32(-np.inf)), p).astype(np.float32)
        q = np.nextafter(p, np.float32(np.inf))
    middle = (p.astype(np.float64) + q.astype(np.float64)) / 2
    even = (np.ascontiguousarray(p).view(np.uint32) & 1) == 0
    cut = np.where(even, middle, np.nextafter(middle, -np.inf))
    cut = np.where(np.isposinf(q), np.nextafter(_FLOAT32_OVERFLOW, 0.0), cut)
    cut = np.where(np.isneginf(p), -_FLOAT32_OVERFLOW, cut)
    return np.where(np.isposinf(p), np.inf, cut)


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
