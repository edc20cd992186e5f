"""Inequalities between the changes of several features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch

from turnabout.errors import RuleError
from turnabout.rules.regions.around import MOST_CORNERS, Around, beyond, slack
from turnabout.rules.regions.box import reach_in_words
from turnabout.rules.regions.region import BoundRegion, Region, encoded_reach, named, read_number, read_reach
from turnabout.rules.regions.vertices import Vertices, nearest_points, solve_programs
from turnabout.schema import Scalar, Schema
from turnabout.stdout import stdout_for_data
from turnabout.typing import Tensor

Row = tuple[Mapping[str, float], float]


@dataclass(frozen=True, repr=False)
class Polytope(Region):
    """The changes delta = new - old, in units, that satisfy inequalities.

        sum_f  a_f delta_f  +  b  >=  0        for each row (a, b)                                              (1)

    Numbers, ordinals and binaries only. What a row or `reach` names may move; other features do not.

    Parameters
    ----------
    rows : pairs of coefficients by feature name, and b. No change at all must be allowed: b is 0 or more.
    reach : in addition, the most each feature may change, as in Box; as far as the schema lets where not named.
    """

    kind: ClassVar[str] = "polytope"
    rows: Sequence[Row] = field(hash=False)
    reach: Mapping[str, float] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", _read_rows(self.rows))
        object.__setattr__(self, "reach", read_reach(self.reach, "Polytope"))
        for i, (_, b) in enumerate(self.rows, start=1):
            if b < 0:
                if _is_empty(self.rows, self.reach):
                    raise RuleError(
                        f"no change satisfies the region '{self}': it has no point at all.",
                        hint="check the signs: a row (a, b) says that the sum of a_f * change_f, plus b, is 0 or more.",
                    )
                raise RuleError(
                    f"Delta does not contain 0: row {i}, '{_in_words(self.rows[i - 1])}', forbids to change nothing.",
                    hint="b must be 0 or more in every row; demands on the new row itself are Linear rules.",
                )

    def bind(self, schema: Schema) -> BoundPolytope:
        reach = encoded_reach(schema, self.reach or {}, str(self), scalars_only=True)
        a = torch.zeros(len(self.rows), schema.d, dtype=torch.float64)
        for row, (coefficients, _) in zip(a, self.rows, strict=True):
            for f, value in named(schema, coefficients, str(self), scalars_only=True):
                feature, column = schema.features[f], schema.slices[f].start
                assert isinstance(feature, Scalar)
                row[column] = value * feature.span
                if feature.name not in (self.reach or {}):
                    reach[column] = torch.inf
        b = torch.tensor([b for _, b in self.rows], dtype=torch.float64)
        return BoundPolytope(schema, str(self), reach, a, b)

    def __str__(self) -> str:
        box = "" if self.reach is None else f"{reach_in_words(self.reach)}; "
        return box + "; ".join(map(_in_words, self.rows))


class BoundPolytope(BoundRegion):
    """A polytope over encoded people: a @ delta + b >= 0, the rows a (m, d) of length 1 over the columns that move."""

    undoing_keeps = False  # "at least" may need two changes together

    def __init__(self, schema: Schema, name: str, reach: Tensor, a: Tensor, b: Tensor):
        super().__init__(schema, name, reach)
        length = a[:, self.grid.columns].norm(dim=1)
        length = torch.where(length > 0, length, torch.ones_like(length))
        self.a, self.b = a / length.unsqueeze(1), b / length
        self.vertices = Vertices.of(self.a[:, self.grid.columns])

    def around(self, x: Tensor) -> AroundPolytope:
        a = self.a[:, self.grid.columns].to(device=x.device, dtype=x.dtype)
        return AroundPolytope(*self._frame(x), a, self.b.to(device=x.device, dtype=x.dtype), self.vertices)

    def _rows(self) -> tuple[Tensor, Tensor]:
        a = torch.zeros_like(self.a)
        a[:, self.grid.columns] = -self.a[:, self.grid.columns]
        return a, self.b


@dataclass(frozen=True)
class AroundPolytope(Around):
    """A polytope within the limits of people: a (m, s) over the scalars, b (m,); vertices None where too many."""

    a: Tensor
    b: Tensor
    vertices: Vertices | None

    def steepest(self, slope: Tensor) -> Tensor:
        """The best vertex, or the answer of a linear program; columns of slope 0 stay where the region lets them."""
        slope, lo, hi = torch.broadcast_tensors(slope, self.lo, self.hi)
        shape = slope.shape
        columns, s = self.scalar, len(self.scalar)
        if not s:
            return torch.zeros_like(lo)
        steep, low, high = (t[..., columns].reshape(-1, s).to(torch.float64) for t in (slope, lo, hi))
        a, b = self.a.to(torch.float64), self.b.to(torch.float64)
        if self.vertices is None:
            best = solve_programs(steep, low, high, a, b)
        else:
            best = self.vertices.best(steep, low, high, a, b, self._noise())
        still = torch.where(steep == 0, torch.zeros_like(best), best)
        kept = ((still @ a.T + b) >= -1e-12).all(-1, keepdim=True)
        out = torch.zeros_like(lo)
        out[..., columns] = torch.where(kept, still, best).to(lo.dtype).reshape(*shape[:-1], s)
        return out

    def project(self, delta: Tensor) -> Tensor:
        """Exact, but one person after another where the box does not suffice."""
        out = super().project(delta)
        short = self._shortfall(out) > 0
        if not bool(short.any()):
            return out
        y, lo, hi = (t.expand_as(out)[short][:, self.scalar].to(torch.float64) for t in (delta, self.lo, self.hi))
        part = torch.zeros_like(out[short])
        part[:, self.scalar] = nearest_points(y, lo, hi, self.a.to(torch.float64), self.b.to(torch.float64)).to(
            out.dtype
        )
        out[short] = part
        return out

    def outside(self, delta: Tensor) -> Tensor:
        return torch.maximum(super().outside(delta), self._shortfall(delta))

    def corners(self) -> Tensor | None:
        """No change, then the vertices; those of other people's shapes are 0."""
        s = len(self.scalar)
        if not s:
            return torch.zeros_like(self.x).unsqueeze(-2)
        if self.vertices is None or len(self.vertices) + 1 > MOST_CORNERS:
            return None
        lo, hi = (t[..., self.scalar].reshape(-1, s).to(torch.float64) for t in (self.lo, self.hi))
        part = self.vertices.all(lo, hi, self.a.to(torch.float64), self.b.to(torch.float64), self._noise())
        out = self.x.new_zeros(*self.x.shape[:-1], part.shape[1] + 1, self.x.shape[-1])
        out[..., 1:, self.scalar] = part.to(out.dtype).reshape(*self.x.shape[:-1], *part.shape[1:])
        return out

    def _noise(self) -> float:
        """How far outside a vertex may seem to lie."""
        return 1e-9 if self.lo.dtype == torch.float64 else 8 * torch.finfo(self.lo.dtype).eps

    def _shortfall(self, delta: Tensor) -> Tensor:
        """(...) how far back a column must go for the row that is broken most; 0 or less where all are kept."""
        gain = self.a * delta[..., self.scalar].unsqueeze(-2)  # (..., m, s)
        size, price = delta[..., self.scalar].abs().unsqueeze(-2), self.a.abs()
        room = self.b + gain.clamp(min=0).sum(-1)
        excess = (-gain).clamp(min=0).sum(-1) - room - slack(room, size, price)
        return beyond(excess, torch.where(gain < 0, size, torch.zeros_like(size)), price).amax(-1)


