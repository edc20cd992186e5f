"""The command that says why: attributions, reasons and responsiveness, as JSON and as a page."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from turnabout.cli.app import app
from turnabout.cli.posed_question import NamedFiles, pose
from turnabout.cli.recourse import method_named
from turnabout.cli.reports import check_out, of_files, write_report
from turnabout.cli.screen import say, stdout_for_data
from turnabout.cli.shared_options import (
    CostFile,
    IdColumn,
    LimitsFile,
    MethodName,
    ModelFile,
    Out,
    PeopleFile,
    RulesFile,
    SchemaFile,
    Seed,
    Target,
    Threshold,
)
from turnabout.progress_bar import Bar

Name = Literal[
    "exact-shapley",
    "kernel-shap",
    "lime",
    "c-lime",
    "occlusion",
    "gradient",
    "smooth-grad",
    "integrated-gradients",
    "gradient-times-input",
]
"""The names of `turnabout.explain.presets`, which the command line does not load to show its help."""


@app.command("explain")
def explain_people(
    people: PeopleFile,
    model: ModelFile,
    schema: SchemaFile = None,
    background: Annotated[
        str | None,
        typer.Option(help="Ordinary people, who stand in for removed features; the people themselves if left out."),
    ] = None,
    rules: RulesFile = None,
    cost: CostFile = None,
    limits: LimitsFile = None,
    explainer: Annotated[
        Name | None, typer.Option(help="How to explain; Shapley values, exact where that is feasible, if left out.")
    ] = None,
    output: Annotated[
        Literal["margin", "probability"], typer.Option(help="What to explain: the margin, or P(yes).")
    ] = "margin",
    method: MethodName = None,
    most: Annotated[int, typer.Option(help="Refused people shown in the page, the first ones.", min=1)] = 20,
    threshold: Threshold = None,
    target: Target = None,
    seed: Seed = 0,
    id_column: IdColumn = None,
    out: Out = None,
) -> None:
    """Say why the model decides as it does: attributions for everyone, reasons for the refused.

    An attribution is no distance to the boundary and no advice. Reasons are checked: can they change it, does a change
    of it alone turn the decision, does the plan use it?
    """
    from turnabout import explain
    from turnabout.provenance import recorded
    from turnabout.render.explain_page import explain_page

    files = check_out(out)
    chosen = None if method is None else method_named(method)
    named = NamedFiles(
        people, model, schema, background, rules, cost, limits, threshold=threshold, target=target, id_column=id_column
    )
    with stdout_for_data(), recorded() as warned, Bar("finding recourse") as progress:
        question = pose(named, for_report=True)
        rows = question.table if question.background is None else question.background
        report = explain.report(
            question.problem(rows), question.table, explainer=explainer, output=output, method=chosen, most=most,
            seed=seed, progress=progress, limits=question.limits,
        )  # fmt: skip
    report = of_files(report, question, {"people": people, "model": str(model), "background": background}, warned)
    say(str(report))
    write_report(report, explain_page, files)
