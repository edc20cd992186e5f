"""How far a person can go from their own value: absolute, relative, in steps, per year, and within what others have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from turnabout.documents import shown
from turnabout.errors import SchemaError
from turnabout.typing import Json, is_number

DISTANCES = ("absolute", "relative", "per_year")  # that people may go less far than


@dataclass(frozen=True)
class Reach:
    """How far a plan may move a number or an ordinal; whatever is given holds, None limits nothing.

        |new - own|  <=  absolute,   relative * |own|,   steps,   per_year * years                              (1)
        low  <=  new  <=  high                                                                                  (2)

    A person who stands outside (2) already may stay there, or move inside.

    Parameters
    ----------
    absolute : largest change, in the feature's units.
    relative : largest change as a share of the person's own value: 0.2 for "income at most +20 %". Who has 0 stays.
    steps : largest change in levels of an ordinal, or in steps of a number that has some.
    per_year : largest change in one year, in units; with `years`, the time that a plan may take.
    low, high : lowest and highest new value, such as those that accepted people have.
    usual : share of the distances (1) within which options are looked for first, or rising shares that are tried one
        after the other; what lies further is only shown to people who have no option within it. 1 for all at once.
    """

    absolute: float | None = None
    relative: float | None = None
    steps: int | None = None
    per_year: float | None = None
    years: float = 1.0
    low: float | None = None
    high: float | None = None
    usual: float | tuple[float, ...] | None = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None or field.name == "usual":
                continue
            if not is_number(value) or not math.isfinite(value):
                raise SchemaError(
                    f"a reach has {field.name}={value!r}, which is no number.",
                    hint="write Reach(relative=0.2) or {relative: 0.2}; leave out what limits nothing.",
                )
            if field.name not in ("low", "high") and value < 0:
                raise SchemaError(f"a reach has {field.name}={value!r}.", hint="a distance is 0 or more.")
            object.__setattr__(self, field.name, int(value) if field.name == "steps" else float(value))
        object.__setattr__(self, "usual", _shares(self.usual))
        if self.low is not None and self.high is not None and self.low > self.high:
            raise SchemaError(
                f"a reach goes from low={self.low:g} to high={self.high:g}.", hint="low must not be above high."
            )

    def room(self, unit_step: float) -> tuple[float, float]:
        """The largest change in units, and as a share of the own value; infinite where nothing limits it."""
        limits = [self.absolute, None if self.per_year is None else self.per_year * self.years]
        limits.append(None if self.steps is None else self.steps * unit_step)
        return min((v for v in limits if v is not None), default=math.inf), (
            math.inf if self.relative is None else self.relative
        )

    @property
    def shares(self) -> tuple[float, ...]:
        """Rising shares below 1 within which options are looked for, one after the other."""
        return _shares(self.usual)

    def near(self, turn: int) -> Reach:
        """The part of it that is looked at in a turn; all of it after the last."""
        if turn >= len(self.shares):
            return replace(self, usual=())
        share = self.shares[turn]
        short = {name: value * share for name in DISTANCES if (value := getattr(self, name)) is not None}
        steps = None if self.steps is None else min(self.steps, max(1, math.floor(self.steps * share + 1e-9)))
        return replace(self, **short, steps=steps, usual=())

    def to_dict(self) -> Json:
        """The limits that are given."""
        out = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}
        if self.shares:
            out["usual"] = self.shares[0] if len(self.shares) == 1 else list(self.shares)
        return out

    def __str__(self) -> str:
        """In words: "by at most 20 % of their own value, not above 5"."""
        parts = []
        if self.absolute is not None:
            parts.append(f"by at most {self.absolute:g}")
        if self.relative is not None:
            parts.append(f"by at most {100 * self.relative:g} % of their own value")
        if self.steps is not None:
            parts.append(f"by at most {self.steps} step{'s' if self.steps != 1 else ''}")
        if self.per_year is not None:
            parts.append(f"by at most {self.per_year:g} a year for {self.years:g} year{'s' if self.years != 1 else ''}")
        if self.low is not None:
            parts.append(f"not below {self.low:g}")
        if self.high is not None:
            parts.append(f"not above {self.high:g}")
        if self.shares:
            parts.append(f"first within {', then '.join(f'{100 * share:g} %' for share in self.shares)} of that")
        return ", ".join(parts) or "anywhere"


def _shares(usual: object) -> tuple[float, ...]:
    """Rising shares below 1, of a share or several."""
    given = () if usual is None else tuple(usual) if isinstance(usual, (list, tuple)) else (usual,)
    if not all(is_number(v) and 0 < v <= 1 for v in given) or list(given) != sorted(set(given)):
        raise SchemaError(
            f"a reach has usual={shown(usual)}.", hint="use a share above 0, 1 at most, or rising ones: [0.2, 0.5]."
        )
    return tuple(float(v) for v in given if v < 1)


def as_reach(feature: str, given: object) -> Reach | None:
    """A reach from a Reach, a mapping of its fields as files hold them, or None."""
    if given is None or isinstance(given, Reach):
        return given
    if not isinstance(given, Mapping):
        raise SchemaError(
            f"feature '{feature}' has reach={shown(given)}.", hint="write Reach(relative=0.2) or {relative: 0.2}."
        )
    known = [f.name for f in fields(Reach)]
    if unknown := [name for name in given if name not in known]:
        raise SchemaError(
            f"the reach of '{feature}' has no limit '{unknown[0]}'.", hint=f"it knows {', '.join(known)}."
        )
    return Reach(**given)
