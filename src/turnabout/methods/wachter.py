"""Gradient search for a near accepted point (Wachter et al., 2017), with the RGD search over lambda."""

from __future__ import annotations

from typing import Self

import torch

from turnabout.core import Method, Proposal
from turnabout.core.verify import clearance
from turnabout.errors import MethodError
from turnabout.methods.bracket import Bracket
from turnabout.models import Differentiable
from turnabout.nn.adam import Adam
from turnabout.parameters import Finite, Positive, Whole, checked
from turnabout.typing import Tensor


@checked(
    MethodError,
    lam=Finite(least=0),
    kappa=Finite(least=0),
    lr=Positive(),
    steps=Whole(1),
    rounds=Whole(1),
    patience=Whole(1),
)
class Wachter(Method):
    r"""Nearest accepted point by gradient descent, everyone at once.

    For each refused person x, solves

        min over x'   max(0, kappa - f(x')) + lam * c(x, x')          (1)

    with f the model's margin and c the problem's cost, by Adam with a projection onto what the person may do after
    every step. A hinge replaces the squared error of the paper, so that the search stops pushing once a person is
    accepted by kappa. The weight lam is searched for each person as in the regularised gradient descent of common
    libraries (RGD): after each round it is raised when the round met an accepted point and lowered (never below
    zero) when it did not,                                                          (2)

    and the cheapest accepted point met on the way, rounded to legal values, is kept. Whoever has no plan yet starts the
    next round elsewhere. Where the published code
    rounds inside the gradient (so that categories can never move) or lowers lam until it rewards distance, this
    one does neither.

    Use it as a fast first answer for differentiable models; it may stop in a local minimum.

    Parameters
    ----------
    lam : first weight of the cost; larger keeps closer to x.
    kappa : margin to reach beyond bare acceptance, in the model's own scale.
    lr, steps : Adam's step size, and its count in each round.
    rounds : rounds of the search over lam; 1 keeps lam as it is given.
    patience : steps between two looks at the rounded point.

    References
    ----------
    Wachter, Mittelstadt, Russell (2017), Counterfactual explanations without opening the black box.
    """

    requires = Differentiable

    def __init__(
        self,
        lam: float = 0.5,
        kappa: float = 0.05,
        lr: float = 0.05,
        steps: int = 50,
        rounds: int = 4,
        patience: int = 10,
    ):
        self.lam = lam
        self.kappa = kappa
        self.lr = lr
        self.steps = steps
        self.rounds = rounds
        self.patience = patience

    @classmethod
    def small(cls) -> Self:
        return cls(steps=40, rounds=3)

    def _search(self, x: Tensor) -> Proposal:
        best = torch.full((len(x), 2, x.shape[1]), torch.nan, dtype=x.dtype, device=x.device)  # accepted, else furthest
        best_cost = torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)
        best_margin = torch.full_like(best_cost, -torch.inf)
        bracket = Bracket(self.lam, best_cost)
        for i in range(max(1, self.rounds)):
            start = x if i == 0 else torch.where(torch.isfinite(best_cost).unsqueeze(1), x, self._elsewhere(x, i))
            hit = self._descend(x, start, bracket.lam, best, best_cost, best_margin)
            bracket.close_in(hit)  # (2)
            if self.run.expired:
                break
        return Proposal(best)

    def _elsewhere(self, x: Tensor, i: int) -> Tensor:
        """A reachable point for each person, by the same draws for all; where they go on who has no plan yet."""
        lo, hi = self.problem_.bounds(x)
        share = torch.as_tensor(self.run.rng("start", i).random(x.shape[1]), dtype=x.dtype, device=x.device)
        return self.problem_.relax(x, lo + share * (hi - lo))

    def _descend(
        self, x: Tensor, start: Tensor, lam: Tensor, best: Tensor, best_cost: Tensor, best_margin: Tensor
    ) -> Tensor:
        """One round of (1) for everyone; updates the best rows in place, returns (n,) who was accepted."""
        f, c = self.problem_.model.margin, self.problem_.cost
        hit = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        x_new, adam = start.clone(), Adam(self.lr)
        for step in range(1, self.steps + 1):
            x_new = x_new.requires_grad_()
            loss = (self.kappa - f(x_new)).clamp(min=0) + lam * c(x, x_new)  # (1)
            (gradient,) = torch.autograd.grad(loss.sum(), x_new)
            x_new = adam.step(x_new.detach(), gradient)
            x_new = self.problem_.relax(x, x_new)  # stay within what the person may do
            last = step == self.steps or self.run.nearly_over
            if step % self.patience == 0 or last:
                hit |= self._look(x, x_new, best, best_cost, best_margin)
            if last or self.run.expired:
                break
        return hit

    def _look(self, x: Tensor, x_new: Tensor, best: Tensor, best_cost: Tensor, best_margin: Tensor) -> Tensor:
        """Round the iterate and keep the cheapest accepted row (slot 0) and the most nearly accepted one (slot 1)."""
        row = self.problem_.snap(x, x_new)
        margin, cost = self.ask(row), self.problem_.cost(x, row)
        accepted = (margin >= clearance(self.problem_)) & (self.problem_.violation(x, row) <= 0)
        better = accepted & (cost < best_cost)
        best[better, 0], best_cost[better] = row[better], cost[better]
        nearer = margin > best_margin
        best[nearer, 1], best_margin[nearer] = x_new[nearer], margin[nearer]
        return accepted
