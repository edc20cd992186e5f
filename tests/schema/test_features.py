"""Each kind of feature: what it encodes, refuses, relaxes and snaps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnabout.errors import SchemaError
from turnabout.schema import Binary, Category, Number, Ordinal, Schema


def one(feature, own, target, outward=False):
    """Snap one person's single feature from `own` towards the encoded `target`; the printed value."""
    schema = Schema((feature,))
    people = pd.DataFrame({feature.name: [own]})
    x = schema.encode(people)
    x_new = torch.as_tensor([target], dtype=torch.float64).reshape(1, -1)
    return schema.write(people, x, schema.snap(x, x_new, outward)).iloc[0, 0]


def test_numbers_round_to_the_grid_or_stay():
    hours = Number("hours", low=0, high=100, step=1)
    assert one(hours, 40, 0.436) == 44
    assert one(hours, 40, 0.404) == 40  # their own is the nearest legal value
    assert one(hours, 40, 0.404, outward=True) == 41
    assert one(hours, 40, 0.396, outward=True) == 39
    assert one(hours, 40, 1.7) == 100


def test_a_value_off_the_grid_is_hers_until_it_changes():
    amount = Number("amount", low=0, high=1000, step=100)
    assert one(amount, 449, 0.449) == 449
    assert one(amount, 449, 0.46) == 449
    assert one(amount, 449, 0.49) == 500
    assert one(amount, 449, 0.449, outward=True) == 449


def test_directions_hold():
    assert one(Number("n", low=0, high=10, step=1, moves="up"), 4, 0.1) == 4
    assert one(Number("n", low=0, high=10, step=1, moves="down"), 4, 0.9) == 4
    assert one(Number("n", low=0, high=10, step=1, moves="fixed"), 4, 0.9) == 4
    assert one(Ordinal("o", levels=("a", "b", "c"), moves="up"), "b", 0.0) == "b"
    assert one(Ordinal("o", levels=("a", "b", "c"), moves="up"), "b", 1.0) == "c"
    assert one(Binary("b", levels=("no", "yes"), moves="down"), "no", 1.0) == "no"


def test_people_outside_the_bounds_stay_or_come_in():
    n = Number("n", low=0, high=10, step=1)
    assert one(n, 14, 1.4) == 14
    assert one(n, 14, 1.2) == 10 or one(n, 14, 1.2) == 14
    assert one(n, 14, 0.7) == 7
    assert one(Number("n", low=0, high=10, step=1, moves="up"), 14, 1.9) == 14


def test_continuous_numbers_are_short_decimals():
    rate = Number("rate", low=0, high=1, decimals=3)
    assert one(rate, 0.5, 0.123456789) == 0.123
    assert repr(float(one(rate, 0.5, 0.1 + 0.2))) == "0.3"
    assert Number("n", low=0, high=100).places == 4
    assert Number("n", low=0, high=0.001).places == 9


def test_categories_switch_to_the_heaviest_level():
    home = Category("home", levels=("own", "rent", "free"))
    assert one(home, "rent", [0.5, 0.3, 0.2]) == "own"
    assert one(home, "rent", [0.4, 0.4, 0.2]) == "rent"
    assert one(home, "rent", [0.3, 0.5, 0.2]) == "rent"
    assert one(home, "rent", [0.3, 0.5, 0.2], outward=True) == "own"
    assert one(home, "rent", [0.0, 1.0, 0.0], outward=True) == "rent"


def test_missing_stays_missing_and_is_never_made():
    schema = Schema((Number("n", low=0, high=10, step=1, missing=True), Category("c", levels=("a", "b"), missing=True)))
    people = pd.DataFrame({"n": [np.nan, 3.0], "c": ["a", None]})
    x = schema.encode(people)
    assert x.tolist() == [[0, 1, 1, 0, 0], [0.3, 0, 0, 0, 1]]
    rows = schema.write(people, x, schema.snap(x, torch.full_like(x, 0.9)))
    assert np.isnan(rows.n[0]) and rows.n[1] == 9
    assert pd.isna(rows.c[1])
    lo, hi = schema.bounds(x)
    assert torch.equal(lo[0, :2], x[0, :2]) and torch.equal(hi[0, :2], x[0, :2])
    assert hi[1, 1] == 0


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Number("n", low=3, high=2), "no value lies between"),
        (lambda: Number("n", low=float("nan"), high=2), "not a finite number"),
        (lambda: Number("n", low=0, high=1, step=0), "step=0"),
        (lambda: Number("n", low=1, high=4, step=5), "no multiple of step"),
        (lambda: Number("n", low=0, high=1, moves="sideways"), "sideways"),
        (lambda: Number("", low=0, high=1), "non-empty"),
        (lambda: Number("n", low=0, high=1, decimals=40), "decimals=40"),
        (lambda: Binary("b", levels=(1, 2, 3)), "3 levels"),
        (lambda: Category("c", levels=("a",)), "1 level"),
        (lambda: Category("c", levels=("a", "a")), "twice"),
        (lambda: Category("c", levels="ab"), "list of levels"),
        (lambda: Category("c", levels=("a", None)), "None"),
        (lambda: Category("c", levels=("a", "b"), moves="up"), "no order"),
    ],
)
def test_a_feature_that_contradicts_itself_is_refused(make, text):
    with pytest.raises(SchemaError, match=text):
        make()


