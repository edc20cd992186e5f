"""Certificates: no plan is cheaper than its bound, gaps close, and what is called impossible is."""

from __future__ import annotations

import math

import pytest
import torch
from test_certificate_cases import Case, Net, Straight, blank, finish, look_at, random_case, refuse, sampled
from tests.methods.sequences.known_optima import cheapest_absolute, cheapest_by_scan, cheapest_squared

from turnabout.datasets.data_files import on_disk
from turnabout.methods.sequences.certificate import CertificateTask, certify, reduce
from turnabout.studies import domains

KINDS = ["linear", "net", "deep", "trees"]
NONE = torch.tensor([torch.inf], dtype=torch.float64)


def unknown(case: Case) -> torch.Tensor:
    return torch.full((len(case.x),), torch.inf, dtype=torch.float64)


# -- random actions and models --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_no_plan_is_cheaper_than_the_bound_and_the_bound_is_near_one(kind, seed):
    case = random_case(seed, kind)
    proof = certify(case.task(), unknown(case))
    assert proof.complete.all()
    assert (proof.lower_bound <= sampled(case, 400)).all()
    for i in range(len(case.x)):
        if math.isinf(proof.cost[i]):
            assert math.isinf(proof.lower_bound[i])
            continue
        cost, allowed, margin = look_at(case, i, proof.sequences[i].tolist(), proof.r[i].tolist(), closed=1e-7)
        assert allowed
        assert margin >= -1e-9
        assert cost == pytest.approx(float(proof.cost[i]), rel=1e-9)
        assert (1 - 0.005) * cost <= proof.lower_bound[i] <= cost


@pytest.mark.parametrize("kind", KINDS)
def test_integer_programs_say_the_same(kind):
    case = random_case(11, kind, people=1, steps=2)
    case.sequences = case.sequences[::3]
    branch = certify(case.task(), unknown(case), gap=0.002)
    milp = certify(case.task(), unknown(case), gap=0.002, engine="milp")
    assert branch.complete.all() and milp.complete.all()
    assert milp.how == ["integer programs"]
    assert (milp.lower_bound <= branch.cost * (1 + 1e-6)).all()
    assert milp.lower_bound.tolist() == pytest.approx(branch.lower_bound.tolist(), rel=0.004)


def test_integer_programs_take_over_where_boxes_run_out():
    case = random_case(11, "net", people=1, steps=2)
    case.sequences = case.sequences[::3]
    proof = certify(case.task(), unknown(case), boxes=1)
    assert proof.complete.all() and proof.how == ["integer programs"]
    assert not certify(case.task(), unknown(case), boxes=1, engine="branch").complete.any()


@pytest.mark.parametrize("seed", range(2))
def test_sequences_left_out_do_not_change_the_bound(seed, monkeypatch):
    case = random_case(100 + seed, "net")
    few = certify(case.task(), unknown(case), gap=0.001)
    monkeypatch.setattr(
        reduce.Reduction, "needed", lambda self, jobs, low, high: torch.ones(len(jobs), dtype=torch.bool)
    )
    all_ = certify(case.task(), unknown(case), gap=0.001)
    assert few.lower_bound.tolist() == pytest.approx(all_.lower_bound.tolist(), rel=0.002)


@pytest.mark.parametrize("kind", ["net", "trees"])
def test_a_known_cost_is_no_premise(kind):
    """A cost too low to be true must not become a bound above the truth, one too high must not hide it."""
    case = random_case(21, kind)
    truth = certify(case.task(), unknown(case), gap=0.001)
    found = torch.isfinite(truth.cost)
    low = certify(case.task(), truth.cost * 0.7, gap=0.001)
    assert (low.lower_bound <= 0.7 * truth.cost)[found].all()
    high = certify(case.task(), truth.cost * 1.5, gap=0.001)
    assert high.lower_bound[found].tolist() == pytest.approx(truth.lower_bound[found].tolist(), rel=0.003)


