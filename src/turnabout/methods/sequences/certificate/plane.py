"""Bounds on the margin of end states, whatever the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from turnabout.methods.sequences.certificate.boxes import Hull
from turnabout.typing import Tensor


@dataclass(frozen=True)
class Plane:
    """margin <= slope . delta + top over a box, (B, K) and (B,); blame (B, K): how much each parameter loosens it."""

    slope: Tensor
    top: Tensor
    blame: Tensor


class MarginBound(Protocol):
    """Bounds the margin of the end state of jobs.

    width : numbers held for each box, roughly.  units : how large an integer program for the model would be.
    noise : how far below zero a margin still counts as accepted.
    """

    width: int
    units: int
    noise: float

    def base(self, rest: Tensor) -> Tensor:
        """Rows (J, d) with their moving columns at zero units -> what is known of each job beforehand, (J, h)."""
        ...

    def plane(self, base: Tensor, hull: Hull) -> Plane:
        """The bound over the hulls (B, m, ...) of jobs with this base (B, h)."""
        ...
