"""Wachter: equation (1) by hand, the search over lam, and what every gradient search must keep."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import Problem, Run, Status
from turnabout.costs import L1
from turnabout.errors import MethodError
from turnabout.methods.wachter import Wachter
from turnabout.models import wrap
from turnabout.rules import AtMost
from turnabout.schema import Category, Number, Schema

PLANE = Schema((Number("a", 0, 1), Number("b", 0, 1)))
PERSON = pd.DataFrame({"a": [0.1], "b": [0.2]})


def linear(schema: Schema, weights: list[float], bias: float):
    """A wrapped torch model with margin w @ x + b."""
    module = torch.nn.Linear(len(weights), 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([weights], dtype=torch.float64))
        module.bias.fill_(bias)
    return wrap(module, schema, threshold=0.5, output="logit")


def plane(rules=()) -> Problem:
    """Margin 2 a + b - 1.5: -1.1 for PERSON, whose cheapest way under L1 is 0.55 along a."""
    return Problem(PLANE, linear(PLANE, [2.0, 1.0], -1.5), cost=L1(), rules=rules)


def test_lands_on_the_nearest_point_under_l1():
    answer = Wachter().fit(plane()).find(PERSON)
    option = answer.options.iloc[0]
    assert option["a"] == pytest.approx(0.65, abs=1e-5)
    assert option["b"] == 0.2
    assert option["cost"] == pytest.approx(0.55, abs=1e-5)


def test_one_step_descends_on_equation_1():
    # at x the cost has no slope, so (1) falls along (2, 1); Adam's first step is lr along its sign
    method = Wachter(lr=0.1, steps=1, rounds=1).fit(plane())
    method.run = Run()
    proposal = method._search(PLANE.encode(PERSON))
    assert torch.allclose(proposal.x_new[0, 1], torch.tensor([0.2, 0.3], dtype=torch.float64), atol=1e-6)


def lams(hits: list[bool], lam: float = 1.0) -> list[float]:
    """The weights lam tried for one person when rounds end as in hits."""
    weights = Wachter(lam=lam).fit(plane()).weights(PLANE.encode(PERSON))
    tried: list[float] = []
    for hit in hits:
        tried.append(float(weights.now[0]))
        weights.turn(torch.tensor([hit]))
    return tried


def test_lam_is_raised_after_success_and_lowered_after_failure():
    assert lams([True, True, True]) == [1.0, 4.0, 16.0]
    assert lams([False, False, False]) == pytest.approx([1.0, 0.1, 0.01])
    assert lams([True, False, True]) == [1.0, 4.0, 2.5]  # then halved between the two
    assert lams([False, True, False]) == pytest.approx([1.0, 0.1, 0.55])


def test_a_lam_that_is_too_large_is_mended_by_further_rounds():
    assert Wachter(lam=20.0, rounds=1).fit(plane()).find(PERSON).status.iloc[0] == Status.NOT_FOUND
    assert Wachter(lam=20.0, rounds=4).fit(plane()).find(PERSON).status.iloc[0] == Status.FOUND


def test_rules_fixed_features_and_directions_are_kept():
    schema = Schema(
        (Number("a", 0, 1), Number("b", 0, 1, moves="up"), Number("c", 0, 1, moves="fixed"), Category("d", ("x", "y")))
    )
    model = linear(schema, [1.0, -1.0, 5.0, -1.0, 1.0], -1.7)
    people = pd.DataFrame({"a": [0.2, 0.1], "b": [0.5, 0.0], "c": [0.1, 0.2], "d": ["x", "x"]})
    answer = Wachter.small().fit(Problem(schema, model, rules=[AtMost(2)])).find(people)
    assert (answer.status == Status.FOUND).all()
    found = answer.options.droplevel("option")
    assert (found["c"] == people["c"]).all()
    assert (found["b"] >= people["b"]).all()
    assert (answer.changes().groupby("person").size() <= 2).all()


def test_the_same_twice_and_in_any_order():
    rng = np.random.default_rng(0)
    people = pd.DataFrame(rng.random((12, 2)) * 0.4, columns=["a", "b"])
    method = Wachter.small().fit(plane())
    answer = method.find(people)
    assert answer == method.find(people)
    turned = method.find(people.iloc[::-1])
    pd.testing.assert_frame_equal(turned.options.sort_index(), answer.options.sort_index())


def test_needs_a_differentiable_model():
    model = wrap(lambda table: (table["a"] > 0.5).to_numpy(float), PLANE)
    with pytest.raises(MethodError, match="needs a model that is Differentiable"):
        Wachter().fit(Problem(PLANE, model))


def test_stops_at_the_time_limit():
    people = pd.DataFrame(np.random.default_rng(0).random((50, 2)) * 0.4, columns=["a", "b"])
    answer = Wachter(steps=10**6, rounds=10**6).fit(plane()).find(people, time_limit=0.2)
    assert answer.seconds < 5
