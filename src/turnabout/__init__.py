"""Turnabout: what a refused person can really do to be accepted, verified before anyone reads it."""

from turnabout import actions, costs, datasets, landing, methods, metrics, models, rules
from turnabout.actions import Action, ActionSet
from turnabout.core import Attribution, Method, Problem, Proposal, Recourse, Status
from turnabout.errors import TurnaboutError
from turnabout.methods import find
from turnabout.schema import Binary, Category, Number, Ordinal, Passthrough, Schema

__version__ = "0.1.0"

__all__ = [
    "Action",
    "ActionSet",
    "Attribution",
    "Binary",
    "Category",
    "Method",
    "Number",
    "Ordinal",
    "Passthrough",
    "Problem",
    "Proposal",
    "Recourse",
    "Schema",
    "Status",
    "TurnaboutError",
    "actions",
    "audit",
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

_LATE = ("audit", "explain", "studies", "testing", "train")  # rooms most calls never enter; loaded when first used


def __getattr__(name: str) -> object:
    if name in _LATE:
        import importlib

        return importlib.import_module(f"turnabout.{name}")
    raise AttributeError(f"module 'turnabout' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
