"""Roar: its inner maximum against brute force, equation (1) by hand, and rows that models nearby accept."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import Problem, Run, Status
from turnabout.costs import L1
from turnabout.errors import MethodError
from turnabout.methods.roar import Roar
from turnabout.methods.wachter import Wachter
from turnabout.models import wrap
from turnabout.schema import Derived, Number, Schema

PLANE = Schema((Number("a", 0, 1), Number("b", 0, 1)))
PEOPLE = pd.DataFrame(np.random.default_rng(0).random((9, 2)) * 0.4, columns=["a", "b"])


def problem(module: torch.nn.Module, schema: Schema = PLANE) -> Problem:
    return Problem(schema, wrap(module.double(), schema, threshold=0.5, output="logit"), cost=L1())


def plane() -> Problem:
    """Margin 2 a + b - 1.5."""
    module = torch.nn.Linear(2, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[2.0, 1.0]]))
        module.bias.fill_(-1.5)
    return problem(module)


def net(activation: type[torch.nn.Module]) -> Problem:
    torch.manual_seed(3)
    return problem(torch.nn.Sequential(torch.nn.Linear(2, 6), activation(), torch.nn.Linear(6, 1)))


def by_brute_force(asked: Problem, row: torch.Tensor, delta: float) -> float:
    """The lowest margin over a grid of all changes of a straight line through the model, its corners included."""
    step, d = 1e-6, len(row)
    ends = [asked.margin(row + sign * step * torch.eye(d, dtype=row.dtype)) for sign in (1, -1)]
    w = ((ends[0] - ends[1]) / (2 * step)).numpy()  # the slope without autograd
    b = float(asked.margin(row)) - w @ row.numpy()
    grid = np.array(list(itertools.product(np.linspace(-delta, delta, 9), repeat=d + 1)))
    return float(((w + grid[:, :d]) @ row.numpy() + b + grid[:, d]).min())


@pytest.mark.parametrize(
    "asked", [plane(), net(torch.nn.ReLU), net(torch.nn.Tanh)], ids=["linear", "ReLU net", "tanh net"]
)
@pytest.mark.parametrize("delta", [0.0, 0.05, 0.4])
def test_the_inner_maximum_equals_brute_force(asked, delta):
    roar = Roar(delta=delta).fit(asked)
    rows = torch.from_numpy(np.random.default_rng(1).random((12, 2)))
    worst = roar.worst_margin(rows)
    for row, own in zip(rows, worst):
        assert float(own) == pytest.approx(by_brute_force(asked, row, delta), abs=1e-7)


def test_the_loss_by_hand():
    # f(0.6, 0.5) = 0.2, less 0.1 (1.1 + 1) = -0.01: hinge 0.06; the row costs 0.8
    roar = Roar(delta=0.1, kappa=0.05).fit(plane())
    x = torch.tensor([[0.1, 0.2]], dtype=torch.float64)
    space = roar.space(x)
    z = torch.tensor([[0.6, 0.5]], dtype=torch.float64, requires_grad=True)
    loss = roar.loss(space, z, torch.tensor([0.5]))
    assert loss.item() == pytest.approx(0.06 + 0.5 * 0.8)
    loss.sum().backward()
    assert z.grad is not None and torch.allclose(z.grad, torch.tensor([[-2 + 0.1 + 0.5, -1 + 0.1 + 0.5]]).double())


def test_every_model_nearby_accepts():
    delta, rng = 0.1, np.random.default_rng(2)
    roar = Roar(delta=delta).fit(plane())
    answer = roar.find(PEOPLE)
    assert (answer.status == Status.FOUND).all()
    rows = answer.options[["a", "b"]].to_numpy()
    weights = np.array([2.0, 1.0]) + rng.uniform(-delta, delta, (500, 2))
    biases = -1.5 + rng.uniform(-delta, delta, 500)
    assert ((rows @ weights.T + biases) >= 0).all()
    worst = roar.worst_margin(PLANE.encode(answer.options))
    assert ((worst >= 0) & (worst < 1e-4)).all()  # and they are no further than that
    near = Wachter().fit(plane()).find(PEOPLE).options[["a", "b"]].to_numpy()
    assert ((near @ weights.T + biases) < 0).mean() > 0.3


def test_without_room_for_the_margin_accepted_rows_are_shown():
    answer = Roar(delta=0.9).fit(plane()).find(PEOPLE)  # at (1, 1) the worst margin is 1.5 - 0.9 * 3
    assert (answer.status == Status.FOUND).all() and (answer.options.margin >= 0).all()


def test_what_follows_is_computed_before_it_is_weighed():
    schema = Schema((Number("a", 0, 1), Derived("double", "2 * a", high=2)))
    module = torch.nn.Linear(2, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 1.0]]))
        module.bias.fill_(-1.0)
    roar = Roar(delta=0.1).fit(problem(module, schema))
    row = torch.tensor([[0.6, 0.0]], dtype=torch.float64)  # the second follows: 1.2 of 2 is 0.6
    assert roar.worst_margin(row).item() == pytest.approx(0.2 - 0.1 * (1.2 + 1))


def test_asks_for_a_differentiable_model():
    model = wrap(lambda table: (table["a"] > 0.5).to_numpy(float), PLANE)
    with pytest.raises(MethodError, match="needs a model that is Differentiable"):
        Roar().fit(Problem(PLANE, model))


def test_a_row_that_cannot_be_read_costs_nobody_else_theirs():
    people = pd.concat([PEOPLE, pd.DataFrame({"a": [np.nan], "b": [0.1]})], ignore_index=True)
    with pytest.warns(UserWarning, match="1 of 10 people cannot be read"):
        answer = Roar.small().fit(plane()).find(people)
    assert list(answer.status) == [Status.FOUND] * len(PEOPLE) + [Status.UNREADABLE]


def test_stops_at_the_time_limit():
    answer = Roar(steps=10**6, rounds=10**6).fit(plane()).find(PEOPLE, time_limit=0.2)
    assert answer.seconds < 5


def test_a_hit_is_what_meets_the_criterion():
    roar = Roar(delta=0.1).fit(plane())
    roar.run = Run()
    space = roar.space(PLANE.encode(PEOPLE)[:2])
    row = torch.tensor([[0.7, 0.2], [0.9, 0.6]], dtype=torch.float64)  # margins 0.1 and 0.9, worst -0.09 and 0.65
    seen = roar.assess(space, row)
    assert seen.hit.tolist() == [False, True] and bool(torch.isfinite(seen.cost).all())
