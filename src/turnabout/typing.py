"""Aliases shared by all rooms, and what parameters are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

Tensor: TypeAlias = torch.Tensor
Moves = Literal["free", "up", "down", "fixed"]
Level: TypeAlias = str | int | float | bool
Progress: TypeAlias = Callable[[int, int], None]
"""Called with (people done, people in all)."""

Json: TypeAlias = dict[str, Any]


def is_number(value: object) -> bool:
    """Whether a parameter is a finite number; True is none."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(as_float(value))


def as_float(value: object) -> float:
    """A number, or the text of one, as a float; NaN for what is none, and for what no float holds."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def as_tuple(value: object) -> tuple[Any, ...] | None:
    """The members of a list; None for what is none, a text among them."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        return None
    try:
        return tuple(value)
    except TypeError:  # a tensor without dimensions
        return None


def is_whole(value: object, least: int) -> bool:
    """Whether a parameter is a whole number of at least so much; True is none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least
