"""Gradient search in the codes of a VAE (Joshi et al., 2019)."""

from __future__ import annotations

from typing import Self

import torch

from turnabout.errors import MethodError
from turnabout.methods.latent import LatentDescent, LatentSpace, given_of
from turnabout.parameters import Each, Finite, Positive, Share, Whole, checked
from turnabout.typing import Tensor


@checked(
    MethodError,
    lam=Positive(),
    kappa=Finite(least=0),
    plausible=Share(below=1),
    lr=Positive(),
    steps=Whole(1),
    rounds=Whole(1),
    patience=Whole(1),
    latent=Whole(1),
    hidden=Each(Whole(1)),
    training_steps=Whole(1),
    seed=Whole(0),
)
class Revise(LatentDescent):
    r"""The nearest accepted row that a VAE decodes.

    For each refused person x with code z_0, the mean of q(z | x), solves

        min over z   max(0, kappa - f(g(z))) + lam * c(x, g(z))                                       (1)

    by gradient descent, where g decodes z to the row that would be printed, given what the person cannot change, f is
    the model's margin and c the cost. lam is raised as long as the person is accepted, and lowered otherwise. People
    who are not accepted start again from the codes of the nearest accepted rows. Of the accepted rows met, the
    cheapest is proposed whose density is at least that of a share `plausible` of the accepted background rows.

    The published code decodes what the person cannot change, too, and rounds after the search. Ours gives these
    features to the network, and every step of the search sees the rounded row.

    Use it where plans must resemble real people and the model is differentiable. A code keeps only the gist of a
    row, so a decoded row differs in many cells by little; `find` takes back what is not needed.

    Parameters
    ----------
    lam : first weight of the cost; larger keeps closer to x.
    kappa : margin to reach beyond bare acceptance, in the model's own scale.
    plausible : share of the accepted background rows that are less likely than every row proposed.
    lr, steps : Adam's step size in the code, and its count in each round.
    rounds : rounds of the search over weights and starts.
    patience : steps between two looks at the row.
    latent, hidden : width of the code and of the hidden layers.
    training_steps : of the network, 256 rows each.
    seed : of the network.

    References
    ----------
    Joshi, Koyejo, Vijitbenjaronk, Kim, Ghosh (2019), Towards realistic individual recourse and actionable explanations
    in black-box decision making systems.
    """

    def __init__(
        self,
        lam: float = 0.1,
        kappa: float = 0.1,
        plausible: float = 0.1,
        lr: float = 0.1,
        steps: int = 50,
        rounds: int = 4,
        patience: int = 5,
        latent: int = 8,
        hidden: tuple[int, ...] = (128, 64),
        training_steps: int = 3000,
        seed: int = 0,
    ):
        self.lam = lam
        self.kappa = kappa
        self.plausible = plausible
        self.lr = lr
        self.steps = steps
        self.rounds = rounds
        self.patience = patience
        self.latent = latent
        self.hidden = hidden
        self.training_steps = training_steps
        self.seed = seed

    @classmethod
    def small(cls) -> Self:
        return cls(steps=20, rounds=3, latent=4, hidden=(32,), training_steps=150)

    def space(self, x: Tensor) -> LatentSpace:
        with torch.no_grad():
            first, _ = self.coder.encode(x, given_of(self.problem_, x))

        def starts(turn: int, mine: Tensor) -> Tensor:
            return self.start_codes(x[mine], first[mine], near=turn % 2 == 1)

        return LatentSpace(self.problem_, x, self.coder, first, starts)
