"""Optima known by other means, for tests of proofs: closed forms, and a scan of one or two parameters."""

from __future__ import annotations

from dataclasses import replace

import torch

from turnabout.methods.sequences.certificate.certificate_task import CertificateTask, CheapestPlans
from turnabout.methods.sequences.certificate.jobs import Jobs
from turnabout.methods.sequences.certificate.rewrite import Rewritten
from turnabout.methods.sequences.certificate.roots import root_boxes
from turnabout.typing import Tensor

AT_ONCE = 1 << 16  # plans put to the model together
HALVINGS = 50
ZOOMS, SIDE, KEPT = 10, 33, 4


def cheapest_by_scan(task: CertificateTask, upper: Tensor | None = None, points: int = 200_000) -> CheapestPlans:
    """The cheapest accepted plans of people x (n, d) over the sequences (W, T) with at most two parameters that count.

    One parameter: a grid of `points`, and halving between every two neighbors of which one is accepted. Two: a grid of
    about as many points, then finer ones about the best few. Plans are continuous, with conditions closed; a cost is
    exact up to the grid. It bounds the optimum from above; together with `certify`, from both sides. Sequences with
    more parameters are left out, and so are plans that cost more than upper (n,).
    """
    with torch.no_grad():
        x, rewritten = task.x.to(torch.float64), Rewritten.of(task.tables)
        start, sequences = task.tables.units(x), task.sequences
        lo, hi = torch.minimum(task.lo.to(x), start), torch.maximum(task.hi.to(x), start)
        task = replace(task, tables=rewritten.tables, x=x, lo=lo, hi=hi)
        known = torch.full_like(x[:, 0], torch.inf) if upper is None else upper.to(x)
        person = torch.arange(len(x), device=x.device).repeat_interleave(len(sequences))
        jobs, possible = task.jobs(sequences.repeat(len(x), 1), person)
        jobs = jobs.take(possible.nonzero().squeeze(1))
        jobs, low, high, alive, bounded = root_boxes(jobs, known[jobs.person])
        found = CheapestPlans.none(task, known)
        free = (high > low).sum(1)
        for j in (alive & bounded & (free <= 2)).nonzero().squeeze(1).tolist():
            job = jobs.take(torch.tensor([j], device=x.device))
            axes = (high[j] > low[j]).nonzero().squeeze(1)
            if len(axes) == 2:
                _scan_two(task, job, low[j], high[j], axes, found, points)
            else:
                _scan_one(task, job, low[j], high[j], axes, found, points)
        found.r = rewritten.as_declared(start, found.sequences, found.r)
    return found


def _costs(task: CertificateTask, job: Jobs, theta: Tensor, found: CheapestPlans) -> Tensor:
    """(N,) the cost of plans (N, K) of one job, inf where not allowed or not accepted."""
    parts = []
    for some in theta.split(AT_ONCE):
        jobs = job.take(torch.zeros(len(some), dtype=torch.long, device=theta.device))
        parts.append(task.try_out(jobs, some, found)[0])
    return torch.cat(parts)


def _scan_one(
    task: CertificateTask, job: Jobs, low: Tensor, high: Tensor, axes: Tensor, found: CheapestPlans, points: int
) -> None:
    share = torch.linspace(0, 1, points if len(axes) else 1, dtype=low.dtype, device=low.device).unsqueeze(1)
    theta = low + share * (high - low)
    accepted = torch.isfinite(_costs(task, job, theta, found))
    at = (accepted[1:] != accepted[:-1]).nonzero().squeeze(1)
    if not len(at):
        return
    inside = torch.where(accepted[at].unsqueeze(1), theta[at], theta[at + 1])
    outside = torch.where(accepted[at].unsqueeze(1), theta[at + 1], theta[at])
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        fine = torch.isfinite(_costs(task, job, middle, found)).unsqueeze(1)
        inside, outside = torch.where(fine, middle, inside), torch.where(fine, outside, middle)


