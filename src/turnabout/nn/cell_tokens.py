"""Cells of a row as tokens: keep what you have, or take one of the values that accepted people have."""

from __future__ import annotations

import torch
from torch import nn

from turnabout.schema import Category, Schema
from turnabout.schema.features import Scalar
from turnabout.schema.legal_values import grid_ends, value_at
from turnabout.typing import Tensor

KEEP = 0  # the first token of every feature
SAME = 1e-9


class CellTokens(nn.Module):
    """The tokens of each feature: token 0 keeps the person's cell, token b takes the value v_b.

    A category has a token for each level. A scalar has one for each value of the rows, where there are at most `bins`;
    else one for each value that a share 1 / bins of the rows has, and quantile bins for the others, which stand for
    their median. Values are legal ones: multiples of the step that plans use.

    Parameters
    ----------
    schema : the layout of the rows.
    rows : (rows, d) encoded rows whose values are taken.
    bins : most tokens of a number or ordinal beside keeping.

    Attributes
    ----------
    values : (F, B) encoded value of each token, or the number of its level; token b of feature f is values[f, b - 1].
    width : (F, B) how far a token's kernel reaches: half the distance of its neighbours; 0 for levels.
    there : (F, B) True for tokens that exist.
    """

    values: Tensor
    width: Tensor
    there: Tensor
    is_category: Tensor
    column: Tensor
    indicator: Tensor
    level_columns: Tensor

    def __init__(self, schema: Schema, rows: Tensor, bins: int = 50):
        super().__init__()
        found = [
            torch.arange(len(f.levels), dtype=torch.float64)
            if isinstance(f, Category)
            else scalar_values(f, _present(rows[:, s], f.missing), bins)
            if isinstance(f, Scalar)
            else torch.zeros(0, dtype=torch.float64)
            for f, s in zip(schema.features, schema.slices, strict=True)
        ]
        most = max(1, *(len(v) for v in found)) if found else 1
        values, width = torch.zeros(len(found), most).double(), torch.zeros(len(found), most).double()
        there = torch.zeros(len(found), most, dtype=torch.bool)
        for f, (feature, v) in enumerate(zip(schema.features, found, strict=True)):
            values[f, : len(v)], there[f, : len(v)] = v, True
            if isinstance(feature, Scalar):
                width[f, : len(v)] = half_gaps(v)
        self.register_buffer("values", values)
        self.register_buffer("width", width)
        self.register_buffer("there", there)
        self.is_level = [isinstance(f, Category) for f in schema.features]
        self.register_buffer("is_category", torch.tensor(self.is_level))
        self.register_buffer("column", torch.tensor([s.start for s in schema.slices]))
        ends = [s.stop - 1 if f.missing else -1 for f, s in zip(schema.features, schema.slices)]
        self.register_buffer("indicator", torch.tensor(ends))
        self.register_buffer("level_columns", _level_columns(schema))
        self.d = schema.d

    @property
    def tokens(self) -> int:
        """Tokens of a feature, keeping included; those of features with fewer are never legal."""
        return self.values.shape[1] + 1

    def cells(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., F): the value of a scalar cell, the number of a category's level; 0 where it is missing."""
        scalar = x[..., self.column]
        padded = torch.cat([x, torch.full_like(x[..., :1], -torch.inf)], -1)
        level = padded[..., self.level_columns].argmax(-1).to(x.dtype)
        return torch.where(self.is_category, level, scalar).masked_fill(self.missing(x), 0.0)

    def missing(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., F) True for missing cells."""
        return (x[..., self.indicator.clamp(min=0)] > 0.5) & (self.indicator >= 0)

    def legal(self, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """People x (n, d) with bounds (n, d) on what each may reach -> (n, F, tokens) True for what they may take."""
        own, gone = self.cells(x), self.missing(x)
        value = self.values.to(x.dtype)
        least, most = low[:, self.column].unsqueeze(-1), high[:, self.column].unsqueeze(-1)
        scalar = (value >= least - SAME) & (value <= most + SAME)
        columns = self.level_columns.clamp(max=self.d - 1)
        open_ = ((high > low)[:, columns] & (self.level_columns < self.d)).any(-1)  # (n, F) categories that may move
        may = torch.where(self.is_category.unsqueeze(-1), open_.unsqueeze(-1), scalar)
        may &= self.there & ((value - own.unsqueeze(-1)).abs() > SAME) & ~gone.unsqueeze(-1)
        return torch.cat([torch.ones_like(may[..., :1]), may], -1)

    def targets(self, x: Tensor, x_new: Tensor, legal: Tensor) -> Tensor:
        """Soft labels (n, F, tokens) of the cells of x_new (n, d), as x may take them.

        A cell that does not change, or whose new value is missing, is kept. Of a number, tokens weigh

            exp(-(v_b - x'_j)^2 / (2 w_b^2))                                                                 (1)

        among the legal ones; of a category, its level alone. Where no legal token is near, the cell is kept.
        """
        own, new = self.cells(x), self.cells(x_new)
        kept = ((own - new).abs() <= SAME) | self.missing(x) | self.missing(x_new)
        apart = self.values.to(x.dtype) - new.unsqueeze(-1)
        reach = self.width.to(x.dtype).clamp(min=SAME)
        weight = torch.exp(-0.5 * (apart / reach) ** 2)  # (1)
        weight = weight.masked_fill(~legal[..., 1:], 0.0)
        total = weight.sum(-1, keepdim=True)
        kept |= total.squeeze(-1) < 1e-6
        soft = torch.cat([torch.zeros_like(weight[..., :1]), weight / total.clamp(min=1e-12)], -1)
        keep = torch.zeros_like(soft)
        keep[..., KEEP] = 1.0
        return torch.where(kept.unsqueeze(-1), keep, soft)

    def written(self, x: Tensor, token: Tensor) -> Tensor:
        """Rows (..., d) of people x (..., d) who take tokens (..., F); kept cells are theirs to the bit."""
        return self.put(x, token, torch.arange(len(self.column), device=x.device))

    def put(self, x: Tensor, token: Tensor, features: Tensor) -> Tensor:
        """Rows x (..., d) with the tokens (..., k) of some features (k,)."""
        out = x.clone()
        value = self.values[features].to(x.dtype).expand(*token.shape, -1)
        value = value.gather(-1, (token - 1).clamp(min=0).unsqueeze(-1)).squeeze(-1)
        for i, f in enumerate(features.tolist()):
            taken = token[..., i] != KEEP
            if self.is_level[f]:
                columns = self.level_columns[f][self.level_columns[f] < self.d]
                hot = nn.functional.one_hot(value[..., i].long(), len(columns)).to(x.dtype)
                out[..., columns] = torch.where(taken.unsqueeze(-1), hot, x[..., columns])
            else:
                j = int(self.column[f])
                out[..., j] = torch.where(taken, value[..., i], x[..., j])
        return out


def scalar_values(feature: Scalar, seen: Tensor, bins: int) -> Tensor:
    """At most `bins` legal encoded values that stand for those seen, ascending."""
    if not len(seen):
        return seen.double()
    multiple = torch.round(feature.units(seen.double()) / feature.choice_step).clamp(*grid_ends(feature))
    values, counts = value_at(feature, multiple).unique(return_counts=True)
    if len(values) <= bins:
        return values
    heavy = counts >= counts.sum() / bins
    if int(heavy.sum()) >= bins:
        return values[counts.argsort(descending=True, stable=True)[:bins]].sort().values
    light, weight = values[~heavy], counts[~heavy].double()
    left = bins - int(heavy.sum())
    middle = weight.cumsum(0) - weight / 2
    part = (middle / weight.sum() * left).floor().clamp(max=left - 1).long()  # (light,) the bin of each value
    centre = middle.new_zeros(left).scatter_reduce(0, part, middle, "mean", include_self=False)
    apart = (middle - centre[part]).abs()
    chosen = [light[part == b][apart[part == b].argmin()] for b in part.unique().tolist()]
    return torch.cat([values[heavy], torch.stack(chosen)]).sort().values


def half_gaps(values: Tensor) -> Tensor:
    """(b,) half the mean distance of each ascending value to its neighbours; 1 where it has none."""
    if len(values) < 2:
        return torch.ones_like(values)
    gap = values.diff()
    return (torch.cat([gap[:1], gap]) + torch.cat([gap, gap[-1:]])) / 4


def _present(cells: Tensor, missing: bool) -> Tensor:
    """Values (m,) of the cells (rows, width) that are there."""
    return cells[cells[:, -1] <= 0.5, 0] if missing else cells[:, 0]


def _level_columns(schema: Schema) -> Tensor:
    """(F, L) encoded columns of each category's levels, padded with d."""
    lists = [
        list(range(s.start, s.start + len(f.levels))) if isinstance(f, Category) else []
        for f, s in zip(schema.features, schema.slices)
    ]
    most = max(1, *(len(columns) for columns in lists)) if lists else 1
    return torch.tensor([columns + [schema.d] * (most - len(columns)) for columns in lists])
