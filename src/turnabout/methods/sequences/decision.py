"""The model as a function of the few columns that actions touch."""

from __future__ import annotations

import torch

from turnabout.actions.rules import KnownLevels
from turnabout.actions.steps import StepTables
from turnabout.models import Model, ReluNet
from turnabout.typing import Tensor

UNKNOWN = -1e6  # margin of rows about which the original is not asked


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
        self.known = KnownLevels(model.unseen).bind(model.schema) if model.unseen and not model.compiled else None
        if self.layers is not None:
            weight, bias = self.layers[0]
            self.first = torch.nn.functional.linear(x, weight, bias)  # (n, h)
            self.slope = (weight[:, tables.columns] / tables.span).T.contiguous()  # (e, h)

    def margin(self, owner: Tensor, state: Tensor) -> Tensor:
        """States (B, e) of people `owner` (B,) -> (B,), differentiable in the state."""
        self.asked += len(owner)
        if self.layers is None:
            return self._ask(self.x[owner], self.tables.encoded(self.x[owner], state))
        h = self.first[owner] + (state - self.start[owner]) @ self.slope  # (1)
        for weight, bias in self.layers[1:]:
            h = torch.nn.functional.linear(torch.relu(h), weight, bias)
        return h[:, 0]

    def _ask(self, x: Tensor, rows: Tensor) -> Tensor:
        """Margins of whole rows; the original may fail on levels that it does not know, and is not asked about them."""
        if self.known is None or bool((known := self.known.violation(x, rows) <= 0).all()):
            return self.model.margin(rows)
        margin = torch.full(rows.shape[:-1], UNKNOWN, dtype=rows.dtype, device=rows.device)
        if bool(known.any()):
            margin[known] = self.model.margin(rows[known]).to(margin.dtype)
        return margin
