"""Labels, splits and standards of training rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.errors import TrainingError
from turnabout.schema import Number, Schema
from turnabout.typing import Tensor


def read_labels(accepted: Any, n: int) -> np.ndarray:
    """Labels as booleans (n,); refuses gaps, other values and a wrong count."""
    values = np.asarray(accepted.to_numpy() if isinstance(accepted, pd.Series) else accepted)
    if values.shape != (n,):
        what = f"there are {values.size} labels" if values.ndim < 2 else f"labels have the shape {values.shape}"
        raise TrainingError(f"{what} for {n} people.", hint="pass one column with one label for each row.")
    for value in values.tolist():
        if pd.isna(value) or value not in (0, 1):  # True == 1
            raise TrainingError(
                f"the labels hold {value!r}; they say who was accepted.",
                hint="pass booleans, no gaps: y == 'good'.",
            )
    return values.astype(bool)


def split(labels: np.ndarray, rows: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and validation rows, the accepted share kept in both."""
    if labels.all() or not labels.any():
        which = "accepted" if len(labels) and labels[0] else "refused"
        raise TrainingError(
            f"all {len(labels)} people are labelled {which}: there is nothing to tell apart.",
            hint="pass the outcomes of accepted and of refused people.",
        )
    generator = np.random.default_rng([seed, 0])
    held = np.zeros(len(rows), dtype=bool)
    yes = max(1, round(share * int(labels.sum())))
    for outcome, count in ((True, yes), (False, max(1, round(share * len(rows)) - yes))):
        mine = generator.permutation(np.flatnonzero(labels == outcome))
        held[mine[:count]] = True
    if held.all() or len({*labels[~held].tolist()}) < 2:
        raise TrainingError(
            f"{len(rows)} people are too few to train on.", hint="a few dozen of each outcome at least."
        )
    return rows[~held], rows[held]


def standards(schema: Schema, x: Tensor, train: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of the number columns over each member's rows, (M, d); 0 and 1 elsewhere."""
    numbers = torch.zeros(x.shape[1], dtype=torch.bool)
    for feature, s in zip(schema.features, schema.slices):
        numbers[s.start] = isinstance(feature, Number)
    shift, scale = torch.zeros(len(train), x.shape[1]).double(), torch.ones(len(train), x.shape[1]).double()
    for m, rows in enumerate(train):
        mean, deviation = x[rows].mean(0), x[rows].std(0)
        shift[m] = torch.where(numbers, mean, shift[m])
        scale[m] = torch.where(numbers & (deviation > 1e-9), deviation, scale[m])
    return shift, scale


def class_weights(how: object, labels: np.ndarray) -> tuple[float, float]:
    """Weights of refused and accepted examples."""
    if how is None:
        return 1.0, 1.0
    if how == "balanced":
        yes, no = float(labels.sum()), float((~labels).sum())
        return (1.0, no / yes) if yes < no else (yes / no, 1.0)
    try:
        if isinstance(how, (Mapping, str)):
            raise TypeError
        no, yes = (float(w) for w in how)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        no = yes = -1.0
    if not (0 <= no < np.inf and 0 <= yes < np.inf and no + yes > 0):
        raise TrainingError(
            f"class_weight={how!r} is not known.", hint="use 'balanced', None, or (refused, accepted), two weights."
        )
    return no, yes
