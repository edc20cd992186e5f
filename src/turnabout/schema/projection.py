"""What each person may do, column by column, for all features at once.

Features say which way they move and which values they have; this module turns that into a few tensor operations
over whole (n, d) batches, because searches project at every step.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from turnabout.schema.features import GRID_NOISE, Feature, Scalar
from turnabout.schema.levels import Category
from turnabout.schema.number import Number
from turnabout.typing import Tensor

SAME = 1e-12  # encoded difference below which a cell counts as unchanged
ANYWHERE = (0.0, 1.0, math.inf, math.inf)  # choices that bounds alone limit: lowest, highest, room, relative room


@dataclass(frozen=True)
class ValueBounds:
    """Lowest and highest values (..., d) that people may reach, and which cells are missing (None: none is)."""

    lo: Tensor
    hi: Tensor
    stuck: Tensor | None


@dataclass(frozen=True)
class Projection:
    """Constants of a schema's columns as tensors; see `Projection.of`."""

    falls: Tensor  # (d,) may move below the person's own
    rises: Tensor  # (d,) may move above it
    indicator: Tensor  # (d,) column of the feature's missing indicator, or -1
    scalar: Tensor  # (s,) columns of Number, Ordinal and Binary
    grid: Tensor  # (5, s) bottom, span, step of choices, decimal scale and least change of each scalar column
    choice: Tensor | None  # (6, d) bottom, span, lowest, highest, room and relative room of choices; None: bounds alone
    group: Tensor  # (g, k) columns of each free category, padded with d
    spread: Tensor  # (d, F) 1 where a column belongs to a feature
    loose: Tensor  # (d,) numbers that follow from others: bounds limit what people choose, not what follows
    _last: list[tuple[Any, int, ValueBounds]] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def of(cls, features: Sequence[Feature], derived: Collection[str] = ()) -> Projection:
        """Read the constants off the features; those in `derived` follow from others."""
        falls, rises, indicator, scalar, grid, groups, owner, loose = [], [], [], [], [], [], [], []
        choice: list[tuple[float, ...]] = []
        start = 0
        for j, f in enumerate(features):
            values, stop = len(f.value_columns), start + f.width
            falls += [f.moves in ("free", "down")] * values + [False] * f.missing
            rises += [f.moves in ("free", "up")] * values + [False] * f.missing
            indicator += [stop - 1 if f.missing else -1] * f.width
            owner += [j] * f.width
            loose += [isinstance(f, Number) and f.name in derived] + [False] * (f.width - 1) if f.width else []
            follows = isinstance(f, Number) and f.name in derived
            choice += [_choice(f, follows)] + [(0.0, 1.0, *ANYWHERE)] * (f.width - 1)
            if isinstance(f, Scalar):
                scalar.append(start)
                step, least = (f.unit_step, 0.0) if follows else (f.choice_step, f.least)
                grid.append((f.bottom, f.span, step, f.decimal_scale, least))
            elif isinstance(f, Category) and f.moves != "fixed":
                groups.append(list(range(start, start + values)))
            start = stop
        widest = max(map(len, groups), default=0)
        padded = [g + [start] * (widest - len(g)) for g in groups]
        spread = torch.zeros(start, len(features), dtype=torch.float64)
        spread[torch.arange(start), torch.tensor(owner)] = 1.0
        return cls(
            torch.tensor(falls),
            torch.tensor(rises),
            torch.tensor(indicator),
            torch.tensor(scalar, dtype=torch.long),
            torch.tensor(grid, dtype=torch.float64).reshape(-1, 5).T,
            None
            if all(c[2:] == ANYWHERE for c in choice)
            else torch.tensor(choice, dtype=torch.float64).T.contiguous(),
            torch.tensor(padded, dtype=torch.long).reshape(len(groups), widest),
            spread,
            torch.tensor(loose),
        )

    def to(self, device: torch.device) -> Projection:
        """The same constants on another device."""
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "_last"}
        moved: dict[str, Any] = {name: None if part is None else part.to(device) for name, part in parts.items()}
        return Projection(**moved)

    def stuck(self, x: Tensor) -> Tensor:
        """(..., d) True where a cell is missing and so may not move."""
        out = torch.zeros_like(x, dtype=torch.bool)
        columns = (self.indicator >= 0).nonzero().squeeze(1)
        if len(columns):
            out[..., columns] = x[..., self.indicator[columns]] > 0.5
        return out

    def reach(self, x: Tensor) -> ValueBounds:
        """What each person may reach; searches project onto it at every step, so the last one is remembered."""
        if self._last:
            last, version, found = self._last[0]
            if last() is x and version == x._version:
                return found
        stuck = self.stuck(x)
        low, high = self._ends(x)
        lo = torch.where(self.falls & ~stuck, torch.minimum(x, low), x)
        hi = torch.where(self.rises & ~stuck, torch.maximum(x, high), x)
        found = ValueBounds(lo, hi, stuck if stuck.any() else None)
        self._last[:] = [(weakref.ref(x), x._version, found)]
        return found

    def _ends(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(..., d) -> lowest and highest values that people may choose, wherever they stand."""
        if self.choice is None:
            return torch.zeros_like(x), torch.ones_like(x)
        bottom, span, low, high, by, share = self.choice
        own = (bottom + x * span).abs()
        room = torch.where(share.isinf(), by, torch.minimum(torch.nan_to_num(share * own, posinf=0.0), by)) / span
        return torch.maximum(low, x - room), torch.minimum(high, x + room)

    def bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(..., d) -> lowest and highest value of each column that each person may reach."""
        reach = self.reach(x)
        return reach.lo.clone(), reach.hi.clone()

    def relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Clamp scalars into their bounds and put free categories onto the simplex."""
        reach = self.reach(x)
        soft = torch.minimum(torch.maximum(x_new, reach.lo), reach.hi)
        if bool(self.loose.any()):
            free = torch.where(self.falls, x_new, torch.maximum(x_new, x))
            free = torch.where(self.rises, free, torch.minimum(free, x))
            free = free if reach.stuck is None else torch.where(reach.stuck, x, free)
            soft = torch.where(self.loose, free, soft)
        if not len(self.group):
            return soft
        padded = torch.nn.functional.pad(x_new, (0, 1), value=-torch.inf)
        soft = torch.nn.functional.pad(soft, (0, 1))
        soft[..., self.group.flatten()] = project_simplex(padded[..., self.group]).flatten(-2)
        soft = soft[..., :-1]
        return soft if reach.stuck is None else torch.where(reach.stuck, x, soft)

    def snap(self, x: Tensor, x_new: Tensor, outward: bool) -> Tensor:
        """The person's own cell or a legal new one, everywhere."""
        x = x.expand_as(x_new)
        out = x.clone()
        out[..., self.scalar] = self._snap_scalars(x, x_new, outward)
        if len(self.group):
            out = self._snap_categories(x, x_new, out, outward)
        return torch.where(self.stuck(x), x, out) + 0.0  # no negative zeros: equal rows are equal byte by byte

    def snap_cells(self, x: Tensor, x_new: Tensor, columns: Tensor) -> Tensor:
        """Snap one scalar cell of each row: own and new encoded values (m,), and their encoded columns (m,)."""
        place = torch.searchsorted(self.scalar, columns)
        may = self.falls[columns], self.rises[columns], self.loose[columns]
        ends = None if self.choice is None else self._ends_of(x, columns)
        return _to_grid(x, x_new, self.grid[:, place], *may, ends, outward=False)

    def _ends_of(self, x: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Lowest and highest choices in units, of own encoded values in some scalar columns."""
        assert self.choice is not None
        bottom, span, low, high, by, share = self.choice[:, columns]
        own = bottom + x * span
        room = torch.where(share.isinf(), by, torch.minimum(torch.nan_to_num(share * own.abs(), posinf=0.0), by))
        return torch.maximum(bottom + low * span, own - room), torch.minimum(bottom + high * span, own + room)

    def _snap_scalars(self, x: Tensor, x_new: Tensor, outward: bool) -> Tensor:
        columns = self.scalar
        may = self.falls[columns], self.rises[columns], self.loose[columns]
        own = x[..., columns]
        ends = None if self.choice is None else self._ends_of(own, columns)
        return _to_grid(own, x_new[..., columns], self.grid, *may, ends, outward)

    def _snap_categories(self, x: Tensor, x_new: Tensor, out: Tensor, outward: bool) -> Tensor:
        pad = x_new.new_full((*x_new.shape[:-1], 1), -torch.inf)
        own = torch.cat([x, torch.zeros_like(pad)], -1)[..., self.group]  # (..., g, k)
        new = torch.cat([x_new, pad], -1)[..., self.group]
        # ties and, unless pushed outward, small drifts go to their own level
        weight = new - 0.5 * own if outward else new + 1e-9 * own
        hot = torch.zeros_like(own).scatter(-1, weight.argmax(-1, keepdim=True), 1.0)
        real = torch.isfinite(new)
        untouched = (((new - own).abs() < 1e-9) | ~real).all(-1, keepdim=True)
        hot = torch.where(untouched, own, hot)
        padded = torch.cat([out, torch.zeros_like(pad)], -1)
        padded[..., self.group.flatten()] = hot.flatten(-2)
        return padded[..., :-1]

    def changed(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(..., F) True where any column of a feature differs from the person's own."""
        return ((x_new - x).abs() > SAME).to(self.spread.dtype) @ self.spread > 0.5


def _choice(feature: Feature, follows: bool) -> tuple[float, ...]:
    """Bottom, span, lowest, highest, room and relative room of the choices in a feature's first column."""
    if not isinstance(feature, Scalar):
        return 0.0, 1.0, *ANYWHERE
    if follows or feature.reach is None:
        return feature.bottom, feature.span, *ANYWHERE
    low, high = ((end - feature.bottom) / feature.span for end in feature.choice_ends)
    return feature.bottom, feature.span, low, high, *feature.reach.room(feature.unit_step)


def _to_grid(
    x: Tensor,
    x_new: Tensor,
    grid: Tensor,
    falls: Tensor,
    rises: Tensor,
    loose: Tensor,
    ends: tuple[Tensor, Tensor] | None,
    outward: bool,
) -> Tensor:
    """Own and new encoded cells -> own, or the nearest (outward: next) legal cell."""
    bottom, span, step, scale, change = grid
    own, v = bottom + x * span, bottom + x_new * span
    low, high = ends if ends is not None else (bottom, bottom + span)
    low, high = low.masked_fill(loose, -torch.inf), high.masked_fill(loose, torch.inf)
    least = torch.where(falls, low, torch.maximum(own, low))
    most = torch.where(rises, high, torch.minimum(own, high))
    q = v / step
    noise = GRID_NOISE + 1e-15 * q.abs()  # q itself is only so exact
    q_least, q_most = torch.ceil(least / step - noise), torch.floor(most / step + noise)
    nearest = torch.round(q)
    if outward:
        away = torch.where(v > own, torch.ceil(q), torch.floor(q))
        nearest = torch.where((q - nearest).abs() < noise, nearest, away)
    if bool((change > 0).any()):  # worth making: not nearer to their own than the least change
        up = v >= own
        worth = torch.where(up, torch.ceil((own + change) / step - noise), torch.floor((own - change) / step + noise))
        nearest = torch.where(up, torch.maximum(nearest, worth), torch.minimum(nearest, worth))
    q = torch.minimum(torch.maximum(nearest, q_least), q_most)
    v_new = torch.round(q * step * scale) / scale
    gap = (v - own).abs()
    keep = (
        (q_least > q_most)
        | ((q * step - own).abs() < change - noise * step)
        | (gap <= GRID_NOISE * step)
        | ((v_new - own).abs() <= GRID_NOISE * step)
    )
    if not outward:
        keep |= gap <= (v - v_new).abs()  # their own value is the nearest legal one
    return torch.where(keep | ~(falls | rises), x, (v_new - bottom) / span)


def project_simplex(v: Tensor) -> Tensor:
    """Euclidean projection of the last axis onto {w >= 0, sum w = 1}; entries of -inf stay at 0."""
    u, _ = v.sort(dim=-1, descending=True)
    real = torch.isfinite(u)
    u = torch.where(real, u, torch.zeros_like(u))
    excess = u.cumsum(-1) - 1.0
    rank = torch.arange(1, v.shape[-1] + 1, dtype=v.dtype, device=v.device)
    count = ((u - excess / rank > 0) & real).sum(-1, keepdim=True).clamp(min=1)
    shift = excess.gather(-1, count - 1) / count
    return (v - shift).clamp(min=0.0)
