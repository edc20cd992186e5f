"""A diffusion over codes, led by decision and cost at every step (Garg et al., 2025; Li et al., 2024)."""

from __future__ import annotations

from typing import Self

import torch

from turnabout.core import Proposal
from turnabout.errors import MethodError
from turnabout.methods.growing_spheres import BestSamples
from turnabout.methods.latent_diffusion import AGAIN, LatentDiffusion
from turnabout.methods.latent_samples import SPARE, met_rows
from turnabout.nn.diffusion import first_state, guided, noise_levels
from turnabout.parameters import Each, Finite, Positive, Share, Whole, checked
from turnabout.typing import Tensor

REFUSED = 100.0  # what one unit of missing margin counts in (2): more than any cost


@checked(
    MethodError,
    lam=Positive(),
    kappa=Finite(least=0),
    chains=Whole(1),
    candidates=Whole(1),
    steps=Whole(2),
    plausible=Share(below=1),
    latent=Whole(1),
    hidden=Each(Whole(1)),
    training_steps=Whole(1),
    denoiser=Each(Whole(1)),
    denoiser_steps=Whole(1),
    seed=Whole(0),
)
class TabsynSvdd(LatentDiffusion):
    r"""Rows that accepted people might have, drawn for the person in steps that lead near them.

    For each refused person x, draws rows from

        p(x' | accepted, what x cannot change) * exp(lam * r(x'))                                           (1)

        r(x') = -c(x, x') - 100 * max(0, kappa - f(x'))                                                     (2)

    with c the problem's cost, f the model's margin and p a diffusion over codes, trained on accepted background rows.
    Soft value-based decoding (SVDD) does so without gradients: each step of the diffusion draws `candidates`, decodes
    each to the row that it is expected to end in, as it would be printed, and goes on with one of them, drawn with
    chances proportional to exp(lam * r). Of the rows met on the way, the cheapest are proposed that are accepted and
    plausible. For people who meet none, the diffusion begins again around the code of a near accepted person. Random
    numbers are the same for all.

    The published method draws without knowing the person, and has (2) punish what they cannot change, by 100, which
    often failed; decision and directions do not enter; the published code takes the candidate of the highest value, not
    a draw. Ours gives what cannot change to the networks, so that the 100 serve the decision.

    Use it for any model where plans must resemble accepted people and be near before `find` walks them back. It asks
    the model about chains * candidates * steps rows for each person; `TabsynQ` asks about fewer.

    Parameters
    ----------
    lam : weight of the reward (2); larger keeps closer to x.
    kappa : margin to reach beyond bare acceptance, in the model's own scale.
    chains : rows drawn for each person.
    candidates : of each step.
    steps : of the diffusion.
    plausible : share of the accepted background rows that are less likely than every row proposed.
    latent, hidden : width of the code and of the auto-encoder's hidden layers.
    training_steps : of the auto-encoder, 256 rows each.
    denoiser, denoiser_steps : widths of the diffusion's hidden layers, and its training.
    seed : of the networks.

    References
    ----------
    Garg, Nagalapatti, Sarawagi (2025), From search to sampling: generative models for robust algorithmic recourse.
    Li et al. (2024), Derivative-free guidance in continuous and discrete diffusion models with soft value-based
    decoding.
    Zhang et al. (2024), Mixed-type tabular data synthesis with score-based diffusion in latent space.
    """

    def __init__(
        self,
        lam: float = 30.0,
        kappa: float = 0.1,
        chains: int = 2,
        candidates: int = 16,
        steps: int = 24,
        plausible: float = 0.1,
        latent: int = 8,
        hidden: tuple[int, ...] = (128, 64),
        training_steps: int = 3000,
        denoiser: tuple[int, ...] = (128, 128),
        denoiser_steps: int = 3000,
        seed: int = 0,
    ):
        self.lam = lam
        self.kappa = kappa
        self.chains = chains
        self.candidates = candidates
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
        return cls(chains=2, candidates=4, steps=6, hidden=(32,), denoiser=(32,), **small)

    def reward(self, x: Tensor, z: Tensor) -> Tensor:
        """(2) of codes z (n, s, q) of people x (n, d), (n, s)."""
        met = self.look(x, z)
        return -met.cost - REFUSED * (self.kappa - met.margin).clamp(min=0)  # (2)

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
        again = int(near_accepted)
        noise = self.normal(x, (self.chains, self.latent), "codes", again)
        levels = noise_levels(self.steps, AGAIN) if near_accepted else noise_levels(self.steps)

        def draws(step: int) -> tuple[Tensor, Tensor]:
            shape = self.chains, self.candidates
            luck = self.gumbel(x, shape, "chosen", again, step)
            return self.normal(x, (*shape, self.latent), "candidates", again, step), luck

        most = self.people_at_once(x, self.chains * self.candidates)
        for part in self.run.parts(len(people), most, "codes", self.chains * self.candidates):
            some = people[part]
            own = x[some]
            denoise = self.denoise(own)
            if near_accepted:
                u = self.accepted_codes(own) + AGAIN * noise
            else:
                u = first_state(denoise, noise.expand(len(some), -1, -1), levels[0])

            def value(ends: Tensor, own: Tensor = own) -> Tensor:
                flat = self.unscaled(ends).flatten(1, 2)
                return self.lam * self.reward(own, flat).reshape(ends.shape[:-1])

            for ends in guided(denoise, value, u, levels, draws):
                self._keep(own, some, self.unscaled(ends), plausible, accepted)
                if self.run.expired:
                    return
