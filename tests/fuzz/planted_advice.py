"""Faults of advice, planted into a true answer about a world with useful steps, reach, a computed column and limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

import turnabout as ta
from fuzz.advised import ADVISED, Limit
from fuzz.attack import declare, limits_of, table_of
from fuzz.columns import Cell, Column
from fuzz.costs import Price
from fuzz.deciders import Chances, Decider, numbers, positions
from fuzz.formulas import Formula
from fuzz.frames import build
from fuzz.planted import with_cells, with_status
from fuzz.questions import PER_WORLD, Question
from fuzz.reaches import Reach
from fuzz.worlds import World

COLUMNS = (
    Column(
        "income", "number", "up", low=0, high=50, step=1.0, useful=5.0, least=4.0, reach=Reach(relative=0.5, usual=0.5)
    ),
    Column("loan", "number", "free", low=1, high=20, step=1.0, reach=Reach(absolute=3.0)),
    Column("value", "number", "free", low=10, high=40, step=5.0, reach=Reach(steps=1)),
    Column("savings", "number", "up", True, low=0, high=20, step=1.0, useful=5.0, provide=True),
    Column("home", "category", "free", dtype="str", levels=("rent", "own", "none")),
    Column("ltv", "number", "down", low=0, high=2, decimals=2, formula=Formula("ratio", ("loan", "value"), 0.0)),
)
PEOPLE: list[list[Cell]] = [
    [22.0, 10.0, 20.0, 10.0, "rent", 0.5],
    [20.0, 10.0, 20.0, 10.0, "rent", 0.5],  # stays at home, and finds income hard
    [20.0, 8.0, 20.0, None, "rent", 0.4],
]
"""All three are refused."""


def points(table: pd.DataFrame) -> np.ndarray:
    """P(yes) by hand."""
    savings = np.nan_to_num(numbers(table["savings"]), nan=0.0)
    owns = positions(COLUMNS[4], table["home"]) == 1
    total = numbers(table["income"]) / 10 + savings / 10 + owns - 2 * numbers(table["ltv"]) - 2.75
    return 1 / (1 + np.exp(-total))


def advised_world() -> tuple[World, Question]:
    """A small world of the second kind."""
    background = [
        [float(10 + 4 * k), float(2 + k), float(10 + 5 * (k % 6)), float(k), home, 0.0]
        for k in range(10)
        for home in ("rent", "own", "none")
    ]
    background = [[*row[:5], round(row[1] / row[2], 2)] for row in background]  # type: ignore[operator]
    decider = Decider("points", points, Chances(points, 0.5), noise=1e-7)
    accepted = decider.ask(build(COLUMNS, background)).yes
    limits = {"Ben": {"home": Limit(levels=("none",)), "income": Limit(high=25.0, difficulty=3.0)}}
    question = Question(ADVISED, PEOPLE, ["Ada", "Ben", "Cleo"], price=Price({"Effort": 1.0}), options=3, limits=limits)
    return World(ADVISED // PER_WORLD, COLUMNS, background, accepted, decider), question


def advised_answer(world: World, question: Question) -> ta.Recourse:
    """The library's own answer."""
    schema = declare(world.columns)
    model = ta.models.wrap(world.decider.model, schema, background=world.training)
    method = ta.methods.LocalSearch().fit(ta.Problem(schema, model, background=world.training))
    return method.find(table_of(world, question), options=question.options, limits=limits_of(question))


def wider(answer: ta.Recourse) -> ta.Recourse:
    """A range that holds values which are refused."""
    return replace(answer, provided=answer.provided.assign(low=0.0))


def doubled(answer: ta.Recourse) -> ta.Recourse:
    """The second option of Ada is nearly the first."""
    options = answer.options.copy()
    options.loc[("Ada", 1), :] = options.loc[("Ada", 0), :]
    return replace(answer, options=options.astype(answer.options.dtypes))


ADVISED_FAULTS: dict[str, tuple[Callable[[ta.Recourse], ta.Recourse], str]] = {
    "an amount that nobody uses": (lambda a: with_cells(a, "Ada", income=33.0), "no useful step"),
    "a change below use": (lambda a: with_cells(a, "Ada", income=25.0), "a change below use"),
    "too much of their own": (lambda a: with_cells(a, "Ada", income=35.0), "beyond reach"),
    "too far in units": (lambda a: with_cells(a, "Ada", loan=2.0), "beyond reach"),
    "too many steps": (lambda a: with_cells(a, "Ada", value=30.0), "beyond reach"),
    "a share left behind": (lambda a: with_cells(a, "Ada", loan=9.0, ltv=0.5), "a computed column strays"),
    "a share that rises": (lambda a: with_cells(a, "Ada", value=15.0, ltv=0.67), "a derived column the wrong way"),
    "a level that Ben will not take": (lambda a: with_cells(a, "Ben", home="own"), "against a person's limits"),
    "more than Ben will earn": (lambda a: with_cells(a, "Ben", income=30.0), "beyond reach"),
    "a cost that forgets what is hard": (lambda a: with_cells(a, "Ben", cost=0.2), "wrong cost"),
    "two options that are one": (doubled, "two options that are one"),
    "a range that does not hold": (wider, "refused within the range"),
    "IMPOSSIBLE for one with limits": (lambda a: with_status(a, "Ben", "IMPOSSIBLE"), "false IMPOSSIBLE"),
    "IMPOSSIBLE for one who can provide": (lambda a: with_status(a, "Cleo", "IMPOSSIBLE"), "false IMPOSSIBLE"),
    "an option that is not near": (lambda a: with_cells(a, "Ada", income=30.0), "farther than people usually go"),
}
"""What is done to the answer, and the accusation that must come of it."""
