"""An attribution is data: it reads, adds up, travels as JSON, and says what it is."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.core.conftest import Corners, crowd

import turnabout as ta
from turnabout.core import Attribution
from turnabout.core.attribution import ConceptSpans, Pixels
from turnabout.core.result import Status
from turnabout.errors import TurnaboutError

INDEX = pd.Index(["ann", "bob"])


def attribution(**changed):
    fields = {
        "values": pd.DataFrame([[0.1, -2.0, 0.5], [1.0, 0.0, -1.0]], index=INDEX, columns=["income", "own", "rent"]),
        "errors": pd.DataFrame([[0.01, 0.2, np.nan], [0.1, 0.0, 0.1]], index=INDEX, columns=["income", "own", "rent"]),
        "base": pd.Series([0.25, 0.25], index=INDEX, name="base"),
        "output": pd.Series([-1.0, 0.5], index=INDEX, name="output"),
        "kind": "contribution",
        "space": "input",
        "score": "margin (log-odds)",
        "made_by": "Hand()",
        "exact": False,
        "asked": 12,
        "seed": 3,
        "notes": ("by hand.",),
    }
    return Attribution(**(fields | changed))


LAYOUTS = {
    "none": None,
    "pixels": Pixels(np.array([[0, 0, 1], [2, 1, 1]])),
    "words": ConceptSpans("own home, own car", ((0, 3, 1), (4, 8, 0), (10, 13, 1), (14, 17, 2))),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_json_goes_both_ways(layout):
    told = attribution(layout=layout)
    again = Attribution.from_json(told.to_json(indent=1))
    assert again == told and hash(again) == hash(told)
    pd.testing.assert_frame_equal(again.values, told.values)
    pd.testing.assert_frame_equal(again.errors, told.errors)  # an unknown error stays unknown
    pd.testing.assert_series_equal(again.output, told.output)
    pd.testing.assert_series_equal(again.base, told.base)
    assert again.notes == told.notes and again.seed == 3 and type(again.layout) is type(layout)
    if isinstance(layout, Pixels):
        np.testing.assert_array_equal(again.layout.segments, layout.segments)
    else:
        assert again.layout == layout
    json.loads(told.to_json(), parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))


def test_what_there_is_not_is_null():
    bare = attribution(errors=None, base=None, seed=None, notes=())
    document = bare.to_dict()
    assert document["errors"] is None and document["base"] is None and document["seed"] is None
    again = Attribution.from_dict(document)
    assert again == bare and again.errors is None and again.base is None and again.gap is None


def test_whole_number_labels_come_back():
    told = attribution(values=pd.DataFrame({"a": [1.0, 2.0]}), errors=None, base=None, output=pd.Series([0.0, 1.0]))
    assert Attribution.from_json(told.to_json()).values.index.tolist() == [0, 1]


def test_dates_as_labels_come_back():
    days = pd.to_datetime(["2020-01-01", "2021-01-01 10:30"], format="ISO8601")
    told = attribution(
        values=pd.DataFrame({"a": [1.0, 2.0]}, index=days),
        errors=None,
        base=None,
        output=pd.Series([0.0, 1.0], index=days),
    )
    again = Attribution.from_json(told.to_json())
    assert again == told and again.of(days[1])["value"].tolist() == [2.0]
    pd.testing.assert_index_equal(again.output.index, days, exact=False)


def test_attributions_that_differ_are_not_equal():
    assert attribution() != attribution(seed=4)
    assert attribution() != attribution(layout=LAYOUTS["pixels"])
    assert attribution() != "text"


def test_one_person_largest_first():
    told = attribution()
    table = told.of("ann")
    assert table.index.tolist() == ["own", "rent", "income"] and table.index.name == "feature"
    assert table["value"].tolist() == [-2.0, 0.5, 0.1] and table["error"].iloc[0] == 0.2
    assert attribution(errors=None).of("bob").columns.tolist() == ["value"]
    assert told.of("bob").index.tolist() == ["income", "rent", "own"]  # ties keep the order of the columns
    with pytest.raises(TurnaboutError, match="there is no person 'zoe' in this attribution"):
        told.of("zoe")


def test_top_features():
    top = attribution().top(2)
    assert top.loc["ann"].tolist() == ["own", "rent"] and top.loc["bob"].tolist() == ["income", "rent"]
    assert top.columns.tolist() == [1, 2]
    assert attribution().top(10).shape == (2, 3)


def test_grouped_adds_up_columns():
    told = attribution().grouped({"income": ["income"], "home": ["own", "rent"]})
    assert told.names == ["income", "home"]
    np.testing.assert_allclose(told.values["home"], [-1.5, -1.0])
    assert told.errors.loc["bob", "home"] == pytest.approx(0.1)
    np.testing.assert_allclose(told.gap, attribution().gap)
    assert attribution(errors=None).grouped({"all": ["income", "own", "rent"]}).errors is None
    for parts in ({"home": ["own", "rent"]}, {"all": ["income", "own", "rent", "rent"]}, {}):
        with pytest.raises(TurnaboutError, match="do not hold every column once"):
            attribution().grouped(parts)


def test_an_unknown_error_stays_unknown_in_a_group():
    told = attribution().grouped({"income": ["income"], "home": ["own", "rent"]})
    assert np.isnan(told.errors.loc["ann", "home"])  # rent's is not known
    alone = attribution().grouped({"income": ["income"], "own": ["own"], "rent": ["rent"]})
    assert np.isnan(alone.errors.loc["ann", "rent"]) and alone.errors.loc["ann", "own"] == 0.2


def test_the_kind_is_one_of_three_and_slopes_have_a_unit():
    with pytest.raises(TurnaboutError, match="kind='importance' is no kind of attribution"):
        attribution(kind="importance")
    with pytest.raises(TurnaboutError, match="kind='importance'"):
        Attribution.from_dict(attribution().to_dict() | {"kind": "importance"})
    slope = attribution(kind="slope", unit="per whole range of a feature")
    again = Attribution.from_json(slope.to_json())
    assert again == slope and again.unit == "per whole range of a feature" and "2 x 3 slopes of" in repr(slope)


def test_the_gap_is_what_the_values_leave():
    np.testing.assert_allclose(attribution().gap, [-1.0 - 0.25 + 1.4, 0.5 - 0.25 - 0.0])


def test_it_prints_what_it_is():
    assert repr(attribution()) == "Attribution(2 x 3 contributions of margin (log-odds); 12 rows asked; Hand())"
    assert "; exact; " in repr(attribution(exact=True)) and len(attribution()) == 2


@pytest.mark.parametrize("text", ["{", "[]", '"text"', "{}", '{"turnabout_attribution": 99}'])
def test_other_documents_are_refused(text):
    with pytest.raises(TurnaboutError, match=r"this is not (JSON|an attribution)"):
        Attribution.from_json(text)


# -- counterfactuals are directions ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answer(problem):
    return Corners().fit(problem).find(crowd(), options=2)


def test_an_answer_as_a_direction(schema, people, answer):
    told = answer.to_directions(schema)
    assert told.kind == "direction" and told.exact and told.asked == 0 and "where to move" in told.notes[0]
    assert told.names == list(schema.columns) and told.made_by == answer.made_by
    found = answer.status[answer.status == Status.FOUND].index
    accepted = answer.status[answer.status == Status.ACCEPTED].index
    assert len(found) and len(accepted)
    assert set(told.values.index) == set(found) | set(accepted)
    assert (told.values.loc[accepted] == 0).to_numpy().all()
    first = answer.options.xs(0, level="option")
    step = schema.encode(first) - schema.encode(people.loc[first.index])
    np.testing.assert_allclose(told.values.loc[first.index], step, atol=1e-15)
    assert (told.values.loc[found].abs().sum(axis=1) > 0).all()
    assert Attribution.from_json(told.to_json()) == told


def test_the_order_of_people_is_kept(schema, people, answer):
    told = answer.to_directions(schema)
    assert told.values.index.tolist() == [label for label in people.index if label in told.values.index]


def test_another_option_is_another_direction(schema, answer):
    second = answer.to_directions(schema, option=1)
    has_two = answer.options.xs(1, level="option").index
    accepted = answer.status[answer.status == Status.ACCEPTED].index
    assert len(has_two) and set(second.values.index) == set(has_two) | set(accepted)
    first = answer.to_directions(schema)
    assert (second.values.loc[has_two] != first.values.loc[has_two]).any(axis=1).all()


@pytest.mark.parametrize("option", [7, -1, "x", None, 1.0, True])
def test_an_option_nobody_was_given_is_refused(schema, answer, option):
    with pytest.raises(TurnaboutError, match=r"option=.* is nobody's(.|\n)*the last option of this answer is 1"):
        answer.to_directions(schema, option=option)


def test_nobody_may_be_left(problem, schema, people):
    refused = people[problem.model.margin(schema.encode(people)).numpy() < 0]
    answer = Corners().fit(problem).find(refused)
    nothing = replace(answer, options=answer.options[:0], status=answer.status.map(lambda _: Status.NOT_FOUND))
    told = nothing.to_directions(schema)
    assert len(told) == 0 and told.names == list(schema.columns)
    with pytest.raises(TurnaboutError, match="this answer has no options"):
        nothing.to_directions(schema, option=1)
    assert Attribution.from_json(told.to_json()).values.shape == (0, schema.d)


def test_attribution_is_a_name_of_the_core():
    assert ta.core.Attribution is Attribution
