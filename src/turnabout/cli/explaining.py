"""The command that says why: attributions, reasons and responsiveness, as JSON and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turnabout.cli.app import app
from turnabout.cli.named_files import Target
from turnabout.cli.recourse import method_named
from turnabout.cli.reports import LoadedFiles, check_out, heard, made_with, pose, write_report
from turnabout.cli.screen import say, stdout_for_data
from turnabout.progress_bar import Bar

if TYPE_CHECKING:
    from turnabout.core import Attribution, Problem
    from turnabout.explain.explainer import Explainer
    from turnabout.explain.score import Output
    from turnabout.typing import Json

VERSION = 1
EXPLAINERS = {
    "exact-shapley": "ExactShapley",
    "kernel-shap": "KernelShap",
    "lime": "LimeTable",
    "c-lime": "CLime",
    "occlusion": "Occlusion",
    "gradient": "Gradient",
    "smooth-grad": "SmoothGrad",
    "integrated-gradients": "IntegratedGradients",
    "gradient-times-input": "GradientTimesInput",
}
"""Names here, and in `turnabout.explain`."""
ALL_COALITIONS = 11  # features up to which asking about all coalitions takes no longer than sampling them
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


@app.command("explain")
def explain_people(
    people: Annotated[
        str, typer.Argument(help="Table of people: .csv, .tsv, .parquet, .json or .jsonl; - for CSV on stdin.")
    ],
    model: Annotated[
        Path, typer.Option(help="Fitted model saved with joblib or pickle. Loading runs code: trust it first.")
    ],
    schema: Annotated[
        Path | None, typer.Option(help="Schema, YAML or JSON; drafted from the table if left out.")
    ] = None,
    background: Annotated[
        str | None,
        typer.Option(help="Ordinary people, who stand in for removed features; the people themselves if left out."),
    ] = None,
    explainer: Annotated[
        Name | None, typer.Option(help="How to explain; Shapley values, exact where that is feasible, if left out.")
    ] = None,
    output: Annotated[
        Literal["margin", "probability"], typer.Option(help="What to explain: the margin, or P(yes).")
    ] = "margin",
    method: Annotated[
        str | None,
        typer.Option(
            help="One of `turnabout methods`, for the plans that reasons are checked against; picked if left out."
        ),
    ] = None,
    most: Annotated[int, typer.Option(help="Refused people shown in the page, the first ones.", min=1)] = 20,
    threshold: Annotated[
        float | None, typer.Option(help="Accepted when P(yes) is at least this; the model's own rule if left out.")
    ] = None,
    target: Target = None,
    seed: Annotated[int, typer.Option(help="Same seed, same report.", min=0)] = 0,
    id_column: Annotated[str | None, typer.Option("--id", help="Column that names each person.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Name for NAME.json and the page NAME.html; JSON on stdout if left out.")
    ] = None,
) -> None:
    """Say why the model decides as it does: attributions for everyone, reasons for the refused.

    An attribution is no distance to the boundary and no advice. Reasons are checked: can they change it, does a change
    of it alone turn the decision, does the plan use it?
    """
    from turnabout.core import Problem
    from turnabout.methods.choice import choose
    from turnabout.render.explain_page import explain_page

    files = check_out(out)
    chosen = None if method is None else method_named(method)
    with stdout_for_data(), heard() as warned:
        question = pose(people, model, schema, background, threshold, target, id_column)
        table = question.schema.table(question.table)
        rows = table if question.background is None else question.schema.table(question.background)
        problem = Problem(question.schema, question.model, rules=question.rules, background=rows)
        for note in question.notes:
            say(f"note: {note}")
        attribution = attribute(question, problem, explainer, output, seed)
        finder = choose(problem) if chosen is None else chosen.fit(problem)
        with Bar("finding recourse") as progress:
            answer = finder.find(table, seed=seed, progress=progress)
        document = assemble(problem, attribution, answer, most)
    asked: Json = {"people": people, "model": str(model), "background": background, "output": output}
    document |= {"asked": asked | {"most": most, "seed": seed}, "warnings": warned, "notes": list(question.notes)}
    say(repr(attribution))
    for line in document["summary"]:
        say(line)
    say("An attribution is not a distance to the boundary, and not advice.")
    write_report(document | made_with(), explain_page, files)


def assemble(problem: Problem, attribution: Attribution, answer: object, most: int) -> Json:
    """The document, of which the page is drawn."""
    from turnabout.core import Recourse
    from turnabout.documents.frames import plain
    from turnabout.explain import reasons, responsiveness

    assert isinstance(answer, Recourse)
    told = reasons(answer, problem, attribution if attribution.kind == "contribution" else None)
    answers = responsiveness(problem, answer.people)
    refused = list(told.people.index)
    model: Json = {"title": repr(problem.model)}
    model |= {"features": [{"name": f.name, "title": f.title, "moves": f.moves} for f in problem.schema]}
    return {
        "turnabout_explain": VERSION,
        "model": model,
        "attribution": attribution.to_dict(),
        "reasons": told.to_dict(),
        "responsiveness": answers.to_dict(),
        "answer": {"made_by": answer.made_by, "yes": answer.yes, "counts": answer.counts(), "seconds": answer.seconds},
        "summary": [str(told).split("\n")[0], *str(told).split("\n")[1:2], str(answers).split("\n")[0]],
        "letters": [{"person": plain(person), "text": told.of(person)} for person in refused[:most]],
    }


def attribute(question: LoadedFiles, problem: Problem, name: Name | None, output: Output, seed: int) -> Attribution:
    """Attributions of everyone, by the explainer named, or by Shapley values."""
    from turnabout import explain
    from turnabout.errors import ExplainError

    people, rows = question.schema.table(question.table), problem.background

    def run(explainer: Explainer) -> Attribution:
        return explainer.explain(question.model, people, background=rows, output=output, seed=seed)

    if name is not None:
        return run(getattr(explain, EXPLAINERS[name])())
    try:
        return run(explain.ExactShapley(limit=ALL_COALITIONS))
    except ExplainError:
        if len(question.schema) <= ALL_COALITIONS:
            raise
        return run(explain.KernelShap())
