"""Where a box is split: between two values that can be printed, where a parameter shows a column on a grid."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.methods.sequences.certificate.jobs import Jobs
from turnabout.methods.sequences.certificate.parameter_boxes import Rolled
from turnabout.typing import Tensor

ONE = 1e-6  # share of a step within which there is one value only


@dataclass(frozen=True)
class ParameterCuts:
    """The values that a parameter leads to:  base + slope theta_k  is a multiple of `step`; (B, K) each.

    step is 0 where a parameter shows no such column, or where the state before it is not known well enough. Nothing
    rests on them but where boxes are split, so that what they leave out, such as a person's own value, is not lost.
    """

    base: Tensor
    slope: Tensor
    step: Tensor

    @classmethod
    def of(cls, jobs: Jobs, rolled: Rolled) -> ParameterCuts:
        """Read off the columns that parameters move alone, and those that scalings lead."""
        low = torch.stack([hull.low for hull in rolled.states[:-1]], 1)  # (B, T, m) before each step
        high = torch.stack([hull.high for hull in rolled.states[:-1]], 1)
        turns = jobs.scales.unsqueeze(-1)  # (B, T, 1)
        alone = jobs.own & ~turns.unsqueeze(-1) & (jobs.grid > 0).unsqueeze(2)  # (B, T, P, m)
        lead = torch.zeros_like(jobs.grid).scatter(2, jobs.lead.clamp(min=0).unsqueeze(-1), 1.0) > 0
        dial = torch.zeros_like(jobs.low).scatter(2, jobs.dial.unsqueeze(-1), 1.0) > 0
        led = (turns & dial).unsqueeze(-1) & (lead & (jobs.grid > 0)).unsqueeze(2)
        shown = alone | led
        j = shown.to(torch.int8).argmax(-1)  # (B, T, P): the first of them
        step = torch.where(shown.any(-1), jobs.grid.gather(2, j), 0.0)
        before, after = low.gather(2, j), high.gather(2, j)
        known = after - before <= ONE * step
        start = jobs.start.unsqueeze(1).expand_as(low).gather(2, j)
        even = (start / torch.where(step > 0, step, 1.0)).frac().abs()
        fits = known | (~turns & (torch.minimum(even, 1 - even) <= ONE))
        gain = jobs.gain.gather(3, j.unsqueeze(-1)).squeeze(-1)
        slope = torch.where(turns, before, gain)
        base = torch.where(turns | ~known, 0.0, before)
        step = torch.where(fits & (slope != 0), step, 0.0)
        return cls(base.flatten(1), slope.flatten(1), step.flatten(1))

    def single(self, size: Tensor) -> Tensor:
        """(B, K) whether boxes with sides of this size leave a parameter one value only."""
        return (self.step > 0) & (size * self.slope.abs() <= ONE * self.step)

    def middle(self, axis: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """(B, 1) where to split boxes (B, K) along an axis (B, 1): near the middle, and between two values."""
        a, b = low.gather(1, axis), high.gather(1, axis)
        middle = (a + b) / 2
        base, slope, step = (part.gather(1, axis) for part in (self.base, self.slope, self.step))
        unit = torch.where(step > 0, step, 1.0)
        between = (torch.floor((base + slope * middle) / unit) + 0.5) * unit
        cut = (between - base) / torch.where(slope == 0, 1.0, slope)
        return torch.where((step > 0) & (cut > a) & (cut < b), cut, middle)

    def pick(self, rows: Tensor) -> ParameterCuts:
        """Those of some boxes."""
        return ParameterCuts(self.base[rows], self.slope[rows], self.step[rows])
