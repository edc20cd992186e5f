"""Steps as tensors on numbers done by hand: effects, costs, conditions, durations, limits, gradients, free forms."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnabout.actions import (
    Absolute,
    Action,
    ActionSet,
    BoundActions,
    ConstantPrice,
    Follow,
    KeepRatio,
    Parameter,
    Scale,
    Set,
    Shift,
    Squared,
    new,
    old,
)
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


def one(bound: BoundActions, *r: float, sequence: Iterable[int] = (0,), x: torch.Tensor | None = None):
    """The path of one sequence from ROW, its parameters in order of use, padded with zeros."""
    line = torch.tensor([list(sequence)])
    parameters = torch.zeros(1, line.shape[1], bound.tables.used.shape[1], dtype=torch.float64)
    parameters[:, :, 0].view(-1)[: len(r)] = torch.tensor(r, dtype=torch.float64)
    return bound.script(line).roll(bound.tables.units(people() if x is None else x), parameters)


def close(actual: torch.Tensor, expected: object) -> None:
    torch.testing.assert_close(actual, torch.as_tensor(expected, dtype=torch.float64))


# -- effects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "r", "becomes"),
    [
        ([Shift("age", by="years")], 3.0, {"age": 33.0}),
        ([Shift("age", by="years", times=2)], 3.0, {"age": 36.0}),
        ([Shift("age", by=5)], 0.0, {"age": 35.0}),
        ([Shift("school")], 1.0, {"school": 2.0}),
        ([Shift("member")], 1.0, {"member": 1.0}),
        ([Set("amount", 40)], 0.0, {"amount": 40.0}),
        ([Set("school", "doctor")], 0.0, {"school": 3.0}),
        ([Set("member", "yes")], 0.0, {"member": 1.0}),
        ([Set("job", "unskilled")], 0.0, {"job=none": 0.0, "job=unskilled": 1.0, "job=skilled": 0.0}),
        ([Scale("debt", by=0.5)], 0.0, {"debt": 20.0}),
        ([Scale("debt", by="factor")], -10.0, {"debt": 30.0}),  # the parameter inside is the shift of the first column
        ([Scale("debt", by="f"), Scale("amount", by="f")], -10.0, {"debt": 30.0, "amount": 3750.0}),
        ([Shift("amount"), KeepRatio("months", "amount")], -1000.0, {"amount": 4000.0, "months": 28.8}),
        ([Set("amount", 2500), KeepRatio("months", "amount")], 0.0, {"amount": 2500.0, "months": 18.0}),
        (
            [KeepRatio("debt", "months"), KeepRatio("months", "amount"), Scale("amount", by=2)],
            0.0,
            {"amount": 10_000.0, "months": 72.0, "debt": 80.0},
        ),
        ([Shift("balance"), KeepRatio("months", "balance")], 25.0, {"balance": -25.0, "months": 18.0}),
        ([Shift("months", by="m"), Follow("age", "months", times=1 / 12)], 24.0, {"months": 60.0, "age": 32.0}),
        ([Shift("months", by=12), Follow("age", "months", times=0.5)], 0.0, {"months": 48.0, "age": 36.0}),
        (
            [Follow("age", "months", times=2), Shift("amount"), Follow("months", "amount", times=3)],
            2.0,
            {"amount": 5002.0, "months": 42.0, "age": 42.0},
        ),
    ],
)
def test_effects_by_hand(effect: list, r: float, becomes: dict[str, float]) -> None:
    bound = bind(Action("A", effect, 0))
    names = [SCHEMA.columns[j] for j in bound.tables.columns]
    before = dict(zip(names, bound.tables.units(people())[0].tolist(), strict=True))
    after = dict(zip(names, one(bound, r).end[0].tolist(), strict=True))
    assert after == pytest.approx(before | becomes)


def test_a_parameter_that_is_set_is_the_new_value() -> None:
    bound = bind(Action("A", Set("amount", "target"), 0, parameters=[Parameter("target", 0, 9000)]))
    close(one(bound, 7000.0).end[0], [7000.0])
    assert (float(bound.tables.low[0, 0]), float(bound.tables.high[0, 0])) == (0.0, 9000.0)


def test_two_effects_may_share_a_parameter() -> None:
    bound = bind(Action("A", [Shift("age", by="n"), Shift("months", by="n", times=12)], 0))
    assert [p.name for p in bound.actions[0].parameters] == ["n"]
    close(one(bound, 2.0).end[0], [32.0, 60.0])


def test_two_parameters() -> None:
    bound = bind(Action("A", [Shift("age"), Shift("months"), Follow("amount", "months", times=10)], 0))
    script = bound.script(torch.tensor([[0]]))
    r = torch.tensor([[[2.0, -6.0]]], dtype=torch.float64)
    close(script.roll(bound.tables.units(people()), r).end[0], [32.0, 4940.0, 30.0])
    close(script.affine(0, bound.tables.units(people())).at(r[:, 0])[0], [32.0, 4940.0, 30.0])


def test_a_sequence_of_minus_one_rests() -> None:
    bound = bind(Action("A", Shift("age"), 7, new("age") > old("age"), duration=2))
    path = one(bound, 3.0, sequence=(-1, 0))
    close(path.states[0, :, 0], [30.0, 30.0, 30.0])  # the parameter of the rest is not used, that of A is 0
    close(path.cost[0], [0.0, 7.0])
    close(path.slack[0, :, 0], [1.0, 0.0])
    close(bound.script(torch.tensor([[-1, 0]])).duration(0, path.states[:, 0], path.states[:, 1]), [0.0])


# -- costs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cost", "r", "expected"),
    [
        (5, -1000.0, 5.0),
        (ConstantPrice(5), -1000.0, 5.0),
        (Absolute("amount"), -1000.0, 1000.0),
        (Absolute("amount", per=10), -1000.0, 100.0),
        (Absolute("amount", relative=True), -1000.0, 0.2),
        (Squared("amount"), -10.0, 100.0),
        (Squared("amount", per=2), -10.0, 25.0),
        (Squared("amount", relative=True), -1000.0, 0.04),
        (Squared("amount", relative=True, per=0.1), -1000.0, 4.0),
        (3 * Squared("amount", relative=True) + Absolute("amount", per=1000) + 2, -1000.0, 3.12),
        (2 + Absolute("amount", per=500, weight=0.5), 1000.0, 3.0),
        ("|amount| / 10 + 2 * (amount / old amount)^2", -1000.0, 100.08),
    ],
)
def test_costs_by_hand(cost: object, r: float, expected: float) -> None:
    bound = bind(Action("A", Shift("amount"), cost))  # type: ignore[arg-type]
    close(one(bound, r).cost, [[expected]])


def test_the_cost_of_a_relative_change_of_negative_values() -> None:
    bound = bind(Action("A", Shift("balance"), Absolute("balance", relative=True)))
    close(one(bound, 10.0).cost, [[0.2]])
    close(one(bound, 10.0).slack[0, 0], [50 / 90])  # old balance < 0


def test_costs_of_two_features_add_up() -> None:
    effect = [Shift("amount"), KeepRatio("months", "amount")]
    bound = bind(Action("A", effect, Absolute("amount", per=1000) + Squared("months")))
    close(one(bound, -1000.0).cost, [[1.0 + 7.2**2]])


def test_the_sum_of_costs_over_a_path_uses_the_state_in_between() -> None:
    bound = bind(Action("A", Shift("amount"), Squared("amount", relative=True), repeatable=True))
    close(one(bound, -2500.0, -1250.0, sequence=(0, 0)).cost, [[0.25, 0.25]])


# -- conditions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "r", "slack", "strict"),
    [
        (new("amount") > old("amount"), 1000.0, 1000 / 200_000, True),
        (new("amount") >= 4000, 1000.0, 2000 / 100_000, False),
        (new("amount") < 4000, 1000.0, -2000 / 100_000, True),
        (new("amount") <= 2 * old("amount") + 500, 1000.0, 4500 / 300_000, False),
        (new("amount") / 10 - 3 * old("months") > 0, 1000.0, (600 - 108) / (10_000 + 360), True),
        (old("school") == "some", 0.0, 0.5 / 3, False),
        (old("school") >= "some", 0.0, 0.5 / 3, False),
        (old("school") > "some", 0.0, -0.5 / 3, False),
        (old("school") <= "some", 0.0, 0.5 / 3, False),
        (old("school") < "degree", 0.0, 0.5 / 3, False),
        (old("school") != "none", 0.0, 0.5 / 3, False),
        (old("school") != "doctor", 0.0, 1.5 / 3, False),
        (old("school") > 0, 0.0, 1 / 3, True),
        (old("member") == "yes", 0.0, -0.5, False),
        (old("member") != "yes", 0.0, 0.5, False),
        (old("member") < 1, 0.0, 1.0, True),
    ],
)
def test_conditions_by_hand(condition: object, r: float, slack: float, strict: bool) -> None:
    bound = bind(Action("A", Shift("amount"), 0, condition))  # type: ignore[arg-type]
    close(one(bound, r).slack[0, 0, 0], slack)
    assert bool(bound.tables.strict[0, 0]) is strict


def test_equality_is_two_conditions() -> None:
    bound = bind(Action("A", [Shift("amount"), Shift("months")], 0, new("amount") == 100 * new("months") + 400))
    close(one(bound, 1000.0).slack[0, 0] * (100_000 + 12_000), [2000.0, -2000.0])
    assert not bound.tables.strict.any()


def test_level_conditions_of_a_category_and_of_missing_cells() -> None:
    bound = bind(Action("A", Set("job", "skilled"), 0, [old("job") != "skilled", new("job") == "skilled"]))
    # the last one goes without saying: nothing is known of a missing job
    close(one(bound).slack[0, 0], [0.5, 0.5, 0.5])
    close(one(bound, x=people({"job": None})).slack[0, 0, 2], -0.5)
    close(one(bound, x=people({"job": "skilled"})).slack[0, 0, 0], -0.5)


def test_a_missing_cell_that_is_read_breaks_a_condition() -> None:
    bound = bind(Action("A", Shift("age"), 0, old("debt") < 100))
    close(one(bound).slack[0, 0], [60 / 1000, 0.5])
    close(one(bound, x=people({"debt": None})).slack[0, 0], [100 / 1000, -0.5])


def test_what_is_divided_by_must_not_be_zero() -> None:
    bound = bind(Action("A", [Shift("amount"), KeepRatio("months", "amount")], Squared("months", relative=True)))
    broke = one(bound, 10.0, x=people({"amount": 0, "months": 0}))
    close(broke.slack[0, 0], [0.0, 0.0])  # old amount > 0, old months > 0
    assert bound.tables.strict[0].tolist() == [True, True]
    assert torch.isfinite(broke.end).all()
    said = bind(Action("A", Shift("amount"), Squared("amount", relative=True), old("amount") > 1000))
    assert said.tables.offset.tolist() == [[-1000.0], [1.0]]  # already said


def test_limits_of_a_factor_are_conditions() -> None:
    factor = Parameter("factor", low=0.5, high=2)
    bound = bind(Action("A", Scale("amount", by="factor"), 0, parameters=[factor]))
    close(one(bound, -3000.0).slack[0, 0], [-500 / 150_000, 8000 / 300_000, 5000 / 100_000])
    assert torch.isinf(bound.tables.low).all() and torch.isinf(bound.tables.high).all()
    falls = bind(Action("A", Scale("balance", by="factor"), 0, parameters=[factor]))  # half of -50 is above -50
    close(one(falls, 30.0).slack[0, 0, :2] * 90, [-5 / 1.5, 80 / 3])


# -- durations, sizes, units --------------------------------------------------------------------------------------


def test_durations_by_hand() -> None:
    actions = Action("A", Shift("age"), 0, duration=2 * (new("age") - old("age")) + 1), Action("B", Shift("amount"), 0)
    bound = bind(*actions)
    script = bound.script(torch.tensor([[0], [1]]))
    start = bound.tables.units(people({}, {}))
    path = script.roll(start, torch.tensor([[[3.0]], [[3.0]]], dtype=torch.float64))
    close(script.duration(0, start, path.end), [7.0, 0.0])


def test_units_are_a_tenth_of_the_range() -> None:
    bound = bind(
        Action("A", [Shift("age", by="n", times=2)], 0),
        Action("B", [Shift("school", by="n"), Follow("amount", "school", times=1000)], 0),
        Action("C", Set("member", "yes"), 0),
    )
    close(bound.tables.unit[:, 0], [5.0, 0.3, 1.0, 1.0])
    assert bound.tables.used[:, 0].tolist() == [True, True, False, False]


def test_only_columns_that_are_spoken_of_are_held() -> None:
    bound = bind(Action("A", Shift("amount"), Absolute("amount"), old("age") > 20, duration=new("months")))
    assert [SCHEMA.columns[j] for j in bound.tables.columns] == ["age", "amount", "months"]
    x = people({"amount": 7})
    close(bound.tables.units(x)[0], [30.0, 7.0, 36.0])
    moved = bound.tables.encoded(x, torch.tensor([[31.0, 8.0, 36.0]], dtype=torch.float64))
    pd.testing.assert_frame_equal(SCHEMA.decode(moved), SCHEMA.decode(people({"amount": 8, "age": 31})))


# -- limits -------------------------------------------------------------------------------------------------------


def limits(bound: BoundActions, x: torch.Tensor, p: int = 0) -> tuple[float, float]:
    columns = bound.tables.columns
    lo, hi = (bound.tables.units(end) for end in SCHEMA.bounds(x))
    script = bound.script(torch.tensor([[0]]))
    assert lo.shape[1] == len(columns)
    r = torch.full((1, bound.tables.used.shape[1]), 3.0, dtype=torch.float64)
    low, high = script.limits(0, bound.tables.units(x), r, p, lo, hi)
    return float(low), float(high)


def test_limits_by_hand() -> None:
    within = Action("A", [Shift("amount"), KeepRatio("months", "amount")], 0, new("months").between(9, 72))
    assert limits(bind(within), people()) == pytest.approx((-3750.0, 5000.0))
    assert limits(bind(Action("A", Shift("age"), 0)), people()) == pytest.approx((0.0, 88.0))
    declared = [Parameter("age", low=2, high=5)]
    assert limits(bind(Action("A", Shift("age"), 0, parameters=declared)), people()) == (2.0, 5.0)
    both = Action("A", [Shift("amount"), Shift("months")], 0, new("amount") >= 100 * new("months"))
    assert limits(bind(both), people()) == pytest.approx((-1100.0, 95_000.0))  # months are 39


def test_limits_are_empty_where_another_condition_fails() -> None:
    bound = bind(Action("A", Shift("amount"), 0, old("age") > 40))
    low, high = limits(bound, people())
    assert low > high
    assert limits(bound, people({"age": 41})) == pytest.approx((-5000.0, 95_000.0))
    missing = bind(Action("A", Shift("debt"), 0))
    low, high = limits(missing, people({"debt": None}))
    assert low > high


# -- gradients ----------------------------------------------------------------------------------------------------

ALL = bind(
    Action("shift", [Shift("age", by="n"), Follow("months", "age", times=-0.5)], Absolute("age"), new("age") < 100),
    Action(
        "ratio",
        [Shift("amount"), KeepRatio("months", "amount"), Scale("balance", by="b")],
        Squared("amount", relative=True) + Absolute("months", relative=True) + Squared("balance", per=10),
        [new("amount") > old("amount") / 2, new("months") < 3 * old("age")],
    ),
    Action("set", [Set("months", "m"), Set("job", "skilled")], Squared("months"), parameters=[Parameter("m", 1, 99)]),
    Action("scale", [Scale("amount", by="f"), Scale("debt", by="f")], Absolute("debt", relative=True) + 1),
)


def test_gradients_of_a_roll_are_right() -> None:
    generator = torch.Generator().manual_seed(0)
    sequences = torch.tensor([[0, 1, 3], [1, 2, 0], [3, 1, -1], [2, 3, 1], [1, 1, 0]])
    script = ALL.script(sequences)
    start = ALL.tables.units(people({}, {"age": 40}, {"amount": 900}, {"balance": -20}, {"months": 100}))
    scale = ALL.tables.unit[torch.where(sequences < 0, 4, sequences)]
    r = scale * (0.2 + 0.5 * torch.rand(scale.shape, generator=generator, dtype=torch.float64))
    weights = torch.rand(5, 4, start.shape[1], generator=generator, dtype=torch.float64)

    def total(start: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        path = script.roll(start, r)
        return (path.states * weights).sum((1, 2)) + path.cost.sum(1) + path.slack.square().sum((1, 2))

    assert torch.autograd.gradcheck(total, (start.requires_grad_(), r.requires_grad_()), eps=1e-5, atol=1e-4)


def test_affine_says_the_same_as_the_move() -> None:
    sequences = torch.tensor([[0], [1], [2], [3], [-1]])
    script = ALL.script(sequences)
    start = ALL.tables.units(people(*[{}] * 5))
    r = torch.tensor([[2.0, 0.0], [-1000.0, 5.0], [50.0, 0.0], [-2000.0, 0.0], [9.0, 9.0]], dtype=torch.float64)
    close(script.affine(0, start).at(r), script.move(0, start, r))


@given(rows=st.lists(st.integers(0, 5), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_rows_of_a_batch_do_not_know_each_other(rows: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    sequences = torch.randint(-1, 4, (6, 3), generator=generator)
    r = 10 * torch.rand(6, 3, 2, generator=generator, dtype=torch.float64)
    start = ALL.tables.units(people(*({"age": 20 + i, "amount": 10 + i} for i in range(6))))
    whole, picked = ALL.script(sequences), ALL.script(sequences).take(torch.tensor(rows))
    path, part = whole.roll(start, r), picked.roll(start[rows], r[rows])
    for name in ("states", "cost", "slack"):
        close(getattr(part, name), getattr(path, name)[rows])
    close(picked.gain, whole.gain[:, rows])


def test_tables_move_to_a_device() -> None:
    moved = ALL.to("cpu")
    assert moved.tables.keep.device.type == "cpu"
    close(moved.tables.keep, ALL.tables.keep)
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = ALL.script(torch.tensor([[0]])).colour
