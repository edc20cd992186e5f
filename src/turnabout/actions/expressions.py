"""What a condition is made of: sums over the row before a step (`old`) and after it (`new`), and their comparison.

    new("age") > old("age")              0.3 * new("income") - new("debt") >= 0
    old("job") == "unemployed"           new("amount").between(0, 100_000)

Numbers count in the person's units, an ordinal by the position of its level (0 lowest), a binary as 0 or 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from turnabout.actions.numbers import checked, plain, show
from turnabout.errors import ActionError
from turnabout.typing import Level

When = Literal["old", "new"]
Sense = Literal["<", "<=", ">", ">=", "is", "is not"]
FLIPPED: dict[Sense, Sense] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "is": "is", "is not": "is not"}
WORDS = frozenset({"old", "new", "is", "not", "and", "true", "false", "inf", "nan"})  # mean something in texts
IDENTIFIER = re.compile(r"[^\W\d]\w*")
BARE_LEVEL = re.compile(r"[^\W\d][\w.]*(?:[ -][\w.]+)*")


def quoted(name: str) -> str:
    """A feature's name as it stands in a text: in backticks unless it is a plain word."""
    if IDENTIFIER.fullmatch(name) and name not in WORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def level_text(level: Level) -> str:
    """A level as it stands in a text: a plain word as it is, everything that could be misread in double quotes."""
    if isinstance(level, bool):
        return "true" if level else "false"
    if not isinstance(level, str):
        return show(level)
    bare = BARE_LEVEL.fullmatch(level) and not WORDS.intersection(re.split(r"[ -]", level))
    return level if bare else json.dumps(level, ensure_ascii=False)


@dataclass(frozen=True, eq=False)
class Expression:
    """A weighted sum of values before and after a step, plus a constant. Built with `old`, `new`, +, -, * and /.

    Comparing two of them, or one with a number or a level, makes a Condition; `same_as` compares them as objects.
    """

    terms: tuple[tuple[When, str, float], ...] = ()
    constant: float = 0.0

    __hash__ = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        weights: dict[tuple[When, str], float] = {}
        for when, feature, weight in self.terms:
            if when not in get_args(When) or not isinstance(feature, str) or not feature:
                raise ActionError(f"{when} {feature!r} names no value.", hint='write old("age") or new("age").')
            weights[when, feature] = weights.get((when, feature), 0.0) + checked(weight, f"the weight of '{feature}'")
        kept = tuple((*key, checked(w, f"the weight of '{key[1]}'")) for key, w in weights.items() if w)
        object.__setattr__(self, "terms", kept)
        object.__setattr__(self, "constant", checked(self.constant, "the constant of an expression"))

    # -- arithmetic -------------------------------------------------------------------------------------------

    def __add__(self, other: Expression | float) -> Expression:
        other = as_expression(other)
        return Expression(self.terms + other.terms, self.constant + other.constant)

    def __mul__(self, factor: float) -> Expression:
        if isinstance(factor, Expression):
            raise ActionError(
                f"'{self}' times '{factor}' is not linear.", hint="multiply by plain numbers; conditions are linear."
            )
        factor = checked(factor, f"the factor of '{self}'")
        return Expression(tuple((w, f, c * factor) for w, f, c in self.terms), self.constant * factor)

    def __truediv__(self, divisor: float) -> Expression:
        if isinstance(divisor, Expression) or checked(divisor, f"the divisor of '{self}'") == 0:
            raise ActionError(f"'{self}' cannot be divided by {divisor}.", hint="divide by a number that is not zero.")
        return Expression(tuple((w, f, c / divisor) for w, f, c in self.terms), self.constant / divisor)

    def __neg__(self) -> Expression:
        return self * -1.0

    def __sub__(self, other: Expression | float) -> Expression:
        return self + -as_expression(other)

    def __rsub__(self, other: float) -> Expression:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    # -- comparison -------------------------------------------------------------------------------------------

    def __lt__(self, other: Expression | Level) -> Condition:
        return Condition(self, "<", other)

    def __le__(self, other: Expression | Level) -> Condition:
        return Condition(self, "<=", other)

    def __gt__(self, other: Expression | Level) -> Condition:
        return Condition(self, ">", other)

    def __ge__(self, other: Expression | Level) -> Condition:
        return Condition(self, ">=", other)

    def __eq__(self, other: Expression | Level) -> Condition:  # type: ignore[override]
        return Condition(self, "is", other)

    def __ne__(self, other: Expression | Level) -> Condition:  # type: ignore[override]
        return Condition(self, "is not", other)

    def between(self, low: float, high: float) -> tuple[Condition, Condition]:
        """Strictly above low and strictly below high."""
        return self > low, self < high

    def same_as(self, other: object) -> bool:
        """Whether the other is the same sum."""
        return isinstance(other, Expression) and self._key() == other._key()

    # -- reading ----------------------------------------------------------------------------------------------

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def single(self) -> tuple[When, str] | None:
        """The one value it stands for, if it is just that."""
        if len(self.terms) == 1 and self.terms[0][2] == 1.0 and self.constant == 0.0:
            return self.terms[0][:2]
        return None

    def features(self, when: When | None = None) -> tuple[str, ...]:
        """The features it reads, each once."""
        return tuple(dict.fromkeys(f for w, f, _ in self.terms if when in (None, w)))

    def value(self, old: Mapping[str, float], new: Mapping[str, float]) -> float:
        """Its value for numbers before and after."""
        return self.constant + sum(c * (old if w == "old" else new)[f] for w, f, c in self.terms)

    def __str__(self) -> str:
        text = ""
        for when, feature, weight in self.terms:
            size = f"{when} {quoted(feature)}"
            size = size if abs(weight) == 1 else f"{show(abs(weight))} * {size}"
            text += (" - " if text else "-") + size if weight < 0 else (" + " if text else "") + size
        if not text:
            return show(self.constant)
        if self.constant:
            text += f" {'-' if self.constant < 0 else '+'} {show(abs(self.constant))}"
        return text

    def __repr__(self) -> str:
        return str(self)

    def _key(self) -> tuple[Any, ...]:
        return self.terms, self.constant


