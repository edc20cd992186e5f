"""JSON Schemas of the files that people write, for editors: schema files, rules, costs and limits."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from turnabout.errors import SchemaError, also
from turnabout.typing import Json

HOMES = {"schema": "schema", "rules": "rules", "cost": "costs", "limits": "core"}
"""The files that people write, and the rooms that hold their JSON Schemas."""
BESIDE_FEATURES = ("rules", "cost", "limits")  # what a schema file may say beside its features


def editor_schema(name: str = "schema") -> Json:
    """The JSON Schema of a file that people write: "schema", "rules", "cost" or "limits".

    That of a schema file holds the others, since such a file may say everything. Each stands on its own: an editor
    needs no second file.
    """
    if name not in HOMES:
        raise also(SchemaError, KeyError)(
            f"there is no JSON Schema of {name!r} files.", hint=f"there are {', '.join(HOMES)}."
        )
    document = _read(name)
    if name != "schema":
        return document
    for part in BESIDE_FEATURES:
        document["$defs"] |= _read(part)["$defs"]  # a test sees to it that no two of them share a name
        document["properties"][part] = {"$ref": f"#/$defs/{part}"}
    return document


def _read(name: str) -> dict[str, Any]:
    room = resources.files(f"turnabout.{HOMES[name]}")
    document: dict[str, Any] = json.loads(room.joinpath(f"{name}.schema.json").read_text("utf-8"))
    return document
