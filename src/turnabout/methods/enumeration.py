"""Every legal row of a person who has only few of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.schema import Scalar, Schema
from turnabout.schema.legal_values import is_stuck, legal_multiples, value_at
from turnabout.typing import Tensor


@dataclass(frozen=True)
class Choices:
    """How many values each of n people may give each feature, (n, F); their own is one of them."""

    schema: Schema
    x: Tensor
    above: Tensor  # (n, F) legal values above their own; for a category, the other levels
    below: Tensor

    @classmethod
    def of(cls, schema: Schema, x: Tensor, blocked: Tensor) -> Choices:
        """x (n, d), blocked (n, F) True where a feature must stay as it is."""
        above, below = x.new_zeros(blocked.shape), x.new_zeros(blocked.shape)
        for f, (feature, s) in enumerate(zip(schema.features, schema.slices, strict=True)):
            if isinstance(feature, Scalar):
                above[:, f], below[:, f] = (legal_multiples(feature, x[:, s.start], up)[1] for up in (True, False))
            else:
                above[:, f] = len(feature.value_columns) - 1
            still = is_stuck(feature, x[:, s]) | blocked[:, f]
            above[still, f], below[still, f] = 0.0, 0.0
        return cls(schema, x, above, below)

    @property
    def count(self) -> Tensor:
        """(n,) how many rows each person may reach, as a float: it may be very large."""
        return (self.above + self.below + 1.0).prod(1)

    def rows(self, who: Tensor) -> tuple[Tensor, Tensor]:
        """Owners (R,) and all legal rows (R, d) of some people, their own row first."""
        count = self.count[who].long()
        owner = who.repeat_interleave(count)
        index = torch.arange(len(owner), device=who.device) - (count.cumsum(0) - count).repeat_interleave(count)
        out = self.x[owner]
        for f, (feature, s) in enumerate(zip(self.schema.features, self.schema.slices, strict=True)):
            above, below = self.above[owner, f].long(), self.below[owner, f].long()
            base = above + below + 1
            digit, index = index % base, torch.div(index, base, rounding_mode="floor")
            moved = digit > 0
            if not bool(moved.any()):
                continue
            if isinstance(feature, Scalar):
                own = self.x[:, s.start]
                up, down = (legal_multiples(feature, own, side)[0][owner] for side in (True, False))
                multiple = torch.where(digit <= above, up + digit - 1, down - (digit - above - 1))
                out[:, s.start] = torch.where(moved, value_at(feature, multiple), out[:, s.start])
            else:
                levels = slice(s.start, s.start + len(feature.value_columns))
                own_level = out[:, levels].argmax(1)
                hot = torch.nn.functional.one_hot(
                    (own_level + digit) % len(feature.value_columns), len(feature.value_columns)
                )
                out[:, levels] = torch.where(moved.unsqueeze(1), hot.to(out.dtype), out[:, levels])
        return owner, out
