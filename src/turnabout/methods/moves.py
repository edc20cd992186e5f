"""Moves: what each person can pull to raise a margin that is a sum over features, in steps between legal values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch

from turnabout.methods.move_tables import MoveTables, Points
from turnabout.models import Jumps, Terms
from turnabout.schema import Category, Number, Ordinal, Scalar, Schema
from turnabout.schema.legal_values import first_beyond, grid_ends, is_stuck, legal_multiples, value_at
from turnabout.typing import Tensor


def straighten(schema: Schema, terms: Terms) -> Terms:
    """Terms that bend and jump in numbers and ordinals only; other columns hold 0 or 1, and need a weight."""
    bends = torch.zeros(schema.d, dtype=torch.bool)
    for feature, s in zip(schema.features, schema.slices):
        bends[s.start] = isinstance(feature, (Number, Ordinal))
    weights, knots, slopes = (t.detach().to(torch.float64) for t in (terms.weights, terms.knots, terms.slopes))
    kept, at_zero = bends[terms.columns], torch.relu(-knots) * slopes
    steps = torch.where(kept, 0.0, torch.relu(1.0 - knots) * slopes - at_zero)
    weights, bias = weights.index_add(0, terms.columns, steps), terms.bias + float(at_zero[~kept].sum())
    jumps = terms.jumps
    if jumps is not None:
        stays, low, high = bends[jumps.columns], (jumps.cuts < 0).double(), (jumps.cuts < 1).double()
        weights = weights.index_add(0, jumps.columns, torch.where(stays, 0.0, (high - low) * jumps.heights))
        bias += float((low * jumps.heights)[~stays].sum())
        jumps = Jumps(jumps.columns[stays], jumps.cuts[stays], jumps.heights[stays]) if stays.any() else None
    return Terms(weights, bias, terms.columns[kept], knots[kept], slopes[kept], jumps)


def bent_features(schema: Schema, terms: Terms) -> dict[int, Scalar]:
    """Features in whose values the margin bends or jumps."""
    columns = terms.columns if terms.jumps is None else torch.cat([terms.columns, terms.jumps.columns])
    bent = dict.fromkeys(schema.feature_of[columns.cpu()].tolist())
    return {f: feature for f in bent if isinstance(feature := schema.features[f], Scalar)}


def worthwhile(feature: Scalar, terms: Terms, column: int) -> Tensor:
    """Multiples of the step that a cheapest plan may use, (P,): all, or if the margin only jumps, those beside jumps.

    Between two jumps nothing is gained, so the nearest value of a piece is its cheapest.
    """
    least, most = grid_ends(feature)
    if not terms.only_jumps(column):
        return torch.arange(least, most + 1, dtype=torch.float64)
    after = first_beyond(feature, terms.cuts(column).cpu())
    q = torch.cat([after, after - 1, torch.tensor([least, most], dtype=torch.float64)])
    return torch.unique(q[(q >= least) & (q <= most)])


@dataclass(frozen=True)
class Moves:
    """One move for each feature that may move, n people and m moves.

    Move j at step k >= 1 moves its feature by the distance first + (k - 1) * grid_step towards a higher margin, so that

        gain(k) = slope * distance(k)        cost(k) = fixed + price * distance(k)        both 0 at k = 0.    (1)

    A category has one step, its best level: every switch costs the same. A feature in whose values the margin bends
    or jumps has a table of gains and costs instead of (1). Where a move cannot move or does not help, its count is 0.
    Steps are floats: a continuous number has millions.
    """

    schema: Schema
    features: tuple[int, ...]
    slope: Tensor  # (n, m)
    first: Tensor  # (n, m)
    count: Tensor  # (n, m)
    grid_step: Tensor  # (m,)
    price: Tensor  # (m,)
    fixed: Tensor  # (m,)
    target: Tensor  # (n, m) first multiple of the step, or position of the best level
    tables: MoveTables | None = None

    @classmethod
    def of(cls, schema: Schema, terms: Terms, x: Tensor, blocked: Tensor, price: Tensor, fixed: Tensor) -> Moves:
        """x (n, d), blocked (n, F) True where a feature may not be used, price and fixed (F,)."""
        used = tuple(f for f, feature in enumerate(schema.features) if feature.moves != "fixed")
        shape = (len(used), len(x))
        slope, first, count, target = (x.new_zeros(shape) for _ in range(4))
        grid_step = x.new_ones(len(used))
        bent = bent_features(schema, terms)
        tables: dict[int, list[Tensor]] = {}
        for j, f in enumerate(used):
            feature, columns = schema.features[f], x[:, schema.slices[f]]
            w = terms.weights[schema.slices[f]]
            if isinstance(feature, Category):
                levels = w[: len(feature.levels)]
                own = columns[:, : len(levels)].argmax(1)
                top = levels.topk(2)
                place = (own == top.indices[0]).long()  # the best level, or the second if they are there
                slope[j], target[j] = top.values[place] - levels[own], top.indices[place].to(x.dtype)
                first[j] = count[j] = 1.0
            elif f in bent:
                column = schema.slices[f].start
                tables[j] = _table(bent[f], terms, column, columns[:, 0], float(price[f]), float(fixed[f]))
                gains, _, nearest = tables[j]
                count[j] = torch.isfinite(gains[:, 1:]).sum(1)
                first[j] = (value_at(bent[f], nearest[:, :2][:, -1]) - columns[:, 0]).abs()
                slope[j], grid_step[j] = 1.0, bent[f].choice_step / bent[f].span
            else:
                assert isinstance(feature, Scalar)
                target[j], count[j] = legal_multiples(feature, columns[:, 0], bool(w[0] > 0))
                first[j] = (value_at(feature, target[j]) - columns[:, 0]).abs()
                slope[j] = w[0].abs()
                grid_step[j] = feature.choice_step / feature.span
            count[j].masked_fill_(is_stuck(feature, columns) | blocked[:, f] | (slope[j] <= 0), 0.0)
        index = torch.tensor(used, device=x.device, dtype=torch.long)
        slope.masked_fill_(count == 0, 1.0)
        return cls(
            schema, used, slope.T.contiguous(), first.T.contiguous(), count.T.contiguous(), grid_step,
            price.to(x)[index], fixed.to(x)[index], target.T.contiguous(), MoveTables.join(tables),
        )  # fmt: skip

    def take(self, rows: Tensor) -> Moves:
        """The moves of some people."""
        slope, first, count, target = (part[rows] for part in (self.slope, self.first, self.count, self.target))
        tables = None if self.tables is None else self.tables.take(rows)
        return replace(self, slope=slope, first=first, count=count, target=target, tables=tables)

    def distance(self, k: Tensor) -> Tensor:
        """Steps (n, m) -> distances (n, m), of moves with equal steps."""
        return torch.where(k > 0, torch.addcmul(self.first, k - 1.0, self.grid_step), 0.0)

    def points(self, k: Tensor) -> Points:
        """Steps (n, m) -> gains and costs."""
        distance = self.distance(k)
        out = Points(self.slope * distance, torch.addcmul(self.fixed * (k > 0), self.price, distance))  # (1)
        if self.tables is not None:
            bent = self.tables.points(k[:, self.tables.moves])
            out.gain[:, self.tables.moves], out.cost[:, self.tables.moves] = bent.gain, bent.cost
        return out

    def least_step(self, gain: Tensor, move: Tensor | None = None) -> Tensor:
        """The first step with at least this gain (n, m), or (n, 1) for one move of each row."""
        slope, first, grid_step = self.slope, self.first, self.grid_step
        if move is not None:
            slope, first, grid_step = slope.gather(1, move), first.gather(1, move), grid_step[move]
        k = (torch.ceil((gain / slope - first) / grid_step) + 1.0).clamp(min=1.0)
        if self.tables is None:
            return k
        if move is None:
            k[:, self.tables.moves] = self.tables.least_step(gain[:, self.tables.moves])
            return k
        row, place = (move == self.tables.moves).nonzero(as_tuple=True)
        k[row, 0] = self.tables.least_step(gain.expand(-1, len(self.tables.moves)))[row, place]
        return k

    @cached_property
    def reach(self) -> Tensor:
        """(n,) the most margin that all moves together can add."""
        return self.points(self.count).gain.sum(1)

    def place(self, x: Tensor, k: Tensor) -> Tensor:
        """x (n, d), steps (n, m) -> x_new (n, d), on legal values."""
        x_new = x.clone()
        read: dict[int, Tensor] = {}
        if self.tables is not None:
            tables = self.tables
            read = dict(zip(tables.moves.tolist(), tables.at(tables.target, k[:, tables.moves]).T))
        for j, f in enumerate(self.features):
            rows = (k[:, j] > 0).nonzero().squeeze(1)
            if not len(rows):
                continue
            feature, start = self.schema.features[f], self.schema.slices[f].start
            if j in read:
                assert isinstance(feature, Scalar)
                x_new[rows, start] = value_at(feature, read[j][rows])
            elif isinstance(feature, Category):
                level = self.target[rows, j].long()
                x_new[rows, start : start + len(feature.levels)] = torch.nn.functional.one_hot(
                    level, len(feature.levels)
                ).to(x.dtype)
            else:
                assert isinstance(feature, Scalar)
                weight_up = (self.target[rows, j] * feature.choice_step > feature.units(x[rows, start])).to(x.dtype)
                side = 2 * weight_up - 1
                x_new[rows, start] = value_at(feature, self.target[rows, j] + side * (k[rows, j] - 1))
        return x_new


def _table(feature: Scalar, terms: Terms, column: int, own: Tensor, price: float, fixed: float) -> list[Tensor]:
    """Own values (n,) -> gains, costs and multiples of the step of one move's steps, (n, K) each."""
    q = worthwhile(feature, terms, column).to(own)
    values, own_column = value_at(feature, q), own.unsqueeze(1)
    (above, more), (below, fewer) = (
        legal_multiples(feature, own_column, True),
        legal_multiples(feature, own_column, False),
    )
    legal = (q >= above) & (q < above + more) | (q <= below) & (q > below - fewer)  # (n, P)
    gain = terms.term(column, values) - terms.term(column, own_column)
    gain, order = torch.where(legal & (gain > 0), gain, -torch.inf).sort(dim=1, descending=True, stable=True)
    cost = (fixed + price * (values - own_column).abs()).gather(1, order)
    cost, by_cost = cost.sort(dim=1, stable=True)  # of equal costs, the highest gain comes first
    gain, target = gain.gather(1, by_cost), q[order.gather(1, by_cost)]
    ahead = torch.cat([torch.zeros_like(own_column), gain.cummax(1).values[:, :-1].clamp(min=0.0)], 1)
    kept = gain > ahead
    row, place = kept.nonzero(as_tuple=True)
    step = kept.cumsum(1)[row, place]
    length = int(step.max()) + 1 if len(step) else 1
    out = [own.new_full((len(own), length), fill) for fill in (torch.inf, torch.inf, 0.0)]
    for table, entries in zip(out, (gain, cost, target)):
        table[:, 0] = 0.0
        table[row, step] = entries[row, place]
    return out
