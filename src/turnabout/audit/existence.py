"""Who has recourse at all: every row that few moving features allow is tried, or an even selection of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.audit.choices import Choices
from turnabout.audit.reach import limits, movable
from turnabout.core import Problem, Recourse, Status, verify
from turnabout.core.verify import clearance
from turnabout.documents import Document
from turnabout.errors import ProblemError
from turnabout.intervals import Rate
from turnabout.markup import report_html
from turnabout.parameters import Maybe, Whole, checked
from turnabout.rules import regions_of
from turnabout.schema import as_frame
from turnabout.solvers.boxes import never_accepted
from turnabout.typing import Tensor

MOST_FEATURES = 3
BUDGET = 20_000  # rows per person up to which all are tried
MOST_ROWS = 1 << 20  # rows per person that may be asked for
ROWS = 1 << 13  # rows asked of the model at a time; many more would leave the processor's cache
FIRST_LOOK = 5  # values of each feature to begin with
FEW = 64  # rows that are sooner tried than excluded


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

    First come 5 values of each feature. Whoever is not accepted there is left out if a bound on the margin (linear
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
    scan = Scan(problem.on(device), unique.to(device))
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


class Scan:
    """The best row seen so far of each of n people x (n, d); staying as they are is always possible."""

    def __init__(self, problem: Problem, x: Tensor):
        self.problem = problem
        self.x = x
        self.choices = Choices.of(problem, x)
        self.best = x.clone()
        self.margin = problem.margin(x)
        self.rows = torch.zeros_like(self.margin, dtype=torch.long)
        self.done = torch.zeros_like(self.margin, dtype=torch.bool)  # nothing is left to try
        self.never = torch.zeros_like(self.done)  # a bound says that the model refuses wherever they go
        box = [region for region in regions_of(problem.rules) if region.separable]
        self.rules = [rule for rule in problem.rules if rule not in box]  # choices keep to boxes

    def refute(self, who: Tensor) -> None:
        """Note those of `who` whom the model refuses wherever they go; people with few rows are sooner tried."""
        if self.problem.schema.derived:  # what follows may leave the bounds
            return
        who = who[~self.done[who] & ((self.choices.others[who] + 1).prod(1) > FEW)]
        low, high = limits(self.problem, self.x[who])
        self.never[who] = never_accepted(self.problem, self.x[who], low, high)

    def look(self, who: Tensor, points: int | None) -> None:
        """Try rows of those of `who` who have some left."""
        who = who[~self.done[who]]
        taken = self.choices.taken(points, BUDGET)[who]
        all_ = (taken == self.choices.others[who] + 1).all(1)
        for part in _parts(taken.prod(1), ROWS):
            place, rows = self.choices.rows(who[part], taken[part])
            self._try(who[part], place, rows, mend=not bool(all_[part].all()))
        self.done[who] = all_
        self._try_corners(who[~all_])

    def _try_corners(self, who: Tensor) -> None:
        for region in regions_of(self.problem.rules):
            if region.separable:  # the ends of each feature are among the rows
                continue
            for part in torch.split(who, 256):
                x = self.x[part]
                corners = region.around(x).corners()  # (p, v, d)
                if corners is None:
                    continue
                place = torch.arange(len(part), device=x.device).repeat_interleave(corners.shape[1])
                rows = self.problem.snap(x[place], (x.unsqueeze(1) + corners).flatten(0, 1))
                self._try(part, place, rows, mend=False)

    def _try(self, who: Tensor, place: Tensor, rows: Tensor, mend: bool) -> None:
        """Ask about rows (R, d), row r being of person who[place[r]]; keep those better than the best."""
        if self.problem.schema.derived:
            rows = torch.cat([rows, self.problem.follow(self.x[who[place]], rows)])
            place = torch.cat([place, place])
        if self.rules:
            own = self.x[who[place]]
            allowed = self._allowed(own, rows)
            broken = (~allowed).nonzero().squeeze(1)
            if mend and len(broken):
                rows[broken] = self.problem.snap(own[broken], rows[broken])
                allowed[broken] = self._allowed(own[broken], rows[broken])
            place, rows = place[allowed], rows[allowed]
        margin = self.problem.margin(rows)
        self.rows[who] += torch.bincount(place, minlength=len(who))
        top = self.margin[who].scatter_reduce(0, place, margin, "amax")
        better = ((margin == top[place]) & (margin > self.margin[who][place])).nonzero().squeeze(1).flip(0)
        self.best[who[place[better]]] = rows[better]  # of equals the first is written last
        self.margin[who] = top

    def _allowed(self, x: Tensor, rows: Tensor) -> Tensor:
        worst = torch.stack([rule.violation(x, rows) for rule in self.rules]).amax(0)
        return worst <= 0


def _put(values: np.ndarray, where: np.ndarray, new: np.ndarray) -> np.ndarray:
    out = values.copy()
    out[where] = new
    return out


def _parts(count: Tensor, most: int) -> Iterator[slice]:
    """Runs of people with at most so many rows together, or a single one with more."""
    total = count.cumsum(0).cpu().numpy()
    start = 0
    while start < len(total):
        before = total[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(total, before + most, side="right")))
        yield slice(start, stop)
        start = stop


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
