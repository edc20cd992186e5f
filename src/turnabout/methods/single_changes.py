"""Single changes for searches that can only ask: which values of each feature are worth trying."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self

import torch

from turnabout.models import Model, Trees
from turnabout.schema import Category, Scalar, Schema
from turnabout.schema.legal_values import first_beyond, grid_ends, value_at
from turnabout.tensor_rows import TensorRows
from turnabout.typing import Tensor

NEAR = (1 / 256, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)  # distances to try, in shares of the range
BETWEEN = (0.25, 0.5, 0.75, 0.9)  # points on the way from a person's own value to their plan's
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)  # quantiles of the background
FEW = 16  # scalars with no more legal values than this are tried at all of them
MOST = 64  # cuts of one column tried
FIRST = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # of a person's next values on a side, those tried at first


class ValueSource(ABC):
    """Where the values to try of one scalar come from."""

    @abstractmethod
    def __len__(self) -> int:
        """V, how many values."""

    @abstractmethod
    def wanted(self, own: Tensor, at: Tensor) -> Tensor:
        """Own values and those of a plan (n, 1) -> values to try (n, V), not yet legal."""

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        return replace(self, **{f.name: getattr(self, f.name).to(device) for f in fields(self)})  # type: ignore[type-var,arg-type]


@dataclass(frozen=True)
class BeyondCuts(ValueSource):
    """For a model that only asks on which side of some cuts a value lies: the nearest legal value beyond each."""

    cut: Tensor  # (V,) a value equal to the cut lies below it
    below: Tensor  # (V,)
    above: Tensor  # (V,)

    def __len__(self) -> int:
        return len(self.cut)

    def wanted(self, own: Tensor, at: Tensor) -> Tensor:
        return torch.where(own <= self.cut, self.above, self.below)


@dataclass(frozen=True)
class ManyCuts(BeyondCuts):
    """The same where there are too many to try all: the next ones on both sides, then ever fewer."""

    steps: Tensor  # (V / 2,) places on each side

    def __len__(self) -> int:
        return 2 * len(self.steps)

    def wanted(self, own: Tensor, at: Tensor) -> Tensor:
        place, top = (
            torch.searchsorted(self.cut, own.contiguous()),
            len(self.cut) - 1,
        )  # (n, 1) cuts below their own value
        up, down = place + self.steps, place - 1 - self.steps
        above = torch.where(up <= top, self.above[up.clamp(max=top)], own)
        return torch.cat([above, torch.where(down >= 0, self.below[down.clamp(min=0)], own)], 1)


@dataclass(frozen=True)
class LegalValues(ValueSource):
    """All legal values."""

    values: Tensor  # (V,)

    def __len__(self) -> int:
        return len(self.values)

    def wanted(self, own: Tensor, at: Tensor) -> Tensor:
        return self.values.expand(len(own), -1)


@dataclass(frozen=True)
class Offsets(ValueSource):
    """Steps from the person's own value and from the plan's, points between the two, the bounds, and common values."""

    common: Tensor  # (V,)

    def __len__(self) -> int:
        return 4 * len(NEAR) + len(BETWEEN) + len(self.common)

    def wanted(self, own: Tensor, at: Tensor) -> Tensor:
        near, between = own.new_tensor(NEAR), own.new_tensor(BETWEEN)
        common = self.common.expand(len(own), -1)
        return torch.cat([own + near, own - near, at + near, at - near, own + (at - own) * between, common], 1)


@dataclass(frozen=True)
class MoveTargets(TensorRows):
    """Where C moves lead n people; all (n, C)."""

    value: Tensor  # what is written
    legal: Tensor  # whether they may, and no other move leads there
    first: Tensor  # of these, the few to begin with
    alone: Tensor  # what the change would cost by itself


@dataclass(frozen=True)
class SingleChanges:
    """C single changes, the same list for everyone, ordered by feature; where each leads is a person's own matter.

    Attributes
    ----------
    feature, column : (C,) the feature changed, and the encoded column written.
    spans : feature, first and last + 1 of its moves. The first move of a scalar is the way back to the own value.
    scalars, places : the scalars that may move, and their columns in the whole schema.
    sources : where their values come from, with the column among the scalars.
    rank : (C,) place of a move among those of its feature.
    levels : (longest, d) 1 at the level to which the move of that rank switches a category.
    """

    schema: Schema
    feature: Tensor
    column: Tensor
    spans: tuple[tuple[int, int, int], ...]
    scalars: Schema | None
    places: Tensor
    sources: tuple[tuple[int, ValueSource], ...]
    rank: Tensor
    levels: Tensor

    def __len__(self) -> int:
        return len(self.feature)

    @classmethod
    def of(cls, schema: Schema, model: Model, background: Tensor | None, ruled: bool) -> SingleChanges:
        """For a model with cuts, a value beyond each; for any other, a spread of values."""
        cuts = model.forest.cuts if isinstance(model, Trees) else None
        columns: list[int] = []
        spans: list[tuple[int, int, int]] = []
        sources: dict[int, ValueSource] = {}
        for f, (feature, s) in enumerate(zip(schema.features, schema.slices, strict=True)):
            if feature.moves == "fixed":
                continue
            start = len(columns)
            if isinstance(feature, Scalar):
                cut = None if cuts is None else cuts[s.start].cpu()
                if cut is not None and not len(cut) and not ruled:
                    continue  # the model never looks at it
                sources[f] = _source(feature, cut, None if background is None else background[:, s].cpu())
                columns += [s.start] * (len(sources[f]) + 1)
            else:
                levels = list(range(s.start, s.start + len(feature.value_columns)))
                if cuts is not None and not ruled:  # levels the model never tells apart: one stands for all
                    idle = [j for j in levels if not len(cuts[j])]
                    levels = [j for j in levels if j not in idle[1:]]
                columns += levels
            spans.append((f, start, len(columns)))
        part = Schema(tuple(schema.features[f] for f in sources)) if sources else None
        starts = [] if part is None else [s.start for s in part.slices]
        places = [j for f in sources for j in range(schema.slices[f].start, schema.slices[f].stop)]
        column, rank = (
            torch.tensor(columns, dtype=torch.long),
            torch.tensor([v for _, a, b in spans for v in range(b - a)]),
        )
        hot = torch.zeros(max((b - a for _, a, b in spans), default=0), schema.d, dtype=torch.float64)
        for f, a, b in spans:
            if f not in sources:
                hot[rank[a:b], column[a:b]] = 1.0
        return cls(
            schema=schema,
            feature=schema.feature_of[column],
            column=column,
            spans=tuple(spans),
            scalars=part,
            places=torch.tensor(places, dtype=torch.long),
            sources=tuple(zip(starts, sources.values(), strict=True)),
            rank=rank.long(),
            levels=hot,
        )

    def to(self, device: torch.device) -> SingleChanges:
        """The same moves on another device."""
        moved = {name: getattr(self, name).to(device) for name in ("feature", "column", "places", "rank", "levels")}
        return replace(self, sources=tuple((c, source.to(device)) for c, source in self.sources), **moved)

    @cached_property
    def anchored(self) -> bool:
        """Whether moves lead to the same values whatever plan a person holds."""
        return not any(isinstance(source, Offsets) for _, source in self.sources)

    def reach(self, x: Tensor, z: Tensor, per_feature: Callable[[Tensor, Tensor], Tensor]) -> MoveTargets:
        """People x (n, d) who hold plans z (n, d); per_feature gives the cost of rows, feature by feature."""
        row = x.unsqueeze(1).repeat(
            1, len(self.levels), 1
        )  # (n, longest, d): every feature makes its move of that rank
        legal = torch.ones_like(row, dtype=torch.bool)
        first = legal.clone()
        for f, a, b in self.spans:
            if isinstance(self.schema.features[f], Category):
                s = self._value_columns(f)
                row[:, : b - a, s] = self.levels[: b - a, s]
        if self.scalars is not None:
            parts = self._values(x[:, self.places], z[:, self.places])
            row[:, :, self.places], legal[:, :, self.places], first[:, :, self.places] = parts
        present = ~self.schema.missing(x)[:, self.column]
        alone = per_feature(x.unsqueeze(1), row)[:, self.rank, self.feature]
        value, legal, first = (part[:, self.rank, self.column] for part in (row, legal, first))
        return MoveTargets(value, legal & present, first & present, alone)

    def _values(self, own: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scalars of people and plans (n, s) -> values by rank (n, longest, s), which are new, which come first."""
        assert self.scalars is not None
        row = own.unsqueeze(1).repeat(1, len(self.levels), 1)
        for column, source in self.sources:  # rank 0 is the way back
            row[:, 1 : len(source) + 1, column] = source.wanted(own[:, column : column + 1], at[:, column : column + 1])
        value = self.scalars.snap(own.unsqueeze(1), row)
        ordered, order = value.sort(dim=1, stable=True)
        fresh = torch.ones_like(value, dtype=torch.bool)
        fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        place = fresh.cumsum(1)  # among the different values
        steps = (place - torch.where(ordered == own.unsqueeze(1), place, 0).amax(1, keepdim=True)).abs()
        early = fresh & (self._early[steps.clamp(max=len(self._early) - 1)] | ~self._thinned)
        none = torch.zeros_like(fresh)
        return value, none.scatter(1, order, fresh), none.scatter(1, order, early)

    def leaves(self, z: Tensor) -> Tensor:
        """(n, C) the column that a move sets to 0 before it writes: the level that the plan z (n, d) holds now."""
        out = self.column.expand(len(z), -1).clone()
        for f, a, b in self.spans:
            if isinstance(self.schema.features[f], Category):
                s = self._value_columns(f)
                out[:, a:b] = z[:, s].argmax(1, keepdim=True) + s.start
        return out

    def rows(self, z: Tensor, move: Tensor, leaves: Tensor, value: Tensor) -> Tensor:
        """Plans z (m, d) after one move (m,) each; z is written over."""
        z.scatter_(1, leaves.unsqueeze(1), 0.0)
        return z.scatter_(1, self.column[move].unsqueeze(1), value.unsqueeze(1))

    @cached_property
    def _early(self) -> Tensor:
        table = torch.zeros(FIRST[-1] + 2, dtype=torch.bool, device=self.column.device)
        table[list(FIRST)] = True
        return table

    @cached_property
    def _thinned(self) -> Tensor:
        """(s,) True for scalars of which only some values come first: those with a value for every cut."""
        out = torch.zeros(len(self.places), dtype=torch.bool, device=self.column.device)
        out[[column for column, source in self.sources if isinstance(source, BeyondCuts)]] = True
        return out

    def _value_columns(self, f: int) -> slice:
        start = self.schema.slices[f].start
        return slice(start, start + len(self.schema.features[f].value_columns))


def _source(feature: Scalar, cut: Tensor | None, background: Tensor | None) -> ValueSource:
    if cut is not None:
        beyond = first_beyond(feature, cut)
        below, above = value_at(feature, beyond - 1), value_at(feature, beyond)
        if len(cut) <= MOST:
            return BeyondCuts(cut, below, above)
        far = [int(MOST / 4 * 1.3**k) for k in range(64)]
        return ManyCuts(cut, below, above, torch.tensor([*range(MOST // 4), *(k for k in far if k < len(cut))]))
    lowest, highest = grid_ends(feature)
    if highest - lowest < FEW:
        return LegalValues(value_at(feature, torch.arange(lowest, highest + 1, dtype=torch.float64)))
    common = torch.tensor([0.0, 1.0], dtype=torch.float64)
    if background is not None:
        seen = background[background[:, -1] < 0.5, 0] if feature.missing else background[:, 0]
        if len(seen):
            common = torch.cat([common, torch.quantile(seen[:100_000], seen.new_tensor(SHARES))])
    return Offsets(common)
