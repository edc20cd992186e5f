"""Some plan, quickly: for people of whom no plan is known, so that a proof has a cost to start from."""

from __future__ import annotations

import math
import time

import torch

from turnabout.methods.sequences.certificate.certificate_task import CertificateTask, CheapestPlans
from turnabout.methods.sequences.certificate.jobs import Jobs
from turnabout.typing import Tensor

FAR = 100.0  # natural sizes of a parameter within which to look where nothing limits it
LARGEST = 10.0  # the same for factors
AT_ONCE = 1 << 14


def probe(
    task: CertificateTask,
    jobs: Jobs,
    low: Tensor,
    high: Tensor,
    found: CheapestPlans,
    points: int = 64,
    halvings: int = 12,
    until: float = math.inf,
) -> None:
    """Put random points of the boxes (J, K) to the model and pull accepted ones back towards doing nothing.

    On the way from an accepted point to the one where no parameter moves the price falls, so halving that way finds a
    cheaper accepted point. What is found goes to `found`. Stops at `until`, on the monotonic clock.
    """
    generator = torch.Generator().manual_seed(0)
    line = torch.where(jobs.sequences >= 0, jobs.sequences, task.tables.actions)
    kink = jobs.scales.unsqueeze(-1).expand(-1, -1, jobs.parameters).flatten(1).to(low.dtype)
    size = (FAR * task.tables.unit[line]).flatten(1)
    far = torch.where(kink > 0, LARGEST, size)
    low, high = torch.maximum(low, kink - far), torch.minimum(high, kink + far)
    home = torch.minimum(torch.maximum(kink, low), high)
    for first in range(0, len(jobs), max(1, AT_ONCE // points)):
        if time.monotonic() >= until:
            return
        some = torch.arange(first, min(len(jobs), first + max(1, AT_ONCE // points)), device=low.device)
        rows = some.repeat_interleave(points)
        place = torch.rand(len(rows), low.shape[1], generator=generator, dtype=low.dtype).to(low.device)
        moves = torch.rand(place.shape, generator=generator, dtype=low.dtype).to(low.device) < 0.6
        theta = torch.where(moves, low[rows] + place * (high - low)[rows], home[rows])
        cost, _ = task.try_out(jobs.take(rows), theta, found)
        good = torch.isfinite(cost).nonzero().squeeze(1)
        if len(good):
            _pull(task, jobs.take(rows[good]), home[rows[good]], theta[good], found, halvings)


def _pull(task: CertificateTask, jobs: Jobs, home: Tensor, theta: Tensor, found: CheapestPlans, halvings: int) -> None:
    """Halve the way from accepted points theta to home."""
    near, far = theta.new_zeros(len(theta), 1), theta.new_ones(len(theta), 1)
    for _ in range(halvings):
        middle = (near + far) / 2
        cost, _ = task.try_out(jobs, home + middle * (theta - home), found)
        fine = torch.isfinite(cost).unsqueeze(1)
        near, far = torch.where(fine, near, middle), torch.where(fine, middle, far)
