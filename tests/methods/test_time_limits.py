"""A time limit holds for every method: with slow models, under rules, with plans and proofs."""

from __future__ import annotations

import copy
import time
import warnings

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from turnabout import landing
from turnabout.actions import ActionSet
from turnabout.core import run as running
from turnabout.core.pace import Pace
from turnabout.core.run import Run
from turnabout.methods import ALL, ActionSequences, GrowingSpheres, LocalSearch
from turnabout.models import Model
from turnabout.testing.deciders import kinds_for, random_model

NAP = 0.04  # seconds of a slow model's call
LIMIT = 1.0
SCHEMA = ta.Schema(
    (
        *(ta.Number(f"n{j}", 0, 100, step=1 + j % 2) for j in range(5)),
        ta.Category("job", ["none", "part", "full"]),
        ta.Category("home", ["rent", "own"]),
    )
)
TWO_RULES = (ta.rules.AtMost(3), ta.rules.Linear({"n0": 1.0, "n1": 1.0, "n2": 1.0}, "<=", 200.0))


class Clock:
    """A clock that moves only when it is told to."""

    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(running, "now", clock)
    return clock


def clients(n, seed=0):
    rng = np.random.default_rng(seed)
    numbers = {f"n{j}": 2.0 * rng.integers(0, 51, n) for j in range(5)}
    return pd.DataFrame(
        {**numbers, "job": rng.choice(["none", "part", "full"], n), "home": rng.choice(["rent", "own"], n)}
    )


class Slow(Model):
    """Mixed into a model's class: every call moves the clock, by `nap` and by `each` for a row."""

    def judge(self, table):
        self.clock.time += self.nap + self.each * len(table)
        return super().judge(table)

    def margin(self, x):
        self.clock.time += self.nap + self.each * x[..., 0].numel()
        return super().margin(x)


def slowed(model, clock, nap=NAP, each=0.0):
    model = copy.copy(model)
    model.__class__ = type(f"Slow{type(model).__name__}", (Slow, type(model)), {})
    model.clock, model.nap, model.each = clock, nap, each
    return model


def problem_for(cls, rules=(), model=None):
    """A random problem of a kind that the method takes."""
    kind = "net" if cls.needs_actions else "function" if cls.requires is None else kinds_for(cls.requires)[0]
    actions = ActionSet.draft(SCHEMA) if cls.needs_actions else None
    model = random_model(kind, SCHEMA, 3) if model is None else model
    return ta.Problem(SCHEMA, model, rules=rules, background=clients(300, 1), actions=actions)


