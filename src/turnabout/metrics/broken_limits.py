"""What rows break of what people may do: read feature by feature, apart from the projections that searches use."""

from __future__ import annotations

import pandas as pd
import torch

from turnabout.core import Problem
from turnabout.schema import Binary, Category
from turnabout.schema.features import Scalar
from turnabout.typing import Tensor

SAME, SAME_SINGLE = 1e-9, 1e-6  # encoded cells nearer than this are the same, in double and in single precision
KINDS = ("fixed", "direction", "range", "one_of_k", "off_grid", "rules")


def broken_limits(problem: Problem, x: Tensor, x_new: Tensor) -> pd.DataFrame:
    """One line for each pair of a person and a new row, both encoded (m, d): True where the row breaks such a limit.

    fixed : moves a feature that is fixed, or a missing cell, or makes a cell missing.
    direction : moves a feature the other way than it may.
    range : a changed number outside of its bounds, or of what the person can reach; or a cell that is no number.
    one_of_k : is no level, or several, of a category or binary feature.
    off_grid : holds a value between those that may be printed; such rows are rounded.
    rules : breaks a rule that joins columns.

    Cells that are the person's own break nothing, and consequences (of structural equations) may leave their bounds.
    `method.propose(x)` are rows before anything is mended; those of `find` break no limit. Rows in single precision are
    read as such.
    """
    schema = problem.schema
    same = SAME if x_new.dtype == torch.float64 else SAME_SINGLE
    x_new = x_new.to(x.dtype)
    broken = {kind: torch.zeros(len(x), dtype=torch.bool, device=x.device) for kind in KINDS}
    broken["range"] |= ~torch.isfinite(x_new).all(1)
    for f, columns in zip(schema, schema.slices):
        if f.kind in ("derived", "passthrough"):
            continue
        own, new = x[:, columns], x_new[:, columns]
        moved = ((new - own).abs() > same).any(1)
        if f.missing:
            absent = own[:, -1] > 0.5
            broken["fixed"] |= moved & (absent | ((new[:, -1] - own[:, -1]).abs() > same))
            moved &= ~absent
        if f.moves == "fixed":
            broken["fixed"] |= moved
            continue
        values = new[:, : own.shape[1] - int(f.missing)]
        if isinstance(f, Category):
            whole = ((values.abs() < same) | ((values - 1).abs() < same)).all(1) & ((values.sum(1) - 1).abs() < same)
            broken["one_of_k"] |= moved & ~whole
            continue
        at, apart = values[:, 0], values[:, 0] - own[:, 0]
        wrong = {"up": apart < -same, "down": apart > same}.get(f.moves, torch.zeros_like(moved))
        broken["direction"] |= moved & wrong
        if isinstance(f, Binary):
            broken["one_of_k"] |= moved & (at.abs() > same) & ((at - 1).abs() > same)
        elif isinstance(f, Scalar) and f.name not in schema.derived:
            low, high = (f.positions(end) for end in f.choice_bounds(f.units(own[:, 0])))
            broken["range"] |= moved & ~wrong & ((at < low - same) | (at > high + same))
    legal = schema.snap(x, x_new)
    other = torch.stack([broken[kind] for kind in ("fixed", "direction", "range", "one_of_k")]).any(0)
    broken["off_grid"] = ((legal - x_new).abs() > same).any(1) & ~other
    broken["rules"] = problem.violation(x, x_new) > 0
    return pd.DataFrame({kind: part.cpu().numpy() for kind, part in broken.items()})
