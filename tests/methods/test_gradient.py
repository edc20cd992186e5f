"""The descent family: other search variables, losses that look at the gradient, restarts, and who stays active."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import Problem, Run, Status
from turnabout.methods.gradient import Cheapest, Fading, GradientMethod, Space
from turnabout.models import wrap
from turnabout.schema import Number, Schema

PLANE = Schema((Number("a", 0, 1), Number("b", 0, 1)))
PEOPLE = pd.DataFrame(np.random.default_rng(0).random((9, 2)) * 0.4, columns=["a", "b"])


def plane() -> Problem:
    """Margin 2 a + b - 1.5."""
    module = torch.nn.Linear(2, 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[2.0, 1.0]], dtype=torch.float64))
        module.bias.fill_(-1.5)
    return Problem(PLANE, wrap(module, PLANE, threshold=0.5, output="logit"))


class Codes(Space):
    """One number for each person: how far along the diagonal."""

    def start(self, turn, found, run):
        return torch.zeros_like(self.x[:, :1])

    def decode(self, z):
        return self.x + z

    def project(self, z):
        return z.clamp(0.0, 1.0)


class AlongTheDiagonal(GradientMethod[Codes]):
    """A search in another space than that of rows, as in that of a decoder."""

    def __init__(self, lam: float = 0.5, lr: float = 0.05, steps: int = 60, rounds: int = 2, patience: int = 5):
        self.lam, self.lr, self.steps, self.rounds, self.patience = lam, lr, steps, rounds, patience

    def space(self, x):
        return Codes(self.problem_, x)

    def loss(self, space, z, weight):
        x_new = space.decode(z)
        return (0.05 - space.problem.model.margin(x_new)).clamp(min=0) + weight * space.problem.cost(space.x, x_new)


class AgainstTheWorst(AlongTheDiagonal):
    """The margin less what the worst small step takes from it, which is the length of its gradient."""

    def space(self, x):
        return Space(self.problem_, x)

    def loss(self, space, z, weight):
        margin = space.problem.model.margin(z)
        (slope,) = torch.autograd.grad(margin.sum(), z, create_graph=True)
        worst = margin - 0.1 * slope.norm(dim=1)
        return (0.05 - worst).clamp(min=0) + weight * space.problem.cost(space.x, z)


@pytest.mark.parametrize("cls", [AlongTheDiagonal, AgainstTheWorst])
def test_other_spaces_and_losses_find_plans(cls):
    answer = cls().fit(plane()).find(PEOPLE)
    assert (answer.status == Status.FOUND).all()


def test_a_code_is_searched_and_its_row_is_kept():
    method = AlongTheDiagonal(rounds=1).fit(plane())
    method.run = Run()
    x = PLANE.encode(PEOPLE)
    best = method.descend(method.space(x))
    step = best.row - x
    assert torch.allclose(step[:, 0], step[:, 1], atol=1e-5)  # both rounded to the grid
    assert (method.problem_.margin(best.row) > 0).all()
    assert torch.allclose(best.cost, method.problem_.cost(x, best.row))


def test_who_has_been_accepted_leaves_where_weights_fade():
    weights = Fading(0.1, torch.zeros(3, 2, dtype=torch.float64))
    weights.turn(torch.tensor([True, False, False]))
    weights.turn(torch.tensor([False, False, True]))
    assert weights.active.tolist() == [False, True, False]
    assert float(weights.now[1]) == pytest.approx(0.01)


def test_a_part_of_the_best_is_taken_and_put_back():
    best = Cheapest.none(torch.zeros(3, 2, dtype=torch.float64))
    assert not best.found.any()
    part = best.take(torch.tensor([2]))
    part.row[0], part.cost[0] = torch.tensor([0.1, 0.2]), 0.3
    best.put(torch.tensor([2]), part)
    assert best.found.tolist() == [False, False, True]