def found(method, people, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method.find(people, **more)


def check_honest(answer, problem, people):
    """Options are verified, everyone else has a reason, and what was not searched to the end is not called hopeless."""
    with_options = set(answer.options.index.get_level_values("person"))
    for person, status in answer.status.items():
        assert (status is ta.Status.FOUND) == (person in with_options)
        assert status in (ta.Status.ACCEPTED, ta.Status.FOUND) or answer.why.reason[person]
    if len(answer.options):
        assert (problem.judge(answer.options[list(SCHEMA.names)]) >= 0).all()


# -- the clock of a run ------------------------------------------------------------------------------------------------


def test_a_stage_may_take_its_share_of_what_is_left(clock):
    run = Run(time_limit=10.0)
    with run.within(0.5):
        clock.time += 4
        assert not run.expired and run.left == pytest.approx(1)
        with run.within(0.5):
            clock.time += 0.6
            assert run.expired and run.cut
        assert not run.expired
        clock.time += 1
        assert run.expired
    assert run.left == pytest.approx(4.4) and not run.late
    clock.time += 5
    assert run.late
    with run.grace(0.2):
        assert not run.over
        clock.time += 2
        assert run.over


def test_without_a_limit_work_is_not_divided(clock):
    run = Run()
    with run.within(0.1), run.grace(0.1):
        assert list(run.calls(10**6, "model")) == [slice(0, 10**6)]
        assert list(run.parts(10, 4, "work")) == [slice(0, 4), slice(4, 8), slice(8, 10)]
        clock.time += 1e9
        assert not run.expired and not run.cut and not run.nearly_over


def test_calls_stop_when_the_stage_is_over(clock):
    run, done = Run(time_limit=1.0), 0
    for part in run.calls(10**6, "model"):
        clock.time += 1e-4 * (part.stop - part.start)
        done = part.stop
    assert run.cut and 0 < done < 2e4
    assert run.seconds <= 1.5


def test_calls_to_a_distant_model_grow(clock):
    run, calls = Run(time_limit=10.0), 0
    for _ in run.calls(10**6, "model"):
        clock.time += 0.05
        calls += 1
    assert calls <= 5 and not run.cut


def test_a_pace_tells_the_call_from_the_rows():
    distant = Pace(1.0, 64)
    for _ in range(4):
        distant.note(distant.rows, 0.2)  # whatever the rows
    assert distant.rows > 64
    thorough = Pace(1.0, 64)
    for _ in range(4):
        thorough.note(thorough.rows, 0.01 * thorough.rows)
    assert 1 <= thorough.rows <= 10


# -- slow models, on a clock that only they move -----------------------------------------------------------------------


@pytest.mark.parametrize("each", [0.0, 1e-3], ids=["slow calls", "slow rows"])
@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_a_slow_model_keeps_the_limit(cls, each, clock):
    plain = problem_for(cls)
    slow = problem_for(cls, model=slowed(plain.model, clock, NAP if not each else 0.0, each))
    people = clients(20)
    method = cls.small().fit(slow)
    for limit in (0.5, 2.0):
        began = clock.time
        answer = found(method, people, time_limit=limit)
        assert clock.time - began <= 1.5 * limit + NAP + each * len(people)
        check_honest(answer, plain, people)


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_what_was_not_searched_to_the_end_is_unfinished(cls, clock):
    slow = problem_for(cls, model=slowed(problem_for(cls).model, clock))
    people = clients(20)
    method = cls.small().fit(slow)
    full = found(method, people)
    short = found(method, people, time_limit=3 * NAP)
    assert (short.status == ta.Status.UNFINISHED).any()
    for person, status in short.status.items():
        if status in (ta.Status.NOT_FOUND, ta.Status.IMPOSSIBLE):  # only by a search that ended
            assert full.status[person] == status
    late = short.status[short.status == ta.Status.UNFINISHED].index
    assert short.why.reason[late].str.contains("time limit").all()


@pytest.mark.parametrize("alone", [False, True], ids=["as a batch says", "only if alone too"])
def test_ties_are_asked_about_alone_as_long_as_there_is_time(alone, clock):
    """Everyone stands on the boundary itself, and a call takes a fifth of the limit."""
    model = slowed(ta.models.wrap(lambda table: np.full(len(table), 0.5), SCHEMA), clock, nap=LIMIT / 5)
    model._judge.alone = alone
    method = LocalSearch.small().fit(problem_for(LocalSearch, model=model))
    began = clock.time
    answer = found(method, clients(100), time_limit=LIMIT)
    assert clock.time - began <= 1.5 * LIMIT + LIMIT / 5
    expected = {ta.Status.ACCEPTED, ta.Status.UNFINISHED} if alone else {ta.Status.ACCEPTED}
    assert set(answer.status) == expected


def test_a_call_that_outlasts_the_limit_is_the_only_one(clock):
    slow = slowed(random_model("function", SCHEMA, 3), clock, nap=5.0)
    method = LocalSearch.small().fit(problem_for(LocalSearch, model=slow))
    began = clock.time
    answer = found(method, clients(20), time_limit=1.0)
    assert clock.time - began <= 1.5 + 5.0
    assert set(answer.status) == {ta.Status.ACCEPTED, ta.Status.UNFINISHED}


def test_short_of_time_what_was_found_is_verified(clock):
    slow = slowed(random_model("function", SCHEMA, 3), clock)
    answer = found(GrowingSpheres().fit(problem_for(GrowingSpheres, model=slow)), clients(40), time_limit=1.0)
    assert answer.counts()["FOUND"]


def test_landing_keeps_the_limit(clock):
    slow = slowed(random_model("net", SCHEMA, 3), clock)
    method = ta.methods.Wachter.small().fit(problem_for(ta.methods.Wachter, model=slow))
    for asked in (landing.Mirror(), landing.Probability(0.9)):
        began = clock.time
        answer = found(method, clients(30), time_limit=2.0, landing=asked)
        assert clock.time - began <= 3.0 + NAP
        assert (answer.status == ta.Status.UNFINISHED).any()


# -- real seconds ------------------------------------------------------------------------------------------------------


def timed(method, people, limit):
    """The answer and its seconds; once more where these are too many, in case the machine was busy."""
    for _ in range(2):
        began = time.monotonic()
        answer = found(method, people, time_limit=limit)
        seconds = time.monotonic() - began
        if seconds <= 1.5 * limit:
            break
    return answer, seconds


@pytest.mark.parametrize("cls", [cls for cls in ALL if not cls.needs_actions], ids=lambda cls: cls.__name__)
def test_two_rules_keep_the_limit(cls):
    problem, people = problem_for(cls, TWO_RULES), clients(300)
    answer, seconds = timed(cls().fit(problem), people, 0.4)
    assert seconds < 1.0
    check_honest(answer, problem, people)


@pytest.mark.parametrize("more", [{}, {"certify": True}, {"robust": 0.05}], ids=["plans", "proofs", "robust"])
def test_plans_keep_the_limit(more):
    problem, people = problem_for(ActionSequences), clients(120)
    answer, seconds = timed(ActionSequences(**more).fit(problem), people, 0.6)
    assert seconds < 1.5
    check_honest(answer, problem, people)


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_a_limit_that_is_not_reached_changes_nothing(cls):
    rules = () if cls.needs_actions else TWO_RULES
    method, people = cls.small().fit(problem_for(cls, rules)), clients(6)
    free, limited = found(method, people, options=2), found(method, people, options=2, time_limit=1e4)
    assert free.status.equals(limited.status)
    pd.testing.assert_frame_equal(free.options, limited.options)
