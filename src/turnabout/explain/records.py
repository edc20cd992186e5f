"""Numbers that may be unknown, and tables as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from turnabout.typing import Json


def known(values: np.ndarray) -> pd.arrays.FloatingArray:
    """Numbers in which NaN has become <NA>."""
    return pd.arrays.FloatingArray(np.nan_to_num(values), np.isnan(values))


def plain_records(frame: pd.DataFrame) -> list[Json]:
    """Lines of a table as plain values for JSON; what is missing becomes None."""
    return [{str(k): _plain(v) for k, v in row.items()} for row in frame.to_dict("records")]


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, (bool, list)):
        return value
    if isinstance(value, str):
        return str(value)  # a Status is one
    if pd.isna(value):
        return None
    return value if isinstance(value, (int, float)) else str(value)
