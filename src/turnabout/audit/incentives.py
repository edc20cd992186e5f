"""What a model pays people for: where it rewards a change in the direction that nobody should be advised to take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
import torch

from turnabout.core import Problem
from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.parameters import Instance, Whole, checked
from turnabout.schema import Derived, Scalar
from turnabout.schema.column_words import says
from turnabout.schema.raw_cells import floats
from turnabout.schema.trends import trends
from turnabout.typing import Tensor

Way = Literal["up", "down"]
SHOWN = 0.01  # share of people paid for the wrong way from which on a column is told in `str`


@dataclass(frozen=True)
class Incentive(Document):
    """What the model does to people who move one column the wrong way.

    feature, good : the column, and which way is good.
    because : who says so: the schema, the name, or the data with the evidence.
    paid : of everyone who can move the wrong way, the share whose margin rises somewhere on that side.
    turned : of the refused who can, the share who would be accepted there.
    """

    feature: str
    good: Way
    because: str
    paid: Rate
    turned: Rate

    def __str__(self) -> str:
        act = "lower" if self.good == "up" else "raise"
        return f"your model pays {_percent(self.paid)} of people to {act} {self.feature} ({self.because}); " + (
            f"{_percent(self.turned)} of the refused would be accepted for it"
        )


@dataclass(frozen=True)
class Incentives(Document):
    """One line for each column that has a good direction, the most rewarded wrong way first."""

    columns: tuple[Incentive, ...]
    people: int

    _repr_html_ = report_html

    @property
    def wrong(self) -> tuple[Incentive, ...]:
        """The columns for which more than 1 % of people are paid to go the wrong way."""
        return tuple(c for c in self.columns if (c.paid.value or 0.0) > SHOWN)

    def __str__(self) -> str:
        wrong = [str(c) for c in self.wrong]
        head = f"{len(self.columns)} columns with a good direction, {self.people} people: "
        return "\n- ".join([head.rstrip(), *wrong]) if wrong else head + "none is rewarded the wrong way."

    def table(self) -> pd.DataFrame:
        """The same as a table, shares with their intervals."""
        rows = [
            (c.feature, c.good, c.because, *(v for r in (c.paid, c.turned) for v in (r.value, r.low, r.high, r.n)))
            for c in self.columns
        ]
        names = [f"{what}{end}" for what in ("paid", "turned") for end in ("", "_low", "_high", "_n")]
        return pd.DataFrame(rows, columns=["feature", "good", "because", *names])


@checked(
    AuditError,
    problem=Instance(Problem, hint="write Problem(schema, model, background=train_people, labels=...)."),
    points=Whole(1),
)
def incentives(problem: Problem, people: Any = None, points: int = 16) -> Incentives:
    """Does the model reward what advice does not recommend: less income, more arrears?

    For every number, ordinal and binary with a good direction (by the schema, by the words of its name, or where the
    labels of the background plainly say so), people are moved the other way, all else unchanged, to `points` values
    between their own and the end of the range.

    Use it on the whole population before recourse is offered: where people are paid for the wrong way, a model is not
    monotone in what it should be, and whoever games it gains.

    Parameters
    ----------
    people : a table; the background when None.
    points : values tried on the wrong side of each person's own.
    """
    table = problem.background if people is None else problem.schema.table(people)
    if table is None:
        raise AuditError("there are no people to look at.", hint="pass people=, or a problem with a background.")
    reading = problem.schema.read(table)
    x = reading.x[torch.as_tensor(~(reading.lost | reading.unreadable.any(1)))]
    margin = problem.margin(x)
    found = [_incentive(problem, x, margin, *line, points) for line in _directions(problem)]
    ranked = sorted((f for f in found if f is not None), key=lambda f: -(f.paid.value or 0.0))
    return Incentives(tuple(ranked), len(x))


def _directions(problem: Problem) -> Iterator[tuple[str, Way, str]]:
    """Columns with a good direction, and who says so."""
    proven = {}
    if problem.background is not None and problem.labels is not None:
        numbers = [f.name for f in problem.schema if isinstance(f, Scalar) and f.kind == "number"]
        columns = {name: floats(problem.background[name]) for name in numbers}
        proven = trends(columns, problem.labels.cpu().numpy())
    for f in problem.schema:
        if not isinstance(f, Scalar) or isinstance(f, Derived):
            continue
        if f.moves in ("up", "down"):
            yield f.name, f.moves, "as the schema says"
        elif (group := says(f.name, "worse")) is not None:
            yield f.name, "down", f"its name speaks of {group}"
        elif (group := says(f.name, "better")) is not None:
            yield f.name, "up", f"its name speaks of {group}"
        elif f.name in proven and (good := proven[f.name].good) is not None:
            yield f.name, good, f"people fare better so, {proven[f.name].words}"


def _incentive(
    problem: Problem, x: Tensor, margin: Tensor, name: str, good: Way, because: str, points: int
) -> Incentive | None:
    """The shares of one column; None where nobody can go the wrong way."""
    s = problem.schema.slices[problem.schema.index(name)]
    feature = problem.schema[name]
    assert isinstance(feature, Scalar)
    own = x[:, s.start]
    able = own > 0 if good == "up" else own < 1
    if feature.missing:
        able &= x[:, s.stop - 1] < 0.5
    if not bool(able.any()):
        return None
    rows, own, end = x[able], own[able], 0.0 if good == "up" else 1.0
    best = torch.full_like(own, -torch.inf)
    for k in range(1, points + 1):
        there = rows.clone()
        units = feature.units(own + (end - own) * k / points)
        there[:, s.start] = feature.positions(torch.round(units / feature.unit_step) * feature.unit_step)
        best = torch.maximum(best, problem.margin(there))
    noise = max(1e-9, problem.model.noise)
    refused = margin[able] < 0
    return Incentive(
        name, good, because, Rate.among((best > margin[able] + noise).tolist()),
        Rate.among((best[refused] >= noise).tolist()),
    )  # fmt: skip


def _percent(rate: Rate) -> str:
    return "nobody" if rate.value is None else f"{100 * rate.value:.0f} %"
