"""Recourse-sensitive rates on lines, trees and nets, where brute force knows the answer."""

from __future__ import annotations

import json
import math

import pytest
import torch
from test_sensitivity_reach import forest, points

import turnabout as ta
from hand import SCHEMA as HAND
from hand import Raise, linear, table
from turnabout.errors import AuditError, ProblemError
from turnabout.studies.attribution_maps.attainable import attainable
from turnabout.studies.attribution_maps.map_moves import Anywhere, OneFeature
from turnabout.studies.attribution_maps.map_questions import Sticky, counterfactual_map
from turnabout.studies.attribution_maps.sensitivity import recourse_sensitivity


def plain(x):
    return x[:, 0] - 2 * x[:, 1] - 0.5


def test_what_only_a_search_could_find_is_unknown_and_never_none():
    x = points(50)
    within = attainable(plain, x[plain(x) < 0], Anywhere(), 0.2)
    assert set(within.status.tolist()) == {1, -1}
    report = recourse_sensitivity(plain, lambda x: -torch.ones_like(x), x, 0.2)
    assert report.none == 0 and report.unknown > 0
    assert report.lowest.n == report.rate.n + report.unknown and not report.exact


# -- rates --------------------------------------------------------------------------------------------------------


def test_rates_of_a_linear_model_by_hand():
    model = linear((0.06, -0.08, 0.0))  # 6 a - 4 b - 2.5 in encoded columns
    x = torch.tensor([[0.9, 0.0, 0], [0.3, 0.0, 0], [0.3, 0.5, 0], [0.0, 1.0, 0], [0.3, 0.1, 0]], dtype=torch.float64)
    report = recourse_sensitivity(model, lambda x: x.new_tensor([1.0, 0.0, 0.0]).expand_as(x), x, 0.2)
    # margins 2.9, -0.7, -2.7, -6.5, -1.1; along a at most +1.2; along the gradient at most +0.2 * sqrt(52) = 1.44
    assert report.verdicts == ("accepted", "sensitive", "none", "none", "sensitive")
    assert report.rate.hits == report.rate.n == 2 and report.none == 2 and report.accepted == 1 and report.exact
    down = recourse_sensitivity(model, lambda x: x.new_tensor([0.0, -1.0, 0.0]).expand_as(x), x, 0.2)
    # along b: margin rises by at most 0.8
    assert down.verdicts == ("accepted", "sensitive", "none", "none", "fails")
    assert json.dumps(down.to_dict(), allow_nan=False) and "without recourse within 0.2" in str(down)
    # main reason b: of the four refused only the second can get there by b alone
    lone = recourse_sensitivity(model, lambda x: x.new_tensor([0.1, -1.0, 0.0]).expand_as(x), x, 0.2, top=1)
    assert (lone.reasons_without_recourse.hits, lone.reasons_without_recourse.n) == (3, 4)
    two = recourse_sensitivity(model, lambda x: x.new_tensor([0.1, -1.0, 0.0]).expand_as(x), x, 0.2, top=2)
    assert two.reasons_without_recourse.hits == 2


def test_the_gradient_of_a_linear_model_is_always_sensitive():
    model = linear((0.06, -0.08, 0.0))
    report = recourse_sensitivity(model, model.gradient, points(300, 3), 0.3)
    assert report.rate.value == 1.0 and report.rate.n > 20 and report.none > 20 and report.unknown == 0
    against = recourse_sensitivity(model, lambda x: -model.gradient(x), points(300, 3), 0.3)
    assert against.rate.hits == 0 and against.rate.n == report.rate.n
    long = recourse_sensitivity(model, lambda x: 1e9 * model.gradient(x), points(300, 3), 0.3)
    short = recourse_sensitivity(model, lambda x: 1e-200 * model.gradient(x), points(300, 3), 0.3)
    assert long.verdicts == short.verdicts == report.verdicts  # length does not matter


def test_nearest_counterfactuals_of_trees_are_sensitive():
    model = forest()
    x = points(80, seed=5)
    x = x[model.margin(x) < 0]
    within = attainable(model, x, Anywhere(), 0.3)
    report = recourse_sensitivity(model, lambda x: within.place - x, x, 0.3)
    assert report.rate.value == 1.0 and report.none == int((within.status == 0).sum()) > 0


