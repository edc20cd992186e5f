"""Steps of a plan read by hand: effects, conditions, costs and durations of actions on raw cells, in plain Python."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from turnabout.actions import (
    Absolute,
    Action,
    Condition,
    ConstantPrice,
    Effect,
    Expression,
    Follow,
    KeepRatio,
    Scale,
    Set,
    Shift,
    Squared,
)
from turnabout.core import Recourse
from turnabout.schema import Category, Feature, Number, Schema
from turnabout.testing.by_hand import differs, is_missing, position
from turnabout.testing.trial import Option, Trial, each_option

SLACK = 1e-8  # share of its size by which a comparison may miss, where it is not strict
Cells = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a plan as told, with the raw rows before and after it."""

    number: int
    action: str
    parameters: dict[str, Any]
    cost: float
    duration: float
    margin: float
    old: dict[str, Any]
    new: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Journey:
    """An option with the steps that lead to it, in the order told."""

    option: Option
    answer: Recourse
    steps: list[Step]

    def __str__(self) -> str:
        return str(self.option)


def each_journey(trial: Trial) -> Iterator[Journey]:
    """Every option that is shown with steps."""
    answers = {id(case): answer for case, answer in trial.answered()}
    for option in each_option(trial):
        answer = answers[id(option.case)]
        told = answer.steps[mine(answer.steps, (option.person, option.number))]
        if len(told):
            yield Journey(option, answer, _read(option, told))


def mine(table: pd.DataFrame, key: tuple[Any, ...]) -> np.ndarray:
    """Which lines of a table of the answer have an index that begins with a key."""
    labels: Any = table.index.tolist()
    return np.array([label[: len(key)] == key for label in labels], dtype=bool)


def _read(option: Option, told: pd.DataFrame) -> list[Step]:
    row = {name: option.own[name] for name in option.case.problem.schema.names}
    out = []
    for number, (_, line) in zip(told.index.get_level_values(-1), told.iterrows(), strict=True):
        new = row | json.loads(line["becomes"])
        cost, duration, margin = (float(line[name]) for name in ("cost", "duration", "margin"))
        out.append(Step(number, line["action"], json.loads(line["parameters"]), cost, duration, margin, row, new))
        row = new
    return out


# -- what a step did ---------------------------------------------------------------------------------------------


def wrong_step(schema: Schema, action: Action, old: Cells, new: Cells) -> str:
    """Why an action does not lead from one printed row to the next; "" when it does."""
    for name in schema.names:
        if name not in action.writes and differs(old[name], new[name]):
            return f"changes '{name}', which the action does not touch"
    for name in sorted(set(action.writes) | set(action.reads or ())):
        if is_missing(old[name]) or is_missing(new[name]):
            return f"needs '{name}', which is missing"
    if action.is_free:
        return ""
    amounts = _amounts(schema, action, old, new)
    if amounts and not any(differs(old[name], new[name]) for name in action.writes):
        return "changes nothing"
    for parameter in action.parameters:
        amount, low, high = amounts[parameter.name], parameter.low, parameter.high
        if low is not None and amount < low - SLACK * (1 + abs(low)):
            return f"takes '{parameter.name}' to {amount:g}, below {low:g}"
        if high is not None and amount > high + SLACK * (1 + abs(high)):
            return f"takes '{parameter.name}' to {amount:g}, above {high:g}"
    for effect in action.effect:
        if wrong := _wrong_effect(schema, action, effect, amounts, old, new):
            return wrong
    for condition in action.precondition:
        if not holds(schema, condition, old, new):
            return f"breaks its condition '{condition}'"
    return ""


def _amounts(schema: Schema, action: Action, old: Cells, new: Cells) -> dict[str, float]:
    """The parameters, each read off the first effect that uses it."""
    out: dict[str, float] = {}
    for effect in action.effect:
        name = action.parameter_of(effect)
        if name is None or name in out:
            continue
        before, after = (position(schema[effect.feature], row[effect.feature]) for row in (old, new))
        if isinstance(effect, Shift):
            out[name] = (after - before) / effect.times
        elif isinstance(effect, Scale):
            out[name] = after / before
        else:
            out[name] = after
    return out


