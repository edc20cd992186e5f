"""Problems whose answers are known: by a formula, by trying every row, or because there can be none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from turnabout.core import GUARD, Problem
from turnabout.costs import L0, L1
from turnabout.rules import Implies, Linear, Rises
from turnabout.schema import Binary, Category, Number, Ordinal, Schema
from turnabout.testing.by_hand import as_column, differs, keeps, legal_values
from turnabout.testing.chooser import SeededDice
from turnabout.testing.deciders import Kind, kinds_for, weighing
from turnabout.testing.generate import Case, acting, random_case
from turnabout.testing.random_people import random_people

LIMIT = 20_000  # rows to try for one person


@dataclass(frozen=True, eq=False)
class Known(Case):
    """A case with the least cost of each person: 0 for the accepted, None where there is no recourse.

    `slack` is how far an exact answer may lie above a least cost that ignores rounding to printed decimals.
    """

    best: tuple[float | None, ...] = ()
    slack: float = 2e-6


def brute_force(problem: Problem, people: pd.DataFrame, limit: int = LIMIT) -> list[float | None]:
    """The least cost of each person, by asking the original about every row they may reach; None if all are refused.

    A row counts when it is accepted clear of the boundary and keeps every rule, as an option must. Raises ValueError
    when someone has more than `limit` rows to try.
    """
    return [_least_cost(problem, people.iloc[[i]], limit) for i in range(len(people))]


def countable(problem: Problem, people: pd.DataFrame, limit: int = LIMIT) -> bool:
    """Whether `brute_force` would try at most `limit` rows for each person."""
    try:
        return all(_count(problem.schema, people.iloc[i]) <= limit for i in range(len(people)))
    except ValueError:
        return False


def _count(schema: Schema, own: pd.Series) -> int:
    return math.prod(len(legal_values(f, own[f.name])) for f in schema)


def _least_cost(problem: Problem, person: pd.DataFrame, limit: int) -> float | None:
    for cost, row in _accepted(problem, person, limit):
        if _keeps_all(problem, row, person):
            return cost
    return None


def _accepted(problem: Problem, person: pd.DataFrame, limit: int) -> Iterator[tuple[float, pd.Series]]:
    """(cost, row) of every row that the original accepts clear of the boundary, cheapest first."""
    schema = problem.schema
    values = [legal_values(f, person[f.name].iloc[0]) for f in schema]
    if (count := math.prod(map(len, values))) > limit:
        raise ValueError(f"there are {count} rows to try, more than {limit}.")
    table = every_row(schema, values)
    accepted = np.flatnonzero(problem.model.judge(table) >= GUARD)
    table = table.iloc[accepted]
    cost = problem.cost(schema.encode(person), schema.encode(table)).numpy()
    for i in np.argsort(cost, kind="stable"):
        yield float(cost[i]), table.iloc[int(i)]


def _keeps_all(problem: Problem, row: pd.Series, person: pd.DataFrame) -> bool:
    own = {name: person[name].iloc[0] for name in problem.schema.names}
    return all(_keeps(problem, j, rule, own, row, person) for j, rule in enumerate(problem.declared_rules))


def least_plan(
    problem: Problem, person: pd.DataFrame, below: float = math.inf, most: int | None = None, limit: int = LIMIT
) -> float | None:
    """The least cost below `below` of a plan of at most `most` drafted actions, one for each feature it changes.

    Tries every row and every order in which its changes may be made, since a plan must keep the rules on its way. None
    if there is no such plan: dearer ones, which change a feature twice, are not looked at.
    """
    for cost, row in _accepted(problem, person, limit):
        if cost >= below:
            break
        changed = [name for name in problem.schema.names if differs(person[name].iloc[0], row[name])]
        if (most is None or len(changed) <= most) and _reachable(problem, person, row, changed):
            return cost
    return None


def _reachable(problem: Problem, person: pd.DataFrame, row: pd.Series, changed: list[str]) -> bool:
    """Whether the changes can be made one by one so that every row on the way keeps the rules."""
    own = person.iloc[0].astype(object)
    reached = {frozenset[str]()}
    for _ in changed:
        further = {done | {name} for done in reached for name in changed if name not in done}
        reached = set()
        for done in further:
            between = own.copy()
            between[list(done)] = row[list(done)]
            if _keeps_all(problem, between, person):
                reached.add(done)
    return bool(reached)


def every_row(schema: Schema, values: Sequence[Sequence[Any]]) -> pd.DataFrame:
    """The table of all combinations of values, one list for each feature."""
    rows = list(itertools.product(*values))
    columns = {}
    for j, name in enumerate(schema.names):
        columns[name] = as_column(schema[name], [row[j] for row in rows])
    return pd.DataFrame(columns)


def _keeps(problem: Problem, j: int, rule: Any, own: Any, row: pd.Series, person: pd.DataFrame) -> bool:
    known = keeps(rule, problem.schema, own, row)
    if known is not None:
        return known
    x, x_new = problem.schema.encode(person), problem.schema.encode(row.to_frame().T.infer_objects())
    return bool(problem.rules[j].violation(x, x_new)[0] <= 0)


# -- problems ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def known_problems(requires: type | None = None, grids: int = 4, actions: bool = False) -> tuple[Known, ...]:
    """Problems with known answers whose model offers what is required; made once.

    With `actions` they have drafted ones, and schemas without useful steps and reach. No plan can then cost less than
    the best row, though it may have to cost more, since rules hold on the way too.
    """
    if actions:
        return tuple(_with_actions(case) for case in known_problems(requires, grids))
    kinds = kinds_for(requires)
    if not kinds:
        return ()
    first = kinds[0] if requires is not None else "function"
    out = [easy(first), nobody(first), everybody(first), contradiction(first)]
    out += [closed_form(first)] if first != "tree" else []
    out += [ruled(kind) for kind in kinds if kind != "steps"]  # which is a function here
    return (*out, *(tiny_grid(seed, requires) for seed in range(grids)))


def _with_actions(case: Known) -> Known:
    problem = acting(case.problem)
    before = case.problem
    same = (before.declared_cost, before.schema) == (problem.declared_cost, problem.schema)  # steps and reach are gone
    best = case.best if same else tuple(brute_force(problem, case.people))
    return replace(case, name=f"{case.name} and actions", problem=problem, best=best)


def closed_form(kind: Kind = "linear") -> Known:
    """A linear decision, numbers and L1: fill the feature that buys most per unit of cost, then the next.

    cost = sum_j t_j,   t_j = min(room_j, gap left / |w_j|)   in falling order of |w_j|                  (1)
    """
    schema = Schema(
        (Number("income", 0, 100), Number("debt", 0, 50, moves="down"), Number("age", 18, 80, moves="fixed"))
    )
    weights = {"income": 2.0, "debt": -3.0, "age": 1.0}
    bias = -1.3
    people = pd.DataFrame(
        {"income": [10.0, 30.5, 0.0, 90.0], "debt": [20.0, 5.0, 50.0, 0.0], "age": [30.0, 40.0, 18.0, 70.0]}
    )
    best: list[float | None] = []
    for x in schema.encode(people).tolist():
        gap = -(2.0 * x[0] - 3.0 * x[1] + 1.0 * x[2] + bias)
        by_debt = min(max(gap, 0.0) / 3.0, x[1])
        by_income = max(gap - 3.0 * by_debt, 0.0) / 2.0
        best.append(by_debt + by_income if by_income <= 1.0 - x[0] else None)  # (1)
    problem = _problem(schema, weighing(kind, schema, weights, bias))
    return Known(f"the linear problem with a closed form ({kind})", problem, people, tuple(best), slack=1e-5)


def easy(kind: Kind = "linear") -> Known:
    """One free number decides, and everyone can move it."""
    schema = Schema((Number("savings", 0, 20, step=1), Binary("phone", ("no", "yes"))))
    people = pd.DataFrame({"savings": [2, 5, 7, 15], "phone": ["no", "yes", "no", "yes"]})
    return _tried(f"the easy problem ({kind})", schema, kind, {"savings": 20.0}, -9.7, people)


def ruled(kind: Kind = "linear") -> Known:
    """All kinds of feature on small grids, off-grid and missing cells, two rules, and a price on every change."""
    schema = Schema(
        (
            Number("years", 0, 8, step=1, moves="up"),
            Number("rate", 0, 1, step=0.25, missing=True),
            Ordinal("school", ("none", "some", "full"), moves="up"),
            Category("home", ("rent", "own", "free")),
            Binary("sex", (0, 1), moves="fixed"),
        )
    )
    weights = {"years": 1.13, "rate": -1.71, "school": 1.37, "home=own": 0.83, "home=free": -0.4, "sex": 0.5}
    weights["rate=missing"] = -0.9
    people = pd.DataFrame(
        {
            "years": [0.0, 2.5, 7.0, 8.0, 10.0],  # half a year, and more than a plan may use
            "rate": [0.25, 1.0, np.nan, 0.6, 0.0],
            "school": ["none", "some", "none", "full", "none"],
            "home": ["rent", "free", "own", "rent", "free"],
            "sex": [0, 1, 0, 1, 0],
        }
    )
    rules = [Implies(Rises("school"), Rises("years", by=2)), Linear({"years": 1.0, "home=own": 3.0}, "<=", 9.0)]
    return _tried(
        f"the small problem with two rules ({kind})", schema, kind, weights, -1.957, people, rules, L1() + 0.05 * L0()
    )


def nobody(kind: Kind = "linear") -> Known:
    """Only what is fixed counts, and everyone has it wrong: no row that anyone may reach is accepted."""
    case = _by_the_fixed(kind, member="no")
    return Known(f"the problem without recourse ({kind})", case.problem, case.people, (None,) * len(case.people))


def everybody(kind: Kind = "linear") -> Known:
    """Only what is fixed counts, and everyone has it right: all are accepted already."""
    case = _by_the_fixed(kind, member="yes")
    return Known(f"the problem where all are accepted ({kind})", case.problem, case.people, (0.0,) * len(case.people))


def contradiction(kind: Kind = "linear") -> Known:
    """Two rules that no row keeps together."""
    base = easy(kind)
    rules = [Linear({"savings": 1.0}, ">=", 15.0), Linear({"savings": 1.0}, "<=", 12.0)]
    problem = _problem(base.problem.schema, base.problem.model, rules)
    people = base.people.iloc[:3]
    return Known(f"the problem with rules that nobody keeps ({kind})", problem, people, (None,) * len(people))


def tiny_grid(seed: int, requires: type | None = None) -> Known:
    """A random problem with few enough rows to try them all."""
    case = random_case(SeededDice(seed, 77), requires, people=4, tiny=True)
    return Known(
        f"tiny grid {seed}: {case.name}", case.problem, case.people, tuple(brute_force(case.problem, case.people))
    )


def _by_the_fixed(kind: Kind, member: str) -> Case:
    schema = Schema(
        (Binary("member", ("no", "yes"), moves="fixed"), Number("wealth", 0, 9, step=1), Category("town", ("a", "b")))
    )
    people = pd.DataFrame({"member": [member] * 3, "wealth": [0, 4, 9], "town": ["a", "b", "b"]})
    return Case("", _problem(schema, weighing(kind, schema, {"member": 4.0}, -2.0)), people)


def _tried(
    name: str,
    schema: Schema,
    kind: Kind,
    weights: dict[str, float],
    bias: float,
    people: pd.DataFrame,
    rules: Sequence[Any] = (),
    cost: Any = None,
) -> Known:
    problem = _problem(schema, weighing(kind, schema, weights, bias), rules, cost)
    return Known(name, problem, people, tuple(brute_force(problem, people)))


def _problem(schema: Schema, model: Any, rules: Sequence[Any] = (), cost: Any = None) -> Problem:
    background = random_people(SeededDice(5), schema, 60, plain=True)
    return Problem(schema, model, L1() if cost is None else cost, rules, background, model.judge(background) >= 0)
