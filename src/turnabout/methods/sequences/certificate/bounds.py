"""How high a margin can be over a set of states: a plane for ReLU nets, a number for tree ensembles."""

from __future__ import annotations

import torch

from turnabout.actions.steps import StepTables
from turnabout.methods.sequences.certificate.boxes import Hull
from turnabout.methods.sequences.certificate.plane import MarginBound, Plane
from turnabout.methods.sequences.certificate.trees import TreeBound
from turnabout.models.base import Linear, Model, ReluNet, Trees
from turnabout.models.forms import Layers
from turnabout.typing import Tensor

ERROR = 1e-10  # share of the terms of a sum that rounding may have cost


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


def bound_for(model: Model, tables: StepTables, moving: Tensor, noise: float = 0.0) -> MarginBound | None:
    """The bound that fits a model, None if there is none; noise: how far below zero a margin still counts."""
    columns, span = tables.columns[moving], tables.span[moving]
    if isinstance(model, Linear):
        layers = ((model.weights.unsqueeze(0), model.weights.new_tensor([model.bias])),)
        return NetBound(layers, columns, span, noise)
    if isinstance(model, ReluNet):
        return NetBound(model.layers, columns, span, noise)
    if isinstance(model, Trees):
        return TreeBound(model.forest, columns, span, noise)
    return None
