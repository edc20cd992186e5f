"""Boxes of parameters: where the states of a sequence can be, what its plans cost, which conditions can still hold.

A box low <= theta <= high (B, K), K = T P, is written as theta = middle + radius * delta with |delta| <= 1. Over it
every state of the path is held in two ways, both sound:

    s_j = center_j + sum_k slope_jk delta_k + slack_j eps,   |eps| <= 1       and       low_j <= s_j <= high_j      (1)

The first is exact (slack 0) while steps are shifts or first scalings; a product of two forms adds the product of their
radii to the slack, which shrinks with the square of the box.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.actions.steps import TINY
from turnabout.methods.sequences.certificate.jobs import SLACK, Jobs, size_of
from turnabout.solvers.bounds import Hull
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

GRAIN = 1e-7  # share of a step by which a value may miss its grid


@dataclass(frozen=True)
class PriceBound(TensorRows):
    """A lower bound of the cost: constant + sum_k linear_k |z_k| + curved_k z_k^2, z = theta - kink; (B,), (B, K)."""

    constant: Tensor
    linear: Tensor
    curved: Tensor
    kink: Tensor

    def least(self, low: Tensor, high: Tensor) -> Tensor:
        """(B, K) the least share of each parameter within a box."""
        z = torch.clamp(torch.zeros_like(low), low - self.kink, high - self.kink)
        return self.linear * z.abs() + self.curved * z * z

    def at(self, theta: Tensor) -> Tensor:
        """(B,) at some parameters (B, K)."""
        z = theta - self.kink
        return self.constant + (self.linear * z.abs() + self.curved * z * z).sum(-1)


@dataclass(frozen=True)
class Rows(TensorRows):
    """Linear conditions: slope . delta + top >= 0 wherever row r holds, (B, R, K) and (B, R).

    most and least (B, R) enclose the exact value of the row over the box.
    """

    slope: Tensor
    top: Tensor
    most: Tensor
    least: Tensor


@dataclass(frozen=True)
class Rolled:
    """A batch of boxes carried through their sequences; alive (B,) is False where no plan of the box can be allowed."""

    states: list[Hull]
    price: PriceBound
    rows: list[Rows]  # one for each step
    alive: Tensor

    @property
    def end(self) -> Hull:
        return self.states[-1]


def roll(jobs: Jobs, low: Tensor, high: Tensor) -> Rolled:
    """Carry boxes (B, K) through the steps of their jobs (B,)."""
    middle, radius = (low + high) / 2, (high - low) / 2
    hull = Hull(
        jobs.start, low.new_zeros(*jobs.start.shape, low.shape[1]), torch.zeros_like(jobs.start), *[jobs.start] * 2
    )
    states, prices, rows = [hull], [], []
    alive = torch.ones(len(jobs), dtype=torch.bool, device=low.device)
    for t in range(jobs.steps):
        at = slice(t * jobs.parameters, (t + 1) * jobs.parameters)
        old, free = hull, _step(jobs, t, hull, low[:, at], high[:, at], middle[:, at], radius[:, at])
        hull = _on_grid(jobs, t, free)
        states.append(hull)
        prices.append(_price(jobs, t, old, hull, low[:, at], high[:, at]))
        rows.append(_rows(jobs, t, old, free, hull))
        alive = alive & (hull.low <= hull.high).all(1) & (rows[-1].most >= 0).all(1)
    price = PriceBound(
        jobs.constant + torch.stack([p.constant for p in prices]).sum(0),
        *(torch.cat([getattr(p, name) for p in prices], 1) for name in ("linear", "curved", "kink")),
    )
    return Rolled(states, price, rows, alive)


# -- states ---------------------------------------------------------------------------------------------------------


def _times(a: Tensor, b: Tensor) -> Tensor:
    """a * b, zero where a is."""
    return torch.where(a == 0, torch.zeros_like(b), a * b)


def _product(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """[a, b] * [c, d]."""
    ends = torch.stack(torch.broadcast_tensors(_times(c, a), _times(d, a), _times(c, b), _times(d, b)))
    return ends.amin(0), ends.amax(0)


def _inverse(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """1 / [a, b]; everything where the interval holds zero."""
    safe = (a > TINY) | (b < -TINY)
    one, inf = torch.ones_like(a), torch.full_like(a, torch.inf)
    return torch.where(safe, 1 / torch.where(safe, b, one), -inf), torch.where(safe, 1 / torch.where(safe, a, one), inf)


def scaling(jobs: Jobs, t: int) -> Tensor:
    """(B, m) columns that step t multiplies by its factor."""
    return jobs.scales[:, t, None] & jobs.scaled[:, t]


def _dialed(jobs: Jobs, t: int, part: Tensor) -> Tensor:
    """(B, P) -> (B, 1) the parameter of a scaling."""
    return part.gather(1, jobs.dial[:, t, None])


def interval(jobs: Jobs, t: int, low: Tensor, high: Tensor, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
    """Interval arithmetic for step t: states [low, high] (B, m), parameters [least, most] (B, P) -> new states."""
    new_low, new_high = _shifted(jobs, t, jobs.keep[:, t], low, high, least, most)
    scaled, led = scaling(jobs, t), _led(jobs, t)
    if bool(scaled.any()):
        a, b = _product(low, high, _dialed(jobs, t, least), _dialed(jobs, t, most))
        new_low, new_high = torch.where(scaled, a, new_low), torch.where(scaled, b, new_high)
    if bool((led & ~scaled).any()):
        a, b = _product(*_share(jobs, t, low, high), *(s.gather(1, jobs.leader[:, t]) for s in (new_low, new_high)))
        new_low, new_high = torch.where(led & ~scaled, a, new_low), torch.where(led & ~scaled, b, new_high)
    loose = SLACK * size_of(jobs.lo, jobs.hi)
    rounding = jobs.rounding[:, t]
    return torch.maximum(new_low - rounding, jobs.lo - loose), torch.minimum(new_high + rounding, jobs.hi + loose)


def _shifted(
    jobs: Jobs, t: int, keep: Tensor, low: Tensor, high: Tensor, least: Tensor, most: Tensor
) -> tuple[Tensor, Tensor]:
    """keep * [low, high] + add + gain * [least, most]: what step t leads to, scalings and followers apart."""
    gain = jobs.gain[:, t]
    ends = torch.stack([keep * low, keep * high])
    shifts = torch.stack([_times(gain, least.unsqueeze(-1)), _times(gain, most.unsqueeze(-1))])
    add = jobs.add[:, t]
    return ends.amin(0) + add + shifts.amin(0).sum(1), ends.amax(0) + add + shifts.amax(0).sum(1)


def _led(jobs: Jobs, t: int) -> Tensor:
    return jobs.leader[:, t] != torch.arange(jobs.start.shape[1], device=jobs.start.device)


def _share(jobs: Jobs, t: int, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """What each column is of its leader, as an interval."""
    leader = jobs.leader[:, t]
    return _product(low, high, *_inverse(low.gather(1, leader), high.gather(1, leader)))


def _step(jobs: Jobs, t: int, old: Hull, least: Tensor, most: Tensor, middle: Tensor, radius: Tensor) -> Hull:
    keep, gain, p = jobs.keep[:, t], jobs.gain[:, t], jobs.parameters
    center = keep * old.center + jobs.add[:, t] + (middle.unsqueeze(-1) * gain).sum(1)
    slope = keep.unsqueeze(-1) * old.slope
    slope[:, :, t * p : (t + 1) * p] += (radius.unsqueeze(-1) * gain).transpose(1, 2)
    slack = keep.abs() * old.slack
    low, high = interval(jobs, t, old.low, old.high, least, most)
    scaled, led = scaling(jobs, t), _led(jobs, t)
    if bool(scaled.any()):
        u, h = _dialed(jobs, t, middle), _dialed(jobs, t, radius)
        place = (t * p + jobs.dial[:, t, None, None]).expand(-1, slope.shape[1], 1)
        turned = (u.unsqueeze(-1) * old.slope).scatter_add(2, place, (h * old.center).unsqueeze(-1))
        extra = h * old.slope.abs().sum(-1) + (u.abs() + h) * old.slack
        center, slack = torch.where(scaled, u * old.center, center), torch.where(scaled, extra, slack)
        slope = torch.where(scaled.unsqueeze(-1), turned, slope)
    follows = led & ~scaled
    if bool(follows.any()):
        leader = jobs.leader[:, t]
        a, b = _share(jobs, t, old.low, old.high)
        sure = torch.isfinite(a) & torch.isfinite(b)
        share, spread = torch.where(sure, (a + b) / 2, 0.0), torch.where(sure, (b - a) / 2, 0.0)
        size = torch.maximum(low.abs(), high.abs()).gather(1, leader)
        wide = leader.unsqueeze(-1).expand_as(slope)
        center = torch.where(follows, torch.where(sure, share * center.gather(1, leader), (low + high) / 2), center)
        reach = torch.where(sure, share.abs() * slack.gather(1, leader) + spread * size, (high - low) / 2)
        slack = torch.where(follows, reach, slack)
        slope = torch.where(follows.unsqueeze(-1), share.unsqueeze(-1) * slope.gather(1, wide), slope)
    slack = slack + jobs.rounding[:, t]
    spread = slope.abs().sum(-1) + slack
    return Hull(center, slope, slack, torch.maximum(low, center - spread), torch.minimum(high, center + spread))


def _on_grid(jobs: Jobs, t: int, free: Hull) -> Hull:
    """The hull of the values that step t can lead to, for columns on a grid: its multiples, or the person's own.

    Where these are few, as in a box that leads to one of them only, they say more than the form does.
    """
    step = jobs.grid[:, t]
    if not bool((step > 0).any()):
        return free
    unit = torch.where(step > 0, step, 1.0)
    dust = GRAIN * unit + 1e-14 * jobs.start.abs()
    low, high = torch.ceil((free.low - dust) / unit) * unit, torch.floor((free.high + dust) / unit) * unit
    own = (jobs.start >= free.low - dust) & (jobs.start <= free.high + dust)
    low, high = (
        torch.where(own, torch.minimum(low, jobs.start), low),
        torch.where(own, torch.maximum(high, jobs.start), high),
    )
    low, high = torch.where(step > 0, low, free.low), torch.where(step > 0, high, free.high)
    few = (step > 0) & ((high - low) / 2 <= free.slack) & (low <= high)
    return Hull(
        torch.where(few, (low + high) / 2, free.center),
        torch.where(few.unsqueeze(-1), 0.0, free.slope),
        torch.where(few, (high - low) / 2, free.slack),
        low,
        high,
    )


# -- prices ---------------------------------------------------------------------------------------------------------


def coefficients(jobs: Jobs, t: int, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Least linear and curved price and the kink of each parameter (B, P), for old states in [low, high].

    The fourth, (B, m), says which columns they account for.
    """
    near = torch.where(low > 0, low, torch.where(high < 0, -high, torch.zeros_like(low)))
    far = torch.maximum(low.abs(), high.abs()).clamp(min=TINY)
    absolute, squared = jobs.absolute[:, t], jobs.squared[:, t]
    relative, relative_squared = jobs.absolute_relative[:, t], jobs.squared_relative[:, t]
    gain, exact = jobs.gain[:, t], jobs.rounding[:, t] == 0
    scales = jobs.scales[:, t, None]
    mine = jobs.own[:, t] & exact.unsqueeze(1) & ~scales.unsqueeze(-1)  # (B, P, m)
    size = gain.abs() * mine
    linear = (size * (absolute + relative / far).unsqueeze(1)).sum(-1)
    curved = (size * size * (squared + relative_squared / (far * far)).unsqueeze(1)).sum(-1)
    scaled = scaling(jobs, t) & exact
    known = scaled & (near > TINY)
    turn = torch.zeros_like(linear, dtype=torch.bool).scatter(1, jobs.dial[:, t, None], True) & scales
    share = (scaled * absolute * near + known * relative).sum(-1, keepdim=True)
    bend = (scaled * squared * near * near + known * relative_squared).sum(-1, keepdim=True)
    linear, curved = torch.where(turn, share, linear), torch.where(turn, bend, curved)
    return linear, curved, turn.to(linear.dtype), mine.any(1) | scaled


