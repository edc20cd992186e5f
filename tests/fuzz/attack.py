"""Put a question to the library, and hand its answer to the oracle."""

from __future__ import annotations

import contextlib
import os
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any

import pandas as pd

import turnabout as ta
from fuzz.columns import Column, same
from fuzz.deciders import SINGLE
from fuzz.files import ask_by_file
from fuzz.frames import as_given, build, cells, text_of
from fuzz.oracle import Fault, judge
from fuzz.questions import PER_WORLD, Question, random_question
from fuzz.worlds import World, is_advised, random_world
from turnabout.errors import MethodError
from turnabout.methods.sequences.solve import SearchEffort
from turnabout.rules import from_dict as read_rule

LIMIT = 20.0  # seconds that one problem may take; they take a tenth of one
KINDS = {"number": ta.Number, "ordinal": ta.Ordinal, "binary": ta.Binary, "category": ta.Category}


EXPECTED = (
    "nobody satisfies the rule",  # drawn at random, so it may be so
    "needs a background",
    "decides by no probability",  # asked to land at one
    "categories",  # of a booster that is asked without its training table
)
"""What the library may refuse to answer, by a piece of what it says."""


class Hangs(BaseException):
    """A problem takes too long; no `except Exception` on the way may swallow it."""


@dataclass
class Report:
    """What came of one problem."""

    seed: int
    model: str = ""
    method: str = ""
    people: int = 0
    options: int = 0
    status: Counter[str] = field(default_factory=Counter)
    proofs: int = 0
    optima: int = 0
    missed: int = 0
    advice: Counter[str] = field(default_factory=Counter)
    refusal: str | None = None
    faults: list[Fault] = field(default_factory=list)


def attack(seed: int, limit: float = LIMIT) -> Report:
    """Everything about the problem of a seed."""
    report = Report(seed)
    try:
        with alarm(limit), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _attack(seed, report)
    except Hangs:
        report.faults.append(Fault("hangs", None, f"not done after {limit:g} seconds"))
    return report


