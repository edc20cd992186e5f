"""Gradient search for a near accepted point (Wachter et al., 2017), with the RGD search over lambda."""

from __future__ import annotations

from typing import Self

from turnabout.errors import MethodError
from turnabout.methods.gradient import GradientMethod, Space
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
class Wachter(GradientMethod[Space]):
    r"""Nearest accepted point by gradient descent, everyone at once.

    For each refused person x, solves

        min over x'   max(0, kappa - f(x')) + lam * c(x, x')          (1)

    with f the model's margin and c the problem's cost, by Adam with a projection onto what the person may do after
    every step. A hinge replaces the squared error of the paper, so that the search stops pushing once a person is
    accepted by kappa. The weight lam is searched for each person as in the regularised gradient descent of common
    libraries (RGD): after each round it is raised when the round met an accepted point and lowered (never below
    zero) when it did not (`gradient.Bracket`),                                     (2)

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

    def space(self, x: Tensor) -> Space:
        return Space(self.problem_, x)

    def loss(self, space: Space, z: Tensor, weight: Tensor) -> Tensor:
        f, c = space.problem.model.margin, space.problem.cost
        return (self.kappa - f(z)).clamp(min=0) + weight * c(space.x, z)  # (1)
