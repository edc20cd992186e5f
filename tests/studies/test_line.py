"""One dimension: the family |x| - a, ends that belong or do not, and brute force on grids."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import turnabout as ta
from turnabout.errors import AuditError
from turnabout.studies.attribution_maps.line import conflict_free_deltas, one_dimension
from turnabout.studies.attribution_maps.number_line import AcceptedIntervals, Interval, without
from turnabout.studies.attribution_maps.ray import line_along


def valley(a):
    return lambda x: x.abs() - a


@pytest.mark.parametrize(
    ("a", "possible"),
    [(a, True) for a in (0.3, 0.5, 1.001, 1.2)] + [(a, False) for a in (0.501, 0.6, 0.75, 0.9, 1.0)],
)
def test_the_canonical_family(a, possible):
    scanned = one_dimension(valley(a), 1.0, -3, 3)
    known = one_dimension(valley(a), 1.0, -3, 3, roots=[-a, a])
    assert scanned.possible is known.possible is possible
    assert known.exact and not scanned.exact
    assert (1.0 in Interval(a, 2 * a, True, False)) is not possible


def test_the_picture_of_the_slide():
    report = one_dimension(valley(0.75), 1.0, -3, 3, roots=[-0.75, 0.75])
    (conflict,) = report.conflicts
    assert conflict.where == Interval(-0.75, 0.75, False, False)
    assert conflict.left_only == Interval(-0.75, -0.25, False, False)
    assert conflict.right_only == Interval(0.25, 0.75, False, False)
    a, b = conflict.start
    assert a in conflict.left_only and b in conflict.right_only and abs(a + b) > 0.01  # not symmetric
    assert "only left succeeds on (-0.75, -0.25)" in str(report)
    assert json.dumps(report.to_dict(), allow_nan=False)
    (component,) = report.components
    assert component.left == Interval(-0.75, 0.25, False, True)
    assert component.right == Interval(-0.25, 0.75, True, False)


def test_lengths_without_conflict():
    free = conflict_free_deltas(valley(0.75), -3, 3, roots=[-0.75, 0.75])
    assert free == (Interval(0, 0.75, False, False), Interval(1.5, math.inf, True, False))
    assert free[1].to_dict()["high"] is None
    # two valleys of widths 1 and 4: conflicts for [0.5, 1) and [2, 4)
    two = conflict_free_deltas(lambda x: (x.abs() - 2) * (x - 4) * (x - 5), -6, 9, roots=[-2, 2, 4, 5])
    assert [str(i) for i in two] == ["(0, 0.5)", "[1, 2)", "[4, inf)"]


def test_one_way_only_has_no_conflict():
    for moves in ("up", "down", "fixed"):
        assert one_dimension(valley(0.75), 1.0, -3, 3, moves=moves).possible
        assert conflict_free_deltas(valley(0.75), -3, 3, moves=moves) == (Interval(0, math.inf, False, False),)
    assert not one_dimension(valley(0.75), 1.0, -3, 3, moves="fixed").components


def test_a_valley_at_the_border_has_one_way_out():
    report = one_dimension(lambda x: x, 1.0, -2, 2, roots=[0])
    assert report.possible and report.components[0].where == Interval(-1, 0, True, False)


def test_a_touching_root_parts_two_valleys():
    # -(x - 0)^2 (within -1..1): yes at 0 alone and beyond; each valley of width 1
    line = AcceptedIntervals.from_roots(lambda x: x * x * (x * x - 1), [-1, 0, 1], -2, 2)
    assert line.accepted == (Interval(-2, -1), Interval(0, 0), Interval(1, 2))
    assert one_dimension(line, 1.0).possible and not one_dimension(line, 0.5).possible


def test_ends_that_do_not_belong():
    # refused on [0, 1], both ends included: at delta = 1/2 the middle is out of reach, at delta = 1 the ends conflict
    line = AcceptedIntervals.from_cells([-1.0, 0.0, 1.0, 2.0], [True, False, False, True], [True, False, True], True)
    assert line.refused == (Interval(0, 1),)
    assert one_dimension(line, 0.5).possible and not one_dimension(line, 1.0).possible
    assert one_dimension(line, 1.01).possible and not one_dimension(line, 0.51).possible
    assert [str(i) for i in conflict_free_deltas(line)] == ["(0, 0.5]", "(1, inf)"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-40, 40), min_size=1, max_size=7, unique=True),
    st.booleans(),
    st.integers(1, 60),
)
def test_against_brute_force_on_a_grid(roots, first, delta):
    """Whole-number roots and lengths: on a grid of eighths, every set that matters has a point."""
    ends = sorted(roots)
    low, high = -50, 50
    yes_between = [first ^ (i % 2 == 1) for i in range(len(ends) + 1)]
    cells = [low, *ends, high]
    at = [yes_between[0], *(True for _ in ends), yes_between[-1]]
    line = AcceptedIntervals.from_cells([float(c) for c in cells], at, yes_between, True)
    x = np.arange(low * 8, high * 8 + 1) / 8
    yes = np.array([any(float(v) in part for part in line.accepted) for v in x])
    step = delta * 8
    right = np.array([yes[i + 1 : i + step + 1].any() for i in range(len(x))]) & ~yes
    left = np.array([yes[max(i - step, 0) : i].any() for i in range(len(x))]) & ~yes
    either = left | right
    impossible, i = False, 0
    while i < len(x):
        if not either[i]:
            i += 1
            continue
        j = i
        while j + 1 < len(x) and either[j + 1]:
            j += 1
        impossible |= (left & ~right)[i : j + 1].any() and (right & ~left)[i : j + 1].any()
        i = j + 1
    assert one_dimension(line, float(delta)).possible is not bool(impossible)
    assert any(float(delta) in part for part in conflict_free_deltas(line)) is not bool(impossible)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8), st.booleans(), st.booleans()), max_size=5))
def test_without_agrees_with_membership(parts):
    taken = [Interval(a, a + w, p, q) for a, w, p, q in parts]
    whole = Interval(0, 25, False, True)
    left = without(whole, taken)
    for v in np.arange(0, 26, 0.25):
        expected = float(v) in whole and not any(float(v) in t for t in taken)
        assert any(float(v) in part for part in left) is expected


SCHEMA = ta.Schema((ta.Number("a", 0, 1), ta.Number("b", 0, 1)))


def forest(seed=0, depth=3):
    from sklearn.ensemble import GradientBoostingClassifier

    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"a": rng.uniform(size=300), "b": rng.uniform(size=300)})
    y = (np.abs(rows.a - 0.5) > 0.2) & (rows.b > 0.3)
    return ta.models.wrap(
        GradientBoostingClassifier(n_estimators=8, max_depth=depth, random_state=0).fit(rows, y), SCHEMA
    )


def net(seed=0):
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)]
    module = torch.nn.Sequential(*layers).double()
    with torch.no_grad():
        for part in module[::2]:
            part.weight *= 3
        module[-1].bias -= module(torch.rand(500, 2, dtype=torch.float64)).median()
    return ta.models.wrap(module, SCHEMA)


@pytest.mark.parametrize("model", [forest(), net(1), net(2)], ids=["trees", "net", "other net"])
def test_a_line_through_a_model_is_exact(model):
    for b in (0.2, 0.45, 0.9):
        x = torch.tensor([0.3, b], dtype=torch.float64)
        line = line_along(model, x, 0, 0.0, 1.0)
        assert line.exact
        grid = torch.linspace(0, 1, 4001, dtype=torch.float64)
        rows = torch.stack([grid, torch.full_like(grid, b)], 1)
        yes = (model.margin(rows) >= 0).tolist()
        ours = [any(v in part for part in line.accepted) for v in grid.tolist()]
        assert ours == yes


def test_a_line_through_trees_knows_its_ends():
    model = forest()
    x = torch.tensor([0.3, 0.9], dtype=torch.float64)
    line = line_along(model, x, 0, 0.0, 1.0)
    cuts = set(model.forest.cuts[0].tolist()) | {0.0, 1.0}
    assert {end for part in line.accepted for end in (part.low, part.high)} <= cuts
    for part in line.accepted:  # a cut is still on its left side
        assert part.low == 0.0 or not part.has_low
        assert part.has_high


def test_plain_functions_are_scanned():
    line = line_along(lambda x: x[:, 0].abs() - 0.75, torch.zeros(1, dtype=torch.float64), 0, -3.0, 3.0)
    assert not line.exact and line.accepted == (Interval(-3, -0.75), Interval(0.75, 3))


def test_lengths_equal_to_a_width_up_to_rounding_are_equal_to_it():
    """A start lies in its own part, and the answer does not hang on the last digit."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        a, b = np.sort(rng.uniform(-1, 1, 2)).tolist()
        w = b - a
        line = AcceptedIntervals(-3.0, 3.0, (Interval(-3.0, a), Interval(b, 3.0)), True)
        for delta in (w, math.nextafter(w, 0), math.nextafter(w, 9)):
            assert one_dimension(line, delta).possible
        for delta in (w / 2, math.nextafter(w / 2, 0), w / 2 * (1 + 1e-15)):
            assert not one_dimension(line, delta).possible
        own = AcceptedIntervals(
            -3.0, 3.0, (Interval(-3.0, a, True, False), Interval(b, 3.0, False, True)), True
        )  # refused [a, b]
        for delta in (w, math.nextafter(w, 0), math.nextafter(w, 9)):
            assert not one_dimension(own, delta).possible
        for each in (line, own):
            for delta in (w / 2, w, math.nextafter(w, 0), w / 2 * (1 + 1e-15), w * (1 - 1e-14), w / 2 * (1 + 1e-14)):
                for conflict in one_dimension(each, delta).conflicts:
                    assert conflict.start[0] in conflict.left_only and conflict.start[1] in conflict.right_only
                    assert conflict.start[0] < conflict.start[1]


