"""What a text in a file says: columns of cells become columns of values, as the schema has them or by their look.

With a feature, its own declaration decides. Without one a column is a number, or true and false, only if every cell is
one beyond doubt: "02134", "+5" and "1_000" are texts, and then the whole column is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from turnabout.schema.features import Feature
from turnabout.schema.number import Number
from turnabout.typing import Level

ABSENT = frozenset(
    ("NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None")
)  # fmt: skip
"""Words for a missing cell, where a feature declares missing values or a column is one of numbers otherwise."""
PLAIN = re.compile(r"-?(0|[1-9][0-9]*|(0|[1-9][0-9]*)?\.[0-9]+([eE][+-]?[0-9]+)?|(0|[1-9][0-9]*)[eE][+-][0-9]+)")
"""Numbers as programs write them. 1E5 is none: codes look like that."""
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WHOLE = re.compile(r"[+-]?[0-9]+")
NO_NUMBER = re.compile(rf"^(?!(?:{NUMBER.pattern})$)", re.MULTILINE)
NOT_WHOLE = re.compile(rf"^(?!(?:{WHOLE.pattern})$)", re.MULTILINE)
NOT_PLAIN = re.compile(rf"^(?!(?:{PLAIN.pattern})$).*", re.MULTILINE)
INFINITE = re.compile(r"[+-]?(inf|Inf|INF|infinity|Infinity)")
GROUPED = re.compile(r"[+-]?[0-9]{1,3}([,.' ][0-9]{3})*([.,][0-9]+)?%?")
TRUTHS = (("False", "True"), ("false", "true"), ("FALSE", "TRUE"))
MOST_DIGITS = 400  # longer whole numbers are no doubles, and slow to read
EXACT = 2**53  # whole numbers up to this are doubles
TEXT: Any = pd.Series(["text"]).dtype  # object, or str from pandas 3 on

Reader: TypeAlias = Callable[[str], Any]
"""A text -> what it says, or itself where it says nothing of the kind; NaN for a missing cell."""


def declared_column(feature: Feature, texts: Sequence[str]) -> pd.Series:
    """Texts as the values of a feature. What cannot be read stays as it is, and so does nothing else."""
    if isinstance(feature, Number):
        column = _number_column(texts, ABSENT if feature.missing else frozenset())
        if column.dtype == object and not any(isinstance(cell, str) for cell in column.unique()):
            return column.astype("float64")  # more digits than 64 bits hold
        return column
    if hasattr(feature, "levels"):
        return _column_of(texts, _level_reader(feature, feature.levels), _type_when_empty(feature))
    return column_by_look(texts, absent=frozenset())[0]  # it may hold anything, words for a gap among it


def declared_cells(feature: Feature, cells: Sequence[Any]) -> pd.Series:
    """Cells that have types of their own: texts are read as the feature has them, the others kept."""
    if isinstance(feature, Number):
        read: Reader = _number
    elif hasattr(feature, "levels"):
        read = _level_reader(feature, feature.levels, words=False)
    else:
        return own_column(cells)
    return own_column([read(cell) if isinstance(cell, str) else cell for cell in cells], _type_when_empty(feature))


def own_column(cells: Sequence[Any], when_empty: Any = "float64") -> pd.Series:
    """Cells with the types that they have; None is missing."""
    return _assemble([np.nan if cell is None else cell for cell in cells], None, when_empty)


def text_column(texts: Sequence[str]) -> pd.Series:
    """Texts as they are; an empty one is missing."""
    return _column_of(texts, lambda text: text, TEXT)


def column_by_look(texts: Sequence[str], absent: frozenset[str] = ABSENT) -> tuple[pd.Series, str]:
    """Texts as the numbers or truths that all of them are, else as they are; and the text that made the difference.

    The text is "" unless the column looks like one of numbers: then a person should know that it is none.
    """
    different = set(texts) - {""}
    for no, yes in TRUTHS:
        if different and different <= {no, yes}:
            return _column_of(texts, {no: False, yes: True}.__getitem__, "object"), ""
    present = [text for text in different if text not in absent]
    odd = _odd(present)
    if len(odd) < len(present) and all(INFINITE.fullmatch(text) for text in odd):
        column = _number_column(texts, absent)
        if column.dtype != object:  # else they have too many digits for any number
            return column, ""
        odd = present
    elif not different:
        return text_column(texts).astype("float64"), ""
    return text_column(texts), _telling(present, odd)


def _odd(texts: list[str]) -> list[str]:
    """Those that are no plain numbers; searched in one text, which is ten times as fast as one by one."""
    joined = "\n".join(texts)
    if joined.count("\n") >= len(texts) > 0:  # texts of several lines
        return [text for text in texts if not PLAIN.fullmatch(text)]
    return [found.group() for found in NOT_PLAIN.finditer(joined)] if texts else []


def _telling(present: list[str], odd: list[str]) -> str:
    """The first text, by the alphabet, that keeps what looks like numbers from being numbers."""
    like = [text for text in odd if NUMBER.fullmatch(text.strip()) or GROUPED.fullmatch(text.strip())]
    if not odd or 2 * (len(present) - len(odd) + len(like)) <= len(present):
        return ""
    return min(like or odd)


# -- one text -----------------------------------------------------------------------------------------------------


def _number(text: str) -> Any:
    """The number that a text is, whole or not as it is written; the text itself where it is none."""
    bare = text.strip(" ")
    if WHOLE.fullmatch(bare):
        return int(bare) if len(bare) <= MOST_DIGITS else text
    if NUMBER.fullmatch(bare) or INFINITE.fullmatch(bare):
        return float(bare)
    return text


def _level_reader(feature: Feature, levels: tuple[Level, ...], words: bool = True) -> Reader:
    """A text is the level that it spells; else the number, or the truth, that equals a level."""
    spelled: dict[str, Level] = {str(level): level for level in levels if not isinstance(level, str)}
    spelled |= {level: level for level in levels if isinstance(level, str)}  # a text is a text first
    numbers: dict[Any, Level] = {level: level for level in levels if not isinstance(level, str)}
    truths = {word: truth for pair in TRUTHS for truth, word in zip((False, True), pair, strict=True)}
    only_numbers = not any(isinstance(level, (str, bool)) for level in levels)
    takes_truths = set(numbers) == {0, 1}  # True == 1, False == 0

    def read(text: str) -> Any:
        if text in spelled:
            return spelled[text]
        if takes_truths and text in truths:
            return numbers[truths[text]]
        number = _number(text)
        if not isinstance(number, str) and number in numbers:
            level = numbers[number]
            return number if type(level) is int else level
        if text[:1] == "'" and text[1:] in spelled:  # as our own CSV writes what a spreadsheet would run
            return spelled[text[1:]]
        if words and feature.missing and text in ABSENT:
            return np.nan
        return number if only_numbers else text  # one that is no level, as the column would have it

    return read


# -- columns ------------------------------------------------------------------------------------------------------


def _type_when_empty(feature: Feature) -> Any:
    """The type of a column of which every cell is missing."""
    levels = getattr(feature, "levels", (0,))
    if all(isinstance(level, str) for level in levels):
        return TEXT
    return "object" if any(isinstance(level, (str, bool)) for level in levels) else "float64"


def _column_of(texts: Sequence[str], read: Reader, when_empty: Any) -> pd.Series:
    """Read every different text once; an empty one is missing."""
    place, different = _different(texts)
    return _assemble([np.nan if text == "" else read(text) for text in different], place, when_empty)


def _number_column(texts: Sequence[str], absent: frozenset[str]) -> pd.Series:
    """Texts as numbers, where they are some; those `absent` are missing."""
    place, different = _different(texts)
    is_number = np.array([text != "" and text not in absent for text in different], dtype=bool)
    numbers = _in_bulk([text for text, keep in zip(different, is_number, strict=True) if keep])
    dtype = "float64"
    if numbers and type(numbers[0]) is int:
        dtype = _whole_type(min(numbers), max(numbers), gaps=not is_number.all())
    if numbers is None or dtype in ("Int64", "object"):
        cells = [_number(text) if keep else np.nan for text, keep in zip(different, is_number, strict=True)]
        return _assemble(cells, place, "float64")
    values = np.full(len(different), np.nan) if dtype == "float64" else np.zeros(len(different), dtype=dtype)
    values[is_number] = numbers
    return pd.Series(values[place])


def _in_bulk(texts: list[str]) -> list[Any] | None:
    """The numbers that texts are; None where one is none, or is written in an unusual way."""
    joined = "\n".join(texts)
    unusual = joined.count("\n") >= max(1, len(texts)) or any(len(text) > MOST_DIGITS for text in texts)
    if texts and (unusual or NO_NUMBER.search(joined)):
        return None
    return list(map(float if NOT_WHOLE.search(joined) else int, texts))


def _different(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Where each text stands among the different ones, and these."""
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return pd.factorize(array)


