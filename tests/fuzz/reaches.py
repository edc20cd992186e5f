"""How far people can go from their own value, by the rules of the documentation and in exact decimals."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from decimal import Decimal

DISTANCES = ("absolute", "relative", "per_year")


def exact(value: float) -> Decimal:
    """The decimals that a person reads."""
    return Decimal(repr(float(value)))


@dataclass(frozen=True)
class Reach:
    """Limits on a change and on the new value; None limits nothing."""

    absolute: float | None = None
    relative: float | None = None
    steps: int | None = None
    per_year: float | None = None
    years: float = 1.0
    low: float | None = None
    high: float | None = None
    usual: float = 1.0

    def excess(self, own: float, new: float, unit: float) -> str | None:
        """Which limit a change breaks; None where it keeps all."""
        size, slack = abs(exact(new) - exact(own)), exact(unit) * Decimal("1e-6")
        most = {
            "absolute": None if self.absolute is None else exact(self.absolute),
            "relative": None if self.relative is None else exact(self.relative) * abs(exact(own)),
            "steps": None if self.steps is None else self.steps * exact(unit),
            "per_year": None if self.per_year is None else exact(self.per_year) * exact(self.years),
        }
        for name, limit in most.items():
            if limit is not None and size > limit + slack:
                return name
        if self.low is not None and exact(new) < exact(self.low) - slack:
            return "low"
        return "high" if self.high is not None and exact(new) > exact(self.high) + slack else None

    def near(self) -> Reach:
        """What is looked at first."""
        short = {name: value * self.usual for name in DISTANCES if (value := getattr(self, name)) is not None}
        return replace(self, **short, usual=1.0)

    def within(self, low: float | None, high: float | None) -> Reach:
        """With ends of one person's own."""
        lows, highs = [v for v in (self.low, low) if v is not None], [v for v in (self.high, high) if v is not None]
        return replace(self, low=max(lows, default=None), high=min(highs, default=None))

    def spec(self) -> dict[str, float]:
        """The reach as turnabout's own documents write it."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}
