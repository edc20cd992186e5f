"""Schema: in and out of tensors, files, and every make of table."""

from __future__ import annotations

import json
import pickle
import warnings
from importlib import resources

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.errors import SchemaError
from turnabout.schema import Binary, Category, Number, Ordinal, Schema


@pytest.fixture
def people():
    return pd.DataFrame(
        {
            "age": [25, 40, 61],
            "income": [1200.5, np.nan, 3100.25],
            "home": ["own", "rent", "free"],
            "owns_car": [True, False, True],
            "degree": pd.Categorical(["none", "school", "none"], categories=["none", "school"], ordered=True),
            "code": [3, 7, 9],
            "note": ["x", "y", "z"],
        },
        index=["ann", "bob", "cy"],
    )


@pytest.fixture
def schema():
    return Schema(
        (
            Number("age", low=18, high=99, step=1, moves="up", unit="years"),
            Number("income", low=0, high=5000, missing=True, decimals=2, label="monthly income"),
            Category("home", levels=("own", "rent", "free")),
            Binary("owns_car", levels=(False, True)),
            Ordinal("degree", levels=("none", "school"), moves="up"),
            Category("code", levels=(3, 7, 9)),
        )
    )


def test_layout(schema):
    assert schema.columns[:3] == ("age", "income", "income=missing")
    assert schema.d == 11 and len(schema) == 6
    assert schema.slices[2] == slice(3, 6)
    assert schema.feature_of.tolist() == [0, 1, 1, 2, 2, 2, 3, 4, 5, 5, 5]
    assert schema.missing_column.tolist() == [-1, 2, 2, *[-1] * 8]
    with pytest.raises(SchemaError, match="no feature 'wealth'"):
        schema["wealth"]


def test_round_trip_through_tensors(schema, people):
    x = schema.encode(people)
    assert x.dtype == torch.float64 and x.shape == (3, 11)
    assert x[0, 0] == (25 - 18) / 81
    back = schema.decode(x)
    assert back.age.tolist() == [25, 40, 61] and back.home.tolist() == ["own", "rent", "free"]
    assert back.income[0] == 1200.5 and np.isnan(back.income[1])
    assert back.owns_car.tolist() == [True, False, True] and back.code.tolist() == [3, 7, 9]
    assert torch.equal(schema.encode(back), x)


def test_order_and_extra_columns_do_not_matter(schema, people):
    assert torch.equal(schema.encode(people[people.columns[::-1]]), schema.encode(people))


def test_every_make_of_table(schema, people):
    x = schema.encode(people)
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({c: people[c].astype(object).where(people[c].notna(), None).tolist() for c in people.columns})
    assert torch.equal(schema.encode(frame), x)
    records = people.astype(object).where(people.notna(), None).to_dict("records")
    assert torch.equal(schema.encode(records), x)
    assert torch.equal(schema.encode(records[0]), x[:1])
    assert torch.equal(schema.encode(people.iloc[0]), x[:1])
    assert torch.equal(schema.encode(people.convert_dtypes()), x)
    assert torch.equal(schema.encode(people.assign(home=people.home.astype("category"))), x)
    with pytest.raises(SchemaError, match="not as ndarray"):
        schema.encode(np.zeros((3, 6)))


def test_write_copies_what_did_not_change(schema, people):
    x = schema.encode(people)
    x_new = x.clone()
    x_new[0, 0] = 1.0
    x_new[1, 3:6] = torch.tensor([1.0, 0, 0])
    x_new[2, 7] = 1.0
    rows = schema.write(people, x, schema.snap(x, x_new))
    assert list(rows.index) == ["ann", "bob", "cy"] and list(rows.columns) == list(schema.names)
    assert rows.age.tolist() == [99, 40, 61] and rows.age.dtype == people.age.dtype
    assert rows.home.tolist() == ["own", "own", "free"]
    assert rows.degree.tolist() == ["none", "school", "school"] and rows.degree.dtype == people.degree.dtype
    pd.testing.assert_series_equal(rows.income, people.income)
    assert not schema.breaches(people, rows).any()


