"""The leaves of a forest as boxes over the encoded columns, for exact search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from turnabout.typing import Tensor

if TYPE_CHECKING:
    from turnabout.models.forest import Forest

Floats = NDArray[np.float64]


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
    made_of = np.vstack([np.eye(d), forest.sets.cpu().numpy()])  # (d + q, d)
    feature_of, is_level = forest.feature_of.cpu().numpy(), forest.is_level.cpu().numpy()
    owner = feature_of[np.abs(made_of).argmax(1)]  # every column, virtual or not, belongs to one feature
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
