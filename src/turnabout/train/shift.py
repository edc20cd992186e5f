"""Shift: do the people a model is used on come from where it was calibrated? Column by column."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import pandas as pd

from turnabout.documents import Versioned
from turnabout.errors import TrainingError
from turnabout.parameters import Share, checked
from turnabout.schema import Number, Schema, as_frame
from turnabout.typing import Json

LEVEL = 0.01  # probability of naming any column although nothing shifted
RARE = 5.0  # levels expected fewer times than this are counted together
MISSING = "(missing)"
OTHERS = "(others)"

Test = Literal["KS", "chi-square"]


@dataclass(frozen=True)
class ColumnShift(Versioned):
    """One column of two tables.

    Attributes
    ----------
    column : its name.
    test : "KS" (Kolmogorov-Smirnov) for numbers, "chi-square" for levels, where two levels and rare ones are compared
        by Fisher's exact test; shares of missing cells count in both.
    p : of the test alone.
    adjusted : p after Holm's correction over all columns.
    level : the level whose share differs most; "" for numbers.
    first, second : the mean, or the share of that level, in each table.
    z : (second - first) in standard deviations of the first table.
    """

    column: str
    test: Test
    p: float
    adjusted: float
    level: str
    first: float
    second: float
    z: float

    mark = "turnabout_column_shift"
    error = TrainingError

    def __str__(self) -> str:
        by = f"by {self.z:+.1f} standard deviations"
        if self.level:
            return f"'{self.column}' {by} ({self.level}: {self.second:.1%} instead of {self.first:.1%})"
        return f"'{self.column}' {by} (mean {self.second:.4g} instead of {self.first:.4g})"


@dataclass(frozen=True)
class ShiftReport(Versioned):
    """Two tables compared: every column with its test, the clearest difference first.

    Attributes
    ----------
    columns : one ColumnShift for each column.
    level : probability with which any column is named although the tables are samples of the same people.
    n_first, n_second : rows compared.
    """

    columns: tuple[ColumnShift, ...]
    level: float
    n_first: int
    n_second: int

    mark = "turnabout_shift"
    keys = "level n_first n_second columns"
    error = TrainingError

    @property
    def shifted(self) -> tuple[ColumnShift, ...]:
        """The columns that differ by more than chance explains, the largest difference first."""
        found = [column for column in self.columns if column.adjusted < self.level]
        return tuple(sorted(found, key=lambda column: -abs(column.z)))

    def __bool__(self) -> bool:
        return bool(self.shifted)

    def __str__(self) -> str:
        if not self:
            return (
                f"No column of {len(self.columns)} differs between {self.n_first} and {self.n_second} people by more "
                "than chance explains."
            )
        names = "; ".join(map(str, self.shifted))
        return f"{len(self.shifted)} of {len(self.columns)} columns shifted: {names}."

    def table(self) -> pd.DataFrame:
        """One line per column."""
        names = [field.name for field in fields(ColumnShift)]
        return pd.DataFrame([[getattr(c, name) for name in names] for c in self.columns], columns=names)


@checked(TrainingError, level=Share(above=0, below=1, hint="use 0.01."))
def compare(first: Any, second: Any, schema: Schema | None = None, level: float = LEVEL) -> ShiftReport:
    """Test column by column whether two tables are samples of the same people.

    Numbers by the Kolmogorov-Smirnov test, levels by chi-square (rare ones counted together, and by Fisher's exact
    test where they stay rare), corrected by Holm over the columns. Silence is no proof: columns may shift jointly, and
    outcomes may shift where columns do not.

    Parameters
    ----------
    first, second : tables; z counts standard deviations of the first.
    schema : says which columns are numbers; without one, numeric columns of more than two values are.
    level : probability with which a shift is reported although there is none.
    """
    a, b = as_frame(first), as_frame(second)
    if schema is not None:
        a, b = schema.table(a), schema.table(b)
    names = [name for name in a.columns if name in b.columns]
    if not names or not len(a) or not len(b):
        raise TrainingError(
            "there is nothing to compare.", hint="pass two tables with rows and with columns in common."
        )
    found = [_numbers(n, a[n], b[n]) if _is_number(n, a[n], b[n], schema) else _levels(n, a[n], b[n]) for n in names]
    order = np.argsort([part["p"] for part in found], kind="stable")
    adjusted = 0.0
    columns = []
    for rank, i in enumerate(order):
        adjusted = max(adjusted, min(1.0, (len(found) - rank) * found[i]["p"]))  # Holm
        columns.append(ColumnShift(adjusted=adjusted, **found[i]))
    return ShiftReport(tuple(columns), level, len(a), len(b))


def warn_of_shift(people: pd.DataFrame, used_on: Any, schema: Schema | None = None) -> ShiftReport:
    """Warn, naming the columns, where a model is used on other people than it was calibrated on."""
    shift = compare(people, used_on, schema)
    if shift:
        warnings.warn(
            f"the guarantee holds for people like those calibrated on, and the people it is used on are not: {shift} "
            "Calibrate on people of the same kind.",
            stacklevel=3,
        )
    return shift


def _is_number(name: str, first: pd.Series, second: pd.Series, schema: Schema | None) -> bool:
    if schema is not None:
        return isinstance(schema[name], Number)
    numeric = all(pd.api.types.is_numeric_dtype(c) and not pd.api.types.is_bool_dtype(c) for c in (first, second))
    return numeric and pd.concat([first, second]).nunique() > 2


def _numbers(name: str, first: pd.Series, second: pd.Series) -> Json:
    a, b = (pd.to_numeric(c, errors="coerce").to_numpy(np.float64, na_value=np.nan) for c in (first, second))
    gone_a, gone_b = np.isnan(a), np.isnan(b)
    a, b = a[~gone_a], b[~gone_b]
    missing = _levels(name, pd.Series(gone_a), pd.Series(gone_b))["p"] if gone_a.any() or gone_b.any() else None
    p, mean_a, mean_b, z = 1.0, 0.0, 0.0, 0.0
    if len(a) and len(b):
        p = _kolmogorov_smirnov(a, b)
        mean_a, mean_b = float(a.mean()), float(b.mean())
        spread = float(a.std()) or float(np.concatenate([a, b]).std())
        z = (mean_b - mean_a) / spread if spread else 0.0
    if missing is not None:
        p = min(1.0, 2.0 * min(p, missing))
    return {"column": str(name), "test": "KS", "p": p, "level": "", "first": mean_a, "second": mean_b, "z": z}


def _kolmogorov_smirnov(a: np.ndarray, b: np.ndarray) -> float:
    """p of the two-sample test, by its limit; for small p, ties and small samples make it larger than exact."""
    from scipy.special import kolmogorov

    a, b, both = np.sort(a), np.sort(b), np.concatenate([a, b])
    apart = np.searchsorted(a, both, side="right") / len(a) - np.searchsorted(b, both, side="right") / len(b)
    return float(kolmogorov(np.sqrt(len(a) * len(b) / len(both)) * np.abs(apart).max()))


def _levels(name: str, first: pd.Series, second: pd.Series) -> Json:
    """Counts of levels; rare ones together, missing cells as a level of their own."""
    sides = [_count(column) for column in (first, second)]
    levels = sorted(set(sides[0]) | set(sides[1]))
    counts = np.array([[side[level] for level in levels] for side in sides], dtype=np.float64)  # (2, levels)
    rare = _is_rare(counts)
    rare[counts.sum(0).argmax()] = False  # in a tiny table all are
    if rare.sum() > 1:
        counts = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)])
        levels = [*(level for level, few in zip(levels, rare) if not few), OTHERS]
    rows, pooled = counts.sum(1, keepdims=True), counts.sum(0) / counts.sum()
    before, after = counts / rows
    variance = np.where((before > 0) & (before < 1), before * (1 - before), pooled * (1 - pooled))
    z = (after - before) / np.sqrt(np.where(variance > 0, variance, 1.0))
    most = int(np.abs(z).argmax())
    return {
        "column": str(name),
        "test": "chi-square",
        "p": _independence(counts),
        "level": levels[most],
        "first": float(before[most]),
        "second": float(after[most]),
        "z": float(z[most]),
    }


def _is_rare(counts: np.ndarray) -> np.ndarray:
    """(2, levels) -> (levels,): expected less than RARE times in the smaller table."""
    return counts.sum(0) * counts.sum(1).min() / counts.sum() < RARE


def _independence(counts: np.ndarray) -> float:
    """p of equal shares in both tables, (2, levels): exact for two levels, else chi-square.

    A level too rare for chi-square is compared with all others exactly, and these among themselves: the smaller p,
    doubled.
    """
    from scipy.special import chdtrc
    from scipy.stats import fisher_exact

    if counts.shape[1] < 2:
        return 1.0
    if counts.shape[1] == 2:
        return min(1.0, float(fisher_exact(counts.astype(np.int64))[1]))
    fewest = int(counts.sum(0).argmin())
    if _is_rare(counts)[fewest]:
        rest = np.delete(counts, fewest, axis=1)
        apart = _independence(np.column_stack([rest.sum(1), counts[:, fewest]]))
        return min(1.0, 2.0 * min(apart, _independence(rest)))
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    return float(chdtrc(counts.shape[1] - 1, ((counts - expected) ** 2 / expected).sum()))


def _count(column: pd.Series) -> Counter[str]:
    counts: Counter[str] = Counter()
    found = column.value_counts(dropna=False)
    cells = found.index.to_numpy() if pd.api.types.is_float_dtype(found.index.dtype) else found.index  # keeps float32
    for cell, times in zip(cells, found):
        if times:
            counts[_text(cell)] += int(times)
    return counts


def _text(cell: Any) -> str:
    """A level in words, to the last digit; 1, 1.0 and True are one level."""
    if pd.isna(cell):
        return MISSING
    if isinstance(cell, (float, np.floating)):
        cell = float(str(cell))  # the decimal that is written: float32's 0.1 is 0.1
        return str(int(cell)) if cell.is_integer() else repr(cell)
    return str(int(cell)) if isinstance(cell, (bool, int, np.integer, np.bool_)) else str(cell)
