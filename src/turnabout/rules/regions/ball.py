"""How far a change may go in the Euclidean sense."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from turnabout.errors import RuleError
from turnabout.rules.regions.around import Around, beyond, slack
from turnabout.rules.regions.falling import at_most, first_below
from turnabout.rules.regions.region import BoundRegion, Region, named, read_number, read_reach
from turnabout.schema import Scalar, Schema
from turnabout.typing import Tensor


@dataclass(frozen=True, repr=False)
class Ball(Region):
    """The scaled Euclidean length of a change is at most a radius.

        sum_f ((new_f - old_f) / scale_f)^2  <=  radius^2                                                       (1)

    Numbers, ordinals and binaries only; features that are not named do not move. It has no linear form, so methods
    that solve integer programs refuse it: give them a Budget.

    Parameters
    ----------
    radius : the length allowed, in scales.
    scales : how many units of each feature count as 1; its standard deviation, say.
    """

    kind: ClassVar[str] = "ball"
    radius: float
    scales: Mapping[str, float] = field(hash=False)

    def __post_init__(self) -> None:
        radius = read_number(self.radius, "the radius of a Ball", "use a finite number, 0 or more.")
        object.__setattr__(self, "radius", radius)
        scales = read_reach(self.scales, "Ball", what="scales", above=True)
        if scales is None:
            raise RuleError("Ball has scales=None.", hint='name features with units: scales={"hours": 12.3}.')
        object.__setattr__(self, "scales", scales)

    def bind(self, schema: Schema) -> BoundBall:
        scale = torch.zeros(schema.d, dtype=torch.float64)
        for f, value in named(schema, self.scales, str(self), scalars_only=True):
            feature = schema.features[f]
            assert isinstance(feature, Scalar)
            scale[schema.slices[f].start] = value / feature.span
        return BoundBall(schema, str(self), scale, self.radius)

    def __str__(self) -> str:
        scales = ", ".join(f"{value:.6g} of {name}" for name, value in self.scales.items())
        return f"the length of the change is at most {self.radius:.6g}, where 1 is {scales}"


class BoundBall(BoundRegion):
    """A ball over encoded people; `scale` (d,) is 0 for columns that do not move."""

    def __init__(self, schema: Schema, name: str, scale: Tensor, radius: float):
        super().__init__(schema, name, scale * radius)
        self.scale, self.radius = scale, radius

    def around(self, x: Tensor) -> AroundBall:
        scale = self.scale[self.grid.columns].to(device=x.device, dtype=x.dtype)
        return AroundBall(*self._frame(x), scale, self.radius)

    def _rows(self) -> None:
        return None


@dataclass(frozen=True)
class AroundBall(Around):
    """A ball within the limits of people: scale (s,), the encoded units that count as 1, and radius."""

    scale: Tensor
    radius: float

    def steepest(self, slope: Tensor) -> Tensor:
        """clip(t * slope * scale^2) with the largest t in the ball, found among the t at which a column is clipped."""
        slope, lo, hi = torch.broadcast_tensors(slope, self.lo, self.hi)
        out = torch.zeros_like(lo)
        if not len(self.scalar):
            return out
        g = slope[..., self.scalar] * self.scale
        g = g / g.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(g.dtype).tiny)
        cap = torch.where(g > 0, hi[..., self.scalar], -lo[..., self.scalar]) / self.scale
        cap = torch.where(g != 0, cap, torch.zeros_like(cap))
        stop = torch.where(g != 0, cap / g.abs(), torch.zeros_like(cap))
        t, order = stop.sort(-1)
        caps, gains = cap.gather(-1, order).square(), g.gather(-1, order).square()
        held = caps.cumsum(-1) - caps  # the squared length of the columns clipped before
        free = gains.flip(-1).cumsum(-1).flip(-1)  # the squared rate of this and the later ones
        beyond = held + t.square() * free >= self.radius**2
        first = beyond.to(torch.int8).argmax(-1, keepdim=True)
        room = (self.radius**2 - held.gather(-1, first)).clamp(min=0)
        best = (room / free.gather(-1, first).clamp(min=torch.finfo(g.dtype).tiny)).sqrt()
        best = torch.where(beyond.any(-1, keepdim=True), best, torch.full_like(best, torch.inf))
        size = torch.where(g != 0, torch.minimum(best * g.abs(), cap), torch.zeros_like(cap))
        out[..., self.scalar] = g.sign() * size * self.scale
        return out

    def project(self, delta: Tensor) -> Tensor:
        """clip(delta / (1 + mu / scale^2)) with the least mu in the ball."""
        box = super().project(delta)
        kept = at_most(self._length(box), self.radius).unsqueeze(-1)
        if bool(kept.all()):
            return box
        wide = self.to(torch.float64)
        exact = delta.to(torch.float64)
        most = exact[..., self.scalar].norm(dim=-1, keepdim=True) * wide.scale.amax() / self.radius
        most = torch.where(kept, torch.zeros_like(most), most)

        def inverse_length(mu: Tensor) -> Tensor:  # nearly straight in mu
            return -1 / wide._length(wide._shrunk(exact, mu)).clamp(min=1e-300)

        mu = first_below(inverse_length, -1 / self.radius, most)
        return torch.where(kept, box, wide._shrunk(exact, mu).to(delta.dtype))

    def outside(self, delta: Tensor) -> Tensor:
        size, price = delta[..., self.scalar].abs(), 1 / self.scale
        length = self._length(delta)
        excess = length - self.radius - slack(torch.full_like(length, self.radius), size, price)
        return torch.maximum(super().outside(delta), beyond(excess, size, price))

    def corners(self) -> None:
        """A ball has none."""
        return None

    def _length(self, delta: Tensor) -> Tensor:
        return (delta[..., self.scalar] / self.scale).norm(dim=-1)

    def _shrunk(self, delta: Tensor, mu: Tensor) -> Tensor:
        """The change of the box nearest to delta where squared length counts mu. mu (..., 1)"""
        out = torch.zeros_like(torch.broadcast_tensors(delta, self.lo)[0])
        square = self.scale.square()
        part = delta[..., self.scalar] * square / (square + mu)
        lo, hi = self.lo[..., self.scalar], self.hi[..., self.scalar]
        out[..., self.scalar] = torch.minimum(torch.maximum(part, lo), hi)
        return out
