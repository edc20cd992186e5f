"""The inner minimum of recourse training: the change within Delta that raises the margin most, or nearly.

Each is called with a model that has `margin` and `gradient`, and with people's surroundings: (model, around) -> delta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from turnabout.errors import MethodError
from turnabout.models import Differentiable
from turnabout.parameters import Positive, Whole, checked
from turnabout.rules.regions import Around
from turnabout.typing import Tensor


class Inner(Protocol):
    """A way to look for the best change; (..., d) -> (..., d)."""

    def __call__(self, model: Differentiable, around: Around) -> Tensor: ...


@dataclass(frozen=True)
class LinearStep:
    """One linear program: argmax over Delta of slope @ delta (Ross, Lakkaraju and Bastani, 2021, section 3.1).

    Exact for a linear model. For others it may overshoot, and be worse than no change at all.
    """

    def __call__(self, model: Differentiable, around: Around) -> Tensor:
        return self.from_slope(model.gradient(around.x), around)

    def from_slope(self, slope: Tensor, around: Around) -> Tensor:
        """The step for a slope that is known already."""
        return around.steepest(slope)


@dataclass(frozen=True)
@checked(MethodError, steps=Whole(0), rate=Positive())
class ProjectedSteps:
    """The linear step, then projected gradient steps from it and from no change; the best point met, none included.

    Parameters
    ----------
    steps : how many from each of the two starts.
    rate : first length of a step, as a share of the width of Delta; it shrinks to a tenth of that.
    """

    steps: int = 3
    rate: float = 0.5

    def __call__(self, model: Differentiable, around: Around) -> Tensor:
        width = around.hi - around.lo
        gradient = model.gradient(around.x)
        met = [torch.zeros_like(around.x), around.steepest(gradient)]
        for start in (0, 1):
            delta = met[start]
            for step in range(self.steps):
                if step or start:
                    gradient = model.gradient(around.x + delta)
                pull = gradient * width
                size = pull.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(pull.dtype).tiny)
                rate = self.rate * 0.1 ** (step / max(1, self.steps - 1))
                delta = around.project(delta + rate * width * pull / size)
                met.append(delta)
            gradient = model.gradient(around.x)
        return best_of(model, around, torch.stack(met, -2))


@dataclass(frozen=True)
class Corners:
    """The best corner of Delta; no change counts as a corner.

    Exact for models whose margin is linear, or has convex sets of rows below each height (quasi-convex). In a Box also
    for those monotone in each column; in other shapes these may be best between corners.
    """

    def __call__(self, model: Differentiable, around: Around) -> Tensor:
        corners = around.corners()
        if corners is None:
            raise MethodError(
                "Delta has too many corners to try them all.", hint="use ProjectedSteps(), or let fewer columns move."
            )
        return best_of(model, around, corners)


@dataclass(frozen=True)
@checked(MethodError, points=Whole(2))
class FineGrid:
    """The best point of a product grid over at most three moving columns; no change is one of its points.

    Parameters
    ----------
    points : along each column, spread evenly from the lowest to the highest change.
    """

    points: int = 33

    def __call__(self, model: Differentiable, around: Around) -> Tensor:
        moving = (around.hi > around.lo).flatten(0, -2).any(0).nonzero().squeeze(1)
        if len(moving) > 3:
            raise MethodError(
                f"{len(moving)} encoded columns may move, too many for a grid.",
                hint="use ProjectedSteps() or Corners().",
            )
        share = torch.linspace(0, 1, self.points, dtype=around.x.dtype, device=around.x.device)
        shares = torch.cartesian_prod(*[share] * len(moving)).reshape(-1, len(moving)) if len(moving) else share[:0]
        best, highest = torch.zeros_like(around.x), model.margin(around.x)
        lo, hi = around.lo[..., moving], around.hi[..., moving]
        for row in shares:  # a row of shares at a time: memory of one batch
            delta = torch.zeros_like(around.x)
            delta[..., moving] = lo + row * (hi - lo)
            delta = around.project(delta)
            margin = model.margin(around.x + delta)
            better = margin > highest
            highest = torch.where(better, margin, highest)
            best = torch.where(better.unsqueeze(-1), delta, best)
        return best


def best_of(model: Differentiable, around: Around, deltas: Tensor) -> Tensor:
    """The change of highest margin among some, (..., v, d) -> (..., d); the first where several are best."""
    margins = model.margin(around.x.unsqueeze(-2) + deltas)  # (..., v)
    best = margins.argmax(-1, keepdim=True).unsqueeze(-1)
    return deltas.gather(-2, best.expand(*best.shape[:-1], deltas.shape[-1])).squeeze(-2)
