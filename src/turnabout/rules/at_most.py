"""How many features a plan may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from turnabout.documents import shown
from turnabout.errors import RuleError
from turnabout.rules.conditions import BoundCondition
from turnabout.rules.rule import TOLERANCE, BoundRule, CountForm, Rule, check_feature, find_feature
from turnabout.schema import Derived, Schema
from turnabout.typing import Tensor, as_tuple, is_whole


@dataclass(frozen=True, repr=False)
class AtMost(Rule):
    """At most k features change; what is derived from others does not count.

    A plan that changes more keeps its k largest changes and takes the others back.

    Parameters
    ----------
    k : how many may change.
    features : among which; all when None.
    """

    kind: ClassVar[str] = "at_most"
    k: int
    features: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not is_whole(self.k, 0):
            raise RuleError(f"AtMost has k={shown(self.k)}.", hint="use a whole number of changes, 0 or more.")
        object.__setattr__(self, "k", int(self.k))
        if self.features is None:
            return
        if not (names := as_tuple(self.features)):
            raise RuleError(
                f"AtMost has features={shown(self.features)}.", hint="give a list of names, or None for all."
            )
        object.__setattr__(self, "features", tuple(dict.fromkeys(check_feature(name, "AtMost") for name in names)))

    def bind(self, schema: Schema) -> BoundAtMost:
        names = schema.names if self.features is None else self.features
        found = [find_feature(schema, name, str(self)) for name in names]
        features = sorted({f for f, feature in found if not isinstance(feature, Derived)})
        return BoundAtMost(schema, min(self.k, len(features)), features, str(self))

    def __str__(self) -> str:
        among = "" if self.features is None else f" among {', '.join(self.features)}"
        return f"at most {self.k} {'change' if self.k == 1 else 'changes'}{among}"


class BoundAtMost(BoundRule):
    """`k` and `mask` (F,), the features counted. A violation is the sum of all changes but the k largest."""

    undoing_keeps = True

    def __init__(self, schema: Schema, k: int, features: list[int], name: str):
        super().__init__(name, schema, features)
        self.indicators = []  # a missing cell does not change, so it is always judged
        self.k = k
        self.mask = torch.zeros(len(schema), dtype=torch.bool)
        self.mask[list(self.features)] = True
        changes = tuple((1.0, BoundCondition(schema, f, "changes", None, None)) for f in self.features)
        self.count_form = (CountForm(changes, float(k)),)

    def turns_once(self, f: int) -> bool:
        return True

    def _distance(self, x: Tensor, x_new: Tensor) -> Tensor:
        distance = self.schema.distance(x, x_new) * self.mask.to(device=x_new.device, dtype=x_new.dtype)
        return torch.where(distance > TOLERANCE, distance, torch.zeros_like(distance))

    def _gap(self, x: Tensor, x_new: Tensor) -> Tensor:
        return self._distance(x, x_new).sort(dim=-1, descending=True).values[..., self.k :].sum(-1)

    def _relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        distance = self._distance(x, x_new)
        order = distance.argsort(dim=-1, descending=True, stable=True)
        surplus = torch.zeros_like(distance, dtype=torch.bool).scatter(-1, order[..., self.k :], True)  # (n, F)
        surplus &= self.mask.to(x.device)
        return torch.where(surplus[..., self.schema.feature_of.to(x.device)], x, x_new)

    def _snap(self, x: Tensor, x_new: Tensor) -> Tensor:
        return self._relax(x, x_new)
