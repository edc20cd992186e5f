"""The descent family: other search variables, losses that look at the gradient, restarts, and who stays active."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import Problem, Run, Status
from turnabout.methods.gradient import Cheapest, Fading, GradientMethod, PrintedSpace, Space
from turnabout.methods.noise_probe import Probe
from turnabout.methods.roar import Roar
from turnabout.methods.tap import Tap
from turnabout.models import wrap
from turnabout.rules import AtMost, Ordered
from turnabout.schema import Category, Number, Ordinal, Schema

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


MIXED = Schema(
    (
        Number("fixed", 0, 1, moves="fixed"),
        Number("up", 0, 20, step=1, moves="up"),
        Number("down", 0, 1, moves="down", missing=True),
        Category("level", ("x", "y", "z")),
        Ordinal("rank", ("low", "mid", "high"), moves="up"),
        Number("other", 0, 20, step=1),
    )
)


def mixed(n: int = 40) -> tuple[Problem, pd.DataFrame]:
    """A net over all kinds of features and two rules, and people whom it refuses."""
    rng = np.random.default_rng(7)

    def draw(rows: int) -> pd.DataFrame:
        down = rng.random(rows)
        down[rng.random(rows) < 0.2] = np.nan
        return pd.DataFrame(
            {
                "fixed": rng.random(rows),
                "up": rng.integers(0, 12, rows),
                "down": down,
                "level": rng.choice(["x", "y", "z"], rows),
                "rank": rng.choice(["low", "mid", "high"], rows),
                "other": rng.integers(8, 20, rows),
            }
        )

    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(MIXED.d, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).double()
    ground = draw(300)
    with torch.no_grad():
        net[2].weight *= 12
        net[2].bias -= net(MIXED.encode(ground)).quantile(0.8)
    model = wrap(net, MIXED, threshold=0.5, output="logit")
    problem = Problem(MIXED, model, rules=[AtMost(3), Ordered("up", "other")], background=ground)
    people = draw(3000)
    refused = (model.judge(people) < 0) & (people["up"] <= people["other"])
    return problem, people[refused].head(n)


@pytest.mark.parametrize("cls", [Roar, Probe, Tap], ids=lambda cls: cls.__name__)
def test_nothing_is_left_for_the_core_to_mend(cls):
    """What the search itself proposes is printable, possible for the person, and keeps every rule."""
    problem, people = mixed()
    method = cls.small().fit(problem)
    method.run = Run()
    x = MIXED.encode(people)
    proposed = method._search(x).x_new  # (n, k, d)
    there = torch.isfinite(proposed).all(-1)
    assert there.any(1).double().mean() > 0.9
    owner, slot = there.nonzero(as_tuple=True)
    row = proposed[owner, slot]
    assert torch.equal(row, problem.snap(x[owner], row))  # on legal values, to the last bit
    assert (problem.violation(x[owner], row) <= 0).all()
    own = people.iloc[owner.numpy()]
    assert not MIXED.breaches(own, MIXED.write(own, x[owner], row)).any()
    moved = MIXED.changed(x[owner], row)
    assert not moved[:, 0].any() and not moved[torch.tensor(own["down"].isna().tolist()), 2].any()
    levels = row[:, MIXED.slices[3]]
    assert ((levels == 0) | (levels == 1)).all() and (levels.sum(1) == 1).all()
    assert (moved.sum(1) <= 3).all() and moved.any()


def test_a_row_that_breaks_a_rule_is_not_remembered_as_the_nearest():
    problem, people = mixed(2)
    method = Roar.small().fit(problem)
    method.run = Run()
    x = MIXED.encode(people)
    row = x.clone()
    row[0, MIXED.slices[1]], row[0, MIXED.slices[5]] = 1.0, 0.0  # up > other
    margin = method.assess(method.space(x), row).margin
    assert margin[0] == -torch.inf and margin[1] == problem.margin(x)[1]


def test_a_printed_space_sees_legal_rows_and_passes_gradients_through():
    problem, people = mixed(5)
    x = MIXED.encode(people)
    space = PrintedSpace(problem, x)
    z = problem.relax(
        x, torch.rand(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    ).requires_grad_()
    row = space.decode(z)
    assert torch.equal(row, problem.snap(x, z))
    (slope,) = torch.autograd.grad((row * torch.arange(1.0, x.shape[1] + 1)).sum(), z)
    assert torch.equal(slope, torch.arange(1.0, x.shape[1] + 1).double().expand_as(z))
