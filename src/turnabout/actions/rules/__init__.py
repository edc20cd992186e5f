"""Rules joining columns, declared by feature names in the person's units.

    Linear({"debt": 1.0, "income": -0.4}, "<=", 0.0)          an inequality over the new row
    Ordered("minimum", "maximum")                             one value at most another
    Implies(Rises("education"), Rises("age", by=2))           what follows from a change
    AtMost(3)                                                 how many features a plan may change
    KnownLevels({"city": ["Ulm"]})                            levels that nobody is sent to

A rule over a missing cell cannot be checked: a plan may not touch it, unless the rule is `waivable()`.
"""

from __future__ import annotations

from turnabout.actions.rules.at_most import AtMost, BoundAtMost
from turnabout.actions.rules.base import BoundRule, LinearForm, Rule, Waivable, from_dict, to_dict
from turnabout.actions.rules.conditions import BoundCondition, Changes, Condition, Falls, Is, Rises
from turnabout.actions.rules.implies import BoundImplies, Implies
from turnabout.actions.rules.known_levels import BoundKnownLevels, KnownLevels
from turnabout.actions.rules.linear import BoundLinear, Linear, Ordered

__all__ = [
    "AtMost",
    "BoundAtMost",
    "BoundCondition",
    "BoundImplies",
    "BoundKnownLevels",
    "BoundLinear",
    "BoundRule",
    "Changes",
    "Condition",
    "Falls",
    "Implies",
    "Is",
    "KnownLevels",
    "Linear",
    "LinearForm",
    "Ordered",
    "Rises",
    "Rule",
    "Waivable",
    "from_dict",
    "to_dict",
]