def test_out_of_time_the_bound_is_still_one():
    case = random_case(5, "deep")
    whole = certify(case.task(), unknown(case))
    short = certify(case.task(), unknown(case), time_limit=0.0)
    assert not short.complete.any()
    assert (short.lower_bound <= whole.cost).all()
    few = certify(case.task(), unknown(case), boxes=1, batch=8, engine="branch")
    assert (few.lower_bound <= whole.cost).all()


@pytest.mark.parametrize("seed", range(2))
def test_a_scan_meets_the_bound(seed):
    case = random_case(40 + seed, "net", people=1, steps=2)
    t = case.tables
    line = torch.where(case.sequences >= 0, case.sequences, t.actions)
    case.sequences = case.sequences[t.used[line].sum((1, 2)) <= 2]
    seen = cheapest_by_scan(case.task(), points=1500)
    proof = certify(case.task(), unknown(case), gap=0.002)
    assert (torch.isfinite(seen.cost) == torch.isfinite(proof.cost)).all()
    found = torch.isfinite(seen.cost)
    assert (seen.cost >= proof.lower_bound)[found].all()
    assert (seen.cost <= proof.cost * 1.01)[found].all()


# -- known answers ----------------------------------------------------------------------------------------------------


def shifts(d: int, price: str, scale: torch.Tensor, low: float = -100.0, high: float = 100.0) -> Case:
    """One action for each of d columns, without conditions."""
    t = blank(d, parameters=1, conditions=1, e=d)
    for j in range(d):
        t["gain"][j, 0, j], t["used"][j, 0] = 1, True
        t[price][j, j] = 1 / scale[j] ** 2 if price == "squared" else 1 / scale[j]
    x = torch.zeros(1, d, dtype=torch.float64)
    sequences = torch.tensor([list(range(d))])
    return Case(None, finish(t), x, sequences, torch.full_like(x, low), torch.full_like(x, high))


@pytest.mark.parametrize("seed", range(3))
def test_linear_models_with_squared_prices_have_a_closed_form(seed):
    generator = torch.Generator().manual_seed(seed)
    w, scale = torch.randn(4, generator=generator).double(), 0.5 + torch.rand(4, generator=generator).double()
    case = shifts(4, "squared", scale)
    case.model = Straight(w, -1.3)
    change, cost = cheapest_squared(w, scale, torch.tensor([1.3], dtype=torch.float64))
    assert float(change[0] @ w) == pytest.approx(1.3)
    assert float(((change / scale) ** 2).sum()) == pytest.approx(float(cost))
    proof = certify(case.task(), NONE)
    assert proof.how == ["closed form"]
    assert proof.lower_bound.tolist() == pytest.approx(cost.tolist(), rel=1e-4)
    assert (proof.lower_bound <= cost).all()


@pytest.mark.parametrize("seed", range(3))
def test_linear_models_with_absolute_prices_fill_a_knapsack(seed):
    generator = torch.Generator().manual_seed(seed)
    w, scale = torch.randn(4, generator=generator).double(), 0.5 + torch.rand(4, generator=generator).double()
    case = shifts(4, "absolute", scale, low=-0.7, high=0.7)
    need = 0.6 * 0.7 * float(w.abs().sum())
    case.model = Straight(w, -need)
    change, cost = cheapest_absolute(w, scale, torch.tensor([need], dtype=torch.float64), case.lo, case.hi)
    assert float(change[0] @ w) == pytest.approx(need)
    proof = certify(case.task(), NONE)
    assert proof.lower_bound.tolist() == pytest.approx(cost.tolist(), rel=1e-4)
    assert (proof.lower_bound <= cost).all()


