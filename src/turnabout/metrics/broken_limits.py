"""What rows break of what people may do: read feature by feature, apart from the projections that searches use."""

from __future__ import annotations

import pandas as pd
import torch

from turnabout.core import Problem
from turnabout.schema import Binary, Category
from turnabout.typing import Tensor

SAME = 1e-9  # encoded cells nearer than this are the same
KINDS = ("fixed", "direction", "range", "one_of_k", "off_grid", "rules")


def broken_limits(problem: Problem, x: Tensor, x_new: Tensor) -> pd.DataFrame:
    """One line for each pair of a person and a new row, both encoded (m, d): True where the row breaks such a limit.

    fixed : moves a feature that is fixed, or a missing cell, or makes a cell missing.
    direction : moves a feature the other way than it may.
    range : leaves the bounds of a number, or what the person can reach.
    one_of_k : is no level, or several, of a category or binary feature.
    off_grid : holds a value between those that may be printed; such rows are rounded.
    rules : breaks a rule that joins columns.

    Cells that are the person's own break nothing. `method.propose(x)` are rows before anything is mended; those of
    `find` break no limit.
    """
    schema = problem.schema
    low, high = problem.bounds(x)
    broken = {kind: torch.zeros(len(x), dtype=torch.bool, device=x.device) for kind in KINDS}
    for f, columns in zip(schema, schema.slices):
        if f.kind in ("derived", "passthrough"):
            continue
        own, new = x[:, columns], x_new[:, columns]
        moved = ((new - own).abs() > SAME).any(1)
        if f.missing:
            absent = own[:, -1] > 0.5
            broken["fixed"] |= moved & (absent | ((new[:, -1] - own[:, -1]).abs() > SAME))
            moved &= ~absent
        if f.moves == "fixed":
            broken["fixed"] |= moved
            continue
        values = new[:, : own.shape[1] - int(f.missing)]
        if isinstance(f, Category):
            whole = ((values.abs() < SAME) | ((values - 1).abs() < SAME)).all(1) & ((values.sum(1) - 1).abs() < SAME)
            broken["one_of_k"] |= moved & ~whole
            continue
        at, apart = values[:, 0], values[:, 0] - own[:, 0]
        wrong = {"up": apart < -SAME, "down": apart > SAME}.get(f.moves, torch.zeros_like(moved))
        broken["direction"] |= moved & wrong
        if isinstance(f, Binary):
            broken["one_of_k"] |= moved & (at.abs() > SAME) & ((at - 1).abs() > SAME)
        else:
            beyond = (at < low[:, columns.start] - SAME) | (at > high[:, columns.start] + SAME)
            broken["range"] |= moved & beyond & ~wrong
    legal = schema.snap(x, x_new)
    other = torch.stack([broken[kind] for kind in ("fixed", "direction", "range", "one_of_k")]).any(0)
    broken["off_grid"] = ((legal - x_new).abs() > SAME).any(1) & ~other
    broken["rules"] = problem.violation(x, x_new) > 0
    return pd.DataFrame({kind: part.cpu().numpy() for kind, part in broken.items()})
