"""Denoising diffusion over the codes of a conditional auto-encoder: its network, its samplers, guidance by a value."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import torch
from torch import nn

from turnabout.nn.network_training import Schedule, perceptron, train
from turnabout.nn.vae import ConditionalVae, random_given
from turnabout.schema import Schema
from turnabout.typing import Progress, Tensor

SPREAD = 0.5  # standard deviation of scaled codes: what Karras and others call sigma_data
LEVEL_MEAN, LEVEL_SPREAD = -1.2, 1.2  # of the logarithm of the noise levels in training
LARGEST, SMALLEST = 10.0, 0.01  # noise levels of the samplers
BEND = 7.0  # how many of their steps lie at low levels
WAVES = 4  # frequencies with which the network sees the noise level
LEAST_SPREAD = 1e-6  # of a code among the rows; one that is constant is not scaled


Denoise = Callable[[Tensor, float], Tensor]
"""(codes (..., q) under noise, its level) -> (..., q) the mean of the codes from which they may have come."""


class Denoiser(nn.Module):
    r"""The mean of the codes u that may lie behind u + sigma * noise, given what is known of the row.

        D(u; sigma) = c_skip u + c_out F(c_in u; ln(sigma) / 4, known)                                        (1)

        c_skip = s^2 / (sigma^2 + s^2),   c_out = sigma s / sqrt(sigma^2 + s^2),   c_in = 1 / sqrt(sigma^2 + s^2)

    (Karras and others, 2022), where F is a perceptron and s = 1/2 the standard deviation of u: inputs and targets of F
    then have variance 1 at every level.

    Parameters
    ----------
    width : of the codes.
    known : width of what is known of each row.
    hidden : widths of the hidden layers.
    generator : of the first weights.
    """

    loc: Tensor
    scale: Tensor

    def __init__(self, width: int, known: int, hidden: Sequence[int], generator: torch.Generator):
        super().__init__()
        first, *later = perceptron([width + 2 * WAVES + known, *hidden, width], generator)
        self.first, self.later = cast(nn.Linear, first), nn.Sequential(*later)
        self.moving = width + 2 * WAVES  # inputs that differ from step to step
        self.register_buffer("loc", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    def fit_scale(self, codes: Tensor) -> None:
        """Have codes (rows, q) scaled to mean 0 and standard deviation 1/2."""
        spread = codes.std(0, correction=0)
        self.loc.copy_(codes.mean(0))
        self.scale.copy_(torch.where(spread > LEAST_SPREAD, spread, 1.0) / SPREAD)

    def scaled(self, code: Tensor) -> Tensor:
        """Codes as they are noised."""
        return (code - self.loc) / self.scale

    def unscaled(self, u: Tensor) -> Tensor:
        """And back."""
        return self.loc + self.scale * u

    def told(self, known: Tensor) -> Tensor:
        """What is known of rows (..., known) -> (..., h) what it adds to the first layer."""
        return nn.functional.linear(known, self.first.weight[:, self.moving :], self.first.bias)

    def raw(self, u: Tensor, sigma: Tensor, told: Tensor) -> Tensor:
        """F of (1): codes (..., q) under noise of level sigma (..., 1)."""
        waves = torch.exp2(torch.arange(WAVES, device=u.device, dtype=u.dtype))
        angle = sigma.log() / 4 * waves
        c_in = (sigma**2 + SPREAD**2).rsqrt()
        seen = torch.cat([angle.sin(), angle.cos()], -1).expand(*u.shape[:-1], 2 * WAVES)
        moving = torch.cat([c_in * u, seen], -1)
        return self.later(nn.functional.linear(moving, self.first.weight[:, : self.moving]) + told)

    def forward(self, u: Tensor, sigma: Tensor, told: Tensor) -> Tensor:
        """(1): (..., q)."""
        both = sigma**2 + SPREAD**2
        return SPREAD**2 / both * u + sigma * SPREAD * both.rsqrt() * self.raw(u, sigma, told)  # (1)

    def loss(self, u: Tensor, sigma: Tensor, noise: Tensor, told: Tensor) -> Tensor:
        """(b,) squared error of (1), weighted by 1 / c_out^2, so that every level counts as much."""
        both = sigma**2 + SPREAD**2
        error = (self(u + sigma * noise, sigma, told) - u) ** 2
        return (both / (sigma * SPREAD) ** 2 * error).mean(-1)


class DiffusedVae(ConditionalVae):
    """A conditional auto-encoder, and a diffusion over the codes of some of its rows, given what is given of them.

    Parameters
    ----------
    schema, rows, fixed, latent, hidden, seed : as `ConditionalVae`.
    denoiser : widths of the hidden layers of the denoiser.
    """

    def __init__(
        self,
        schema: Schema,
        rows: Tensor,
        fixed: Tensor,
        latent: int,
        hidden: Sequence[int],
        denoiser: Sequence[int],
        seed: int,
    ):
        super().__init__(schema, rows, fixed, latent, hidden, seed)
        generator = torch.Generator().manual_seed(seed)
        self.denoiser = Denoiser(latent, schema.d + len(schema), denoiser, generator)

    def denoise(self, x: Tensor, given: Tensor) -> Denoise:
        """The denoiser of scaled codes of rows (..., d) of which features (..., F) are given."""
        told = self.denoiser.told(self.known(x, given))
        return lambda u, sigma: self.denoiser(u, u.new_tensor([sigma]), told)


def train_diffusion(
    network: DiffusedVae, rows: Tensor, schedule: Schedule, seed: int, progress: Progress | None = None
) -> list[float]:
    """Train the denoiser in place on the codes of rows (rows, d). Returns the held-out losses."""
    x = rows.to(next(network.parameters()))
    with torch.no_grad():
        network.denoiser.fit_scale(network.encode(x, network.fixed.expand(len(x), -1))[0])

    def loss(some: Tensor, done: float, noise: torch.Generator) -> Tensor:
        given = random_given(network.fixed, len(some), noise)
        with torch.no_grad():
            u = network.denoiser.scaled(network.encode(x[some], given)[0])
            known = network.known(x[some], given)
        level = torch.randn(len(some), 1, generator=noise, device=x.device, dtype=x.dtype)
        draw = torch.randn(u.shape, generator=noise, device=x.device, dtype=x.dtype)
        sigma = (LEVEL_MEAN + LEVEL_SPREAD * level).exp()
        return network.denoiser.loss(u, sigma, draw, network.denoiser.told(known))

    return train(network.denoiser, loss, len(x), schedule, seed, progress)


def noise_levels(steps: int, largest: float = LARGEST) -> list[float]:
    """The levels of a sampler with so many steps, from the largest down to 0.

    sigma_i = (largest^(1/7) + i / (steps - 1) * (smallest^(1/7) - largest^(1/7)))^7, and sigma_steps = 0     (2)
    """
    first, last = largest ** (1 / BEND), SMALLEST ** (1 / BEND)
    return [*((first + i / max(1, steps - 1) * (last - first)) ** BEND for i in range(steps)), 0.0]  # (2)


def first_state(denoise: Denoise, noise: Tensor, level: float) -> Tensor:
    """(..., q) codes under noise of a level so large that nothing but their mean is left of them."""
    return denoise(torch.zeros_like(noise), level) + level * noise


def heun(denoise: Denoise, u: Tensor, levels: Sequence[float], stop: Callable[[], bool] = lambda: False) -> Tensor:
    """Codes under noise of the first level -> codes without noise, along the probability flow

        du / dsigma = (u - D(u; sigma)) / sigma                                                           (3)

    in Heun's steps, of second order; the last one, to 0, is Euler's. Where it must stop, it goes to 0 at once.
    """
    for here, there in itertools.pairwise(levels):
        if stop():
            return denoise(u, here)
        slope = (u - denoise(u, here)) / here  # (3)
        ahead = u + (there - here) * slope
        if there > 0:
            slope = (slope + (ahead - denoise(ahead, there)) / there) / 2
        u = u + (there - here) * slope
    return u


def guided(
    denoise: Denoise,
    value: Callable[[Tensor], Tensor],
    u: Tensor,
    levels: Sequence[float],
    draws: Callable[[int], tuple[Tensor, Tensor]],
) -> Iterator[Tensor]:
    """Soft value-based decoding (Li and others, 2024): of several next states, one by the value of where it leads.

    From u at level s, candidates at the next level t are drawn from the diffusion,

        u_m = D + (t / s)^2 (u - D) + t sqrt(1 - (t / s)^2) noise_m,    D = D(u; s)                           (4)

    and one is chosen with a chance proportional to

        exp(value(D(u_m; t)))                                                                             (5)

    which needs no gradient of the value. With no choice (one candidate, or a constant value) this is the plain
    diffusion; with it, rows follow p(row) exp(value(row)), up to errors of (5) and of the steps.

    Parameters
    ----------
    denoise : D.
    value : (n, k, m, q) codes without noise -> (n, k, m).
    u : (n, k, q) codes under noise of the first level.
    levels : from the first level down to 0.
    draws : of step i: noise of the candidates (k, m, q), and luck (k, m), which follows a Gumbel distribution.

    Yields
    ------
    (n, k, q) : D of the states, level by level; the last are samples.
    """
    clean = denoise(u, levels[0])
    for i, (here, there) in enumerate(itertools.pairwise(levels)):
        yield clean
        if there == 0:
            return
        noise, luck = draws(i)
        ratio = (there / here) ** 2
        centre = clean + ratio * (u - clean)
        some = centre.unsqueeze(-2) + there * math.sqrt(1 - ratio) * noise  # (4): (n, k, m, q)
        ends = denoise(some.flatten(1, 2), there).reshape(some.shape)
        best = (value(ends) + luck).argmax(-1)  # (5): the highest of score + luck has just this chance
        pick = best[..., None, None].expand(*best.shape, 1, u.shape[-1])
        u, clean = some.gather(-2, pick).squeeze(-2), ends.gather(-2, pick).squeeze(-2)
