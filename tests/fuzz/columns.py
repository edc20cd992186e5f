"""A column of a table: its values, which way they may move, how they print and how far apart they are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Literal

import numpy as np

from fuzz.formulas import Formula
from fuzz.reaches import Reach, exact

Cell = float | int | str | bool | None
Kind = Literal["number", "ordinal", "binary", "category", "passthrough"]

NAMES = (
    "age", "income", "Einkommen (€)", "größe", "收入", "a b", "x=y", "x=y=z", "x", "{rate}", "{0}", "it's",
    'say "so"', "back\\slash", "50%", "a.b", "#1", "n/a", "None", "1", "café", "a,b", "Ω", "class", "mean_1",
)  # fmt: skip
PLAIN_NAMES = (
    "age",
    "income",
    "debt",
    "hours",
    "years",
    "rate",
    "savings",
    "score",
    "rooms",
    "visits",
    "größe",
    "收入",
)
WORDS = (
    "own", "rent", "Köln", "München", "Zürich", "naïve", "東京", "大阪市", "None", "NA", "nan", "NULL", "True", "1",
    "2", "02", "1.0", "1e3", "-", "n/a", "a b", "x=y", "{z}", "it's", 'q"q', "a,b", "b\\c", "none of these", "ÄÖÜ", "é",
    "ß", "inf", "#",
)  # fmt: skip
PLAIN_WORDS = ("low", "middle", "high", "own", "rent", "Köln", "München", "Zürich", "東京", "free", "naïve", "ÄÖÜ")
SCALARS = ("number", "ordinal", "binary")


@dataclass(frozen=True)
class Column:
    """One column, as the person who made the table knows it.

    dtype : the type it has in the training table; see `frames`.
    categories : of a pandas categorical, in its own order.
    mark : which missing cell an object column holds: "None", "nan" or "NA".
    useful, least, reach : what a plan may choose: multiples of a step, the smallest change, how far from their own.
    provide : whether a missing cell can be provided.
    formula : what it is computed from; nobody chooses it, and where it moves "up" or "down" it may not go otherwise.
    only : the levels that one person may switch to.
    """

    name: str
    kind: Kind
    moves: str = "free"
    missing: bool = False
    dtype: str = "float64"
    low: float = 0.0
    high: float = 1.0
    step: float | None = None
    decimals: int | None = None
    levels: tuple[Cell, ...] = ()
    categories: tuple[Cell, ...] = ()
    mark: str = "nan"
    useful: float | None = None
    least: float | None = None
    reach: Reach | None = None
    provide: bool = False
    formula: Formula | None = None
    only: tuple[Cell, ...] | None = None

    def plain(self) -> Column:
        """The column with every legal value to choose from."""
        return replace(self, useful=None, least=None, reach=None)

    def near(self) -> Column:
        """The column as far as people usually go."""
        return self if self.reach is None else replace(self, reach=self.reach.near())

    @property
    def chosen(self) -> bool:
        """Whether people choose its values, and do not compute them."""
        return self.formula is None and self.kind != "passthrough"

    @property
    def unit_step(self) -> float:
        """Distance between neighbouring values that print."""
        return self.step if self.step is not None else 10.0**-self.places if self.kind == "number" else 1.0

    @property
    def scalar(self) -> bool:
        """Whether its values have an order."""
        return self.kind in SCALARS

    @property
    def span(self) -> float:
        """Units between its lowest and its highest value."""
        return self.high - self.low if self.kind == "number" else float(max(1, len(self.levels) - 1))

    @property
    def places(self) -> int:
        """Decimals with which a new value is printed."""
        if self.decimals is not None:
            return self.decimals
        if self.step is not None:
            return max(0, -int(Decimal(repr(self.step)).normalize().as_tuple().exponent))
        return 6 - math.floor(math.log10(self.high - self.low))

    def unit(self, cell: Cell) -> float:
        """A cell as a number: itself, or the position of its level."""
        assert cell is not None
        return float(cell) if self.kind == "number" else float(self.position(cell))

    def position(self, cell: Cell) -> int:
        """Where a cell stands among the levels; -1 for what is no level."""
        found = [i for i, level in enumerate(self.levels) if same(level, cell)]
        return found[0] if found else -1

    def distance(self, old: Cell, new: Cell) -> float:
        """How far a change goes, as a share of the range; a switch of a category is 1."""
        if old is None or new is None or not self.chosen:
            return 0.0
        if self.kind == "category":
            return float(not same(old, new))
        return abs(self.unit(new) - self.unit(old)) / self.span

    def values(self) -> list[Cell] | None:
        """All values that a plan may use; None where there are too many to count."""
        if self.kind != "number":
            return list(self.levels)
        if self.step is None and self.useful is None:
            return None
        step = exact(self.useful or self.step or 1.0)
        low, high = self.ends
        first, last = exact(low) / step, exact(high) / step
        return [float(k * step) for k in range(math.ceil(first), math.floor(last) + 1)]

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest value that anybody may choose."""
        low = self.low if self.reach is None or self.reach.low is None else max(self.low, self.reach.low)
        return low, self.high if self.reach is None or self.reach.high is None else min(self.high, self.reach.high)

    def choices(self, own: Cell) -> list[Cell] | None:
        """The cells that this column of a person's new row may hold, their own first."""
        if own is None or self.moves == "fixed" or not self.chosen:
            return [own]
        values = self.values()
        if values is None:
            return None
        return [own, *(v for v in values if not same(v, own) and self.breach(own, v) is None)]

    def breach(self, own: Cell, new: Cell) -> str | None:
        """What is wrong with a changed cell; None where nothing is."""
        if same(own, new):
            return None
        if self.formula is not None:  # whether it follows is seen on the whole row
            apart = own is not None and new is not None and self._wrong_way(float(own), float(new))
            return "a derived column the wrong way" if apart else None
        if self.moves == "fixed" or self.kind == "passthrough":
            return "what may not change did"
        if own is None or new is None:
            return "a missing cell came or went"
        if self.kind == "number":
            return self._number_breach(float(own), new)
        if self.position(new) < 0:
            return "no such level"
        if self.scalar and self._wrong_way(self.position(own), self.position(new)):
            return "wrong direction"
        if self.only is not None and not any(same(new, level) for level in self.only):
            return "against a person's limits"
        if self.reach is not None and self.reach.excess(self.position(own), self.position(new), 1.0):
            return "beyond reach"
        return None

    def _number_breach(self, own: float, new: Cell) -> str | None:
        if isinstance(new, (str, bool)) or not math.isfinite(float(new or 0)):
            return "no number"
        value = Decimal(repr(float(new)))  # type: ignore[arg-type]
        slack = 1e-6 * (self.step or 10.0**-self.places)
        if not self.low - slack <= float(value) <= self.high + slack:
            return "out of bounds"
        grid = Decimal(repr(self.step)) if self.step is not None else Decimal(10) ** -self.places
        if value % grid != 0:
            return "off the grid"
        if self.useful is not None and value % exact(self.useful) != 0:
            return "no useful step"
        if self._wrong_way(own, float(value)):
            return "wrong direction"
        if self.least is not None and abs(value - exact(own)) < exact(self.least) - grid * Decimal("1e-6"):
            return "a change below use"
        if self.reach is not None and self.reach.excess(own, float(value), float(grid)):
            return "beyond reach"
        return None

    def _wrong_way(self, own: float, new: float) -> bool:
        return (self.moves == "up" and new < own) or (self.moves == "down" and new > own)

    def read(self, text: str | None) -> Cell:
        """A printed cell, read by a person who knows the column."""
        if text is None or self.kind == "passthrough":
            return text
        if self.kind == "number":
            return float(text)
        for level in self.levels:
            if str(level) == text:
                return level
        for level in self.levels:  # 1 in a column of floats prints as 1.0
            if isinstance(level, (int, float)) and _as_float(text) == float(level):
                return level
        return f"unknown: {text}"

    def print(self, cell: Cell) -> str | None:
        """A cell as the training table prints it; single precision has short decimals of its own."""
        if cell is None:
            return None
        if self.dtype in ("float32", "Float32", "float[pyarrow]"):
            return str(np.float32(cell))
        return str(float(np.float16(cell))) if self.dtype == "float16" else str(cell)


