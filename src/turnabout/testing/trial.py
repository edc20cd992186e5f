"""One method under examination: fresh copies, fitted copies, answers, each made once."""

from __future__ import annotations

import copy
import pickle
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.core import Problem, Recourse, Status
from turnabout.errors import MethodError
from turnabout.testing.by_hand import differs
from turnabout.testing.generate import Case
from turnabout.testing.known import Known

OPTIONS = 3  # asked for each person


class Unusable(Exception):
    """The method gave no answer on a case; `answers_everyone` says so, and the other checks pass over it."""


@dataclass(eq=False)
class Trial:
    """A method, the cases it is tried on, and what came of it.

    cases : made-up, real and own problems; known : those with known answers; conduct : the few cases for checks that
    call find several times.
    """

    method: Any
    cases: Sequence[Case]
    known: Sequence[Known]
    conduct: Sequence[Case]
    refused: dict[str, str] = field(default_factory=dict)  # case -> why fit does not take it
    _fitted: dict[int, Any] = field(default_factory=dict)
    _answers: dict[int, Recourse | Exception] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return type(self.method).__name__

    @property
    def every(self) -> list[Case]:
        """All cases, those with known answers included."""
        return [*self.cases, *self.known]

    def fresh(self) -> Any:
        """An unfitted copy of the method as it was given."""
        return copy.deepcopy(self.method)

    def fit(self, problem: Problem) -> Any:
        """A freshly fitted copy."""
        with quiet():
            method = self.fresh()
            method.fit(problem)
            return method

    def fitted(self, case: Case) -> Any:
        """The fitted copy for a case, made once; Unusable where the method declares the problem not its own."""
        if id(case) not in self._fitted:
            try:
                self._fitted[id(case)] = self.fit(case.problem)
            except MethodError as error:
                self._fitted[id(case)] = None
                self.refused[case.name] = error.message
            except Exception as error:
                self._fitted[id(case)] = error
        method = self._fitted[id(case)]
        if method is None or isinstance(method, Exception):
            raise Unusable from method
        return method

    def answer(self, case: Case) -> Recourse:
        """What the method says on a case, asked once; Unusable where it raised."""
        if id(case) not in self._answers:
            method = self.fitted(case)
            try:
                self._answers[id(case)] = find(method, case.people)
            except Exception as error:
                self._answers[id(case)] = error
        answer = self._answers[id(case)]
        if isinstance(answer, Exception):
            raise Unusable from answer
        return answer

    def failure(self, case: Case) -> Exception | None:
        """What fit or find raised on a case, if that was not a plain refusal of the problem."""
        try:
            self.answer(case)
        except Unusable as unusable:
            cause = unusable.__cause__
            return cause if isinstance(cause, Exception) else None
        return None

    def answered(self, cases: Sequence[Case] | None = None) -> Iterator[tuple[Case, Recourse]]:
        """Cases with their answers, without those that have none."""
        for case in self.every if cases is None else cases:
            try:
                yield case, self.answer(case)
            except Unusable:
                continue

    def usable(self, cases: Sequence[Case]) -> Iterator[tuple[Case, Any]]:
        """Cases with fitted methods, without those the method does not take."""
        for case in cases:
            try:
                yield case, self.fitted(case)
            except Unusable:
                continue


@dataclass(frozen=True, eq=False)
class Option:
    """One option beside the person it is for, in raw cells."""

    case: Case
    person: Any
    number: Any
    own: pd.Series
    new: pd.Series

    def __str__(self) -> str:
        return f"{self.case}, person {self.person!r}, option {self.number}"

    @property
    def changed(self) -> list[str]:
        return [name for name in self.case.problem.schema.names if differs(self.own[name], self.new[name])]


def each_option(trial: Trial) -> Iterator[Option]:
    """Every option of every answer."""
    for case, answer in trial.answered():
        yield from options_of(case, answer)


def options_of(case: Case, answer: Recourse) -> Iterator[Option]:
    """Every option of one answer."""
    own = case.people.astype(object)
    new = answer.options.astype(object)
    for place, (person, number) in enumerate(answer.options.index):
        yield Option(case, person, number, own.loc[person], new.iloc[place])


def find(method: Any, people: pd.DataFrame, options: int = OPTIONS, seed: int = 0, **more: Any) -> Recourse:
    """Call find on a copy of the people, without its warnings."""
    with quiet():
        answer: Recourse = method.find(people.copy(deep=True), options=options, seed=seed, **more)
    return answer


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings: made-up people are odd on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def random_states() -> tuple[Any, ...]:
    """The global generators of Python, numpy and torch."""
    return random.getstate(), pickle.dumps(np.random.get_state()), torch.get_rng_state().numpy().tobytes()  # noqa: NPY002


@contextmanager
def kept_random_states() -> Iterator[None]:
    """Put the global generators back as they were."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])


def difference(case: Case, a: Recourse, b: Recourse, to_b: dict[Any, Any] | None = None) -> str:
    """How two answers differ for the people of the first, "" if they do not; `to_b` renames them in the second."""
    tolerance = max(1e-9, 10 * case.problem.model.noise)
    for person in a.people.index:
        other = person if to_b is None else to_b.get(person, person)
        if Status(a.status[person]) != Status(b.status[other]):
            return f"person {person!r} is {a.status[person]} in one answer and {b.status[other]} in the other"
        mine, theirs = (_options_of(answer, who) for answer, who in ((a, person), (b, other)))
        if len(mine) != len(theirs):
            return f"person {person!r} has {len(mine)} options in one answer and {len(theirs)} in the other"
        for number in range(len(mine)):
            for name in case.problem.schema.names:
                left, right = mine[name].iloc[number], theirs[name].iloc[number]
                if differs(left, right):
                    return f"person {person!r}, option {number}: '{name}' is {left!r} in one and {right!r} in the other"
            for name in ("cost", "margin"):
                left, right = float(mine[name].iloc[number]), float(theirs[name].iloc[number])
                if abs(left - right) > tolerance * (1 + abs(left)):
                    return (
                        f"person {person!r}, option {number}: {name} is {left!r} in one answer, {right!r} in the other"
                    )
        if _steps_of(a, person) != _steps_of(b, other):
            return f"person {person!r} is shown other steps in one answer than in the other"
    return ""


def _options_of(answer: Recourse, person: Any) -> pd.DataFrame:
    mine = np.array([key[0] == person for key in answer.options.index], dtype=bool)
    return answer.options[mine].astype(object)


def _steps_of(answer: Recourse, person: Any) -> list[tuple[Any, ...]]:
    mine = answer.steps[np.array([key[0] == person for key in answer.steps.index], dtype=bool)]
    keys = [key[1:] for key in mine.index]
    return list(zip(keys, mine["action"], mine["becomes"], strict=True))
