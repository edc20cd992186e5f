"""Options in words for people: a cell that they are to provide is a range, not a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from turnabout.core.result import Recourse


def provided_words(answer: Recourse, person: Any, option: int, name: str) -> str:
    """What a person must show to provide a missing cell: "at least 3,160 (up to 8,260)"; "" for any other cell."""
    for key, (_, line) in zip(answer.provided.index, answer.provided.iterrows(), strict=True):
        if line["feature"] == name and key == (person, option):
            return _range(answer, line, key)
    return ""


def changes_in_words(answer: Recourse) -> pd.DataFrame:
    """`Recourse.changes` with ranges in the place of provided cells."""
    changes = answer.changes()
    words = {
        (*key, line["feature"]): _range(answer, line, key)
        for key, (_, line) in zip(answer.provided.index, answer.provided.iterrows(), strict=True)
    }
    if not words:
        return changes
    keys = zip(changes["person"], changes["option"], changes["feature"], strict=True)
    told = [words.get(key, cell) for key, cell in zip(keys, changes["to"].tolist(), strict=True)]
    return changes.assign(to=pd.Series(told, index=changes.index, dtype=object))


def _range(answer: Recourse, line: pd.Series, key: Any) -> str:
    """A range, beginning by the end that the option holds."""
    low, high = float(line["low"]), float(line["high"])
    if low == high:
        return f"exactly {_number(low)}"
    held = float(answer.options[line["feature"]].iloc[answer.options.index.get_loc(key)])
    if np.isclose(held, high, rtol=1e-12):
        return f"at most {_number(high)} (down to {_number(low)})"
    return f"at least {_number(low)} (up to {_number(high)})"


def _number(value: float) -> str:
    return f"{value:,.12g}"
