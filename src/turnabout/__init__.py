"""Turnabout: what a refused person can really do to be accepted, verified before anyone reads it."""

import importlib as _importlib
import importlib.util as _util
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from turnabout import (
        actions,
        audit,
        bench,
        costs,
        datasets,
        explain,
        landing,
        methods,
        metrics,
        models,
        rules,
        studies,
        testing,
        train,
    )
    from turnabout.actions import Action, ActionSet
    from turnabout.core import Attribution, Method, Problem, ProblemFile, Proposal, Recourse, Status
    from turnabout.errors import TurnaboutError
    from turnabout.methods import find
    from turnabout.schema import Binary, Category, Derived, Number, Ordinal, Passthrough, Reach, Schema

__version__ = "0.1.0"

__all__ = [
    "Action",
    "ActionSet",
    "Attribution",
    "Binary",
    "Category",
    "Derived",
    "Method",
    "Number",
    "Ordinal",
    "Passthrough",
    "Problem",
    "ProblemFile",
    "Proposal",
    "Reach",
    "Recourse",
    "Schema",
    "Status",
    "TurnaboutError",
    "actions",
    "audit",
    "bench",
    "costs",
    "datasets",
    "explain",
    "find",
    "landing",
    "methods",
    "metrics",
    "models",
    "rules",
    "studies",
    "testing",
    "train",
]

_HOME = {
    "actions": ("Action", "ActionSet"),
    "core": ("Attribution", "Method", "Problem", "ProblemFile", "Proposal", "Recourse", "Status"),
    "errors": ("TurnaboutError",),
    "methods": ("find",),
    "schema": ("Binary", "Category", "Derived", "Number", "Ordinal", "Passthrough", "Reach", "Schema"),
}
"""The rooms that names come from. Rooms are loaded when they are first used, and torch with them."""


def __getattr__(name: str) -> object:
    home = next((room for room, names in _HOME.items() if name in names), None)
    if home is None:
        if name.startswith("_") or _util.find_spec(f"turnabout.{name}") is None:
            raise AttributeError(f"module 'turnabout' has no attribute {name!r}")
        return _importlib.import_module(f"turnabout.{name}")
    found = getattr(_importlib.import_module(f"turnabout.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
