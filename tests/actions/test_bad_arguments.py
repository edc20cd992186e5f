"""Arguments that make no rule, region, cost or action: always an error of ours that says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout import costs, rules
from turnabout.actions import (
    Absolute,
    Action,
    ActionSet,
    ConstantPrice,
    Follow,
    KeepRatio,
    Parameter,
    Scale,
    Set,
    Shift,
    Squared,
    new,
)
from turnabout.errors import RuleError, TurnaboutError
from turnabout.rules import (
    AtMost,
    Ball,
    Box,
    Budget,
    Changes,
    Equation,
    Falls,
    Implies,
    Is,
    Linear,
    Ordered,
    Polytope,
    Rises,
    Rule,
    StructuralEquations,
)
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

SCHEMA = Schema(
    (
        Number("a", 0, 10, step=1),
        Number("b", 0, 10, missing=True),
        Ordinal("o", ("x", "y", "z")),
        Binary("m"),
        Category("c", ("p", "q", "r")),
    )
)
X = torch.rand(20, SCHEMA.d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ODD: list[Any] = [
    None, 3, -1, 2.5, 10**400, math.nan, math.inf, -math.inf, True, np.int64(2), np.float64("nan"), pd.NA,
    "text", "", "a", b"a", np.str_("a"), [], {}, (), [1], ["a"], ["a", "a"], [None], [[]], [("a", 1)],
    {"a": 1}, {"a": None}, {1: 1}, {"a": math.nan}, {"a": True}, {"kind": []}, {"rule": {}},
    object(), np.array([1, 2]), torch.tensor(1.0), pd.Series([1]), AtMost, costs.L1, AtMost(1), costs.L1(), Rises("a"),
    lambda: 1,
]  # fmt: skip
SHIFT, ONE = Shift("a", by="n"), Action("w", effect=Shift("a", by="n"), cost=1.0)
WRITTEN = ActionSet([ONE]).to_dict()
MAKERS: dict[str, Callable[[Any], Any]] = {
    "AtMost": AtMost,
    "AtMost features": lambda v: AtMost(1, v),
    "Linear": Linear,
    "Linear weight": lambda v: Linear({"a": v}),
    "Linear sense": lambda v: Linear({"a": 1.0}, v),
    "Linear bound": lambda v: Linear({"a": 1.0}, "<=", v),
    "Linear name": lambda v: Linear({"a": 1.0}, "<=", 1.0, v),
    "Ordered": lambda v: Ordered(v, "b"),
    "Ordered upper": lambda v: Ordered("a", v),
    "Rises": Rises,
    "Rises by": lambda v: Implies(Rises("a", by=v), Falls("b")),
    "Falls by": lambda v: Implies(Rises("b"), Falls("a", by=v)),
    "Changes": lambda v: Implies(Changes(v), Rises("a")),
    "Is": lambda v: Implies(Is(v, "x"), Rises("a")),
    "Is level": lambda v: Implies(Is("o", v), Rises("a")),
    "Implies": lambda v: Implies(v, Rises("a")),
    "Implies then": lambda v: Implies(Rises("a"), v),
    "Box": Box,
    "Box reach": lambda v: Box({"a": v}),
    "Box name": lambda v: Box({"a": 1.0}, v),
    "Ball": lambda v: Ball(v, {"a": 1.0}),
    "Ball scales": lambda v: Ball(1.0, v),
    "Budget": Budget,
    "Budget reach": lambda v: Budget(1.0, v),
    "Polytope": Polytope,
    "Polytope row": lambda v: Polytope([v]),
    "Polytope b": lambda v: Polytope([({"a": 1.0}, v)]),
    "Equation": lambda v: Equation(v, 0, {"a": 1.0}),
    "Equation intercept": lambda v: Equation("a", v),
    "Equation coefficients": lambda v: Equation("b", 0, v),
    "Equation weight": lambda v: Equation("b", 0, {"a": v}),
    "Equation noise": lambda v: Equation("b", 0, {"a": 1.0}, noise_sd=v),
    "Equation covariance": lambda v: Equation("b", 0, {"a": 1.0}, covariance=v),
    "Equation parents": lambda v: Equation("b", function=lambda p: p["a"], parents=v),
    "StructuralEquations": StructuralEquations,
    "StructuralEquations one": lambda v: StructuralEquations([v]),
    "StructuralEquations acts": lambda v: StructuralEquations([Equation("b", 0, {"a": 1.0})], v),
    "Waivable": rules.Waivable,
    "rules.from_dict": rules.from_dict,
    "rules.to_dict": lambda v: v if isinstance(v, costs.Cost) else rules.to_dict(v),
    "rules.from_dict at most": lambda v: rules.from_dict({"rule": "at_most", "k": v}),
    "rules.from_dict linear": lambda v: rules.from_dict({"rule": "linear", "coefficients": v, "name": v}),
    "rules.from_dict implies": lambda v: rules.from_dict({"rule": "implies", "if": {"rises": v}, "then": v}),
    "rules.from_dict causal": lambda v: rules.from_dict({"rule": "causal", "equations": v}),
    "rules.from_dict waivable": lambda v: rules.from_dict({"rule": "at_most", "k": 1, "waivable": v}),
    "rules.from_dict extra": lambda v: rules.from_dict({"rule": "ordered", "lower": "a", "upper": "b", "extra": v}),
    "costs.from_dict": costs.from_dict,
    "costs.from_dict kind": lambda v: costs.from_dict({"kind": v}),
    "costs.from_dict difficulty": lambda v: costs.from_dict({"kind": "L1", "difficulty": v}),
    "costs.from_dict terms": lambda v: costs.from_dict({"kind": "Sum", "terms": v}),
    "costs.from_dict cost": lambda v: costs.from_dict({"kind": "Scaled", "factor": v, "cost": v}),
    "L1": costs.L1,
    "L2 squared": lambda v: costs.L2(squared=v),
    "PercentileShift": lambda v: costs.PercentileShift(reduce=v),
    "Sum": costs.Sum,
    "Scaled": lambda v: costs.Scaled(v, costs.L1()),
    "Scaled cost": lambda v: costs.Scaled(1.0, v),
    "Weighted": lambda v: costs.Weighted(v, costs.L1()),
    "Weighted cost": lambda v: costs.Weighted({"a": 2.0}, v),
    "Action": lambda v: Action(v, effect=SHIFT, cost=1.0),
    "Action effect": lambda v: Action("w", effect=v, cost=1.0),
    "Action cost": lambda v: Action("w", effect=SHIFT, cost=v),
    "Action precondition": lambda v: Action("w", effect=SHIFT, cost=1.0, precondition=v),
    "Action duration": lambda v: Action("w", effect=SHIFT, cost=1.0, duration=v),
    "Action parameters": lambda v: Action("w", effect=SHIFT, cost=1.0, parameters=v),
    "Action label": lambda v: Action("w", effect=SHIFT, cost=1.0, label=v),
    "Action form": lambda v: Action("w", effect=SHIFT, cost=1.0, form=v),
    "Action.free": lambda v: Action.free("w", v, lambda x, r: x, lambda x, y, r: x[:, 0], footprint=["a"]),
    "Action.free footprint": lambda v: Action.free("w", (), lambda x, r: x, lambda x, y, r: x[:, 0], footprint=v),
    "ActionSet": ActionSet,
    "ActionSet one": lambda v: ActionSet([v]),
    "ActionSet unit": lambda v: ActionSet([ONE], v),
    "ActionSet.draft": ActionSet.draft,
    "ActionSet.from_dict": ActionSet.from_dict,
    "ActionSet.from_dict actions": lambda v: ActionSet.from_dict(WRITTEN | {"actions": v}),
    "ActionSet.from_yaml": ActionSet.from_yaml,
    "Set": lambda v: Set("a", v),
    "Shift": lambda v: Shift("a", by=v),
    "Scale": lambda v: Scale("a", by=v),
    "Follow": lambda v: Follow("a", v),
    "KeepRatio": lambda v: KeepRatio("a", v),
    "Parameter": Parameter,
    "Parameter low": lambda v: Parameter("n", low=v),
    "ConstantPrice": ConstantPrice,
    "Absolute": Absolute,
    "Absolute per": lambda v: Absolute("a", per=v),
    "Squared": lambda v: Squared("a", weight=v),
    "new": new,
    "new >": lambda v: new("a") > v,
    "new ==": lambda v: new("a") == v,
    "new +": lambda v: new("a") + v,
}  # fmt: skip


def use(made: Any) -> None:
    """What people do next with what they made."""
    str(made), repr(made)
    if isinstance(made, (Rule, ActionSet)):
        made.bind(SCHEMA)
    if isinstance(made, costs.Cost):
        made.bind(SCHEMA, X)
    if hasattr(made, "to_dict") and not isinstance(made, (type, pd.Series)):
        made.to_dict()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAKERS)
def test_bad_arguments_are_told_as_such(name) -> None:
    for value in ODD:
        try:
            use(MAKERS[name](value))
        except TurnaboutError as error:
            if len(str(error)) > 1000:
                pytest.fail(f"{name} of {value!r:.60}: an error of {len(str(error))} letters")
        except Exception as error:
            pytest.fail(f"{name} of {value!r:.60}: {type(error).__name__}: {error}")


def test_numbers_of_numpy_are_numbers() -> None:
    assert AtMost(np.int64(2)) == AtMost(2)
    assert Rises("a", by=np.int64(2)) == Rises("a", by=2)
    assert Linear({"a": np.float32(0.5)}, bound=np.int64(3)) == Linear({"a": 0.5}, bound=3.0)
    assert Box({np.str_("a"): np.int64(2)}) == Box({"a": 2.0})
    assert np.float64(0.5) * costs.L1() == 0.5 * costs.L1() == costs.L1() * np.float64(0.5)
    assert Is("m", np.int64(1)) == Is("m", 1)
    assert type(AtMost(np.int64(2)).to_dict()["k"]) is int


# -- names -------------------------------------------------------------------------------------------------------


def test_a_name_may_hold_braces() -> None:
    schema = Schema((Number("{", 0, 10, step=1), Number("{0}", 0, 10, step=1), Category("{k}", ("{x}", "y"))))
    region = Box({"{": 2.0, "{0}": 3.0, "{k}": 1.0})
    assert str(region) == "{ changes by at most 2; {0} by at most 3; {k} by at most 1"
    for rule in (region, AtMost(1, ["{"]), Linear({"{": 1.0, "{k}={x}": 2.0}, "<=", 9.0), Ordered("{", "{0}"),
                 Budget(1.0, {"{": 2.0}), Ball(1.0, {"{": 2.0}), Polytope([({"{": 1.0}, 1.0)]),
                 Implies(Is("{k}", "{x}"), Rises("{0}"))):  # fmt: skip
        assert "{" in str(rule)
        assert rules.from_dict(rule.to_dict()) == rule
        rule.bind(schema)
    actions = ActionSet.draft(schema)
    assert actions == ActionSet.from_yaml(actions.to_yaml())
    actions.bind(schema)


def test_a_coefficient_names_the_right_level() -> None:
    def column(key: str, *features: Any) -> str:
        schema = Schema(features)
        bound = Linear({key: 1.0}, "<=", 5.0).bind(schema)
        return "; ".join(schema.columns[j] for j in bound.a.nonzero().flatten().tolist())

    wide, narrow = Category("x=y", ("z", "w")), Category("x", ("a", "y=w", "b"))
    assert column("x=y=z", narrow, wide) == "x=y=z"
    assert column("x=y=z", wide, narrow) == "x=y=z"
    assert column("x=a", wide, narrow) == "x=a"
    exact = Number("x=y=z", 0, 5)
    schema = Schema((wide, exact))
    assert Linear({"x=y=z": 1.0}, "<=", 3.0).bind(schema).features == (1,)
    with pytest.raises(RuleError, match="a level of 'x' and one of 'x=y'"):
        Linear({"x=y=w": 1.0}).bind(Schema((narrow, wide)))
    with pytest.raises(RuleError, match=r"names the level 'v', which is not one of the levels .* of 'x=y'"):
        Linear({"x=y=v": 1.0}).bind(Schema((narrow, wide)))


def test_rules_may_be_given_alone_to_a_problem() -> None:
    model = ta.models.wrap(lambda table: (table["a"].to_numpy() > 5).astype(float), SCHEMA)
    assert len(ta.Problem(SCHEMA, model, rules=AtMost(2).waivable()).rules) == 1
    with pytest.raises(TurnaboutError):
        ta.Problem(SCHEMA, model, rules=AtMost)
