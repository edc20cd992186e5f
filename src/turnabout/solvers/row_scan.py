"""The best row within each person's reach: every row that few moving features allow, or an even selection of them."""

from __future__ import annotations

import torch

from turnabout.core import Problem
from turnabout.rules import regions_of
from turnabout.solvers.boxes import never_accepted
from turnabout.solvers.legal_rows import LegalRows, limits, parts_of
from turnabout.typing import Tensor

BUDGET = 20_000  # rows per person up to which all are tried
ROWS = 1 << 13  # rows asked of the model at a time; many more would leave the processor's cache
FEW = 64  # rows that are sooner tried than excluded


class RowScan:
    """The best row seen so far of each of n people x (n, d); staying as they are is always possible."""

    def __init__(self, problem: Problem, x: Tensor):
        self.problem = problem
        self.x = x
        self.choices = LegalRows.within(problem, x)
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
        for part in parts_of(taken.prod(1), ROWS):
            place, rows = self.choices.selected(who[part], taken[part])
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
