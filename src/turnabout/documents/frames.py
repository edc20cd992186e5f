"""Data frames as plain values, with the types of their columns, labels and names; both ways.

A table is {"index_names", "index", "index_types", "columns": [{"name", "dtype", "values", ...}]}. Values of most types
are JSON values or texts; those of object columns have their type beside them where JSON has none (`documents.cells`).
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from turnabout.documents.cells import cell_from_json, cell_to_json, is_single, plain, short_decimal
from turnabout.errors import TurnaboutError
from turnabout.typing import Json

__all__ = ["frame_from_json", "frame_to_json", "plain"]

Array: TypeAlias = Any  # of numpy or of pandas
SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
GAPS = {"None": None, "NaN": math.nan, "NA": pd.NA, "NaT": pd.NaT}
"""What null stands for in a column of objects."""


def frame_to_json(frame: pd.DataFrame) -> Json:
    """Index, and the columns with their types."""
    axis = frame.columns
    more: Json = {}
    names = [cell_to_json(name) for name in axis]
    guess = pd.Index(list(axis))
    if not isinstance(axis, pd.MultiIndex) and (isinstance(guess, pd.MultiIndex) or guess.dtype != axis.dtype):
        more["columns_type"], names = _write(_array(axis))
    if any(name is not None for name in axis.names):
        more["columns_names"] = [cell_to_json(name) for name in axis.names]
    columns = []
    for place, name in enumerate(names):
        entry, values = _write(_array(frame.iloc[:, place]))
        columns.append({"name": name} | entry | {"values": values})
    return _labels_to_json(frame.index) | {"columns": columns} | more


def frame_from_json(document: Json, where: str = "the table") -> pd.DataFrame:
    """The inverse of frame_to_json; an error tells which part of a damaged document cannot be read."""
    try:
        index = _labels_from_json(document)
    except FAULTS as error:
        raise _damaged(f"the labels of {where}", error) from None
    columns, names = [], []
    for place, entry in enumerate(document["columns"]):
        try:
            names.append(entry["name"] if "columns_type" in document else cell_from_json(entry["name"]))
            values = _read(entry, entry["values"])
            if len(values) != len(index):
                raise ValueError(f"it has {len(values)} values for {len(index)} rows")
        except FAULTS as error:
            shown = entry["name"] if isinstance(entry["name"], str) else f"number {place}"
            raise _damaged(f"column {shown!r} of {where}", error) from None
        columns.append(pd.Series(values, index=index, dtype=values.dtype, copy=False))
    frame = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=index)
    try:
        axis = pd.Index(names) if names else frame.columns
        if "columns_type" in document:
            axis = _index(_read(document["columns_type"], names))
        if "columns_names" in document:
            axis = axis.set_names([cell_from_json(name) for name in document["columns_names"]])
        return frame.set_axis(axis, axis=1)
    except FAULTS as error:
        raise _damaged(f"the names of columns of {where}", error) from None


FAULTS = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, ArithmeticError)
"""What pandas, numpy and pyarrow raise for values that do not fit."""


def _damaged(what: str, error: Exception) -> TurnaboutError:
    if isinstance(error, TurnaboutError):
        return error
    reason = f"there is no {error}" if isinstance(error, KeyError) else str(error).split("\n")[0]
    return TurnaboutError(
        f"{what} cannot be read: {reason[:200]}.", hint="the document is damaged, or was not written by turnabout."
    )


# -- labels -------------------------------------------------------------------------------------------------------


def _labels_to_json(index: pd.Index) -> Json:
    names = [cell_to_json(name) for name in index.names]
    parts = [_write(_array(index.get_level_values(level))) for level in range(index.nlevels)]
    labels = [list(key) for key in zip(*(values for _, values in parts))] if len(parts) > 1 else parts[0][1]
    return {"index_names": names, "index": labels, "index_types": [entry for entry, _ in parts]}


def _labels_from_json(document: Json) -> pd.Index:
    names = [cell_from_json(name) for name in document["index_names"]]
    labels, types = document["index"], document.get("index_types")
    if types is not None and len(types) != len(names):
        raise ValueError(f"{len(names)} names and {len(types)} types")
    if len(names) == 1:
        if types is None:  # as older releases wrote it
            return _guess(labels).rename(names[0])
        return _index(_read(types[0], labels)).rename(names[0])
    if not all(isinstance(label, list) and len(label) == len(names) for label in labels):
        raise ValueError(f"a label has other than {len(names)} parts")
    parts = [[label[level] for label in labels] for level in range(len(names))]
    if types is None:
        rows = [tuple(map(cell_from_json, label)) for label in labels]
        return pd.MultiIndex.from_tuples(rows, names=names)
    return pd.MultiIndex.from_arrays([_index(_read(*part)) for part in zip(types, parts, strict=True)], names=names)


def _index(array: Array) -> pd.Index:
    return pd.Index(array, dtype=array.dtype, tupleize_cols=False)  # as it is, whatever objects might be otherwise


def _guess(cells: Sequence[Any]) -> pd.Index:
    """Labels of the type that pandas gives them, for want of another."""
    return pd.Index([cell_from_json(cell) for cell in cells], tupleize_cols=False)


def _array(column: pd.Series | pd.Index) -> Array:
    return column.to_numpy() if isinstance(column.dtype, np.dtype) and column.dtype.kind not in "mM" else column.array


# -- columns: what describes a type, and its values ----------------------------------------------------------------


def _write(array: Array) -> tuple[Json, list[Any]]:
    """An array as what describes its type, and its values."""
    dtype = array.dtype
    entry: Json = {"dtype": str(dtype)}
    if isinstance(dtype, pd.CategoricalDtype):
        kinds, categories = _write(_array(dtype.categories))
        entry = {"dtype": "category", "categories": categories, "ordered": bool(dtype.ordered)}
        if _guess(categories).dtype != dtype.categories.dtype or "missing" in kinds:
            entry["categories_type"] = kinds
        return entry, [None if code < 0 else categories[code] for code in array.codes]
    if isinstance(dtype, pd.StringDtype):
        if dtype.storage != _usual_storage(dtype):
            entry["storage"] = dtype.storage
        return entry, [None if gap else value for value, gap in zip(array, array.isna(), strict=True)]
    if isinstance(dtype, pd.ArrowDtype):
        if not _is_named(dtype):
            import pyarrow

            packed = pyarrow.schema([("type", dtype.pyarrow_dtype)]).serialize().to_pybytes()
            entry["arrow"] = base64.b64encode(packed).decode("ascii")
        told = map(short_decimal, array) if is_single(dtype) else array
        return entry, [None if value is pd.NA else cell_to_json(value) for value in told]
    if isinstance(dtype, pd.IntervalDtype):
        return entry, [None if pd.isna(value) else _interval_text(value) for value in array]
    if isinstance(dtype, (pd.DatetimeTZDtype, pd.PeriodDtype)) or dtype.kind in "mM":
        return entry, [None if value is pd.NaT else str(value) for value in array]
    if dtype.kind in "biuf" and dtype != np.longdouble and _is_named(dtype):
        numbers = map(short_decimal, array.tolist()) if is_single(dtype) else array.tolist()
        return entry, [_number_to_json(value) for value in numbers]
    if isinstance(dtype, np.dtype) and dtype.kind in "fc":
        return entry, list(map(str, array))  # more digits or parts than a number of JSON
    return _write_objects(array)


def _usual_storage(dtype: pd.StringDtype) -> str:
    try:
        return str(pd.StringDtype(na_value=dtype.na_value).storage)
    except TypeError:  # pandas 2.2 has one kind of gap
        return str(pd.StringDtype().storage)


def _is_named(dtype: Any) -> bool:
    """Whether pandas finds the type by its name."""
    try:
        return bool(pd.api.types.pandas_dtype(str(dtype)) == dtype)
    except (TypeError, ValueError, NotImplementedError):
        return False


def _number_to_json(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if value is pd.NA or value is None:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else plain(value)
    return value


def _interval_text(value: pd.Interval) -> str:
    left, right = ("[(", "])")
    start, end = left[value.closed not in ("left", "both")], right[value.closed not in ("right", "both")]
    return f"{start}{plain(value.left)}, {plain(value.right)}{end}"


def _write_objects(array: Array) -> tuple[Json, list[Any]]:
    """Cells with their types; null is the commonest kind of gap."""
    cells = list(array)
    kinds = [_gap_of(cell) for cell in cells]
    found = [kind for kind in kinds if kind]
    commonest = max(sorted(set(found)), key=found.count, default="None")
    values = [None if kind == commonest else cell_to_json(cell) for cell, kind in zip(cells, kinds, strict=True)]
    if commonest != "None":
        values = [cell_of_none if kind == "None" else v for v, kind in zip(values, kinds, strict=True)]
        return {"dtype": "object", "missing": commonest}, values
    return {"dtype": "object"}, values


cell_of_none: Json = {"type": "NoneType"}


def _gap_of(cell: Any) -> str:
    if cell is None:
        return "None"
    if cell is pd.NA:
        return "NA"
    if cell is pd.NaT:
        return "NaT"
    return "NaN" if type(cell) is float and math.isnan(cell) else ""


def _read(entry: Json, values: Sequence[Any]) -> Array:
    """The inverse of _write; strict: a value of another type than its column's is damage."""
    name = entry["dtype"]
    if name == "category":
        return _read_categories(entry, values)
    if name == "object":
        return _read_objects(entry, values)
    if "arrow" in entry or (name.endswith("[pyarrow]") and not name.startswith("string")):
        return _read_arrow(entry, values)
    if name in ("str", "string") or name.startswith("string["):
        return _read_texts(entry, values)
    dtype = pd.api.types.pandas_dtype(name)
    if isinstance(dtype, pd.IntervalDtype):
        intervals: Any = [None if value is None else _interval(value, dtype) for value in values]
        return pd.arrays.IntervalArray(intervals, dtype=dtype)
    if isinstance(dtype, pd.PeriodDtype):
        gap, freq = pd.NaT, str(dtype)[len("period[") : -1]
        return pd.array([gap if v is None else pd.Period(_as_text(v), freq=freq) for v in values], dtype=dtype)
    if isinstance(dtype, pd.DatetimeTZDtype) or dtype.kind in "mM":
        return _read_times(dtype, values)
    if isinstance(dtype, np.dtype) and (dtype.kind == "c" or dtype == np.longdouble):
        return np.array([dtype.type(_as_text(value)) for value in values], dtype=dtype)
    if dtype.kind not in "biuf":
        raise ValueError(f"the type {name!r} is not known")
    return _read_numbers(dtype, values)