def same(a: Cell, b: Cell) -> bool:
    """Whether two cells are one: equal and of one kind; True and 1 are, as in Python, "1" and 1 are not."""
    return (a is None) == (b is None) and isinstance(a, str) == isinstance(b, str) and a == b


def _as_float(text: str) -> float:
    try:
        return float({"True": "1", "False": "0"}.get(text, text))
    except ValueError:
        return math.nan


# -- random columns ---------------------------------------------------------------------------------------------------

WHOLE = (
    "int64", "int64", "float64", "int32", "int16", "uint8", "Int64", "Int32", "Float64", "float32", "float16", "object",
    "int64[pyarrow]", "double[pyarrow]",
)  # fmt: skip
BROKEN = (
    "float64",
    "float64",
    "float32",
    "Float64",
    "Float32",
    "object",
    "double[pyarrow]",
    "float[pyarrow]",
    "float16",
)
TEXTS = ("object", "object", "str", "string", "string[pyarrow]", "arrow", "category", "category", "ordered")
BOOLS = ("bool", "boolean", "object", "bool[pyarrow]", "category")
CODES = ("int64", "Int64", "float64", "object", "category", "int64[pyarrow]")
NO_GAPS = {"int64": "Int64", "int32": "Int32", "int16": "Int32", "uint8": "Int64", "bool": "boolean"}
"""Types without missing cells, and those that stand in where some are."""