def test_closed_forms_against_a_solver():
    from scipy.optimize import linprog

    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        w, s = torch.randn(5, generator=generator).double(), 0.2 + torch.rand(5, generator=generator).double()
        room = torch.rand(5, generator=generator).double()
        need = torch.rand(1, generator=generator).double() * 2
        _, cost = cheapest_absolute(w, s, need, -room.unsqueeze(0), room.unsqueeze(0))
        both = torch.cat([w, -w]).tolist()
        room = [(0, v) for v in room.tolist()] * 2
        best = linprog((1 / s).tolist() * 2, A_ub=[[-v for v in both]], b_ub=[-float(need)], bounds=room)
        assert math.isinf(cost) == (best.status == 2)
        if best.status == 0:
            assert float(cost) == pytest.approx(best.fun, rel=1e-6, abs=1e-9)


def test_closed_forms_at_their_edges():
    w, s = torch.tensor([0.0, 2.0]).double(), torch.ones(2).double()
    assert cheapest_squared(w, s, torch.tensor([-1.0, 0.0]).double())[1].tolist() == [0, 0]
    assert math.isinf(cheapest_squared(0 * w, s, torch.tensor([1.0]).double())[1])
    change, cost = cheapest_absolute(w, s, torch.tensor([3.0, -1.0]).double())
    assert change.tolist() == [[0, 1.5], [0, 0]] and cost.tolist() == [1.5, 0]


def two_steps(strict: bool = False) -> Case:
    """Column 1 raises the margin, but may rise only once column 0 has."""
    t = blank(2, parameters=1, conditions=1, e=2)
    for j in range(2):
        t["gain"][j, 0, j], t["used"][j, 0], t["absolute"][j, j] = 1, True, 1
    t["of_old"][1, 0, 0], t["offset"][1, 0], t["strict"][1, 0] = 1, -1, strict
    x = torch.zeros(1, 2, dtype=torch.float64)
    sequences = torch.tensor([[0, -1], [1, -1], [0, 1], [1, 0]])
    model = Straight(torch.tensor([0.0, 1.0]).double(), -2.0)
    return Case(model, finish(t), x, sequences, torch.zeros_like(x), torch.full_like(x, 5.0))


@pytest.mark.parametrize("engine", ["branch", "milp"])
def test_order_matters(engine):
    case = two_steps()
    proof = certify(case.task(), NONE, engine=engine)
    assert proof.complete.all()
    assert proof.sequences.tolist() == [[0, 1]]
    assert float(proof.lower_bound) == pytest.approx(3.0, rel=0.006)
    case.sequences = torch.tensor([[0, -1], [1, -1], [1, 0]])
    proof = certify(case.task(), NONE, engine=engine)
    assert math.isinf(proof.lower_bound) and proof.complete.all()


@pytest.mark.parametrize("engine", ["branch", "milp"])
def test_out_of_reach_is_proved_impossible(engine):
    case = two_steps()
    case.hi[:] = 1.9
    proof = certify(case.task(), NONE, engine=engine)
    assert math.isinf(proof.lower_bound) and proof.complete.all()
    case.hi[:] = 2.1
    assert math.isfinite(certify(case.task(), NONE, engine=engine).lower_bound)


def test_strict_conditions_do_not_meet_at_one_value():
    """Above 1 after the first step and below 1 before the second: closed, both would hold at 1."""
    case = two_steps(strict=True)
    t = case.tables
    t.of_old[1, 0, 0], t.offset[1, 0] = -1, 1
    t.of_new[0, 0, 0], t.offset[0, 0], t.strict[0, 0] = 1, -1, True
    case.sequences = torch.tensor([[0, 1]])
    assert math.isinf(certify(case.task(), NONE).lower_bound)
    t.strict[:] = False
    assert float(certify(case.task(), NONE).lower_bound) == pytest.approx(3.0, rel=0.006)


def test_guards_and_constants_need_no_search():
    case = two_steps()
    case.tables.constant[:2] = 7.0
    proof = certify(case.task(), torch.tensor([6.0]).double())
    assert proof.how == ["conditions and costs alone"] and proof.boxes == 0
    assert float(proof.lower_bound) == pytest.approx(6.0)


def test_without_limits_nothing_is_claimed():
    case = two_steps()
    case.hi[:] = torch.inf
    case.tables.absolute[:] = 0.0
    case.tables.constant[1] = 0.5
    proof = certify(case.task(), torch.tensor([3.0]).double())
    assert not proof.complete.any() and float(proof.lower_bound) == 0.0


