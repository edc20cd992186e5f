"""A set of actions bound to a schema: what a search, a check and a letter ask of it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from turnabout.actions.action import Action
from turnabout.actions.compiling import Compiler
from turnabout.actions.free import FreeScript, probe, starts
from turnabout.actions.lines import ActionLine, tables
from turnabout.actions.numbers import brief
from turnabout.actions.steps import Script
from turnabout.errors import ActionError
from turnabout.schema import Category, Feature, Number, Schema
from turnabout.typing import Tensor


class BoundActions:
    """Actions over encoded people of one schema.

    schema, actions, names, time_unit : as declared.
    tables : the declared actions as tensors; free-form ones have a line there that only takes time.
    lines : the declared actions by encoded column, None for free-form ones.
    free : the free-form actions by position.
    reads, writes : for each action, the positions of the features it looks at and changes.
    """

    def __init__(self, schema: Schema, actions: Sequence[Action], time_unit: str = ""):
        self.schema, self.actions, self.time_unit = schema, tuple(actions), time_unit
        self.names = tuple(action.name for action in self.actions)
        self.free = {a: action for a, action in enumerate(self.actions) if action.is_free}
        lines = [Compiler(schema).line(action) for action in self.actions]
        self.lines: tuple[ActionLine | None, ...] = tuple(None if line.action.is_free else line for line in lines)
        everything = range(len(schema))
        self.writes = [{schema.index(name) for name in action.writes} for action in self.actions]
        self.reads = [
            set(everything) if action.reads is None else {schema.index(name) for name in action.reads}
            for action in self.actions
        ]
        self.tables = tables(schema, lines, every=bool(self.free))
        self.conditions = max([self.tables.offset.shape[1], *(probe(schema, a) for a in self.free.values())])

    def __len__(self) -> int:
        return len(self.actions)

    def __repr__(self) -> str:
        return f"BoundActions({', '.join(self.names)})"

    def to(self, device: str | torch.device) -> BoundActions:
        """The same on a device."""
        moved = copy.copy(self)
        moved.tables = self.tables.to(device)
        return moved

    def script(self, sequences: Tensor) -> Script:
        """The lines of a batch of sequences (B, T), -1 for no action, gathered once for many rolls."""
        script = self.tables.script(sequences)
        return FreeScript(script, self.free, self.conditions) if self.free else script

    def commute(self, a: int, b: int) -> bool:
        """Whether the order of two actions makes no difference: neither changes what the other reads or changes."""
        return not (self.writes[a] & (self.reads[b] | self.writes[b]) or self.writes[b] & self.reads[a])

    def footprint_columns(self, a: int) -> Tensor:
        """Encoded columns that an action may change, without missing indicators."""
        out: list[int] = []
        for f in sorted(self.writes[a]):
            start = self.schema.slices[f].start
            out += range(start, start + len(self.schema.features[f].value_columns))
        return torch.tensor(out, dtype=torch.long, device=self.tables.columns.device)

    def starts(self, a: int, x: Tensor, generator: torch.Generator) -> Tensor:
        """(n, P) where a search for the parameters of a free-form action may begin, for people x (n, d)."""
        return starts(self.free[a], x, generator)

    # -- words for people -------------------------------------------------------------------------------------

    def printed_parameters(self, a: int, old: Tensor, new: Tensor) -> dict[str, float]:
        """Parameters of a declared action as a person counts them, read off states (e,) before and after.

        The difference for a shift, the new value for a set, the ratio for a scale.
        """
        line = self.lines[a]
        if line is None:
            return {}
        columns, out = self.tables.columns.tolist(), {}
        for p, parameter in enumerate(self.actions[a].parameters):
            if (column := line.handle(p)) is None:
                continue
            j = columns.index(column)
            before, after = float(old[j]), float(new[j])
            if p in line.factors:
                out[parameter.name] = after / before
            else:
                still = line.keep[column] * before + line.add.get(column, 0.0)
                out[parameter.name] = (after - still) / line.gain[p, column]
        return out

    def describe(
        self, a: int, old_row: Mapping[str, Any], new_row: Mapping[str, Any], r: Sequence[float] | None = None
    ) -> tuple[dict[str, float], str]:
        """Parameters and words of a step between two printed rows: ({"months": -25.0}, "loan_duration 36 -> 11").

        `r` gives the parameters of a free-form action, which cannot be read off the rows.
        """
        action = self.actions[a]
        if action.is_free:
            given = () if r is None else r
            values = {p.name: float(v) for p, v in zip(action.parameters, given, strict=False)}
        else:
            values = self.printed_parameters(a, self._state(old_row), self._state(new_row))
        changes = []
        for f in sorted(self.writes[a]):
            feature = self.schema.features[f]
            before, after = (_cell(feature, row[feature.name]) for row in (old_row, new_row))
            if before != after:
                changes.append(f"{feature.title} {before} -> {after}")
        words = ", ".join(changes) or "nothing changes"
        asked = {p.name for p in action.parameters} <= set(values)
        if action.label and asked:
            words = f"{action.sentence(values)} ({words})"
        return values, words

    def read_step(
        self, a: int, old_row: Mapping[str, Any], new_row: Mapping[str, Any], said: Mapping[str, float]
    ) -> Tensor:
        """(P,) the parameters, as the tables count them, of a step between two printed rows.

        `said` holds the parameters as printed, for those that cannot be read off the rows.
        """
        out = torch.zeros(self.tables.gain.shape[1], dtype=torch.float64)
        line, columns = self.lines[a], self.tables.columns.tolist()
        old, new = self._state(old_row), self._state(new_row)
        for p, parameter in enumerate(self.actions[a].parameters):
            column = None if line is None else line.handle(p)
            if line is None or column is None:
                out[p] = said[parameter.name]
                continue
            j = columns.index(column)
            still = line.keep[column] * float(old[j]) + line.add.get(column, 0.0)
            out[p] = (float(new[j]) - still) / line.gain[p, column]
        return out

    def _state(self, row: Mapping[str, Any]) -> Tensor:
        """A printed row -> its state (e,); cells that no action speaks of are not looked at."""
        units = torch.zeros(self.schema.d, dtype=torch.float64)
        asked = set(self.schema.feature_of[self.tables.columns.cpu()].tolist())
        for f in asked:
            feature, s = self.schema.features[f], self.schema.slices[f]
            value = row[feature.name]
            if feature.missing and _is_missing(value):
                units[s.stop - 1] = 1.0
            elif isinstance(feature, Number):
                units[s.start] = float(value)
            elif isinstance(feature, Category):
                units[s.start + _level(feature, value)] = 1.0
            else:
                units[s.start] = float(_level(feature, value))
        return units[self.tables.columns.cpu()]


def _level(feature: Feature, value: Any) -> int:
    levels: tuple[Any, ...] = getattr(feature, "levels", ())
    if value not in levels:
        raise ActionError(f"'{feature.name}' holds {value!r}, which is not one of {list(levels)}.")
    return levels.index(value)


def _is_missing(value: Any) -> bool:
    """None, NaN, NaT or NA, which will not say whether it is itself."""
    itself = value == value
    return value is None or not isinstance(itself, (bool, np.bool_)) or not itself


def _cell(feature: Feature, value: Any) -> str:
    if _is_missing(value):
        return "missing"
    return brief(float(value)) if isinstance(feature, Number) else str(value)
