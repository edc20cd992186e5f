"""Groups as a report names them: a column of words for each attribute, numbers of many values cut into quarters."""

from __future__ import annotations

from typing import Any

import pandas as pd

from turnabout.audit.rates import one_label_each
from turnabout.errors import AuditError

MANY = 10  # different numbers in a column of groups, above which it is cut into quarters


def group_words(groups: Any, index: pd.Index) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """A column of words per attribute, in the people's order, and a note on each that was cut into quarters.

    Parameters
    ----------
    groups : a table with one column per attribute, one column, or None; matched to the people by its index, or else by
        order where it has none.
    """
    notes: list[str] = []
    parts: dict[str, pd.Series] = {}
    for name, labels in _columns(groups).items():
        column = one_label_each(labels, index)
        is_flag = pd.api.types.is_bool_dtype(column)
        if pd.api.types.is_numeric_dtype(column) and not is_flag and column.nunique() > MANY:
            notes.append(f"{name!r} has {column.nunique()} different numbers; its groups are quarters of the people.")
            column = quarters(column)
        words = column.astype(object).map(lambda value: str(value), na_action="ignore")
        parts[name] = words.where(words.notna(), "missing").astype(str)
    return pd.DataFrame(parts, index=index), tuple(notes)


def quarters(column: pd.Series) -> pd.Series:
    """Numbers in about four groups of equal size, each named by its least and its greatest."""
    part = pd.qcut(column, 4, labels=False, duplicates="drop")
    ends = column.groupby(part).agg(["min", "max"])
    width = len(f"{column.max():g}")
    # padded, so that the names sort as numbers
    names = {code: f"{low:{width}g} to {high:g}" for code, low, high in ends.itertuples()}
    return part.map(names)


def _columns(groups: Any) -> dict[str, Any]:
    """The labels of each attribute, by its name."""
    if groups is None:
        return {}
    if not isinstance(groups, pd.DataFrame):
        name = getattr(groups, "name", None)
        return {"group" if name is None else str(name): groups}
    if not groups.columns.map(str).is_unique:
        raise AuditError("two columns of groups share a name.", hint="give each attribute its own name.")
    return {str(name): groups[name] for name in groups}
