"""Action sequences: order, scores, conditions in the loss, classes, time and chance."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from tests.methods.sequences.toys import (
    answered,
    check_plans,
    costs,
    crowd,
    fitted,
    plain,
    refused,
    sequences_of,
    shifts,
    straight,
    tiny_net,
)

from turnabout.actions import (
    Absolute,
    Action,
    ActionSet,
    KeepRatio,
    Parameter,
    Set,
    Shift,
    Squared,
    new,
    old,
)
from turnabout.core import Problem, Status
from turnabout.methods.sequences.sequence_search import SequenceSearch
from turnabout.methods.sequences.solve import SearchEffort
from turnabout.schema import Category, Number, Schema
from turnabout.testing.deciders import weighing

QUICK = SearchEffort(draws=16, restarts=2, rounds=12)
SCORES = ("breadth", "objective", "gradient")


# -- order -------------------------------------------------------------------------------------------------------------

SCHOOL = Schema((Number("school", 0, 20, step=1, moves="up"), Number("income", 0, 100, step=1)))
STUDY = Action("Study", Shift("school"), Absolute("school"), [new("school") > old("school")])
EARN = Action("Earn", Shift("income"), Absolute("income", per=10), [old("school") >= 12])


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("actions", [(STUDY, EARN), (EARN, STUDY)], ids=["in order", "reversed"])
def test_order_matters(actions, merge):
    problem = Problem(SCHOOL, straight(SCHOOL, [0, 1], -49.5), actions=ActionSet(actions))
    people = pd.DataFrame({"school": [10, 12, 20], "income": [30, 30, 55]}, index=["ann", "bob", "cid"])
    answer = answered(problem, people, options=3, max_steps=3, merge=merge)
    assert sequences_of(answer) == {("ann", 0): ("Study", "Earn"), ("bob", 0): ("Earn",)}
    assert answer.steps_of("ann")["change"].tolist() == ["school 10 -> 12", "income 30 -> 50"]
    assert costs(answer).tolist() == [4, 2, math.inf] and answer.status["cid"] == Status.ACCEPTED
    check_plans(problem, answer)


@pytest.mark.parametrize("merge", [True, False])
def test_the_same_actions_in_another_order_do_something_else(merge):
    schema = Schema((Number("a", 1, 100, decimals=3), Number("b", 1, 100, decimals=3)))
    shrink = Action("Shrink", Shift("a", by=-4), 0.5, [old("a") >= 6])
    grow = Action("Grow", [Shift("a", by="more"), KeepRatio("b", "a")], Absolute("a"))
    problem = Problem(schema, straight(schema, [0, 1], -20), actions=ActionSet([grow, shrink]))
    people = pd.DataFrame({"a": [2.0, 9.0], "b": [10.0, 10.0]})
    answer = answered(problem, people, options=2, max_steps=2, merge=merge)
    # b doubles when a does: +2 from a = 2, +9 from a = 9, but +5 after shrinking a to 5
    assert sequences_of(answer) == {(0, 0): ("Grow",), (1, 0): ("Shrink", "Grow"), (1, 1): ("Grow",)}
    assert answer.options["cost"].tolist() == pytest.approx([2, 5.5, 9], abs=2e-3)


def test_a_guard_that_a_later_step_breaks():
    """Aid is for the poor: it must come before saving, and who is rich must first give something away."""
    schema = Schema((Number("wealth", 0, 100, step=1), Category("aid", ("no", "yes"))))
    aid = Action("Aid", Set("aid", "yes"), 1, [old("aid") != "yes", old("wealth") < 20])
    save = Action("Save", Shift("wealth"), Absolute("wealth", per=10), repeatable=True)
    model = weighing("linear", schema, {"wealth": 1.0, "aid=yes": 1.0}, -1.495)
    problem = Problem(schema, model, actions=ActionSet([save, aid]))
    people = pd.DataFrame({"wealth": [10, 30], "aid": ["no", "no"]})
    answer = answered(problem, people, max_steps=2)
    assert sequences_of(answer) == {(0, 0): ("Aid", "Save")}
    assert answer.status.tolist() == [Status.FOUND, Status.NOT_FOUND]
    longer = answered(problem, people, max_steps=3)
    assert sequences_of(longer) == {(0, 0): ("Aid", "Save"), (1, 0): ("Save", "Aid", "Save")}
    assert longer.states_of(1)["wealth"].tolist() == [30, 19, 19, 50]
    check_plans(problem, longer)


def test_actions_that_may_come_once_come_once():
    schema = plain(1, 0, 100)
    push = {"effect": Shift("a"), "cost": 1, "parameters": [Parameter("a", 0, 10)]}
    twice = [Action("Push", **push, repeatable=again) for again in (False, True)]
    people = pd.DataFrame({"a": [5.0]})
    for action, wanted in zip(twice, ({}, {(0, 0): ("Push",) * 3}), strict=True):
        problem = Problem(schema, straight(schema, [1], -30), actions=ActionSet([action]))
        answer = answered(problem, people, max_steps=4)
        assert sequences_of(answer) == wanted


# -- scores ------------------------------------------------------------------------------------------------------------


def mixed(seed, n):
    """A net, and actions of which some clash: shared features, a guard, a condition on two features."""
    actions = ActionSet(
        (
            Action("A", Shift("a"), Squared("a")),
            Action("B", [Shift("b"), KeepRatio("c", "b")], Squared("b", relative=True), [old("a") >= 2]),
            Action("C", Shift("c"), Absolute("c") + 0.1),
            Action("D", Shift("d"), Absolute("d"), [new("d") > old("d"), new("d") <= new("c") + 5]),
        )
    )
    schema = Schema(tuple(Number(name, 0.5, 10, decimals=6) for name in "abcd"))
    problem = Problem(schema, tiny_net(schema, seed, 8), actions=actions)
    return problem, refused(problem, crowd(schema, 40, seed)).iloc[:n]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_all_scores_end_where_solving_every_sequence_ends(seed, monkeypatch):
    problem, people = mixed(seed, 4)
    found = {score: answered(problem, people, max_steps=3, score=score) for score in SCORES}
    monkeypatch.setattr(SequenceSearch, "_worth", lambda self, i, sequence: True)  # nothing is passed over
    search = fitted(problem, max_steps=3).explore(problem.schema.encode(people))
    every = set(search.sequences.up_to(3))
    closed = {sequence for sequence in every if 1 in sequence and 0 not in sequence[: sequence.index(1)]}
    for i, poor in enumerate(people["a"] < 2):  # who has too little of a may not take B before A
        assert set(search.explored[i]) == (every - closed if poor else every)
    wanted = np.array(search.ledger.incumbent)
    assert np.isfinite(wanted).sum() >= 3
    for score in SCORES:
        np.testing.assert_allclose(costs(found[score]), wanted, rtol=1e-3)
    check_plans(problem, found["gradient"])
    every_order = costs(answered(problem, people, max_steps=3, merge=False))
    np.testing.assert_allclose(every_order, wanted, rtol=2e-2)  # merged sequences have fewer starts, and lose little


def test_iterations_bound_the_search_and_more_never_hurt():
    schema = plain(4, 0, 10)
    problem = Problem(schema, tiny_net(schema, 3, 8), actions=shifts("abcd", Squared))
    people = refused(problem, crowd(schema, 40, 3)).iloc[:4]
    x = schema.encode(people)
    before = np.full(len(people), np.inf)
    for count in (4, 7, 15):
        method = fitted(problem, max_steps=4, score="objective", iterations=count, effort=QUICK, passes=1)
        search = method.explore(x)
        assert all(len(sequences) <= count for sequences in search.explored)
        assert all(len(set(sequences)) == len(sequences) for sequences in search.explored)
        now = np.array(search.ledger.incumbent)
        assert (now <= before + 1e-12).all()
        before = now


# -- conditions in the loss --------------------------------------------------------------------------------------------


def test_exponential_penalties_find_allowed_plans():
    schema = plain(3, 0, 50)
    actions = ActionSet([Action(n, Shift(n), Squared(n), [new(n) < 40, new(n) > old(n)]) for n in "abc"])
    problem = Problem(schema, straight(schema, [1, 1, 1], -90), actions=actions)
    people = crowd(schema, 12, 0, middle=0.4)
    people = refused(problem, people)
    plain_answer = answered(problem, people, max_steps=3, passes=1)
    answer = answered(problem, people, max_steps=3, relaxation="exponential", effort=QUICK, passes=1)
    assert np.isfinite(costs(answer)).all()
    np.testing.assert_allclose(costs(answer), costs(plain_answer), rtol=1e-3)
    check_plans(problem, answer)


def test_exponential_penalties_bear_absurd_sizes():
    schema = Schema((Number("a", 0, 1e15), Number("b", 0, 1e-3)))
    actions = ActionSet(
        (
            Action("A", Shift("a"), Absolute("a", per=1e14), [new("a") < 9e14, new("a") > old("a")]),
            Action("B", Shift("b"), Absolute("b", per=1e-4), [new("b") < 9e-4]),
        )
    )
    problem = Problem(schema, straight(schema, [1e-15, 1e3], -1.2), actions=actions)
    people = pd.DataFrame({"a": [1.0, 5e14], "b": [1e-6, 5e-4]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = answered(problem, people, max_steps=2, relaxation="exponential")
    assert answer.status.tolist() == [Status.FOUND] * 2
    check_plans(problem, answer)


# -- classes -----------------------------------------------------------------------------------------------------------


def test_the_wanted_class_wins_over_every_other_one():
    schema = plain(3, 0, 10)
    model = tiny_net(schema, 5, 8, outputs=3, target=2)
    module = model._judge.module
    problem = Problem(schema, model, actions=shifts("abc", Squared))

    def classes(rows):
        with torch.no_grad():
            return module(schema.encode(rows)).argmax(1).numpy()

    everyone = crowd(schema, 60, 1)
    assert set(classes(everyone)) >= {0, 1}
    people = everyone[classes(everyone) != 2].iloc[:15]
    answer = answered(problem, people, max_steps=3, passes=1)
    assert len(answer.options) >= 10
    assert (classes(answer.options[list(schema.names)]) == 2).all()
    with torch.no_grad():
        logits = module(schema.encode(answer.options[list(schema.names)]))
    wins_by = (logits[:, 2] - logits[:, :2].amax(1)).numpy()
    np.testing.assert_allclose(answer.options["margin"].to_numpy(), wins_by, rtol=1e-9, atol=1e-9)


# -- time and chance ---------------------------------------------------------------------------------------------------


def walled(seed=0):
    """A net whose yes lies behind conditions, and people it refuses."""
    schema = plain(4, 0, 10)
    actions = ActionSet([Action(n, Shift(n), Squared(n), [new(n) > old(n) - 3]) for n in "abcd"])
    problem = Problem(schema, tiny_net(schema, seed, 8), actions=actions)
    return problem, refused(problem, crowd(schema, 60, seed)).iloc[:8]


@pytest.mark.parametrize("more", [{}, {"robust": 0.05}, {"score": "gradient"}, {"relaxation": "exponential"}])
@pytest.mark.parametrize("seconds", [1e-9, 0.05, 0.3])
def test_short_of_time_there_is_still_an_answer(seconds, more):
    problem, people = walled()
    answer = answered(problem, people, time_limit=seconds, **more)
    assert len(answer.status) == len(people)
    assert set(answer.status) <= {
        Status.FOUND,
        Status.NOT_FOUND,
        Status.UNFINISHED,
    }  # nothing is called impossible for lack of time
    if len(answer.options):
        check_plans(problem, answer)


def test_same_seed_same_answer():
    problem, people = walled(1)
    first, second = (answered(problem, people, seed=5, max_steps=2) for _ in range(2))
    assert first == second
    assert first.fingerprint != answered(problem, people, seed=6, max_steps=2, passes=1).fingerprint  # other parameters


@pytest.mark.parametrize("more", [{}, {"score": "objective"}, pytest.param({"robust": 0.05}, marks=pytest.mark.slow)])
def test_a_person_alone_is_answered_as_in_a_crowd(more):
    problem, people = walled(2)
    people = people.iloc[:4]
    crowded = costs(answered(problem, people, max_steps=2, **more))
    for k in (0, 3):
        alone = costs(answered(problem, people.iloc[[k]], max_steps=2, **more))
        np.testing.assert_allclose(alone, crowded[k : k + 1], rtol=1e-6)
    backwards = costs(answered(problem, people.iloc[::-1], max_steps=2, **more))
    np.testing.assert_allclose(backwards[::-1], crowded, rtol=1e-6)


def test_how_long_others_take_does_not_matter():
    problem, people = mixed(0, 12)
    crowded = costs(answered(problem, people, max_steps=3, passes=1))
    np.testing.assert_allclose(costs(answered(problem, people.iloc[:5], max_steps=3, passes=1)), crowded[:5], rtol=1e-6)


def test_options_are_different_plans_cheapest_first():
    problem, people = walled(2)
    answer = answered(problem, people, options=4, max_steps=3)
    check_plans(problem, answer)
    for person in answer.status.index[answer.status == Status.FOUND]:
        mine = answer.options.loc[person]
        assert mine["cost"].is_monotonic_increasing
        sequences = [sequence for (who, _), sequence in sequences_of(answer).items() if who == person]
        assert len(set(sequences)) == len(sequences)
