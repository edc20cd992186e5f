"""The decision maker about rows whose derived columns are filled in before it sees them."""

from __future__ import annotations

import copy
from typing import Self

import pandas as pd
import torch

from turnabout.models.model import Differentiable, Model
from turnabout.schema import Schema
from turnabout.typing import Tensor


class Filled(Model):
    """Another model, asked about rows in which everything derived is computed anew.

    Searches move the columns that people choose and leave derived ones as they are; this is where these follow.
    """

    def __init__(self, model: Model, schema: Schema):
        super().__init__(schema, model._judge, model.notes)
        self.bare = model
        self.compiled, self.unseen, self.guessed = model.compiled, model.unseen, model.guessed

    def margin(self, x: Tensor) -> Tensor:
        return self.bare.margin(self.schema.fill(x))

    def decode(self, x: Tensor) -> pd.DataFrame:
        return self.bare.decode(self.schema.fill(x))

    def __repr__(self) -> str:
        return repr(self.bare)

    def shifted(self, by: float) -> Self:
        return self._about(self.bare.shifted(by))

    def _about(self, model: Model) -> Self:
        moved = copy.copy(self)
        moved.bare, moved._judge = model, model._judge
        return moved

    def _move(self, device: torch.device) -> None:
        self.bare = self.bare.to(device)


class SmoothFilled(Filled):
    """With the slope of the model, through the formulas."""

    def gradient(self, x: Tensor) -> Tensor:
        """Derivative of the margin, (n, d) -> (n, d)."""
        bare = self.bare
        assert isinstance(bare, Differentiable)
        with torch.enable_grad():
            wide = x.detach().requires_grad_()
            rows = self.schema.fill(wide)
            (slope,) = torch.autograd.grad(rows, wide, bare.gradient(rows.detach()))
        return slope


def filled(model: Model, schema: Schema) -> Model:
    """The model as a question with derived columns asks it; the model itself where nothing is derived."""
    if not schema.identities.derived or isinstance(model, Filled):
        return model
    smooth = isinstance(model, Differentiable)
    return (SmoothFilled if smooth else Filled)(model, schema)


def bare(model: Model) -> Model:
    """The model that is asked about rows as they come."""
    return model.bare if isinstance(model, Filled) else model
