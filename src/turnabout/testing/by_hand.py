"""Constraints, rules and printed rows read by hand: plain Python on raw cells, sharing no code with what it checks."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import pandas as pd

from turnabout.rules import AtMost, Changes, Falls, Implies, Is, Linear, Ordered, Rises, Rule, Waivable
from turnabout.schema import Category, Derived, Feature, Number, Passthrough, Schema

SLACK = 1e-8  # share of a rule's range that rounding may take
Row: TypeAlias = Mapping[str, Any] | pd.Series


def is_missing(cell: Any) -> bool:
    """None, NaN or NA."""
    return cell is None or cell is pd.NA or (isinstance(cell, float) and math.isnan(cell))


def differs(own: Any, new: Any) -> bool:
    """Whether a cell changed; two missing cells are alike."""
    if is_missing(own) or is_missing(new):
        return is_missing(own) != is_missing(new)
    return bool(own != new)


def position(feature: Feature, cell: Any) -> float:
    """A cell as a number: itself, or the place of its level."""
    if isinstance(feature, Number):
        return float(cell)
    return float(list(feature.levels).index(cell))  # type: ignore[attr-defined]


def wrong_value(feature: Feature, new: Any) -> str:
    """Why a changed cell is no value of its feature; "" when it is one."""
    if is_missing(new):
        return "is missing"
    if not isinstance(feature, Number):
        levels = list(feature.levels)  # type: ignore[attr-defined]
        return "" if new in levels else f"is not one of the levels {levels}"
    value = float(new)
    if not math.isfinite(value):
        return "is not finite"
    if not feature.low <= value <= feature.high:
        return f"lies outside [{feature.low:g}, {feature.high:g}]"
    step = feature.step if feature.useful_step is None else feature.useful_step
    if step is not None and abs(value / step - round(value / step)) > 1e-6:
        return f"is not a multiple of {step:g}"
    if -int(Decimal(repr(value)).normalize().as_tuple().exponent) > feature.places:
        return f"has more than {feature.places} decimals"
    return ""


def are_two_ways(schema: Schema, own: Any, a: Any, b: Any) -> bool:
    """Whether two new rows change other features, or put a clearly other value into one."""
    for f in schema:
        if isinstance(f, (Passthrough, Derived)):
            continue
        if differs(own[f.name], a[f.name]) != differs(own[f.name], b[f.name]):
            return True
        if not differs(a[f.name], b[f.name]):
            continue
        if not isinstance(f, Number):
            return True
        clear = 5 * f.least_change if f.least_change else 0.05 * (f.high - f.low)
        step = f.useful_step or f.step or 10.0**-f.places
        if abs(float(a[f.name]) - float(b[f.name])) >= max(clear, step) * (1 - 1e-6):
            return True
    return False


def out_of_reach(feature: Feature, own: Any, new: Any) -> str:
    """Why a changed cell is nothing that this person can, or need, go to; "" when it is."""
    reach = getattr(feature, "reach", None)
    here, there = position(feature, own), position(feature, new)
    change, slack = abs(there - here), 1e-6 * (1 + abs(here))
    least = (getattr(feature, "least_change", None) or 0.0) if isinstance(feature, Number) else 0.0
    if change < least - slack:
        return f"changes by {change:g}, and less than {least:g} is not worth making"
    if reach is None:
        return ""
    step = 1.0 if not isinstance(feature, Number) else feature.step or 10.0**-feature.places
    yearly = None if reach.per_year is None else reach.per_year * reach.years
    by_steps = None if reach.steps is None else reach.steps * step
    share = None if reach.relative is None else reach.relative * abs(here)
    for most in (reach.absolute, share, yearly, by_steps):
        if most is not None and change > most + slack:
            return f"changes by {change:g}, and {most:g} is as far as they can go"
    if reach.low is not None and there < reach.low - slack:
        return f"lies below {reach.low:g}"
    if reach.high is not None and there > reach.high + slack:
        return f"lies above {reach.high:g}"
    return ""


def legal_values(feature: Feature, own: Any) -> list[Any]:
    """Every value a plan may give this cell, the person's own first."""
    if is_missing(own) or feature.moves == "fixed":
        return [own]
    every: list[Any]
    if isinstance(feature, Number):
        step = Decimal(repr(feature.step)) if feature.step is not None else Decimal(1).scaleb(-feature.places)
        step = step if feature.useful_step is None else Decimal(repr(feature.useful_step))
        low, high = Decimal(repr(feature.low)), Decimal(repr(feature.high))
        first, last = math.ceil(low / step), math.floor(high / step)
        if last - first > 100_000:
            raise ValueError(f"'{feature.name}' has {last - first + 1} values: too many to try.")
        every = [float(k * step) for k in range(first, last + 1)]
    else:
        every = list(feature.levels)  # type: ignore[attr-defined]
    here = position(feature, own)
    may: Callable[[float], bool] = {
        "free": lambda there: there != here,
        "up": lambda there: there > here,
        "down": lambda there: there < here,
    }[feature.moves]
    others = [value for value in every if may(position(feature, value))]
    return [own, *(value for value in others if not out_of_reach(feature, own, value))]


