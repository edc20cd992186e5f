"""The best row that each person can reach, as it would be printed; and any classifier made ready for `calibrate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.models import Differentiable, Model
from turnabout.nn.inner import Inner, ProjectedSteps
from turnabout.rules.regions import Box, Region
from turnabout.solvers.cell_search import CellSearch

HAIR = 1e-12  # by which P(yes), read back from a margin, may err
STEPS = 10


def attain(model: Model, region: Region, people: pd.DataFrame, inner: Inner) -> pd.DataFrame:
    """Printed rows (same index) one change away, of the highest margin `inner` finds; their own where none beats it."""
    schema = model.schema
    table = schema.table(people)
    x = schema.encode(people)
    bound = region.bind(schema)
    delta = inner(model, bound.printable(x))  # type: ignore[arg-type]
    own, best = model.margin(x), x.clone()
    for outward in (False, True):
        x_new = bound.snap(x, schema.snap(x, x + delta, outward))
        margin = model.margin(x_new)
        better = (margin > own) & (bound.violation(x, x_new) <= 0)
        best[better], own = x_new[better], torch.where(better, margin, own)
    return schema.write(table, x, best)


def probability_of(model: Model) -> Callable[[pd.DataFrame], np.ndarray]:
    """table -> P(yes), rounded so that it is never above what the original says."""
    from scipy.special import expit

    def probability(table: pd.DataFrame) -> np.ndarray:
        margin = model.judge(table)
        p = expit(margin) if model.scale == "log-odds" else margin + 0.5
        return (p - HAIR).clip(0.0, 1.0)

    return probability


def best_rows(model: Model, region: Region | None = None) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """table -> the printed rows that `attain` finds within reach: by steps along the slope, or by trying rows.

    Steps need not lead to the best row there is; the promise is about the rows they lead to.
    """
    within = region or Box()
    inner: Any = ProjectedSteps(STEPS) if isinstance(model, Differentiable) else CellSearch()

    def rule(table: pd.DataFrame) -> pd.DataFrame:
        return attain(model, within, table, inner)

    rule.__name__ = f"the best change that {type(inner).__name__} finds ({within})"  # as the certificate tells it
    return rule
