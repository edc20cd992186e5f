"""A tree ensemble over the encoded columns: fast margins, and the leaves as boxes for exact search."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from turnabout.models.leaf_masks import LeafMasks
from turnabout.models.leaves import Leaves
from turnabout.models.parsers.raw import Link
from turnabout.models.tree_walk import TreeWalk
from turnabout.typing import Tensor


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
