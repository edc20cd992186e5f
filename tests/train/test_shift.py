"""A shifted column is named; two halves of one sample are not told apart more often than promised."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import turnabout as ta
from turnabout.errors import TrainingError
from turnabout.train.shift import ShiftReport, compare, warn_of_shift

SCHEMA = ta.Schema(
    (
        ta.Number("follow", low=0, high=200, decimals=3),
        ta.Number("age", low=10, high=90, step=1),
        ta.Number("rate", low=0, high=10, decimals=2, missing=True),
        ta.Binary("married"),
        ta.Ordinal("school", levels=("none", "some", "much")),
        ta.Category("city", levels=("Ulm", "Jena", "Rom", "Oslo")),
    )
)


def people(seed, n=300):
    rng = np.random.default_rng(seed)
    rate = np.where(rng.random(n) < 0.1, np.nan, np.round(rng.random(n) * 10, 2))
    return pd.DataFrame(
        {
            "follow": np.round(rng.normal(74.87, 3.44, n), 3),
            "age": rng.integers(18, 70, n),
            "rate": rate,
            "married": rng.integers(0, 2, n),
            "school": rng.choice(["none", "some", "much"], n, p=[0.2, 0.5, 0.3]),
            "city": rng.choice(["Ulm", "Jena", "Rom", "Oslo"], n, p=[0.6, 0.3, 0.095, 0.005]),
        }
    )


def test_a_shifted_number_is_named_with_its_size():
    there = people(1, 500)
    there["follow"] -= 6.84 * 3.44
    shift = compare(people(0, 1583), there, SCHEMA)
    assert [column.column for column in shift.shifted] == ["follow"]
    found = shift.shifted[0]
    assert found.test == "KS" and found.z == pytest.approx(-6.8, abs=0.3) and found.adjusted < 1e-100
    assert str(shift).startswith("1 of 6 columns shifted: 'follow' by -6.")


@pytest.mark.parametrize(
    ("column", "change", "says"),
    [
        ("married", lambda t: t.married.where(t.index % 3 > 0, 1), "'married' by"),
        ("school", lambda t: t.school.replace("some", "much"), "(much: 7"),
        ("city", lambda t: t.city.where(t.index % 4 > 0, "Oslo"), "Oslo: "),
        ("rate", lambda t: t.rate.where(t.index % 2 > 0), "'rate' by"),
        ("age", lambda t: t.age + 5, "'age' by +0."),
    ],
)
def test_every_kind_of_column_is_tested(column, change, says):
    there = people(1, 500)
    there[column] = change(there)
    for schema in (SCHEMA, None):
        shift = compare(people(0, 500), there, schema)
        assert [found.column for found in shift.shifted] == [column]
        assert says in str(shift)


def test_halves_of_one_sample_are_told_apart_no_more_often_than_promised():
    level, seeds = 0.1, 200
    alarms = 0
    for seed in range(seeds):
        whole = people(1000 + seed, 500)
        alarms += bool(compare(whole[:250], whole[250:], SCHEMA, level=level))
    assert alarms <= seeds * level + 2 * np.sqrt(seeds * level * (1 - level))
    assert alarms > 0  # nor is it asleep


def rare_level(rng, n):
    return np.where(rng.random(n) < 0.002, "b", "a")


def rare_among_many(rng, n):
    return rng.choice(["a", "b", "c", "d"], n, p=[0.5, 0.3, 0.198, 0.002])


def rarely_missing(rng, n):
    return np.where(rng.random(n) < 0.002, np.nan, rng.random(n))


@pytest.mark.parametrize("draw", [rare_level, rare_among_many, rarely_missing])
def test_what_is_rare_in_a_small_table_raises_no_false_alarm(draw):
    """5000 and 50 people: the rare cell is expected 0.1 times, and one of it is no news (it was 6 % of alarms)."""
    level, runs = 0.01, 300
    rng = np.random.default_rng(7)
    pairs = ([pd.DataFrame({"a": draw(rng, n)}) for n in (5000, 50)] for _ in range(runs))
    alarms = sum(bool(compare(*pair, level=level)) for pair in pairs)
    assert alarms <= runs * level + 2 * np.sqrt(runs * level * (1 - level))


@pytest.mark.parametrize(("first", "second"), [((4990, 10), (45, 5)), ((30, 10), (5, 20)), ((5000, 0), (0, 5))])
def test_two_levels_are_compared_exactly(first, second):
    tables = [pd.DataFrame({"a": ["x"] * x + ["y"] * y}) for x, y in (first, second)]
    shift = compare(*tables)
    assert shift and shift.columns[0].p == pytest.approx(stats.fisher_exact([first, second]).pvalue)


def test_a_rare_level_among_others_is_still_seen():
    here = pd.DataFrame({"a": ["x"] * 3000 + ["y"] * 1996 + ["z"] * 4})
    there = pd.DataFrame({"a": ["x"] * 28 + ["y"] * 18 + ["z"] * 4})
    found = compare(here, there).shifted[0]
    assert found.level == "z" and found.p == pytest.approx(2 * stats.fisher_exact([[4996, 4], [46, 4]]).pvalue)


def test_p_values_are_those_of_scipy():
    here, there = people(0, 400), people(5, 300)
    found = {column.column: column.p for column in compare(here, there, SCHEMA).columns}
    assert found["follow"] == pytest.approx(stats.ks_2samp(here.follow, there.follow).pvalue, abs=0.02)
    counts = [[(t.school == level).sum() for level in ("none", "some", "much")] for t in (here, there)]
    assert found["school"] == pytest.approx(stats.chi2_contingency(counts).pvalue)


def test_same_values_of_other_types_are_no_shift():
    here, there = people(0), people(0)
    there["married"] = there["married"].astype(bool)
    there["city"] = there["city"].astype("category")
    shift = compare(here, there, SCHEMA)
    assert not shift and all(column.p == 1.0 for column in shift.columns)
    assert str(shift) == "No column of 6 differs between 300 and 300 people by more than chance explains."


ZIPS = (1000001, 1000002)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        ta.Schema((ta.Category("zip", levels=ZIPS),)),
        ta.Schema((ta.Ordinal("zip", levels=ZIPS),)),
        ta.Schema((ta.Binary("zip", levels=ZIPS),)),
    ],
    ids=["none", "Category", "Ordinal", "Binary"],
)
def test_long_numbers_are_levels_of_their_own(schema):
    here, there = (pd.DataFrame({"zip": [code] * 500}) for code in ZIPS)
    shift = compare(here, there, schema)
    assert shift and "(1000001: 0.0% instead of 100.0%)" in str(shift)
    assert not compare(here, here.astype(float), schema)


@pytest.mark.parametrize("pair", [(0.1234567, 0.1234568), (2**53, 2**53 + 1), (1e-7, 1.0000001e-7)])
def test_levels_are_told_apart_to_the_last_digit(pair):
    here, there = (pd.DataFrame({"code": pd.Series([each] * 50, dtype=object)}) for each in pair)
    assert compare(here, there) and not compare(here, here.copy())


def test_one_level_written_in_several_types_is_one():
    cells = [1, 1.0, True, np.int8(1), np.float32(1), np.bool_(True), "1"]
    tables = [pd.DataFrame({"a": pd.Series([cell, 0] * 50, dtype=object)}) for cell in cells]
    assert all(compare(tables[0], table).columns[0].p == 1.0 for table in tables)
    tenths = pd.DataFrame({"a": [0.1, 0.2] * 50})
    schema = ta.Schema((ta.Category("a", levels=(0.1, 0.2)),))
    assert compare(tenths, tenths.astype(np.float32), schema).columns[0].p == 1.0  # rounded, yet written the same


def test_a_constant_that_moved_is_a_shift():
    shift = compare(
        pd.DataFrame({"a": np.ones(100), "b": ["x"] * 100}), pd.DataFrame({"a": np.zeros(100), "b": ["y"] * 100})
    )
    assert {column.column for column in shift.shifted} == {"a", "b"}
    assert np.isfinite([column.z for column in shift.columns]).all()


def test_the_warning_names_the_columns():
    with pytest.warns(UserWarning, match=r"people like those calibrated on.*'follow' by -[67]\."):
        warn_of_shift(people(0), people(1).assign(follow=lambda t: t.follow - 6.8 * 3.44), SCHEMA)


def test_reports_are_tables_and_json():
    shift = compare(people(0), people(1).assign(age=30), SCHEMA)
    assert ShiftReport.from_json(shift.to_json()) == shift
    table = shift.table()
    assert list(table["column"][:1]) == ["age"] and len(table) == 6
    assert (table["adjusted"].to_numpy()[1:] >= table["adjusted"].to_numpy()[:-1]).all()


def test_nothing_to_compare_is_an_error():
    with pytest.raises(TrainingError, match="there is nothing to compare"):
        compare(people(0), people(0)[:0])
    with pytest.raises(TrainingError, match="level=2 is not a number strictly"):
        compare(people(0), people(0), level=2)
