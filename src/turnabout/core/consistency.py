"""Whether the tables of an answer belong together, which a JSON Schema cannot see."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import pandas as pd

from turnabout.core.result import NUMBERS, PLANS, STEPS, WAIVED, Recourse, Status
from turnabout.documents import read_json, shown
from turnabout.errors import TurnaboutError

WHOLE = "pass what Recourse.to_json wrote, as it was written."


def torn(reason: str) -> TurnaboutError:
    """An answer whose parts do not fit."""
    return TurnaboutError(f"this answer is damaged: {reason}.", hint=WHOLE)


def check_answer(answer: Recourse) -> None:
    """Refuse tables that do not belong together, which a JSON Schema cannot see."""
    if not math.isfinite(answer.seconds):
        raise torn("it took no finite time")
    if not answer.people.index.is_unique:
        raise torn("two people share a label")
    for name in ("people", "options", "why", "steps", "plans", "waived", "provided"):
        if not getattr(answer, name).columns.is_unique:
            raise torn(f"'{name}' have two columns of the same name")
    if odd := [name for name in answer.features if name not in answer.people.columns]:
        raise torn(f"options have the column {shown(odd[0])}, which people have not")
    tables: dict[str, tuple[pd.DataFrame, list[str], Collection[str]]] = {}
    tables |= {"options": (answer.options, ["person", "option"], NUMBERS)}
    tables |= {"plans": (answer.plans, ["person", "option"], PLANS)}
    tables |= {"steps": (answer.steps, ["person", "option", "step"], STEPS)}
    tables |= {"waived": (answer.waived, ["person", "option"], WAIVED)}
    asked = answer.provided.set_index("feature", append=True) if "feature" in answer.provided else answer.provided
    tables |= {"provided": (asked, ["person", "option", "feature"], ("low", "high"))}
    for name, (table, levels, columns) in tables.items():
        if list(table.index.names) != levels or not table.index.is_unique:
            raise torn(f"the labels of '{name}' are not {', '.join(levels)}, each once")
        if absent := [column for column in columns if column not in table.columns]:
            raise torn(f"'{name}' have no column {absent[0]!r}")
        index: Any = table.index
        of = index.droplevel(2) if name in ("steps", "provided") else index
        if not of.isin(answer.options.index).all():
            raise torn(f"'{name}' speak of an option that there is not")
    written = answer.steps.groupby(level=["person", "option"], observed=True).size()
    if not written.sort_index().equals(answer.plans["steps"].sort_index().astype(written.dtype).rename(None)):
        raise torn("'plans' count other steps than 'steps' have")
    holders = answer.options.index.get_level_values("person")
    for name, labels in (("options", holders), ("why", answer.why.index)):
        if not labels.isin(answer.people.index).all():
            raise torn(f"'{name}' speak of somebody who is not among the people")
    has_option = answer.people.index.isin(holders)
    is_found = (answer.status == Status.FOUND).to_numpy(dtype=bool)
    if (has_option != is_found).any():
        place = int((has_option != is_found).argmax())
        label, status = answer.people.index[place], answer.status.iloc[place]
        raise torn(f"person {shown(label)} is {status} and has {'an' if has_option[place] else 'no'} option")
    if not all(isinstance(rule, str) and rule for rule in answer.waived["rule"]):
        raise torn("'waived' name no rule")
    for column in ("parameters", "becomes"):
        for text in answer.steps[column]:
            if not isinstance(read_json(text, f"'{column}' of a step is not", hint=WHOLE), dict):
                raise torn(f"'{column}' of a step is no mapping")
