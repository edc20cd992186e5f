"""check_method as an outside author meets it."""

from __future__ import annotations

import pickle
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from imports import loaded
from turnabout.core import Method, Proposal
from turnabout.errors import MethodError
from turnabout.models import LinearMargin
from turnabout.testing import ContractError, check_method, checks, examine
from turnabout.testing.chooser import SeededDice
from turnabout.testing.generate import random_case
from turnabout.testing.strategies import problems

QUICK = ("answers_everyone", "keeps_parameters", "explains_find_before_fit")


class Corner(Method):
    """The far corner of what a linear model likes."""

    requires = LinearMargin

    def __init__(self, reach: float = 1.0):
        self.reach = reach

    def _search(self, x):
        lo, hi = self.problem_.bounds(x)
        x_new = torch.where(self.problem_.model.weights > 0, hi, lo)
        return Proposal((x + self.reach * (x_new - x)).unsqueeze(1))


class Excused(Corner):
    excused: ClassVar = {"finds_what_is_easy": "it looks at one corner only."}


def test_a_class_and_an_instance_are_taken():
    assert check_method(Corner, examples=2, data=False, only=QUICK).passed == QUICK
    report = check_method(Corner(reach=0.5), examples=2, data=False, only=QUICK)
    assert report.method == "Corner(reach=0.5)"


def test_the_report_prints():
    text = str(check_method(Excused, examples=2, data=False, only=[*QUICK, "finds_what_is_easy"]))
    assert text.startswith("Excused(): 3 checks passed, 0 failed, 1 excused")
    assert "passed   keeps_parameters" in text
    assert "excused  finds_what_is_easy: it looks at one corner only." in text


def test_excuses_are_read_closely():
    with pytest.raises(MethodError, match="'no_such_check' is not a check"):
        check_method(type("A", (Corner,), {"excused": {"no_such_check": "why"}}))
    with pytest.raises(MethodError, match="excused without a reason"):
        check_method(type("B", (Corner,), {"excused": {"keeps_rules": " "}}))
    with pytest.raises(MethodError, match="'no_such_check' is not a check"):
        check_method(Corner, only=["no_such_check"])


def test_a_capability_of_ones_own_needs_problems_of_ones_own():
    class Quantum:
        pass

    with pytest.raises(MethodError, match="no made-up model is Quantum"):
        check_method(type("C", (Corner,), {"requires": Quantum}))


def test_own_problems_are_examined():
    case = random_case(SeededDice(3), LinearMargin)
    report = examine(Corner, problems=[(case.problem, case.people)], examples=0, data=False, only=QUICK)
    assert report.cases == 1
    assert report.ok


def test_a_method_that_takes_no_problem_fails():
    class Picky(Corner):
        def _fit(self, problem):
            raise MethodError("I take nothing.")

    report = examine(Picky, examples=2, data=False, only=["answers_everyone", "keeps_rules"])
    assert tuple(report.failed) == ("answers_everyone",)
    assert "I take nothing." in report.failed["answers_everyone"][0]
    assert "I take nothing." in report.refused.values()


def test_an_object_that_is_no_method_is_told_what_it_lacks():
    class Bare:
        def fit(self, problem):
            self.problem = problem
            return self

        def find(self, people, options=1, seed=0, time_limit=None, progress=None):
            raise RuntimeError("not ready")

    with pytest.raises(ContractError, match="not ready") as caught:
        check_method(Bare(), examples=1, data=False)
    assert "answers_everyone" in caught.value.names
    assert "keeps_parameters" in caught.value.names
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_nothing_global_is_left_behind():
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    examine(Corner, examples=2, data=False, only=["leaves_global_chance_alone"])
    assert (np.random.get_state()[1] == before[0]).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[1])


def test_every_check_is_a_sentence():
    for check in checks().values():
        assert check.meaning.endswith(".")
        assert check.name == check.run.__name__


def test_check_method_needs_no_hypothesis():
    assert "hypothesis" not in loaded()["turnabout.testing"]


@given(case=problems(requires=LinearMargin))
@settings(max_examples=10)
def test_problems_offer_what_is_required(case):
    problem, people = case
    assert isinstance(problem.model, LinearMargin)
    assert 1 <= len(people) <= 5
    assert problem.labels is not None
    problem.schema.encode(people)
