"""Cells of any type as JSON values, both ways: a text with the name of its type, where JSON has no such type."""

from __future__ import annotations

import base64
import datetime as dt
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from turnabout.typing import Json

PLAIN = (str, int, bool, type(None))


def plain(value: Any) -> Any:
    """A cell as JSON has it: what is missing is None, an infinity is "inf"; what is nothing else is its text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and np.isnan(value)):
        return None
    if isinstance(value, float) and np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value if isinstance(value, (int, float, bool)) else str(value)


def short_decimal(value: Any) -> Any:
    """A number that is one in single precision, as the short decimal that it prints as there; others as they are."""
    return float(str(np.float32(value))) if isinstance(value, float) and math.isfinite(value) else value


def is_single(dtype: Any) -> bool:
    """Whether a column type holds numbers in single precision."""
    return dtype.kind == "f" and getattr(dtype, "itemsize", 8) == 4  # sparse types do not say


def cell_to_json(value: Any) -> Any:
    """A cell with its type: itself where JSON has the type, else {"type": ..., "value": ...}.

    What is of no type known here becomes its text, and is a text when read back.
    """
    if type(value) in PLAIN or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, np.generic) and not isinstance(value, (np.datetime64, np.timedelta64, np.longdouble, np.void)):
        return cell_to_json(value.item())
    write = WRITERS.get(type(value))
    if write is not None:
        return {"type": type(value).__name__} | write(value)
    for kind in (str, int, float):  # enumerations and other children
        if isinstance(value, kind):
            return cell_to_json(kind.__str__(value) if kind is str else kind(value))
    return str(value)


def cell_from_json(cell: Any) -> Any:
    """The inverse of cell_to_json; raises ValueError, TypeError or KeyError where a cell is damaged."""
    if not isinstance(cell, dict):
        return cell
    if cell["type"] not in READERS:
        raise ValueError(f"there is no type {str(cell['type'])[:40]!r} of cells")
    return READERS[cell["type"]](cell)


def _text(value: Any) -> Json:
    return {"value": str(value)}


def _code(value: bytes | bytearray) -> Json:
    return {"value": base64.b64encode(value).decode("ascii")}


def _several(value: Any) -> Json:
    return {"value": [cell_to_json(part) for part in value]}


def _moment(value: dt.datetime | dt.time) -> Json:
    """ISO text; the name of a time zone beside it, because an offset does not tell it."""
    zone = {} if value.tzinfo is None else {"tz": str(value.tzinfo)}
    unit = {"unit": value.unit} if isinstance(value, pd.Timestamp) else {}
    return {"value": value.isoformat()} | zone | unit


WRITERS: dict[type, Callable[[Any], Json]] = {
    float: lambda v: {"value": "nan" if math.isnan(v) else "inf" if v > 0 else "-inf"},
    complex: _text,
    Decimal: _text,
    Fraction: _text,
    uuid.UUID: _text,
    bytes: _code,
    bytearray: _code,
    pd.Timestamp: _moment,
    dt.datetime: _moment,
    dt.date: lambda v: {"value": v.isoformat()},
    dt.time: _moment,
    dt.timedelta: lambda v: {"value": [v.days, v.seconds, v.microseconds]},
    pd.Timedelta: lambda v: {"value": str(v), "unit": v.unit},
    pd.Period: lambda v: {"value": str(v), "freq": v.freqstr},
    pd.Interval: lambda v: {"value": [cell_to_json(v.left), cell_to_json(v.right)], "closed": v.closed},
    type(pd.NA): lambda _: {},
    type(pd.NaT): lambda _: {},
    tuple: _several,
    list: _several,
    set: lambda v: {"value": sorted(map(cell_to_json, v), key=repr)},
    frozenset: lambda v: {"value": sorted(map(cell_to_json, v), key=repr)},
    dict: lambda v: {"value": [[cell_to_json(key), cell_to_json(part)] for key, part in v.items()]},
    np.datetime64: lambda v: {"value": str(v), "unit": np.datetime_data(v)[0]},
    np.timedelta64: lambda v: {"value": int(v.astype(np.int64)), "unit": np.datetime_data(v)[0]},
}


def _many(cell: Json) -> list[Any]:
    if not isinstance(cell["value"], list):
        raise TypeError(f"a {cell['type']} holds a list")
    return [cell_from_json(part) for part in cell["value"]]


def _datetime(cell: Json) -> dt.datetime:
    value = dt.datetime.fromisoformat(cell["value"])
    return value.astimezone(_zone(cell["tz"], value.tzinfo)) if "tz" in cell else value


def _timestamp(cell: Json) -> pd.Timestamp:
    value = pd.Timestamp(_str(cell))
    value = value.tz_convert(_zone(cell["tz"], value.tzinfo)) if "tz" in cell else value
    return value.as_unit(cell["unit"]) if "unit" in cell else value


def _time(cell: Json) -> dt.time:
    value = dt.time.fromisoformat(cell["value"])
    return value.replace(tzinfo=_zone(cell["tz"], value.tzinfo)) if "tz" in cell else value


def _zone(name: str, offset: dt.tzinfo | None) -> dt.tzinfo | None:
    """A time zone by its name; the offset of the text where there is no such name."""
    import zoneinfo

    try:
        return dt.UTC if name == "UTC" else zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return offset


def _str(cell: Json) -> str:
    if not isinstance(cell["value"], str):
        raise TypeError(f"a {cell['type']} is written as a text")
    return cell["value"]


def _duration(cell: Json) -> dt.timedelta:
    days, seconds, microseconds = cell["value"]
    return dt.timedelta(days, seconds, microseconds)


READERS: dict[str, Callable[[Json], Any]] = {
    "NoneType": lambda _: None,
    "float": lambda cell: float(_str(cell)),
    "complex": lambda cell: complex(_str(cell)),
    "Decimal": lambda cell: _decimal(_str(cell)),
    "Fraction": lambda cell: Fraction(_str(cell)),
    "UUID": lambda cell: uuid.UUID(_str(cell)),
    "bytes": lambda cell: base64.b64decode(_str(cell), validate=True),
    "bytearray": lambda cell: bytearray(base64.b64decode(_str(cell), validate=True)),
    "Timestamp": _timestamp,
    "datetime": _datetime,
    "date": lambda cell: dt.date.fromisoformat(cell["value"]),
    "time": _time,
    "timedelta": _duration,
    "Timedelta": lambda cell: pd.Timedelta(_str(cell)).as_unit(cell["unit"]),
    "Period": lambda cell: pd.Period(_str(cell), freq=cell["freq"]),
    "Interval": lambda cell: _interval(_many(cell), cell["closed"]),
    "NAType": lambda _: pd.NA,
    "NaTType": lambda _: pd.NaT,
    "tuple": lambda cell: tuple(_many(cell)),
    "list": _many,
    "set": lambda cell: set(_many(cell)),
    "frozenset": lambda cell: frozenset(_many(cell)),
    "dict": lambda cell: {cell_from_json(key): cell_from_json(part) for key, part in cell["value"]},
    "datetime64": lambda cell: np.datetime64(_str(cell), cell["unit"]),
    "timedelta64": lambda cell: np.timedelta64(cell["value"], cell["unit"]),
}


def _interval(ends: list[Any], closed: Any) -> Any:
    left, right = ends
    return pd.Interval(left, right, closed=closed)


def _decimal(text: str) -> Decimal:
    from decimal import InvalidOperation

    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text[:40]!r} is no decimal number") from None
