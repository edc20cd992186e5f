"""What the command line says about people: who was accepted, and how far each may move."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from turnabout.core import ProblemFile
    from turnabout.rules import Box, Region
    from turnabout.schema import Schema

MOST_TRIED = 3  # features of which all rows can be tried


def read_accepted(
    table: pd.DataFrame, label: str, yes: str | None, schema: Schema | None, option: str = "--label"
) -> np.ndarray:
    """(n,) whether the label column, which `option` named, says yes."""
    if label not in table.columns:
        raise typer.BadParameter(
            f"the table has no column {label!r}; it has {', '.join(map(str, table.columns))}.", param_hint=option
        )
    if schema is not None and label in schema.names:
        raise typer.BadParameter(
            f"{label!r} is also a feature of the schema; take it out there, or the model would read the outcome.",
            param_hint=option,
        )
    column = table[label]
    if (gaps := int(column.isna().sum())) > 0:
        raise typer.BadParameter(f"{gaps} people have no {label!r}; leave them out.", param_hint=option)
    values = sorted(column.unique().tolist(), key=str)
    if yes is None and not set(values) <= {0, 1}:
        raise typer.BadParameter(
            f"{label!r} holds {_some(values)}; say which of them is the favourable one.", param_hint="--yes"
        )
    if yes is None:
        check_reads_as_yes(label)
    wanted = [v for v in values if (v == 1 if yes is None else yes in (_word(v), _word(v).lower()))]
    if yes is not None and not wanted:
        raise typer.BadParameter(f"{label!r} has no value {yes!r}; it holds {_some(values)}.", param_hint="--yes")
    if len(values) < 2:
        raise typer.BadParameter(
            f"all {len(table)} people have {label} = {_some(values) or 'nothing'}: there is nothing to tell apart.",
            param_hint=option,
        )
    return column.isin(wanted).to_numpy(dtype=bool)


def read_labels(table: pd.DataFrame, labels: str, yes: str | None, schema: Schema | None) -> np.ndarray | pd.Series:
    """(n,) who was accepted. Without --yes, the labels are 0 and 1, and may be all alike."""
    if yes is None:
        check_reads_as_yes(labels)
        return table[labels]
    return read_accepted(table, labels, yes, schema, "--labels")


def check_reads_as_yes(label: str) -> None:
    """Ask what 1 and true mean in a column whose name reads as what nobody hopes for, such as `default`."""
    from turnabout.models.favourable import sense

    if sense(label) == "bad":
        raise typer.BadParameter(
            f"{label!r} reads as what nobody hopes for; say which of its values is the favourable one, like --yes 0.",
            param_hint="--yes",
        )


def read_box(reach: list[str] | None, schema: Schema) -> Box | None:
    """How far people may move, as named; None where nothing is."""
    from turnabout.rules import Box

    named = dict(_reach(text, schema) for text in reach or ())
    return Box(named) if named else None


def read_region(
    reach: list[str] | None, deviations: float | None, schema: Schema, measured_on: pd.DataFrame | None
) -> Region | None:
    """How far people may move: as named, else by deviations of a table's columns; None where nothing is said."""
    from turnabout.rules import Box

    region = read_box(reach, schema)
    if deviations is not None and measured_on is None:
        raise typer.BadParameter(
            "deviations are measured on the training people; give them by --trained-on.", param_hint="--deviations"
        )
    if deviations is not None:
        named = {} if region is None else region.reach or {}
        region = Box({**(Box.measured(measured_on, schema, deviations).reach or {}), **named})
    if not moving(region, schema):
        raise typer.BadParameter("nothing may move: nobody could do anything.", param_hint="--reach")
    return region


def read_frame(model: Any, schema: Path | None, reach: list[str] | None) -> tuple[ProblemFile | None, list[Region]]:
    """The schema file and the region for a search: as given, else what a model of `turnabout train` brings along."""
    from turnabout.core import ProblemFile
    from turnabout.rules import Region
    from turnabout.schema import Schema

    own = getattr(model, "schema", None)
    brought = ProblemFile(own) if isinstance(own, Schema) else None
    file = brought if schema is None else ProblemFile.load(schema)
    if reach and file is None:
        raise typer.BadParameter("it names columns of a schema; give one by --schema.", param_hint="--reach")
    region = read_region(reach, None, file.schema, None) if reach and file else getattr(model, "region", None)
    return file, [region] if isinstance(region, Region) else []


def read_schema_alone(path: Path, command: str) -> Schema:
    """The schema of a file that says no more: a promise that leaves rules out would be broken by them."""
    from turnabout.core import ProblemFile

    file = ProblemFile.load(path)
    said = [name for name in ("rules", "limits") if getattr(file, name)]
    if said:
        raise typer.BadParameter(
            f"the schema file has {' and '.join(said)}, which `turnabout {command}` does not keep: what it promises "
            "could then not be done. Give it a schema file without them.",
            param_hint="--schema",
        )
    return file.schema


def moving(region: Region | None, schema: Schema) -> list[str]:
    """The features that may move."""
    from turnabout.rules import Box

    columns = (region or Box()).bind(schema).columns
    return [name for name, s in zip(schema.names, schema.slices, strict=True) if s.start in columns]


def check_few_move(region: Region | None, schema: Schema, why: str) -> None:
    """Refuse more moving features than can be tried row by row."""
    names = moving(region, schema)
    if len(names) > MOST_TRIED:
        raise typer.BadParameter(
            f"{len(names)} columns may move ({_some(names)}). {why}, so that all rows within reach are tried, which "
            f"works for up to {MOST_TRIED}: name those that move, like --reach {names[0]}=1.",
            param_hint="--reach",
        )


def _reach(text: str, schema: Schema) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        name = ""
    if not name:
        raise typer.BadParameter(f"{text!r} is not NAME=NUMBER, like hours=9.", param_hint="--reach")
    if name not in schema.names:
        raise typer.BadParameter(
            f"the schema has no column {name!r}; it has {', '.join(schema.names)}.", param_hint="--reach"
        )
    if schema[name].moves == "fixed" and value > 0:
        raise typer.BadParameter(f"the schema holds {name!r} fixed; nobody can move it.", param_hint="--reach")
    return name, value


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _some(values: list[Any]) -> str:
    """The first few of some values."""
    return ", ".join(map(_word, values[:6])) + (", ..." if len(values) > 6 else "")
