"""Parameters declared beside a signature: refused in one manner, read and set as scikit-learn does it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar

from turnabout.documents import shown
from turnabout.errors import TurnaboutError, also
from turnabout.parameters.constraints import Constraint

Target = TypeVar("Target", bound=Callable[..., Any])


class Declared:
    """What some parameters may be, and the error that refuses a value."""

    def __init__(self, error: type[TurnaboutError], /, **constraints: Constraint):
        self.error = error
        self.constraints: Mapping[str, Constraint] = constraints

    def check(self, **values: object) -> None:
        """Refuse the first of these values that makes no sense."""
        self.refuse(values, "", {})

    def refuse(self, values: Mapping[str, object], owner: str, parameters: Mapping[str, inspect.Parameter]) -> None:
        """The same for the parameters of a signature, whose defaults are the hint where a constraint has none."""
        for name, constraint in self.constraints.items():
            if name not in values or constraint.allows(values[name]):
                continue
            value, text = values[name], shown(values[name])
            text = f"{name}=" + (text if "\n" not in text else f"<a {type(value).__name__}>")
            usual = parameters[name].default if name in parameters else None
            if constraint.hint:
                hint = constraint.hint
            elif name in parameters and constraint.allows(usual):
                hint = f"the default is {usual!r}."
            else:
                hint = f"use {constraint.what}."
            error = self.error if constraint.is_kind(value) else also(self.error, TypeError)
            begin = f"{owner} has {text}, which is" if owner else f"{text} is"
            raise error(f"{begin} not {constraint.what}.", hint=hint)


def checked(error: type[TurnaboutError], /, **constraints: Constraint) -> Callable[[Target], Target]:
    """Declare what the parameters of a function or class may be; write it below `@dataclass`."""

    def declare(target: Target) -> Target:
        if isinstance(target, type):
            _declare_class(target, error, constraints)
            return target
        what, signature = Declared(error, **constraints), inspect.signature(target)
        assert constraints.keys() <= signature.parameters.keys(), target

        @functools.wraps(target)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError:
                return target(*args, **kwargs)  # which says what is missing
            what.refuse(given, "", signature.parameters)
            return target(*args, **kwargs)

        return call  # type: ignore[return-value]

    return declare


def _declare_class(kind: type, error: type[TurnaboutError], constraints: Mapping[str, Constraint]) -> None:
    assert "__dataclass_fields__" not in vars(kind), f"write @checked below @dataclass of {kind.__name__}"
    kind._declared = Declared(error, **{**declared(kind), **constraints})  # type: ignore[attr-defined]
    if "__init__" in vars(kind):
        return
    rest = getattr(kind, "__post_init__", None)

    def __post_init__(self: object) -> None:
        check_parameters(self)
        if rest is not None:
            rest(self)

    kind.__post_init__ = __post_init__  # type: ignore[attr-defined]


def declared(kind: type) -> Mapping[str, Constraint]:
    """What the parameters of a class may be, by name; empty where nothing is declared."""
    found: Declared | None = getattr(kind, "_declared", None)
    return {} if found is None else found.constraints


def check_parameters(thing: object) -> None:
    """Refuse an object one of whose parameters makes no sense."""
    found: Declared | None = getattr(type(thing), "_declared", None)
    if found is not None:
        values = {name: getattr(thing, name) for name in found.constraints}
        found.refuse(values, type(thing).__name__, inspect.signature(type(thing)).parameters)


class Parameters:
    """Arguments of __init__ that can be read and set, as scikit-learn does it."""

    refuses: ClassVar[type[TurnaboutError]] = TurnaboutError

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of __init__, by name; `deep` is scikit-learn's, and no parameter has parameters of its own."""
        return {name: getattr(self, name) for name in parameters_of(type(self))}

    def set_params(self, **params: Any) -> Self:  # scikit-learn's own signature
        """Set arguments of __init__; returns self. What was fitted stays as it is until the next `fit`."""
        known = parameters_of(type(self))
        for name in params:
            if name not in known:
                takes = f"it has {', '.join(known)}." if known else "it has none."
                raise also(self.refuses, KeyError)(f"{type(self).__name__} has no parameter '{name}'.", hint=takes)
        for name, value in params.items():
            setattr(self, name, value)
        return self


def parameters_of(kind: type) -> dict[str, inspect.Parameter]:
    """The parameters of a class's __init__; none if it has no __init__ of its own."""
    init = next((base.__dict__["__init__"] for base in kind.__mro__ if "__init__" in base.__dict__), object.__init__)
    if init is object.__init__:
        return {}
    parameters = dict(inspect.signature(init).parameters)
    parameters.pop("self")
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values()):
        raise TurnaboutError(f"{kind.__name__}.__init__ takes *args or **kwargs.", hint="name every parameter.")
    return parameters
