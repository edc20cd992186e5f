"""Levels that no option may use, such as those that training did not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import torch

from turnabout.errors import RuleError
from turnabout.rules.rule import BoundRule, Rule, find_feature
from turnabout.schema import Category, Number, Schema
from turnabout.typing import Json, Level, Tensor

NEAR = 1e-9  # encoded units within which a scalar is at a level


class KnownLevels(Rule):
    """No plan moves to these levels; people who hold one may keep it.

    A problem adds this rule itself for levels that the model was not trained on.

    Parameters
    ----------
    avoid : the levels of each feature that are not moved to.
    """

    kind: ClassVar[str] = "known_levels"

    def __init__(self, avoid: Mapping[str, Iterable[Level]]):
        listed = avoid.values() if isinstance(avoid, Mapping) else [""]
        if any(isinstance(levels, str) or not isinstance(levels, Iterable) for levels in listed):
            raise RuleError(
                f"KnownLevels is given {avoid!r}.", hint="write KnownLevels({'city': ['Ulm']}): levels by feature."
            )
        self.avoid = {str(name): tuple(dict.fromkeys(levels)) for name, levels in avoid.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KnownLevels) and other.avoid == self.avoid

    def __hash__(self) -> int:
        return hash(str(self))

    def bind(self, schema: Schema) -> BoundKnownLevels:
        places: dict[int, tuple[int, ...]] = {}
        told: dict[str, list[Level]] = {}  # in the schema's order: a set has none
        for name, avoided in self.avoid.items():
            f, feature = find_feature(schema, name, str(self))
            levels = getattr(feature, "levels", ())
            if strange := [level for level in avoided if level not in levels]:
                raise RuleError(
                    f"the rule '{self}' names {strange[0]!r}, which is not one of {list(levels)} of '{name}'.",
                    hint="levels are written as in the schema; a Number has none.",
                )
            places[f] = tuple(sorted(levels.index(level) for level in avoided))
            told[name] = [levels[place] for place in places[f]]
        return BoundKnownLevels(schema, places, str(KnownLevels(told)))

    def __str__(self) -> str:
        parts = [f"{name} does not become {' or '.join(map(str, levels))}" for name, levels in self.avoid.items()]
        return ", ".join(parts) or "all levels are known"

    def to_dict(self) -> Json:
        return {"rule": self.kind, "avoid": {name: list(levels) for name, levels in self.avoid.items()}}


class BoundKnownLevels(BoundRule):
    """`avoided` is all that there is to it.

    One-hot columns of such levels may not rise. A scalar breaks the rule at such a level, and not beside it.
    """

    count_form = ()

    def __init__(self, schema: Schema, places: Mapping[int, tuple[int, ...]], name: str):
        super().__init__(name, schema, sorted(places))
        self.indicators = []  # a missing cell does not change, so it is always judged
        self.avoided = dict(places)
        self.hot = [
            schema.slices[f].start + k
            for f, barred in self.avoided.items()
            if isinstance(schema.features[f], Category)
            for k in barred
        ]
        self.scalars: dict[int, tuple[Tensor, Tensor]] = {}  # by column: levels that are avoided, and the others
        for f, barred in self.avoided.items():
            if not isinstance(schema.features[f], (Category, Number)):
                count = len(schema.features[f].levels)  # type: ignore[attr-defined]
                levels = torch.arange(count, dtype=torch.float64) / (count - 1)
                avoided = torch.zeros(count, dtype=torch.bool)
                avoided[list(barred)] = True
                self.scalars[schema.slices[f].start] = levels[avoided], levels[~avoided]

    def _gap(self, x: Tensor, x_new: Tensor) -> Tensor:
        rise = (x_new[..., self.hot] - x[..., self.hot]).clamp(min=0).sum(-1)
        for column in self.scalars:
            rise = rise + self._at(column, x, x_new).to(rise.dtype)
        return rise

    def _at(self, column: int, x: Tensor, x_new: Tensor) -> Tensor:
        """(...) whether a scalar has moved to a level that is avoided."""
        barred = self.scalars[column][0].to(x_new)
        moved = (x_new[..., column] - x[..., column]).abs() > NEAR
        return moved & ((x_new[..., column].unsqueeze(-1) - barred).abs() <= NEAR).any(-1)

    def _relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        out = x_new.clone()
        out[:, self.hot] = torch.minimum(out[:, self.hot], x[:, self.hot])
        return self._snap_scalars(x, out)

    def _snap(self, x: Tensor, x_new: Tensor) -> Tensor:
        out = x_new.clone()
        for f in self.features:
            if isinstance(self.schema.features[f], Category):
                s = self.schema.slices[f]
                hot = [c for c in self.hot if s.start <= c < s.stop]
                moved = (out[:, hot] - x[:, hot] > NEAR).any(1)
                out[moved, s] = x[moved, s]
        return self._snap_scalars(x, out)

    def _snap_scalars(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Scalars at an avoided level go to the nearest other one in reach; of two as near, the further from x."""
        lo, hi = self.schema.bounds(x)
        for column, (_, levels) in self.scalars.items():
            broken = self._at(column, x, x_new)
            if not bool(broken.any()):
                continue
            own, now = x[broken, column].unsqueeze(1), x_new[broken, column].unsqueeze(1)
            choices = torch.cat([levels.to(own).expand(len(own), -1), own], 1)  # (b, m + 1)
            closeness = -(choices - now).abs() + 1e-6 * (choices - own).abs()
            out_of_reach = (choices < lo[broken, column, None] - NEAR) | (choices > hi[broken, column, None] + NEAR)
            best = closeness.masked_fill(out_of_reach & (choices != own), -torch.inf).argmax(1, keepdim=True)
            x_new[broken, column] = choices.gather(1, best).squeeze(1)
        return x_new
