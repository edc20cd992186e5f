"""Effective classifiers, partners and invariance: by hand, by brute force and by theorem."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import turnabout as ta
from hand import linear
from turnabout.studies.strategic.ball_search import in_ball, into_ball
from turnabout.studies.strategic.effective import (
    Halfspaces,
    NearestCell,
    effective_classifier,
    invariance_check,
    partner,
)

PLANE = ta.Schema((ta.Number("a", low=0, high=1), ta.Number("b", low=0, high=1)))
MIXED = ta.Schema(
    (
        ta.Number("a", low=0, high=1, missing=True),
        ta.Category("c", levels=("p", "q", "r")),
        ta.Number("b", low=0, high=1),
    )
)


def plane_model(weights, bias):
    return linear(weights, bias, PLANE)


def plane(n, seed=0):
    return pd.DataFrame(np.random.default_rng(seed).random((n, 2)), columns=["a", "b"])


def forest(estimator, seed=0):
    table = plane(200, seed)
    y = ((table["a"] - 0.4) ** 2 + (table["b"] - 0.6) ** 2 < 0.09).to_numpy()
    return ta.models.wrap(estimator.fit(table, y), PLANE)


def grid(steps):
    axis = (np.arange(steps) + 0.5) / steps
    return torch.from_numpy(np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2))


# -- linear models ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("norm", "dual"), [(1, 4.0), (2, 5.0), (math.inf, 7.0)])
def test_linear_margin_rises_by_the_dual_norm(norm, dual):
    model = plane_model((3.0, -4.0), -1.0)
    near = effective_classifier(model, 0.1, norm)
    x = torch.tensor([[0.2, 0.3]], dtype=torch.float64)
    assert near.margin(x).item() == pytest.approx(3 * 0.2 - 4 * 0.3 - 1 + 0.1 * dual)
    assert near.exact and near.model is not None and "closed form" in str(near)


@given(
    weights=st.tuples(*[st.floats(-3, 3).filter(lambda w: abs(w) > 0.05)] * 2),
    bias=st.floats(-2, 2),
    distance=st.floats(0, 1),
    norm=st.sampled_from([1, 2, math.inf]),
)
@settings(max_examples=40, deadline=None)
def test_effective_of_partner_is_the_model(weights, bias, distance, norm):
    model = plane_model(weights, bias)
    back = effective_classifier(partner(model, distance, norm), distance, norm)
    x = grid(6)
    assert torch.allclose(back.margin(x), model.margin(x), atol=1e-12)


def test_partner_asks_the_original_about_tables():
    model = partner(plane_model((3.0, -4.0), 0.5), 0.1)
    assert model.judge(pd.DataFrame({"a": [0.5], "b": [0.25]}))[0] == pytest.approx(1.5 - 1 + 0.5 - 0.5)


# -- trees ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [1, 2, math.inf])
@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(max_depth=4, random_state=0),
        RandomForestClassifier(8, max_depth=3, random_state=0),
        GradientBoostingClassifier(n_estimators=10, max_depth=2, random_state=0),
    ],
    ids=lambda e: type(e).__name__,
)
def test_trees_agree_with_brute_force(estimator, norm):
    model = forest(estimator)
    fine = grid(300)
    yes = fine[model.margin(fine) >= 0]
    assert 0 < len(yes) < len(fine)
    x = PLANE.encode(plane(60, seed=5))
    away = torch.cdist(x, yes, p=norm).amin(1)
    distance, point = NearestCell(model, norm).find(x, within=10.0)
    cell = 2.0 / 300  # a box narrower than the grid's step may be missed by brute force, never by the search
    assert (distance <= away + 1e-12).all()
    assert (distance >= away - cell).float().mean() > 0.9
    assert (model.margin(point) >= 0).all()
    reached = torch.linalg.vector_norm(point - x, ord=norm, dim=1)
    assert torch.allclose(reached, distance, atol=1e-12)


def test_trees_in_effect_by_hand():
    # yes iff a > 0.5: the cut is half way between the training values, in the single precision of scikit-learn
    tree = DecisionTreeClassifier().fit(pd.DataFrame({"a": [0.25, 0.75], "b": [0.5, 0.5]}), [False, True])
    near = effective_classifier(ta.models.wrap(tree, PLANE), 0.25)
    people = pd.DataFrame({"a": [0.2499, 0.2501, 0.5, 0.9], "b": 0.1})
    assert near.accepts(people).tolist() == [False, True, True, True]
    margin = near.margin(PLANE.encode(people))
    assert margin[1:].tolist() == pytest.approx([0.0001, 0.25, 0.25], abs=1e-7) and margin[0] == -math.inf
    assert near.exact and near.model is None


def test_a_level_changes_as_a_whole_and_a_missing_cell_stays():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"a": rng.random(300), "c": rng.choice(["p", "q", "r"], 300), "b": rng.random(300)})
    table.loc[::7, "a"] = np.nan
    y = ((table["c"] == "q") & (table["b"] > 0.5)) | (table["a"] > 0.8)

    encode = make_column_transformer((OneHotEncoder(), ["c"]), remainder="passthrough")
    estimator = make_pipeline(encode, RandomForestClassifier(6, max_depth=4, random_state=0)).fit(table, y)
    model = ta.models.wrap(estimator, MIXED, background=table)
    assert isinstance(model, ta.models.Trees)
    people = table.iloc[:80]
    x = MIXED.encode(people)
    distance, point = NearestCell(model, 2.0).find(x, within=10.0)
    assert (model.margin(point)[torch.isfinite(distance)] >= 0).all()
    levels = slice(MIXED.slices[1].start, MIXED.slices[1].stop)
    assert ((point[:, levels] == 0) | (point[:, levels] == 1)).all() and (point[:, levels].sum(1) == 1).all()
    flag = int(MIXED.missing_column[MIXED.slices[0].start])
    assert (point[:, flag] == x[:, flag]).all()
    axis = (np.arange(60) + 0.5) / 60
    rows = pd.DataFrame([(a, c, b) for a in axis for c in "pqr" for b in axis], columns=["a", "c", "b"])
    gone = pd.DataFrame([(np.nan, c, b) for c in "pqr" for b in axis], columns=["a", "c", "b"])
    for own, present in ((rows, True), (gone, False)):
        z = MIXED.encode(own)
        yes = z[model.margin(z) >= 0]
        who = (x[:, flag] < 0.5) == present
        columns = [j for j in range(MIXED.d) if present or j != MIXED.slices[0].start]
        away = torch.cdist(x[who][:, columns], yes[:, columns]).amin(1) if len(yes) else torch.full((1,), math.inf)
        assert (distance[who] <= away + 1e-9).all()
        assert (distance[who] >= away - 2 / 60).float().mean() > 0.9


def test_a_forest_that_never_says_yes():
    never = DecisionTreeClassifier().fit(plane(4), [True, False, False, False])
    model = ta.models.wrap(never, PLANE).shifted(5.0)
    near = effective_classifier(model, 100.0)
    assert not near.accepts(plane(5)).any()
    assert len(near.margin(torch.zeros(0, 2, dtype=torch.float64))) == 0


def test_too_large_a_search_is_refused(monkeypatch):
    monkeypatch.setattr("turnabout.studies.strategic.effective.MOST_CELLS", 100)
    near = effective_classifier(forest(RandomForestClassifier(20, random_state=0)), 0.3)
    with pytest.raises(ta.errors.AuditError, match="too many cells within reach"):
        near.accepts(plane(50))


# -- models that are searched -----------------------------------------------------------------------------------


def smooth_disc():
    class Disc(torch.nn.Module):
        def forward(self, x):
            return 0.04 - ((x - 0.5) ** 2).sum(-1, keepdim=True)  # yes within 0.2 of the middle

    return ta.models.wrap(Disc(), PLANE, output="logit")


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_a_search_only_says_yes_where_it_is_so(norm):
    near = effective_classifier(smooth_disc(), 0.15, norm)
    x = grid(25)
    axis = (np.arange(400) + 0.5) / 400
    fine = torch.from_numpy(np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2))
    disc = fine[((fine - 0.5) ** 2).sum(1) <= 0.04]
    away = torch.cdist(x, disc, p=norm).amin(1)
    yes = torch.from_numpy(near.accepts(x))
    assert not near.exact and "a no is not" in str(near)
    assert (away[yes] <= 0.15 + 0.005).all()  # sound
    assert yes[away <= 0.14].all()  # and here nothing is missed


def test_a_function_is_asked_at_random_points():
    model = ta.models.wrap(lambda table: (table["a"] > 0.5) * 1.0, PLANE, threshold=0.5)
    near = effective_classifier(model, 0.2)
    people = pd.DataFrame({"a": [0.1, 0.29, 0.45, 0.6], "b": 0.5})
    assert near.accepts(people).tolist() == [False, False, True, True]
    assert (near.accepts(people) == near.accepts(people[::-1])[::-1]).all()


def test_another_level_is_far():
    """A point near a row may be nearest to a legal row that is not: a level changes as a whole, sqrt(2) away."""
    schema = ta.Schema((ta.Category("c", levels=("p", "q", "r")), ta.Number("a", low=0, high=1)))
    model = ta.models.wrap(lambda table: (table["c"].to_numpy() == "q") * 1.0, schema, threshold=0.5)
    person = pd.DataFrame({"c": ["p"], "a": [0.5]})
    assert effective_classifier(model, 0.8).accepts(person).tolist() == [False]
    assert effective_classifier(model, 1.5).accepts(person).tolist() == [True]
    steps = ta.Schema((ta.Number("a", low=0, high=10, step=5),))
    model = ta.models.wrap(lambda table: (table["a"].to_numpy() >= 5) * 1.0, steps, threshold=0.5)
    zero = pd.DataFrame({"a": [0.0]})
    assert effective_classifier(model, 0.3).accepts(zero).tolist() == [False]
    assert effective_classifier(model, 0.6).accepts(zero).tolist() == [True]


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_balls(norm):
    rng = np.random.default_rng(0)
    inside = in_ball(500, 3, norm, rng)
    assert torch.linalg.vector_norm(inside, ord=norm, dim=1).max() <= 1 + 1e-12
    outside = torch.from_numpy(rng.standard_normal((200, 3)))
    moved = into_ball(outside, 0.5, norm)
    assert torch.linalg.vector_norm(moved, ord=norm, dim=1).max() <= 0.5 + 1e-12
    others = 0.5 * in_ball(400, 3, norm, rng)
    assert (torch.linalg.vector_norm(moved - outside, dim=1) <= torch.cdist(outside, others).amin(1) + 1e-9).all()
    small = 0.4 * inside
    assert torch.allclose(into_ball(small, 0.5, norm), small)


# -- invariance -------------------------------------------------------------------------------------------------


def test_all_halfspaces_are_invariant_and_a_bounded_family_is_not():
    model = plane_model((3.0, -4.0), 0.0)
    assert invariance_check(Halfspaces(model), 0.3).invariant
    assert invariance_check(Halfspaces(model, low=0.0), 0.3).invariant
    report = invariance_check(Halfspaces(model, high=1.0), 0.3)
    assert not report.invariant and report.proved and "threshold 1 needs 1.3" in str(report)
    assert invariance_check(Halfspaces(model, high=1.0), 0.0).invariant
    assert report.to_dict()["members"] is None


def test_a_list_of_halfspaces():
    model = plane_model((3.0, -4.0), 0.0)
    ladder = [model.shifted(0.5 * i) for i in range(4)]  # |w| = 5: steps of 0.1
    report = invariance_check(ladder, 0.1)
    assert report.partners == ((1,), (2,), (3,), ())
    assert not report.invariant and report.proved and "member 3 has no partner" in report.counter_example
    # the same boundary twice: no unique partner
    twice = invariance_check([model, partner(model, 0.1), plane_model((6.0, -8.0), -1.0)], 0.1)
    assert twice.partners[0] == (1, 2) and "member 0 has the partners [1, 2]" in str(twice)
    assert invariance_check(ladder, 0.0).invariant


def test_trees_are_compared_at_points():
    rows = pd.DataFrame({"a": [0.2, 0.4, 0.6, 0.8], "b": 0.5})
    steps = [ta.models.wrap(DecisionTreeClassifier().fit(rows, rows["a"] > cut), PLANE) for cut in (0.3, 0.5, 0.7)]
    report = invariance_check(steps, 0.2, points=plane(300))
    assert report.partners == ((1,), (2,), ()) and report.proved  # a difference at a point is a proof
    alone = invariance_check(steps[:1], 0.0, points=plane(300))
    assert alone.invariant and not alone.proved and "as far as the points tell" in str(alone)


# -- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m: effective_classifier(m, -1), "distance=-1 is no distance"),
        (lambda m: effective_classifier(m, math.nan), "distance=nan is no distance"),
        (lambda m: effective_classifier(m, 1, norm=3), "norm=3 is not one of"),
        (lambda m: effective_classifier(m, 1, seed=-1), "seed=-1"),
        (lambda m: effective_classifier("model", 1), "str is not a wrapped model"),
        (lambda m: effective_classifier(m, 1).margin(torch.zeros(2, 5)), r"rows of shape \(2, 5\)"),
        (lambda m: partner(smooth_disc(), 1), "is not linear"),
        (lambda m: invariance_check([], 1), "the family is empty"),
        (lambda m: invariance_check([m, smooth_disc()], 1), "compared at points"),
        (lambda m: invariance_check([m, smooth_disc()], 1, points=plane(3)), "only be searched for"),
        (lambda m: invariance_check([forest(DecisionTreeClassifier())], 1, points=plane(0)), "no points to compare"),
        (lambda m: invariance_check([m, linear()], 1), "different schemas"),
        (lambda m: invariance_check([plane_model((0.0, 0.0), 1.0)], 1), "has no boundary"),
        (lambda m: invariance_check(Halfspaces(m, 2, 1), 1), "no threshold from 2 to 1"),
        (lambda m: invariance_check(Halfspaces(smooth_disc()), 1), "has no direction"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(ta.errors.AuditError, match=text):
        call(plane_model((3.0, -4.0), 0.0))
