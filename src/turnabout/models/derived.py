"""Models made from others: two who must both say yes, one with some cells or column types known already."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
import torch

from turnabout.errors import ModelError
from turnabout.models.model import Additive, Differentiable, Judge, Model, Scale
from turnabout.typing import Tensor

STEADY = 1e-6  # by which the effect of the cells may differ between people


class BothJudge:
    """The smaller of two margins of raw rows."""

    cut = None
    scale: Scale = "score"
    like: pd.DataFrame | None
    encoded: bool
    columns: tuple[str, ...]

    def __init__(self, first: Judge, second: Judge):
        self.judges = (first, second)
        self.title = f"{first.title} and {second.title}"
        self.noise = max(first.noise, second.noise)
        self.alone = any(getattr(judge, "alone", False) for judge in self.judges)

    @property
    def rule(self) -> str:
        return " and ".join(judge.rule for judge in self.judges)

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        first, second = (judge(table) for judge in self.judges)
        return np.minimum(first, second)  # NaN where one of them is


class Both(Model):
    """Yes when two models say yes: the margin is the smaller of theirs, which may be counted in different units."""

    def __init__(self, first: Model, second: Model):
        judge = BothJudge(first._judge, second._judge)
        judge.like = first.like
        judge.encoded = first.encoded or second.encoded
        judge.columns = tuple(dict.fromkeys((*first.columns, *second.columns)))
        super().__init__(first.schema, judge, (*first.notes, *second.notes))
        self.models = (first, second)
        self.compiled = first.compiled and second.compiled
        names = {**first.unseen, **second.unseen}
        self.unseen = {n: first.unseen.get(n, frozenset()) | second.unseen.get(n, frozenset()) for n in names}

    def margin(self, x: Tensor) -> Tensor:
        return torch.minimum(*(model.margin(x) for model in self.models))

    def shifted(self, by: float) -> Self:
        return type(self)(*(model.shifted(by) for model in self.models))

    def _move(self, device: torch.device) -> None:
        first, second = self.models
        self.models = (first.to(device), second.to(device))


class SmoothBoth(Both):
    """Two models with gradients; the gradient is that of the smaller margin."""

    def gradient(self, x: Tensor) -> Tensor:
        """Derivative of the margin, (n, d) -> (n, d)."""
        first, second = self.models
        assert isinstance(first, Differentiable) and isinstance(second, Differentiable)
        less = (first.margin(x) <= second.margin(x)).unsqueeze(-1)
        return torch.where(less, first.gradient(x), second.gradient(x))


def both(first: Model, second: Model) -> Both:
    """The model that says yes when two models do; it has a gradient where both have one."""
    if not first.schema.encodes_like(second.schema):
        raise ModelError("the two models were wrapped with different schemas.", hint="wrap both with the same schema.")
    smooth = all(isinstance(model, Differentiable) for model in (first, second))
    return (SmoothBoth if smooth else Both)(first, second)


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

    effect (n,) : how much higher the original's margin is for each of them than that of their encoded row, or NaN.
    Where features act each on their own, the cells only shift the margin, and the compiled form keeps what it can do.
    """
    known = effect[~np.isnan(effect)]
    size = float(np.abs(known).max(initial=0.0))
    steady = len(known) > 0 and np.isfinite(size) and np.ptp(known) <= STEADY * (1 + size)
    if not (steady and model.compiled and isinstance(model, Additive)):
        return Pinned(model, cells)
    moved = copy.copy(model)
    moved._shift(-float(known[0]))
    return moved
