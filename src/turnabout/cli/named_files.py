"""Files that people name on the command line: tables, models, and names of classes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Collection

    import pandas as pd

    from turnabout.schema import Schema, TableFile


def open_table(path: str) -> TableFile:
    """The cells of a table that was named on the command line; - is CSV on stdin."""
    from turnabout.errors import DataError
    from turnabout.schema import TableFile

    try:
        if path == "-":
            return TableFile.open(getattr(sys.stdin, "buffer", sys.stdin), "csv")
        if not Path(path).exists():
            raise DataError(f"there is no file {path!r}.")
        return TableFile.open(path)
    except DataError as error:
        raise typer.BadParameter(f"{error.message} {error.hint}".strip()) from None
    except OSError as error:  # a name that no file can have
        raise typer.BadParameter(f"there is no file {path!r}: {error.strerror}.") from None


def read_table(
    path: str, schema: Schema | None = None, *, as_text: Collection[str] = (), by_look: Collection[str] = ()
) -> pd.DataFrame:
    """People as the schema has them; see `turnabout.schema.read_table`."""
    return open_table(path).read(schema, as_text=as_text, by_look=by_look)


def set_id(table: pd.DataFrame, column: str | None) -> pd.DataFrame:
    """The table with the labels of people as its index; the rows are labelled from 0 where no column is named."""
    if column is None or column == table.index.name:
        return table
    if column not in table.columns:
        raise typer.BadParameter(f"the table has no column {column!r}.", param_hint="--id")
    return table.set_index(column)


def with_plain_labels(table: pd.DataFrame) -> pd.DataFrame:
    """The table with labels as reports write them: dates and other labels that JSON does not have as their texts."""
    odd = any(type(label) not in (str, int, float, bool) for label in table.index.tolist())
    return table.set_axis(table.index.map(str)) if odd else table


def draft_schema(table: pd.DataFrame, fitted: Any, beside: Collection[str | None]) -> Schema:
    """A schema drafted from the columns that the model reads; from all but those `beside` where it does not say."""
    from turnabout.schema import Schema

    asked = getattr(fitted, "feature_names_in_", None)
    known = [name for name in table.columns if name not in beside]
    names = known if asked is None else [name for name in known if name in asked]
    if not names:
        raise typer.BadParameter("the table has no columns that the model knows; give one.", param_hint="--schema")
    return Schema.infer(table[names])


def load_model(path: Path) -> Any:
    """A fitted model from a joblib or pickle file."""
    if not path.exists():
        raise typer.BadParameter(f"there is no file {str(path)!r}.", param_hint="--model")
    import joblib

    try:
        return joblib.load(path)
    except (Exception, SystemExit) as error:  # loading runs code
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise typer.BadParameter(f"{str(path)!r} cannot be loaded as a model: {reason}", param_hint="--model") from None


def class_named(model: Any, name: str) -> Any:
    """The class label that reads as `name` on the command line; the index of a class where they have no names."""
    labels = list(getattr(model, "classes_", ()))
    alike = [label for label in labels if str(label) == name]
    alike = alike or [label for label in labels if str(label).casefold() == name.casefold()]
    if len(alike) == 1:
        return alike[0]
    if not labels and name.isdecimal():
        return int(name)
    raise typer.BadParameter(
        f"the model has no class {name!r}; it has {list(getattr(model, 'classes_', ()))}.", param_hint="--target"
    )
