"""Rules, regions and equations, checked by hand on the cells of two rows.

`breaks(old, new)` says what is wrong, or None. A `slack` above 0 forgives rounding, for accusations; without it a row
that counts as allowed is allowed beyond doubt, for brute force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fuzz.columns import Cell, Column, same

Cells = Mapping[str, Cell]
ByName = Mapping[str, Column]
ROUNDED = 1e-9  # share of a range: 0.5 - 0.4 is a fall of 0.1, although not in floating point


class Constraint(Protocol):
    """Something that joins columns."""

    def breaks(self, columns: ByName, old: Cells, new: Cells, slack: float) -> str | None:
        """What is wrong with the change; None where nothing is."""

    def spec(self) -> dict[str, Any]:
        """The constraint as turnabout's own documents write it."""


def changed(columns: ByName, old: Cells, new: Cells) -> list[str]:
    """Names of the columns that changed; what is computed from them does not count."""
    return [name for name in columns if columns[name].formula is None and not same(old[name], new[name])]


def touched(columns: ByName, old: Cells, new: Cells) -> list[str]:
    """Names of the columns with another cell."""
    return [name for name in columns if not same(old[name], new[name])]


def term(columns: ByName, key: str, row: Cells) -> float | None:
    """The number that a key of a sum stands for: a scalar's units, or 1 where a category has a level; None: missing."""
    if key in columns:
        cell = row[key]
        return None if cell is None else columns[key].unit(cell)
    name, level = next((n, key[len(n) + 1 :]) for n in columns if _addresses(columns[n], key))
    return None if row[name] is None else float(str(row[name]) == level)


def _addresses(column: Column, key: str) -> bool:
    levels = [f"{column.name}={level}" for level in column.levels]
    return column.kind == "category" and key in levels


def owner(columns: ByName, key: str) -> str:
    """The column that a key of a sum speaks of."""
    return key if key in columns else next(n for n in columns if _addresses(columns[n], key))


@dataclass(frozen=True)
class AtMost:
    """At most k columns change."""

    k: int
    names: tuple[str, ...] | None = None

    def breaks(self, columns: ByName, old: Cells, new: Cells, slack: float) -> str | None:
        moved = [name for name in changed(columns, old, new) if self.names is None or name in self.names]
        return f"{len(moved)} changes, at most {self.k} are allowed" if len(moved) > self.k else None

    def spec(self) -> dict[str, Any]:
        return {"rule": "at_most", "k": self.k} | ({} if self.names is None else {"features": list(self.names)})


@dataclass(frozen=True)
class Sum:
    """A weighted sum of the new row stays at or below a bound (or above it).

    With a missing cell it cannot be checked: then nothing that it speaks of may change.
    """

    weights: Mapping[str, float]
    sense: str
    bound: float

    def breaks(self, columns: ByName, old: Cells, new: Cells, slack: float) -> str | None:
        terms = {key: term(columns, key, new) for key in self.weights}
        if any(value is None for value in terms.values()):
            moved = {owner(columns, key) for key in self.weights} & set(touched(columns, old, new))
            return f"{sorted(moved)} changed, and the sum cannot be checked" if moved else None
        total = sum(w * terms[key] for key, w in self.weights.items())  # type: ignore[operator]
        excess = total - self.bound if self.sense == "<=" else self.bound - total
        size = sum(abs(w) * columns[owner(columns, key)].span for key, w in self.weights.items())
        return f"the sum is {total:g}, not {self.sense} {self.bound:g}" if excess > slack * size else None

    def spec(self) -> dict[str, Any]:
        return {"rule": "linear", "coefficients": dict(self.weights), "sense": self.sense, "bound": self.bound}