class Anything:
    def margin(self, x):
        return torch.sin(x).sum(-1)


def test_about_an_unknown_model_costs_alone_are_used():
    case = two_steps()
    case.model = Anything()
    case.tables.constant[:2] = torch.tensor([0.5, 0.25]).double()
    proof = certify(case.task(), torch.tensor([3.0]).double())
    assert proof.how == ["costs alone"] and not proof.complete.any()
    assert float(proof.lower_bound) == pytest.approx(0.5)  # the second action alone is not allowed


def test_actions_without_tables_are_bounded_by_nothing():
    proof = certify(two_steps().task(opaque=[1]), NONE)
    assert proof.lower_bound.tolist() == [0.0] and not proof.complete.any()


def test_rounding_of_a_follower_is_allowed_for():
    """Column 1 keeps its ratio to column 0; rounded for itself it may fall short of it, or exceed it."""
    t = blank(1, parameters=1, conditions=1, e=2)
    t["gain"][0, 0, 0], t["used"][0, 0], t["squared_relative"][0, 0], t["leader"][0, 1] = 1, True, 1, 0
    x = torch.tensor([[10.0, 4.0]]).double()
    first = torch.tensor([[0.0, 1.0]]).double(), torch.tensor([-6.0]).double()
    model = Net((first, (torch.ones(1, 1).double(), torch.tensor([-0.5]).double())))
    case = Case(model, finish(t), x, torch.tensor([[0]]), 0 * x + 0.1, 0 * x + 100)
    exact = certify(case.task(), NONE)
    assert float(exact.lower_bound) == pytest.approx((2.5 / 4) ** 2, rel=0.006)
    assert exact.complete.all()
    for engine in ("branch", "milp"):
        loose = certify(case.task(rounding=torch.tensor([0.0, 0.5]).double()), NONE, engine=engine)
        assert float(loose.lower_bound) == pytest.approx((2.0 / 4) ** 2, rel=0.006)
        assert not loose.complete.any()  # the plan met is not rounded, so there is a gap to it


def months(seed: int) -> Case:
    """Column 0 leads column 1 in one action, column 1 moves alone in another, column 2 only waits; whole numbers."""
    t = blank(3, parameters=1, conditions=1, e=3)
    for a, j in enumerate((0, 1, 2)):
        t["gain"][a, 0, j], t["used"][a, 0] = 1, True
    t["leader"][0, 1] = 0
    t["squared_relative"][0, 0], t["squared_relative"][1, 1], t["absolute"][2, 2] = 1, 1, 0.05
    t["of_old"][2, 0, 2], t["of_new"][2, 0, 2] = -1, 1
    generator = torch.Generator().manual_seed(seed)
    x = torch.tensor([[17.0, 7.0, 3.0], [9.0, 11.0, 2.0]], dtype=torch.float64)
    first = torch.randn(6, 3, generator=generator, dtype=torch.float64) / 8
    last = torch.randn(1, 6, generator=generator, dtype=torch.float64)
    model = Net(((first, torch.randn(6, generator=generator, dtype=torch.float64)), (last, torch.zeros(1).double())))
    refuse(model, x, 0.4)
    sequences = torch.tensor([[0, -1, -1], [1, -1, -1], [2, -1, -1], [0, 1, -1], [1, 0, -1], [0, 1, 2], [1, 0, 2]])
    lo, hi = torch.ones_like(x), torch.full_like(x, 25.0)
    return Case(model, finish(t), x, sequences, lo, hi)


