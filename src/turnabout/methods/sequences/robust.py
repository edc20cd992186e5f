"""Plans that bear slips: the margin to aim at, raised until enough resampled plans are still accepted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from turnabout.methods.sequences.batch import Batch, Best
from turnabout.methods.sequences.trust import walk
from turnabout.models import Differentiable
from turnabout.typing import Tensor

ROUNDS = 8  # of raising the margin
ROOM = (1.0, 0.8, 0.65)  # shares of theta by which parameters keep away from their limits
STRETCHES = (0.0, 0.3, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.3, 1.6, 2.0, 3.0, 5.0)  # in units of theta
DRAWS = 256
CHECKS = 2048  # fresh draws by which a plan is checked


def spread(share: float, draws: int) -> float:
    """Standard error of a share counted over so many draws."""
    return math.sqrt(share * (1 - share) / draws)


@dataclass(frozen=True)
class Slips:
    """How plans are followed: every parameter r becomes r (1 + theta u), u uniform in [-1, 1]; a plan must survive in
    `share` of such draws."""

    theta: float
    share: float
    noise: Tensor  # (draws, T, P) of u


def harden(batch: Batch, best: Best, slips: Slips, rounds: int, expired: Callable[[], bool]) -> Best:
    r"""For each row with an accepted plan, the cheapest parameters met that survive in `share` of the draws.

    With m(u) the margin under slips u, aims at a margin kappa of the unspoiled plan and repeats

        kappa <- kappa + max(0, -quantile_{1 - share} m(u)),     rho <- argmin cost s.t. margin >= kappa      (1)

    until the quantile is not negative. Parameters keep room to their limits for all slips, or for most of them (ROOM):
    a plan may lose some draws to a condition if it loses the fewer to the model. Rows that never get there cost inf.
    Where the model has no gradients, plans are only stretched.
    """
    out = Best(best.r.clone(), torch.full_like(best.cost, torch.inf), best.margin.clone())
    smooth = isinstance(batch.decision.model, Differentiable)
    for part in ROOM:
        roomy = replace(batch, theta=part * slips.theta)
        _stretch(roomy, best, out, slips)
        if smooth:
            _raise(roomy, best, out, slips, rounds, expired)
    return out


def _stretch(batch: Batch, best: Best, out: Best, slips: Slips) -> None:
    """The plainest cure: every step a little longer; the least stretch that survives goes to out."""
    rows = torch.isfinite(best.cost).nonzero().squeeze(1)
    for much in STRETCHES:
        if not len(rows):
            return
        part = batch.pick(rows)
        r = part.limits(best.r[rows] * (1 + much * slips.theta))[0]
        share, _ = _under_slips(part, r, slips)
        path = part.script.roll(part.start, r)
        cost = path.cost.sum(1)
        good = (share >= slips.share) & part.kept(path) & (part.margin(path) >= 0)
        cheaper = good & (cost < out.cost[rows])
        out.r[rows[cheaper]], out.cost[rows[cheaper]] = r[cheaper], cost[cheaper]
        rows = rows[~good]


def _raise(batch: Batch, best: Best, out: Best, slips: Slips, rounds: int, expired: Callable[[], bool]) -> None:
    """Repeat (1) with one choice of room; what survives and is cheaper goes to out."""
    rows = torch.isfinite(best.cost).nonzero().squeeze(1)
    kappa, r = torch.zeros_like(best.cost), best.r.clone()
    for _ in range(ROUNDS):
        if not len(rows) or expired():
            return
        part = batch.pick(rows)
        met = Best.none(r[rows])
        walk(part, r[rows], met, kappa[rows], rounds, expired)
        lost = torch.isinf(met.cost)
        r[rows] = torch.where(lost.view(-1, 1, 1), r[rows], met.r)
        share, short = _under_slips(part, r[rows], slips)
        good = (share >= slips.share) & ~lost
        cheaper = good & (met.cost < out.cost[rows])
        out.r[rows[cheaper]], out.cost[rows[cheaper]] = met.r[cheaper], met.cost[cheaper]
        kappa[rows] += 1.02 * short + 1e-9  # (1)
        # dearer than a plan that survives, or out of reach: no use going on
        rows = rows[~good & ~lost & (met.cost < out.cost[rows]) & torch.isfinite(short)]


def _under_slips(batch: Batch, r: Tensor, slips: Slips) -> tuple[Tensor, Tensor]:
    """(B,) share of slipped plans that are accepted with all conditions kept, and (B,) the margin they lack.

    The margin lacking is that of the draw that must still succeed, after those whose conditions fail are given up; inf
    where too many of them fail.
    """
    noise = slips.noise.to(r.device)
    draws = len(noise)
    share, short = torch.zeros_like(r[:, 0, 0]), torch.zeros_like(r[:, 0, 0])
    each = max(1, (1 << 15) // draws)
    for s in range(0, len(r), each):
        some = torch.arange(s, min(s + each, len(r)), device=r.device)
        many = batch.pick(some.repeat_interleave(draws))
        slipped = r[some].repeat_interleave(draws, 0) * (1 + slips.theta * noise.repeat(len(some), 1, 1))
        with torch.no_grad():
            path = many.script.roll(many.start, slipped)
            margin = many.margin(path)
        kept = many.kept(path).reshape(len(some), draws)
        margin = torch.where(kept, margin.reshape(len(some), draws), torch.inf)  # those given up come last
        share[some] = ((margin >= 0) & kept).to(r.dtype).mean(1)
        spare = int((1 - slips.share) * draws) - (draws - kept.sum(1))  # failures left for the margin
        lowest = margin.sort(1).values.gather(1, spare.clamp(0, draws - 1).unsqueeze(1)).squeeze(1)
        short[some] = torch.where(spare >= 0, (-lowest).clamp(min=0), torch.inf)
    return share, short