def test_errors_name_value_column_and_remedy():
    with pytest.raises(SchemaError, match=r"column 'home' holds 'boat'.*\['own', 'rent'\](.|\n)*Hint: add it"):
        Schema((Category("home", levels=("own", "rent")),)).encode(pd.DataFrame({"home": ["own", "boat"]}))
    with pytest.raises(SchemaError, match="'n' holds 'many', which is not a number"):
        Schema((Number("n"),)).encode(pd.DataFrame({"n": [1, "many"]}))
    with pytest.raises(SchemaError, match="missing value in row 'eve'"):
        Schema((Number("n"),)).encode(pd.DataFrame({"n": [1.0, None]}, index=["adam", "eve"]))
    with pytest.raises(SchemaError, match="infinite value in row 1"):
        Schema((Number("n"),)).encode(pd.DataFrame({"n": [1.0, np.inf]}))


numbers = st.builds(
    lambda low, span, step, moves: Number("n", low=low, high=low + span * step, step=step, moves=moves),
    low=st.integers(-20, 20),
    span=st.integers(1, 40),
    step=st.sampled_from([0.1, 0.25, 1, 7, 100]),
    moves=st.sampled_from(["free", "up", "down", "fixed"]),
).filter(lambda f: f is not None)


@given(numbers, st.floats(-30, 60), st.floats(-0.5, 1.5), st.booleans())
def test_snapped_numbers_are_legal_and_read_back_exactly(feature, own, target, outward):
    schema = Schema((feature,))
    people = pd.DataFrame({"n": [own]})
    x = schema.encode(people)
    rows = schema.write(people, x, schema.snap(x, torch.tensor([[target]], dtype=torch.float64), outward))
    assert not schema.breaches(people, rows).any()
    again = float(repr(float(rows.n[0])))
    assert again == rows.n[0]
    back = schema.encode(rows)
    assert torch.equal(schema.snap(x, back, outward), back)  # a legal row is left alone


@given(st.lists(st.floats(-2, 2), min_size=3, max_size=3))
def test_relaxed_categories_lie_on_the_simplex(weights):
    schema = Schema((Category("c", levels=("a", "b", "c")),))
    x = schema.encode(pd.DataFrame({"c": ["b"]}))
    soft = schema.relax(x, torch.tensor([weights], dtype=torch.float64))
    assert soft.min() >= 0 and abs(soft.sum() - 1) < 1e-9
    assert torch.allclose(schema.relax(x, soft), soft)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Number("n", low=0, high=1, step=0.25, decimals=1), "cannot be written with 1 decimals"),
        (lambda: Number("n", low=0, high=1e300, step=1), "too fine"),
        (lambda: Number("n", low=-1.7e308, high=1.7e308), "too fine"),
        (lambda: Number("n", low=0, high=1, step=True), "step=True"),
        (lambda: Number("n", low=0, high=1, decimals=1.5), r"decimals=1\.5"),
        (lambda: Number("n", low=0, high=1, missing="no"), "missing='no'"),
        (lambda: Category("c", levels=("a", "b"), label=5), "label=5"),
    ],
)
def test_fields_of_the_wrong_kind_are_refused(make, text):
    with pytest.raises(SchemaError, match=text):
        make()


def test_bounds_with_dust_and_offsets_have_legal_ends():
    assert one(Number("n", low=0, high=0.7 + 0.1, step=0.1), 0.1, 1.0) == 0.8
    far = Number("n", low=1e6, high=1e6 + 10)
    schema = Schema((far,))
    people = pd.DataFrame({"n": [1e6]})
    x = schema.encode(people)
    rows = schema.write(people, x, schema.snap(x, torch.tensor([[0.5]], dtype=torch.float64)))
    assert rows.n[0] == 1e6 + 5 and not schema.breaches(people, rows).any()
    assert Number("n", low=0, high=1e13).unit_step == 1000
    assert not Schema((Number("n", low=0, high=1e13),)).breaches(people, pd.DataFrame({"n": [5_000_000.0]})).any()


def test_what_is_no_number_or_level_is_named():
    with pytest.raises(SchemaError, match="not a number"):
        Schema((Number("n"),)).encode(pd.DataFrame({"n": pd.to_datetime(["2020-01-01"])}))
    with pytest.raises(SchemaError, match=r"\['a'\]"):
        Schema((Category("c", levels=("a", "b")),)).encode(pd.DataFrame({"c": ["a", ["a"]]}))
