"""An auto-encoder whose code holds a label apart: z for what does not depend on it, w for what does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from turnabout.nn.network_training import Schedule, perceptron, train
from turnabout.nn.vae import KL_WEIGHT, WARM_UP, RowDecoder, divergence, gaussian, random_given
from turnabout.schema import Schema
from turnabout.typing import Progress, Tensor

ADVERSARY = 1.0  # weight of the term that hides the label from z
APART = 2.0  # distance of the two priors of w when training begins


class ConditionalSubspaceVae(RowDecoder):
    r"""Codes (w, z) of rows x with labels y, given some of their features c (Klys, Snell, Zemel, 2018).

    Trained by raising

        E log p(x | w, z, c) - KL(q(z | x, c) || N(0, I)) - KL(q(w | x, y, c) || p(w | y)) + H(r(y | z))        (1)

    where p(w | y) is a Gaussian for each label, learned, and r an adversary that guesses y from z, trained to guess
    well, while the encoder of z is trained to leave it in doubt (H, the entropy of its guess). So w alone says who is
    accepted, and moving w to where p(w | y = 1) lies turns a refused person into an accepted one alike otherwise.

    Parameters
    ----------
    schema, rows, fixed, latent, hidden, seed : as `ConditionalVae`.
    label_width : of w.
    """

    def __init__(
        self,
        schema: Schema,
        rows: Tensor,
        fixed: Tensor,
        latent: int,
        label_width: int,
        hidden: Sequence[int],
        seed: int,
    ):
        generator = torch.Generator().manual_seed(seed)
        super().__init__(schema, rows, fixed, label_width + latent, hidden, generator)
        self.latent, self.label_width = latent, label_width
        known = schema.d + len(schema)
        self.encoder = perceptron([known, *hidden, 2 * latent], generator)
        self.label_encoder = perceptron([known + 1, *hidden, 2 * label_width], generator)
        self.adversary = perceptron([latent, hidden[-1], 1], generator)
        prior = torch.zeros(2, label_width)
        prior[1] = APART
        self.prior = nn.Parameter(prior)  # means of p(w | y); the variances are 1

    def encode(self, x: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (..., d), given features (..., F) -> mean and log variance (..., q) of z."""
        return gaussian(self.encoder(self._seen(x, given)))

    def encode_label(self, x: Tensor, y: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        """The same of w, for labels y (...)."""
        seen = torch.cat([self._seen(x, given), y.to(x.dtype).unsqueeze(-1)], -1)
        return gaussian(self.label_encoder(seen))

    def elbo(self, x: Tensor, given: Tensor) -> Tensor:
        """(...,) the bound (1) without its last term, for label 1, at the mean codes."""
        y = torch.ones(x.shape[:-1], dtype=x.dtype, device=x.device)
        likely, apart, _ = self._terms(x, y, given, None, None)
        return likely - apart

    def loss(self, x: Tensor, y: Tensor, given: Tensor, noise: torch.Generator, weight: float) -> Tensor:
        """(b,) what training lowers: (1) with its sign turned, and the adversary's own loss."""
        draws = [
            torch.randn(len(x), width, generator=noise, device=x.device, dtype=x.dtype)
            for width in (self.label_width, self.latent)
        ]
        likely, apart, z = self._terms(x, y, given, *draws)
        own = self.adversary(z.detach()).squeeze(-1)
        guess = nn.functional.binary_cross_entropy_with_logits(own, y, reduction="none")
        frozen = {name: p.detach() for name, p in self.adversary.named_parameters()}
        seen = torch.func.functional_call(self.adversary, frozen, (z,)).squeeze(-1)
        chance = seen.sigmoid()
        entropy = chance * nn.functional.softplus(-seen) + (1 - chance) * nn.functional.softplus(seen)
        return -likely + weight * apart - ADVERSARY * entropy + guess  # (1)

    def _terms(
        self, x: Tensor, y: Tensor, given: Tensor, w_noise: Tensor | None, z_noise: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-likelihood and both divergences (...,), and z, drawn with noise or at its mean."""
        mean, log_variance = self.encode(x, given)
        w_mean, w_log_variance = self.encode_label(x, y, given)
        z = mean if z_noise is None else mean + z_noise * (0.5 * log_variance).exp()
        w = w_mean if w_noise is None else w_mean + w_noise * (0.5 * w_log_variance).exp()
        likely = self.log_likelihood(torch.cat([w, z], -1), self.condition(x, given))
        apart = divergence(w_mean - self.prior[y.long()], w_log_variance)
        return likely, divergence(mean, log_variance) + apart, z

    def _seen(self, x: Tensor, given: Tensor) -> Tensor:
        return torch.cat([self.heads.standardise(x), given.to(x.dtype)], -1)


def train_csvae(
    network: ConditionalSubspaceVae,
    rows: Tensor,
    labels: Tensor,
    schedule: Schedule,
    seed: int,
    progress: Progress | None = None,
) -> list[float]:
    """Train on rows (rows, d) with labels (rows,) in place. Returns the held-out losses."""
    x = rows.to(next(network.parameters()))
    y = labels.to(x)

    def loss(some: Tensor, done: float, noise: torch.Generator) -> Tensor:
        given = random_given(network.fixed, len(some), noise)
        return network.loss(x[some], y[some], given, noise, KL_WEIGHT * min(1.0, done / WARM_UP))

    return train(network, loss, len(x), schedule, seed, progress)