def test_breaches_reads_raw_cells(schema, people):
    rows = schema.table(people).copy()
    rows.loc["ann", "age"] = 24
    rows.loc["bob", "income"] = 10.0
    rows.loc["cy", "income"] = np.nan
    bad = schema.breaches(people, rows)
    assert bad.sum() == 3 and bad[0, 0] and bad[1, 1] and bad[2, 1]


def test_distance_counts_a_switch_as_one(schema, people):
    x = schema.encode(people)
    distance = schema.distance(x[:1], x[1:2])
    assert distance[0, 2] == 1 and distance[0, 3] == 1 and distance[0, 5] == 1
    assert schema.distance(x[:1].unsqueeze(1), x.unsqueeze(0)).shape == (1, 3, 6)


def test_files_both_ways(schema, tmp_path):
    assert Schema.from_yaml(schema.to_yaml()) == schema
    assert Schema.from_json(schema.to_json()) == schema
    for name in ("s.yaml", "s.json"):
        schema.save(tmp_path / name)
        assert Schema.load(tmp_path / name) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema
    with pytest.raises(SchemaError, match="no schema file"):
        Schema.load(tmp_path / "absent.yaml")


def test_json_schema_describes_the_files(schema):
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(resources.files("turnabout.schema").joinpath("schema.schema.json").read_text())
    jsonschema.validate(schema.to_dict(), document)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"features": [{"kind": "number", "name": "n", "colour": "red"}]}, document)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({}, "no list 'features'"),
        ([1], "no list 'features'"),
        ({"features": []}, "at least one feature"),
        ({"features": [{"kind": "colour", "name": "n"}]}, "not a feature"),
        ({"features": [{"kind": "number", "name": "n", "hight": 3}]}, "unknown field 'hight'"),
        ({"features": [{"kind": "number"}]}, "no name"),
        ({"features": [{"kind": "number", "name": "n"}] * 2}, "two features are named 'n'"),
        ({"turnabout_schema": 9, "features": [{"kind": "number", "name": "n"}]}, "version 9"),
    ],
)
def test_documents_that_are_no_schema(document, text):
    with pytest.raises(SchemaError, match=text):
        Schema.from_dict(document)


def test_text_that_is_no_document():
    with pytest.raises(SchemaError, match="not valid JSON"):
        Schema.from_json("{")
    with pytest.raises(SchemaError, match="not valid YAML"):
        Schema.from_yaml("a: [1")


def test_a_column_that_is_absent_or_doubled(schema, people):
    with pytest.raises(SchemaError, match=r"no column 'age' \(nor 1 more\)"):
        schema.encode(people.drop(columns=["age", "home"]))
    with pytest.raises(SchemaError, match="more than one column 'age'"):
        schema.encode(pd.concat([people, people[["age"]]], axis=1))


