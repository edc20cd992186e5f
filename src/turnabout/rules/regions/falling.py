"""Where a function that falls meets a limit, for many people at once."""

from __future__ import annotations

from collections.abc import Callable

import torch

from turnabout.typing import Tensor

STEPS = 100
EXACT = 1e-14  # share of the limit


def at_most(value: Tensor, limit: float) -> Tensor:
    """Whether a value keeps to a limit, but for noise."""
    return value <= limit + EXACT * abs(limit)


def first_below(value: Callable[[Tensor], Tensor], limit: float, high: Tensor) -> Tensor:
    """The least t in [0, high] (..., 1) with value(t) (...) <= limit, where value falls in t and is below at high.

    Chords and halvings in turn: functions made of straight pieces, as these are or nearly are, take few steps.
    """
    low = torch.zeros_like(high)
    above, below = value(low).unsqueeze(-1), value(high).unsqueeze(-1)
    for step in range(STEPS):
        close = (below >= limit - EXACT * abs(limit)) | (high - low <= 1e-16 * high) | at_most(above, limit)
        if bool(close.all()):
            break
        share = ((above - limit) / (above - below)).nan_to_num(nan=0.5).clamp(0, 1) if step % 2 == 0 else 0.5
        t = low + share * (high - low)
        height = value(t).unsqueeze(-1)
        fits = at_most(height, limit)
        low, high = torch.where(fits, low, t), torch.where(fits, t, high)
        above, below = torch.where(fits, above, height), torch.where(fits, height, below)
    return high
