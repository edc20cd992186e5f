"""Inequalities over the new row: Linear and, as a special case, Ordered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch

from turnabout.documents import shown
from turnabout.errors import RuleError
from turnabout.rules.grid import LegalGrid
from turnabout.rules.rule import TOLERANCE, BoundRule, LinearForm, Rule, check_feature, check_name, find_feature
from turnabout.schema import Category, Number, Scalar, Schema
from turnabout.typing import Tensor, as_float


@dataclass(frozen=True, repr=False)
class Linear(Rule):
    """A weighted sum of the new row's values stays on one side of a bound.

        sum_f  coefficients_f * value_f  <=  bound          (or >=)                    (1)

    Values are in the person's units: numbers as they are, an ordinal by the position of its level (0 lowest), a
    binary 0 or 1, a level of a category addressed as "housing=own" 0 or 1. It speaks of the new row whatever the
    old one was: a person who breaks it already must mend it.

    Parameters
    ----------
    coefficients : weight of each feature, or category level, in units.
    sense : "<=" or ">=".
    bound : the right-hand side.
    name : how to call the rule in reports; the inequality when None.
    """

    kind: ClassVar[str] = "linear"
    coefficients: Mapping[str, float] = field(hash=False)
    sense: Literal["<=", ">="] = "<="
    bound: float = 0.0
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.coefficients, Mapping) or not self.coefficients:
            raise RuleError(
                "a Linear rule has no coefficients.", hint='write Linear({"debt": 1.0, "rent": 12.0}, "<=", 0).'
            )
        if not isinstance(self.sense, str) or self.sense not in ("<=", ">="):
            raise RuleError(f"a Linear rule has the sense {shown(self.sense)}.", hint="use '<=' or '>='.")
        object.__setattr__(self, "name", check_name(self.name, "a Linear rule"))
        for key in self.coefficients:
            check_feature(key, "a Linear rule")
        object.__setattr__(
            self, "coefficients", {str(k): _finite(v, f"coefficient of '{k}'") for k, v in self.coefficients.items()}
        )
        object.__setattr__(self, "bound", _finite(self.bound, "bound"))
        if not any(self.coefficients.values()):
            raise RuleError(f"all coefficients of the rule '{self}' are zero.", hint="give at least one that is not.")

    def bind(self, schema: Schema) -> BoundLinear:
        return BoundLinear(schema, self.coefficients, self.sense, self.bound, str(self))

    def __str__(self) -> str:
        if self.name is not None:
            return self.name
        terms = ""
        for name, c in self.coefficients.items():
            size = name if abs(c) == 1 else f"{abs(c):g} {name}"
            terms += (" - " if terms else "-") + size if c < 0 else (" + " if terms else "") + size
        return f"{terms} {self.sense} {self.bound:g}"


@dataclass(frozen=True, repr=False)
class Ordered(Rule):
    """One value of the new row is at most another: value of `lower` <= value of `upper`, in units.

    Both are numbers, ordinals (by position) or binaries. Parameters: the two feature names.
    """

    kind: ClassVar[str] = "ordered"
    lower: str
    upper: str

    def __post_init__(self) -> None:
        for side in ("lower", "upper"):
            object.__setattr__(self, side, check_feature(getattr(self, side), "Ordered"))
        if self.lower == self.upper:
            raise RuleError(f"Ordered compares '{self.lower}' with itself.", hint="name two features.")

    def bind(self, schema: Schema) -> BoundLinear:
        for name in (self.lower, self.upper):
            if not isinstance(find_feature(schema, name, str(self))[1], Scalar):
                raise RuleError(
                    f"the rule '{self}' orders the category '{name}', whose levels have no order.",
                    hint="declare the feature as Ordinal(name, levels=...) from low to high.",
                )
        return BoundLinear(schema, {self.lower: 1.0, self.upper: -1.0}, "<=", 0.0, str(self))

    def __str__(self) -> str:
        return f"{self.lower} <= {self.upper}"


class BoundLinear(BoundRule):
    """a @ x_new <= b with a (d,) of length 1, so that a violation is the distance to the half-space."""

    def __init__(self, schema: Schema, coefficients: Mapping[str, float], sense: str, bound: float, name: str):
        sign = 1.0 if sense == "<=" else -1.0
        a, b = torch.zeros(schema.d, dtype=torch.float64), sign * bound
        features: set[int] = set()
        for key, c in coefficients.items():
            f, column, bottom, span = _address(schema, key, name)
            a[column] += sign * c * span
            b -= sign * c * bottom
            if c:
                features.add(f)
        super().__init__(name, schema, sorted(features))
        length = float(a.norm())
        self.a, self.b = a / length, b / length
        self.scalars = [f for f in self.features if isinstance(schema.features[f], Scalar)]
        self.categories = [f for f in self.features if isinstance(schema.features[f], Category)]
        self.grid = LegalGrid(schema, self.scalars)
        self.a_grid = self.a[self.grid.columns]  # (m,)
        self.fine = torch.tensor([isinstance(schema.features[f], Number) for f in self.scalars], dtype=torch.bool)
        self._refuse_impossible()

    def _refuse_impossible(self) -> None:
        least = float(self.a_grid.clamp(max=0).sum()) + sum(float(self._levels(f).min()) for f in self.categories)
        if least > self.b + TOLERANCE:
            raise RuleError(
                f"nobody satisfies the rule '{self.name}': no values inside the features' bounds keep it.",
                hint="check the bound, the sense and the signs against low and high of each feature.",
            )

    def _levels(self, f: int) -> Tensor:
        """Coefficients of the levels of a category, (K,)."""
        start = self.schema.slices[f].start
        return self.a[start : start + len(self.schema.features[f].value_columns)]

    def linear_form(self, x: Tensor) -> LinearForm:
        b = torch.full((x.shape[0], 1), self.b, dtype=x.dtype, device=x.device)
        b[self.silent(x)] = torch.inf
        return LinearForm(self.a.to(device=x.device, dtype=x.dtype).unsqueeze(0), b)

    def turns_once(self, f: int) -> bool:
        return True

    def _gap(self, x: Tensor, x_new: Tensor) -> Tensor:
        gap = x_new @ self.a.to(device=x_new.device, dtype=x_new.dtype) - self.b
        return gap.expand(torch.broadcast_shapes(x.shape[:-1], x_new.shape[:-1]))

    def _relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        lo, hi = self.schema.bounds(x)
        used = (self.a != 0).to(x.device)
        a = self.a.to(device=x.device, dtype=x.dtype)[used]
        z = x_new.clone()
        for _ in range(4 if self.categories else 1):  # with categories, between the half-space and the simplex
            z[:, used] = project(z[:, used], lo[:, used], hi[:, used], a, self.b)
            if self.categories:
                z = self.schema.relax(x, z)
        return z

    def _snap(self, x: Tensor, x_new: Tensor) -> Tensor:
        device, dtype = x_new.device, x_new.dtype
        x, y = x.to("cpu", torch.float64), x_new.to("cpu", torch.float64)
        columns, a = self.grid.columns, self.a_grid
        far = self.grid.extremes(x, up=a < 0)  # (n, m), where each column helps most
        gain = a * (y[:, columns] - far)  # (n, m), at least 0
        excess = y @ self.a - self.b
        # move numbers alone where they suffice, then coarser scalars, then switch categories one by one
        free = self.fine | (excess > (gain * self.fine).sum(1) + TOLERANCE).unsqueeze(1)  # (n, m)
        z = y.clone()
        for f in self.categories:
            start, best = self.schema.slices[f].start, int(self._levels(f).argmin())
            levels = slice(start, start + len(self._levels(f)))
            still = z @ self.a - self.b > gain.sum(1) + TOLERANCE
            still &= z[:, levels] @ self._levels(f) > self._levels(f)[best]
            if self.schema.features[f].moves == "fixed":
                continue
            z[still, levels] = 0.0
            z[still, start + best] = 1.0
        lo, hi = torch.minimum(y[:, columns], far), torch.maximum(y[:, columns], far)
        now = y[:, columns]
        lo, hi = torch.where(free, lo, now), torch.where(free, hi, now)
        rest = self.b - (z @ self.a - now @ a)
        aim = project(now, lo, hi, a, rest)
        moved = (aim - now).abs() > 1e-12
        z[:, columns] = torch.where(moved, self.grid.round(x, aim, up=a < 0), now)
        for j in self.grid.resolution.argsort(descending=True).tolist():  # give back what rounding made needless
            back = z.clone()
            back[:, columns[j]] = now[:, j]
            kept = self._gap(x, back) <= TOLERANCE
            z = torch.where(kept.unsqueeze(1), back, z)
        done = self._gap(x, z) <= TOLERANCE
        return torch.where(done.unsqueeze(1), z, y).to(device=device, dtype=dtype)


def project(z: Tensor, lo: Tensor, hi: Tensor, a: Tensor, b: Tensor | float) -> Tensor:
    """Euclidean projection of z (n, m) onto {a @ z <= b} within [lo, hi]; the nearest corner where that is empty.

    The projection is clip(z - t a, lo, hi) for the least t >= 0 that satisfies the inequality. Its left-hand side
    falls piecewise linearly in t, so t is found among the m breakpoints where a column reaches its bound.
    """
    z = torch.minimum(torch.maximum(z, lo), hi)
    if z.shape[1] == 0:
        return z
    need = (z @ a - b).clamp(min=0).unsqueeze(1)  # (n, 1)
    room = torch.where(a > 0, z - lo, hi - z)
    stop = torch.where(a != 0, room / a.abs().clamp(min=1e-300), torch.zeros_like(room))  # (n, m)
    t, _ = stop.sort(dim=1)
    fall = (a.square() * torch.minimum(t.unsqueeze(2), stop.unsqueeze(1))).sum(2)  # (n, m) at each breakpoint
    slope = (a.square() * (stop.unsqueeze(1) >= t.unsqueeze(2))).sum(2)  # just before each breakpoint
    enough = fall >= need
    first = enough.to(torch.int8).argmax(1, keepdim=True)  # 0 where there is none; not used then
    exact = t.gather(1, first) - (fall.gather(1, first) - need) / slope.gather(1, first).clamp(min=1e-300)
    t_best = torch.where(enough.any(1, keepdim=True), exact.clamp(min=0), t[:, -1:])
    return torch.minimum(torch.maximum(z - t_best * a, lo), hi)


def _address(schema: Schema, key: str, rule: str) -> tuple[int, int, float, float]:
    """Feature, encoded column, and units at position 0 and per position of a coefficient's key."""
    if key not in schema.names and (place := _find_level(schema, key, rule)) is not None:
        return *place, 0.0, 1.0
    f, feature = find_feature(schema, key, rule)
    if not isinstance(feature, Scalar):
        raise RuleError(
            f"the rule '{rule}' uses the category '{key}' as a number.",
            hint=f"address one level, such as '{feature.value_columns[0]}', which is 0 or 1.",
        )
    return f, schema.slices[f].start, feature.bottom, feature.span


def _find_level(schema: Schema, key: str, rule: str) -> tuple[int, int] | None:
    """Feature and encoded column of "housing=own"; None where no category is meant."""
    of = [f for f in schema.features if isinstance(f, Category) and key.startswith(f"{f.name}=")]
    hits = [feature for feature in of if key in feature.value_columns]
    if len(hits) > 1:
        raise RuleError(
            f"the rule '{rule}' says '{key}', which is a level of '{hits[0].name}' and one of '{hits[1].name}'.",
            hint="rename one of the columns.",
        )
    if not of:
        return None
    if not hits:
        feature = max(of, key=lambda f: len(f.name))
        raise RuleError(
            f"the rule '{rule}' names the level '{key.removeprefix(feature.name + '=')}', which is not one "
            f"of the levels {list(feature.levels)} of '{feature.name}'.",
            hint="levels are written as in the schema.",
        )
    f = schema.index(hits[0].name)
    return f, schema.slices[f].start + hits[0].value_columns.index(key)


def _finite(value: object, what: str) -> float:
    number = as_float(value)
    if not math.isfinite(number):
        raise RuleError(f"the {what} of a Linear rule is {shown(value)}.", hint="use finite numbers.")
    return number
