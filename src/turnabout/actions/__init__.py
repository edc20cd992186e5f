"""What people do step by step: actions with effects, prices, conditions and durations, which plans are made of.

    ActionSet([
        Action("Wait", effect=Shift("age", by="years"), cost=Absolute("age"), precondition=new("age") > old("age")),
        Action("Naturalize", effect=Set("foreign_worker", "no"), cost=5, precondition=old("foreign_worker") != "no"),
    ], time_unit="years")

Tensors only.
"""

from turnabout.actions.action import Action, Parameter
from turnabout.actions.action_set import ActionSet
from turnabout.actions.bound import BoundActions
from turnabout.actions.effects import Effect, Follow, KeepRatio, Scale, Set, Shift
from turnabout.actions.expressions import Condition, Expression, new, old
from turnabout.actions.prices import Absolute, ConstantPrice, Price, Squared
from turnabout.actions.steps import AffineStep, Path, Script, StepTables

__all__ = [
    "Absolute",
    "Action",
    "ActionSet",
    "AffineStep",
    "BoundActions",
    "Condition",
    "ConstantPrice",
    "Effect",
    "Expression",
    "Follow",
    "KeepRatio",
    "Parameter",
    "Path",
    "Price",
    "Scale",
    "Script",
    "Set",
    "Shift",
    "Squared",
    "StepTables",
    "new",
    "old",
]


def __dir__() -> list[str]:
    return __all__
