"""Commands that train models which grant recourse, and that promise recourse for models there are."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from turnabout.cli.app import app
from turnabout.cli.named_files import Target, class_named, load_model, open_table, read_table
from turnabout.cli.outputs import check_files
from turnabout.cli.people_options import (
    Parts,
    check_few_move,
    read_accepted,
    read_region,
    split_people,
)
from turnabout.cli.screen import frame_table, say, stdout_for_data, talk
from turnabout.progress_bar import Bar

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from turnabout.audit import Rate
    from turnabout.models import Model
    from turnabout.rules import Region
    from turnabout.schema import Schema
    from turnabout.train import Certificate, GrantingTrees, Pare
    from turnabout.typing import Json

HAIR = 1e-12  # by which P(yes), read back from a margin, may err

Reach = Annotated[
    list[str] | None,
    typer.Option(help="How far a column may move, like hours=9; may be repeated. Others then stay as they are."),
]
Epsilon = Annotated[float, typer.Option(help="Share of people who may be left without recourse.")]
Alpha = Annotated[float, typer.Option(help="Probability with which the promise may fail.")]


@app.command("train")
def train_model(
    people: Annotated[
        str, typer.Argument(help="People and outcomes: .csv, .tsv, .parquet, .json or .jsonl; - for CSV on stdin.")
    ],
    label: Annotated[str, typer.Option(help="Column that says who was accepted.")],
    schema: Annotated[Path, typer.Option(help="Schema, YAML or JSON; `turnabout schema infer` drafts one.")],
    out: Annotated[Path, typer.Option(help="File for the trained model, which `find` and `calibrate` take.")],
    yes: Annotated[str | None, typer.Option(help="The favourable value of the label; true and 1 if left out.")] = None,
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
    seed: Annotated[int, typer.Option(help="Same seed, same parts and same model.", min=0)] = 0,
    epsilon: Epsilon = 0.05,
    alpha: Alpha = 0.05,
    certificate: Annotated[Path | None, typer.Option(help="File for the certificate, JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the numbers to stdout.")] = False,
) -> None:
    """Train a model that grants recourse, and promise recourse at its threshold.

    Of the people, 70 % train, 15 % calibrate the threshold and 15 % test it, beside an ordinary model.
    """
    import joblib

    from turnabout.schema import Schema

    check_files(out=out, certificate=certificate)
    known = Schema.load(schema)
    table = read_table(people, known, by_look=[label])
    parts = split_people(table, read_accepted(table, label, yes, known), seed, epsilon, alpha)
    region = read_region(reach, deviations, known, parts.train)
    if trees:
        check_few_move(region, known, "Trees have no slope")
    with stdout_for_data(), Bar("training") as progress:
        model, ordinary = fit_pair(known, region, lam, trees, epochs, seed, parts, progress)
    promise, lines = judge_pair(model, ordinary, parts, epsilon, alpha)
    model.threshold = lines[0].threshold
    joblib.dump(model, out)
    if certificate is not None:
        certificate.write_text(promise.to_json(indent=2) + "\n", encoding="utf-8")
    talk.print(frame_table(side_by_side(lines), f"{len(parts.test)} test people, 95 % intervals"))
    say(str(promise))
    say(f"The model is in {out}; it says yes from {model.threshold:g} on.")
    if as_json:
        sizes = {"train": len(parts.train), "calibration": len(parts.calibration), "test": len(parts.test)}
        done: Json = {"people": sizes, "region": model.region_of().to_dict(), "threshold": model.threshold}
        done |= {"certificate": promise.to_dict(), "test": [line.to_dict() for line in lines]}
        print(json.dumps(done, indent=2))


@app.command("calibrate")
def calibrate_model(
    people: Annotated[
        str,
        typer.Argument(help="Table of people the model was not trained on, accepted or not; - for CSV on stdin."),
    ],
    model: Annotated[
        Path, typer.Option(help="Fitted model saved with joblib or pickle. Loading runs code: trust it first.")
    ],
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
    from turnabout.schema import Schema, read_tables
    from turnabout.train.estimator import Estimator

    fitted = load_model(model)
    known = schema_of(fitted) if schema is None else Schema.load(schema)
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


# -- training -----------------------------------------------------------------------------------------------------


class ModelLine(NamedTuple):
    """What one model does at one threshold for the test people."""

    model: str
    lam: float
    certified: bool
    threshold: float
    accuracy: Rate
    f1: float
    refused: Rate
    recourse_refused: Rate
    recourse_all: Rate

    def to_dict(self) -> Json:
        """Plain values for JSON."""
        return {name: value.to_dict() if hasattr(value, "to_dict") else value for name, value in self._asdict().items()}


def fit_pair(
    schema: Schema, region: Region | None, lam: float, trees: bool, epochs: int | None, seed: int, parts: Parts,
    progress: Callable[[int, int], None],
) -> tuple[Pare | GrantingTrees, Pare | GrantingTrees]:  # fmt: skip
    """A model trained for recourse, and an ordinary one."""
    from turnabout.train import GrantingTrees, Pare, fit_together

    if trees:
        grown = [GrantingTrees(schema, region, lam=weight, rounds=epochs or 5, seed=seed) for weight in (lam, 0.0)]
        first, second = (model.fit(parts.train, parts.accepted[0]) for model in grown)
        return first, second
    nets = [Pare(schema, region, lam=weight, epochs=epochs or 15, seed=seed) for weight in (lam, 0.0)]
    one, other = fit_together(nets, parts.train, parts.accepted[0], progress=progress)
    return one, other


def judge_pair(
    model: Any, ordinary: Any, parts: Parts, epsilon: float, alpha: float
) -> tuple[Certificate, list[ModelLine]]:
    """The model's certificate, and both models on the test people; the ordinary one with a promise and without."""
    from turnabout.train import calibrate

    own, plain = (calibrate(m, parts.calibration, epsilon=epsilon, alpha=alpha) for m in (model, ordinary))
    lines = judged(model, parts, {"trained for recourse": own.threshold})
    lines += judged(ordinary, parts, {"ordinary, same promise": plain.threshold, "ordinary, no promise": None})
    return own, lines


