"""What a step costs: constants, absolute and squared changes, joined by +."""

from __future__ import annotations

from dataclasses import dataclass

from turnabout.actions.expressions import quoted
from turnabout.actions.numbers import brief, checked, positive, show
from turnabout.errors import ActionError


class Priced:
    """Anything that has a cost: prices add up, and may be weighted by a number."""

    @property
    def terms(self) -> tuple[PriceTerm, ...]:
        raise NotImplementedError

    def __add__(self, other: Priced | float) -> Price:
        return Price(self.terms + as_price(other).terms)

    def __radd__(self, other: float) -> Price:
        return as_price(other) + self

    def __mul__(self, factor: float) -> Price:
        return Price(tuple(term.weighted(checked(factor, "the weight of a cost")) for term in self.terms))

    __rmul__ = __mul__

    def __str__(self) -> str:
        return " + ".join(term.text() for term in self.terms)

    def __repr__(self) -> str:
        return str(self)


class PriceTerm(Priced):
    """One summand of a price."""

    @property
    def terms(self) -> tuple[PriceTerm, ...]:
        return (self,)

    def weighted(self, factor: float) -> PriceTerm:
        """The same, times a number."""
        raise NotImplementedError

    def text(self) -> str:
        """As it stands in files."""
        raise NotImplementedError

    def sentence(self) -> str:
        """As a person reads it."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class ConstantPrice(PriceTerm):
    """The same for every step of the action."""

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _weight(self.value, "a constant cost"))

    def weighted(self, factor: float) -> ConstantPrice:
        return ConstantPrice(self.value * factor)

    def text(self) -> str:
        return show(self.value)

    def sentence(self) -> str:
        return brief(self.value) if self.value else "nothing"


@dataclass(frozen=True, repr=False)
class _Change(PriceTerm):
    feature: str
    per: float = 1.0
    relative: bool = False
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.feature, str) or not self.feature:
            raise ActionError(f"a cost names the feature {self.feature!r}.", hint='write Absolute("age").')
        if not isinstance(self.relative, bool):
            raise ActionError(f"the cost of '{self.feature}' has relative={self.relative!r}.", hint="true or false.")
        object.__setattr__(self, "per", positive(self.per, f"per of the cost of '{self.feature}'"))
        object.__setattr__(self, "weight", _weight(self.weight, f"the weight of the cost of '{self.feature}'"))

    def weighted(self, factor: float) -> _Change:
        return type(self)(self.feature, self.per, self.relative, self.weight * factor)

    @property
    def change(self) -> str:
        name = quoted(self.feature)
        return f"{name} / old {name}" if self.relative else name

    def sentence(self) -> str:
        of = f"{'the relative' if self.relative else 'the'} change of {self.feature}"
        return of if self.per == 1 else f"{of} / {brief(self.per)}"


@dataclass(frozen=True, repr=False)
class Absolute(_Change):
    r"""How far a feature moves: weight |x' - x| / per, or of the relative change |x' - x| / |x| / per.

    Parameters: the feature; `per`, how much change costs one; `relative`; `weight`, a factor of the whole.
    """

    @property
    def factor(self) -> float:
        """Cost of a change of one."""
        return self.weight / self.per

    def text(self) -> str:
        weight = "" if self.weight == 1 else f"{show(self.weight)} * "
        return f"{weight}|{self.change}|" + ("" if self.per == 1 else f" / {show(self.per)}")

    def sentence(self) -> str:
        return ("" if self.weight == 1 else f"{brief(self.weight)} times ") + super().sentence()


@dataclass(frozen=True, repr=False)
class Squared(_Change):
    r"""The square of a change: weight ((x' - x) / per)^2, or of the relative change weight ((x' - x) / x / per)^2.

    Parameters: the feature; `per`, how much change costs one; `relative`; `weight`, a factor of the whole.
    """

    @property
    def factor(self) -> float:
        """Cost of a change of one."""
        return self.weight / self.per**2

    def text(self) -> str:
        weight = "" if self.weight == 1 else f"{show(self.weight)} * "
        return f"{weight}({self.change}{'' if self.per == 1 else f' / {show(self.per)}'})^2"

    def sentence(self) -> str:
        return ("" if self.weight == 1 else f"{brief(self.weight)} times ") + f"the square of {super().sentence()}"


@dataclass(frozen=True, repr=False)
class Price(Priced):
    """A sum of terms."""

    summands: tuple[PriceTerm, ...]

    def __post_init__(self) -> None:
        if not self.summands or not all(isinstance(term, PriceTerm) for term in self.summands):
            raise ActionError("a price has no terms.", hint="an action that costs nothing has cost=0.")

    @property
    def terms(self) -> tuple[PriceTerm, ...]:
        return self.summands

    @property
    def constant(self) -> float:
        """The part that every step of the action costs."""
        return sum(term.value for term in self.terms if isinstance(term, ConstantPrice))

    def sentence(self) -> str:
        """As a person reads it."""
        return " + ".join(term.sentence() for term in self.terms)


def as_price(cost: object) -> Price:
    """A price from a price, one of its terms or a number."""
    if isinstance(cost, Priced):
        return Price(cost.terms)
    return Price((ConstantPrice(checked(cost, "the cost of an action")),))


def _weight(value: object, what: str) -> float:
    number = checked(value, what)
    if number < 0:
        raise ActionError(f"{what} is {value!r}, below zero.", hint="a step may cost nothing, but it pays no one.")
    return number