def test_given_roots_are_checked():
    never = lambda t: -torch.ones_like(t)  # noqa: E731
    with pytest.raises(AuditError, match=r"f is -1 at the root -0\.75"):
        one_dimension(never, 1.0, -2, 2, roots=[-0.75, 0.75])
    with pytest.raises(AuditError, match="between the roots that are given"):
        one_dimension(valley(0.75), 1.0, -2, 2, roots=[0.75])
    with pytest.raises(AuditError, match="between the roots that are given"):
        one_dimension(valley(0.75), 1.0, -2, 2, roots=[])
    steep = lambda t: 1e9 * (t.exp() - math.e)  # noqa: E731
    assert one_dimension(steep, 1.0, -2, 9, roots=[1.0]).exact  # zero up to rounding, for its slope
    assert one_dimension(lambda t: t * 0, 1.0, -1, 1, roots=[0.5]).possible


def test_a_line_along_a_feature_is_asked_for_with_care():
    model = net(1)
    x = torch.tensor([0.3, 0.2], dtype=torch.float64)
    report = one_dimension(line_along(model, x, 0, 0.0, 1.0), 0.2)
    assert report.exact
    for call, text in (
        (lambda: line_along(model, x, 2, 0.0, 1.0), "column 2 is asked for"),
        (lambda: line_along(model, x, 0, 1.0, 0.0), "is no range"),
        (lambda: line_along(model, x.unsqueeze(0), 0, 0.0, 1.0), "one point (d,)"),
    ):
        with pytest.raises(AuditError, match=re.escape(text)):
            call()


