"""Rows of a schema as networks see them: standardised numbers in, one distribution for each cell out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from turnabout.schema import Category, Number, Ordinal, Schema
from turnabout.typing import Tensor

FREEDOM = 3.0  # degrees of freedom of the t distributions of numbers: outliers do not stretch them
CONSTANT = math.lgamma((FREEDOM + 1) / 2) - math.lgamma(FREEDOM / 2) - 0.5 * math.log(FREEDOM * math.pi)
SAME = 1e-6
ATOM = 0.2  # share of the rows that a single value must have to be an atom
FEW = 10  # rows that it must have in any case
LEAST_SPREAD = 0.1  # of a number around its prediction, in standard deviations; atoms would shrink it to nothing


Kind = Literal["kept", "number", "binary", "levels"]


@dataclass(frozen=True)
class ColumnRun:
    """Neighbouring columns that are drawn alike; the levels of a category are a run of their own."""

    kind: Kind
    start: int
    stop: int


class RowHeads(nn.Module):
    """The last layer of a network that draws rows: raw outputs (n, width) -> the distribution of a row.

    A number or ordinal x_j follows a t distribution around its prediction, whose spread s_j is learned,

        log p(x_j) = -(v + 1) / 2 * log(1 + (x_j - m_j)^2 / (v s_j^2)) - log s_j + const.        (1)

    Where one value is that of many people (no capital gain), it is an atom with a chance of its own, and (1) holds
    for the others; the chances of the two are multiplied in.                                      (2)
    A binary cell and a missing indicator follow a Bernoulli distribution, and the columns of a category a softmax. The
    value of a missing cell counts for nothing. Features that nobody can change are kept: they have no outputs.

    Parameters
    ----------
    schema : the layout of the rows.
    rows : (rows, d) encoded people, whose means and standard deviations scale the numbers.
    fixed : (F,) True for features that are kept.
    """

    loc: Tensor
    scale: Tensor
    atom: Tensor
    at_atom: Tensor
    drawn: Tensor
    indicator: Tensor
    feature_of: Tensor

    def __init__(self, schema: Schema, rows: Tensor, fixed: Tensor):
        super().__init__()
        self.runs = column_runs(schema, fixed.tolist())
        drawn = [run for run in self.runs if run.kind != "kept"]
        numbers = [j for run in drawn if run.kind == "number" for j in range(run.start, run.stop)]
        present = (rows[:, schema.missing_column.clamp(min=0)] < 0.5) | (schema.missing_column < 0).to(rows.device)
        atoms = _atoms(rows, present, numbers)
        loc, scale = torch.zeros(schema.d), torch.ones(schema.d)
        for f, s in zip(schema.features, schema.slices, strict=True):
            if isinstance(f, (Number, Ordinal)):
                j = s.start
                off = (rows[:, j] - atoms.get(j, torch.inf)).abs() > SAME  # atoms do not count
                seen = rows[present[:, j] & off, j]
                if len(seen):
                    loc[j], spread = seen.mean(), seen.std(correction=0)
                    scale[j] = spread if spread > 1e-6 else 1.0
        self.register_buffer("atom", torch.tensor(list(atoms.values()), dtype=loc.dtype))
        self.register_buffer("at_atom", torch.tensor(list(atoms), dtype=torch.long))
        self.register_buffer("loc", loc)
        self.register_buffer("scale", scale)
        places = [j for run in drawn for j in range(run.start, run.stop)]
        self.register_buffer("drawn", torch.tensor(places, dtype=torch.long))
        self.register_buffer("indicator", schema.missing_column.clone())
        self.register_buffer("feature_of", schema.feature_of.clone())
        self.log_spread = nn.Parameter(torch.zeros(len(numbers)))
        self.d = schema.d
        self.sizes = [*(run.stop - run.start for run in drawn), len(atoms)]
        self.width = sum(self.sizes)

    def standardise(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., d) as networks take it in; missing numbers at their mean."""
        z = (x - self.loc) / self.scale
        return z.masked_fill(self._missing(x), 0.0)

    def spread_given(self, given: Tensor) -> Tensor:
        """(..., F) of features -> (..., d) of their columns."""
        return given[..., self.feature_of]

    def likeliest(self, raw: Tensor, x: Tensor) -> Tensor:
        """(..., width) outputs and rows x (..., d), of which kept columns are taken -> (..., d) rows.

        Numbers as predicted, or at their atoms where these are likelier; chances of binary cells and of levels. At
        atoms the gradient is that of the expected number.
        """
        *parts, gates = raw.split(self.sizes, -1)
        left, cells = iter(parts), []
        for run in self.runs:
            s = slice(run.start, run.stop)
            if run.kind == "kept":
                cells.append(x[..., s].expand(*raw.shape[:-1], -1))
            elif run.kind == "number":
                cells.append(self.loc[s] + self.scale[s] * next(left))
            else:
                cells.append(next(left).sigmoid() if run.kind == "binary" else next(left).softmax(-1))
        row = torch.cat(cells, -1)
        if not len(self.atom):
            return row
        value, off = row[..., self.at_atom], gates.sigmoid()
        expected = off * value + (1 - off) * self.atom
        likely = torch.where(gates > 0, value, self.atom)
        return row.index_copy(-1, self.at_atom, expected + (likely - expected).detach())

    def log_likelihood(self, raw: Tensor, x: Tensor, counted: Tensor) -> Tensor:
        """(...,): log p of rows x (..., d), summed over the columns that count, (..., d) 1 or 0."""
        counted = counted.to(raw.dtype) * ~self._missing(x)
        *parts, gates = raw.split(self.sizes, -1)
        is_off = ((x[..., self.at_atom] - self.atom).abs() > SAME).to(raw.dtype)
        gated = nn.functional.binary_cross_entropy_with_logits(gates, is_off, reduction="none")
        total = -(gated * counted[..., self.at_atom]).sum(-1)  # (2)
        scaled = counted.index_copy(-1, self.at_atom, counted[..., self.at_atom] * is_off)
        left, spreads, cells = iter(parts), LEAST_SPREAD + nn.functional.softplus(self.log_spread), []
        for run in self.runs:
            s = slice(run.start, run.stop)
            if run.kind == "number":
                spread, spreads = spreads[: run.stop - run.start], spreads[run.stop - run.start :]
                error = ((x[..., s] - self.loc[s]) / self.scale[s] - next(left)) / spread
                cells.append(CONSTANT - spread.log() - (FREEDOM + 1) / 2 * torch.log1p(error**2 / FREEDOM))  # (1)
            elif run.kind == "binary":
                cells.append(-nn.functional.binary_cross_entropy_with_logits(next(left), x[..., s], reduction="none"))
            elif run.kind == "levels":
                cells.append(x[..., s] * next(left).log_softmax(-1))
        return total + (torch.cat(cells, -1) * scaled[..., self.drawn]).sum(-1) if cells else total

    def _missing(self, x: Tensor) -> Tensor:
        """(..., d) value columns of missing cells."""
        own = torch.arange(self.d, device=x.device)
        flag = x[..., self.indicator.clamp(min=0)] > 0.5
        return flag & (self.indicator >= 0) & (self.indicator != own)


def column_runs(schema: Schema, fixed: Sequence[bool]) -> list[ColumnRun]:
    """The columns of a schema in order, cut where they are drawn otherwise; those of fixed features are kept."""
    runs: list[ColumnRun] = []

    def add(kind: Kind, start: int, stop: int) -> None:
        if runs and runs[-1].kind == kind != "levels":
            start = runs.pop().start
        if stop > start:
            runs.append(ColumnRun(kind, start, stop))

    for f, s, kept in zip(schema.features, schema.slices, fixed, strict=True):
        value = s.stop - f.missing
        kind: Kind = "number" if isinstance(f, (Number, Ordinal)) else "levels" if isinstance(f, Category) else "binary"
        add("kept" if kept else kind, s.start, value)
        add("kept" if kept else "binary", value, s.stop)
    return runs


def _atoms(rows: Tensor, present: Tensor, numbers: list[int]) -> dict[int, float]:
    """The value that many people have, of columns that have one and at least two others beside it."""
    found: dict[int, float] = {}
    for j in numbers:
        values, counts = rows[present[:, j], j].unique(return_counts=True)
        if len(values) > 2 and int(counts.max()) >= max(FEW, ATOM * int(counts.sum())):
            found[j] = float(values[counts.argmax()])
    return found
