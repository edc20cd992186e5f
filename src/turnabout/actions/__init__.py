"""What a person may do from where they stand: rules that join columns, and actions that plans are made of.

    ActionSet([
        Action("Wait", effect=Shift("age", by="years"), cost=Absolute("age"), precondition=new("age") > old("age")),
        Action("Naturalize", effect=Set("foreign_worker", "no"), cost=5, precondition=old("foreign_worker") != "no"),
    ], time_unit="years")

Tensors only.
"""

from __future__ import annotations

from turnabout.actions.action import Action, Parameter
from turnabout.actions.action_set import ActionSet
from turnabout.actions.bound import BoundActions
from turnabout.actions.causal import Equation, StructuralEquations
from turnabout.actions.effects import Effect, Follow, KeepRatio, Scale, Set, Shift
from turnabout.actions.expressions import Condition, Expression, new, old
from turnabout.actions.prices import Absolute, Constant, Price, Squared
from turnabout.actions.regions import Around, Ball, BoundRegion, Box, Budget, Polytope, Region
from turnabout.actions.rules import (
    AtMost,
    BoundRule,
    Changes,
    Falls,
    Implies,
    Is,
    Linear,
    LinearForm,
    Ordered,
    Rises,
    Rule,
    Waivable,
)
from turnabout.actions.steps import Affine, Path, Script, StepTables

__all__ = [
    "Absolute",
    "Action",
    "ActionSet",
    "Affine",
    "Around",
    "AtMost",
    "Ball",
    "BoundActions",
    "BoundRegion",
    "BoundRule",
    "Box",
    "Budget",
    "Changes",
    "Condition",
    "Constant",
    "Effect",
    "Equation",
    "Expression",
    "Falls",
    "Follow",
    "Implies",
    "Is",
    "KeepRatio",
    "Linear",
    "LinearForm",
    "Ordered",
    "Parameter",
    "Path",
    "Polytope",
    "Price",
    "Region",
    "Rises",
    "Rule",
    "Scale",
    "Script",
    "Set",
    "Shift",
    "Squared",
    "StepTables",
    "StructuralEquations",
    "Waivable",
    "new",
    "old",
]
