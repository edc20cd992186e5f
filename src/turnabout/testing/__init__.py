"""The contract of methods, for anyone's method: `check_method`, problems with known answers, hypothesis strategies.

    import turnabout as ta
    print(ta.testing.check_method(MyMethod))

Hypothesis is imported by `turnabout.testing.strategies` alone; `check_method` does without.
"""

from turnabout.testing.checks import Check, checks
from turnabout.testing.contract import ContractError, Report, check_method, examine
from turnabout.testing.generate import Case, random_case
from turnabout.testing.known import Known, brute_force, known_problems
from turnabout.testing.real import real_case

__all__ = [
    "Case",
    "Check",
    "ContractError",
    "Known",
    "Report",
    "brute_force",
    "check_method",
    "checks",
    "examine",
    "known_problems",
    "random_case",
    "real_case",
]


def __dir__() -> list[str]:
    return __all__
