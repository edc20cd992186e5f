"""What a rule may say about one feature: it rises, falls, changes, or is at a level."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch

from turnabout.documents import shown
from turnabout.errors import RuleError
from turnabout.rules.grid import LegalGrid
from turnabout.rules.rule import TOLERANCE, check_feature, find_feature
from turnabout.schema import Category, Number, Scalar, Schema
from turnabout.typing import Json, Level, Tensor, as_float

Kind = Literal["rises", "falls", "changes", "is"]


@dataclass(frozen=True)
class ChangeCondition(ABC):
    """A statement about the change of one feature."""

    kind: ClassVar[Kind]
    feature: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "feature", check_feature(self.feature, type(self).__name__))

    def bind(self, schema: Schema, rule: str) -> BoundCondition:
        """The statement over encoded people; refuses features it cannot speak of."""
        f, _ = find_feature(schema, self.feature, rule)
        return self._bind(schema, f, rule)

    @abstractmethod
    def _bind(self, schema: Schema, f: int, rule: str) -> BoundCondition: ...

    def __str__(self) -> str:
        return f"{self.feature} {self.kind}"

    def to_dict(self) -> Json:
        return {self.kind: self.feature}


@dataclass(frozen=True)
class _Moves(ChangeCondition):
    by: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by is None:
            return
        by = self.by.item() if isinstance(self.by, np.number) else self.by
        object.__setattr__(self, "by", by)
        if isinstance(by, bool) or not isinstance(by, (int, float)) or not (0 < as_float(by) < math.inf):
            raise RuleError(
                f"{type(self).__name__}('{self.feature}') has by={shown(self.by)}.",
                hint="use a positive number of units, or leave it out for any change.",
            )

    def _bind(self, schema: Schema, f: int, rule: str) -> BoundCondition:
        feature = schema.features[f]
        if not isinstance(feature, Scalar):
            raise RuleError(
                f"the rule '{rule}' says that the category '{self.feature}' {self.kind}, but its levels have no order.",
                hint="use Changes or Is, or declare the feature as Ordinal.",
            )
        return BoundCondition(schema, f, self.kind, None if self.by is None else self.by / feature.span, None)

    def __str__(self) -> str:
        return super().__str__() + ("" if self.by is None else f" by at least {self.by:g}")

    def to_dict(self) -> Json:
        return super().to_dict() | ({} if self.by is None else {"by": self.by})


@dataclass(frozen=True)
class Rises(_Moves):
    """The feature rises, by at least `by` units (levels, for an ordinal) where given, else by anything."""

    kind: ClassVar[Kind] = "rises"


@dataclass(frozen=True)
class Falls(_Moves):
    """The feature falls, by at least `by` units (levels, for an ordinal) where given, else by anything."""

    kind: ClassVar[Kind] = "falls"


@dataclass(frozen=True)
class Changes(ChangeCondition):
    """The feature changes, whichever way. A condition only: as a consequence it would not say which way."""

    kind: ClassVar[Kind] = "changes"

    def _bind(self, schema: Schema, f: int, rule: str) -> BoundCondition:
        return BoundCondition(schema, f, self.kind, None, None)


@dataclass(frozen=True)
class Is(ChangeCondition):
    """The new row has this level, whether or not the person had it before. For binaries, ordinals, categories."""

    kind: ClassVar[Kind] = "is"
    level: Level = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        level = self.level.item() if isinstance(self.level, np.generic) else self.level
        if not isinstance(level, (str, int, float)):
            raise RuleError(
                f"Is('{self.feature}') asks for the level {shown(level)}.", hint="give a text, a number or a boolean."
            )
        object.__setattr__(self, "level", level)

    def _bind(self, schema: Schema, f: int, rule: str) -> BoundCondition:
        feature = schema.features[f]
        if isinstance(feature, Number):
            raise RuleError(
                f"the rule '{rule}' asks whether the number '{self.feature}' is {self.level!r}.",
                hint="use Rises or Falls, or a Linear rule.",
            )
        levels = tuple(getattr(feature, "levels", ()))
        if self.level not in levels:
            raise RuleError(
                f"the rule '{rule}' names the level {self.level!r}, which is not one of {list(levels)} "
                f"of '{self.feature}'.",
                hint="levels are written as in the schema.",
            )
        return BoundCondition(schema, f, self.kind, None, levels.index(self.level))

    def __str__(self) -> str:
        return f"{self.feature} is {self.level}"

    def to_dict(self) -> Json:
        return {self.kind: self.feature, "level": self.level}


CONDITIONS: dict[str, type[ChangeCondition]] = {cls.kind: cls for cls in (Rises, Falls, Changes, Is)}


def read_condition(spec: Json) -> ChangeCondition:
    """A condition from {"rises": "age", "by": 2}, {"is": "housing", "level": "own"}."""
    kinds = [kind for kind in CONDITIONS if isinstance(spec, dict) and kind in spec]
    if len(kinds) != 1:
        raise RuleError(f"{shown(spec)} does not describe a condition.", hint=f"give one of {list(CONDITIONS)}.")
    rest = {key: value for key, value in spec.items() if key != kinds[0]}
    return CONDITIONS[kinds[0]](spec[kinds[0]], **rest)


class BoundCondition:
    """A condition in encoded units.

    feature : index of the feature; columns : its value columns, without the missing indicator.
    threshold : the least change that counts for "rises" and "falls" with `by`; None means any change.
    level : position of the level for "is"; target (w,) : the value columns at that level.
    """

    def __init__(self, schema: Schema, feature: int, kind: Kind, threshold: float | None, level: int | None):
        self.feature, self.kind, self.threshold, self.level = feature, kind, threshold, level
        declared, start = schema.features[feature], schema.slices[feature].start
        self.columns = slice(start, start + len(declared.value_columns))
        self.indicator = schema.slices[feature].stop - 1 if declared.missing else -1
        self.grid = LegalGrid(schema, [feature]) if isinstance(declared, Scalar) else None
        self.may_move = declared.moves != "fixed"
        self.target: Tensor | None = None
        if level is not None and isinstance(declared, Category):
            self.target = torch.nn.functional.one_hot(torch.tensor(level), len(declared.levels)).to(torch.float64)
        elif level is not None and isinstance(declared, Scalar):
            self.target = torch.tensor([level / declared.span], dtype=torch.float64)

    @property
    def need(self) -> float:
        """The change that satisfies "rises" or "falls": the threshold, or one step of the grid."""
        assert self.grid is not None
        return self.threshold if self.threshold is not None else float(self.grid.resolution[0])

    def missing(self, x: Tensor) -> Tensor:
        """(..., d) -> (...) True where the cell of the feature is missing."""
        if self.indicator < 0:
            return torch.zeros_like(x[..., 0], dtype=torch.bool)
        return x[..., self.indicator] > 0.5

    def holds(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(..., d), (..., d) -> (...) bool."""
        if self.kind == "is":
            return self._off_target(x_new) < (0.5 if self.grid is None else TOLERANCE)
        delta = x_new[..., self.columns] - x[..., self.columns]
        if self.kind == "changes":
            return (delta.abs() > TOLERANCE).any(-1)
        rise = delta[..., 0] if self.kind == "rises" else -delta[..., 0]
        return rise > TOLERANCE if self.threshold is None else rise >= self.threshold - TOLERANCE

    def shortfall(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(...) how far from holding, in encoded units; 0 where it holds."""
        if self.kind == "is":
            short = self._off_target(x_new).expand(torch.broadcast_shapes(x.shape[:-1], x_new.shape[:-1]))
        else:
            delta = (x_new[..., self.columns] - x[..., self.columns])[..., 0]
            short = self.need - (delta if self.kind == "rises" else -delta)
        return torch.where(self.holds(x, x_new), torch.zeros_like(short), short.clamp(min=2 * TOLERANCE))

    def make(self, x: Tensor, x_new: Tensor, exact: bool) -> Tensor:
        """Rows (n, d) with the condition made true by the least change; legal values only, if exact."""
        out = x_new.clone()
        if self.target is not None:
            out[:, self.columns] = self.target.to(device=x.device, dtype=x.dtype)
            return out
        assert self.grid is not None
        up, sign = self.kind == "rises", 1.0 if self.kind == "rises" else -1.0
        own, now = x[:, self.columns], out[:, self.columns]
        if not exact:
            aim = own + sign * self.need
        else:  # any change at all: the next legal value
            need = self.threshold if self.threshold is not None else 1e-3 * self.need
            cpu = x.to("cpu", torch.float64)
            aim = self.grid.round(cpu, cpu[:, self.columns] + sign * need, torch.tensor([up])).to(own)
        out[:, self.columns] = torch.maximum(now, aim) if up else torch.minimum(now, aim)
        return out

    def undo(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Rows (n, d) with the condition made false: the person's own value, or another level if that is the level."""
        out = x_new.clone()
        out[:, self.columns] = x[:, self.columns]
        if self.kind != "is" or not self.may_move:
            return out
        assert self.level is not None
        stays = self._off_target(x) < 0.5 if self.grid is None else self._off_target(x) < TOLERANCE
        if self.grid is None:
            other = torch.zeros_like(out[:, self.columns])
            other[:, 1 if self.level == 0 else 0] = 1.0
        else:
            cpu = x.to("cpu", torch.float64)
            half = 0.5 * float(self.grid.resolution[0])
            above = self.grid.round(cpu, cpu[:, self.columns] + half, torch.tensor([True])).to(out)
            below = self.grid.round(cpu, cpu[:, self.columns] - half, torch.tensor([False])).to(out)
            other = torch.where((above - x[:, self.columns]).abs() > TOLERANCE, above, below)
        out[:, self.columns] = torch.where(stays.unsqueeze(1), other, out[:, self.columns])
        return out

    def _off_target(self, x: Tensor) -> Tensor:
        """(...) half the absolute distance to the level's one-hot code, or the distance of a scalar."""
        assert self.target is not None
        gap = (x[..., self.columns] - self.target.to(device=x.device, dtype=x.dtype)).abs().sum(-1)
        return gap / 2 if self.grid is None else gap
