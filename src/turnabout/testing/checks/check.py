"""What a check is, and the list of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from turnabout.testing.trial import Trial

Complaints = Iterator[str]
_ALL: dict[str, Check] = {}


@dataclass(frozen=True)
class Check:
    """One sentence about meaning. `run` yields a sentence for every place where it does not hold."""

    name: str
    meaning: str
    run: Callable[[Trial], Complaints]


def check(meaning: str) -> Callable[[Callable[[Trial], Complaints]], Callable[[Trial], Complaints]]:
    """Enter a generator of complaints into the contract, under its own name."""

    def enter(run: Callable[[Trial], Complaints]) -> Callable[[Trial], Complaints]:
        _ALL[run.__name__] = Check(run.__name__, meaning, run)
        return run

    return enter


def entered() -> list[Check]:
    """Every check entered so far."""
    return list(_ALL.values())
