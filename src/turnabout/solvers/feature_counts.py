"""The rows that a person reaches by changing one feature alone, and how many of them a model accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import torch

from turnabout.core import Problem, verify
from turnabout.core.verify import clearance
from turnabout.models import Additive, Model, Trees
from turnabout.rules import BoundRule
from turnabout.schema import Feature, Scalar
from turnabout.schema.legal_values import OtherLevels, Others, OtherValues, first_beyond, grid_ends
from turnabout.solvers.legal_rows import parts_of
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

ROWS = 1 << 17  # rows held at a time


@dataclass(frozen=True)
class Count(TensorRows):
    """Of n people, what one feature can do; tensors (n,), and rows (n, d).

    reached : changes within reach that keep every rule, or how many of a selection do.
    flips : how many of them are accepted, clear of the boundary.
    nearest : the row of the smallest change that flips (of a category: the one of highest margin); else their own.
    whole : whether every change within reach was counted, and not a selection.
    """

    reached: Tensor
    flips: Tensor
    nearest: Tensor
    whole: Tensor


# -- trying values ------------------------------------------------------------------------------------------------


def try_values(problem: Problem, choices: Others, x: Tensor, values: int, people: pd.DataFrame | None = None) -> Count:
    """Ask about every value of one feature, or about `values` of them that stand for equal numbers of them.

    With the people's own table the printed rows are put to the original, through the judge of `find`; without it,
    the fast form of the model is asked.
    """
    n = len(x)
    out = Count(x.new_zeros(n), x.new_zeros(n), x.clone(), choices.others <= values)
    taken = choices.others.clamp(max=values).long()
    for part in parts_of(taken, ROWS):
        who = torch.arange(part.start, part.stop)
        owner = who.repeat_interleave(taken[who])
        first = (taken[who].cumsum(0) - taken[who]).repeat_interleave(taken[who])
        middle = (torch.arange(len(owner)) - first + 0.5) * choices.others[owner] / taken[owner]
        rows = x[owner]
        rows[:, choices.columns] = choices.values(owner, middle.floor())
        kept = problem.violation(x[owner], rows) <= 0
        out.reached.index_add_(0, owner[kept], torch.ones_like(middle[kept]))
        owner, rows = owner[kept], rows[kept]
        if people is None:
            margin = problem.margin(rows)
            good = margin >= clearance(problem)
        else:
            verdict = verify(problem, people.iloc[owner.numpy()], x[owner], rows)
            good, margin = torch.as_tensor(verdict.good), torch.as_tensor(verdict.margin)
        owner, rows, margin = owner[good], rows[good], margin[good]
        out.flips.index_add_(0, owner, torch.ones_like(margin))
        _keep_nearest(out.nearest, owner, rows, _preference(choices, rows, x[owner], margin))
    return out


def _preference(choices: Others, rows: Tensor, own: Tensor, margin: Tensor) -> Tensor:
    """(R,) lowest for the smallest change; every switch of a category is as large, so there for the highest margin."""
    if isinstance(choices, OtherLevels):
        return -margin
    return (rows - own)[:, choices.columns].abs().squeeze(1)


def _keep_nearest(nearest: Tensor, owner: Tensor, rows: Tensor, preference: Tensor) -> None:
    """Write the row of lowest preference of each owner; of equals the first."""
    order = preference.argsort(stable=True)
    order = order[owner[order].argsort(stable=True)]
    first = torch.ones_like(owner, dtype=torch.bool)
    first[1:] = owner[order][1:] != owner[order][:-1]
    nearest[owner[order][first]] = rows[order][first]


# -- counting by structure ----------------------------------------------------------------------------------------


def breaks(model: Model, feature: Feature, column: int) -> tuple[Tensor, bool] | None:
    """First multiples of the pieces on which the margin rises, falls or stays, and whether it stays on all of them.

    None where the model does not tell.
    """
    if not isinstance(feature, Scalar):
        return None
    if isinstance(model, Trees):
        return _starts(feature, model.forest.cuts[column].cpu()), True
    if isinstance(model, Additive):
        terms = model.terms
        turns = torch.cat([terms.knots[terms.columns == column], terms.cuts(column)])
        return _starts(feature, turns.detach().cpu().to(torch.float64)), terms.only_jumps(column)
    return None


def _starts(feature: Scalar, cuts: Tensor) -> Tensor:
    """The lowest legal multiple, and for each cut inside the range the first that lies beyond it."""
    least, most = grid_ends(feature)
    start = first_beyond(feature, cuts)
    start = start[(start > least) & (start <= most)]
    return torch.unique(torch.cat([start.new_tensor([float(least)]), start]))


def count_steps(problem: Problem, steps: OtherValues, x: Tensor, starts: Tensor, flat: bool) -> Count:
    """Count every value of a scalar without trying each: rules and model turn at most once on every piece.

    starts (P,) and flat : as `breaks` says. Between two turns all values are alike, so that the turns are found by
    halving and the values between them counted.
    """
    low, high = _kept(problem, steps, x)
    reached = (high - low + 1).clamp(min=0).sum(1)
    out = Count(reached, x.new_zeros(len(x)), x.clone(), torch.ones(len(x), dtype=torch.bool))
    ends_ = torch.cat([starts[1:] - 1, starts.new_tensor([torch.inf])])
    pieces = torch.full((len(x),), 2 * len(starts))
    for part in parts_of(pieces, ROWS):
        first = torch.maximum(low[part].unsqueeze(1), starts.reshape(1, -1, 1))  # (p, P, 2)
        last = torch.minimum(high[part].unsqueeze(1), ends_.reshape(1, -1, 1))
        owner, piece, side = (first <= last).nonzero(as_tuple=True)
        first, last = first[owner, piece, side], last[owner, piece, side]
        own = x[part][owner]
        first, last = _where_true(
            lambda rows: problem.margin(rows) >= clearance(problem), steps, own, first, last, flat
        )
        some = first <= last
        first, last, side, owner, own = first[some], last[some], side[some], owner[some] + part.start, own[some]
        out.flips.index_add_(0, owner, last - first + 1)
        rows = steps.at(own, torch.where(side == 1, first, last))
        _keep_nearest(out.nearest, owner, rows, _preference(steps, rows, own, rows[:, 0]))
    return out


def _kept(problem: Problem, steps: OtherValues, x: Tensor) -> tuple[Tensor, Tensor]:
    """(n, 2) first and last multiples, on either side, that keep every rule."""
    low, high = steps.low.clone(), steps.high.clone()
    for rule in problem.rules:
        person, side = (low <= high).nonzero(as_tuple=True)
        own = x[person]

        def keeps(rows: Tensor, own: Tensor = own, rule: BoundRule = rule) -> Tensor:
            return rule.violation(own, rows) <= 0

        low[person, side], high[person, side] = _where_true(
            keeps, steps, own, low[person, side], high[person, side], flat=False
        )
    return low, high


def _where_true(
    holds: Callable[[Tensor], Tensor], steps: OtherValues, own: Tensor, low: Tensor, high: Tensor, flat: bool
) -> tuple[Tensor, Tensor]:
    """The part of low..high (m,) on which something holds that turns at most once there (flat: never); else (1, 0)."""
    at_low = holds(steps.at(own, low))
    at_high = at_low if flat else holds(steps.at(own, high))
    a, b = low.clone(), high.clone()  # the turn lies between a, which is as at_low, and b
    turns = at_low != at_high
    while bool((open_ := turns & (b - a > 1)).any()):
        middle = torch.floor((a + b) / 2)
        same = holds(steps.at(own, middle)) == at_low
        a, b = torch.where(open_ & same, middle, a), torch.where(open_ & ~same, middle, b)
    first = torch.where(turns & at_high, b, low)
    last = torch.where(turns & at_low, a, high)
    none = ~at_low & ~at_high
    return first.masked_fill(none, 1.0), last.masked_fill(none, 0.0)
