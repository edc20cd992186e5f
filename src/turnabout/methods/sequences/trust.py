"""Walking along the boundary: convex steps with the model linearised, within a region of trust."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch

from turnabout.methods.sequences.batch import Batch, Best
from turnabout.methods.sequences.parameter_prices import own_prices, reach
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

HALVINGS = 28  # of the multiplier, on a logarithmic scale
TINIEST = 1e-12  # smallest multiplier looked at, as a share of the largest
STALLED = 5  # steps without progress after which a row is left as it is
AIM = 1e-11  # beyond the margin asked for: on a linear piece a step lands exactly where it aims, but for rounding


@dataclass(frozen=True)
class Prices:
    """Cost of each parameter, the others fixed: absolute |r - kink| + squared (r - kink)^2 + cross r; all (B, K)."""

    absolute: Tensor
    squared: Tensor
    kink: Tensor
    cross: Tensor

    def cheapest(self, push: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """(B, K): argmin of cost - push r over [low, high], in closed form."""
        lean = push - self.cross
        beyond = (lean.abs() - self.absolute).clamp(min=0)  # soft threshold
        step = beyond / (2 * self.squared).clamp(min=1e-30)
        far = self.kink + torch.sign(lean) * step
        return torch.minimum(torch.maximum(far, low), high)


def prices(batch: Batch, r: Tensor, slope: Tensor) -> Prices:
    """The separable part of the cost at r (B, T, P), from the tables; what is left of its slope goes to `cross`."""
    absolute, squared, kink = own_prices(batch, r)
    own = absolute * torch.sign(r - kink) + 2 * squared * (r - kink)
    at_kink = r == kink
    cross = torch.where(at_kink, torch.zeros_like(r), slope - own)
    flat = [part.flatten(1) for part in (absolute, squared, kink, cross)]
    return Prices(*flat)


def convex_step(price: Prices, up: Tensor, need: Tensor, low: Tensor, high: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """Cheapest point of the box at which the linearised margin rises by `need`; (B, K) and its multiplier (B,).

    min cost(r') s.t. up . (r' - r) >= need, low <= r' <= high: one multiplier, found by halving. Where the box
    does not hold enough, the corner that rises most.
    """

    def gain(at: Tensor) -> Tensor:
        return (up * (at - r)).sum(1)

    corner = torch.where(up > 0, high, low)
    reachable = gain(corner) >= need
    # at the largest multiplier that matters every parameter with any say stands in its corner
    far = torch.maximum((low - price.kink).abs(), (high - price.kink).abs())
    most = (price.absolute + 2 * price.squared * far + price.cross.abs()) / up.abs().clamp(min=1e-300)
    # where moving is free, still enough to move
    large = torch.where(up != 0, most, torch.zeros_like(most)).amax(1).clamp(1e-12, 1e200) * 1.01
    small = large * TINIEST
    for _ in range(HALVINGS):
        middle = (small * large).sqrt()
        enough = gain(price.cheapest(middle.unsqueeze(1) * up, low, high)) >= need
        large, small = torch.where(enough, middle, large), torch.where(enough, small, middle)
    over = price.cheapest(large.unsqueeze(1) * up, low, high)
    under = price.cheapest(small.unsqueeze(1) * up, low, high)
    # absolute costs jump at a multiplier: on the segment between the two sides the cost is linear
    a, b = gain(under), gain(over)
    share = ((need - a) / torch.where((b - a).abs() < 1e-30, torch.ones_like(a), b - a)).clamp(0, 1)
    point = under + share.unsqueeze(1) * (over - under)
    rest = price.cheapest(torch.zeros_like(up), low, high)
    idle = gain(rest) >= need
    point = torch.where(idle.unsqueeze(1), rest, point)
    point = torch.where(reachable.unsqueeze(1), point, corner)
    return point, torch.where(idle, torch.zeros_like(large), large)


@dataclass
class Point(TensorRows):
    """Where each row of a batch stands: parameters (B, T, P), their limits, margin and cost with their slopes."""

    r: Tensor
    low: Tensor
    high: Tensor
    margin: Tensor
    up: Tensor
    cost: Tensor
    slope: Tensor
    kept: Tensor  # (B,) whether all conditions hold

    @classmethod
    def at(cls, batch: Batch, r: Tensor) -> Point:
        """Everything at r, after moving it to where conditions hold."""
        r, low, high = batch.limits(r)
        return cls(r, low, high, *batch.gradients(r))

    def replaced(self, where: Tensor, other: Point) -> Point:
        """The other's rows where `where` (B,) is True, else these."""
        parts = []
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            parts.append(torch.where(where.view(-1, *[1] * (mine.dim() - 1)), theirs, mine))
        return Point(*parts)