def test_a_function_with_gradients_may_be_asked():
    slope = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    assert one_dimension(lambda t: t * slope, 1.0, -2, 2).possible


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: one_dimension(3, 1.0, -1, 1), "f is a int"),
        (lambda: one_dimension(lambda t: "yes", 1.0, -1, 1), "f answers with str"),
        (lambda: one_dimension(valley(1), 0, -1, 1), "delta=0 is not a number above 0"),
        (lambda: one_dimension(valley(1), float("nan"), -1, 1), "is not a number above 0"),
        (lambda: one_dimension(valley(1), True, -1, 1), "delta=True is not a number above 0"),
        (lambda: one_dimension(valley(1), 1.0), "range of the line is not given"),
        (lambda: one_dimension(valley(1), 1.0, 1, -1), "[1, -1] is no range"),
        (lambda: one_dimension(valley(1), 1.0, -1, float("inf")), "is no range"),
        (
            lambda: one_dimension(valley(1), 1.0, -1, 1, moves="left"),
            "moves='left' is not one of 'free', 'up', 'down', 'fixed'",
        ),
        (lambda: one_dimension(valley(1), 1.0, -1, 1, cells=0), "cells=0"),
        (lambda: one_dimension(valley(1), 1.0, -1, 1, roots=[float("nan")]), "a root is NaN"),
        (lambda: one_dimension(lambda x: x.log(), 1.0, -1, 1), "f is NaN at"),
        (lambda: one_dimension(lambda x: x[:2], 1.0, -1, 1), "with shape (2,)"),
        (
            lambda: one_dimension(AcceptedIntervals(-1.0, 1.0, (), True), 1.0, low=-1),
            "AcceptedIntervals have their own range",
        ),
    ],
)
def test_errors(call, text):
    with pytest.raises(AuditError) as error:
        call()
    assert text in str(error.value)


def test_all_or_nothing_accepted():
    assert one_dimension(lambda x: x * 0 + 1, 1.0, -1, 1) == one_dimension(lambda x: x * 0 + 1, 1.0, -1, 1, cells=1)
    for sign in (-1, 1):
        report = one_dimension(lambda x, s=sign: x * 0 + s, 1.0, -1, 1)
        assert report.possible and not report.components