def test_bounds_project_the_map():
    model = linear((0.06, -0.08, 0.0))
    problem = ta.Problem(HAND, model)
    x = HAND.encode(table([30, 30, 95], [0, 20, 50]))
    allowed = Anywhere(problem.bounds)
    # debt may only fall and is 0 already; sex is fixed
    report = recourse_sensitivity(model, lambda x: x.new_tensor([1.0, -1.0, 5.0]).expand_as(x), x, 0.15, allowed)
    assert report.projected.value == 1.0
    # person 0: income alone, +0.15 * 6 = 0.9 >= 0.7; person 1: (1, -1) / sqrt 2 adds 0.15 * 10 / sqrt 2 = 1.06 < 2.3
    assert report.verdicts[0] == "sensitive" and report.verdicts[1] == "none"
    up = recourse_sensitivity(model, lambda x: x.new_tensor([0.0, 1.0, 0.0]).expand_as(x), x, 0.15, allowed)
    assert up.verdicts[0] == "fails" and up.projected.value == 1.0
    free = recourse_sensitivity(model, lambda x: x.new_tensor([1.0, 0.0, 0.0]).expand_as(x), x, 0.15, allowed)
    assert free.projected.value == 0.0


def test_one_feature_at_a_time():
    model = linear((0.06, -0.08, 0.0))
    x = torch.tensor([[0.3, 0.1, 0.0], [0.3, 0.0, 0.0]], dtype=torch.float64)  # margins -1.1, -0.7; a: +1.2, b: +0.8
    mixed = lambda x: x.new_tensor([0.9, -1.0, 0.0]).expand_as(x)  # noqa: E731
    any_ = recourse_sensitivity(model, mixed, x, 0.2, OneFeature())
    assert any_.verdicts == ("fails", "sensitive") and any_.projected.value == 1.0  # b is the larger one
    assert recourse_sensitivity(model, mixed, x, 0.2, OneFeature(column=0)).verdicts == ("sensitive", "sensitive")
    assert recourse_sensitivity(model, mixed, x, 0.2, OneFeature(column=1)).verdicts == ("none", "sensitive")
    assert recourse_sensitivity(forest(), mixed2, points(20), 0.2, OneFeature(column=1)).unknown == 0


def mixed2(x):
    return x.new_tensor([0.9, -1.0]).expand_as(x)


def test_reasons_that_may_not_change_offer_no_recourse():
    f = lambda x: x[:, 1] - 0.5  # noqa: E731
    x = torch.zeros(1, 2, dtype=torch.float64)
    for column, hits in ((0, 1), (1, 0), (None, 0)):
        report = recourse_sensitivity(f, torch.ones_like, x, 1.0, OneFeature(column=column))
        assert (report.reasons_without_recourse.hits, report.reasons_without_recourse.n) == (hits, 1)


def test_of_several_options_one_is_enough():
    both = lambda x: torch.stack([-torch.ones_like(x), torch.ones_like(x)], 1)  # noqa: E731
    f = lambda x: x[:, 0].abs() - 0.75  # noqa: E731
    x = torch.linspace(-0.7, 0.7, 29, dtype=torch.float64).unsqueeze(1)
    assert recourse_sensitivity(f, both, x, 1.0).rate.value == 1.0
    assert recourse_sensitivity(f, lambda x: both(x)[:, :1], x, 1.0).rate.value < 0.7
    # a list of sets of different sizes: nothing to say on the left, two options on the right
    ragged = lambda x: [row.new_tensor([[-1.0], [1.0]] if row > 0 else []).reshape(-1, 1) for row in x]  # noqa: E731
    report = recourse_sensitivity(f, ragged, x, 1.0)
    assert all(v == ("sensitive" if p > 0 else "fails") for v, p in zip(report.verdicts, x[:, 0].tolist()))


def test_nobody_refused_is_unknown():
    for x in (torch.zeros(3, 2), torch.zeros(0, 2)):
        report = recourse_sensitivity(lambda x: x[:, 0] + 1, torch.zeros_like, x, 1.0)
        assert report.rate.value is None and report.reasons_without_recourse.value is None
        assert report.accepted == len(x) and "unknown (nobody to count)" in str(report)
        assert json.dumps(report.to_dict(), allow_nan=False)


def test_same_seed_same_answer():
    x = points(60)
    first, again = (recourse_sensitivity(plain, torch.ones_like, x, 0.2, seed=4) for _ in range(2))
    assert first == again


# -- maps ---------------------------------------------------------------------------------------------------------


def test_a_method_as_a_map():
    problem = ta.Problem(HAND, linear((0.06, -0.08, 0.0)))
    phi = counterfactual_map(Raise(30).fit(problem))
    x = HAND.encode(table([30, 90, 0], [0, 0, 50]))
    said = phi(x)
    assert said.shape == x.shape and (said[1:] == 0).all()  # accepted; refused even so
    assert said[0, 0] == pytest.approx(0.12) and (said[0, 1:] == 0).all()  # 42 is the least income that is accepted
    report = recourse_sensitivity(problem.model, phi, x, 0.5, Anywhere(problem.bounds))
    assert report.verdicts == ("sensitive", "accepted", "none")
    several = counterfactual_map(Raise(30).fit(problem), options=3)(x)
    assert several.shape == (3, 3, 3) and torch.equal(several[0], said[:1].expand(3, -1))
    assert phi(x[:0]).shape == (0, 3)


