"""The best change for a person where trees decide: one row in every cell between their cuts."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.errors import TrainingError
from turnabout.models import Model, Trees
from turnabout.rules.regions import Around
from turnabout.rules.rule import TOLERANCE
from turnabout.schema import Scalar, Schema
from turnabout.schema.legal_values import first_beyond, value_at
from turnabout.typing import Tensor

MOST_FEATURES = 3
MOST_ROWS = 4096  # rows tried for a person
AT_ONCE = 1 << 19  # rows held at a time
ON_GRID = 1e-6  # share of a step within which a cut lies on a legal value


@dataclass(frozen=True)
class CellSearch:
    """The change of highest margin among one printable row in every cell between the cuts of a tree ensemble.

    Trees answer alike within a cell, so that nothing better exists: the search is exact for boxes, budgets and balls.
    In each cell the row nearest to the person stands for it, and of equally good rows the nearest is taken.
    At most three features may move.

    Parameters
    ----------
    points : values along each number, evenly spread, where there are more than 4096 cells, or where the model is no
        tree ensemble that turnabout can look into.
    """

    points: int = 9

    def __call__(self, model: Model, around: Around) -> Tensor:
        """(n, d) -> (n, d)."""
        features = check_moving(model.schema, around)
        cuts = model.forest.cuts if isinstance(model, Trees) else None
        parts = [self._options(model.schema, f, around, cuts) for f in features]
        if cuts is not None and _count(parts) > MOST_ROWS:
            parts = [part.thinned(self.points) for part in parts]
        if not parts or not len(around.x):
            return torch.zeros_like(around.x)
        index = torch.arange(len(around.x))
        return torch.cat([_best(model, around, parts, i) for i in index.split(max(1, AT_ONCE // _count(parts)))])

    def _options(self, schema: Schema, f: int, around: Around, cuts: tuple[Tensor, ...] | None) -> _Options:
        feature, j = schema.features[f], schema.slices[f].start
        if not isinstance(feature, Scalar):
            columns = torch.arange(j, j + len(feature.value_columns))
            return _Options.levels(around, columns)
        own, lo, hi = around.x[:, j], around.lo[:, j], around.hi[:, j]
        if cuts is None:
            share = torch.linspace(0, 1, self.points, dtype=own.dtype)
            values = own.unsqueeze(1) + lo.unsqueeze(1) + share * (hi - lo).unsqueeze(1)
            v = feature.units(values) / feature.choice_step
            inward = torch.where(values > own.unsqueeze(1), torch.floor(v + ON_GRID), torch.ceil(v - ON_GRID))
            return _Options.of(own, j, value_at(feature, inward), torch.ones_like(values, dtype=torch.bool))
        cut = cuts[j].to(own.dtype)
        q = first_beyond(feature, cut)  # the first legal value on the right of each cut; a cut itself is on its left
        below, above = (value_at(feature, multiple).to(own.dtype) for multiple in (q - 1, q))
        return _Options.across(own, lo, hi, j, cut, below, above)


@dataclass(frozen=True)
class _Options:
    """What each person may put into one feature: values (n, c, width) of its columns; the first is their own."""

    columns: Tensor  # (width,)
    values: Tensor
    valid: Tensor  # (n, c)

    @classmethod
    def of(cls, own: Tensor, column: int, values: Tensor, valid: Tensor) -> _Options:
        """Of a scalar: own (n,), other values (n, c) and whether they count."""
        whole = torch.cat([own.unsqueeze(1), values], 1).unsqueeze(2)
        stay = torch.ones(len(own), 1, dtype=torch.bool)
        return cls(torch.tensor([column]), whole, torch.cat([stay, valid], 1))

    @classmethod
    def levels(cls, around: Around, columns: Tensor) -> _Options:
        """Of a category: every level."""
        own, k = around.x[:, columns], len(columns)
        others = torch.eye(k, dtype=own.dtype).expand(len(own), k, k)
        moves = (around.hi[:, columns].amax(1) > 0).unsqueeze(1) & (others != own.unsqueeze(1)).any(2)
        return cls(
            columns, torch.cat([own.unsqueeze(1), others], 1), torch.cat([torch.ones_like(moves[:, :1]), moves], 1)
        )

    @classmethod
    def across(
        cls, own: Tensor, lo: Tensor, hi: Tensor, column: int, cut: Tensor, below: Tensor, above: Tensor
    ) -> _Options:
        """Of a scalar with cuts (m,): the nearest value on the other side of each cut within reach."""
        own = own.contiguous()
        start = torch.searchsorted(cut, own + lo - TOLERANCE)
        turn = torch.searchsorted(cut, own)  # from here on, cuts lie above: a value on a cut is on its left
        stop = torch.maximum(torch.searchsorted(cut, own + hi + TOLERANCE), turn)
        count = int((stop - start).max()) if len(own) and len(cut) else 0
        place = start.unsqueeze(1) + torch.arange(count)  # (n, c)
        valid = place < stop.unsqueeze(1)
        place = place.clamp(max=max(0, len(cut) - 1))
        values = (
            torch.where(place < turn.unsqueeze(1), below[place], above[place]) if count else own.new_zeros(len(own), 0)
        )
        change = values - own.unsqueeze(1)
        valid &= (change >= lo.unsqueeze(1) - TOLERANCE) & (change <= hi.unsqueeze(1) + TOLERANCE)
        return cls.of(own, column, values, valid)

    def thinned(self, points: int) -> _Options:
        """At most so many values besides their own, evenly spread over those there are."""
        c = self.values.shape[1] - 1
        if len(self.columns) > 1 or c <= points:
            return self
        order = torch.argsort((~self.valid[:, 1:]).to(torch.uint8), dim=1, stable=True) + 1  # the valid ones first
        count = self.valid[:, 1:].sum(1, keepdim=True)
        share = torch.linspace(0, 1, points, dtype=self.values.dtype)
        pick = order.gather(1, (share * (count - 1).clamp(min=0)).round().long())
        pick = torch.cat([torch.zeros_like(pick[:, :1]), pick], 1)
        return _Options(self.columns, self.values.gather(1, pick.unsqueeze(2)), self.valid.gather(1, pick))


def check_moving(schema: Schema, around: Around) -> list[int]:
    """Features that some person may change; refuses more than three."""
    columns = ((around.hi > around.lo) | (around.hi > 0)).reshape(-1, schema.d).any(0)
    found = [f for f, s in enumerate(schema.slices) if bool(columns[s].any())]
    if len(found) > MOST_FEATURES:
        names = ", ".join(schema.names[f] for f in found)
        raise TrainingError(
            f"{len(found)} features may change ({names}), too many to try all rows.",
            hint=f'let at most {MOST_FEATURES} of them change: Box({{"{schema.names[found[0]]}": 1}}).',
        )
    return found


def _count(parts: list[_Options]) -> int:
    """Rows tried for a person."""
    out = 1
    for part in parts:
        out *= part.values.shape[1]
    return out


def _best(model: Model, around: Around, parts: list[_Options], index: Tensor) -> Tensor:
    """The best change of some people, (b, d)."""
    n, total = len(index), _count(parts)
    sizes = [range(part.values.shape[1]) for part in parts]
    combos = torch.cartesian_prod(*[torch.tensor(list(size)) for size in sizes]).reshape(total, len(parts))
    valid = torch.stack([part.valid[index][:, combos[:, i]] for i, part in enumerate(parts)]).all(0)  # (b, v)
    person, option = valid.nonzero(as_tuple=True)
    rows = around.x[index][person]
    for i, part in enumerate(parts):
        rows[:, part.columns] = part.values[index[person], combos[option, i]]
    delta = rows - around.x[index[person]]
    inside = around.take(index[person]).outside(delta) <= TOLERANCE
    person, option, rows, delta = person[inside], option[inside], rows[inside], delta[inside]
    margin = torch.full((n, total), -torch.inf, dtype=rows.dtype)
    margin[person, option] = model.margin(rows).to(rows.dtype)
    effort = torch.full_like(margin, torch.inf)
    effort[person, option] = delta.abs().sum(1)
    effort[margin < margin.amax(1, keepdim=True)] = torch.inf
    place = torch.full((n, total), -1)
    place[person, option] = torch.arange(len(rows))
    return delta[place.gather(1, effort.argmin(1, keepdim=True)).squeeze(1)]
