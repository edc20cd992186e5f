"""Why people were refused, and what of it they can change, as one document."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, get_args

from turnabout.core import Attribution, Method, Problem, Recourse
from turnabout.core.arguments import as_progress
from turnabout.core.limits import limits_left
from turnabout.core.report_parts import answer_part, model_part, readable_people
from turnabout.documents import Document
from turnabout.documents.frames import plain
from turnabout.errors import ExplainError
from turnabout.explain.explainer import Explainer
from turnabout.explain.presets import attribute
from turnabout.explain.reason_codes.reasons import Reasons, reasons
from turnabout.explain.reason_codes.responsiveness import Responsiveness, responsiveness
from turnabout.explain.score import Output
from turnabout.markup import report_html
from turnabout.methods.choice import fitted_to
from turnabout.parameters import Choice, Instance, Whole, checked
from turnabout.provenance import as_asked, call_of, recorded, versions
from turnabout.schema import as_frame
from turnabout.typing import Json, Progress

VERSION = 1


@dataclass(frozen=True, eq=False)
class ExplainReport(Document):
    """Attributions of everyone and reasons of the refused; from `report`, drawn by `render.explain_page`.

    Attributes
    ----------
    asked : the parameters, as plain values.
    model : its title and its columns, as plain values.
    attribution : what each column counts for, of everyone.
    reasons : why people were refused, each reason checked against the plan.
    responsiveness : what a change of one column alone can do.
    answer : the plans that reasons were checked against.
    letters : person and text, of the first refused people.
    warnings, notes : what a reader must know.
    command, versions : what made the report.
    """

    asked: Json
    model: Json
    attribution: Attribution
    reasons: Reasons
    responsiveness: Responsiveness
    answer: Recourse
    letters: tuple[Json, ...]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    _repr_html_ = report_html

    @property
    def summary(self) -> tuple[str, ...]:
        """What was found, in two or three lines."""
        return (*str(self.reasons).split("\n")[:2], str(self.responsiveness).split("\n")[0])

    def __str__(self) -> str:
        lines = (repr(self.attribution), *self.summary, *(f"note: {note}" for note in self.notes))
        return "\n".join([*lines, "An attribution is not a distance to the boundary, and not advice."])

    def to_dict(self) -> Json:
        """Plain values for JSON, as `turnabout explain` writes them."""
        return {
            "turnabout_explain": VERSION,
            "model": self.model,
            "attribution": self.attribution.to_dict(),
            "reasons": self.reasons.to_dict(),
            "responsiveness": self.responsiveness.to_dict(),
            "answer": answer_part(self.answer),
            "summary": list(self.summary),
            "letters": list(self.letters),
            "asked": self.asked,
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "command": self.command,
            "versions": self.versions,
        }


@checked(
    ExplainError,
    problem=Instance(Problem, hint="write Problem(schema, model, background=train_people)."),
    output=Choice(*get_args(Output)),
    most=Whole(1),
    seed=Whole(0),
)
def report(
    problem: Problem,
    people: Any,
    *,
    explainer: Explainer | type[Explainer] | str | None = None,
    output: Output = "margin",
    method: Method | type[Method] | str | None = None,
    most: int = 20,
    limits: Any = None,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> ExplainReport:
    """Say why the model decides as it does: attributions for everyone, reasons for the refused.

    An attribution is no distance to the boundary and no advice. Reasons are checked: can they change it, does a change
    of it alone turn the decision, does the plan use it? `turnabout explain` writes this report.

        report = ta.explain.report(problem, people)
        html = render.explain_page(report)

    People whose row cannot be read are left out, and a note says so.

    Parameters
    ----------
    problem : the model, what people may do and what it costs. Its background stands in for removed features; without
        one the people do.
    people : a table.
    explainer : how to explain, or its name, such as "kernel-shap"; Shapley values, exact where feasible, when None.
    output : explain the margin, or P(yes).
    method : what finds the plans that reasons are checked against, or its name; chosen by what the model offers when
        None.
    most : refused people whose reasons are written out, the first ones.
    limits : what single people will not or cannot change, as of `Method.find`; plans and reasons keep to it.
    seed : same seed, same report.
    progress : called with (people done, people in all) while plans are searched; True for a bar.
    """
    called = as_progress(progress)
    with recorded() as warned:
        given, _, notes = readable_people(as_frame(people), problem.schema)
        table = problem.schema.table(given)
        own = limits_left(limits, as_frame(people).index, table.index, problem.schema)
        attribution = attribute(problem, table, explainer, output, seed)
        answer = fitted_to(problem, method).find(table, seed=seed, progress=called, limits=own)
        told = reasons(answer, problem, attribution if attribution.kind == "contribution" else None, limits=own)
        made = ExplainReport(
            {"explainer": as_asked(explainer), "output": output, "most": most, "limits": len(own), "seed": seed},
            model_part(problem.model),
            attribution,
            told,
            responsiveness(problem, answer.people, limits=own),
            answer,
            tuple({"person": plain(person), "text": told.of(person)} for person in told.people.index[:most]),
            notes=notes,
            versions=versions(),
        )
    command = call_of("turnabout.explain.report", "problem, people", made.asked)
    return replace(made, warnings=tuple(warned), command=command)
