"""Gradient search for rows that a second network, trained on true labels, verifies (Friedbaum et al., 2024)."""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import nn

from turnabout.core import Problem
from turnabout.errors import MethodError, ModelError
from turnabout.methods.gradient import Assessed, PrintedDescent, PrintedSpace
from turnabout.methods.networks import NetworkMethod
from turnabout.nn.network_training import Schedule
from turnabout.nn.pair_verifier import PairVerifier, train_verifier
from turnabout.parameters import Each, Finite, Positive, Share, Whole, checked
from turnabout.typing import Tensor

DEEPER = 0.9  # share of 1 - p that the descent leaves, so that it does not stop short of p
DOUBTED = 1e6  # added to the cost of rows that miss (3): they come after all others


@checked(
    MethodError,
    p=Share(above=0, below=1),
    verified=Share(),
    lam=Finite(least=0),
    kappa=Finite(least=0),
    lr=Positive(),
    steps=Whole(1),
    rounds=Whole(1),
    patience=Whole(1),
    hidden=Each(Whole(1)),
    training_steps=Whole(1),
    seed=Whole(0),
)
class Tap(NetworkMethod, PrintedDescent):
    r"""The nearest row that the model accepts clearly and that a verifier calls another class than the person's.

    The verifier V(x, x') is a network trained on pairs of background rows, half of them of different classes by the
    labels of the problem, to say that they differ; without labels, by the model's own decisions. With P the model's
    probability of a yes, how far a row falls short of the region P >= p is

        D(x') = P log(P / p) + (1 - P) log((1 - P) / (1 - p))   where P < p, and 0 elsewhere            (1)

    For each refused person x, solves

        min over x'   D(x') + max(0, v - V(x, x')) + max(0, kappa - f(x')) + lam * c(x, x')             (2)

    with f the model's margin and c the problem's cost. A row is verified when

        V(x, x') >= v * (1 - D(x') / D(x))                                                              (3)

    so that the bar is v where the region is reached. The method's criterion is both: D(x') = 0 and (3). For people who
    cannot get there, the cheapest accepted row that meets (3) is kept, then the cheapest accepted one.

    The published code searches one person at a time with penalties in place of bounds and levels, rounds afterwards,
    and asks the verifier only when all is over; (3) alone lets x itself pass, whose bar is 0. Ours sees the
    row that would be printed at every step, follows the slope of V, and asks for the region too. lam is searched for
    each person, as `Wachter` does, in place of a sweep of 21 values. If the model's own cut-off is higher than p, it
    takes the place of p.

    Use it where labels are at hand and the model may be wrong about rows unlike those it was trained on.

    Parameters
    ----------
    p : probability of a yes to reach.
    verified : v, the bar of the verifier.
    lam : first weight of the cost; larger keeps closer to x.
    kappa : margin to reach beyond bare acceptance, in the model's own scale.
    lr, steps : Adam's step size, and its count in each round.
    rounds : rounds of the search over lam.
    patience : steps between two looks at the row.
    hidden : widths of the verifier's hidden layers.
    training_steps : of the verifier, 256 pairs each.
    seed : of the verifier.

    References
    ----------
    Friedbaum, Adiga, Tandon (2024), Trustworthy actionable perturbations.
    """

    training: ClassVar[tuple[str, ...]] = ("hidden", "training_steps", "seed")

    def __init__(
        self,
        p: float = 0.9,
        verified: float = 0.51,
        lam: float = 0.5,
        kappa: float = 0.05,
        lr: float = 0.05,
        steps: int = 50,
        rounds: int = 4,
        patience: int = 5,
        hidden: tuple[int, ...] = (50, 50, 50, 50),
        training_steps: int = 3000,
        seed: int = 0,
    ):
        self.p = p
        self.verified = verified
        self.lam = lam
        self.kappa = kappa
        self.lr = lr
        self.steps = steps
        self.rounds = rounds
        self.patience = patience
        self.hidden = hidden
        self.training_steps = training_steps
        self.seed = seed

    @classmethod
    def small(cls) -> Self:
        return cls(steps=40, rounds=3, hidden=(16,), training_steps=150)

    # -- the verifier -----------------------------------------------------------------------------------------

    def _fit(self, problem: Problem) -> None:
        try:
            problem.model.margin_at(self.p)
        except ModelError as error:
            raise MethodError(f"Tap aims at a probability: {error.message}", hint=error.hint) from None
        super()._fit(problem)

    def _network(self, problem: Problem) -> nn.Module:
        assert problem.background_x is not None
        return PairVerifier(problem.background_x.cpu().float(), tuple(self.hidden), self.seed)

    def _train(self, network: nn.Module, problem: Problem) -> None:
        rows, margin = problem.background_x, problem.background_margin
        assert isinstance(network, PairVerifier) and rows is not None and margin is not None
        labels = margin >= 0 if problem.labels is None else problem.labels
        if bool(labels.all()) or not bool(labels.any()):
            raise MethodError(
                f"Tap learns from accepted and refused people, and all {len(labels)} of the background are "
                f"{'accepted' if labels.all() else 'refused'}.",
                hint="give a background with people of both kinds, or other labels.",
            )
        train_verifier(network, rows.float(), labels, Schedule(self.training_steps), self.seed, self._training)

    def chance_of_difference(self, x: Tensor, x_new: Tensor) -> Tensor:
        """V(x, x') of rows (m, d) -> (m,)."""
        return torch.sigmoid(self.network_(x, x_new))

    # -- the search -------------------------------------------------------------------------------------------

    def shortfall(self, x_new: Tensor, left: float = 1.0) -> Tensor:
        """(1) of rows (..., d) -> (...), for a region that leaves a share `left` of 1 - p."""
        model = self.problem_.model
        assert model.cut is not None
        p = 1 - left * (1 - max(self.p, model.cut))
        chance = model.probability(x_new).clamp(1e-12, 1 - 1e-12)
        far = chance * (chance / p).log() + (1 - chance) * ((1 - chance) / (1 - p)).log()
        return torch.where(chance < p, far, torch.zeros_like(far))  # (1)

    def is_verified(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(3) for rows x_new (m, d) of people x -> (m,) bool."""
        with torch.no_grad():
            bar = self.verified * (1 - self.shortfall(x_new) / self.shortfall(x).clamp(min=1e-12))
            return self.chance_of_difference(x, x_new) >= bar  # (3)

    def criterion(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(m,) whether rows x_new (m, d) reach the region and are verified."""
        with torch.no_grad():
            return (self.shortfall(x_new) <= 0) & self.is_verified(x, x_new)

    def assess(self, space: PrintedSpace, row: Tensor) -> Assessed:
        seen = super().assess(space, row)
        cost, short = seen.cost.clone(), torch.isfinite(seen.cost) & ~seen.hit
        cost[short] += DOUBTED * ~self.is_verified(space.x[short], row[short])
        return Assessed(cost, seen.hit, seen.margin)

    def loss(self, space: PrintedSpace, z: Tensor, weight: Tensor) -> Tensor:
        x_new = space.decode(z)
        doubt = (self.verified - self.chance_of_difference(space.x, x_new)).clamp(min=0)
        refused = (self.kappa - space.problem.model.margin(x_new)).clamp(min=0)
        near = weight * space.problem.cost(space.x, x_new)
        return self.shortfall(x_new, DEEPER) + doubt + refused + near  # (2)
