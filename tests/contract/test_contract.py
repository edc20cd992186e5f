"""Every method keeps the contract: on made-up problems, on known answers, on real data."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from turnabout import methods
from turnabout.core import Recourse, Status
from turnabout.errors import MethodError
from turnabout.testing import Report, brute_force, checks, examine, real_case
from turnabout.testing.known import least_plan
from turnabout.testing.real import estimators_for
from turnabout.testing.strategies import problems

ON_ROWS = (
    "answers_everyone",
    "leaves_accepted_alone",
    "states_status_honestly",
    "shows_distinct_options",
    "keeps_what_is_fixed",
    "keeps_directions",
    "uses_legal_values",
    "keeps_missing",
    "is_accepted_as_printed",
    "is_accepted_as_encoded",
    "tells_the_cost",
    "drops_nothing_for_free",
    "shows_how_to_get_there",
    "takes_only_allowed_steps",
    "prices_every_step",
    "needs_every_step",
    "keeps_to_the_schema_on_the_way",
    "tells_margins_on_the_way",
    "bounds_costs_honestly",
    "ignores_order",
    "travels_as_json",
)

every_method = pytest.mark.parametrize("cls", methods.ALL, ids=lambda cls: cls.__name__)


@cache
def report(cls: type) -> Report:
    return examine(cls, examples=8)


def expect(given: Report, name: str) -> None:
    if name in given.excused:
        pytest.skip(f"excused: {given.excused[name]}")
    assert name not in given.failed, "\n".join(given.failed[name])


# the checks of a method stand together, so that one process examines it once and answers for all of them
@pytest.mark.parametrize("name", checks())
@every_method
def test_contract(cls, name):
    expect(report(cls), name)


@every_method
def test_contract_on_adult(cls, data_home):
    case = real_case("adult", estimators_for(cls.requires)[0], actions=cls.needs_actions)
    assert examine(cls, problems=[case], examples=0, data=False, only=ON_ROWS).failed == {}


@every_method
@pytest.mark.slow
def test_contract_on_heloc(cls, data_home):
    case = real_case("heloc", estimators_for(cls.requires)[-1], actions=cls.needs_actions)
    assert examine(cls, problems=[case], examples=0, data=False, only=ON_ROWS).failed == {}


# -- and on problems that hypothesis makes up, which it can make smaller when one fails ----------------------------


def answer(cls, problem, people) -> Recourse:
    method = cls.small()
    try:
        method.fit(problem)
    except MethodError:
        reject()  # a cost or rule that the method says it does not take
    return method.find(people, options=2)


@every_method
@given(source=st.data())
@settings(max_examples=5)
@pytest.mark.filterwarnings("ignore")
def test_found_options_are_accepted(cls, source):
    problem, people = source.draw(problems(requires=cls.requires, actions=cls.needs_actions))
    options = answer(cls, problem, people).options
    assert (problem.model.judge(options[list(problem.schema.names)]) >= 0).all()
    assert (problem.model.margin(problem.schema.encode(options)) >= 0).all()


@every_method
@given(source=st.data())
@settings(max_examples=5)
@pytest.mark.filterwarnings("ignore")
def test_no_option_beats_brute_force(cls, source):
    problem, people = source.draw(problems(requires=cls.requires, tiny=True, most=3, actions=cls.needs_actions))
    found = answer(cls, problem, people)
    best = brute_force(problem, people)
    for place, person in enumerate(people.index):
        shown = found.options["cost"][found.options.index.get_level_values(0) == person]
        if len(shown):
            assert best[place] is not None
            assert shown.min() >= best[place] - 1e-9
        if found.status[person] == Status.IMPOSSIBLE and cls.needs_actions:
            assert least_plan(problem, people.iloc[[place]], most=cls.small().max_steps) is None
        elif found.status[person] == Status.IMPOSSIBLE:
            assert best[place] is None
