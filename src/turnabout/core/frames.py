"""Data frames as plain values, with the types of their columns; both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from turnabout.typing import Json


def plain(value: Any) -> Any:
    """A cell as JSON has it: what is missing is None, an infinity is "inf"; what is nothing else is its text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and np.isnan(value)):
        return None
    if isinstance(value, float) and np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value if isinstance(value, (int, float, bool)) else str(value)


def frame_to_json(frame: pd.DataFrame) -> Json:
    """Index, and the columns with their types."""
    columns = []
    for name in frame.columns:
        column = frame[name]
        entry: Json = {"name": str(name), "dtype": str(column.dtype)}
        if isinstance(column.dtype, pd.CategoricalDtype):
            entry["dtype"] = "category"
            entry["categories"] = [plain(c) for c in column.cat.categories]
            entry["ordered"] = bool(column.cat.ordered)
        entry["values"] = [plain(v) for v in column]
        columns.append(entry)
    index = [list(map(plain, key)) if isinstance(key, tuple) else plain(key) for key in frame.index]
    return {"index_names": [plain(n) for n in frame.index.names], "index": index, "columns": columns}


def frame_from_json(document: Json) -> pd.DataFrame:
    """The inverse of frame_to_json."""
    names = document["index_names"]
    index: pd.Index
    if len(names) > 1:
        index = pd.MultiIndex.from_tuples([tuple(k) for k in document["index"]], names=names)
    else:
        index = pd.Index(document["index"], name=names[0])
    columns = {}
    for entry in document["columns"]:
        values, dtype = entry["values"], entry["dtype"]
        if dtype == "category":
            array: Any = pd.Categorical(values, categories=entry["categories"], ordered=entry["ordered"])
            columns[entry["name"]] = pd.Series(array, index=index)
        elif dtype in ("float16", "float32", "float64"):
            array = np.array([np.nan if v is None else float(v) for v in values], dtype=dtype)
            columns[entry["name"]] = pd.Series(array, index=index)
        else:
            columns[entry["name"]] = pd.Series(values, index=index, dtype=object).astype(dtype)
    return pd.DataFrame(columns, index=index)
