"""Rows to ask about: all legal rows of a person who has only few, near accepted people, and random changes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.core import Problem
from turnabout.schema import Category, Schema
from turnabout.schema.legal_values import Others, others_of
from turnabout.typing import Tensor

ROWS = 256  # accepted background rows that are looked at
NEAREST = 8  # of these, how many a person gets


@dataclass(frozen=True)
class LegalRows:
    """Every legal row of n people x (n, d), by what they may put into each feature."""

    x: Tensor
    features: tuple[Others, ...]
    blocked: Tensor  # (n, F) True where a feature must stay as it is

    @classmethod
    def of(cls, schema: Schema, x: Tensor, blocked: Tensor) -> LegalRows:
        """For people x (n, d)."""
        parts = zip(schema.features, schema.slices, strict=True)
        return cls(x, tuple(others_of(feature, s, x) for feature, s in parts), blocked)

    @property
    def count(self) -> Tensor:
        """(n,) how many rows each person may reach, as a float: it may be very large."""
        others = torch.stack([feature.others for feature in self.features], 1)
        return (others.masked_fill(self.blocked, 0.0) + 1.0).prod(1)

    def rows(self, who: Tensor) -> tuple[Tensor, Tensor]:
        """Owners (R,) and all legal rows (R, d) of some people, their own row first."""
        count = self.count[who].long()
        owner = who.repeat_interleave(count)
        index = torch.arange(len(owner), device=who.device) - (count.cumsum(0) - count).repeat_interleave(count)
        out = self.x[owner]
        for f, feature in enumerate(self.features):
            below, above = feature.count.masked_fill(self.blocked[:, f : f + 1], 0.0)[owner].long().unbind(1)
            base = above + below + 1
            digit, index = index % base, torch.div(index, base, rounding_mode="floor")
            rank = torch.where(digit <= above, below + digit - 1, below + above - digit)  # their own, up, then down
            moved = (digit > 0).unsqueeze(1)
            if not bool(moved.any()):
                continue
            out[:, feature.columns] = torch.where(moved, feature.values(owner, rank), out[:, feature.columns])
        return owner, out


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
