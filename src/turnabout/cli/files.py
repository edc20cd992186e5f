"""Files that people name on the command line: tables, models, and names of classes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

    from turnabout.schema import Schema

ABSENT = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None")


def read_table(path: str, schema: Schema | None = None) -> pd.DataFrame:
    """Read people exactly: numbers as they are written, bit for bit; words of the schema's levels as words."""
    import pandas as pd

    if path != "-" and not Path(path).is_file():
        raise typer.BadParameter(f"there is no file {path!r}.")
    try:
        if path.endswith(".parquet"):
            return pd.read_parquet(path)
        if path.endswith(".json"):
            return pd.read_json(path, orient="records", precise_float=True)
        return read_csv(sys.stdin if path == "-" else path, schema)
    except (ValueError, ImportError, OSError) as error:
        raise typer.BadParameter(f"{path!r} cannot be read as a table: {error}") from None


def read_csv(source: Any, schema: Schema | None) -> pd.DataFrame:
    """CSV with every number as its text says, which older pandas do only when told to."""
    import pandas as pd

    words = {str(level) for feature in schema or () for level in getattr(feature, "levels", ())}
    absent = [word for word in ABSENT if word not in words]  # a level named "None" is a level
    if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1):
        return pd.read_csv(source, keep_default_na=False, na_values=absent)
    return pd.read_csv(source, keep_default_na=False, na_values=absent, float_precision="round_trip")


def set_id(table: pd.DataFrame, column: str) -> pd.DataFrame:
    if column not in table.columns:
        raise typer.BadParameter(f"the table has no column {column!r}.", param_hint="--id")
    return table.set_index(column)


def load_model(path: Path) -> Any:
    """A fitted model from a joblib or pickle file."""
    if not path.exists():
        raise typer.BadParameter(f"there is no file {str(path)!r}.", param_hint="--model")
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:
        raise typer.BadParameter(f"{str(path)!r} cannot be loaded as a model: {error}", param_hint="--model") from None


def class_named(model: Any, name: str) -> Any:
    """The class label that reads as `name` on the command line."""
    for label in getattr(model, "classes_", ()):
        if str(label) == name:
            return label
    raise typer.BadParameter(
        f"the model has no class {name!r}; it has {list(getattr(model, 'classes_', ()))}.", param_hint="--target"
    )
