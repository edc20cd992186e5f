"""Do groups have recourse alike? Availability, cost, effort and robustness by group, with intervals."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from turnabout.audit.estimate import Estimate
from turnabout.audit.fairness.burden import Burden, Dominance, dominance
from turnabout.audit.fairness.contrasts import Contrast, holm
from turnabout.audit.fairness.grouping import Group, named_groups
from turnabout.audit.fairness.outcomes import EXECUTION_NOISE, MEASURES, SHARES, Measure, Noise, Outcomes, outcomes
from turnabout.core import Problem, Recourse
from turnabout.documents import Document, texts_of
from turnabout.errors import AuditError
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.parameters import Share, Whole, checked
from turnabout.typing import Json

DOMINANCE = {
    "worse": "at every budget fewer of its refused have recourse than of everyone else's",
    "better": "at every budget more of its refused have recourse than of everyone else's",
    "alike": "at every budget as many of its refused have recourse as of everyone else's",
    "crossing": "whether more of its refused have recourse than of everyone else's depends on the budget",
    "unknown": "nobody refused to compare",
}


@dataclass(frozen=True)
class Comparison(Document):
    """One measure of a group minus that of everyone else.

    Attributes
    ----------
    contrast : the difference with its interval, and p.
    survives : whether it is still more than chance when all differences of the report are tested together (Holm);
        None where it could not be tested.
    """

    contrast: Contrast
    survives: bool | None

    @property
    def cells(self) -> tuple[float | None, ...]:
        """The difference, the ends of its interval, p, and whether it survives."""
        gap = self.contrast.difference
        return gap.value, gap.low, gap.high, self.contrast.p, self.survives

    def __str__(self) -> str:
        return f"{self.contrast.difference}{' *' if self.survives else ''}"

    def to_dict(self) -> Json:
        """Plain values for JSON."""
        return self.contrast.difference.to_dict() | {"p": self.contrast.p, "survives": self.survives}


@dataclass(frozen=True)
class GroupRecourse(Document):
    """What recourse one group has.

    Attributes
    ----------
    attributes, labels : which people: one attribute and its label, or several that are crossed; none for everyone.
    people, refused : how many there are, and how many of them are refused.
    measures : availability, share of the refused with an option; cost, mean cost of first options; effort, as changes
        (features changed), steps and duration (of plans); robustness, share of first options that are still accepted
        after noise. Only what the answer can tell.
    burden : the cost up to which half of the refused have an option.
    dominance : how its refused compare with everyone else's over all budgets, in this sample.
    against : for each measure the difference to everyone else.
    """

    attributes: tuple[str, ...]
    labels: tuple[Hashable, ...]
    people: int
    refused: int
    measures: dict[Measure, Rate | Estimate]
    burden: Burden
    dominance: Dominance
    against: dict[Measure, Comparison]

    @property
    def name(self) -> str:
        """In words: "sex = f & age = old"."""
        parts = [f"{name} = {label}" for name, label in zip(self.attributes, self.labels, strict=True)]
        return " & ".join(parts) or "everyone"

    def __str__(self) -> str:
        if not self.people:
            return f"{self.name}: nobody, so nothing is known"
        lines = [f"{self.name}: {self.people} people, {self.refused} refused"]
        for measure, value in self.measures.items():
            versus = f"; minus everyone else {self.against[measure]}" if measure in self.against else ""
            lines.append(f"  {measure}: {value}{versus}")
        lines.append(f"  half of the refused have an option at a cost up to: {self.burden}")
        if self.attributes:
            lines.append(f"  {DOMINANCE[self.dominance]}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Fairness(Document):
    """Recourse by group, of one answer.

    Attributes
    ----------
    everyone : all people of the answer.
    groups : each group of each attribute, and of crossed attributes.
    tests : how many different differences were tested together. Of an attribute with two groups each is the rest of
        the other, and their differences count once.
    confidence : of each interval on its own; Holm's correction is at one minus it.
    """

    everyone: GroupRecourse
    groups: tuple[GroupRecourse, ...]
    tests: int
    confidence: float

    @property
    def surviving(self) -> tuple[tuple[GroupRecourse, Measure], ...]:
        """The differences that survive Holm's correction, by group and measure."""
        pairs = ((group, measure) for group in self.groups for measure in group.against)
        return tuple((group, measure) for group, measure in pairs if group.against[measure].survives)

    _repr_html_ = report_html

    def __str__(self) -> str:
        lines = [str(self.everyone), *(str(group) for group in self.groups)]
        level = f"{1 - self.confidence:.4g}"
        if self.surviving:
            note = f"* more than chance, with {self.tests} differences tested together (Holm, level {level})"
        else:
            note = f"no difference is more than chance, with {self.tests} tested together (Holm, level {level})"
        return "\n".join([*lines, note])

    def to_dict(self) -> Json:
        """Plain values for JSON; refused where two groups of one attribute have the same text."""
        texts_of(group.name for group in self.groups)
        return super().to_dict()

    def to_frame(self) -> pd.DataFrame:
        """One line per group (None for everyone) and measure, with the difference to everyone else beside it.

        The measure "burden" is the cost up to which half of the refused have an option; it has no difference.
        """
        rows: list[tuple[object, ...]] = []
        for group in (self.everyone, *self.groups):
            for measure, value in group.measures.items():
                versus = group.against.get(measure)
                gap = (None,) * 5 if versus is None else versus.cells
                rows.append((*_named(group), measure, value.value, value.low, value.high, value.n, *gap))
            burden = group.burden
            rows.append((*_named(group), "burden", burden.value, burden.low, burden.high, burden.n, *(None,) * 5))
        numbers = ["value", "low", "high", "difference", "difference_low", "difference_high", "p"]
        columns = ["attribute", "group", "measure", *numbers[:3], "n", *numbers[3:], "survives"]
        table = pd.DataFrame(rows, columns=columns)
        return table.astype(dict.fromkeys(numbers, "Float64") | {"survives": "boolean"})


