"""The command that audits recourse before it is offered: risk, groups, robustness, as JSON and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from turnabout.cli.app import app
from turnabout.cli.audited import Observed, group_columns, known_labels, read_repaid, retraining
from turnabout.cli.posed_question import NamedFiles, pose
from turnabout.cli.recourse import method_named, read_landing
from turnabout.cli.reports import check_out, of_files, write_report
from turnabout.cli.screen import say, stdout_for_data
from turnabout.cli.shared_options import (
    CostFile,
    IdColumn,
    LimitsFile,
    MethodName,
    ModelFile,
    Out,
    RulesFile,
    SchemaFile,
    Seed,
    Target,
    Threshold,
    Yes,
)
from turnabout.progress_bar import Bar

if TYPE_CHECKING:
    from turnabout.audit import AuditReport


# over 80 lines because its options are documented
@app.command("audit")
def audit_recourse(
    people: Annotated[
        str,
        typer.Argument(
            help="Table of people the model was not trained on, with outcomes: .csv, .parquet or .json; - for stdin."
        ),
    ],
    model: ModelFile,
    labels: Annotated[str, typer.Option(help="Column of the people that says who truly repaid.")],
    yes: Yes = None,
    schema: SchemaFile = None,
    background: Annotated[
        str | None,
        typer.Option(help="Training people, for methods that look at them; the people themselves if left out."),
    ] = None,
    rules: RulesFile = None,
    cost: CostFile = None,
    limits: LimitsFile = None,
    method: MethodName = None,
    groups: Annotated[
        list[str] | None,
        typer.Option(help="Column that names each person's group, also one that is no feature; may be repeated."),
    ] = None,
    accept: Annotated[float, typer.Option(help="Probability that a person takes up their option.", min=0, max=1)] = 1.0,
    compliance: Annotated[
        float, typer.Option(help="Share of the improvement that is real: 1 compliant, 0 defiant.", min=0, max=1)
    ] = 1.0,
    gain: Annotated[float | None, typer.Option(help="Gain on a loan that is repaid; with --loss.")] = None,
    loss: Annotated[float | None, typer.Option(help="Loss on a loan that is not repaid; with --gain.")] = None,
    landing: Annotated[
        str | None,
        typer.Option(
            help="Where options must land: a probability of repaying, like 0.7, or `mirror`. Tells its price."
        ),
    ] = None,
    observed: Annotated[
        Observed,
        typer.Option(help="Whose outcomes are known: of all, or of the approved alone; then bounds are given."),
    ] = "all",
    outside: Annotated[
        float,
        typer.Option(
            help="Largest share of landing points beyond the data with which a report is given.", min=0, max=1
        ),
    ] = 0.2,
    noise: Annotated[
        float, typer.Option(help="Execution noise, in standard deviations of each column; 0 for none.", min=0)
    ] = 0.1,
    retrain: Annotated[
        int,
        typer.Option(help="Models to train again on --background, to see which options they honor; 0 for none.", min=0),
    ] = 0,
    bootstrap: Annotated[int, typer.Option(help="Replicates behind the intervals.", min=100)] = 2000,
    threshold: Threshold = None,
    target: Target = None,
    seed: Seed = 0,
    id_column: IdColumn = None,
    out: Out = None,
) -> None:
    """Audit recourse before it is offered: does it raise the risk of wrong decisions, for whom, and does it last?

    Finds options for everyone refused, and judges what would happen if people took them.
    """
    from turnabout import audit
    from turnabout.provenance import recorded
    from turnabout.render.audit_page import audit_page

    files = check_out(out)
    chosen = None if method is None else method_named(method)
    _check_together(gain, loss, landing, observed)
    where = read_landing(landing)
    named = NamedFiles(
        people, model, schema, background, rules, cost, limits, threshold, target, id_column,
        beside=(labels, *(groups or ())),
    )  # fmt: skip
    with stdout_for_data(), recorded() as warned, Bar("auditing") as progress:
        question = pose(named, for_report=True)
        repaid = read_repaid(question, labels, yes, observed)
        attributes = group_columns(question.table, groups or [])
        known = known_labels(question, labels, yes, repaid if observed == "all" else None)
        again = retraining(question, labels, known, retrain, threshold)
        report = audit.report(
            question.problem(question.table if question.background is None else question.background, known),
            question.table, repaid, method=chosen, groups=attributes, accept=accept, compliance=compliance, gain=gain,
            loss=loss, landing=where, observed=observed, outside=outside, noise=noise, retrain=again,
            bootstrap=bootstrap, seed=seed, progress=progress, limits=question.limits,
        )  # fmt: skip
    asked = {"people": people, "model": str(model), "labels": labels, "background": background, "landing": landing}
    report = of_files(report, question, asked, warned)
    _tell(report)
    write_report(report, audit_page, files)


def _check_together(gain: float | None, loss: float | None, landing: str | None, observed: Observed) -> None:
    """Refuse options that make no sense together."""
    if (gain is None) != (loss is None):
        raise typer.BadParameter("--gain and --loss go together.", param_hint="--gain" if gain is None else "--loss")
    if landing == "mirror" and observed == "approved":
        raise typer.BadParameter(
            "a mirror landing asks how likely the refused are to repay, and their outcomes are not known; use a "
            "probability.",
            param_hint="--landing",
        )


def _tell(report: AuditReport) -> None:
    """The report in a few lines on stderr."""
    from turnabout.render.audit_page import break_even_words, verdict_sentence
    from turnabout.render.page import HARD, sentence

    for note in report.notes:
        say(f"note: {note}")
    risk = report.risk.to_dict()
    say(repr(report.answer))
    say(f"{risk['verdict']}: {verdict_sentence(risk)}")
    say(f"{risk['n']} people, {risk['refused']} refused, {risk['offered']} with an option.")
    say(f"Break-even compliance: {break_even_words(risk).replace(HARD, ' ')}.")
    concerns = len(report.review)
    say(f"A reader would question {concerns} {'thing' if concerns == 1 else 'things'} about these options.")
    for paid in report.incentives.wrong:
        say(sentence(str(paid)))
