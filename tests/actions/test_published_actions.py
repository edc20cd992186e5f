"""The actions of two published studies, on an example person each."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch

from turnabout.actions import (
    Absolute,
    Action,
    ActionSet,
    BoundActions,
    Follow,
    KeepRatio,
    Set,
    Shift,
    Squared,
    new,
    old,
)
from turnabout.schema import Category, Number, Schema


def walk(bound: BoundActions, row: dict[str, Any], name: str, *r: float) -> tuple[dict[str, float], float, bool]:
    """State by column name, cost and whether all conditions hold after one step of a person."""
    schema = bound.schema
    sequence = torch.tensor([[bound.names.index(name)]])
    parameters = torch.zeros(1, 1, bound.tables.used.shape[1], dtype=torch.float64)
    parameters[0, 0, : len(r)] = torch.tensor(r, dtype=torch.float64)
    script = bound.script(sequence)
    path = script.roll(bound.tables.units(schema.encode(pd.DataFrame([row]))), parameters)
    hold = torch.where(script.strict[0], path.slack[:, 0] > 1e-12, path.slack[:, 0] >= 0)
    columns = [schema.columns[j] for j in bound.tables.columns]
    return dict(zip(columns, path.end[0].tolist(), strict=True)), float(path.cost), bool(hold.all())


GERMAN = Schema(
    (
        Number("age", low=15, high=120, step=1, moves="up"),
        Number("amount", low=1, high=99_999, step=1),
        Number("duration", low=0.5, high=119.5, step=0.5),
        Category("foreign", levels=("A201", "A202")),
        Category("guarantors", levels=("A101", "A102", "A103")),
        Category("job", levels=("A171", "A172", "A173", "A174")),
    )
)
GERMAN_ACTIONS = ActionSet(
    [
        Action("WaitYears", Shift("age"), Absolute("age"), [new("age") > old("age"), new("age") < 120]),
        Action("Naturalize", Set("foreign", "A202"), 5, old("foreign") != "A202"),
        Action(
            "ChangeCreditAmount",
            Shift("amount"),
            Squared("amount", relative=True),
            [old("age") > 15, new("amount").between(0, 100_000)],
        ),
        Action(
            "ChangeLoanPeriod", Shift("duration"), Squared("duration", relative=True), new("duration").between(0, 120)
        ),
        Action(
            "AdjustLoanPeriod",
            [Shift("amount"), KeepRatio("duration", "amount")],
            Squared("amount", relative=True),
            [old("amount") > 1000, new("duration").between(0, 120), new("amount").between(0, 100_000)],
        ),
        Action("GetGuarantor", Set("guarantors", "A103"), 5, old("guarantors") != "A103"),
        Action("GetUnskilledJob", Set("job", "A172"), 5, old("job") == "A171"),
    ],
    time_unit="years",
)
DEBTOR = {"age": 30, "amount": 5000, "duration": 36, "foreign": "A201", "guarantors": "A101", "job": "A171"}


@pytest.mark.parametrize(
    ("name", "r", "becomes", "cost"),
    [
        ("WaitYears", 3.0, {"age": 33.0}, 3.0),
        ("Naturalize", 0.0, {"foreign=A201": 0.0, "foreign=A202": 1.0}, 5.0),
        ("ChangeCreditAmount", -2500.0, {"amount": 2500.0}, 0.25),
        ("ChangeLoanPeriod", -25.0, {"duration": 11.0}, (25 / 36) ** 2),
        ("AdjustLoanPeriod", -1000.0, {"amount": 4000.0, "duration": 28.8}, 0.04),
        ("GetGuarantor", 0.0, {"guarantors=A101": 0.0, "guarantors=A103": 1.0}, 5.0),
        ("GetUnskilledJob", 0.0, {"job=A171": 0.0, "job=A172": 1.0}, 5.0),
    ],
)
def test_the_german_set(name: str, r: float, becomes: dict[str, float], cost: float) -> None:
    bound = GERMAN_ACTIONS.bind(GERMAN)
    still, _, _ = walk(bound, DEBTOR, "WaitYears", 0.0)
    assert walk(bound, DEBTOR, name, r) == (pytest.approx(still | becomes), pytest.approx(cost), True)


@pytest.mark.parametrize(
    ("name", "r", "change"),
    [
        ("WaitYears", 0.0, {}),
        ("WaitYears", 90.0, {}),
        ("Naturalize", 0.0, {"foreign": "A202"}),
        ("ChangeCreditAmount", -5000.0, {}),
        ("ChangeCreditAmount", 95_000.0, {}),
        ("ChangeCreditAmount", 10.0, {"age": 15}),
        ("ChangeLoanPeriod", 84.0, {}),
        ("AdjustLoanPeriod", -10.0, {"amount": 1000}),
        ("AdjustLoanPeriod", 15_000.0, {}),
        ("GetGuarantor", 0.0, {"guarantors": "A103"}),
        ("GetUnskilledJob", 0.0, {"job": "A172"}),
        ("GetUnskilledJob", 0.0, {"job": "A173"}),
    ],
)
def test_the_german_set_refuses(name: str, r: float, change: dict[str, Any]) -> None:
    assert walk(GERMAN_ACTIONS.bind(GERMAN), DEBTOR | change, name, r)[2] is False


def test_which_german_actions_commute() -> None:
    bound = GERMAN_ACTIONS.bind(GERMAN)
    apart = [(a, b) for a in range(7) for b in range(a + 1, 7) if not bound.commute(a, b)]
    # waiting mends the age that a change of the amount asks for; three actions share amount and duration
    assert [(bound.names[a], bound.names[b]) for a, b in apart] == [
        ("WaitYears", "ChangeCreditAmount"),
        ("ChangeCreditAmount", "AdjustLoanPeriod"),
        ("ChangeLoanPeriod", "AdjustLoanPeriod"),
    ]
    assert bound.commute(6, 0) and not bound.commute(4, 2) and not bound.commute(2, 0)
    assert bound.writes[4] == {1, 2} and bound.reads[2] == {0, 1}
    assert bound.footprint_columns(5).tolist() == [5, 6, 7]


ADULT = Schema(
    (
        Number("Age", low=17, high=120, step=1, moves="up"),
        Number("Education num", low=1, high=16, step=1, moves="up"),
        Number("Capital Gain", low=0, high=100_000, step=1),
        Number("Capital Loss", low=0, high=5000, step=1),
        Number("Hours/Week", low=1, high=99, step=1),
        Category("Occupation", levels=("Sales", "Craft-repair", "Armed-Forces")),
    )
)
YOUNGER = [new("Age") > old("Age"), new("Age") < 120]
ADULT_ACTIONS = ActionSet(
    [
        Action(
            "AddEducation",
            [Shift("Education num"), Follow("Age", "Education num", times=2)],
            Absolute("Education num"),
            [*YOUNGER, new("Education num") > old("Education num"), new("Education num") < 16.5],
            duration=2 * (new("Education num") - old("Education num")),
        ),
        Action("ChangeWorkingHours", Shift("Hours/Week"), Absolute("Hours/Week", per=10), "0 < new `Hours/Week` < 90"),
        Action(
            "ChangeCapitalLoss",
            Shift("Capital Loss"),
            Absolute("Capital Loss", per=1000),
            [old("Capital Gain") < 1, new("Capital Loss").between(1, 5000)],
        ),
        Action("Enlist", Set("Occupation", "Armed-Forces"), 5, old("Occupation") != "Armed-Forces"),
        Action(
            "IncreaseCapitalGain",
            Shift("Capital Gain"),
            Absolute("Capital Gain", per=10_000),
            [old("Capital Loss") < 1, new("Capital Gain").between(0, 100_000)],
        ),
        Action("WaitYears", Shift("Age"), Absolute("Age"), YOUNGER, duration=new("Age") - old("Age")),
    ],
    time_unit="years",
)
EARNER = dict(zip(ADULT.names, (40, 10, 0, 0, 45, "Sales"), strict=True))


@pytest.mark.parametrize(
    ("name", "r", "becomes", "cost"),
    [
        ("AddEducation", 3.0, {"Education num": 13.0, "Age": 46.0}, 3.0),
        ("ChangeWorkingHours", -15.0, {"Hours/Week": 30.0}, 1.5),
        ("ChangeCapitalLoss", 2000.0, {"Capital Loss": 2000.0}, 2.0),
        ("Enlist", 0.0, {"Occupation=Sales": 0.0, "Occupation=Armed-Forces": 1.0}, 5.0),
        ("IncreaseCapitalGain", 5000.0, {"Capital Gain": 5000.0}, 0.5),
        ("WaitYears", 4.0, {"Age": 44.0}, 4.0),
    ],
)
def test_the_adult_set(name: str, r: float, becomes: dict[str, float], cost: float) -> None:
    bound = ADULT_ACTIONS.bind(ADULT)
    still, _, _ = walk(bound, EARNER, "WaitYears", 0.0)
    assert walk(bound, EARNER, name, r) == (pytest.approx(still | becomes), pytest.approx(cost), True)


@pytest.mark.parametrize(
    ("name", "r", "change"),
    [
        ("AddEducation", -1.0, {}),
        ("AddEducation", 7.0, {}),
        ("ChangeWorkingHours", 45.0, {}),
        ("ChangeCapitalLoss", 500.0, {"Capital Gain": 1}),
        ("ChangeCapitalLoss", 1.0, {}),
        ("IncreaseCapitalGain", 500.0, {"Capital Loss": 1}),
    ],
)
def test_the_adult_set_refuses(name: str, r: float, change: dict[str, Any]) -> None:
    assert walk(ADULT_ACTIONS.bind(ADULT), EARNER | change, name, r)[2] is False


def test_the_published_sets_have_no_problems_and_read_back() -> None:
    people = pd.DataFrame([DEBTOR, DEBTOR | {"job": "A173"}])
    assert GERMAN_ACTIONS.problems(GERMAN, people) == ()
    assert ADULT_ACTIONS.problems(ADULT, pd.DataFrame([EARNER])) == ()
    for actions in (GERMAN_ACTIONS, ADULT_ACTIONS):
        assert ActionSet.from_yaml(actions.to_yaml()) == actions