def _scan_two(
    task: CertificateTask, job: Jobs, low: Tensor, high: Tensor, axes: Tensor, found: CheapestPlans, points: int
) -> None:
    boxes = [(low, high)]
    side = max(SIDE, int(points**0.5))
    for _ in range(ZOOMS):
        theta = torch.cat([_grid(a, b, axes, side) for a, b in boxes])
        cell = torch.stack([(b - a) / (side - 1) for a, b in boxes]).repeat_interleave(side * side, 0)
        cost = _costs(task, job, theta, found)
        best = cost.argsort()[: KEPT if len(boxes) == 1 else 1 + KEPT]
        best = best[torch.isfinite(cost[best])]
        if not len(best):
            return
        boxes = [
            (torch.maximum(theta[i] - 1.5 * cell[i], low), torch.minimum(theta[i] + 1.5 * cell[i], high))
            for i in best.tolist()
        ]
        side = SIDE


def _grid(low: Tensor, high: Tensor, axes: Tensor, side: int) -> Tensor:
    """(side^2, K) points of a box over two axes."""
    share = torch.linspace(0, 1, side, dtype=low.dtype, device=low.device)
    theta = low.repeat(side * side, 1)
    for axis, part in zip(axes.tolist(), torch.meshgrid(share, share, indexing="ij"), strict=True):
        theta[:, axis] = low[axis] + part.flatten() * (high - low)[axis]
    return theta


# -- closed forms for linear models with one numeric action for each feature ------------------------------------------


def cheapest_squared(weights: Tensor, scale: Tensor, need: Tensor) -> tuple[Tensor, Tensor]:
    r"""The cheapest changes (n, d) that raise a linear margin by need (n,), and their cost (n,), for squared prices.

        min  sum_j (D_j / s_j)^2   s.t.  w . D >= m          D_j = s_j^2 w_j m / S,  cost = m^2 / S,
                                                             S = sum_k s_k^2 w_k^2                               (1)

    weights and scale s are (d,) or (n, d). Free where m <= 0; inf, with no change, where no weight can help.
    """
    need = need.clamp(min=0)
    pull = (scale * scale * weights).expand(len(need), -1)
    total = (pull * weights).sum(-1)
    able = total > 0
    change = pull * (need / torch.where(able, total, 1.0)).unsqueeze(-1)
    cost = need * need / torch.where(able, total, 1.0)
    return change, torch.where(able | (need == 0), cost, torch.inf)


def cheapest_absolute(
    weights: Tensor, scale: Tensor, need: Tensor, low: Tensor | None = None, high: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""The same for absolute prices, sum_j |D_j| / s_j, with low <= D <= high around zero: a fractional knapsack.

    A unit of margin costs 1 / (|w_j| s_j) by feature j; features are used up in that order.                     (2)
    """
    need = need.clamp(min=0)
    weights, scale = weights.expand(len(need), -1), scale.expand(len(need), -1)
    none = torch.full_like(weights, torch.inf)
    room = torch.where(weights > 0, none if high is None else high, none if low is None else -low)
    most = torch.where(weights == 0, 0.0, weights.abs() * room.clamp(min=0))  # margin each feature can give
    worth, order = (weights.abs() * scale).sort(-1, descending=True)
    most = most.gather(-1, order)
    before = torch.cat([torch.zeros_like(most[:, :1]), most.cumsum(-1)[:, :-1]], -1)
    taken = torch.minimum((need.unsqueeze(-1) - before).clamp(min=0), most)
    cost = torch.where(taken > 0, taken / torch.where(worth > 0, worth, 1.0), 0.0).sum(-1)
    gain = torch.zeros_like(taken).scatter(-1, order, taken)
    change = torch.where(weights == 0, 0.0, gain / torch.where(weights == 0, 1.0, weights))
    able = most.sum(-1) >= need * (1 - 1e-12)
    return torch.where(able.unsqueeze(-1), change, 0.0), torch.where(able, cost, torch.inf)
