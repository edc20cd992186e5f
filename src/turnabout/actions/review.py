"""A set of actions as a table of plain sentences, for the person who answers for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from turnabout.actions.action import Action
from turnabout.actions.effects import Set, Shift
from turnabout.actions.expressions import Condition, Expression, When
from turnabout.actions.numbers import brief

if TYPE_CHECKING:
    import pandas as pd

SAID = {"<": "below", "<=": "at most", ">": "above", ">=": "at least"}


def review(actions: Sequence[Action], time_unit: str) -> pd.DataFrame:
    """One line per action: what it does, what it costs, when it is possible, how long it takes, what it touches."""
    import pandas as pd

    columns = ["action", "does", "costs", "only if", "takes", "touches"]
    return pd.DataFrame([_line(action, time_unit) for action in actions], columns=columns)


def _line(action: Action, time_unit: str) -> tuple[str, ...]:
    if action.is_free:
        named = ", ".join(p.name for p in action.parameters)
        does = f"a function of {named}" if named else "a function"
        costs, only_if = "a function", "a function" if action.form and action.form.precondition else ""
    else:
        does = "; ".join(_does(action))
        costs, only_if = action.cost.sentence(), "; ".join(map(condition_sentence, action.precondition))
    more = "; may be repeated" if action.repeatable else ""
    return action.name, does + more, costs, only_if, _takes(action.duration, time_unit), ", ".join(action.writes)


def _does(action: Action) -> list[str]:
    limits = {p.name: p for p in action.parameters}
    out = []
    for effect in action.effect:
        sentence = effect.sentence()
        name = action.parameter_of(effect)
        if isinstance(effect, Set) and name is not None:
            sentence = f"sets {effect.feature} to a chosen value"
        if name is not None and (parameter := limits.pop(name, None)) is not None:  # said once
            unit = f" {parameter.unit}" if parameter.unit and isinstance(effect, (Shift, Set)) else ""
            low, high = parameter.low, parameter.high
            if low is not None and high is not None:
                sentence += f", {brief(low)} to {brief(high)}{unit}"
            elif low is not None:
                sentence += f", at least {brief(low)}{unit}"
            elif high is not None:
                sentence += f", at most {brief(high)}{unit}"
        out.append(sentence)
    return out


def condition_sentence(condition: Condition) -> str:
    """A condition as a person reads it."""
    left = _expression(condition.left)
    if not isinstance(condition.right, Expression):
        said = SAID.get(condition.sense)
        return f"{left} {condition.sense} {condition.right}" if said is None else f"{left} is {said} {condition.right}"
    return f"{left} is {SAID.get(condition.sense, 'equal to')} {_expression(condition.right)}"


def _expression(expression: Expression) -> str:
    """2 * (new age - old age) reads "2 times the change of age"; single values as "old age", "new age"."""
    weights = {(when, feature): weight for when, feature, weight in expression.terms}
    parts: list[tuple[float, str]] = []
    for when, feature, weight in expression.terms:
        other: When = "old" if when == "new" else "new"
        if weights.get((other, feature)) == -weight:
            if when == "new":
                parts.append((weight, f"the change of {feature}"))
            continue
        parts.append((weight, f"{when} {feature}"))
    text = ""
    for weight, what in parts:
        size = what if abs(weight) == 1 else f"{brief(abs(weight))} times {what}"
        text += (" minus " if text else "minus ") + size if weight < 0 else (" plus " if text else "") + size
    if not text:
        return brief(expression.constant)
    if expression.constant:
        text += f" {'minus' if expression.constant < 0 else 'plus'} {brief(abs(expression.constant))}"
    return text


def _takes(duration: Expression, time_unit: str) -> str:
    if duration.same_as(Expression()):
        return "no time"
    text = _expression(duration)
    if not time_unit:
        return text
    return f"{text} {time_unit}" if duration.is_constant else f"{text} (in {time_unit})"
