"""What is wrong with a set of actions that each reads well: conditions nobody can meet, steps that change nothing.

Every condition of an action is a sum over the old values, its parameters and the new values that keep a ratio. Within
the bounds of the schema such a sum has a largest value; if that is below zero, nobody meets the condition. Two
conditions contradict each other if some weighted sum of both is below zero everywhere: the weights to try are those
at which a value drops out of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import torch

from turnabout.actions.lines import ActionLine, Row, scales
from turnabout.schema import Category, Number, Schema
from turnabout.typing import Tensor

if TYPE_CHECKING:
    from turnabout.actions.bound import BoundActions

NOISE = 1e-9  # share of its size by which a sum may miss zero
Value = tuple[Literal["old", "new", "r"], int]  # by encoded column, or by parameter


@dataclass
class SumInequality:
    """sum of weight * value + offset >= 0, or > 0 where strict; text is how the condition reads."""

    weights: dict[Value, float]
    offset: float
    strict: bool
    text: str

    def plus(self, other: SumInequality, factor: float) -> SumInequality:
        """This plus factor times the other."""
        weights = dict(self.weights)
        for value, weight in other.weights.items():
            weights[value] = weights.get(value, 0.0) + factor * weight
            if abs(weights[value]) <= 1e-12 * abs(factor * weight):
                del weights[value]
        return SumInequality(weights, self.offset + factor * other.offset, self.strict or other.strict, "")


@dataclass
class Scope:
    """The conditions of one action as sums, over values between the limits of `box`."""

    schema: Schema
    line: ActionLine
    box: dict[Value, tuple[float, float]] = field(default_factory=dict)
    sums: list[SumInequality] = field(default_factory=list)

    def __post_init__(self) -> None:
        for p, parameter in enumerate(self.line.action.parameters):
            factor = p in self.line.factors
            low, high = (None, None) if factor else (parameter.low, parameter.high)
            self.box["r", p] = (-math.inf if low is None else low, math.inf if high is None else high)
        self.sums = [self._sum(row) for row in self.line.rows]
        for column in sorted(self.line.keep):
            self._keep_in_bounds(column)

    def limits(self, column: int) -> tuple[float, float]:
        """Lowest and highest value of an encoded column, in units."""
        f = int(self.schema.feature_of[column])
        feature = self.schema.features[f]
        if isinstance(feature, Category) or column > self.schema.slices[f].start:
            return 0.0, 1.0
        if isinstance(feature, Number):
            return feature.low, feature.high
        return 0.0, float(len(getattr(feature, "levels", ())) - 1)

    def after(self, column: int) -> tuple[dict[Value, float], float]:
        """The new value of a column as a sum over other values, and its constant."""
        line = self.line
        if column not in line.keep:
            return {("old", column): 1.0}, 0.0
        if column in line.leader:
            return {("new", column): 1.0}, 0.0
        weights: dict[Value, float] = {("r", p): gain for (p, j), gain in line.gain.items() if j == column}
        if line.keep[column]:
            weights["old", column] = line.keep[column]
        return weights, line.add.get(column, 0.0)

    def _sum(self, row: Row) -> SumInequality:
        out = SumInequality(
            {("old", column): weight for column, weight in row.of_old.items()}, row.offset, row.strict, row.text
        )
        for column, weight in row.of_new.items():
            weights, constant = self.after(column)
            out = out.plus(SumInequality(weights, constant, False, ""), weight)
        out.text = row.text
        for value in out.weights:
            if value[0] != "r":
                self.box.setdefault(value, self.limits(value[1]))
        return out

    def _keep_in_bounds(self, column: int) -> None:
        """A new value lies within the bounds of its feature, and on the side to which that may move."""
        feature = self.schema.features[int(self.schema.feature_of[column])]
        low, high = self.limits(column)
        if isinstance(feature, Category):
            return
        ends = f"{feature.name} stays between its bounds"
        rows = [Row({}, {column: 1.0}, -low, False, ends), Row({}, {column: -1.0}, high, False, ends)]
        if feature.moves in ("up", "down"):
            sign = 1.0 if feature.moves == "up" else -1.0
            text = f"{feature.name} may only {'rise' if sign > 0 else 'fall'}"
            rows.append(Row({column: -sign}, {column: sign}, 0.0, False, text))
        self.sums += [self._sum(row) for row in rows]

    # -- checks -----------------------------------------------------------------------------------------------

    def contradiction(self) -> str | None:
        """What keeps everybody from taking the action, or None."""
        if (said := self._fix_levels()) is not None:
            return said
        for one in self.sums:
            if self._never(one):
                return f"'{one.text}' never holds within the bounds of the schema"
        for one, two in combinations(self.sums, 2):
            for factor in _factors(one, two):
                if self._never(one.plus(two, factor)):
                    return f"'{one.text}' and '{two.text}' contradict each other"
        return None

    def is_idle(self) -> bool:
        """Whether no step of the action can change anything; asked after the levels were fixed."""
        for column in self.line.keep:
            weights, constant = self.after(column)
            change = SumInequality(weights, constant, False, "").plus(
                SumInequality({("old", column): 1.0}, 0.0, False, ""), -1.0
            )
            for value in change.weights:
                if value[0] != "r":
                    self.box.setdefault(value, self.limits(value[1]))
            if column in self.line.leader or any(self.most(change, sign) > NOISE for sign in (1.0, -1.0)):
                return False
        return True

    def most(self, one: SumInequality, sign: float = 1.0) -> float:
        """The largest value of a sum, or of its negative."""
        total = sign * one.offset
        for value, weight in one.weights.items():
            low, high = self.box[value]
            total += max(sign * weight * low, sign * weight * high)
        return total

    def _never(self, one: SumInequality) -> bool:
        size = abs(one.offset) + sum(
            abs(weight) * max(abs(end) for end in self.box[value] if math.isfinite(end))
            for value, weight in one.weights.items()
            if any(map(math.isfinite, self.box[value]))
        )
        most = self.most(one)
        return most < -NOISE * size or (one.strict and most <= 1e-12 * size)

    def _fix_levels(self) -> str | None:
        """Narrow the box by conditions on a single level; says so if no level is left."""
        for one in self.sums:
            if len(one.weights) != 1:
                continue
            ((kind, column), weight), *_ = one.weights.items()
            if kind != "old" or isinstance(self.schema.features[int(self.schema.feature_of[column])], Number):
                continue
            low, high = self.box["old", column]
            cut = -one.offset / weight
            if weight > 0:
                low = max(low, math.ceil(cut - NOISE))
            else:
                high = min(high, math.floor(cut + NOISE))
            self.box["old", column] = (low, high)
            if low > high:
                others = [s.text for s in self.sums if list(s.weights) == [("old", column)] and s.text != one.text]
                return f"'{one.text}'" + (f" and '{others[0]}' contradict each other" if others else " never holds")
        for feature, s in zip(self.schema.features, self.schema.slices, strict=True):
            if not isinstance(feature, Category):
                continue
            levels: list[Value] = [("old", s.start + k) for k in range(len(feature.levels))]
            texts = [one.text for one in self.sums if len(one.weights) == 1 and next(iter(one.weights)) in levels]
            chosen = [level for level in levels if self.box.get(level, (0.0, 1.0))[0] == 1.0]
            left = [level for level in levels if self.box.get(level, (0.0, 1.0))[1] == 1.0]
            if len(chosen) > 1 or not left:
                return f"{' and '.join(map(repr, dict.fromkeys(texts)))} leave '{feature.name}' no level"
            if chosen:
                self.box |= {level: (float(level in chosen),) * 2 for level in levels}
        return None


def contradictions(bound: BoundActions) -> list[str]:
    """A sentence for every action that nobody can take."""
    out = []
    for line in bound.lines:
        if line is not None and (why := Scope(bound.schema, line).contradiction()) is not None:
            out.append(f"nobody can take the action '{line.action.name}': {why}.")
    return out


def idle(bound: BoundActions) -> list[str]:
    """A sentence for every action that can be taken but changes nothing."""
    out = []
    for line in bound.lines:
        if line is None:
            continue
        reach = Scope(bound.schema, line)
        if reach.contradiction() is None and reach.is_idle():
            out.append(f"the action '{line.action.name}' never changes anything.")
    return out


def unreachable(bound: BoundActions, x: Tensor) -> list[str]:
    """A sentence for every action that none of the people x (n, d) can take, whatever they did before."""
    bottom, span = scales(bound.schema)
    state = bottom + x.cpu() * span  # (n, d)
    low, high = state.clone(), state.clone()
    for a, line in enumerate(bound.lines):
        columns = bound.footprint_columns(a).tolist() if line is None else list(line.keep)
        for column in columns:
            if line is not None and line.keep[column] == 0 and not any(j == column for _, j in line.gain):
                ends = (line.add.get(column, 0.0),) * 2  # set to a constant
            else:
                ends = (float(bottom[column]), float(bottom[column] + span[column]))
            low[:, column].clamp_(max=min(ends))
            high[:, column].clamp_(min=max(ends))
    out = []
    for line in bound.lines:
        if line is None:
            continue
        able = torch.ones(len(x), dtype=torch.bool)
        for weights, row in _before(line, bound.schema.d):
            most = (torch.maximum(weights * low, weights * high)).sum(1) + row.offset
            able &= (most > 0) if row.strict else (most >= -NOISE * weights.abs().sum())
        if not bool(able.any()):
            out.append(f"none of these people can ever take the action '{line.action.name}'.")
    return out


def _before(line: ActionLine, d: int) -> Iterator[tuple[Tensor, Row]]:
    """Conditions on the row before the step alone, as weights (d,)."""
    for row in line.rows:
        if not any(column in line.keep for column in row.of_new):
            weights = torch.zeros(d, dtype=torch.float64)
            for of in (row.of_old, row.of_new):
                for column, weight in of.items():
                    weights[column] += weight
            yield weights, row


def _factors(one: SumInequality, two: SumInequality) -> list[float]:
    """Weights of the second sum at which a value drops out of one + factor * two."""
    both = [value for value in one.weights if value in two.weights]
    return [-one.weights[v] / two.weights[v] for v in both if one.weights[v] * two.weights[v] < 0]