@dataclass(frozen=True)
class Ordered:
    """One value of the new row is at most another."""

    lower: str
    upper: str

    def breaks(self, columns: ByName, old: Cells, new: Cells, slack: float) -> str | None:
        return Sum({self.lower: 1.0, self.upper: -1.0}, "<=", 0.0).breaks(columns, old, new, slack)

    def spec(self) -> dict[str, Any]:
        return {"rule": "ordered", "lower": self.lower, "upper": self.upper}


@dataclass(frozen=True)
class Condition:
    """What one column does: "rises" or "falls" (by so much), "changes", "is" a level."""

    kind: str
    name: str
    by: float | None = None
    level: Cell = None

    def holds(self, column: Column, old: Cell, new: Cell, slack: float) -> bool:
        if self.kind == "is":
            return same(new, self.level)
        if self.kind == "changes":
            return not same(old, new)
        if old is None or new is None:
            return False
        rise = column.unit(new) - column.unit(old)
        rise = rise if self.kind == "rises" else -rise
        return rise > 0 if self.by is None else rise >= self.by - slack * column.span

    def spec(self) -> dict[str, Any]:
        out: dict[str, Any] = {self.kind: self.name}
        out |= {} if self.by is None else {"by": self.by}
        return out | ({"level": self.level} if self.kind == "is" else {})


@dataclass(frozen=True)
class Implies:
    """If one column does one thing, another does another.

    Whether a missing cell is of a level cannot be checked: then the other column does what is asked, or nothing.
    """

    condition: Condition
    consequence: Condition

    def breaks(self, columns: ByName, old: Cells, new: Cells, slack: float) -> str | None:
        first, then = self.condition, self.consequence
        if first.kind == "is" and old[first.name] is None:
            moved = not same(old[then.name], new[then.name])
            done = then.holds(columns[then.name], old[then.name], new[then.name], slack)
            return f"{then.name} changed, and {first.name} is missing" if moved and not done else None
        if not first.holds(columns[first.name], old[first.name], new[first.name], -slack or ROUNDED):
            return None
        if new[then.name] is None and same(old[first.name], new[first.name]):
            return None  # no change conditions it
        if then.holds(columns[then.name], old[then.name], new[then.name], slack):
            return None
        return f"{first.name} {first.kind}, and {then.name} is {new[then.name]!r} after {old[then.name]!r}"

    def spec(self) -> dict[str, Any]:
        return {"rule": "implies", "if": self.condition.spec(), "then": self.consequence.spec()}


# -- regions -----------------------------------------------------------------------------------------------------------


def shift(columns: ByName, name: str, old: Cells, new: Cells) -> float:
    """How far a column moved, in its units; a category by 1 when it switches."""
    if old[name] is None or new[name] is None:
        return 0.0
    if columns[name].kind == "category":
        return float(not same(old[name], new[name]))
    return columns[name].unit(new[name]) - columns[name].unit(old[name])


@dataclass(frozen=True)
class Box:
    """Each column moves by at most its reach; those that are not named do not move."""

    reach: Mapping[str, float]

    def breaks(self, columns: ByName, old: Cells, new: Cells, slack: float) -> str | None:
        for name, column in columns.items():
            if column.formula is not None:
                continue
            if name not in self.reach and not same(old[name], new[name]):
                return f"{name} is not in the region and moved"
            size = abs(shift(columns, name, old, new)) if name in self.reach else 0.0
            if column.kind in ("binary", "category"):  # any reach of 1 lets them switch
                size = 0.0 if self.reach.get(name, 0.0) >= 1 else size
            if size > self.reach.get(name, 0.0) + slack * column.span:
                return f"{name} moved by {size:g}, its reach is {self.reach.get(name, 0.0):g}"
        return None

    def spec(self) -> dict[str, Any]:
        return {"rule": "box", "reach": dict(self.reach)}


