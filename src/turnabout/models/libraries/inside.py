"""What a fitted estimator or its preprocessing holds, however it is nested.

Estimators and encoders are looked for among attributes that are estimators; numbers that may be edges of bins, and
transforms that nobody here knows, in everything.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from inspect import isroutine
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from turnabout.models.libraries import class_library

DEEPEST = 8
MOST = 2000  # estimators looked at: forests hold one for each tree
_DEPTH = 60
_LONGEST = 10_000  # of an array that may hold edges; longer ones hold data
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


def encoded_levels(estimator: Any) -> Iterator[tuple[str, list[Hashable]]]:
    """(column, levels) for every column whose levels an encoder inside the estimator learned in training."""
    for name, cells in encoded_cells(estimator):
        yield name, [cell for cell in cells.tolist() if not pd.isna(cell)]


def encoded_cells(estimator: Any, names: Names = None, depth: int = 0) -> Iterator[tuple[str, np.ndarray]]:
    """The same with the marks of missing cells that encoders learned, None or NaN, in the type that they learned.

    names : the columns that the estimator is handed, as far as they are known.
    """
    own = getattr(estimator, "feature_names_in_", None)
    names = names if own is None else [str(name) for name in own]
    if names is None or depth > DEEPEST:
        return
    kind = type(estimator).__name__
    if kind == "Pipeline" or hasattr(estimator, "steps"):
        for _, step in estimator.steps:
            yield from encoded_cells(step, names, depth + 1)
            names = _passed_on(step, names)
    elif kind == "ColumnTransformer" and hasattr(estimator, "transformers_"):
        for _, transformer, columns in estimator.transformers_:
            yield from encoded_cells(transformer, _chosen(names, columns), depth + 1)
    elif hasattr(estimator, "categories_"):
        if isinstance(getattr(estimator, "categories", "auto"), str) and len(estimator.categories_) == len(names):
            for name, levels in zip(names, estimator.categories_, strict=True):
                yield name, np.asarray(levels)
    else:
        for held in _held(estimator)[:MOST]:
            yield from encoded_cells(held, names, depth + 1)


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


@dataclass(frozen=True)
class Held:
    """numbers : all that are found inside, rising; strangers : names of transforms that do what no library says."""

    numbers: NDArray[np.float64]
    strangers: tuple[str, ...]

    @classmethod
    def of(cls, transforms: tuple[Any, ...]) -> Held:
        """Look into transforms and all that they hold."""
        numbers: list[float] = []
        strangers: list[str] = []
        for part in _parts(transforms, {}, 0):
            if isinstance(part, float):
                numbers.append(part)
            elif _is_stranger(part):
                strangers.append(type(part).__name__)
        found = np.unique(np.array(numbers, dtype=np.float64))
        return cls(found[np.isfinite(found)], tuple(dict.fromkeys(strangers)))


def _is_stranger(part: Any) -> bool:
    """Whether an object transforms rows in a way that only its own code tells."""
    if not callable(getattr(part, "transform", None)) or isinstance(part, type):
        return False
    return class_library(type(part)).is_stranger(part)


def _parts(thing: Any, met: dict[int, Any], depth: int) -> Iterator[Any]:
    """Numbers (as floats) and objects inside a thing, each object once."""
    if isinstance(thing, (bool, str, bytes, type)) or thing is None or depth > _DEPTH or isroutine(thing):
        return
    if isinstance(thing, (int, float, np.number)):
        try:
            yield float(thing)
        except (OverflowError, TypeError):  # beyond doubles, or complex
            return
        return
    if isinstance(thing, pd.Interval):
        yield from (float(end) for end in (thing.left, thing.right) if isinstance(end, (int, float)))
        return
    if id(thing) in met:
        return
    met[id(thing)] = thing  # held, so that no other object gets its id
    for inner in _inside(thing):
        yield from _parts(inner, met, depth + 1)
    if hasattr(thing, "__dict__") and not isinstance(thing, (pd.DataFrame, pd.Series, pd.Index)):
        yield thing


def _inside(thing: Any) -> Iterator[Any]:
    if isinstance(thing, (np.ndarray, pd.Series, pd.Index)):
        if thing.size <= _LONGEST:
            yield from thing.tolist()
        if isinstance(thing, pd.Series):
            yield thing.index
    elif isinstance(thing, pd.DataFrame):
        yield thing.index
        yield from (thing[name] for name in thing.columns[:_LONGEST])
    elif isinstance(thing, dict):
        if len(thing) <= _LONGEST:
            yield from thing
            yield from thing.values()
    elif isinstance(thing, (list, tuple, set, frozenset)):
        if len(thing) <= _LONGEST:
            yield from thing
    elif hasattr(thing, "__dict__"):
        yield from vars(thing).values()
