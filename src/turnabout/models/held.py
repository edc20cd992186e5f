"""What fitted preprocessing holds: numbers that may be edges of bins, and classes that nobody here knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import isroutine
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_KNOWN = ("sklearn", "imblearn")
_DEPTH = 60
_LONGEST = 10_000  # of an array that may hold edges; longer ones hold data


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
    library = type(part).__module__.split(".")[0]
    return library not in _KNOWN or (type(part).__name__ == "FunctionTransformer" and part.func is not None)


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