@dataclass(frozen=True)
class Budget:
    """All changes together weigh at most a limit."""

    limit: float
    weights: Mapping[str, float]

    def breaks(self, columns: ByName, old: Cells, new: Cells, slack: float) -> str | None:
        chosen = [name for name in columns if columns[name].formula is None]
        weigh = sum(self.weights.get(name, 1.0) * abs(shift(columns, name, old, new)) for name in chosen)
        size = sum(self.weights.get(name, 1.0) * column.span for name, column in columns.items())
        return f"the changes weigh {weigh:g} of {self.limit:g}" if weigh > self.limit + slack * size else None

    def spec(self) -> dict[str, Any]:
        return {"rule": "budget", "limit": self.limit} | ({"weights": dict(self.weights)} if self.weights else {})


@dataclass(frozen=True)
class Ball:
    """The scaled length of a change is at most a radius; columns without a scale do not move."""

    radius: float
    scales: Mapping[str, float]

    def breaks(self, columns: ByName, old: Cells, new: Cells, slack: float) -> str | None:
        if other := [name for name in changed(columns, old, new) if name not in self.scales]:
            return f"{other[0]} is not in the ball and moved"
        length = sum((shift(columns, name, old, new) / scale) ** 2 for name, scale in self.scales.items()) ** 0.5
        size = max(columns[name].span / scale for name, scale in self.scales.items())
        return f"the change is {length:g} long of {self.radius:g}" if length > self.radius + slack * size else None

    def spec(self) -> dict[str, Any]:
        return {"rule": "ball", "radius": self.radius, "scales": dict(self.scales)}


@dataclass(frozen=True)
class Polytope:
    """sum a_f * change_f + b >= 0 in each row; columns that no row names do not move."""

    rows: tuple[tuple[Mapping[str, float], float], ...]

    def breaks(self, columns: ByName, old: Cells, new: Cells, slack: float) -> str | None:
        named = {name for weights, _ in self.rows for name in weights}
        if other := [name for name in changed(columns, old, new) if name not in named]:
            return f"{other[0]} is not in the region and moved"
        for weights, b in self.rows:
            total = b + sum(w * shift(columns, name, old, new) for name, w in weights.items())
            size = sum(abs(w) * columns[name].span for name, w in weights.items())
            if total < -slack * size:
                return f"an inequality of the region is broken by {-total:g}"
        return None

    def spec(self) -> dict[str, Any]:
        return {"rule": "polytope", "rows": [[dict(weights), b] for weights, b in self.rows]}


# -- equations ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Follows:
    """A column moves with its parents: new = own + sum of weights * change, to the nearest value that prints.

    Where its own value is missing, nothing can follow: then its parents stay.
    """

    target: str
    weights: Mapping[str, float]

    def aim(self, columns: ByName, old: Cells, new: Cells) -> float:
        """Where the target belongs, before rounding."""
        return columns[self.target].unit(old[self.target]) + self.move(columns, old, new)

    def move(self, columns: ByName, old: Cells, new: Cells) -> float:
        """How far the parents move the target; a missing parent moves nothing."""
        total = 0.0
        for key, weight in self.weights.items():
            before, after = term(columns, key, old), term(columns, key, new)
            total += 0.0 if before is None or after is None else weight * (after - before)
        return total

    def breaks(self, columns: ByName, old: Cells, new: Cells, slack: float) -> str | None:
        if old[self.target] is None:
            moved = {owner(columns, key) for key in self.weights} & set(changed(columns, old, new))
            return f"{sorted(moved)} changed, and {self.target} is missing" if moved else None
        column, aim = columns[self.target], self.aim(columns, old, new)
        if new[self.target] is None:
            return f"{self.target} went missing"
        half = 0.5 * (column.step or 10.0**-column.places if column.kind == "number" else 1.0)
        off = abs(column.unit(new[self.target]) - aim)
        if off > half * (1 + 1e-6) + slack * column.span:
            return f"{self.target} is {new[self.target]!r}, and follows to {aim:g}"
        return None

    def spec(self) -> dict[str, Any]:
        return {"rule": "causal", "equations": [{"target": self.target, "coefficients": dict(self.weights)}]}
