"""The fitted estimators and encoders inside an estimator, however they are nested."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

DEEPEST = 8
MOST = 2000  # estimators looked at: forests hold one for each tree
Names = Sequence[str] | None


def fitted_parts(estimator: Any) -> Iterator[Any]:
    """Every estimator that an estimator holds, itself first."""
    seen: set[int] = set()
    todo = [(estimator, 0)]
    while todo and len(seen) < MOST:
        part, depth = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if depth < DEEPEST:
            todo += [(held, depth + 1) for held in _held(part)]


def encoded_levels(estimator: Any, names: Names = None, depth: int = 0) -> Iterator[tuple[str, list[Hashable]]]:
    """(column, levels) for every column whose levels an encoder inside the estimator learned from the training table.

    names : the columns that the estimator is handed, as far as they are known.
    """
    own = getattr(estimator, "feature_names_in_", None)
    names = names if own is None else [str(name) for name in own]
    if names is None or depth > DEEPEST:
        return
    kind = type(estimator).__name__
    if kind == "Pipeline" or hasattr(estimator, "steps"):
        for _, step in estimator.steps:
            yield from encoded_levels(step, names, depth + 1)
            names = _passed_on(step, names)
    elif kind == "ColumnTransformer" and hasattr(estimator, "transformers_"):
        for _, transformer, columns in estimator.transformers_:
            yield from encoded_levels(transformer, _chosen(names, columns), depth + 1)
    elif hasattr(estimator, "categories_"):
        if isinstance(getattr(estimator, "categories", "auto"), str) and len(estimator.categories_) == len(names):
            for name, levels in zip(names, estimator.categories_, strict=True):
                yield name, [level for level in np.asarray(levels).tolist() if not pd.isna(level)]
    else:
        for held in _held(estimator)[:MOST]:
            yield from encoded_levels(held, names, depth + 1)


def _held(part: Any) -> list[Any]:
    """The estimators among the attributes of an object, in lists and pairs too."""
    found: list[Any] = []
    todo = list(getattr(part, "__dict__", {}).values())
    for _ in range(MOST):
        if not todo:
            break
        value = todo.pop()
        if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype == object):
            todo += list(value)[:MOST]
        elif isinstance(value, dict):
            todo += list(value.values())[:MOST]
        elif not isinstance(value, type) and (hasattr(value, "get_params") or hasattr(value, "calibrators")):
            found.append(value)
    return found


def _passed_on(step: Any, names: Names) -> Names:
    """The columns that come out of a step of a Pipeline; None where they are others than went in."""
    if names is None or step is None or isinstance(step, str):
        return names
    try:
        out = [str(name) for name in step.get_feature_names_out(list(names))]
    except Exception:  # a step of any library
        return None
    return out if out == list(names) else None


def _chosen(names: Names, columns: Any) -> Names:
    """The names that a ColumnTransformer's choice of columns stands for."""
    if names is None:
        return None
    if isinstance(columns, str):
        return [columns]
    try:
        if len(columns) and all(isinstance(column, str) for column in columns):
            return list(columns)
    except TypeError:  # a slice or a single position
        pass
    try:
        return list(np.atleast_1d(np.asarray(names, dtype=object)[columns]))
    except (IndexError, TypeError):
        return None