def walk(
    batch: Batch, r: Tensor, best: Best, target: Tensor, rounds: int, expired: Callable[[], bool] = lambda: False
) -> None:
    """Improve r (B, T, P) by convex steps; the best allowed and accepted parameters met are offered to `best`.

    A step is taken where it lowers  cost + weight max(0, target - margin), and the region of trust then grows; else it
    shrinks. Rows that no longer get better leave the batch.
    """
    here = Point.at(batch, r)
    best.offer(here.r, here.cost, here.margin, here.kept, target)
    rows = torch.arange(len(r), device=r.device)
    radius, weight = torch.full_like(target, 0.5), torch.zeros_like(target)
    stalled = torch.zeros_like(rows)
    active = torch.ones_like(rows, dtype=torch.bool)  # never again once False: no row depends on the others
    for step in range(1, rounds + 1):
        there, lam = _trial(batch, here, target, radius)
        weight = torch.maximum(weight, 2 * lam)
        _offer(best, rows, there, target, active)
        before = here.cost + weight * (target - here.margin).clamp(min=0)
        after = there.cost + weight * (target - there.margin).clamp(min=0)
        better = (after < before) & (there.kept | ~here.kept) & active
        stalled = torch.where(better & (after < before - 1e-6 * before.abs()), torch.zeros_like(stalled), stalled + 1)
        here = here.replaced(better, there)
        radius = torch.where(better, radius * 2, radius * 0.35).clamp(1e-9, 4.0)
        if expired():
            return
        if step % 4 == 0:
            active &= stalled < STALLED
            live = active.nonzero().squeeze(1)
            if not len(live):
                return
            if len(live) < 0.8 * len(rows):
                batch, here, rows = batch.take(live), here.take(live), rows[live]
                target, radius, weight, stalled = target[live], radius[live], weight[live], stalled[live]
                active = active[live]


def _offer(best: Best, rows: Tensor, point: Point, target: Tensor, active: Tensor) -> None:
    part = best.take(rows)
    part.offer(point.r, point.cost, point.margin, point.kept & active, target)
    best.put(rows, part)


def _trial(batch: Batch, here: Point, target: Tensor, radius: Tensor) -> tuple[Point, Tensor]:
    """The convex step within the region of trust, and its multiplier."""
    low, high, flat = here.low.flatten(1), here.high.flatten(1), here.r.flatten(1)
    price = prices(batch, here.r, here.slope)
    size = torch.maximum((flat - price.kink).abs(), _natural(price, low, high))
    near = radius.unsqueeze(1) * size
    used = batch.used.flatten(1)
    low = torch.where(used, torch.minimum(torch.maximum(low, flat - near), flat), flat)
    high = torch.where(used, torch.maximum(torch.minimum(high, flat + near), flat), flat)
    need = target - here.margin + AIM * (1 + here.margin.abs())
    point, lam = convex_step(price, here.up.flatten(1), need, low, high, flat)
    return Point.at(batch, point.reshape(here.r.shape)), lam


def _natural(price: Prices, low: Tensor, high: Tensor) -> Tensor:
    """(B, K) a change that costs about a tenth, or a tenth of what the limits allow, whichever is less."""
    size = reach(price.absolute, price.squared, torch.full_like(price.kink, 0.1))
    width = high - low
    return torch.minimum(size, torch.where(torch.isfinite(width), 0.1 * width, size)).clamp(max=1e12)
