"""The question that files pose: tables, schema, model, rules and cost, as every command reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from turnabout.cli.named_files import class_named, draft_schema, load_model, open_table, set_id, with_plain_labels
from turnabout.cli.people_options import read_frame

if TYPE_CHECKING:
    import pandas as pd

    from turnabout.actions import ActionSet
    from turnabout.core import Problem
    from turnabout.costs import Cost
    from turnabout.models import Model
    from turnabout.models.unseen import UnseenLevels
    from turnabout.rules import Rule
    from turnabout.schema import Schema

DRAFTED = "the schema was drafted from the table: plans may change {}; `turnabout schema infer` writes one to edit."


@dataclass(frozen=True)
class NamedFiles:
    """Files and what is said about them, as the command line names them.

    Attributes
    ----------
    beside : columns that are no features, such as labels and groups.
    reach : how far columns may move, each like hours=9.
    """

    people: str
    model: Path
    schema: Path | None = None
    background: str | None = None
    rules: Path | None = None
    cost: Path | None = None
    threshold: float | None = None
    target: str | None = None
    id_column: str | None = None
    reach: list[str] | None = None
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """What the files say.

    Attributes
    ----------
    table : everyone, with all columns; the index names people.
    background : other people, or None where no such table was given.
    model, fitted : the wrapped model and the fitted one behind it.
    target : the class that counts as accepted, as the model has it; None where it was not said.
    rules : those of the file, and the region of change that was asked for or that the model brings.
    notes : what a reader of the answer must know.
    """

    table: pd.DataFrame
    background: pd.DataFrame | None
    schema: Schema
    model: Model
    fitted: Any
    target: Any
    rules: list[Rule]
    cost: Cost | None
    notes: tuple[str, ...]

    def rows_of_features(self) -> pd.DataFrame | None:
        """The background without columns that are no features, such as labels; None where there is none."""
        return None if self.background is None else self.schema.table(self.background)

    def problem(
        self, background: pd.DataFrame | None = None, labels: Any = None, actions: ActionSet | None = None
    ) -> Problem:
        """The problem, with the background that is given: the file's, or people who stand in for it."""
        from turnabout.core import Problem

        rows = None if background is None else self.schema.table(background)
        return Problem(self.schema, self.model, self.cost, self.rules, rows, labels, actions)


def pose(
    files: NamedFiles, *, for_report: bool = False, own_region: bool = True, unseen_levels: UnseenLevels | None = None
) -> Question:
    """Read the files and wrap the model; without a schema one is drafted from all columns but those beside.

    Parameters
    ----------
    for_report : a report tells of people, so that there must be some, those who cannot be read are left out, and they
        stand in for a background that is not given.
    own_region : whether the region counts that a model of `turnabout train` brings along.
    """
    from turnabout import costs, rules
    from turnabout.models import wrap
    from turnabout.schema import read_tables

    fitted = load_model(files.model)
    known, region = read_frame(fitted, files.schema, files.reach)
    declared = [] if files.rules is None else rules.load(files.rules)
    cost = None if files.cost is None else costs.load(files.cost)
    asked, others = open_table(files.people), None if files.background is None else open_table(files.background)
    notes: tuple[str, ...] = ()
    beside = [name for name in (files.id_column, *files.beside) if name is not None]
    if known is None:
        known = draft_schema((others or asked).read(as_text=beside), fitted, beside)
        notes = (DRAFTED.format(known.what_moves()),)
    opened = [asked] if others is None else [asked, others]
    tables = read_tables(opened, known, as_text=[files.id_column or ""], by_look=files.beside)
    table, rows = set_id(tables[0], files.id_column), None if others is None else tables[1]
    stand_in = None
    if for_report:
        table, aside = readable(table, known, files.people)
        notes, stand_in = notes + aside, table
    wanted = None if files.target is None else class_named(fitted, files.target)
    wrapped = wrap(
        fitted, known, files.threshold, target=wanted, background=stand_in if rows is None else rows,
        unseen_levels=unseen_levels,
    )  # fmt: skip
    kept = [*declared, *(region if own_region else ())]
    return Question(table, rows, known, wrapped, fitted, wanted, kept, cost, notes)


def readable(table: pd.DataFrame, schema: Schema, path: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Those whose rows the schema can read, by labels that JSON has, and a note about the others."""
    from turnabout.core.report_parts import readable_people

    if not len(table):
        raise typer.BadParameter(f"there is nobody in {path!r}.", param_hint="PEOPLE")
    kept, _, notes = readable_people(with_plain_labels(table), schema)
    return kept, notes
