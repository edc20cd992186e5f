"""Plans of steps: each step is replayed by hand, with the actions that a schema drafts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from fuzz.columns import Cell, same
from fuzz.frames import text_of
from fuzz.questions import Question
from fuzz.worlds import World

Accusation = tuple[str, Any, str]


def judge_plans(
    world: World, question: Question, answer: Any, rows: dict[tuple[Any, int], list[Cell]]
) -> Iterator[Accusation]:
    """Steps lead from the person's row to the option, each within what they may do, at the price that is said."""
    for key, row in rows.items():
        person = key[0]
        own = question.people[question.labels.index(person)]
        state, paid = list(own), 0.0
        steps = [step for index, step in zip(answer.steps.index, answer.steps.to_dict("records")) if index[:2] == key]
        if len(steps) != int(answer.plans["steps"].loc[key]):
            yield "steps lost", person, f"{len(steps)} steps are told of {int(answer.plans['steps'].loc[key])}"
        for step in steps:
            after = _after(world, state, step)
            for column, a, b in zip(question.world_of(world, person).columns, state, after):
                wrong = column.breach(a, b)
                if wrong is not None:
                    yield wrong, person, f"in a step, {column.name!r}: {a!r} -> {b!r}"
            price = sum(c.distance(a, b) for c, a, b in zip(world.columns, state, after))
            if not math.isclose(price, step["cost"], rel_tol=1e-6, abs_tol=1e-7):
                yield "wrong cost", person, f"a step costs {price:.9g}, said {step['cost']:.9g}"
            state, paid = after, paid + price
        if not all(same(a, b) for a, b in zip(state, row)):
            yield "steps lead elsewhere", person, f"to {world.row(state)}, the option is {world.row(row)}"
        for said in (answer.options["cost"].loc[key], answer.plans["cost"].loc[key]):
            if not math.isclose(paid, said, rel_tol=1e-6, abs_tol=1e-7):
                yield "wrong cost", person, f"the steps cost {paid:.9g}, said {said:.9g}"


def _after(world: World, state: list[Cell], step: dict[str, Any]) -> list[Cell]:
    becomes = json.loads(step["becomes"])
    after = list(state)
    for i, column in enumerate(world.columns):
        if column.name in becomes:
            after[i] = column.read(text_of(becomes[column.name]))
    return after
