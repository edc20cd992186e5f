"""Options that differ: other features, or clearly other amounts; and where to look for one more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from turnabout.core.problem import Problem
from turnabout.core.refine import Criterion
from turnabout.schema import Scalar, Schema
from turnabout.schema.levels import Levels
from turnabout.typing import Tensor

CHANGES = 5  # least changes of a number between amounts that are clearly different
SHARE = 0.05  # of the range, where a number declares no least change


def clear_difference(schema: Schema) -> Tensor:
    """(F,) encoded distance from which two new values of a feature are clearly different; one level of all others."""
    out = []
    for feature in schema.features:
        if isinstance(feature, Levels):
            out.append(1 / feature.span)
        elif isinstance(feature, Scalar):
            enough = CHANGES * feature.least if feature.least else SHARE * feature.span
            out.append(max(enough, feature.choice_step) / feature.span)
        else:
            out.append(1.0)
    return torch.tensor(out, dtype=torch.float64)


def differ(schema: Schema, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """People x and two options each, (..., d) -> (...) True where these are two different ways."""
    other_features = (schema.changed(x, a) != schema.changed(x, b)).any(-1)
    clear = schema.distance(a, b) >= clear_difference(schema).to(x) * (1 - 1e-9)
    return other_features | clear.any(-1)


def new_ways(schema: Schema, x: Tensor, owner: Tensor, x_new: Tensor, shown: Tensor, shown_owner: Tensor) -> Tensor:
    """(c,) True for rows that differ from all that their person is shown, and from their own rows before that count.

    x (n, d); rows x_new (c, d) of people owner (c,) in the order in which they are wanted; shown (s, d) likewise.
    """
    keep = torch.ones(len(owner), dtype=torch.bool, device=x.device)
    earlier, whose = shown, shown_owner
    place = _places(owner)
    for k in range(int(place.max()) + 1 if len(place) else 0):
        rows = (place == k).nonzero().squeeze(1)
        pairs = (owner[rows].unsqueeze(1) == whose.unsqueeze(0)).nonzero()
        mine, theirs = rows[pairs[:, 0]], pairs[:, 1]
        same = mine[~differ(schema, x[owner[mine]], x_new[mine], earlier[theirs])]
        keep[same] = False
        rows = rows[keep[rows]]
        earlier, whose = torch.cat([earlier, x_new[rows]]), torch.cat([whose, owner[rows]])
    return keep


@dataclass(frozen=True)
class Aim:
    """What further options have to meet: the method's criterion, for those people who have an option that meets it."""

    criterion: Criterion | None
    met: Tensor  # (n,)

    @classmethod
    def of(cls, criterion: Criterion | None, x: Tensor, rows: Tensor, owner: Tensor) -> Aim:
        """From the options (s, d) that people x (n, d) have already, and whose (s,) each is."""
        met = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        if criterion is not None and len(owner):
            met[owner[criterion(x[owner], rows)]] = True
        return cls(criterion, met)

    def allows(self, x: Tensor, owner: Tensor, x_new: Tensor) -> Tensor:
        """(c,) which rows (c, d) of people owner (c,) may be shown."""
        if self.criterion is None or not len(owner):
            return torch.ones(len(owner), dtype=torch.bool, device=x.device)
        return ~self.met[owner] | self.criterion(x[owner], x_new)


def among(owner: Tensor, which: Tensor) -> Tensor:
    """(c,) how many of a person's rows before each are among `which` (c,) bool."""
    order = owner.argsort(stable=True)
    counted = which[order].long()
    total = counted.cumsum(0) - counted
    ranked = owner[order]
    first = torch.searchsorted(ranked, ranked)
    out = torch.empty_like(owner)
    out[order] = total - total[first]
    return out


def _places(owner: Tensor) -> Tensor:
    """(c,) the place of each row among those of its person, in the order given."""
    order = owner.argsort(stable=True)
    ranked = owner[order]
    place = torch.empty_like(owner)
    place[order] = torch.arange(len(owner), device=owner.device) - torch.searchsorted(ranked, ranked)
    return place


def dearest(problem: Problem, x: Tensor, owner: np.ndarray, x_new: Tensor) -> dict[int, frozenset[int]]:
    """For each person with options, the features that cost most in each of these: a further way does without them."""
    place = torch.as_tensor(owner, device=x.device)
    per_feature = problem.cost.per_feature(x[place], x_new)
    most = per_feature.argmax(1).tolist()
    out: dict[int, set[int]] = {}
    for i, f in zip(owner.tolist(), most, strict=True):
        out.setdefault(i, set()).add(f)
    return {i: frozenset(features) for i, features in out.items()}
