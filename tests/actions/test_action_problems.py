"""Actions that nobody can take or that change nothing: found, and never found where there is somebody."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from turnabout.actions import (
    Action,
    ActionSet,
    BoundActions,
    Condition,
    Effect,
    Expression,
    Follow,
    KeepRatio,
    Parameter,
    Scale,
    Set,
    Shift,
    new,
    old,
)
from turnabout.actions.contradictions import contradictions, idle
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


def bind(*actions: Action) -> BoundActions:
    return ActionSet(actions).bind(SCHEMA)


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (Action("A", Shift("age"), 1, new("age") > 118), "'new age > 118' and 'age stays between its bounds'"),
        (Action("A", Shift("months"), 1, old("age") < 18), "'old age < 18' never holds"),
        (Action("A", Shift("age"), 1, new("age") < old("age")), "and 'age may only rise' contradict"),
        (Action("A", Shift("age", by=-2), 1), "'age may only rise' never holds"),
        (Action("A", Shift("age"), 1, parameters=[Parameter("age", high=-1)]), "'age may only rise' never holds"),
        (
            Action("A", Shift("amount"), 1, [new("amount") > old("amount") + 10, new("amount") < old("amount")]),
            "'new amount > old amount \\+ 10' and 'new amount < old amount' contradict",
        ),
        (
            Action("A", [Shift("months"), Follow("age", "months", -1)], 1, new("months") > old("months")),
            "'new months > old months' and 'age may only rise' contradict",
        ),
        (Action("A", Set("months", 12), 1, new("months") > 20), "'new months > 20' never holds"),
        (Action("A", Shift("months"), 1, [old("job") == "none", old("job") == "skilled"]), "leave 'job' no level"),
        (
            Action("A", Shift("months"), 1, [old("job") != "none", old("job") != "unskilled", old("job") != "skilled"]),
            "leave 'job' no level",
        ),
        (
            Action("A", Shift("months"), 1, [old("member") == "no", old("member") == "yes"]),
            "'old member is yes' and 'old member is no' contradict",
        ),
        (Action("A", Shift("months"), 1, [old("job") == "none", old("job") != "none"]), "contradict each other"),
        (Action("A", Set("job", "none"), 1, new("job") == "skilled"), "'new job is skilled' never holds"),
        (
            Action("A", Set("school", "none"), 1, old("school") != "none"),
            "'school may only rise' and 'old school is not none' contradict each other",
        ),
    ],
)
def test_contradictions(action: Action, said: str) -> None:
    with pytest.raises(ActionError, match=said):
        bind(action)
    (sentence,) = ActionSet([action]).problems(SCHEMA)
    assert sentence.startswith("nobody can take the action 'A': ")


def test_all_problems_are_listed() -> None:
    wrong = [Action(name, Shift("months"), 1, old("age") > 200) for name in "AB"]
    actions = ActionSet([*wrong, Action("C", Set("job", "none"), 1, old("job") == "none")])
    people = pd.DataFrame([ROW])
    assert [problem.split(":")[0] for problem in actions.problems(SCHEMA, people)] == [
        "nobody can take the action 'A'",
        "nobody can take the action 'B'",
        "the action 'C' never changes anything.",
        "none of these people can ever take the action 'A'.",
        "none of these people can ever take the action 'B'.",
    ]
    with pytest.raises(ActionError, match="1 more: see problems"):
        actions.bind(SCHEMA)


@pytest.mark.parametrize(
    "action",
    [
        Action("A", Set("job", "none"), 1, old("job") == "none"),
        Action("A", Set("school", "doctor"), 1, old("school") == "doctor"),
        Action("A", Shift("age"), 1, parameters=[Parameter("age", low=0, high=0)]),
        Action("A", Shift("age", by=0), 1),
        Action("A", Scale("months", by=1), 1),
    ],
)
def test_actions_that_change_nothing_are_warned_of(action: Action) -> None:
    with pytest.warns(UserWarning, match="the action 'A' never changes anything"):
        bind(action)


def test_actions_that_these_people_cannot_reach() -> None:
    people = pd.DataFrame([ROW, ROW | {"age": 50, "children": 0}])
    get = Action("get", Set("job", "unskilled"), 1)
    rise = Action("rise", Shift("months"), 1, old("job") == "skilled")
    assert ActionSet([get, rise]).problems(SCHEMA, people) == ("none of these people can ever take the action 'rise'.",)
    assert ActionSet([get, rise, Action("learn", Set("job", "skilled"), 1)]).problems(SCHEMA, people) == ()
    both = Action("both", Shift("months"), 1, [old("children") > 1, old("age") > 40])
    assert len(ActionSet([both]).problems(SCHEMA, people)) == 1  # one person has the children, another the age
    assert ActionSet([both, Action("wait", Shift("age"), 1)]).problems(SCHEMA, people) == ()
    free = Action.free("free", [], lambda x, r: x, lambda x, y, r: x[:, 0] * 0, footprint=["job"])
    assert ActionSet([rise, free]).problems(SCHEMA, people) == ()


# -- against brute force ------------------------------------------------------------------------------------------

SMALL = Schema(
    (
        Number("a", low=0, high=4, step=1),
        Number("b", low=0, high=3, step=1, moves="up"),
        Ordinal("c", levels=("low", "mid", "high"), moves="down"),
        Category("d", levels=("x", "y", "z")),
    )
)
EVERYBODY = SMALL.encode(
    pd.DataFrame(itertools.product(range(5), range(4), ("low", "mid", "high"), "xyz"), columns=list(SMALL.names))
)
AMOUNTS = torch.arange(-4, 5, dtype=torch.float64)

sums = st.builds(
    Expression,
    st.lists(
        st.tuples(st.sampled_from(["old", "new"]), st.sampled_from("abc"), st.integers(-2, 2)), min_size=1, max_size=3
    ).map(tuple),
    st.integers(-4, 4),
)
conditions = st.one_of(
    st.builds(Condition, sums.filter(lambda s: not s.is_constant), st.sampled_from(["<", "<=", ">", ">="]), st.just(0)),
    st.builds(
        Condition, st.sampled_from([old("d"), new("d")]), st.sampled_from(["is", "is not"]), st.sampled_from("xyz")
    ),
    st.builds(
        Condition,
        st.sampled_from([old("c"), new("c")]),
        st.sampled_from(["is", "<", "<=", ">", ">="]),
        st.sampled_from(["low", "mid", "high"]),
    ),
)
effects = st.sampled_from(
    [
        [Shift("a", by="r")],
        [Shift("a", by="r"), Follow("b", "a", times=-1)],
        [Shift("a", by="r"), KeepRatio("b", "a")],
        [Shift("c", by="r"), Set("d", "y")],
        [Set("d", "x"), Set("b", 2)],
        [Set("a", 3), Scale("b", by=2)],
        [Scale("b", by="r")],
        [Shift("b", by=-1)],
    ]
)


@given(effect=effects, asked=st.lists(conditions, max_size=4), low=st.one_of(st.none(), st.integers(-2, 2)))
def test_nobody_who_can_act_is_denied(effect: list[Effect], asked: list[Condition], low: int | None) -> None:
    uses = any(getattr(e, "by", None) == "r" for e in effect)
    action = Action("A", effect, 1, asked, parameters=[Parameter("r", low=low)] if uses else [])
    try:
        bound = BoundActions(SMALL, [action])
    except ActionError:
        assume(False)
    x = EVERYBODY.repeat_interleave(len(AMOUNTS), 0)
    r = AMOUNTS.repeat(len(EVERYBODY)).unsqueeze(1)
    script, start = bound.script(torch.zeros(len(x), 1, dtype=torch.long)), bound.tables.units(x)
    path = script.roll(start, r.unsqueeze(1))
    lo, hi = (bound.tables.units(end) for end in SMALL.bounds(x))
    slack = path.slack[:, 0]
    can = torch.where(script.strict[0], slack > 1e-9, slack >= -1e-9).all(1)
    can &= ((path.end >= lo - 1e-9) & (path.end <= hi + 1e-9)).all(1)
    can &= (~script.used[0] | ((r >= script.low[0]) & (r <= script.high[0]))).all(1)
    changes = ((path.end - start).abs() > 1e-9).any(1)
    if bool(can.any()):
        assert contradictions(bound) == []
    if bool((can & changes).any()):
        assert idle(bound) == []
    if uses:  # the limits of the parameter are those between which all this is so, but for strictness
        least, most = script.limits(0, start, r, 0, lo, hi)
        inside = (least <= r[:, 0] + 1e-9) & (r[:, 0] <= most + 1e-9)
        assert bool((inside | ~can).all())
        on_edge = (script.strict[0] & (slack.abs() <= 1e-9)).any(1)
        assert bool((can | ~inside | on_edge).all())
