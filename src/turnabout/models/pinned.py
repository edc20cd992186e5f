"""A decision maker who is asked about rows of which some cells, or column types, are known already."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from turnabout.models.base import Additive, Model
from turnabout.typing import Tensor

STEADY = 1e-6  # by which the effect of the cells may differ between people


class Pinned(Model):
    """The original, asked about decoded rows with some cells as they are given.

    cells : a table of one row; they stand in every row that is asked about.
    """

    def __init__(self, model: Model, cells: pd.DataFrame):
        super().__init__(model.schema, model._judge, model.notes)
        self.cells = cells
        self.unseen = model.unseen

    def decode(self, x: Tensor) -> pd.DataFrame:
        table = super().decode(x)
        rows = self.cells.iloc[np.zeros(len(table), dtype=int)].set_axis(table.index)
        return table.assign(**{str(name): rows[name] for name in rows.columns})


class Typed(Model):
    """The original, asked about decoded rows in some column types: those of the people who ask.

    types : by column, where the training table does not say it.
    """

    def __init__(self, model: Model, types: Mapping[str, Any]):
        super().__init__(model.schema, model._judge, model.notes)
        self.types = types
        self.unseen = model.unseen

    def decode(self, x: Tensor) -> pd.DataFrame:
        return super().decode(x).astype(dict(self.types))


def pinned(model: Model, cells: pd.DataFrame, effect: np.ndarray) -> Model:
    """The model for people who hold these cells, of which their encoded rows tell nothing.

    effect (n,) : how much higher the original's margin is for each of them than that of their encoded row. Where
    features act each on their own, the cells only shift the margin, and the compiled form keeps what it can do.
    """
    steady = bool(np.isfinite(effect).all()) and np.ptp(effect) <= STEADY * (1 + float(np.abs(effect).max()))
    if not (steady and model.compiled and isinstance(model, Additive)):
        return Pinned(model, cells)
    moved = copy.copy(model)
    moved._shift(-float(effect[0]))
    return moved
