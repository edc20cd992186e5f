"""Commands that train models which grant recourse, and that promise recourse for models there are."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnabout.cli.app import app
from turnabout.cli.named_files import class_named, load_model, open_table, read_table
from turnabout.cli.outputs import check_files
from turnabout.cli.people_options import check_few_move, read_accepted, read_box, read_region, read_schema_alone
from turnabout.cli.screen import frame_table, say, stdout_for_data, talk
from turnabout.cli.shared_options import Alpha, Epsilon, ModelFile, Reach, Seed, Target, Yes
from turnabout.progress_bar import Bar

if TYPE_CHECKING:
    import pandas as pd

    from turnabout.rules import Region
    from turnabout.schema import Schema
    from turnabout.train import Certificate


@app.command("train")
def train_model(
    people: Annotated[
        str, typer.Argument(help="People and outcomes: .csv, .tsv, .parquet, .json or .jsonl; - for CSV on stdin.")
    ],
    label: Annotated[str, typer.Option(help="Column that says who was accepted.")],
    schema: Annotated[Path, typer.Option(help="Schema, YAML or JSON; `turnabout schema infer` drafts one.")],
    out: Annotated[Path, typer.Option(help="File for the trained model, which `find` and `calibrate` take.")],
    yes: Yes = None,
    reach: Reach = None,
    deviations: Annotated[
        float | None,
        typer.Option(help="Whatever the schema lets move does so by this many standard deviations, or by its --reach."),
    ] = None,
    lam: Annotated[float, typer.Option(help="Weight of recourse beside accuracy; 0 is ordinary training.")] = 0.8,
    trees: Annotated[
        bool, typer.Option("--trees", help="Grow boosted trees instead of a network; up to 3 columns may move.")
    ] = False,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the people (15), or rounds of growing trees (5).", min=1)
    ] = None,
    seed: Seed = 0,
    epsilon: Epsilon = 0.05,
    alpha: Alpha = 0.05,
    certificate: Annotated[Path | None, typer.Option(help="File for the certificate, JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the numbers to stdout.")] = False,
) -> None:
    """Train a model that grants recourse, and promise recourse at its threshold.

    Of the people, 70 % train, 15 % calibrate the threshold and 15 % test it, beside an ordinary model.
    """
    import joblib

    from turnabout import train

    check_files(out=out, certificate=certificate)
    known = read_schema_alone(schema, "train")
    table = read_table(people, known, by_look=[label])
    accepted = read_accepted(table, label, yes, known)
    region = read_region(reach if deviations is None else None, None, known, None)
    if trees and deviations is None:
        check_few_move(region, known, "Trees have no slope")
    region = region if deviations is None else read_box(reach, known)
    model: train.Pare | train.GrantingTrees
    if trees:
        model = train.GrantingTrees(known, region, lam=lam, rounds=epochs or 5, seed=seed)
    else:
        model = train.Pare(known, region, lam=lam, epochs=epochs or 15, seed=seed)
    with stdout_for_data(), Bar("training") as progress:
        report = train.report(
            model, table, accepted, deviations=deviations, epsilon=epsilon, alpha=alpha, seed=seed, progress=progress
        )
    joblib.dump(report.model, out)
    if certificate is not None:
        certificate.write_text(report.certificate.to_json(indent=2) + "\n", encoding="utf-8")
    talk.print(frame_table(report.table(), f"{report.people['test']} test people, 95 % intervals"))
    say(str(report.certificate))
    say(f"The model is in {out}; it says yes from {report.threshold:g} on.")
    if as_json:
        print(report.to_json(indent=2))


@app.command("calibrate")
def calibrate_model(
    people: Annotated[
        str,
        typer.Argument(help="Table of people the model was not trained on, accepted or not; - for CSV on stdin."),
    ],
    model: ModelFile,
    schema: Annotated[
        Path | None, typer.Option(help="Schema, YAML or JSON; a model of `turnabout train` knows its own.")
    ] = None,
    reach: Reach = None,
    deviations: Annotated[
        float | None,
        typer.Option(help="What may move does so by this many standard deviations of --trained-on, or by its --reach."),
    ] = None,
    epsilon: Epsilon = 0.05,
    alpha: Alpha = 0.05,
    group: Annotated[str | None, typer.Option(help="Column of groups, each to get a threshold of its own.")] = None,
    used_on: Annotated[
        str | None, typer.Option(help="Table of people the model is used on; warns where they are of another kind.")
    ] = None,
    trained_on: Annotated[
        str | None,
        typer.Option(help="Table the model was trained on; people in it are refused, unless chance explains it."),
    ] = None,
    target: Target = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the certificate as JSON.")] = False,
) -> None:
    """Find the highest threshold at which nearly everyone is accepted or can reach acceptance, as a promise."""
    from turnabout import train
    from turnabout.schema import read_tables
    from turnabout.train.estimator import Estimator

    fitted = load_model(model)
    known = schema_of(fitted) if schema is None else read_schema_alone(schema, "calibrate")
    files = [None if path is None else open_table(path) for path in (people, trained_on, used_on)]
    tables = iter(read_tables([file for file in files if file is not None], known, by_look=[group or ""]))
    table, seen, new = (None if file is None else next(tables) for file in files)
    assert table is not None
    if group is not None and group not in table.columns:
        raise typer.BadParameter(f"the table has no column {group!r}.", param_hint="--group")
    region = read_region(reach, deviations, known, seen)
    scores, rule = who_reaches_what(fitted, known, region, target, seen)
    with stdout_for_data(), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        promise = train.calibrate(
            scores,
            table,
            rule,
            schema=known,
            epsilon=epsilon,
            alpha=alpha,
            groups=None if group is None else table[group],
            trained_on=seen,
            used_on=new,
        )
    for warning in heard:
        say(f"warning: {warning.message}")
    if isinstance(fitted, Estimator):
        say(f"The model says yes from {fitted.threshold:g} on: {where_promised(promise, fitted.threshold)}.")
    if promise.threshold == 0:
        say("warning: a threshold of 0 accepts everyone; short of that, nothing can be promised of this model.")
    print(promise.to_json(indent=2) if as_json else promise)


def schema_of(fitted: Any) -> Schema:
    from turnabout.schema import Schema

    if isinstance(own := getattr(fitted, "schema", None), Schema):
        return own
    raise typer.BadParameter(f"{type(fitted).__name__} does not know its schema; give it.", param_hint="--schema")


def where_promised(promise: Certificate, threshold: float) -> str:
    """Whether a promise is made at a threshold, for everyone or for which groups."""
    if promise.permits(threshold):
        return "there, this promise holds"
    kept = [repr(label) for label in promise.by_group if promise.permits(threshold, label)]
    if not kept:
        return "this promise is not made there"
    left = [repr(label) for label in promise.by_group if not promise.permits(threshold, label)]
    return f"there, this promise holds for {', '.join(kept)} and is not made for {', '.join(left)}"


def who_reaches_what(
    fitted: Any, schema: Schema, region: Region | None, target: str | None, background: pd.DataFrame | None
) -> tuple[Any, Callable[[pd.DataFrame], pd.DataFrame] | None]:
    """What scores people for `calibrate`, and the rule by which they move; None where the model has one."""
    from turnabout.models import Differentiable, wrap
    from turnabout.train import best_rows, probability_of

    wanted = None if target is None else class_named(fitted, target)
    if hasattr(fitted, "attain"):
        if schema_of(fitted) != schema:
            raise typer.BadParameter("the model was trained with another schema; leave it out.", param_hint="--schema")
        if wanted not in (None, True):
            raise typer.BadParameter("the model was trained to grant its yes; leave it out.", param_hint="--target")
        fitted = copy.copy(fitted)
        fitted.region = fitted.region if region is None else region
        return fitted, None
    if hasattr(fitted, "predict") and not hasattr(fitted, "predict_proba"):
        raise typer.BadParameter(
            f"{type(fitted).__name__} gives no probabilities; wrap it in a CalibratedClassifierCV first.",
            param_hint="--model",
        )
    model = wrap(fitted, schema, 0.5, target=wanted, background=background)
    if not isinstance(model, Differentiable):
        check_few_move(region, schema, "The model has no slope to follow")
    return probability_of(model), best_rows(model, region)
