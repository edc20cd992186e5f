"""Who has recourse at all: every row that few moving features allow is tried, or an even selection of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.core import Problem, Recourse, Status, verify
from turnabout.core.verify import clearance
from turnabout.documents import Document
from turnabout.errors import ProblemError
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.parameters import Maybe, Whole, checked
from turnabout.schema import as_frame
from turnabout.solvers.legal_rows import movable
from turnabout.solvers.row_scan import RowScan
from turnabout.typing import Tensor

MOST_FEATURES = 3
MOST_ROWS = 1 << 20  # rows per person that may be asked for
FIRST_LOOK = 5  # values of each feature to begin with


@dataclass(frozen=True, eq=False)
class Existence(Document):
    """Whether an accepted row exists within each person's reach.

    Attributes
    ----------
    refused, everyone : share of refused people with recourse, and of all people who are accepted or have recourse.
    exact : whether that is settled for every person. Otherwise both shares are lower bounds.
    people : one line per person: accepted; exists; settled (they are accepted, or a row was found and verified, or
        there is none: all their rows were tried, or a bound on the model excludes them); rows (how many were tried);
        margin (of their own row) and best_margin (the highest of the rows tried).
    best : one printed row per person: the one with the highest margin; their own where they are accepted already.
    seconds : how long it took.
    """

    refused: Rate
    everyone: Rate
    exact: bool
    people: pd.DataFrame
    best: pd.DataFrame
    seconds: float

    _repr_html_ = report_html

    def __str__(self) -> str:
        how = "exact" if self.exact else f"lower bounds: {int((~self.people['settled']).sum())} people are not settled"
        return f"recourse exists among the refused: {self.refused}; accepted or with recourse: {self.everyone}; {how}"

    def found_by(self, answer: Recourse) -> Rate:
        """Of the refused people for whom recourse exists, the share to whom an answer gives an option."""
        mine = self.people.index[self.people["exists"] & ~self.people["accepted"]]
        if len(absent := mine.difference(answer.people.index)):
            raise ProblemError(
                f"person {absent.tolist()[0]!r} is not in the answer.", hint="ask both about the same people."
            )
        return Rate.among((answer.status.loc[mine] == Status.FOUND).to_numpy(dtype=bool))


@checked(ProblemError, points=Maybe(Whole(2, hint="use 33, or None.")))
def existence(
    problem: Problem, people: Any, points: int | None = None, *, best: bool = False, device: str = "cpu"
) -> Existence:
    """Whether recourse exists for everyone refused, where at most three features may move.

    Rows are printable by construction: people's own values, and legal ones within bounds and regions; rules judge
    each row. A row counts as recourse when it passes the judge of `find`: the original model, on the printed row.

    First come 5 values of each feature. People who are not accepted there are left out if a bound on the margin (linear
    models, ReLU nets, trees) says that no value within their reach can help. Then all rows of the others are tried
    where there are at most 20,000. Where there are more, an even selection is (ends and their own value included, and
    the corners of a region): what it does not find may still exist, and `settled` and `exact` say so.

    Parameters
    ----------
    points : values to try of each feature, their own among them; all of them where it has no more. None: as many as
        20,000 rows per person allow.
    best : try all those rows for everyone refused, so that `best_margin` is the highest there is (of the selection).
        Otherwise people are left alone as soon as their case is settled.
    device : where the model is asked.
    """
    began = time.perf_counter()
    _check(problem, points, device)
    given = as_frame(people)
    table, x = problem.schema.table(given), problem.schema.encode(given)
    margin = problem.judge(table)
    refused = np.flatnonzero(~(margin >= 0))  # where the model fails on a row, that is no yes
    found = _look_for(problem, table.iloc[refused], x[refused], points, best, device)
    settled = found.exists | (found.none & problem.reads_back(table.iloc[refused], x[refused], margin[refused]))
    yes = margin >= 0
    columns = {
        "accepted": yes,
        "exists": _put(yes, refused, found.exists),
        "settled": _put(np.ones_like(yes), refused, settled),
        "rows": _put(np.zeros(len(yes), dtype=np.int64), refused, found.rows),
        "margin": margin,
        "best_margin": _put(margin, refused, found.margin),
    }
    frame = pd.DataFrame(columns, index=given.index)
    x_new = x.clone()
    x_new[refused] = found.best
    return Existence(
        Rate.among(found.exists),
        Rate.among(frame["exists"].to_numpy(dtype=bool)),
        bool(frame["settled"].all()),
        frame,
        problem.schema.write(table, x, x_new),
        time.perf_counter() - began,
    )


@dataclass(frozen=True)
class Existing:
    """What there is to say of n refused people; arrays (n,), and the best rows (n, d)."""

    exists: np.ndarray
    none: np.ndarray  # as far as the fast form of the model knows
    rows: np.ndarray
    margin: np.ndarray
    best: Tensor


def _look_for(problem: Problem, own: pd.DataFrame, x: Tensor, points: int | None, best: bool, device: str) -> Existing:
    unique, twin = torch.unique(x, dim=0, return_inverse=True)  # equal people share their rows
    scan = RowScan(problem.on(device), unique.to(device))
    exists, doubtful = np.zeros(len(x), dtype=bool), np.zeros(len(x), dtype=bool)
    for last in (True,) if best else (False, True):
        left = torch.unique(twin[torch.as_tensor(~exists)]).to(device)
        if last and not best:
            scan.refute(left)
            left = left[~scan.never[left]]
        scan.look(left, points if last else FIRST_LOOK)
        tops = scan.margin.cpu()[twin].numpy()
        hopeful = np.flatnonzero(~exists & (tops >= clearance(problem)))
        rows = scan.best.cpu()[twin[hopeful]]
        exists[hopeful] = verify(problem, own.iloc[hopeful], x[hopeful], rows).good
        doubtful[hopeful] = ~exists[hopeful]  # the fast form said yes and the original no
    if best:
        scan.refute(torch.unique(twin[torch.as_tensor(~exists)]).to(device))
    none = (scan.done | scan.never).cpu()[twin].numpy() & ~exists & ~doubtful
    return Existing(exists, none, scan.rows.cpu()[twin].numpy(), tops, scan.best.cpu()[twin])


def _put(values: np.ndarray, where: np.ndarray, new: np.ndarray) -> np.ndarray:
    out = values.copy()
    out[where] = new
    return out


def _check(problem: Problem, points: int | None, device: str) -> None:
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, TypeError):
        raise ProblemError(
            f"device={device!r} is none that this machine has.", hint="use 'cpu', or 'cuda' where there is one."
        ) from None
    moving = [problem.schema.names[f] for f in movable(problem)]
    if len(moving) > MOST_FEATURES:
        raise ProblemError(
            f"{len(moving)} features may move ({', '.join(moving[:6])}{', ...' if len(moving) > 6 else ''}): too many "
            f"to try all their values, which works for up to {MOST_FEATURES}.",
            hint="let fewer move by rules=[Box({...})], or ask a method: ExactLinear and ActionSequences can prove "
            "that there is none.",
        )
    if points is None:
        return
    if points ** max(1, len(moving)) > MOST_ROWS:
        raise ProblemError(
            f"points={points} of {len(moving)} features are more than {MOST_ROWS:,} rows per person.",
            hint="use fewer points; None takes as many as 20,000 rows per person allow.",
        )
