"""Hypothesis strategies for schemas, people, models and whole problems. The only module that imports hypothesis.

@given(case=problems())
def test_found_options_are_accepted(case):
    problem, people = case
    ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pandas as pd
from hypothesis import strategies as st

from turnabout.core import Problem
from turnabout.costs import Cost
from turnabout.models import Model
from turnabout.rules import Rule
from turnabout.schema import Schema
from turnabout.testing.deciders import kinds_for, random_model
from turnabout.testing.generate import random_case, random_cost, random_rules
from turnabout.testing.random_people import random_people, random_schema

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]


class DrawnDice:
    """Choices drawn by hypothesis, which therefore knows how to make a failing problem smaller."""

    def __init__(self, draw: Draw):
        self._draw = draw

    def whole(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def pick(self, options: Sequence[T]) -> T:
        return options[self.whole(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.whole(1, 100) > 100 - percent  # shrinks to False


@st.composite
def schemas(draw: Draw, tiny: bool = False) -> Schema:
    """Two to five features of all kinds, at least one of which may move."""
    return random_schema(DrawnDice(draw), tiny)


@st.composite
def people(draw: Draw, schema: Schema, most: int = 6, plain: bool = False) -> pd.DataFrame:
    """People under a schema; unless plain, some off the grid or outside the bounds."""
    dice = DrawnDice(draw)
    return random_people(dice, schema, dice.whole(1, most), plain)


@st.composite
def models(draw: Draw, schema: Schema, requires: type | None = None) -> Model:
    """A linear model, ReLU net, step function, plain function or decision tree, if it offers what is required."""
    dice = DrawnDice(draw)
    return random_model(dice.pick(kinds_for(requires)), schema, dice.whole(0, 9999))


@st.composite
def costs(draw: Draw, schema: Schema) -> Cost:
    """Costs; some need a background."""
    return random_cost(DrawnDice(draw), schema)


@st.composite
def rules(draw: Draw, schema: Schema) -> list[Rule]:
    """At most two rules that bind."""
    return random_rules(DrawnDice(draw), schema)


@st.composite
def problems(
    draw: Draw, requires: type | None = None, most: int = 5, tiny: bool = False, actions: bool = False
) -> tuple[Problem, pd.DataFrame]:
    """(problem, people): all of the above, with a labelled background.

    Parameters
    ----------
    requires : the capability the model must offer, as `Method.requires`.
    most : the largest number of people.
    tiny : only features with a handful of values, so that `brute_force` can try every row.
    actions : whether the problem has drafted actions and the cost that goes with them, as `Method.needs_actions` asks.
    """
    dice = DrawnDice(draw)
    case = random_case(dice, requires, people=dice.whole(1, most), tiny=tiny, actions=actions)
    return case.problem, case.people