def _read_numbers(dtype: Any, values: Sequence[Any]) -> Array:
    wanted: tuple[type, ...] = (bool,) if dtype.kind == "b" else (int,) if dtype.kind in "iu" else (int, float)
    takes_gaps = dtype.kind == "f" or isinstance(dtype, pd.api.extensions.ExtensionDtype)
    out: list[Any] = []
    for value in values:
        if value is None and takes_gaps:
            out.append(math.nan if isinstance(dtype, np.dtype) else pd.NA)
        elif type(value) in wanted:
            out.append(value)
        elif dtype.kind == "f" and isinstance(value, str) and value in SPECIAL:
            out.append(SPECIAL[value])
        else:
            raise ValueError(f"{str(value)[:40]!r} is not of the type {dtype}")
    return np.array(out, dtype=dtype) if isinstance(dtype, np.dtype) else pd.array(out, dtype=dtype)


def _read_texts(entry: Json, values: Sequence[Any]) -> Array:
    texts = [None if value is None else _as_text(value) for value in values]
    gap: Any = math.nan if entry["dtype"] == "str" else pd.NA
    storage = entry.get("storage")
    if entry["dtype"] == "string[python]":
        storage = "python"
    try:
        dtype = pd.StringDtype(storage, na_value=gap)
    except ImportError:  # written where pyarrow is
        dtype = pd.StringDtype("python", na_value=gap)
    except TypeError:  # pandas 2: texts are objects there
        if entry["dtype"] == "str":
            return np.array([math.nan if text is None else text for text in texts] + [None], dtype=object)[:-1]
        dtype = pd.StringDtype(storage)
    return pd.array(texts, dtype=dtype)


