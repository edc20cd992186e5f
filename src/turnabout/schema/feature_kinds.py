"""The kinds of feature there are, and features from the entries of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnabout.documents import shown
from turnabout.errors import SchemaError
from turnabout.schema.features import Feature
from turnabout.schema.identities import Derived
from turnabout.schema.levels import Binary, Category, Ordinal
from turnabout.schema.number import Number
from turnabout.schema.passthrough import Passthrough

KINDS: dict[str, type[Feature]] = {cls.kind: cls for cls in (Number, Binary, Ordinal, Category, Passthrough, Derived)}


def feature_from(entry: Any) -> Feature:
    """The feature of one entry; refuses what is none."""
    if not isinstance(entry, Mapping) or str(entry.get("kind")) not in KINDS:
        raise SchemaError(f"{shown(entry)} is not a feature.", hint=f"give each a kind: one of {', '.join(KINDS)}.")
    cls = KINDS[entry["kind"]]
    fields = {key: value for key, value in entry.items() if key != "kind"}
    if unknown := [key for key in fields if key not in cls.__dataclass_fields__]:  # type: ignore[attr-defined]
        known = ", ".join(cls.__dataclass_fields__)  # type: ignore[attr-defined]
        raise SchemaError(
            f"feature {entry.get('name')!r} has the unknown field {unknown[0]!r}.", hint=f"known: {known}."
        )
    if "name" not in fields:
        raise SchemaError(f"a feature of kind {entry['kind']!r} has no name.", hint="add name: ...")
    try:
        return cls(**fields)
    except TypeError as error:  # a list where a word belongs, and the like
        raise SchemaError(f"feature {entry['name']!r} cannot be read: {error}.", hint="compare its fields.") from None
