"""Rounding towards a side: the legal values of scalar columns, batched."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from turnabout.rules.rule import TOLERANCE
from turnabout.schema import Scalar, Schema
from turnabout.typing import Tensor


class LegalGrid:
    """Legal values of some scalar features, one column each: a person's own value and the grid they may reach."""

    def __init__(self, schema: Schema, features: Sequence[int]):
        scalars = [f for f in (schema.features[i] for i in features) if isinstance(f, Scalar)]
        assert len(scalars) == len(features)
        self.columns = torch.tensor([schema.slices[i].start for i in features], dtype=torch.long)
        missing = [schema.slices[i].stop - 1 if schema.features[i].missing else -1 for i in features]
        self.missing = torch.tensor(missing, dtype=torch.long)
        self.bottom = _row([f.bottom for f in scalars])
        self.span = _row([f.span for f in scalars])
        self.scalars = scalars
        self.step = _row([f.choice_step for f in scalars])
        self.least = _row([f.least for f in scalars])
        self.scale = _row([f.decimal_scale for f in scalars])
        self.may_rise = torch.tensor([f.moves in ("free", "up") for f in scalars], dtype=torch.bool)
        self.may_fall = torch.tensor([f.moves in ("free", "down") for f in scalars], dtype=torch.bool)
        self.resolution = self.step / self.span  # encoded distance between neighbours
        # a tenth of the tolerance of rules, in steps: closer to a grid value than this is on it
        self.noise = (0.1 * TOLERANCE / self.resolution).clamp(max=1e-6)

    def round(self, x: Tensor, z: Tensor, up: Tensor) -> Tensor:
        """The nearest legal values at or above z (n, m) where up (m,), else at or below; else the farthest there are.

        x (n, d) are the people's rows, z encoded values of this grid's columns.
        """
        sign, own, first, last = self._oriented(x, up)
        v = sign * (self.bottom + z * self.span)
        q = torch.maximum(torch.ceil(v / self.step - self.noise), first)
        beyond = torch.ceil((own + self.least) / self.step - self.noise)  # the first change worth making
        q = torch.where((q * self.step - own).abs() < self.least - self.noise * self.step, torch.maximum(q, beyond), q)
        inf = torch.full_like(v, torch.inf)
        on_grid = torch.where(q <= last, q * self.step, inf)
        stay = torch.where(own >= v - self.noise * self.step, own, inf)
        nearest = torch.minimum(on_grid, stay)
        return self._encoded(x, torch.where(nearest.isinf(), self._farthest(own, first, last), nearest), own, sign)

    def extremes(self, x: Tensor, up: Tensor) -> Tensor:
        """(n, d) -> (n, m): the highest legal values where up, else the lowest."""
        sign, own, first, last = self._oriented(x, up)
        return self._encoded(x, self._farthest(own, first, last), own, sign)

    def _oriented(self, x: Tensor, up: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sign that turns 'towards' into 'up', own values in units, first and last legal multiple of the step."""
        sign = torch.where(up, 1.0, -1.0).to(x.dtype)
        own = self.bottom + x[:, self.columns] * self.span
        low, top = own.clone(), own.clone()
        for j, f in enumerate(self.scalars):
            low[:, j], top[:, j] = f.choice_bounds(own[:, j])
        low = torch.where(self.may_fall, low, torch.maximum(own, low))
        high = torch.where(self.may_rise, top, torch.minimum(own, top))
        low, high = torch.where(up, low, -high), torch.where(up, high, -low)
        first, last = torch.ceil(low / self.step - 1e-6), torch.floor(high / self.step + 1e-6)
        stuck = ~(self.may_rise | self.may_fall) | ((self.missing >= 0) & (x[:, self.missing] > 0.5))
        last = torch.where(stuck, torch.full_like(last, -torch.inf), last)
        return sign, sign * own, first, last

    def _farthest(self, own: Tensor, first: Tensor, last: Tensor) -> Tensor:
        far = (first <= last) & (last * self.step - own >= self.least - self.noise * self.step)
        return torch.where(far, torch.maximum(own, last * self.step), own)

    def _encoded(self, x: Tensor, v: Tensor, own: Tensor, sign: Tensor) -> Tensor:
        """Oriented units -> encoded, by the formula of encode; a person's own value is copied."""
        written = torch.round(sign * v * self.scale) / self.scale
        kept = (v - own).abs() <= 1e-6 * self.step
        return torch.where(kept, x[:, self.columns], (written - self.bottom) / self.span)


def _row(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
