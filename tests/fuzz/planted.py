"""Faults planted into a true answer, one at a time: whoever says that nothing is wrong must see each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import turnabout as ta
from fuzz.attack import declare, table_of
from fuzz.columns import Cell, Column
from fuzz.constraints import Follows, Sum
from fuzz.deciders import Chances, Decider, numbers, positions
from fuzz.frames import build
from fuzz.questions import Question
from fuzz.worlds import World
from turnabout.rules import from_dict as read_rule

COLUMNS = (
    Column("age", "number", "fixed", low=20, high=60, step=1.0),
    Column("study", "number", "up", low=0, high=5, step=1.0),
    Column("debt", "number", "down", low=0, high=4, step=0.5),
    Column("share", "number", "free", low=0, high=7, step=1.0),
    Column("home", "category", "free", dtype="str", levels=("rent", "own", "none")),
)
PEOPLE: list[list[Cell]] = [
    [30.0, 1.0, 3.0, 2.0, "rent"],  # can be accepted
    [40.0, 2.0, 2.0, 4.0, "own"],  # likewise
    [50.0, 5.0, 0.0, 7.0, "own"],  # accepted
    [20.0, 0.0, 4.0, 0.0, "rent"],  # has far to go
]


def points(table: pd.DataFrame) -> np.ndarray:
    """P(yes) by hand: study and a home of one's own help, debt does not."""
    owns = positions(COLUMNS[4], table["home"]) == 1
    total = numbers(table["study"]) - numbers(table["debt"]) + 1.5 * owns + 0.1 * numbers(table["share"]) - 2.6
    return 1 / (1 + np.exp(-total))


def planted_world(rules: bool = True) -> tuple[World, Question]:
    """A small world whose answers are known, with a rule and a consequence."""
    background = [
        [20.0 + 3 * i, float(i % 6), 0.5 * (i % 9), float(i % 8), ("rent", "own", "none")[i % 3]] for i in range(14)
    ]
    accepted = points(build(COLUMNS, background)) >= 0.5
    decider = Decider("by hand", points, Chances(points, 0.5))
    question = Question(1, [list(row) for row in PEOPLE], ["Ada", "Ben", "Cleo", "Dov"], method="LocalSearch")
    if rules:
        question.rules = [Sum({"study": 1.0, "home=own": 3.0}, "<=", 6.0), Follows("share", {"study": 1.0})]
    return World(0, COLUMNS, background, accepted, decider), question


def true_answer(world: World, question: Question) -> ta.Recourse:
    """The library's own answer."""
    schema = declare(world.columns)
    model = ta.models.wrap(world.decider.model, schema, background=world.training)
    rules = [read_rule(rule.spec()) for rule in question.rules]
    problem = ta.Problem(schema, model, ta.costs.L1(), rules=rules, background=world.training)
    return ta.methods.LocalSearch().fit(problem).find(table_of(world, question), options=question.options)


# -- faults ------------------------------------------------------------------------------------------------------------


def with_cells(answer: ta.Recourse, person: str, **cells: Any) -> ta.Recourse:
    """The answer with other cells in a person's first option."""
    options = answer.options.copy()
    for name, cell in cells.items():
        if not isinstance(cell, float):
            options[name] = options[name].astype(object)
        options.loc[(person, 0), name] = cell
    return replace(answer, options=options)


def with_status(answer: ta.Recourse, person: str, status: str) -> ta.Recourse:
    """The answer with another status of a person, who has no options then."""
    said = answer.status.copy()
    said[person] = ta.Status(status)
    mine = answer.options.index.get_level_values("person") == person
    return replace(answer, status=said, options=answer.options[~mine])


def own_row_found(answer: ta.Recourse) -> ta.Recourse:
    own = dict(zip((c.name for c in COLUMNS), PEOPLE[0]))
    return with_cells(answer, "Ada", **{**own, "study": 2.0, "share": 3.0, "cost": 1 / 5 + 1 / 7})


class Misprinted(ta.Recourse):
    """An answer whose document says another number than its table."""

    def to_dict(self) -> dict[str, Any]:
        document = super().to_dict()
        column = next(c for c in document["options"]["columns"] if c["name"] == "debt")
        column["values"][0] += 0.5
        return document


def misprinted(answer: ta.Recourse) -> ta.Recourse:
    return Misprinted(**{name: getattr(answer, name) for name in answer.__dataclass_fields__})


def without_person(answer: ta.Recourse) -> ta.Recourse:
    return replace(answer, status=answer.status.drop("Cleo"))


def second_best(answer: ta.Recourse) -> ta.Recourse:
    """A dearer plan that is allowed and accepted."""
    return with_cells(answer, "Ben", study=3.0, share=5.0, debt=0.0, home="own", cost=1 / 5 + 1 / 7 + 2 / 4)


PLANTED: dict[str, tuple[Callable[[ta.Recourse], ta.Recourse], str]] = {
    "a refused row called FOUND": (own_row_found, "refused as printed"),
    "what is fixed moved": (lambda a: with_cells(a, "Ada", age=31.0), "what may not change did"),
    "what may only rise fell": (lambda a: with_cells(a, "Ada", study=0.0), "wrong direction"),
    "a value between the steps": (lambda a: with_cells(a, "Ada", debt=0.3), "off the grid"),
    "a value out of bounds": (lambda a: with_cells(a, "Ada", debt=-1.0), "out of bounds"),
    "a rule broken": (lambda a: with_cells(a, "Ada", study=5.0, home="own"), "rule Sum broken"),
    "a consequence left behind": (lambda a: with_cells(a, "Ada", study=5.0, share=2.0), "stale consequence"),
    "a level that there is not": (lambda a: with_cells(a, "Ada", home="boat"), "no such level"),
    "a cell gone": (lambda a: with_cells(a, "Ada", debt=float("nan")), "a missing cell came or went"),
    "a text for a number": (lambda a: with_cells(a, "Ada", cost=float("nan")), "no number"),
    "a wrong cost": (lambda a: with_cells(a, "Ada", cost=0.01), "wrong cost"),
    "another number in the document": (misprinted, "printed otherwise"),
    "IMPOSSIBLE for one who can": (lambda a: with_status(a, "Ada", "IMPOSSIBLE"), "false IMPOSSIBLE"),
    "ACCEPTED for one who is not": (lambda a: with_status(a, "Ada", "ACCEPTED"), "false ACCEPTED"),
    "refused although accepted": (lambda a: with_status(a, "Cleo", "NOT_FOUND"), "false refusal"),
    "UNREADABLE without a cause": (lambda a: with_status(a, "Ada", "UNREADABLE"), "UNREADABLE without a cause"),
    "FOUND without an option": (lambda a: with_status(a, "Ada", "FOUND"), "options and status"),
    "a person lost": (without_person, "people lost"),
    "a plan that is not the cheapest": (second_best, "not the cheapest"),
}
"""What is done to the answer, and the accusation that must come of it."""