def test_sticky_keeps_the_first_promise():
    nearest = lambda x: torch.where(x >= 0, 0.75, -0.75) - x  # noqa: E731
    sticky = Sticky(nearest)
    here = torch.tensor([[0.1], [-0.1]], dtype=torch.float64)
    assert torch.allclose(sticky.recommend(["ann", "bob"], here), torch.tensor([[0.65], [-0.65]], dtype=torch.float64))
    # both cross the middle, where the map itself would turn around
    there = torch.tensor([[-0.2], [0.2]], dtype=torch.float64)
    assert torch.allclose(sticky.recommend(["ann", "bob"], there), torch.tensor([[0.95], [-0.95]], dtype=torch.float64))
    assert torch.allclose(sticky.of("ann")(there), 0.75 - there)
    quiet = Sticky(torch.zeros_like)
    assert (quiet.recommend(["ann"], here[:1]) == 0).all()
    quiet.phi = nearest  # who was told nothing is asked about again
    assert quiet.recommend(["ann"], here[:1])[0, 0] == pytest.approx(0.65)


X = points(5)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: recourse_sensitivity(plain, torch.ones_like, X, 0), "delta=0 is not a number above 0"),
        (lambda: recourse_sensitivity(plain, torch.ones_like, X, -1.0), "delta=-1.0 is not a number above 0"),
        (lambda: recourse_sensitivity(plain, torch.ones_like, X * math.nan, 1.0), "point 0 holds NaN"),
        (lambda: recourse_sensitivity(plain, torch.ones_like, X[0], 1.0), "points have shape (2,)"),
        (lambda: recourse_sensitivity(plain, torch.ones_like, "ann", 1.0), "the points are no numbers"),
        (lambda: recourse_sensitivity(plain, lambda x: x[:, :1], X, 1.0), "of 2 columns with shape"),
        (lambda: recourse_sensitivity(plain, lambda x: x[:, None, :][:, :0], X, 1.0), "of 2 columns with shape"),
        (lambda: recourse_sensitivity(plain, lambda x: x * math.nan, X, 1.0), "phi is NaN or infinite at point 0"),
        (lambda: recourse_sensitivity(plain, lambda x: "up", X, 1.0), "phi answers with str"),
        (lambda: recourse_sensitivity(plain, lambda x: (x, -x - 1), X, 1.0), "standard errors do not fit"),
        (lambda: recourse_sensitivity(plain, lambda x: [x[:1]], X, 1.0), "of 2 columns with shape"),
        (lambda: recourse_sensitivity(plain, lambda x: [x[0, :1]], X, 1.0), "phi answers with list"),
        (lambda: recourse_sensitivity(plain, 3, X, 1.0), "phi is a int"),
        (lambda: recourse_sensitivity(3, torch.ones_like, X, 1.0), "int has no margin"),
        (lambda: recourse_sensitivity(lambda x: x, torch.ones_like, X, 1.0), "with shape (5, 2)"),
        (lambda: recourse_sensitivity(lambda x: x[:, 0] * math.nan, torch.ones_like, X, 1.0), "NaN at 5 of 5 points"),
        (lambda: recourse_sensitivity(plain, torch.ones_like, X, 1.0, top=0), "top=0"),
        (lambda: recourse_sensitivity(plain, torch.ones_like, X, 1.0, seed=-1), "seed=-1"),
        (lambda: recourse_sensitivity(plain, torch.ones_like, X, 1.0, confidence=1), "confidence=1"),
        (lambda: recourse_sensitivity(plain, torch.ones_like, X, 1.0, "ball"), "moves='ball' is no set"),
        (lambda: recourse_sensitivity(plain, torch.ones_like, X, 1.0, OneFeature(column=2)), "column 2 is asked for"),
        (lambda: OneFeature(column=-1), "column=-1 is no column"),
        (lambda: Anywhere(norm=3), "norm=3 is none of"),
        (
            lambda: recourse_sensitivity(plain, torch.ones_like, X, 1.0, Anywhere(lambda x: (x[:1], x))),
            "bounds answers",
        ),
        (lambda: counterfactual_map(Raise()), "Raise has not seen a problem"),
        (lambda: counterfactual_map(plain), "is not a Method"),
        (lambda: counterfactual_map(Raise(), options=0), "options=0"),
        (lambda: Sticky(torch.ones_like).of("ann"), "nothing was promised to 'ann'"),
        (lambda: Sticky(torch.ones_like).recommend(["ann"], X), "1 different keys for 5 points"),
        (lambda: Sticky(lambda x: x[:, None]).recommend(list("abcde"), X), "names several options"),
    ],
)
def test_errors(call, text):
    with pytest.raises((AuditError, ProblemError)) as error:
        call()
    assert text in str(error.value)
