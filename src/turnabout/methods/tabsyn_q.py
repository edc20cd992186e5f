"""Rows drawn by a diffusion over codes, and near ones among them (Garg et al., 2025, on Zhang et al., 2024)."""

from __future__ import annotations

from typing import Self

import torch

from turnabout.core import Proposal
from turnabout.errors import MethodError
from turnabout.methods.growing_spheres import BestSamples
from turnabout.methods.latent_diffusion import AGAIN, LatentDiffusion
from turnabout.methods.latent_samples import SPARE, met_rows
from turnabout.nn.diffusion import first_state, heun, noise_levels
from turnabout.parameters import Each, Positive, Share, Whole, checked
from turnabout.typing import Tensor


@checked(
    MethodError,
    lam=Positive(),
    samples=Whole(1),
    steps=Whole(2),
    plausible=Share(below=1),
    latent=Whole(1),
    hidden=Each(Whole(1)),
    training_steps=Whole(1),
    denoiser=Each(Whole(1)),
    denoiser_steps=Whole(1),
    seed=Whole(0),
)
class TabsynQ(LatentDiffusion):
    r"""Rows that accepted people might have, drawn for the person, and of these near ones.

    For each refused person x, draws rows

        x'_i = g(z_i),    z_i ~ p(z | accepted, what x cannot change),    i = 1, ..., samples                (1)

    where p is a diffusion trained on the codes of accepted background rows, and g decodes a code to the row that
    would be printed. Of the x'_i that the model accepts and that are plausible, it proposes draws without
    replacement from

        Q(x'_i | x)  proportional to  exp(-lam * c(x, x'_i))                                                (2)

    with c the problem's cost. For people who meet none, codes are drawn again from around that of a near accepted
    person. Random numbers are the same for all.

    The published method draws one table for everyone, by a diffusion that knows nothing of the person: most rows
    differ in what they cannot change, the others may go in forbidden directions, and the one drawn from (2) is not put
    to the model. Ours gives what cannot change to both networks, and draws for the person. The published
    auto-encoder needs a categorical column, and divides codes by 2 whatever their spread; ours takes any table, and
    scales each code by its own.

    Use it for any model where plans must resemble accepted people. Its rows are typical rather than near, before `find`
    walks them back; `TabsynSvdd` draws nearer ones, for more questions to the model.

    Parameters
    ----------
    lam : weight of the cost in (2); larger keeps closer to x.
    samples : rows drawn for each person.
    steps : of the sampler of (1), two calls of the network each.
    plausible : share of the accepted background rows that are less likely than every row proposed.
    latent, hidden : width of the code and of the auto-encoder's hidden layers.
    training_steps : of the auto-encoder, 256 rows each.
    denoiser, denoiser_steps : widths of the diffusion's hidden layers, and its training.
    seed : of the networks.

    References
    ----------
    Garg, Nagalapatti, Sarawagi (2025), From search to sampling: generative models for robust algorithmic recourse.
    Zhang et al. (2024), Mixed-type tabular data synthesis with score-based diffusion in latent space.
    """

    def __init__(
        self,
        lam: float = 5.0,
        samples: int = 64,
        steps: int = 10,
        plausible: float = 0.1,
        latent: int = 8,
        hidden: tuple[int, ...] = (128, 64),
        training_steps: int = 3000,
        denoiser: tuple[int, ...] = (128, 128),
        denoiser_steps: int = 3000,
        seed: int = 0,
    ):
        self.lam = lam
        self.samples = samples
        self.steps = steps
        self.plausible = plausible
        self.latent = latent
        self.hidden = hidden
        self.training_steps = training_steps
        self.denoiser = denoiser
        self.denoiser_steps = denoiser_steps
        self.seed = seed

    @classmethod
    def small(cls) -> Self:
        small: dict[str, int] = {"latent": 4, "training_steps": 150, "denoiser_steps": 150}
        return cls(samples=16, steps=5, hidden=(32,), denoiser=(32,), **small)

    def _search(self, x: Tensor) -> Proposal:
        k = self.run.options + SPARE
        plausible, accepted = BestSamples.none(x, k), BestSamples.none(x, k)
        everyone = torch.arange(len(x), device=x.device)
        self._draw(x, everyone, plausible, accepted)
        left = torch.isinf(plausible.cost[:, 0])
        if bool(left.any()):
            self._draw(x, everyone[left], plausible, accepted, near_accepted=True)
        return met_rows(plausible, accepted)

    def _draw(
        self, x: Tensor, people: Tensor, plausible: BestSamples, accepted: BestSamples, near_accepted: bool = False
    ) -> None:
        """Draw and keep rows of some people, anywhere or from around the codes of accepted people."""
        noise = self.normal(x, (self.samples, self.latent), "codes", int(near_accepted))
        luck = self.gumbel(x, (self.samples,), "chosen", int(near_accepted)) / self.lam
        levels = noise_levels(self.steps, AGAIN) if near_accepted else noise_levels(self.steps)
        most = self.people_at_once(x, self.samples)
        for part in self.run.parts(len(people), most, "codes", self.samples):
            if self.run.expired:
                return
            some = people[part]
            own = x[some]
            denoise = self.denoise(own)
            if near_accepted:
                u = self.accepted_codes(own) + AGAIN * noise
            else:
                u = first_state(denoise, noise.expand(len(some), -1, -1), levels[0])
            z = self.unscaled(heun(denoise, u, levels, lambda: self.run.expired))  # (1)
            self._keep(own, some, z, plausible, accepted, luck)  # (2)