@checked(
    AuditError,
    crossed=Whole(1, hint="use 1, or 2 for pairs of attributes."),
    confidence=Share(above=0, below=1),
)
def fairness_of_recourse(
    problem: Problem,
    answer: Recourse,
    groups: Any,
    *,
    crossed: int = 1,
    noise: Noise | None = EXECUTION_NOISE,
    seed: int = 0,
    confidence: float = 0.95,
) -> Fairness:
    """Availability, cost, effort and robustness of recourse in each group, and its differences to everyone else.

    Shares have exact (Clopper-Pearson) intervals, which cover with at least the confidence; means have Student's;
    differences of shares Newcombe's, of means Welch's. Which differences survive is decided by shuffling people between
    a group and everyone else, tested together: see `Contrast`. The groups need not be known to the model.

    Cost, effort and robustness are measured over people with an option alone. A group in which only the easy cases
    have one looks cheap: read them beside the availability, or read the burden and the dominance, which count everyone
    refused. A low availability of a method that searches without proof may be the method's fault: see `existence`.

    Parameters
    ----------
    answer : to this problem, of any method.
    groups : one label per person: a Series with the people's index, a mapping from people to labels, values in the
        people's order, or a DataFrame of several attributes. Levels of a categorical to which nobody belongs are groups
        about which nothing is known.
    crossed : up to how many attributes of a DataFrame are crossed; combinations that nobody has are left out.
    noise : execution noise, for robustness; None leaves it out.
    confidence : of each interval; differences are tested together at one minus it (Holm, 1979).

    References
    ----------
    von Kügelgen et al. (2022), On the fairness of causal algorithmic recourse. Ustun, Spangher, Liu (2019), Actionable
    recourse in linear classification. Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    told = outcomes(problem, answer, noise, seed)
    everyone = Group((), (), np.ones(len(answer.people), dtype=bool))
    named = list(named_groups(groups, answer.people.index, crossed))
    return _correct(
        _describe(told, everyone, confidence, seed),
        [_describe(told, group, confidence, seed) for group in named],
        [min(group.inside.tobytes(), (~group.inside).tobytes()) for group in named],
        confidence,
    )


def _named(group: GroupRecourse) -> tuple[str | None, Hashable | None]:
    """Attribute and group as cells of a table."""
    if not group.attributes:
        return None, None
    return " & ".join(group.attributes), group.labels if len(group.labels) > 1 else group.labels[0]


def _describe(told: Outcomes, group: Group, confidence: float, seed: int) -> GroupRecourse:
    inside = group.inside
    measures: dict[Measure, Rate | Estimate] = {}
    against: dict[Measure, Comparison] = {}
    for measure in (m for m in MEASURES if m in told.values):
        values, share = told.values[measure], measure in SHARES
        mine, others = values[inside & ~np.isnan(values)], values[~inside & ~np.isnan(values)]
        measures[measure] = Rate.among(mine, confidence) if share else Estimate.mean(mine, confidence)
        if group.attributes:
            against[measure] = Comparison(Contrast.of(mine, others, share, confidence, seed), None)
    cost = told.values["cost"]
    has_cost, refused = ~np.isnan(cost), int((told.refused & inside).sum())
    mine, others = cost[inside & has_cost], cost[~inside & has_cost]
    order = dominance(mine, refused, others, int((told.refused & ~inside).sum()))
    burden = Burden.of(mine, refused, confidence)
    people = int(inside.sum())
    return GroupRecourse(group.attributes, group.labels, people, refused, measures, burden, order, against)


def _correct(everyone: GroupRecourse, groups: list[GroupRecourse], keys: list[bytes], confidence: float) -> Fairness:
    """Holm's verdicts. A group and everyone else make one comparison, whichever is named: they share a key."""
    family: dict[tuple[bytes, Measure], float | None] = {}
    for key, group in zip(keys, groups, strict=True):
        for measure, comparison in group.against.items():
            if comparison.contrast.p is not None:
                family[key, measure] = comparison.contrast.p
    verdicts = dict(zip(family, holm(list(family.values()), 1.0 - confidence), strict=True))
    judged = tuple(
        replace(group, against={m: replace(c, survives=verdicts.get((key, m))) for m, c in group.against.items()})
        for key, group in zip(keys, groups, strict=True)
    )
    return Fairness(everyone, judged, len(family), confidence)
