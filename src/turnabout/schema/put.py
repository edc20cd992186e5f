"""Writing new values into the columns of a table, in the types that the columns have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from turnabout.documents.cells import is_single
from turnabout.schema.raw_cells import is_missing

WIDER = {"i": ("int64", "float64"), "u": ("int64", "float64"), "f": ("float64",)}  # where a value does not fit a type


def put(column: pd.Series, where: np.ndarray, values: np.ndarray) -> pd.Series:
    """Copy of the column with some cells replaced, of its own type where the new values fit it."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        extra = [v for v in dict.fromkeys(values.tolist()) if v not in column.cat.categories]
        column = column.cat.add_categories(extra) if extra else column
        wider: tuple[Any, ...] = (column.dtype,)
    else:
        wider = (column.dtype, *_wider(column.dtype))
    for dtype in wider:
        fitting = _fit(values, dtype)
        if fitting is None:
            continue
        array = column.astype(dtype).array.copy()
        array[where] = fitting
        return pd.Series(array, index=column.index, name=column.name, dtype=dtype)
    plain = column.to_numpy(dtype=object, copy=True)  # a column of another kind than the values
    plain[where] = values
    return pd.Series(plain, index=column.index, name=column.name, dtype=object)


def retype(values: np.ndarray, like: pd.Series) -> pd.Series:
    """Decoded values as a column of the type, and with the mark of missing cells, that another column has.

    Where the values do not fit that type, they come in their own.
    """
    column, dtype = pd.Series(values), like.dtype
    absent = column.isna().to_numpy(dtype=bool)
    fitting = _fit(values[~absent], dtype)
    if fitting is None or (absent.any() and isinstance(dtype, np.dtype) and dtype.kind not in "fmMO"):
        return column
    if not absent.any():
        return pd.Series(fitting, dtype=dtype)
    mark = next((cell for cell in like if is_missing(cell)), np.nan)
    whole = pd.Series([mark if dtype == np.dtype(object) else None] * len(values), dtype=dtype)
    array = whole.array
    array[~absent] = fitting
    return pd.Series(array, dtype=dtype)


def in_precision(values: np.ndarray, dtype: Any) -> Any:
    """Any doubles as a model gets them in a column of this type: rounded where it is one of single precision."""
    if not is_single(dtype):
        return values
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return narrow if isinstance(dtype, np.dtype) else pd.array(narrow, dtype=dtype)


def mold(table: pd.DataFrame) -> pd.DataFrame:
    """Two rows that have the types of a table's columns, and their marks of missing cells; for `retype`."""
    parts = {}
    for name in table.columns:
        absent = table[name].isna().to_numpy(dtype=bool)
        rows = [int(absent.argmin()), int(absent.argmax())] if len(table) else []
        parts[name] = table[name].iloc[rows].reset_index(drop=True)
    return pd.DataFrame(parts)


def _wider(dtype: Any) -> tuple[Any, ...]:
    """Types into which the numbers of a column go when they do not fit its own."""
    names = WIDER.get(dtype.kind, ())
    if isinstance(dtype, np.dtype):
        return tuple(np.dtype(name) for name in names)
    if isinstance(dtype, pd.ArrowDtype):
        return tuple(pd.api.types.pandas_dtype(f"{name.replace('float64', 'double')}[pyarrow]") for name in names)
    return tuple(pd.api.types.pandas_dtype(name.capitalize()) for name in names)


def _fit(values: np.ndarray, dtype: Any) -> Any:
    """The values as an array of the type, or None where they would be others; single precision rounds numbers."""
    single = is_single(dtype) and values.dtype.kind in "iuf"
    if dtype == np.dtype(object):
        return values.astype(object)
    if isinstance(dtype, pd.CategoricalDtype) and not set(values.tolist()) <= set(dtype.categories.tolist()):
        return None
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            cast = values.astype(dtype) if isinstance(dtype, np.dtype) else pd.array(values.tolist(), dtype=dtype)
        same = [a == b and isinstance(a, str) == isinstance(b, str) for a, b in zip(cast.tolist(), values.tolist())]
    except (TypeError, ValueError, OverflowError, NotImplementedError):
        return None
    except Exception as error:
        if type(error).__module__.startswith("pyarrow"):
            return None
        raise
    fits = all(same) or (single and bool(np.isfinite(np.asarray(cast, dtype=float)).all()))
    return cast if fits else None
