"""A conditional variational auto-encoder over rows: whatever is given of a row, the rest is encoded and drawn."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from turnabout.nn.row_heads import RowHeads
from turnabout.nn.training import Schedule, perceptron, train
from turnabout.schema import Schema
from turnabout.typing import Progress, Tensor

KL_WEIGHT = 0.1  # in training: codes that tell rows apart are worth more than codes that are standard normal
WARM_UP = 0.3  # share of the training in which the weight of the KL term rises to it
LOG_VARIANCE = 8.0  # largest absolute log variance of a code


class ConditionalVae(nn.Module):
    r"""Codes z of rows x, given some of their features c (Kingma and Welling, 2014; Sohn et al., 2015).

    Trained by raising the evidence lower bound

        log p(x | c) >= E_{q(z | x, c)} log p(x | z, c) - KL(q(z | x, c) || N(0, I)) = ELBO(x, c)            (1)

    with a Gaussian q, the KL term weighted by 0.1: with its full weight rare values are not worth their place in the
    code, and people for whom they are the only way are told that there is none. Which features are given changes
    from row to row: in training at random, in use whatever a person cannot or will not change. So one
    network serves every question about the same people.

    Parameters
    ----------
    schema : the layout of the rows.
    rows : (rows, d) encoded people, to scale the numbers by.
    latent, hidden : width of the code and of the hidden layers; the decoder has the same in reverse.
    seed : of the first weights.
    """

    def __init__(self, schema: Schema, rows: Tensor, latent: int, hidden: Sequence[int], seed: int):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.latent = latent
        self.heads = RowHeads(schema, rows)
        known = schema.d + len(schema)
        self.encoder = perceptron([known, *hidden, 2 * latent], generator)
        self.decoder = perceptron([latent + known, *reversed(hidden), self.heads.width], generator)

    def encode(self, x: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (..., d), given features (..., F) -> mean and log variance (..., q) of their codes."""
        seen = torch.cat([self.heads.standardise(x), given.to(x.dtype)], -1)
        mean, log_variance = self.encoder(seen).chunk(2, -1)
        return mean, log_variance.clamp(-LOG_VARIANCE, LOG_VARIANCE)

    def outputs(self, z: Tensor, x: Tensor, given: Tensor) -> Tensor:
        """Codes (..., q), and the rows whose given features hold, -> outputs (..., width)."""
        known = self.heads.standardise(x) * self.heads.spread_given(given)
        return self.decoder(torch.cat([z, known, given.to(x.dtype)], -1))

    def decode(self, z: Tensor, x: Tensor, given: Tensor) -> Tensor:
        """Codes -> likeliest rows (..., d), with what is given of x; gradients are those of expectations."""
        raw = self.outputs(z, x, given)
        row = self.heads.predict(raw)
        row = row + (self.heads.mode(raw) - row).detach()
        return torch.where(self.heads.spread_given(given), x, row)

    def elbo(self, x: Tensor, given: Tensor, noise: Tensor | None = None, weight: float = 1.0) -> Tensor:
        """(...,) the bound (1) of the features that are not given, with noise (..., q); without, at the mean code."""
        mean, log_variance = self.encode(x, given)
        z = mean if noise is None else mean + noise * (0.5 * log_variance).exp()
        likely = self.heads.log_likelihood(self.outputs(z, x, given), x, ~self.heads.spread_given(given))
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(-1)
        return likely - weight * divergence  # (1)


def random_given(fixed: Tensor, n: int, noise: torch.Generator) -> Tensor:
    """(n, F) which features are given: always the fixed ones (F,); half of the time others too, at random."""
    device = noise.device
    share = torch.rand(n, 1, generator=noise, device=device)
    others = torch.rand(n, len(fixed), generator=noise, device=device) < share
    more = torch.rand(n, 1, generator=noise, device=device) < 0.5
    return fixed.to(device) | (others & more)


def train_vae(
    network: ConditionalVae,
    rows: Tensor,
    fixed: Tensor,
    schedule: Schedule,
    seed: int,
    progress: Progress | None = None,
) -> list[float]:
    """Train on rows (rows, d) in place; fixed (F,) features are always given. Returns the held-out losses -ELBO."""
    x = rows.to(next(network.parameters()))

    def loss(some: Tensor, done: float, noise: torch.Generator) -> Tensor:
        given = random_given(fixed, len(some), noise)
        draw = torch.randn(len(some), network.latent, generator=noise, device=x.device, dtype=x.dtype)
        return -network.elbo(x[some], given, draw, KL_WEIGHT * min(1.0, done / WARM_UP))

    return train(network, loss, len(x), schedule, seed, progress)
