"""What parameters may be: declared once beside a signature, and refused in one manner.

    @checked(AuditError, samples=Whole(1), ridge=Maybe(Finite(least=0)))
    def study(samples: int = 100, ridge: float | None = None) -> Report: ...

Functions are checked when they are called, dataclasses when they are made. A class that stores its arguments in an
`__init__` of its own, such as a method or an estimator, is checked where it is used, by `check_parameters`.
"""

from turnabout.parameters.constraints import (
    Choice,
    Constraint,
    Each,
    Finite,
    Flag,
    Instance,
    Maybe,
    Named,
    Positive,
    Share,
    Whole,
)
from turnabout.parameters.declared import Declared, Parameters, check_parameters, checked, declared, parameters_of

__all__ = [
    "Choice",
    "Constraint",
    "Declared",
    "Each",
    "Finite",
    "Flag",
    "Instance",
    "Maybe",
    "Named",
    "Parameters",
    "Positive",
    "Share",
    "Whole",
    "check_parameters",
    "checked",
    "declared",
    "parameters_of",
]
