"""Cells as they come in tables: numbers as doubles, marks of missing cells, and when two cells are the same."""

from __future__ import annotations

import numpy as np
import pandas as pd

from turnabout.documents.cells import is_single


def floats(column: pd.Series) -> np.ndarray:
    """A column as float64, NaN where a cell is missing or no number; texts are no numbers.

    Numbers in single precision are read as the short decimals that they print as: 0.1, not 0.10000000149.
    """
    dtype = column.dtype
    if dtype.kind in "biuf":
        if is_single(dtype):
            narrow = column.to_numpy(dtype=np.float32, na_value=np.nan)
            return narrow.astype("U32").astype(np.float64)
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    if dtype.kind != "O":  # dates, durations and complex numbers
        return np.full(len(column), np.nan)
    return np.array([np.nan if (v := as_number(cell)) is None else v for cell in column], dtype=np.float64)


def cells_of(column: pd.Series) -> pd.Series:
    """The cells of a column as objects; numbers in single precision are the short decimals that they print as."""
    if is_single(column.dtype):
        short, absent = floats(column).astype(object), column.isna().to_numpy(dtype=bool)
        short[absent] = column.array[absent]
        return pd.Series(short, index=column.index, name=column.name, dtype=object)
    return column.astype(object)


def same_cells(own: pd.Series, new: pd.Series) -> np.ndarray:
    """(n,) True where two columns hold the same cell: equal, or both missing."""
    a, b = own.to_numpy(dtype=object), new.to_numpy(dtype=object)
    return np.array([p is q or (is_missing(p) and is_missing(q)) or _equal(p, q) for p, q in zip(a, b)], dtype=bool)


def _equal(a: object, b: object) -> bool:
    try:
        return bool(a == b)
    except (TypeError, ValueError):  # lists, arrays and other things that are no cells
        return False


def is_missing(cell: object) -> bool:
    """Whether a cell is one of the marks of a missing value: None, NaN, NaT, <NA>."""
    return bool(pd.api.types.is_scalar(cell) and pd.isna(cell))  # type: ignore[call-overload]


def as_number(cell: object) -> float | None:
    """A number as a float; None for what is no number, a text with digits and a missing cell among it."""
    if isinstance(cell, float):
        return cell
    if isinstance(cell, (str, bytes)) or is_missing(cell) or not hasattr(cell, "__float__"):
        return None
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
