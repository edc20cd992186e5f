"""What a person may do in an audit of explanations: moves in encoded space, up to a length.

Not the regions of `turnabout.rules`: these are declared by feature names in a person's units, need a schema, and
bind every method. Here a set of moves is asked about any point, for any length, and without a table.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from turnabout.errors import AuditError
from turnabout.rules.regions import AroundBall
from turnabout.typing import Tensor, is_whole

NUDGES = 8  # units in the last place by which a way is shortened where rounding made it too long

Bounds = Callable[[Tensor], tuple[Tensor, Tensor]]
"""x (n, d) -> the lowest and highest values (n, d) that each person may reach: `problem.bounds`."""


@dataclass(frozen=True)
class AuditMoves(ABC):
    """A set of moves u = y - x, each at most delta long, that keeps every column within bounds."""

    bounds: Bounds | None = None

    @abstractmethod
    def size(self, move: Tensor) -> Tensor:
        """The length of moves, (..., d) -> (...)."""

    @abstractmethod
    def steepest(self, x: Tensor, slope: Tensor, delta: float) -> Tensor:
        """The allowed move with the largest slope @ u, exactly: slope (d,), x (n, d) -> (n, d)."""

    @abstractmethod
    def draw(self, x: Tensor, delta: float, draws: int, rng: np.random.Generator) -> Tensor:
        """Allowed moves at random, (n, d) -> (n, draws, d).

        The same for every point, but for its bounds, so that answers do not depend on the other points.
        """

    def room(self, x: Tensor, delta: float) -> tuple[Tensor, Tensor]:
        """The least and largest change of each column alone, (n, d) each; from 0 down, and from 0 up."""
        low, high = torch.full_like(x, -delta), torch.full_like(x, delta)
        least, most = self.limits(x)
        return torch.maximum(low, (least - x).clamp(max=0)), torch.minimum(high, (most - x).clamp(min=0))

    def limits(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The lowest and highest value of each column that people at x (n, d) may reach, (n, d) each."""
        if self.bounds is None:
            return torch.full_like(x, -torch.inf), torch.full_like(x, torch.inf)
        least, most = self.bounds(x)
        if least.shape != x.shape or most.shape != x.shape or least.isnan().any() or most.isnan().any():
            raise AuditError(
                f"bounds answers {tuple(x.shape)} points with shapes {tuple(least.shape)} and {tuple(most.shape)}, "
                "or with NaN.",
                hint="return the lowest and the highest value of every column: problem.bounds does.",
            )
        return torch.minimum(least, x), torch.maximum(most, x)

    def place(self, x: Tensor, move: Tensor, delta: float) -> Tensor:
        """Where moves from x (n, d) end, (n, d) or (n, k, d): within bounds, and not beyond delta by rounding."""
        least, most = self.limits(x)
        if move.ndim == 3:
            x, least, most = (part.unsqueeze(1) for part in (x, least, most))
        out = torch.minimum(torch.maximum(x + move, least), most)
        for _ in range(NUDGES):
            long = self.size(out - x) > delta
            if not long.any():
                break
            out = torch.where(long.unsqueeze(-1), torch.nextafter(out, x.expand_as(out)), out)
        return out

    def project(self, x: Tensor, direction: Tensor) -> Tensor:
        """The nearest direction in which some move is allowed, 0 for none: (n, d) -> (n, d)."""
        if self.bounds is None:
            return direction
        low, high = self.room(x, math.inf)
        able = ((direction > 0) & (high > 0)) | ((direction < 0) & (low < 0))
        return torch.where(able, direction, 0.0)

    def longest(self, x: Tensor, direction: Tensor, delta: float) -> Tensor:
        """(n,) the largest t for which t * direction is allowed; 0 where the direction is 0.

        The place x + t * direction, rounded, is allowed too.
        """
        size = self.size(direction)
        t = torch.where(size > 0, delta / size.clamp(min=torch.finfo(size.dtype).tiny), 0.0)
        low, high = self.room(x, math.inf)
        room = torch.where(direction > 0, high, low) / torch.where(direction == 0, 1.0, direction)
        t = torch.minimum(t, torch.where(direction == 0, torch.inf, room).amin(-1))
        least, most = self.limits(x)
        fastest = direction.abs().amax(-1).clamp(min=torch.finfo(size.dtype).tiny)
        step = torch.finfo(t.dtype).eps / 2 * torch.maximum(t, x.abs().amax(-1) / fastest)
        for _ in range(NUDGES):
            end = x + t.unsqueeze(-1) * direction
            over = (self.size(end - x) > delta) | (end < least).any(-1) | (end > most).any(-1)
            if not over.any():
                break
            t = torch.where(over, (t - step).clamp(min=0.0), t)
        return t


