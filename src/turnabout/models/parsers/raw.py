"""A tree ensemble as its library grew it: splits on the estimator's own inputs, with exact thresholds."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnabout.errors import ModelError

Link = Literal["log-odds", "probability", "softmax", "identity"]

_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103  # the smallest double that rounds to an infinite float32


class NotCompilable(ModelError):
    """A tree ensemble that was recognised but cannot be turned into splits and leaves; the text says why."""

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
