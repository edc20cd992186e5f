"""The judge: is the printed row, read back, accepted by the original model, and allowed?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from turnabout.core.problem import Problem
from turnabout.typing import Tensor

GUARD = 1e-9
"""Least margin by which a shown option must clear the boundary: more than floating-point noise."""


def clearance(problem: Problem) -> float:
    """Margin that an option must have: GUARD, or more where the model's margins are noisier."""
    return max(GUARD, problem.model.noise)


@dataclass(frozen=True)
class Verification:
    """What the judge saw, row by row."""

    rows: pd.DataFrame  # as printed
    good: np.ndarray  # (n,) accepted and allowed
    margin: np.ndarray  # (n,) of the original model
    cost: np.ndarray  # (n,) of the row as printed


def verify(
    problem: Problem, people: pd.DataFrame, x: Tensor, x_new: Tensor, cost: np.ndarray | None = None
) -> Verification:
    """Write each row as it would be printed, read it back and judge that; the only place that may say *found*.

    people (n rows) and x (n, d) are the same persons, raw and encoded. The cost is that of the problem, unless the way
    to the row has a cost (n,) of its own.

    A row is good when no cell breaks its feature's constraints (checked on raw values), every rule is kept by
    the row as read back, the original model accepts it clear of the boundary, and, where the model has a compiled
    form that methods search with, that form agrees. A model whose answers may depend on the other rows of a batch must
    accept the row alone too.
    """
    rows = problem.schema.write(people, x, x_new)
    read_back = problem.schema.read(rows).x.to(x.device)
    margin, _ = problem.ask_original(rows)
    good = margin >= clearance(problem)  # False for NaN
    good &= ~problem.schema.breaches(people, rows).any(1)
    good &= (problem.violation(x, read_back) <= 0).cpu().numpy()
    if problem.model.compiled:
        good &= (problem.margin(read_back) >= 0).cpu().numpy()
    if problem.model.alone and good.any():
        margin[good] = np.minimum(margin[good], problem.ask_otherwise(rows[good]))
        good &= margin >= clearance(problem)
    if cost is None:
        cost = problem.cost(x, read_back).cpu().numpy()
    return Verification(rows, good & np.isfinite(cost), margin, cost)
