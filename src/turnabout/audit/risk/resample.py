"""Bootstrap of sums over people, by multinomial counts."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np

TOGETHER = 1 << 21  # counts held at a time
BLOCK = 1 << 17  # counts drawn at a time
CELLS = 1 << 16  # of the table that turns 16 random bits into a count
UNSURE = 1e3  # entry of the table where 16 bits do not settle the count
MISSING = 4.0  # deviations by which the first draw falls short of n people


def resampled_sums(table: np.ndarray, starts: np.ndarray, bootstrap: int, seed: int) -> np.ndarray:
    """Sums of a (n, k) table within each group, over people drawn with replacement: (bootstrap, groups, k).

    Each replicate draws n of the n people, and all its sums rest on these counts: sums of different columns and of
    different groups vary together as they should.

    Parameters
    ----------
    table : one number for each person (row) and sum (column); people of one group stand together.
    starts : first row of each group, ascending from 0.
    """
    n, k = table.shape
    edges = [*starts.tolist(), n]
    out = np.empty((bootstrap, len(starts), k))
    draw = Counts(n, seed)
    counts = np.empty((max(1, min(TOGETHER // n, bootstrap)), n))
    for start in range(0, bootstrap, len(counts)):
        part = counts[: bootstrap - start]
        draw(part)
        for g, (a, b) in enumerate(pairwise(edges)):
            out[start : start + len(part), g] = part[:, a:b] @ table[a:b]
    return out


class Counts:
    """How often each of n people is drawn, when n are drawn with replacement: multinomial counts, fast.

    Independent Poisson counts with a mean a little below 1, given their sum T, are multinomial counts of T draws,
    whatever the mean is. So they are drawn anew if T exceeds n, and completed by n - T single draws. A Poisson count is
    read from a table by 16 random bits; the few entries that hold two counts are settled by a further random number.
    """

    def __init__(self, n: int, seed: int):
        self.n = n
        self.rng = np.random.Generator(np.random.SFC64(seed))
        self.below, self.table = _lookup(n)

    def __call__(self, counts: np.ndarray) -> None:
        """Fill counts (rows, n)."""
        rows = max(1, BLOCK // self.n)
        for start in range(0, len(counts), rows):
            self._fill(counts[start : start + rows])

    def _fill(self, counts: np.ndarray) -> None:
        self._first(counts)
        short = self.n - counts.sum(1).astype(np.int64)
        while (short < 0).any():
            again = np.empty((int((short < 0).sum()), self.n))
            self._first(again)
            counts[short < 0] = again
            short = self.n - counts.sum(1).astype(np.int64)
        rows = np.repeat(np.arange(len(counts)), short)
        np.add.at(counts.reshape(-1), rows * self.n + self.rng.integers(self.n, size=len(rows)), 1.0)

    def _first(self, counts: np.ndarray) -> None:
        """Poisson counts."""
        flat = counts.reshape(-1)  # a view
        bits = self.rng.bit_generator.random_raw(len(flat) // 4 + 1).view(np.uint16)[: len(flat)]
        np.take(self.table, bits, out=flat, mode="clip")
        unsure = np.flatnonzero(flat == UNSURE)
        uniform = (bits[unsure] + self.rng.random(len(unsure))) / CELLS
        flat[unsure] = np.searchsorted(self.below, uniform, side="right")


@lru_cache(maxsize=4)
def _lookup(n: int) -> tuple[np.ndarray, np.ndarray]:
    """P(count <= j) of the Poisson counts, (20,), and the count for every 16 bits, (CELLS,)."""
    mean = max(0.0, 1.0 - MISSING / math.sqrt(n))
    below = np.cumsum([math.exp(-mean) * mean**j / math.factorial(j) for j in range(20)])
    first = np.searchsorted(below, np.arange(CELLS) / CELLS, side="right")
    last = np.searchsorted(below, np.arange(1, CELLS + 1) / CELLS, side="left")
    return below, np.where(first == last, first.astype(np.float64), UNSURE)