def test_outside_values_are_warned_of_once_per_column(schema, people):
    x = schema.encode(people.assign(age=[5, 6, 7]))
    with pytest.warns(UserWarning, match=r"'age' holds 5, outside \[18, 99\]"):
        schema.warn_outside(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schema.warn_outside(schema.encode(people))


def test_an_empty_table_encodes_to_nothing(schema, people):
    assert schema.encode(people.iloc[:0]).shape == (0, 11)


# -- infer ------------------------------------------------------------------------------------------------------


def test_infer_drafts_and_says_what_it_guessed(people):
    schema = Schema.infer(
        people,
        immutable=["age"],
        categorical=["code"],
        ignore=["note"],
        units={"income": "EUR"},
        titles={"home": "housing"},
    )
    assert schema["age"] == Number("age", low=25, high=61, step=1, moves="fixed")
    income = Number("income", low=1200.5, high=3100.25, decimals=2, missing=True, unit="EUR", moves="up")
    assert schema["income"] == income  # of three rows nothing is learned but the bounds
    assert schema["home"] == Category("home", levels=("free", "own", "rent"), label="housing", moves="fixed")
    assert schema["owns_car"] == Binary("owns_car", levels=(False, True))
    assert schema["degree"] == Ordinal("degree", levels=("none", "school"), moves="up")
    assert schema["code"] == Category("code", levels=(3, 7, 9))
    assert any("income" in note and "missing" in note for note in schema.notes)
    assert [note.split(":")[0] for note in schema.notes if "may only go up: its name" in note] == ["income", "degree"]
    assert torch.isfinite(schema.encode(people)).all()
    assert len(schema.summary()) == 6


def test_infer_leaves_free_what_it_is_told_to(people):
    schema = Schema.infer(people, free=["income", "degree", "age"])
    assert schema["age"] == Number("age", low=25, high=61, step=1)
    assert schema["income"] == Number("income", low=1200.5, high=3100.25, decimals=2, missing=True)
    assert schema["degree"] == Ordinal("degree", levels=("none", "school"))


def test_infer_zero_one_and_two_words():
    schema = Schema.infer(
        pd.DataFrame({"a": [0, 1, 1], "b": ["no", "yes", "no"], "c": [1.0, 2.0, 5.0], "d": [7, 7, 7]})
    )
    assert schema["a"] == Binary("a", levels=(0, 1))
    assert schema["b"] == Binary("b", levels=("no", "yes"))
    assert schema["c"] == Number("c", low=1, high=5, step=1)
    assert schema["d"].moves == "fixed"


@pytest.mark.parametrize(
    ("table", "arguments", "text"),
    [
        ({"a": []}, {}, "empty table"),
        ({"a": [1, 2]}, {"immutable": ["b"]}, "no column 'b'"),
        ({"a": [1, 2]}, {"immutable": ["a"], "increasing": ["a"]}, "both fixed and up"),
        ({"a": ["x", "y", "z"]}, {"increasing": ["a"]}, "no known order"),
        ({"a": [None, None]}, {}, "only missing values"),
        ({"a": pd.to_datetime(["2020-01-01", "2020-01-02"])}, {"increasing": ["a"]}, "holds dates"),
        ({"a": [1.0, np.inf, 2.0]}, {}, "infinite"),
    ],
)
def test_infer_refuses_what_it_cannot_guess(table, arguments, text):
    with pytest.raises(SchemaError, match=text):
        Schema.infer(pd.DataFrame(table), **arguments)


def test_boolean_levels_survive_files():
    schema = Schema((Binary("b", levels=(False, True)),))
    for back in (Schema.from_yaml(schema.to_yaml()), Schema.from_json(schema.to_json())):
        assert back["b"].levels[0] is False and back["b"].levels[1] is True


@pytest.mark.parametrize(
    "document",
    [
        {"features": None},
        {"features": [{"kind": ["x"], "name": "n"}]},
        {"features": [{"kind": "number", "name": "n", "decimals": "2"}]},
        {"features": [{"kind": "category", "name": "n", "levels": [["a"], "b"]}]},
    ],
)
def test_odd_documents_are_refused(document):
    with pytest.raises(SchemaError):
        Schema.from_dict(document)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.load(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"features: \xe9")
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.load(tmp_path / "latin.yaml")


def test_infer_reads_only_what_occurs():
    table = pd.DataFrame({"k": pd.Categorical(["x", "y", "w"], categories=["x", "y", "z", "w"]), "one": "other"})
    schema = Schema.infer(table, immutable="one")
    assert schema["k"].levels == ("x", "y", "w") and any("do not occur" in note for note in schema.notes)
    assert schema["one"].levels == ("other", "another")
    with pytest.raises(SchemaError, match="not named by a text"):
        Schema.infer(pd.DataFrame({0: [1, 2]}))
    with pytest.raises(SchemaError, match="more than one column 'a'"):
        Schema.infer(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(SchemaError, match="is not a cell"):
        Schema.infer(pd.DataFrame({"a": [[1], [2]]}))
