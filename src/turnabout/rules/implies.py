"""What follows from a change: if one feature moves, another must."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from turnabout.errors import RuleError
from turnabout.rules.conditions import BoundCondition, ChangeCondition, Changes, read_condition
from turnabout.rules.rule import TOLERANCE, BoundRule, CountForm, Rule
from turnabout.schema import Schema
from turnabout.typing import Json, Tensor


@dataclass(frozen=True, repr=False)
class Implies(Rule):
    """If one thing changes, another must: `Implies(Rises("education"), Rises("age", by=2))`.

    A plan that breaks it is repaired by making the consequence true; where the person cannot do that, by taking
    the condition back.

    Parameters
    ----------
    condition : Rises, Falls, Changes or Is.
    consequence : Rises, Falls or Is.
    """

    kind: ClassVar[str] = "implies"
    condition: ChangeCondition
    consequence: ChangeCondition

    def __post_init__(self) -> None:
        for part in (self.condition, self.consequence):
            if not isinstance(part, ChangeCondition):
                raise RuleError(
                    f"Implies is given {part!r}.", hint='write Implies(Rises("education"), Rises("age", by=2)).'
                )
        if isinstance(self.consequence, Changes):
            raise RuleError(
                f"the rule '{self}' does not say which way '{self.consequence.feature}' must change.",
                hint="use Rises, Falls or Is as the consequence.",
            )

    def bind(self, schema: Schema) -> BoundImplies:
        return BoundImplies(
            schema, self.condition.bind(schema, str(self)), self.consequence.bind(schema, str(self)), str(self)
        )

    def __str__(self) -> str:
        return f"if {self.condition}, {self.consequence}"

    def to_dict(self) -> Json:
        return {"rule": self.kind, "if": self.condition.to_dict(), "then": self.consequence.to_dict()}

    @classmethod
    def _read(cls, spec: Json) -> Implies:
        if unknown := sorted(set(spec) - {"if", "then"}):
            raise TypeError(f"unknown {unknown}")
        return cls(read_condition(spec["if"]), read_condition(spec["then"]))


class BoundImplies(BoundRule):
    """`condition` and `consequence` in encoded units: where the first holds, so does the second."""

    def __init__(self, schema: Schema, condition: BoundCondition, consequence: BoundCondition, name: str):
        super().__init__(name, schema, sorted({condition.feature, consequence.feature}))
        self.condition, self.consequence = condition, consequence
        self.count_form = (CountForm(((1.0, condition), (-1.0, consequence)), 0.0),)

    def turns_once(self, f: int) -> bool:
        about = [part for part in (self.condition, self.consequence) if part.feature == f]
        return len(about) <= 1 and all(part.kind != "is" for part in about)

    def _open(self, x: Tensor, x_new: Tensor, silent: Tensor) -> Tensor:
        """A consequence that cannot be seen is open where its condition holds; a condition that cannot be seen, where
        its consequence does not hold. A missing cell does not rise, fall or change: only "is" can be open there."""
        condition_open, consequence_open = (part.missing(x) for part in (self.condition, self.consequence))
        if self.condition.kind != "is":
            condition_open = torch.zeros_like(condition_open)
        bad = torch.where(
            condition_open, ~self.consequence.holds(x, x_new), consequence_open & self.condition.holds(x, x_new)
        )
        return silent & bad & (self._change(x, x_new) > TOLERANCE)

    def _gap(self, x: Tensor, x_new: Tensor) -> Tensor:
        short = self.consequence.shortfall(x, x_new)
        return torch.where(self.condition.holds(x, x_new), short, torch.zeros_like(short))

    def _relax(self, x: Tensor, x_new: Tensor) -> Tensor:
        lo, hi = self.schema.bounds(x)
        return self._choose(x, x_new, exact=False, lo=lo, hi=hi)

    def _snap(self, x: Tensor, x_new: Tensor) -> Tensor:
        lo, hi = self.schema.bounds(x)
        return self._choose(x, x_new, exact=True, lo=lo, hi=hi)

    def _choose(self, x: Tensor, x_new: Tensor, exact: bool, lo: Tensor, hi: Tensor) -> Tensor:
        """The consequence made true where the person can; else the condition taken back, if that mends it."""
        made = self.consequence.make(x, x_new, exact)
        made = torch.minimum(torch.maximum(made, lo), hi)
        undone = self.condition.undo(x, x_new)
        can_make = (self.violation(x, made) == 0).unsqueeze(1)
        can_undo = (self.violation(x, undone) == 0).unsqueeze(1)
        return torch.where(can_make, made, torch.where(can_undo, undone, x_new))
