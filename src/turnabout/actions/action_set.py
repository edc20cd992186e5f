"""What people may do: a set of actions, as a file that can be reviewed and as an object that can be bound."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from turnabout.actions.action import Action, Parameter
from turnabout.actions.bound import BoundActions
from turnabout.actions.contradictions import contradictions, idle, unreachable
from turnabout.actions.drafting import draft
from turnabout.actions.review import review
from turnabout.documents import Saved, reads, shown
from turnabout.errors import ActionError
from turnabout.schema import Schema
from turnabout.typing import Json, as_tuple

if TYPE_CHECKING:
    import pandas as pd

VERSION = 1


@dataclass(frozen=True)
class ActionSet(Saved):
    """The actions that plans are made of.

    actions : each with a name of its own. time_unit : in which durations are counted, "years".
    """

    actions: tuple[Action, ...]
    time_unit: str = ""

    error = ActionError
    invalid = "the actions are not valid"
    unreadable = "ActionSet.save writes such a file."

    def __post_init__(self) -> None:
        given = (self.actions,) if isinstance(self.actions, Action) else as_tuple(self.actions)
        if given is None:
            raise ActionError(
                f"actions={shown(self.actions)} is no list of actions.", hint="write ActionSet([Action(...), ...])."
            )
        object.__setattr__(self, "actions", given)
        if not self.actions:
            raise ActionError("a set of actions is empty.", hint="ActionSet.draft(schema) writes a first one.")
        for action in self.actions:
            if not isinstance(action, Action):
                raise ActionError(f"{action!r} is not an Action.", hint="write Action(name, effect=..., cost=...).")
        if twice := [n for i, n in enumerate(self.names) if n in self.names[:i]]:
            raise ActionError(f"two actions are named '{twice[0]}'.", hint="every action needs a name of its own.")
        if not isinstance(self.time_unit, str):
            raise ActionError(f"the time unit is {self.time_unit!r}.", hint='give a text, "years".')

    def __len__(self) -> int:
        return len(self.actions)

    def __iter__(self) -> Iterator[Action]:
        return iter(self.actions)

    def __getitem__(self, name: str) -> Action:
        for action in self.actions:
            if action.name == name:
                return action
        raise ActionError(f"there is no action '{name}'.", hint=f"there are {', '.join(self.names)}.")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(action.name for action in self.actions)

    # -- use --------------------------------------------------------------------------------------------------

    def bind(self, schema: Schema) -> BoundActions:
        """The actions over encoded people of this schema; refuses what the schema does not have or allow."""
        bound = BoundActions(schema, self.actions, self.time_unit)
        if found := contradictions(bound):
            more = f" ({len(found) - 1} more: see problems(schema))" if found[1:] else ""
            raise ActionError(found[0] + more, hint="check the conditions against the bounds of the features.")
        for sentence in idle(bound):
            warnings.warn(f"{sentence} Hint: check its effects against its conditions.", stacklevel=2)
        return bound

    def problems(self, schema: Schema, people: Any = None) -> tuple[str, ...]:
        """Everything that looks wrong, as sentences: conditions that nobody can meet, actions that change nothing
        and, given a table of people, actions that none of them can ever take."""
        bound = BoundActions(schema, self.actions, self.time_unit)
        out = contradictions(bound) + idle(bound)
        return tuple(out + ([] if people is None else unreachable(bound, schema.encode(people))))

    def table(self) -> pd.DataFrame:
        """One line per action, in plain words, for a person to review."""
        return review(self.actions, self.time_unit)

    @classmethod
    def draft(cls, schema: Schema) -> ActionSet:
        """A first set: one action per feature that may move, and one per level of each such category.

        With it the cost of a plan is the L1 distance of its rows, as the steps are counted one by one.
        """
        if not isinstance(schema, Schema):
            raise ActionError(f"{shown(schema)} is not a Schema.", hint="Schema.infer(table) drafts one.")
        return cls(tuple(draft(schema)))

    # -- files ------------------------------------------------------------------------------------------------

    def to_dict(self) -> Json:
        """Plain data: {"turnabout_actions": 1, "time_unit": "years", "actions": [...]}."""
        out: Json = {"turnabout_actions": VERSION} | ({"time_unit": self.time_unit} if self.time_unit else {})
        return out | {"actions": [action.to_dict() for action in self.actions]}

    @classmethod
    @reads("the set of actions", ActionError, "compare with ActionSet.to_yaml().")
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of to_dict; names what is wrong with a document that is no set of actions."""
        if not isinstance(document, Mapping) or not isinstance(document.get("actions"), (list, tuple)):
            raise ActionError(
                "this is not a set of actions: it has no list 'actions'.", hint="compare with ActionSet.to_yaml()."
            )
        if (version := document.get("turnabout_actions", VERSION)) != VERSION:
            raise ActionError(f"actions of version {version!r} are not known.", hint=f"this reads version {VERSION}.")
        if unknown := [key for key in document if key not in ("turnabout_actions", "time_unit", "actions")]:
            raise ActionError(
                f"a set of actions has the unknown entry {unknown[0]!r}.", hint="known: time_unit, actions."
            )
        return cls(tuple(_action(entry) for entry in document["actions"]), document.get("time_unit") or "")


ENTRIES = ("name", "effect", "cost", "precondition", "duration", "parameters", "repeatable", "label")


def _action(entry: Any) -> Action:
    if not isinstance(entry, Mapping):
        raise ActionError(f"{shown(entry)} is not an action.", hint="give name, effect and cost.")
    name = entry.get("name")
    if unknown := [key for key in entry if key not in ENTRIES]:
        raise ActionError(
            f"the action {name!r} has the unknown entry {unknown[0]!r}.", hint=f"known: {', '.join(ENTRIES)}."
        )
    if absent := [key for key in ("name", "effect", "cost") if key not in entry]:
        raise ActionError(f"the action {name!r} has no '{absent[0]}'.", hint=f"add {absent[0]}: ...")
    fields = dict(entry)
    if not isinstance(fields["effect"], (list, tuple, Mapping)):
        raise ActionError(f"the action {name!r} has the effect {fields['effect']!r}.", hint="give a list of effects.")
    fields["parameters"] = [_parameter(p, name) for p in fields.get("parameters") or ()]
    try:
        return Action(**fields)
    except TypeError as error:  # a number where a list belongs, and the like
        raise ActionError(f"the action {name!r} cannot be read: {error}.", hint="compare with to_yaml().") from None


def _parameter(entry: Any, action: Any) -> Parameter:
    try:
        return Parameter(entry) if isinstance(entry, str) else Parameter(**entry)
    except TypeError:
        raise ActionError(
            f"the action {action!r} has the parameter {entry!r}, which cannot be read.",
            hint="write {name: years, low: 0, high: 10, unit: years}.",
        ) from None
