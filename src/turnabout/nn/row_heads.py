"""Rows of a schema as networks see them: standardised numbers in, one distribution for each cell out."""

from __future__ import annotations

import math

import torch
from torch import nn

from turnabout.schema import Category, Number, Ordinal, Schema
from turnabout.typing import Tensor

FREEDOM = 3.0  # degrees of freedom of the t distributions of numbers: outliers do not stretch them
SAME = 1e-6
ATOM = 0.2  # share of the rows that a single value must have to be an atom
LEAST_SPREAD = 0.1  # of a number around its prediction, in standard deviations; atoms would shrink it to nothing


class RowHeads(nn.Module):
    """The last layer of a network that draws rows: raw outputs (n, width) -> the distribution of a row.

    A number or ordinal x_j follows a t distribution around its prediction, whose spread s_j is learned,

        log p(x_j) = -(v + 1) / 2 * log(1 + (x_j - m_j)^2 / (v s_j^2)) - log s_j + const.        (1)

    Where one value is that of many people (no capital gain), it is an atom with a chance of its own, and (1) holds
    for the others; the chances of the two are multiplied in.                                      (2)
    A binary cell and a missing indicator a Bernoulli distribution, and the columns of a category a softmax. The value
    of a missing cell counts for nothing.

    Parameters
    ----------
    schema : the layout of the rows.
    rows : (rows, d) encoded people, whose means and standard deviations scale the numbers.
    """

    loc: Tensor
    scale: Tensor
    atom: Tensor
    at_atom: Tensor
    number: Tensor
    binary: Tensor
    group: Tensor
    indicator: Tensor
    feature_of: Tensor

    def __init__(self, schema: Schema, rows: Tensor):
        super().__init__()
        numbers, binaries, groups = [], [], []
        for f, s in zip(schema.features, schema.slices, strict=True):
            stop = s.stop - f.missing
            if isinstance(f, (Number, Ordinal)):
                numbers += list(range(s.start, stop))
            elif isinstance(f, Category):
                groups.append(list(range(s.start, stop)))
            else:
                binaries += list(range(s.start, stop))
            binaries += [s.stop - 1] if f.missing else []
        d, widest = schema.d, max(map(len, groups), default=0)
        present = (rows[:, schema.missing_column.clamp(min=0)] < 0.5) | (schema.missing_column < 0).to(rows.device)
        loc, scale = torch.zeros(d), torch.ones(d)
        for j in numbers:  # of the cells that hold a value
            seen = rows[present[:, j], j]
            if len(seen):
                loc[j], spread = seen.mean(), seen.std(correction=0)
                scale[j] = spread if spread > 1e-6 else 1.0
        atoms = _atoms(rows, present, numbers)
        for j, value in atoms.items():  # the others are scaled by themselves
            seen = rows[present[:, j] & ((rows[:, j] - value).abs() > SAME), j]
            loc[j], spread = seen.mean(), seen.std(correction=0)
            scale[j] = spread if spread > 1e-6 else 1.0
        self.register_buffer("atom", torch.tensor(list(atoms.values()), dtype=loc.dtype))
        self.register_buffer("at_atom", torch.tensor(list(atoms), dtype=torch.long))
        self.register_buffer("loc", loc)
        self.register_buffer("scale", scale)
        self.register_buffer("number", torch.tensor(numbers, dtype=torch.long))
        self.register_buffer("binary", torch.tensor(binaries, dtype=torch.long))
        padded = torch.tensor([g + [d] * (widest - len(g)) for g in groups], dtype=torch.long)
        self.register_buffer("group", padded.reshape(len(groups), widest))
        self.register_buffer("indicator", schema.missing_column.clone())
        self.register_buffer("feature_of", schema.feature_of.clone())
        self.log_spread = nn.Parameter(torch.zeros(len(numbers)))
        self.d, self.width = d, d + len(atoms)

    def standardise(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., d) as networks take it in; missing numbers at their mean."""
        z = (x - self.loc) / self.scale
        return z.masked_fill(self._missing(x), 0.0)

    def spread_given(self, given: Tensor) -> Tensor:
        """(..., F) of features -> (..., d) of their columns."""
        return given[..., self.feature_of]

    def predict(self, raw: Tensor) -> Tensor:
        """(..., width) outputs -> (..., d) the expected row: numbers, chances of binary cells, and of levels."""
        x = self._values(raw)
        off = raw[..., self.d :].sigmoid()
        x[..., self.at_atom] = off * x[..., self.at_atom] + (1 - off) * self.atom
        return x

    def mode(self, raw: Tensor) -> Tensor:
        """(..., width) outputs -> (..., d) as `predict`, with numbers at their atoms where these are likelier."""
        x = self._values(raw)
        x[..., self.at_atom] = torch.where(raw[..., self.d :] > 0, x[..., self.at_atom], self.atom)
        return x

    def _values(self, raw: Tensor) -> Tensor:
        """Numbers off their atoms, chances of binary cells, and of levels."""
        raw = raw[..., : self.d]
        x = torch.zeros_like(raw)
        x[..., self.number] = self.loc[self.number] + self.scale[self.number] * raw[..., self.number]
        x[..., self.binary] = raw[..., self.binary].sigmoid()
        if len(self.group):
            padded = nn.functional.pad(x, (0, 1))
            padded[..., self.group.flatten()] = self._levels(raw).softmax(-1).flatten(-2)
            x = padded[..., :-1]
        return x

    def log_likelihood(self, raw: Tensor, x: Tensor, counted: Tensor) -> Tensor:
        """(...,): log p of rows x (..., d), summed over the columns that count, (..., d) 1 or 0."""
        counted = counted.to(raw.dtype) * ~self._missing(x)
        off, raw = raw[..., self.d :], raw[..., : self.d]
        at = self.at_atom
        is_off = ((x[..., at] - self.atom).abs() > SAME).to(raw.dtype)
        gates = nn.functional.binary_cross_entropy_with_logits(off, is_off, reduction="none")
        total = -(gates * counted[..., at]).sum(-1)  # (2)
        scaled = counted.clone()
        scaled[..., at] *= is_off
        at = self.number
        spread = LEAST_SPREAD + nn.functional.softplus(self.log_spread)
        error = ((x[..., at] - self.loc[at]) / self.scale[at] - raw[..., at]) / spread
        constant = math.lgamma((FREEDOM + 1) / 2) - math.lgamma(FREEDOM / 2) - 0.5 * math.log(FREEDOM * math.pi)
        numbers = constant - spread.log() - (FREEDOM + 1) / 2 * torch.log1p(error**2 / FREEDOM)  # (1)
        total = total + (numbers * scaled[..., at]).sum(-1)
        at = self.binary
        cells = nn.functional.binary_cross_entropy_with_logits(raw[..., at], x[..., at], reduction="none")
        total = total - (cells * counted[..., at]).sum(-1)
        if len(self.group):
            logs = self._levels(raw).log_softmax(-1)
            hot = nn.functional.pad(x, (0, 1))[..., self.group]
            chosen = (hot * logs.masked_fill(torch.isinf(logs), 0.0)).sum(-1)
            total = total + (chosen * counted[..., self.group[:, 0]]).sum(-1)
        return total

    def _levels(self, raw: Tensor) -> Tensor:
        """(..., g, k) scores of the levels of each category, -inf beyond its last."""
        return nn.functional.pad(raw, (0, 1), value=-torch.inf)[..., self.group]

    def _missing(self, x: Tensor) -> Tensor:
        """(..., d) value columns of missing cells."""
        own = torch.arange(self.d, device=x.device)
        flag = x[..., self.indicator.clamp(min=0)] > 0.5
        return flag & (self.indicator >= 0) & (self.indicator != own)


def _atoms(rows: Tensor, present: Tensor, numbers: list[int]) -> dict[int, float]:
    """The value that a share `ATOM` of the people have, of columns that have one and other values beside it."""
    found: dict[int, float] = {}
    for j in numbers:
        values, counts = rows[present[:, j], j].unique(return_counts=True)
        if len(values) > 2 and int(counts.max()) >= ATOM * int(counts.sum()):
            found[j] = float(values[counts.argmax()])
    return found
