"""How high the margin of a tree ensemble can be over a box of states."""

from __future__ import annotations

import torch

from turnabout.methods.sequences.certificate.boxes import Hull
from turnabout.methods.sequences.certificate.plane import Plane
from turnabout.models.forest import Forest
from turnabout.typing import Tensor

AT_ONCE = 1 << 22  # boxes times nodes held together
EDGE = 1e-9  # share of its size by which a cut may be missed


class TreeBound:
    r"""The sum over trees of the highest leaf that a box of states can reach.

    From the leaves up, a node is worth the best of the children a box can go to:

        best(node) = max( best(left) if low <= cut,  best(right) if high > cut ),      margin <= sum of best(root)  (1)

    With several scores, the lead over each other score is bounded like that, and the least of these bounds counts.
    The bound is a plane without slope. It becomes exact once no cut lies within the box.

    Parameters
    ----------
    forest : the trees.
    columns, span : (m,) encoded columns that move, and units for each.
    """

    def __init__(self, forest: Forest, columns: Tensor, span: Tensor, noise: float = 0.0):
        self.forest, self.noise = forest, noise + forest.tolerance
        d = forest.sets.shape[1]
        eye = torch.eye(d, dtype=torch.float64, device=forest.cut.device)
        self.columns, self.span = columns, span
        self.effect = torch.cat([eye, forest.sets.to(eye)])[:, columns] / span  # (d + q, m)
        self.inner = (forest.column >= 0).nonzero().squeeze(1)
        self.levels = _levels(forest)
        others = [c for c in range(len(forest.bias)) if c != forest.target]
        value, bias = forest.value / forest.divisor, forest.bias
        if others:  # the lead of the target over each other score
            value = value[:, forest.target, None] - value[:, others]
            bias = bias[forest.target] - bias[others]
        self.value, self.bias = value, bias
        self.width = max(1, len(forest.column) * len(bias) // 8)
        self.units = len(forest.column) // 16

    def base(self, rest: Tensor) -> Tensor:
        """(J, d) -> (J, d + q): the columns that nodes look at."""
        return self.forest.extend(rest)

    def sides(self, base: Tensor, hull: Hull) -> tuple[Tensor, Tensor]:
        """(B, d + q) the least and the greatest value of each column."""
        ups, downs = self.effect.clamp(min=0).T, self.effect.clamp(max=0).T
        return base + hull.low @ ups + hull.high @ downs, base + hull.high @ ups + hull.low @ downs

    def ways(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """(B, m) whether values within [low, high] (B, d + q) can go left and right at each node; leaves count too."""
        column, cut = self.forest.column.clamp(min=0), self.forest.cut
        edge = EDGE * (1 + cut.abs().nan_to_num(posinf=0.0))
        return low[:, column] <= cut + edge, high[:, column] > cut - edge

    def plane(self, base: Tensor, hull: Hull) -> Plane:
        """The bound over each hull."""
        low, high = self.sides(base, hull)
        tops, counts = [], []
        for some in torch.arange(len(base), device=base.device).split(max(1, AT_ONCE // len(self.forest.column))):
            left, right = self.ways(low[some], high[some])
            bounds = [self._best(left, right, c) for c in range(len(self.bias))]
            tops.append(torch.stack(bounds).amin(0))
            open_ = (left & right)[:, self.inner].to(base.dtype)
            counts.append(base.new_zeros(len(some), base.shape[1]).index_add_(1, self.forest.column[self.inner], open_))
        top, count = torch.cat(tops), torch.cat(counts)
        reach = torch.einsum("cm,bmk->bck", self.effect, hull.slope).abs()
        share = reach / reach.sum(-1, keepdim=True).clamp(min=1e-300)
        blame = (count.unsqueeze(-1) * share).sum(1)
        return Plane(torch.zeros_like(hull.slope[:, 0]), top + self.noise + EDGE * (1 + top.abs()), blame)

    def _best(self, left: Tensor, right: Tensor, score: int) -> Tensor:
        """(B,) by (1)."""
        forest = self.forest
        best = self.value[:, score].repeat(len(left), 1)
        for level in self.levels:
            a = torch.where(left[:, level], best[:, forest.left[level]], -torch.inf)
            b = torch.where(right[:, level], best[:, forest.right[level]], -torch.inf)
            best[:, level] = torch.maximum(a, b)
        return self.bias[score] + best[:, forest.roots].sum(1)


def _levels(forest: Forest) -> list[Tensor]:
    """Nodes with children, those farthest from a root first."""
    out = []
    level = forest.roots
    while len(level := level[forest.column[level] >= 0]):
        out.append(level)
        level = torch.cat([forest.left[level], forest.right[level]])
    return out[::-1]
