"""Who takes part: methods by name, by import path or as objects; and doing nothing, which stands beside all of them."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from turnabout import methods
from turnabout.core import Method, Problem, Recourse, Status
from turnabout.documents import shown
from turnabout.errors import BenchError, TurnaboutError
from turnabout.parameters import check_parameters

NOTHING = "doing nothing"
KNOWN = {cls.__name__: cls for cls in methods.ALL}
MEMBERS = "a method is a name, 'package.module:Class', a mapping of one of these to its parameters, or a Method"


@dataclass(frozen=True, eq=False)
class Entrant:
    """A method with its parameters, not fitted; without one, doing nothing.

    label : as boards and files name it: "Wachter(lam=0.1)", "package.module:MyMethod()".
    """

    label: str
    method: Method | None = None

    @classmethod
    def of(cls, given: Any) -> Entrant:
        """From what a grid may hold: see MEMBERS."""
        if isinstance(given, Entrant):
            return given
        if isinstance(given, Mapping) and len(given) == 1:
            ((name, parameters),) = given.items()
            return cls.made(_class_of(name), {} if parameters is None else parameters)
        if isinstance(given, Method):
            return cls.made(type(given), given.get_params())
        if isinstance(given, str) or (isinstance(given, type) and issubclass(given, Method)):
            return cls.made(_class_of(given), {})
        raise BenchError(f"{shown(given)} is no method.", hint=f"{MEMBERS}.")

    @classmethod
    def made(cls, kind: type[Method], parameters: Any) -> Entrant:
        """A class with parameters."""
        if not isinstance(parameters, Mapping):
            raise BenchError(f"{kind.__name__} has parameters {shown(parameters)}.", hint="write them as {lam: 0.1}.")
        try:
            method = kind(**parameters)
        except TypeError as error:
            raise BenchError(
                f"{kind.__name__} cannot be made of {shown(dict(parameters))}: {error}.",
                hint="its parameters are those of its __init__.",
            ) from None
        check_parameters(method)
        own = KNOWN.get(kind.__name__) is kind
        return cls(repr(method) if own else f"{kind.__module__}:{method!r}", method)


DOING_NOTHING = Entrant(NOTHING)


def every_method() -> tuple[Entrant, ...]:
    """All methods of the library that need no actions, with their own parameters."""
    return tuple(Entrant.of(cls) for cls in methods.ALL if not cls.needs_actions)


def nothing_done(problem: Problem, people: pd.DataFrame) -> Recourse:
    """An answer whose options are people's own rows: nothing in it is verified, and nobody is said to be found."""
    table = problem.schema.table(people)
    options = table.assign(cost=0.0, margin=problem.judge(table))
    options.index = pd.MultiIndex.from_product([people.index, [0]], names=["person", "option"])
    status = pd.Series([Status.NOT_FOUND] * len(people), index=people.index, dtype=object, name="status")
    why = pd.DataFrame({"reason": "doing nothing"}, index=people.index)
    return Recourse(table, options, status, why, NOTHING, 0.0)


def _class_of(given: Any) -> type[Method]:
    """A method's class by its name, by the path of its module, or itself."""
    if isinstance(given, type) and issubclass(given, Method):
        return given
    if not isinstance(given, str):
        raise BenchError(f"{shown(given)} is no method.", hint=f"{MEMBERS}.")
    if ":" in given:
        return _imported(given)
    if given not in KNOWN:
        near = difflib.get_close_matches(given, KNOWN, n=1)
        raise BenchError(
            f"there is no method {given!r}.",
            hint=(f"did you mean {near[0]!r}? " if near else "") + f"known methods: {', '.join(KNOWN)}; one of your "
            "own is named 'package.module:Class'.",
        )
    return KNOWN[given]


def _imported(path: str) -> type[Method]:
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except TurnaboutError:
        raise
    except Exception as error:  # of a module of somebody else anything may be raised
        raise BenchError(
            f"the method {path!r} cannot be imported: {type(error).__name__}: {error}.",
            hint="write 'package.module:Class', and let Python find the package (PYTHONPATH).",
        ) from error
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise BenchError(f"{path!r} is no class of a Method.", hint="inherit turnabout.Method.")
    return found
