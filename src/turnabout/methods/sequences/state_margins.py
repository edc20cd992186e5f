"""The model as a function of the few columns that actions touch."""

from __future__ import annotations

from collections.abc import Callable

import torch

from turnabout.actions.steps import StepTables
from turnabout.core.candidates import places
from turnabout.models import Model, ReluNet
from turnabout.rules import KnownLevels
from turnabout.typing import Tensor

UNKNOWN = -1e6  # margin of rows about which the original is not asked


class StateMargins:
    """Margins of states, for a batch of people x (n, d).

    For a ReLU net the first layer is evaluated once for each person; a state then changes it only through the
    touched columns:

        h_1(state) = h_1(x) + W_1[:, columns] (state - start) / span                                        (1)

    Any other model is asked about whole rows: through `ask`, which counts them, where only the original can answer.
    """

    def __init__(self, model: Model, tables: StepTables, x: Tensor, ask: Callable[[Tensor], Tensor] | None = None):
        self.model = model
        self.tables = tables
        self.x = x
        self.start = tables.units(x)
        self.asked = 0
        self.ask = None if model.compiled else ask
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
            return self._ask(owner, self.tables.encoded(self.x[owner], state))
        h = self.first[owner] + (state - self.start[owner]) @ self.slope  # (1)
        for weight, bias in self.layers[1:]:
            h = torch.nn.functional.linear(torch.relu(h), weight, bias)
        return h[:, 0]

    def _ask(self, owner: Tensor, rows: Tensor) -> Tensor:
        """Margins of whole rows; the original may fail on levels that it does not know, and is not asked about them."""
        if self.known is None or bool((known := self.known.violation(self.x[owner], rows) <= 0).all()):
            return self._margin(owner, rows)
        margin = torch.full(rows.shape[:-1], UNKNOWN, dtype=rows.dtype, device=rows.device)
        if bool(known.any()):
            margin[known] = self._margin(owner[known], rows[known]).to(margin.dtype)
        return margin

    def _margin(self, owner: Tensor, rows: Tensor) -> Tensor:
        if self.ask is None:
            return self.model.margin(rows)
        turns = _in_turn(owner)
        margin = torch.empty_like(rows[:, 0])
        margin[turns] = self.ask(rows[turns])
        return margin.clamp(min=UNKNOWN)  # -inf where there was no answer


def _in_turn(owner: Tensor) -> Tensor:
    """The rows in an order that gives everyone their first before anyone their second: questions may run out."""
    order = owner.argsort(stable=True)
    turn = torch.empty_like(owner)
    turn[order] = places(owner[order])
    return turn.argsort(stable=True)
