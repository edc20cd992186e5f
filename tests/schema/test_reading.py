"""Cells of every kind: what is read, what is passed through, and what a written column holds."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.errors import SchemaError
from turnabout.schema import Binary, Category, Number, Ordinal, Passthrough, Reach, Schema, mold


@pytest.fixture
def schema():
    return Schema(
        (
            Number("income", low=0, high=100, step=1),
            Category("home", levels=("own", "rent")),
            Category("branch", levels=("north", "south"), moves="fixed"),
            Number("age", low=18, high=99, step=1, moves="fixed"),
        )
    )


@pytest.fixture
def people():
    return pd.DataFrame(
        {
            "income": np.array([10, "much", 30, 40, 50], dtype=object),
            "home": ["own", "rent", "boat", "own", None],
            "branch": ["north", "south", "north", "west", "south"],
            "age": [20, 30, 40, 50, np.inf],
        },
        index=["ann", "bob", "cy", "di", "ed"],
    )


def test_a_bad_cell_costs_its_row_only(schema, people):
    reading = schema.read(people)
    assert reading.lost.tolist() == [False, True, True, False, True]
    assert reading.odd.any(1).tolist() == [False, False, False, True, True]  # fixed cells that x does not tell
    assert reading.x[0].tolist() == [0.1, 1, 0, 1, 0, pytest.approx(2 / 81)]
    assert reading.x[3].tolist() == [0.4, 1, 0, 0, 0, pytest.approx(32 / 81)]
    assert torch.isfinite(reading.x).all()


@pytest.mark.parametrize(
    ("row", "text"),
    [(1, "'income' holds 'much', which is not a number"), (2, "'home' holds 'boat'"), (4, "missing value in row 'ed'")],
)
def test_the_complaint_names_the_cell_that_could_have_changed(schema, people, row, text):
    assert text in schema.read(people).complaint(row).message


def test_encode_still_refuses_what_it_cannot_read(schema, people):
    with pytest.raises(SchemaError, match="'west'"):
        schema.encode(people.iloc[[3]])


@pytest.mark.parametrize("cell", ["12", b"12", "", "inf", datetime.date(2020, 1, 1), [1], 1j, 10**400])
def test_what_is_no_number_is_not_read_as_one(cell):
    column = pd.Series([1.0, None], dtype=object)
    column.iloc[1] = cell
    reading = Schema((Number("n", high=10),)).read(pd.DataFrame({"n": column}))
    assert reading.lost.tolist() == [False, True]
    assert "is not a number" in reading.complaint(1).message


@pytest.mark.parametrize("cell", [3, 3.0, np.float32(3), np.int8(3), True, decimal.Decimal(3)])
def test_every_make_of_number_is_read(cell):
    table = pd.DataFrame({"n": pd.Series([cell, 1.5], dtype=object)})
    assert Schema((Number("n", high=10),)).encode(table)[0, 0] == float(cell) / 10


@pytest.mark.parametrize("dtype", ["float32", "Float32", "float[pyarrow]"])
def test_single_precision_is_read_as_it_prints(dtype):
    feature = Number("n", high=1, decimals=3)
    people = pd.DataFrame({"n": pd.Series([0.1, 0.7], dtype=dtype)})
    schema = Schema((feature,))
    x = schema.encode(people)
    assert x[:, 0].tolist() == [0.1, 0.7]
    rows = schema.write(people, x, torch.tensor([[0.3], [0.7]], dtype=torch.float64))
    assert rows["n"].dtype == people["n"].dtype and np.float32(rows["n"].iloc[0]) == np.float32(0.3)
    assert schema.encode(rows)[0, 0] == 0.3
    assert not schema.breaches(people, rows).any()


def test_half_precision_is_widened():
    people = pd.DataFrame({"n": np.array([0.1, 0.7], dtype=np.float16)})
    table = Schema((Number("n"),)).table(people)
    assert table["n"].dtype == np.float64 and table["n"].tolist() == people["n"].tolist()
    assert people["n"].dtype == np.float16


@pytest.mark.parametrize(
    ("dtype", "feature", "new", "written"),
    [
        ("int64", Number("v", high=300, step=1), 200, "int64"),
        ("int8", Number("v", high=300, step=1), 200, "int64"),
        ("int64", Number("v", high=300, decimals=1), 0.5, "float64"),
        ("Int8", Number("v", high=300, step=1), 200, "Int64"),
        ("Int64", Number("v", high=300, decimals=1), 0.5, "Float64"),
        ("int64[pyarrow]", Number("v", high=300, decimals=1), 0.5, "double[pyarrow]"),
        ("bool", Binary("v", levels=(0, 1)), 0, "bool"),
        ("boolean", Binary("v", levels=(False, True)), False, "boolean"),
        ("float64", Binary("v", levels=(0, 1)), 0, "float64"),
    ],
)
def test_new_values_keep_the_type_of_their_column_where_they_fit(dtype, feature, new, written):
    people = pd.DataFrame({"v": pd.Series([1, 1], dtype=dtype)})
    schema = Schema((feature,))
    x = schema.encode(people)
    x_new = schema.encode(pd.DataFrame({"v": [new, 1]}))
    rows = schema.write(people, x, x_new)
    assert str(rows["v"].dtype) == written
    assert rows["v"].tolist() == [new, 1]
    assert torch.equal(schema.encode(rows), x_new)


@pytest.mark.parametrize("mark", [None, np.nan, pd.NA])
def test_the_mark_of_a_missing_cell_is_left_as_it_is(mark):
    people = pd.DataFrame({"c": pd.Series(["a", mark], dtype=object)})
    schema = Schema((Category("c", levels=("a", "b"), missing=True),))
    x = schema.encode(people)
    x_new = x.clone()
    x_new[0] = torch.tensor([0.0, 1.0, 0.0])
    rows = schema.write(people, x, x_new)
    assert rows["c"].iloc[0] == "b" and rows["c"].iloc[1] is mark


@pytest.mark.parametrize(
    ("like", "values"),
    [
        (pd.Series(["a", None], dtype=object), ["b", None]),
        (pd.Series(["a", pd.NA], dtype="string"), ["b", pd.NA]),
        (pd.Series(["a", "b"], dtype="category"), ["b", np.nan]),
        (pd.Series(["a", "b"]), ["b", np.nan]),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_decoded_tables_look_like_the_training_table(like, values):
    schema = Schema((Category("c", levels=("a", "b"), missing=True),))
    x = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    column = schema.decode(x, like=mold(pd.DataFrame({"c": like})))["c"]
    assert column.dtype == like.dtype
    assert column.iloc[0] == "b"
    assert column.iloc[1] is values[1] or np.isnan(column.iloc[1]) == (values[1] is np.nan)


def test_decoded_numbers_have_the_precision_of_the_training_table():
    schema = Schema((Number("n", step=1, high=5), Number("m", decimals=2, missing=True)))
    like = pd.DataFrame({"n": [1, 2], "m": np.array([0.1, 0.2], dtype=np.float32)})
    table = schema.decode(torch.tensor([[0.4, 0.5, 0.0], [0.2, 0.0, 1.0]], dtype=torch.float64), like=mold(like))
    assert table["n"].dtype == np.int64 and table["m"].dtype == np.float32
    assert table["m"].tolist() == [0.5, pytest.approx(np.nan, nan_ok=True)]


# -- levels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [(1, "1"), (True, "True"), (0.5, "0.5"), ("a", 2, "2")])
def test_levels_that_read_the_same_are_refused(levels):
    with pytest.raises(SchemaError, match="read the same"):
        Category("c", levels=levels)


def test_the_empty_text_is_no_level():
    with pytest.raises(SchemaError, match="the empty text as a level"):
        Binary("c", levels=("", "x"))
    with pytest.raises(SchemaError, match="the empty text as a level"):
        Schema.infer(pd.DataFrame({"c": ["", "x", "y"]}))


def test_numpy_strings_are_plain_strings_in_files():
    feature = Category(np.str_("c"), levels=np.array(["a", "b"]), label=np.str_("C"), moves=np.str_("fixed"))
    schema = Schema((feature, Number(np.str_("n"), unit=np.str_("EUR"))))
    assert type(feature.name) is str and type(feature.label) is str
    assert Schema.from_yaml(schema.to_yaml()) == schema and Schema.from_json(schema.to_json()) == schema


def test_levels_beyond_64_bits():
    levels = (1, 2**70, -(2**65))
    schema = Schema((Category("c", levels=levels), Ordinal("o", levels=levels[:2])))
    table = pd.DataFrame({"c": pd.Series([2**70, 1], dtype=object), "o": pd.Series([1, 2**70], dtype=object)})
    assert schema.decode(schema.encode(table)).astype(object).equals(table)
    assert Schema.from_yaml(schema.to_yaml()) == schema


# -- passthrough ----------------------------------------------------------------------------------------------


def test_a_passthrough_holds_anything_and_never_changes():
    schema = Schema((Number("n", high=10, step=1), Passthrough("opened"), Passthrough("id", label="Number")))
    people = pd.DataFrame(
        {"n": [1, 2], "opened": pd.to_datetime(["2020-01-01", None]), "id": pd.Series(["00017", None], dtype=object)}
    )
    reading = schema.read(people)
    assert not reading.lost.any() and reading.odd[:, 1:].all()
    rows = schema.write(people, reading.x, reading.x + torch.tensor([0.1, 0.0, 0.0]))
    assert rows["n"].tolist() == [2, 3]
    pd.testing.assert_frame_equal(rows[["opened", "id"]], people[["opened", "id"]])
    assert not schema.breaches(people, rows).any()
    forged = rows.assign(id=["17", None])
    assert schema.breaches(people, forged).tolist() == [[False, False, True], [False, False, False]]
    assert Schema.from_yaml(schema.to_yaml()) == schema
    assert schema.summary()["values"].tolist()[1] == "anything"


def test_a_passthrough_cannot_move():
    with pytest.raises(SchemaError, match="never changes"):
        Passthrough("p", moves="free")


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pd.to_datetime(["2020-01-01", "2020-02-01"] * 40), "dates or times"),
        (pd.period_range("2020-01", periods=80, freq="M"), "dates or times"),
        (pd.cut(np.arange(80), 4), "no number and no text"),
        ([f"id{i}" for i in range(80)], "looks like an identifier"),
        ([datetime.date(2020, 1, 1)] * 80, "no number and no text"),
    ],
    ids=["dates", "periods", "intervals", "ids", "objects"],
)
def test_infer_passes_through_what_no_plan_can_change(column, why):
    table = pd.DataFrame({"n": range(80), "p": column})
    schema = Schema.infer(table)
    assert schema["p"] == Passthrough("p")
    assert any(why in note and note.startswith("p:") for note in schema.notes)
    assert not schema.read(table).lost.any()


def test_infer_reads_numbers_beside_none_as_numbers():
    table = pd.DataFrame(
        {"n": pd.Series([1, None, 3] * 40, dtype=object), "f": pd.Series([0.1] * 119 + [0.25]).astype("float32")}
    )
    schema = Schema.infer(table)
    assert schema["n"] == Binary("n", levels=(1.0, 3.0), missing=True)
    assert schema["f"] == Number(
        "f", low=0.1, high=0.25, decimals=2, least_change=0.01, reach=Reach(absolute=0.3, high=0.1, usual=(0.2, 0.5))
    )  # 119 of 120 have 0.1
    assert [feature.plain() for feature in schema] == [
        Binary("n", levels=(1.0, 3.0), missing=True),
        Number("f", low=0.1, high=0.25, decimals=2),
    ]
