"""Declared actions as lines, and lines as the tensors of StepTables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from turnabout.actions.action import Action
from turnabout.actions.steps import StepTables
from turnabout.schema import Scalar, Schema


@dataclass(frozen=True)
class Row:
    """A condition over encoded columns, in units: of_old . s + of_new . s' + offset >= 0, or > 0 where strict."""

    of_old: dict[int, float]
    of_new: dict[int, float]
    offset: float
    strict: bool
    text: str


@dataclass
class ActionLine:
    """What one action does, by encoded column; see StepTables for the meaning of each entry."""

    action: Action
    keep: dict[int, float] = field(default_factory=dict)
    add: dict[int, float] = field(default_factory=dict)
    gain: dict[tuple[int, int], float] = field(default_factory=dict)
    leader: dict[int, int] = field(default_factory=dict)
    constant: float = 0.0
    prices: dict[str, dict[int, float]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    takes: float = 0.0
    takes_old: dict[int, float] = field(default_factory=dict)
    takes_new: dict[int, float] = field(default_factory=dict)
    factors: dict[int, int] = field(default_factory=dict)  # parameter -> the column that it multiplies

    def handle(self, p: int) -> int | None:
        """A column that this parameter alone moves, from which it can be read back."""
        moved = [column for _, column in self.gain]
        return next((column for q, column in self.gain if q == p and moved.count(column) == 1), None)

    @property
    def columns(self) -> set[int]:
        """Every encoded column it speaks of."""
        out = {*self.keep, *self.add, *self.leader, *self.leader.values(), *self.takes_old, *self.takes_new}
        out |= {column for _, column in self.gain}
        return out.union(*(row.of_old for row in self.rows), *(row.of_new for row in self.rows))


def tables(schema: Schema, lines: Sequence[ActionLine], every: bool) -> StepTables:
    """Lines as tensors, over the columns they speak of or over every column of the schema."""
    columns = sorted(range(schema.d) if every else set().union(*(line.columns for line in lines)))
    place = {column: j for j, column in enumerate(columns)}
    bottom, span = scales(schema)
    count, e = len(lines) + 1, len(columns)
    p_max = max(1, *(len(line.action.parameters) for line in lines))
    c_max = max(1, *(len(line.rows) for line in lines))
    shapes: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(("add", "absolute", "absolute_relative", "squared", "squared_relative"), (count, e)),
        **dict.fromkeys(("takes_old", "takes_new"), (count, e)),
        **dict.fromkeys(("of_old", "of_new"), (count, c_max, e)),
        **dict.fromkeys(("constant", "takes"), (count,)),
        "gain": (count, p_max, e),
    }
    out: dict[str, Any] = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    out["keep"] = torch.ones(count, e, dtype=torch.float64)
    out["offset"], out["size"] = torch.ones(count, c_max, dtype=torch.float64), torch.ones(count, c_max).double()
    out["strict"] = torch.zeros(count, c_max, dtype=torch.bool)
    out["leader"] = torch.arange(e).repeat(count, 1)
    out["low"] = torch.full((count, p_max), -torch.inf, dtype=torch.float64)
    out["high"] = torch.full((count, p_max), torch.inf, dtype=torch.float64)
    out["unit"] = torch.ones(count, p_max, dtype=torch.float64)
    out["used"] = torch.zeros(count, p_max, dtype=torch.bool)
    for a, line in enumerate(lines):
        _fill(out, a, line, place, span)
    index = torch.tensor(columns, dtype=torch.long)
    return StepTables(columns=index, bottom=bottom[index], span=span[index], **out)


def _fill(out: dict[str, Any], a: int, line: ActionLine, place: dict[int, int], span: torch.Tensor) -> None:
    for name in ("keep", "add", "takes_old", "takes_new"):
        for column, value in getattr(line, name).items():
            out[name][a, place[column]] = value
    for kind, of in line.prices.items():
        for column, value in of.items():
            out[kind][a, place[column]] = value
    for column, leader in line.leader.items():
        out["leader"][a, place[column]] = place[leader]
    out["constant"][a], out["takes"][a] = line.constant, line.takes
    for (p, column), value in line.gain.items():
        out["gain"][a, p, place[column]] = value
    for p, parameter in enumerate(line.action.parameters):
        out["used"][a, p] = True
        low, high = (None, None) if p in line.factors else (parameter.low, parameter.high)
        out["low"][a, p] = -torch.inf if low is None else low
        out["high"][a, p] = torch.inf if high is None else high
        units = [float(span[column]) / 10 / abs(value) for (q, column), value in line.gain.items() if q == p]
        if not units and low is not None and high is not None and low < high:
            units = [(high - low) / 10]
        out["unit"][a, p] = min(units, default=1.0)
    for c, row in enumerate(line.rows):
        for name, weights in (("of_old", row.of_old), ("of_new", row.of_new)):
            for column, value in weights.items():
                out[name][a, c, place[column]] = value
        total = sum(abs(value) * float(span[column]) for of in (row.of_old, row.of_new) for column, value in of.items())
        out["offset"][a, c], out["strict"][a, c], out["size"][a, c] = row.offset, row.strict, total


def scales(schema: Schema) -> tuple[torch.Tensor, torch.Tensor]:
    """(d,), (d,): units at position 0 of every encoded column, and units per position."""
    bottom, span = torch.zeros(schema.d, dtype=torch.float64), torch.ones(schema.d, dtype=torch.float64)
    for feature, s in zip(schema.features, schema.slices, strict=True):
        if isinstance(feature, Scalar):
            bottom[s.start], span[s.start] = feature.bottom, feature.span
    return bottom, span