@dataclass(frozen=True)
class Anywhere(AuditMoves):
    """Any change whose norm is at most delta.

    Parameters
    ----------
    bounds : lowest and highest values that people may reach (`problem.bounds`: what is fixed or may only rise, and the
        range of each column). Columns are continuous here: someone may stand between two levels of a category.
    norm : 1, 2 or infinity.
    """

    norm: float = 2.0

    def __post_init__(self) -> None:
        if self.norm not in (1, 2, math.inf):
            raise AuditError(f"norm={self.norm!r} is none of 1, 2 and infinity.", hint="use norm=2.")

    def size(self, move: Tensor) -> Tensor:
        return torch.linalg.vector_norm(move, ord=float(self.norm), dim=-1)

    def steepest(self, x: Tensor, slope: Tensor, delta: float) -> Tensor:
        low, high = self.room(x, delta)
        if self.norm == 2:
            columns = torch.arange(x.shape[1])
            ball = AroundBall(x, low, high, columns, columns.new_zeros(0, 0), torch.ones_like(slope), float(delta))
            return ball.steepest(slope)
        best = torch.where(slope > 0, high, torch.where(slope < 0, low, 0.0))
        if self.norm == math.inf:
            return best
        order = slope.abs().argsort(descending=True)
        sizes = best[:, order].abs()
        left = (delta - (sizes.cumsum(1) - sizes)).clamp(min=0)  # what the steeper columns leave
        out = torch.zeros_like(best)
        out[:, order] = torch.minimum(sizes, left)
        return out * slope.sign()

    def draw(self, x: Tensor, delta: float, draws: int, rng: np.random.Generator) -> Tensor:
        n, d = x.shape
        if self.norm == 2:
            raw = rng.standard_normal((draws, d))
        elif self.norm == 1:
            raw = rng.laplace(size=(draws, d))
        else:
            raw = rng.uniform(-1, 1, (draws, d))
        move = torch.as_tensor(raw, dtype=x.dtype)
        radius = torch.as_tensor(rng.uniform(size=draws), dtype=x.dtype) ** (1.0 / d) * delta
        radius[::2] = delta  # half of them as long as may be
        move = (move / self.size(move).clamp(min=1e-300).unsqueeze(1) * radius.unsqueeze(1)).expand(n, -1, -1)
        low, high = self.room(x, delta)
        return torch.minimum(torch.maximum(move, low.unsqueeze(1)), high.unsqueeze(1))


@dataclass(frozen=True)
class OneFeature(AuditMoves):
    """A change of one column only, by at most delta.

    Parameters
    ----------
    bounds : as in `Anywhere`.
    column : the encoded column that may change; None for any one of them. A category has several columns and cannot
        be changed by one, so name the columns of numbers, ordinals and binaries.
    """

    column: int | None = None

    def __post_init__(self) -> None:
        if self.column is not None and not is_whole(self.column, 0):
            raise AuditError(f"column={self.column!r} is no column.", hint="count the encoded columns from 0.")

    def columns(self, d: int) -> tuple[int, ...]:
        """The columns that may change."""
        if self.column is None:
            return tuple(range(d))
        if self.column >= d:
            raise AuditError(f"column {self.column} is asked for, of points with {d}.", hint=f"use 0 to {d - 1}.")
        return (int(self.column),)

    def size(self, move: Tensor) -> Tensor:
        return move.abs().amax(-1)  # of moves along one column

    def project(self, x: Tensor, direction: Tensor) -> Tensor:
        able = AuditMoves.project(self, x, direction)
        own = torch.zeros_like(able)
        own[:, list(self.columns(x.shape[1]))] = 1.0
        place = (able.abs() * own).argmax(1, keepdim=True)
        return torch.zeros_like(able).scatter(1, place, (able * own).gather(1, place))

    def steepest(self, x: Tensor, slope: Tensor, delta: float) -> Tensor:
        low, high = self.room(x, delta)
        best = torch.where(slope > 0, high, low)
        gain = torch.full_like(best, -torch.inf)
        own = list(self.columns(x.shape[1]))
        gain[:, own] = (best * slope)[:, own]
        place = gain.argmax(1, keepdim=True)
        return torch.zeros_like(best).scatter(1, place, best.gather(1, place))

    def draw(self, x: Tensor, delta: float, draws: int, rng: np.random.Generator) -> Tensor:
        n, d = x.shape
        own = np.asarray(self.columns(d))
        place = torch.as_tensor(rng.choice(own, (draws, 1)))
        step = torch.as_tensor(rng.uniform(-delta, delta, (draws, 1)), dtype=x.dtype)
        low, high = self.room(x, delta)
        move = torch.zeros(draws, d, dtype=x.dtype).scatter(1, place, step).expand(n, -1, -1)
        return torch.minimum(torch.maximum(move, low.unsqueeze(1)), high.unsqueeze(1))


def pull_back(moves: AuditMoves, x: Tensor, move: Tensor, delta: float) -> Tensor:
    """An allowed move near to one that may not be: clipped to the bounds, then shortened."""
    low, high = moves.room(x, delta)
    move = torch.minimum(torch.maximum(move, low), high)
    return move * (delta / moves.size(move).clamp(min=delta)).unsqueeze(1)
