"""The audit of recourse before it is offered: risk, groups, robustness and price, as one document."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from turnabout.audit.aligned import aligned
from turnabout.audit.execution_noise import execution_noise
from turnabout.audit.fairness.fairness_of_recourse import Fairness, fairness_of_recourse
from turnabout.audit.fairness.grouping import group_words
from turnabout.audit.fairness.outcomes import Noise
from turnabout.audit.fairness.subgroups import Subgroup, worst_subgroup
from turnabout.audit.incentives import Incentives, incentives
from turnabout.audit.promises.lasting import Lasting, lasting
from turnabout.audit.promises.retrain import Retrained, Retraining, after_retraining
from turnabout.audit.risk.accepting import Accept
from turnabout.audit.risk.compliance import Compliance
from turnabout.audit.risk.landing_plane import landing_plane
from turnabout.audit.risk.price import LandingPrice, price_of_landing
from turnabout.audit.risk.risk_of_recourse import risk_of_recourse
from turnabout.audit.risk.risk_people import read_labels
from turnabout.audit.risk.risk_report import RiskReport
from turnabout.core import Method, Problem, Recourse
from turnabout.core.arguments import as_landing, as_progress
from turnabout.core.landing_targets import Calibration, Landing, Mirror
from turnabout.core.limits import limits_left
from turnabout.core.report_parts import answer_part, model_part, readable_people
from turnabout.core.second_look import Review
from turnabout.documents import Document
from turnabout.documents.frames import plain
from turnabout.errors import AuditError, ProblemError
from turnabout.markup import report_html
from turnabout.methods.choice import fitted_to
from turnabout.parameters import Choice, Declared, Finite, Instance, Maybe, Positive, Share, Whole, checked
from turnabout.provenance import as_asked, call_of, recorded, versions
from turnabout.schema import as_frame
from turnabout.typing import Json, Progress

VERSION = 1
DEVIATIONS = Declared(AuditError, noise=Finite(least=0, hint="use 0.1, or 0 for none."))


@dataclass(frozen=True, eq=False)
class AuditReport(Document):
    """What an audit says of recourse before it is offered; from `report`, drawn by `render.audit_page`.

    Attributes
    ----------
    asked : the parameters, as plain values.
    model : its title and its columns, as plain values.
    answer : the options that were judged: those that land where asked.
    risk : what becomes of the lender's risk, with the groups of the first attribute.
    by_attribute : the same by the groups of each attribute; empty without groups.
    fairness : who has recourse, and at what price; None without groups.
    subgroup : the group of people that is worst off, described by their columns.
    review : what a careful reader of the options would question before a letter goes out.
    incentives : what the model pays people for: columns that it rewards for going the wrong way.
    lasting : which share of options survives execution noise and retrained models.
    retrained : what retrained models say; None where none was asked for.
    price, without_landing : what landing higher costs people, and the risk without it; None without a landing.
    plane : where people stand and where they land, as `draw_landings` takes it.
    warnings, notes : what a reader must know.
    command, versions : what made the report.
    """

    asked: Json
    model: Json
    answer: Recourse
    risk: RiskReport
    by_attribute: dict[Hashable, RiskReport]
    fairness: Fairness | None
    subgroup: Subgroup
    review: Review
    incentives: Incentives
    lasting: Lasting
    retrained: Retrained | None
    price: LandingPrice | None
    without_landing: RiskReport | None
    plane: Json
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    _repr_html_ = report_html

    def __str__(self) -> str:
        parts = (
            self.risk, self.fairness, self.subgroup, self.review, self.incentives, self.lasting, self.retrained,
            self.price,
        )  # fmt: skip
        told = [f"audit of recourse by {self.answer.made_by}", *(str(part) for part in parts if part is not None)]
        return "\n\n".join([*told, *(f"note: {note}" for note in self.notes)])

    def to_dict(self) -> Json:
        """Plain values for JSON, as `turnabout audit` writes them; without the lines of single options."""
        groups = [
            {"attribute": str(name), "groups": [group.to_dict() for group in risk.groups]}
            for name, risk in self.by_attribute.items()
        ]
        retrained = None if self.retrained is None else self.retrained.to_dict()
        if retrained is not None:
            del retrained["options"]
        moved = self.risk.landings()
        moved = moved[moved["moved"]].drop(columns="moved")
        landings = {name: [plain(value) for value in moved[name]] for name in moved}
        return {
            "turnabout_audit": VERSION,
            "asked": self.asked,
            "model": self.model,
            "answer": answer_part(self.answer),
            "risk": self.risk.to_dict(),
            "groups": groups,
            "fairness": None if self.fairness is None else self.fairness.to_dict(),
            "subgroup": self.subgroup.to_dict(),
            "review": self.review.to_dict(),
            "incentives": self.incentives.to_dict(),
            "lasting": self.lasting.to_dict(),
            "retrained": retrained,
            "price": None if self.price is None else self.price.to_dict(),
            "without_landing": None if self.without_landing is None else self.without_landing.to_dict(),
            "plane": self.plane,
            "landings": {"person": [str(label) for label in moved.index], **landings},
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "command": self.command,
            "versions": self.versions,
        }


# over 80 lines because its parameters are documented
@checked(
    AuditError,
    problem=Instance(Problem, hint="write Problem(schema, model, background=train_people)."),
    gain=Maybe(Positive(hint="use a number above 0, in any currency.")),
    loss=Maybe(Positive(hint="use a number above 0, in any currency.")),
    observed=Choice("all", "approved"),
    outside=Share(),
    retrain=Maybe(Instance(Retraining, hint="write Retraining(estimator, train_people, train_labels).")),
    bootstrap=Whole(100),
    seed=Whole(0),
)
def report(
    problem: Problem,
    people: Any,
    labels: Any,
    *,
    method: Method | type[Method] | str | None = None,
    groups: Any = None,
    accept: Accept = 1.0,
    compliance: Compliance = 1.0,
    gain: float | None = None,
    loss: float | None = None,
    landing: Landing | float | str | None = None,
    observed: Literal["all", "approved"] = "all",
    outside: float = 0.2,
    noise: Noise | float | None = 0.1,
    retrain: Retraining | None = None,
    bootstrap: int = 2000,
    limits: Any = None,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> AuditReport:
    """Audit recourse before it is offered: does it raise the risk of wrong decisions, for whom, and does it last?

    Finds options for everyone refused, and judges what would happen if people took them. Each part is what a function
    of `turnabout.audit` returns; `turnabout audit` writes this report.

        report = ta.audit.report(problem, test.people, test.accepted, groups=test.people[["sex"]], compliance=0.8)
        html = render.audit_page(report)

    Use it before the first letter is sent, on people on whom the model was not trained. People whose row cannot be read
    are left out, and a note says so.

    Parameters
    ----------
    problem : the model, what people may do and what it costs; with a background, on which execution noise is measured.
    people, labels : a table, and who truly repaid. With observed="approved", labels of the refused are not looked at.
    method : what finds the options, or its name; chosen by what the model offers when None.
    groups : a table with one column for each attribute, also of columns that are no features, or one column; numbers
        of many values are cut into quarters.
    accept, compliance, gain, loss, observed, outside, bootstrap : as of `risk_of_recourse`.
    landing : where options must land: `landing.Probability(0.7)`, a probability, or "mirror"; its price is told. Where
        it says nothing of P(good), the model is calibrated on the people whose outcome is known.
    noise : execution noise: `Noise`, or standard deviations of each column; None or 0 for none.
    retrain : how the model was made, to train it again and see which options it honors.
    limits : what single people will not or cannot change, as of `Method.find`; options keep to it.
    seed : same seed, same report.
    progress : called with (done, total), from 0 again for each search; True for a bar.
    """
    if (gain is None) != (loss is None):
        raise AuditError("gain= and loss= go together.", hint="give both, or none.")
    called = as_progress(progress)
    with recorded() as warned:
        whom = _read(problem, people, labels, groups, observed)
        noise_used, noise_notes = _execution_noise(problem, noise)
        lands = _landing(problem, whom, landing, observed)
        fitted = fitted_to(problem, method)
        own = limits_left(limits, as_frame(people).index, whom.people.index, problem.schema)
        find = partial(fitted.find, whom.people, seed=seed, progress=called, limits=own)
        first = find()
        answer = first if lands is None else find(landing=lands)
        risk_of = partial(
            risk_of_recourse, problem.model, whom.people, whom.labels, accept=accept, compliance=compliance, gain=gain,
            loss=loss, observed=observed, outside=outside, bootstrap=bootstrap, seed=seed,
        )  # fmt: skip
        by_attribute: dict[Hashable, RiskReport] = {
            name: risk_of(answer, groups=labels) for name, labels in whom.groups.items()
        }
        refits = _retrained(problem, answer, retrain, seed, called)
        fairness = (
            fairness_of_recourse(problem, answer, whom.groups, noise=noise_used, seed=seed) if by_attribute else None
        )
        made = AuditReport(
            asked={},
            model=model_part(problem.model),
            answer=answer,
            risk=next(iter(by_attribute.values())) if by_attribute else risk_of(answer),
            by_attribute=by_attribute,
            fairness=fairness,
            subgroup=worst_subgroup(problem, answer, seed=seed),
            review=answer.review(problem),
            incentives=incentives(problem, whom.people),
            lasting=lasting(problem, answer, noise=noise_used, retrained=[] if refits is None else [refits], seed=seed),
            retrained=refits,
            price=None if lands is None else price_of_landing(first, answer),
            without_landing=None if lands is None else risk_of(first),
            plane=landing_plane(problem, answer, seed=seed),
            notes=(*whom.notes, *noise_notes),
            versions=versions(),
        )
    asked: Json = {
        "observed": observed, "accept": as_asked(accept), "compliance": as_asked(compliance), "gain": gain,
        "loss": loss, "landing": None if landing is None else str(landing), "noise": as_asked(noise), "seed": seed,
        "outside": outside, "bootstrap": bootstrap, "retrain": 0 if refits is None else refits.models,
        "groups": list(whom.groups.columns), "limits": len(own),
    }  # fmt: skip
    command = call_of("turnabout.audit.report", "problem, people, labels", asked)
    return replace(made, asked=asked, warnings=tuple(warned), command=command)


class _Audited(NamedTuple):
    """The people who can be read: their rows, (n,) who repaid, their groups in words; and what to know of them."""

    people: pd.DataFrame
    labels: np.ndarray
    groups: pd.DataFrame
    notes: tuple[str, ...]


def _read(problem: Problem, people: Any, labels: Any, groups: Any, observed: str) -> _Audited:
    given = as_frame(people)
    words, group_notes = group_words(groups, given.index)
    repaid = aligned("labels", labels, given.index)
    table, kept, notes = readable_people(given, problem.schema)
    table = problem.schema.table(table)
    seen = np.ones(len(table), dtype=bool)
    if observed == "approved":
        seen = problem.judge(table) >= 0
        if not seen.any():
            raise AuditError("nobody is approved, so that no outcome is known.", hint='use observed="all".')
    return _Audited(table, read_labels(repaid[kept], table.index, seen), words[kept], (*notes, *group_notes))


def _execution_noise(problem: Problem, noise: Noise | float | None) -> tuple[Noise | None, tuple[str, ...]]:
    """Execution noise; None where none is asked for, or, with a note, where no column can have any."""
    if noise is not None and not isinstance(noise, Noise):
        DEVIATIONS.check(noise=noise)
        noise = Noise(deviations=noise) if noise else None
    if noise is None:
        return None, ()
    try:
        execution_noise(problem, noise.sd, noise.deviations)
    except ProblemError as error:
        return None, (f"execution noise is left out: {error.message}",)
    return noise, ()


def _landing(problem: Problem, whom: _Audited, landing: Landing | float | str | None, observed: str) -> Landing | None:
    """Where options must land, by the model as it is calibrated on the people whose outcome is known."""
    lands = as_landing(landing)
    if lands is None:
        return None
    if observed == "approved" and isinstance(lands, Mirror):
        raise AuditError(
            "a mirror landing asks how likely the refused are to repay, and their outcomes are not known.",
            hint="use a probability, like landing=0.7.",
        )
    if lands.eta is not None:
        return lands
    known = problem.judge(whom.people) >= 0 if observed == "approved" else np.ones(len(whom.people), dtype=bool)
    return replace(lands, eta=Calibration.of(problem.model, whom.people[known], whom.labels[known]))


def _retrained(
    problem: Problem, answer: Recourse, retrain: Retraining | None, seed: int, progress: Progress | None
) -> Retrained | None:
    if retrain is None:
        return None
    return after_retraining(
        problem, answer, retrain.estimator, retrain.people, retrain.labels, retrain=retrain.how,
        threshold=retrain.threshold, target=retrain.target, seed=seed, progress=progress,
    )  # fmt: skip
