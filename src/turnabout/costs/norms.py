"""Norms of the vector of per-feature distances: L0, L1, L2, and L1 in units of the background's spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from turnabout.costs.cost import CHANGED, Cost, CostContext, CostTerm, _Leaf, check_weights, like
from turnabout.errors import ProblemError
from turnabout.parameters import Flag, checked
from turnabout.schema import Category
from turnabout.typing import Tensor


@dataclass(frozen=True, repr=False)
class L1(_Leaf):
    """Sum of changes, each as a share of its feature's range.

        c(x, x') = sum_f  w_f * distance_f(x, x')                                      (1)

    The default: easy to explain, exact for linear programs, and it leaves most features alone.

    Parameters
    ----------
    difficulty : w_f by feature name, 1 where not named. Not negative; for "never" use moves="fixed".
    """

    def _term(self, ground: CostContext, weights: Tensor) -> CostTerm:
        return _Linear(ground, weights)


@dataclass(frozen=True, repr=False)
class L0(_Leaf):
    """Number of features changed.

        c(x, x') = sum_f  w_f * [f changed]                                            (1)

    Its gradient is zero everywhere: a gradient search does not feel it. Add it to another cost to let exact and
    sampling methods prefer few changes, `L1() + 0.1 * L0()`.

    Parameters
    ----------
    difficulty : w_f by feature name, 1 where not named.
    """

    def _term(self, ground: CostContext, weights: Tensor) -> CostTerm:
        return _Count(ground, weights)


@dataclass(frozen=True, repr=False)
@checked(ProblemError, squared=Flag())
class L2(_Leaf):
    """Euclidean length of the vector of changes.

        c(x, x') = sqrt( sum_f (w_f * distance_f(x, x'))^2 )                           (1)
        c(x, x') = sum_f  w_f * distance_f(x, x')^2            with squared=True       (2)

    Spreads a change over many features, which few people want; use L1 unless a paper asks for this one.

    Parameters
    ----------
    difficulty : w_f by feature name, 1 where not named.
    squared : whether to use (2), which is separable and smooth.
    """

    squared: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "squared", bool(self.squared))

    def _term(self, ground: CostContext, weights: Tensor) -> CostTerm:
        return (_Squared if self.squared else _Euclidean)(ground, weights)


@dataclass(frozen=True, repr=False)
class MAD(_Leaf):
    """L1 in units of how much people differ: the median absolute deviation of the background.

        c(x, x') = sum_f  w_f * distance_f(x, x') / s_f                                (1)
        s_f = median_i | x_if - median_j x_jf |                                        (2)

    Where (2) is zero, because more than half of the people share one value, s_f is the standard deviation; where
    that is zero too, the feature's range. A category has no median: its s_f is sqrt(sum_k p_k (1 - p_k) / 2) with
    p_k the share of level k, which for two levels is the standard deviation of a binary. Missing cells are left out.

    Parameters
    ----------
    difficulty : w_f by feature name, 1 where not named.

    References
    ----------
    Wachter, Mittelstadt, Russell (2017), Counterfactual explanations without opening the black box.
    """

    def _term(self, ground: CostContext, weights: Tensor) -> CostTerm:
        background = ground.background(repr(self))
        return _Linear(ground, weights / self.scales(ground, background))

    @staticmethod
    def scales(ground: CostContext, background: Tensor) -> Tensor:
        """s_f (F,), positive."""
        out = torch.ones(len(ground.schema), dtype=torch.float64)
        for f, (feature, columns) in enumerate(zip(ground.schema.features, ground.schema.slices)):
            rows = background[ground.present(f, background)]
            if len(rows) == 0:
                continue
            if isinstance(feature, Category):
                share = rows[:, columns.start : columns.start + len(feature.levels)].mean(0)
                mad = 0.0
                std = float((share * (1 - share)).sum().clamp(min=0) / 2) ** 0.5
            else:
                v = rows[:, columns.start]
                mad = float(_median((v - _median(v)).abs()))  # (2)
                std = float(v.std(correction=0))
            out[f] = mad if mad > CHANGED else std if std > CHANGED else 1.0
        return out


@dataclass(frozen=True, repr=False)
class Weighted(Cost):
    """Another cost with a weight for each feature.

        c(x, x') = cost(x, x')  with  weights_f * distance_f  in place of distance_f      (1)

    Use it to weigh a sum as a whole, `Weighted({"age": 5.0}, L1() + L0())`; for one cost, its `difficulty` says
    the same.

    Parameters
    ----------
    weights : weight of each named feature, finite and not negative; 1 for features that are not named.
    cost : the cost to weigh.
    """

    weights: Mapping[str, float] = field(hash=False)
    cost: Cost = L1()

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", check_weights(self.weights, "weights"))
        if not isinstance(self.cost, Cost):
            raise ProblemError(f"Weighted cannot weigh {self.cost!r}.", hint="give weights first, then a cost.")

    def _terms(self, ground: CostContext, weights: Tensor) -> tuple[CostTerm, ...]:
        return self.cost._terms(ground, weights * ground.weights(self.weights, "weights"))

    def __repr__(self) -> str:
        return f"Weighted({self.weights!r}, {self.cost!r})"


class _Distances(CostTerm):
    """Weighted distances of all features from one product with |x_new - x|."""

    def __init__(self, ground: CostContext, weights: Tensor):
        self.per_column = ground.schema.gather  # (d, F)
        self.weights = weights  # (F,)

    def distance(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(..., F), not weighted."""
        return (x_new - x).abs() @ like(self.per_column, x_new)


class _Linear(_Distances):
    def __init__(self, ground: CostContext, weights: Tensor):
        super().__init__(ground, weights)
        self.linear, self.fixed = weights, torch.zeros_like(weights)
        self.per_column = self.per_column * weights
        self.column_weights = self.per_column.sum(1)  # (d,)

    def per_feature(self, x: Tensor, x_new: Tensor) -> Tensor:
        return self.distance(x, x_new)

    def __call__(self, x: Tensor, x_new: Tensor) -> Tensor:
        return (x_new - x).abs() @ like(self.column_weights, x_new)


class _Count(_Distances):
    def __init__(self, ground: CostContext, weights: Tensor):
        super().__init__(ground, weights)
        self.linear, self.fixed = torch.zeros_like(weights), weights

    def per_feature(self, x: Tensor, x_new: Tensor) -> Tensor:
        return (self.distance(x, x_new) > CHANGED).to(x_new.dtype) * like(self.weights, x_new)


class _Euclidean(_Distances):
    separable = False

    def per_feature(self, x: Tensor, x_new: Tensor) -> Tensor:
        return self.distance(x, x_new) * like(self.weights, x_new)

    def __call__(self, x: Tensor, x_new: Tensor) -> Tensor:
        return torch.linalg.vector_norm(self.per_feature(x, x_new), dim=-1)  # gradient 0, not NaN, at no change


class _Squared(_Distances):
    def per_feature(self, x: Tensor, x_new: Tensor) -> Tensor:
        return self.distance(x, x_new).square() * like(self.weights, x_new)


def _median(v: Tensor) -> Tensor:
    """Median of (m,), the mean of the middle two for even m."""
    s, m = v.sort().values, len(v)
    return (s[(m - 1) // 2] + s[m // 2]) / 2
