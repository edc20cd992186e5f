"""A schema file that says everything: columns, rules, cost and limits of single people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pandas as pd

from turnabout import costs, rules
from turnabout.core.limits_file import check_entries, for_people
from turnabout.core.problem import Problem
from turnabout.costs import Cost
from turnabout.documents import Saved, reads, shown, write
from turnabout.errors import RuleError, SchemaError
from turnabout.models import Model
from turnabout.rules import Rule
from turnabout.schema import Schema
from turnabout.schema.schema_file import check_there
from turnabout.typing import Json

ENTRIES = ("turnabout_schema", "features", "notes", "rules", "cost", "limits")


@dataclass(frozen=True)
class ProblemFile(Saved):
    """What a schema file says of a problem: all but the model and the people.

        features:
        - {kind: number, name: income, high: 120000, step: 1, moves: up}
        - {kind: number, name: loan, high: 40000, step: 50}
        rules:
        - {rule: linear, coefficients: {loan: 1, income: -0.5}, sense: "<=", bound: 0}
        cost: {kind: Effort, difficulty: {income: 2}}
        limits: {Ada: {income: fixed}}

    Every command reads its --schema so. `Schema.load` reads the features of the same file and nothing else.

        file = ta.ProblemFile.load("schema.yaml")
        problem = file.problem(ta.models.wrap(classifier, file.schema), background=train)
        answer = method.fit(problem).find(people, limits=file.limits_of(people.index))

    Parameters
    ----------
    schema : the columns.
    rules : those that every plan keeps.
    cost : what a change costs; Effort when None.
    limits : what single people will not or cannot change, by the texts of their labels.
    """

    schema: Schema
    rules: tuple[Rule, ...] = ()
    cost: Cost | None = None
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    error = SchemaError
    invalid = "the schema is not valid"
    unreadable = "save the schema as UTF-8 text."

    def to_dict(self) -> Json:
        """Plain data: the schema, and beside its features what else is said."""
        out = self.schema.to_dict()
        out |= {"rules": [rules.to_dict(rule) for rule in self.rules]} if self.rules else {}
        out |= {} if self.cost is None else {"cost": self.cost.to_dict()}
        return out | ({"limits": write(self.limits)} if self.limits else {})

    @classmethod
    @reads("the schema", SchemaError, "compare with ProblemFile.to_yaml().")
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of to_dict; an entry that nobody would read is refused."""
        schema = Schema.from_dict(document)
        if unknown := [name for name in document if name not in ENTRIES]:
            raise SchemaError(
                f"the schema has the entry {shown(unknown[0])}, which nobody reads.",
                hint=f"it may have {', '.join(ENTRIES)}.",
            )
        listed = document.get("rules") or ()
        if not isinstance(listed, (list, tuple)):
            raise RuleError(
                f"the schema holds {shown(listed)} as its rules.", hint="write a list, like - {rule: at_most, k: 3}."
            )
        cost = document.get("cost")
        limits = check_entries(document.get("limits") or {}, "the schema")
        found = tuple(map(rules.from_dict, listed)), None if cost is None else costs.from_dict(cost)
        return cls(schema, *found, limits)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what save wrote, or a schema alone."""
        check_there(path)
        return super().load(path)

    def limits_of(self, people: pd.Index) -> dict[Any, dict[str, Any]]:
        """The limits as `Method.find` takes them, for people with these labels; refuses people who are not there."""
        return for_people(self.limits, people, "the schema")

    def problem(self, model: Model, background: Any = None, labels: Any = None) -> Problem:
        """The problem that this file poses to a model."""
        return Problem(self.schema, model, self.cost, self.rules, background, labels)
