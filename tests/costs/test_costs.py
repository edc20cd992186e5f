"""Costs on numbers done by hand, their algebra, their gradients, their errors."""

from __future__ import annotations

import json
import math
import pickle

import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turnabout import costs
from turnabout.costs import L0, L1, L2, MAD, PercentileShift, Scaled, Sum, Weighted
from turnabout.errors import ProblemError
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

SCHEMA = Schema(
    (
        Number("age", low=20, high=70, step=1),
        Number("income", low=0, high=100, missing=True),
        Ordinal("school", levels=("none", "some", "degree")),
        Binary("member"),
        Category("housing", levels=("own", "rent", "free"), missing=True),
    )
)
PEOPLE = pd.DataFrame(
    {
        "age": [20, 30, 40, 50, 70],
        "income": [10.0, 20.0, 20.0, None, 60.0],
        "school": ["none", "some", "some", "some", "degree"],
        "member": [0, 0, 0, 0, 1],
        "housing": ["own", "own", "rent", "rent", "free"],
    }
)
BACKGROUND = SCHEMA.encode(PEOPLE)
ROW = {"age": 30, "income": 20.0, "school": "some", "member": 0, "housing": "rent"}
ALL = [L0(), L1(), L2(), L2(squared=True), MAD(), PercentileShift(), PercentileShift(reduce="max"), L1() + 0.1 * L0()]


def rows(*changes: dict[str, object]) -> torch.Tensor:
    return SCHEMA.encode(pd.DataFrame([ROW | change for change in changes]))


X = rows({}, {}, {})
X_NEW = rows({}, {"age": 40, "member": 1}, {"income": 45.0, "school": "degree", "housing": "own"})
# distances: none; age 10/50 = 0.2, member 1; income 25/100 = 0.25, school 1/2 = 0.5, housing 1


def close(actual: torch.Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (L0(), [0, 2, 3]),
        (L1(), [0, 1.2, 1.75]),
        (L2(), [0, math.sqrt(0.04 + 1), math.sqrt(0.0625 + 0.25 + 1)]),
        (L2(squared=True), [0, 1.04, 1.3125]),
        (L1(difficulty={"age": 5.0, "school": 0.0}), [0, 2.0, 1.25]),
        (L0(difficulty={"member": 3.0}), [0, 4, 3]),
        (L2(difficulty={"age": 5.0}), [0, math.sqrt(2), math.sqrt(1.3125)]),
        (Weighted({"age": 5.0}), [0, 2.0, 1.75]),
        (Weighted({"age": 5.0}, L1() + L0()), [0, 2.0 + 6, 4.75]),
        (L1() + 0.1 * L0(), [0, 1.4, 2.05]),
        (2 * (L1() + L0()), [0, 6.4, 9.5]),
    ],
)
def test_formula_by_hand(cost: costs.Cost, expected: list[float]) -> None:
    bound = cost.bind(SCHEMA)
    close(bound(X, X_NEW), expected)
    if bound.separable:
        close(bound.per_feature(X, X_NEW).sum(-1), expected)


def test_distances_of_features_are_those_of_the_schema() -> None:
    torch.testing.assert_close(L1().bind(SCHEMA).per_feature(X, X_NEW), SCHEMA.distance(X, X_NEW))


def test_mad_by_hand_with_its_fallbacks() -> None:
    bound = MAD().bind(SCHEMA, BACKGROUND)
    age = 10 / 50  # median 40; deviations 20 10 0 10 30, median 10
    income = 5 / 100  # without the missing cell: 10 20 20 60, median 20; deviations 0 0 10 40, median 5
    school = math.sqrt(0.1)  # MAD 0; positions 0 .5 .5 .5 1: variance (0.25 + 0.25) / 5
    member = math.sqrt(0.2 * 0.8)  # MAD 0
    housing = math.sqrt((0.4 * 0.6 + 0.4 * 0.6 + 0.2 * 0.8) / 2)
    torch.testing.assert_close(
        bound.linear_weights, 1 / torch.tensor([age, income, school, member, housing], dtype=torch.float64)
    )
    close(bound(X, X_NEW), [0, 0.2 / age + 1 / member, 0.25 / income + 0.5 / school + 1 / housing])


