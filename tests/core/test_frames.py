"""Frames travel as JSON with their values, types, labels and names, whatever pandas can hold."""

from __future__ import annotations

import datetime as dt
import enum
import fractions
import json
import uuid
import zoneinfo
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from tests.core.conftest import Corners

import turnabout as ta
from turnabout.documents.frames import frame_from_json, frame_to_json
from turnabout.errors import TurnaboutError

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
AUTUMN = pd.date_range("2020-10-25 00:30", periods=3, freq="30min", tz="UTC")  # 02:30 comes twice in Berlin
OBJECTS = {
    "decimals": [Decimal("1.10"), None, Decimal("NaN")],
    "bytes": [b"\x00\xff", np.nan, b""],
    "gaps": [None, np.nan, pd.NA],
    "no times": [pd.NaT, pd.NaT, None],
    "dates": [dt.date(2020, 1, 1), dt.time(1, 2, 3, 4), dt.timedelta(1, 2, 3)],
    "moments": [dt.datetime(2020, 1, 1, tzinfo=BERLIN), dt.datetime(2020, 1, 1), dt.time(1, tzinfo=dt.UTC)],
    "times": [pd.Timestamp("2020-01-01", tz="Europe/Berlin"), pd.Timedelta(5), pd.Period("2020", "Y")],
    "tuples": [(1, "a", (2,)), (None, 1.5, b"x"), ()],
    "numbers": [1 + 2j, fractions.Fraction(1, 3), uuid.UUID(int=5)],
    "alike": [True, 1, 1.0],
    "texts": ["inf", float("inf"), -0.0],
    "numpy": [np.datetime64("2020-01-01", "D"), np.timedelta64(3, "h"), pd.Interval(0, 1)],
    "sets": [frozenset({1, 2}), "1", 2**80],
}
COLUMNS = {
    "cut": pd.cut(pd.Series([1.5, 2.5, None]), [-np.inf, 2, np.inf]),
    "intervals": pd.arrays.IntervalArray.from_tuples([(0.1, 0.1 + 0.2), (1, 2), None], closed="left"),
    "whole intervals": pd.arrays.IntervalArray.from_tuples([(0, 1), (1, 2), (3, 4)]),
    "intervals of time": pd.arrays.IntervalArray.from_breaks(
        pd.date_range("2020-10-24", periods=4, tz="Europe/Berlin")
    ),
    "intervals of length": pd.arrays.IntervalArray.from_breaks(pd.timedelta_range("0 days", "3 days"), closed="both"),
    "datetimes": pd.to_datetime(["2020-01-01 00:00:00.000000001", None, "1677-09-22"], format="ISO8601"),
    "datetimes in seconds": np.array(["2020-01-01", "NaT", "9999-01-01"], dtype="datetime64[s]"),
    "datetimes with a zone": AUTUMN.tz_convert("Europe/Berlin"),
    "datetimes with an offset": AUTUMN.tz_convert(dt.timezone(dt.timedelta(hours=5, minutes=30))),
    "timedeltas": pd.to_timedelta([1, -5, None], unit="ns"),
    "timedeltas in seconds": np.array([1, -5, 7], dtype="timedelta64[s]"),
    "months": pd.PeriodIndex(["2020-01", None, "2021-05"], freq="M"),
    "weeks": pd.PeriodIndex(["2020-01-01", "2020-03-01", "2021-05-05"], freq="W-WED"),
    "nanoseconds": pd.period_range("2020-01-01", periods=3, freq="ns"),
    "two hours": pd.period_range("2020-01-01", periods=3, freq="2h"),
    "Int64": pd.array([1, None, 2**62 + 1], dtype="Int64"),
    "UInt64": pd.array([1, None, 2**64 - 1], dtype="UInt64"),
    "Float32": pd.array([1.5, None, np.inf], dtype="Float32"),
    "boolean": pd.array([True, None, False], dtype="boolean"),
    "string": pd.array(["a", None, "b"], dtype="string"),
    "string of Python": pd.array(["a", None, "b"], dtype="string[python]"),
    "text": pd.Series(["a", None, "b"]),
    "float16": np.array([1.1, np.nan, np.inf], dtype="float16"),
    "float32": np.array([1.1, np.nan, -np.inf], dtype="float32"),
    "float64": np.array([0.1 + 0.2, -0.0, 5e-324]),
    "uint64": np.array([1, 2**64 - 1, 3], dtype="uint64"),
    "int8": np.array([1, 2, 3], dtype="int8"),
    "bool": np.array([True, False, True]),
    "complex": np.array([1 + 2j, 3, 4]),
    "sparse": pd.arrays.SparseArray([0.0, np.nan, 1.5]),
    **{f"objects: {name}": pd.Series(cells, dtype=object) for name, cells in OBJECTS.items()},
}


