"""Actions as text: what is written reads back the same, and what cannot be read says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from turnabout.actions import (
    Absolute,
    Action,
    ActionSet,
    Condition,
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
from turnabout.actions.action_text import read_conditions, read_expression, read_price
from turnabout.actions.prices import as_price
from turnabout.errors import ActionError

SET = ActionSet(
    [
        Action(
            "AddEducation",
            effect=[Shift("Education num", by="years"), Follow("age", "Education num", times=2)],
            cost=Absolute("Education num"),
            precondition=[new("age") > old("age"), new("Education num") < 16.5],
            duration=2 * (new("Education num") - old("Education num")),
            parameters=[Parameter("years", low=0, high=1 / 3, unit="years")],
            repeatable=True,
            label="study for {years} more years",
        ),
        Action("Naturalize", Set("foreign_worker", "A202"), 5, old("foreign_worker") != "A202"),
        Action("Adjust", [Shift("amount"), KeepRatio("Hours/Week", "amount")], Squared("amount", relative=True) + 0.1),
        Action("Halve", [Scale("debt", by=0.5), Set("member", True)], ConstantPrice(0), duration=1.5),
        Action("Aim", Set("hours", "goal"), 2 * Absolute("hours", per=10), parameters=[Parameter("goal")]),
        Action("Free", Scale("debt", by="factor"), "|debt / old debt| / 3", [new("debt").between(-1e-7, 1e5)]),
    ],
    time_unit="years",
)


def test_a_set_reads_back_from_yaml_json_and_files(tmp_path: Path) -> None:
    assert ActionSet.from_yaml(SET.to_yaml()) == SET
    assert ActionSet.from_json(SET.to_json()) == SET
    assert ActionSet.from_dict(SET.to_dict()) == SET
    for name in ("actions.yaml", "actions.json"):
        SET.save(tmp_path / name)
        assert ActionSet.load(tmp_path / name) == SET
    assert json.loads((tmp_path / "actions.json").read_text()) == yaml.safe_load(
        (tmp_path / "actions.yaml").read_text()
    )


def test_how_an_action_is_written() -> None:
    assert SET["AddEducation"].to_dict() == {
        "name": "AddEducation",
        "effect": [
            {"shift": "Education num", "by": "years"},
            {"follow": "age", "leader": "Education num", "times": 2},
        ],
        "cost": "|`Education num`|",
        "precondition": ["new age > old age", "new `Education num` < 16.5"],
        "duration": "2 * new `Education num` - 2 * old `Education num`",
        "parameters": [{"name": "years", "low": 0, "high": 1 / 3, "unit": "years"}],
        "repeatable": True,
        "label": "study for {years} more years",
    }
    assert SET["Naturalize"].to_dict() == {
        "name": "Naturalize",
        "effect": [{"set": "foreign_worker", "to": "A202"}],
        "cost": 5,
        "precondition": ["old foreign_worker is not A202"],
    }
    assert SET["Adjust"].to_dict()["cost"] == "(amount / old amount)^2 + 0.1"
    assert SET["Halve"].to_dict()["effect"] == [{"scale": "debt", "by": 0.5}, {"set": "member", "to": True}]
    assert SET["Aim"].to_dict()["parameters"] == [{"name": "goal"}]


def test_what_people_write_by_hand() -> None:
    text = """
    actions:
    - name: Adjust
      effect:
      - {shift: amount, by: amount}
      - {keep_ratio: duration, leader: amount}
      cost: (amount / old amount)^2
      precondition: [0 < new amount < 100000, 'old job is A171']
      duration: 3
    - name: Naturalize
      effect: {set: foreign_worker, to: A202}
      cost: "5"
      parameters: []
    """
    found = ActionSet.from_yaml(text)
    assert found["Adjust"] == Action(
        "Adjust",
        [Shift("amount"), KeepRatio("duration", "amount")],
        Squared("amount", relative=True),
        [new("amount") > 0, new("amount") < 100_000, old("job") == "A171"],
        duration=3,
    )
    assert found["Naturalize"].cost == as_price(5)


# -- conditions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("new age > old age", [new("age") > old("age")]),
        ("new age>old age", [new("age") > old("age")]),
        ("0 < new amount < 100000", [new("amount") > 0, new("amount") < 100_000]),
        ("100000 >= new amount >= 0", [new("amount") <= 100_000, new("amount") >= 0]),
        ("old age <= new age <= 2 * old age", [old("age") <= new("age"), new("age") <= 2 * old("age")]),
        ("old job is A171", [old("job") == "A171"]),
        ("old job == A171", [old("job") == "A171"]),
        ("old job = A171", [old("job") == "A171"]),
        ("old job is not A172", [old("job") != "A172"]),
        ("old job != A172", [old("job") != "A172"]),
        ("new job is Armed-Forces", [new("job") == "Armed-Forces"]),
        ("new job is self employed", [new("job") == "self employed"]),
        ('new job is "not > here"', [new("job") == "not > here"]),
        ("new job is 'none'", [new("job") == "none"]),
        ("old member is true", [old("member") == True]),  # noqa: E712
        ("old member is 1", [old("member") == 1]),
        ('old member is "1"', [old("member") == "1"]),
        ("old balance is -1.5", [old("balance") == -1.5]),
        ("old school >= degree", [old("school") >= "degree"]),
        ("new `Education num` < 16.5", [new("Education num") < 16.5]),
        ("new `a``b` < 1", [new("a`b") < 1]),
        ("new `old` > old `is`", [new("old") > old("is")]),
        ("new a = old a + 1", [new("a") == old("a") + 1]),
        ("2 new a - 3 * old b / 4 > -(1 + 2) * (old c - 5)", [2 * new("a") - 0.75 * old("b") > -3 * old("c") + 15]),
        ("new größe > 1e-3", [new("größe") > 0.001]),
    ],
)
def test_conditions_are_read(text: str, expected: list[Condition]) -> None:
    found = read_conditions(text)
    assert found == tuple(expected)
    assert [c for condition in found for c in read_conditions(str(condition))] == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("new age", "compares nothing"),
        ("", "a number is missing"),
        ("new age >", "a number is missing"),
        ("age > 5", "say whether its old or its new value is meant"),
        ("new age ? 5", "'\\?' compares nothing"),
        ("new > 5", "stands where a feature should"),
        ("(new age > 5", "stands where '\\)' should"),
        ("new age > 5 6", "'6' compares nothing"),
        ("new age * old age > 5", "is not linear"),
        ("new age / old age > 5", "is divided by"),
        ("new age / 0 > 5", "is divided by"),
        ("new job is a > b", "put it in double quotes"),
        ("new age < 1e400", "not a finite number"),
        ("5 < 6", "speaks of no feature"),
        ("new age + 1 is old", "a feature is missing"),
        ("new age + 1 is A", "only old"),
        ("new age is not old age", "not one linear condition"),
        ("new age < 5 and new age > 3", "'and' compares nothing"),
    ],
)
def test_conditions_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(ActionError, match=said):
        read_conditions(text)


names = st.text(min_size=1, max_size=6)
numbers = st.floats(-1e12, 1e12, allow_nan=False).map(lambda v: v + 0.0)
terms = st.tuples(st.sampled_from(["old", "new"]), names, numbers)
expressions = st.builds(Expression, st.lists(terms, max_size=4).map(tuple), numbers)
levels = st.one_of(st.text(max_size=8), st.booleans(), st.integers(-1000, 1000), numbers)


@given(expression=expressions)
def test_every_expression_reads_back(expression: Expression) -> None:
    assert read_expression(str(expression)).same_as(expression)


@given(left=expressions, right=expressions, sense=st.sampled_from(["<", "<=", ">", ">=", "is"]))
def test_every_comparison_reads_back(left: Expression, right: Expression, sense: str) -> None:
    if left.is_constant and right.is_constant:
        return
    condition = Condition(left, sense, right)  # type: ignore[arg-type]
    assert read_conditions(str(condition)) == (condition,)


@given(name=names, level=levels, sense=st.sampled_from(["is", "is not"]))
def test_every_level_reads_back(name: str, level: object, sense: str) -> None:
    condition = Condition(old(name), sense, level)  # type: ignore[arg-type]
    (found,) = read_conditions(str(condition))
    assert found == condition and isinstance(found.right, bool) == isinstance(level, bool)


# -- prices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", as_price(5)),
        ("|education_num|", as_price(Absolute("education_num"))),
        ("|hours| / 10", as_price(Absolute("hours", per=10))),
        ("2.5 * |hours|", as_price(Absolute("hours", weight=2.5))),
        ("(amount / old amount)^2", as_price(Squared("amount", relative=True))),
        ("|amount / old amount|", as_price(Absolute("amount", relative=True))),
        ("(amount / 3)^2", as_price(Squared("amount", per=3))),
        ("(amount / old amount / 0.1)^2", as_price(Squared("amount", per=0.1, relative=True))),
        ("|a| + 3 * (`b c`)^2 + 5", Absolute("a") + 3 * Squared("b c") + 5),
    ],
)
def test_prices_are_read(text: str, expected: Price) -> None:
    assert read_price(text) == expected
    assert str(expected) == text


@given(
    summands=st.lists(
        st.one_of(
            st.builds(ConstantPrice, st.floats(0, 1e9)),
            st.builds(Absolute, names, st.floats(1e-6, 1e6), st.booleans(), st.floats(0, 1e6)),
            st.builds(Squared, names, st.floats(1e-6, 1e6), st.booleans(), st.floats(0, 1e6)),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_every_price_reads_back(summands: list) -> None:
    price = Price(tuple(summands))
    assert read_price(str(price)) == price


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it ends where"),
        ("age", "'age' stands where '\\|' or '\\(' should"),
        ("|age", "it ends where '\\|' should come"),
        ("(age)", "it ends where '\\^' should come"),
        ("(age)^3", "'3' stands where '2' should"),
        ("|age / old amount|", "is divided by the old value of 'amount'"),
        ("|age| 5", "'5' is left over"),
        ("-5", "below zero"),
        ("-2 * |age|", "below zero"),
        ("|age| / 0", "above zero"),
        ("|age| /", "a number is missing"),
        ("||", "stands where a feature should"),
    ],
)
def test_prices_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(ActionError, match=said):
        read_price(text)


# -- documents ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"actions": None}, "has no list 'actions'"),
        ({"turnabout_actions": 7}, "version 7"),
        ({"colour": 1}, "unknown entry 'colour'"),
        ({"actions": []}, "is empty"),
        ({"actions": ["wait"]}, "'wait' is not an action"),
        ({"time_unit": 5}, "the time unit is 5"),
    ],
)
def test_documents_that_are_no_set(change: dict, said: str) -> None:
    with pytest.raises(ActionError, match=said):
        ActionSet.from_dict(SET.to_dict() | change)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"effect": None}, "has the effect None"),
        ({"effect": [{"jump": "age"}]}, "which cannot be read"),
        ({"effect": [{"shift": "age", "set": "age"}]}, "which cannot be read"),
        ({"effect": [{"shift": "age", "to": 5}]}, "unknown entry 'to'"),
        ({"effect": [{"set": "age"}]}, "has no 'to'"),
        ({"effect": [{"follow": "age"}]}, "has no 'leader'"),
        ({"effect": []}, "has no effect"),
        ({"cost": None}, "not a number"),
        ({"colour": 1}, "unknown entry 'colour'"),
        ({"name": ""}, "an action is named ''"),
        ({"precondition": 5}, "has the condition 5"),
        ({"precondition": [5]}, "has the condition 5"),
        ({"parameters": [5]}, "has the parameter 5"),
        ({"parameters": [{"title": "x"}]}, "which cannot be read"),
        ({"parameters": ["x"]}, "which no effect uses"),
        ({"repeatable": "yes"}, "repeatable='yes'"),
    ],
)
def test_documents_that_are_no_action(change: dict, said: str) -> None:
    entry = {"name": "Wait", "effect": [{"shift": "age"}], "cost": 1}
    ActionSet.from_dict({"actions": [entry]})
    with pytest.raises(ActionError, match=said):
        ActionSet.from_dict({"actions": [entry | change]})


@pytest.mark.parametrize("key", ["name", "effect", "cost"])
def test_an_action_needs(key: str) -> None:
    entry = {"name": "Wait", "effect": [{"shift": "age"}], "cost": 1}
    with pytest.raises(ActionError, match=f"has no '{key}'"):
        ActionSet.from_dict({"actions": [{k: v for k, v in entry.items() if k != key}]})


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ActionError, match="cannot be read"):
        ActionSet.load(tmp_path / "none.yaml")
    with pytest.raises(ActionError, match="not valid YAML"):
        ActionSet.from_yaml("a: [")
    with pytest.raises(ActionError, match="not valid JSON"):
        ActionSet.from_json("{")


def test_free_form_actions_stay_in_python() -> None:
    free = Action.free("f", [], lambda x, r: x, lambda x, x_new, r: x[:, 0], footprint=["age"])
    with pytest.raises(ActionError, match="cannot be written to a file"):
        ActionSet([free]).to_yaml()