def judged(model: Any, parts: Parts, limits: dict[str, float | None]) -> list[ModelLine]:
    """A model at its thresholds of best F1 on the calibration people, up to each of some limits."""
    import numpy as np

    from turnabout.audit import Rate
    from turnabout.train import best_threshold
    from turnabout.train.certificate import downward

    _, before, outcome = parts.accepted
    scores, reached = model.score_of(parts.test), model.score_of(model.attain(parts.test))
    lines = []
    for name, limit in limits.items():
        highest = best_threshold(model.score_of(parts.calibration), before, 1.0 if limit is None else limit)
        threshold = min(float(downward(highest)), 0.999)  # as certificates print theirs: a promise holds at lower ones
        accepted = scores >= threshold
        reaches = accepted | (reached >= threshold)
        line = ModelLine(
            name,
            float(model.lam),
            limit is not None,
            threshold,
            Rate.among(accepted == outcome),
            float(2 * np.sum(accepted & outcome) / max(1, accepted.sum() + outcome.sum())),
            Rate.among(~accepted),
            Rate.among(reaches[~accepted]),
            Rate.among(reaches),
        )
        lines.append(line)
    return lines


def side_by_side(lines: list[ModelLine]) -> pd.DataFrame:
    """Models beside each other, one measure below the other."""
    import pandas as pd

    measures: dict[str, Callable[[ModelLine], str]] = {
        "weight of recourse": lambda line: f"{line.lam:g}",
        "threshold": lambda line: f"{line.threshold:g}",
        "accuracy": lambda line: in_words(line.accuracy),
        "F1": lambda line: f"{line.f1:.3f}",
        "refused": lambda line: in_words(line.refused),
        "recourse among the refused": lambda line: in_words(line.recourse_refused),
        "accepted or with recourse": lambda line: in_words(line.recourse_all),
    }
    columns = {line.model: [write(line) for write in measures.values()] for line in lines}
    return pd.DataFrame({"measure": list(measures), **columns})


def in_words(rate: Rate) -> str:
    return "nobody" if rate.value is None else f"{rate.value:.3f} ({rate.low:.3f} to {rate.high:.3f})"


# -- calibrating --------------------------------------------------------------------------------------------------


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
    from turnabout.models import wrap

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
    return probability_of(model), best_rows(model, region)


def probability_of(model: Model) -> Callable[[pd.DataFrame], np.ndarray]:
    """table -> P(yes), rounded so that it is never above what the original says."""
    from scipy.special import expit

    def probability(table: pd.DataFrame) -> np.ndarray:
        margin = model.judge(table)
        p = expit(margin) if model.scale == "log-odds" else margin + 0.5
        return (p - HAIR).clip(0.0, 1.0)

    return probability


def best_rows(model: Model, region: Region | None) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """table -> the printed rows that `attain` finds within reach: by steps along the slope, or by trying rows.

    Steps need not lead to the best row there is; the promise is about the rows they lead to.
    """
    from turnabout.models import Differentiable
    from turnabout.rules import Box
    from turnabout.solvers.cell_search import CellSearch
    from turnabout.train import ProjectedSteps, attain

    within = region or Box()
    sloped = isinstance(model, Differentiable)
    if not sloped:
        check_few_move(region, model.schema, "The model has no slope to follow")
    inner: Any = ProjectedSteps(10) if sloped else CellSearch()

    def rule(table: pd.DataFrame) -> pd.DataFrame:
        return attain(model, within, table, inner)

    rule.__name__ = f"the best change that {type(inner).__name__} finds ({within})"  # as the certificate tells it
    return rule
