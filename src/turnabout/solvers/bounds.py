"""How high a margin can be over boxes of states: a plane for linear models and ReLU nets, a number for trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from turnabout.models.forest import Forest
from turnabout.models.forms import Layers
from turnabout.models.model import LinearMargin, Model, ReluNet, Trees
from turnabout.typing import Tensor

AT_ONCE = 1 << 22  # boxes times nodes of trees held together
EDGE = 1e-9  # share of its size by which a cut may be missed
ERROR = 1e-10  # share of the terms of a sum that rounding may have cost


@dataclass(frozen=True)
class Hull:
    """States over a box of parameters delta, |delta_k| <= 1, held in two ways; (B, m), slope (B, m, K):

    s_j = center_j + sum_k slope_jk delta_k + slack_j eps,   |eps| <= 1       and       low_j <= s_j <= high_j      (1)
    """

    center: Tensor
    slope: Tensor
    slack: Tensor
    low: Tensor
    high: Tensor


@dataclass(frozen=True)
class Plane:
    """margin <= slope . delta + top over a box, (B, K) and (B,); blame (B, K): how much each parameter loosens it."""

    slope: Tensor
    top: Tensor
    blame: Tensor


class MarginBound(Protocol):
    """Bounds the margin of the end state of jobs.

    width : numbers held for each box, roughly.  units : how large an integer program for the model would be.
    noise : how far below zero a margin still counts as accepted.
    """

    width: int
    units: int
    noise: float

    def base(self, rest: Tensor) -> Tensor:
        """Rows (J, d) with their moving columns at zero units -> what is known of each job beforehand, (J, h)."""
        ...

    def plane(self, base: Tensor, hull: Hull) -> Plane:
        """The bound over the hulls (B, m, ...) of jobs with this base (B, h)."""
        ...


class NetBound:
    r"""Planes above a ReLU net, by linear relaxation (Zhang et al., 2018; Xu et al., 2020).

    A unit whose input h lies in [l, u] around zero is held between two lines,

        a h <= relu(h) <= u (h - l) / (u - l),         a = 1 if u > -l else 0.                                   (1)

    Inputs are bounded layer by layer with forms in the few parameters (there are far fewer of these than units), the
    margin then backwards from the last layer, taking for each unit the line that its sign asks for. A linear model is
    a net of one layer, for which the plane is the margin itself.
    """

    def __init__(self, layers: Layers, columns: Tensor, span: Tensor, noise: float = 0.0):
        self.layers, self.noise = layers, noise
        weight, self.bias = layers[0]
        self.weight = weight
        self.first = weight[:, columns] / span  # (h, m), for states in units
        self.width = max(w.shape[0] for w, _ in layers)
        self.units = sum(w.shape[0] for w, _ in layers[:-1])
        self.parts = [(w.clamp(min=0).T, w.clamp(max=0).T, b) for w, b in layers[1:]]

    def base(self, rest: Tensor) -> Tensor:
        """(J, d) -> (J, h): inputs of the first units, but for the moving columns."""
        return torch.nn.functional.linear(rest, self.weight, self.bias)

    def plane(self, base: Tensor, hull: Hull) -> Plane:
        """The plane above the margin."""
        inputs = self.inputs(base, hull)
        weight = self.layers[-1][0].expand(len(base), -1)  # (B, h): the last row
        top = self.layers[-1][1].expand(len(base)).clone()
        blame = torch.zeros_like(hull.slope[:, 0])
        for (low, high, spread), (before, bias) in zip(reversed(inputs), reversed(self.layers[:-1])):
            slope, lift, foot = _lines(low, high)
            up = weight.clamp(min=0)
            gap = up * lift - weight.clamp(max=0) * torch.where(foot > 0, -low, high) * (slope < 1) * (slope > 0)
            blame = blame + (gap.unsqueeze(-1) * spread / spread.sum(-1, keepdim=True).clamp(min=1e-300)).sum(1)
            top = top + (up * lift).sum(-1)
            weight = up * slope + weight.clamp(max=0) * foot
            if before is not self.layers[0][0]:
                top = top + weight @ bias
                weight = weight @ before
        if not inputs:
            weight = torch.ones_like(base)
            top = torch.zeros_like(top)
        tilt = weight @ self.first  # (B, m)
        size = (weight * base).abs().sum(-1) + (tilt * hull.center).abs().sum(-1) + top.abs()
        top = top + (weight * base).sum(-1) + (tilt * hull.center).sum(-1) + (tilt.abs() * hull.slack).sum(-1)
        loose = (tilt.abs() * hull.slack).unsqueeze(-1) * hull.slope.abs()
        blame = blame + (loose / hull.slope.abs().sum(-1, keepdim=True).clamp(min=1e-300)).sum(1)
        return Plane((tilt.unsqueeze(-1) * hull.slope).sum(1), top + ERROR * size + self.noise, blame)

    def inputs(self, base: Tensor, hull: Hull) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Bounds (B, h) of the inputs of every layer of units, and how much each parameter moves them (B, h, K)."""
        if len(self.layers) == 1:
            return []
        first = self.first
        center = base + hull.center @ first.T
        slope = torch.einsum("hm,bmk->bhk", first, hull.slope)
        slack = hull.slack @ first.abs().T
        spread = slope.abs().sum(-1) + slack
        ups, downs = first.clamp(min=0).T, first.clamp(max=0).T
        low = torch.maximum(center - spread, base + hull.low @ ups + hull.high @ downs)
        high = torch.minimum(center + spread, base + hull.high @ ups + hull.low @ downs)
        low, high = low - ERROR * (1 + low.abs()), high + ERROR * (1 + high.abs())
        floor = torch.cat([slope, (center - slack).unsqueeze(-1)], -1).transpose(1, 2)  # (B, K+1, h)
        ceiling = torch.cat([slope, (center + slack).unsqueeze(-1)], -1).transpose(1, 2)
        out = [(low, high, slope.abs())]
        for plus, minus, bias in self.parts[:-1]:
            line, lift, foot = _lines(low, high)
            above = line.unsqueeze(1) * ceiling
            above[:, -1] += lift
            below = foot.unsqueeze(1) * floor
            ceiling, floor = above @ plus + below @ minus, below @ plus + above @ minus
            ceiling[:, -1] += bias
            floor[:, -1] += bias
            relu_low, relu_high = low.clamp(min=0), high.clamp(min=0)
            low_box = relu_low @ plus + relu_high @ minus + bias
            high_box = relu_high @ plus + relu_low @ minus + bias
            low = torch.maximum(floor[:, -1] - floor[:, :-1].abs().sum(1), low_box)
            high = torch.minimum(ceiling[:, -1] + ceiling[:, :-1].abs().sum(1), high_box)
            low, high = low - ERROR * (1 + low.abs()), high + ERROR * (1 + high.abs())
            out.append((low, high, torch.maximum(floor[:, :-1].abs(), ceiling[:, :-1].abs()).transpose(1, 2)))
        return out


def _lines(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Slope and lift of the upper line of (1), slope of the lower one; for stable units all three are exact."""
    mixed = (low < 0) & (high > 0)
    wide = torch.where(mixed, high - low, 1.0)
    on = (low >= 0).to(low.dtype)
    slope = torch.where(mixed, high / wide, on)
    lift = torch.where(mixed, -low * high / wide, 0.0)
    return slope, lift, torch.where(mixed, (high > -low).to(low.dtype), on)


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


def bound_on(model: Model, columns: Tensor, span: Tensor | None = None, noise: float = 0.0) -> MarginBound | None:
    """An upper bound of the margin over boxes of some encoded columns (m,), None where the model's form is not known.

    span (m,) : units for each column, where states are in units. noise : how far below zero a margin still counts.
    """
    span = torch.ones(len(columns), dtype=torch.float64, device=columns.device) if span is None else span
    if isinstance(model, LinearMargin):
        layers = ((model.weights.unsqueeze(0), model.weights.new_tensor([model.bias])),)
        return NetBound(layers, columns, span, noise)
    if isinstance(model, ReluNet):
        return NetBound(model.layers, columns, span, noise)
    if isinstance(model, Trees):
        return TreeBound(model.forest, columns, span, noise)
    return None
