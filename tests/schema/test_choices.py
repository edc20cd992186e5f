"""What a plan may choose: useful steps, changes worth making, and a reach; against values listed by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import turnabout as ta
from turnabout import Number, Ordinal, Schema
from turnabout.errors import SchemaError
from turnabout.rules.grid import LegalGrid
from turnabout.schema.legal_values import OtherValues
from turnabout.schema.reach import Reach

SMALL = 1e-9


def listed(feature: Number, own: float) -> list[float]:
    """Every other value that a plan may choose, tried one by one in whole hundredths."""
    step = round(100 * (feature.useful_step or feature.step or 1))
    reach, out = feature.reach or Reach(), []
    for k in range(round(100 * feature.low), round(100 * feature.high) + 1):
        value = k / 100
        change = abs(value - own)
        if k % step or change < SMALL or change < (feature.least_change or 0) - SMALL:
            continue
        if {"up": value < own, "down": value > own, "fixed": True}.get(feature.moves, False):
            continue
        if reach.absolute is not None and change > reach.absolute + SMALL:
            continue
        if reach.relative is not None and change > reach.relative * abs(own) + SMALL:
            continue
        if reach.per_year is not None and change > reach.per_year * reach.years + SMALL:
            continue
        if reach.steps is not None and change > reach.steps * (feature.step or 0.01) + SMALL:
            continue
        if (reach.low is not None and value < reach.low - SMALL) or (
            reach.high is not None and value > reach.high + SMALL
        ):
            continue
        out.append(value)
    return out


@st.composite
def cases(draw):
    """A number and somebody's value of it, in hundredths; also outside the bounds."""
    low = draw(st.integers(-20, 5))
    high = low + draw(st.integers(5, 40))
    step = draw(st.sampled_from([1, 2, 5]))
    limits = {
        "absolute": draw(st.none() | st.integers(0, 20)),
        "relative": draw(st.none() | st.sampled_from([0.0, 0.2, 0.5, 1.5])),
        "steps": draw(st.none() | st.integers(0, 6)),
        "per_year": draw(st.none() | st.integers(1, 6)),
        "years": draw(st.sampled_from([1, 2])),
        "low": draw(st.none() | st.integers(low - 3, low + 8)),
        "high": draw(st.none() | st.integers(high - 8, high + 3)),
    }
    useful = draw(st.none() | st.sampled_from([1, 2, 3]))
    least = draw(st.none() | st.integers(1, 9))
    moves = draw(st.sampled_from(["free", "up", "down"]))
    own = draw(st.integers(4 * (low - 3), 4 * (high + 3))) / 4
    try:
        number = Number(
            "n", low=low, high=high, step=step, moves=moves, useful_step=None if useful is None else useful * step,
            least_change=least, reach={k: v for k, v in limits.items() if v is not None},
        )  # fmt: skip
    except SchemaError:
        number = Number("n", low=low, high=high, step=step, moves=moves, least_change=least)
    return number, own


@settings(max_examples=300)
@given(cases())
def test_all_readers_of_choices_agree_with_the_list(case):
    number, own = case
    schema = Schema((number,))
    expected = listed(number, own)
    x = schema.encode(pd.DataFrame({"n": [own]}))
    others = OtherValues.of(number, slice(0, 1), x)
    ranks = torch.arange(float(others.others[0]), dtype=torch.float64)
    found = number.units(others.values(torch.zeros(len(ranks), dtype=torch.long), ranks).squeeze(1)).tolist()
    assert np.allclose(sorted(found), expected)
    # the projection: every wish is met by the person's own value or the nearest choice
    wishes = torch.linspace(-0.3, 1.3, 81, dtype=torch.float64).unsqueeze(1)
    for outward in (False, True):
        snapped = number.units(schema.snap(x, wishes, outward=outward).squeeze(1)).tolist()
        assert all(abs(v - own) < 1e-7 or any(abs(v - e) < 1e-7 for e in expected) for v in snapped)
    nearest = [min([own, *expected], key=lambda e: abs(e - w)) for w in number.units(wishes.squeeze(1)).tolist()]
    gaps = [abs(w - v) for w, v in zip(number.units(wishes.squeeze(1)).tolist(), nearest)]
    snapped = number.units(schema.snap(x, wishes).squeeze(1)).tolist()
    assert np.allclose([abs(w - v) for w, v in zip(number.units(wishes.squeeze(1)).tolist(), snapped)], gaps)
    # rounding of rules: the first choice on a side of a wish
    grid = LegalGrid(schema, [0])
    for w in wishes[::8]:
        for up in (True, False):
            got = float(number.units(grid.round(x, w.unsqueeze(0), torch.tensor([up]))[0, 0]))
            wish = float(number.units(w[0]))
            beyond = [e for e in [own, *expected] if (e >= wish - 1e-6 if up else e <= wish + 1e-6)]
            if beyond:
                assert got == pytest.approx(min(beyond) if up else max(beyond))
            else:
                assert got == pytest.approx(max([own, *expected]) if up else min([own, *expected]))
    # the judge, on raw cells
    tried = np.arange(4 * (number.low - 4), 4 * (number.high + 4) + 1) / 4
    breaks = number.breaches(pd.Series([own] * len(tried)), pd.Series(tried))
    assert [v for v, b in zip(tried, breaks) if not b and v != own] == pytest.approx(expected)


