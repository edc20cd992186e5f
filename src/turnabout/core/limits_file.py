"""Limits of single people kept in a file: a table of lines, or a mapping in YAML or JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from turnabout.documents import read_file, reads, shown
from turnabout.errors import MethodError
from turnabout.schema import TableFile, bare_text

MAPPINGS = (".yaml", ".yml", ".json")
COLUMNS = ("person", "feature", "low", "high", "fixed", "difficulty")
WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
EXAMPLE = (
    "write {Ada: {job: fixed, income: [null, 60000]}} in YAML or JSON, or a CSV file with the columns "
    f"{', '.join(COLUMNS)}."
)


@reads("the file of limits", MethodError, EXAMPLE)
def load(path: str | Path, people: pd.Index) -> dict[Any, dict[str, Any]]:
    """The limits of a file, as `Method.find` takes them, for people with these labels.

    A file whose name ends in .yaml, .yml or .json maps people to features to limits:

        Ada: {job: fixed, income: [null, 60000], home: [own, rent]}
        "17": {savings: {low: 0, high: 5000, difficulty: 2}}

    Any other file is a table with the columns person, feature, and any of low, high, fixed and difficulty. People are
    found by the text of their labels: 17 and "17" are the same.
    """
    name = f"the file of limits {str(Path(path))!r}"
    given = _mapping(path, name) if Path(path).suffix.lower() in MAPPINGS else _table(path, name)
    return for_people(given, people, name)


def for_people(given: Mapping[Any, Mapping[str, Any]], people: pd.Index, name: str) -> dict[Any, dict[str, Any]]:
    """Limits of people by their labels, from limits by the texts of these; refuses who is not there, or not one."""
    labels: dict[str, list[Any]] = {}
    for label in people:
        labels.setdefault(str(label), []).append(label)
    out: dict[Any, dict[str, Any]] = {}
    for person, entries in given.items():
        found = labels.get(str(person)) or labels.get(bare_text(str(person)), [])
        if len(found) != 1:
            what = "who is not among the people asked about" if not found else "and several people are called so"
            some = ", ".join(list(labels)[:3])
            raise MethodError(
                f"{name} names the person {str(person)!r}, {what}.",
                hint=f"write people as they are labelled, like {some}; without an id column they are rows from 0.",
            )
        if found[0] in out:
            raise MethodError(f"{name} names the person {str(person)!r} twice.", hint="put their limits together.")
        out[found[0]] = dict(entries)
    return out


def _mapping(path: str | Path, name: str) -> dict[Any, Any]:
    found = read_file(path, "the limits in {}", f"{name} is not valid", MethodError, EXAMPLE)
    return check_entries(found, name)


def check_entries(found: object, name: str) -> dict[Any, Any]:
    """People and their limits as plain values, or an error that says what stands there instead."""
    if not isinstance(found, dict):
        raise MethodError(f"{name} holds {shown(found)} and does not map people to limits.", hint=EXAMPLE)
    for person, entries in found.items():
        if not isinstance(entries, dict):
            raise MethodError(f"{name} has {shown(entries)} as the limits of person {str(person)!r}.", hint=EXAMPLE)
    return found


def _table(path: str | Path, name: str) -> dict[str, dict[str, Any]]:
    opened = TableFile.open(path)
    table = opened.read(as_text=list(map(str, opened.names)))
    if unknown := [str(c) for c in table.columns if c not in COLUMNS]:
        raise MethodError(f"{name} has the column {unknown[0]!r}.", hint=f"it may have {', '.join(COLUMNS)}.")
    if absent := [c for c in COLUMNS[:2] if c not in table.columns]:
        raise MethodError(f"{name} has no column '{absent[0]}'.", hint=f"it may have {', '.join(COLUMNS)}.")
    out: dict[str, dict[str, Any]] = {}
    for line, row in enumerate(table.to_dict("records"), start=2):
        cells = {str(column): _text(cell) for column, cell in row.items()}
        person, feature = cells.pop("person"), cells.pop("feature")
        where = f"line {line} of {name}"
        if not person or not feature:
            raise MethodError(f"{where} names no {'feature' if person else 'person'}.", hint=EXAMPLE)
        entry = {column: _cell(column, text, where) for column, text in cells.items() if text}
        if not entry:
            raise MethodError(f"{where} says nothing of '{feature}'.", hint="give low, high, fixed or difficulty.")
        if feature in out.setdefault(person, {}):
            raise MethodError(f"{where} names '{feature}' of person {person!r} again.", hint="put both in one line.")
        out[person][feature] = entry
    return out


def _text(cell: object) -> str:
    return "" if pd.api.types.is_scalar(cell) and pd.isna(cell) else str(cell).strip()  # type: ignore[call-overload]


def _cell(column: str, text: str, where: str) -> float | bool:
    if column == "fixed":
        if text.lower() not in WORDS:
            raise MethodError(f"{where} has {text!r} as fixed.", hint="use true or false, or leave it empty.")
        return WORDS[text.lower()]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise MethodError(
            f"{where} has {text!r} as {column}.", hint="use a plain number like 60000, or leave it empty."
        )
    return value
