"""What a change costs a person: shares of how much people differ, and a price for each thing to be changed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.costs.cost import CHANGED, CostContext, CostTerm, _Leaf, like
from turnabout.costs.norms import _Distances
from turnabout.errors import ProblemError
from turnabout.parameters import Finite, checked
from turnabout.schema import Category
from turnabout.typing import Tensor

ORDINARY = ((0.05, 0.95), (0.01, 0.99))  # between which quantiles a column is ordinary; the first that differ


@dataclass(frozen=True, repr=False)
@checked(ProblemError, per_change=Finite(least=0))
class Effort(_Leaf):
    r"""How much a plan asks of a person: the default.

        c(x, x') = sum_f  w_f * ( distance_f(x, x') / s_f  +  per_change * [f changed] )                 (1)
        s_f = q95 - q05 of the background                                                               (2)

    1 is a move from where one in twenty people stand below to where one in twenty stand above, whatever a single
    outlier does to the range; a switch of level counts 1 as well. Each thing to be changed has a price of its own, so
    that one clear change is worth more than crumbs of many. Where (2) is zero, because nearly all people share one
    value, the quantiles at 1 and 99 percent are taken, then the standard deviation, then the feature's range. Without
    a background, s_f is the range.

    It is separable, and a number with a fixed part for exact methods. L1 on ranges stays available.

    Parameters
    ----------
    difficulty : w_f by feature name, 1 where not named. Not negative; for "never" use moves="fixed".
    per_change : the price of changing a feature at all.
    """

    per_change: float = 0.1

    def _term(self, ground: CostContext, weights: Tensor) -> CostTerm:
        return _Effort(ground, weights / self.scales(ground), self.per_change * weights)

    @staticmethod
    def scales(ground: CostContext) -> Tensor:
        """s_f (F,), positive, in encoded units."""
        out = torch.ones(len(ground.schema), dtype=torch.float64)
        if ground.background_x is None or not len(ground.background_x):
            return out
        background = ground.background("Effort()")
        for f, (feature, columns) in enumerate(zip(ground.schema.features, ground.schema.slices)):
            rows = background[ground.present(f, background)]
            if isinstance(feature, Category) or not len(rows):
                continue
            v = rows[:, columns.start].sort().values
            spreads = [_at(v, high) - _at(v, low) for low, high in ORDINARY]  # (2)
            spreads.append(float(v.std(correction=0)))
            out[f] = next((spread for spread in spreads if spread > CHANGED), 1.0)
        return out


def _at(ordered: Tensor, share: float) -> float:
    """The value below which a share of the ordered values (m,) lies."""
    return float(ordered[round(share * (len(ordered) - 1))])


class _Effort(_Distances):
    """Linear in the distance, with a fixed part for whatever changes."""

    def __init__(self, ground: CostContext, linear: Tensor, fixed: Tensor):
        super().__init__(ground, linear)
        self.linear, self.fixed, self.prices = linear, fixed, fixed

    def per_feature(self, x: Tensor, x_new: Tensor) -> Tensor:
        distance = self.distance(x, x_new)
        changed = (distance > CHANGED).to(x_new.dtype)
        return distance * like(self.weights, x_new) + changed * like(self.prices, x_new)