def keeps(rule: Rule, schema: Schema, own: Row, new: Row, waivable: bool = False) -> bool | None:
    """Whether a new row keeps a rule; None for a rule of a kind not known here.

    Where a missing cell leaves a rule open that the change touches, it is not kept, unless it is waivable.
    """
    if isinstance(rule, Waivable):
        return keeps(rule.rule, schema, own, new, waivable=True)
    if isinstance(rule, AtMost):
        names = schema.names if rule.features is None else rule.features
        return sum(differs(own[name], new[name]) for name in names) <= rule.k
    if isinstance(rule, Ordered):
        return keeps(Linear({rule.lower: 1.0, rule.upper: -1.0}, "<=", 0.0), schema, own, new, waivable)
    if isinstance(rule, Linear):
        owners = [_owner(key, schema) for key, c in rule.coefficients.items() if c]
        if any(is_missing(own[name]) for name in owners):
            return waivable or not any(differs(own[name], new[name]) for name in owners)
        return _keeps_linear(rule, schema, new)
    if isinstance(rule, Implies):
        if any(is_missing(own[part.feature]) for part in (rule.condition, rule.consequence)):
            return waivable or _keeps_unseen(rule, schema, own, new)
        condition, consequence = (_holds(part, schema, own, new) for part in (rule.condition, rule.consequence))
        return None if condition is None or consequence is None else (not condition or consequence)
    return None


def _keeps_unseen(rule: Implies, schema: Schema, own: Row, new: Row) -> bool | None:
    """An implication of which one cell, or both, are missing."""
    first, second = rule.condition, rule.consequence
    if is_missing(own[first.feature]):  # a missing cell neither rises nor falls, but which level is it?
        open_end = isinstance(first, Is) and differs(own[second.feature], new[second.feature])
        return not open_end or _holds(second, schema, own, new)
    if not differs(own[first.feature], new[first.feature]):
        return True
    condition = _holds(first, schema, own, new)
    return None if condition is None else not condition


def _owner(key: str, schema: Schema) -> str:
    """The feature that a coefficient speaks of: age, or housing of housing=own."""
    if key in schema.names:
        return key
    return next(f.name for f in schema if isinstance(f, Category) and key in [f"{f.name}={v}" for v in f.levels])


def _keeps_linear(rule: Linear, schema: Schema, new: Row) -> bool:
    total, size = 0.0, 0.0
    for key, c in rule.coefficients.items():
        if not c:
            continue
        name = _owner(key, schema)
        feature, level = schema[name], key[len(name) + 1 :]
        if isinstance(feature, Category):
            held = next((own_level for own_level in feature.levels if own_level == new[name]), None)  # 10, also of 10.0
            total, size = total + c * (str(held) == level), size + abs(c)
        else:
            span = feature.high - feature.low if isinstance(feature, Number) else 1.0
            total, size = total + c * position(feature, new[name]), size + abs(c) * span
    gap = total - rule.bound if rule.sense == "<=" else rule.bound - total
    return gap <= SLACK * size


def _holds(condition: Any, schema: Schema, own: Row, new: Row) -> bool | None:
    name = condition.feature
    if isinstance(condition, Changes):
        return differs(own[name], new[name])
    if isinstance(condition, Is):
        return bool(new[name] == condition.level)
    if isinstance(condition, (Rises, Falls)):
        rise = position(schema[name], new[name]) - position(schema[name], own[name])
        rise = rise if isinstance(condition, Rises) else -rise
        return rise > 0 if condition.by is None else rise >= condition.by * (1 - SLACK)
    return None


def through_csv(schema: Schema, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows as someone reads them off a printed letter: written as CSV text, and typed in again."""
    text = rows[list(schema.names)].to_csv(index=False)
    read = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    return pd.DataFrame({f.name: as_column(f, [_type_in(f, cell) for cell in read[f.name]]) for f in schema})


def as_column(feature: Feature, cells: list[Any]) -> pd.Series:
    """Cells as a column of the type they would have in a table; text stays text even where all is missing."""
    column = pd.Series([float("nan") if is_missing(cell) else cell for cell in cells], dtype=object)
    text = not isinstance(feature, Number) and isinstance(feature.levels[0], str)  # type: ignore[attr-defined]
    return column if text else column.infer_objects()


def _type_in(feature: Feature, text: str) -> Any:
    if text == "":
        return float("nan")
    if isinstance(feature, Number):
        return float(text)
    for level in feature.levels:  # type: ignore[attr-defined]
        if text == str(level) or (not isinstance(level, str) and text == str(float(level))):
            return level
    raise ValueError(f"column '{feature.name}' is printed as {text!r}, which is none of its levels.")
