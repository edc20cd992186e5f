"""The command line: parse, call one public function, print. Data on stdout, talk on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import pandas as pd

    from turnabout.core import Recourse
    from turnabout.schema import Schema
    from turnabout.typing import Progress as Callback

app = typer.Typer(
    name="turnabout",
    help="What a refused person can really do to be accepted, verified before anyone reads it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
schema_app = typer.Typer(help="Draft and review schemas.", no_args_is_help=True)
app.add_typer(schema_app, name="schema")

out = Console()
talk = Console(stderr=True)
ABSENT = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None")
Format = Literal["json", "csv", "table"]


@app.callback(invoke_without_command=True)
def top(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """What a refused person can really do to be accepted, verified before anyone reads it."""
    if version:
        from turnabout import __version__

        print(__version__)
        raise typer.Exit


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Same seed, same answer.")] = 0,
    options: Annotated[int, typer.Option(help="Options for each person.", min=1)] = 1,
) -> None:
    """Train a credit model on the embedded data and find a plan for every refused person of its test part."""
    from turnabout.demo import run

    with progress_bar("finding recourse") as progress:
        shown = run(seed=seed, options=options, progress=progress, say=talk.print)
    out.print(frame_table(shown.summary, "Test people"))
    out.print(frame_table(shown.metrics, "How good the plans are", digits=4))
    out.print(frame_table(shown.plan, shown.title))
    talk.print("Every plan above was written out, read back and accepted by the original model.")


@app.command()
def find(
    people: Annotated[
        str, typer.Argument(help="Table of people: .csv, .parquet or .json records; - for CSV on stdin.")
    ],
    model: Annotated[
        Path, typer.Option(help="Fitted model saved with joblib or pickle. Loading runs code: trust it first.")
    ],
    schema: Annotated[
        Path | None, typer.Option(help="Schema, YAML or JSON; drafted from the background if left out.")
    ] = None,
    background: Annotated[Path | None, typer.Option(help="Training people, for methods that look at them.")] = None,
    labels: Annotated[
        str | None, typer.Option(help="Column of the background that says who was accepted (0/1, true/false).")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="One of `turnabout methods`; picked by the model if left out.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Accepted when P(yes) is at least this; the model's own rule if left out.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The class that counts as accepted.")] = None,
    options: Annotated[int, typer.Option(help="Options for each person.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="Same seed, same answer.", min=0)] = 0,
    time_limit: Annotated[float | None, typer.Option(help="Seconds after which to stop with what there is.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="Column that names each person.")] = None,
    format: Annotated[Format, typer.Option(help="What to write to stdout.")] = "json",
) -> None:
    """Find recourse for everyone in a table whom the model refuses."""
    from turnabout.methods import find as find_recourse
    from turnabout.schema import Schema

    known_schema = None if schema is None else Schema.load(schema)
    table = read_table(people, known_schema)
    if id_column is not None:
        table = set_id(table, id_column)
    known = None if background is None else read_table(str(background), known_schema)
    if known is not None and id_column is not None:
        known = known.drop(columns=id_column, errors="ignore")
    accepted = None
    if labels is not None:
        if known is None or labels not in known.columns:
            raise typer.BadParameter(f"the background has no column {labels!r}.", param_hint="--labels")
        accepted = known.pop(labels)
    fitted = load_model(model)
    with stdout_for_data(), progress_bar("finding recourse") as progress:
        answer = find_recourse(
            fitted,
            table,
            schema=known_schema,
            background=known,
            labels=accepted,
            method=None if method is None else method_named(method),
            threshold=threshold,
            target=None if target is None else class_named(fitted, target),
            options=options,
            seed=seed,
            time_limit=time_limit,
            progress=progress,
        )
    talk.print(repr(answer), markup=False, highlight=False)
    write_answer(answer, format)


@app.command()
def methods() -> None:
    """List the methods, what each needs and what it promises."""
    from turnabout.methods import ALL

    table = Table("method", "needs", "in one sentence", title="Methods")
    for cls in ALL:
        needs = [cls.requires.__name__ if cls.requires else "any model"] + ["a background"] * cls.needs_background
        table.add_row(spelled(cls.__name__), ", ".join(needs), (cls.__doc__ or "").strip().split("\n")[0])
    out.print(table)


@app.command()
def datasets() -> None:
    """List the data sets and whether they can be read here."""
    from turnabout.datasets import describe

    out.print(frame_table(describe(), "Data sets"))


@schema_app.command("infer")
def infer(
    people: Annotated[
        str, typer.Argument(help="Table to draft from: .csv, .parquet or .json records; - for CSV on stdin.")
    ],
    immutable: Annotated[list[str] | None, typer.Option(help="A column no plan may change; may be repeated.")] = None,
    increasing: Annotated[list[str] | None, typer.Option(help="A column that may only rise; may be repeated.")] = None,
    decreasing: Annotated[list[str] | None, typer.Option(help="A column that may only fall; may be repeated.")] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="A column of numbers that are names; may be repeated.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="A column to leave out, such as the label; may be repeated.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write JSON instead of YAML.")] = False,
) -> None:
    """Draft a schema from a table, for a person to edit; what was guessed goes to stderr."""
    from turnabout.schema import Schema

    schema = Schema.infer(
        read_table(people),
        immutable=immutable or (),
        increasing=increasing or (),
        decreasing=decreasing or (),
        categorical=categorical or (),
        ignore=ignore or (),
    )
    talk.print(frame_table(schema.summary(), "Draft: review what may move"))
    for note in schema.notes:
        talk.print(f"guessed {note}", markup=False, highlight=False)
    print(schema.to_json() if json else schema.to_yaml())


# -- translations -----------------------------------------------------------------------------------------------


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


def spelled(name: str) -> str:
    """GrowingSpheres -> growing-spheres."""
    return "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))


def method_named(name: str) -> Any:
    from turnabout.methods import ALL

    for cls in ALL:
        if name.lower().replace("_", "-") in (spelled(cls.__name__), cls.__name__.lower()):
            return cls()
    raise typer.BadParameter(
        f"there is no method {name!r}; there are {', '.join(spelled(c.__name__) for c in ALL)}.", param_hint="--method"
    )


def write_answer(answer: Recourse, format: Format) -> None:
    """The answer on stdout."""
    if format == "json":
        print(answer.to_json(indent=2))
    elif format == "csv":
        changes = answer.changes()
        print(changes.to_csv(index=False), end="")
    else:
        out.print(frame_table(answer.changes(), "Plans: what to change"))
        if len(answer.why):
            out.print(
                frame_table(answer.why.reset_index()[["person", "reason", "binding", "proof"]], "No plan, and why")
            )


def frame_table(frame: pd.DataFrame, title: str, digits: int | None = None) -> Table:
    """A data frame as a terminal table; numbers in full, as they were verified, unless digits are given."""
    table = Table(*(escape(str(c)) for c in frame.columns), title=escape(title), title_justify="left")
    for row in frame.itertuples(index=False):
        table.add_row(*(Text(f"{c:.{digits}g}" if digits and isinstance(c, float) else str(c)) for c in row))
    return table


@contextmanager
def stdout_for_data() -> Iterator[None]:
    """Send to stderr what libraries in C write to the process's stdout behind Python's back."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def progress_bar(what: str) -> Iterator[Callback]:
    """A bar on stderr that takes (done, total)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=talk, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def main() -> None:
    """Exit 0 when done, 1 when it failed, 2 when misused."""
    from turnabout.errors import TurnaboutError

    try:
        app()
    except TurnaboutError as error:
        talk.print(f"{type(error).__name__}: {error}", style="red", markup=False, highlight=False)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        talk.print("stopped.")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
