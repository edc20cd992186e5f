"""What parameters may be: declared once beside a signature, and refused in one manner.

    @checked(AuditError, samples=Whole(1), ridge=Maybe(Finite(least=0)))
    def study(samples: int = 100, ridge: float | None = None) -> Report: ...

Functions are checked when they are called, dataclasses when they are made. A class that stores its arguments in an
`__init__` of its own, such as a method or an estimator, is checked where it is used, by `check_parameters`.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from turnabout.documents import shown
from turnabout.errors import TurnaboutError, also
from turnabout.typing import as_float, as_tuple, is_number, is_whole

Target = TypeVar("Target", bound=Callable[..., Any])
Member = TypeVar("Member")


class Constraint(ABC):
    """What one parameter may be. A bool is no number; numbers of numpy are."""

    hint: str

    @property
    @abstractmethod
    def what(self) -> str:
        """In words, with an article: "a whole number from 1 up"."""

    @abstractmethod
    def is_kind(self, value: object) -> bool:
        """Whether the value has the right type."""

    @abstractmethod
    def allows(self, value: object) -> bool:
        """Whether the value makes sense."""

    @abstractmethod
    def nonsense(self) -> tuple[object, ...]:
        """Some values that it does not allow, for tests."""


@dataclass(frozen=True)
class Finite(Constraint):
    """A finite number: `least` and `most` belong to the range, `above` and `below` do not."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    hint: str = ""

    @property
    def what(self) -> str:
        low = self.least if self.above is None else self.above
        high = self.most if self.below is None else self.below
        if low is None and high is None:
            return "a finite number"
        if low is not None and high is not None and (self.above is None) == (self.below is None):
            range_ = "from {:g} to {:g}" if self.above is None else "strictly between {:g} and {:g}"
            return "a number " + range_.format(low, high)
        parts = []
        if low is not None:
            parts.append(f"from {low:g} up" if self.above is None else f"above {low:g}")
        if high is not None:
            parts.append(f"at most {high:g}" if self.below is None else f"below {high:g}")
        return "a number " + ", ".join(parts)

    def is_kind(self, value: object) -> bool:
        return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)

    def allows(self, value: object) -> bool:
        if not is_number(value):
            return False
        number = as_float(value)
        return (
            (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )

    def nonsense(self) -> tuple[object, ...]:
        low = () if self.least is None else (self.least - 1,)
        high = () if self.most is None else (self.most + 1,)
        ends = tuple(end for end in (self.above, self.below) if end is not None)
        return (float("nan"), float("inf"), "ten", True, *low, *high, *ends)


@dataclass(frozen=True)
class Positive(Finite):
    """A finite number above 0."""

    above: float | None = 0.0


@dataclass(frozen=True)
class Share(Finite):
    """A number from 0 to 1; `Share(above=0, below=1)` leaves out the ends."""

    least: float | None = 0.0
    most: float | None = 1.0


@dataclass(frozen=True)
class Whole(Constraint):
    """A whole number from `least` up, to `most` if that is given; `even` for those in pairs."""

    least: int = 0
    most: int | None = None
    even: bool = False
    hint: str = ""

    @property
    def what(self) -> str:
        ends = f"from {self.least} " + ("up" if self.most is None else f"to {self.most}")
        return f"an even number {ends}" if self.even else f"a whole number {ends}"

    def is_kind(self, value: object) -> bool:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool)

    def allows(self, value: object) -> bool:
        if not is_whole(value, self.least):
            return False
        number = int(value)  # type: ignore[call-overload]
        return (self.most is None or number <= self.most) and not (self.even and number % 2)

    def nonsense(self) -> tuple[object, ...]:
        high = () if self.most is None else (self.most + 1,)
        odd = (self.least + 1 - self.least % 2,) if self.even else ()
        return (self.least - 1, self.least + 0.5, "ten", True, *high, *odd)


@dataclass(frozen=True)
class Flag(Constraint):
    """True or False."""

    hint: str = "use True or False."

    @property
    def what(self) -> str:
        return "True or False"

    def is_kind(self, value: object) -> bool:
        return isinstance(value, (bool, np.bool_))

    def allows(self, value: object) -> bool:
        return self.is_kind(value)

    def nonsense(self) -> tuple[object, ...]:
        return (1, "yes")


class Choice(Constraint):
    """One of a few values, such as `Choice("up", "down")`."""

    def __init__(self, *values: object, hint: str = ""):
        self.values = values
        self.hint = hint

    @property
    def what(self) -> str:
        return "one of " + ", ".join(map(repr, self.values))

    def is_kind(self, value: object) -> bool:
        return isinstance(value, tuple(map(type, self.values)))

    def allows(self, value: object) -> bool:
        return self.is_kind(value) and any(value == known for known in self.values)

    def nonsense(self) -> tuple[object, ...]:
        return ("nonsense", b"")


class Named(Constraint, Generic[Member]):
    """An object of a family, or the name of a member: `Named(Score, breadth=Breadth(), gradient=Gradient())`.

    The one list of a family: `get` gives the object that a parameter names.
    """

    def __init__(self, kind: type, /, **members: Member):
        self.kind = kind
        self.members = members
        self.hint = ""

    @property
    def what(self) -> str:
        return f"one of {', '.join(map(repr, self.members))}, or {_article(self.kind)}"

    def is_kind(self, value: object) -> bool:
        return isinstance(value, (str, self.kind))

    def allows(self, value: object) -> bool:
        return value in self.members if isinstance(value, str) else isinstance(value, self.kind)

    def nonsense(self) -> tuple[object, ...]:
        return ("nonsense", object())

    def get(self, value: str | Member) -> Member:
        """The object itself, or the member of that name."""
        return self.members[value] if isinstance(value, str) else value


class Instance(Constraint):
    """An object of a class, such as `Instance(Problem)`; `called` says it in other words than the class's name."""

    def __init__(self, kind: type, called: str = "", hint: str = ""):
        self.kind = kind
        self.called = called
        self.hint = hint

    @property
    def what(self) -> str:
        return self.called or _article(self.kind)

    def is_kind(self, value: object) -> bool:
        return isinstance(value, self.kind)

    def allows(self, value: object) -> bool:
        return self.is_kind(value)

    def nonsense(self) -> tuple[object, ...]:
        return (object(),)


@dataclass(frozen=True)
class Maybe(Constraint):
    """None, or what another constraint allows."""

    inner: Constraint

    @property
    def hint(self) -> str:  # type: ignore[override]
        return self.inner.hint

    @property
    def what(self) -> str:
        return f"{self.inner.what}, or None"

    def is_kind(self, value: object) -> bool:
        return value is None or self.inner.is_kind(value)

    def allows(self, value: object) -> bool:
        return value is None or self.inner.allows(value)

    def nonsense(self) -> tuple[object, ...]:
        return self.inner.nonsense()


@dataclass(frozen=True)
class Each(Constraint):
    """A list of at least so many values, each of which another constraint allows."""

    inner: Constraint
    least: int = 1
    hint: str = ""

    @property
    def what(self) -> str:
        return f"a list of {self.least} or more, each {self.inner.what}"

    def is_kind(self, value: object) -> bool:
        members = as_tuple(value)
        return members is not None and all(map(self.inner.is_kind, members))

    def allows(self, value: object) -> bool:
        members = as_tuple(value)
        return members is not None and len(members) >= self.least and all(map(self.inner.allows, members))

    def nonsense(self) -> tuple[object, ...]:
        return ("ten", *((bad,) for bad in self.inner.nonsense()), *([()] if self.least else []))


def _article(kind: type) -> str:
    """The name of a class with its article."""
    return f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}"


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
