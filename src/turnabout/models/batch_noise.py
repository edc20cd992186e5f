"""How much the original's answer for a row depends on the rows asked about in the same call.

Sums of floating-point numbers depend on their order, and libraries choose it by the size of the batch. A network in
float32 gives a row another margin alone than among others, by 1e-7 to 1e-4, so a plan must be further than that from
the boundary.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from turnabout.errors import TurnaboutError
from turnabout.models.decision import logit
from turnabout.models.model import Judge, Model

SAFETY = 10.0  # times the largest difference measured: options are more than the rows it was measured on
FLOAT64 = 1e-11  # differences up to this are float64's own, and far below the margin that every option must have
FLOAT32 = 1e-6  # the least noise of a model that shows more than that, or answers in float32: few rows may show it
STRANGE = 0.02  # share of the usual margin above which it is no rounding, and people are told
FAILURES = 3  # parts on which the original may fail before the measurement ends


@dataclass(frozen=True)
class NoiseProbe:
    """How much is asked: rows in one batch, rows of these in parts, and alone; more where a difference was seen."""

    rows: int = 512
    twice: bool = True  # whether the batch is asked about again, to catch a model that changes its mind
    first: tuple[tuple[int, int], ...] = ((1, 8), (7, 28), (64, 128))  # size of a part, rows asked in such parts
    more: tuple[tuple[int, int], ...] = ((1, 32), (2, 16), (3, 24), (5, 30), (8, 48), (17, 68), (64, 256))


FULL = NoiseProbe()
FUNCTION = NoiseProbe(rows=64, first=((1, 8), (7, 28)), more=((1, 32), (2, 16), (3, 24), (5, 30), (8, 48), (17, 64)))
REMOTE = NoiseProbe(rows=16, twice=False, first=((1, 3), (5, 10)), more=((1, 5),))


@dataclass(frozen=True)
class BatchNoise:
    """What was measured."""

    size: float  # largest difference between margins of one row, near the boundary; 0 where none was seen
    usual: float  # median of the margins without their sign
    labels_only: bool  # whether the answers are 0 and 1, which say nothing about how near the boundary is


def measure(judge: Judge, table: pd.DataFrame, effort: NoiseProbe = FULL) -> BatchNoise | None:
    """Ask about some rows in one batch, in parts of several sizes and alone; None if that cannot be compared.

    Rows nearest to the boundary count, as plans end there. Rows on which the original fails are left out. A model that
    changes its mind about the same batch is no matter of noise: `find` refuses it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same will be said when people are asked about
        try:
            table, base = _answered(judge, table, effort)
            again = np.asarray(judge(table), dtype=np.float64) if effort.twice else base
        except TurnaboutError:
            return None
        known = np.flatnonzero(np.isfinite(base))
        if not len(known) or not np.allclose(base, again, rtol=1e-4, atol=1e-6, equal_nan=True):
            return None
        near = known[np.argsort(np.abs(base[known]), kind="stable")]
        size = _largest(judge, table.iloc[near], base[near], effort.first)
        if size > FLOAT64:
            size = max(size, _largest(judge, table.iloc[near], base[near], effort.more))
    cut = judge.cut or 0.5
    labels = judge.scale == "probability" and bool(np.isin(base[known], (-cut, 1 - cut)).all())
    return BatchNoise(size, float(np.median(np.abs(base[known]))), labels)


def note_noise(
    judge: Judge, table: pd.DataFrame | None, effort: NoiseProbe = FULL, labels_only: bool | None = None
) -> str:
    """Measure, tell the judge its noise and whether rows must be asked about alone too; what to note, if anything.

    labels_only : whether the judge knows no scores; None to find out from the answers.
    """
    found = None if table is None or not len(table) else measure(judge, table, effort)
    if getattr(judge, "in_single", False):
        judge.noise = max(judge.noise, FLOAT32)
    if labels_only or (labels_only is None and found is not None and found.labels_only):
        judge.alone = True
        return ""
    if found is None or found.size <= FLOAT64:
        return ""
    judge.noise = max(judge.noise, FLOAT32, round_up(SAFETY * found.size))
    judge.alone = True
    if judge.noise > STRANGE * found.usual:
        warnings.warn(
            f"the model answers otherwise about a row when other rows are asked about with it: margins differ by up to "
            f"{found.size:.2g}, so options must clear {judge.noise:g}. Hint: let it look at each row by itself.",
            stacklevel=5,
        )
    return (
        f"its margins depend on the other rows of a batch, by up to {found.size:.2g}; options keep well clear "
        "of that, and are accepted in a batch and alone."
    )


def round_up(value: float) -> float:
    """The next number of 1, 2 or 5 times a power of ten, so that small differences between machines change nothing."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(float(f"{step * power:.0e}") for step in (1, 2, 5, 10) if value <= step * power * (1 + 1e-9))


def _answered(judge: Judge, table: pd.DataFrame, effort: NoiseProbe) -> tuple[pd.DataFrame, np.ndarray]:
    """The largest batch, of all rows, a half, a quarter or an eighth, that the original answers; and its margins."""
    table = table.iloc[: effort.rows]
    for parts in (1, 2, 4, 8) if effort.twice else (1,):
        for rows in np.array_split(np.arange(len(table)), parts):
            try:
                return table.iloc[rows], np.asarray(judge(table.iloc[rows]), dtype=np.float64)
            except TurnaboutError as error:
                failure = error
    raise failure


def _largest(judge: Judge, table: pd.DataFrame, base: np.ndarray, parts: tuple[tuple[int, int], ...]) -> float:
    """The largest difference from `base` when rows are asked about in parts."""
    largest, failures = 0.0, 0
    for rows in _parts(len(table), parts):
        try:
            asked = np.asarray(judge(table.iloc[rows]), dtype=np.float64)
        except TurnaboutError:
            failures += 1
            if failures == FAILURES:
                break
            continue
        gap = margin_gap(judge, asked, base[rows])
        largest = max(largest, float(np.nan_to_num(gap, nan=0.0).max(initial=0.0)))
    return largest


def _parts(n: int, parts: tuple[tuple[int, int], ...]) -> Iterator[np.ndarray]:
    """Places of the rows of each part; in parts of three and more, rows stand in another order than before."""
    for size, rows in parts:
        order = np.arange(min(rows, n))
        if size > 2:
            order = np.random.default_rng(size).permutation(order)
        for start in range(0, len(order), size):
            yield order[start : start + size]


def note_gap(judge: Judge, gap: float) -> None:
    """Count the distance between a compiled form and the original as noise: proofs are about the compiled form."""
    if gap > FLOAT64:
        judge.noise = max(judge.noise, round_up(SAFETY * gap))


def margin_gap(judge: Judge | Model, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(n,) differences of margins, as large as they would be at the boundary.

    Log-odds read back from a probability near 0 or 1 are mostly rounding, so they may agree as probabilities.
    """
    gap = np.abs(a - b)
    if judge.scale != "log-odds":
        return gap
    cut = judge.cut or 0.5
    shift = float(logit(cut)) / 2
    as_probability = 0.5 * np.abs(np.tanh(a / 2 + shift) - np.tanh(b / 2 + shift))
    return np.minimum(gap, as_probability / (cut * (1 - cut)))
