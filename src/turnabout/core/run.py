"""One call of find: its seed, its clock, its count of questions."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from turnabout.core.pace import Pace

LITTLE = 0.05  # share of the time limit that is kept for a last look
FIRST = 2048  # rows of the first part under a time limit
ALONE = 8  # and of the first rows that are asked one by one
CALL = 512  # rows of the first call to a model of whose speed nothing is known


def now() -> float:
    """Seconds on a clock that never goes back."""
    return time.monotonic()


@dataclass
class Run:
    """What a search may know of the call it serves.

    Random numbers are *common*: `rng("shell", 3)` depends on the seed and the labels alone, never on how many
    people are searched or in which order they stand. A method that draws the same numbers for everyone therefore
    gives each person the same answer wherever they stand in the table.

    A time limit is shared out by `within`: the stage at hand ends at `until`, so that the next ones have time left.
    """

    options: int = 1
    seed: int = 0
    time_limit: float | None = None
    query_limit: int | None = None  # rows of the original that may be asked for each person
    refines: bool = True  # whether found rows are walked back towards the person
    started: float = field(default_factory=lambda: now())
    until: float = math.inf  # when the stage at hand must end
    cut: bool = False  # whether a stage of the search of the people at hand was told to stop for want of time
    asking: float = 0.0  # seconds that the model took
    paces: dict[str, Pace] = field(default_factory=dict)  # how long parts of the work take
    asked: int = 0  # rows asked of the model or its compiled form
    queries_left: float = math.inf  # rows of the original that a search may still ask for the people now searched
    reserved: float = 0.0  # and rows kept for verifying what it finds
    granted: float = 0.0  # both together, as the search began
    searched: tuple[int, ...] = ()  # whom it is about
    spent: dict[int, float] = field(default_factory=dict)  # rows of the original asked for each person so far
    skipped: int = 0  # rows that were not asked because none was left
    failed: int = 0  # rows on which the model failed
    failure: str = ""  # what it said when it failed last

    def __post_init__(self) -> None:
        if self.time_limit is not None:
            self.until = self.started + self.time_limit

    def rng(self, *labels: str | int) -> np.random.Generator:
        """A generator of its own for each set of labels."""
        words = [zlib.crc32(str(label).encode()) for label in labels]
        return np.random.default_rng(np.random.SeedSequence([self.seed, *words]))

    # -- queries ----------------------------------------------------------------------------------------------

    def allow(self, people: Iterable[int], share: float = 1.0) -> None:
        """Begin to search some people: each brings such a share of the queries that they have left."""
        self.cut, self.searched = False, tuple(people)
        if self.query_limit is not None:
            mine = int(share * sum(self.query_left(person) for person in self.searched))
            self.reserved = min(mine // 2, 2 * self.options * len(self.searched))
            self.queries_left = mine - self.reserved
            self.granted = mine

    def query_left(self, person: int) -> float:
        """The rows of the original that may still be asked for a person."""
        return math.inf if self.query_limit is None else self.query_limit - self.spent.get(person, 0.0)

    def charge(self) -> None:
        """End a search: what it asked is shared out among the people who were searched."""
        if self.query_limit is not None and self.searched:
            each = (self.granted - self.queries_left - self.reserved) / len(self.searched)
            self.spent.update({person: self.spent.get(person, 0.0) + each for person in self.searched})
            self.searched = ()

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

    @contextmanager
    def saving(self, share: float) -> Iterator[None]:
        """A stage that leaves such a share of the queries to those that follow."""
        saved = 0.0 if self.query_limit is None else share * self.queries_left // 1
        self.queries_left -= saved
        try:
            yield
        finally:
            self.queries_left += saved

    # -- time -------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Seconds since the call began."""
        return now() - self.started

    @property
    def left(self) -> float:
        """Seconds until the stage at hand must end; infinite without a time limit."""
        return math.inf if self.time_limit is None else self.until - now()

    @property
    def late(self) -> bool:
        """Whether the time limit has passed."""
        return self.time_limit is not None and self.seconds >= self.time_limit

    @property
    def over(self) -> bool:
        """Whether the stage at hand must end; what it leaves undone is remembered as cut."""
        over = self.left <= 0
        self.cut |= over
        return over

    @property
    def nearly_over(self) -> bool:
        """Whether little time is left for the stage at hand: what it has must be looked at now."""
        if self.time_limit is None or self.left > LITTLE * self.time_limit:
            return False
        self.cut = True
        return True

    @property
    def expired(self) -> bool:
        """Whether the stage at hand must end, or no row may be asked any more: a search returns what it has."""
        return self.over or self.queries_left <= 0

    @contextmanager
    def within(self, share: float) -> Iterator[None]:
        """A stage that may take such a share of the time left."""
        outer = self.until
        if self.time_limit is not None:
            self.until -= (1 - share) * max(0.0, self.left)
        try:
            yield
        finally:
            self.until = outer

    @contextmanager
    def grace(self, share: float) -> Iterator[None]:
        """A stage that may go on for such a share of the time limit after it; `find` may take half as long again."""
        outer = self.until
        if self.time_limit is not None:
            self.until = self.started + (1 + share) * self.time_limit
        try:
            yield
        finally:
            self.until = outer

    def parts(self, rows: int, most: int, label: str, each: int = 1) -> Iterator[slice]:
        """Slices of at most `most` rows; under a time limit as many as take little of it, and none when it is over.

        The label names the kind of work: how long it takes is measured, without the time of the model. The first part
        is one of few rows; `each` says how many each of them stands for.
        """
        done = 0
        pace = None if self.time_limit is None else self._pace(label, max(1, FIRST // each))
        while done < rows and not (pace is not None and self.over):
            part = slice(done, min(rows, done + (most if pace is None else min(most, pace.rows))))
            began, asking = now(), self.asking
            yield part
            done = part.stop
            if pace is not None:
                pace.note(part.stop - part.start, now() - began - (self.asking - asking))

    def verifying(self, rows: int, alone: bool, label: str = "original") -> Iterator[slice]:
        """As `calls`, of rows to be verified; slowly at first where each is asked alone."""
        return self.calls(rows, f"{label} alone", ALONE) if alone else self.calls(rows, label)

    def calls(self, rows: int, label: str, first: int = CALL) -> Iterator[slice]:
        """Slices of rows to ask a model about: all in one call, unless a time limit asks for shorter calls."""
        done = 0
        pace = None if self.time_limit is None else self._pace(label, first)
        while done < rows and not (pace is not None and self.over):
            part = slice(done, rows if pace is None else min(rows, done + pace.rows))
            began = now()
            yield part
            done = part.stop
            self.asking += now() - began
            if pace is not None:
                pace.note(part.stop - part.start, now() - began)

    def note_call(self, rows: int, seconds: float) -> None:
        """Remember how long the original took for some rows."""
        if self.time_limit is not None and rows:
            self._pace("original", rows).note(rows, seconds)

    def _pace(self, label: str, first: int) -> Pace:
        assert self.time_limit is not None
        return self.paces.setdefault(label, Pace(self.time_limit, first))
