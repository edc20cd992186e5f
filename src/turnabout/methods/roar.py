"""Gradient search for rows that stay accepted when the model's weights move a little (Upadhyay et al., 2021)."""

from __future__ import annotations

from typing import Self

from turnabout.errors import MethodError
from turnabout.methods.gradient import PrintedDescent, PrintedSpace
from turnabout.parameters import Finite, Positive, Whole, checked
from turnabout.typing import Tensor


@checked(
    MethodError,
    delta=Finite(least=0),
    lam=Finite(least=0),
    kappa=Finite(least=0),
    lr=Positive(),
    steps=Whole(1),
    rounds=Whole(1),
    patience=Whole(1),
)
class Roar(PrintedDescent):
    r"""The nearest row that every model near this one accepts.

    For each refused person x, solves

        min over x'   max(0, kappa - f_delta(x')) + lam * c(x, x')                                      (1)

    with c the problem's cost and f_delta(x') the lowest margin that any model has at x' whose weights and bias differ
    from those of a straight line w x + b through the model by at most delta each:

        f_delta(x') = min over |dw|, |db| <= delta of (w + dw) x' + b + db = w x' + b - delta (|x'|_1 + 1)    (2)

    The line touches the margin f at x' itself, so that w x' + b = f(x'): the minimum is exact, at the cost of one call
    of the model. A row is kept when f_delta(x') >= 0, the method's criterion. Every step of the search sees the row
    that would be printed. lam is searched for each person, as `Wachter` does.

    The published code fits its line with LIME to probabilities, takes its weights for those of log-odds, and keeps
    neither bounds nor levels nor what people cannot change: on Adult its rows cost 10 on average, of 13 that are
    possible. Ours takes the model's own slope, anew at every step.

    Use it where the model will be trained again before people come back. delta is in units of the margin: with
    numbers in [0, 1] and one column for each level, (2) takes up to delta times the number of features, and one more.

    Parameters
    ----------
    delta : how far each weight may move.
    lam : first weight of the cost; larger keeps closer to x.
    kappa : worst margin to reach beyond bare acceptance, in the model's own scale.
    lr, steps : Adam's step size, and its count in each round.
    rounds : rounds of the search over lam.
    patience : steps between two looks at the row.

    References
    ----------
    Upadhyay, Joshi, Lakkaraju (2021), Towards robust and reliable algorithmic recourse.
    """

    def __init__(
        self,
        delta: float = 0.1,
        lam: float = 0.5,
        kappa: float = 0.05,
        lr: float = 0.05,
        steps: int = 50,
        rounds: int = 4,
        patience: int = 5,
    ):
        self.delta = delta
        self.lam = lam
        self.kappa = kappa
        self.lr = lr
        self.steps = steps
        self.rounds = rounds
        self.patience = patience

    @classmethod
    def small(cls) -> Self:
        return cls(steps=40, rounds=3)

    def criterion(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(m,) whether the nearby models accept rows x_new (m, d)."""
        return self.worst_margin(x_new) >= 0

    def worst_margin(self, x_new: Tensor) -> Tensor:
        """(..., d) -> (...): the lowest margin that a model near this one gives to each row."""
        seen = self.problem_.schema.fill(x_new)
        return self.problem_.model.margin(x_new) - self.delta * (seen.abs().sum(-1) + 1)  # (2)

    def loss(self, space: PrintedSpace, z: Tensor, weight: Tensor) -> Tensor:
        x_new = space.decode(z)
        return (self.kappa - self.worst_margin(x_new)).clamp(min=0) + weight * space.problem.cost(space.x, x_new)  # (1)
