"""Dice: loss, diversity and order by hand; sets that are accepted, distinct and possible."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.core import Problem, Run, Status
from turnabout.costs import L1
from turnabout.errors import MethodError
from turnabout.methods.dice import RIDGE, Dice
from turnabout.models import wrap
from turnabout.rules import AtMost
from turnabout.schema import Binary, Category, Number, Schema

CUBE = Schema(tuple(Number(name, 0, 1) for name in "abc"))
PEOPLE = pd.DataFrame(np.random.default_rng(0).random((8, 3)) * 0.3, columns=list("abc"))


def linear(schema: Schema, weights: list[float], bias: float):
    """A wrapped torch model with margin w @ x + b."""
    module = torch.nn.Linear(len(weights), 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([weights], dtype=torch.float64))
        module.bias.fill_(bias)
    return wrap(module, schema, threshold=0.5, output="logit")


def cube(rules=()) -> Problem:
    """Margin a + b + c - 1: three levers that are equally good, under L1."""
    return Problem(CUBE, linear(CUBE, [1.0, 1.0, 1.0], -1.0), cost=L1(), rules=rules)


def points(*rows: tuple[float, float, float]) -> torch.Tensor:
    return torch.tensor([rows], dtype=torch.float64)


def test_diversity_by_hand():
    # cost between the two is 0.5, so K = [[1, 2/3], [2/3, 1]], but for the ridge
    want = math.log((1 + RIDGE) ** 2 - (2 / 3) ** 2)
    dice = Dice().fit(cube())
    assert float(dice.diversity(points((0, 0, 0), (0.3, 0.2, 0)))) == pytest.approx(want)
    alike, apart = dice.diversity(points((0, 0, 0), (0, 0, 0))), dice.diversity(points((0, 0, 0), (1, 1, 1)))
    assert float(alike) < want < float(apart)


def test_loss_by_hand():
    # hinge (0.2 - (-0.4)) and 0: mean 0.3; costs from x 0.6 and 1.1: mean 0.85; the set as above
    dice = Dice(lam1=0.5, lam2=2.0, kappa=0.2).fit(cube())
    x, x_new = torch.zeros(1, 3, dtype=torch.float64), points((0.6, 0, 0), (0.6, 0.5, 0))
    margin = torch.tensor([[-0.4, 0.3]], dtype=torch.float64)
    diversity = math.log((1 + RIDGE) ** 2 - (2 / 3) ** 2)
    assert float(dice.value(x, x_new, margin)) == pytest.approx(0.3 + 0.5 * 0.85 - 2.0 * diversity)
    assert float(dice.value(x, x_new, margin, weight=0.1)) == pytest.approx(0.3 + 0.1 * (0.425 - 2.0 * diversity))


def test_order_by_hand():
    # all accepted; the cheapest first, then another lever although it is dearer, then the near copy, repeats last
    dice = Dice(lam1=0.5, lam2=0.5).fit(cube())
    dice.run = Run()
    x = torch.zeros(1, 3, dtype=torch.float64)
    first, copy, other = (1.0, 0.01, 0.0), (1.0, 0.02, 0.0), (0.2, 0.9, 0.0)
    ordered = dice._ordered(x, points(copy, other, first, first))
    assert ordered[0, :3].tolist() == [list(row) for row in (first, other, copy)]
    assert ordered[0, 3].isnan().all()


def test_greedy_gains_are_those_of_the_determinant():
    dice = Dice(lam1=0.3, lam2=0.7).fit(cube())
    dice.run = Run()
    x = torch.zeros(1, 3, dtype=torch.float64)
    x_new = 0.5 + 0.5 * torch.rand((1, 5, 3), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    cost = dice.problem_.cost(x.unsqueeze(1), x_new)[0]
    chosen: list[int] = []
    while len(chosen) < 5:
        rest = [i for i in range(5) if i not in chosen]
        chosen.append(
            min(rest, key=lambda i: float(0.3 * cost[i] - 0.7 * dice.diversity(x_new[:, [*chosen, i]])))
        )  # (4)
    assert torch.equal(dice._ordered(x, x_new), x_new[:, chosen])


def test_refused_points_come_last():
    dice = Dice().fit(cube())
    dice.run = Run()
    x = torch.zeros(1, 3, dtype=torch.float64)
    ordered = dice._ordered(x, points((0.1, 0.0, 0.0), (0.9, 0.9, 0.9)))
    assert ordered[0, 0].tolist() == [0.9, 0.9, 0.9]


def test_options_are_accepted_distinct_and_cheapest_first():
    answer = Dice().fit(cube()).find(PEOPLE, options=3)
    assert (answer.status == Status.FOUND).all()
    assert (answer.options.groupby("person").size() == 3).all()
    assert not answer.options.reset_index("person").duplicated().any()
    assert (answer.options["margin"] >= 1e-9).all()
    best = 1 - PEOPLE.sum(axis=1)  # any mixture of the levers costs the same
    cost = answer.options["cost"].unstack()
    assert np.allclose(cost[0], best, atol=1e-4)
    assert (cost.min(axis=1) >= best - 1e-9).all()


def test_more_weight_on_diversity_parts_the_options():
    def apart(lam2: float) -> float:
        options = Dice(lam2=lam2).fit(cube()).find(PEOPLE, options=2).options
        x = [CUBE.encode(group) for _, group in options.groupby("person") if len(group) == 2]
        return float(np.mean([(a[0] - a[1]).abs().sum() for a in x])) if x else 0.0

    assert apart(1.0) > apart(0.0)


def test_rules_fixed_features_and_directions_are_kept():
    schema = Schema(
        (
            Number("a", 0, 1),
            Number("b", 0, 1, moves="up"),
            Binary("sex", moves="fixed"),
            Category("job", ("x", "y", "z"), missing=True),
        )
    )
    model = linear(schema, [2.0, 2.0, 3.0, -1.0, 1.0, 0.5, 0.0], -1.9)
    people = pd.DataFrame({"a": [0.2, 0.1, 0.0], "b": [0.3, 0.0, 0.1], "sex": [0, 0, 0], "job": ["x", "z", None]})
    answer = Dice().fit(Problem(schema, model, rules=[AtMost(2)])).find(people, options=2)
    assert (answer.status == Status.FOUND).all()
    found = answer.options
    own = people.loc[found.index.get_level_values("person")].set_axis(found.index)
    assert (found["sex"] == own["sex"]).all()
    assert (found["b"] >= own["b"]).all()
    assert (found["job"].isna() == own["job"].isna()).all()
    assert (answer.changes().groupby(["person", "option"]).size() <= 2).all()


def test_smaller_weights_are_tried_where_points_are_refused():
    flat = Problem(CUBE, linear(CUBE, [0.01, 0.01, 0.01], -0.01))  # cost outweighs the hinge a hundred times
    near = {"spread": 0.05, "lam2": 0.0}
    assert Dice(rounds=1, **near).fit(flat).find(PEOPLE).counts()["FOUND"] < len(PEOPLE)
    assert Dice(rounds=4, **near).fit(flat).find(PEOPLE).counts()["FOUND"] == len(PEOPLE)


def test_the_same_twice_and_in_any_order():
    dice = Dice.small().fit(cube())
    answer = dice.find(PEOPLE, options=2)
    assert answer == dice.find(PEOPLE, options=2)
    pd.testing.assert_frame_equal(dice.find(PEOPLE.iloc[::-1], options=2).options.sort_index(), answer.options)


def test_stops_at_the_time_limit():
    answer = Dice(steps=10**6, rounds=10**3).fit(cube()).find(PEOPLE, time_limit=0.2)
    assert answer.seconds < 5


def test_needs_a_differentiable_model():
    model = wrap(lambda table: (table["a"] > 0.5).to_numpy(float), CUBE)
    with pytest.raises(MethodError, match="needs a model that is Differentiable"):
        Dice().fit(Problem(CUBE, model))


@pytest.mark.parametrize(
    "bad", [{"steps": 0}, {"rounds": -1}, {"least": 0}, {"lam2": -1.0}, {"lr": 0.0}, {"spread": math.inf}]
)
def test_refuses_bad_parameters(bad):
    with pytest.raises(MethodError, match=f"Dice has {next(iter(bad))}="):
        Dice(**bad).fit(cube())
