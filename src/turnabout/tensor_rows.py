"""Records of tensors with one row each for the same things: people, plans, boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, fields
from typing import Any, ClassVar, Self

import torch

from turnabout.typing import Tensor


class TensorRows:
    """A dataclass of tensors whose first dimensions belong together."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def take(self, rows: Tensor) -> Self:
        """Some of the rows, by their places or by a mask; a copy."""
        return type(self)(*(getattr(self, f.name)[rows] for f in fields(self)))

    def put(self, rows: Tensor, part: Self) -> None:
        """Write a part over some of the rows."""
        for f in fields(self):
            getattr(self, f.name)[rows] = getattr(part, f.name)

    @classmethod
    def join(cls, parts: Sequence[Self], dim: int = 0) -> Self:
        """The parts one after the other."""
        return cls(*(torch.cat([getattr(part, f.name) for part in parts], dim) for f in fields(cls)))
