"""GrowingSpheres: one sample by hand, the order of shells, and costs near the known optimum."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from turnabout.core import Problem, Status
from turnabout.errors import MethodError
from turnabout.methods.growing_spheres import Axes, BestSamples, GrowingSpheres, ShellDraws, Shells
from turnabout.models import wrap
from turnabout.rules import AtMost
from turnabout.schema import Binary, Category, Number, Ordinal, Schema
from turnabout.testing.known import closed_form, tiny_grid

MIXED = Schema(
    (
        Category("job", ("a", "b", "c"), missing=True),
        Number("income", 0, 10),
        Binary("owner", ("no", "yes")),
        Ordinal("school", ("none", "some", "full"), moves="up"),
        Number("age", 0, 100, moves="fixed"),
    )
)
PERSON = pd.DataFrame({"job": ["a"], "income": [2.0], "owner": ["no"], "school": ["none"], "age": [40]})


def score(table: pd.DataFrame) -> pd.Series:
    """P(yes) of MIXED rows; 0.2 for PERSON."""
    yes = 0.05 * table["income"] + 0.2 * (table["owner"] == "yes") + 0.25 * (table["job"] == "b")
    return yes + 0.1 * (table["school"] == "some") + 0.2 * (table["school"] == "full") + 0.1


def mixed(rules=()) -> Problem:
    return Problem(MIXED, wrap(score, MIXED, threshold=0.5), rules=rules)


def draws(direction: list[float], chance: list[float], level: float = 0.0) -> ShellDraws:
    """One sample, axes income, owner, school, job."""
    row = torch.tensor([direction], dtype=torch.float64)
    shape = torch.ones_like(row)
    half = torch.full((1, 1), 0.5, dtype=torch.float64)
    return ShellDraws(row, half, torch.tensor([chance], dtype=torch.float64), level * shape)


def moved(
    direction: list[float], chance: list[float], low: float, high: float, level: float = 0.0, people=PERSON
) -> dict:
    """The sample as a row in units."""
    x = MIXED.encode(people)
    radii = (torch.tensor([r], dtype=torch.float64) for r in (low, high))
    x_new = Axes.of(MIXED).move(mixed(), x, *radii, draws(direction, chance, level))
    return MIXED.decode(x_new[0]).iloc[0].to_dict()


def test_a_number_moves_by_radius_times_direction():
    # the unit direction is (0.6, 0.8, 0, 0), the radius the middle of [0.4, 0.6]: t = (0.3, 0.4)
    row = moved([3.0, 4.0, 0.0, 0.0], [0.5, 0.59, 0.5, 0.5], 0.4, 0.6)
    assert row["income"] == pytest.approx(2.0 + 0.3 * 10, abs=1e-4)
    assert row["owner"] == "no"


def test_a_binary_flips_with_the_probability_of_its_move():
    def owner(chance: float, radius: float) -> str:
        return moved([3.0, 4.0, 0.0, 0.0], [0.5, chance, 0.5, 0.5], radius, radius)["owner"]

    assert (owner(0.59, 0.5), owner(0.61, 0.5)) == ("no", "yes")  # t = 0.4: the upper 0.4 of all chances
    assert (owner(0.91, 0.125), owner(0.89, 0.125)) == ("yes", "no")  # a quarter of the radius, a quarter of the chance


def test_an_axis_with_one_way_is_folded_onto_it():
    row = moved([-3.0, -4.0, 0.0, 0.0], [0.5, 0.61, 0.5, 0.5], 0.5, 0.5)
    assert row["income"] == 0.0  # both ways are open, and bounds hold: 2 - 3 ends at 0
    assert row["owner"] == "yes"  # folded
    row = moved([0.0, 0.0, -1.0, 0.0], [0.5, 0.5, 0.1, 0.5], 0.5, 0.5)
    assert row["school"] == "some"  # half of two steps up


def test_a_category_goes_to_another_level_with_the_probability_of_its_move():
    assert moved([0.0, 0.0, 0.0, -1.0], [0.5, 0.5, 0.5, 0.29], 0.3, 0.3)["job"] == "b"
    assert moved([0.0, 0.0, 0.0, -1.0], [0.5, 0.5, 0.5, 0.29], 0.3, 0.3, level=0.9)["job"] == "c"
    assert moved([0.0, 0.0, 0.0, -1.0], [0.5, 0.5, 0.5, 0.31], 0.3, 0.3)["job"] == "a"


def test_a_missing_cell_has_no_axis():
    nobody = PERSON.assign(job=None)
    row = moved([3.0, 0.0, 0.0, 4.0], [0.5, 0.5, 0.5, 0.0], 0.5, 0.5, people=nobody)
    assert pd.isna(row["job"])
    assert row["income"] == pytest.approx(7.0, abs=1e-4)  # so the whole radius is left for the others
    assert row["age"] == 40


def test_shells_shrink_then_grow():
    shells = Shells.first(torch.zeros(3, 1), 0.4, torch.tensor([1.0, 1.0, 0.5]))

    def turn(*hit: bool) -> list[tuple[float, float]]:
        shells.turn(torch.tensor(hit), halvings=8)
        return [(round(float(a), 3), round(float(b), 3)) for a, b in zip(shells.low, shells.high)]

    assert turn(True, False, False) == [(0.0, 0.2), (0.4, 0.8), (0.4, 0.8)]
    assert turn(True, False, False)[:2] == [(0.0, 0.1), (0.8, 1.2)]
    assert shells.active.tolist() == [0, 1]  # nothing lies further away for the last person
    assert turn(False, True, False)[0] == (0.1, 0.2)
    assert shells.active.tolist() == [0]
    turn(True, False, False)
    assert shells.active.tolist() == []


def test_the_ball_is_halved_at_most_so_often():
    shells = Shells.first(torch.zeros(1, 1), 1.0, torch.tensor([1.0]))
    for _ in range(3):
        assert len(shells.active)
        shells.turn(torch.tensor([True]), halvings=2)
    assert not len(shells.active)


def test_the_cheapest_samples_are_kept():
    found = BestSamples.none(torch.zeros(1, 1), 2)
    some = torch.tensor([0])
    found.add(some, torch.tensor([[[3.0], [1.0], [9.0]]]), torch.tensor([[3.0, 1.0, torch.inf]]))
    found.add(some, torch.tensor([[[2.0], [8.0]]]), torch.tensor([[2.0, torch.inf]]))
    assert found.x_new[0, :, 0].tolist() == [1.0, 2.0]
    assert found.cost.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("kind", ["linear", "function"])
def test_costs_lie_between_the_optimum_and_half_more(kind):
    known = closed_form(kind)
    answer = GrowingSpheres().fit(known.problem).find(known.people)
    for person, best in zip(known.people.index, known.best):
        if best:
            cost = answer.options.loc[(person, 0), "cost"]
            assert best - 1e-9 <= cost <= 1.5 * best


@pytest.mark.parametrize("seed", range(3))
def test_finds_what_there_is_on_tiny_grids(seed):
    known = tiny_grid(seed)
    answer = GrowingSpheres().fit(known.problem).find(known.people)
    for person, best in zip(known.people.index, known.best):
        if best is None:
            assert answer.status[person] in (Status.NOT_FOUND, Status.IMPOSSIBLE)
        elif best > 0:
            assert answer.options.loc[(person, 0), "cost"] >= best - 1e-9


def test_several_options_differ_and_rules_hold():
    answer = GrowingSpheres().fit(mixed([AtMost(2)])).find(PERSON, options=3)
    assert len(answer.options) >= 2
    assert not answer.options.duplicated().any()
    assert (answer.changes().groupby("option").size() <= 2).all()


def test_the_same_twice_in_any_order_and_in_any_company():
    people = pd.concat([PERSON.assign(income=float(v), age=30 + v) for v in range(3)], ignore_index=True)
    method = GrowingSpheres.small().fit(mixed())
    answer = method.find(people)
    assert answer == method.find(people)
    pd.testing.assert_frame_equal(method.find(people.iloc[::-1]).options.sort_index(), answer.options)
    alone = method.find(people.iloc[[1]])
    pd.testing.assert_frame_equal(alone.options, answer.options.loc[[1]], check_dtype=False)


def test_stops_at_the_time_limit():
    known = closed_form("function")
    answer = GrowingSpheres(samples=200_000).fit(known.problem).find(known.people, time_limit=0.05)
    assert answer.seconds < 10


@pytest.mark.parametrize(
    "bad",
    [{"samples": 0}, {"samples": 2.5}, {"halvings": -1}, {"radius": 0.0}, {"radius": float("nan")}, {"radius": "1"}],
)
def test_refuses_bad_parameters(bad):
    with pytest.raises(MethodError, match=f"GrowingSpheres has {next(iter(bad))}="):
        GrowingSpheres(**bad).fit(mixed())
