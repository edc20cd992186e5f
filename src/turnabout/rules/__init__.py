"""Rules that join columns, declared by feature names in the person's units.

    Linear({"debt": 1.0, "income": -0.4}, "<=", 0.0)          an inequality over the new row
    Ordered("minimum", "maximum")                             one value at most another
    Implies(Rises("education"), Rises("age", by=2))           what follows from a change
    AtMost(3)                                                 how many features a plan may change
    KnownLevels({"city": ["Ulm"]})                            levels that no option may use
    Box({"hours": 9, "education": 2})                         regions: how far a person may go; see `regions`
    StructuralEquations([Equation("savings", {"income": 0.3})])   consequences of an act

`load` reads a file of rules. A rule over a missing cell cannot be checked: a plan may not touch it, unless the rule is
`waivable()`.
"""

from turnabout.rules.at_most import AtMost, BoundAtMost
from turnabout.rules.conditions import BoundCondition, ChangeCondition, Changes, Falls, Is, Rises
from turnabout.rules.derived_directions import BoundDerivedDirections, DerivedDirections
from turnabout.rules.equations import Equation, StructuralEquations, equations_of
from turnabout.rules.implies import BoundImplies, Implies
from turnabout.rules.known_levels import BoundKnownLevels, KnownLevels
from turnabout.rules.linear import BoundLinear, Linear, Ordered
from turnabout.rules.regions import Around, Ball, BoundRegion, Box, Budget, Polytope, Region, regions_of
from turnabout.rules.rule import BoundRule, CountForm, LinearForm, Rule, Waivable, from_dict, to_dict
from turnabout.rules.rule_file import load

__all__ = [
    "Around",
    "AtMost",
    "Ball",
    "BoundAtMost",
    "BoundCondition",
    "BoundDerivedDirections",
    "BoundImplies",
    "BoundKnownLevels",
    "BoundLinear",
    "BoundRegion",
    "BoundRule",
    "Box",
    "Budget",
    "ChangeCondition",
    "Changes",
    "CountForm",
    "DerivedDirections",
    "Equation",
    "Falls",
    "Implies",
    "Is",
    "KnownLevels",
    "Linear",
    "LinearForm",
    "Ordered",
    "Polytope",
    "Region",
    "Rises",
    "Rule",
    "StructuralEquations",
    "Waivable",
    "equations_of",
    "from_dict",
    "load",
    "regions_of",
    "to_dict",
]


def __dir__() -> list[str]:
    return __all__