def test_mad_falls_back_to_the_range_where_everybody_is_the_same() -> None:
    close(MAD().bind(SCHEMA, BACKGROUND[:1]).linear_weights, [1.0] * 5)


def test_percentile_shift_by_hand() -> None:
    bound = PercentileShift().bind(SCHEMA, BACKGROUND)
    # age: shares .2 .4 .6 .8 1 at 20 30 40 50 70; income: .25 .75 1 at 10 20 60; school: .2 .8 1
    x_new = rows({"age": 45}, {"age": 60}, {"income": 40.0, "school": "degree"}, {"income": 5.0, "housing": "own"})
    x = X[:1].expand(4, -1)
    expected = [0.3, 0.5, (0.75 + 0.25 * 20 / 40) - 0.75 + 0.2, 0.75 - 0.125 + 1]
    close(bound(x, x_new), expected)
    close(PercentileShift(reduce="max").bind(SCHEMA, BACKGROUND)(x, x_new), [0.3, 0.5, 0.2, 1])
    close(PercentileShift(difficulty={"age": 2.0}).bind(SCHEMA, BACKGROUND)(x[:1], x_new[:1]), [0.6])


def test_percentile_shift_is_flat_beyond_the_background() -> None:
    bound = PercentileShift().bind(SCHEMA, BACKGROUND)
    close(bound(rows({"income": 60.0}), rows({"income": 90.0})), [0.0])


def test_percentile_shift_of_a_schema_without_numbers() -> None:
    schema = Schema((Binary("a"), Category("b", levels=("u", "v"))))
    x = schema.encode(pd.DataFrame({"a": [0, 1], "b": ["u", "v"]}))
    close(PercentileShift().bind(schema, x)(x[:1], x[1:]), [2.0])


@pytest.mark.parametrize("cost", ALL, ids=repr)
def test_leading_dimensions_broadcast(cost: costs.Cost) -> None:
    bound = cost.bind(SCHEMA, BACKGROUND)
    x, x_new = X.unsqueeze(1), X_NEW.unsqueeze(0).expand(3, 3, -1)
    assert bound(x, x_new).shape == (3, 3)
    assert bound.per_feature(x, x_new).shape == (3, 3, 5)
    torch.testing.assert_close(bound(x, x_new)[0], bound(X, X_NEW))
    assert bound(X[:0], X_NEW[:0]).shape == (0,)
    assert bound(X[0], X_NEW[0]).shape == ()


