"""People refused everywhere within reach: bounds on the margin over boxes, split where they are loose."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.core import Problem
from turnabout.schema import Category
from turnabout.solvers.bounds import Hull, MarginBound, Plane, bound_on
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

ROUNDS = 8  # times a box is halved
MOST_BOXES = 48  # of one person; people with more are not decided here
CELLS = 1 << 21  # numbers held at a time


@dataclass(frozen=True)
class Boxes(TensorRows):
    """Parts of people's reach, B of them: whose, and the lowest and highest encoded values (B, m)."""

    owner: Tensor
    low: Tensor
    high: Tensor

    def hull(self) -> Hull:
        """The boxes as states of their own columns, each a parameter."""
        middle, radius = (self.low + self.high) / 2, (self.high - self.low) / 2
        return Hull(middle, torch.diag_embed(radius), torch.zeros_like(middle), self.low, self.high)

    def halves(self, column: Tensor) -> Boxes:
        """Every box cut in two at the middle of a column (B,)."""
        at = torch.nn.functional.one_hot(column, self.low.shape[1]).bool()
        middle = (self.low + self.high) / 2
        return Boxes(
            torch.cat([self.owner, self.owner]),
            torch.cat([self.low, torch.where(at, middle, self.low)]),
            torch.cat([torch.where(at, middle, self.high), self.high]),
        )

    def worst(self, plane: Plane) -> Tensor:
        """(B,) the column by which each box is best cut, given the bound over it."""
        return torch.where(self.high > self.low, plane.blame + plane.slope.abs(), -1.0).argmax(1)

    def levels(self, group: list[int]) -> Boxes:
        """A box for each level of a category with these columns, where the person may switch it."""
        size = len(group)
        low, high = self.low.repeat_interleave(size, 0), self.high.repeat_interleave(size, 0)
        hot = torch.eye(size, dtype=low.dtype, device=low.device).repeat(len(self.owner), 1)
        moves = (high[:, group] > low[:, group]).any(1, keepdim=True)
        low[:, group], high[:, group] = (torch.where(moves, hot, side[:, group]) for side in (low, high))
        return Boxes(self.owner.repeat_interleave(size), low, high)


def never_accepted(problem: Problem, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """(n,) True for people x (n, d) whom the model refuses everywhere in the box [low, high] (n, d).

    Sound for every value between, printable or not, whatever the rules. False says nothing: the bound may be too
    loose, or the model's form unknown.
    """
    columns = (high > low).any(0).nonzero().squeeze(1)
    out = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    bound = bound_on(problem.model, columns, noise=problem.model.noise)
    if bound is None or not len(x) or not len(columns):
        return out
    rest = x.clone()
    rest[:, columns] = 0.0
    each = max(1, CELLS // (bound.width * (len(columns) + 2)))
    place = {int(column): i for i, column in enumerate(columns)}
    groups = []
    for feature, s in zip(problem.schema.features, problem.schema.slices, strict=True):
        if isinstance(feature, Category) and s.start in place:
            groups.append([place[s.start + i] for i in range(len(feature.levels))])
    for part in torch.arange(len(x), device=x.device).split(each):
        boxes = Boxes(torch.arange(len(part), device=x.device), low[part][:, columns], high[part][:, columns])
        for group in groups:
            boxes = boxes.levels(group)
        out[part] = _refuted(problem, bound, rest[part], columns, boxes, each)
    return out


def _refuted(problem: Problem, bound: MarginBound, rest: Tensor, columns: Tensor, boxes: Boxes, each: int) -> Tensor:
    """Halve boxes until the bound falls below 0 on all of a person's, or the person is given up."""
    base = bound.base(rest)
    most = MOST_BOXES + len(boxes.owner) // max(1, len(rest))
    given_up = torch.zeros(len(rest), dtype=torch.bool, device=rest.device)
    for turn in range(ROUNDS + 1):
        open_, worst = [], []
        for part in torch.arange(len(boxes.owner), device=rest.device).split(each):
            some = boxes.take(part)
            plane = bound.plane(base[some.owner], some.hull())
            row = rest[some.owner]
            row[:, columns] = (some.low + some.high) / 2
            given_up[some.owner[problem.margin(row) >= 0]] = True  # accepted there, if not on a printable row
            open_.append(plane.top + plane.slope.abs().sum(1) >= 0)
            worst.append(some.worst(plane))
        keep = torch.cat(open_)
        owner = boxes.owner[keep]
        given_up |= torch.bincount(owner, minlength=len(rest)) > most
        keep &= ~given_up[boxes.owner]
        boxes = boxes.take(keep)
        if turn == ROUNDS or not len(boxes.owner):
            break
        boxes = boxes.halves(torch.cat(worst)[keep])
    given_up[boxes.owner] = True
    return ~given_up
