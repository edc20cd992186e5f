"""Plans that bear slips: the margin to aim at, raised until enough resampled plans are still accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from turnabout.core.noise import under_noise
from turnabout.core.problem import Problem
from turnabout.methods.sequences.batch import Batch, Best
from turnabout.methods.sequences.trust import walk
from turnabout.typing import Tensor

ROUNDS = 8  # of raising the margin
DRAWS = 256


@dataclass(frozen=True)
class Slips:
    """How plans are followed: every parameter r becomes r (1 + theta u), u uniform in [-1, 1]; a plan must survive in
    `share` of such draws."""

    theta: float
    share: float
    noise: Tensor  # (draws, T, P) of u


def harden(
    problem: Problem, batch: Batch, words: Tensor, best: Best, slips: Slips, rounds: int, expired: Callable[[], bool]
) -> Best:
    r"""For each row with an accepted plan, the cheapest parameters met that survive in `share` of the draws.

    With m(u) the margin under slips u, aims at a margin kappa of the unspoiled plan and repeats

        kappa <- kappa + max(0, -quantile_{1 - share} m(u)),     rho <- argmin cost s.t. margin >= kappa      (1)

    until the quantile is not negative; parameters keep theta's room to their limits, so that conditions hold under
    slips as well. Rows that never get there have cost inf.
    """
    out = Best(best.r.clone(), torch.full_like(best.cost, torch.inf), best.margin.clone())
    rows = torch.isfinite(best.cost).nonzero().squeeze(1)
    kappa = torch.zeros_like(best.cost)
    r = best.r.clone()
    roomy = replace(batch, theta=slips.theta)
    for _ in range(ROUNDS):
        if not len(rows) or expired():
            break
        part = roomy.pick(rows)
        met = Best.none(r[rows])
        walk(part, r[rows], met, kappa[rows], rounds, expired)
        r[rows] = torch.where(torch.isfinite(met.cost).view(-1, 1, 1), met.r, r[rows])
        quantile = _quantile(problem, part, words[rows], r[rows], slips)
        x = batch.decision.x[part.owner]
        share = under_noise(problem, x, words[rows], r[rows], slips.theta, slips.noise).allowed
        path = part.script.roll(part.start, r[rows])
        good = (share >= slips.share) & part.kept(path) & (part.margin(path) >= 0)
        cost = path.cost.sum(1)
        cheaper = good & (cost < out.cost[rows])
        out.r[rows[cheaper]], out.cost[rows[cheaper]] = r[rows][cheaper], cost[cheaper]
        kappa[rows] += torch.where(good, torch.zeros_like(quantile), (-quantile).clamp(min=0) * 1.05 + 1e-9)  # (1)
        hopeless = torch.isinf(met.cost)
        rows = rows[~good & ~hopeless]
    return out


def _quantile(problem: Problem, batch: Batch, words: Tensor, r: Tensor, slips: Slips) -> Tensor:
    """(B,) the margin that a share of the slipped plans reaches."""
    noise = slips.noise.to(r.device)
    draws = len(noise)
    out = torch.zeros_like(r[:, 0, 0])
    each = max(1, (1 << 16) // draws)
    for s in range(0, len(r), each):
        some = torch.arange(s, min(s + each, len(r)), device=r.device)
        rows = some.repeat_interleave(draws)
        many = batch.pick(rows)
        slipped = r[rows] * (1 + slips.theta * noise.repeat(len(some), 1, 1))
        with torch.no_grad():
            margin = many.margin(many.script.roll(many.start, slipped)).reshape(len(some), draws)
        place = max(0, min(draws - 1, int((1 - slips.share) * draws) - 1))
        out[some] = margin.sort(1).values[:, place]
    return out
