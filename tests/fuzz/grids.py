"""All rows that a person can reach, counted by brute force; and which of them the original accepts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

from fuzz.columns import Cell, Column
from fuzz.constraints import Follows
from fuzz.costs import Price
from fuzz.formulas import follows
from fuzz.frames import build
from fuzz.questions import Question
from fuzz.worlds import World

MOST = 1500  # rows of a complete count
DRAWN = 300  # rows drawn where there are too many


def size(world: World, own: list[Cell]) -> int:
    """How many rows a person could hold if there were no rules; MOST + 1 stands for more than can be counted."""
    out = 1
    for column, cell in zip(world.columns, own):
        choices = column.choices(cell)
        out = min(out * (MOST + 1 if choices is None else len(choices)), MOST + 1)
    return out


def reachable(world: World, question: Question, own: list[Cell]) -> list[list[Cell]]:
    """Legal rows that keep every rule beyond doubt: all of them where they can be counted, else some.

    The world is that of the person, with their limits.
    """
    followers = {rule.target for rule in question.rules if isinstance(rule, Follows)}
    choices = [[cell] if c.name in followers else c.choices(cell) for c, cell in zip(world.columns, own)]
    count = 1
    for cells in choices:
        count *= MOST + 1 if cells is None else len(cells)
    if count <= MOST:
        rows = (list(row) for row in itertools.product(*(cells for cells in choices if cells is not None)))
    else:
        rows = _drawn(world, question, own, choices)
    kept = [row for row in (_followed(world, question, own, row) for row in rows) if row is not None]
    return [row for row in kept if allowed(world, question, own, row)]


def useful_values(column: Column) -> list[float]:
    """Values of a number that a plan may choose for anybody; some of them where there are too many."""
    values = column.values()
    if values is None:
        places, (low, high) = min(max(column.places, 0), 6), column.ends
        count = round((high - low) * 10**places)
        values = [round(low + (high - low) * k / min(count, 40), places) for k in range(min(count, 40) + 1)]
    return [float(v) for v in values]  # type: ignore[arg-type]


def provided_rows(world: World, question: Question, own: list[Cell]) -> list[list[Cell]]:
    """Rows of somebody who provides a missing cell and chooses from there; none where nothing can be provided."""
    lacks = [i for i, (c, cell) in enumerate(zip(world.columns, own)) if cell is None and c.provide]
    if not lacks or len(lacks) > 1:
        return []
    out: list[list[Cell]] = []
    for value in useful_values(world.columns[lacks[0]])[:12]:
        base = follows(world.columns, own, [value if i == lacks[0] else cell for i, cell in enumerate(own)])
        if base is not None:
            out += [base, *reachable(world, question, base)]
    return out[: 4 * MOST]


def _drawn(world: World, question: Question, own: list[Cell], choices: list[list[Cell] | None]) -> Iterator[list[Cell]]:
    random = Random(f"rows {question.seed} {own}")
    for _ in range(DRAWN):
        row = list(own)
        for i, cells in enumerate(choices):
            if random.random() < 0.6:
                row[i] = random.choice(cells) if cells is not None else _value(random, world, i, own[i])
        yield row


def _value(random: Random, world: World, i: int, own: Cell) -> Cell:
    column = world.columns[i]
    value = round(random.uniform(column.low, column.high), min(column.places, 6))
    return own if own is None or column.breach(own, value) else value


def _followed(world: World, question: Question, own: list[Cell], row: list[Cell]) -> list[Cell] | None:
    """The row with its consequences, each at the nearest value that prints; None where that is not a legal one."""
    for rule in question.rules:
        if not isinstance(rule, Follows):
            continue
        i = list(world.by_name).index(rule.target)
        column = world.columns[i]
        move = rule.move(world.by_name, world.row(own), world.row(row))
        if own[i] is None or move == 0:
            continue
        step = column.step or 10.0**-column.places
        row[i] = float(round(round((float(own[i]) + move) / step) * step, column.places))  # type: ignore[arg-type]
        if column.plain().breach(own[i], row[i]):
            return None
    return follows(world.columns, own, row)


def allowed(world: World, question: Question, own: list[Cell], row: list[Cell]) -> bool:
    """Whether a row breaks nothing, without any slack."""
    old, new = world.row(own), world.row(row)
    followers = {rule.target for rule in question.rules if isinstance(rule, Follows)}
    pairs = ((c.plain() if c.name in followers else c, a, b) for c, a, b in zip(world.columns, own, row))
    if any(c.breach(a, b) for c, a, b in pairs):
        return False
    return all(rule.breaks(world.by_name, old, new, 0.0) is None for rule in question.rules)


def accepted_rows(world: World, rows: list[list[Cell]], chance: float | None = None) -> list[list[Cell]]:
    """Rows that the original accepts, clear of its noise."""
    if not rows:
        return []
    said = world.decider.ask(build(world.columns, rows))
    clear = said.yes & (said.margin > world.decider.noise)
    if chance is not None:
        assert said.chance is not None
        clear &= said.chance > chance + world.decider.noise
    return [row for row, good in zip(rows, clear) if good]


def cheapest(world: World, price: Price, own: list[Cell], rows: list[list[Cell]]) -> float:
    """The least cost of any of the rows; infinite where there are none."""
    return min((price.cost(world.columns, world.background, own, row) for row in rows), default=float("inf"))
