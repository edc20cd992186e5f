"""Costs as declared (Cost), as bound to a schema (BoundCost), and the algebra that joins them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import ClassVar

import numpy as np
import torch

from turnabout.documents import reads, shown, write
from turnabout.errors import ProblemError
from turnabout.schema import Derived, Schema
from turnabout.typing import Json, Tensor, as_float, as_tuple, is_number

CHANGED = 1e-12  # a feature has changed when its encoded distance is larger; as Schema.changed


def like(tensor: Tensor, x: Tensor) -> Tensor:
    """The tensor on the device and in the precision of x."""
    return tensor.to(device=x.device, dtype=x.dtype)


@dataclass(frozen=True)
class CostContext:
    """What a cost may look at when it is bound: the schema and, where given, the encoded background."""

    schema: Schema
    background_x: Tensor | None

    def background(self, needed_by: str) -> Tensor:
        """(m, d) background people; refuses to go on without them."""
        if self.background_x is None or self.background_x.shape[0] == 0:
            raise ProblemError(
                f"the cost {needed_by} measures changes against other people, and the problem has no background.",
                hint="pass Problem(..., background=people), a table of typical people, or use costs.L1().",
            )
        return self.background_x.detach().to(device="cpu", dtype=torch.float64)

    def present(self, f: int, background: Tensor) -> Tensor:
        """(m,) True where feature f of a background person is not missing."""
        if not self.schema.features[f].missing:
            return torch.ones(background.shape[0], dtype=torch.bool)
        return background[:, self.schema.slices[f].stop - 1] < 0.5

    def weights(self, by_name: Mapping[str, float], what: str) -> Tensor:
        """(F,) weights, 1 for features that are not named; refuses names the schema does not have."""
        names = self.schema.names
        for name in by_name:
            if name not in names:
                raise ProblemError(
                    f"{what} names the feature '{name}', which is not one of {list(names)}.",
                    hint="use the feature names of the schema, not those of encoded columns.",
                )
        return torch.tensor([float(by_name.get(name, 1.0)) for name in names], dtype=torch.float64)


class CostTerm(ABC):
    """One bound part of a cost. `linear` and `fixed` are (F,) weights, None where the term has no such form."""

    separable: bool = True
    linear: Tensor | None = None
    fixed: Tensor | None = None

    @abstractmethod
    def per_feature(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(..., d), (..., d) -> (..., F)."""

    def __call__(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(..., d), (..., d) -> (...)."""
        return self.per_feature(x, x_new).sum(-1)


@dataclass(frozen=True, repr=False)
class BoundCost:
    """A cost that knows its schema: (x, x_new) -> (n,), the sum of its terms.

    Leading dimensions broadcast: x (n, 1, d) with x_new (n, k, d) gives (n, k). Differentiable almost
    everywhere in x_new, with gradient 0 where a feature has not changed.
    """

    made_by: str
    names: tuple[str, ...]
    terms: tuple[CostTerm, ...]

    def __call__(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(..., d), (..., d) -> (...)."""
        total = self.terms[0](x, x_new)
        for term in self.terms[1:]:
            total = total + term(x, x_new)
        return total

    def per_feature(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(..., d), (..., d) -> (..., F): what each feature contributes; sums to the cost if separable."""
        total = self.terms[0].per_feature(x, x_new)
        for term in self.terms[1:]:
            total = total + term.per_feature(x, x_new)
        return total

    @property
    def separable(self) -> bool:
        """Whether the cost is the sum of per_feature."""
        return all(term.separable for term in self.terms)

    @property
    def linear_weights(self) -> Tensor | None:
        """w (F,) when the cost is sum_f w_f * distance_f + u_f * [f changed], with u = fixed_weights; else None."""
        if any(term.linear is None for term in self.terms):
            return None
        return torch.stack([term.linear for term in self.terms if term.linear is not None]).sum(0)

    @property
    def fixed_weights(self) -> Tensor | None:
        """u (F,) of the same form; zero when the cost counts no changes; None when it is not of this form."""
        if any(term.fixed is None for term in self.terms):
            return None
        return torch.stack([term.fixed for term in self.terms if term.fixed is not None]).sum(0)

    def __repr__(self) -> str:
        return self.made_by


@dataclass(frozen=True, repr=False)
class Cost(ABC):
    """What a change costs, declared without a schema; `bind` gives the function.

    Costs add and scale: `L1() + 0.1 * L0()`. Every distance is of one feature, in [0, 1] inside its bounds:
    |dx| for numbers, ordinals and binaries, 1 for any switch of a category.
    """

    KINDS: ClassVar[dict[str, type[Cost]]] = {}

    def __init_subclass__(cls) -> None:
        if not cls.__name__.startswith("_"):
            Cost.KINDS[cls.__name__] = cls

    def bind(self, schema: Schema, background_x: Tensor | None = None) -> BoundCost:
        """The cost over encoded people of this schema; background_x (m, d) is needed by MAD and PercentileShift."""
        free = [not isinstance(feature, Derived) for feature in schema.features]  # what follows costs nothing
        weights = torch.tensor(free, dtype=torch.float64)
        return BoundCost(repr(self), schema.names, self._terms(CostContext(schema, background_x), weights))

    @abstractmethod
    def _terms(self, ground: CostContext, weights: Tensor) -> tuple[CostTerm, ...]:
        """Bound terms, every feature's share multiplied by weights (F,)."""

    def __add__(self, other: Cost) -> Cost:
        if not isinstance(other, Cost):
            return NotImplemented
        return Sum(_summands(self) + _summands(other))

    def __radd__(self, other: object) -> Cost:
        return self if other == 0 else NotImplemented  # so that sum([...]) works

    def __mul__(self, factor: float) -> Cost:
        if isinstance(factor, bool) or not isinstance(factor, (int, float, np.number)):
            return NotImplemented
        return Scaled(as_float(factor), self)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        shown = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != default(f))
        return f"{type(self).__name__}({', '.join(shown)})"

    def to_dict(self) -> Json:
        """Plain values that `from_dict` turns back into this cost."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != default(f)}
        return {"kind": type(self).__name__} | {name: write(value) for name, value in given.items()}


@reads("the cost", ProblemError, "compare with to_dict() of such a cost.")
def from_dict(spec: Json) -> Cost:
    """A cost from what `to_dict` wrote: {"kind": "L1", "difficulty": {"age": 5.0}}."""
    if not isinstance(spec, Mapping) or spec.get("kind") not in Cost.KINDS:
        raise ProblemError(
            f"{shown(spec)} does not describe a cost.", hint=f"give a mapping with 'kind' one of {sorted(Cost.KINDS)}."
        )
    cls = Cost.KINDS[spec["kind"]]
    given = {name: _read(value) for name, value in spec.items() if name != "kind"}
    known = [f.name for f in fields(cls)]
    for name in given:
        if name not in known:
            raise ProblemError(f"the cost {cls.__name__} has no parameter '{name}'.", hint=f"it takes {known}.")
    missing = [f.name for f in fields(cls) if f.name not in given and default(f) is MISSING]
    if missing:
        raise ProblemError(f"the cost {cls.__name__} lacks {missing}.", hint="write every parameter without a default.")
    return cls(**given)


@dataclass(frozen=True, repr=False)
class Sum(Cost):
    """The sum of several costs; written `a + b`."""

    terms: tuple[Cost, ...]

    def __post_init__(self) -> None:
        terms = as_tuple(self.terms)
        if not terms or not all(isinstance(term, Cost) for term in terms):
            raise ProblemError(f"a sum of costs cannot be made of {shown(self.terms)}.", hint="give one or more costs.")
        object.__setattr__(self, "terms", terms)

    def _terms(self, ground: CostContext, weights: Tensor) -> tuple[CostTerm, ...]:
        return tuple(bound for term in self.terms for bound in term._terms(ground, weights))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))


@dataclass(frozen=True, repr=False)
class Scaled(Cost):
    """A cost times a number that is not negative; written `0.1 * cost`."""

    factor: float
    cost: Cost

    def __post_init__(self) -> None:
        if not is_number(self.factor) or self.factor < 0:
            raise ProblemError(
                f"a cost cannot be multiplied by {shown(self.factor)}.", hint="use a finite factor of 0 or more."
            )
        if not isinstance(self.cost, Cost):
            raise ProblemError(f"{shown(self.cost)} is not a cost.", hint="write Scaled(0.1, L1()), or 0.1 * L1().")
        object.__setattr__(self, "factor", float(self.factor))

    def _terms(self, ground: CostContext, weights: Tensor) -> tuple[CostTerm, ...]:
        return self.cost._terms(ground, self.factor * weights)

    def __repr__(self) -> str:
        inner = f"({self.cost!r})" if isinstance(self.cost, Sum) else repr(self.cost)
        return f"{self.factor:g} * {inner}"


@dataclass(frozen=True, repr=False)
class _Leaf(Cost):
    """A cost that stands on its own, with a difficulty for each feature."""

    difficulty: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "difficulty", check_weights(self.difficulty, "difficulty"))

    def _terms(self, ground: CostContext, weights: Tensor) -> tuple[CostTerm, ...]:
        return (self._term(ground, weights * ground.weights(self.difficulty, "difficulty")),)

    @abstractmethod
    def _term(self, ground: CostContext, weights: Tensor) -> CostTerm:
        """The bound term, with difficulties and outer factors in weights (F,)."""


def check_weights(by_name: object, what: str) -> dict[str, float]:
    """Weights as a plain dict of floats, each finite and not negative."""
    if not isinstance(by_name, Mapping):
        raise ProblemError(
            f"{what} is {by_name!r}, not a mapping.", hint=f'write {what}={{"age": 5.0}}, feature names to numbers.'
        )
    out: dict[str, float] = {}
    for name, value in by_name.items():
        number = as_float(value)
        if number == math.inf:
            raise ProblemError(
                f"{what} of '{name}' is infinite.", hint="a feature that may not change is declared with moves='fixed'."
            )
        if not number >= 0:
            raise ProblemError(
                f"{what} of '{name}' is {value!r}.", hint="use a number of 0 or more; 1 leaves the cost as it is."
            )
        out[str(name)] = number
    return out


def default(f: object) -> object:
    """Default of a dataclass field, MISSING where it has none."""
    factory = getattr(f, "default_factory", MISSING)
    return factory() if factory is not MISSING else getattr(f, "default", MISSING)


def _summands(cost: Cost) -> tuple[Cost, ...]:
    return cost.terms if isinstance(cost, Sum) else (cost,)


def _read(value: object) -> object:
    if isinstance(value, Mapping):
        return from_dict(dict(value)) if "kind" in value and not _is_number(value["kind"]) else dict(value)
    return tuple(map(_read, value)) if isinstance(value, list) else value


def _is_number(value: object) -> bool:  # a feature may be called "kind"; its weight is then a number
    return isinstance(value, (int, float))
