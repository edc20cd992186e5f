"""What follows from what: structural equations with additive noise, as a rule that consequences keep.

Equation("amount", intercept=2000.0, coefficients={"age": 10.0, "status=2": -300.0})
StructuralEquations([...], acts=["amount"])             given
StructuralEquations.fit(people, schema, {"amount": ["status", "age"], "duration": ["amount"]})      estimated
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import torch

from turnabout.documents import shown
from turnabout.errors import RuleError
from turnabout.rules.equations_bound import BoundEquations
from turnabout.rules.equations_fit import estimate
from turnabout.rules.rule import BoundRule, Rule
from turnabout.schema import Schema
from turnabout.typing import Json, Tensor, as_float, as_tuple

if TYPE_CHECKING:
    import pandas as pd

Function = Callable[[Mapping[str, Tensor]], Tensor]
C = TypeVar("C")
ROUNDING = 1e-8  # share of the largest variance by which the least may come out negative


@dataclass(frozen=True)
class Equation:
    """How one feature comes about: a sum over its parents, and noise of the person's own.

        value = intercept + sum_p coefficients_p * value_p + u                                          (1)
        value = function({p: value_p}) + u                                                              (2)

    Values are in the person's units: numbers as they are, an ordinal by the position of its level (0 lowest), a binary
    0 or 1, a level of a category addressed as "housing=own" 0 or 1. Nothing is assumed of u, which is read off the
    person's own row.

    Parameters
    ----------
    target : the feature that comes about so; a number, an ordinal or a binary.
    intercept, coefficients : of (1). The intercept cancels whenever a person is compared with their own row.
    noise_sd : standard deviation of u, where known; for the reader, nothing is computed with it.
    covariance : of (intercept, *coefficients), where these are estimates; None where they are taken as known.
    function, parents : in place of coefficients, (2): a function of tensors, by name, to a tensor, written with torch
        so that searches can follow its slope. Such an equation is taken as known and cannot be written to a file.
    """

    target: str
    intercept: float = 0.0
    coefficients: Mapping[str, float] = field(default_factory=dict, hash=False)
    noise_sd: float | None = None
    covariance: tuple[tuple[float, ...], ...] | None = None
    function: Function | None = None
    parents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.target, str) or not self.target:
            raise RuleError(f"an equation has the target {self.target!r}.", hint="name the feature it explains.")
        if not isinstance(self.coefficients, Mapping):
            raise self._wrong(f"coefficients={self.coefficients!r}", 'write {"age": 10.0}: parents to numbers.')
        weights = {str(name): self._number(v, f"coefficient of '{name}'") for name, v in self.coefficients.items()}
        object.__setattr__(self, "coefficients", weights)
        object.__setattr__(self, "intercept", self._number(self.intercept, "intercept"))
        if self.noise_sd is not None:
            if self._number(self.noise_sd, "noise_sd") < 0:
                raise self._wrong(f"the noise_sd {self.noise_sd!r}", "a standard deviation is not negative.")
            object.__setattr__(self, "noise_sd", self._number(self.noise_sd, "noise_sd"))
        parents = _names(self.parents)
        fits = (bool(parents) and not weights) if self.function is not None else parents in ((), tuple(weights))
        if not fits:
            raise self._wrong(
                f"function={self.function!r}, parents={parents} and {len(weights)} coefficients",
                "give coefficients alone, or function and parents together.",
            )
        object.__setattr__(self, "parents", tuple(weights) if self.function is None else parents)
        if self.covariance is not None:
            object.__setattr__(self, "covariance", self._square(self.covariance))

    def _wrong(self, what: str, hint: str) -> RuleError:
        return RuleError(f"the equation of '{self.target}' has {what}.", hint=hint)

    def _number(self, value: object, what: str) -> float:
        number = as_float(value)
        if not math.isfinite(number):
            raise self._wrong(f"the {what} {shown(value)}", "use finite numbers.")
        return number

    def _square(self, rows: Any) -> tuple[tuple[float, ...], ...]:
        size = 1 + len(self.coefficients)
        try:
            table = np.asarray(rows, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise self._wrong("a covariance that is no table of numbers", f"it is {size} x {size}.") from None
        if self.function is not None or table.shape != (size, size) or not np.allclose(table, table.T):
            raise self._wrong(
                f"a covariance of shape {table.shape}",
                f"it is a symmetric table of the intercept and the {size - 1} coefficients, {size} x {size}.",
            )
        variance = np.linalg.eigvalsh(table) if np.isfinite(table).all() else np.array([np.nan])
        if not variance.min() >= -ROUNDING * abs(variance).max():
            raise self._wrong(
                "a covariance that is not positive semidefinite",
                "no coefficients vary so: some sum of them would have a negative variance.",
            )
        return tuple(tuple(map(float, row)) for row in table)

    def to_dict(self) -> Json:
        if self.function is not None:
            raise self._wrong("a function, which cannot be written to a file", "use coefficients, or pickle.")
        out: Json = {"target": self.target, "intercept": self.intercept, "coefficients": dict(self.coefficients)}
        if self.noise_sd is not None:
            out["noise_sd"] = self.noise_sd
        if self.covariance is not None:
            out["covariance"] = [list(row) for row in self.covariance]
        return out


@dataclass(frozen=True, repr=False)
class StructuralEquations(Rule):
    """A plan's consequences follow: what has an equation keeps its noise and moves with its parents.

        new value = own value + f(new parents) - f(own parents)                                         (1)

    which is abduction (u = own value - f(own parents)), action and prediction in one line, taken in topological order.
    The value of (1) is rounded to the feature's grid: the printed row is what is judged, and a child follows what is
    printed of its parents. A row breaks the rule when a value lies more than half a step from that. The bounds of a
    number, `low` and `high`, limit what a person may choose; a consequence may leave them. Where it must not, say so by
    a rule, such as Linear({"ltv": 1.0}, "<=", 0.9). Levels that are not there cannot be reached: an ordinal or a binary
    stops at its first and last. What has no parent that moves stays exactly as it was.

    Features without an equation are free, as the schema lets them. So are those named in `acts`: setting one is an
    intervention that cuts it from its parents, and leaving one as it was while its parents move is an intervention too
    (holding it). All others must follow. The schema must let them: `moves` says what is possible, so a consequence
    needs moves="free" (a plan whose consequence would go against "up" or "down" is not allowed; with "fixed" the rule
    is refused, and so it is for a fixed feature in `acts` whose parents may move: nobody can hold it). To price what a
    person does, and not what follows from it, use `price`.

    A missing cell stays missing and explains no change. Where a target is missing, or a parent of its `function`, its
    other parents may not move, because nobody can tell what would follow; unless the rule is `waivable()`.

    Parameters
    ----------
    equations : one for each feature that has one; they may not run in a circle.
    acts : features with an equation that a person may nevertheless set.

    References
    ----------
    Pearl (2009), Causality; Karimi, Schölkopf, Valera (2021), Algorithmic recourse: from counterfactual explanations to
    interventions.
    """

    kind: ClassVar[str] = "causal"
    equations: tuple[Equation, ...]
    acts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (equations := as_tuple(self.equations)) is None:
            raise RuleError(f"equations={shown(self.equations)} is no list.", hint="write [Equation(...), ...].")
        object.__setattr__(self, "equations", equations)
        object.__setattr__(self, "acts", _names(self.acts))
        for equation in self.equations:
            if not isinstance(equation, Equation):
                raise RuleError(f"{equation!r} is not an Equation.", hint='write Equation("amount", 0, {"age": 10.0}).')
        targets = [equation.target for equation in self.equations]
        if twice := [name for i, name in enumerate(targets) if name in targets[:i]]:
            raise RuleError(f"there are two equations of '{twice[0]}'.", hint="join them into one.")
        _ = self.ordered  # refuses circles

    @property
    def ordered(self) -> tuple[Equation, ...]:
        """The equations, parents before children."""
        left, out = list(self.equations), list[Equation]()
        while left:
            waiting = {equation.target for equation in left}
            ready = [equation for equation in left if not waiting & set(equation.parents)]
            if not ready:
                raise RuleError(
                    f"the equations run in a circle: {_circle(left)}.",
                    hint="what follows from a feature cannot cause it.",
                )
            out += ready
            left = [equation for equation in left if equation not in ready]
        return tuple(out)

    @property
    def followers(self) -> tuple[str, ...]:
        """Features that must follow: with an equation, and not in acts."""
        return tuple(equation.target for equation in self.equations if equation.target not in self.acts)

    @property
    def derived(self) -> tuple[str, ...]:
        return self.followers

    def bind(self, schema: Schema) -> BoundEquations:
        return BoundEquations(schema.with_derived(self.derived), self.ordered, self.acts, str(self))

    def price(self, cost: C) -> C:
        """The cost of acts alone: `costs.Weighted` with weight 0 on what must follow, 1 elsewhere.

        A feature in `acts` is priced however it came to move: a cost cannot see whether it was set or followed.
        """
        kinds = getattr(cost, "KINDS", {})
        if "Weighted" not in kinds:
            raise RuleError(f"{cost!r} is not a cost.", hint="write equations.price(costs.L1()).")
        priced: C = kinds["Weighted"](
            dict.fromkeys(self.followers, 0.0), cost
        )  # actions and costs do not import each other
        return priced

    def draw(self, seed: int, n: int) -> dict[str, Tensor]:
        """n draws of each equation's (intercept, *coefficients) from its Gaussian: target -> (n, 1 + parents).

        Estimated equations are drawn independently of each other, as least squares has it; known ones repeat.
        """
        for name, value, least in (("seed", seed, 0), ("n", n, 1)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise RuleError(f"{name}={value!r} is not a whole number from {least} up.", hint=f"use {name}={least}.")
        out = {}
        for k, equation in enumerate(self.ordered):
            if equation.function is not None:
                continue
            mean = np.array([equation.intercept, *equation.coefficients.values()])
            draws = np.tile(mean, (n, 1))
            if equation.covariance is not None:
                variance, axes = np.linalg.eigh(np.array(equation.covariance))
                normal = np.random.default_rng([seed, k]).standard_normal((n, len(mean)))
                draws += normal * np.sqrt(variance.clip(min=0)) @ axes.T
            out[equation.target] = torch.from_numpy(draws)
        return out

    @classmethod
    def fit(
        cls, people: pd.DataFrame, schema: Schema, graph: Mapping[str, Sequence[str]], acts: Sequence[str] = ()
    ) -> StructuralEquations:
        """Least squares for every target of a graph {target: parents}, in units; the graph itself is taken as known.

        A category counts by its levels, the first being the one others are compared with. People with a missing cell
        among target and parents are left out. The covariance s² (X'X)⁻¹ is kept with each equation, for `draw`.
        """
        if not isinstance(graph, Mapping):
            raise RuleError(f"graph={graph!r} names no parents.", hint='write {"amount": ["age"]}: target to parents.')
        x = schema.encode(people)
        equations = (Equation(**estimate(x, schema, name, _names(parents))) for name, parents in graph.items())
        return cls(tuple(equations), _names(acts))

    def __str__(self) -> str:
        return "; ".join(f"{e.target} follows {', '.join(e.parents) or 'nothing'}" for e in self.equations) or (
            "nothing follows"
        )

    def to_dict(self) -> Json:
        out: Json = {"rule": self.kind, "equations": [equation.to_dict() for equation in self.equations]}
        return out | ({"acts": list(self.acts)} if self.acts else {})

    @classmethod
    def _read(cls, spec: Json) -> StructuralEquations:
        if unknown := sorted(set(spec) - {"equations", "acts"}):
            raise TypeError(f"unknown {unknown}")
        return cls(tuple(Equation(**entry) for entry in spec["equations"]), _names(spec.get("acts", ())))


def equations_of(rules: Iterable[BoundRule]) -> tuple[BoundEquations, ...]:
    """Those of some rules that are structural equations."""
    return tuple(rule for rule in rules if isinstance(rule, BoundEquations))


def _names(names: object) -> tuple[str, ...]:
    """Features by name; a single one may come without a list."""
    if isinstance(names, str):
        return (names,)
    listed = as_tuple(names)
    if listed is None or not all(isinstance(name, str) for name in listed):
        raise RuleError(f"{shown(names)} does not list features.", hint='write ["amount", "age"], or [] for none.')
    return listed


def _circle(left: Sequence[Equation]) -> str:
    """One circle among equations that all wait for another: 'a -> b -> a'."""
    by_name = {equation.target: equation for equation in left}
    path = [left[0].target]
    while path[-1] not in path[:-1]:
        path.append(next(name for name in by_name[path[-1]].parents if name in by_name))
    return " -> ".join(path[path.index(path[-1]) :][::-1])
