"""Sampling in growing shells around the code of a VAE (Pawelczyk et al., 2020)."""

from __future__ import annotations

from typing import Self

import torch

from turnabout.core import Proposal
from turnabout.errors import MethodError
from turnabout.methods.growing_spheres import BestSamples
from turnabout.methods.latent import FURTHEST, blocks, given_of
from turnabout.methods.latent_samples import SPARE, LatentSampler, met_rows
from turnabout.parameters import Each, Positive, Share, Whole, checked
from turnabout.typing import Tensor


@checked(
    MethodError,
    samples=Whole(1),
    radius=Positive(),
    shells=Whole(1),
    plausible=Share(below=1),
    latent=Whole(1),
    hidden=Each(Whole(1)),
    training_steps=Whole(1),
    seed=Whole(0),
)
class Cchvae(LatentSampler):
    r"""The cheapest accepted one of rows decoded around the person's code, in shells that grow until one is met.

    For each refused person x with code z_0, the mean of q(z | x), draws

        x' = g(z_0 + rho * u),    u uniform on the unit sphere,    rho uniform in [a, b]                     (1)

    in shells [a, b] of width `radius`, one after another, where g decodes a code to the row that would be printed,
    given what the person cannot change. The first shell with a row that the model accepts and that is plausible ends
    the search; its cheapest such rows by the problem's cost are proposed. For people who meet none, the shells begin
    again around the code of the nearest accepted person, as that code decodes for them. Draws are the same for all.

    The published code decodes immutable features freely and lets its network's codes collapse, so that on Adult none
    of its rows was accepted. Ours gives these features to the network, and weighs the term that makes codes collapse
    by a tenth. The published method names its radius in the L1 norm; ours is Euclidean.

    Use it for models without gradients where plans must resemble real people. It asks about `samples` rows for each
    shell; Revise asks fewer where the model is differentiable.

    Parameters
    ----------
    samples : in each shell.
    radius : width of a shell, in units of the code's standard normal prior.
    shells : at most so many.
    plausible : share of the accepted background rows that are less likely than every row proposed.
    latent, hidden : width of the code and of the hidden layers.
    training_steps : of the network, 256 rows each.
    seed : of the network.

    References
    ----------
    Pawelczyk, Broelemann, Kasneci (2020), Learning model-agnostic counterfactual explanations for tabular data.
    """

    def __init__(
        self,
        samples: int = 32,
        radius: float = 0.5,
        shells: int = 12,
        plausible: float = 0.1,
        latent: int = 8,
        hidden: tuple[int, ...] = (128, 64),
        training_steps: int = 3000,
        seed: int = 0,
    ):
        self.samples = samples
        self.radius = radius
        self.shells = shells
        self.plausible = plausible
        self.latent = latent
        self.hidden = hidden
        self.training_steps = training_steps
        self.seed = seed

    @classmethod
    def small(cls) -> Self:
        return cls(samples=16, latent=4, hidden=(32,), training_steps=150)

    def _search(self, x: Tensor) -> Proposal:
        k = self.run.options + SPARE
        plausible, accepted = BestSamples.none(x, k), BestSamples.none(x, k)
        centre, _ = self.coder.encode(x, given_of(self.problem_, x))
        self._grow(x, torch.arange(len(x), device=x.device), centre, plausible, accepted)
        left = torch.isinf(plausible.cost[:, 0]).nonzero().squeeze(1)
        if len(left) and not self.run.expired:
            self._grow(x, left, self.start_codes(x[left], centre[left], near=True), plausible, accepted)
        return met_rows(plausible, accepted)

    def _grow(self, x: Tensor, people: Tensor, centre: Tensor, plausible: BestSamples, accepted: BestSamples) -> None:
        """Shells around the codes `centre` (m, q) of some people, until each has a plausible row."""
        active = torch.arange(len(people), device=x.device)
        for shell in range(self.shells):
            rng = self.run.rng("shell", shell)
            direction = torch.from_numpy(rng.standard_normal((self.samples, self.latent))).to(x)
            direction /= direction.norm(dim=1, keepdim=True).clamp(min=1e-12)
            rho = self.radius * (shell + torch.from_numpy(rng.random((self.samples, 1))).to(x))
            rho[0] *= shell > 0  # the code itself
            hit = torch.zeros(len(active), dtype=torch.bool, device=x.device)
            for b in blocks(len(active), self.samples * x.shape[1]):
                if self.run.expired:
                    return
                some = people[active[b]]
                z = (centre[active[b]].unsqueeze(1) + rho * direction).clamp(-FURTHEST, FURTHEST)  # (1)
                hit[b] = self._keep(x[some], some, z, plausible, accepted)
            active = active[~hit]
            if not len(active):
                return
