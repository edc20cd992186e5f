"""What several rounds of recourse did: the model, its promises and their price, round by round."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pandas as pd

from turnabout.audit.estimate import Estimate
from turnabout.documents import Document, plain_records
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.typing import Json


@dataclass(frozen=True)
class Round(Document):
    """One state: the model in force, the people as they stand, and what is then offered and done.

    Shares and means are over the people set apart for judging, counts are over everyone.

    Attributes
    ----------
    number : how many rounds of recourse came before; 0 is the first model on the people as they were.
    cut : margin of the model from which on people are approved: 0, or what the capacity makes of it.
    approved, refused : how many people.
    risk : share of people whom the model decides wrongly about, by their present labels.
    defaults : share of bad labels among the approved.
    taken : of the people who have moved onto an option promised earlier, the share that is approved now.
    open : of the people who hold an option promised earlier and did not take it up, the share to whom the latest one
        would still bring approval.
    last : of the options promised one round ago, taken up or not, the share that is honored now.
    last_unretrained : the same, had the model not been retrained since. It is below 1 only where a capacity makes
        people compete: others have moved past them.
    changed : of the people as they were at first, the share that this model decides otherwise than the first one.
    drift : of the same people, the mean rise of the margin above the cut since the first model.
    offered : of the refused, the share that is offered an option; nobody is after the last round.
    cost : mean cost of the options offered.
    movers, compliant : how many people take theirs up, and how many of them improve in truth.
    """

    number: int
    cut: float
    approved: int
    refused: int
    risk: Rate
    defaults: Rate
    taken: Rate
    open: Rate
    last: Rate
    last_unretrained: Rate
    changed: Rate
    drift: Estimate
    offered: Rate
    cost: Estimate
    movers: int
    compliant: int


@dataclass(frozen=True, eq=False)
class Rounds(Document):
    """The report of `rounds_of_recourse`.

    Attributes
    ----------
    states : one Round for each state, the one before any recourse first and the one after the last round last.
    promises : how long promises last. One line for each round in which options were promised and each later state:
        made, judged, and the share that is honored then, with its interval (value, low, high, hits, n).
    moves : every move made, one line each: round, person, the printed row as verified, its cost and margin, whether it
        was compliant, and the label afterwards.
    stopped : why it ended early; None if it did not.
    judged : how many people the shares are over; `trained` : how many the models are trained on.
    made_by : the method.
    eta : where P(good) of new rows comes from.
    capacity : how many may be approved; None for no limit.
    """

    states: tuple[Round, ...]
    promises: pd.DataFrame
    moves: pd.DataFrame
    stopped: str | None
    judged: int
    trained: int
    made_by: str
    eta: str
    capacity: int | None

    def __len__(self) -> int:
        return len(self.states)

    def to_frame(self) -> pd.DataFrame:
        """One line per state and figure: round, figure, value, low, high, n; counts have no interval."""
        rows = []
        for state in self.states:
            for name, v in ((f.name, getattr(state, f.name)) for f in fields(state) if f.name != "number"):
                figure = (v.value, v.low, v.high, v.n) if isinstance(v, (Rate, Estimate)) else (v, None, None, None)
                rows.append((state.number, name, *figure))
        table = pd.DataFrame(rows, columns=["round", "figure", "value", "low", "high", "n"])
        return table.astype({"value": "Float64", "low": "Float64", "high": "Float64", "n": "Int64"})

    def to_dict(self) -> Json:
        """Plain values for JSON; the moves are left to `moves`."""
        counted = {"states": [], "promises": plain_records(self.promises), "moves": len(self.moves)}
        return counted | super().to_dict()

    _repr_html_ = report_html

    def __str__(self) -> str:
        limit = "" if self.capacity is None else f", at most {self.capacity} approved"
        lines = [
            f"{len(self) - 1} rounds of {self.made_by}{limit}; shares over {self.judged} people, "
            f"{self.trained} trained on; P(good) of new rows: {self.eta}",
            "round  approved  movers  risk                  taken, still kept     open, still kept      cost",
        ]
        for s in self.states:
            cells = (_short(s.risk), _short(s.taken), _short(s.open), _short(s.cost))
            lines.append(
                f"{s.number:>5}  {s.approved:>8}  {s.movers:>6}  " + "  ".join(f"{c:<20}" for c in cells).rstrip()
            )
        lines += [] if self.stopped is None else [f"stopped: {self.stopped}"]
        return "\n".join(lines)


def _short(figure: Rate | Estimate) -> str:
    if figure.value is None:
        return "-"
    if figure.low is None or figure.high is None:
        return f"{figure.value:.3f}"
    return f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}]"
