"""Documents against our own JSON Schemas, quickly enough for answers with a million cells."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

from turnabout.documents import DEEP
from turnabout.errors import TurnaboutError
from turnabout.typing import Json

PLAIN = {str, int, float, bool, type(None)}
LOOKED_AT = 50  # errors of which the most telling one is shown


def load_schema(name: str) -> Json:
    """One of the JSON Schemas of this room."""
    return json.loads(resources.files("turnabout.core").joinpath(f"{name}.schema.json").read_text("utf-8"))


def check_document(document: Any, name: str, what: str) -> None:
    """Refuse a document that does not keep to a schema, and say where."""
    from jsonschema.exceptions import best_match

    hint = f"compare with what turnabout writes, or with {name}.schema.json."
    try:
        fault = best_match(itertools.islice(_validator(name).iter_errors(document), LOOKED_AT))
    except RecursionError:
        raise TurnaboutError(f"{what} is damaged: {DEEP}.", hint=hint) from None
    if fault is not None:
        reason = fault.message if len(fault.message) <= 160 else f"{fault.message[:60]} ... {fault.message[-90:]}"
        raise TurnaboutError(f"{what} is damaged at {fault.json_path[:160]}: {reason}.", hint=hint)


@functools.cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator, validators

    slow = Draft202012Validator.VALIDATORS["items"]

    def items(validator: Any, schema: Any, instance: Any, whole: Any) -> Iterator[Any]:
        """Cells that JSON has itself need no look; they are nearly all."""
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if reference not in ("#/$defs/cell", "#/$defs/label") or not isinstance(instance, list):
            yield from slow(validator, schema, instance, whole)
            return
        nested = reference == "#/$defs/label"
        for place, cell in enumerate(instance):
            if type(cell) in PLAIN or (nested and type(cell) is list and {type(part) for part in cell} <= PLAIN):
                continue
            yield from validator.descend(cell, schema, path=place)

    return validators.extend(Draft202012Validator, {"items": items})(load_schema(name))
