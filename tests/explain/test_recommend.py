"""Advice for a goal: names that exist, and no importance sold as recourse."""

from __future__ import annotations

import importlib
import json
from typing import get_args

import pytest

from turnabout.core import Method
from turnabout.errors import ExplainError
from turnabout.explain.recommend import Goal, recommend

GOALS = get_args(Goal)


@pytest.mark.parametrize("goal", GOALS)
def test_every_name_exists(goal):
    answer = recommend(goal)
    for advice in (*answer.methods, *answer.refused):
        room = importlib.import_module(f"turnabout.{advice.room}")
        assert callable(getattr(room, advice.name, None)), advice.name


@pytest.mark.parametrize("goal", GOALS)
def test_every_advice_has_a_reason(goal):
    answer = recommend(goal)
    assert answer.methods
    assert answer.cautions
    assert all(advice.why.endswith(".") for advice in (*answer.methods, *answer.refused))
    assert all(name in str(answer) for name in answer.names)
    assert json.loads(json.dumps(answer.to_dict()))["goal"] == goal


def test_recourse_is_counterfactuals_sequences_and_responsiveness():
    answer = recommend("recourse")
    methods = importlib.import_module("turnabout.methods")
    assert any(issubclass(getattr(methods, a.name), Method) for a in answer.methods if a.room == "methods")
    assert {"ActionSequences", "responsiveness"} <= set(answer.names)
    assert not {advice.name for advice in answer.refused} & set(answer.names)


@pytest.mark.parametrize("name", ["KernelShap", "ExactShapley", "LimeTable", "LimeText", "LimeImage", "CLime"])
def test_shap_and_lime_are_refused_as_recourse(name):
    with pytest.raises(ExplainError, match=f"{name} does not serve the goal 'recourse'"):
        recommend("recourse", name)
    assert recommend("recourse", "responsiveness") is recommend("recourse")
    assert recommend("rank", "KernelShap").goal == "rank"


def test_bad_input():
    for goal in ("why", None, ["rank"]):
        with pytest.raises(ExplainError, match="is not one of 'debug', 'rank'"):
            recommend(goal)  # type: ignore[arg-type]
    with pytest.raises(ExplainError, match="'Oracle' is not known here"):
        recommend("rank", "Oracle")
    for goal, method in (("rank", "Wachter"), ("debug", "ActionSequences"), ("recourse", "manipulability")):
        with pytest.raises(ExplainError, match=f"{method} serves other goals than '{goal}'"):
            recommend(goal, method)
    assert recommend("rank", "LimeTable").goal == "rank"
