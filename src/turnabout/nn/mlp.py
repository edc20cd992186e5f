"""Several multilayer perceptrons as one tensor program, with the backward pass written out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from turnabout.errors import MethodError
from turnabout.typing import Tensor

Activation = Literal["relu", "tanh"]
Masks = list[Tensor]


@dataclass(frozen=True)
class Pass:
    """What a forward pass leaves behind for the backward one: inputs of each layer and slopes of each activation."""

    inputs: list[Tensor]
    slopes: list[Tensor]
    logits: Tensor  # (M, b)


class StackedMlp:
    """M networks of one shape with a logit each, side by side: x (M, b, d) -> (M, b).

    A batch matrix product runs all of them at the price of few, so that seeds and settings train together. The input
    is first standardised with each network's own shift and scale. The backward pass is written out: it gives the slope
    in the input, which needs no derivative of the weights, at the cost of one further pass.

    Parameters
    ----------
    d, hidden : width of the input and of the hidden layers.
    seeds : one for each network; sets its first weights.
    activation : "relu" or "tanh".
    shift, scale : (M, d), or None for none.
    """

    def __init__(
        self,
        d: int,
        hidden: Sequence[int],
        seeds: Sequence[int],
        activation: Activation = "relu",
        shift: Tensor | None = None,
        scale: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
    ):
        if activation not in ("relu", "tanh"):
            raise MethodError(f"activation={activation!r} is not known.", hint="use 'relu' or 'tanh'.")
        self.d, self.activation, self.members = d, activation, len(seeds)
        self.widths = [d, *hidden, 1]
        shapes: list[tuple[int, ...]] = []
        for i, o in zip(self.widths, self.widths[1:]):
            shapes += [(self.members, i, o), (self.members, 1, o)]
        sizes = [math.prod(shape) for shape in shapes]
        self.parameters = torch.empty(sum(sizes), dtype=dtype, device=device)  # one block, for one step of Adam
        self.gradients = torch.zeros_like(self.parameters)
        self._shapes, self._sizes = shapes, sizes
        self._views = self.cut(self.parameters)
        self._gradient_views = self.cut(self.gradients)
        ones = torch.ones(self.members, 1, d, dtype=dtype, device=device)
        self.shift = ones * 0 if shift is None else shift.to(ones).unsqueeze(1)
        self.scale = ones if scale is None else scale.to(ones).unsqueeze(1)
        for m, seed in enumerate(seeds):
            self._start(m, seed)

    def cut(self, block: Tensor) -> list[Tensor]:
        """A block of the size of `parameters` as weights (M, i, o) and biases (M, 1, o), layer by layer."""
        return [part.view(shape) for part, shape in zip(block.split(self._sizes), self._shapes)]

    def _start(self, member: int, seed: int) -> None:
        """First weights and biases uniform within 1 / sqrt(inputs), as torch's own linear layers have them."""
        generator = torch.Generator().manual_seed(seed)
        for view, (_, i, _) in zip(self._views, [s for s in self._shapes[::2] for _ in (0, 1)]):
            draw = torch.rand(view.shape[1:], generator=generator, dtype=torch.float64)
            view[member] = ((2 * draw - 1) / math.sqrt(i)).to(view)

    # -- passes -----------------------------------------------------------------------------------------------

    def masks(self, b: int, dropout: float, generator: torch.Generator) -> Masks:
        """Fresh dropout masks for a batch of b, one for each hidden layer; kept units are scaled up."""
        if not dropout:
            return []
        keep = 1.0 - dropout
        block = self.parameters
        return [
            torch.empty(self.members, b, width, dtype=block.dtype, device=block.device)
            .bernoulli_(keep, generator=generator)
            .div_(keep)
            for width in self.widths[1:-1]
        ]

    def forward(self, x: Tensor, masks: Masks = []) -> Pass:  # noqa: B006 - never written to
        """(M, b, d) -> logits (M, b), with what a backward pass needs."""
        h = (x - self.shift) / self.scale
        inputs, slopes = [h], list[Tensor]()
        last = len(self.widths) - 2
        for layer in range(last + 1):
            z = torch.baddbmm(self._views[2 * layer + 1], h, self._views[2 * layer])
            if layer == last:
                return Pass(inputs, slopes, z.squeeze(-1))
            h, slope = _activate(self.activation, z)
            if masks:
                h, slope = h * masks[layer], slope * masks[layer]
            inputs.append(h)
            slopes.append(slope)
        raise AssertionError("unreachable")

    def slope(self, seen: Pass) -> Tensor:
        """(M, b, d): derivative of each logit in its own input row."""
        back = self._views[-2].transpose(1, 2).expand(-1, seen.logits.shape[1], -1)  # (M, b, last width)
        for layer in range(len(self.widths) - 3, -1, -1):
            back = torch.bmm(back * seen.slopes[layer], self._views[2 * layer].transpose(1, 2))
        return back / self.scale

    def backward(self, seen: Pass, weight: Tensor, add: bool = False) -> None:
        """Derivative in all parameters of the sum of weight (M, b) times the logits, into `gradients`."""
        back = weight.unsqueeze(-1)  # (M, b, 1)
        for layer in range(len(self.widths) - 2, -1, -1):
            into, bias = self._gradient_views[2 * layer], self._gradient_views[2 * layer + 1]
            inputs = seen.inputs[layer].transpose(1, 2)
            if add:
                torch.baddbmm(into, inputs, back, out=into)
                bias += back.sum(1, keepdim=True)
            else:
                torch.bmm(inputs, back, out=into)
                torch.sum(back, 1, keepdim=True, out=bias)
            if layer:
                back = torch.bmm(back, self._views[2 * layer].transpose(1, 2)) * seen.slopes[layer - 1]

    # -- asking -----------------------------------------------------------------------------------------------

    def margin(self, x: Tensor) -> Tensor:
        """(M, ..., d) -> (M, ...): logits without dropout."""
        return self.forward(x.reshape(self.members, -1, self.d)).logits.reshape(x.shape[:-1])

    def gradient(self, x: Tensor) -> Tensor:
        """(M, ..., d) -> (M, ..., d): slopes without dropout."""
        return self.slope(self.forward(x.reshape(self.members, -1, self.d))).reshape(x.shape)

    def module(self, member: int) -> nn.Sequential:
        """One network as a plain torch module on unstandardised rows, in float64."""
        weights = [view[member].detach().double().cpu() for view in self._views]
        scale, shift = self.scale[member, 0].double().cpu(), self.shift[member, 0].double().cpu()
        first = weights[0] / scale.unsqueeze(1)
        weights[1] = weights[1] - shift @ first
        weights[0] = first
        parts: list[nn.Module] = []
        make: Callable[[], nn.Module] = nn.ReLU if self.activation == "relu" else nn.Tanh
        for w, b in zip(weights[::2], weights[1::2]):
            linear = nn.Linear(w.shape[0], w.shape[1], dtype=torch.float64)
            linear.weight = nn.Parameter(w.T.contiguous(), requires_grad=False)
            linear.bias = nn.Parameter(b.reshape(-1), requires_grad=False)
            parts += [linear, make()]
        return nn.Sequential(*parts[:-1]).eval()


def _activate(kind: Activation, z: Tensor) -> tuple[Tensor, Tensor]:
    """Activation and its slope."""
    if kind == "relu":
        slope = (z > 0).to(z.dtype)
        return z * slope, slope
    h = torch.tanh(z)
    return h, 1 - h * h
