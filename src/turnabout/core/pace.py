"""How many rows to work on at a time, so that a clock can be looked at in between."""

from __future__ import annotations

import math
from dataclasses import dataclass

SHARE = 1 / 12  # of the time limit that one part of the work may take
GROW = 8  # how much larger than the part before the next may be


@dataclass
class Pace:
    """Learns from the parts done how many rows take a small share of a time limit.

    A part of r rows takes a + b r seconds: a for the call, b for each row. Both are read off the last two parts of
    different sizes. A part may take as long for its rows as for the call itself, so that distant models are asked about
    many rows at once.
    """

    time_limit: float
    rows: int  # of the next part
    last: tuple[int, float] = (0, 0.0)  # rows and seconds of the last part
    before: tuple[int, float] = (0, 0.0)  # and of the last one of another size

    def note(self, rows: int, seconds: float) -> None:
        """A part of so many rows took so long."""
        if rows != self.last[0]:
            self.before = self.last
        self.last = (rows, seconds)
        each, call = seconds / rows, 0.0
        if self.before[0]:
            each = max(0.0, (seconds - self.before[1]) / (rows - self.before[0]))
            call = max(0.0, seconds - each * rows)
        room = max(SHARE * self.time_limit, call)
        self.rows = max(1, int(min(GROW * rows, room / each if each > 0 else math.inf)))
