"""The language of actions: what it is made of, what it refuses, how it reads."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.actions import (
    Absolute,
    Action,
    ActionSet,
    BoundActions,
    ConstantPrice,
    Expression,
    Follow,
    KeepRatio,
    Parameter,
    Price,
    Scale,
    Set,
    Shift,
    Squared,
    new,
    old,
)
from turnabout.costs import L1
from turnabout.errors import ActionError
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

SCHEMA = Schema(
    (
        Number("age", low=18, high=118, step=1, moves="up"),
        Number("amount", low=0, high=100_000, step=1, label="loan amount"),
        Number("months", low=0, high=120, step=1),
        Number("weight", low=-5, high=5, step=0.5),
        Number("children", low=0, high=9, step=1, moves="fixed"),
        Ordinal("school", levels=("none", "some", "degree", "doctor"), moves="up"),
        Binary("member", levels=("no", "yes")),
        Category("job", levels=("none", "unskilled", "skilled")),
    )
)
ROW = {
    "age": 30,
    "amount": 5000,
    "months": 36,
    "weight": 1.5,
    "children": 2,
    "school": "some",
    "member": "no",
    "job": "none",
}

STUDY = Action(
    "AddEducation",
    [Shift("Education num"), Follow("Age", "Education num", times=2)],
    Absolute("Education num"),
    [new("Age") > old("Age"), new("Age") < 120, "old `Education num` < new `Education num` < 16.5"],
    duration=2 * (new("Education num") - old("Education num")),
)
PAIR = ActionSet([Action("Wait", Shift("age"), 1, new("age") > old("age")), Action("Join", Set("member", "yes"), 5)])


def bind(*actions: Action) -> BoundActions:
    return ActionSet(actions).bind(SCHEMA)


# -- expressions and conditions -----------------------------------------------------------------------------------


def test_expressions_add_up() -> None:
    sum_ = 2 * (new("age") - old("age")) + 3 - old("months") / 4 + old("age")
    assert str(sum_) == "2 * new age - old age - 0.25 * old months + 3"
    assert sum_.value({"age": 30, "months": 36}, {"age": 33}) == 2 * 33 - 30 - 9 + 3
    assert str(1 - new("age")) == "-new age + 1" and str(-old("age") + 0.1) == "-old age + 0.1"
    assert (new("age") - new("age")).is_constant
    assert sum_.features() == ("age", "months") and sum_.features("new") == ("age",)
    assert repr(sum_) == str(sum_) and sum_.same_as(copy.copy(sum_)) and not sum_.same_as(old("age"))


def test_conditions_compare_as_objects() -> None:
    assert (new("age") > 5) == (new("age") > 5)
    assert (new("age") > 5) != (new("age") >= 5)
    assert len({new("age") > 5, new("age") > 5.0, old("age") > 5}) == 2
    assert repr(old("job") == "none") == "old job is none"
    assert (old("member") == np.int64(1)) == (old("member") == 1)
    assert (new("a") + new("b") == 5).right.same_as(Expression((), 5.0))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: bool(new("age") > 5), "has no truth value"),
        (lambda: 0 < new("age") < 5, "between"),
        (lambda: new("age") * old("age"), "is not linear"),
        (lambda: new("age") / 0, "cannot be divided by 0"),
        (lambda: new("age") / old("age"), "cannot be divided by"),
        (lambda: new("age") + "5", "not a number"),
        (lambda: new("age") + float("nan"), "not a finite number"),
        (lambda: new("age") * 1e16, "not a finite number of ordinary size"),
        (lambda: new("age") > None, "is compared with None"),
        (lambda: new("age") > float("inf"), "not a finite number"),
        (lambda: new("age") + 1 == "old", "only old"),
        (lambda: new("age") != old("age"), "not one linear condition"),
        (lambda: Expression() > 5, "speaks of no feature"),
        (lambda: new(""), "names no value"),
        (lambda: new(5), "names no value"),  # type: ignore[arg-type]
        (lambda: ta.actions.Condition(new("age"), "~", 5), "has the sense '~'"),  # type: ignore[arg-type]
        (lambda: {new("age")}, "unhashable"),
    ],
)
def test_expressions_and_conditions_refuse(make: Any, said: str) -> None:
    with pytest.raises((ActionError, TypeError), match=said):
        make()


# -- declarations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Shift(""), "Shift names the feature ''"),
        (lambda: Shift("age", by=""), "is empty"),
        (lambda: Shift("age", by=float("inf")), "not a finite number"),
        (lambda: Shift("age", times=0), "shifts nothing"),
        (lambda: Set("age", None), "is set to None"),  # type: ignore[arg-type]
        (lambda: Set("age", float("nan")), "not a finite number"),
        (lambda: Scale("age", by=True), "not a number"),
        (lambda: Follow("age", ""), "has no leader"),
        (lambda: Follow("age", "age"), "follows itself"),
        (lambda: Follow("age", "months", times=0), "follows nothing"),
        (lambda: KeepRatio("age", "age"), "follows itself"),
        (lambda: ConstantPrice(-1), "below zero"),
        (lambda: -1 * Absolute("age"), "below zero"),
        (lambda: Absolute("age", per=0), "above zero"),
        (lambda: Absolute(5), "names the feature 5"),  # type: ignore[arg-type]
        (lambda: Squared("age", relative="yes"), "relative='yes'"),  # type: ignore[arg-type]
        (lambda: Absolute("age", weight=1e300), "not a finite number"),
        (lambda: Price(()), "has no terms"),
        (lambda: Parameter(""), "is named ''"),
        (lambda: Parameter("n", low=3, high=2), "low=3 above high=2"),
        (lambda: Parameter("n", high=float("inf")), "leave a limit out"),
        (lambda: Parameter("n", low=-2e15), "leave a limit out"),
        (lambda: Parameter("n", unit=5), "has the unit 5"),  # type: ignore[arg-type]
        (lambda: Action("", Shift("age"), 1), "an action is named ''"),
        (lambda: Action("A", [], 1), "has no effect"),
        (lambda: Action("A", ["wait"], 1), "which cannot be read"),  # type: ignore[list-item]
        (lambda: Action("A", [Shift("age"), Set("age", 5)], 1), "changes 'age' twice"),
        (lambda: Action("A", Shift("age"), None), "not a number"),  # type: ignore[arg-type]
        (lambda: Action("A", Shift("age"), Absolute("months")), "prices a change of 'months'"),
        (lambda: Action("A", Shift("age"), 1, parameters=[Parameter("n")]), "'n', which no effect uses"),
        (lambda: Action("A", Shift("age", by="n"), 1, parameters=[Parameter("n")] * 2), "declares 'n' twice"),
        (lambda: Action("A", Shift("age"), 1, parameters=["n"]), "has the parameter 'n'"),  # type: ignore[list-item]
        (lambda: Action("A", [Shift("age", by="n"), Scale("months", by="n")], 1), "both a factor and an amount"),
        (lambda: Action("A", Shift("age"), 1, label="{years}"), "asks for {years}"),
        (lambda: Action("A", Shift("age"), 1, label="{"), "cannot be read"),
        (lambda: Action("A", Shift("age"), 1, [True]), "has the condition True"),  # type: ignore[list-item]
        (lambda: ActionSet([]), "is empty"),
        (lambda: ActionSet(["A"]), "'A' is not an Action"),  # type: ignore[list-item]
        (lambda: ActionSet([Action("A", Shift("age"), 1)] * 2), "two actions are named 'A'"),
        (lambda: PAIR["Fly"], "there is no action 'Fly'"),
    ],
)
def test_declarations_refuse(make: Any, said: str) -> None:
    with pytest.raises(ActionError, match=said) as caught:
        make()
    assert caught.value.hint


def test_a_set_is_a_small_container() -> None:
    assert len(PAIR) == 2 and [action.name for action in PAIR] == list(PAIR.names) == ["Wait", "Join"]
    assert ActionSet(Action("A", Shift("age"), 1)).names == ("A",)  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(PAIR)) == PAIR and len({*PAIR, *PAIR}) == 2
    assert ActionSet(PAIR.actions, time_unit="years") != PAIR and PAIR["Wait"] != "Wait"

    bound = pickle.loads(pickle.dumps(PAIR.bind(SCHEMA)))
    assert len(bound) == 2 and repr(bound) == "BoundActions(Wait, Join)"


# -- binding ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (Action("A", Shift("wages"), 1), "names the feature 'wages'"),
        (Action("A", Shift("age"), 1, old("wages") > 1), "names the feature 'wages'"),
        (Action("A", Shift("age"), 1, duration=old("wages")), "names the feature 'wages'"),
        (Action("A", Shift("children"), 1), "which the schema holds fixed"),
        (Action("A", Set("job", "pilot"), 1), "'pilot' as a value of 'job'"),
        (Action("A", Set("school", "kindergarten"), 1), "declare Parameter\\('kindergarten'\\)"),
        (Action("A", Set("amount", "goal"), 1), "which is not a number"),
        (Action("A", Set("amount", True), 1), "which is not a number"),
        (Action("A", Set("amount", 200_000), 1), "outside \\[0, 100000\\]"),
        (Action("A", Set("weight", 1.25), 1), "not a multiple of 0.5"),
        (Action("A", Set("job", "none"), 1, parameters=[Parameter("none")]), "to the parameter 'none'"),
        (Action("A", Shift("job"), 1), "shifts the category 'job'"),
        (Action("A", Set("job", "none"), Absolute("job")), "prices the change of the category 'job'"),
        (Action("A", Shift("age"), 1, old("job") > 1), "counts with the category 'job'"),
        (Action("A", Shift("age"), 1, old("job") >= "none"), "have no order"),
        (Action("A", Shift("age"), 1, old("job") == "pilot"), "'pilot' as a value of 'job'"),
        (Action("A", Shift("age"), 1, old("age") == "old"), "'age' is a number"),
        (Action("A", Shift("age"), 1, old("age") != 5), "compare numbers with"),
        (Action("A", Shift("age"), 1, old("school") != "some"), "levels on both sides"),
        (Action("A", Shift("age"), 1, old("age") > old("age") - 1), "compares a value with itself"),
        (Action("A", Scale("school"), 1), "multiplies 'school', which is not a Number"),
        (Action("A", Scale("weight"), 1), "a ratio needs values of one sign"),
        (Action("A", Shift("weight"), Squared("weight", relative=True)), "prices its relative change"),
        (Action("A", Shift("school"), Squared("school", relative=True)), "which is not a Number"),
        (Action("A", [Shift("weight"), KeepRatio("months", "weight")], 1), "keeps a ratio to it"),
        (Action("A", KeepRatio("months", "amount"), 1), "which the action does not change"),
        (Action("A", [KeepRatio("months", "amount"), KeepRatio("amount", "months")], 1), "does not change"),
        (Action("A", [Shift("school"), KeepRatio("months", "school")], 1), "keeps a ratio to 'school'"),
        (Action("A", Follow("age", "months"), 1), "which is not shifted by it"),
        (Action("A", [Set("months", 5), Follow("age", "months")], 1), "which is not shifted by it"),
        (Action("A", [Scale("months", by=2), Follow("age", "months")], 1), "which is not shifted by it"),
        (
            Action("A", [Shift("amount"), KeepRatio("months", "amount"), Follow("age", "months")], 1),
            "which is not shifted",
        ),
        (Action("A", [Follow("age", "months"), Follow("months", "age")], 1), "follow each other in a circle"),
    ],
)
def test_binding_refuses(action: Action, said: str) -> None:
    with pytest.raises(ActionError, match=said) as caught:
        bind(action)
    assert caught.value.hint


# -- words --------------------------------------------------------------------------------------------------------


def test_steps_in_sequences() -> None:
    bound = bind(
        Action("wait", Shift("age", by="years"), 1, label="wait {years} years {{or so}}"),
        Action("scale", [Scale("amount", by="f"), Scale("months", by="f")], 1),
        Action("goal", Set("months", "goal"), 1, parameters=[Parameter("goal")], label="aim at {goal}"),
        Action("double", [Shift("school", by="n", times=0.5), Set("job", "skilled"), Set("member", "yes")], 1),
    )
    assert bound.describe(0, ROW, ROW | {"age": 33}) == ({"years": 3.0}, "wait 3 years {or so} (age 30 -> 33)")
    assert bound.describe(1, pd.Series(ROW), pd.Series(ROW | {"amount": 2500, "months": 18})) == (
        {"f": 0.5},
        "loan amount 5000 -> 2500, months 36 -> 18",
    )
    assert bound.describe(2, ROW, ROW | {"months": 12.5}) == ({"goal": 12.5}, "aim at 12.5 (months 36 -> 12.5)")
    changed = ROW | {"school": "degree", "job": "skilled", "member": "yes"}
    assert bound.describe(3, ROW, changed) == (
        {"n": 2.0},
        "school some -> degree, member no -> yes, job none -> skilled",
    )
    assert bound.describe(3, changed, changed) == ({"n": 0.0}, "nothing changes")
    with pytest.raises(ActionError, match="'job' holds 'pilot'"):
        bound.describe(3, ROW, ROW | {"job": "pilot"})


def test_missing_cells_in_sequences() -> None:
    schema = Schema((Number("debt", 0, 9, step=1, missing=True), Number("age", 0, 99, step=1)))
    bound = ActionSet([Action("a", [Shift("age"), Shift("debt")], 1)]).bind(schema)
    values, words = bound.describe(0, {"debt": 3, "age": 5}, {"debt": float("nan"), "age": 6})
    assert words == "debt 3 -> missing, age 5 -> 6" and values["age"] == 1.0


def test_the_table_for_review() -> None:
    actions = ActionSet(
        [
            STUDY,
            Action(
                "Several",
                [
                    Shift("a", by="n"),
                    Shift("b", by="n", times=3),
                    Shift("c", by=-2),
                    Shift("d", by=2),
                    Scale("e"),
                    Scale("f", by=0.5),
                    Set("g", "goal"),
                    Set("h", "own"),
                    KeepRatio("i", "e"),
                ],
                3 * Absolute("a", per=10) + 2 * Squared("b", relative=True) + 1.5,
                ["old h is not own", "old h >= rent", "new b = old b + 3", "2 * new a - old b - 4 >= 0"],
                duration=2,
                parameters=[Parameter("n", 0, 5, "hours"), Parameter("goal", low=1), Parameter("e", high=2)],
                repeatable=True,
            ),
            Action("Gift", Set("h", "own"), 0, duration="new a"),
            Action.free("Free", [Parameter("x1")], lambda x, r: x, lambda x, y, r: r, footprint=["a"]),
        ],
        time_unit="years",
    )
    table = actions.table()
    assert table.columns.tolist() == ["action", "does", "costs", "only if", "takes", "touches"]
    assert table.to_numpy().tolist() == [
        [
            "AddEducation",
            "changes Education num by a chosen amount; Age changes by 2 for every 1 of Education num",
            "the change of Education num",
            "new Age is above old Age; new Age is below 120; old Education num is below new Education num; "
            "new Education num is below 16.5",
            "2 times the change of Education num (in years)",
            "Education num, Age",
        ],
        [
            "Several",
            "changes a by n, 0 to 5 hours; changes b by 3 times n; takes 2 from c; adds 2 to d; "
            "multiplies e by a chosen factor, at most 2; multiplies f by 0.5; sets g to a chosen value, at least 1; "
            "sets h to own; i keeps its ratio to e; may be repeated",
            "3 times the change of a / 10 + 2 times the square of the relative change of b + 1.5",
            "old h is not own; old h is at least rent; new b is equal to old b plus 3; "
            "2 times new a minus old b minus 4 is at least 0",
            "2 years",
            "a, b, c, d, e, f, g, h, i",
        ],
        ["Gift", "sets h to own", "nothing", "", "new a (in years)", "h"],
        ["Free", "a function of x1", "a function", "", "no time", "a"],
    ]
    assert ActionSet(actions.actions[1:3]).table()["takes"].tolist() == ["2", "new a"]
    assert ActionSet([Action("A", Shift("a"), 1)]).table()["takes"].tolist() == ["no time"]


# -- drafts -------------------------------------------------------------------------------------------------------


def test_a_draft_costs_what_the_l1_distance_does() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drafted = ActionSet.draft(SCHEMA)
        bound = drafted.bind(SCHEMA)
    assert drafted.names == (
        *(f"Change {name}" for name in ("age", "amount", "months", "weight", "school", "member")),
        *(f"Set job to {level}" for level in ("none", "unskilled", "skilled")),
    )
    assert ActionSet.from_yaml(drafted.to_yaml()) == drafted
    sequences = torch.tensor(
        [[bound.names.index(name) for name in ("Change age", "Change school", "Set job to skilled")]]
    )
    r = torch.tensor([[[7.0], [2.0], [0.0]]], dtype=torch.float64)
    x = SCHEMA.encode(pd.DataFrame([ROW]))
    path = bound.script(sequences).roll(bound.tables.units(x), r)
    x_new = bound.tables.encoded(x, path.end)
    assert SCHEMA.decode(x_new).iloc[0].to_dict() == ROW | {"age": 37, "school": "doctor", "job": "skilled"}
    torch.testing.assert_close(path.cost.sum(1), L1().bind(SCHEMA)(x, x_new))
