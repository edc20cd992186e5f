"""Columns that follow from others and may only go one way: a loan-to-value share that must not rise."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from turnabout.rules.rule import TOLERANCE, BoundRule, Rule
from turnabout.schema import Derived, Schema
from turnabout.typing import Tensor

HALVINGS = 20
UNKNOWN = 1.0  # the violation of a row for which a formula has no value


@dataclass(frozen=True, repr=False)
class DerivedDirections(Rule):
    """No change makes a derived column go against the direction that its schema declares.

        direction "down":  formula(new row) <= own value,     direction "up":  formula(new row) >= own value     (1)

    both as they are written, and only where something changes that the column follows from. A problem adds this rule
    itself for every `Derived` with `moves="up"` or `"down"`. As a formula may be any, the rule has no linear form.
    """

    def bind(self, schema: Schema) -> BoundDerivedDirections:
        return BoundDerivedDirections(schema, str(self))

    def __str__(self) -> str:
        return "what is derived keeps its direction"


class BoundDerivedDirections(BoundRule):
    """A violation is the farthest that a column goes wrong. Changes are taken back: in part, one, or all of them."""

    fills = True

    def __init__(self, schema: Schema, name: str):
        self.directed: list[tuple[Derived, int, list[int]]] = []  # a column, where it is encoded, what it follows from
        for f in schema.identities.derived:
            if f.direction != "free":
                roots = sorted(schema.index(name) for name in schema.identities.roots(f))
                self.directed.append((f, schema.slices[schema.index(f.name)].start, roots))
        said = [f"{f.title} does not {'rise' if f.direction == 'down' else 'fall'}" for f, _, _ in self.directed]
        features = {schema.index(f.name) for f, _, _ in self.directed}.union(*(roots for _, _, roots in self.directed))
        super().__init__(", ".join(said) or name, schema, sorted(features))
        self.columns = [column for _, column, _ in self.directed]
        self.sign = torch.tensor([1.0 if f.direction == "down" else -1.0 for f, _, _ in self.directed])
        self.indicators = []  # what follows from a missing cell stays as it is

    def __str__(self) -> str:
        return self.name

    def _gap(self, x: Tensor, x_new: Tensor) -> Tensor:
        return self._gaps(x, x_new).amax(-1)

    def _gaps(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(..., columns) how far each goes the wrong way; 0 where it does not, or follows from no change."""
        rows = self.schema.fill(x_new)
        rise = (rows[..., self.columns] - x[..., self.columns]) * self.sign.to(rows)
        wrong = torch.nan_to_num(rise, nan=UNKNOWN).clamp(min=0)  # (1)
        if bool((wrong > TOLERANCE).any()):
            changed = self.schema.changed(x, x_new)
            follows = torch.stack([changed[..., roots].any(-1) for _, _, roots in self.directed], -1)
            wrong = torch.where(follows, wrong, torch.zeros_like(wrong))
        return wrong

    def _relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        """As much of the whole change as keeps the rule, by halving."""
        near, far = torch.zeros_like(x_new[:, :1]), torch.ones_like(x_new[:, :1])
        for _ in range(HALVINGS):
            middle = (near + far) / 2
            kept = (self._gap(x, x + middle * (x_new - x)) <= TOLERANCE).unsqueeze(1)
            near, far = torch.where(kept, middle, near), torch.where(kept, far, middle)
        return x + near * (x_new - x)

    def _snap(self, x: Tensor, x_new: Tensor) -> Tensor:
        """One change taken back if that mends it, the smallest such; else all that what goes wrong follows from."""
        feature_of = self.schema.feature_of.to(x.device)
        out, best = x_new.clone(), torch.full_like(x_new[:, 0], torch.inf)
        gaps, distance = self._gaps(x, x_new), self.schema.distance(x, x_new)
        for k, (_, _, roots) in enumerate(self.directed):
            mine = torch.isin(feature_of, torch.tensor(roots, device=x.device, dtype=feature_of.dtype))
            out = torch.where((gaps[:, k] > TOLERANCE).unsqueeze(1) & mine, x, out)
        for f in sorted({root for _, _, roots in self.directed for root in roots}):
            row = torch.where(feature_of == f, x, x_new)
            better = (distance[:, f] > 0) & (distance[:, f] < best) & (self._gap(x, row) <= TOLERANCE)
            out, best = torch.where(better.unsqueeze(1), row, out), torch.where(better, distance[:, f], best)
        return out
