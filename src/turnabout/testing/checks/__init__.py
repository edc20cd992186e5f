"""The checks of the contract: each one sentence about meaning, and a generator of complaints."""

from __future__ import annotations

from turnabout.testing.checks import conduct, optimum, option_checks, random, statuses, step_checks, tables
from turnabout.testing.checks.check import Check, entered

__all__ = ["Check", "checks"]

_ORDER = (
    statuses,
    option_checks,
    step_checks,
    random,
    tables,
    conduct,
    optimum,
)  # what explains other failures comes first


def checks() -> dict[str, Check]:
    """Every check of the contract, by name."""
    return {check.name: check for module in _ORDER for check in entered() if check.run.__module__ == module.__name__}
