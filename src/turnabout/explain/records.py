"""Numbers that may be unknown."""

from __future__ import annotations

import numpy as np
import pandas as pd


def known(values: np.ndarray) -> pd.arrays.FloatingArray:
    """Numbers in which NaN has become <NA>."""
    return pd.arrays.FloatingArray(np.nan_to_num(values), np.isnan(values))
