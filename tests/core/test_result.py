"""Answers are data: they print, compare, pickle and travel as JSON."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from tests.core.conftest import Corners

import turnabout as ta
from turnabout.core import json_schema
from turnabout.errors import TurnaboutError


@pytest.fixture
def answer(problem, people):
    return Corners().fit(problem).find(people, options=2)


def test_json_both_ways(answer):
    back = ta.Recourse.from_json(answer.to_json())
    assert back == answer and hash(back) == hash(answer)
    pd.testing.assert_frame_equal(back.options, answer.options)
    pd.testing.assert_frame_equal(back.people, answer.people)
    pd.testing.assert_series_equal(back.status, answer.status)
    assert back.seconds == answer.seconds and back.made_by == "Corners()"


def test_json_keeps_types_and_missing_cells():
    schema = ta.Schema(
        (
            ta.Number("n", low=0, high=9, step=1, missing=True),
            ta.Category("c", levels=("a", "b"), missing=True),
            ta.Binary("b", levels=(False, True)),
        )
    )
    people = pd.DataFrame(
        {
            "n": [1.0, np.nan],
            "c": pd.Categorical(["a", None], categories=["a", "b"]),
            "b": [True, False],
            "extra": ["x", "y"],
        },
        index=pd.Index([7, 3], name="id"),
    )
    problem = ta.Problem(schema, ta.models.wrap(lambda t: t.b.to_numpy(dtype=float), schema))
    answer = Corners().fit(problem).find(people)
    back = ta.Recourse.from_json(answer.to_json())
    pd.testing.assert_frame_equal(back.people, people)
    pd.testing.assert_frame_equal(back.options, answer.options)
    assert back.status[3] == ta.Status.FOUND and pd.isna(back.options.n.iloc[0])


def test_json_follows_its_schema(answer):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(json.loads(answer.to_json()), json_schema())


def test_pickle(answer):
    assert pickle.loads(pickle.dumps(answer)) == answer


def test_what_is_no_answer_is_refused():
    with pytest.raises(TurnaboutError, match="not JSON"):
        ta.Recourse.from_json("{")
    with pytest.raises(TurnaboutError, match="not an answer"):
        ta.Recourse.from_json("{}")


def test_changes_name_only_what_changed(answer):
    changes = answer.changes()
    assert list(changes.columns) == ["person", "option", "feature", "from", "to"]
    assert (changes["from"].astype(str) != changes["to"].astype(str)).all()
    assert set(changes.person) == set(answer.options.index.get_level_values("person"))
    person = changes.person[0]
    side = answer.of(person)
    assert list(side.columns)[:2] == ["now", "option 0"] and set(side.index) <= set(answer.features)
    with pytest.raises(TurnaboutError, match="no person 'nobody'"):
        answer.of("nobody")


def test_repr_counts(answer):
    assert "60 people" in repr(answer) and "FOUND" in repr(answer)
    assert sum(answer.counts().values()) == 60
