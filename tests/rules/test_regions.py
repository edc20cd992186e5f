"""Regions around people: closed forms against solvers, nearest points, and what never moves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import linprog, minimize
from scipy.sparse import block_diag, csr_matrix

from turnabout.rules import Around, Ball, Box, Budget, Polytope
from turnabout.rules.regions import vertices
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

EDUCATION = ("none", "school", "college", "bachelor", "master", "doctor")
TOWN = Schema(
    (
        Number("age", 18, 90, step=1, moves="fixed"),
        Number("hours", 0, 99, step=1),
        Ordinal("education", levels=EDUCATION, moves="up"),
        Category("housing", levels=("own", "rent", "free")),
        Category("sex", levels=("f", "m", "x"), moves="fixed"),
        Number("amount", 0, 1000, missing=True),
        Binary("phone", levels=("no", "yes")),
        Number("debt", 0, 50, moves="down"),
    )
)
REACH = {"hours": 9.25, "education": 2, "housing": 1, "amount": 100, "phone": 1, "debt": 20}
SCALES = {"hours": 12.0, "education": 2.5, "amount": 150.0, "debt": 10.0}
ROWS = [({"hours": -1, "education": -4}, 12.0), ({"hours": 1, "amount": -0.1}, 6.0), ({"debt": 1, "hours": 1}, 15.0)]
# k = 5 moving columns: C(3 + 10, 5) = 1287 sets of constraints are too many, so this one is solved by HiGHS
MANY = [*ROWS, ({"phone": -5, "amount": -0.2, "debt": 0.5}, 8.0)]
REGIONS = {
    "box": Box(REACH),
    "budget": Budget(30, REACH, {"hours": 1, "education": 6, "housing": 12, "amount": 0.1, "phone": 0, "debt": 2}),
    "l1 ball": Budget(40),
    "ball": Ball(0.8, SCALES),
    "polytope": Polytope(ROWS),
    "many": Polytope(MANY, reach={"hours": 20}),
}


def people(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    amount = rng.integers(0, 1001, n).astype(float)
    amount[::5] = np.nan
    return pd.DataFrame(
        {
            "age": rng.integers(18, 91, n),
            "hours": rng.integers(0, 100, n),
            "education": rng.choice(EDUCATION, n),
            "housing": rng.choice(["own", "rent", "free"], n),
            "sex": rng.choice(["f", "m", "x"], n),
            "amount": amount,
            "phone": rng.choice(["no", "yes"], n),
            "debt": rng.integers(0, 51, n).astype(float),
        }
    )


def draws(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def plain(lo: torch.Tensor, hi: torch.Tensor) -> Around:
    """A box of scalars with given limits."""
    return Around(torch.zeros_like(lo), lo, hi, torch.arange(lo.shape[-1]), torch.zeros(0, 0, dtype=torch.long))


def inside_points(around, count: int, seed: int = 2) -> torch.Tensor:
    """Random points of the region, (n, count, d): between projections of random changes."""
    n, d = around.x.shape
    flat = around.take(torch.arange(n).repeat_interleave(count))
    ends = [flat.project(0.5 * draws(n * count, d, seed=seed + i)) for i in range(2)]
    mix = torch.rand(n * count, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (mix * ends[0] + (1 - mix) * ends[1]).reshape(n, count, d)


# -- the best change along a slope --------------------------------------------------------------------------------


def test_the_box_is_a_linear_program_in_closed_form():
    n, d = 10_000, 6
    slope, lo, hi = draws(n, d), -draws(n, d, seed=2).abs(), draws(n, d, seed=3).abs()
    slope[:, 0] *= (torch.arange(n) % 3 > 0).double()
    lo[:, 1], hi[:, 2] = 0.0, 0.0
    ours = (slope * plain(lo, hi).steepest(slope)).sum(1)
    for part in torch.arange(n).split(2500):
        found = linprog(-slope[part].ravel().numpy(), bounds=np.column_stack([lo[part].ravel(), hi[part].ravel()]))
        theirs = (slope[part] * torch.from_numpy(found.x).reshape(-1, d)).sum(1)
        assert (ours[part] - theirs).abs().max() <= 1e-9


def test_columns_of_slope_zero_stay():
    x = TOWN.encode(people(20))
    for name, region in REGIONS.items():
        assert (region.bind(TOWN).around(x).steepest(torch.zeros_like(x)) == 0).all(), name
    slope = draws(20, TOWN.d)
    slope[:, 1] = 0.0
    for name in ("box", "budget", "ball"):
        assert (REGIONS[name].bind(TOWN).around(x).steepest(slope)[:, 1] == 0).all(), name


def budget_by_linprog(region, around, slope: torch.Tensor) -> np.ndarray:
    """Best gains over the budget: unknowns are rises and falls of scalars, and moves from the own level to others."""
    gains = []
    for x, lo, hi, g in zip(around.x, around.lo, around.hi, slope):
        c, cap, weight = [], [], []
        for j in around.scalar.tolist():
            c += [float(g[j]), -float(g[j])]
            cap += [float(hi[j]), -float(lo[j])]
            weight += [float(region.price[j])] * 2
        rows, most = [], []
        for group in around.group.tolist():
            own = group[int(x[group].argmax())]
            first = len(c)
            c += [float(g[j] - g[own]) for j in group]
            cap += [float(hi[j]) for j in group]
            weight += [float(region.price[group[0]])] * len(group)
            rows.append((first, len(c)))
        matrix = np.zeros((1 + len(rows), len(c)))
        matrix[0] = weight
        for i, (start, stop) in enumerate(rows, start=1):
            matrix[i, start:stop] = 1.0
        most = [region.limit] + [1.0] * len(rows)
        gains.append(-linprog(-np.array(c), A_ub=matrix, b_ub=most, bounds=[(0, u) for u in cap]).fun)
    return np.array(gains)


@pytest.mark.parametrize("name", ["budget", "l1 ball"])
def test_a_budget_is_filled_like_a_knapsack(name):
    region = REGIONS[name].bind(TOWN)
    x, slope = TOWN.encode(people(60)), draws(60, TOWN.d)
    slope[::7] *= 1e-6
    around = region.around(x)
    delta = around.steepest(slope)
    assert around.outside(delta).max() <= 1e-12
    gain = (slope * delta).sum(1).numpy()
    np.testing.assert_allclose(gain, budget_by_linprog(region, around, slope), atol=1e-9)


def test_an_l1_ball_without_limits_moves_one_column():
    line = Schema((Number("a", 0, 100), Number("b", 0, 100), Number("c", 0, 100)))
    x = torch.full((1, 3), 0.5, dtype=torch.float64)
    delta = Budget(10).bind(line).around(x).steepest(torch.tensor([[1.0, -3.0, 2.0]], dtype=torch.float64))
    assert delta.tolist() == [[0.0, -0.1, 0.0]]


def test_a_ball_without_limits_goes_along_the_slope():
    line = Schema((Number("a", 0, 100), Number("b", 0, 10)))
    x = torch.full((1, 2), 0.5, dtype=torch.float64)
    around = Ball(2.0, {"a": 10, "b": 1}).bind(line).around(x)  # scales are 0.1 of both ranges
    delta = around.steepest(torch.tensor([[3.0, -4.0]], dtype=torch.float64))
    torch.testing.assert_close(delta, torch.tensor([[0.12, -0.16]], dtype=torch.float64))


def test_a_ball_within_limits_is_what_an_optimiser_finds():
    region = REGIONS["ball"].bind(TOWN)
    x, slope = TOWN.encode(people(12, seed=5)), draws(12, TOWN.d, seed=6)
    around = region.around(x)
    delta = around.steepest(slope)
    assert around.outside(delta).max() <= 1e-12
    s = around.scale.numpy()
    for g, lo, hi, ours in zip(*(t[:, around.scalar].numpy() for t in (slope, around.lo, around.hi, delta))):
        found = minimize(
            lambda u, g=g: -(g * s) @ u,
            np.zeros(len(s)),
            jac=lambda u, g=g: -(g * s),
            bounds=list(zip(lo / s, hi / s)),
            constraints={"type": "ineq", "fun": lambda u: 0.64 - u @ u, "jac": lambda u: -2 * u},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        assert g @ ours == pytest.approx(-found.fun, abs=1e-7)
        assert g @ ours >= -found.fun - 1e-9


def polytope_by_linprog(around, slope: torch.Tensor) -> torch.Tensor:
    lo, hi, g = (t[:, around.scalar].numpy() for t in (around.lo, around.hi, slope))
    rows = block_diag([csr_matrix(-around.a.numpy())] * len(g), format="csr")
    limits = np.column_stack([lo.ravel(), hi.ravel()])
    found = linprog(-g.ravel(), A_ub=rows, b_ub=np.tile(around.b.numpy(), len(g)), bounds=limits)
    return torch.from_numpy((g.ravel() * found.x).reshape(len(g), -1).sum(1))


@pytest.mark.parametrize("name", ["polytope", "many"])
def test_a_polytope_agrees_with_the_solver(name):
    region = REGIONS[name].bind(TOWN)
    x, slope = TOWN.encode(people(300)), draws(300, TOWN.d)
    around = region.around(x)
    assert (around.vertices is None) == (name == "many")
    delta = around.steepest(slope)
    assert around.outside(delta).max() <= 1e-8
    assert ((slope * delta).sum(1) - polytope_by_linprog(around, slope)).abs().max() <= 1e-7


def test_vertices_and_programs_give_the_same(monkeypatch):
    x, slope = TOWN.encode(people(100)), draws(100, TOWN.d)
    first = REGIONS["polytope"].bind(TOWN).around(x).steepest(slope)
    monkeypatch.setattr(vertices, "MOST", 1)
    around = REGIONS["polytope"].bind(TOWN).around(x)
    assert around.vertices is None
    gap = (slope * (first - around.steepest(slope))).sum(1)
    assert gap.abs().max() <= 1e-9


def test_people_in_slices_get_what_they_get_alone(monkeypatch):
    slope, around = draws(50, TOWN.d), REGIONS["polytope"].bind(TOWN).around(TOWN.encode(people(50)))
    whole = around.steepest(slope)
    monkeypatch.setattr(vertices, "CELLS", 1)
    assert torch.allclose(around.steepest(slope), whole, rtol=0, atol=1e-12)  # sums may depend on the slice


# -- the nearest change -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REGIONS)
def test_projections_are_inside_idempotent_and_nearest(name):
    around = REGIONS[name].bind(TOWN).around(TOWN.encode(people(30)))
    far = 0.7 * draws(30, TOWN.d)
    near = around.project(far)
    assert around.outside(near).max() <= 1e-9
    assert (around.project(near) - near).abs().max() <= 1e-9
    inside = inside_points(around, 200)
    assert around.take(torch.arange(30).unsqueeze(1)).outside(inside).max() <= 1e-9
    gaps = (inside - far.unsqueeze(1)).norm(dim=-1)
    assert ((near - far).norm(dim=-1, keepdim=True) <= gaps + 1e-9).all()
    # the angle at a nearest point is never sharp
    angle = ((far - near).unsqueeze(1) * (inside - near.unsqueeze(1))).sum(-1)
    assert angle.max() <= 1e-8


@pytest.mark.parametrize("name", REGIONS)
def test_changes_inside_stay_as_they_are(name):
    around = REGIONS[name].bind(TOWN).around(TOWN.encode(people(30)))
    inside = around.project(0.1 * draws(30, TOWN.d)) * 0.9
    assert (around.project(inside) - inside).abs().max() <= 1e-12


@pytest.mark.parametrize("name", REGIONS)
def test_the_steepest_change_beats_points_of_the_region(name):
    around = REGIONS[name].bind(TOWN).around(TOWN.encode(people(20)))
    slope = draws(20, TOWN.d, seed=9)
    best = (slope * around.steepest(slope)).sum(-1, keepdim=True)
    assert (best >= 0).all()
    assert ((inside_points(around, 200) * slope.unsqueeze(1)).sum(-1) <= best + 1e-8).all()


NARROW = Schema(
    (Number("a", 0, 99, step=0.5), Number("b", -5.0, 5.0), Ordinal("o", ("lo", "mid", "hi", "top")), Binary("z"))
)


def test_the_nearest_point_of_a_polytope_that_is_one_point():
    # o is at its top, so that nothing but 0 keeps to all rows
    region = Polytope(
        [
            ({"b": -0.05, "o": 0.93, "z": -0.03}, 0),
            ({"a": -0.19, "b": 0.62, "o": -2.22}, 0),
            ({"b": 1.52, "o": 1.51, "z": 0.78}, 0),
        ]
    )
    around = region.bind(NARROW).around(NARROW.encode(pd.DataFrame({"a": [89.1], "b": [2.66], "o": ["top"], "z": [0]})))
    wish = [[0.4568888297137864, -0.3060915301895747, -0.3552120119046478, 0.5204934656234848]]
    near = around.project(torch.tensor(wish, dtype=torch.float64))
    assert around.outside(near) <= 1e-12
    assert near.abs().max() <= 1e-12


def test_the_nearest_point_where_a_column_cannot_move():
    schema = Schema((Number("a", 0, 1e6, moves="up"), Number("b", -5, 5, moves="up", missing=True)))
    region = Polytope([({"a": -0.535002571753355, "b": -1.3872826341825093}, 0.0), ({"a": 0.377, "b": 0.0366}, 4.4)])
    around = region.bind(schema).around(schema.encode(pd.DataFrame({"a": [1e6], "b": [-1.5]})))
    for size in (1.0, 1e-6, 1e6):
        near = around.project(size * torch.tensor([[0.88, 1.06, -0.26]], dtype=torch.float64))
        assert (near.abs() <= 1e-12).all()  # false for nan


def random_polytope(rng: np.random.Generator, widest: float) -> tuple[Schema, Polytope]:
    """A few rows, most through 0, over columns of different spans, some of which move one way or not at all."""
    ways = rng.choice(["free", "up", "down", "fixed"], 4, p=[0.5, 0.2, 0.2, 0.1])
    highs = rng.choice([1.0, 10.0, 99.0, widest], 4)
    schema = Schema(tuple(Number(f"n{i}", 0, highs[i], moves=str(ways[i]), missing=i == 3) for i in range(4)))
    rows = []
    for _ in range(rng.integers(1, 5)):
        named = rng.permutation(4)[: rng.integers(1, 5)]
        rows.append(({f"n{i}": float(rng.normal()) for i in named}, float(rng.choice([0, 0, 1, 4.4]))))
    if rng.random() < 0.2:  # an equation
        rows.append(({name: -c for name, c in rows[0][0].items()}, 0.0))
    return schema, Polytope(rows, {"n0": 1.0} if rng.random() < 0.3 else None)


def test_nearest_points_of_random_polytopes():
    rng = np.random.default_rng(0)
    for case in range(400):
        schema, region = random_polytope(rng, widest=1e6 if case % 2 else 99.0)
        shares = rng.choice([0.0, 0.1, 0.5, 0.77, 1.0], (6, 4))
        table = pd.DataFrame({f.name: shares[:, i] * f.high for i, f in enumerate(schema)})
        table.loc[0, "n3"] = np.nan
        around = region.bind(schema).around(schema.encode(table))
        far = float(rng.choice([0.01, 1.0, 100.0])) * torch.from_numpy(rng.normal(size=(6, schema.d)))
        near = around.project(far)
        assert near.isfinite().all(), (case, region)
        assert around.outside(near).max() <= 1e-8, (case, region)
        assert (-(near[:, around.scalar] @ around.a.T) - around.b).max() <= 1e-13, (case, region)
        if case % 2 or not len(around.scalar):
            continue  # the solver's tolerance is too coarse for the widest
        # no point of the region lies further along the way from the nearest point to the wish
        way = far - near
        best = polytope_by_linprog(around, way)
        assert (best - (way * near).sum(1) <= 1e-7 * (1 + way.norm(dim=1))).all(), (case, region)


def test_steps_that_stay_inside_find_the_same_points(monkeypatch):
    around = REGIONS["many"].bind(TOWN).around(TOWN.encode(people(30)))
    far = 0.7 * draws(30, TOWN.d)
    near = around.project(far)
    monkeypatch.setattr(vertices, "_multipliers", lambda matrix: np.full((matrix.shape[0], matrix.shape[2]), np.nan))
    torch.testing.assert_close(around.project(far), near, atol=1e-9, rtol=0)


# -- corners ------------------------------------------------------------------------------------------------------


def test_the_corners_of_a_box():
    around = Box({"hours": 9, "housing": 1}).bind(TOWN).around(TOWN.encode(people(2, seed=3)))
    corners = around.corners()
    assert corners.shape == (2, 7, TOWN.d)  # no change, and 2 x 3
    assert (corners[:, 0] == 0).all()
    assert len({tuple(c) for c in corners[0].tolist()}) == 7


@pytest.mark.parametrize(
    "region", [Box(REACH), Budget(30, {"hours": 9, "education": 2, "housing": 1}), REGIONS["polytope"]], ids=str
)
def test_the_best_corner_is_the_steepest_change(region):
    around = region.bind(TOWN).around(TOWN.encode(people(40)))
    slope = draws(40, TOWN.d)
    corners = around.corners()
    assert corners is not None
    assert around.take(torch.arange(40).unsqueeze(1)).outside(corners).max() <= 1e-9
    best = (corners * slope.unsqueeze(1)).sum(-1).amax(1)
    torch.testing.assert_close(best, (slope * around.steepest(slope)).sum(1), atol=1e-9, rtol=0)


def test_too_many_corners_are_none():
    wide = Schema(tuple(Number(f"n{i}") for i in range(9)))
    x = torch.full((1, 9), 0.5, dtype=torch.float64)
    assert Box().bind(wide).around(x).corners() is None
    assert Budget(1).bind(wide).around(x).corners() is None
    assert Ball(1, {"n1": 1}).bind(wide).around(x).corners() is None
    assert Polytope([({"n1": 1, "n2": 1}, 1)], {f"n{i}": 1 for i in range(9)}).bind(wide).around(x).corners() is None


# -- people -------------------------------------------------------------------------------------------------------


def test_limits_are_each_persons_own():
    table = people(3)
    table["education"] = ["doctor", "master", "none"]
    table["hours"] = [40, 95, 3]
    table["debt"] = [50.0, 5.0, 0.0]
    around = Box(REACH).bind(TOWN).around(TOWN.encode(table))
    np.testing.assert_allclose(around.hi[:, 2] * 5, [0, 1, 2])  # the top is the top
    assert (around.lo[:, 2] == 0).all()
    np.testing.assert_allclose(around.hi[:, 1] * 99, [9.25, 4, 9.25])
    np.testing.assert_allclose(around.lo[:, 1] * 99, [-9.25, -9.25, -3])
    np.testing.assert_allclose(around.lo[:, -1] * 50, [-20, -5, 0])
    assert (around.hi[:, -1] == 0).all()  # debt only falls


@pytest.mark.parametrize("name", REGIONS)
def test_what_is_fixed_missing_or_not_named_never_moves(name):
    region = REGIONS[name].bind(TOWN)
    table = people(50)
    around = region.around(TOWN.encode(table))
    slope = draws(50, TOWN.d)
    fixed = [j for j in range(TOWN.d) if j not in region.columns]
    assert {TOWN.columns.index(c) for c in ("age", "sex=f", "sex=m", "sex=x", "amount=missing")} <= set(fixed)
    amount = TOWN.columns.index("amount")
    for delta in (around.steepest(slope), around.project(slope)):
        assert (delta[:, fixed] == 0).all()
        assert (delta[torch.tensor(list(table["amount"].isna())), amount] == 0).all()
        assert (delta[:, amount] != 0).any()


def test_a_category_goes_to_its_best_level():
    table = people(2)
    table["housing"] = ["rent", "own"]
    x = TOWN.encode(table)
    slope = torch.zeros_like(x)
    slope[:, 3:6] = torch.tensor([1.0, 2.0, 3.0])
    delta = Box({"housing": 1}).bind(TOWN).around(x).steepest(slope)
    assert delta[:, 3:6].tolist() == [[0.0, -1.0, 1.0], [-1.0, 0.0, 1.0]]
    slope[:, 3:6] = torch.tensor([2.0, 2.0, 1.0])  # nothing better than the own level
    assert (Box({"housing": 1}).bind(TOWN).around(x).steepest(slope) == 0).all()


def test_a_missing_category_is_stuck():
    schema = Schema((Category("job", levels=("a", "b", "c"), missing=True), Number("n")))
    x = schema.encode(pd.DataFrame({"job": [None, "a"], "n": [0.5, 0.5]}))
    for region in (Box(), Budget(1)):
        around = region.bind(schema).around(x)
        for delta in (around.steepest(draws(2, 5)), around.project(draws(2, 5)), around.corners().amax(1)):
            assert (delta[0, :4] == 0).all()
        assert (around.project(draws(2, 5, seed=4))[1, :3] != 0).any()


def test_a_polytope_of_what_is_fixed_lets_nothing_move():
    schema = Schema((Number("a", moves="fixed"), Number("b")))
    region, x = Polytope([({"a": 1.0}, 0)]).bind(schema), torch.full((3, 2), 0.5, dtype=torch.float64)
    around = region.around(x)
    for delta in (around.steepest(draws(3, 2)), around.project(draws(3, 2)), around.corners().squeeze(1)):
        assert torch.equal(delta, torch.zeros_like(x))
    assert around.corners().shape == (3, 1, 2)
    assert torch.equal(region.snap(x, x + draws(3, 2)), x)
    assert (region.violation(x, x + torch.tensor([0.0, 0.1])) > 0).all()


def test_a_reach_below_one_lets_nothing_switch():
    region = Box({"phone": 0.5, "housing": 0.5, "hours": 1}).bind(TOWN)
    assert region.columns == (1,)


def test_no_reach_is_as_far_as_the_schema_lets():
    x = TOWN.encode(people(10))
    around = Box().bind(TOWN).around(x)
    low, high = TOWN.bounds(x)
    assert torch.equal(around.x + around.lo, low) and torch.equal(around.x + around.hi, high)


def test_a_measured_box_reaches_deviations_of_each_column():
    table = people(200)
    box = Box.measured(table, TOWN)
    assert box.reach["hours"] == pytest.approx(0.75 * table["hours"].std())
    assert box.reach["amount"] == pytest.approx(0.75 * table["amount"].std())  # of those who have one
    codes = table["education"].map(EDUCATION.index)
    assert box.reach["education"] == pytest.approx(0.75 * codes.std())
    assert box.reach["housing"] == box.reach["phone"] == 1
    assert "age" not in box.reach
    assert set(Box.measured(table, TOWN, 2.0, features=["hours"]).reach) == {"hours"}


# -- shapes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REGIONS)
def test_stacks_and_single_precision_give_the_same(name):
    around = REGIONS[name].bind(TOWN).around(TOWN.encode(people(20)))
    slope = draws(20, TOWN.d)
    index = torch.randint(20, (3, 4), generator=torch.Generator().manual_seed(0))
    stacked = around.take(index)
    assert stacked.lo.shape == (3, 4, TOWN.d)
    torch.testing.assert_close(stacked.steepest(slope[index]), around.steepest(slope)[index])
    torch.testing.assert_close(stacked.project(slope[index]), around.project(slope)[index])
    single = around.to(torch.float32)
    for one, other in ((single.steepest, around.steepest), (single.project, around.project)):
        assert one(slope.float()).dtype == torch.float32
        torch.testing.assert_close(one(slope.float()).double(), other(slope), atol=1e-5, rtol=0)
    again = REGIONS[name].bind(TOWN).around(TOWN.encode(people(20)).float())
    assert again.lo.dtype == torch.float32
    assert single.outside(single.steepest(slope.float())).max() <= 1e-5


@pytest.mark.parametrize("name", REGIONS)
def test_several_slopes_for_each_person(name):
    around = REGIONS[name].bind(TOWN).around(TOWN.encode(people(5)))
    slope = draws(5, 3, TOWN.d)
    each = around.take(torch.arange(5).unsqueeze(1))  # (5, 1, d) broadcasts
    for one, other in ((each.steepest, around.steepest), (each.project, around.project)):
        torch.testing.assert_close(one(slope)[:, 1], other(slope[:, 1]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", REGIONS)
def test_the_same_on_a_gpu(name):
    region = REGIONS[name].bind(TOWN)
    x, slope = TOWN.encode(people(20)), draws(20, TOWN.d)
    there, here = region.around(x.cuda()), region.around(x)
    torch.testing.assert_close(there.steepest(slope.cuda()).cpu(), here.steepest(slope))
    torch.testing.assert_close(there.project(slope.cuda()).cpu(), here.project(slope))
    torch.testing.assert_close(here.to(device="cuda").project(slope.cuda()).cpu(), here.project(slope))
    assert (region.violation(x.cuda(), region.snap(x.cuda(), x.cuda() + slope.cuda())) == 0).all()


def test_printable_limits_are_the_farthest_legal_values():
    """Whole hours within 9.3 of their own, whole levels within 1.9; their own value may lie off the grid."""
    schema = Schema((Number("hours", 0, 60, step=1), Number("level", 1, 16, step=1, moves="up")))
    x = schema.encode(pd.DataFrame({"hours": [40.0, 57.0, 20.5], "level": [10.0, 16.0, 12.0]}))
    region = Box({"hours": 9.3, "level": 1.9}).bind(schema)
    around = region.printable(x)
    units = torch.tensor([60.0, 15.0], dtype=torch.float64)
    expected_hi = torch.tensor([[9.0, 1.0], [3.0, 0.0], [8.5, 1.0]], dtype=torch.float64)
    expected_lo = torch.tensor([[-9.0, 0.0], [-9.0, 0.0], [-8.5, 0.0]], dtype=torch.float64)
    assert torch.allclose(around.hi * units, expected_hi, atol=1e-9)
    assert torch.allclose(around.lo * units, expected_lo, atol=1e-9)
    assert (region.around(x).hi >= around.hi).all()


def test_names_with_braces_stay_in_the_sentence():
    box = Box({"{0}": 1.0, "{rate}": 2.5, "hours": 3.0})
    assert str(box) == "{0} changes by at most 1; {rate} by at most 2.5; hours by at most 3"
    assert str(Budget(2.0, {"{": 1.0})) == "{ changes by at most 1; all changes together weigh at most 2"
