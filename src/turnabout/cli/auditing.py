"""The command that audits recourse before it is offered: risk, groups, robustness, as JSON and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnabout.cli.app import app
from turnabout.cli.audited import Observed, as_trained, read_groups, read_repaid, told_labels
from turnabout.cli.named_files import Target
from turnabout.cli.recourse import method_named, read_landing
from turnabout.cli.reports import LoadedFiles, check_out, heard, made_with, pose, write_report
from turnabout.cli.screen import say, stdout_for_data
from turnabout.progress_bar import Bar

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from turnabout.audit.fairness.outcomes import Noise
    from turnabout.audit.risk.risk_report import RiskReport
    from turnabout.core import Method, Problem, Recourse
    from turnabout.typing import Json

VERSION = 1
PASSED = ("accept", "compliance", "gain", "loss", "observed", "outside", "bootstrap", "seed")


@app.command("audit")
def audit_recourse(
    people: Annotated[
        str,
        typer.Argument(
            help="Table of people the model was not trained on, with outcomes: .csv, .parquet or .json; - for stdin."
        ),
    ],
    model: Annotated[
        Path, typer.Option(help="Fitted model saved with joblib or pickle. Loading runs code: trust it first.")
    ],
    labels: Annotated[str, typer.Option(help="Column of the people that says who truly repaid.")],
    yes: Annotated[str | None, typer.Option(help="The favourable value of the labels; true and 1 if left out.")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="Schema, YAML or JSON; drafted from the table if left out.")
    ] = None,
    background: Annotated[
        str | None,
        typer.Option(help="Training people, for methods that look at them; the people themselves if left out."),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="One of `turnabout methods`; picked by the model if left out.")
    ] = None,
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
        float, typer.Option(help="Slips in execution, in standard deviations of each column; 0 for none.", min=0)
    ] = 0.1,
    retrain: Annotated[
        int,
        typer.Option(help="Models to train again on --background, to see which options they honor; 0 for none.", min=0),
    ] = 0,
    bootstrap: Annotated[int, typer.Option(help="Replicates behind the intervals.", min=100)] = 2000,
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
    """Audit recourse before it is offered: does it raise the risk of wrong decisions, for whom, and does it last?

    Finds options for everyone refused, and judges what would happen if people took them.
    """
    from turnabout.render.audit_page import audit_page, break_even_words, verdict_sentence
    from turnabout.render.page import HARD

    files = check_out(out)
    chosen = None if method is None else method_named(method)
    if (gain is None) != (loss is None):
        raise typer.BadParameter("--gain and --loss go together.", param_hint="--gain" if gain is None else "--loss")
    if read_landing(landing) is not None and landing == "mirror" and observed == "approved":
        raise typer.BadParameter(
            "a mirror landing asks how likely the refused are to repay, and their outcomes are not known; use a "
            "probability.",
            param_hint="--landing",
        )
    asked: Json = {"people": people, "model": str(model), "labels": labels, "observed": observed, "accept": accept}
    asked |= {"compliance": compliance, "gain": gain, "loss": loss, "landing": landing, "noise": noise, "seed": seed}
    asked |= {
        "outside": outside,
        "retrain": retrain,
        "bootstrap": bootstrap,
        "groups": groups or [],
        "background": background,
    }
    with stdout_for_data(), heard() as warned:
        question = pose(people, model, schema, background, threshold, target, id_column, (labels, *(groups or ())))
        repaid = read_repaid(question, labels, yes, observed)
        parts = read_groups(question.table, groups or [])
        audit = _Audit(question, repaid, asked)
        document = audit.run(chosen, parts, threshold, yes)
    for note in audit.notes:
        say(f"note: {note}")
    document |= {"warnings": warned, "notes": audit.notes} | made_with()
    risk = document["risk"]
    say(f"{risk['verdict']}: {verdict_sentence(risk)}")
    say(f"{risk['n']} people, {risk['refused']} refused, {risk['offered']} with an option.")
    say(f"Break-even compliance: {break_even_words(risk).replace(HARD, ' ')}.")
    write_report(document, audit_page, files)


class _Audit:
    """The calls behind one report; each part is what a public function of `turnabout.audit` returns."""

    def __init__(self, question: LoadedFiles, repaid: Any, asked: Json):
        self.question, self.repaid, self.asked = question, repaid, asked
        self.seed: int = asked["seed"]
        self.people = question.schema.table(question.table)
        self.notes = list(question.notes)

    def run(self, chosen: Method | None, parts: pd.DataFrame, threshold: float | None, yes: str | None) -> Json:
        from turnabout.audit.fairness.subgroups import worst_subgroup
        from turnabout.audit.promises.lasting import lasting
        from turnabout.audit.risk.price import price_of_landing
        from turnabout.documents.frames import plain as as_json
        from turnabout.render.plane import landing_plane

        problem, train = self._problem(yes)
        plain, landed = self._answers(problem, chosen)
        answer = plain if landed is None else landed
        say(repr(answer))
        risk, *others = [self._risk(answer, parts[name]) for name in parts] or [self._risk(answer)]
        noise = self._noise(problem)
        refits = self._retrained(problem, answer, train, threshold)
        lasts = lasting(problem, answer, noise=noise, retrained=[] if refits is None else [refits], seed=self.seed)
        worst = worst_subgroup(problem, answer, seed=self.seed)
        document: Json = {"turnabout_audit": VERSION, "asked": self.asked, "model": self._model()}
        document |= {
            "answer": {
                "made_by": answer.made_by,
                "yes": answer.yes,
                "counts": answer.counts(),
                "seconds": answer.seconds,
            }
        }
        document |= {"risk": risk.to_dict(), "groups": by_attribute(parts, [risk, *others])}
        document |= {"fairness": self._fairness(problem, answer, parts, noise)}
        document |= {"subgroup": worst.to_dict()}
        document |= {
            "lasting": lasts.to_dict(),
            "retrained": None if refits is None else _without_options(refits.to_dict()),
        }
        document |= {"price": None, "without_landing": None}
        if landed is not None:
            document |= {
                "price": price_of_landing(plain, landed).to_dict(),
                "without_landing": self._risk(plain).to_dict(),
            }
        document["plane"] = landing_plane(problem, answer, seed=self.seed)
        moved = risk.landings()
        moved = moved[moved["moved"]].drop(columns="moved")
        columns = {name: [as_json(v) for v in moved[name]] for name in moved}
        return document | {"landings": {"person": [str(label) for label in moved.index], **columns}}

    def _model(self) -> Json:
        model = self.question.model
        return {
            "title": repr(model),
            "features": [{"name": f.name, "title": f.title, "moves": f.moves} for f in model.schema],
        }

    def _problem(self, yes: str | None) -> tuple[Problem, tuple[pd.DataFrame, Any] | None]:
        """The question of recourse; and the training people with their labels, where they are known."""
        from turnabout.core import Problem

        question, labels, train = self.question, self.asked["labels"], None
        rows, good = question.background, None
        if rows is not None and labels in rows.columns and rows[labels].notna().all():
            good = told_labels(rows, labels, yes, question)
            train = rows, as_trained(rows[labels], good, question)
        elif rows is None and self.asked["observed"] == "all":
            good = self.repaid
        if self.asked["retrain"] and train is None:
            raise typer.BadParameter(
                "the model is trained again on the people it was trained on: give them by --background, with "
                f"{labels!r}.",
                param_hint="--retrain",
            )
        background = self.people if rows is None else question.schema.table(rows)
        return Problem(question.schema, question.model, rules=question.rules, background=background, labels=good), train

    def _answers(self, problem: Problem, chosen: Method | None) -> tuple[Recourse, Recourse | None]:
        """Options as they come, and those that land where asked."""
        from turnabout.core.landing_targets import Calibration
        from turnabout.methods.choice import choose

        method = choose(problem) if chosen is None else chosen.fit(problem)
        with Bar("finding recourse") as progress:
            plain = method.find(self.people, seed=self.seed, progress=progress)
        if self.asked["landing"] is None:
            return plain, None
        known = self._known()
        eta = Calibration.of(self.question.model, self.people[known], self.repaid[known].astype(bool))
        landing = read_landing(self.asked["landing"], eta)
        with Bar("landing higher") as progress:
            return plain, method.find(self.people, seed=self.seed, progress=progress, landing=landing)

    def _noise(self, problem: Problem) -> Noise | None:
        """Slips in execution; none where they were not asked for, or where there is nothing to shake."""
        from turnabout.audit.fairness.outcomes import Noise
        from turnabout.audit.wobble import wobble
        from turnabout.errors import ProblemError

        if not self.asked["noise"]:
            return None
        noise = Noise(deviations=self.asked["noise"])
        try:
            wobble(problem, noise.sd, noise.deviations)
        except ProblemError as error:
            self.notes.append(f"slips in execution are left out: {error.message}")
            return None
        return noise

    def _known(self) -> np.ndarray:
        """(n,) whose outcome is known."""
        import numpy as np

        if self.asked["observed"] == "all":
            return np.ones(len(self.people), dtype=bool)
        return np.asarray(self.question.model.judge(self.people)) >= 0

    def _risk(self, answer: Recourse, groups: pd.Series | None = None) -> RiskReport:
        from turnabout.audit.risk.risk_of_recourse import risk_of_recourse

        return risk_of_recourse(
            self.question.model, self.people, self.repaid, answer, groups=groups,
            **{name: self.asked[name] for name in PASSED},
        )  # fmt: skip

    def _fairness(self, problem: Problem, answer: Recourse, parts: pd.DataFrame, noise: Noise | None) -> Json | None:
        from turnabout.audit.fairness.fairness_of_recourse import fairness_of_recourse

        if not parts.shape[1]:
            return None
        return fairness_of_recourse(problem, answer, parts, noise=noise, seed=self.seed).to_dict()

    def _retrained(
        self, problem: Problem, answer: Recourse, train: tuple[pd.DataFrame, Any] | None, threshold: float | None
    ) -> Any:
        from turnabout.audit.promises.retrain import after_retraining
        from turnabout.audit.promises.training_sets import Bootstrap

        if not self.asked["retrain"] or train is None:
            return None
        with Bar("training again") as progress:
            return after_retraining(
                problem,
                answer,
                self.question.fitted,
                *train,
                retrain=Bootstrap(models=self.asked["retrain"]),
                threshold=threshold,
                target=self.question.target,
                seed=self.seed,
                progress=progress,
            )


def by_attribute(parts: pd.DataFrame, reports: list[RiskReport]) -> list[Json]:
    """The groups of each attribute, from the report that was made with them."""
    pairs = zip(parts, reports, strict=False)  # without attributes there is one report, and nothing to tell
    return [{"attribute": str(name), "groups": [group.to_dict() for group in report.groups]} for name, report in pairs]


def _without_options(retrained: Json) -> Json:
    """A report on retraining, less the line of every option."""
    return {name: value for name, value in retrained.items() if name != "options"}
