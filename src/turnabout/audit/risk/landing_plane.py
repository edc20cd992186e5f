"""A plane in which people can be seen moving: two columns that tell most, or two principal components."""

from __future__ import annotations

import numpy as np
import torch

from turnabout.audit.aligned import first_options
from turnabout.core import Problem, Recourse, Status
from turnabout.errors import TurnaboutError
from turnabout.parameters import Whole, checked
from turnabout.schema import Schema
from turnabout.schema.features import Feature, Scalar
from turnabout.typing import Json, Tensor

GRID = 61  # points along each side of the accepted area


@checked(TurnaboutError, most=Whole(1), seed=Whole(0))
def landing_plane(problem: Problem, answer: Recourse, most: int = 300, seed: int = 0) -> Json:
    r"""Where people stand and where their first options lead, as plain values for `draw_landings`.

    The two columns are those with an order (numbers, ordinals, binaries) that options move most, by the sum over people
    of the change as a share of the column's range. Where fewer than two of them move, everyone is put on the plane of
    the first two principal components of the encoded rows. The accepted area is known in the plane only if the model
    has no other columns: then the original is asked on a grid. People for whom a column is missing are left out.

    Parameters
    ----------
    answer : to this problem; first options count.
    most : people shown, of those who move and of those who are accepted each; others are left out by a draw.
    seed : of the draw.
    """
    schema = problem.schema
    first = first_options(answer)
    x, x_new = schema.encode(answer.people), schema.encode(first)
    place = answer.people.index.get_indexer(first.index)
    columns = _telling(schema, x[torch.as_tensor(place)], x_new)
    if columns is None:
        axes, (own, new) = _principal(x, x_new)
        seen, arrived = np.ones(len(own), dtype=bool), np.ones(len(new), dtype=bool)
    else:
        axes = [_axis(schema.features[f]) for f in columns]
        (own, seen), (new, arrived) = (_units(schema, points, columns) for points in (x, x_new))
    rng = np.random.default_rng(seed)
    moved = np.flatnonzero(seen[place] & arrived)
    moved = np.sort(rng.permutation(moved)[:most])
    accepted = np.flatnonzero((answer.status == Status.ACCEPTED).to_numpy(dtype=bool) & seen)
    accepted = np.sort(rng.permutation(accepted)[:most])
    points = {"before": own[place[moved]], "after": new[moved], "accepted": own[accepted]}
    return {
        "axes": axes,
        "principal": columns is None,
        **{part: xy.tolist() for part, xy in points.items()},
        "moved": len(first),
        "area": None if columns is None or len(schema) > 2 else _area(problem, columns, np.concatenate([own, new])),
    }


def _telling(schema: Schema, before: Tensor, after: Tensor) -> tuple[int, int] | None:
    """The two ordered features that move most; None where fewer than two move and the model has others."""
    change = schema.distance(before, after).sum(0).numpy() if len(before) else np.zeros(len(schema))
    ordered = [int(f) for f in np.argsort(-change, kind="stable") if isinstance(schema.features[f], Scalar)]
    moving = sum(bool(change[f] > 0) for f in ordered)
    if len(ordered) < 2 or (moving < 2 and len(schema) > 2 and len(before)):
        return None
    return ordered[0], ordered[1]


def _axis(feature: Feature) -> Json:
    levels = [str(level) for level in getattr(feature, "levels", ())]
    return {"title": feature.title, "unit": getattr(feature, "unit", ""), "levels": levels}


def _units(schema: Schema, x: Tensor, columns: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """(n, 2) values in people's units, of levels their place; (n,) whether both are there."""
    out, seen = [], np.ones(len(x), dtype=bool)
    for f in columns:
        feature, part = schema.features[f], schema.slices[f]
        assert isinstance(feature, Scalar)
        out.append(feature.units(x[:, part.start]).numpy())
        seen &= ~(x[:, part.stop - 1] > 0.5).numpy() if feature.missing else True
    return np.column_stack(out), seen


def _principal(x: Tensor, x_new: Tensor) -> tuple[list[Json], tuple[np.ndarray, np.ndarray]]:
    """Axes and points of the two directions in which people differ most."""
    center = x.mean(0)
    _, sizes, directions = torch.linalg.svd(x - center, full_matrices=False)
    shares = [*(sizes**2 / (sizes**2).sum().clamp(min=1e-300)).tolist(), 0.0, 0.0]
    plane = torch.zeros(x.shape[1], 2, dtype=x.dtype)
    plane[:, : min(2, len(directions))] = directions[:2].T
    words = zip(("first", "second"), shares, strict=False)
    axes: list[Json] = [
        {"title": f"{word} principal component ({share:.0%} of the variance)", "unit": "", "levels": []}
        for word, share in words
    ]
    return axes, (((x - center) @ plane).numpy(), ((x_new - center) @ plane).numpy())


def _area(problem: Problem, columns: tuple[int, int], points: np.ndarray) -> Json | None:
    """Margins of the original on a grid over everyone; None where a column may be missing, or a margin is."""
    schema = problem.schema
    if any(schema.features[f].missing for f in columns) or not len(points):
        return None
    sides = []
    for low, high in zip(points.min(0), points.max(0), strict=True):
        room = 0.04 * (high - low) or 0.5
        sides.append(np.linspace(low - room, high + room, GRID))
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)  # x runs fastest
    x = torch.zeros(len(grid), schema.d, dtype=torch.float64)
    for f, values in zip(columns, grid.T, strict=True):
        feature = schema.features[f]
        assert isinstance(feature, Scalar)
        x[:, schema.slices[f].start] = feature.positions(torch.as_tensor(values))
    margin = problem.judge(schema.decode(x)).reshape(GRID, GRID)
    if not np.isfinite(margin).all():
        return None
    return {"x": sides[0].tolist(), "y": sides[1].tolist(), "margin": margin.tolist()}