Flavour = Literal["any", "plain", "boosted", "catboost"]
"""What a library can be fitted on: anything, plain numpy types, numbers and categoricals, numbers and texts."""


def random_columns(random: Random, flavour: Flavour, most: int = 5) -> list[Column]:
    """Two to `most` columns with names of their own; at least one that may move."""
    count = random.randint(2, most)
    names = random.sample(NAMES if random.random() < 0.4 else PLAIN_NAMES, count)
    columns = [random_column(random, name, flavour) for name in names]
    if all(c.moves == "fixed" for c in columns):
        columns[0] = random_column(random, names[0], flavour, moves="free")
    return columns


def random_column(random: Random, name: str, flavour: Flavour, moves: str | None = None) -> Column:
    """A column of any kind."""
    kind = random.choice(("number", "number", "number", "ordinal", "binary", "category", "category"))
    if moves is None:
        moves = random.choice(("free", "free", "free", "up", "down", "fixed"))
    if kind == "category" and moves in ("up", "down"):
        moves = "free"
    missing = random.random() < 0.2
    if kind == "number":
        return _number(random, name, moves, missing, flavour)
    return _named(random, name, kind, moves, missing, flavour)


def _number(random: Random, name: str, moves: str, missing: bool, flavour: Flavour) -> Column:
    step = random.choice((1.0, 1.0, 1.0, 2.0, 5.0, 0.5, 0.1, 0.25, None, None))
    decimals = random.choice((0, 1, 2, 3)) if step is None and random.random() < 0.7 else None
    size = step if step is not None else 10.0 ** -(decimals or 0)
    count = random.randint(2, 7) if step is not None else random.randint(8, 60)
    low = size * random.choice((0, 0, 0, 1, -3, 10))
    low, high = float(round(low, 9)), float(round(low + size * count, 9))
    whole = step is not None and step >= 1
    dtype = random.choice(WHOLE if whole else BROKEN)
    if low < 0 and dtype == "uint8":
        dtype = "int64"
    if flavour == "plain":
        dtype = "int64" if whole and not missing else "float64"
    elif flavour in ("boosted", "catboost") and (dtype == "object" or "pyarrow" in dtype):
        dtype = "float64"
    dtype = NO_GAPS.get(dtype, dtype) if missing else dtype
    mark = random.choice(("None", "nan", "NA"))
    return Column(name, "number", moves, missing, dtype, low, high, step, decimals, mark=mark)


def _named(random: Random, name: str, kind: Kind, moves: str, missing: bool, flavour: Flavour) -> Column:
    count = 2 if kind == "binary" else random.randint(2, 4)
    style = random.choice(("texts", "texts", "texts", "bools", "codes")) if kind == "binary" else None
    style = style or random.choice(("texts", "texts", "texts", "codes"))
    if flavour == "plain":
        style = "texts"
    if style == "bools":
        levels: tuple[Cell, ...] = (False, True)
        dtype = random.choice(BOOLS)
    elif style == "codes":
        levels = tuple(sorted(random.sample(range(6), count)))
        dtype = random.choice(CODES)
    else:
        levels = tuple(random.sample(WORDS if random.random() < 0.5 else PLAIN_WORDS, count))
        dtype = random.choice(TEXTS)
    if flavour == "plain":
        dtype = "str"
    elif flavour == "boosted" and style == "texts":
        dtype = random.choice(("category", "category", "ordered"))
    elif flavour == "boosted":
        dtype = random.choice(("category", "int64" if style == "codes" else "bool"))
    elif flavour == "catboost":
        dtype = {"texts": random.choice(("object", "str", "category")), "codes": "int64", "bools": "bool"}[style]
        missing = missing and style == "texts" and dtype == "object" and random.random() < 0.3
    dtype = NO_GAPS.get(dtype, dtype) if missing else dtype
    categories = random.sample(levels, len(levels)) if random.random() < 0.6 else list(levels)
    mark = random.choice(("None", "nan", "NA"))
    column = Column(name, kind, moves, missing, dtype, levels=levels, categories=tuple(categories), mark=mark)
    return column


def random_cell(random: Random, column: Column, odd: float = 0.0) -> Cell:
    """A cell of a column: any of its values, missing where it may be, and, with the chance `odd`, off its grid."""
    if column.missing and random.random() < 0.25:
        return None
    if column.kind != "number":
        return random.choice(column.levels)
    values = column.values()
    if values is None:
        value = round(random.uniform(column.low, column.high), column.decimals if column.decimals is not None else 4)
    else:
        value = random.choice(values)
    whole = column.dtype.lower().startswith(("int", "uint"))
    if random.random() < odd:
        value += random.choice((0.5, -0.5, 0.25)) * column.span if not whole else random.choice((-1, 1, 7))
        value = round(abs(value) if column.dtype == "uint8" else value, 6)
    text = column.print(float(round(value)) if whole else float(value))
    return None if text is None else float(text)