def _assemble(values: list[Any], place: np.ndarray | None, when_empty: Any) -> pd.Series:
    """values[place] as a column of the type that pandas would give it in a file of its own."""
    present = [value for value in values if not _is_missing(value)]
    kinds = {type(value) for value in present}
    gaps = len(present) < len(values)
    dtype: Any = "object"
    if not kinds:
        dtype = when_empty
    elif kinds == {int}:
        dtype = _whole_type(min(present), max(present), gaps)
    elif kinds <= {int, float} and all(abs(value) < 1e308 for value in present if type(value) is int):
        dtype = "float64"
    elif kinds == {bool} and not gaps:
        dtype = "bool"
    elif kinds == {str}:
        dtype = TEXT
    array = np.empty(len(values), dtype=object)
    array[:] = [pd.NA if dtype == "Int64" and _is_missing(value) else value for value in values]
    column = pd.Series(array if dtype == "object" else pd.array(array, dtype=dtype), dtype=dtype)
    return column if place is None else column.take(place).reset_index(drop=True)


def _whole_type(low: int, high: int, gaps: bool) -> str:
    """The type of a column of whole numbers; gaps make it one of doubles, where these hold every number."""
    if gaps:
        if low >= -EXACT and high <= EXACT:
            return "float64"
        return "Int64" if low >= -(2**63) and high < 2**63 else "object"
    if low >= -(2**63) and high < 2**63:
        return "int64"
    return "uint64" if low >= 0 and high < 2**64 else "object"


def _is_missing(value: Any) -> bool:
    return isinstance(value, float) and value != value