def _read_times(dtype: Any, values: Sequence[Any]) -> Array:
    kind: Any = pd.Timedelta if dtype.kind == "m" else pd.Timestamp
    unit = dtype.unit if isinstance(dtype, pd.DatetimeTZDtype) else np.datetime_data(dtype)[0]
    times: list[Any] = [pd.NaT if value is None else kind(_as_text(value)).as_unit(unit) for value in values]
    if isinstance(dtype, pd.DatetimeTZDtype):
        stamps = [time if time is pd.NaT else time.tz_convert(dtype.tz) for time in times]
        return pd.array(stamps, dtype=dtype)
    if dtype.kind == "M" and any(time is not pd.NaT and time.tzinfo is not None for time in times):
        raise ValueError("a time has a zone, and its column has none")
    return pd.array(times, dtype=dtype)


def _read_categories(entry: Json, values: Sequence[Any]) -> Array:
    cells = entry["categories"]
    described = entry.get("categories_type")
    categories = _guess(cells) if described is None else _index(_read(described, cells))
    place = {_key(cell): code for code, cell in enumerate(cells)}
    codes = [-1 if value is None else place.get(_key(value), -2) for value in values]
    if -2 in codes:
        raise ValueError(f"{str(values[codes.index(-2)])[:40]!r} is none of the categories")
    if not isinstance(entry["ordered"], bool):
        raise ValueError("'ordered' is true or false")
    return pd.Categorical.from_codes(codes, categories=categories, ordered=entry["ordered"])


