"""The people of an audit: who repaid, which group each belongs to, and on whom the model was trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import typer

from turnabout.cli.people_options import read_accepted
from turnabout.cli.posed_question import Question

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from turnabout.audit.promises import Retraining

Observed = Literal["all", "approved"]


def told_labels(table: pd.DataFrame, labels: str, yes: str | None, question: Question) -> np.ndarray:
    """(n,) who repaid."""
    return read_accepted(table, labels, yes, question.schema, "--labels")


def read_repaid(question: Question, labels: str, yes: str | None, observed: Observed) -> np.ndarray:
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


def known_labels(question: Question, labels: str, yes: str | None, repaid: np.ndarray | None) -> np.ndarray | None:
    """(m,) who of the background was accepted; None where that is not known of all.

    Parameters
    ----------
    repaid : of the people, who stand in where there is no background; None where that is not known of all.
    """
    rows = question.background
    if rows is None:
        return repaid
    if labels in rows.columns and rows[labels].notna().all():
        return told_labels(rows, labels, yes, question)
    return None


def group_columns(table: pd.DataFrame, names: list[str]) -> pd.DataFrame | None:
    """The columns that name groups, or None."""
    for name in names:
        if name not in table.columns:
            raise typer.BadParameter(
                f"the table has no column {name!r}; it has {', '.join(map(str, table.columns))}.", param_hint="--groups"
            )
    return table[names] if names else None


def retraining(
    question: Question, labels: str, good: np.ndarray | None, models: int, threshold: float | None
) -> Retraining | None:
    """How the model was made, to train it again so many times; None for no time."""
    from turnabout.audit.promises import Bootstrap, Retraining

    rows = question.background
    if not models:
        return None
    if rows is None or good is None:
        raise typer.BadParameter(
            f"the model is trained again on the people it was trained on: give them by --background, with {labels!r}.",
            param_hint="--retrain",
        )
    truth = as_trained(rows[labels], good, question)
    return Retraining(question.fitted, rows, truth, Bootstrap(models=models), threshold, question.target)


def as_trained(labels: pd.Series, good: np.ndarray, question: Question) -> Any:
    """(n,) labels as the model knows them, to train it again: as they stand, or by its own two classes."""
    import numpy as np

    classes = list(getattr(question.fitted, "classes_", ()))
    if len(classes) != 2 or set(labels) <= set(classes):
        return labels
    yes = classes[1] if question.target is None else question.target
    no = classes[0] if yes == classes[1] else classes[1]
    return np.where(good, yes, no)
