"""Gradient search for rows that stay accepted when people carry them out inexactly (Pawelczyk et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch

from turnabout.errors import MethodError
from turnabout.methods.gradient import PrintedDescent, PrintedSpace
from turnabout.models import Differentiable, LinearMargin, Model, ReluNet
from turnabout.models.forms import run_layers
from turnabout.parameters import Finite, Positive, Share, Whole, checked
from turnabout.typing import Tensor

BLOCK = 1 << 20  # numbers in one block of disturbed rows
PARTS = 4  # in which copies are counted
FLAT = 1e-12  # a slope shorter than this is none


@checked(
    MethodError,
    rate=Share(above=0, below=1),
    sigma=Positive(),
    weight=Positive(),
    lam=Finite(least=0),
    kappa=Finite(least=0),
    lr=Positive(),
    steps=Whole(1),
    rounds=Whole(1),
    patience=Whole(1),
    draws=Whole(1),
)
class Probe(PrintedDescent):
    r"""The nearest row that is still accepted, but for a small share of cases, when it is carried out inexactly.

    The invalidation rate of x' is the chance that the model refuses x' + e, where e is Gaussian noise of standard
    deviation sigma on every encoded cell. To first order, and exactly for a linear model,

        IR(x') = 1 - Phi( f(x') / (sigma |grad f(x')|_2) )                                              (1)

    with f the model's margin. For each refused person x, solves

        min over x'   weight * max(0, IR(x') - rate) + max(0, kappa - f(x')) + lam * c(x, x')           (2)

    with c the problem's cost; the slope of (1) takes a second derivative of the model. A row is kept when the model
    refuses at most a share `rate` of `draws` disturbed copies: the method's criterion,                  (3)

    whose copies lie at evenly spaced quantiles along the slope and at random across it, so that few are enough, and
    for a linear model none but (1). Every step of the search sees the row that would be printed. lam is searched for
    each person, as `Wachter` does.

    The published code lowers lam below zero after 200 steps without success, which pushes people away from their own
    row; it clamps a copy that is thrown away, and returns the row before it is rounded: on Adult its rows cost 34 on
    average, where 13 is the most that two people can be apart. Ours does none of this. Nor is (1) enough to walk back
    by: where the model bends within sigma, it is far too low on one side of the bend.

    Use it where people carry out what they are told only roughly, or where measuring them is noisy.

    Parameters
    ----------
    rate : largest share of inexact copies that may be refused.
    sigma : standard deviation of the noise, in encoded units (1 is the range of a number).
    weight : of the invalidation rate.
    lam : first weight of the cost; larger keeps closer to x.
    kappa : margin to reach beyond bare acceptance, in the model's own scale.
    lr, steps : Adam's step size, and its count in each round.
    rounds : rounds of the search over lam.
    patience : steps between two looks at the row.
    draws : disturbed copies of a row.

    References
    ----------
    Pawelczyk, Datta, van den Heuvel, Kasneci, Lakkaraju (2023), Probabilistically robust recourse: navigating the
    trade-offs between costs and robustness in algorithmic recourse.
    """

    def __init__(
        self,
        rate: float = 0.05,
        sigma: float = 0.1,
        weight: float = 3.0,
        lam: float = 0.5,
        kappa: float = 0.05,
        lr: float = 0.05,
        steps: int = 50,
        rounds: int = 4,
        patience: int = 10,
        draws: int = 128,
    ):
        self.rate = rate
        self.sigma = sigma
        self.weight = weight
        self.lam = lam
        self.kappa = kappa
        self.lr = lr
        self.steps = steps
        self.rounds = rounds
        self.patience = patience
        self.draws = draws

    @classmethod
    def small(cls) -> Self:
        return cls(steps=40, rounds=3)

    # -- the rate ---------------------------------------------------------------------------------------------

    def first_order_rate(self, x_new: Tensor) -> Tensor:
        """(1) of rows (m, d) -> (m,)."""
        with torch.no_grad():
            return self._rate(self.problem_.model.margin(x_new), self._slope(x_new))

    def invalidation_rate(self, x_new: Tensor, stop: float = 1.0) -> Tensor:
        """The share of disturbed copies of rows (m, d) that the model refuses, (m,); (1) for a linear model.

        Copies are counted from the worst direction on, and no further for rows whose share exceeds `stop`.
        """
        if isinstance(self.problem_.model, LinearMargin):
            return self.first_order_rate(x_new)
        model, slope, refused = self.problem_.model, self._slope(x_new), torch.zeros_like(x_new[:, 0])
        left = torch.arange(len(x_new), device=x_new.device)
        with torch.no_grad():
            for copies in Copies.of(self.draws, x_new).parts():
                for part in left.split(max(1, BLOCK // copies.across.numel())):
                    margin = copies.margin(model, x_new[part], slope[part], self.sigma)
                    refused[part] += (margin < 0).to(refused.dtype).sum(1)  # (3)
                left = left[refused[left] <= stop * self.draws]
        return refused / self.draws

    def _slope(self, x_new: Tensor) -> Tensor:
        model = self.problem_.model
        assert isinstance(model, Differentiable)
        return model.gradient(x_new)

    def _rate(self, margin: Tensor, slope: Tensor) -> Tensor:
        return torch.special.ndtr(-margin / (self.sigma * slope.norm(dim=-1)).clamp(min=FLAT))  # (1)

    # -- the search -------------------------------------------------------------------------------------------

    def criterion(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(m,) whether the invalidation rate of rows x_new (m, d) is low enough."""
        met = self.problem_.margin(x_new) >= 0
        met[met.clone()] = self.invalidation_rate(x_new[met], stop=self.rate) <= self.rate
        return met

    def loss(self, space: PrintedSpace, z: Tensor, weight: Tensor) -> Tensor:
        x_new = space.decode(z)
        margin = space.problem.model.margin(x_new)
        (slope,) = torch.autograd.grad(margin.sum(), x_new, create_graph=True)
        doubt = (self._rate(margin, slope) - self.rate).clamp(min=0)
        near = weight * space.problem.cost(space.x, x_new)
        return self.weight * doubt + (self.kappa - margin).clamp(min=0) + near  # (2)


@dataclass(frozen=True)
class Copies:
    """Standard normal steps away from a row, the same for all rows but for the direction of the slope.

    across : (s, d) random numbers, of which the part along the slope is replaced.
    along : (s,) quantiles of the standard normal distribution, evenly spaced.
    """

    across: Tensor
    along: Tensor

    @classmethod
    def of(cls, draws: int, x: Tensor) -> Copies:
        """So many steps for rows like x, the same at every call."""
        generator = torch.Generator().manual_seed(draws)
        across = torch.randn(draws, x.shape[-1], generator=generator, dtype=torch.float64)
        along = torch.special.ndtri((torch.arange(draws, dtype=torch.float64) + 0.5) / draws)
        return cls(across.to(x), along.to(x))

    def parts(self) -> list[Copies]:
        """In the order of the quantiles, against the slope first."""
        return [Copies(*part) for part in zip(self.across.chunk(PARTS), self.along.chunk(PARTS), strict=True)]

    def margin(self, model: Model, x: Tensor, slope: Tensor, sigma: float) -> Tensor:
        """Rows and slopes (m, d) -> margins of the disturbed copies, (m, s); of nets in single precision, for speed."""
        u = slope / slope.norm(dim=-1, keepdim=True).clamp(min=FLAT)
        rest = (self.along - u @ self.across.T).unsqueeze(-1)  # (m, s, 1)
        if not isinstance(model, ReluNet):
            return model.margin(x.unsqueeze(1) + sigma * (self.across + rest * u.unsqueeze(1)))
        (weight, bias), *deeper = model.layers  # the first is linear: it is run on rows and steps apart
        row, across, along = x @ weight.T + bias, self.across @ weight.T, u @ weight.T
        row, across, along, rest = (part.float() for part in (row, sigma * across, sigma * along, rest))
        hidden = torch.addcmul(row.unsqueeze(1) + across, rest, along.unsqueeze(1))
        if not deeper:
            return hidden[..., 0]
        return run_layers(tuple((w.float(), b.float()) for w, b in deeper), hidden.relu_())[..., 0]
