"""The model as a function of the few columns that actions touch."""

from __future__ import annotations

import torch

from turnabout.actions.steps import StepTables
from turnabout.models import Model, ReluNet
from turnabout.typing import Tensor


class Decision:
    """Margins of states, for a batch of people x (n, d).

    For a ReLU net the first layer is evaluated once for each person; a state then changes it only through the
    touched columns:

        h_1(state) = h_1(x) + W_1[:, columns] (state - start) / span                                        (1)

    Any other differentiable model is asked about whole rows.
    """

    def __init__(self, model: Model, tables: StepTables, x: Tensor):
        self.model = model
        self.tables = tables
        self.x = x
        self.start = tables.units(x)
        self.asked = 0
        self.layers = model.layers if isinstance(model, ReluNet) else None
        if self.layers is not None:
            weight, bias = self.layers[0]
            self.first = torch.nn.functional.linear(x, weight, bias)  # (n, h)
            self.slope = (weight[:, tables.columns] / tables.span).T.contiguous()  # (e, h)

    def margin(self, owner: Tensor, state: Tensor) -> Tensor:
        """States (B, e) of people `owner` (B,) -> (B,), differentiable in the state."""
        self.asked += len(owner)
        if self.layers is None:
            return self.model.margin(self.tables.encoded(self.x[owner], state))
        h = self.first[owner] + (state - self.start[owner]) @ self.slope  # (1)
        for weight, bias in self.layers[1:]:
            h = torch.nn.functional.linear(torch.relu(h), weight, bias)
        return h[:, 0]