def arrow_columns():
    pa = pytest.importorskip("pyarrow")
    stamps = [pd.Timestamp("2020-10-25 02:30:00.000000001+01:00"), None, pd.Timestamp("2021-01-01", tz="UTC")]
    values = {
        pa.int64(): [1, None, 2**60 + 1],
        pa.string(): ["a", None, ""],
        pa.timestamp("ns", "Europe/Berlin"): stamps,
        pa.decimal128(10, 2): [Decimal("1.10"), None, Decimal("2.00")],
        pa.date32(): [dt.date(2020, 1, 1), None, None],
        pa.time64("us"): [dt.time(1, 2, 3), None, None],
        pa.duration("ns"): [pd.Timedelta(1), None, pd.Timedelta(-1)],
        pa.binary(): [b"\xff", None, b""],
        pa.float64(): [1.5, None, float("inf")],
        pa.bool_(): [True, None, False],
    }
    return {str(kind): pd.arrays.ArrowExtensionArray(pa.array(cells, type=kind)) for kind, cells in values.items()}


def through_json(frame: pd.DataFrame) -> pd.DataFrame:
    document = frame_to_json(frame)
    back = frame_from_json(json.loads(json.dumps(document, allow_nan=False)))
    assert frame_to_json(back) == document  # so that fingerprints are equal
    return back


def check(frame: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(through_json(frame), frame, check_exact=True, check_freq=False)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_come_back(name):
    frame = pd.DataFrame({"x": COLUMNS[name]})
    check(frame)
    assert list(map(type, through_json(frame).x)) == list(map(type, frame.x))
    check(frame.head(0))


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in ("float16", "sparse")])
def test_labels_and_names_come_back(name):
    labels = pd.Index(COLUMNS[name], tupleize_cols=False)
    check(pd.DataFrame({"x": [1, 2, 3]}, index=labels.rename("who")))
    if name != "objects: tuples":  # pandas takes these apart
        check(pd.DataFrame({"x": [1, 2, 3]}, index=pd.MultiIndex.from_arrays([labels, [1, 2, 3]], names=["p", 2])))
    if not labels.has_duplicates:
        check(pd.DataFrame([[1, 2, 3]], columns=labels))


NO_LEVELS = ("sparse", "complex", "objects: alike", "objects: gaps", "objects: no times")


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in NO_LEVELS])
@pytest.mark.parametrize("ordered", [False, True])
def test_categories_of_any_type_come_back(name, ordered):
    column = pd.Series(COLUMNS[name]).astype(object if name == "float16" else pd.Series(COLUMNS[name]).dtype)
    levels = column.dropna().drop_duplicates()
    check(pd.DataFrame({"x": pd.Categorical(column, categories=levels.tolist()[::-1], ordered=ordered)}))
    if not isinstance(column.dtype, pd.CategoricalDtype):
        check(
            pd.DataFrame(
                {"x": pd.Categorical.from_codes([0, -1, 0], pd.Index(levels, tupleize_cols=False), ordered=ordered)}
            )
        )


def test_columns_of_arrow_come_back():
    for array in arrow_columns().values():
        check(pd.DataFrame({"x": array}))
        check(pd.DataFrame({"x": [1, 2, 3]}, index=pd.Index(array)))
        check(pd.DataFrame({"x": pd.Series(array).astype("category")}))


def test_names_of_any_type_come_back():
    check(pd.DataFrame([[1, 2, 3, 4]], columns=[1, "1", 2.5, ("a", 1)]))
    check(pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["k", None])))
    check(pd.DataFrame([[1, 2]], columns=pd.Index(["a", "b"], name="field")))
    check(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    check(pd.DataFrame(index=[1, 2]))
    check(pd.DataFrame())


def test_a_cell_of_an_unknown_type_becomes_its_text():
    class Odd:
        def __str__(self):
            return "odd"

    class Level(enum.StrEnum):
        HIGH = "high"

    back = through_json(pd.DataFrame({"x": pd.Series([Odd(), Level.HIGH, np.int64(3)], dtype=object)}))
    assert back.x.tolist() == ["odd", "high", 3] and type(back.x[2]) is int


def test_documents_of_older_releases_are_read():
    document = {
        "index_names": ["id"],
        "index": ["a", "b"],
        "columns": [
            {"name": "n", "dtype": "float64", "values": [1.5, None]},
            {"name": "c", "dtype": "category", "values": ["x", None], "categories": ["x", "y"], "ordered": False},
            {"name": "t", "dtype": "datetime64[ns]", "values": ["2020-01-01 00:00:00", None]},
            {"name": "o", "dtype": "object", "values": ["a", None]},
        ],
    }
    frame = frame_from_json(document)
    assert frame.index.tolist() == ["a", "b"] and frame.dtypes.astype(str).tolist()[:2] == ["float64", "category"]
    assert frame.t["a"] == pd.Timestamp("2020-01-01") and frame.o["b"] is None
    pairs = document | {"index_names": ["person", "option"], "index": [["a", 0], ["b", 1]]}
    assert frame_from_json(pairs).index.tolist() == [("a", 0), ("b", 1)]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"dtype": "int64", "values": [1, "x"]}, "'x' is not of the type int64"),
        ({"dtype": "int64", "values": [1, 1.5]}, "'1.5' is not of the type int64"),
        ({"dtype": "int8", "values": [1, 999]}, "column 'c' of people cannot be read"),
        ({"dtype": "bool", "values": [True, "no"]}, "'no' is not of the type bool"),
        ({"dtype": "float64", "values": [1, True]}, "'True' is not of the type float64"),
        ({"dtype": "str", "values": ["a", 1]}, "'1' is not a text"),
        ({"dtype": "int65", "values": [1, 2]}, "column 'c' of people cannot be read"),
        ({"dtype": "int64", "values": [1]}, "it has 1 values for 2 rows"),
        ({"dtype": "datetime64[ns]", "values": ["monday", None]}, "column 'c' of people cannot be read"),
        ({"dtype": "datetime64[ns]", "values": ["2020-01-01 00:00+01:00", None]}, "a time has a zone"),
        ({"dtype": "interval[int64, right]", "values": ["(1, 2)", None]}, "is no interval of the type"),
        ({"dtype": "category", "values": ["z", "a"], "categories": ["a"], "ordered": False}, "'z' is none of the cat"),
        ({"dtype": "object", "values": [{"type": "os.system", "value": "x"}, 1]}, "there is no type 'os.system'"),
        ({"dtype": "object", "values": [{"type": "Decimal", "value": "x"}, 1]}, "'x' is no decimal number"),
        ({"dtype": "object", "values": [{"type": "bytes", "value": 3}, 1]}, "a bytes is written as a text"),
        ({"dtype": "object", "values": [{"type": "tuple", "value": 3}, 1]}, "a tuple holds a list"),
    ],
)
def test_a_damaged_column_is_told(entry, text):
    document = {"index_names": [None], "index": [0, 1], "columns": [{"name": "c"} | entry]}
    with pytest.raises(TurnaboutError, match=text):
        frame_from_json(document, "people")


