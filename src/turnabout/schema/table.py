"""Tables of any make become pandas frames at the door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from turnabout.errors import SchemaError


def as_frame(table: Any) -> pd.DataFrame:
    """A pandas frame of the table: pandas and polars frames, a mapping of columns, a list of records, one row."""
    if isinstance(table, pd.DataFrame):
        return table
    if isinstance(table, pd.Series):
        return table.to_frame().T.infer_objects()
    if type(table).__module__.split(".")[0] == "polars":
        if hasattr(table, "collect"):
            table = table.collect()
        return pd.DataFrame({name: _from_polars(table[name]) for name in table.columns})
    if isinstance(table, Mapping) or (isinstance(table, list) and all(isinstance(row, Mapping) for row in table)):
        scalars = isinstance(table, Mapping) and all(
            not hasattr(v, "__len__") or isinstance(v, str) for v in table.values()
        )
        try:
            return pd.DataFrame([table] if scalars else table)
        except (TypeError, ValueError) as error:
            raise SchemaError(
                f"the table cannot be read: {error}", hint="give columns of one length, or a list of records."
            ) from None
    raise SchemaError(
        f"people come as a table with named columns, not as {type(table).__name__}.",
        hint="pass a pandas or polars DataFrame, a mapping of columns, or a list of records.",
    )


def _from_polars(column: Any) -> Any:
    if column.dtype.is_numeric():
        return column.to_numpy()  # nulls become NaN
    return column.to_list()
