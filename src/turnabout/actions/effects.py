"""What a step does to the row: shift, set, scale, follow, keep a ratio."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import ClassVar

import numpy as np

from turnabout.actions.numbers import brief, checked, plain
from turnabout.errors import ActionError
from turnabout.typing import Json, Level


@dataclass(frozen=True)
class Effect:
    """One feature that a step changes."""

    verb: ClassVar[str]
    feature: str

    def __post_init__(self) -> None:
        if not isinstance(self.feature, str) or not self.feature:
            raise ActionError(
                f"{type(self).__name__} names the feature {self.feature!r}.", hint="give the name of a feature."
            )

    @property
    def parameter(self) -> str | None:
        """The parameter it uses, where that is plain from the effect alone."""
        return None

    @property
    def reads(self) -> tuple[str, ...]:
        """Features besides its own on which the new value depends."""
        return ()

    def sentence(self) -> str:
        """As a person reads it."""
        raise NotImplementedError

    def to_dict(self) -> Json:
        """{verb: feature, ...} with every field that differs from its default."""
        out: Json = {self.verb: self.feature}
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value != field.default:
                out[field.name] = plain(value) if isinstance(value, float) else value
        return out


@dataclass(frozen=True)
class Shift(Effect):
    """The value moves by a parameter, or by a number: x' = x + times * by.

    `by` names the parameter (that of the feature when left out) or is a number; for numbers, ordinals, binaries.
    """

    verb: ClassVar[str] = "shift"
    by: str | float | None = None
    times: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        by = self.feature if self.by is None else self.by
        object.__setattr__(self, "by", _amount(by, f"by of Shift('{self.feature}')"))
        object.__setattr__(self, "times", checked(self.times, f"times of Shift('{self.feature}')"))
        if self.times == 0:
            raise ActionError(f"Shift('{self.feature}') has times=0 and shifts nothing.", hint="leave it out.")

    @property
    def parameter(self) -> str | None:
        return self.by if isinstance(self.by, str) else None

    def sentence(self) -> str:
        if isinstance(self.by, str):
            times = "" if self.times == 1 else f"{brief(self.times)} times "
            by = "a chosen amount" if self.by == self.feature and not times else f"{times}{self.by}"
            return f"changes {self.feature} by {by}"
        assert self.by is not None
        amount = self.by * self.times
        size = brief(abs(amount))
        return f"adds {size} to {self.feature}" if amount >= 0 else f"takes {size} from {self.feature}"


@dataclass(frozen=True)
class Set(Effect):
    """The value becomes a level or a number, or a parameter that the action declares: x' = to."""

    verb: ClassVar[str] = "set"
    to: Level

    def __post_init__(self) -> None:
        super().__post_init__()
        to = self.to.item() if isinstance(self.to, np.generic) else self.to
        if isinstance(to, (int, float)) and not isinstance(to, bool):
            to = plain(checked(to, f"the value that '{self.feature}' is set to"))
        if not isinstance(to, (str, int, float, bool)):
            raise ActionError(f"'{self.feature}' is set to {to!r}.", hint="give a level or a number.")
        object.__setattr__(self, "to", to)

    def sentence(self) -> str:
        return f"sets {self.feature} to {self.to}"

    def to_dict(self) -> Json:
        return {self.verb: self.feature, "to": self.to}


@dataclass(frozen=True)
class Scale(Effect):
    """The value is multiplied by a parameter, or by a number: x' = by * x. For numbers of one sign."""

    verb: ClassVar[str] = "scale"
    by: str | float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        by = self.feature if self.by is None else self.by
        object.__setattr__(self, "by", _amount(by, f"by of Scale('{self.feature}')"))

    @property
    def parameter(self) -> str | None:
        return self.by if isinstance(self.by, str) else None

    def sentence(self) -> str:
        by = self.by if isinstance(self.by, str) else brief(float(self.by or 0.0))
        return f"multiplies {self.feature} by {'a chosen factor' if by == self.feature else by}"


@dataclass(frozen=True)
class Follow(Effect):
    """The value moves with another one: x' = x + times * (change of the leader). The leader must be shifted."""

    verb: ClassVar[str] = "follow"
    leader: str
    times: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _leader(self, self.leader)
        object.__setattr__(self, "times", checked(self.times, f"times of Follow('{self.feature}')"))
        if self.times == 0:
            raise ActionError(f"Follow('{self.feature}') has times=0 and follows nothing.", hint="leave it out.")

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.leader,)

    def sentence(self) -> str:
        return f"{self.feature} changes by {brief(self.times)} for every 1 of {self.leader}"


@dataclass(frozen=True)
class KeepRatio(Effect):
    """The value keeps its ratio to another one: x' = x * leader' / leader. For numbers of one sign."""

    verb: ClassVar[str] = "keep_ratio"
    leader: str

    def __post_init__(self) -> None:
        super().__post_init__()
        _leader(self, self.leader)

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.leader,)

    def sentence(self) -> str:
        return f"{self.feature} keeps its ratio to {self.leader}"


EFFECTS: dict[str, type[Effect]] = {cls.verb: cls for cls in (Shift, Set, Scale, Follow, KeepRatio)}


def read_effect(entry: object, action: str) -> Effect:
    """An effect from {"shift": "amount", "by": "amount"} and the like."""
    verbs = [verb for verb in EFFECTS if isinstance(entry, dict) and verb in entry]
    if isinstance(entry, Effect):
        return entry
    if not isinstance(entry, dict) or len(verbs) != 1:
        raise ActionError(
            f"the action '{action}' has the effect {entry!r}, which cannot be read.",
            hint=f"write one of {', '.join(EFFECTS)}, as in {{shift: amount, by: amount}}.",
        )
    cls = EFFECTS[verbs[0]]
    rest = {key: value for key, value in entry.items() if key != verbs[0]}
    if unknown := [key for key in rest if key not in {field.name for field in fields(cls)[1:]}]:
        raise ActionError(
            f"an effect '{verbs[0]}' of the action '{action}' has the unknown entry {unknown[0]!r}.",
            hint=f"known: {', '.join(field.name for field in fields(cls)[1:])}.",
        )
    absent = [f.name for f in fields(cls)[1:] if f.default is MISSING and f.name not in rest]
    if absent:
        raise ActionError(
            f"an effect '{verbs[0]}' of the action '{action}' has no '{absent[0]}'.", hint=f"add {absent[0]}: ..."
        )
    return cls(entry[verbs[0]], **rest)


def _amount(by: object, what: str) -> str | float:
    if isinstance(by, str):
        if not by:
            raise ActionError(f"{what} is empty.", hint="give the name of a parameter, or a number.")
        return by
    return checked(by, what)


def _leader(effect: Effect, leader: object) -> None:
    kind = type(effect).__name__
    if not isinstance(leader, str) or not leader:
        raise ActionError(f"{kind}('{effect.feature}') has no leader.", hint=f'write {kind}("age", "education").')
    if leader == effect.feature:
        raise ActionError(f"{kind}('{leader}') follows itself.", hint="name another feature as the leader.")
