"""What safer recourse costs the people: two answers to the same question, one of them with a landing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnabout.audit.aligned import first_options, same_rows
from turnabout.audit.estimate import Estimate
from turnabout.core import Recourse, Status
from turnabout.documents import Document
from turnabout.errors import AuditError
from turnabout.intervals import Rate
from turnabout.markup import report_html


@dataclass(frozen=True)
class LandingPrice(Document):
    """What people pay for landing higher.

    Attributes
    ----------
    plain, landed : mean cost of first options without and with the landing, over people who have both.
    extra : mean of the difference, person by person.
    lost : share of people with an option without the landing who have none with it.
    """

    plain: Estimate
    landed: Estimate
    extra: Estimate
    lost: Rate

    keys = "plain landed extra lost ratio"

    @property
    def ratio(self) -> float | None:
        """Mean cost with the landing over mean cost without."""
        if self.plain.value is None or self.landed.value is None or self.plain.value <= 0:
            return None
        return self.landed.value / self.plain.value

    _repr_html_ = report_html

    def __str__(self) -> str:
        times = "" if self.ratio is None else f" ({self.ratio:.3g} times)"
        return f"cost {self.plain} becomes {self.landed}{times}; recourse lost: {self.lost}"


def price_of_landing(plain: Recourse, landed: Recourse) -> LandingPrice:
    """Compare an answer with one of the same people that lands higher; first options count."""
    if plain.features != landed.features or not same_rows(plain.people, landed.people, plain.features):
        raise AuditError("the two answers are about different people.", hint="answer the same table twice.")
    first = [first_options(answer)["cost"] for answer in (plain, landed)]
    common = first[0].index.intersection(first[1].index)
    before, after = (cost.loc[common].to_numpy(dtype=np.float64) for cost in first)
    had = (plain.status == Status.FOUND).to_numpy(dtype=bool)
    has = (landed.status == Status.FOUND).to_numpy(dtype=bool)
    return LandingPrice(
        Estimate.mean(before), Estimate.mean(after), Estimate.mean(after - before), Rate.among(~has[had])
    )
