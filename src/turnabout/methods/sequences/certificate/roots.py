"""First boxes of jobs, and how a box is made smaller without losing an allowed plan that is cheap enough."""

from __future__ import annotations

from dataclasses import replace

import torch

from turnabout.actions.steps import TINY
from turnabout.methods.sequences.certificate.jobs import Jobs, size_of
from turnabout.methods.sequences.certificate.parameter_boxes import (
    PriceBound,
    Rolled,
    Rows,
    coefficients,
    interval,
    roll,
)
from turnabout.methods.sequences.parameter_prices import reach
from turnabout.typing import Tensor

ROUNDS = 4
EDGE = 1e-11  # share of its size by which a box stays larger than computed


def first_boxes(jobs: Jobs, budget: Tensor) -> tuple[Jobs, Tensor, Tensor, Tensor]:
    """Boxes (J, K) that hold every allowed plan cheaper than budget (J,); alive (J,), False where there is none.

    A parameter is limited by what is declared for it, by the reach of the columns it moves and by its own price.
    Which steps are taken as scalings is decided here: those whose column keeps its sign. Infinite ends are left where
    nothing limits a parameter.
    """
    low, high = jobs.start, jobs.start
    scales = torch.zeros_like(jobs.scales)
    alive = jobs.constant <= budget
    lows, highs = [], []
    for t in range(jobs.steps):
        lead = jobs.lead[:, t, None].clamp(min=0)
        a, b = low.gather(1, lead).squeeze(1), high.gather(1, lead).squeeze(1)
        size = 1e-9 * torch.maximum(a.abs(), b.abs()).clamp(min=1e-3)
        scales[:, t] = (jobs.lead[:, t] >= 0) & ((a > size) | (b < -size))
        jobs = replace(jobs, scales=scales)
        least, most = _limits(jobs, t, low, high)
        linear, curved, kink, _ = coefficients(jobs, t, low, high)
        far = reach(linear, curved, (budget - jobs.constant).unsqueeze(1))
        free = (jobs.gain[:, t] != 0).any(-1)
        least = torch.where(free, torch.maximum(least, kink - far), 0.0)
        most = torch.where(free, torch.minimum(most, kink + far), 0.0)
        alive = alive & (least <= most).all(1)
        lows.append(least)
        highs.append(most)
        low, high = interval(jobs, t, low, high, least, torch.maximum(least, most))
        alive = alive & (low <= high).all(1)
    return jobs, *_widened(torch.cat(lows, 1), torch.cat(highs, 1)), alive