# -- answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cut", "datetimes with a zone", "months", "Int64", "objects: decimals", "text"])
def test_answers_about_people_with_odd_columns_travel(problem, people, name):
    odd = pd.concat([people.head(2), people.head(1)], ignore_index=True).assign(odd=COLUMNS[name])
    answer = Corners().fit(problem).find(odd, options=2)
    back = ta.Recourse.from_json(answer.to_json())
    assert back == answer and back.fingerprint == answer.fingerprint
    pd.testing.assert_frame_equal(back.people, answer.people)
    pd.testing.assert_frame_equal(back.options, answer.options)


LABELS = {
    "days": pd.date_range("2020-01-01", periods=3, tz="Europe/Berlin"),
    "months": pd.period_range("2020-01", periods=3, freq="M"),
    "lengths": pd.timedelta_range("1 day", periods=3),
    "bands": pd.interval_range(0, 3),
    "names": pd.CategoricalIndex(["a", "b", "c"]),
    "numbers": pd.Index([1.5, 2.5, np.inf]),
    "Int64": pd.Index([2**60 + 1, 2, 3], dtype="Int64"),
    "decimals": pd.Index([Decimal("1.10"), Decimal("1.1000001"), Decimal(2)], dtype=object),
    "bytes": pd.Index([b"a", b"b", b"\xff"], dtype=object),
    "mixed": pd.Index([1, "1", 2.5], dtype=object),
}


@pytest.mark.parametrize("name", LABELS)
def test_answers_about_people_with_odd_labels_travel(problem, people, name):
    answer = Corners().fit(problem).find(people.head(3).set_axis(LABELS[name]), options=2)
    back = ta.Recourse.from_json(answer.to_json())
    assert back == answer
    pd.testing.assert_frame_equal(back.people, answer.people, check_freq=False)
    pd.testing.assert_frame_equal(back.options, answer.options)
    pd.testing.assert_series_equal(back.status, answer.status, check_freq=False)
    assert back.changes().equals(answer.changes())


@pytest.mark.parametrize("dtype", ["float32", "Float32", "float[pyarrow]"])
def test_single_precision_is_told_in_short_decimals(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    people = pd.DataFrame({"rate": pd.array([0.35, 0.1], dtype=dtype), "home": ["own", "rent"]})
    schema = ta.Schema(
        [ta.Number("rate", 0, 1, decimals=3), ta.Category("home", levels=("own", "rent"), moves="fixed")]
    )

    def chance(table):
        return 1 / (1 + np.exp(-(10 * table["rate"].to_numpy(dtype=float, na_value=np.nan) - 6.123)))

    answer = ta.find(chance, people, schema=schema)
    assert answer.changes()["from"].tolist() == [0.35, 0.1] and answer.changes()["to"].tolist() == [0.613, 0.613]
    written = {entry["name"]: entry["values"] for entry in answer.to_dict()["options"]["columns"]}
    assert written["rate"] == [0.613, 0.613]
    assert ta.Recourse.from_json(answer.to_json()) == answer

    problem = ta.Problem(schema, ta.models.wrap(chance, schema), actions=ta.ActionSet.draft(schema))
    plans = ta.methods.ActionSequences.small().fit(problem).find(people)
    assert plans.steps["becomes"].tolist() == ['{"rate": 0.613}'] * 2
    assert "to 0.613" in plans.steps["change"].iloc[0] or "0.35 -> 0.613" in plans.steps["change"].iloc[0]
