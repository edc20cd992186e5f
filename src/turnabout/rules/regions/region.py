"""Regions: the set of changes a person may make, as a rule that every search keeps to."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

import torch

from turnabout.documents import shown
from turnabout.errors import RuleError
from turnabout.rules.grid import LegalGrid
from turnabout.rules.regions.around import Around
from turnabout.rules.rule import TOLERANCE, BoundRule, LinearForm, Rule, find_feature
from turnabout.schema import Binary, Category, Scalar, Schema
from turnabout.typing import Tensor, as_float

SHARES = (1.0, 0.75, 0.5, 0.25)  # of a change that leaves the region once it is rounded, those tried next
HALVINGS = 40


class Region(Rule):
    """A set of changes delta = new row - old row that contains 0, declared in the person's units.

    It speaks of what people choose: what is derived from other columns follows, wherever that leads.
    Which way a feature may move, its lowest and highest value, and that missing cells stay come from the schema. As a
    rule, a region keeps every method inside; bound to a schema, it also tells the best change along a slope and the
    nearest change, for training and for search.
    """

    @abstractmethod
    def bind(self, schema: Schema) -> BoundRegion: ...


class BoundRegion(BoundRule):
    """A region over encoded people; a missing cell does not change, so everyone is judged.

    Parameters
    ----------
    reach : (d,) the most each encoded column may change, infinite where only the schema limits it.

    Attributes
    ----------
    columns : encoded columns that may move.
    """

    undoing_keeps = True
    separable: ClassVar[bool] = False  # whether each feature keeps to the region on its own

    def __init__(self, schema: Schema, name: str, reach: Tensor):
        super().__init__(name, schema, range(len(schema)))
        self.indicators = []
        self.reach = reach
        scalars, groups = [], []
        for f, (feature, s) in enumerate(zip(schema.features, schema.slices, strict=True)):
            if feature.moves == "fixed" or reach[s.start] <= 0:
                continue
            if isinstance(feature, Scalar):
                scalars.append(f)
            else:
                groups.append(list(range(s.start, s.start + len(feature.value_columns))))
        self.grid = LegalGrid(schema, scalars)
        widest = max(map(len, groups), default=0)
        padded = [g + [schema.d] * (widest - len(g)) for g in groups]
        self.group = torch.tensor(padded, dtype=torch.long).reshape(len(groups), widest)
        self.columns = tuple(sorted([*self.grid.columns.tolist(), *(j for g in groups for j in g)]))

    @abstractmethod
    def around(self, x: Tensor) -> Around:
        """What people x (..., d) may do, computed once."""

    def printable(self, x: Tensor) -> Around:
        """As `around` (n, d), with the limits of scalars drawn in to legal values: what training may count on."""
        around, columns = self.around(x), self.grid.columns.to(x.device)
        rows = x.to("cpu", torch.float64)
        lo, hi = around.lo.clone(), around.hi.clone()
        for limits, lowest in ((lo, True), (hi, False)):
            end = rows[:, self.grid.columns] + limits[:, columns].to("cpu", torch.float64)
            legal = self.grid.round(rows, end, up=torch.full_like(end, lowest, dtype=torch.bool))
            limits[:, columns] = (legal - rows[:, self.grid.columns]).to(x)
        lo, hi = torch.maximum(lo, around.lo).clamp(max=0), torch.minimum(hi, around.hi).clamp(min=0)
        return replace(around, lo=lo, hi=hi)

    def _frame(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The fields of Around for people x."""
        low, high = self.schema.bounds(x)
        reach = self.reach.to(device=x.device, dtype=x.dtype)
        lo, hi = torch.maximum(low - x, -reach) + 0.0, torch.minimum(high - x, reach)
        return x, lo, hi, self.grid.columns.to(x.device), self.group.to(x.device)

    def turns_once(self, f: int) -> bool:
        return True  # a region is convex

    # -- as a rule --------------------------------------------------------------------------------------------

    def _gap(self, x: Tensor, x_new: Tensor) -> Tensor:
        gap = self.around(x).outside(self.schema.identities.chosen(x, x_new) - x)
        noise = 0.0 if gap.dtype == torch.float64 else 8 * torch.finfo(gap.dtype).eps
        return gap - noise

    def _relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        return x + self.around(x).project(x_new - x)

    def _snap(self, x: Tensor, x_new: Tensor) -> Tensor:
        device, dtype = x_new.device, x_new.dtype
        x, y = x.to("cpu", torch.float64), x_new.to("cpu", torch.float64)
        around = self.around(x)
        change = around.project(y - x)
        if self.separable:
            return self._inward(x, x + change).to(device=device, dtype=dtype)
        z, found = x.clone(), torch.zeros_like(x[:, :1], dtype=torch.bool)
        for share in SHARES:
            for row in (self.schema.snap(x, x + share * change), self._inward(x, x + share * change)):
                good = ~found & _inside(around, row)
                z, found = torch.where(good, row, z), found | good
        for _ in range(2):
            z = self._push(around, z, y)
        return z.to(device=device, dtype=dtype)

    def _inward(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Legal rows: scalars rounded towards the person's own value, categories at the likeliest level."""
        out, columns = self.schema.snap(x, x_new), self.grid.columns
        out[:, columns] = self.grid.round(x, x_new[:, columns], up=x_new[:, columns] < x[:, columns])
        return out

    def _push(self, around: Around, z: Tensor, y: Tensor) -> Tensor:
        """Legal rows z inside the region, moved towards y feature by feature as far as the region lets them."""
        columns = self.grid.columns
        for group in self.group.tolist():
            other = _with(z, y, [j for j in group if j < z.shape[1]])
            z = torch.where(_inside(around, other), other, z)
        for i, j in enumerate(columns.tolist()):
            rows = (y[:, j] != z[:, j]).nonzero().squeeze(1)
            if not len(rows):
                continue
            part, own, wish = around.take(rows), z[rows], y[rows]
            goal = _with(part.x, own + _share_inside(part, own, wish, j) * (wish - own), [j])
            rounded = self.grid.round(part.x, goal[:, columns], up=goal[:, columns] < own[:, columns])
            other = own.clone()
            other[:, j] = rounded[:, i]
            z[rows] = torch.where(_inside(part, other), other, own)
        return z

    def linear_form(self, x: Tensor) -> LinearForm | None:
        """Rows for the features that the region holds nearer than the schema does, and those of its own shape."""
        _, lo, hi, _, _ = self._frame(x)
        rows, limits = [], []
        for feature, s in zip(self.schema.features, self.schema.slices, strict=True):
            reach = float(self.reach[s.start])
            if feature.moves == "fixed" or reach >= (1.0 if isinstance(feature, Scalar) else 0.5):
                continue
            for j in range(s.start, s.start + len(feature.value_columns)):
                for sign, wrong, limit in ((1.0, "down", hi[:, j]), (-1.0, "up", -lo[:, j])):
                    if feature.moves == wrong and isinstance(feature, Scalar):
                        continue  # the schema sees to it
                    row = torch.zeros(x.shape[1], dtype=x.dtype, device=x.device)
                    row[j] = sign
                    rows.append(row)
                    limits.append(limit)
        shape = self._rows()
        if shape is None:
            return None
        a, b = (t.to(device=x.device, dtype=x.dtype) for t in shape)
        rows += list(a)
        limits += list(b.unsqueeze(1).expand(-1, x.shape[0]))
        if not rows:
            return LinearForm(x.new_zeros(0, x.shape[1]), x.new_zeros(x.shape[0], 0))
        matrix = torch.stack(rows)
        return LinearForm(matrix, torch.stack(limits, 1) + x @ matrix.T)

    def _rows(self) -> tuple[Tensor, Tensor] | None:
        """The shape beyond the box as inequalities a @ delta <= b, a (m, d) and b (m,); None where it has none."""
        return torch.zeros(0, self.schema.d), torch.zeros(0)


def regions_of(rules: Iterable[BoundRule]) -> tuple[BoundRegion, ...]:
    """Those of some rules that are regions."""
    return tuple(rule for rule in rules if isinstance(rule, BoundRegion))


def _inside(around: Around, rows: Tensor) -> Tensor:
    """(n, 1) whether rows lie in the region."""
    return (around.outside(rows - around.x) <= TOLERANCE).unsqueeze(-1)


def _share_inside(around: Around, z: Tensor, y: Tensor, column: int) -> Tensor:
    """(n, 1) how much of the way from z to y one column may go; a hair more than the region lets, so that it can be
    rounded onto its edge."""
    near, far = torch.zeros_like(z[:, :1]), torch.ones_like(z[:, :1])
    whole = _inside(around, _with(z, y, [column]))
    for _ in range(HALVINGS):  # the region is convex: inside up to some share, outside beyond it
        middle = (near + far) / 2
        inside = _inside(around, _with(z, z + middle * (y - z), [column]))
        near, far = torch.where(inside, middle, near), torch.where(inside, far, middle)
    return torch.where(whole, torch.ones_like(far), far)


def _with(z: Tensor, y: Tensor, columns: list[int]) -> Tensor:
    """Rows z with some columns of y."""
    out = z.clone()
    out[:, columns] = y[:, columns]
    return out


# -- reading what was declared ------------------------------------------------------------------------------------


def read_number(value: object, what: str, hint: str, least: float = 0.0, above: bool = False) -> float:
    """A finite number of at least (above: more than) `least`, or an error that says what it is of."""
    number = math.nan if isinstance(value, bool) else as_float(value)
    if not math.isfinite(number) or number < least or (above and number <= least):
        raise RuleError(f"{what} is {shown(value)}.", hint=hint)
    return number


def read_reach(reach: object, kind: str, what: str = "reach", above: bool = False) -> dict[str, float] | None:
    """{feature: number}, checked; None stays None."""
    if reach is None:
        return None
    if not isinstance(reach, Mapping) or not reach:
        raise RuleError(f"{kind} has {what}={reach!r}.", hint=f'name features with numbers: {what}={{"hours": 9.0}}.')
    hint = f"use a finite number of units{', more than 0' if above else ', 0 or more'}."
    return {str(k): read_number(v, f"the {what} of '{k}' in a {kind}", hint, above=above) for k, v in reach.items()}


def named(schema: Schema, values: Mapping[str, float], rule: str, scalars_only: bool) -> Iterator[tuple[int, float]]:
    """Position and number of each feature named, or an error for names that are not there."""
    for name, value in values.items():
        f, feature = find_feature(schema, name, rule)
        if scalars_only and isinstance(feature, Category):
            raise RuleError(
                f"the region '{rule}' names the category '{name}', whose levels are no numbers.",
                hint="use Box or Budget, which let a category switch, beside it: rules=[region, Box(...)].",
            )
        yield f, value


def encoded_reach(schema: Schema, reach: Mapping[str, float] | None, rule: str, scalars_only: bool = False) -> Tensor:
    """(d,) the most each encoded column may change; 0 for features that are not named, infinite where a switch may."""
    if reach is None:
        return torch.full((schema.d,), torch.inf, dtype=torch.float64)
    out = torch.zeros(schema.d, dtype=torch.float64)
    for f, value in named(schema, reach, rule, scalars_only):
        feature = schema.features[f]
        if isinstance(feature, Scalar) and not isinstance(feature, Binary):
            out[schema.slices[f].start] = value / feature.span
        else:
            out[schema.slices[f]] = torch.inf if value >= 1 else 0.0
    return out
