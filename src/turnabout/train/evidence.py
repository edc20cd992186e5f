"""Evidence: who reached acceptance, and which group each person belongs to."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from turnabout.core import Status
from turnabout.errors import TrainingError
from turnabout.typing import Level


def read_reached(evidence: Any) -> np.ndarray:
    """(n,) True where a person is accepted or has an option; of statuses or booleans."""
    values = np.asarray(evidence)
    if values.ndim == 1 and values.dtype != bool:
        if all(isinstance(v, (bool, np.bool_)) for v in values):
            return values.astype(bool)
        if all(isinstance(v, str) and v in Status.__members__ for v in values):
            return np.isin(values.astype(str), [Status.ACCEPTED.value, Status.FOUND.value])
    if values.ndim != 1 or values.dtype != bool:
        raise TrainingError(
            "the evidence must say for each person whether they are accepted or have an option.",
            hint="pass answer.status, or booleans.",
        )
    return values


def split_groups(groups: Any, n: int, index: pd.Index | None = None) -> Iterator[tuple[Hashable, np.ndarray]]:
    """(label, (n,) mask) of each group, in the order of their labels; a Series is matched by its index."""
    labels = groups if isinstance(groups, pd.Series) else pd.Series(list(groups), dtype=object)
    if isinstance(groups, pd.Series) and index is not None and not groups.index.equals(index):
        if not (groups.index.is_unique and index.isin(groups.index).all()):
            raise TrainingError("groups and people have different indexes.", hint="groups.loc[people.index]")
        labels = groups.loc[index]
    if len(labels) != n:
        raise TrainingError(f"there are {len(labels)} group labels for {n} people.", hint="one label for each row.")
    if labels.isna().any():
        raise TrainingError(
            f"{int(labels.isna().sum())} people belong to no group.",
            hint="give them a group: groups.fillna('unknown').",
        )
    values = labels.to_numpy(dtype=object)
    for label in sorted(dict.fromkeys(values.tolist()), key=lambda v: (type(v).__name__, v)):
        yield label, np.array([v == label for v in values], dtype=bool)


def plain(label: Any) -> Level:
    """A label as JSON can hold it."""
    if isinstance(label, np.generic):
        label = label.item()
    return label if isinstance(label, (str, int, float, bool)) else str(label)
