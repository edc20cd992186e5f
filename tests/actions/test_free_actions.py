"""Free-form actions: functions of encoded people, in one batch with declared ones."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch

from turnabout.actions import Absolute, Action, ActionSet, BoundActions, Parameter, Shift
from turnabout.errors import ActionError
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

SCHEMA = Schema(
    (
        Number("age", low=18, high=118, step=1, moves="up"),
        Number("amount", low=0, high=100_000, step=1),
        Number("months", low=0, high=120, step=1),
        Number("debt", low=0, high=1000, step=1, missing=True),
        Ordinal("school", levels=("none", "some", "degree", "doctor"), moves="up"),
        Binary("member", levels=("no", "yes")),
        Category("job", levels=("none", "unskilled", "skilled"), missing=True),
        Number("balance", low=-100, high=-10, step=1),
    )
)
ROW = {
    "age": 30,
    "amount": 5000,
    "months": 36,
    "debt": 40.0,
    "school": "some",
    "member": "no",
    "job": "none",
    "balance": -50,
}


def people(*changes: dict[str, object]) -> torch.Tensor:
    return SCHEMA.encode(pd.DataFrame([ROW | change for change in changes or ({},)]))


def bind(*actions: Action) -> BoundActions:
    return ActionSet(actions).bind(SCHEMA)


def close(actual: torch.Tensor, expected: object) -> None:
    torch.testing.assert_close(actual, torch.as_tensor(expected, dtype=torch.float64))


AMOUNT = SCHEMA.columns.index("amount")


def pay(x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    column = torch.nn.functional.one_hot(torch.tensor(AMOUNT), SCHEMA.d).to(x.dtype)
    return x + torch.tanh(r[:, :1]) * column


FREE = Action.free(
    "pay",
    [Parameter("x1", 0, 2), Parameter("x2", -1, 1)],
    effect=pay,
    cost=lambda x, x_new, r: (x_new - x).square().sum(-1) + r[:, 1].abs(),
    precondition=lambda x, x_new, r: torch.stack([x_new[:, AMOUNT], 1 - x_new[:, AMOUNT], r[:, 0]], 1),
    footprint=["amount"],
    duration=2,
)


def test_free_and_declared_actions_in_one_batch() -> None:
    bound = bind(Action("wait", Shift("age"), Absolute("age")), FREE)
    assert list(bound.free) == [1] and bound.lines[1] is None
    assert len(bound.tables.columns) == SCHEMA.d
    sequences = torch.tensor([[0, 1], [1, 0], [0, -1]])
    script, start = bound.script(sequences), bound.tables.units(people({}, {}, {}))
    r = torch.tensor([[[3, 0], [0.1, -0.5]], [[0.2, 0.25], [4, 0]], [[5, 0], [7, 7]]], dtype=torch.float64)
    path = script.roll(start, r)
    t1, t2 = math.tanh(0.1), math.tanh(0.2)
    close(path.end[:, 0], [33.0, 34.0, 35.0])
    close(path.end[:, AMOUNT], [5000 + 1e5 * t1, 5000 + 1e5 * t2, 5000.0])
    close(path.cost, [[3.0, t1**2 + 0.5], [t2**2 + 0.25, 4.0], [5.0, 0.0]])
    close(path.slack[0], [[1, 1, 1], [0.05 + t1, 0.95 - t1, 0.1]])
    close(script.duration(0, path.states[:, 0], path.states[:, 1]), [0.0, 2.0, 0.0])
    picked = script.take(torch.tensor([1])).roll(start[:1], r[1:2])
    close(picked.cost, path.cost[1:2])
    assert torch.autograd.gradcheck(lambda r: script.roll(start, r).cost, (r.requires_grad_(),))
    assert bound.reads[1] == set(range(len(SCHEMA))) and not bound.commute(0, 1)
    close(bound.tables.unit[1], [0.2, 0.2])
    assert bound.describe(1, ROW, ROW | {"amount": 5500}, r=(0.5, 0.0)) == (
        {"x1": 0.5, "x2": 0.0},
        "amount 5000 -> 5500",
    )


def test_where_a_search_for_a_free_form_action_begins() -> None:
    bound = bind(FREE)
    r = bound.starts(0, people({}, {}, {}), torch.Generator().manual_seed(1))
    assert r.shape == (3, 2) and (r[:, 0] >= 0).all() and (r <= torch.tensor([2.0, 1.0])).all()


def test_a_free_form_action_needs_its_parameters() -> None:
    bound = bind(FREE)
    script, start = bound.script(torch.tensor([[0]])), bound.tables.units(people())
    with pytest.raises(ActionError, match="needs its parameters"):
        script.price(0, start, start)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"effect": lambda x, r: x[:, :2]}, r"effect of the free-form action 'pay' gives a tensor of shape \(2, 2\)"),
        ({"effect": lambda x, r: x + 1}, "changes 'age', which is not in its footprint"),
        ({"effect": lambda x, r: x.nothing}, "fails on a row of zeros: AttributeError"),
        ({"effect": 5}, "effect of the free-form action 'pay' is 5"),
        ({"cost": lambda x, x_new, r: 3.0}, "gives 'float'"),
        ({"precondition": lambda x, x_new, r: r[:, 0]}, "precondition of the free-form action"),
        ({"start": lambda x, g: torch.zeros(2, 5)}, "start of the free-form action"),
        ({"footprint": ()}, "has no footprint"),
        ({"footprint": ["wages"]}, "names the feature 'wages'"),
        ({"footprint": ["amount"], "reads": ["wages"]}, "names the feature 'wages'"),
        ({"parameters": [Parameter("a"), Parameter("a")]}, "two parameters 'a'"),
    ],
)
def test_free_form_actions_are_checked(change: dict, said: str) -> None:
    fields = {
        "parameters": [Parameter("a"), Parameter("b")],
        "effect": pay,
        "cost": lambda x, x_new, r: r[:, 0] * 0,
        "footprint": "amount",
    }
    with pytest.raises(ActionError, match=said):
        bind(Action.free("pay", **fields | change))
