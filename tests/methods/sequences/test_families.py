"""Relaxations, scores and engines are objects; the names of members stand for them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import pandas as pd
import pytest
import torch
from tests.methods.sequences.toys import costs, plain, shifts, straight

from turnabout.actions import Absolute
from turnabout.core import Problem, Status
from turnabout.errors import MethodError
from turnabout.methods import ActionSequences
from turnabout.methods.sequences.carlini import RELAXATIONS, Descent, Relaxation
from turnabout.methods.sequences.proof_engines import ENGINES, BranchThenMilp
from turnabout.methods.sequences.scores import SCORES, SequenceScore
from turnabout.methods.sequences.solve import SearchEffort

FAMILIES = {"relaxation": RELAXATIONS, "score": SCORES, "engine": ENGINES}
MEMBERS = [(parameter, name) for parameter, family in FAMILIES.items() for name in family.members]


def lender() -> tuple[Problem, pd.DataFrame]:
    schema = plain(2, decimals=0)
    problem = Problem(schema, straight(schema, [1, 2], -30), actions=shifts("ab", Absolute))
    return problem, pd.DataFrame({"a": [3.0, 10.0], "b": [2.0, 6.0]})


@pytest.mark.parametrize(("parameter", "name"), MEMBERS)
def test_a_name_and_its_object_give_the_same_answer(parameter, name):
    problem, people = lender()
    more = {"max_steps": 2, "certify": parameter == "engine"}
    named = ActionSequences(**{parameter: name}, **more)
    given = ActionSequences(**{parameter: FAMILIES[parameter].get(name)}, **more)
    one, other = named.fit(problem).find(people), given.fit(problem).find(people)
    pd.testing.assert_frame_equal(one.options, other.options)
    pd.testing.assert_frame_equal(one.plans, other.plans)


@pytest.mark.parametrize(("parameter", "name"), MEMBERS)
def test_objects_are_parameters_like_others(parameter, name):
    member = FAMILIES[parameter].get(name)
    method = ActionSequences(**{parameter: member})
    assert method.get_params()[parameter] is member and f"{parameter}={member!r}" in repr(method)
    assert repr(method.clone()) == repr(method) == repr(pickle.loads(pickle.dumps(method)))
    assert method.clone().get_params()[parameter] == member


@pytest.mark.parametrize("parameter", FAMILIES)
def test_an_unknown_name_is_told_the_choices(parameter):
    problem, _ = lender()
    with pytest.raises(MethodError) as caught:
        ActionSequences(**{parameter: "deepest"}).fit(problem)
    assert f"{parameter}='deepest', which is not one of" in str(caught.value)
    assert all(repr(name) in str(caught.value) for name in FAMILIES[parameter].members)


@dataclass(frozen=True)
class LastAction(SequenceScore):
    """The action with the highest number first."""

    def values(self, search, solved):
        return -torch.arange(len(search.solver.actions.names)).double().expand(len(solved), -1)


@dataclass(frozen=True)
class Ignored(Relaxation):
    """Conditions do not enter the loss at all."""

    def penalty(self, batch, slack, mu):
        return slack.new_zeros(len(slack))


def test_a_member_of_ones_own():
    problem, people = lender()
    usual = ActionSequences(max_steps=2).fit(problem).find(people)
    for parameters in (
        {"score": LastAction()},
        {"relaxation": Ignored(), "effort": SearchEffort(descent=Descent(steps=20))},
        {"engine": BranchThenMilp(small=0), "certify": True},
    ):
        answer = ActionSequences(max_steps=2, **parameters).fit(problem).find(people)
        assert (answer.status == Status.FOUND).all() and costs(answer).tolist() == costs(usual).tolist()
