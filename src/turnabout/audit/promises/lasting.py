"""Do given answers last? Execution noise and retrained models in one report, by group."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from turnabout.audit.disparity import Difference
from turnabout.audit.fairness.outcomes import EXECUTION_NOISE, Noise, fingerprint, outcomes, placed_first_options
from turnabout.audit.promises.retrain import Retrained
from turnabout.audit.rates import members
from turnabout.core import Problem, Recourse
from turnabout.documents import Document, texts_of
from turnabout.errors import AuditError
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.parameters import Share, checked
from turnabout.typing import Json


@dataclass(frozen=True)
class Survival(Document):
    """What share of first options survives one threat.

    Attributes
    ----------
    threat : what was done to the options or the model, in words.
    kept : over people with an option.
    by_group : the same within each group.
    against : each group minus everyone else, with Newcombe's interval.
    """

    threat: str
    kept: Rate
    by_group: dict[Hashable, Rate]
    against: dict[Hashable, Difference]

    def __str__(self) -> str:
        lines = [f"{self.threat}: {self.kept}"]
        for group, rate in self.by_group.items():
            lines.append(f"  {group}: {rate}; minus everyone else {self.against[group]}")
        return "\n".join(lines)

    def to_dict(self) -> Json:
        """Plain values for JSON; a list of groups, by the text of their labels."""
        groups = [
            {"group": text, "kept": rate.to_dict(), "against": self.against[label].to_dict()}
            for text, (label, rate) in zip(texts_of(self.by_group), self.by_group.items(), strict=True)
        ]
        return {"threat": self.threat, "kept": self.kept.to_dict(), "groups": groups}


@dataclass(frozen=True)
class Lasting(Document):
    """Which share of the options given survives each of several threats, one at a time.

    Attributes
    ----------
    threats : one Survival each.
    options : how many people have an option to lose.
    """

    threats: tuple[Survival, ...]
    options: int

    keys = "options threats"

    _repr_html_ = report_html

    def __str__(self) -> str:
        if not self.options:
            return "nobody has an option that could be lost"
        head = f"of the first options of {self.options} people there survive:"
        return "\n".join([head, *(str(threat) for threat in self.threats)])

    def to_frame(self) -> pd.DataFrame:
        """One line per threat and group (None for everyone): value, low, high, n."""
        rows = [
            (threat.threat, group, rate.value, rate.low, rate.high, rate.n)
            for threat in self.threats
            for group, rate in [(None, threat.kept), *threat.by_group.items()]
        ]
        table = pd.DataFrame(rows, columns=["threat", "group", "value", "low", "high", "n"])
        return table.astype(dict.fromkeys(("value", "low", "high"), "Float64"))


@checked(AuditError, confidence=Share(above=0, below=1))
def lasting(
    problem: Problem,
    answer: Recourse,
    groups: Any = None,
    *,
    noise: Noise | None = EXECUTION_NOISE,
    retrained: Iterable[Retrained] = (),
    seed: int = 0,
    confidence: float = 0.95,
) -> Lasting:
    """Share of first options that survive noise in execution and each kind of retraining, for everyone and by group.

    Threats are taken one at a time; together they may do more harm. Of retrained models a person counts by the share
    of models that still accept their option, and the interval is about other people before the same models.

    Parameters
    ----------
    answer : to this problem, of any method.
    groups : one label per person; they need not be known to the model.
    noise : execution noise; None leaves it out.
    retrained : reports of `after_retraining` on this answer: bootstrap, leave-one-out, shifted or newer data.
    """
    told = outcomes(problem, answer, noise, seed)
    inside = members(groups, answer.people.index)
    threats = []
    if noise is not None:
        size = f"{noise.deviations:g} deviations" if noise.sd is None else f"deviations {dict(noise.sd)}"
        threats.append((f"noise of {size} in execution", told.of("robustness")))
    first, place = placed_first_options(answer)
    mine = fingerprint(problem, answer)
    for report in retrained:
        same_people = isinstance(report, Retrained) and report.options.index.equals(answer.options.index)
        if not same_people or report.fingerprint != mine:
            raise AuditError(
                "retrained= holds what is no report on this answer.", hint="pass reports of after_retraining on it."
            )
        kept = np.full(len(answer.people), np.nan)
        kept[place] = report.options.loc[first.index, "share"].to_numpy()
        threats.append((report.retrain, kept))
    return Lasting(tuple(_survival(name, kept, inside, confidence) for name, kept in threats), len(first))


def _survival(threat: str, kept: np.ndarray, inside: dict[Hashable, np.ndarray], confidence: float) -> Survival:
    counts = ~np.isnan(kept)
    by_group = {label: Rate.among(kept[mask & counts], confidence) for label, mask in inside.items()}
    rest = {label: Rate.among(kept[~mask & counts], confidence) for label, mask in inside.items()}
    against = {label: Difference.of(by_group[label], rest[label], confidence) for label in inside}
    return Survival(threat, Rate.among(kept[counts], confidence), by_group, against)