def count_months(case: Case) -> list[float]:
    """The cheapest plan of each person, by looking at all printed ones."""
    values = range(1, 26)
    out = []
    for a, b, c in case.x.tolist():
        ends: dict[tuple[float, float], float] = {(a, b): 0.0}
        for order in ((0, 1), (1, 0)):
            paths = {(a, b): 0.0}
            for step in order:
                after = dict(paths)  # the step may be left out
                for (p, q), cost in paths.items():
                    for v in values:
                        price = cost + ((v - p) / p) ** 2 if step == 0 else cost + ((v - q) / q) ** 2
                        near = q * v / p
                        for w in {math.floor(near + 0.5), math.ceil(near - 0.5)} if step == 0 else {v}:
                            key = (v, w) if step == 0 else (p, w)
                            if 1 <= w <= 25 and price < after.get(key, math.inf):
                                after[key] = price
                paths = after
            for key, cost in paths.items():
                ends[key] = min(cost, ends.get(key, math.inf))
        rows = torch.tensor([[p, q, w] for p, q in ends for w in range(int(c), 26)], dtype=torch.float64)
        costs = torch.tensor([cost + 0.05 * (w - c) for cost in ends.values() for w in range(int(c), 26)])
        accepted = case.model.margin(rows) >= 0
        out.append(float(costs[accepted].min()) if bool(accepted.any()) else math.inf)
    return out


@pytest.mark.parametrize(("engine", "seed"), [("branch", 0), ("branch", 1), ("branch", 2), ("branch", 3), ("milp", 0)])
def test_bounds_on_printed_plans_are_those_of_counting(engine, seed):
    case = months(seed)
    best = count_months(case)
    proof = certify(case.task(grid=torch.ones(3).double()), unknown(case), engine=engine)
    half = torch.full((3,), 0.5).double()
    anywhere = certify(case.task(rounding=half), unknown(case), boxes=500, engine="branch")
    assert proof.complete.all()
    for i, cost in enumerate(best):
        assert anywhere.lower_bound[i] <= cost * (1 + 1e-6)
        assert proof.lower_bound[i] <= cost * (1 + 1e-6)
        assert proof.lower_bound[i] >= 0.995 * cost
        assert float(proof.cost[i]) >= cost * (1 - 1e-6)


def test_an_order_that_leaves_the_reach_covers_nothing():
    """Both columns double only if the first is halved before: the other order passes through 2, out of reach."""
    t = blank(2, parameters=1, conditions=1, e=2)
    t["gain"][:2, 0, 0], t["used"][:2, 0], t["squared_relative"][:2, 0] = 1, True, 1
    t["leader"][0, 1] = 0
    x = torch.ones(1, 2, dtype=torch.float64)
    model = Straight(torch.tensor([0.0, 1.0]).double(), -2.0)
    hi = torch.tensor([[1.2, 5.0]]).double()
    case = Case(model, finish(t), x, torch.tensor([[0, 1], [1, 0]]), 0.1 * x, hi)
    proof = certify(case.task(), NONE)
    assert proof.complete.all() and proof.sequences.tolist() == [[1, 0]]
    assert float(proof.lower_bound) == pytest.approx(1.16, rel=0.006)  # to 0.6, then doubled


# -- the published study ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["branch", pytest.param("milp", marks=pytest.mark.slow)])
def test_german_people(engine):
    if any(on_disk(source) is None for source in domains.german_domain.RECIPE.sources):
        pytest.skip("the files of the study are not on this machine")
    from turnabout.methods.sequences.sequence_set import SequenceSet, as_tensor

    study = domains.load("german")
    actions = study.problem.actions
    x = study.schema.encode(study.people.iloc[:4])
    sequences = as_tensor(SequenceSet(actions).up_to(4), 4)
    t = actions.tables
    lo, hi = (t.bottom + end[:, t.columns] * t.span for end in study.schema.bounds(x))
    known = torch.tensor([0.0946, 0.1623, 0.5005, 0.0385]).double()
    proof = certify(CertificateTask(study.model, t, x, sequences, lo, hi), known, engine=engine)
    assert proof.complete.all()
    assert (proof.lower_bound >= 0.995 * torch.minimum(known, proof.cost)).all()
    assert proof.lower_bound.tolist() == pytest.approx(known.tolist(), rel=0.007)
