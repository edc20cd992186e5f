"""Where a search of parameters begins: a handful of draws per sequence, looked at before any is improved."""

from __future__ import annotations

import numpy as np
import torch

from turnabout.methods.sequences.batch import Batch
from turnabout.methods.sequences.parameter_prices import own_price, reach
from turnabout.typing import Tensor

FAR = 1e6  # stands for a limit at infinity, in natural units of the parameter


def draw(batch: Batch, draws: int, budget: Tensor, generator: np.random.Generator) -> Tensor:
    """(B, draws, T, P) parameters within their limits: small, anywhere, or at an end; the same draws for every row.

    Limits of a step are those at the drawn values of the steps before it. No parameter alone costs more than the
    budget (B,), what a better plan is already known to cost: the draws lie where they may matter.
    """
    steps, count = batch.script.steps, batch.script.gain.shape[2]
    share = torch.as_tensor(generator.random((draws, steps, count)), dtype=batch.start.dtype, device=batch.start.device)
    kind = torch.as_tensor(generator.integers(0, 8, (draws, steps, count)), device=batch.start.device)
    size = torch.as_tensor(10.0 ** generator.uniform(-3, 0, (draws, steps, count)), device=batch.start.device)
    rows = torch.arange(len(batch.owner), device=batch.start.device).repeat_interleave(draws)
    many = batch.take(rows)
    fit = (len(batch.owner), 1, 1)
    share, kind, size = (part.repeat(fit) for part in (share, kind, size))
    share = torch.where(kind >= 6, share.round(), share)  # at an end
    r = torch.zeros_like(share)
    old = many.start
    budget = budget.repeat_interleave(draws)
    for t in range(steps):
        for p in range(count):
            a, b = many.range(t, old, r[:, t], p)
            unit = many.script.unit[t, :, p]
            absolute, squared, kink = own_price(many, t, old, r[:, t], p)
            far = reach(absolute, squared, budget)
            a, b = torch.maximum(a, kink - far), torch.minimum(b, kink + far)
            a, b = torch.maximum(a, -FAR * unit), torch.minimum(b, FAR * unit)
            none = (a > b) | ~many.script.used[t, :, p]
            here = torch.minimum(torch.maximum(torch.zeros_like(a), a), b)  # nearest to doing nothing
            wide = a + share[:, t, p] * (b - a)
            close = here + size[:, t, p] * (wide - here)
            r[:, t, p] = torch.where(none, torch.zeros_like(a), torch.where(kind[:, t, p] < 3, close, wide))
        old = many.script.move(t, old, r[:, t])
    return r.reshape(len(batch.owner), draws, steps, count)


def screen(batch: Batch, r: Tensor, keep: int, target: Tensor) -> Tensor:
    """Of r (B, draws, T, P) the `keep` best of each row: accepted ones by cost, then the others by margin."""
    rows, draws = r.shape[:2]
    many = batch.take(torch.arange(rows, device=r.device).repeat_interleave(draws))
    with torch.no_grad():
        path = many.script.roll(many.start, r.flatten(0, 1))
        margin = many.margin(path)
        cost = path.cost.sum(1)
        good = many.kept(path) & (margin >= target.repeat_interleave(draws))
    allowed = many.kept(path)
    inf = torch.full_like(cost, torch.inf)
    # accepted: a small number that grows with cost; others: 2 and more, the nearer the better
    rank = torch.where(good, cost / (1 + cost), torch.where(allowed, 2 - torch.tanh(margin / 10), inf))
    # the best of each group of draws: the cheapest of all would lie in one basin
    groups = rank.reshape(rows, keep, draws // keep)
    first = groups.argmin(2) + torch.arange(keep, device=r.device) * (draws // keep)
    return r.gather(1, first[..., None, None].expand(-1, -1, *r.shape[2:]))


def scan(batch: Batch, points: int, budget: Tensor) -> Tensor:
    """(B, points, T, P) for sequences with one parameter: a grid over its limits, dense near zero change.

    Half of the points lie evenly, half geometrically from the kink outward, on both sides of it.
    """
    b_rows, steps, count = len(batch.owner), batch.script.steps, batch.script.gain.shape[2]
    even = torch.linspace(1 / points, 1, points // 4, dtype=batch.start.dtype, device=batch.start.device)
    growing = torch.logspace(-6, 0, points // 4, dtype=even.dtype, device=even.device)
    grid = torch.cat([even, growing])
    r = torch.zeros(b_rows, 2 * len(grid), steps, count, dtype=even.dtype, device=even.device)
    still = torch.zeros(b_rows, steps, count, dtype=even.dtype, device=even.device)
    old = batch.start
    for t in range(steps):
        for p in range(count):
            a, b = batch.range(t, old, still[:, t], p)
            absolute, squared, kink = own_price(batch, t, old, still[:, t], p)
            far = torch.minimum(reach(absolute, squared, budget), FAR * batch.script.unit[t, :, p])
            kink = torch.minimum(torch.maximum(kink, a), b)
            down, up = (kink - torch.maximum(a, kink - far)).clamp(min=0), (torch.minimum(b, kink + far) - kink)
            side = torch.cat([-down.unsqueeze(1) * grid, up.clamp(min=0).unsqueeze(1) * grid], 1)
            point = kink.unsqueeze(1) + side
            r[:, :, t, p] = torch.where(batch.script.used[t, :, p].unsqueeze(1) & (a <= b).unsqueeze(1), point, 0.0)
        old = batch.script.move(t, old, still[:, t])
    return r
