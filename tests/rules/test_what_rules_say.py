"""What a rule says of itself to searches (its forms, avoided levels, turns, undoing), against `violation` and grids."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest
import torch

from turnabout.rules import (
    AtMost,
    Ball,
    BoundRule,
    Box,
    Budget,
    Changes,
    Equation,
    Implies,
    Is,
    KnownLevels,
    Linear,
    Ordered,
    Polytope,
    Rises,
    Rule,
    StructuralEquations,
    equations_of,
    regions_of,
)
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

SCHEMA = Schema(
    (
        Number("a", 0, 4, step=1),
        Number("b", 0, 4, step=1),
        Ordinal("school", levels=("none", "some", "degree")),
        Binary("member"),
        Category("home", levels=("own", "rent", "free")),
    )
)
GRID = pd.DataFrame(
    list(itertools.product(range(5), range(5), ("none", "some", "degree"), (0, 1), ("own", "rent", "free"))),
    columns=list(SCHEMA.names),
)
ROWS = SCHEMA.encode(GRID)  # (450, d): every legal row
PEOPLE = ROWS[::37]
REACH = {"a": 2.0, "b": 3.0, "school": 1.0}
RULES: list[Rule] = [
    Linear({"a": 1.0, "b": 2.0, "home=own": 2.0}, "<=", 9.0),
    Ordered("a", "b"),
    AtMost(2),
    AtMost(1, ("a", "home")),
    Implies(Rises("school"), Rises("a", by=2)),
    Implies(Changes("home"), Is("school", "some")),
    Implies(Changes("a"), Rises("a", by=2)),
    KnownLevels({"home": ["free"], "school": ["some"]}),
    Box(REACH),
    Budget(3, REACH),
    Ball(1.0, {"a": 2, "b": 2}),
    Polytope([({"a": 1, "b": -1}, 1)], {"a": 3, "b": 3}),
    StructuralEquations([Equation("b", 0.0, {"a": 0.5})]),
]


def violations(rule: BoundRule) -> torch.Tensor:
    """(people, rows)"""
    return rule.violation(PEOPLE.unsqueeze(1), ROWS)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_forms_of_a_rule_say_what_it_says(rule: Rule) -> None:
    bound = rule.bind(SCHEMA)
    broken = torch.zeros(len(PEOPLE), len(ROWS), dtype=torch.bool)
    form = bound.linear_form(PEOPLE)
    if form is None and bound.count_form is None:
        assert isinstance(rule, (Ball, StructuralEquations))  # curved, or rounded: methods refuse them
        return
    if form is not None:
        broken |= ((ROWS @ form.a.T).unsqueeze(0) > form.b.unsqueeze(1) + 1e-9).any(2)
    for row in bound.count_form or ():
        holds = [weight * part.holds(PEOPLE.unsqueeze(1), ROWS).double() for weight, part in row.terms]
        broken |= sum(holds) > row.most
    for f, levels in bound.avoided.items():
        feature, s = SCHEMA.features[f], SCHEMA.slices[f]
        for level in (feature.levels[place] for place in levels):  # type: ignore[attr-defined]
            at = torch.tensor((GRID[feature.name] == level).tolist())
            broken |= at & (ROWS[:, s] != PEOPLE[:, s].unsqueeze(1)).any(2)
    assert torch.equal(broken, violations(bound) > 0)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_taking_a_change_back_keeps_what_says_so(rule: Rule) -> None:
    bound = rule.bind(SCHEMA)
    kept = violations(bound) <= 0
    worst = torch.zeros(())
    for s in SCHEMA.slices:
        back = ROWS.expand(len(PEOPLE), -1, -1).clone()
        back[..., s] = PEOPLE[:, s].unsqueeze(1)
        worst = torch.maximum(worst, bound.violation(PEOPLE.unsqueeze(1), back)[kept].max())
    assert not (bound.undoing_keeps and worst > 0)
    assert bound.undoing_keeps == isinstance(rule, (AtMost, Box, Budget, Ball))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_rule_turns_once_along_a_feature_if_it_says_so(rule: Rule) -> None:
    bound, told = rule.bind(SCHEMA), []
    for f in range(2):
        told.append(bound.turns_once(f))
        column = SCHEMA.slices[f].start
        for x in PEOPLE:
            for side in (-1.0, 1.0):
                steps = torch.arange(1, 5) * side / 4 + x[column]
                rows = x.repeat(4, 1)
                rows[:, column] = steps
                rows = rows[(steps >= 0) & (steps <= 1)]
                kept = bound.violation(x.expand_as(rows), rows) <= 0
                assert not bound.turns_once(f) or int((kept[1:] != kept[:-1]).sum()) <= 1
    said = {"KnownLevels": [False, False], "StructuralEquations": [False, False]}
    by_hand = [False, True] if rule == RULES[6] else [True, True]  # one feature in both parts: it turns twice
    assert told == said.get(type(rule).__name__, by_hand)


class Somebodys(BoundRule):
    """A rule of somebody's own, which says nothing of itself."""

    def _gap(self, x: torch.Tensor, x_new: torch.Tensor) -> torch.Tensor:
        return x_new[..., 0] - 0.5

    _relax = _snap = lambda self, x, x_new: x_new


def test_nothing_is_assumed_of_a_rule_of_somebodys_own() -> None:
    rule = Somebodys("a is low", SCHEMA, [0])
    assert rule.linear_form(PEOPLE) is None
    assert rule.count_form is None
    assert not rule.avoided
    assert not rule.undoing_keeps
    assert not any(rule.turns_once(f) for f in range(len(SCHEMA)))
    assert regions_of([rule]) == equations_of([rule]) == ()


def test_regions_and_equations_are_told_apart() -> None:
    bound = [rule.bind(SCHEMA) for rule in RULES]
    assert regions_of(bound) == tuple(bound[8:12])
    assert equations_of(bound) == (bound[12],)
