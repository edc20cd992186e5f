"""Steps read by hand agree with the replay, which shares no code with them; known problems with actions hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from tests.core import town

import turnabout as ta
from turnabout.actions import Action, ActionSet, KeepRatio, Scale, Set, Shift, new, old
from turnabout.core import REASONS, Problem, plan, replay
from turnabout.schema import Binary, Category, Number, Ordinal, Schema
from turnabout.testing import brute_force, known_problems
from turnabout.testing.deciders import weighing
from turnabout.testing.generate import acting
from turnabout.testing.known import least_plan
from turnabout.testing.steps_by_hand import duration, holds, price, wrong_step


def compare(problem, people, draws, length=3, seed=0):
    """Replay random plans; every step is judged by hand too. Returns how many plans had each reason."""
    schema, actions = problem.schema, problem.actions
    rng = torch.Generator().manual_seed(seed)
    sequences = torch.randint(0, len(actions), (draws, length), generator=rng)
    r = 3 * torch.randn(draws, length, actions.tables.gain.shape[1], generator=rng, dtype=torch.float64)
    r = r * actions.tables.unit[sequences]
    who = torch.randint(0, len(people), (draws,), generator=rng).numpy()
    x, mine = schema.encode(people)[who], people.iloc[who]
    run = replay(problem, x, sequences, r)
    tables = [schema.write(mine, x, run.states[:, t]).astype(object).to_dict("records") for t in range(length + 1)]
    for i in range(draws):
        chosen = [actions.actions[int(a)] for a in sequences[i]]
        lines = [(a, tables[t][i], tables[t + 1][i]) for t, a in enumerate(chosen)]
        wrong = [wrong_step(schema, *line) for line in lines]
        again = len({a.name for a in chosen if not a.repeatable}) < sum(not a.repeatable for a in chosen)
        if run.wrong[i] == 0:
            assert wrong == [""] * length and not again
        else:
            reason = REASONS[int(run.wrong[i])]
            assert any(wrong) or again or reason == REASONS[plan.RULE], (reason, lines)
        for t, (action, before, after) in enumerate(lines):
            if run.wrong[i] == 0:
                assert run.cost[i, t] == pytest.approx(price(schema, action, before, after), rel=1e-12)
                assert run.duration[i, t] == pytest.approx(duration(schema, action, before, after), abs=1e-12)
    return torch.bincount(run.wrong, minlength=len(REASONS)).tolist()


def test_by_hand_as_replayed():
    counts = compare(town.problem(), town.people(), 600, length=2)
    assert counts[0] > 20
    assert counts[plan.CONDITION] > 20 and counts[plan.NOTHING] > 20 and counts[plan.OFF] > 0
    assert counts[plan.LIMIT] > 5 and counts[plan.MISSING] > 5 and counts[plan.AGAIN] > 5


def test_by_hand_as_replayed_with_every_kind_of_feature_and_effect():
    schema = Schema(
        (
            Number("amount", 1, 100, decimals=1),
            Number("months", 1, 60, step=1),
            Number("fee", 1, 9, step=0.1, moves="down"),
            Ordinal("grade", ("low", "mid", "high", "top")),
            Binary("phone", (False, True)),
            Category("job", ("none", "part", "full")),
        )
    )
    actions = ActionSet(
        (
            Action(
                "Resize",
                [Shift("amount", by="by"), KeepRatio("months", "amount")],
                "2 * |amount / old amount| + (months / 3)^2 + 1",
                ["old amount > 5", "0 < new months <= 48"],
                "0.1 * new months",
            ),
            Action("Cut", [Scale("fee", by="f"), Scale("amount", by="f")], 1, ["0.5 * new amount + new fee >= 3"]),
            Action("Rise", Shift("grade", times=2), "|grade|", [new("grade") >= "mid"], repeatable=True),
            Action("Call", [Set("phone", True), Set("months", 12)], 2, [old("phone") == False]),  # noqa: E712
            Action("Join", Set("job", "full"), 1, [old("job") != "full", old("grade") > "low"]),
            Action("Quit", Set("job", "none"), 0, [old("job") == "full"]),
        )
    )
    people = pd.DataFrame(
        {
            "amount": [40.0, 7.33, 90.0],
            "months": [24, 6, 50],
            "fee": [3.0, 8.8, 1.0],
            "grade": ["low", "mid", "high"],
            "phone": [False, True, False],
            "job": ["none", "full", "part"],
        }
    )
    model = weighing("linear", schema, {"amount": 1.0}, -0.9)
    counts = compare(Problem(schema, model, actions=actions), people, 800, length=2)
    assert counts[0] > 40 and counts[plan.CONDITION] > 40 and counts[plan.OFF] > 0


def test_by_hand_as_replayed_on_drafted_actions():
    for case in known_problems(actions=True):
        counts = compare(case.problem, case.people, 60, length=2)
        assert sum(counts) == 60


def test_conditions_by_hand():
    ann = town.people().loc["ann"].to_dict()
    older = ann | {"age": 31, "home": "own"}
    for condition, kept in [
        (new("age") > old("age"), True),
        (new("age") > old("age") + 1, False),
        (new("age") >= old("age") + 1, True),
        (2 * new("income") - old("debt") <= 50, True),
        (2 * new("income") - old("debt") < 50, False),
        (new("home") == "own", True),
        (old("home") == "own", False),
        (old("home") != "own", True),
    ]:
        assert holds(town.SCHEMA, condition, ann, older) is kept, condition


def test_known_problems_with_actions():
    plain, acts = known_problems(), known_problems(actions=True)
    assert len(plain) == len(acts)
    widened = 0
    for before, case in zip(plain, acts, strict=True):
        assert case.name == f"{before.name} and actions"
        assert case.problem.declared_cost == ta.costs.L1() and len(case.problem.actions) > 0
        asked, schema = before.problem, before.problem.schema
        assert case.problem.schema == schema.plain()
        best = before.best
        if schema != schema.plain():  # actions say themselves how far they go: more rows can be reached
            widened += 1
            plain = Problem(schema.plain(), asked.model, asked.declared_cost, asked.declared_rules, asked.background)
            best = brute_force(plain, before.people)
        assert [b is None for b in case.best] == [b is None for b in best]
        if not case.problem.rules and before.name.startswith("tiny"):
            assert list(case.best) == brute_force(case.problem, case.people)
    assert widened


def test_least_plan_by_hand():
    schema = Schema((Number("a", 0, 4, step=1), Number("b", 0, 4, step=1)))
    model = weighing("linear", schema, {"a": 4.0, "b": 4.0}, -5.5)  # a + b of 6 or more
    person = pd.DataFrame({"a": [1], "b": [1]})
    equal = [ta.rules.Linear({"a": 1.0, "b": -1.0}, "<=", 0), ta.rules.Linear({"a": 1.0, "b": -1.0}, ">=", 0)]
    level = acting(Problem(schema, model, rules=equal))
    assert brute_force(level, person) == [1.0]  # both to 3: a row that keeps the rules
    assert least_plan(level, person) is None  # but not one after the other
    loose = acting(Problem(schema, model))
    assert least_plan(loose, person) == 1.0
    assert least_plan(loose, person, below=1.0) is None
    assert least_plan(loose, person, most=1) is None


def test_missing_cells_by_hand():
    bob = town.people().loc["bob"].to_dict()
    assert np.isnan(bob["rate"])
    bargain = town.ACTIONS["Bargain"]
    assert wrong_step(town.SCHEMA, bargain, bob, bob | {"rate": 1.0}) == "needs 'rate', which is missing"