def _key(cell: Any) -> str:
    return json.dumps(cell, sort_keys=True)


def _read_objects(entry: Json, values: Sequence[Any]) -> Array:
    gap = GAPS[entry.get("missing", "None")]
    out = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        out[place] = None if value == cell_of_none else gap if value is None else cell_from_json(value)
    return out


def _read_arrow(entry: Json, values: Sequence[Any]) -> Array:
    import pyarrow

    if "arrow" in entry:
        packed = pyarrow.py_buffer(base64.b64decode(entry["arrow"], validate=True))
        try:
            kind = pyarrow.ipc.read_schema(packed).field(0).type
        except OSError as error:
            raise ValueError(f"no type of arrow: {error}") from None
    else:
        kind = pd.ArrowDtype.construct_from_string(entry["dtype"]).pyarrow_dtype  # type: ignore[attr-defined]
    cells = [None if value is None else cell_from_json(value) for value in values]
    return pd.arrays.ArrowExtensionArray(pyarrow.array(cells, type=kind))


def _interval(text: Any, dtype: pd.IntervalDtype) -> pd.Interval:
    body = _as_text(text)
    ends = body[1:-1].split(", ")
    closed: Any = {"[]": "both", "[)": "left", "(]": "right", "()": "neither"}.get(body[:1] + body[-1:])
    if len(ends) != 2 or closed != dtype.closed:
        raise ValueError(f"{body[:40]!r} is no interval of the type {dtype}")
    subtype: Any = dtype.subtype
    if subtype.kind in "iuf":
        left, right = ((int if subtype.kind in "iu" else float)(end) for end in ends)
    else:
        left, right = _read_times(subtype, ends)
    return pd.Interval(left, right, closed=closed)


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]!r} is not a text")
    return value
