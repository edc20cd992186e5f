"""Every map is caught where there is a conflict, and none where there is not."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import turnabout as ta
from turnabout.errors import AuditError, ProblemError
from turnabout.studies.attribution_maps.conflict import find_conflicts, in_conflict
from turnabout.studies.attribution_maps.line import one_dimension
from turnabout.studies.attribution_maps.map_moves import Anywhere, OneFeature
from turnabout.studies.attribution_maps.map_report import audit_attribution
from turnabout.studies.attribution_maps.sensitivity import recourse_sensitivity
from turnabout.studies.attribution_maps.witness import BrokenPremise, WitnessKind, find_witness

ONE = torch.ones(1, dtype=torch.float64)


def valley(x, a=0.75):
    return x[:, 0].abs() - a


def fourier(seed):
    """A random smooth map of one column."""
    rng = np.random.default_rng(seed)
    amplitude, speed, phase = (torch.as_tensor(rng.normal(size=5) * s) for s in (1, 6, 3))
    return lambda x: (amplitude * torch.sin(x * speed + phase)).sum(1, keepdim=True)


def steps(seed):
    """A random step map."""
    rng = np.random.default_rng(seed)
    edges = torch.as_tensor(np.sort(rng.uniform(-0.7, 0.7, 6)))
    values = torch.as_tensor(rng.normal(size=7))
    return lambda x: values[torch.bucketize(x.contiguous(), edges)]


ZOO = {
    "gradient": torch.sign,
    "identity": lambda x: x,
    "minus": lambda x: -x,
    "zero": torch.zeros_like,
    "up": torch.ones_like,
    "down": lambda x: -torch.ones_like(x),
    "tiny": lambda x: 1e-40 * (x - 0.1),
    "huge": lambda x: 1e40 * (x + 0.2),
    "nearest": lambda x: torch.where(x > 0, 0.75, -0.75) - x,
    "late step": lambda x: torch.sign(x - 0.2),
    "dead zone": lambda x: torch.where(x.abs() < 0.1, 0.0, x),
    "silent at one point": lambda x: torch.where(x == 0.1, 0.0, torch.where(x > 0.1, 1.0, -1.0)),
    "steep": lambda x: torch.tanh(1e4 * (x - 0.07)),
    "dense": lambda x: torch.sin(400 * x),
    "cubic": lambda x: (x - 0.05) ** 3,
    "a set of one": lambda x: torch.sign(x).unsqueeze(1),
    "two to the right": lambda x: torch.stack([torch.ones_like(x), 2 * torch.ones_like(x)], 1),
    "a set that switches": lambda x: torch.stack([torch.sign(x), torch.sign(x - 0.1)], 1),
    "an empty set": lambda x: torch.zeros(len(x), 2, 1, dtype=x.dtype),
}


def caught(phi, a=0.75, delta=1.0):
    (conflict,) = one_dimension(lambda x: x.abs() - a, delta, -3, 3, roots=[-a, a]).conflicts
    x_a, x_b = (torch.tensor([end], dtype=torch.float64) for end in conflict.start)
    return find_witness(lambda x: valley(x, a), phi, x_a, x_b, ONE, delta)


def check(witness, phi, a=0.75, delta=1.0):
    """The certificate says what is so."""
    assert witness is not None
    assert json.dumps(witness.to_dict(), allow_nan=False) and str(witness)
    x = torch.tensor([witness.x], dtype=torch.float64)
    assert -a < witness.x[0] < a
    if witness.kind is WitnessKind.JUMP:
        near = x + torch.linspace(-2, 2, 401, dtype=torch.float64).unsqueeze(1) * witness.width
        said = phi(near).reshape(401, -1)
        assert float((said - said[0]).abs().max()) >= 0.9 * witness.size > 0
        assert witness.width < 1e-9 and witness.recourse is None
        return
    assert abs(witness.recourse[0]) >= a and abs(witness.recourse[0] - witness.x[0]) <= delta
    said = phi(x).flatten()
    if witness.kind is WitnessKind.VANISHING:
        assert float(said.abs().max()) == witness.size
        assert witness.size <= 1e-5 * float(
            phi(torch.linspace(-a, a, 99, dtype=torch.float64).unsqueeze(1)).abs().max()
        )
    else:
        for v in said.tolist():
            assert v != 0 and abs(witness.x[0] + math.copysign(delta, v)) < a


@pytest.mark.parametrize("name", ZOO)
def test_every_map_of_the_zoo_is_caught(name):
    check(caught(ZOO[name]), ZOO[name])


def test_which_certificate():
    kinds = {name: caught(phi).kind for name, phi in ZOO.items()}
    jump, wrong, vanishing = WitnessKind.JUMP, WitnessKind.WRONG_DIRECTION, WitnessKind.VANISHING
    for name in ("gradient", "nearest", "late step", "silent at one point"):
        assert kinds[name] is jump
    for name in ("up", "down", "minus", "two to the right"):
        assert kinds[name] is wrong
    for name in ("identity", "zero", "tiny", "huge", "dead zone", "steep", "cubic", "an empty set"):
        assert kinds[name] is vanishing
    assert caught(ZOO["tiny"]).x[0] == pytest.approx(0.1) and caught(ZOO["late step"]).x[0] == pytest.approx(0.2)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.floats(0.52, 1.0))
def test_random_maps_are_caught(seed, smooth, a):
    phi = fourier(seed) if smooth else steps(seed)
    check(caught(phi, a), phi, a)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(-30, 30), min_size=2, max_size=6, unique=True), st.integers(1, 40))
def test_the_audit_agrees_with_the_exact_decision(seed, roots, delta):
    """Products of (x - root): a witness for every map iff one dimension says impossible."""
    at = torch.tensor(sorted(roots), dtype=torch.float64) / 10
    f = lambda x: (x[:, :1] - at).prod(1)  # noqa: E731
    delta = delta / 10 + 0.013  # not a difference, nor half of one
    line = one_dimension(lambda x: f(x.unsqueeze(1)), delta, -8, 8, roots=at.tolist())
    points = torch.linspace(-3.05, 3.05, 123, dtype=torch.float64).unsqueeze(1)
    for phi in (fourier(seed), torch.sign, torch.zeros_like):
        report = audit_attribution(f, phi, points, delta, rhos=[0.1])
        assert (report.witness is not None) is not line.possible
        assert (report.conflicts[0].rate.hits > 0) is not line.possible


@pytest.mark.parametrize(("a", "way"), [(0.3, "right"), (0.5, "right"), (1.2, "away")])
def test_where_there_is_no_conflict_a_valid_map_passes(a, way):
    f = lambda x: valley(x, a)  # noqa: E731
    points = torch.linspace(-1.5, 1.5, 301, dtype=torch.float64).unsqueeze(1)
    phi = torch.ones_like if way == "right" else (lambda x: x**3)  # |x| <= 0.2 is out of everybody's reach for a = 1.2
    report = audit_attribution(f, phi, points, 1.0)
    assert report.witness is None and report.pairs == 0 and report.sensitivity.rate.value == 1.0
    assert not report.continuity.diverges and report.conflicts[0].rate.hits == 0
    assert "no two points were found" in str(report)


def test_one_way_only_passes():
    points = torch.linspace(-0.7, 0.7, 57, dtype=torch.float64).unsqueeze(1)
    up = Anywhere(lambda x: (x, torch.full_like(x, 3.0)))
    report = audit_attribution(valley, torch.ones_like, points, 1.0, up)
    assert report.witness is None and report.conflicts[0].rate.hits == 0
    # from below -0.25 nothing is within reach upwards; a grid cannot prove that
    assert report.sensitivity.rate.value == 1.0 and report.sensitivity.unknown == (points < -0.25).sum()


# -- more columns -------------------------------------------------------------------------------------------------

PLANE = torch.as_tensor(np.random.default_rng(3).uniform(-1, 1, (150, 2)))


def turning(x):
    """Continuous, and never 0: it turns from left to right through up."""
    return torch.stack([torch.sin(2 * x[:, 0]), torch.cos(2 * x[:, 0])], 1)


@pytest.mark.parametrize(
    ("phi", "kind"),
    [
        (lambda x: torch.sign(x) * x.new_tensor([1.0, 0.0]), WitnessKind.JUMP),
        (lambda x: torch.tanh(5 * x) * x.new_tensor([1.0, 0.0]), WitnessKind.VANISHING),
        (turning, WitnessKind.WRONG_DIRECTION),
        (lambda x: x.new_tensor([1.0, 0.2]).expand_as(x), WitnessKind.WRONG_DIRECTION),
    ],
)
def test_a_valley_in_the_plane(phi, kind):
    report = audit_attribution(valley, phi, PLANE, 1.0, rhos=[0.1, 0.01])
    assert report.witness.kind is kind and report.conflicts == ()
    x = torch.tensor([report.witness.x], dtype=torch.float64)
    assert valley(x) < 0
    if kind is not WitnessKind.JUMP:
        y = torch.tensor([report.witness.recourse], dtype=torch.float64)
        assert valley(y) >= 0 and (y - x).norm() <= 1
    if kind is WitnessKind.WRONG_DIRECTION:
        assert recourse_sensitivity(valley, phi, x, 1.0).verdicts == ("fails",)


def test_pairs_in_the_plane_are_separated():
    pairs = find_conflicts(valley, PLANE, 1.0)
    assert pairs and all(pair.sampled for pair in pairs)
    for pair in pairs:
        w = np.array(pair.direction)
        assert np.linalg.norm(w) == pytest.approx(1.0) and abs(w[0]) > 0.7
        sign = np.sign(w[0])
        assert sign * pair.x_a[0] < -0.25 and sign * pair.x_b[0] > 0.25  # on L \\ R and R \\ L
        assert json.dumps(pair.to_dict(), allow_nan=False)


def test_in_a_bowl_a_map_may_turn_and_nothing_is_claimed():
    bowl = lambda x: x.norm(dim=1) - 0.75  # noqa: E731
    report = audit_attribution(bowl, lambda x: x, PLANE * 0.5, 1.0, rhos=[0.1])
    assert report.witness is None  # x -> x does vanish at 0, but no plane parts the ways out around it
    assert find_conflicts(bowl, PLANE * 0.5, 1.0) == ()


def test_a_linear_model_has_no_conflict():
    schema = ta.Schema((ta.Number("a", 0, 1), ta.Number("b", 0, 1)))
    layer = torch.nn.Linear(2, 1).double()
    model = ta.models.wrap(torch.nn.Sequential(layer), schema)
    report = audit_attribution(model, model.gradient, PLANE, 0.3)
    assert report.witness is None and report.pairs == 0 and report.sensitivity.exact
    assert report.sensitivity.rate.value in (None, 1.0) and report.sensitivity.unknown == 0


def island():
    from sklearn.ensemble import GradientBoostingClassifier

    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.uniform(size=500), "b": rng.uniform(size=500)})
    schema = ta.Schema((ta.Number("a", 0, 1), ta.Number("b", 0, 1)))
    fitted = GradientBoostingClassifier(n_estimators=10, max_depth=2, random_state=0)
    return ta.models.wrap(fitted.fit(rows, (rows.a - 0.5).abs() > 0.2), schema), schema


def test_trees_in_conflict_along_one_feature():
    model, schema = island()
    problem = ta.Problem(schema, model)
    x = torch.as_tensor(np.random.default_rng(1).uniform(size=(200, 2)))
    report = in_conflict(model, x, 0.25, 0, problem.bounds)
    refused = model.margin(x) < 0
    assert report.exact and report.rate.n == int(refused.sum())
    assert report.rate.value == 1.0  # a valley of width 0.4, and 0.2 <= 0.25 < 0.4
    assert not any(bad for bad, no in zip(report.conflicted, refused.tolist()) if not no)
    assert in_conflict(model, x, 0.15, 0, problem.bounds).rate.value == 0.0
    assert in_conflict(model, x, 0.45, 0, problem.bounds).rate.value == 0.0
    free = report.free_deltas
    assert (
        len(free) == 2 and free[0].high == pytest.approx(0.2, abs=0.02) and free[1].low == pytest.approx(0.4, abs=0.02)
    )
    assert free[1].high == math.inf and json.dumps(report.to_dict(), allow_nan=False)
    assert "nobody would be for" in str(report)
    audit = audit_attribution(model, lambda x: x - 0.5, x, 0.25, OneFeature(problem.bounds, 0))
    assert audit.witness.kind is WitnessKind.VANISHING and audit.witness.x[0] == pytest.approx(0.5)
    assert audit.witness.exact and audit.sensitivity.exact
    each = audit_attribution(model, lambda x: x - 0.5, x, 0.25, OneFeature(problem.bounds))
    assert len(each.conflicts) == 2 and each.conflicts[1].rate.value == 0.0
    assert each.witness.kind is WitnessKind.WRONG_DIRECTION and not each.notes  # the larger part of phi is of no use


def test_other_columns_do_not_hide_a_witness():
    """Only the feature that may change counts: phi is large, but not along it."""
    phi = lambda x: torch.stack([x[:, 0] - 0.1, 1 + 0 * x[:, 0]], 1)  # noqa: E731
    report = audit_attribution(valley, phi, PLANE, 1.0, OneFeature(column=0), rhos=[0.1])
    assert report.witness.kind is WitnessKind.VANISHING and report.witness.x[0] == pytest.approx(0.1)


def test_the_conflict_test_agrees_with_the_line():
    x = torch.linspace(-1.5, 1.5, 61, dtype=torch.float64).unsqueeze(1)
    for a in (0.3, 0.501, 0.75, 1.0, 1.001):
        report = in_conflict(lambda x, a=a: valley(x, a), x, 1.0, 0)
        possible = one_dimension(lambda x, a=a: x.abs() - a, 1.0, -3, 3, roots=[-a, a]).possible
        assert (report.rate.hits == 0) is possible
        assert all(bad is (not possible) for bad, v in zip(report.conflicted, x[:, 0].tolist()) if abs(v) < a)


def either(x):
    """A valley in column 0, and a way out by column 1."""
    return torch.maximum(x[:, 0].abs() - 0.75, x[:, 1] - 0.2)


def test_a_way_out_by_another_column_is_no_witness():
    x = torch.stack([torch.linspace(-0.7, 0.7, 20, dtype=torch.float64), torch.zeros(20, dtype=torch.float64)], 1)
    up = lambda x: x.new_tensor([0.0, 1.0]).expand_as(x)  # noqa: E731
    report = audit_attribution(either, up, x, 1.0, OneFeature())
    assert report.sensitivity.rate.hits == 20 and report.witness is None and report.pairs == 0
    assert report.conflicts[0].rate.value == 1.0 and report.conflicts[1].rate.value == 0.0
    assert report.notes == (
        "along column 0 people stand in conflict, but where two points were compared another column offers recourse.",
    )
    assert find_conflicts(either, x, 1.0, OneFeature()) == ()
    assert find_conflicts(either, x, 1.0, OneFeature(column=0)) != ()
    far = x - x.new_tensor([0.0, 1.0])  # column 1 is 1.2 away: nobody gets there by it
    caught_ = audit_attribution(either, up, far, 1.0, OneFeature())
    assert caught_.witness.kind is WitnessKind.WRONG_DIRECTION
    assert recourse_sensitivity(either, up, at(*caught_.witness.x).unsqueeze(0), 1.0, OneFeature()).verdicts == (
        "fails",
    )


def test_no_yes_no_witness():
    never = lambda x: -torch.ones(len(x), dtype=torch.float64)  # noqa: E731
    for phi in (torch.ones_like, torch.zeros_like, lambda x: x):
        assert find_witness(never, phi, at(-0.1), at(0.2), ONE, 1.0) is None


@pytest.mark.parametrize("a", [0.3, 0.15, 0.6, 0.5, 0.35, 0.05, 0.7])
def test_lengths_equal_to_the_width_or_half_of_it(a):
    x = torch.linspace(-a, a, 53, dtype=torch.float64)[1:-1].unsqueeze(1)
    f = lambda x: valley(x, a)  # noqa: E731
    whole = in_conflict(f, x, 2 * a, 0)
    assert (whole.rate.hits, whole.rate.n) == (0, 51) and any(2 * a in part for part in whole.free_deltas)
    half = in_conflict(f, x, a, 0)
    assert half.rate.hits == 51 and not any(a in part for part in half.free_deltas)
    assert audit_attribution(f, torch.sign, x, 2 * a, rhos=[0.1]).witness is None
    assert audit_attribution(f, torch.sign, x, a, rhos=[0.1]).witness is not None


def vee(a, k):
    """A ReLU net whose margin is |x - 1/2| - a."""
    net = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1)).double()
    with torch.no_grad():
        net[0].weight[:], net[0].bias[:] = at(k, -k).unsqueeze(1), at(-k / 2, k / 2)
        net[2].weight[:], net[2].bias[:] = at(1 / k, 1 / k), -a
    return ta.models.wrap(net, ta.Schema((ta.Number("a", 0, 1),)))


def test_the_recourse_of_a_witness_is_accepted_by_nets():
    rng = np.random.default_rng(0)
    seen = 0
    for _ in range(40):
        a = rng.uniform(0.1, 0.4)
        model, delta = vee(a, rng.uniform(0.5, 3)), a * rng.uniform(1.05, 1.9)
        x = torch.as_tensor(rng.uniform(size=(50, 1)))
        witness = audit_attribution(model, torch.ones_like, x, delta, rhos=[0.1]).witness
        if witness is not None and witness.recourse is not None:
            seen += 1
            assert float(model.margin(at(*witness.recourse).unsqueeze(0))[0]) >= 0
            assert abs(witness.recourse[0] - witness.x[0]) <= delta
        refused = x[model.margin(x) < 0]
        assert in_conflict(model, refused, 2 * a, 0).rate.value in (0.0, None)
        audit_attribution(model, torch.ones_like, x, 2 * a, rhos=[0.1])  # does not raise
    assert seen > 20


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_noise_is_no_wrong_direction_and_breaks_no_premise(spread):
    rng = np.random.default_rng(0)

    def phi(x):
        return torch.sign(x) + spread * torch.as_tensor(rng.standard_normal(tuple(x.shape))), torch.full_like(x, spread)

    for _ in range(60):
        witness = find_witness(valley, phi, at(-0.6), at(0.65), ONE, 1.0)  # right, but for its jump at 0
        assert witness is None or witness.kind is WitnessKind.JUMP
    x = torch.linspace(-0.7, 0.7, 57, dtype=torch.float64).unsqueeze(1)
    report = audit_attribution(valley, phi, x, 1.0, rhos=[0.1])
    assert report.pairs == 1 and report.broken == 0  # everybody is on one line
    assert report.witness is not None or "no two points were found" not in str(report)


def test_a_wrong_direction_beyond_the_noise_is_one():
    phi = lambda x: (torch.ones_like(x), torch.full_like(x, 0.1))  # noqa: E731
    assert caught(phi).kind is WitnessKind.WRONG_DIRECTION
    assert caught(lambda x: (torch.ones_like(x), torch.full_like(x, 0.3))) is None
    several = lambda x: (torch.ones(len(x), 2, 1, dtype=x.dtype), torch.full((len(x), 2, 1), 0.1))  # noqa: E731
    assert caught(several) is None  # a set with errors is not judged


def test_a_change_over_a_length_is_not_called_discontinuous():
    witness = caught(lambda x: torch.tanh(1e7 * (x - 0.07)))
    assert witness.kind is WitnessKind.JUMP and "changes by" in str(witness) and "over a length of" in str(witness)
    assert "not continuous" not in str(witness)


def test_noise_hides_a_change():
    def phi(x):
        said = torch.tanh(x - 0.1)
        return said, torch.full_like(said, 0.5)

    assert caught(phi) is None


def test_nobody_refused():
    report = audit_attribution(lambda x: x[:, 0] + 5, torch.sign, PLANE, 1.0)
    assert report.witness is None and report.sensitivity.rate.value is None
    assert report.notes == ("no point is refused: there is nothing to audit.",)
    assert json.dumps(report.to_dict(), allow_nan=False) and str(report)


def test_few_points_are_enough_for_slow_maps():
    asked = []

    def phi(x):
        asked.append(len(x))
        return torch.sign(x)

    report = audit_attribution(valley, phi, PLANE, 1.0, OneFeature(column=0), rhos=[0.1], most=5)
    assert report.continuity.n == 5 and "the first 5 refused points" in report.notes[0]
    assert report.witness.kind is WitnessKind.JUMP and sorted(asked)[-2] <= 5 * 16


def at(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: find_witness(valley, torch.sign, at(-2), at(0.5), ONE, 1.0), "x_a is accepted already"),
        (lambda: find_witness(valley, torch.sign, at(-0.5), at(2), ONE, 1.0), "x_b is accepted already"),
        (lambda: find_witness(valley, torch.sign, at(-0.5), at(0.5), at(0.0), 1.0), "or is 0"),
        (lambda: find_witness(valley, torch.sign, at(-0.5), at(0.5), at(1, 0), 1.0), "direction has 2 columns"),
        (lambda: find_witness(valley, torch.sign, at(-0.5), at(0.5), ONE, 0.0), "delta=0.0"),
        (lambda: find_witness(valley, torch.sign, at(-0.5), at(math.nan), ONE, 1.0), "point 1 holds NaN"),
        (lambda: find_witness(valley, torch.sign, at(-0.5), at(0.5), ONE, 1.0, tolerance=0), "tolerance=0"),
        (lambda: find_conflicts(valley, PLANE, 1.0, pairs=0), "pairs=0"),
        (lambda: find_conflicts(valley, PLANE, -1.0), "delta=-1.0"),
        (lambda: in_conflict(valley, PLANE, 1.0, 5), "column 5 is asked for"),
        (lambda: in_conflict(valley, PLANE, 1.0, 0, lambda x: (x - math.inf, x + math.inf)), "bounds are infinite"),
        (lambda: audit_attribution(valley, torch.sign, PLANE, 1.0, most=0), "most=0"),
        (lambda: audit_attribution(valley, lambda x: x[:, :1], PLANE, 1.0), "of 2 columns with shape"),
    ],
)
def test_errors(call, text):
    with pytest.raises((AuditError, ProblemError)) as error:
        call()
    assert text in str(error.value)


def test_a_premise_that_does_not_hold_is_said():
    # the ways are the wrong way round
    with pytest.raises(BrokenPremise, match="does not go the way"):
        find_witness(valley, torch.sign, at(-0.5), at(0.5), -ONE, 1.0)
    # for a = 1.2 the middle is out of reach, and the model must be exact to know
    schema = ta.Schema((ta.Number("a", -3, 3),))
    bend = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1)).double()
    with torch.no_grad():
        bend[0].weight[:], bend[0].bias[:] = torch.tensor([[6.0], [-6.0]]), torch.tensor([-3.0, 3.0])  # |a|, decoded
        bend[2].weight[:], bend[2].bias[:] = torch.tensor([[1.0, 1.0]]), -1.2
    model = ta.models.wrap(bend, schema)
    a, b = (schema.encode(pd.DataFrame({"a": [v]}))[0] for v in (-1.0, 0.9))
    with pytest.raises(BrokenPremise, match="is accepted or has no recourse"):
        find_witness(model, lambda x: x - 0.5, a, b, ONE, 1.0 / 6)
