"""One call of find: its seed, its clock, its count of questions."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Run:
    """What a search may know of the call it serves.

    Random numbers are *common*: `rng("shell", 3)` depends on the seed and the labels alone, never on how many
    people are searched or in which order they stand. A method that draws the same numbers for everyone therefore
    gives each person the same answer wherever she stands in the table.
    """

    options: int = 1
    seed: int = 0
    time_limit: float | None = None
    started: float = field(default_factory=time.monotonic)
    asked: int = 0

    def rng(self, *labels: str | int) -> np.random.Generator:
        """A generator of its own for each set of labels."""
        words = [zlib.crc32(str(label).encode()) for label in labels]
        return np.random.default_rng(np.random.SeedSequence([self.seed, *words]))

    @property
    def seconds(self) -> float:
        """Seconds since the call began."""
        return time.monotonic() - self.started

    @property
    def expired(self) -> bool:
        """Whether the time limit has passed: a search returns what it has."""
        return self.time_limit is not None and self.seconds >= self.time_limit
