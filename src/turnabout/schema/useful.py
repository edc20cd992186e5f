"""In which steps people use a number, which changes are worth making, and how far people go: read off its values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from turnabout.schema.features import GRID_NOISE
from turnabout.schema.reach import Reach

STEPS = 40  # useful steps between the quartiles, at least
ENDINGS = (1000.0, 500.0, 250.0, 100.0, 50.0, 25.0, 12.0, 10.0, 6.0, 5.0, 3.0, 2.0)
ENDS = 0.9  # share of the values that are multiples of a step in which people count
WORTH = 0.02  # share of the ordinary range that a change must have to be worth making
FAR = 2.0  # ordinary ranges that a person can go
USUAL = (0.2, 0.5)  # shares of that within which options are looked for first, one after the other
ACCEPTED = (0.005, 0.995)  # quantiles of accepted people between which new values lie
PART = 0.5  # share of an amount of their own by which people can change it
FEW = 30  # people below whom nothing is learned from quantiles


@dataclass(frozen=True)
class Choices:
    """What a plan may choose of a number."""

    useful_step: float | None = None
    least_change: float | None = None
    reach: Reach | None = None


def ordinary_range(values: np.ndarray) -> float:
    """What lies between the quantiles at 5 and 95 percent, or further out where these are equal."""
    for low, high in ((0.05, 0.95), (0.01, 0.99), (0.0, 1.0)):
        ends = np.quantile(values, (low, high), method="nearest")
        if ends[1] > ends[0]:
            return float(ends[1] - ends[0])
    return 0.0


def draft_choices(
    values: np.ndarray,
    grid_step: float,
    low: float,
    high: float,
    accepted: np.ndarray | None,
    share: float | None = None,
    most: float | None = None,
) -> Choices:
    """Read off the present values of a column.

    accepted : those of accepted people, where known.  share : of their own value that people can go.  most : units that
    people can go at most.
    """
    if len(values) < FEW or (spread := ordinary_range(values)) <= 0:
        return Choices()
    step = useful_step(values, grid_step)
    least = _multiple(WORTH * spread, step)
    if step > (high - low) / 4:
        step, least = grid_step, grid_step
    ends = _ends(values if accepted is None or len(accepted) < FEW else accepted, low, high, step)
    far = FAR * spread if most is None else max(least, min(FAR * spread, most))
    reach = Reach(absolute=_multiple(far, step), relative=share, low=ends[0], high=ends[1], usual=USUAL)
    return Choices(step if step > grid_step * (1 + GRID_NOISE) else None, least, reach)


def part_of(values: np.ndarray) -> tuple[float | None, float | None]:
    """How far people can change an amount: the share of their own; or, where many have none, that of what others have.

    (share, None), or (None, units); (None, None) where hardly anybody has any.
    """
    if np.quantile(values, 0.05) > 0:
        return PART, None
    some = values[values > 0]
    return None, PART * float(np.median(some)) if len(some) >= FEW else None


def useful_step(values: np.ndarray, grid_step: float) -> float:
    """The coarsest round step that is fine enough between the quartiles, or in which the values themselves end."""
    moving = values[values != 0] if (values == 0).mean() > 0.5 else values
    middle = float(np.subtract(*np.quantile(moving, (0.75, 0.25)))) or float(np.ptp(moving)) / 2
    step = max(grid_step, _round(middle / STEPS))
    step = grid_step * max(1.0, math.floor(step / grid_step + GRID_NOISE))
    for ending in ENDINGS:
        wide = ending * max(1.0, grid_step) if grid_step >= 1 else ending
        fits = step / 5 <= wide <= middle / 2 and abs(wide / grid_step - round(wide / grid_step)) < GRID_NOISE
        if fits and (np.abs(moving / wide - np.rint(moving / wide)) < GRID_NOISE).mean() >= ENDS:
            return wide
    return step


def _round(value: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above the value."""
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return float(max(k for k in (1, 2, 5) if k * power <= value * (1 + GRID_NOISE)) * power)


def _multiple(value: float, step: float) -> float:
    """The least multiple of the step, and at least one, that is not below the value."""
    return float(f"{step * max(1, math.ceil(value / step - GRID_NOISE)):.12g}")


def _ends(values: np.ndarray, low: float, high: float, step: float) -> tuple[float | None, float | None]:
    """Multiples of the step between which ordinary values lie; None where that is no narrower than the bounds."""
    least, most = (float(v) for v in np.quantile(values, ACCEPTED, method="nearest"))
    first, last = math.ceil(least / step - GRID_NOISE) * step, math.floor(most / step + GRID_NOISE) * step
    if first > last:
        return None, None
    short = (float(f"{end:.12g}") for end in (first, last))
    first, last = short
    return (first if first > low else None), (last if last < high else None)
