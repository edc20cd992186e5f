"""A conditional variational auto-encoder over rows: whatever is given of a row, the rest is encoded and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from turnabout.nn.network_training import Schedule, perceptron, train
from turnabout.nn.row_heads import RowHeads
from turnabout.schema import Schema
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Progress, Tensor

KL_WEIGHT = 0.1  # in training: codes that tell rows apart are worth more than codes that are standard normal
WARM_UP = 0.3  # share of the training in which the weight of the KL term rises to it
LOG_VARIANCE = 8.0  # largest absolute log variance of a code


@dataclass
class GivenCells(TensorRows):
    """What a decoder is told of rows, for as many codes of each as are decoded."""

    x: Tensor  # (..., d) the rows
    cells: Tensor  # (..., d) True where the cell is given
    told: Tensor  # (..., h) what the given cells add to the decoder's first layer


class RowDecoder(nn.Module):
    """Draws rows from codes, given some of their features.

    Parameters
    ----------
    schema : the layout of the rows.
    rows : (rows, d) encoded people, to scale the numbers by.
    fixed : (F,) True for features that are given of every row.
    width : of the code.
    hidden : width of the hidden layers, last first.
    generator : of the first weights.
    """

    fixed: Tensor

    def __init__(
        self,
        schema: Schema,
        rows: Tensor,
        fixed: Tensor,
        width: int,
        hidden: Sequence[int],
        generator: torch.Generator,
    ):
        super().__init__()
        self.width = width
        self.heads = RowHeads(schema, rows, fixed)
        self.register_buffer("fixed", fixed.clone())
        known = schema.d + len(schema)
        first, *later = perceptron([width + known, *reversed(hidden), self.heads.width], generator)
        self.first, self.later = cast(nn.Linear, first), nn.Sequential(*later)

    def condition(self, x: Tensor, given: Tensor) -> GivenCells:
        """Rows (..., d), and which of their features (..., F) are given."""
        weight = self.first.weight[:, self.width :]
        told = nn.functional.linear(self.known(x, given), weight, self.first.bias)
        return GivenCells(x, self.heads.spread_given(given), told)

    def known(self, x: Tensor, given: Tensor) -> Tensor:
        """(..., d + F) what networks see of rows (..., d) of which features (..., F) are given."""
        cells = self.heads.spread_given(given)
        return torch.cat([self.heads.standardise(x) * cells, given.to(x.dtype)], -1)

    def outputs(self, code: Tensor, condition: GivenCells) -> Tensor:
        """Codes (..., width) -> outputs of the network, as the heads read them."""
        weight = self.first.weight[:, : self.width]
        return self.later(nn.functional.linear(code, weight) + condition.told)

    def decode(self, code: Tensor, condition: GivenCells) -> Tensor:
        """Codes (..., width) -> likeliest rows (..., d), with what is given in its place."""
        row = self.heads.likeliest(self.outputs(code, condition), condition.x)
        return torch.where(condition.cells, condition.x, row)

    def log_likelihood(self, code: Tensor, condition: GivenCells) -> Tensor:
        """(...,) log p of the cells that are not given, by a code."""
        return self.heads.log_likelihood(self.outputs(code, condition), condition.x, ~condition.cells)


class ConditionalVae(RowDecoder):
    r"""Codes z of rows x, given some of their features c (Kingma and Welling, 2014; Sohn et al., 2015).

    Trained by raising the evidence lower bound

        log p(x | c) >= E_{q(z | x, c)} log p(x | z, c) - KL(q(z | x, c) || N(0, I)) = ELBO(x, c)            (1)

    with a Gaussian q, the KL term weighted by 0.1: with its full weight rare values are not worth their place in the
    code, and people for whom they are the only way are told that there is none. Which features are given changes
    from row to row: in training at random, in use whatever a person cannot or will not change. So one
    network serves every question about the same people.

    Parameters
    ----------
    schema, rows, fixed : as `RowDecoder`.
    latent, hidden : width of the code and of the hidden layers; the decoder has the same in reverse.
    seed : of the first weights.
    """

    def __init__(self, schema: Schema, rows: Tensor, fixed: Tensor, latent: int, hidden: Sequence[int], seed: int):
        generator = torch.Generator().manual_seed(seed)
        super().__init__(schema, rows, fixed, latent, hidden, generator)
        self.encoder = perceptron([schema.d + len(schema), *hidden, 2 * latent], generator)

    def encode(self, x: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (..., d), given features (..., F) -> mean and log variance (..., q) of their codes."""
        return gaussian(self.encoder(torch.cat([self.heads.standardise(x), given.to(x.dtype)], -1)))

    def elbo(self, x: Tensor, given: Tensor, noise: Tensor | None = None, weight: float = 1.0) -> Tensor:
        """(...,) the bound (1) of the features that are not given, with noise (..., q); without, at the mean code."""
        mean, log_variance = self.encode(x, given)
        z = mean if noise is None else mean + noise * (0.5 * log_variance).exp()
        return self.log_likelihood(z, self.condition(x, given)) - weight * divergence(mean, log_variance)  # (1)


def gaussian(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs (..., 2 q) of an encoder -> mean and log variance (..., q)."""
    mean, log_variance = raw.chunk(2, -1)
    return mean, log_variance.clamp(-LOG_VARIANCE, LOG_VARIANCE)


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """(...,) KL(N(mean, variance) || N(0, I))."""
    return 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(-1)


def random_given(fixed: Tensor, n: int, noise: torch.Generator) -> Tensor:
    """(n, F) which features are given: always the fixed ones (F,); half of the time others too, at random."""
    device = noise.device
    share = torch.rand(n, 1, generator=noise, device=device)
    others = torch.rand(n, len(fixed), generator=noise, device=device) < share
    more = torch.rand(n, 1, generator=noise, device=device) < 0.5
    return fixed.to(device) | (others & more)


def train_vae(
    network: ConditionalVae, rows: Tensor, schedule: Schedule, seed: int, progress: Progress | None = None
) -> list[float]:
    """Train on rows (rows, d) in place. Returns the held-out losses: -ELBO with the weighted KL term."""
    x = rows.to(next(network.parameters()))

    def loss(some: Tensor, done: float, noise: torch.Generator) -> Tensor:
        given = random_given(network.fixed, len(some), noise)
        draw = torch.randn(len(some), network.width, generator=noise, device=x.device, dtype=x.dtype)
        return -network.elbo(x[some], given, draw, KL_WEIGHT * min(1.0, done / WARM_UP))

    return train(network, loss, len(x), schedule, seed, progress)
