"""What the reports share: the question that the files pose, and the JSON and the page that are written."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from turnabout.cli.named_files import class_named, draft_schema, load_model, open_table, set_id, with_plain_labels
from turnabout.cli.outputs import check_files
from turnabout.cli.people_options import read_frame
from turnabout.cli.recourse import DRAFTED
from turnabout.cli.screen import say

if TYPE_CHECKING:
    import pandas as pd

    from turnabout.models import Model
    from turnabout.rules import Rule
    from turnabout.schema import Schema
    from turnabout.typing import Json


@dataclass(frozen=True)
class LoadedFiles:
    """What the files say: the table as read, the wrapped model and the fitted one behind it.

    Attributes
    ----------
    table : everyone, with all columns; the index names people.
    background : other people, or None where no such table was given.
    target : the class that counts as accepted, as the model has it; None where it was not said.
    notes : what a reader of the report must know.
    """

    table: pd.DataFrame
    background: pd.DataFrame | None
    schema: Schema
    model: Model
    fitted: Any
    target: Any
    rules: list[Rule]
    notes: tuple[str, ...]


def pose(
    people: str,
    model: Path,
    schema: Path | None,
    background: str | None,
    threshold: float | None,
    target: str | None,
    id_column: str | None,
    beside: tuple[str, ...] = (),
) -> LoadedFiles:
    """Read the files and wrap the model; without a schema one is drafted from all columns but those `beside`."""
    from turnabout.models import wrap
    from turnabout.schema import read_tables

    fitted = load_model(model)
    known, rules = read_frame(fitted, schema, None)
    asked, others = open_table(people), None if background is None else open_table(background)
    notes: tuple[str, ...] = ()
    if known is None:
        known, notes = draft_schema((others or asked).read(), fitted, (*beside, id_column)), (DRAFTED,)
    files = [asked] if others is None else [asked, others]
    tables = read_tables(files, known, as_text=[id_column or ""], by_look=beside)
    table, rows = with_plain_labels(set_id(tables[0], id_column)), None if others is None else tables[1]
    if not len(table):
        raise typer.BadParameter(f"there is nobody in {people!r}.", param_hint="PEOPLE")
    table, aside = readable(table, known)
    notes += aside
    wanted = None if target is None else class_named(fitted, target)
    wrapped = wrap(fitted, known, threshold, target=wanted, background=table if rows is None else rows)
    return LoadedFiles(table, rows, known, wrapped, fitted, wanted, list(rules), notes)


def readable(table: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Those whose rows the schema can read, and a note about the others: a report tells of people, not of cells."""
    import numpy as np

    reading = schema.read(table)
    lost = np.asarray(reading.unreadable.any(1))
    if not lost.any():
        return table, ()
    first = int(lost.argmax())
    complaint = reading.complaint(first)
    if lost.all():
        raise complaint
    verb = "is" if lost.sum() == 1 else "are"
    note = f"{lost.sum()} of {len(lost)} people cannot be read and {verb} left out; person {table.index[first]!r}: "
    return reading.readable(table, np.flatnonzero(~lost)), (note + complaint.message,)


def check_out(out: Path | None) -> Path | None:
    """The two files' common name; refuses before the work what would fail after it."""
    if out is None:
        return None
    from turnabout.render.plan_drawing import need_matplotlib

    if os.path.isdir(out):  # which never raises
        raise typer.BadParameter(
            f"{str(out)!r} is a folder; name the report in it, like {str(out / 'report')!r}.", param_hint="--out"
        )
    stem = out.with_suffix("") if out.suffix in (".json", ".html") else out
    for suffix in (".json", ".html"):
        check_files(out=Path(f"{stem}{suffix}"))
    need_matplotlib()
    return stem


def write_report(document: Json, draw: Callable[[Json], str], out: Path | None) -> None:
    """The document on stdout, or with its page in two files."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    if out is None:
        print(text)
        return
    Path(f"{out}.json").write_text(text + "\n", encoding="utf-8")
    Path(f"{out}.html").write_text(draw(json.loads(text)), encoding="utf-8")  # from what was written, and nothing else
    say(f"{out}.json and {out}.html are written; the page opens in any browser.")


def made_with() -> Json:
    """The command, and the versions that answered it."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {"python": platform.python_version()}
    for name in ("turnabout", "numpy", "pandas", "scipy", "scikit-learn", "torch"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    if "turnabout" not in versions:
        from turnabout import __version__

        versions["turnabout"] = __version__
    return {"command": shlex.join(["turnabout", *sys.argv[1:]]), "versions": versions}


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect warnings, each once, and tell them when done."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    for warning in caught:
        if issubclass(warning.category, UserWarning) and str(warning.message) not in said:
            said.append(str(warning.message))
            say(f"warning: {warning.message}")
