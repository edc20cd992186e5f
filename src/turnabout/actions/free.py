"""Free-form actions inside a script: functions of encoded people, laid over the rows whose sequence holds them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from turnabout.actions.action import Action, FreeForm
from turnabout.actions.steps import Script
from turnabout.errors import ActionError
from turnabout.schema import Category, Schema
from turnabout.typing import Tensor


class FreeScript(Script):
    """A script some of whose steps are functions. Its states cover all encoded columns of the schema.

    conditions : how many columns a slack has; unused ones are 1.
    groups : for each step, the free-form actions in it and their rows.
    """

    def __init__(self, script: Script, actions: Mapping[int, Action], conditions: int):
        super().__init__(script.tables, script.line)
        self.actions, self.conditions = actions, conditions
        self.groups: list[list[tuple[Action, Tensor]]] = []
        for line in self.line:
            rows = [(action, (line == a).nonzero().squeeze(1)) for a, action in actions.items()]
            self.groups.append([(action, where) for action, where in rows if len(where)])

    def take(self, rows: Tensor) -> FreeScript:
        """The same script for some of its rows."""
        return FreeScript(super().take(rows), self.actions, self.conditions)

    def move(self, t: int, old: Tensor, r: Tensor) -> Tensor:
        new = super().move(t, old, r)
        for action, rows in self.groups[t]:
            x_new = _form(action).effect(self._encoded(old[rows]), r[rows, : len(action.parameters)])
            new = new.index_copy(0, rows, self.tables.bottom + x_new * self.tables.span)
        return new

    def price(self, t: int, old: Tensor, new: Tensor, r: Tensor | None = None) -> Tensor:
        cost = super().price(t, old, new)
        for action, rows in self.groups[t]:
            cost = cost.index_copy(0, rows, _form(action).cost(*self._arguments(action, rows, old, new, r)))
        return cost

    def slack(self, t: int, old: Tensor, new: Tensor, r: Tensor | None = None) -> Tensor:
        slack = super().slack(t, old, new)
        if (short := self.conditions - slack.shape[-1]) > 0:
            slack = torch.nn.functional.pad(slack, (0, short), value=1.0)
        for action, rows in self.groups[t]:
            if (asked := _form(action).precondition) is None:
                continue
            found = asked(*self._arguments(action, rows, old, new, r))
            found = torch.nn.functional.pad(found, (0, slack.shape[-1] - found.shape[-1]), value=1.0)
            slack = slack.index_copy(0, rows, found)
        return slack

    def limits(self, t: int, old: Tensor, r: Tensor, p: int, lo: Tensor, hi: Tensor) -> tuple[Tensor, Tensor]:
        """As in a script of declared actions; of a free-form action only the limits declared for its parameters."""
        covered = sum(len(rows) for _, rows in self.groups[t])
        if covered == len(old):
            return self.low[t, :, p], self.high[t, :, p]
        low, high = super().limits(t, old, r, p, lo, hi)
        for _, rows in self.groups[t]:
            low = low.index_copy(0, rows, self.low[t, rows, p])
            high = high.index_copy(0, rows, self.high[t, rows, p])
        return low, high

    def project(self, t: int, old: Tensor, r: Tensor) -> Tensor:
        """(B, P) the nearest parameters at which preconditions hold, of those actions that say how to get there."""
        for action, rows in self.groups[t]:
            if (nearest := _form(action).project) is not None:
                some = r[rows].clone()
                count = len(action.parameters)
                some[:, :count] = nearest(self._encoded(old[rows]), some[:, :count])
                r = r.index_copy(0, rows, some)
        return r

    def _arguments(
        self, action: Action, rows: Tensor, old: Tensor, new: Tensor, r: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        if r is None:
            raise ActionError(f"the free-form action '{action.name}' needs its parameters.", hint="pass r.")
        return self._encoded(old[rows]), self._encoded(new[rows]), r[rows, : len(action.parameters)]

    def _encoded(self, state: Tensor) -> Tensor:
        return (state - self.tables.bottom) / self.tables.span


def _form(action: Action) -> FreeForm:
    assert action.form is not None
    return action.form


def starts(action: Action, x: Tensor, generator: torch.Generator) -> Tensor:
    """(n, P) where a search for a free-form action may begin: as it says itself, or anywhere between its limits."""
    form, p = _form(action), len(action.parameters)
    if form.start is not None:
        return form.start(x, generator)
    low = x.new_tensor([-1.0 if q.low is None else q.low for q in action.parameters])
    high = x.new_tensor([1.0 if q.high is None else q.high for q in action.parameters])
    draw = torch.rand(len(x), p, generator=generator, dtype=x.dtype, device=generator.device).to(x.device)
    return low + draw * (torch.maximum(high, low) - low)


def probe(schema: Schema, action: Action) -> int:
    """Try a free-form action on one row; returns how many conditions it has, or says what is wrong with it."""
    form = _form(action)
    x = torch.zeros(2, schema.d, dtype=torch.float64)
    for feature, s in zip(schema.features, schema.slices, strict=True):
        if isinstance(feature, Category):
            x[:, s.start] = 1.0
    try:
        r = starts(action, x, torch.Generator().manual_seed(0))
        x_new = form.effect(x, r)
        cost = form.cost(x, x_new, r)
        slack = None if form.precondition is None else form.precondition(x, x_new, r)
    except Exception as error:
        raise ActionError(
            f"the free-form action '{action.name}' fails on a row of zeros: {type(error).__name__}: {error}.",
            hint="its functions take tensors x (n, d), x_new (n, d) and r (n, P).",
        ) from error
    shapes = [("start", r, (2, len(action.parameters))), ("effect", x_new, (2, schema.d)), ("cost", cost, (2,))]
    for what, found, wanted in shapes:
        if not isinstance(found, torch.Tensor) or tuple(found.shape) != wanted:
            raise ActionError(
                f"{what} of the free-form action '{action.name}' gives {_shape(found)}.",
                hint=f"for 2 people it must give a tensor of shape {wanted}.",
            )
    if slack is not None and (not isinstance(slack, torch.Tensor) or slack.ndim != 2 or len(slack) != 2):
        raise ActionError(
            f"precondition of the free-form action '{action.name}' gives {_shape(slack)}.",
            hint="for 2 people it must give a tensor of shape (2, c), one column per condition.",
        )
    touched = schema.changed(x, x_new).any(0)
    if strays := [n for n, moved in zip(schema.names, touched, strict=True) if moved and n not in form.footprint]:
        raise ActionError(
            f"the free-form action '{action.name}' changes '{strays[0]}', which is not in its footprint.",
            hint="name every feature that it changes.",
        )
    return 0 if slack is None else slack.shape[1]


def _shape(found: object) -> str:
    return f"a tensor of shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else repr(type(found).__name__)
