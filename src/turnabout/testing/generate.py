"""Made-up problems: a schema, a model, a cost, rules, a background and people who ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from turnabout.actions import ActionSet
from turnabout.core import Problem
from turnabout.costs import L0, L1, L2, MAD, Cost, PercentileShift
from turnabout.errors import ProblemError, RuleError
from turnabout.rules import AtMost, Changes, Implies, Is, Linear, Ordered, Rises, Rule
from turnabout.schema import Category, Number, Scalar, Schema
from turnabout.testing.chooser import Chooser, SeededDice
from turnabout.testing.deciders import Kind, kinds_for, random_model
from turnabout.testing.random_people import random_people, random_schema

BACKGROUND = 60


@dataclass(frozen=True, eq=False)
class Case:
    """A problem with people who ask, and a name for messages."""

    name: str
    problem: Problem
    people: pd.DataFrame

    def __str__(self) -> str:
        return self.name


def acting(problem: Problem) -> Problem:
    """The problem with drafted actions, one for each feature that may move, and the cost that goes with them.

    With these a plan that changes every feature at most once costs what L1 says of the row at its end.
    """
    labels = None if problem.labels is None else problem.labels.numpy()
    schema = problem.schema.plain()  # actions say themselves by how much and how far
    return Problem(
        schema,
        problem.model,
        L1(),
        problem.declared_rules,
        problem.background,
        labels,
        ActionSet.draft(schema),
    )


def random_case(
    dice: Chooser,
    requires: type | None = None,
    people: int = 6,
    tiny: bool = False,
    name: str = "",
    actions: bool = False,
) -> Case:
    """A small random problem whose model offers what is required, and people under it; with actions if asked."""
    kinds = kinds_for(requires)
    if not kinds:
        raise ProblemError(
            f"no made-up model is {requires.__name__ if requires else None}.", hint="make one of your own."
        )
    kind = dice.pick(kinds)
    schema = random_schema(dice, tiny, most=4 if tiny else 5)
    model = random_model(kind, schema, dice.whole(0, 9999))
    background = random_people(SeededDice(dice.whole(0, 9999)), schema, BACKGROUND, plain=True)
    problem = Problem(
        schema,
        model,
        cost=random_cost(dice, schema),
        rules=random_rules(dice, schema),
        background=background,
        labels=model.judge(background) >= 0,
    )
    problem = acting(problem) if actions else problem
    return Case(name or _title(kind, problem), problem, random_people(dice, schema, people))


def random_cost(dice: Chooser, schema: Schema) -> Cost:
    """L1 most of the time; all others now and then."""
    weights = {name: float(dice.whole(1, 4)) for name in schema.names}
    choices: Sequence[Callable[[], Cost]] = (
        L1,
        L1,
        lambda: L1(difficulty=weights),
        lambda: L1() + 0.1 * L0(),
        L2,
        MAD,
        lambda: PercentileShift() + 0.01 * L1(),
    )
    return dice.pick(choices)()


def random_rules(dice: Chooser, schema: Schema) -> list[Rule]:
    """None most of the time, else one or two that bind."""
    rules: list[Rule] = []
    for _ in range(dice.pick((0, 0, 0, 1, 1, 2))):
        rule = _rule(dice, schema)
        if rule is None:
            continue
        try:
            rule.bind(schema)
        except RuleError:  # nobody can satisfy it, or it says nothing of this schema
            continue
        rules.append(rule)
    return rules


def _rule(dice: Chooser, schema: Schema) -> Rule | None:
    scalars = [f.name for f in schema if isinstance(f, Scalar)]
    numbers = [f for f in schema if isinstance(f, Number)]
    levels = [f for f in schema if not isinstance(f, Number)]
    kind = dice.pick(("at most", "ordered", "linear", "rises", "is"))
    if kind == "at most":
        return AtMost(dice.whole(1, 2))
    if kind == "ordered" and len(numbers) > 1:
        return Ordered(numbers[0].name, numbers[1].name)
    if kind == "linear" and numbers:
        f = dice.pick(numbers)
        other = [g for g in schema if isinstance(g, Category)]
        extra = {f"{other[0].name}={other[0].levels[0]}": 0.2 * f.span} if other else {}
        return Linear({f.name: 1.0, **extra}, "<=", f.low + 0.8 * f.span)
    if kind == "rises" and len(scalars) > 1:
        return Implies(Rises(scalars[0]), Rises(scalars[1]))
    if kind == "is" and len(levels) > 1:
        return Implies(Changes(levels[0].name), Is(levels[1].name, level=dice.pick(levels[1].levels)))  # type: ignore[attr-defined]
    return None


def _title(kind: Kind, problem: Problem) -> str:
    rules = f", {len(problem.rules)} rule(s)" if problem.rules else ""
    actions = f", {len(problem.actions)} actions" if problem.actions is not None else ""
    return f"a random problem ({kind}, {len(problem.schema)} features, {problem.declared_cost!r}{rules}{actions})"
