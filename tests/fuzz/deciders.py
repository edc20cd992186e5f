"""What the original says about a table, asked without the library: a yes or a no, and how far from the boundary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fuzz.columns import Column

DOUBLE, SINGLE = 1e-7, 1e-4  # a margin that no noise of the original reaches, in double and in single precision
NARROW = ("float32", "Float32", "float[pyarrow]")


@dataclass(frozen=True)
class Verdict:
    """(n,) whether each row is accepted, how far it is from the boundary, and P(yes) where the original says one."""

    yes: np.ndarray
    margin: np.ndarray
    chance: np.ndarray | None = None


@dataclass
class Decider:
    """A fitted model, and how its user asks it.

    title : the library and the class, for the summary.
    model : what is handed to turnabout.
    ask : rows of the training table's types -> what the original says.
    arguments : threshold, target and target_range, as they are given to turnabout.
    noise : margins nearer to the boundary than this prove nothing.
    needs_background : whether its categories are known from the training table only.
    files : whether it can be saved and asked by the command line.
    """

    title: str
    model: Any
    ask: Callable[[pd.DataFrame], Verdict]
    arguments: dict[str, Any] = field(default_factory=dict)
    noise: float = DOUBLE
    needs_background: bool = False
    files: bool = True


@dataclass(frozen=True)
class Classes:
    """Asks a classifier: its own predict, or P(yes) against a threshold."""

    model: Any
    yes: Any
    threshold: float | None

    def __call__(self, table: pd.DataFrame) -> Verdict:
        place = list(self.model.classes_).index(self.yes)
        if hasattr(self.model, "predict_proba"):
            raw = np.asarray(self.model.predict_proba(table))[:, place]
            chance = raw.astype(np.float64)
            if self.threshold is not None:
                return Verdict(raw >= self.threshold, chance - self.threshold, chance)
            return Verdict(self._predicted(table), chance - 0.5, chance)
        score = np.asarray(self.model.decision_function(table), dtype=np.float64).reshape(-1)
        return Verdict(self._predicted(table), score if place == 1 else -score)

    def _predicted(self, table: pd.DataFrame) -> np.ndarray:
        said = np.asarray(self.model.predict(table)).reshape(-1)
        return np.array([str(label) == str(self.yes) for label in said], dtype=bool)


@dataclass(frozen=True)
class Amounts:
    """Asks a regressor whose prediction must be at least an amount."""

    model: Any
    least: float

    def __call__(self, table: pd.DataFrame) -> Verdict:
        amount = np.asarray(self.model.predict(table), dtype=np.float64).reshape(-1)
        return Verdict(amount >= self.least, amount - self.least)


@dataclass(frozen=True)
class Chances:
    """Asks a function of a table for P(yes)."""

    function: Callable[[pd.DataFrame], np.ndarray]
    threshold: float

    def __call__(self, table: pd.DataFrame) -> Verdict:
        raw = np.asarray(self.function(table))
        chance = raw.astype(np.float64)
        return Verdict(raw >= self.threshold, chance - self.threshold, chance)


@dataclass(frozen=True)
class Logits:
    """Asks a torch module with one logit about encoded rows, in the module's own precision."""

    module: Any
    columns: tuple[Column, ...]

    def __call__(self, table: pd.DataFrame) -> Verdict:
        import torch

        dtype = next(self.module.parameters()).dtype
        with torch.no_grad():
            logit = self.module(torch.as_tensor(encode(self.columns, table)).to(dtype)).reshape(-1).double().numpy()
        return Verdict(logit >= 0, logit, 1 / (1 + np.exp(-logit)))


def encode(columns: Sequence[Column], table: pd.DataFrame) -> np.ndarray:
    """Rows as the documentation has it: scalars from 0 to 1, categories one-hot, a column for missing cells."""
    parts: list[np.ndarray] = []
    for column in columns:
        cells, absent = table[column.name], table[column.name].isna().to_numpy(dtype=bool)
        if column.kind == "passthrough":
            parts.append(np.zeros(len(table)))
        elif column.kind == "number":
            parts.append(np.where(absent, 0.0, (numbers(cells) - column.low) / column.span))
        else:
            place = positions(column, cells)
            if column.kind == "category":
                parts += [(place == k).astype(float) for k in range(len(column.levels))]
            else:
                parts.append(np.where(absent, 0.0, place / column.span))
        if column.missing and column.kind != "passthrough":
            parts.append(absent.astype(float))
    return np.stack(parts, 1)


def numbers(cells: pd.Series) -> np.ndarray:
    """A column of numbers as doubles; single precision as the short decimals it prints as."""
    if str(cells.dtype) in NARROW:
        return cells.to_numpy(dtype=np.float32, na_value=np.nan).astype("U32").astype(np.float64)
    if cells.dtype == object:
        return np.array([np.nan if pd.isna(cell) else float(cell) for cell in cells])
    return cells.to_numpy(dtype=np.float64, na_value=np.nan)


def positions(column: Column, cells: pd.Series) -> np.ndarray:
    """Where each cell stands among the levels; -1 where it is missing or none of them."""
    place = {level: k for k, level in enumerate(column.levels)}
    return np.array([-1 if pd.isna(cell) else place.get(cell, -1) for cell in cells.astype(object)])
