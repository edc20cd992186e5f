"""Structural equations over encoded people: what follows from a change, and which rows are consistent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from turnabout.errors import RuleError
from turnabout.rules.linear import _address
from turnabout.rules.rule import TOLERANCE, BoundRule, find_feature
from turnabout.schema import Feature, Number, Scalar, Schema
from turnabout.schema.features import GRID_NOISE
from turnabout.typing import Tensor

if TYPE_CHECKING:
    from turnabout.rules.equations import Equation


@dataclass(frozen=True)
class Parent:
    """A parent's encoded column, and how its units and the target's relate."""

    key: str
    place: int  # among the equation's coefficients
    column: int
    bottom: float
    span: float
    missing: int  # column of the indicator, or -1


@dataclass(frozen=True)
class BoundEquation:
    """One equation in encoded columns; parents that can never change are left out of a sum."""

    name: str
    feature: int
    column: int
    missing: int
    parents: tuple[Parent, ...]
    weights: tuple[float, ...]  # units of the target per unit of each parent; empty with a function
    function: Callable[[Mapping[str, Tensor]], Tensor] | None
    scalar: Scalar

    @property
    def ends(self) -> tuple[float, float]:
        """The first and the last level, in steps; a number has none, since its bounds limit choices."""
        f = self.scalar
        if isinstance(f, Number):
            return -math.inf, math.inf
        low, high = f.bottom / f.unit_step, (f.bottom + f.span) / f.unit_step
        return math.ceil(low - GRID_NOISE), math.floor(high + GRID_NOISE)

    def value(self, old: Sequence[Tensor], new: Sequence[Tensor], draws: Tensor | None) -> Tensor:
        """own + f(new parents) - f(own parents), encoded, neither rounded nor clipped."""
        own, span = old[self.column], self.scalar.span
        if self.function is not None:
            after, before = ({p.key: p.bottom + c[p.column] * p.span for p in self.parents} for c in (new, old))
            return own + (self.function(after) - self.function(before)) / span
        shift = torch.zeros_like(own)
        for p, known in zip(self.parents, self.weights, strict=True):
            weight = known if draws is None else draws[..., p.place].reshape(-1, *[1] * own.dim())
            shift = shift + weight * (p.span / span) * (new[p.column] - old[p.column])
        return own + shift

    def clip(self, own: Tensor, value: Tensor) -> Tensor:
        """Within the values that exist; a person outside them may stay there."""
        low, high = self._positions()
        return torch.minimum(torch.maximum(value, own.clamp(max=low)), own.clamp(min=high))

    def printed(self, own: Tensor, value: Tensor) -> Tensor:
        """The nearest value that can be printed: on the grid, a level that exists, or the person's own."""
        f = self.scalar
        first, last = self.ends
        unit, had = f.bottom + value * f.span, f.bottom + own * f.span
        written = torch.round(torch.round(unit / f.unit_step).clamp(first, last) * f.unit_step * f.decimal_scale)
        written = written / f.decimal_scale
        apart = (unit - had).abs()
        keep = (apart <= GRID_NOISE * f.unit_step) | (apart <= (unit - written).abs()) | (first > last)
        return torch.where(keep, own, (written - f.bottom) / f.span)

    def gap(self, own: Tensor, value: Tensor, new: Tensor) -> Tensor:
        """How far new lies from where it should be, less half a step; their own value is fine where it is nearest."""
        low, high = self._positions()
        inside = value.clamp(low, high)
        step = self.scalar.unit_step / self.scalar.span
        half = 0.5 * step * (1 + GRID_NOISE)
        off, moved = (new - inside).abs() - half, (new - own).abs()
        may_stay = (own - value).abs() <= (inside - value).abs() + half * GRID_NOISE
        off = torch.where(may_stay, torch.minimum(off, moved), off)
        off = torch.where((own - value).abs() <= GRID_NOISE * step, moved, off)  # no cause: nothing moves
        against = {"up": own - new, "down": new - own}.get(self.scalar.moves)
        return off if against is None else torch.maximum(off, against)

    def unknown(self, old: Sequence[Tensor]) -> Tensor:
        """True where the equation says nothing: its target is missing, or a parent of its function."""
        out = torch.zeros_like(old[self.column], dtype=torch.bool)
        columns = [self.missing, *(p.missing for p in self.parents if self.function is not None)]
        for column in columns:
            if column >= 0:
                out = out | (old[column] > 0.5)
        return out

    def _positions(self) -> tuple[float, float]:
        f = self.scalar
        if isinstance(f, Number):
            return self.ends
        first, last = (max(0.0, min(1.0, (end * f.unit_step - f.bottom) / f.span)) for end in self.ends)
        return first, max(first, last)