def _wrong_effect(
    schema: Schema, action: Action, effect: Effect, amounts: dict[str, float], old: Cells, new: Cells
) -> str:
    name = effect.feature
    feature = schema[name]
    if isinstance(effect, Set) and action.parameter_of(effect) is None and not isinstance(feature, Number):
        return "" if new[name] == effect.to else f"sets '{name}' to {new[name]!r}, not to {effect.to!r}"
    meant = _meant(schema, action, effect, amounts, old)
    shown = position(feature, new[name])
    if not abs(shown - meant) <= _half_a_step(feature) + SLACK * (1 + abs(meant)):
        return f"takes '{name}' to {shown:g}, and its effect would be {meant:g}"
    return ""


def _meant(schema: Schema, action: Action, effect: Effect, amounts: dict[str, float], old: Cells) -> float:
    """The value an effect arrives at, before it is rounded."""
    before = position(schema[effect.feature], old[effect.feature])
    name = action.parameter_of(effect)
    if isinstance(effect, Shift):
        amount = amounts[name] if name is not None else float(effect.by)  # type: ignore[arg-type]
        return before + effect.times * amount
    if isinstance(effect, Scale):
        return before * (amounts[name] if name is not None else float(effect.by))  # type: ignore[arg-type]
    if isinstance(effect, Set):
        return amounts[name] if name is not None else float(effect.to)
    if isinstance(effect, (Follow, KeepRatio)):
        leader = next(other for other in action.effect if other.feature == effect.leader)
        was, becomes = position(schema[effect.leader], old[effect.leader]), _meant(schema, action, leader, amounts, old)
        return before + effect.times * (becomes - was) if isinstance(effect, Follow) else before * becomes / was
    raise TypeError(f"{type(effect).__name__} is an effect that is not known here")


def _half_a_step(feature: Feature) -> float:
    if not isinstance(feature, Number):
        return 0.5
    return 0.5 * (feature.step if feature.step is not None else 10.0**-feature.places)


# -- conditions, costs, durations --------------------------------------------------------------------------------


def holds(schema: Schema, condition: Condition, old: Cells, new: Cells) -> bool:
    """Whether a condition is kept by the raw rows before and after."""
    right = condition.right
    if not isinstance(right, Expression):
        assert condition.left.single is not None
        when, name = condition.left.single
        cell, feature = (old if when == "old" else new)[name], schema[name]
        if condition.sense in ("is", "is not"):
            same = bool(cell == right) if not isinstance(feature, Number) else math.isclose(float(cell), float(right))
            return same == (condition.sense == "is")
        gap, size = position(feature, cell) - position(feature, right), 1.0
    else:
        (a, a_size), (b, b_size) = (summed(schema, side, old, new) for side in (condition.left, right))
        gap, size = a - b, a_size + b_size
    if condition.sense == "is":
        return abs(gap) <= SLACK * size
    gap = gap if condition.sense in (">", ">=") else -gap
    return gap > 0 if condition.sense in (">", "<") else gap >= -SLACK * size


def summed(schema: Schema, expression: Expression, old: Cells, new: Cells) -> tuple[float, float]:
    """The value of an expression on raw rows, and the size of what it is made of."""
    total, size = expression.constant, abs(expression.constant)
    for when, name, weight in expression.terms:
        part = weight * position(schema[name], (old if when == "old" else new)[name])
        total, size = total + part, size + abs(part)
    return total, size


def price(schema: Schema, action: Action, old: Cells, new: Cells) -> float | None:
    """What a declared step costs; None for a cost that is not known here."""
    total = 0.0
    for term in action.cost.terms:
        if isinstance(term, ConstantPrice):
            total += term.value
            continue
        if not isinstance(term, (Absolute, Squared)) or isinstance(schema[term.feature], Category):
            return None
        before, after = (position(schema[term.feature], row[term.feature]) for row in (old, new))
        if term.relative and before == 0:
            return None
        change = abs(after - before) / (abs(before) if term.relative else 1.0) / term.per
        total += term.weight * (change if isinstance(term, Absolute) else change**2)
    return None if action.is_free else total


def duration(schema: Schema, action: Action, old: Cells, new: Cells) -> float:
    """How long a step takes."""
    return summed(schema, action.duration, old, new)[0]
