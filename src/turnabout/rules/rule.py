"""Rules as declared (Rule) and as bound to a schema (BoundRule)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import torch

from turnabout.documents import reads, shown, write
from turnabout.errors import RuleError
from turnabout.schema import Feature, Schema
from turnabout.typing import Json, Tensor

if TYPE_CHECKING:
    from turnabout.rules.conditions import BoundCondition

TOLERANCE = 1e-12  # encoded units; violations below it are floating-point noise, all legal steps are above it


@dataclass(frozen=True)
class LinearForm:
    """A rule as inequalities a @ x_new <= b; a (m, d), b (n, m), infinite where a cell is missing: see `unknown`."""

    a: Tensor
    b: Tensor


@dataclass(frozen=True)
class CountForm:
    """One row of a rule over what holds of a change:  sum of weight * [condition holds]  <=  most."""

    terms: tuple[tuple[float, BoundCondition], ...]
    most: float


class Rule(ABC):
    """A constraint on a change that joins columns, declared without a schema. str and repr are its sentence."""

    kind: ClassVar[str]
    KINDS: ClassVar[dict[str, type[Rule]]] = {}

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:  # a family of rules has none of its own, and no file can name it
            Rule.KINDS[cls.kind] = cls

    @abstractmethod
    def bind(self, schema: Schema) -> BoundRule:
        """The rule over encoded people of this schema; refuses names, levels and bounds that cannot be."""

    @property
    def derived(self) -> tuple[str, ...]:
        """Features whose values follow from others by this rule."""
        return ()

    def waivable(self) -> Rule:
        """This rule, waived where a missing cell makes it impossible to check; the answer then says so."""
        return Waivable(self)

    @abstractmethod
    def __str__(self) -> str: ...

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> Json:
        """Plain values that `from_dict` turns back into this rule: its kind, and every field that says something."""
        parts = {field.name: write(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return {"rule": self.kind} | {name: part for name, part in parts.items() if part is not None}

    @classmethod
    def _read(cls, spec: Json) -> Rule:
        """The rule from the entries of to_dict, without "rule"."""
        return cls(**spec)


@dataclass(frozen=True, repr=False)
class Waivable(Rule):
    """A rule that is waived where it cannot be checked; `rule.waivable()` makes one.

    Without it, a plan may not touch what a rule speaks of where a missing cell leaves the rule open. With it, the plan
    is made all the same, and `Recourse.waived` names the rule.
    """

    rule: Rule

    def __post_init__(self) -> None:
        if not isinstance(self.rule, Rule):
            raise RuleError(f"Waivable is given {shown(self.rule)}.", hint="write AtMost(3).waivable().")

    def bind(self, schema: Schema) -> BoundRule:
        bound = self.rule.bind(schema)
        bound.waivable = True
        return bound

    @property
    def derived(self) -> tuple[str, ...]:
        return self.rule.derived

    def waivable(self) -> Rule:
        return self

    def __str__(self) -> str:
        return str(self.rule)

    def to_dict(self) -> Json:
        return self.rule.to_dict() | {"waivable": True}

    @classmethod
    def _read(cls, spec: Json) -> Rule:
        raise TypeError("a waivable rule is written as the rule itself with waivable: true")


def to_dict(rule: Rule) -> Json:
    """A rule as plain values, for YAML and JSON."""
    if not isinstance(rule, Rule):
        raise RuleError(f"{shown(rule)} is not a rule.", hint="pass a rule, such as AtMost(3).")
    return rule.to_dict()


@reads("the rule", RuleError, "compare with rules.to_dict() of such a rule.")
def from_dict(spec: Json) -> Rule:
    """A rule from what `to_dict` wrote: {"rule": "at_most", "k": 3}."""
    if not isinstance(spec, Mapping) or spec.get("rule") not in Rule.KINDS:
        raise RuleError(f"{shown(spec)} does not describe a rule.", hint=f"give 'rule', one of {sorted(Rule.KINDS)}.")
    entries = {key: value for key, value in spec.items() if key not in ("rule", "waivable")}
    waivable = spec.get("waivable", False)
    if not isinstance(waivable, bool):
        raise RuleError(f"a rule has waivable={shown(waivable)}.", hint="use true or false.")
    try:
        rule = Rule.KINDS[spec["rule"]]._read(entries)
        return rule.waivable() if waivable else rule
    except (TypeError, KeyError) as error:
        raise RuleError(
            f"the entries {sorted(map(str, entries))} do not make a rule of kind '{spec['rule']}' ({error}).",
            hint="compare with rules.to_dict() of such a rule.",
        ) from None


class BoundRule(ABC):
    """A rule over encoded people. x and x_new are (n, d), or broadcast over further leading dimensions.

    A rule of your own says how it is violated and repaired. What else it can say of itself has defaults under which
    nothing is assumed: searches then try rows and ask `violation`, and methods that need the rule as rows refuse it.

    waivable : whether a plan may be made although the rule cannot be checked for this person.
    undoing_keeps : whether taking a change back never breaks it, so that the order of changes makes no difference.
    fills : whether it computes by itself what is derived, so that nobody has to do so before it is asked.
    avoided : by feature, the positions of levels that nobody is sent to; a search may leave them out beforehand.
    count_form : all else that the rule says, as rows over what holds of a change; None where it has no such form.
    violation : 0 where the rule is kept, else how far from kept, in encoded units.
    relax : a continuous projection, for use inside a search. Rows that keep the rule come back as they were.
    snap : an exact repair onto legal values. Keeps the rule where the person can by moving the rule's own features.
    """

    def __init__(self, name: str, schema: Schema, features: Iterable[int]):
        self.name = name
        self.schema = schema
        self.features = tuple(features)  # the features the rule speaks of
        self.indicators = [schema.slices[f].stop - 1 for f in self.features if schema.features[f].missing]

    def __repr__(self) -> str:
        return self.name

    waivable: bool = False
    undoing_keeps: ClassVar[bool] = False
    fills: ClassVar[bool] = False
    avoided: Mapping[int, tuple[int, ...]] = MappingProxyType({})
    count_form: tuple[CountForm, ...] | None = None

    def violation(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(..., d), (..., d) -> (...), at least 0; 0 means kept.

        Where a change touches the rule and a missing cell leaves it open, it counts as broken by the size of that
        change, unless it is waivable.
        """
        gap = self._gap(x, x_new)
        silent = self.silent(x)
        kept = torch.where(silent | (gap <= TOLERANCE), torch.zeros_like(gap), gap)
        if self.waivable or not bool(silent.any()):
            return kept
        open_ = self._open(x, x_new, silent)
        return torch.where(open_, self._change(x, x_new).clamp(min=2 * TOLERANCE), kept)

    def unknown(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(...) True where the change touches the rule, and a missing cell leaves open whether it is kept."""
        return self._open(x, x_new, self.silent(x))

    def waived(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(...) True where the rule could not be checked and was waived."""
        unknown = self.unknown(x, x_new)
        return unknown if self.waivable else torch.zeros_like(unknown)

    def relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Continuous projection; the shape of x_new."""
        return self._repair(self._relax, x, x_new, x_new)

    def snap(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Exact repair onto legal values; the shape of x_new. Rows it cannot repair are only snapped."""
        return self._repair(self._snap, x, x_new, self.schema.snap(x, x_new))

    def follow(self, x: Tensor, x_new: Tensor) -> Tensor:
        """x_new with what follows from it in its place, as printed; most rules have no consequences."""
        return x_new

    def linear_form(self, x: Tensor) -> LinearForm | None:
        """The rule as inequalities over x_new for people x (n, d), or None where it has no such form."""
        return None

    def turns_once(self, f: int) -> bool:
        """Whether the rule goes from kept to broken or back at most once as feature f alone moves away on one side."""
        return False

    def silent(self, x: Tensor) -> Tensor:
        """(...) True where a cell the rule speaks of is missing."""
        return (x[..., self.indicators] > 0.5).any(-1)

    def _repair(self, how: Callable[[Tensor, Tensor], Tensor], x: Tensor, x_new: Tensor, start: Tensor) -> Tensor:
        """Rows of start that break the rule, repaired; the others as they are."""
        broken = self.violation(x, start) > 0  # (...)
        if not bool(broken.any()):
            return start
        x = x.expand_as(start)
        out = start.clone()
        silent = self.silent(x)
        judged = broken & ~silent
        out[judged] = how(x[judged], start[judged])
        if bool((broken & silent).any()):
            out[broken & silent] = self._take_back(x[broken & silent], start[broken & silent])
        return out

    def _open(self, x: Tensor, x_new: Tensor, silent: Tensor) -> Tensor:
        """(...) `unknown`, given where a cell is missing: by default where any feature of the rule changes."""
        return silent & (self._change(x, x_new) > TOLERANCE)

    def _change(self, x: Tensor, x_new: Tensor) -> Tensor:
        """(...) how much the features of the rule change, in all."""
        distance: Tensor = self.schema.distance(x, x_new)[..., list(self.features)]
        return distance.sum(-1)

    def _take_back(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Rows (m, d) with the features of the rule as they were."""
        feature_of = self.schema.feature_of.to(x.device)
        mine = torch.isin(feature_of, torch.tensor(self.features, device=x.device, dtype=feature_of.dtype))
        return torch.where(mine, x, x_new)

    @abstractmethod
    def _gap(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Violation, as if no cell were missing; may be negative or noisy where kept."""

    @abstractmethod
    def _relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Repair rows (m, d) that break the rule, continuously."""

    @abstractmethod
    def _snap(self, x: Tensor, x_new: Tensor) -> Tensor:
        """Repair legal rows (m, d) that break the rule, to legal rows; where that is impossible, leave them."""


def check_feature(name: object, where: str) -> str:
    """A feature's name as a plain text, or an error that says where it was to stand."""
    if not isinstance(name, str) or not name:
        raise RuleError(f"{where} names the feature {shown(name)}.", hint="features are named by texts.")
    return str(name)


def check_name(name: object, kind: str) -> str | None:
    """How a rule is called in reports; None for its own sentence."""
    if name is not None and not (isinstance(name, str) and name):
        raise RuleError(f"{kind} has name={shown(name)}.", hint="give a text, or leave it out.")
    return None if name is None else str(name)


def find_feature(schema: Schema, name: str, rule: str) -> tuple[int, Feature]:
    """Position and feature of a name, or an error that lists the names there are."""
    if name not in schema.names:
        raise RuleError(
            f"the rule '{rule}' names the feature '{name}', which is not one of {list(schema.names)}.",
            hint="use the feature names of the schema; a level of a category is written 'housing=own'.",
        )
    return schema.names.index(name), schema[name]
