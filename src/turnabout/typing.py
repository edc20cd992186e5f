"""Aliases shared by all rooms, and what parameters are."""

from __future__ import annotations

from collections.abc import Callable
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
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(np.isfinite(value))


def is_whole(value: object, least: int) -> bool:
    """Whether a parameter is a whole number of at least so much; True is none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least
