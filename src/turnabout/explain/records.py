"""Numbers that may be unknown, and tables as plain values."""

from __future__ import annotations

import numpy as np
import pandas as pd

from turnabout.core.frames import plain
from turnabout.typing import Json


def known(values: np.ndarray) -> pd.arrays.FloatingArray:
    """Numbers in which NaN has become <NA>."""
    return pd.arrays.FloatingArray(np.nan_to_num(values), np.isnan(values))


def plain_records(frame: pd.DataFrame) -> list[Json]:
    """Lines of a table as plain values for JSON; what is missing becomes None, a list stays one."""
    lines = frame.to_dict("records")
    return [{str(k): list(v) if isinstance(v, list) else plain(v) for k, v in line.items()} for line in lines]
