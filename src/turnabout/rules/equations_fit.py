"""Least squares for one structural equation, with the covariance of its coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from turnabout.errors import RuleError
from turnabout.rules.rule import find_feature
from turnabout.schema import Category, Scalar, Schema
from turnabout.typing import Tensor

COLLINEAR = 1e-9  # least singular value of the standardised parents, beside the largest


def estimate(x: Tensor, schema: Schema, target: str, parents: Sequence[str]) -> dict[str, Any]:
    """The arguments of Equation for a target and its parents, from encoded people x (n, d)."""
    rule = f"{target} follows {', '.join(parents)}"
    _, feature = find_feature(schema, target, rule)
    if not isinstance(feature, Scalar):
        raise RuleError(
            f"the graph gives the category '{target}' parents, and levels have no additive noise.",
            hint="leave it without an equation, or declare it as an Ordinal.",
        )
    x = x.to("cpu", torch.float64)
    named = [target, *parents]
    missing = [schema.slices[schema.index(n)].stop - 1 for n in named if find_feature(schema, n, rule)[1].missing]
    x = x[~(x[:, missing] > 0.5).any(1)]
    columns = {key: column for name in parents for key, column in _columns(x, schema, name).items()}
    a = torch.stack(list(columns.values()), 1) if columns else x.new_zeros(len(x), 0)
    y = feature.units(x[:, schema.slices[schema.index(target)].start])
    n, p = a.shape
    if n < p + 2:
        raise RuleError(
            f"{n} people without missing cells cannot tell the {p + 1} coefficients of '{target}'.",
            hint="give more people or fewer parents.",
        )
    centre, scale = a.mean(0), a.std(0)
    scale = torch.where(scale > 1e-12 * (1 + centre.abs()), scale, torch.ones_like(scale))  # 1 for a constant
    _refuse_collinear((a - centre) / scale, list(columns), target)
    q, r = torch.linalg.qr((a - centre) / scale)
    weights = torch.linalg.solve_triangular(r, q.T @ (y - y.mean()).unsqueeze(1), upper=True).squeeze(1) / scale
    rest = y - y.mean() - (a - centre) @ weights
    variance = float(rest.square().sum()) / (n - p - 1)
    half = torch.linalg.solve_triangular(r, torch.eye(p, dtype=a.dtype), upper=True) / scale.unsqueeze(1)
    spread = variance * half @ half.T  # of the weights
    covariance = torch.zeros(p + 1, p + 1, dtype=a.dtype)
    covariance[1:, 1:] = spread
    covariance[0, 1:] = covariance[1:, 0] = -spread @ centre
    covariance[0, 0] = variance / n + centre @ spread @ centre
    return {
        "target": target,
        "intercept": float(y.mean() - weights @ centre),
        "coefficients": dict(zip(columns, weights.tolist(), strict=True)),
        "noise_sd": variance**0.5,
        "covariance": tuple(map(tuple, covariance.tolist())),
    }


def _columns(x: Tensor, schema: Schema, name: str) -> dict[str, Tensor]:
    """A parent's values in units (n,), by coefficient key; a category's levels but the first that anyone has."""
    feature, start = schema[name], schema.slices[schema.index(name)].start
    if isinstance(feature, Scalar):
        return {name: feature.units(x[:, start])}
    levels = {key: x[:, start + k] for k, key in enumerate(feature.value_columns)}
    held = {key: column for key, column in levels.items() if bool((column > 0.5).any())}
    if len(held) < len(levels) and feature.moves != "fixed":
        assert isinstance(feature, Category)
        absent = next(key for key in levels if key not in held)
        raise RuleError(
            f"nobody in the table has {absent}, so what follows from a switch to it cannot be estimated.",
            hint=f"leave the level out of '{name}', or declare the feature with moves='fixed'.",
        )
    return dict(list(held.items())[1:])


def _refuse_collinear(a: Tensor, names: list[str], target: str) -> None:
    if not names:
        return
    _, s, v = torch.linalg.svd(a, full_matrices=False)
    if float(s[-1]) <= COLLINEAR * max(float(s[0]), 1.0):
        involved = [name for name, weight in zip(names, v[-1].abs().tolist()) if weight > 0.1]
        raise RuleError(
            f"the effects of {', '.join(involved)} on '{target}' cannot be told apart: one is constant, or follows "
            "from the others in this table.",
            hint="leave one of them out of the graph, or give people who differ in it.",
        )
