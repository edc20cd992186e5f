"""One call of find: its seed, its clock, its count of questions."""

from __future__ import annotations

import math
import time
import zlib
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Run:
    """What a search may know of the call it serves.

    Random numbers are *common*: `rng("shell", 3)` depends on the seed and the labels alone, never on how many
    people are searched or in which order they stand. A method that draws the same numbers for everyone therefore
    gives each person the same answer wherever they stand in the table.
    """

    options: int = 1
    seed: int = 0
    time_limit: float | None = None
    query_limit: int | None = None  # rows of the original that may be asked for each person
    started: float = field(default_factory=time.monotonic)
    asked: int = 0  # rows asked of the model or its compiled form
    queries_left: float = math.inf  # rows of the original that a search may still ask for the people now searched
    reserved: float = 0.0  # and rows kept for verifying what it finds
    skipped: int = 0  # rows that were not asked because none was left
    failed: int = 0  # rows on which the model failed
    failure: str = ""  # what it said when it failed last

    def rng(self, *labels: str | int) -> np.random.Generator:
        """A generator of its own for each set of labels."""
        words = [zlib.crc32(str(label).encode()) for label in labels]
        return np.random.default_rng(np.random.SeedSequence([self.seed, *words]))

    @property
    def seconds(self) -> float:
        """Seconds since the call began."""
        return time.monotonic() - self.started

    def allow(self, people: int) -> None:
        """Begin to search so many people: each brings their own share of queries."""
        if self.query_limit is not None:
            mine = self.query_limit * people
            self.reserved = min(mine // 2, 2 * self.options * people)
            self.queries_left = mine - self.reserved

    def spend(self, rows: int, verifying: bool = False) -> int:
        """How many of these rows of the original may be asked; they count as asked, the others as skipped."""
        if self.query_limit is None:
            return rows
        granted = int(min(rows, self.queries_left + (self.reserved if verifying else 0.0)))
        if verifying:
            kept = min(granted, self.reserved)
            self.reserved, self.queries_left = self.reserved - kept, self.queries_left - (granted - kept)
        else:
            self.queries_left -= granted
        self.skipped += rows - granted
        return granted

    @property
    def late(self) -> bool:
        """Whether the time limit has passed."""
        return self.time_limit is not None and self.seconds >= self.time_limit

    @property
    def expired(self) -> bool:
        """Whether the time limit has passed, or no row may be asked any more: a search returns what it has."""
        return self.late or self.queries_left <= 0
