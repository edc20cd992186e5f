"""Compiled forms: array code that stands in for the original inside a search."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch

from turnabout.models.decision import Decision
from turnabout.models.model import Judge, Jumps, Model, Terms
from turnabout.schema import Schema
from turnabout.typing import Tensor

Layers = tuple[tuple[Tensor, Tensor], ...]


class ScoredModel(Model):
    """A model whose margin is a torch program, which may have jumps.

    Parameters
    ----------
    scores : maps encoded rows (..., d) to scores (..., width); moves between devices as a torch module does.
    decision : from scores to the margin.
    """

    compiled = True

    def __init__(
        self, schema: Schema, judge: Judge, notes: tuple[str, ...], scores: torch.nn.Module, decision: Decision
    ):
        super().__init__(schema, judge, notes)
        self._scores = scores
        self._decision = decision
        self._by = 0.0  # margin asked for beyond the decision's own

    def margin(self, x: Tensor) -> Tensor:
        return self._decision.from_scores(self._scores(x.to(torch.float64))) - self._by

    def _shift(self, by: float) -> None:
        self._by = self._by + by

    def _move(self, device: torch.device) -> None:
        self._scores = copy.deepcopy(self._scores).to(device)


class SmoothModel(ScoredModel):
    """A model whose margin is a torch program with a gradient."""

    def gradient(self, x: Tensor) -> Tensor:
        """Derivative of the margin, (n, d) -> (n, d)."""
        return _gradient(self, x)


class LinearModel(Model):
    """A model whose margin is x @ weights + bias."""

    compiled = True

    def __init__(self, schema: Schema, judge: Judge, notes: tuple[str, ...], weights: Tensor, bias: float):
        super().__init__(schema, judge, notes)
        self.weights = weights
        self.bias = bias

    @property
    def terms(self) -> Terms:
        """The margin as a sum over features, all straight."""
        return Terms.straight(self.weights, self.bias)

    def margin(self, x: Tensor) -> Tensor:
        return x.to(torch.float64) @ self.weights + self.bias

    def gradient(self, x: Tensor) -> Tensor:
        """Derivative of the margin, (n, d) -> (n, d)."""
        return self.weights.expand_as(x).clone()

    def _shift(self, by: float) -> None:
        self.bias = self.bias - by

    def _move(self, device: torch.device) -> None:
        self.weights = self.weights.to(device)


class SteppedModel(Model):
    """A model whose margin is a sum of one curve for each feature; some may jump, so it offers no gradient."""

    compiled = True

    def __init__(self, schema: Schema, judge: Judge, notes: tuple[str, ...], terms: Terms):
        super().__init__(schema, judge, notes)
        self.terms = terms

    def margin(self, x: Tensor) -> Tensor:
        return self.terms.margin(x.to(torch.float64))

    def _shift(self, by: float) -> None:
        self.terms = replace(self.terms, bias=self.terms.bias - by)

    def _move(self, device: torch.device) -> None:
        self.terms = self.terms.to(device)


class AdditiveModel(SteppedModel):
    """A model whose margin is a sum of one bent curve for each feature; also a net of two layers."""

    @property
    def layers(self) -> Layers:
        """The margin as a ReLU net: its straight part and the bends, then their sum."""
        terms = self.terms
        d, m = len(terms.weights), len(terms.knots)
        pick = terms.weights.new_zeros(m, d)
        pick[torch.arange(m, device=pick.device), terms.columns] = 1.0
        bias = terms.weights.new_tensor([terms.bias])
        both = torch.stack([terms.weights, -terms.weights])
        first = torch.cat([both, pick]), torch.cat([bias, -bias, -terms.knots])
        ends = terms.weights.new_tensor([1.0, -1.0])  # u = relu(u) - relu(-u)
        return first, (torch.cat([ends, terms.slopes]).unsqueeze(0), torch.zeros_like(bias))

    def gradient(self, x: Tensor) -> Tensor:
        """Derivative of the margin, (n, d) -> (n, d)."""
        return self.terms.gradient(x.to(torch.float64))


class ReluModel(Model):
    """A model whose margin is a net of linear layers with a ReLU between each two."""

    compiled = True

    def __init__(self, schema: Schema, judge: Judge, notes: tuple[str, ...], layers: Layers):
        super().__init__(schema, judge, notes)
        self.layers = layers

    def margin(self, x: Tensor) -> Tensor:
        return run_layers(self.layers, x.to(torch.float64))[..., 0]

    def gradient(self, x: Tensor) -> Tensor:
        """Derivative of the margin, (n, d) -> (n, d)."""
        return _gradient(self, x)

    def _shift(self, by: float) -> None:
        weight, bias = self.layers[-1]
        self.layers = (*self.layers[:-1], (weight, bias - by))

    def _move(self, device: torch.device) -> None:
        self.layers = tuple((weight.to(device), bias.to(device)) for weight, bias in self.layers)


class LayeredScores(torch.nn.Module):
    """Scores of linear layers with one activation between each two."""

    def __init__(self, layers: Layers, activation: str = "relu", hinges: torch.nn.Module | None = None):
        super().__init__()
        self.activation = activation
        self.hinges = hinges
        self.depth = len(layers)
        for i, (weight, bias) in enumerate(layers):
            self.register_buffer(f"weight{i}", weight)
            self.register_buffer(f"bias{i}", bias)

    def forward(self, x: Tensor) -> Tensor:
        layers = tuple((getattr(self, f"weight{i}"), getattr(self, f"bias{i}")) for i in range(self.depth))
        return run_layers(layers, x if self.hinges is None else self.hinges(x), self.activation)


def run_layers(layers: Layers, x: Tensor, activation: str = "relu") -> Tensor:
    """x (..., d) -> outputs (..., width) of the last layer."""
    between = {"relu": torch.relu, "tanh": torch.tanh, "logistic": torch.sigmoid, "identity": lambda h: h}[activation]
    for i, (weight, bias) in enumerate(layers):
        x = torch.nn.functional.linear(x if i == 0 else between(x), weight, bias)
    return x


def close_layers(layers: Layers, decision: Decision) -> Layers | None:
    """Layers ending in the margin itself, or None if the margin bends after the scores."""
    weight, bias = layers[-1]
    flat = decision.affine(weight.shape[0])
    if flat is None:
        return None
    c = torch.as_tensor(flat[0], dtype=weight.dtype)
    return (*layers[:-1], ((c @ weight).unsqueeze(0), (c @ bias + flat[1]).reshape(1)))


def layered_model(schema: Schema, judge: Judge, notes: tuple[str, ...], layers: Layers, decision: Decision) -> Model:
    """The most capable form for ReLU layers: linear if there is one layer, a ReLU net, else merely smooth."""
    closed = close_layers(layers, decision)
    if closed is None:
        return SmoothModel(schema, judge, notes, LayeredScores(layers), decision)
    if len(closed) == 1:
        return LinearModel(schema, judge, notes, closed[0][0][0], float(closed[0][1]))
    return ReluModel(schema, judge, notes, closed)


def additive_model(schema: Schema, judge: Judge, notes: tuple[str, ...], terms: Terms) -> Model:
    """The most capable form for a sum over features: linear if no feature bends or jumps. Notes tell which do."""
    least = 1e-13 * terms.size  # below, it is a straight line but for rounding errors
    bends = terms.slopes.abs() > least
    columns, knots, slopes = terms.columns[bends], terms.knots[bends], terms.slopes[bends]
    jumps = terms.jumps
    if jumps is not None:
        seen = jumps.heights.abs() > least
        jumps = Jumps(jumps.columns[seen], jumps.cuts[seen], jumps.heights[seen]) if seen.any() else None
    terms = Terms(terms.weights, terms.bias, columns, knots, slopes, jumps)
    if bends.any():
        bent = named(schema, columns)
        note = f"the levels of {bent} do not act in equal steps: the margin bends there, each feature still on its own."
        notes = (*notes, note)
    if jumps is not None:
        note = f"the margin moves with {named(schema, jumps.columns)} in steps, each feature still on its own."
        return SteppedModel(schema, judge, (*notes, note), terms)
    if bends.any():
        return AdditiveModel(schema, judge, notes, terms)
    return LinearModel(schema, judge, notes, terms.weights, terms.bias)


def named(schema: Schema, columns: Tensor) -> str:
    """The features of some encoded columns, each once."""
    return ", ".join(dict.fromkeys(schema.names[int(schema.feature_of[c])] for c in columns))


def _gradient(model: Model, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(model.margin(x).sum(), x)
    return slope
