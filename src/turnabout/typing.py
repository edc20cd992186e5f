"""Aliases shared by all rooms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import torch

Tensor: TypeAlias = torch.Tensor
Moves = Literal["free", "up", "down", "fixed"]
Level: TypeAlias = str | int | float | bool
Progress: TypeAlias = Callable[[int, int], None]
"""Called with (people done, people in all)."""

Json: TypeAlias = dict[str, Any]