def _price(jobs: Jobs, t: int, old: Hull, new: Hull, least: Tensor, most: Tensor) -> PriceBound:
    linear, curved, kink, done = coefficients(jobs, t, old.low, old.high)
    low, high = _shifted(jobs, t, jobs.keep[:, t] - 1, old.low, old.high, least, most)
    low, high = low - jobs.rounding[:, t], high + jobs.rounding[:, t]
    other = _led(jobs, t) | scaling(jobs, t)
    fewest, widest = new.low - old.high, new.high - old.low  # what the hulls say, which know the grid
    low = torch.where(other, fewest, torch.maximum(low, fewest))
    high = torch.where(other, widest, torch.minimum(high, widest))
    size = torch.maximum(low, -high).clamp(min=0) * ~done  # the least change of columns not accounted for
    far = torch.maximum(old.low.abs(), old.high.abs()).clamp(min=TINY)
    straight = jobs.absolute[:, t] + jobs.absolute_relative[:, t] / far
    bend = jobs.squared[:, t] + jobs.squared_relative[:, t] / (far * far)
    return PriceBound((straight * size + bend * size * size).sum(-1), linear, curved, kink)


# -- conditions -----------------------------------------------------------------------------------------------------


def _rows(jobs: Jobs, t: int, old: Hull, free: Hull, new: Hull) -> Rows:
    """Conditions, and that the new state, whose form is that of `free`, is within reach and on its grid."""
    a, b, offset = jobs.of_old[:, t], jobs.of_new[:, t], jobs.offset[:, t]
    slope = a @ old.slope + b @ new.slope
    middle = (a @ old.center.unsqueeze(-1) + b @ new.center.unsqueeze(-1)).squeeze(-1) + offset
    slack = (a.abs() @ old.slack.unsqueeze(-1) + b.abs() @ new.slack.unsqueeze(-1)).squeeze(-1)
    ends = torch.stack([a * old.low.unsqueeze(1), a * old.high.unsqueeze(1)])
    ends_new = torch.stack([b * new.low.unsqueeze(1), b * new.high.unsqueeze(1)])
    spread = slope.abs().sum(-1) + slack
    most = torch.minimum(middle + spread, offset + ends.amax(0).sum(-1) + ends_new.amax(0).sum(-1))
    least = torch.maximum(middle - spread, offset + ends.amin(0).sum(-1) + ends_new.amin(0).sum(-1))
    parts = [Rows(slope, middle + slack, most, least)]
    loose = SLACK * size_of(jobs.lo, jobs.hi)
    gridded = jobs.grid[:, t] > 0
    spread = free.slope.abs().sum(-1) + free.slack
    for sign, end, last in ((1.0, jobs.lo - loose, new.low), (-1.0, jobs.hi + loose, new.high)):
        end = torch.where(gridded, last - sign * 1e-12 * (1 + last.abs()), end)
        value = sign * (free.center - end)
        parts.append(Rows(sign * free.slope, value + free.slack, value + spread, value - spread))
    return Rows.join(parts, dim=1)
