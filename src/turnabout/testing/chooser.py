"""Where made-up problems take their choices from: a seed, or hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np

T = TypeVar("T")


class Chooser(Protocol):
    """A source of choices. The same generators serve `check_method` (seeded) and hypothesis (which shrinks)."""

    def whole(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        ...

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; earlier ones are simpler."""
        ...

    def chance(self, percent: int) -> bool:
        """True in about so many of a hundred cases."""
        ...


class SeededDice:
    """Choices from a seed: the same ones on every run."""

    def __init__(self, *seed: int):
        self._rng = np.random.default_rng(list(seed))

    def whole(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high + 1))

    def pick(self, options: Sequence[T]) -> T:
        return options[self.whole(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.whole(1, 100) <= percent
