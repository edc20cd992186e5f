"""Worlds of the second kind: useful steps, least changes, reach, computed columns, cells to provide, single limits.

Their problems have numbers from ADVISED on, and everything new is drawn from a stream of its own, so that all other
numbers mean what they always did.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from fuzz.columns import NAMES, PLAIN_NAMES, Cell, Column
from fuzz.formulas import Formula
from fuzz.reaches import Reach

ADVISED = 10**12  # from this problem on worlds are of the second kind
WHOLE = ("int64", "float64", "Int64", "float32")
BROKEN = ("float64", "float64", "Float64", "float32")


@dataclass(frozen=True)
class Limit:
    """What one person will not or cannot change about one column."""

    fixed: bool = False
    low: float | None = None
    high: float | None = None
    levels: tuple[Cell, ...] | None = None
    difficulty: float = 1.0

    def narrowed(self, column: Column) -> Column:
        """The column as it is for them."""
        if self.fixed:
            return replace(column, moves="fixed")
        if self.low is not None or self.high is not None:
            column = replace(column, reach=(column.reach or Reach()).within(self.low, self.high))
        return column if self.levels is None else replace(column, only=self.levels)

    def spec(self, random: Random) -> Any:
        """The limit as people write it, in one of the ways that the documentation shows."""
        if self == Limit(fixed=True) and random.random() < 0.5:
            return "fixed"
        if self.levels is not None and self == Limit(levels=self.levels) and random.random() < 0.5:
            return list(self.levels)
        ends = self.low is not None or self.high is not None
        if ends and self == Limit(low=self.low, high=self.high) and random.random() < 0.5:
            return (self.low, self.high)
        return self.entries()

    def entries(self) -> dict[str, Any]:
        """What it says, by name."""
        return {name: value for name, value in vars(self).items() if value != getattr(Limit(), name)}


Limits = Mapping[str, Limit]


# -- columns -----------------------------------------------------------------------------------------------------------


def with_choices(random: Random, column: Column) -> Column:
    """A column of which a plan may choose only some values."""
    if column.kind == "ordinal" and random.random() < 0.3:
        return replace(column, reach=Reach(steps=random.randint(1, 2)))
    if column.kind != "number":
        return column
    unit = column.unit_step
    useful = None
    if random.random() < 0.4:
        size = unit if column.step is not None or column.decimals is not None else 10 ** math.floor(_log(column)) / 10
        useful = float(f"{size * random.choice((2, 2, 3, 5)):.12g}")
    step = useful or (unit if unit > column.span / 1e4 else column.span / 20)
    least = float(f"{step * random.choice((0.5, 1, 1.5, 2, 3)):.6g}") if random.random() < 0.35 else None
    out = replace(column, useful=useful, least=least, provide=column.missing and random.random() < 0.7)
    if random.random() < 0.5:
        out = replace(out, reach=_reach(random, column, step))
    return out if out.moves == "fixed" or _has_values(out) else replace(out, useful=None, reach=None)


def _log(column: Column) -> float:
    return math.log10(column.span)


def _reach(random: Random, column: Column, step: float) -> Reach:
    far = float(f"{step * random.choice((1, 2, 3, 2.5)):.6g}")
    kind = random.choice(("absolute", "relative", "relative", "steps", "per_year", "ends", "both"))
    usual = random.choice((1.0, 1.0, 0.5, 0.4))
    low, high = (round(column.low + share * column.span, 3) for share in (0.2, 0.8))
    ends: dict[str, Any] = random.choice(({"low": low}, {"high": high}, {"low": low, "high": high}))
    share = random.choice((0.1, 0.2, 0.5, 1.0))
    return {
        "absolute": Reach(absolute=far, usual=usual),
        "relative": Reach(relative=share, usual=usual),
        "steps": Reach(steps=random.randint(1, 3)),
        "per_year": Reach(per_year=far, years=random.choice((1.0, 2.0, 0.5)), usual=usual),
        "ends": Reach(**ends),
        "both": Reach(absolute=far, relative=share, usual=usual, **ends),
    }[kind]


def _has_values(column: Column) -> bool:
    step = column.useful or column.unit_step
    low, high = column.ends
    return low < high and math.ceil(low / step - 1e-9) <= math.floor(high / step + 1e-9)


def with_computed(
    random: Random, columns: list[Column], rows: list[list[Cell]]
) -> tuple[list[Column], list[list[Cell]]]:
    """One or two more columns, computed from others, at the end of columns and rows."""
    columns, rows = list(columns), [list(row) for row in rows]
    for _ in range(random.choice((1, 1, 2))):
        made = _computed(random, columns)
        if made is None:
            continue
        column, new = [*columns, made], []
        for row in rows:
            new.append([*row, own_cell(column, [*row, None])])
        known = [float(row[-1]) for row in new if row[-1] is not None]  # type: ignore[arg-type]
        if not known or max(map(abs, known)) > 1e6:
            continue
        low, high = min(known), max(known)
        columns.append(replace(made, low=low, high=high if high > low else low + 1.0))
        rows = [[*row[:-1], low if row[-1] is None and not made.missing else row[-1]] for row in new]
    return columns, rows


def _computed(random: Random, columns: list[Column]) -> Column | None:
    taken = [c.name for c in columns]
    name = random.choice([n for n in (*NAMES, *PLAIN_NAMES, "ltv", "total") if n not in taken])
    scalars = [c for c in columns if c.scalar and c.kind != "passthrough"]
    texts = [c for c in columns if c.kind == "category" and all(isinstance(v, str) for v in c.levels)]
    if texts and random.random() < 0.15:
        parents, formula = texts[:1], Formula("level", (texts[0].name,), random.choice(texts[0].levels))  # type: ignore
    elif scalars:
        operation = random.choice(("times", "sum", "difference", "product", "ratio", "ratio", "most", "least", "above"))
        count = 1 if operation in ("times", "above") else 2
        if len(scalars) < count:
            return None
        parents = random.sample(scalars, count)
        k: float = random.choice((2.0, 0.5, 12.0, 0.1, -1.0))
        if operation == "ratio":
            k = round(1.0 - (min(0.0, parents[1].low) if parents[1].kind == "number" else 0.0), 3)
        elif operation == "above":
            values = parents[0].values() if parents[0].kind == "number" else None
            k = float(random.choice(values)) if values else round(parents[0].low + 0.5 * parents[0].span, 3)  # type: ignore
        formula = Formula(operation, tuple(p.name for p in parents), k)  # type: ignore[arg-type]
    else:
        return None
    whole = formula.operation in ("above", "level") or random.random() < 0.2
    decimals = None if whole else random.choice((0, 1, 2, 3))
    missing = any(p.missing for p in parents)
    dtype = random.choice(WHOLE if whole else BROKEN)
    if missing:
        dtype = {"int64": "Int64"}.get(dtype, dtype)
    moves = random.choice(("fixed", "fixed", "up", "down"))
    step = 1.0 if whole else None
    return Column(name, "number", moves, missing, dtype, step=step, decimals=decimals, formula=formula)


def own_cell(columns: list[Column], row: list[Cell]) -> Cell:
    """The last cell of a row, computed; None where it has no value. Halves go to the even step, as in most tables."""
    column = columns[-1]
    assert column.formula is not None
    value = column.formula.value({c.name: c for c in columns}, dict(zip((c.name for c in columns), row)))
    if value is None:
        return None
    text = column.print(float(round(round(value / column.unit_step) * column.unit_step, max(0, column.places))))
    return None if text is None else float(text)


def with_own(random: Random, columns: tuple[Column, ...], row: list[Cell], odd: float) -> list[Cell]:
    """A person's row with the cells that are computed; with the chance `odd` one of them is not what it should be."""
    out: list[Cell] = []
    for i, column in enumerate(columns):
        if column.formula is None:
            out.append(row[i])
            continue
        cell = own_cell(list(columns[: i + 1]), [*out, None])
        if cell is None and not column.missing:
            cell = column.low
        elif cell is not None and random.random() < odd:
            cell = float(column.print(float(cell) + column.unit_step * random.choice((-1, 1, 3))) or 0.0)
        out.append(cell)
    return out


# -- people ------------------------------------------------------------------------------------------------------------


def random_limits(random: Random, columns: tuple[Column, ...], row: list[Cell]) -> Limits:
    """What one person will not do about one or two columns."""
    usable = [i for i, c in enumerate(columns) if c.chosen]
    chosen = random.sample(usable, min(len(usable), random.choice((1, 1, 2))))
    return {columns[i].name: _limit(random, columns[i], row[i]) for i in chosen}


def _limit(random: Random, column: Column, own: Cell) -> Limit:
    if random.random() < 0.25:
        return Limit(fixed=True)
    if random.random() < 0.35:
        return Limit(difficulty=random.choice((0.5, 2.0, 3.0)))
    if column.kind == "number":
        a, b = sorted(round(column.low + random.random() * column.span, min(3, max(0, column.places))) for _ in "ab")
        return random.choice((Limit(low=a), Limit(high=b), Limit(low=a, high=b), Limit(high=b, difficulty=2.0)))
    return Limit(levels=tuple(level for level in column.levels if random.random() < 0.6))
