"""A decoder whose codes are the row itself, so that what is done with codes can be counted by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import torch

import turnabout as ta
from turnabout.tensor_rows import TensorRows

PLANE = ta.Schema((ta.Number("a", 0, 1, step=0.1), ta.Number("b", 0, 1, step=0.1)))
PERSON = pd.DataFrame({"a": [0.2], "b": [0.1]})


@dataclass
class Rows(TensorRows):
    """Nothing is told of a row but itself."""

    x: torch.Tensor


class PlainCodes:
    """z is the row; with `spoken`, w comes before it and is added to each cell. Likelier rows are nearer to 0."""

    prior = torch.tensor([[0.0], [0.4]], dtype=torch.float64)

    def __init__(self, spoken: bool = False):
        self.spoken = spoken

    def encode(self, x, given):
        return x.clone(), torch.zeros_like(x)

    def encode_label(self, x, y, given):
        return 0.3 * y.unsqueeze(-1), torch.zeros_like(y).unsqueeze(-1)

    def condition(self, x, given):
        return Rows(x)

    def decode(self, code, condition):
        return code[..., 1:] + code[..., :1] if self.spoken else code

    def elbo(self, x, given):
        return -x.abs().sum(-1)


class PlainDiffusion(PlainCodes):
    """Codes of accepted people follow N(centre, spread^2) in each cell; codes under noise are the codes."""

    def __init__(self, centre: float = 0.7, spread: float = 0.1):
        super().__init__()
        self.centre, self.spread = centre, spread
        self.denoiser = self
        self.levels: list[float] = []  # at which it was asked

    def denoise(self, x, given):
        def mean(u, sigma):
            self.levels.append(sigma)
            return self.centre + self.spread**2 / (self.spread**2 + sigma**2) * (u - self.centre)

        return mean

    def scaled(self, code):
        return code

    def unscaled(self, u):
        return u


def sloped(weights=(1.0, 1.0), bias=-1.0) -> ta.models.Model:
    """Margin w @ (a, b) + bias."""
    layer = torch.nn.Linear(2, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([weights], dtype=torch.float64))
        layer.bias.fill_(bias)
    return ta.models.wrap(layer, PLANE, threshold=0.5, output="logit")


def with_plain_codes(method, spoken=False, threshold=-torch.inf, background=None, coder=None):
    """A fitted method that searches rows as their own codes, for a model with margin a + b - 1."""
    table = pd.DataFrame({"a": [0.1, 0.3, 0.9, 0.6], "b": [0.1, 0.5, 0.8, 0.5]}) if background is None else background
    problem = ta.Problem(PLANE, sloped(), ta.costs.L1(), background=table)
    method.set_params(training_steps=1).fit(problem)
    method.network_, method.threshold_ = coder or PlainCodes(spoken), threshold
    method.run = ta.core.Run()
    return method
