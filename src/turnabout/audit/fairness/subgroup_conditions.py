"""Conditions that tell people apart: a level of a column, a side of a cut through a number, a missing cell."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from turnabout.core import Recourse
from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.typing import Json

MOST_LEVELS = 200  # of one column; more are names or free text


@dataclass(frozen=True)
class SubgroupCondition(Document):
    """One condition on one column: is a level, at most or above a number, or missing."""

    column: Hashable
    kind: Literal["is", "at most", "above", "missing"]
    value: Hashable | None = None

    def holds(self, table: pd.DataFrame) -> np.ndarray:
        """(n,) True for whom it holds; a missing cell is no level and on no side of a cut."""
        if self.column not in table:
            raise AuditError(f"the table has no column '{self.column}'.", hint="give the columns that were searched.")
        column = table[self.column]
        if self.kind == "missing":
            return column.isna().to_numpy(dtype=bool)
        if self.kind == "is":
            return (column == self.value).fillna(False).to_numpy(dtype=bool)
        number = column.to_numpy(dtype=np.float64, na_value=np.nan)
        cut = float(self.value)  # type: ignore[arg-type]
        return number <= cut if self.kind == "at most" else number > cut

    def __str__(self) -> str:
        if self.kind == "missing":
            return f"{self.column} is missing"
        sign = {"is": "=", "at most": "<=", "above": ">"}[self.kind]
        return f"{self.column} {sign} {format(self.value, 'g') if isinstance(self.value, float) else self.value}"

    def to_dict(self) -> Json:
        """Plain values for JSON; a level that is no number by its text."""
        plain = self.value if self.value is None or isinstance(self.value, (int, float, str)) else str(self.value)
        return {"column": str(self.column), "kind": self.kind, "value": plain}


def conditions(table: pd.DataFrame, bins: int) -> list[SubgroupCondition]:
    """All conditions on a table: each level, and both sides of bins - 1 quantiles of each number.

    Columns of True and False, of text and of categories have levels; columns of numbers are cut.
    """
    out: list[SubgroupCondition] = []
    for name in table:
        column = table[name]
        present = column.dropna()
        if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
            for cut in _cuts(present, bins):
                out += [SubgroupCondition(name, "at most", cut), SubgroupCondition(name, "above", cut)]
        else:
            levels = _levels(present)
            if len(levels) > MOST_LEVELS:
                raise AuditError(
                    f"column '{name}' has {len(levels)} different levels, more than {MOST_LEVELS}.",
                    hint="leave it out, or join its levels into a few.",
                )
            out += [SubgroupCondition(name, "is", level) for level in levels] if len(levels) > 1 else []
        if 0 < len(present) < len(column):
            out.append(SubgroupCondition(name, "missing"))
    return out


def _levels(present: pd.Series) -> list[Hashable]:
    """In an order that does not depend on that of the rows."""
    try:
        return sorted(present.unique().tolist(), key=lambda level: (str(level), str(type(level))))
    except TypeError:
        raise AuditError(
            f"column '{present.name}' holds values that are no levels, such as {present.iloc[0]!r}.",
            hint="leave it out, or make text or numbers of it.",
        ) from None


def _cuts(numbers: pd.Series, bins: int) -> list[float]:
    """Values that stand in the column, at its quantiles; not the highest, which cuts nobody off."""
    values = numbers.to_numpy(dtype=np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return []
    shares = np.arange(1, bins) / bins
    cuts = np.unique(np.quantile(values, shares, method="inverted_cdf"))
    return [float(cut) for cut in cuts if cut < values.max()]


def columns_of(answer: Recourse, columns: Any) -> pd.DataFrame:
    """The columns that conditions are made of, in the people's order: some of the people's, or a table beside them."""
    if columns is None:
        return answer.people[answer.features]
    if isinstance(columns, pd.Series):
        columns = columns.to_frame("group" if columns.name is None else columns.name)
    if isinstance(columns, pd.DataFrame):
        if not columns.columns.is_unique or not columns.index.is_unique:
            raise AuditError("columns= has a name or an index label twice.", hint="give one row per person.")
        if len(absent := answer.people.index.difference(columns.index)):
            raise AuditError(
                f"person {absent.tolist()[0]!r} has no row in columns=.", hint="index the table as the people are."
            )
        return columns.loc[answer.people.index]
    if not isinstance(columns, Iterable):
        raise AuditError(f"columns={columns!r} names no columns.", hint="give a list of names, or a table.")
    names = [columns] if isinstance(columns, str) else list(columns)
    if not names:
        raise AuditError("no columns are named to make subgroups of.", hint="name some, or leave columns= out.")
    if strange := [name for name in names if name not in answer.people]:
        raise AuditError(
            f"the people have no column {strange[0]!r}.",
            hint=f"name some of {', '.join(map(str, answer.people.columns))}, or pass a table of attributes.",
        )
    return answer.people[names]
