"""Explanations as maps: what is asked of them, recourse as one, and promises that are kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import torch

from turnabout.core import Method
from turnabout.errors import AuditError
from turnabout.parameters import Instance, Whole, checked
from turnabout.typing import Tensor


@runtime_checkable
class HasMargin(Protocol):
    """Anything with margins: a `turnabout` model."""

    def margin(self, x: Tensor) -> Tensor: ...


Margins = Callable[[Tensor], Tensor]
Decider: TypeAlias = HasMargin | Margins
"""Who decides: a model, or margins of points (n, d) -> (n,); non-negative is a yes."""

AttributionMap = Callable[[Tensor], Tensor | tuple[Tensor, Tensor] | list[Tensor]]
"""Points (n, d) -> directions (n, d); or k options each, (n, k, d), or a list of n sets (k_i, d) of options; or a pair
of directions with their standard errors."""


def asking(model: Decider) -> Margins:
    """Margins of points (..., d) -> (...), without gradient; NaN is refused."""
    margin = model.margin if isinstance(model, HasMargin) else model
    if not callable(margin):
        raise AuditError(
            f"{type(model).__name__} has no margin and cannot be called.",
            hint="pass a model of turnabout.models.wrap, or a function from points (n, d) to margins (n,).",
        )

    def ask(x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        if not len(rows):
            return x.new_zeros(x.shape[:-1])
        with torch.no_grad():
            out = torch.as_tensor(margin(rows))
        if out.shape != (len(rows),):
            raise AuditError(
                f"the model answers {len(rows)} points with shape {tuple(out.shape)}.",
                hint="return one margin per point, (n, d) -> (n,).",
            )
        if missing := int(out.isnan().sum()):
            raise AuditError(
                f"the model's margin is NaN at {missing} of {len(rows)} points.",
                hint="ask about points at which it is defined, or give moves bounds that keep people there.",
            )
        return out.to(x.dtype).reshape(x.shape[:-1])

    return ask


def read_points(points: Tensor) -> Tensor:
    """Points as float64 (n, d), refused where they are none."""
    try:
        x = torch.as_tensor(points).detach().to(torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise AuditError("the points are no numbers.", hint="pass encoded rows: schema.encode(people).") from None
    if x.ndim != 2 or not x.shape[1]:
        raise AuditError(f"points have shape {tuple(x.shape)}.", hint="pass encoded rows (n, d).")
    if not bool(torch.isfinite(x).all()):
        row = int((~torch.isfinite(x)).any(1).nonzero()[0])
        raise AuditError(f"point {row} holds NaN or an infinity.", hint="leave it out, or encode it with a schema.")
    return x


@dataclass(frozen=True, eq=False)
class Directions:
    """What a map says at n points.

    Attributes
    ----------
    values : (n, k, d); k is 1 where the map names one direction.
    error : standard errors of the same shape, or None.
    is_set : whether the map names several options.
    """

    values: Tensor
    error: Tensor | None
    is_set: bool

    def size(self) -> Tensor:
        """(n,) length of the longest member."""
        return self.values.norm(dim=2).amax(1)


def ask_map(phi: AttributionMap, x: Tensor) -> Directions:
    """What phi says at x (n, d), checked."""
    if not callable(phi):
        raise AuditError(
            f"phi is a {type(phi).__name__}, not a map.", hint="pass a function from points (n, d) to directions."
        )
    said = phi(x)
    values, error = said if isinstance(said, tuple) and len(said) == 2 else (said, None)
    values = _shaped(values, x, "phi")
    spread = None if error is None else _shaped(error, x, "the standard error of phi")
    if spread is not None and (spread.shape != values.shape or (spread < 0).any()):
        raise AuditError("the standard errors do not fit phi.", hint="return one non-negative error per number of phi.")
    is_set = values.ndim == 3
    wide = values if is_set else values.unsqueeze(1)
    return Directions(wide, spread if spread is None or is_set else spread.unsqueeze(1), is_set)


def _shaped(said: object, x: Tensor, what: str) -> Tensor:
    try:
        out = torch.as_tensor(_stacked(said, x) if isinstance(said, list) else said).detach().to(torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise AuditError(f"{what} answers with {type(said).__name__}.", hint="return a tensor (n, d).") from None
    n, d = x.shape
    one, many = out.shape == (n, d), out.ndim == 3 and (out.shape[0], out.shape[2]) == (n, d) and out.shape[1] > 0
    if not one and not many:
        raise AuditError(
            f"{what} answers {n} points of {d} columns with shape {tuple(out.shape)}.",
            hint="return (n, d), or (n, k, d) for k options each.",
        )
    if not bool(torch.isfinite(out).all()):
        row = int((~torch.isfinite(out)).reshape(n, -1).any(1).nonzero()[0])
        raise AuditError(
            f"{what} is NaN or infinite at point {row}.", hint="return 0 where there is no direction to name."
        )
    return out


def _stacked(sets: list[Tensor], x: Tensor) -> Tensor:
    """A list of n sets (k_i, d) as (n, k, d): the first member is repeated, and 0 stands for an empty set."""
    rows = [torch.as_tensor(row).reshape(-1, x.shape[1]) for row in sets]
    k = max([1, *(len(row) for row in rows)])
    rows = [row if len(row) else torch.zeros_like(x[:1]) for row in rows]
    return torch.stack([torch.cat([row, row[:1].expand(k - len(row), -1)]) for row in rows])


@checked(AuditError, method=Instance(Method, hint="pass a fitted method."), options=Whole(1))
def counterfactual_map(method: Method, options: int = 1, seed: int = 0) -> AttributionMap:
    """The recourse of a fitted method as a map: x_new - x of the first option, 0 where there is none.

    Points are decoded, so that the method sees people as they would be printed; between two printable values the map is
    a staircase, and its jumps there are those of the table, not of the method. With more options it is set-valued, and
    a person with fewer has their first one repeated.
    """
    if not hasattr(method, "problem_"):
        raise AuditError(f"{type(method).__name__} has not seen a problem yet.", hint="call fit(problem) first.")

    def phi(x: Tensor) -> Tensor:
        schema = method.problem_.schema
        out = torch.zeros(len(x), options, x.shape[1], dtype=torch.float64)
        if not len(x):
            return out if options > 1 else out[:, 0]
        answer = method.find(schema.decode(x), options=options, seed=seed)  # decoded people are labelled 0 to n - 1
        if len(answer.options):
            who, which = (torch.as_tensor(answer.options.index.get_level_values(i).to_numpy().copy()) for i in (0, 1))
            change = schema.encode(answer.options) - x[who]
            out[who[which == 0]] = change[which == 0].unsqueeze(1)
            out[who, which] = change
        return out if options > 1 else out[:, 0]

    return phi


class Sticky:
    """Recommendations that are kept: each person's first one is a promise, and later ones lead to the same place.

        first time:  y_key = x + phi(x);    ever after:  y_key - x                                              (1)

    For one person the map x -> y_key - x is continuous whatever phi is: a way out of the impossibility that costs the
    lender a promise. It is recourse sensitive for as long as y_key stays accepted and within reach.

    Parameters
    ----------
    phi : a map that names one direction whose end is meant literally, such as `counterfactual_map`.
    """

    def __init__(self, phi: AttributionMap):
        self.phi = phi
        self._promised: dict[Hashable, Tensor] = {}

    def recommend(self, keys: Sequence[Hashable], points: Tensor) -> Tensor:
        """Directions (n, d) for people with these keys, who stand at points (n, d) now.

        People without a direction so far (phi was 0) are asked about again.
        """
        x = read_points(points)
        if len(keys) != len(x) or len(set(keys)) != len(keys):
            raise AuditError(
                f"there are {len(set(keys))} different keys for {len(x)} points.",
                hint="give each person a key.",
            )
        new = [i for i, key in enumerate(keys) if key not in self._promised]
        if new:
            said = ask_map(self.phi, x[new])
            if said.is_set:
                raise AuditError("phi names several options.", hint="a promise is one: choose the member to keep.")
            for i, direction in zip(new, said.values[:, 0], strict=True):
                if bool(direction.any()):
                    self._promised[keys[i]] = x[i] + direction  # (1)
        kept = [self._promised.get(key, x[i]) for i, key in enumerate(keys)]
        return torch.stack(kept) - x if kept else torch.zeros_like(x)

    def of(self, key: Hashable) -> AttributionMap:
        """The map x -> y_key - x of one person, to be audited."""
        if key not in self._promised:
            raise AuditError(f"nothing was promised to {key!r}.", hint="call recommend([key], point) first.")
        place = self._promised[key]
        return lambda x: place - x
