"""What recourse does to the risk of a lender and to people: the report."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from turnabout.audit.estimate import Estimate
from turnabout.audit.risk.calibration import CalibrationError
from turnabout.documents import Document, plain_records
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.typing import Json


class Verdict(StrEnum):
    """What the interval of the excess risk says."""

    BENEFIT = "BENEFIT"  # it lies below 0: fewer mistakes after recourse
    HARM = "HARM"  # it lies above 0: more mistakes
    UNDETERMINED = "UNDETERMINED"  # it holds 0, or there is too little to tell


@dataclass(frozen=True)
class ByCompliance(Document):
    """One figure for three kinds of people: all compliant, all defiant, and as given."""

    compliant: Estimate
    defiant: Estimate
    given: Estimate


@dataclass(frozen=True)
class GroupRisk(Document):
    """One group's part in the risk, and its burden.

    Attributes
    ----------
    group, n : its label, and how many people belong to it.
    excess : R_Q - R_P within the group, at the given compliance, from its people who move; unknown where nobody
        belongs to it.
    part : what the group adds to the excess risk of all; these add up.
    cost : mean cost among its people who move.
    without : share of its refused people who have no option.
    """

    group: Hashable
    n: int
    excess: Estimate
    part: float | None
    cost: Estimate
    without: Rate

    keys = "group n part excess cost without"


@dataclass(frozen=True, eq=False)
class RiskReport(Document):
    """Risk before and after recourse, with what it rests on; from `risk_of_recourse`.

    Where labels of the refused are not known, `value` is None and low, high enclose both the bounds and their sampling
    error; `bounds` holds the two apart. Figures that rest on fewer than 10 people have no interval, nor have figures
    that are the same for everyone.

    Attributes
    ----------
    n, refused, offered, movers : people; those refused; those of them with an option; the expected number who move.
    compliance : mean of rho over those who move; None with an outcome, or where nobody moves.
    risk_before : R_P, the share of wrong decisions.
    risk_after : R_Q, the same after recourse.
    excess : R_Q - R_P.
    verdict, reason : from the interval of excess at the given compliance, and why.
    break_even, break_even_note : the compliance at which excess is 0, and what that says.
    mended : share of all people who move and would have repaid before: no longer refused by mistake.
    spoiled : share of all people who move and will not repay: now accepted by mistake. excess = spoiled - mended.
    landing : mean P(repays) at landing points, over those who move.
    histogram : share of those who move by landing probability, ten bins from 0 to 1.
    mirror : mean of 1 - eta0 over those who move; where landing is that high, compliant people do no harm.
    neutral_landing : the probability at which all would have to land for an excess of 0; beyond 1 none suffices.
    least_landing, least_landing_note : the smallest landing probability whose verdict is not HARM; None where there is
        none, or where it is not known, as the note says.
    cost : mean cost of those who move.
    approvals_before, approvals_after : share of people approved.
    defaults_before, defaults_after : share of the approved who do not repay.
    profit : change of profit per person of the population; None without gain and loss.
    profit_if_chosen, chosen : the same if only profitable offers are made, and the share of movers they are made to.
    groups : one GroupRisk each.
    bounds : (lowest, highest) of each figure, where only bounds are known.
    calibration : of eta; None where it cannot be told.
    outside : share of landing points beyond the ordinary (1 % of people are); see `turnabout.audit.risk.support`.
    excess_if_outside : range of the excess if P(repays) at these points were anything; None with an outcome.
    notes : what a reader should know.
    """

    n: int
    refused: int
    offered: int
    movers: float
    compliance: float | None
    risk_before: Estimate
    risk_after: ByCompliance
    excess: ByCompliance
    verdict: Verdict
    reason: str
    break_even: Estimate
    break_even_note: str
    mended: Estimate
    spoiled: Estimate
    landing: Estimate
    histogram: tuple[float, ...] | None
    mirror: Estimate
    neutral_landing: Estimate
    least_landing: float | None
    least_landing_note: str
    cost: Estimate
    approvals_before: Estimate
    approvals_after: Estimate
    defaults_before: Estimate
    defaults_after: Estimate
    profit: Estimate | None
    profit_if_chosen: Estimate | None
    chosen: Estimate | None
    groups: tuple[GroupRisk, ...]
    bounds: Mapping[str, tuple[Estimate, Estimate]]
    calibration: CalibrationError | None
    outside: Rate
    excess_if_outside: tuple[float, float] | None
    notes: tuple[str, ...]
    made_by: str
    confidence: float
    bootstrap: int
    refit: int
    seed: int
    curve_table: pd.DataFrame
    people_table: pd.DataFrame

    def curve(self) -> pd.DataFrame:
        """Risk, excess and profit by compliance from 0 to 1: compliance, metric, value, low, high."""
        return self.curve_table.copy()

    def by_group(self) -> pd.DataFrame:
        """One line per group and metric: group, metric, value, low, high, n."""
        rows = []
        for group in self.groups:
            for metric in ("excess", "cost", "without"):
                figure = getattr(group, metric)
                rows.append((group.group, metric, figure.value, figure.low, figure.high, figure.n))
        table = pd.DataFrame(rows, columns=["group", "metric", "value", "low", "high", "n"])
        return table.astype({"value": "Float64", "low": "Float64", "high": "Float64"})

    def landings(self) -> pd.DataFrame:
        """One line per person: eta0, eta1, cost, accepts (probability), moved (whether there is an option), outside."""
        return self.people_table.copy()

    _repr_html_ = report_html

    def __str__(self) -> str:
        share = "unknown" if self.compliance is None else f"{self.compliance:.2f}"
        lines = [
            f"{self.verdict}: {self.reason}",
            f"{self.n} people, {self.refused} refused, {self.offered} with an option; {self.movers:.6g} would move",
            f"risk before recourse      {_say(self.risk_before)}",
            f"risk after, as given      {_say(self.risk_after.given)}  (compliance {share})",
            f"risk after, compliant     {_say(self.risk_after.compliant)}",
            f"risk after, defiant       {_say(self.risk_after.defiant)}",
            f"excess, as given          {_say(self.excess.given)}",
            f"break-even compliance     {_say(self.break_even)}  ({self.break_even_note})",
            f"mean landing probability  {_say(self.landing)}  (mirror landing: {_say(self.mirror)})",
            f"approved                  {_say(self.approvals_before)} -> {_say(self.approvals_after)}",
            f"defaults among approved   {_say(self.defaults_before)} -> {_say(self.defaults_after)}",
            f"mean cost of moving       {_say(self.cost)}",
        ]
        if self.profit is not None:
            lines.append(f"profit change per person  {_say(self.profit)}")
        least = self.least_landing_note or f"{self.least_landing:.3f}"
        lines.append(f"least landing without proven harm: {least}")
        for group in self.groups:
            lines.append(f"  {group.group} (n={group.n}): excess {_say(group.excess)}; without option {group.without}")
        lines.append(f"landing points beyond the ordinary: {self.outside}")
        if self.calibration is not None:
            lines.append(str(self.calibration))
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    def to_dict(self) -> Json:
        """Plain values for JSON, without the rows of single people."""
        return super().to_dict() | {"curve": plain_records(self.curve_table)}


def _say(figure: Estimate) -> str:
    """An estimate, or where it has no value, its range."""
    if figure.value is None and figure.low is not None and figure.high is not None:
        return f"within [{figure.low:.4g}, {figure.high:.4g}]"
    return str(figure)