def _limits(jobs: Jobs, t: int, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """(B, P) limits of the parameters of step t from declarations and reach, for old states in [low, high]."""
    keep, gain = jobs.keep[:, t], jobs.gain[:, t]
    ends = torch.stack([keep * low, keep * high])
    below, above = jobs.lo - ends.amax(0) - jobs.add[:, t], jobs.hi - ends.amin(0) - jobs.add[:, t]
    alone = (gain != 0) & ((gain != 0).sum(1, keepdim=True) == 1) & (jobs.rounding[:, t] == 0).unsqueeze(1)
    safe = torch.where(alone, gain, 1.0)
    sides = torch.stack([below.unsqueeze(1) / safe, above.unsqueeze(1) / safe])
    least = torch.maximum(torch.where(alone, sides.amin(0), -torch.inf).amax(-1), jobs.low[:, t])
    most = torch.minimum(torch.where(alone, sides.amax(0), torch.inf).amin(-1), jobs.high[:, t])
    scales = jobs.scales[:, t, None]
    if not bool(scales.any()):
        return least, most
    near, far = torch.where(scales & jobs.scaled[:, t], low, 1.0), torch.where(scales & jobs.scaled[:, t], high, 1.0)
    sure = jobs.scaled[:, t] & ((near > TINY) | (far < -TINY)) & (jobs.rounding[:, t] == 0)
    near, far = torch.where(sure, near, 1.0), torch.where(sure, far, 1.0)
    quotients = torch.stack([jobs.lo / near, jobs.lo / far, jobs.hi / near, jobs.hi / far])
    turn_low = torch.where(sure, quotients.amin(0), -torch.inf).amax(1, keepdim=True)
    turn_high = torch.where(sure, quotients.amax(0), torch.inf).amin(1, keepdim=True)
    lead, dial = jobs.lead[:, t, None].clamp(min=0), jobs.dial[:, t, None]
    step = gain.sum(1).gather(1, lead)
    ends = torch.stack([jobs.low[:, t].gather(1, dial) * step, jobs.high[:, t].gather(1, dial) * step])
    shifts = torch.cat([ends / near.gather(1, lead), ends / far.gather(1, lead)])
    turn_low = torch.maximum(turn_low, 1 + shifts.amin(0))
    turn_high = torch.minimum(turn_high, 1 + shifts.amax(0))
    mine = torch.zeros_like(least, dtype=torch.bool).scatter(1, dial, True) & scales
    return torch.where(mine, turn_low, least), torch.where(mine, turn_high, most)


def _widened(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The box made larger by what rounding may have taken; a parameter held in place stays so."""
    wide = (high > low) * EDGE * size_of(low, high)
    return low - wide, high + wide


def shrink_by_rows(rows: Rows, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keep of a box only where each row alone can hold: slope_i delta_i >= -(top + sum of |slope_k|, k != i).

    The third, (B,), is False where nothing is kept.
    """
    size = rows.slope.abs()
    rest = (rows.top + size.sum(-1)).unsqueeze(-1) - size
    cut = -rest / torch.where(rows.slope == 0, 1.0, rows.slope)
    first = torch.where(rows.slope > 0, cut, -1.0).amax(1).clamp(-1, 1)
    last = torch.where(rows.slope < 0, cut, 1.0).amin(1).clamp(-1, 1)
    middle, radius = (low + high) / 2, (high - low) / 2
    alive = (first <= last + 1e-9).all(1)
    return *_within(middle + radius * first, middle + radius * torch.maximum(first, last), low, high), alive


def shrink_by_price(price: PriceBound, low: Tensor, high: Tensor, budget: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keep of a box only where each parameter's own price leaves the others their least; and (B,) whether any is."""
    least = price.least(low, high)
    left = (budget - price.constant - least.sum(-1)).unsqueeze(-1) + least
    far = reach(price.linear, price.curved, left)
    alive = (budget >= price.constant + least.sum(-1)) | torch.isinf(budget)
    least_theta, most_theta = price.kink - far, price.kink + far
    return *_within(least_theta, most_theta, low, high), alive


def _within(first: Tensor, last: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    first, last = _widened(first, last)
    first = torch.minimum(torch.maximum(first, low), high)
    return first, torch.minimum(torch.maximum(last, first), high)


def shrink(rolled: Rolled, low: Tensor, high: Tensor, budget: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One round of both: smaller boxes (B, K) and (B,) which of them can hold a plan."""
    low, high, allowed = shrink_by_rows(Rows.join(rolled.rows, dim=1), low, high)
    low, high, cheap = shrink_by_price(rolled.price, low, high, budget)
    return low, high, rolled.alive & allowed & cheap


def root_boxes(jobs: Jobs, budget: Tensor) -> tuple[Jobs, Tensor, Tensor, Tensor, Tensor]:
    """Boxes after a few rounds: jobs, low, high (J, K), alive (J,), bounded (J,) False where a box is infinite."""
    jobs, low, high, alive = first_boxes(jobs, budget)
    bounded = torch.isfinite(low).all(1) & torch.isfinite(high).all(1) & torch.isfinite(jobs.start).all(1)
    rows = (alive & bounded).nonzero().squeeze(1)
    for _ in range(ROUNDS):
        some = jobs.take(rows)
        a, b, able = shrink(roll(some, low[rows], high[rows]), low[rows], high[rows], budget[rows])
        low[rows], high[rows] = a, b
        alive[rows[~able]] = False
        rows = rows[able]
    return jobs, low, high, alive, bounded
