"""The highest margin within a distance, as far as a search finds it: for models without a form that can be solved."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from turnabout.models import Differentiable, Model
from turnabout.typing import Tensor

STEPS = 40  # of gradient ascent
STARTS = 4  # their own point, and random ones around it
DRAWS = 256  # points tried for a model without gradient
ROWS = 1 << 14  # rows asked of the model at a time
NEAR = 1e-9  # beyond reach that rounding explains


@dataclass(frozen=True, eq=False)
class BallSearch:
    """Searches the ball around each person; the random moves are the same for everyone.

    Attributes
    ----------
    moves : (m, d) within the ball of this radius: where gradient ascent starts, or all that is tried.
    """

    model: Model
    distance: float
    norm: float
    moves: Tensor

    @classmethod
    def draw(cls, model: Model, distance: float, norm: float, seed: int) -> BallSearch:
        """With the number of moves that the model needs."""
        count = STARTS - 1 if isinstance(model, Differentiable) else DRAWS
        moves = in_ball(count, model.schema.d, norm, np.random.default_rng(seed))
        own = torch.zeros(1, model.schema.d, dtype=torch.float64)
        return cls(model, distance, norm, torch.cat([own, distance * moves]))

    @property
    def how(self) -> str:
        """In words."""
        kind = "gradient ascent from" if isinstance(self.model, Differentiable) else "the highest margin at"
        return f"{kind} {len(self.moves)} points within reach"

    def highest(self, x: Tensor) -> Tensor:
        """(n, d) -> (n,) the highest margin found."""
        parts = x.split(max(1, ROWS // len(self.moves)))
        search = self._climb if isinstance(self.model, Differentiable) else self._look
        return torch.cat([search(part) for part in parts]) if len(x) else x.new_zeros(0)

    def _look(self, x: Tensor) -> Tensor:
        """At the legal rows nearest to the points; rows beyond reach, as with another level, do not count."""
        points = (x.unsqueeze(1) + self.moves).reshape(-1, x.shape[1])
        table = self.model.schema.decode(points)
        there = self.model.schema.encode(table).reshape(len(x), -1, x.shape[1])
        away = torch.linalg.vector_norm(there - x.unsqueeze(1), ord=self.norm, dim=2)
        margin = torch.from_numpy(np.asarray(self.model.judge(table), dtype=np.float64)).reshape(away.shape)
        return margin.nan_to_num(nan=-math.inf).masked_fill(away > self.distance + NEAR, -math.inf).amax(1)

    def _climb(self, x: Tensor) -> Tensor:
        model = self.model
        assert isinstance(model, Differentiable)
        start = x.repeat_interleave(len(self.moves), 0)
        move = self.moves.repeat(len(x), 1)
        best = model.margin(start + move).detach()
        for step in range(STEPS if self.distance > 0 else 0):
            reach = 2.0 * self.distance / (1 + step) ** 0.5
            move = into_ball(move + reach * steepest(model.gradient(start + move), self.norm), self.distance, self.norm)
            best = torch.maximum(best, model.margin(start + move).detach())
        return best.reshape(len(x), -1).amax(1)


def steepest(slope: Tensor, norm: float) -> Tensor:
    """(n, d) the move of length 1 that gains most; 0 where the slope is."""
    if norm == math.inf:
        return slope.sign()
    if norm == 2.0:
        return torch.nn.functional.normalize(slope, dim=1, eps=1e-300)
    top = slope.abs().argmax(1, keepdim=True)
    return torch.zeros_like(slope).scatter(1, top, slope.gather(1, top).sign())


def into_ball(move: Tensor, distance: float, norm: float) -> Tensor:
    """(n, d) the moves of at most this length that are nearest in the Euclidean sense."""
    if norm == math.inf:
        return move.clamp(-distance, distance)
    size = torch.linalg.vector_norm(move, ord=norm, dim=1, keepdim=True)
    if norm == 2.0:
        return move * (distance / size.clamp(min=1e-300)).clamp(max=1.0)
    ordered = move.abs().sort(1, descending=True).values
    excess = (ordered.cumsum(1) - distance) / torch.arange(1, move.shape[1] + 1)
    last = (ordered > excess).sum(1, keepdim=True).clamp(min=1) - 1
    shrunk = move.sign() * (move.abs() - excess.gather(1, last)).clamp(min=0.0)
    return torch.where(size <= distance, move, shrunk)


def in_ball(count: int, d: int, norm: float, rng: np.random.Generator) -> Tensor:
    """(count, d) points of the ball of radius 1, evenly spread."""
    if norm == math.inf:
        return torch.from_numpy(rng.uniform(-1.0, 1.0, (count, d)))
    if norm == 2.0:
        raw = rng.standard_normal((count, d))
    else:
        raw = rng.exponential(size=(count, d)) * rng.choice([-1.0, 1.0], (count, d))
    size = np.linalg.norm(raw, ord=norm, axis=1, keepdims=True)
    return torch.from_numpy(raw / size * rng.random((count, 1)) ** (1.0 / d))
