"""The people of an audit: who repaid, and which group each belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import typer

from turnabout.cli.people_options import read_accepted
from turnabout.cli.reports import LoadedFiles
from turnabout.cli.screen import say

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

MANY = 10  # different numbers in a column of groups, above which it is cut into quarters
Observed = Literal["all", "approved"]


def told_labels(table: pd.DataFrame, labels: str, yes: str | None, question: LoadedFiles) -> np.ndarray:
    """(n,) who repaid."""
    return read_accepted(table, labels, yes, question.schema, "--labels")


def read_repaid(question: LoadedFiles, labels: str, yes: str | None, observed: Observed) -> np.ndarray:
    """(n,) who repaid. Where outcomes of the approved alone are known, those of others may be missing and are."""
    import numpy as np

    table = question.table
    if observed == "all" or labels not in table.columns:
        return told_labels(table, labels, yes, question)
    approved = np.asarray(question.model.judge(question.schema.table(table))) >= 0
    if not approved.any():
        raise typer.BadParameter("nobody is approved, so that no outcome is known.", param_hint="--observed")
    out = np.full(len(table), False)
    out[approved] = told_labels(table[approved], labels, yes, question)
    return out


def read_groups(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """A column per attribute, as words; numbers of many values are cut into quarters."""
    import pandas as pd

    parts = {}
    for name in names:
        if name not in table.columns:
            raise typer.BadParameter(
                f"the table has no column {name!r}; it has {', '.join(map(str, table.columns))}.", param_hint="--groups"
            )
        column = table[name]
        is_flag = pd.api.types.is_bool_dtype(column)
        if pd.api.types.is_numeric_dtype(column) and not is_flag and column.nunique() > MANY:
            say(f"note: {name!r} has {column.nunique()} different numbers; its groups are quarters of the people.")
            column = quarters(column)
        words = column.astype(object).map(lambda value: str(value), na_action="ignore")
        parts[name] = words.where(words.notna(), "missing").astype(str)
    return pd.DataFrame(parts, index=table.index)


def as_trained(labels: pd.Series, good: np.ndarray, question: LoadedFiles) -> Any:
    """(n,) labels as the model knows them, to train it again: as they stand, or by its own two classes."""
    import numpy as np

    classes = list(getattr(question.fitted, "classes_", ()))
    if len(classes) != 2 or set(labels) <= set(classes):
        return labels
    yes = classes[1] if question.target is None else question.target
    no = classes[0] if yes == classes[1] else classes[1]
    return np.where(good, yes, no)


def quarters(column: pd.Series) -> pd.Series:
    """Numbers in about four groups of equal size, each named by its least and its greatest."""
    import pandas as pd

    part = pd.qcut(column, 4, labels=False, duplicates="drop")
    ends = column.groupby(part).agg(["min", "max"])
    width = len(f"{column.max():g}")
    names = {
        code: f"{low:{width}g} to {high:g}" for code, low, high in ends.itertuples()
    }  # so that they sort as numbers
    return part.map(names)
