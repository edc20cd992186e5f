"""Rows to ask about where there are too many for all of them: near accepted people, and random changes."""

from __future__ import annotations

import torch

from turnabout.core import Problem
from turnabout.schema import Category, Schema
from turnabout.typing import Tensor

ROWS = 256  # accepted background rows that are looked at
NEAREST = 8  # of these, how many a person gets


def accepted_rows(problem: Problem, aim: float) -> Tensor:
    """(m, d) a spread of the background rows with at least this margin."""
    if problem.background_x is None or problem.background_margin is None:
        return torch.zeros(0, problem.schema.d, dtype=torch.float64)
    accepted = problem.background_x[problem.background_margin.to(problem.background_x.device) >= aim]
    return accepted[:: max(1, -(-len(accepted) // ROWS))]


def nearest(problem: Problem, x: Tensor, accepted: Tensor) -> tuple[Tensor, Tensor]:
    """Owners (m,) and rows (m, d): for each of n people the accepted rows that would cost them least, as they are."""
    count = min(NEAREST, len(accepted))
    cost = torch.cat([problem.cost(part.unsqueeze(1), accepted) for part in x.split(128)])
    near = cost.topk(count, dim=1, largest=False).indices
    return torch.arange(len(x), device=x.device).repeat_interleave(count), accepted[near].flatten(0, 1)


def scattered(schema: Schema, x: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Owners (m,) and rows (m, d) of random changes: the same draws (2, samples, F) for everybody.

    The first draw of a feature says where in a person's reach it goes, more often near an end than in the middle; the
    second whether it does. From one sample to the next more features change. Rows are yet to be snapped.
    """
    samples = draws.shape[1]
    does = draws[1] < torch.linspace(0.1, 1.0, samples, dtype=x.dtype, device=x.device).unsqueeze(1)  # (samples, F)
    owner = torch.arange(len(x), device=x.device).repeat_interleave(samples)
    lo, hi = schema.bounds(x)
    share = 0.5 - 0.5 * torch.cos(torch.pi * draws[0][:, schema.feature_of.to(x.device)])  # (samples, d)
    rows = (lo.unsqueeze(1) + share * (hi - lo).unsqueeze(1)).flatten(0, 1)
    for f, (feature, s) in enumerate(zip(schema.features, schema.slices, strict=True)):
        if isinstance(feature, Category):
            count = len(feature.levels)
            level = torch.nn.functional.one_hot((draws[0, :, f] * count).long().clamp(max=count - 1), count)
            rows[:, s.start : s.start + count] = level.to(x.dtype).repeat(len(x), 1)
    return owner, torch.where(does[:, schema.feature_of.to(x.device)].repeat(len(x), 1), rows, x[owner])
