"""Small random problems with actions, and the cheapest plan of a person by trying every one, in plain Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from tests.methods.sequences.toys import tiny_net

from turnabout.actions import (
    Absolute,
    Action,
    ActionSet,
    ConstantPrice,
    Follow,
    Parameter,
    Scale,
    Set,
    Shift,
    Squared,
    new,
    old,
)
from turnabout.core import Problem
from turnabout.core.verify import clearance
from turnabout.models import wrap
from turnabout.rules import AtMost, Falls, Implies, Linear, Ordered, Rises, Rule
from turnabout.schema import Category, Number, Ordinal, Schema
from turnabout.testing.by_hand import keeps, legal_values
from turnabout.testing.steps_by_hand import price, wrong_step

Cells = dict[str, Any]


# -- every plan -----------------------------------------------------------------------------------------------------


def next_rows(problem: Problem, action: Action, own: Cells, here: Cells) -> Iterator[Cells]:
    """Every printed row to which an action may lead from here, with all rules kept."""
    schema = problem.schema
    for values in itertools.product(*(legal_values(schema[name], own[name]) for name in action.writes)):
        there = here | dict(zip(action.writes, values, strict=True))
        if _may(schema, action, here, there) and all(
            keeps(rule, schema, own, there) is not False for rule in problem.declared_rules
        ):
            yield there


def _may(schema: Schema, action: Action, here: Cells, there: Cells) -> bool:
    try:
        return wrong_step(schema, action, here, there) == ""
    except ZeroDivisionError:  # nothing is a multiple of zero
        return False


def cheapest(problem: Problem, own: Cells, steps: int) -> float:
    """The least cost of a plan of at most so many steps that the original accepts, inf where there is none."""
    names = list(problem.schema.names)
    level: dict[tuple[Any, ...], tuple[float, Cells]] = {((), *(own[name] for name in names)): (0.0, own)}
    ends: dict[tuple[Any, ...], tuple[float, Cells]] = {}
    for _ in range(steps):
        after: dict[tuple[Any, ...], tuple[float, Cells]] = {}
        for (taken, *_), (cost, here) in level.items():
            for a, action in enumerate(problem.actions.actions):
                if a in taken:
                    continue
                used = taken if action.repeatable else tuple(sorted((*taken, a)))
                for there in next_rows(problem, action, own, here):
                    total = cost + (price(problem.schema, action, here, there) or 0.0)
                    key = tuple(there[name] for name in names)
                    for book, entry in ((after, (used, *key)), (ends, key)):
                        if total < book.get(entry, (math.inf, own))[0]:
                            book[entry] = (total, there)
        level = after
    if not ends:
        return math.inf
    yes = problem.judge(pd.DataFrame([row for _, row in ends.values()])[names]) >= clearance(problem)
    return min((cost for (cost, _), good in zip(ends.values(), yes, strict=True) if good), default=math.inf)


# -- random problems ------------------------------------------------------------------------------------------------


def random_problem(seed: int, kind: str = "net", rules: bool = False) -> tuple[Problem, pd.DataFrame]:
    """Whole and half numbers, an ordinal and a category; shifts, new values, factors, guards; refused people."""
    rng = np.random.default_rng([seed, 7])
    schema = Schema(
        (
            Number("a", 0, 8, step=1),
            Number("b", 1, 7, step=float(rng.choice([0.5, 1.0]))),
            Ordinal("c", ("low", "mid", "high")),
            Category("d", ("x", "y")),
        )
    )
    actions = random_actions(rng)
    model = random_decider(kind, schema, seed)
    problem = Problem(schema, model, actions=ActionSet(actions), rules=random_rules(rng) if rules else ())
    rows = {
        "a": rng.integers(0, 8, 30) + rng.choice([0.0, 0.0, 0.0, 0.25], 30),
        "b": rng.integers(1, 8, 30).astype(float),
        "c": rng.choice(["low", "mid", "high"], 30),
        "d": rng.choice(["x", "y"], 30),
    }
    people = pd.DataFrame(rows)
    return problem, people[problem.judge(people) < 0].iloc[:3].reset_index(drop=True)


def random_actions(rng: np.random.Generator) -> list[Action]:
    """Three or four of the kinds there are."""

    def number(low: float, high: float) -> float:
        return round(float(rng.uniform(low, high)), 2)

    kinds = [
        Action("move_a", Shift("a"), Absolute("a", per=number(0.5, 3))),
        Action(
            "raise_a", Shift("a"), ConstantPrice(number(0, 1)) + Absolute("a", per=number(2, 6)), [new("a") > old("a")]
        ),
        Action("move_b", Shift("b"), Squared("b", per=number(1, 3)), [old("a") >= number(0, 6)]),
        Action("set_b", Set("b", "value"), Absolute("b", per=number(0.5, 3)), parameters=[Parameter("value", 2, 6)]),
        Action("both", [Shift("a", "n"), Shift("b", "n", times=-0.37)], Absolute("a") + Absolute("b", per=2.0)),
        Action("scale_b", Scale("b"), Absolute("b", relative=True), parameters=[Parameter("b", 0.4, 2.2)]),
        Action("train", [Shift("c", 1), Shift("a", -1)], number(0.2, 1.5), repeatable=bool(rng.random() < 0.5)),
        Action("switch", Set("d", "y"), number(0.1, 2), [old("c") != "low"]),
        Action("back", Set("d", "x"), number(0.1, 2)),
        Action("scale_a", Scale("a"), Absolute("a"), [old("a") >= 1], parameters=[Parameter("a", 0.3, 1.8)]),
        Action("follow", [Shift("b"), Follow("a", "b", times=0.37)], Absolute("a") + Squared("b"), [old("a") <= 6]),
    ]
    picked = rng.choice(len(kinds), int(rng.integers(2, 5)), replace=False)
    return [kinds[k] for k in sorted(picked)]


def random_rules(rng: np.random.Generator) -> list[Rule]:
    """One or two rules that join columns."""
    kinds: list[Rule] = [
        Linear({"a": 1.0, "b": 1.0}, "<=", float(rng.integers(9, 14))),
        Linear({"a": 1.0, "b": -1.0}, ">=", float(rng.integers(-6, 0))),
        Linear({"a": 1.0, "d=y": 3.0}, "<=", float(rng.integers(8, 11))),
        Implies(Rises("a"), Rises("b", by=1.0)),
        Implies(Falls("b"), Rises("c")),
        AtMost(int(rng.integers(1, 3))),
        Ordered("b", "a"),
    ]
    picked = rng.choice(len(kinds), int(rng.integers(1, 3)), replace=False)
    return [kinds[k] for k in picked]


def random_decider(kind: str, schema: Schema, seed: int):
    """A linear model, a small net, or trees."""
    if kind == "net":
        return tiny_net(schema, seed, accepted=0.15)
    from turnabout.testing.deciders import random_model

    if kind != "trees":
        return random_model(kind, schema, seed)
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

    rng = np.random.default_rng([seed, 9])
    table = pd.DataFrame(
        {
            "a": rng.integers(0, 9, 300).astype(float),
            "b": rng.integers(1, 8, 300).astype(float),
            "c": rng.choice(["low", "mid", "high"], 300),
            "d": rng.choice(["x", "y"], 300),
        }
    )
    score = rng.normal() * table["a"] + rng.normal() * table["b"] + rng.normal(0, 2, 300) * (table["d"] == "y")
    columns = make_column_transformer(
        ("passthrough", ["a", "b"]),
        (OrdinalEncoder(categories=[["low", "mid", "high"]]), ["c"]),
        (OneHotEncoder(), ["d"]),
    )
    wood = RandomForestClassifier(5, max_depth=4, random_state=0)
    return wrap(make_pipeline(columns, wood).fit(table, score > np.quantile(score, 0.85)), schema, background=table)
