"""Tree ensembles under Gaussian noise: the smoothed score and its gradient, without sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from turnabout.errors import ExplainError
from turnabout.models.forest import Forest
from turnabout.typing import Tensor

CHUNK = 1 << 21  # numbers held at a time: people x leaves x columns on the way to them


@dataclass(frozen=True, eq=False)
class Smoothed:
    """E f(Z) (n,), and its gradient (n, d)."""

    value: Tensor
    gradient: Tensor


def smooth_forest(forest: Forest, x: Tensor, deviations: Tensor) -> Smoothed:
    r"""The forest f under noise Z = x + e, e_j ~ N(0, s_j^2) independent, in closed form; people (n, d) -> Smoothed.

        E f(Z) = sum over leaves l of v_l prod_j P_lj,    P_lj = Phi((b_lj - x_j) / s_j) - Phi((a_lj - x_j) / s_j)   (1)
        d/dx_j E f(Z) = sum over l of v_l P'_lj prod_{k != j} P_lk                                                   (2)

    with leaf l the box a_l < z <= b_l and value v_l. A leaf costs as much as it has columns on its path.

    Noise meets numbers, ordinals and binaries. A category keeps the person's level and a missing cell stays missing:
    leaves that do not permit them drop out of the sum, and their columns have slope 0. This is the gradient of a
    smoothed forest; sampling gradients of the forest itself would give 0.

    Parameters
    ----------
    deviations : s (d,); those of level columns are not looked at.
    """
    if len(forest.bias) != 1:
        raise ExplainError(f"the forest has {len(forest.bias)} scores.", hint="the closed form is for one.")
    if deviations.shape != x.shape[1:] or not bool((deviations[~forest.is_level] > 0).all()):
        raise ExplainError(f"deviations={deviations} are no {x.shape[1]} numbers above 0.", hint="one for each column.")
    if not on_levels(forest, x):
        raise ExplainError(
            "a row lies between the levels of a category, where leaves are no boxes.",
            hint="use rows as schema.encode gives them, or SmoothGrad(estimator='stein').",
        )
    groups = _groups(forest)
    value = x.new_zeros(len(x))
    gradient = torch.zeros_like(x)
    widest = max((group.columns.numel() for group in groups.leaves), default=1)
    people = max(1, CHUNK // max(1, widest))
    for start in range(0, len(x), people):
        part = slice(start, start + people)
        value[part], gradient[part] = _smooth(forest, groups, x[part], deviations)
    return Smoothed(forest.bias[0] + value / forest.divisor, gradient / forest.divisor)


@dataclass(frozen=True, eq=False)
class _Group:
    """Leaves that look at k scalar columns: which leaves (L,); columns, and the places of both ends, (L, k)."""

    leaf: Tensor
    columns: Tensor
    lower: Tensor
    upper: Tensor


@dataclass(frozen=True, eq=False)
class _Groups:
    """Every end of a box once, (u,) columns and ends, infinite ones too; and the leaves by how many they have."""

    column: Tensor
    end: Tensor
    leaves: list[_Group]


def _groups(forest: Forest) -> _Groups:
    boxes = forest.leaves
    lower, upper = boxes.lower.numpy(), boxes.upper.numpy()
    bound = np.isfinite(lower) | (upper < np.inf)
    leaf, column = np.nonzero(bound)
    low, high = lower[leaf, column], upper[leaf, column]
    empty = high <= low  # nobody whose cell is present: the box (-inf, -inf]
    low, high = np.where(empty, -np.inf, low), np.where(empty, -np.inf, high)
    ends, columns = np.concatenate([low, high]), np.concatenate([column, column])
    order = np.lexsort((ends, columns))
    sorted_ends, sorted_columns = ends[order], columns[order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (sorted_ends[1:] != sorted_ends[:-1]) | (sorted_columns[1:] != sorted_columns[:-1])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(fresh) - 1
    count = bound.sum(1)
    groups = []
    for k in np.unique(count).tolist():
        own = count[leaf] == k
        shape = (int((count == k).sum()), k)
        parts = (column[own], place[: len(leaf)][own], place[len(leaf) :][own])
        groups.append(
            _Group(torch.as_tensor(np.flatnonzero(count == k)), *(torch.as_tensor(p.reshape(shape)) for p in parts))
        )
    return _Groups(torch.as_tensor(sorted_columns[fresh]), torch.as_tensor(sorted_ends[fresh]), groups)


def _smooth(forest: Forest, groups: _Groups, x: Tensor, deviations: Tensor) -> tuple[Tensor, Tensor]:
    """Sums (1) and (2) over leaves, before the divisor: (n,), (n, d)."""
    n, d = x.shape
    boxes, is_level = forest.leaves, forest.is_level
    forbids = (~boxes.allows[:, is_level]).to(x.dtype)
    weight = (forbids @ x[:, is_level].t() < 0.5) * boxes.value  # (L, n)
    s = deviations[groups.column].unsqueeze(1)
    z = (groups.end.unsqueeze(1) - x.t()[groups.column]) / s  # (u, n)
    missing = missing_cells(x, is_level, forest.feature_of).t()[groups.column]
    below = torch.special.ndtr(z)
    fall = torch.where(missing, 0.0, torch.exp(-0.5 * z.square()) / (s * (2 * torch.pi) ** 0.5))  # -d/dx of below
    at_upper, at_lower = torch.where(missing, 1.0, below), torch.where(missing, 0.0, below)
    value, gradient = x.new_zeros(n), x.new_zeros(d, n)
    for group in groups.leaves:
        v = weight[group.leaf]  # (L, n)
        k = group.columns.shape[1]
        if not k:
            value += v.sum(0)
            continue
        inside = [at_upper[group.upper[:, j]] - at_lower[group.lower[:, j]] for j in range(k)]  # k of (L, n)
        others = _products_of_others(inside)
        value += (v * others[0] * inside[0]).sum(0)  # (1)
        for j in range(k):
            slope = fall[group.lower[:, j]] - fall[group.upper[:, j]]
            gradient.index_add_(0, group.columns[:, j], v * others[j] * slope)  # (2)
    return value, gradient.t()


def _products_of_others(factors: list[Tensor]) -> list[Tensor]:
    """For each of k factors the product of all others, without dividing."""
    left = [torch.ones_like(factors[0])]
    for factor in factors[:-1]:
        left.append(left[-1] * factor)
    right = torch.ones_like(factors[0])
    for j in range(len(factors) - 1, -1, -1):
        left[j] = left[j] * right
        right = right * factors[j]
    return left


def missing_cells(x: Tensor, is_level: Tensor, feature_of: Tensor) -> Tensor:
    """(n, d) True at scalar columns whose cell is missing."""
    flags = x.new_zeros(len(x), int(feature_of.max()) + 1).index_add_(1, feature_of, torch.where(is_level, x, 0.0))
    return (flags[:, feature_of] > 0.5) & ~is_level


def on_levels(forest: Forest, x: Tensor) -> bool:
    """Whether every row has one level of each category, and none lies between them."""
    level, feature_of = forest.is_level, forest.feature_of
    count = int(feature_of.max()) + 1
    total = x.new_zeros(len(x), count).index_add_(1, feature_of, torch.where(level, x, 0.0))
    scalar = torch.zeros(count, dtype=torch.bool).index_fill_(0, feature_of[~level], True)
    whole = (x[:, level] == 0) | (x[:, level] == 1)
    fits = torch.where(scalar, total <= 1, total == 1)
    return bool(whole.all() and fits.all())
