"""Commands that find plans of steps, and those that review what the steps are made of."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turnabout.cli.app import actions_app, app
from turnabout.cli.named_files import read_table, set_id
from turnabout.cli.outputs import check_folder
from turnabout.cli.posed_question import NamedFiles, limits_left, pose
from turnabout.cli.screen import frame_table, out, say, show_why, stdout_for_data
from turnabout.cli.shared_options import IdColumn, LimitsFile, QueryLimit, RulesFile, Seed, Target, Threshold, TimeLimit
from turnabout.progress_bar import Bar

if TYPE_CHECKING:
    import pandas as pd

    from turnabout.core import Problem, Recourse

Format = Literal["text", "json", "csv", "table"]
Score = Literal["breadth", "objective", "gradient"]


@app.command()
def plan(
    people: Annotated[
        str | None, typer.Argument(help="Table of people: .csv, .tsv, .parquet, .json or .jsonl; - for CSV on stdin.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Fitted model saved with joblib or pickle. Loading runs code: trust it first.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="Schema, YAML or JSON.")] = None,
    actions: Annotated[
        Path | None, typer.Option(help="Actions, YAML or JSON; `turnabout actions draft` writes a first one.")
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option(help="One of `turnabout domains`, instead of the files above; its own people if none are given."),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Whole months, years and dollars in a domain.")] = False,
    person: Annotated[
        list[str] | None, typer.Option(help="Label of a person to answer, everyone if left out; may be repeated.")
    ] = None,
    background: Annotated[Path | None, typer.Option(help="Training people, on which the model is checked.")] = None,
    rules: RulesFile = None,
    limits: LimitsFile = None,
    threshold: Threshold = None,
    target: Target = None,
    max_steps: Annotated[int, typer.Option(help="Steps of a plan, at most.", min=1)] = 4,
    score: Annotated[Score, typer.Option(help="Which sequence of actions to look at next.")] = "breadth",
    robust: Annotated[
        float | None, typer.Option(help="Plans that bear this error in every step: 0.03 is three percent.")
    ] = None,
    certify: Annotated[
        bool, typer.Option("--certify", help="Also prove how much cheaper any plan could be; takes longer.")
    ] = False,
    options: Annotated[int, typer.Option(help="Plans for each person.", min=1)] = 1,
    seed: Seed = 0,
    time_limit: TimeLimit = None,
    query_limit: QueryLimit = None,
    id_column: IdColumn = None,
    format: Annotated[Format, typer.Option(help="What to write to stdout.")] = "text",
    picture: Annotated[
        Path | None, typer.Option(help="Folder for a picture of every plan, plan-PERSON-OPTION.png.")
    ] = None,
) -> None:
    """Find the cheapest steps that lead each refused person to a yes, from actions with prices and conditions."""
    from turnabout.methods import ActionSequences

    if picture is not None:
        check_pictures(picture)
    if domain is not None:
        files: dict[str, Any] = {"--model": model, "--schema": schema, "--actions": actions, "--background": background}
        given = files | {"--rules": rules, "--limits": limits, "--threshold": threshold, "--target": target}
        problem, table = from_domain(domain, whole, people, id_column, given)
        own: dict[Any, dict[str, Any]] = {}
    else:
        if whole:
            raise typer.BadParameter("only a --domain can be had in whole numbers.", param_hint="--whole")
        problem, table, own = from_files(
            people, model, schema, actions, background, rules, limits, threshold, target, id_column
        )
    table = only(table, person or [])
    method = ActionSequences(max_steps=max_steps, score=score, robust=robust, certify=certify).fit(problem)
    with stdout_for_data(), Bar("finding plans") as progress:
        answer = method.find(
            table, options=options, seed=seed, time_limit=time_limit, query_limit=query_limit, progress=progress,
            limits=limits_left(own, table),
        )  # fmt: skip
    say(repr(answer))
    write_plans(answer, problem, format)
    if picture is not None:
        save_pictures(answer, problem, picture)


@app.command()
def domains() -> None:
    """List the published studies of plans and whether they can be read here."""
    from turnabout.studies.domains import describe

    out.print(frame_table(describe(), "Domains"))


@actions_app.command("draft")
def draft(
    schema: Annotated[Path, typer.Option(help="Schema, YAML or JSON.")],
    json: Annotated[bool, typer.Option("--json", help="Write JSON instead of YAML.")] = False,
) -> None:
    """Draft actions from a schema, for a person to edit: one for each feature that may move."""
    from turnabout.actions import ActionSet
    from turnabout.schema import Schema

    drafted = ActionSet.draft(Schema.load(schema))
    say(f"{len(drafted)} actions drafted. Give them names, prices, conditions and times; then review them.")
    print(drafted.to_json() if json else drafted.to_yaml())


@actions_app.command("review")
def review(
    actions: Annotated[Path, typer.Argument(help="Actions, YAML or JSON.")],
    schema: Annotated[Path, typer.Option(help="Schema, YAML or JSON.")],
    people: Annotated[
        str | None, typer.Option(help="Table of people, to find actions that none of them can ever take.")
    ] = None,
) -> None:
    """Show actions as plain sentences, and list what looks wrong; exit 1 when conditions contradict each other."""
    from turnabout.actions import ActionSet
    from turnabout.schema import Schema

    declared, known = ActionSet.load(actions), Schema.load(schema)
    table = None if people is None else read_table(people, known)
    out.print(frame_table(declared.table(), "Actions"))
    found = declared.problems(known, table)
    for sentence in found:
        print(f"- {sentence}")
    if not found:
        more = "" if people is not None else " With --people, actions that nobody can take are looked for too."
        say(f"Nothing looks wrong.{more}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is listed above
        declared.bind(known)


# -- translations -----------------------------------------------------------------------------------------------


def from_domain(
    name: str, whole: bool, people: str | None, id_column: str | None, given: dict[str, Any]
) -> tuple[Problem, pd.DataFrame]:
    """The problem of a domain, and its people or those of a table."""
    from turnabout.studies.domains import load

    if extra := [option for option, value in given.items() if value is not None]:
        raise typer.BadParameter("the domain brings its own; leave one of the two out.", param_hint=extra[0])
    if people is None and id_column is not None:
        raise typer.BadParameter("people of a domain are named by their row.", param_hint="--id")
    study = load(name, whole)
    if people is None:
        return study.problem, study.people
    return study.problem, set_id(read_table(people, study.schema), id_column)


def from_files(
    people: str | None,
    model: Path | None,
    schema: Path | None,
    actions: Path | None,
    background: Path | None,
    rules: Path | None,
    limits: Path | None,
    threshold: float | None,
    target: str | None,
    id_column: str | None,
) -> tuple[Problem, pd.DataFrame, dict[Any, dict[str, Any]]]:
    """The problem that the files pose, the people who ask, and limits of single ones; actions have their own prices."""
    from turnabout.actions import ActionSet

    needed = {"PEOPLE": people, "--model": model, "--schema": schema, "--actions": actions}
    if absent := [name for name, value in needed.items() if value is None]:
        raise typer.BadParameter(
            "give PEOPLE, --model, --schema and --actions; or --domain, one of `turnabout domains`.",
            param_hint=absent[0],
        )
    assert people is not None and model is not None and schema is not None and actions is not None
    declared = ActionSet.load(actions)
    rows = None if background is None else str(background)
    named = NamedFiles(people, model, schema, rows, rules, None, limits, threshold, target, id_column)
    question = replace(pose(named, own_region=False), cost=None)
    return question.problem(question.background, actions=declared), question.table, question.limits


def only(table: pd.DataFrame, labels: list[str]) -> pd.DataFrame:
    """The rows with these labels, in the order asked for; all when none is asked for."""
    if not labels:
        return table
    place = {str(label): i for i, label in enumerate(table.index)}
    if absent := [label for label in labels if label not in place]:
        raise typer.BadParameter(
            f"there is nobody labelled {absent[0]!r}; labels begin with {', '.join(list(place)[:3])}.",
            param_hint="--person",
        )
    return table.iloc[[place[label] for label in dict.fromkeys(labels)]]


def write_plans(answer: Recourse, problem: Problem, format: Format) -> None:
    """The answer on stdout."""
    from turnabout.render import write_plan
    from turnabout.schema import spreadsheet_csv

    if format == "json":
        print(answer.to_json(indent=2))
    elif format == "csv":
        print(spreadsheet_csv(answer.steps.reset_index()), end="")
    elif format == "table":
        steps = answer.steps.drop(columns=["action", "parameters", "becomes"]).reset_index()
        out.print(frame_table(steps, "Plans: what to do, in order", digits=4))
        totals = answer.plans.reset_index().astype(object)
        out.print(frame_table(totals.where(totals.notna(), ""), "Plans in all", digits=4))
        show_why(answer)
    else:
        counts = answer.plans.groupby(level="person").size()
        for i, person in enumerate(answer):
            for option in range(counts.get(person, 1)):
                print("\n" * (i + option > 0) + write_plan(answer, person, option, problem=problem))


def check_pictures(folder: Path) -> None:
    """Refuse before the search what would fail after it."""
    from turnabout.render.palette import need_matplotlib

    check_folder("picture", folder)
    need_matplotlib()


def save_pictures(answer: Recourse, problem: Problem, folder: Path) -> None:
    """One picture for each plan, under a name that any file system takes."""
    from turnabout.render import save_plan

    folder.mkdir(parents=True, exist_ok=True)
    taken: set[str] = set()
    for place, (person, option) in enumerate(answer.plans.index):
        name = f"plan-{re.sub(r'[^A-Za-z0-9._-]+', '_', str(person))}-{option}"
        name = f"{name}-{place}" if name.lower() in taken else name
        taken.add(name.lower())
        save_plan(answer, person, folder / f"{name}.png", option, problem=problem)
    say(f"{len(taken)} pictures in {folder}.")