@pytest.mark.parametrize("cost", [c for c in ALL if "L0" not in repr(c)], ids=repr)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_gradients_agree_with_finite_differences(cost: costs.Cost, seed: int) -> None:
    bound = cost.bind(SCHEMA, BACKGROUND)
    generator = torch.Generator().manual_seed(seed)
    x_new = torch.rand(3, SCHEMA.d, generator=generator, dtype=torch.float64).requires_grad_()
    x = X.expand(3, -1)
    (gradient,) = torch.autograd.grad(bound(x, x_new).sum(), x_new)
    h = 1e-7
    for j in range(SCHEMA.d):
        step = torch.zeros(SCHEMA.d, dtype=torch.float64)
        step[j] = h
        difference = (bound(x, x_new + step) - bound(x, x_new - step)).detach() / (2 * h)
        torch.testing.assert_close(gradient[:, j], difference, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("cost", ALL, ids=repr)
def test_gradient_at_no_change_is_finite(cost: costs.Cost) -> None:
    x_new = X.clone().requires_grad_()
    total = cost.bind(SCHEMA, BACKGROUND)(X, x_new).sum()
    if total.requires_grad:
        total.backward()
        assert x_new.grad is not None
        assert x_new.grad.isfinite().all()


def test_linear_form_of_mixtures() -> None:
    bound = (L1(difficulty={"age": 5.0}) + 0.1 * L0(difficulty={"member": 2.0})).bind(SCHEMA)
    close(bound.linear_weights, [5, 1, 1, 1, 1])
    close(bound.fixed_weights, [0.1, 0.1, 0.1, 0.2, 0.1])
    for cost in (L2(), PercentileShift(), L1() + L2(squared=True)):
        bound = cost.bind(SCHEMA, BACKGROUND)
        assert bound.linear_weights is None
        assert bound.fixed_weights is None


def test_separable() -> None:
    assert (L1() + 2 * PercentileShift() + L2(squared=True)).bind(SCHEMA, BACKGROUND).separable
    assert not (L1() + L2()).bind(SCHEMA).separable
    assert not PercentileShift(reduce="max").bind(SCHEMA, BACKGROUND).separable


@pytest.mark.parametrize(
    "cost", [*ALL, Weighted({"age": 2.0}, L1() + L2()), 0.5 * (L1() + L0()), L1(difficulty={"kind": 2.0})], ids=repr
)
def test_round_trips(cost: costs.Cost) -> None:
    assert costs.from_dict(json.loads(json.dumps(cost.to_dict()))) == cost
    assert pickle.loads(pickle.dumps(cost)) == cost
    assert hash(cost) == hash(pickle.loads(pickle.dumps(cost)))
    assert eval(repr(cost), vars(costs)) == cost
    assert repr(cost.bind(Schema((*SCHEMA.features, Number("kind"))), torch.rand(4, SCHEMA.d + 1))) == repr(cost)


def test_algebra() -> None:
    assert L1() + L0() + L2() == Sum((L1(), L0(), L2()))
    assert sum([L1(), L0()]) == L1() + L0()
    assert L1() * 2 == 2 * L1() == Scaled(2.0, L1())
    assert repr(L1(difficulty={"age": 5}) + 0.1 * L0()) == "L1(difficulty={'age': 5.0}) + 0.1 * L0()"
    with pytest.raises(TypeError):
        L1() + 1  # type: ignore[operator]
    with pytest.raises(TypeError):
        L1() * "x"  # type: ignore[operator]


def test_bound_costs_pickle() -> None:
    bound = (MAD() + PercentileShift()).bind(SCHEMA, BACKGROUND)
    torch.testing.assert_close(pickle.loads(pickle.dumps(bound))(X, X_NEW), bound(X, X_NEW))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: L1(difficulty={"agee": 2.0}).bind(SCHEMA), "'agee', which is not one of \\['age', 'income'"),
        (lambda: Weighted({"housing=own": 2.0}).bind(SCHEMA), "not those of encoded columns"),
        (lambda: L1(difficulty={"age": -1.0}), "difficulty of 'age' is -1.0"),
        (lambda: L1(difficulty={"age": math.nan}), "difficulty of 'age' is nan"),
        (lambda: L1(difficulty={"age": math.inf}), "moves='fixed'"),
        (lambda: L1(difficulty={"age": "much"}), "difficulty of 'age' is 'much'"),  # type: ignore[dict-item]
        (lambda: L1(difficulty=5.0), "not a mapping"),  # type: ignore[arg-type]
        (lambda: Weighted({}, "L1"), "cannot weigh 'L1'"),  # type: ignore[arg-type]
        (lambda: -1 * L1(), "multiplied by -1.0"),
        (lambda: Sum(()), "cannot be made of"),
        (lambda: MAD().bind(SCHEMA), "MAD\\(\\) measures changes against other people"),
        (lambda: PercentileShift().bind(SCHEMA, BACKGROUND[:0]), "no background"),
        (lambda: PercentileShift(reduce="mean"), "reduce='mean'"),  # type: ignore[arg-type]
        (lambda: costs.from_dict({"kind": "L7"}), "does not describe a cost"),
        (lambda: costs.from_dict({"kind": "L1", "power": 2}), "no parameter 'power'"),
        (lambda: costs.from_dict({"kind": "Scaled", "factor": 2}), "lacks \\['cost'\\]"),
    ],
)
def test_errors_say_what_to_do(make: object, text: str) -> None:
    with pytest.raises(ProblemError, match=text) as caught:
        make()  # type: ignore[operator]
    assert "Hint: " in str(caught.value)
