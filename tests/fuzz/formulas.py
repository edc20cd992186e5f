"""Columns that are computed from others: a formula of one operation, its value by hand and its text for the library."""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from fuzz.columns import Cell, Column

Operation = Literal["times", "sum", "difference", "product", "ratio", "most", "least", "above", "level"]
TIE = 1e-6  # share of a step within which a value lies between two that print


@dataclass(frozen=True)
class Formula:
    """One operation over one or two columns.

    times: k a    sum: a + b    difference: a - b    product: a b    ratio: a / (b + k)
    most: max(a, b)    least: min(a, b)    above: 1 where a >= k, else 0    level: 1 where a is k, else 0
    """

    operation: Operation
    names: tuple[str, ...]
    k: float | str = 1.0

    def value(self, columns: Mapping[str, Column], row: Mapping[str, Cell]) -> float | None:
        """What the formula gives on the cells of a row; None where a cell is missing, or where it has no value."""
        cells = [row[name] for name in self.names]
        if any(cell is None for cell in cells):
            return None
        if self.operation == "level":
            return float(cells[0] == self.k)
        a, *rest = (amount(columns[name], cell) for name, cell in zip(self.names, cells))
        b, k = rest[0] if rest else 0.0, self.k
        assert not isinstance(k, str)
        if self.operation == "ratio":
            return a / (b + k) if b + k != 0 else None
        return {
            "times": lambda: k * a,
            "sum": lambda: a + b,
            "difference": lambda: a - b,
            "product": lambda: a * b,
            "most": lambda: max(a, b),
            "least": lambda: min(a, b),
            "above": lambda: float(a >= k),
        }[self.operation]()

    @property
    def text(self) -> str:
        """The formula as the documentation has people write it."""
        a, *rest = (_quoted(name) for name in self.names)
        b = rest[0] if rest else ""
        return {
            "times": f"{self.k} * {a}",
            "sum": f"{a} + {b}",
            "difference": f"{a} - {b}",
            "product": f"{a} * {b}",
            "ratio": f"{a} / ({b} + {self.k})",
            "most": f"max({a}, {b})",
            "least": f"min({a}, {b})",
            "above": f"{a} >= {self.k}",
            "level": f"{a} == {str(self.k)!r}",
        }[self.operation]


def amount(column: Column, cell: Cell) -> float:
    """A cell as a formula takes it: levels count as the numbers they are, or else from 0 in their order."""
    if column.kind == "number" or all(isinstance(level, (bool, int, float)) for level in column.levels):
        return float(cell)  # type: ignore[arg-type]
    return float(column.position(cell))


def rounded(value: float, unit: float, places: int) -> float | None:
    """A value as it prints, in multiples of a unit; None where rounding could go either way."""
    share = value / unit
    if not math.isfinite(share) or abs(share - math.floor(share) - 0.5) < TIE * max(1.0, abs(share) * TIE):
        return None
    return float(round(round(share) * unit, max(0, places)))


def follows(columns: Sequence[Column], own: Sequence[Cell], row: Sequence[Cell]) -> list[Cell] | None:
    """The row with everything computed anew that follows from a change; None where that has no one value.

    Where nothing changed that a column follows from, or one of these is missing, its cell stays as it is. A missing
    cell stays missing, unless it was missing for want of a cell that the row provides.
    """
    by_name = {c.name: c for c in columns}
    old, new = dict(zip(by_name, own)), dict(zip(by_name, row))
    for column in columns:  # formulas come after what they are computed from
        if column.formula is None:
            continue
        names, name = column.formula.names, column.name
        new[name] = old[name]
        provided = any(old[n] is None and new[n] is not None for n in names)
        if all(_is(old[n], new[n]) for n in names) or any(new[n] is None for n in names):
            continue
        if old[name] is None and not provided:
            continue
        value = column.formula.value(by_name, new)
        there = None if value is None else rounded(value, column.unit_step, column.places)
        if there is None:
            return None
        new[name] = there
    return list(new.values())


def strays(columns: Sequence[Column], own: Sequence[Cell], row: Sequence[Cell]) -> str | None:
    """What is wrong with the computed cells of a printed row; None where they follow from the others."""
    by_name = {c.name: c for c in columns}
    old, new = dict(zip(by_name, own)), dict(zip(by_name, row))
    for column in columns:
        if column.formula is None:
            continue
        names, name, cell = column.formula.names, column.name, new[column.name]
        value = column.formula.value(by_name, new)
        provided = any(old[n] is None and new[n] is not None for n in names)
        stays = all(_is(old[n], new[n]) for n in names) or any(new[n] is None for n in names)
        if stays or (old[name] is None and not provided):
            if not _is(old[name], cell):
                return f"{name!r}: {old[name]!r} -> {cell!r}, and nothing that it follows from changed"
        elif cell is None or not _prints(column, value, float(cell)):
            return f"{name!r} is {cell!r}, and {column.formula.text} is {value!r}, in steps of {column.unit_step:g}"
    return None


def _prints(column: Column, value: float | None, cell: float) -> bool:
    """Whether a cell is a value as the column prints it."""
    unit = column.unit_step
    near = value is not None and abs(cell - value) <= (0.5 + TIE) * unit + 1e-9 * abs(value)
    return near and abs(cell - round(cell / unit) * unit) <= TIE * unit


def is_consistent(columns: Sequence[Column], row: Sequence[Cell]) -> bool:
    """Whether every computed cell of a row is beyond doubt what its formula gives: not where it lies between two."""
    by_name = {c.name: c for c in columns}
    cells = dict(zip(by_name, row))
    for column in columns:
        if column.formula is None or cells[column.name] is None:
            continue
        value = column.formula.value(by_name, cells)
        there = None if value is None else rounded(value, column.unit_step, column.places)
        if there is None or abs(float(cells[column.name]) - there) > TIE * column.unit_step:  # type: ignore[arg-type]
            return False
    return True


def _is(a: Cell, b: Cell) -> bool:
    return (a is None) == (b is None) and a == b


def _quoted(name: str) -> str:
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"`{name}`"
