"""A first set of actions, read off a schema."""

from __future__ import annotations

from collections.abc import Iterator

from turnabout.actions.action import Action
from turnabout.actions.effects import Set, Shift
from turnabout.actions.expressions import old
from turnabout.actions.prices import Absolute
from turnabout.schema import Category, Scalar, Schema


def draft(schema: Schema) -> Iterator[Action]:
    """One shift per scalar that may move, at |dx| in encoded units; one switch per level of a category, at 1."""
    for feature in schema.features:
        if feature.moves == "fixed":
            continue
        name = feature.name
        if isinstance(feature, Scalar):
            yield Action(f"Change {name}", [Shift(name)], Absolute(name, per=feature.span))
        elif isinstance(feature, Category):
            for level in feature.levels:
                yield Action(f"Set {name} to {level}", [Set(name, level)], 1.0, [old(name) != level])
