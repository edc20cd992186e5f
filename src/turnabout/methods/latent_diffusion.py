"""The family of methods that draw codes by diffusion: what accepted people's codes are like, given what a person has.

The auto-encoder is the one that the other latent methods train, and is trained once for all of them. The diffusion is
trained on the codes of accepted background rows: those that the model accepts and, where the problem has labels, whose
label is a yes. Like the auto-encoder it is given what a person cannot change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from turnabout.core import Problem
from turnabout.methods.latent import FURTHEST, LatentMethod, block_size, given_of, immutable
from turnabout.methods.latent_samples import LatentSampler
from turnabout.methods.networks import trained_once
from turnabout.nn.diffusion import Denoise, DiffusedVae, train_diffusion
from turnabout.nn.network_training import Schedule
from turnabout.nn.vae import ConditionalVae, train_vae
from turnabout.typing import Progress, Tensor

FEWEST = 10  # accepted rows from which a diffusion is learned; with fewer it is learned from a wider choice
AGAIN = 1.0  # noise level from which codes of accepted people are drawn again: twice the spread of all codes

CACHED = 1 << 13  # codes that are denoised together, so that a processor's cache holds what the network makes of them


@dataclass(frozen=True)
class TwoPartProgress:
    """One bar over the training of the auto-encoder and of the diffusion."""

    progress: Progress | None
    before: int  # steps of the first part
    after: int

    def first(self, done: int, total: int) -> None:
        """Steps of the first part."""
        if self.progress is not None:
            self.progress(done, self.before + self.after)

    def second(self, done: int, total: int) -> None:
        """And of the second."""
        self.first(self.before + done, total)


class LatentDiffusion(LatentSampler):
    """A method that draws codes by diffusion.

    Parameters
    ----------
    denoiser : widths of the denoiser's hidden layers.
    denoiser_steps : of its training, 256 rows each; fewer for small tables.
    """

    training: ClassVar[tuple[str, ...]] = (*LatentMethod.training, "denoiser", "denoiser_steps")

    denoiser: tuple[int, ...]
    denoiser_steps: int

    def _network(self, problem: Problem) -> nn.Module:
        assert problem.background_x is not None
        rows, fixed = problem.background_x.cpu().float(), immutable(problem)
        widths = self.latent, tuple(self.hidden), tuple(self.denoiser)
        return DiffusedVae(problem.schema, rows, fixed, *widths, self.seed)

    def _train(self, network: nn.Module, problem: Problem) -> None:
        assert isinstance(network, DiffusedVae) and problem.background_x is not None
        rows, schedule = accepted_rows(problem).float(), Schedule(self.denoiser_steps)
        before = Schedule(self.training_steps).steps_on(len(problem.background_x))
        bar = TwoPartProgress(self._training, before, schedule.steps_on(len(rows)))
        shared = trained_once(problem.background_x, self._vae_key(problem), lambda: self._vae(problem, bar))
        network.load_state_dict({**network.state_dict(), **shared.state_dict()})
        train_diffusion(network, rows, schedule, self.seed, bar.second)

    def _vae_key(self, problem: Problem) -> tuple[Any, ...]:
        """The key of the auto-encoder that the other latent methods use."""
        told = (repr(getattr(self, name)) for name in LatentMethod.training)
        names = LatentMethod._network.__qualname__, LatentMethod._train.__qualname__
        return (*names, "", *told, tuple(immutable(problem).tolist()))

    def _vae(self, problem: Problem, bar: TwoPartProgress) -> nn.Module:
        assert problem.background_x is not None
        network = LatentMethod._network(self, problem).to(problem.background_x.device)
        assert isinstance(network, ConditionalVae)
        train_vae(network, problem.background_x.float(), Schedule(self.training_steps), self.seed, bar.first)
        return network

    def denoise(self, x: Tensor) -> Denoise:
        """The denoiser for people x (n, d): scaled codes (n, s, q) under noise -> (n, s, q)."""
        own = x.unsqueeze(1)
        denoise: Denoise = self.coder.denoise(own, given_of(self.problem_, own))
        return denoise

    def unscaled(self, u: Tensor) -> Tensor:
        """Scaled codes (..., q), which are noised -> codes that are decoded."""
        z: Tensor = self.coder.denoiser.unscaled(u)
        return z.clamp(-FURTHEST, FURTHEST)

    def accepted_codes(self, x: Tensor) -> Tensor:
        """(n, 1, q) scaled codes: of near accepted rows, the one that decodes to the row of highest margin."""
        first, _ = self.coder.encode(x, given_of(self.problem_, x))
        u: Tensor = self.coder.denoiser.scaled(self.start_codes(x, first, near=True))
        return u.unsqueeze(1)

    def people_at_once(self, x: Tensor, codes: int) -> int:
        """How many people are searched together, with so many codes for each."""
        most = block_size(codes * x.shape[1])
        return most if x.is_cuda else min(most, max(1, CACHED // codes))

    def normal(self, x: Tensor, shape: tuple[int, ...], *labels: str | int) -> Tensor:
        """Standard normal numbers, the same for everyone."""
        return torch.from_numpy(self.run.rng(*labels).standard_normal(shape)).to(x)

    def gumbel(self, x: Tensor, shape: tuple[int, ...], *labels: str | int) -> Tensor:
        """Numbers G of Gumbel's distribution: argmax(v + G) is a draw with chances proportional to exp(v)."""
        return torch.from_numpy(self.run.rng(*labels).gumbel(size=shape)).to(x)


def accepted_rows(problem: Problem) -> Tensor:
    """(rows, d) background rows that the model and the labels accept; with too few of these, more."""
    rows, margin, labels = problem.background_x, problem.background_margin, problem.labels
    assert rows is not None and margin is not None
    accepted = margin >= 0
    for chosen in (accepted if labels is None else accepted & labels, accepted):
        if int(chosen.sum()) >= FEWEST:
            return rows[chosen]
    return rows
