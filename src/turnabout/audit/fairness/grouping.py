"""Groups of people by labels: of one attribute or several, of attributes crossed, and as a report names them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from turnabout.audit.rates import members, one_label_each
from turnabout.errors import AuditError

MANY = 10  # different numbers in a column of groups, above which a report cuts it into quarters
MOST_GROUPS = 200  # of one attribute; more are numbers that somebody forgot to cut


@dataclass(frozen=True, eq=False)
class Group:
    """Who belongs to a group, (n,) bool."""

    attributes: tuple[str, ...]
    labels: tuple[Hashable, ...]
    inside: np.ndarray


def named_groups(groups: Any, index: pd.Index, crossed: int) -> Iterator[Group]:
    """Each group of each attribute, then of crossed ones."""
    if groups is None:
        raise AuditError(
            "groups=None gives no label per person.", hint="pass people['sex'], or a table of several columns."
        )
    columns = _columns(groups)
    if not columns:
        raise AuditError("the table of groups has no columns.", hint="give at least one attribute.")
    attributes = {name: members(labels, index) for name, labels in columns.items()}
    for name, inside in attributes.items():
        if len(inside) > MOST_GROUPS:
            raise AuditError(
                f"the attribute '{name}' has {len(inside)} different labels, more than {MOST_GROUPS}.",
                hint="cut numbers into ranges first, for example by pandas.qcut(column, 4).",
            )
        yield from (Group((name,), (label,), mask) for label, mask in inside.items())
    for size in range(2, min(crossed, len(attributes)) + 1):
        for names in combinations(attributes, size):
            yield from _crossed(names, [attributes[name] for name in names])


def _crossed(names: tuple[str, ...], parts: list[dict[Hashable, np.ndarray]]) -> Iterator[Group]:
    """The combinations of labels that somebody has."""
    codes = np.stack([np.argmax(np.stack(list(part.values())), axis=0) for part in parts], axis=1)
    labels = [list(part) for part in parts]
    for row in np.unique(codes, axis=0):
        label = tuple(column[code] for column, code in zip(labels, row, strict=True))
        yield Group(names, label, (codes == row).all(1))


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
