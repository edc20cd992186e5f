"""Commands that find recourse, and those that tell what there is to find it with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from turnabout.cli.app import app, schema_app
from turnabout.cli.named_files import read_table
from turnabout.cli.people_options import read_labels
from turnabout.cli.posed_question import NamedFiles, Question, pose
from turnabout.cli.screen import frame_table, out, say, show_why, stdout_for_data, talk
from turnabout.cli.shared_options import (
    CostFile,
    IdColumn,
    LimitsFile,
    MethodName,
    ModelFile,
    PeopleFile,
    QueryLimit,
    Reach,
    RulesFile,
    SchemaFile,
    Seed,
    Target,
    Threshold,
    TimeLimit,
    Yes,
)
from turnabout.progress_bar import Bar

if TYPE_CHECKING:
    from turnabout.core import Recourse
    from turnabout.core.landing_targets import Landing

Format = Literal["json", "csv", "table"]
UnseenLevels = Literal["avoid", "allow"]
FileKind = Literal["schema", "rules", "cost", "limits"]


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Same seed, same answer.")] = 0,
    options: Annotated[int, typer.Option(help="Options for each person.", min=1)] = 1,
) -> None:
    """Train a credit model on the embedded data and find a plan for every refused person of its test part."""
    from turnabout.demo import run

    with Bar("finding recourse") as progress:
        shown = run(seed=seed, options=options, progress=progress, say=talk.print)
    out.print(frame_table(shown.summary, "Test people"))
    out.print(frame_table(shown.metrics, "How good the plans are", digits=4))
    out.print(frame_table(shown.plan, shown.title))
    out.print(shown.review.brief, markup=False, highlight=False)
    talk.print("Every plan above was written out, read back and accepted by the original model.")


@app.command()
def find(
    people: PeopleFile,
    model: ModelFile,
    schema: SchemaFile = None,
    background: Annotated[Path | None, typer.Option(help="Training people, for methods that look at them.")] = None,
    labels: Annotated[str | None, typer.Option(help="Column of the background that says who was accepted.")] = None,
    yes: Yes = None,
    rules: RulesFile = None,
    cost: CostFile = None,
    limits: LimitsFile = None,
    method: MethodName = None,
    threshold: Threshold = None,
    target: Target = None,
    reach: Reach = None,
    landing: Annotated[
        str | None,
        typer.Option(help="Where options must land by the model's own P(yes): at least this, like 0.7, or `mirror`."),
    ] = None,
    options: Annotated[int, typer.Option(help="Options for each person.", min=1)] = 1,
    seed: Seed = 0,
    time_limit: TimeLimit = None,
    query_limit: QueryLimit = None,
    unseen_levels: Annotated[
        UnseenLevels, typer.Option(help="Whether plans may move to levels that training did not have.")
    ] = "avoid",
    id_column: IdColumn = None,
    review: Annotated[
        bool, typer.Option("--review", help="Say on stderr what a careful reader would question.")
    ] = False,
    format: Annotated[Format, typer.Option(help="What to write to stdout.")] = "json",
) -> None:
    """Find recourse for everyone in a table whom the model refuses.

    A model made by `turnabout train` brings its schema and how far columns may move.
    """
    from turnabout.methods import find as find_recourse

    chosen = None if method is None else method_named(method)
    where = read_landing(landing)
    named = NamedFiles(
        people, model, schema, None if background is None else str(background), rules, cost, limits,
        threshold, target, id_column, reach, beside=() if labels is None else (labels,),
    )  # fmt: skip
    with stdout_for_data(), Bar("finding recourse") as progress:
        question = pose(named, unseen_levels=None if unseen_levels == "avoid" else unseen_levels)
        for note in question.notes:
            say(f"note: {note}")
        answer = find_recourse(
            question.model,
            question.table,
            schema=question.schema,
            background=question.rows_of_features(),
            labels=background_labels(question, labels, yes),
            cost=question.cost,
            rules=question.rules,
            method=chosen,
            options=options,
            seed=seed,
            time_limit=time_limit,
            query_limit=query_limit,
            progress=progress,
            landing=where,
            limits=question.limits,
        )
        concerns = answer.review(question.problem(question.background)) if review else None
    say(repr(answer))
    if concerns is not None:
        say(str(concerns))
    write_answer(answer, format)


@app.command()
def methods() -> None:
    """List the methods, what each needs and what it promises."""
    from turnabout.methods import ALL

    table = Table("method", "needs", "in one sentence", title="Methods")
    for cls in ALL:
        needs = [cls.requires.__name__ if cls.requires else "any model"] + ["a background"] * cls.needs_background
        needs += ["actions"] * cls.needs_actions
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
        str, typer.Argument(help="Table to draft from: .csv, .tsv, .parquet, .json or .jsonl; - for CSV on stdin.")
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
    free: Annotated[
        list[str] | None,
        typer.Option(help="A column that may move either way, whatever its name says; may be repeated."),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Column that says who was accepted: shows which way things are good.")
    ] = None,
    yes: Yes = None,
    json: Annotated[bool, typer.Option("--json", help="Write JSON instead of YAML.")] = False,
) -> None:
    """Draft a schema from a table, for a person to edit; what was guessed, and why, goes to stderr."""
    from turnabout.schema import Schema

    table, accepted = read_table(people), None
    if labels is not None:
        if labels not in table:
            raise typer.BadParameter(f"the table has no column {labels!r}.", param_hint="--labels")
        accepted = read_labels(table, labels, yes, None)
        table = table.drop(columns=labels)
    schema = Schema.infer(
        table,
        immutable=immutable or (),
        increasing=increasing or (),
        decreasing=decreasing or (),
        categorical=categorical or (),
        ignore=ignore or (),
        free=free or (),
        labels=accepted,
    )
    talk.print(frame_table(schema.summary(), "Draft: review what may move"))
    for note in schema.notes:
        say(f"guessed {note}")
    print(schema.to_json() if json else schema.to_yaml())


@schema_app.command("review")
def review_schema(schema: Annotated[Path, typer.Argument(help="Schema, YAML or JSON.")]) -> None:
    """Print a schema as a table for somebody who knows the people, and what was guessed when it was drafted.

    What the file says beside the features is printed too: rules, the cost, and limits of single people.
    """
    from turnabout.core import ProblemFile

    read = ProblemFile.load(schema)
    out.print(frame_table(read.schema.summary(), "What may change, and how"))
    told = [f"rule: {rule}" for rule in read.rules] + ([] if read.cost is None else [f"cost: {read.cost}"])
    told += [f"limit: {person}, {', '.join(entries)}" for person, entries in read.limits.items()]
    for line in (*told, *read.schema.notes):
        out.print(f"- {line}", markup=False, highlight=False)


@schema_app.command("json-schema")
def print_json_schema(
    name: Annotated[FileKind, typer.Argument(help="The kind of file: schema files hold the others.")] = "schema",
) -> None:
    """Print the JSON Schema of schema files, or of rules, costs or limits, for editors to check and complete them."""
    from turnabout.core import editor_schema
    from turnabout.documents.text import write_json

    print(write_json(editor_schema(name), indent=2))


def spelled(name: str) -> str:
    """GrowingSpheres -> growing-spheres."""
    return "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))


def method_named(name: str) -> Any:
    from turnabout.methods import ALL

    for cls in ALL:
        if name.lower().replace("_", "-") in (spelled(cls.__name__), cls.__name__.lower()):
            if cls.needs_actions:
                raise typer.BadParameter(
                    f"{spelled(cls.__name__)} makes plans of actions; use `turnabout plan PEOPLE --actions FILE ...`.",
                    param_hint="--method",
                )
            return cls()
    raise typer.BadParameter(
        f"there is no method {name!r}; there are {', '.join(spelled(c.__name__) for c in ALL)}.", param_hint="--method"
    )


def read_landing(text: str | None) -> Landing | None:
    """Where options must land: "0.7" or "mirror"."""
    from turnabout.core.landing_targets import Mirror, Probability

    if text is None:
        return None
    if text == "mirror":
        return Mirror()
    try:
        probability = float(text)
    except ValueError:
        probability = float("nan")
    if not 0 < probability < 1:
        raise typer.BadParameter(
            f"{text!r} is no probability strictly between 0 and 1, and not `mirror`.", param_hint="--landing"
        )
    return Probability(probability)


def background_labels(question: Question, labels: str | None, yes: str | None) -> Any:
    """(m,) who of the background was accepted; None where no column was named."""
    if labels is None:
        return None
    if question.background is None or labels not in question.background.columns:
        raise typer.BadParameter(f"the background has no column {labels!r}.", param_hint="--labels")
    return read_labels(question.background, labels, yes, question.schema)


def write_answer(answer: Recourse, format: Format) -> None:
    """The answer on stdout."""
    from turnabout.schema import spreadsheet_csv

    if format == "json":
        print(answer.to_json(indent=2))
    elif format == "csv":
        print(spreadsheet_csv(answer.changes_in_words()), end="")
    else:
        out.print(frame_table(answer.changes_in_words(), "Plans: what to change"))
        show_why(answer)