# -- reading ------------------------------------------------------------------------------------------------------


def _read_rows(rows: object) -> tuple[Row, ...]:
    hint = 'write rows as [({"hours": -1.0, "education": -4.0}, 12.0)], coefficients and b.'
    if isinstance(rows, (str, Mapping)) or not isinstance(rows, Sequence) or not rows:
        raise RuleError(f"Polytope has rows={rows!r}.", hint=hint)
    out: list[Row] = []
    for i, row in enumerate(rows, start=1):
        if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 2:
            raise RuleError(f"row {i} of a Polytope is {row!r}.", hint=hint)
        a, b = row
        if not isinstance(a, Mapping) or not a:
            raise RuleError(f"row {i} of a Polytope has the coefficients {a!r}.", hint=hint)
        kind = f"row {i} of a Polytope"
        numbers = {
            str(k): read_number(v, f"the coefficient of '{k}' in {kind}", "use finite numbers.", least=-np.inf)
            for k, v in a.items()
        }
        if not any(numbers.values()):
            raise RuleError(f"all coefficients of {kind} are zero.", hint="give at least one that is not.")
        out.append((numbers, read_number(b, f"b of {kind}", "use a finite number, 0 or more.", least=-np.inf)))
    return tuple(out)


@stdout_for_data()
def _is_empty(rows: Sequence[Row], reach: Mapping[str, float] | None) -> bool:
    from scipy.optimize import linprog

    names = list(dict.fromkeys(name for a, _ in rows for name in a))
    matrix = np.array([[-a.get(name, 0.0) for name in names] for a, _ in rows])
    far = [(reach or {}).get(name) for name in names]
    limits = [(None, None) if r is None else (-r, r) for r in far]
    found = linprog(np.zeros(len(names)), A_ub=matrix, b_ub=[b for _, b in rows], bounds=limits)
    return bool(found.status == 2)


def _in_words(row: Row) -> str:
    a, b = row
    text = ""
    for name, c in a.items():
        size = f"change of {name}" if abs(c) == 1 else f"{abs(c):.6g} x change of {name}"
        text += (" - " if text else "-") + size if c < 0 else (" + " if text else "") + size
    return f"{text} >= {-b + 0.0:.6g}"
