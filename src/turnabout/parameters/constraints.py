"""What a parameter may be: a number in a range, a choice, an object of a class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from turnabout.typing import as_float, as_tuple, is_number, is_whole

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
