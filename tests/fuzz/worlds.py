"""A seed -> a world: columns, a training table and a model fitted on it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

import numpy as np
import pandas as pd

from fuzz.advised import ADVISED, with_choices, with_computed, with_own
from fuzz.columns import Cell, Column, random_cell, random_columns
from fuzz.deciders import Decider
from fuzz.frames import build
from fuzz.zoo import Training, random_kind

PER_WORLD = 20  # questions that share a world: fitting and wrapping a model takes longer than asking it
TRIES = 12  # tables that some libraries cannot be fitted on, before a world is given up


@dataclass
class World:
    """What a user has: a table of people whose outcome is known, and a model of it.

    background : rows of the training table, as cells.
    accepted : (m,) who of them was accepted.
    """

    seed: int
    columns: tuple[Column, ...]
    background: list[list[Cell]]
    accepted: np.ndarray
    decider: Decider

    @cached_property
    def training(self) -> pd.DataFrame:
        """The training table."""
        return build(self.columns, self.background, half=True)

    @cached_property
    def by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def under(self, columns: Sequence[Column]) -> World:
        """The world with its columns declared otherwise."""
        return replace(self, columns=tuple(columns))

    def row(self, cells: list[Cell]) -> dict[str, Cell]:
        """A row by the names of its columns."""
        return dict(zip(self.by_name, cells, strict=True))


def is_advised(world: int) -> bool:
    """Whether a world is of the second kind."""
    return world * PER_WORLD >= ADVISED


def random_world(seed: int) -> World:
    """The world of a seed; the same for the same seed. A table that its library refuses is drawn again."""
    random, choices = Random(f"world {seed}"), Random(f"advised {seed}")
    error: Exception | None = None
    for _ in range(TRIES):
        fit, flavour = random_kind(random)
        columns = random_columns(random, flavour)
        if flavour in ("any", "plain") and random.random() < 0.15:
            columns.append(_passthrough(random, [c.name for c in columns]))
        rows = [
            [random_cell(random, c) if c.kind != "passthrough" else _label(random, c) for c in columns]
            for _ in range(random.randint(14, 36))
        ]
        rows = _with_every_level(random, columns, rows)
        if is_advised(seed):
            columns, rows = with_computed(choices, columns, rows) if choices.random() < 0.6 else (columns, rows)
        accepted = _outcome(random, columns, rows)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                training = Training(tuple(columns), build(columns, rows, half=True), accepted, random)
                decider = fit(training)
                said = decider.ask(training.table)
                for row in [row for row in rows if None in row][:3]:
                    decider.ask(build(columns, [row]))
        except Exception as problem:  # this library cannot be fitted on this table
            error = problem
            continue
        if np.isfinite(said.margin).all() and 0 < said.yes.sum() < len(rows):
            learned = not decider.title.startswith(("torch", "function"))  # these have random weights
            learned &= not _is_opposite(said.yes, accepted)
            if is_advised(seed):
                columns = [with_choices(choices, c) if c.formula is None else c for c in columns]
            return World(seed, tuple(columns), rows, accepted if learned else said.yes, decider)
    raise RuntimeError(f"no model could be fitted for the world {seed}") from error


def _passthrough(random: Random, taken: list[str]) -> Column:
    name = next(name for name in ("opened", "branch") if name not in taken)
    return Column(name, "passthrough", "fixed", dtype=random.choice(("date", "object", "str")), mark="None")


def _label(random: Random, column: Column) -> Cell:
    if column.dtype == "date":
        return f"20{random.randint(10, 24)}-0{random.randint(1, 9)}-1{random.randint(0, 9)} 00:00:00"
    return random.choice(("00017", "7", "x9", "None", "Köln"))


def _with_every_level(random: Random, columns: list[Column], rows: list[list[Cell]]) -> list[list[Cell]]:
    """Most training tables show every level; in some a level of the schema is never seen."""
    for i, column in enumerate(columns):
        if random.random() < 0.9:
            for k, level in enumerate(column.levels):
                rows[k % len(rows)][i] = level
    return rows


def _outcome(random: Random, columns: list[Column], rows: list[list[Cell]]) -> np.ndarray:
    """(m,) who is accepted: a noisy sum over the columns, with about half of the people above."""
    weights = [random.choice((-2.0, -1.0, 1.0, 2.0, 3.0)) for _ in columns]
    effect = [{level: random.random() for level in c.levels} for c in columns]
    scores = []
    for row in rows:
        parts = (_share(c, e, cell) for c, e, cell in zip(columns, effect, row))
        scores.append(sum(w * part for w, part in zip(weights, parts)) + 0.2 * random.random())
    return np.array(scores) > np.quantile(scores, random.choice((0.4, 0.5, 0.6, 0.7)))


def _share(column: Column, effect: dict[Cell, float], cell: Cell) -> float:
    if cell is None or column.kind == "passthrough":
        return 0.3
    return effect[cell] if column.kind == "category" else (column.unit(cell) - column.low) / column.span


def people_like(random: Random, world: World, count: int, odd: float) -> list[list[Cell]]:
    """People who ask: rows of their own, some of them with values outside the bounds."""
    columns = [c.plain() for c in world.columns]
    rows = [
        [
            None if c.formula else random_cell(random, c, odd) if c.kind != "passthrough" else _label(random, c)
            for c in columns
        ]
        for _ in range(count)
    ]
    return [with_own(random, world.columns, row, odd) if is_advised(world.seed) else row for row in rows]


def replaced(world: World, name: str, **changes: object) -> World:
    """The world with one of its columns declared otherwise."""
    columns = tuple(replace(c, **changes) if c.name == name else c for c in world.columns)  # type: ignore[arg-type]
    return World(world.seed, columns, world.background, world.accepted, world.decider)


def _is_opposite(yes: np.ndarray, accepted: np.ndarray) -> bool:
    """Whether a model, fitted in few steps, says yes less often to those whom labels have as accepted."""
    if accepted.all() or not accepted.any():
        return False
    return bool(yes[accepted].mean() < yes[~accepted].mean())
