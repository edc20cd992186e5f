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
    from turnabout.core import Problem, ProblemFile
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
    limits : what single people will not or cannot change.
    reach : how far columns may move, each like hours=9.
    """

    people: str
    model: Path
    schema: Path | None = None
    background: str | None = None
    rules: Path | None = None
    cost: Path | None = None
    limits: Path | None = None
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
    rules : those of the files, and the region of change that was asked for or that the model brings.
    limits : what single people will not or cannot change, by their labels in the table.
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
    limits: dict[Any, dict[str, Any]]
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

    A schema file may say rules, a cost and limits too. Rules of both files hold, the cost that is named goes before
    that of the schema file, and so does what --limits says of a person's feature.

    Parameters
    ----------
    for_report : a report tells of people, so that there must be some, those who cannot be read are left out, and they
        stand in for a background that is not given.
    own_region : whether the region counts that a model of `turnabout train` brings along.
    """
    from turnabout import costs, rules
    from turnabout.core import ProblemFile
    from turnabout.models import wrap
    from turnabout.schema import read_tables

    fitted = load_model(files.model)
    file, region = read_frame(fitted, files.schema, files.reach)
    declared = [] if files.rules is None else rules.load(files.rules)
    asked, others = open_table(files.people), None if files.background is None else open_table(files.background)
    notes: tuple[str, ...] = ()
    beside = [name for name in (files.id_column, *files.beside) if name is not None]
    if file is None:
        file = ProblemFile(draft_schema((others or asked).read(as_text=beside), fitted, beside))
        notes = (DRAFTED.format(file.schema.what_moves()),)
    known = file.schema
    cost = file.cost if files.cost is None else costs.load(files.cost)
    opened = [asked] if others is None else [asked, others]
    tables = read_tables(opened, known, as_text=[files.id_column or ""], by_look=files.beside)
    table, rows = set_id(tables[0], files.id_column), None if others is None else tables[1]
    table = with_plain_labels(table) if for_report else table
    limits, stand_in = read_limits(file, files.limits, table), None
    if for_report:
        table, aside = readable(table, known, files.people)
        notes, stand_in, limits = notes + aside, table, limits_left(limits, table)
    wanted = None if files.target is None else class_named(fitted, files.target)
    wrapped = wrap(
        fitted, known, files.threshold, target=wanted, background=stand_in if rows is None else rows,
        unseen_levels=unseen_levels,
    )  # fmt: skip
    kept = [*file.rules, *declared, *(region if own_region else ())]
    return Question(table, rows, known, wrapped, fitted, wanted, kept, cost, limits, notes)


def read_limits(file: ProblemFile, named: Path | None, table: pd.DataFrame) -> dict[Any, dict[str, Any]]:
    """What single people of a table will not or cannot change, by the schema file and by a file of limits."""
    from turnabout.core import limits_file

    limits = file.limits_of(table.index)
    for person, entries in ({} if named is None else limits_file.load(named, table.index)).items():
        limits[person] = limits.get(person, {}) | entries
    return limits


def limits_left(limits: dict[Any, dict[str, Any]], table: pd.DataFrame) -> dict[Any, dict[str, Any]]:
    """The limits of those who are left in a table."""
    return {label: entries for label, entries in limits.items() if label in table.index}


def readable(table: pd.DataFrame, schema: Schema, path: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Those whose rows the schema can read, by labels that JSON has, and a note about the others."""
    from turnabout.core.report_parts import readable_people

    if not len(table):
        raise typer.BadParameter(f"there is nobody in {path!r}.", param_hint="PEOPLE")
    kept, _, notes = readable_people(table, schema)
    return kept, notes
