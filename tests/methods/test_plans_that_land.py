"""Plans of actions that must land: the row after the last step lies where asked, and every step says its margin."""

from __future__ import annotations

import numpy as np
import pytest

import turnabout as ta
from published import load


@pytest.mark.parametrize("asked", [ta.landing.Probability(0.75), ta.landing.Mirror()], ids=repr)
def test_plans_land_where_asked(asked, data_home):
    domain = load("german")
    problem = domain.problem
    few = domain.people.iloc[:4]
    method = ta.methods.ActionSequences.small().fit(problem)
    plain, answer = method.find(few), method.find(few, landing=asked)
    assert answer.counts()["FOUND"] >= 1
    rows = problem.schema.table(answer.options)
    margin = problem.judge(rows)
    assert (margin >= 0).all()
    np.testing.assert_allclose(answer.options["margin"], margin, atol=problem.model.noise)
    own = problem.schema.table(few.loc[answer.options.index.get_level_values("person")])
    chance, before = asked.chances(problem.model, rows), asked.chances(problem.model, own)
    assert (chance >= asked.targets(before) - 1e-9).all()
    for person, option in answer.plans.index:
        steps, states = answer.steps_of(person, option), answer.states_of(person, option)
        there = problem.judge(problem.schema.table(states.iloc[1:]))
        np.testing.assert_allclose(steps["margin"], there, atol=problem.model.noise)
        assert there[-1] == pytest.approx(answer.options.loc[(person, option), "margin"], abs=problem.model.noise)
    both = answer.options.index.intersection(plain.options.index)
    assert answer.options["cost"][both].mean() > plain.options["cost"][both].mean()
    assert answer == ta.Recourse.from_json(answer.to_json())