def test_levels_within_reach():
    schema = Schema((Ordinal("edu", levels=("none", "school", "degree", "doctor"), reach={"steps": 1}),))
    x = schema.encode(pd.DataFrame({"edu": ["school"]}))
    wishes = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    assert schema.decode(schema.snap(x, wishes))["edu"].tolist() == ["none", "degree"]
    assert schema["edu"].breaches(pd.Series(["school"] * 2), pd.Series(["doctor", "degree"])).tolist() == [True, False]


def test_files_hold_choices():
    schema = Schema(
        (
            Number(
                "income",
                high=1e5,
                step=1,
                useful_step=500,
                least_change=1000,
                reach=Reach(relative=0.2, usual=(0.2, 0.5)),
            ),
            Ordinal("edu", levels=("a", "b", "c"), reach=Reach(steps=1)),
        )
    )
    assert Schema.from_yaml(schema.to_yaml()) == schema
    assert Schema.from_json(schema.to_json()) == schema
    said = schema.summary().set_index("feature")["values"]
    assert "used in 500; changes from 1000; by at most 20 % of their own value" in said["income"]
    assert "by at most 1 step" in said["edu"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Number("n", high=10, step=2, useful_step=3), "no multiple of 2"),
        (lambda: Number("n", high=10, step=1, useful_step=-1), "useful_step=-1"),
        (lambda: Number("n", high=10, step=1, least_change="much"), "least_change='much'"),
        (lambda: Number("n", low=1, high=9, step=1, useful_step=10), "no multiple of 10 lies"),
        (lambda: Number("n", low=1, high=9, step=1, reach={"low": 20}), "not below 20"),
        (lambda: Number("n", high=9, reach={"far": 20}), "no limit 'far'"),
        (lambda: Number("n", high=9, reach=3), "has reach=3"),
        (lambda: Reach(relative=-0.1), "relative=-0.1"),
        (lambda: Reach(low=3, high=1), "from low=3 to high=1"),
        (lambda: Reach(absolute="far"), "absolute='far'"),
        (lambda: Reach(absolute=1, usual=[0.5, 0.2]), r"usual=\[0.5, 0.2\]"),
        (lambda: Reach(absolute=1, usual=0), "usual=0"),
        (lambda: Reach(absolute=1, usual="half"), "usual='half'"),
        (lambda: Ordinal("n", levels=("a", "b"), reach={"relative": 0.1}), "are counted"),
    ],
)
def test_choices_that_make_no_sense(make, text):
    with pytest.raises(SchemaError, match=text):
        make()


def test_who_can_reach_nothing_is_told_so():
    """A relative reach leaves a person with 0 where they are."""
    schema = Schema((Number("income", high=100, step=1, reach={"relative": 0.2}),))
    model = ta.models.wrap(lambda t: (t["income"] >= 50).astype(float), schema)
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, model)).find(pd.DataFrame({"income": [0, 45, 30]}))
    assert answer.status.tolist() == ["IMPOSSIBLE", "FOUND", "IMPOSSIBLE"]
    assert answer.options.loc[(1, 0), "income"] == 50
    assert answer.why["binding"].tolist() == ["limits: income by at most 20 % of their own value"] * 2


@pytest.mark.parametrize(
    ("number", "named"),
    [
        (Number("income", high=100, step=1, useful_step=25, reach={"absolute": 9}), "in steps of 25, by at most 9"),
        (Number("income", high=100, step=1, least_change=70), "by at least 70"),
        (Number("income", high=100, step=1, moves="up", reach={"high": 30}), "not above 30"),
    ],
    ids=["steps", "least", "end"],
)
def test_what_leaves_nothing_to_choose_is_named(number, named):
    schema = Schema((number,))
    model = ta.models.wrap(lambda t: (t["income"] != 40).astype(float), schema)
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, model)).find(pd.DataFrame({"income": [40]}))
    assert answer.status.tolist() == ["IMPOSSIBLE"]
    assert answer.why["binding"].tolist() == [f"limits: income {named}"]
