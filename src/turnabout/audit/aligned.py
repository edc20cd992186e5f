"""What belongs to whom: values given one by one, the first option of an answer, and whether two tables are alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from turnabout.core import Recourse
from turnabout.errors import AuditError


def aligned(name: str, values: object, index: pd.Index) -> np.ndarray:
    """(n,) one value per person: a Series by the people's labels, other values by their order.

    Parameters
    ----------
    name : of the parameter, for errors.
    """
    if isinstance(values, pd.Series):
        if values.index.has_duplicates or len(index.difference(values.index)):
            raise AuditError(
                f"{name}= is a Series whose index is not that of the people.",
                hint="index it as the people are, or pass plain values in their order.",
            )
        return values.reindex(index).to_numpy()
    if isinstance(values, (str, bytes, set, frozenset, pd.DataFrame)) or not isinstance(values, Iterable):
        kind = "a table" if isinstance(values, pd.DataFrame) else repr(values)
        raise AuditError(f"{name}= is {kind}, not one value per person.", hint="give a column, or a list.")
    if isinstance(values, np.ndarray):
        out = values
    else:  # entries may be of several types, or lists themselves
        entries = list(values)
        out = pd.Series(entries, dtype=object).to_numpy()
    if out.shape != (len(index),):
        raise AuditError(f"{name}= has {out.size} values for {len(index)} people.", hint="give one per person.")
    return out


def first_options(answer: Recourse) -> pd.DataFrame:
    """The first option of everyone who has one, by person: new values, cost and margin."""
    return answer.options[answer.options.index.get_level_values("option") == 0].droplevel("option")


def same_rows(one: pd.DataFrame, other: pd.DataFrame, names: Sequence[str]) -> bool:
    """Whether two tables have the same people in the same order with the same values; a gap equals a gap."""
    if not one.index.equals(other.index) or any(name not in t.columns for name in names for t in (one, other)):
        return False
    for name in names:
        a, b = (table[name].astype(object) for table in (one, other))
        if not ((a == b) | (a.isna() & b.isna())).all():
            return False
    return True
