"""People whose missing cells can be provided: "send us your payslip" is a step, and its result is a range.

What a provided cell will hold is not known beforehand. An option that asks for one says between which values it must
lie, and the original model accepts the row for every one of these values, in the steps in which people use the number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from turnabout.core.different import clear_difference, new_ways
from turnabout.core.problem import Problem
from turnabout.core.result import PROVIDED, Recourse, Status
from turnabout.core.verify import clearance
from turnabout.schema import Number, Schema
from turnabout.schema.features import GRID_NOISE
from turnabout.schema.put import put

if TYPE_CHECKING:
    from turnabout.core.limits import Limit
    from turnabout.core.method import Method

Entry = tuple[int, float, pd.DataFrame, list[tuple[str, float, float]]]  # place of the person, cost, row, ranges
PRICE = 0.1  # of providing one cell: that of one change under the default cost
MOST = 400  # values of one cell that are tried; of more, every second, third, ...
BOX = 24  # values of each cell that are tried together with those of another


def providable(problem: Problem) -> list[Number]:
    """The numbers whose missing cells can be provided."""
    return [f for f in problem.schema.features if isinstance(f, Number) and f.provide and f.missing]


def with_provided(method: Method, answer: Recourse, options: int, **asked: Any) -> Recourse:
    """The answer with options that provide missing cells, for all who are refused and lack one that can be provided.

    asked : the other arguments of `find`.
    """
    problem = method.problem_
    features = providable(problem)
    own: dict[Any, dict[str, Limit]] = asked.pop("limits", None) or {}
    lacks = pd.DataFrame({f.name: answer.people[f.name].isna() for f in features}, index=answer.people.index)
    for person, limits in own.items():  # who fixes a missing cell does not provide it
        lacks.loc[person, [f.name for f in features if f.name in limits and limits[f.name].fixed]] = False
    rows = answer.refused & lacks.any(axis=1)
    if not rows.any():
        return answer
    people = answer.people[rows]
    could = {person: [f.name for f in features if lacks.loc[person, f.name]] for person in people.index}
    answer = _unproved(answer, could)
    filled = people.copy()
    for f in features:
        mine, value = lacks.loc[rows, f.name].to_numpy(), likely(problem, f)
        near = [_nearest(f, value, own.get(person, {}).get(f.name)) for person in people.index[mine]]
        filled[f.name] = put(people[f.name], mine, np.array(near))
    filled = problem.schema.identities.supply(people[list(problem.schema.names)], filled)
    limit = asked["query_limit"]  # half of it for the search, the other half for the values of the cells
    if limit is not None:
        if limit < 2:
            return answer
        asked["query_limit"] = limit // 2
    second = method.find(filled, options=options, limits={p: own[p] for p in filled.index if p in own}, **asked)
    found: list[Entry] = []
    places = np.flatnonzero(rows.to_numpy()).tolist()
    for i, (place, person) in enumerate(zip(places, people.index, strict=True)):
        missing = [f for f in features if f.name in could[person]]
        bases = _bases(second, filled, person)
        most = None if limit is None else limit // 2 // max(1, len(bases) * len(missing))
        for base, cost in bases:
            box = _box(problem, filled.iloc[[i]], base, missing, own.get(person, {}), most)
            if box is not None:
                row, ranges, margin = box
                row = row.assign(cost=cost + PRICE * len(missing), margin=margin)
                found.append((place, float(row["cost"].iloc[0]), row, ranges))
    return _merged(problem.schema, answer, found, options) if found else answer


def _unproved(answer: Recourse, lacks: dict[Any, list[str]]) -> Recourse:
    """What was proved of rows without the missing cells says nothing of rows that provide them."""
    status, why = answer.status.copy(), answer.why.copy()
    for person, names in lacks.items():
        if status[person] == Status.IMPOSSIBLE:
            status[person] = Status.NOT_FOUND
            gone = ", ".join(f"'{name}'" for name in names)
            why.loc[person, "reason"] = (
                f"no allowed row is accepted while {gone} is missing, and none was found with it."
            )
            why.loc[person, "proof"] = ""
    return replace(answer, status=status, why=why)


def likely(problem: Problem, feature: Number) -> float:
    """What accepted people have: their median, in useful steps; the middle of the range without a background."""
    low, high = feature.choice_ends
    value = (low + high) / 2
    if problem.background_x is not None:
        s = problem.schema.slices[problem.schema.index(feature.name)]
        x = problem.background_x[problem.background_x[:, s.stop - 1] < 0.5] if feature.missing else problem.background_x
        margin = problem.margin(x)
        x = x[margin >= 0] if bool((margin >= 0).any()) else x
        value = float(feature.units(x[:, s.start].median())) if len(x) else value
    return _nearest(feature, value, None)


def _bases(second: Recourse, filled: pd.DataFrame, person: Any) -> list[tuple[pd.DataFrame, float]]:
    """Rows that are accepted with the likely values in place, and what they cost without providing these."""
    names = second.features
    if second.status[person] == Status.ACCEPTED:
        return [(filled.loc[[person], names], 0.0)]
    mine = second.options[second.options.index.get_level_values("person") == person]
    return [(mine.iloc[[i]][names].set_axis([person]), float(mine["cost"].iloc[i])) for i in range(len(mine))]


def _box(
    problem: Problem,
    own: pd.DataFrame,
    base: pd.DataFrame,
    missing: list[Number],
    limits: Mapping[str, Limit],
    most: int | None,
) -> tuple[pd.DataFrame, list[tuple[str, float, float]], float] | None:
    """The widest ranges around the likely values, one cell after the other, in which all rows are accepted and allowed.

    own : the person's row with the likely values.  limits : what they say of their cells.  most : rows to be asked
    about each cell.
    None without such ranges, or where one is narrower than a clear difference and ends on both sides: hardly anybody
    could provide that. Otherwise the row at the ends that are hardest to reach, the ranges, and the least margin of any
    row in the box.
    """
    ranges: list[tuple[str, float, float]] = []
    table, worst, provided = base, np.inf, [f.name for f in missing]
    apart = clear_difference(problem.schema).tolist()
    clear = {f.name: apart[problem.schema.index(f.name)] * f.span for f in missing}
    for f in missing:
        there = float(base[f.name].iloc[0])
        few = table.iloc[np.unique(np.linspace(0, len(table) - 1, BOX).astype(int))] if len(table) > BOX else table
        values = _values(f, there, limits.get(f.name), MOST if most is None else min(MOST, most // len(few)))
        if not len(values):
            return None
        rows = pd.concat([few] * len(values), ignore_index=True)
        rows[f.name] = put(rows[f.name], np.ones(len(rows), dtype=bool), np.repeat(values, len(few)))
        rows = _consistent(problem, rows, provided)
        margin = problem.judge(rows)
        if problem.model.alone:
            margin = np.minimum(margin, problem.ask_alone(rows))
        allowed = (margin >= clearance(problem)) & _keeps_rules(problem, own, rows, provided)
        good = np.asarray(allowed.reshape(len(values), len(few)).all(axis=1))
        at = int(np.abs(values - there).argmin())
        if not good[at]:
            return None
        low = at - int(np.argmin(good[: at + 1][::-1])) + 1 if not good[: at + 1].all() else 0
        high = at + int(np.argmin(good[at:])) - 1 if not good[at:].all() else len(values) - 1
        is_open = (high == len(values) - 1 and f.moves != "down") or (low == 0 and f.moves != "up")
        if not is_open and values[high] - values[low] < clear[f.name] * (1 - GRID_NOISE):
            return None
        inside = np.repeat((np.arange(len(values)) >= low) & (np.arange(len(values)) <= high), len(few))
        table, worst = rows[inside], min(worst, float(margin[inside].min()))
        ranges.append((f.name, float(values[low]), float(values[high])))
    row = base.copy()
    for f, (_, low_, high_) in zip(missing, ranges, strict=True):
        row[f.name] = put(row[f.name], np.ones(1, dtype=bool), np.array([high_ if f.moves == "down" else low_]))
    return _consistent(problem, row, provided), ranges, worst


def _keeps_rules(problem: Problem, own: pd.DataFrame, rows: pd.DataFrame, provided: list[str]) -> np.ndarray:
    """(n,) whether people who turn out to have what these rows provide may change to them."""
    if not problem.rules:
        return np.ones(len(rows), dtype=bool)
    before = own[list(problem.schema.names)].iloc[np.zeros(len(rows), dtype=int)].reset_index(drop=True)
    before = _consistent(problem, before.assign(**{name: rows[name] for name in provided}), provided)
    x, x_new = (problem.schema.read(table).x for table in (before, rows))
    return (problem.violation(x, x_new) <= 0).cpu().numpy()


def _steps(feature: Number, limit: Limit | None) -> tuple[int, int]:
    """The first and the last multiple of the step that a plan may choose for anybody with such a limit."""
    step, (low, high) = feature.choice_step, feature.choice_ends
    if limit is not None:
        low = low if limit.low is None else max(low, limit.low)
        high = high if limit.high is None else min(high, limit.high)
    return math.ceil(low / step - GRID_NOISE), math.floor(high / step + GRID_NOISE)


def _nearest(feature: Number, value: float, limit: Limit | None) -> float:
    """The value, or what lies nearest to it within a limit."""
    first, last = _steps(feature, limit)
    step = feature.choice_step
    return float(feature.canonical(np.array([min(max(round(value / step), first), max(first, last)) * step]))[0])


def _values(feature: Number, there: float, limit: Limit | None, most: int) -> np.ndarray:
    """Values that a plan may choose for somebody, the likely one among them; none where it is not."""
    step, (first, last) = feature.choice_step, _steps(feature, limit)
    if most < 1 or not first <= round(there / step) <= last:
        return np.zeros(0)
    apart = max(1, math.ceil((last - first + 1) / most))
    own = round(there / step)
    places = np.arange(own - (own - first) // apart * apart, last + 1, apart)
    return np.asarray(feature.canonical(places * step))


def _consistent(problem: Problem, rows: pd.DataFrame, provided: list[str]) -> pd.DataFrame:
    """Rows with what is derived from provided cells in its place."""
    identities = problem.schema.identities
    if not identities.derived:
        return rows
    changed = np.tile([name in provided for name in problem.schema.names], (len(rows), 1))
    return identities.write(rows, rows, changed)


def _different(schema: Schema, answer: Recourse, keyed: list[Entry]) -> list[Entry]:
    """Those that are a new way for their person, in the order in which they stand."""
    own = schema.read(answer.people).x
    x_new = torch.cat([schema.read(row).x for _, _, row, _ in keyed])
    owner = torch.tensor([i for i, _, _, _ in keyed])
    x_new = schema.identities.chosen(own[owner], x_new)
    none = torch.zeros(0, dtype=torch.long)
    fresh = new_ways(schema, own, owner, x_new, own[:0], none).tolist()
    return [entry for entry, new in zip(keyed, fresh, strict=True) if new]


def _merged(schema: Schema, answer: Recourse, found: list[Entry], options: int) -> Recourse:
    """Options old and new by cost, as many as were asked for; ranges beside those that provide something."""
    names = list(answer.options.columns)
    place = {person: i for i, person in enumerate(answer.people.index)}
    keyed: list[Entry] = [
        (place[person], float(answer.options["cost"].iloc[k]), answer.options.iloc[[k]], [])
        for k, person in enumerate(answer.options.index.get_level_values("person"))
    ]
    keyed += [(i, cost, row[names], ranges) for i, cost, row, ranges in found]
    keyed.sort(key=lambda entry: entry[:2])
    keyed = _different(schema, answer, keyed) if options > 1 else keyed
    count: dict[int, int] = {}
    rows: list[pd.DataFrame] = []
    keys: list[tuple[Any, int]] = []
    provided: list[tuple[str, float, float]] = []
    shown: list[tuple[Any, int]] = []
    for i, _, row, ranges in keyed:
        number = count.get(i, 0)
        if number >= options:
            continue
        count[i] = number + 1
        key = (answer.people.index[i], number)
        rows.append(row)
        keys.append(key)
        provided += [(name, low, high) for name, low, high in ranges]
        shown += [key] * len(ranges)
    index = pd.MultiIndex.from_tuples(keys, names=["person", "option"])
    table = pd.concat(rows).set_axis(index)
    whose = pd.MultiIndex.from_tuples(shown, names=["person", "option"])
    given = pd.DataFrame(provided, columns=list(PROVIDED), index=whose)
    status = answer.status.copy()
    new = [answer.people.index[i] for i, _, _, _ in found]
    status[new] = Status.FOUND
    why = answer.why[~answer.why.index.isin(new)]
    return replace(answer, options=table, provided=given.astype(PROVIDED), status=status, why=why)
