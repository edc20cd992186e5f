"""REVISE: equation (1) by hand, over codes that are the rows themselves; where it starts again, what it prefers."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

import turnabout as ta
from plain_codes import PERSON, PLANE, with_plain_codes
from turnabout.errors import MethodError
from turnabout.methods import Revise

X = PLANE.encode(PERSON)


def codes(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def test_the_loss_is_equation_1_of_the_rounded_row():
    method = with_plain_codes(Revise(kappa=0.1))
    space = method.space(X)
    assert torch.equal(space.first, X)  # the code of the person
    z = codes([0.34, 0.18]).requires_grad_()  # prints as 0.3, 0.2: margin -0.5, cost 0.2
    loss = method.loss(space, z, torch.tensor([2.0], dtype=torch.float64))
    assert loss.item() == pytest.approx((0.1 + 0.5) + 2 * 0.2)
    loss.sum().backward()
    assert z.grad.tolist()[0] == pytest.approx([-1 + 2, -1 + 2])  # as if nothing had been rounded
    beyond = method.loss(space, codes([0.8, 0.6]), torch.tensor([2.0], dtype=torch.float64))
    assert beyond.item() == pytest.approx(2 * (0.6 + 0.5))  # kappa is reached: the cost alone


def test_one_step_goes_down_the_slope_of_equation_1():
    method = with_plain_codes(Revise(lam=0.1, lr=0.1, steps=1, rounds=1))
    rows = method._search(X).x_new
    assert torch.allclose(rows[0, 1], codes([0.3, 0.2])[0])  # Adam's first step is lr along the sign of (1, 1)
    assert rows[0, 0].isnan().all()  # and does not reach acceptance


def test_the_cheapest_accepted_row_is_found():
    answer = with_plain_codes(Revise()).find(PERSON)
    option = answer.options.iloc[0]
    assert option["a"] + option["b"] == pytest.approx(1.1)  # 1.0 is the very boundary
    assert option["cost"] == pytest.approx(0.8)


def test_people_without_a_plan_start_again_from_accepted_rows():
    method = with_plain_codes(Revise())
    space = method.space(X)
    assert method.anchors_.tolist() == [[0.9, 0.8], [0.6, 0.5]]
    first, second = torch.tensor([False]), torch.tensor([True])
    run = method.run
    assert torch.equal(space.start(0, first, run), X)
    assert space.start(1, first, run).tolist() == [[0.9, 0.8]]  # of the highest margin for the person
    assert torch.equal(space.start(1, second, run), X)  # who has a plan goes on from their own code
    assert torch.equal(space.take(torch.tensor([0])).start(1, first, run), space.start(1, first, run))


def test_likely_rows_come_before_cheaper_ones():
    """A threshold that only rows with a + b <= 1.3 meet, and an accepted row that costs less but does not meet it."""
    method = with_plain_codes(Revise())
    space = method.space(X.expand(3, -1))
    rows = codes([0.9, 0.9], [0.5, 0.6], [0.3, 0.3])
    method.threshold_ = -1.3
    seen = method.assess(space, rows)
    assert seen.hit.tolist() == [False, True, False]
    assert torch.isfinite(seen.cost).tolist() == [True, True, False]  # accepted ones are kept in case of need
    assert seen.cost[:2].tolist() == pytest.approx([1.5, 0.8])
    assert seen.margin.tolist() == pytest.approx([0.8, 0.1, -0.4])


def test_somebody_for_whom_no_likely_row_is_accepted_gets_an_unlikely_one():
    method = with_plain_codes(Revise(), threshold=-0.5)
    answer = method.find(PERSON)
    assert answer.status.iloc[0] == "FOUND"
    x_new = PLANE.encode(answer.options[["a", "b"]])
    assert not method.criterion(X, x_new).any()


def test_it_needs_a_differentiable_model():
    model = ta.models.wrap(lambda table: (table["a"] > 0.5).to_numpy(float), PLANE)
    with pytest.raises(MethodError, match="Revise needs a model that is Differentiable"):
        Revise().fit(ta.Problem(PLANE, model, background=pd.concat([PERSON] * 5)))
