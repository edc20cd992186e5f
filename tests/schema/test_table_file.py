"""Tables in files: what was written is what is read, in values and types, as the schema has them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnabout as ta
from turnabout.errors import DataError
from turnabout.schema import TableFile, read_table, read_tables

AWKWARD = pd.DataFrame(
    {
        "zip": ["02134", "12345", "00501", "02134"],
        "plan": ["None", "NA", "null", "nan"],  # levels, none of them missing
        "digit": ["1", "2", "1", "2"],
        "truth": ["True", "False", "False", "True"],
        "flag": [True, False, False, True],
        "count": [3, 1, 2, 3],
        "rate": [0.5, 1.0, 0.5, 0.5],
        "size": [2**60 + 1, 7, -(2**62) - 1, 0],
        "money": [0.1 + 0.2, 1e-300, 5e-324, -1.7976931348623157e308],
        "years": [3.0, np.nan, 1.0, 2.0],
        "home": ["own", None, "rent, or so", 'a "good" one\nwith a garden'],
        "note": ["=1+1", "2020-01-02", "ü,;\t", "1e5"],
    }
)
SCHEMA = ta.Schema(
    (
        ta.Category("zip", ("00501", "02134", "12345")),
        ta.Category("plan", ("None", "NA", "null", "nan")),
        ta.Binary("digit", ("1", "2")),
        ta.Binary("truth", ("False", "True")),
        ta.Binary("flag", (False, True)),
        ta.Ordinal("count", (1, 2, 3)),
        ta.Binary("rate", (0.5, 1.0)),
        ta.Number("size", -1e5, 1e5, step=1),
        ta.Number("money"),
        ta.Number("years", 0, 9, step=1, missing=True),
        ta.Category("home", ("own", "rent, or so", 'a "good" one\nwith a garden'), missing=True),
    )
)  # note is no feature


def written(frame: pd.DataFrame, ending: str, folder) -> str:
    """A file as somebody else would write it."""
    path = folder / f"table{ending}"
    cells = [{name: None if pd.isna(v) else v for name, v in row.items()} for row in frame.to_dict("records")]
    if ending == ".parquet":
        frame.to_parquet(path)
    elif ending == ".json":
        path.write_text(json.dumps(cells))
    elif ending == ".jsonl":
        path.write_text("\n".join(map(json.dumps, cells)))
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in ending else ",")
    return str(path)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".tsv", ".json", ".jsonl", ".parquet"])
def test_what_was_written_is_read(ending, tmp_path):
    read = read_table(written(AWKWARD, ending, tmp_path), SCHEMA)
    pd.testing.assert_frame_equal(read, AWKWARD, check_exact=True)


def test_pandas_alone_would_have_changed_it(tmp_path):
    read = pd.read_csv(written(AWKWARD, ".csv", tmp_path))
    changed = [name for name in AWKWARD if not read[name].equals(AWKWARD[name])]
    assert {"zip", "plan", "digit", "truth"} <= set(changed)


def test_a_negative_zero_and_an_infinity_are_kept(tmp_path):
    frame = pd.DataFrame({"x": [-0.0, np.inf, -np.inf, 1.0]})
    read = read_table(written(frame, ".csv", tmp_path), ta.Schema((ta.Number("x"),)))
    assert np.signbit(read.x[0]) and read.x.tolist() == frame.x.tolist()


texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=6)
cells = st.one_of(texts, st.sampled_from(["None", "NA", "1", "01", "True", "1.0", "-5", "'=x", "=x", " ", "nan", "\r"]))


@given(levels=st.lists(cells, min_size=2, max_size=6, unique=True), data=st.data())
@settings(deadline=None, max_examples=60)
def test_texts_of_any_kind_come_back(levels, data):
    column = data.draw(st.lists(st.sampled_from(levels), min_size=1, max_size=8))
    frame = pd.DataFrame({"level": column, "other": column})
    schema = ta.Schema((ta.Category("level", tuple(levels), missing=True),))
    text = frame.to_csv(index=False, quoting=csv.QUOTE_ALL)
    assert read_table(io.BytesIO(text.encode()), schema).to_dict("list") == frame.to_dict("list")
    records = io.StringIO(json.dumps(frame.to_dict("records")))
    assert read_table(records, schema, kind="json").to_dict("list") == frame.to_dict("list")


@given(st.lists(st.floats(allow_nan=False) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8))
@settings(deadline=None, max_examples=60)
def test_numbers_of_any_size_come_back_to_the_bit(numbers):
    column = pd.Series(numbers, name="x")
    read = read_table(io.StringIO(column.to_csv(index=False)), ta.Schema((ta.Number("x"),)))
    pd.testing.assert_series_equal(read.x, column, check_exact=True)


# -- with a schema ----------------------------------------------------------------------------------------------


def column(text: str, feature) -> pd.Series:
    cells = text.split("|")
    return read_table(io.StringIO("\n".join(["x,y", *(f"{cell}," for cell in cells)])), ta.Schema((feature,))).x


@pytest.mark.parametrize(
    ("feature", "text", "values", "dtype"),
    [
        (ta.Number("x"), "1|2", [1, 2], "int64"),
        (ta.Number("x"), "1|", [1.0, None], "float64"),
        (ta.Number("x"), "1|2.5", [1.0, 2.5], "float64"),
        (ta.Number("x"), "007|+5| 3 |1E5", [7, 5, 3, 1e5], "float64"),  # a number, since the schema says so
        (ta.Number("x"), "1|much|3", [1, "much", 3], "object"),
        (ta.Number("x"), "1.5|1_000|0x10|1 000", [1.5, "1_000", "0x10", "1 000"], "object"),
        (ta.Number("x"), "1|NA", [1, "NA"], "object"),
        (ta.Number("x", missing=True), "1|NA|", [1.0, None, None], "float64"),
        (ta.Number("x"), f"{2**63}|1", [2**63, 1], "uint64"),
        (ta.Number("x"), f"{2**80}|1", [2.0**80, 1.0], "float64"),
        (ta.Number("x"), "1" * 9000, ["1" * 9000], None),
        (ta.Number("x", missing=True), f"{2**60 + 1}|", [2**60 + 1, None], "Int64"),
        (ta.Number("x", missing=True), "|", [None, None], "float64"),
        (ta.Binary("x"), "0|1", [0, 1], "int64"),
        (ta.Binary("x"), "0.0|1.0", [0.0, 1.0], "float64"),
        (ta.Binary("x"), "True|false", [1, 0], "int64"),
        (ta.Binary("x", missing=True), "0|", [0.0, None], "float64"),
        (ta.Binary("x", (False, True)), "True|FALSE|true|1|0", [True, False, True, True, False], "bool"),
        (ta.Binary("x", (False, True), missing=True), "True|", [True, None], "object"),
        (ta.Binary("x", (False, True)), "yes|True", ["yes", True], "object"),
        (ta.Binary("x", ("0", "1")), "0|1", ["0", "1"], None),
        (ta.Binary("x", ("0", "1")), "0|1.0|True", ["0", "1.0", "True"], None),  # texts are compared as texts
        (ta.Binary("x", ("true", "True")), "true|True|TRUE", ["true", "True", "TRUE"], None),
        (ta.Ordinal("x", (1, 2, 3)), "1|2.0|4", [1.0, 2.0, 4.0], "float64"),  # 4 is no level, but a number
        (ta.Ordinal("x", (1, "many")), "1|many|1.0", [1, "many", 1.0], "object"),
        (ta.Ordinal("x", (1.0, 2.0)), "1|2", [1.0, 2.0], "float64"),
        (ta.Category("x", ("a", "b"), missing=True), "a|NA|", ["a", None, None], None),
        (ta.Category("x", ("a", "b")), "a|NA|", ["a", "NA", None], None),
        (ta.Category("x", ("a", "NA"), missing=True), "a|NA|None", ["a", "NA", None], None),
        (ta.Category("x", ("a", "b")), "a| a|A", ["a", " a", "A"], None),
        (ta.Category("x", ("=a", "b")), "'=a|b|=a", ["=a", "b", "=a"], None),  # as `spreadsheet_csv` writes it
    ],
)
def test_the_schema_decides(feature, text, values, dtype):
    read = column(text, feature)
    if dtype is not None:
        assert read.dtype == dtype
    assert [None if pd.isna(v) else v for v in read] == values
    assert [type(v) for v in read.dropna()] == [type(v) for v in pd.Series(values, dtype=read.dtype).dropna()]


def test_a_column_of_gaps_keeps_the_type_of_its_levels():
    assert column("|", ta.Category("x", ("a", "b"), missing=True)).dtype == pd.Series(["a"]).dtype
    assert column("|", ta.Binary("x", (False, True), missing=True)).dtype == object


def test_cells_of_json_keep_their_types():
    records = [{"n": "5", "b": 1, "c": "", "s": 1}, {"n": 6, "b": "1", "c": None, "s": "1", "extra": [1]}]
    features = (ta.Number("n"), ta.Binary("b"), ta.Category("c", ("x", "y"), missing=True), ta.Binary("s", ("1", "2")))
    read = read_table(io.StringIO(json.dumps(records)), ta.Schema(features), kind="json")
    assert read.n.tolist() == [5, 6] and read.b.tolist() == [1, 1]
    assert read.c[0] == "" and pd.isna(read.c[1])  # JSON has a word for what is missing
    assert read.s.tolist() == [1, "1"] and read.extra[1] == [1]


def test_json_guesses_nothing():
    text = '[{"date": "2020-01-02", "modified": 1577923200000, "id": "00017", "x": 0.30000000000000004, "n": NaN}]'
    read = read_table(io.StringIO(text), kind="json")
    assert read.date[0] == "2020-01-02" and read.modified[0] == 1577923200000 and read.id[0] == "00017"
    assert read.x[0] == 0.1 + 0.2 and pd.isna(read.n[0])
    assert read_table(io.StringIO('{"a": 1, "b": "x"}'), kind="json").to_dict("records") == [{"a": 1, "b": "x"}]


def test_parquet_keeps_every_type(tmp_path):
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None], dtype="Int64"),
            "s": pd.array(["a", None], dtype="string[pyarrow]"),
            "c": pd.Categorical(["x", "y"], categories=["y", "x"], ordered=True),
            "t": pd.to_datetime(["2020-01-01", "2021-01-01"]).tz_localize("Europe/Berlin"),
            "d": pd.array([1, 2], dtype="int64[pyarrow]"),
        },
        index=pd.Index(["00017", "00018"], name="id"),
    )
    frame.to_parquet(tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet", ta.Schema((ta.Number("n", missing=True),)))
    pd.testing.assert_frame_equal(read, pd.read_parquet(tmp_path / "t.parquet"))
    assert read.index.tolist() == ["00017", "00018"]


# -- by look ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("1|-2|30", "int64"),
        ("1||3", "float64"),
        ("1|NA|nan", "float64"),
        ("1.5|.5|-0.25|1e-07|1.0E7|1e+20|inf", "float64"),
        (f"{2**63}|1", "uint64"),
        ("|", "float64"),
        ("True|False", "bool"),
        ("TRUE|TRUE", "bool"),
        ("true|", "object"),
        ("02134|12345", None),
        ("+5|6", None),
        ("1_000|2", None),
        ("1E5|2E3", None),  # grid cells, batches: no program writes numbers so
        ("1,5|2", None),
        ("5.|6.", None),
        ("1| 2", None),
        (f"{2**64}|1", None),
        ("1|?|3", None),
        ("None|NA", None),
        ("True|true", None),
        ("True|None", None),
        ("inf|nan", None),
        ("0x10|0x11", None),
        ("١|٢", None),
    ],
)
@pytest.mark.filterwarnings("ignore:column")
def test_without_a_schema_columns_are_typed_with_care(text, dtype):
    cells = text.split("|")
    read = read_table(io.StringIO("\n".join(["x\ty", *(f"{cell}\t" for cell in cells)])), kind="tsv").x
    assert read.dtype == (dtype or pd.Series(["a"]).dtype)
    if dtype is None:
        assert [None if pd.isna(v) else v for v in read] == [cell or None for cell in cells]


def test_a_column_that_looks_like_numbers_and_is_none_is_told():
    with pytest.warns(UserWarning, match=r"column 'zip' of 'the table' is read as text.*because of '02134'"):
        read_table(io.StringIO("zip,name\n02134,a\n12345,b\n"))
    with pytest.warns(UserWarning, match=r"because of '\?'"):
        read_table(io.StringIO("x\n1\n2\n?\n"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(io.StringIO("zip,name\n02134,a\n"), as_text=["zip"])
        read_table(io.StringIO("zip,name\n02134,a\n"), ta.Schema((ta.Category("name", ("a", "b")),)))


@pytest.mark.filterwarnings("ignore:column 'id'")
def test_columns_outside_the_schema_are_text_unless_asked_for():
    schema = ta.Schema((ta.Number("x"),))
    source = "x,id,good,zip\n1,00017,1,7\n2,18,0,8\n"
    read = read_table(io.StringIO(source), schema, by_look=["good"])
    assert read.id.tolist() == ["00017", "18"] and read.zip.tolist() == ["7", "8"]
    assert read.good.tolist() == [1, 0] and read.x.dtype == "int64"
    assert read_table(io.StringIO(source), as_text=["zip"]).zip.tolist() == ["7", "8"]


@pytest.mark.filterwarnings("ignore:column")
def test_a_draft_describes_columns_as_they_will_be_read():
    rng = np.random.default_rng(0)
    n = 60
    frame = pd.DataFrame(
        {
            "zip": rng.choice(["02134", "12345"], n),
            "plan": rng.choice(["None", "NA", "basic"], n),
            "flag": rng.choice(["TRUE", "FALSE"], n),
            "bit": rng.integers(0, 2, n),
            "half": rng.choice(["0.0", "1.0"], n),
            "age": rng.integers(18, 80, n),
            "gaps": rng.choice(["1", "2", "NA", ""], n),
            "wealth": rng.normal(size=n).round(3),
            "word": rng.choice(["a", "b", ""], n),
            "grid": rng.choice(["1E5", "2E3", "7"], n),
            "same": "1",
        }
    )
    file = TableFile.open(io.StringIO(frame.to_csv(index=False)))
    seen = file.read()
    schema = ta.Schema.infer(seen)
    assert schema["zip"].levels == ("02134", "12345") and set(schema["plan"].levels) == {"None", "NA", "basic"}
    assert schema["flag"].levels == (False, True) and schema["gaps"].missing and not schema["plan"].missing
    for known in (schema, ta.Schema.from_yaml(schema.to_yaml()), ta.Schema.from_json(schema.to_json())):
        again = file.read(known)
        pd.testing.assert_frame_equal(again, seen, check_exact=True)
        assert torch_equal(known, again, schema, seen)


def torch_equal(one, table, other, seen):
    return bool((one.encode(table) == other.encode(seen)).all())


def test_a_passthrough_has_one_type_in_all_files():
    schema = ta.Schema((ta.Number("x"), ta.Passthrough("branch")))
    files = [TableFile.open(io.StringIO(f"x,branch\n1,{cell}\n")) for cell in ("017", "18")]
    one, other = read_tables(files, schema)
    assert one.branch.tolist() == ["017"] and other.branch.tolist() == ["18"]
    assert read_tables(files[1:], schema)[0].branch.tolist() == [18]
    assert read_table(io.StringIO("x,branch\n1,18\n"), schema, as_text=["branch", "x"]).to_dict("records") == [
        {"x": 1, "branch": "18"}
    ]


# -- what cannot be read ------------------------------------------------------------------------------------------


def test_one_bad_cell_leaves_the_others_alone():
    schema = ta.Schema((ta.Number("x", 0, 9), ta.Category("c", ("a", "b"))))
    read = read_table(io.StringIO('x,c\n1,a\n"1,5",b\n3,boat\n,a\n'), schema)
    assert read.x.tolist()[:3] == [1, "1,5", 3] and pd.isna(read.x[3]) and read.c.tolist() == ["a", "b", "boat", "a"]
    assert read.loc[[0]].infer_objects().x.dtype == "int64"
    with pytest.raises(ta.TurnaboutError, match="holds '1,5', which is not a number"):
        schema.encode(read.loc[[1]])


def test_blank_lines_marks_and_line_ends_do_no_harm():
    text = '\ufeffx,c\r\n\r\n1,a\r\n   \r\n2,"b\r\nc"\r\n\r\n'
    read = read_table(io.BytesIO(text.encode()), ta.Schema((ta.Number("x"),)))
    assert read.x.tolist() == [1, 2] and read.c.tolist() == ["a", "b\r\nc"]
    assert read_table(io.StringIO("x\r1\r2\r")).x.tolist() == [1, 2]
    assert pd.isna(read_table(io.StringIO('x\n""\n')).x[0])


def test_a_column_without_a_name_is_called_as_pandas_calls_it():
    text = pd.DataFrame({"x": [1]}).to_csv()
    assert read_table(io.StringIO(text)).columns.tolist() == pd.read_csv(io.StringIO(text)).columns.tolist()


def test_a_header_alone_is_a_table_of_nobody():
    read = read_table(io.StringIO("x,c\n"), ta.Schema((ta.Number("x"), ta.Category("c", ("a", "b")))))
    assert len(read) == 0 and list(read.columns) == ["x", "c"]


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"a;b\n1;2\n", "separated by semicolons"),
        ("t.csv", b"a;b\n1,5;2\n", "separated by semicolons"),
        ("t.csv", b"a\tb\n1\t2\n", "separated by tabs"),
        ("t.csv", b"a,b,a\n1,2,3\n", "more than one column 'a'"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", "line 3 of .* has 3 cells, and the header has 2"),
        ("t.csv", b"a,b\n1\n", "line 2 of .* has 1 cells"),
        ("t.csv", b'a,b\n1,"2\n', "is not CSV: unexpected end of data"),
        ("t.csv", b'a,b\n1,"2"3\n', "line 2 of .* is not CSV"),
        ("t.csv", "a\nMünchen\n".encode("latin-1"), "not UTF-8 text: line 2 has the byte 0xfc"),
        ("t.csv", "a\nb\n".encode("utf-16"), "not UTF-8 text"),
        ("t.csv", b"a\n\0\n", "zero bytes"),
        ("t.csv.gz", b"a\n1\n", "cannot be read"),
        ("t.csv.gz", gzip.compress(b"a\n1\n" * 99, mtime=0)[:-9], "cannot be read"),
        ("t.xlsx", b"PK", "save it as CSV or parquet"),
        ("t.json", b"{", "is not JSON"),
        ("t.json", b"3", "no list of records"),
        ("t.json", b"[1, 2]", "no list of records"),
        ("t.json", b'{"a": [1, 2]}', "no list of records"),
        ("t.json", b"[]", "holds no records"),
        ("t.json", b'[{"a": 1, "a": 2}]', "names 'a' twice"),
        ("t.json", b"[" * 100_000, "nested too deeply"),
        ("t.json", b'[{"a": ' + b"9" * 5000 + b"}]", "is not JSON"),
        ("t.json", b'[{"a": "\\ud800"}]', "spells half a character"),
        ("t.jsonl", b'{"a": 1}\n{"a"', "line 2 of .* is not JSON"),
        ("t.parquet", b"PAR1", "is not a parquet file"),
    ],
)
def test_what_is_no_table_is_told(name, content, text, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=text) as error:
        read_table(tmp_path / name)
    assert error.value.hint


def test_files_that_are_none_are_told(tmp_path):
    for path in (tmp_path, tmp_path / "absent.csv", tmp_path / ("x" * 300)):
        with pytest.raises(DataError, match="cannot be read"):
            read_table(path)
    with pytest.raises(DataError, match="no kind of table"):
        read_table(io.StringIO("a"), kind="xml")


def test_words_for_a_gap_stay_text_where_nothing_is_declared(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("branch,income\nNone,3\n7,4\n", encoding="utf-8")
    schema = ta.Schema([ta.schema.Passthrough("branch"), ta.Number("income", 0, 10, step=1)])
    assert list(read_table(path, schema)["branch"]) == ["None", "7"]


@pytest.mark.parametrize("dtype", ["float32", "Float32", "float[pyarrow]"])
def test_numbers_are_in_single_precision_where_the_background_is(tmp_path, dtype):
    """A file of text does not say; to boosted trees 24.6386 as a double lies beyond a cut between it and its float."""
    background = pd.DataFrame({"size": pd.array([24.6386, 3.5], dtype=dtype), "age": [20.5, 30.0]})
    background.to_parquet(tmp_path / "train.parquet")
    (tmp_path / "people.csv").write_text("size,age\n24.6386,20.25\n,3\n", encoding="utf-8")
    schema = ta.Schema([ta.Number("size", 0, 50, missing=True), ta.Number("age", 0, 99)])
    files = [TableFile.open(tmp_path / name) for name in ("people.csv", "train.parquet")]
    people, train = read_tables(files, schema)
    assert people["size"].dtype == train["size"].dtype and people["age"].dtype == float
    assert people["size"].iloc[0] == train["size"].iloc[0] and people["size"].isna().tolist() == [False, True]
    assert read_tables(files[:1], schema)[0]["size"].dtype == float
