"""How many people a change overtakes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from turnabout.costs.cost import CostContext, CostTerm, _Leaf, like
from turnabout.errors import ProblemError
from turnabout.parameters import Choice, checked
from turnabout.schema import Binary, Category
from turnabout.typing import Tensor


@dataclass(frozen=True, repr=False)
@checked(ProblemError, reduce=Choice("sum", "max"))
class PercentileShift(_Leaf):
    """How far a change moves a person among the background's people.

        c(x, x') = sum_f  w_f * | Q_f(x'_f) - Q_f(x_f) |        (or max_f, with reduce="max")      (1)

    Q_f is the share of background people with at most this value, joined by straight lines between the values that
    occur (and from 0 at the feature's low bound), so that it has a slope. A change where nobody lives is cheap and
    one through a crowd is dear; above the largest value of the background it is free: add `0.01 * L1()` to break
    such ties. A category switch and a binary flip cost 1. Missing cells are left out of Q_f.

    Parameters
    ----------
    difficulty : w_f by feature name, 1 where not named.
    reduce : "sum" over features, or "max", the cost of the largest shift alone.

    References
    ----------
    Ustun, Spangher, Liu (2019), Actionable recourse in linear classification. Their percentiles step; ours slope.
    """

    reduce: Literal["sum", "max"] = "sum"

    def _term(self, ground: CostContext, weights: Tensor) -> CostTerm:
        return _Shift(ground, weights, ground.background(repr(self)), self.reduce)


class _Shift(CostTerm):
    def __init__(self, ground: CostContext, weights: Tensor, background: Tensor, reduce: str):
        self.weights, self.reduce = weights, reduce
        self.separable = reduce == "sum"
        curves: list[tuple[Tensor, Tensor]] = []
        ranked: list[int] = []  # features with a curve
        for f, (feature, columns) in enumerate(zip(ground.schema.features, ground.schema.slices)):
            rows = background[ground.present(f, background)]
            if not isinstance(feature, (Binary, Category)) and len(rows):
                ranked.append(f)
                curves.append(_curve(rows[:, columns.start]))
        self.ranked = torch.tensor(ranked, dtype=torch.long)
        self.columns = torch.tensor([ground.schema.slices[f].start for f in ranked], dtype=torch.long)
        width = max((len(v) for v, _ in curves), default=1)
        self.knots = torch.stack([_pad(v, width) for v, _ in curves]) if curves else torch.zeros(0, 1)  # (g, K)
        self.heights = torch.stack([_pad(q, width) for _, q in curves]) if curves else torch.zeros(0, 1)
        rise, run = self.heights.diff(dim=1), self.knots.diff(dim=1)
        slope = torch.where(run > 0, rise / run.clamp(min=1e-300), torch.zeros_like(rise))
        self.slopes = torch.nn.functional.pad(slope, (0, 1))  # (g, K), flat after the last knot
        self.per_column = ground.schema.gather.clone()  # distance of the features without a curve
        self.per_column[:, self.ranked] = 0.0

    def cdf(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., g): Q_f of each ranked feature."""
        knots, heights, slopes = like(self.knots, x), like(self.heights, x), like(self.slopes, x)
        v = x[..., self.columns.to(x.device)].movedim(-1, 0)  # (g, ...)
        shape, v = v.shape, v.flatten(1) if v.dim() > 1 else v.unsqueeze(1)
        v = torch.maximum(v, knots[:, :1])
        left = (torch.searchsorted(knots, v.detach().contiguous(), right=True) - 1).clamp(min=0)
        q = heights.gather(1, left) + slopes.gather(1, left) * (v - knots.gather(1, left))
        return q.reshape(shape).movedim(0, -1)

    def per_feature(self, x: Tensor, x_new: Tensor) -> Tensor:
        out = (x_new - x).abs() @ like(self.per_column, x_new)
        if len(self.ranked):
            shift = (self.cdf(x_new) - self.cdf(x)).abs()  # (1)
            out = out.index_add(-1, self.ranked.to(x_new.device), shift.expand(*out.shape[:-1], shift.shape[-1]))
        return out * like(self.weights, x_new)

    def __call__(self, x: Tensor, x_new: Tensor) -> Tensor:
        shift = self.per_feature(x, x_new)
        return shift.sum(-1) if self.reduce == "sum" else shift.amax(-1)


def _curve(v: Tensor) -> tuple[Tensor, Tensor]:
    """Background values (m,) -> knots and the share of people at or below each."""
    knots, counts = torch.unique(v, return_counts=True)
    shares = counts.cumsum(0).to(v.dtype) / len(v)
    if knots[0] > 0:
        knots = torch.cat([torch.zeros(1, dtype=v.dtype), knots])
        shares = torch.cat([torch.zeros(1, dtype=shares.dtype), shares])
    return knots, shares


def _pad(v: Tensor, width: int) -> Tensor:
    return torch.cat([v, v[-1:].expand(width - len(v))])
