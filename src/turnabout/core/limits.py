"""What a person will not or cannot change, beyond what the schema says of everybody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd

from turnabout.core.intake import Intake, SearchGroup
from turnabout.core.problem import Problem
from turnabout.core.result import Status
from turnabout.costs import Weighted
from turnabout.documents import shown
from turnabout.errors import MethodError, SchemaError
from turnabout.rules import KnownLevels
from turnabout.schema import Derived, Feature, Number, Schema
from turnabout.schema.levels import Category, Levels
from turnabout.schema.reach import Reach
from turnabout.typing import Level, is_number

HINT = (
    'write limits={"Ada": {"job": "fixed", "income": (None, 60000)}}, or a table of person, feature, low, high, fixed.'
)


@dataclass(frozen=True)
class Limit:
    """What holds of one feature for one person; whatever is given.

    Parameters
    ----------
    fixed : it stays as it is.
    low, high : lowest and highest new value of a number.
    levels : the levels that they may switch to.
    difficulty : how much harder a change is for them; multiplies its cost.
    """

    fixed: bool = False
    low: float | None = None
    high: float | None = None
    levels: tuple[Level, ...] | None = None
    difficulty: float = 1.0

    def says(self, name: str) -> str:
        """In words: "income not above 60000"."""
        parts = ["fixed"] if self.fixed else []
        parts += [] if self.low is None else [f"not below {self.low:g}"]
        parts += [] if self.high is None else [f"not above {self.high:g}"]
        parts += [] if self.levels is None else [f"only {', '.join(map(str, self.levels)) or 'as it is'}"]
        parts += [] if self.difficulty == 1 else [f"{self.difficulty:g} times as hard"]
        return f"{name} {' and '.join(parts)}" if parts else ""


PersonLimits = tuple[tuple[str, Limit], ...]  # by feature, in the schema's order


def read_limits(limits: Any, people: pd.Index, schema: Schema) -> dict[int, PersonLimits]:
    """Limits by the position of each person who has some; refuses unknown people, columns and values."""
    if limits is None:
        return {}
    given = _from_table(limits) if isinstance(limits, pd.DataFrame) else limits
    if not isinstance(given, Mapping):
        raise MethodError(f"limits={shown(limits)} say nothing of people.", hint=HINT)
    out = {}
    for person, entries in given.items():
        if person not in people:
            raise MethodError(f"limits= name {person!r}, who is not among the people asked about.", hint=HINT)
        if not isinstance(entries, Mapping):
            raise MethodError(f"the limits of person {person!r} are {shown(entries)}.", hint=HINT)
        for name in entries:
            if name not in schema.names:
                raise MethodError(
                    f"the limits of person {person!r} name '{name}', which is no feature of the schema.",
                    hint=f"it has {', '.join(schema.names)}.",
                )
        found = {name: _limit(person, schema[name], entries[name]) for name in schema.names if name in entries}
        held = [n for n, limit in found.items() if n in schema.derived and replace(limit, difficulty=1.0) != Limit()]
        if held:
            raise MethodError(
                f"person {person!r} has a limit of '{held[0]}', which follows from other features by a rule.",
                hint="limit what it follows from: bounds limit what people choose, not what comes of it.",
            )
        out[people.tolist().index(person)] = tuple(found.items())
    return out


def by_limits(
    groups: Iterable[SearchGroup], place: np.ndarray, limits: Mapping[int, PersonLimits]
) -> Iterator[SearchGroup]:
    """Groups split by what limits their people; place (m,) of each person in the table as given."""
    for group in groups:
        if not limits:
            yield group
            continue
        members: dict[PersonLimits, list[int]] = {}
        for row in group.rows.tolist():
            members.setdefault(limits.get(int(place[row]), ()), []).append(row)
        for own, rows in members.items():
            yield replace(group, problem=limited(group.problem, own) if own else group.problem, rows=np.array(rows))


def near_first(groups: Iterable[SearchGroup], intake: Intake) -> Iterator[SearchGroup]:
    """Each group within what people usually do, and then those who have no option there within more, and at last all.

    What is not found near by proves nothing, so that proofs come from the last search.
    """
    for group in groups:
        left = group.rows
        near = group.problem.schema.nearer()
        for turn, schema in enumerate(near):
            if len(left):
                narrow, later = group.problem.under(schema.features), len(near) - turn
                yield replace(group, problem=narrow, rows=left, complete=False, later=later)
            left = left[intake.builder.status[intake.place[left]] != Status.FOUND]
        if len(left):
            yield replace(group, rows=left)


def limits_within(limits: Mapping[int, PersonLimits], people: pd.Index) -> dict[Any, dict[str, Limit]]:
    """Limits by the labels of people."""
    return {people[place]: dict(own) for place, own in limits.items()}


def limits_left(limits: Any, people: pd.Index, left: pd.Index, schema: Schema) -> dict[Any, dict[str, Limit]]:
    """Limits as they were written for people, by label, of those who are left for a report; refuses who is unknown."""
    named = limits_within(read_limits(limits, people, schema), people)
    return {label: own for label, own in named.items() if label in left}


def told(limits: PersonLimits) -> str:
    """Limits in words."""
    return "; ".join(text for name, limit in limits if (text := limit.says(name)))


def limited(problem: Problem, limits: PersonLimits) -> Problem:
    """The question as it stands for people with these limits."""
    by_name = dict(limits)
    avoid = {name: _barred(problem.schema[name], limit) for name, limit in limits if limit.levels is not None}
    features = tuple(_narrowed(f, by_name[f.name]) if f.name in by_name else f for f in problem.schema.features)
    barred = {name: levels for name, levels in avoid.items() if levels}
    other = problem.under(features, [KnownLevels(barred)] if barred else [])
    harder = {name: limit.difficulty for name, limit in limits if limit.difficulty != 1}
    if harder:
        other.declared_cost = Weighted(harder, problem.declared_cost)
        other.cost = other.declared_cost.bind(other.schema, problem.background_x)
    other.limits = told(limits)
    return other


def _narrowed(feature: Feature, limit: Limit) -> Feature:
    """A feature as it is for one person; fixed where nothing is left to choose."""
    if limit.fixed or feature.moves == "fixed":
        return replace(feature, moves="fixed")  # type: ignore[type-var]
    if not isinstance(feature, Number) or (limit.low is None and limit.high is None):
        return feature
    reach = feature.reach or Reach()
    lows = [v for v in (reach.low, limit.low) if v is not None]
    highs = [v for v in (reach.high, limit.high) if v is not None]
    try:
        narrow = replace(reach, low=max(lows, default=None), high=min(highs, default=None))
        return replace(feature, reach=narrow)
    except SchemaError:
        return replace(feature, moves="fixed")


def _barred(feature: Feature, limit: Limit) -> tuple[Level, ...]:
    return tuple(level for level in getattr(feature, "levels", ()) if level not in (limit.levels or ()))


def _limit(person: object, feature: Feature, given: Any) -> Limit:
    """One limit as it was written: a Limit, "fixed", a range, a list of levels, or a mapping of its fields."""
    if isinstance(given, Limit):
        limit = given
    elif isinstance(given, str) and given == "fixed":
        limit = Limit(fixed=True)
    elif isinstance(given, Mapping):
        known = [f.name for f in fields(Limit)]
        if unknown := [name for name in given if name not in known]:
            raise MethodError(
                f"the limit of '{feature.name}' for person {person!r} has no '{unknown[0]}'.",
                hint=f"it knows {', '.join(known)}.",
            )
        entries: dict[str, Any] = dict(given)
        if (levels := entries.get("levels")) is not None:
            if isinstance(levels, str) or not isinstance(levels, Iterable):
                raise MethodError(
                    f"person {person!r} has {shown(levels)} as the levels of '{feature.name}'.",
                    hint='list them: {"levels": ["own", "rent"]}.',
                )
            entries["levels"] = tuple(levels)
        limit = Limit(**entries)
    elif isinstance(feature, (Levels, Category)) and isinstance(given, (list, tuple, set, frozenset)):
        limit = Limit(levels=tuple(given))
    elif isinstance(given, (list, tuple)) and len(given) == 2:
        limit = Limit(low=given[0], high=given[1])
    else:
        raise MethodError(f"person {person!r} has {shown(given)} as the limit of '{feature.name}'.", hint=HINT)
    return _checked(person, feature, limit)


def _checked(person: object, feature: Feature, limit: Limit) -> Limit:
    if isinstance(feature, Derived):
        parents = ", ".join(feature.read_formula.parents)
        raise MethodError(
            f"person {person!r} has a limit of '{feature.name}', which follows from {parents}.",
            hint="limit what people choose, or declare moves='down' or a rule on the derived column for everybody.",
        )
    if not isinstance(limit.fixed, (bool, np.bool_)):
        raise MethodError(
            f"person {person!r} has {shown(limit.fixed)} as whether '{feature.name}' is fixed.",
            hint="use true or false.",
        )
    ends = {name: value for name in ("low", "high") if (value := getattr(limit, name)) is not None}
    wrong = [value for value in ends.values() if not is_number(value)]
    if wrong or (ends and not isinstance(feature, Number)):
        what = wrong[0] if wrong else next(iter(ends.values()))
        raise MethodError(
            f"person {person!r} has the limit {shown(what)} of '{feature.name}', which is a {feature.kind}.",
            hint='a number has (low, high), levels are listed: ["own", "rent"]; "fixed" fits all.',
        )
    if len(ends) == 2 and ends["low"] > ends["high"]:
        raise MethodError(
            f"person {person!r} has limits from {ends['low']:g} to {ends['high']:g} of '{feature.name}'.",
            hint="low must not be above high.",
        )
    if limit.levels is not None and not hasattr(feature, "levels"):
        raise MethodError(
            f"person {person!r} lists levels of '{feature.name}', which is a {feature.kind}.",
            hint="a number has (low, high), and everything may be fixed.",
        )
    strange = [v for v in limit.levels or () if v not in getattr(feature, "levels", ())]
    if strange:
        raise MethodError(
            f"person {person!r} may switch '{feature.name}' to {strange[0]!r}, which is not one of its levels.",
            hint=f"it has {', '.join(map(str, getattr(feature, 'levels', ())))}.",
        )
    if not is_number(limit.difficulty) or limit.difficulty < 0:
        raise MethodError(
            f"person {person!r} has the difficulty {shown(limit.difficulty)} of '{feature.name}'.",
            hint="use a number of 0 or more; for never write fixed.",
        )
    return limit


def _from_table(table: pd.DataFrame) -> dict[object, dict[str, dict[str, Any]]]:
    """A table of person (a column or the index), feature, and any of low, high, fixed and difficulty."""
    rows = table if "person" in table.columns else table.rename_axis("person").reset_index()
    known = {"person", "feature", "low", "high", "fixed", "difficulty"}
    if "feature" not in rows.columns or (unknown := [c for c in rows.columns if c not in known]):
        what = "has no column 'feature'" if "feature" not in rows.columns else f"has the column {unknown[0]!r}"
        raise MethodError(f"the table of limits {what}.", hint=f"it has {', '.join(sorted(known))}.")
    out: dict[object, dict[str, dict[str, Any]]] = {}
    for row in rows.to_dict("records"):
        entry = {str(k): v for k, v in row.items() if k not in ("person", "feature") and not _absent(v)}
        if is_number(entry.get("fixed")) and entry["fixed"] in (0, 1):  # True beside gaps is 1.0
            entry["fixed"] = bool(entry["fixed"])
        mine, name = out.setdefault(row["person"], {}), str(row["feature"])
        if name in mine:
            raise MethodError(
                f"the table of limits has '{name}' of person {row['person']!r} twice.", hint="put both into one row."
            )
        mine[name] = entry
    return out


def _absent(value: object) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))  # type: ignore[call-overload]
