"""Tables built cell by cell, as a user builds the training table: every column in the type it has there."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fuzz.columns import Cell, Column

Row = Sequence[Cell]
MARKS = {"None": None, "nan": np.nan, "NA": pd.NA}
KEPT = ("category", "ordered", "date")  # types that a table keeps when its columns become objects
NUMPY = ("float64", "float32", "float16", "int64", "int32", "int16", "uint8", "bool")


def build(
    columns: Sequence[Column], rows: Sequence[Row], index: Sequence[Any] | None = None, half: bool = False
) -> pd.DataFrame:
    """Rows of plain cells as a table; half precision, in which few decimals can be told, only where it is asked for."""
    labels = pd.RangeIndex(len(rows)) if index is None else pd.Index(list(index))
    typed = columns if half else [replace(c, dtype="float64") if c.dtype == "float16" else c for c in columns]
    parts = {c.name: series(c, [row[i] for row in rows]).set_axis(labels) for i, c in enumerate(typed)}
    return pd.DataFrame(parts, index=labels)


def series(column: Column, cells: Sequence[Cell]) -> pd.Series:
    """Cells as a column; pandas takes its type from all objects, so that a level of the training table stands first."""
    if column.dtype == "object" and column.levels:
        return pd.Series(array(column, [column.categories[0], *cells])).iloc[1:]
    return pd.Series(array(column, cells))


def as_given(table: pd.DataFrame, columns: Sequence[Column], types: str) -> pd.DataFrame:
    """A table in the types of training, "nullable" ones, or "object"."""
    if types == "nullable":
        return table.convert_dtypes()
    if types == "object":
        names = [c.name for c in columns if c.dtype not in KEPT and "float" not in c.dtype.lower()]
        return table.astype(dict.fromkeys(names, object))
    return table


def as_parquet(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a table that was kept in a parquet file: its gaps are all alike, and None among objects."""
    return tuple(replace(c, mark=_mark_in_parquet(c)) if c.dtype == "object" and c.missing else c for c in columns)


def _mark_in_parquet(column: Column) -> str:
    """The mark of a missing cell that was written and read; that of the column where it is no object any more."""
    out = io.BytesIO()
    pd.DataFrame({"cells": array(column, [*column.levels, None])}).to_parquet(out)
    back = pd.read_parquet(out)["cells"]
    if back.dtype != object:
        return column.mark
    gap = back.iloc[-1]
    return next((name for name, mark in MARKS.items() if gap is mark), "nan")


def array(column: Column, cells: Sequence[Cell]) -> Any:
    """Cells as an array of the column's type."""
    dtype = column.dtype
    if dtype in NUMPY:
        return np.array([np.nan if cell is None else cell for cell in cells], dtype=_wide_enough(dtype, cells))
    if dtype == "object":
        out = np.empty(len(cells), dtype=object)
        out[:] = [MARKS[column.mark] if cell is None else plain(column, cell) for cell in cells]
        return pd.Series(out, dtype=object).array
    if dtype in ("category", "ordered"):
        known = [None if cell is None else plain(column, cell) for cell in cells]
        categories = [plain(column, c) for c in column.categories]
        return pd.Categorical(known, categories=categories, ordered=dtype == "ordered")
    if dtype == "arrow":
        import pyarrow

        return pd.array([pd.NA if c is None else c for c in cells], dtype=pd.ArrowDtype(pyarrow.string()))
    if dtype == "date":
        return pd.array(pd.to_datetime(list(cells)))
    return pd.array([pd.NA if cell is None else plain(column, cell) for cell in cells], dtype=dtype)


def _wide_enough(dtype: str, cells: Sequence[Cell]) -> str:
    """The type, or a wider one for whole numbers that it cannot hold: a consequence may leave every bound."""
    if not np.issubdtype(dtype, np.integer):
        return dtype
    known = np.iinfo(dtype)
    return dtype if all(known.min <= cell <= known.max for cell in cells) else "int64"  # type: ignore[operator]


def plain(column: Column, cell: Cell) -> Cell:
    """A cell of its own kind: whole numbers are ints in columns that hold ints."""
    if column.kind == "number" and column.dtype.lower().startswith("int"):
        return int(cell)  # type: ignore[arg-type]
    return cell


def printed(table: pd.DataFrame, columns: Sequence[Column]) -> list[list[Cell]]:
    """The cells of a table as a person reads them: as text, column by column."""
    return [[c.read(text_of(cell)) for c, cell in zip(columns, row)] for row in cells_of(table, columns)]


def cells_of(table: pd.DataFrame, columns: Sequence[Column]) -> list[tuple[Any, ...]]:
    """The cells of a table row by row, in the order of the columns."""
    parts = [cells(table[c.name]) for c in columns]
    return list(zip(*parts)) if parts and len(table) else []


def cells(column: pd.Series) -> list[Any]:
    """Cells that know their precision; those of pyarrow come out as doubles."""
    if str(column.dtype) == "float[pyarrow]":
        return list(column.to_numpy(dtype=np.float32, na_value=np.nan))
    return list(column.array)


def text_of(cell: Any) -> str | None:
    """A cell as it prints; None where it is missing."""
    if cell is None or cell is pd.NA or cell is pd.NaT or (isinstance(cell, (float, np.floating)) and np.isnan(cell)):
        return None
    return str(cell)
