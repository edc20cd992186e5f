"""A region around particular people: limits computed once, then the best and the nearest change, batched."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self

import torch
from torch.nn.functional import pad

from turnabout.schema.projection import project_simplex
from turnabout.typing import Tensor

MOST_CORNERS = 256
SAME = 1e-12  # share of a limit


@dataclass(frozen=True)
class Around:
    """The changes delta that people x may make; this class is the box, and the frame of the other shapes.

        lo <= delta <= hi,   and x + delta on the simplex for a category                                      (1)

    Leading dimensions of x, lo and hi are free: (n, d), (M, b, d). Arguments broadcast with them. Categories are
    relaxed: a person may stand between two levels, as searches do.

    Attributes
    ----------
    x, lo, hi : (..., d) people, and the least and largest change of each column; lo <= 0 <= hi, 0 where fixed.
    scalar : (s,) columns of the numbers, ordinals and binaries that may move.
    group : (g, k) columns of the categories that may move, padded with d.
    """

    PEOPLE: ClassVar[tuple[str, ...]] = ("x", "lo", "hi")
    x: Tensor
    lo: Tensor
    hi: Tensor
    scalar: Tensor
    group: Tensor

    def take(self, index: Tensor) -> Self:
        """The people at an index of any shape into the first dimension: (n, d) and (M, b) -> (M, b, d)."""
        return replace(self, **{name: getattr(self, name)[index] for name in self.PEOPLE})

    def to(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Self:
        """The same in another precision or on another device."""
        moved = {}
        for field in fields(self):
            if isinstance(value := getattr(self, field.name), Tensor):
                moved[field.name] = value.to(device=device, dtype=dtype if value.is_floating_point() else None)
        return replace(self, **moved)

    def steepest(self, slope: Tensor) -> Tensor:
        """The change with the largest slope @ delta, exactly; 0 in columns with slope 0. (..., d) -> (..., d)"""
        slope, lo, hi = torch.broadcast_tensors(slope, self.lo, self.hi)
        best = torch.where(slope > 0, hi, torch.where(slope < 0, lo, torch.zeros_like(lo)))
        if not len(self.group):
            return best
        gain, switch = self._switch(slope)
        return self._put(best, torch.where(gain.unsqueeze(-1) > 0, switch, torch.zeros_like(switch)))

    def project(self, delta: Tensor) -> Tensor:
        """The nearest change of the region, in the Euclidean distance of encoded rows. (..., d) -> (..., d)"""
        out = torch.minimum(torch.maximum(delta, self.lo), self.hi)
        return out if not len(self.group) else self._put(out, self._on_simplex(delta))

    def outside(self, delta: Tensor) -> Tensor:
        """How far a change lies outside, in encoded units; 0 or less inside. (..., d) -> (...)"""
        return torch.maximum(delta - self.hi, self.lo - delta).amax(-1)

    def corners(self) -> Tensor | None:
        """No change, then all corners, (..., v, d), some maybe twice; None when there are more than 256."""
        count = 2 ** min(len(self.scalar), 9)
        for group in self.group:
            count *= int((group < self.x.shape[-1]).sum())
        if count + 1 > MOST_CORNERS:
            return None
        out = torch.zeros_like(self.x).unsqueeze(-2)
        for options in self._options():
            out = (out.unsqueeze(-2) + options.unsqueeze(-3)).flatten(-3, -2)
        return torch.cat([torch.zeros_like(out[..., :1, :]), out], -2)

    def _options(self) -> list[Tensor]:
        """The ends of each feature that may move, as changes (..., c, d)."""
        out, d = [], self.x.shape[-1]
        for j in self.scalar.tolist():
            unit = torch.zeros(d, dtype=self.x.dtype, device=self.x.device)
            unit[j] = 1.0
            out.append(torch.stack([self.lo * unit, self.hi * unit], -2))
        for group in self.group.tolist():
            columns = [j for j in group if j < d]
            own = torch.zeros_like(self.x)
            own[..., columns] = self.x[..., columns]
            unit = torch.eye(d, dtype=self.x.dtype, device=self.x.device)[columns]  # (k, d)
            moves = (self.hi[..., columns].amax(-1) > 0)[..., None, None]
            switch = unit - own.unsqueeze(-2)
            out.append(torch.where(moves, switch, torch.zeros_like(switch)))
        return out

    # -- categories -------------------------------------------------------------------------------------------

    def _gather(self, t: Tensor, fill: float = 0.0) -> Tensor:
        """(..., d) -> (..., g, k): the columns of the categories."""
        return pad(t, (0, 1), value=fill)[..., self.group]

    def _put(self, out: Tensor, part: Tensor) -> Tensor:
        """The change out (..., d) with its categories replaced by part (..., g, k)."""
        padded = pad(out, (0, 1))
        padded[..., self.group.flatten()] = part.flatten(-2)
        return padded[..., :-1]

    def _moves(self) -> Tensor:
        """(..., g) whether a person may switch the category at all."""
        return self._gather(self.hi).amax(-1) > 0

    def _switch(self, slope: Tensor) -> tuple[Tensor, Tensor]:
        """What the best level of each category gains, (..., g), 0 where no switch does; and the switch (..., g, k)."""
        own = self._gather(self.x)
        value = self._gather(slope, -torch.inf)
        best, place = value.max(-1, keepdim=True)
        gain = best.squeeze(-1) - (self._gather(slope) * own).sum(-1)
        gain = torch.where(self._moves(), gain, torch.zeros_like(gain)).clamp(min=0)
        return gain, torch.zeros_like(value).scatter(-1, place, 1.0) - own

    def _on_simplex(self, delta: Tensor, toward_own: Tensor | None = None) -> Tensor:
        """Changes of categories (..., g, k) that end on the simplex, drawn to the own level by toward_own (..., g)."""
        own = self._gather(self.x)
        aim = self._gather(delta, -torch.inf) + own
        if toward_own is not None:
            aim = aim + toward_own.unsqueeze(-1) * own
        part = project_simplex(aim) - own
        return torch.where(self._moves().unsqueeze(-1), part, torch.zeros_like(part))


# -- how far beyond a limit ---------------------------------------------------------------------------------------


def slack(limit: Tensor, size: Tensor, price: Tensor) -> Tensor:
    """(...) what an excess over limit (...) may be by rounding alone: a hair of it, and of the columns that moved.

    size (..., c) is how far each column moves, in encoded units, and price (..., c) what a whole unit adds.
    """
    eps = torch.finfo(size.dtype).eps
    return max(SAME, 8 * eps) * limit + 4 * eps * torch.where(size > 0, price, torch.zeros_like(price)).sum(-1)


def beyond(excess: Tensor, size: Tensor, price: Tensor) -> Tensor:
    """(...) an excess over a limit in encoded units: how far back one column alone would have to go, at most all the
    way, the largest of the columns. In units of the dearest column alone, an excess of a cheap one would look like
    noise.
    """
    if not size.shape[-1]:
        return torch.zeros_like(excess)
    back = excess.unsqueeze(-1) / price.clamp(min=torch.finfo(size.dtype).tiny)
    return torch.minimum(back, torch.where(price > 0, size, torch.zeros_like(size))).amax(-1)