@dataclass(frozen=True, eq=False, repr=False)
class Condition:
    """A comparison that must hold for a step to be allowed; made by comparing expressions.

    left : an expression with at least one value.
    sense : "<", "<=", ">", ">=", "is" or "is not".
    right : an expression, or a level for "is", "is not" and the order of an ordinal.
    """

    left: Expression
    sense: Sense
    right: Expression | Level

    def __post_init__(self) -> None:
        right = self.right.item() if isinstance(self.right, np.generic) else self.right
        if self.sense not in get_args(Sense):
            raise ActionError(f"a condition has the sense {self.sense!r}.", hint=f"use one of {get_args(Sense)}.")
        if isinstance(right, (int, float)) and not isinstance(right, bool):
            checked(right, f"the number that '{self.left}' is compared with")
            right = as_expression(right) if self.sense in ("<", "<=", ">", ">=") or not self.left.single else right
        elif not isinstance(right, (Expression, str, bool)):
            raise ActionError(
                f"'{self.left}' is compared with {right!r}.",
                hint='compare with numbers, levels, old("...") and new("...").',
            )
        if isinstance(right, Expression) and self.left.is_constant:
            right, left = self.left, right
            object.__setattr__(self, "left", left)
            object.__setattr__(self, "sense", FLIPPED[self.sense])
        if self.left.is_constant:
            raise ActionError(
                f"the condition '{self.left} {self.sense} {right}' speaks of no feature.",
                hint='compare old("...") or new("...") with something.',
            )
        if isinstance(right, Expression) and right.is_constant and self.left.single and self.sense in ("is", "is not"):
            right = plain(right.constant)  # one way to write it
        if not isinstance(right, Expression) and not self.left.single:
            raise ActionError(
                f"'{self.left}' is compared with the level {right!r}.", hint='only old("f") or new("f") has a level.'
            )
        if isinstance(right, Expression) and self.sense == "is not":
            raise ActionError(
                f"'{self.left}' is asked to differ from '{right}', which is not one linear condition.",
                hint="use < or >, or two actions.",
            )
        object.__setattr__(self, "right", right)

    def __bool__(self) -> bool:
        raise ActionError(
            f"the condition '{self}' has no truth value of its own: it waits for a person.",
            hint="a chain such as 0 < new(x) < 5 loses half of itself in Python: write new(x).between(0, 5), "
            "and list conditions instead of joining them with `and`.",
        )

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Its expressions: both sides, or the left one if the right is a level."""
        return (self.left, self.right) if isinstance(self.right, Expression) else (self.left,)

    def features(self, when: When | None = None) -> tuple[str, ...]:
        """The features it reads, each once."""
        return tuple(dict.fromkeys(f for part in self.parts for f in part.features(when)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        if isinstance(self.right, Expression):
            return f"{self.left} {'=' if self.sense == 'is' else self.sense} {self.right}"
        return f"{self.left} {self.sense} {level_text(self.right)}"

    def __repr__(self) -> str:
        return str(self)

    def _key(self) -> tuple[Any, ...]:
        right = self.right._key() if isinstance(self.right, Expression) else (type(self.right) is bool, self.right)
        return self.left._key(), self.sense, right


def old(feature: str) -> Expression:
    """The value before the step."""
    return Expression((("old", feature, 1.0),))


def new(feature: str) -> Expression:
    """The value after the step."""
    return Expression((("new", feature, 1.0),))


def as_expression(value: object) -> Expression:
    """An expression as it is, a number as a constant."""
    return value if isinstance(value, Expression) else Expression((), checked(value, "a term of an expression"))