class BoundEquations(BoundRule):
    """Structural equations over encoded people; see `StructuralEquations`.

    lines : the equations, parents before children.
    choices : features with an equation that a person may set all the same, in that order.
    """

    def __init__(self, schema: Schema, equations: Sequence[Equation], acts: Sequence[str], name: str):
        for act in acts:
            find_feature(schema, act, name)
        self.equations = tuple(equations)
        self.lines = tuple(_line(schema, equation, name) for equation in equations)
        for line in self.lines:
            _refuse_fixed(schema, line, line.name in acts)
        self.choices = tuple(line.feature for line in self.lines if line.name in acts)
        mine = {f for line in self.lines for f in (line.feature, *(_owner(schema, p) for p in line.parents))}
        super().__init__(name, schema, sorted(mine))
        self.must = tuple(line for line in self.lines if line.feature not in self.choices)
        self.free, self.projector = self._project()

    # -- consequences -----------------------------------------------------------------------------------------

    def predict(
        self,
        x: Tensor,
        x_new: Tensor,
        held: Tensor | None = None,
        draws: Mapping[str, Tensor] | None = None,
        printed: bool = False,
    ) -> Tensor:
        """x_new with everything that follows in its place; (..., d), differentiable in x_new unless `printed`.

        held (..., choices) says which of the choices are set to their value in x_new; those that are not follow. None:
        all are held. With `draws` from `StructuralEquations.draw`, (n draws, ..., d): noise is abducted under
        each. With `printed` values are those that would be printed, else exact; levels stop at the first and the last.
        """
        if not self.lines and draws is None:
            return x_new
        old, new = x.unbind(-1), list(x_new.unbind(-1))
        for line in self.lines:
            place = self.choices.index(line.feature) if line.feature in self.choices else None
            if place is not None and held is None:
                continue
            c = line.column
            drawn = None if draws is None or line.name not in draws else draws[line.name].to(x_new)
            value = line.value(old, new, drawn)
            value = line.printed(old[c], value) if printed else line.clip(old[c], value)
            stay = line.unknown(old)
            if place is not None and held is not None:
                stay = stay | held[..., place]
            new[c] = torch.where(stay, new[c], value)
        if draws is not None:  # so that there is one row for each, even where nothing depends on them
            new[0] = new[0].expand(len(next(iter(draws.values()), x)), *x_new.shape[:-1])
        return torch.stack(torch.broadcast_tensors(*new), -1)

    def follow(self, x: Tensor, x_new: Tensor) -> Tensor:
        return self.predict(x, x_new, printed=True)

    def held(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(..., choices) True where a choice lies more than half a step from where it would have followed to."""
        old, new = x.unbind(-1), x_new.unbind(-1)
        by_feature = {line.feature: line for line in self.lines}
        chosen = [by_feature[f] for f in self.choices]
        out = [line.gap(old[line.column], line.value(old, new, None), new[line.column]) > 0 for line in chosen]
        shape = torch.broadcast_shapes(x.shape[:-1], x_new.shape[:-1])
        return torch.stack(out, -1) if out else torch.zeros(*shape, 0, dtype=torch.bool, device=x.device)

    # -- the rule ---------------------------------------------------------------------------------------------

    def violation(self, x: Tensor, x_new: Tensor) -> Tensor:
        kept = super().violation(x, x_new)
        if self.waivable or not self.indicators:
            return kept
        change = self._change(x, x_new).clamp(min=2 * TOLERANCE)
        return torch.where(self.unknown(x, x_new), torch.maximum(change, kept), kept)

    def silent(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x[..., 0], dtype=torch.bool)  # each equation sees to its missing cells

    def _open(self, x: Tensor, x_new: Tensor, silent: Tensor) -> Tensor:
        """True where something moved whose consequence cannot be told, because a cell of its equation is missing."""
        out = torch.zeros_like(x[..., 0] + x_new[..., 0], dtype=torch.bool)
        for line in self.must:
            out = out | self._line_open(line, x, x_new)
        return out

    def _line_open(self, line: BoundEquation, x: Tensor, x_new: Tensor) -> Tensor:
        moved = torch.zeros_like(x[..., 0] + x_new[..., 0], dtype=torch.bool)
        for p in line.parents:
            moved = moved | ((x_new[..., p.column] - x[..., p.column]).abs() > TOLERANCE)
        return moved & line.unknown(x.unbind(-1))

    def _without_open(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Rows (m, d) with all causes of what cannot be told put back."""
        if self.waivable or not self.indicators:
            return x_new
        for line in self.must:
            causes = torch.zeros(x.shape[-1], dtype=torch.bool, device=x.device)
            causes[self._causes(line)] = True
            x_new = torch.where(self._line_open(line, x, x_new).unsqueeze(-1) & causes, x, x_new)
        return x_new

    def _causes(self, line: BoundEquation) -> list[int]:
        """Encoded columns of the features from which a line's target follows, through other lines too."""
        by_feature = {other.feature: other for other in self.must}
        todo, features = [_owner(self.schema, p) for p in line.parents], set[int]()
        while todo:
            if (f := todo.pop()) not in features:
                features.add(f)
                todo += [_owner(self.schema, p) for p in by_feature[f].parents] if f in by_feature else []
        return [c for f in features for c in range(self.schema.slices[f].start, self.schema.slices[f].stop)]

    def _gap(self, x: Tensor, x_new: Tensor) -> Tensor:
        old, new = x.unbind(-1), x_new.unbind(-1)
        worst = torch.zeros_like(x[..., 0] + x_new[..., 0])
        for line in self.must:
            gap = line.gap(old[line.column], line.value(old, new, None), new[line.column])
            worst = torch.maximum(worst, torch.where(line.unknown(old), torch.zeros_like(gap), gap))
        return worst

    def _relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Near the nearest consistent point: a wish for a consequence becomes a wish for its causes."""
        x_new = self._without_open(x, x_new)
        if len(self.free):
            free, wish = self.free.to(x.device), x_new - x
            wish = torch.cat([wish[:, free], wish[:, [line.column for line in self.must]]], 1)
            x_new = x_new.clone()
            x_new[:, free] = x[:, free] + wish @ self.projector.to(x).T
            x_new = self._without_open(x, self.schema.relax(x, x_new))
        return self.predict(x, x_new)

    def _snap(self, x: Tensor, x_new: Tensor) -> Tensor:
        x_new = self._without_open(x, x_new)
        return self.schema.snap(x, self.predict(x, x_new, printed=True))

    def _project(self) -> tuple[Tensor, Tensor]:
        """Columns r that are free to move, and P with d_r = P (d_r, d_follow) nearest to both.

        With d_follow = B d_r by the linear equations,  P = (I + B'B)^-1 (I, B').
        """
        schema = self.schema
        effect = torch.eye(schema.d, dtype=torch.float64)
        for line in self.must:
            effect[line.column] = 0.0
            for p, weight in zip(line.parents, line.weights):
                effect[line.column] += weight * p.span / line.scalar.span * effect[p.column]
        follow = [line.column for line in self.must]
        touched = (effect[follow] != 0).any(0) if follow else torch.zeros(schema.d, dtype=torch.bool)
        free = touched.nonzero().squeeze(1)
        b = effect[follow][:, free]
        eye = torch.eye(len(free), dtype=torch.float64)
        return free, torch.linalg.solve(eye + b.T @ b, torch.cat([eye, b.T], 1))


def _owner(schema: Schema, parent: Parent) -> int:
    return int(schema.feature_of[parent.column])


def _line(schema: Schema, equation: Equation, rule: str) -> BoundEquation:
    """An equation in encoded columns, or an error that says which name does not fit."""
    f, feature = find_feature(schema, equation.target, rule)
    if not isinstance(feature, Scalar):
        raise RuleError(
            f"there is an equation of the category '{equation.target}', and levels have no additive noise.",
            hint="leave it without an equation, or declare it as an Ordinal.",
        )
    parents: list[Parent] = []
    for place, key in enumerate(equation.parents, start=1):
        g, column, bottom, span = _address(schema, key, rule)
        if equation.function is not None or schema.features[g].moves != "fixed":
            parents.append(Parent(key, place, column, bottom, span, _indicator(schema, g)))
    weights = () if equation.function is not None else tuple(equation.coefficients[p.key] for p in parents)
    place = schema.slices[f].start
    return BoundEquation(
        equation.target, f, place, _indicator(schema, f), tuple(parents), weights, equation.function, feature
    )


def _indicator(schema: Schema, f: int) -> int:
    return schema.slices[f].stop - 1 if schema.features[f].missing else -1


def _refuse_fixed(schema: Schema, line: BoundEquation, may_act: bool) -> None:
    """A fixed feature neither follows what moves nor can be held against it: both take what nobody can do."""

    def moves(feature: Feature) -> bool:
        return feature.moves != "fixed"

    causes = [schema.features[_owner(schema, p)] for p in line.parents]
    if not moves(line.scalar) and any(map(moves, causes)):
        cause = next(filter(moves, causes)).name
        if may_act:
            raise RuleError(
                f"'{line.name}' is among the acts and follows '{cause}', which may change, and the schema declares "
                f"'{line.name}' fixed: to hold it where it was is an intervention that nobody can make.",
                hint=f"let it move (moves='free'), fix '{cause}', or leave out the equation if nothing follows.",
            )
        raise RuleError(
            f"'{line.name}' must follow '{cause}', which may change, and the schema declares '{line.name}' fixed.",
            hint=f"let it move (moves='free'): a consequence is no act; or fix '{cause}'.",
        )
