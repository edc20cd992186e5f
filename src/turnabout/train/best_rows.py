"""Any classifier made ready for `calibrate`: its P(yes), and the best row that each person can reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from turnabout.models import Differentiable, Model
from turnabout.nn.inner import ProjectedSteps
from turnabout.rules.regions import Box, Region
from turnabout.solvers.cell_search import CellSearch
from turnabout.train.attain import attain

HAIR = 1e-12  # by which P(yes), read back from a margin, may err
STEPS = 10


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
