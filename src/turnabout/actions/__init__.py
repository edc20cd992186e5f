"""What a person may do from where she stands: rules that join columns. Tensors only."""

from __future__ import annotations

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
)

__all__ = [
    "AtMost",
    "BoundRule",
    "Changes",
    "Falls",
    "Implies",
    "Is",
    "Linear",
    "LinearForm",
    "Ordered",
    "Rises",
    "Rule",
]
