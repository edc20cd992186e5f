"""How much all changes may weigh together."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from turnabout.rules.regions.around import MOST_CORNERS, Around, beyond, slack
from turnabout.rules.regions.box import reach_in_words
from turnabout.rules.regions.falling import at_most, first_below
from turnabout.rules.regions.region import BoundRegion, Region, encoded_reach, named, read_number, read_reach
from turnabout.schema import Scalar, Schema
from turnabout.typing import Tensor

MOST_ROWS = 256  # of a linear form


@dataclass(frozen=True, repr=False)
class Budget(Region):
    """A box in which all changes together weigh at most a limit.

        |new_f - old_f| <= reach_f,        sum_f  w_f |new_f - old_f|  <=  limit                                (1)

    A category counts 1 when it switches. With the same weight for all and no reach, this is an L1 ball.

    Parameters
    ----------
    limit : what the changes may weigh together.
    reach : as in Box; features not named do not move. None: as far as the schema lets.
    weights : what a unit of each feature weighs; 1 for features not named.
    """

    kind: ClassVar[str] = "budget"
    limit: float
    reach: Mapping[str, float] | None = field(default=None, hash=False)
    weights: Mapping[str, float] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        limit = read_number(self.limit, "the limit of a Budget", "use a finite number, 0 or more.")
        object.__setattr__(self, "limit", limit)
        object.__setattr__(self, "reach", read_reach(self.reach, "Budget"))
        object.__setattr__(self, "weights", read_reach(self.weights, "Budget", what="weights"))

    def bind(self, schema: Schema) -> BoundBudget:
        weights = torch.ones(len(schema), dtype=torch.float64)
        for f, value in named(schema, self.weights or {}, str(self), scalars_only=False):
            weights[f] = value
        return BoundBudget(schema, str(self), encoded_reach(schema, self.reach, str(self)), self.limit, weights)

    def __str__(self) -> str:
        box = "" if self.reach is None else f"{reach_in_words(self.reach)}; "
        scale = "" if not self.weights else f" ({', '.join(f'{n} {w:.6g} a unit' for n, w in self.weights.items())})"
        return f"{box}all changes together weigh at most {self.limit:.6g}{scale}"


class BoundBudget(BoundRegion):
    """A budget over encoded people; `price` (d,) is the weight of a whole encoded unit of each column."""

    def __init__(self, schema: Schema, name: str, reach: Tensor, limit: float, weights: Tensor):
        super().__init__(schema, name, reach)
        self.limit = limit
        spans = [f.span if isinstance(f, Scalar) else 1.0 for f in schema.features]
        self.price = (weights * torch.tensor(spans, dtype=torch.float64))[schema.feature_of]

    def around(self, x: Tensor) -> AroundBudget:
        return AroundBudget(*self._frame(x), self.price.to(device=x.device, dtype=x.dtype), self.limit)

    def _rows(self) -> tuple[Tensor, Tensor] | None:
        """|delta| is the larger of delta and -delta, a switch the largest loss of a level: a row for each choice."""
        choices: list[list[tuple[int, float]]] = []
        count = 1
        for j in self.grid.columns.tolist():
            moves, w = self.schema.features[int(self.schema.feature_of[j])].moves, float(self.price[j])
            if w > 0:
                choices.append([(j, sign * w) for sign, wrong in ((1.0, "down"), (-1.0, "up")) if moves != wrong])
        for group in self.group.tolist():
            columns = [j for j in group if j < self.schema.d]
            if self.price[columns[0]] > 0:
                choices.append([(j, -float(self.price[j])) for j in columns])
        for options in choices:
            count *= len(options)
        if count > MOST_ROWS:
            return None
        a = torch.zeros(count, self.schema.d, dtype=torch.float64)
        for row, choice in zip(a, itertools.product(*choices), strict=True):
            for j, value in choice:
                row[j] = value
        length = a.norm(dim=1).clamp(min=1e-300)
        return (a / length.unsqueeze(1), self.limit / length) if choices else super()._rows()


@dataclass(frozen=True)
class AroundBudget(Around):
    """A box with a budget around people: price (d,), the weight of a whole encoded unit, and limit."""

    price: Tensor
    limit: float

    def steepest(self, slope: Tensor) -> Tensor:
        """A fractional knapsack: what gains most for its weight is filled first."""
        slope, lo, hi = torch.broadcast_tensors(slope, self.lo, self.hi)
        slope_s = slope[..., self.scalar]
        room = torch.where(slope_s > 0, hi[..., self.scalar], -lo[..., self.scalar])
        gain, switch = self._switch(slope) if len(self.group) else (slope[..., :0], slope)
        rate = torch.cat([slope_s.abs(), gain], -1)  # (..., s + g), of a whole unit
        cap = torch.cat([room, torch.ones_like(gain)], -1)
        cap = torch.where(rate > 0, cap, torch.zeros_like(cap))
        price = self._prices()
        order = (rate / price).nan_to_num(nan=-1.0).argsort(dim=-1, descending=True, stable=True)
        weight = (cap * price).gather(-1, order)
        left = (self.limit - (weight.cumsum(-1) - weight)).clamp(min=0)
        filled = torch.minimum(cap.gather(-1, order), left / price.expand_as(cap).gather(-1, order).clamp(min=1e-30))
        # what weighs nothing is never short of budget
        filled = torch.where(weight > 0, filled, cap.gather(-1, order))
        amount = torch.zeros_like(cap).scatter(-1, order, filled)
        s = len(self.scalar)
        out = torch.zeros_like(lo)
        out[..., self.scalar] = slope_s.sign() * amount[..., :s]
        return out if not len(self.group) else self._put(out, switch * amount[..., s:].unsqueeze(-1))

    def project(self, delta: Tensor) -> Tensor:
        """Shrink every change by t times its weight, with the least t that the budget allows."""
        exact = delta.to(torch.float64)
        wide = self.to(torch.float64)
        near = wide._shrunk(exact, torch.zeros_like(exact[..., :1]))
        kept = at_most(wide._weight(near), self.limit).unsqueeze(-1)
        if bool(kept.all()):
            return near.to(delta.dtype)
        paid = wide.price[wide.price > 0].min()
        most = (2 + 2 * exact.abs().amax(-1, keepdim=True)) / paid  # nothing that weighs is left then
        most = torch.where(kept, torch.zeros_like(most), most)
        t = first_below(lambda t: wide._weight(wide._shrunk(exact, t)), self.limit, most)
        return wide._shrunk(exact, t).to(delta.dtype)

    def outside(self, delta: Tensor) -> Tensor:
        size, price, weight = self._sizes(delta), self._prices(), self._weight(delta)
        excess = weight - self.limit - slack(torch.full_like(weight, self.limit), size, price)
        return torch.maximum(super().outside(delta), beyond(excess, size, price))

    def corners(self) -> Tensor | None:
        """All ways to fill some features and at most one in part, which holds all corners; the others are 0."""
        options = [torch.cat([torch.zeros_like(o[..., :1, :]), o], -2) for o in super()._options()]
        sizes = [o.shape[-2] for o in options]
        whole = list(itertools.product(*(range(size) for size in sizes)))
        partly = [(ends, i) for ends in whole for i, end in enumerate(ends) if end > 0]
        if len(whole) + len(partly) > MOST_CORNERS:
            return None
        zero = torch.zeros_like(self.x)
        out = []
        for ends, part in [(ends, -1) for ends in whole] + partly:
            fixed = sum((o[..., e, :] for i, (o, e) in enumerate(zip(options, ends)) if i != part), zero)
            left = self.limit - self._weight(fixed)
            if part < 0:
                share = torch.ones_like(left)
            else:
                end = options[part][..., ends[part], :]
                share = (left / self._weight(end).clamp(min=1e-30)).clamp(max=1.0).clamp(min=0.0)
                fixed = fixed + share.unsqueeze(-1) * end
            inside = self._weight(fixed) <= self.limit * (1 + 8 * torch.finfo(fixed.dtype).eps)
            out.append(torch.where(inside.unsqueeze(-1), fixed, zero))
        return torch.stack(out, -2)

    def _prices(self) -> Tensor:
        """(s + g) weights of the features that may move."""
        return torch.cat([self.price[self.scalar], self.price[self.group[:, 0] if len(self.group) else []]])

    def _weight(self, delta: Tensor) -> Tensor:
        """(...) what a change weighs."""
        return (self._sizes(delta) * self._prices()).sum(-1)

    def _sizes(self, delta: Tensor) -> Tensor:
        """(..., s + g) how far each feature that may move does; a category by the share that leaves its own level."""
        size = delta[..., self.scalar].abs()
        if not len(self.group):
            return size
        return torch.cat([size, (-self._gather(delta)).clamp(min=0).sum(-1)], -1)

    def _shrunk(self, delta: Tensor, t: Tensor) -> Tensor:
        """The change of the box nearest to delta where weight counts t: the dual of the budget. t (..., 1)"""
        soft = delta.sign() * (delta.abs() - t * self.price).clamp(min=0)
        soft = torch.minimum(torch.maximum(soft, self.lo), self.hi)
        if not len(self.group):
            return soft
        return self._put(soft, self._on_simplex(delta, t * self.price[self.group[:, 0]]))
