"""Options that differ, and the ranges of cells that options ask for: every value of a range must do."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

from fuzz.columns import Cell, Column, same
from fuzz.constraints import Follows, changed
from fuzz.formulas import follows
from fuzz.frames import build
from fuzz.grids import useful_values
from fuzz.questions import Question
from fuzz.worlds import World

CHANGES = 5  # least changes apart that amounts clearly differ
SHARE = 0.05  # of the range, where there is no least change
PROVIDED = 0.1  # what providing one cell costs
TRIED = 400  # rows of ranges that are asked about
Rows = dict[tuple[Any, int], list[Cell]]
Accusation = tuple[str, Any, str]


def provided_by(answer: Any, key: tuple[Any, int]) -> dict[str, tuple[float, float]]:
    """The ranges of the cells that an option asks for, by column."""
    table = answer.provided
    rows = [entry for index, entry in zip(table.index, table.to_dict("records")) if index == key]
    return {entry["feature"]: (float(entry["low"]), float(entry["high"])) for entry in rows}


def judge_ways(world: World, question: Question, rows: Rows) -> Iterator[Accusation]:
    """Options of one person are different ways: other columns, or clearly other amounts."""
    columns = [c.plain() for c in world.columns] if question.acts else list(world.columns)
    for (key, a), (other, b) in itertools.combinations(rows.items(), 2):
        if key[0] != other[0]:
            continue
        own = world.row(question.people[question.labels.index(key[0])])
        ways = [set(changed(world.by_name, own, world.row(row))) for row in (a, b)]
        if ways[0] == ways[1] and not any(_clearly(c, p, q) for c, p, q in zip(columns, a, b) if c.chosen):
            yield "two options that are one", key[0], f"{world.row(a)} and {world.row(b)}, from {own}"


def _clearly(column: Column, a: Cell, b: Cell) -> bool:
    """Whether two new values are clearly different."""
    if column.kind != "number" or a is None or b is None:
        return not same(a, b)
    enough = CHANGES * column.least if column.least else SHARE * column.span
    return abs(float(a) - float(b)) >= max(enough, column.useful or column.unit_step) * (1 - 1e-6)


def judge_ranges(world: World, question: Question, answer: Any, rows: Rows) -> Iterator[Accusation]:
    """Who provides a value of the range has a row that the original accepts and that breaks nothing."""
    known = set(map(tuple, answer.provided.index))
    if not known <= set(rows):
        yield "ranges without an option", None, f"{sorted(known - set(rows), key=str)}"
    for key in sorted(known & set(rows), key=str):
        person, row, ranges = key[0], rows[key], provided_by(answer, key)
        own = question.people[question.labels.index(person)]
        for column, cell, there in zip(world.columns, own, row):
            if column.name not in ranges:
                continue
            low, high = ranges[column.name]
            if cell is not None or not column.provide:
                yield "a cell that nobody has to provide", person, f"{column.name!r} is {cell!r}"
            elif there is None or not low <= float(there) <= high:
                yield "outside its own range", person, f"{column.name!r} is {there!r}, asked from {low:g} to {high:g}"
        filled = [_filled(world, question, person, own, row, values) for values in _drawn(world, key, ranges)]
        pairs = [pair for pair in filled if pair is not None]
        verdict = world.decider.ask(build(world.columns, [new for _, new in pairs])) if pairs else None
        for (base, new), yes in zip(pairs, verdict.yes if verdict is not None else ()):
            if not yes:
                yield "refused within the range", person, f"{world.row(new)}, of {ranges}, from {world.row(own)}"
                break
            broken = [rule.breaks(world.by_name, world.row(base), world.row(new), 1e-7) for rule in question.rules]
            if any(broken):
                yield "a rule broken within the range", person, f"{broken}: {world.row(base)} -> {world.row(new)}"
                break


def _drawn(world: World, key: tuple[Any, int], ranges: dict[str, tuple[float, float]]) -> list[dict[str, float]]:
    """Useful values of every cell together: all of them, or as many as can be asked about, with the ends."""
    names = list(ranges)
    values = [[v for v in useful_values(world.by_name[n]) if ranges[n][0] <= v <= ranges[n][1]] for n in names]
    count = 1
    for some in values:
        count *= len(some)
    if count <= TRIED:
        return [dict(zip(names, some)) for some in itertools.product(*values)]
    random = Random(f"ranges {key}")
    ends = [dict(zip(names, some)) for some in itertools.product(*((some[0], some[-1]) for some in values))]
    return ends + [{n: random.choice(some) for n, some in zip(names, values)} for _ in range(TRIED)]


def _filled(
    world: World, question: Question, person: Any, own: list[Cell], row: list[Cell], values: dict[str, float]
) -> tuple[list[Cell], list[Cell]] | None:
    """The person's row, and that of the option, with such values provided; what is computed follows."""
    base = [values.get(c.name, cell) for c, cell in zip(world.columns, own)]
    new = [values.get(c.name, cell) for c, cell in zip(world.columns, row)]
    if any(isinstance(rule, Follows) for rule in question.rules):
        return None  # a consequence depends on what is provided too
    old, then = follows(world.columns, own, base), follows(world.columns, own, new)
    return None if old is None or then is None else (old, then)
