"""Walk every plan back towards the person, as far as the decision, the rules and the method allow.

Shared by all methods, so that no method returns a plan that could drop one of its changes for free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from turnabout.core.problem import Problem
from turnabout.schema import Category
from turnabout.typing import Tensor

BISECTIONS = 24
ROUNDS = 4
Ask = Callable[[Tensor], Tensor]
Criterion = Callable[[Tensor, Tensor], Tensor]
"""What a method aims for beyond acceptance: x, x_new (m, d) -> (m,) bool, True where it is met."""


@dataclass(frozen=True)
class Standard:
    """What a row must keep while it is walked back: a margin, every rule, and what its method aims for.

    stop : asked before each pass; True ends the walk where it is.
    """

    problem: Problem
    ask: Ask
    aim: float
    stop: Callable[[], bool]
    criterion: Criterion | None = None

    def met(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(m,) whether rows x_new (m, d) of people x keep it."""
        good = torch.ones(len(x), dtype=torch.bool, device=x.device)
        if self.problem.rules:
            good = self.problem.violation(x, x_new) <= 0
        if self.criterion is not None and good.any():
            good[good.clone()] = self.criterion(x[good], x_new[good])
        if good.any():
            good[good.clone()] = self.ask(x_new[good]) >= self.aim
        return good


def refine(standard: Standard, x: Tensor, x_new: Tensor) -> Tensor:
    """x, x_new (m, d), every x_new up to the standard -> cheaper x_new up to it.

    Alternates two passes until nothing changes: undo whole changes, the largest saving first; then bring every
    number that still differs as near to the person's own as it can come, by bisection on its legal values.
    """
    x_new = x_new.clone()
    rows = torch.arange(len(x), device=x.device)
    for _ in range(ROUNDS):
        if not len(rows) or standard.stop():
            break
        before = x_new[rows]
        after = _undo(standard, x[rows], before)
        after = _shrink(standard, x[rows], after)
        after = _undo(standard, x[rows], after)
        x_new[rows] = after
        rows = rows[(after != before).any(-1)]
    return x_new


def _undo(standard: Standard, x: Tensor, x_new: Tensor) -> Tensor:
    """Put back one feature at a time, the largest saving first, while the row is up to the standard."""
    problem = standard.problem
    feature_of = problem.schema.feature_of.to(x.device)
    x_new = x_new.clone()
    active = torch.arange(len(x), device=x.device)
    while len(active) and not standard.stop():
        changed = problem.schema.changed(x[active], x_new[active])  # (a, F)
        owner, feature = changed.nonzero(as_tuple=True)
        if not len(owner):
            break
        row = active[owner]
        back = feature_of == feature.unsqueeze(1)  # (t, d)
        trial = torch.where(back, x[row], x_new[row])
        good = standard.met(x[row], trial)
        saving = problem.cost(x[row], x_new[row]) - problem.cost(x[row], trial)
        saving = torch.where(good & (saving >= 0), saving, torch.full_like(saving, -1.0))
        table = torch.full_like(changed, -1.0, dtype=x.dtype)
        table[owner, feature] = saving
        best, which = table.max(1)
        found = best >= 0
        active, which = active[found], which[found]
        back = feature_of == which.unsqueeze(1)
        x_new[active] = torch.where(back, x[active], x_new[active])
    return x_new


def _shrink(standard: Standard, x: Tensor, x_new: Tensor) -> Tensor:
    """For each number that differs, dearest change first, bisect between the person's own and the new value."""
    problem, schema = standard.problem, standard.problem.schema
    scalar = [j for j, f in enumerate(schema.features) if not isinstance(f, Category)]
    if not scalar:
        return x_new
    columns = torch.tensor([schema.slices[j].start for j in scalar], device=x.device)
    x_new = x_new.clone()
    gap = (x_new - x).abs()[:, columns]  # (m, s)
    order = gap.argsort(dim=1, descending=True, stable=True)
    for rank in range(int((gap > 0).sum(1).max()) if len(x) else 0):
        column = columns[order[:, rank]]
        rows = (gap.gather(1, order[:, rank : rank + 1]).squeeze(1) > 0).nonzero().squeeze(1)
        column = column[rows].unsqueeze(1)
        own = near = x[rows].gather(1, column)  # near: the end that may be refused
        far = x_new[rows].gather(1, column)  # the end known to be good
        for _ in range(BISECTIONS):
            if not len(rows) or standard.stop():
                break
            value = schema.snap_cells(own, (near + far) / 2, column)
            inside = (((value - near).abs() > 1e-12) & ((value - far).abs() > 1e-12)).squeeze(1)
            rows, column, own, near, far, value = (t[inside] for t in (rows, column, own, near, far, value))
            if not len(rows):
                break
            trial = x_new[rows].scatter(1, column, value)
            good = standard.met(x[rows], trial)
            good &= problem.cost(x[rows], trial) <= problem.cost(x[rows], x_new[rows])
            x_new[rows[good]] = trial[good]
            far = torch.where(good.unsqueeze(1), value, far)
            near = torch.where(good.unsqueeze(1), near, value)
    return x_new
