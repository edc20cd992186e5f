"""Action sequences: order, scores, classes, time, grids, models of every kind, free-form actions, and bad input."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from tests.methods.sequences.toys import (
    check_plans,
    costs,
    crowd,
    fitted,
    plain,
    refused,
    shifts,
    straight,
    tiny_net,
    words_of,
)

import turnabout as ta
from turnabout.actions import (
    Absolute,
    Action,
    ActionSet,
    Constant,
    KeepRatio,
    Parameter,
    Set,
    Shift,
    Squared,
    new,
    old,
)
from turnabout.core import Problem, Status
from turnabout.errors import ActionError, MethodError
from turnabout.methods import ActionSequences
from turnabout.methods.sequences.carlini import Descent
from turnabout.methods.sequences.search import Search
from turnabout.methods.sequences.solve import Effort
from turnabout.models import Differentiable, wrap
from turnabout.schema import Category, Number, Ordinal, Schema
from turnabout.testing.deciders import weighing

QUICK = Effort(draws=16, restarts=2, rounds=12)
SCORES = ("breadth", "objective", "gradient")


def answered(problem, people, options=1, seed=0, time_limit=None, **parameters):
    return ActionSequences(**parameters).fit(problem).find(people, options=options, seed=seed, time_limit=time_limit)


# -- order --------------------------------------------------------------------------------------------------------

SCHOOL = Schema((Number("school", 0, 20, step=1, moves="up"), Number("income", 0, 100, step=1)))
STUDY = Action("Study", Shift("school"), Absolute("school"), [new("school") > old("school")])
EARN = Action("Earn", Shift("income"), Absolute("income", per=10), [old("school") >= 12])


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("actions", [(STUDY, EARN), (EARN, STUDY)], ids=["in order", "reversed"])
def test_order_matters(actions, merge):
    problem = Problem(SCHOOL, straight(SCHOOL, [0, 1], -49.5), actions=ActionSet(actions))
    people = pd.DataFrame({"school": [10, 12, 20], "income": [30, 30, 55]}, index=["ann", "bob", "cid"])
    answer = answered(problem, people, options=3, max_steps=3, merge=merge)
    assert words_of(answer) == {("ann", 0): ("Study", "Earn"), ("bob", 0): ("Earn",)}
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
    assert words_of(answer) == {(0, 0): ("Grow",), (1, 0): ("Shrink", "Grow"), (1, 1): ("Grow",)}
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
    assert words_of(answer) == {(0, 0): ("Aid", "Save")}
    assert answer.status.tolist() == [Status.FOUND, Status.NOT_FOUND]
    longer = answered(problem, people, max_steps=3)
    assert words_of(longer) == {(0, 0): ("Aid", "Save"), (1, 0): ("Save", "Aid", "Save")}
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
        assert words_of(answer) == wanted


# -- scores -------------------------------------------------------------------------------------------------------


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
def test_all_scores_end_where_solving_every_word_ends(seed, monkeypatch):
    problem, people = mixed(seed, 5)
    found = {score: answered(problem, people, max_steps=3, score=score) for score in SCORES}
    monkeypatch.setattr(Search, "_worth", lambda self, i, word: True)  # nothing is passed over
    search = fitted(problem, max_steps=3).explore(problem.schema.encode(people))
    assert {len(words) for words in search.explored} == {len(search.words.up_to(3))}
    wanted = np.array(search.ledger.incumbent)
    assert np.isfinite(wanted).sum() >= 3
    for score in SCORES:
        np.testing.assert_allclose(costs(found[score]), wanted, rtol=1e-3)
    check_plans(problem, found["gradient"])
    every_order = costs(answered(problem, people, max_steps=3, merge=False))
    np.testing.assert_allclose(every_order, wanted, rtol=2e-2)  # merged words have fewer starts, and lose little


def test_iterations_bound_the_search_and_more_never_hurt():
    schema = plain(4, 0, 10)
    problem = Problem(schema, tiny_net(schema, 3, 8), actions=shifts("abcd", Squared))
    people = refused(problem, crowd(schema, 40, 3)).iloc[:4]
    x = schema.encode(people)
    before = np.full(len(people), np.inf)
    for count in (4, 7, 15):
        method = fitted(problem, max_steps=4, score="objective", iterations=count, effort=QUICK, passes=1)
        search = method.explore(x)
        assert all(len(words) <= count for words in search.explored)
        assert all(len(set(words)) == len(words) for words in search.explored)
        now = np.array(search.ledger.incumbent)
        assert (now <= before + 1e-12).all()
        before = now


# -- conditions in the loss ---------------------------------------------------------------------------------------


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


# -- classes ------------------------------------------------------------------------------------------------------


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


# -- time and chance ----------------------------------------------------------------------------------------------


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
    assert set(answer.status) <= {Status.FOUND, Status.NOT_FOUND}  # nothing is called impossible for lack of time
    if len(answer.options):
        check_plans(problem, answer)


def test_same_seed_same_answer():
    problem, people = walled(1)
    first, second = (answered(problem, people, seed=5, max_steps=2) for _ in range(2))
    assert first == second
    assert first.fingerprint != answered(problem, people, seed=6, max_steps=2, passes=1).fingerprint  # other parameters


@pytest.mark.parametrize("more", [{}, {"score": "objective"}, {"robust": 0.05}])
def test_a_person_alone_is_answered_as_in_a_crowd(more):
    problem, people = walled(2)
    crowded = costs(answered(problem, people, max_steps=2, **more))
    for k in (0, 5):
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
        words = [word for (who, _), word in words_of(answer).items() if who == person]
        assert len(set(words)) == len(words)


# -- models of every kind -----------------------------------------------------------------------------------------


def stairs(table):
    """P(yes) of a model that can only be asked."""
    return np.where((table["a"] >= 6.3) & (table["b"] >= 4.2) | (table["c"] >= 9), 0.9, 0.2)


def test_models_that_can_only_be_asked():
    schema = plain(3, 0, 10, decimals=3)
    problem = Problem(schema, wrap(stairs, schema), actions=shifts("abc", Absolute))
    assert not isinstance(problem.model, Differentiable)
    people = pd.DataFrame({"a": [5.0, 1.0, 6.5, 3.0], "b": [4.0, 1.0, 1.0, 9.9], "c": [0.0, 5.0, 0.0, 1.0]})
    answer = answered(problem, people, max_steps=2)
    assert costs(answer).tolist() == pytest.approx([1.5, 4, 3.2, 3.3], abs=2e-3)
    assert words_of(answer)[0, 0] == ("move_a", "move_b")
    check_plans(problem, answer)


@pytest.mark.parametrize("seed", range(3))
def test_trees(seed):
    from sklearn.tree import DecisionTreeClassifier

    schema = Schema((Number("a", 0, 30, step=1), Number("b", 0, 30, step=1)))
    train = crowd(schema, 300, seed)
    rng = np.random.default_rng(seed)
    wanted = (train["a"] - 15) * rng.normal() + (train["b"] - 15) * rng.normal() + rng.normal(0, 4, len(train)) > 6
    tree = DecisionTreeClassifier(max_depth=5, random_state=0).fit(train, wanted)
    problem = Problem(schema, wrap(tree, schema), actions=shifts("ab", Absolute))
    people = refused(problem, crowd(schema, 40, seed + 10)).iloc[:12]
    answer = answered(problem, people, max_steps=2)
    check_plans(problem, answer)
    everywhere = pd.DataFrame(list(itertools.product(range(31), range(31))), columns=["a", "b"])
    good = everywhere[tree.predict(everywhere)].to_numpy()
    best = np.abs(people.to_numpy()[:, None] - good[None]).sum(-1).min(1)
    assert (costs(answer) >= best - 1e-9).all()
    assert np.median(costs(answer) / best) <= 1.1 and (costs(answer) / best).max() <= 2


@pytest.mark.parametrize("more", [{}, {"score": "objective"}])
def test_a_model_that_never_says_yes(more):
    schema = plain(2, 0, 10)
    people = crowd(schema, 3, 0)
    never = [wrap(lambda table: np.full(len(table), 0.1), schema), straight(schema, [1, 1], -1e6)]
    for model in never:
        answer = answered(Problem(schema, model, actions=shifts("ab", Absolute)), people, max_steps=2, **more)
        assert answer.status.tolist() == [Status.NOT_FOUND] * 3 and len(answer.options) == 0
        assert answer.why["reason"].str.len().gt(0).all()
    flat = straight(schema, [0, 0], -1.0)  # nothing anyone does matters
    answer = answered(Problem(schema, flat, actions=shifts("ab", Absolute)), people, max_steps=2, **more)
    assert answer.status.tolist() == [Status.NOT_FOUND] * 3


def test_accepted_people_are_left_alone():
    problem, people = walled()
    happy = crowd(problem.schema, 200, 9)
    happy = happy[problem.judge(happy) >= 0].iloc[:3]
    assert len(happy) == 3
    answer = answered(problem, pd.concat([happy, people.iloc[:2]]).reset_index(drop=True), max_steps=1)
    assert answer.status.tolist()[:3] == [Status.ACCEPTED] * 3
    assert set(answer.options.index.get_level_values("person")) <= {3, 4}
    nobody = answered(problem, happy, max_steps=1)
    assert len(nobody.options) == 0 and len(answered(problem, people.iloc[:0], max_steps=1)) == 0


def test_nothing_that_a_person_may_do():
    schema = Schema((*plain(2, 0, 10), Category("job", ("none", "some", "much"))))
    guard = [old("job") == "some"]
    actions = ActionSet((Action("A", Shift("a"), Absolute("a"), guard), Action("B", Shift("b"), Absolute("b"), guard)))
    model = weighing("linear", schema, {"a": 1.0}, -0.8)
    problem = Problem(schema, model, actions=actions)
    people = pd.DataFrame({"a": [1.0, 1.0], "b": [1.0, 1.0], "job": ["none", "some"]})
    answer = answered(problem, people, max_steps=3)
    assert answer.status.tolist() == [Status.NOT_FOUND, Status.FOUND]
    assert words_of(answer) == {(1, 0): ("A",)}


def test_missing_cells_close_some_actions_and_not_others():
    schema = Schema((Number("a", 0, 10, decimals=3, missing=True), Number("b", 0, 10, decimals=3)))
    ways = [Action(f"A{k}", Shift("a"), Absolute("a", per=10 + k)) for k in range(10)]
    model = weighing("linear", schema, {"a": 1.0, "b": 1.0}, -0.9)
    problem = Problem(schema, model, actions=ActionSet([*ways, Action("B", Shift("b"), Absolute("b"))]))
    people = pd.DataFrame({"a": [np.nan, 1.0], "b": [1.0, 1.0]})
    answer = answered(problem, people, max_steps=1)
    assert words_of(answer) == {(0, 0): ("B",), (1, 0): ("A9",)}


# -- prices that are constants --------------------------------------------------------------------------------------


def test_actions_that_cost_the_same_however_far_they_go():
    schema = plain(2, 0, 100)
    actions = ActionSet((Action("A", Shift("a"), 2), Action("B", Shift("b"), 3), Action("C", Shift("b", by=50), 0)))
    problem = Problem(schema, straight(schema, [1, 1], -120), actions=actions)
    people = pd.DataFrame({"a": [30.0, 10.0], "b": [30.0, 5.0]})
    answer = answered(problem, people, max_steps=3)
    assert words_of(answer)[0, 0] == ("A",)
    # 10 + 5: C gives 50 for nothing, and then A reaches
    assert set(words_of(answer)[1, 0]) == {"A", "C"} and costs(answer).tolist() == [2, 2]
    check_plans(problem, answer)


# -- coarse grids ---------------------------------------------------------------------------------------------------


def by_trying(problem, person):
    """The least cost of a plan of one or two actions over every whole number; read in plain Python."""
    names = list(problem.schema.names)
    a, b, c = (int(person[name]) for name in names)
    everywhere = range(21)
    ends = {}  # row -> cost

    def note(row, cost):
        ends[row] = min(cost, ends.get(row, math.inf))

    for v in everywhere:
        note((v, b, c), abs(v - a) / 2)  # A
        note((a, v, c), (v - b) ** 2 / 10)  # B
        if a >= 5:
            note((a, b, v), abs(v - c) / 4 + 0.5)  # C
        for u in everywhere:
            note((v, u, c), abs(v - a) / 2 + (u - b) ** 2 / 10)
            if v >= 5 or a >= 5:  # A first, or C first
                note((v, b, u), abs(v - a) / 2 + abs(u - c) / 4 + 0.5)
            if a >= 5:
                note((a, v, u), (v - b) ** 2 / 10 + abs(u - c) / 4 + 0.5)
    rows = pd.DataFrame(list(ends), columns=names)
    good = problem.judge(rows) >= 1e-9
    return np.array(list(ends.values()))[good].min(initial=math.inf)


@pytest.mark.parametrize("seed", range(3))
def test_whole_numbers_as_by_trying_them_all(seed):
    schema = Schema(tuple(Number(name, 0, 20, step=1) for name in "abc"))
    actions = ActionSet(
        (
            Action("A", Shift("a"), Absolute("a", per=2)),
            Action("B", Shift("b"), Squared("b", weight=0.1)),
            Action("C", Shift("c"), Absolute("c", per=4) + 0.5, [old("a") >= 5]),
        )
    )
    problem = Problem(schema, tiny_net(schema, seed, 5, accepted=0.2), actions=actions)
    people = refused(problem, crowd(schema, 60, seed)).iloc[:20]
    answer = answered(problem, people, max_steps=2)
    check_plans(problem, answer)
    best = np.array([by_trying(problem, row) for _, row in people.iterrows()])
    found = costs(answer)
    assert (found >= best - 1e-9).all()
    assert (np.isfinite(found) == np.isfinite(best)).all()
    within = found / best
    assert (within <= 1.02).mean() >= 0.95 and within.max() <= 1.1  # a step that only rounding makes worthwhile is lost


# -- free-form actions ----------------------------------------------------------------------------------------------


def test_free_form_actions():
    """A step of any direction in the plane, of a length from 1/20 to 1/5 of it: the way is as straight as it can be."""
    schema = plain(2, 0, 10)

    def length(r):
        return r.norm(dim=1).clamp(min=1e-9)

    step = Action.free(
        "Walk",
        [Parameter("x", -1, 1), Parameter("y", -1, 1)],
        effect=lambda x, r: x + r,
        cost=lambda x, x_new, r: length(r),
        precondition=lambda x, x_new, r: torch.stack(
            [length(r) - 0.05, 0.2 - length(r), x_new.amin(1), 1 - x_new.amax(1)], 1
        ),
        footprint=("a", "b"),
        reads=(),
        repeatable=True,
        project=lambda x, r: r * (length(r).clamp(0.0501, 0.1999) / length(r)).unsqueeze(1),
    )
    problem = Problem(schema, straight(schema, [0.6, 0.8], -7), actions=ActionSet([step]))
    people = pd.DataFrame({"a": [5.0, 4.0, 1.0], "b": [4.8, 3.0, 1.0]})
    answer = answered(problem, people, max_steps=3)
    short = -problem.judge(people) / 10
    assert short.tolist() == pytest.approx([0.016, 0.22, 0.56])
    assert (answer.plans["steps"].to_numpy() >= [1, 2, 3]).all()  # none is longer than 1/5
    np.testing.assert_allclose(costs(answer), [0.05, 0.22, 0.56], rtol=0.02)
    check_plans(problem, answer)


def test_free_form_beside_declared_actions():
    schema = plain(2, 0, 10)
    boost = Action.free(
        "Boost",
        [Parameter("s", 0, 1)],
        effect=lambda x, r: torch.cat([x[:, :1] + 0.3 * r, x[:, 1:]], 1),
        cost=lambda x, x_new, r: r[:, 0] ** 2,
        footprint=("a",),
    )
    problem = Problem(
        schema, straight(schema, [1, 1], -12), actions=ActionSet([boost, Action("B", Shift("b"), Squared("b", per=2))])
    )
    people = pd.DataFrame({"a": [4.0], "b": [5.0]})
    # least s^2 + (d / 2)^2 with 3 s + d >= 3: as in the closed form for squared costs, 3^2 / (3^2 + 2^2)
    longer = Effort(draws=64, restarts=8, descent=Descent(steps=300, lr=0.2))
    for effort, slack in ((None, 0.05), (longer, 0.002)):
        answer = answered(problem, people, max_steps=2, effort=effort)
        assert costs(answer)[0] == pytest.approx(9 / 13, rel=slack)
        check_plans(problem, answer)


# -- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"max_steps": 0}, "max_steps=0 allows no plan"),
        ({"max_steps": -1}, "max_steps=-1 allows no plan"),
        ({"max_steps": True}, "max_steps=True allows no plan"),
        ({"max_steps": 2.0}, "max_steps=2.0 allows no plan"),
        ({"score": "depth"}, "score='depth' is not known"),
        ({"relaxation": "hinge"}, "relaxation='hinge' is not known"),
        ({"beam": 0}, "beam and iterations must be at least 1"),
        ({"iterations": 0}, "beam and iterations must be at least 1"),
        ({"robust": 0}, "robust=0 is not a share of a parameter"),
        ({"robust": 1.5}, "robust=1.5 is not a share of a parameter"),
        ({"robust": math.nan}, "robust=nan is not a share of a parameter"),
        ({"robust_share": 0}, "robust_share=0 is not a probability"),
        ({"robust_share": 1.01}, "robust_share=1.01 is not a probability"),
        ({"robust_share": math.nan}, "robust_share=nan is not a probability"),
        ({"robust_limit": 0.5}, "robust_limit=0.5 allows no plan"),
        ({"robust_limit": math.nan}, "robust_limit=nan allows no plan"),
    ],
)
def test_parameters_that_make_no_sense(parameters, text):
    schema = plain(1)
    problem = Problem(schema, straight(schema, [1], -1), actions=shifts("a", Absolute))
    with pytest.raises(MethodError) as caught:
        ActionSequences(**parameters).fit(problem)
    assert text in str(caught.value) and "Hint:" in str(caught.value)


def test_a_problem_without_actions():
    schema = plain(1)
    with pytest.raises(MethodError, match="actions") as caught:
        ActionSequences().fit(Problem(schema, straight(schema, [1], -1)))
    assert "Hint:" in str(caught.value)


def test_the_gradient_score_needs_gradients():
    schema = plain(1)
    problem = Problem(
        schema, wrap(lambda table: np.where(table["a"] > 1, 0.9, 0.1), schema), actions=shifts("a", Absolute)
    )
    with pytest.raises(MethodError, match="the gradient score needs a model that is Differentiable"):
        ActionSequences(score="gradient").fit(problem)


SMALL = Schema(
    (
        Number("a", 0, 10, decimals=3),
        Number("age", 18, 80, step=1, moves="fixed"),
        Category("job", ("none", "some")),
        Ordinal("grade", ("low", "mid", "high")),
    )
)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Action("X", Shift("age"), 1), "age"),
        (lambda: Action("X", Set("a", 11), 1), "11"),
        (lambda: Action("X", Set("job", "boss"), 1), "boss"),
        (lambda: Action("X", Shift("wage"), 1), "wage"),
        (lambda: Action("X", Shift("a"), -1), "below zero"),
        (lambda: Action("X", Shift("a"), -1 * Absolute("a")), "below zero"),
        (lambda: Action("X", Shift("a"), Constant(math.nan)), "nan"),
        (lambda: Action("X", Shift("a"), Absolute("a", per=0)), "per"),
        (lambda: Action("X", Shift("a"), math.inf), "inf"),
        (lambda: Action("X", Shift("a"), 1, [new("a") > 10]), "nobody can take the action"),
        (lambda: Action("X", Shift("a"), 1, [new("a") > 5, new("a") < 4]), "contradict each other"),
        (lambda: Action("X", Shift("a"), 1, parameters=[Parameter("a", -1e400, 5)]), "inf"),
        (lambda: Action("X", Shift("a"), 1, parameters=[Parameter("a", 0, math.nan)]), "nan"),
        (lambda: Action("X", Shift("a"), 1, parameters=[Parameter("a", 2, 1)]), "above high"),
        (
            lambda: Action("X", Shift("a"), 1, parameters=[Parameter("a", -1e30, 5)]),
            "not a finite number of ordinary size",
        ),
        (lambda: Action("X", Shift("a", by=1e400), 1), "inf"),
        (lambda: Action("X", [], 1), "has no effect"),
    ],
)
def test_actions_that_make_no_sense(make, text):
    model = weighing("linear", SMALL, {"a": 1.0}, -0.9)
    with pytest.raises(ActionError) as caught:
        Problem(SMALL, model, actions=ActionSet((make(),)))
    assert text in str(caught.value) and "Hint:" in str(caught.value)


@pytest.mark.parametrize("limit", [1e6, 1e15])
def test_wide_limits_are_only_limits(limit):
    schema = plain(2, 0, 10)
    actions = ActionSet(
        (
            Action("A", Shift("a", by="x"), Absolute("a"), parameters=[Parameter("x", -limit, limit)]),
            Action("B", Shift("b"), Squared("b", weight=1e-12)),
        )
    )
    problem = Problem(schema, straight(schema, [1, 1], -15), actions=actions)
    people = pd.DataFrame({"a": [1.0, 9.0], "b": [1.0, 1.0]})
    for relaxation in ("projection", "exponential"):
        answer = answered(problem, people, max_steps=2, relaxation=relaxation)
        assert costs(answer).tolist() == pytest.approx([4, 0], abs=1e-5)
        check_plans(problem, answer)


@pytest.mark.parametrize("cell", [math.nan, math.inf, "much"])
def test_people_who_cannot_be_read(cell):
    schema = plain(1)
    problem = Problem(schema, straight(schema, [1], -1), actions=shifts("a", Absolute))
    with pytest.raises(ta.errors.SchemaError):
        answered(problem, pd.DataFrame({"a": [0.0, cell]}, dtype=object))