def _attack(seed: int, report: Report) -> None:
    world = world_of(seed // PER_WORLD)
    question = random_question(world, seed)
    report.model, report.people = world.decider.title, len(question.people)
    try:
        answer = ask_by_file(world, question) if question.file else ask(world, question)
    except ta.TurnaboutError as error:
        report.refusal = " ".join(str(error).split())
        if not any(piece in report.refusal for piece in EXPECTED):
            report.faults.append(Fault("refused without need", None, report.refusal))
        return
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{type(error).__name__} in {os.path.basename(where.filename)}:{where.name}"
        report.faults.append(Fault(kind, None, str(error)[:300]))
        return
    report.method = f"{answer.made_by.split('(')[0]}{f' by {question.file}' if question.file else ''}"
    report.options, report.status = len(answer.options), Counter(str(s.value) for s in answer.status)
    report.advice = advice_in(world, question, answer)
    seen = judge(world, question, answer)
    report.faults += seen.faults
    report.proofs, report.optima, report.missed = seen.proofs, seen.optima, seen.missed


def advice_in(world: World, question: Question, answer: ta.Recourse) -> Counter[str]:
    """How often the answer has what worlds of the second kind are about."""
    out: Counter[str] = Counter()
    if not is_advised(world.seed):
        return out
    people = answer.options.index.get_level_values("person")
    out["people with limits"] = len(question.limits)
    out["their options"] = sum(person in question.limits for person in people)
    out["ranges to provide"] = len(answer.provided)
    out["options of several"] = int(people.duplicated(keep=False).sum())
    moves = answer.changes()
    columns = [world.by_name[name] for name in moves["feature"]]
    out["changes in useful steps"] = sum(c.useful is not None for c in columns)
    out["changes with a least one"] = sum(c.least is not None for c in columns)
    out["changes within a reach"] = sum(c.reach is not None for c in columns)
    for c in world.columns:
        if c.formula is not None:
            own, new = answer.people[c.name].reindex(people), answer.options[c.name]
            moved = [not same(*c_) for c_ in zip(*(map(c.read, map(text_of, cells(s))) for s in (own, new)))]
            out["computed cells that moved"] += sum(moved)
            out["of these with a direction"] += sum(moved) if c.moves != "fixed" else 0
    return out


@lru_cache(maxsize=2)
def world_of(seed: int) -> World:
    """The world of a seed, kept while its questions are asked."""
    return random_world(seed)


# -- what the library is given -----------------------------------------------------------------------------------------


def declare(columns: tuple[Column, ...]) -> ta.Schema:
    """The schema of some columns."""
    return ta.Schema([_feature(column) for column in columns])


def _feature(column: Column) -> Any:
    if column.kind == "passthrough":
        return ta.Passthrough(column.name)
    if column.formula is not None:
        numbers: dict[str, Any] = {"low": column.low, "high": column.high, "step": column.step}
        numbers |= {"decimals": column.decimals, "missing": column.missing, "moves": column.moves}
        return ta.Derived(column.name, column.formula.text, **numbers)
    common: dict[str, Any] = {"moves": column.moves, "missing": column.missing}
    if column.kind == "number":
        common |= {"low": column.low, "high": column.high, "step": column.step, "decimals": column.decimals}
        common |= {"useful_step": column.useful, "least_change": column.least, "provide": column.provide}
    else:
        common["levels"] = column.levels
    if column.reach is not None:
        common["reach"] = column.reach.spec()
    return KINDS[column.kind](column.name, **common)


def table_of(world: World, question: Question) -> pd.DataFrame:
    """The people who ask, as a table."""
    return as_given(build(world.columns, question.people, question.labels, half=True), world.columns, question.types)


def ask(world: World, question: Question) -> ta.Recourse:
    """The library's answer; its inputs must come out as they went in."""
    people = table_of(world, question)
    before = people.copy(deep=True)
    problem = pose(world, question)
    method = choose(problem, question)
    terms: dict[str, Any] = {"options": question.options, "seed": question.seed % 97, "landing": question.landing}
    terms |= {"limits": limits_of(question)}
    answer = method.find(people, **terms, time_limit=question.time_limit, query_limit=question.query_limit)
    pd.testing.assert_frame_equal(people, before)
    if question.seed % 5 == 0:
        assert ta.Recourse.from_json(answer.to_json()) == answer, "the answer does not read back from its document"
    if question.seed % 9 == 0 and world.decider.noise < SINGLE and not question.is_limited:
        again = method.find(people[::-1], **terms)
        assert (again.status[answer.status.index] == answer.status).all(), "statuses depend on the order of people"
        order = again.options["cost"].sort_index()
        assert order.equals(answer.options["cost"].sort_index()), "options depend on the order of people"
    return answer


def limits_of(question: Question) -> dict[Any, Any] | pd.DataFrame | None:
    """What single people will not do, as they say it: entries by name, or a table."""
    random = Random(f"limits {question.seed}")
    if random.random() < 0.3 and not any(
        o.levels is not None for own in question.limits.values() for o in own.values()
    ):
        rows = [
            {"person": person, "feature": name} | limit.entries()
            for person, own in question.limits.items()
            for name, limit in own.items()
        ]
        return pd.DataFrame(rows) if rows else None
    return {p: {n: limit.spec(random) for n, limit in own.items()} for p, own in question.limits.items()} or None


def pose(world: World, question: Question) -> ta.Problem:
    """The problem, with the model wrapped once for all questions of a world."""
    schema, model = wrapped(world.seed, question.background)
    rules = [read_rule(rule.spec()) for rule in question.rules]
    background = world.training if question.background else None
    labels = world.accepted if question.background and question.seed % 2 else None
    actions = ta.ActionSet.draft(schema) if question.acts else None
    cost = ta.costs.from_dict(question.price.spec()) if question.names_cost else None
    return ta.Problem(schema, model, cost, rules, background, labels, actions)


@lru_cache(maxsize=4)
def wrapped(seed: int, background: bool) -> tuple[ta.Schema, Any]:
    """The schema and the wrapped model of a world."""
    world = world_of(seed)
    schema = declare(world.columns)
    rows = world.training if background else None
    return schema, ta.models.wrap(world.decider.model, schema, background=rows, **world.decider.arguments)


def choose(problem: ta.Problem, question: Question) -> ta.Method:
    """The method that is asked for, with small budgets; another where that one cannot be used."""
    if question.method == "auto":
        return ta.methods.choose(problem)
    cls = next(cls for cls in ta.methods.ALL if cls.__name__ == question.method)
    if not usable(cls, problem):
        others = [other for other in ta.methods.ALL if usable(other, problem) and not other.needs_actions]
        cls = others[question.seed % len(others)]
    method = cls.small()
    if isinstance(method, ta.methods.ActionSequences):
        method.certify, method.max_steps = question.certify, question.steps
        method.effort = SearchEffort(draws=4, restarts=1, rounds=2)
    try:
        return method.fit(problem)
    except MethodError:  # a rule or a cost that this method cannot write down
        return ta.methods.choose(problem)


def usable(cls: type[ta.Method], problem: ta.Problem) -> bool:
    """Whether a method can answer the problem."""
    if cls.requires is not None and not isinstance(problem.model, cls.requires):
        return False
    return not (cls.needs_background and problem.background is None)


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise Hangs when the time is over."""

    def ring(_: int, __: Any) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
