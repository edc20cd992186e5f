"""Answers are data: they print, compare, pickle and travel as JSON."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from tests.core.conftest import Corners, crowd

import turnabout as ta
from turnabout.core import json_schema
from turnabout.errors import TurnaboutError


@pytest.fixture(scope="module")
def answer(problem):
    return Corners().fit(problem).find(crowd(), options=2)


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


# -- damaged documents (more of them: tests/test_documents.py) ---------------------------------------------------------


def edited(document, path, value):
    """The document with another value at a place."""
    out = json.loads(json.dumps(document))
    inside = out
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return out


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("made_by",), 3, r"damaged at \$.made_by: 3 is not of type 'string'"),
        (("status", 0), "GRANTED", r"damaged at \$.status\[0\]"),
        (("people", "columns", 0, "dtype"), None, r"damaged at \$.people.columns\[0\].dtype"),
        (("options", "columns", 0, "values", 0), [], r"damaged at \$.options.columns\[0\].values\[0\]"),
        (("people", "columns", 0, "dtype"), "int65", "column 'income' of people cannot be read"),
        (("seconds",), float("inf"), "it took no finite time"),
        (("status",), ["FOUND"], "it has 1 statuses for 60 people"),
        (("people", "index", 0), "p1", "two people share a label"),
        (("options", "columns", 0, "name"), "wealth", "options have the column 'wealth', which people have not"),
        (("options", "columns", -1, "name"), "income", "'options' have two columns of the same name"),
        (("options", "index_names"), ["person", "number"], "the labels of 'options' are not person, option, each once"),
        (("options", "index", 0, 0), "nobody", "'options' speak of somebody who is not among the people"),
        (("why", "index"), ["nobody"], "'why' speak of somebody who is not among the people"),
    ],
)
def test_a_damaged_answer_is_told(answer, path, value, text):
    document = answer.to_dict()
    for column in document["why"]["columns"] if path[0] == "why" else ():
        column["values"] = [{"object": "", "str": "", "float64": 0.5, "int64": 1}[column["dtype"]]]
    with pytest.raises(TurnaboutError, match=text) as error:
        ta.Recourse.from_dict(edited(document, path, value))
    assert error.value.hint


def test_statuses_must_fit_the_options(answer):
    document = answer.to_dict()
    found = document["status"].index("FOUND")
    for status, text in (("ACCEPTED", "is ACCEPTED and has an option"), ("FOUND", "is FOUND and has no option")):
        place = found if status == "ACCEPTED" else document["status"].index("ACCEPTED")
        with pytest.raises(TurnaboutError, match=text):
            ta.Recourse.from_dict(edited(document, ("status", place), status))


def test_the_schema_knows_every_status():
    known = json_schema()["properties"]["status"]["items"]["enum"]
    assert {status.value for status in ta.Status} <= set(known)
    assert {"UNFINISHED", "UNREADABLE", "FAILED"} <= set(known)


def test_tables_are_described_alike_in_both_schemas():
    from turnabout.core.validation import load_schema

    assert load_schema("attribution")["$defs"] == json_schema()["$defs"]
