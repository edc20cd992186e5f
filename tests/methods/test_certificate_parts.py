"""Parts of the certificates: boxes hold what they say, planes lie above margins, covered sequences are covered."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from test_certificate_cases import Case, Straight, blank, finish, random_case

from turnabout.methods.sequences.certificate.certificate_task import CheapestPlans
from turnabout.methods.sequences.certificate.dual import cheapest_in_box, cheapest_under_rows
from turnabout.methods.sequences.certificate.parameter_boxes import PriceBound, Rows, roll
from turnabout.methods.sequences.certificate.proof import certify
from turnabout.methods.sequences.certificate.reduce import Reduction
from turnabout.methods.sequences.certificate.rewrite import Rewritten
from turnabout.methods.sequences.certificate.roots import root_boxes, shrink
from turnabout.solvers.bounds import bound_on


def boxes_of(case: Case, seed: int, share: float = 0.3):
    """Jobs of all sequences and people, and a random part of each first box."""
    task = replace(case.task(), tables=Rewritten.of(case.tables).tables)
    person = torch.arange(len(case.x)).repeat_interleave(len(case.sequences))
    jobs, possible = task.jobs(case.sequences.repeat(len(case.x), 1), person)
    jobs = jobs.take(possible.nonzero().squeeze(1))
    jobs, low, high, alive, bounded = root_boxes(jobs, torch.full_like(jobs.constant, torch.inf))
    rows = (alive & bounded).nonzero().squeeze(1)
    jobs, low, high = jobs.take(rows), low[rows], high[rows]
    generator = torch.Generator().manual_seed(seed)
    part = torch.rand(2, *low.shape, generator=generator, dtype=torch.float64)
    width = share * part[0] * (high - low)
    first = low + part[1] * (high - low - width)
    return task, jobs, low, high, first, first + width


def plans_in(task, jobs, low, high, seed):
    """Random plans of the boxes: theta, r, and the path they take."""
    generator = torch.Generator().manual_seed(seed)
    theta = low + torch.rand(low.shape, generator=generator, dtype=torch.float64) * (high - low)
    _, r = task.try_out(jobs, theta)
    return theta, r, task.tables.script(jobs.sequences).roll(task.start[jobs.person], r)


@pytest.mark.parametrize("kind", ["net", "deep", "linear", "trees"])
def test_boxes_hold_states_prices_and_margins(kind):
    case = random_case(7, kind)
    task, jobs, _, _, low, high = boxes_of(case, 1)
    rolled = roll(jobs, low, high)
    moving = task.kinds.moving
    bound = bound_on(case.model, task.tables.columns[moving], task.tables.span[moving])
    plane = bound.plane(bound.base(task.rest(jobs)), rolled.end)
    for seed in range(40):
        theta, _, path = plans_in(task, jobs, low, high, seed)
        delta = torch.where(high > low, (2 * theta - low - high) / (high - low), 0.0)
        inside = ((path.states >= task.lo[jobs.person, None]) & (path.states <= task.hi[jobs.person, None])).all(-1)
        within = inside.cumprod(1).bool()  # states beyond reach are cut off, and so is what follows them
        for t, hull in enumerate(rolled.states):
            state, fine = path.states[:, t, moving], within[:, t]
            form = hull.center + (hull.slope @ delta.unsqueeze(-1)).squeeze(-1)
            assert ((state - form).abs() <= hull.slack + 1e-9)[fine].all()
            assert ((state >= hull.low - 1e-9) & (state <= hull.high + 1e-9))[fine].all()
        fine = within[:, -1]
        assert (rolled.price.at(theta) <= path.cost.sum(1) + 1e-9)[fine].all()
        margin = case.model.margin(task.tables.encoded(task.x[jobs.person], path.end))
        assert (margin <= (plane.slope * delta).sum(1) + plane.top)[fine].all()
        allowed = (path.slack > 0).all(-1).all(-1) & fine
        assert rolled.alive[allowed].all()
        for rows in rolled.rows:
            value = (rows.slope @ delta.unsqueeze(-1)).squeeze(-1) + rows.top
            assert (value >= -1e-12)[allowed].all()


@pytest.mark.parametrize("seed", range(3))
def test_boxes_made_smaller_lose_no_plan(seed):
    task, jobs, low, high, _, _ = boxes_of(random_case(seed, "net"), seed)
    budget = torch.full_like(jobs.constant, 0.8)
    small_low, small_high, alive = shrink(roll(jobs, low, high), low, high, budget)
    assert (small_high - small_low <= high - low + 1e-9).all()
    for draw in range(30):
        theta, _, path = plans_in(task, jobs, low, high, draw)
        fine = (path.slack > 0).all(-1).all(-1) & (path.cost.sum(1) <= budget)
        states = (path.states >= task.lo[jobs.person, None]) & (path.states <= task.hi[jobs.person, None])
        fine &= states.all(-1).all(-1)
        assert alive[fine].all()
        assert ((theta >= small_low) & (theta <= small_high))[fine].all()


def random_price(generator, b=64, k=3):
    def number(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    kind = torch.randint(0, 3, (b, k), generator=generator)
    price = PriceBound(number(b), number(b, k) * (kind != 0), number(b, k) * (kind != 1), number(b, k) - 0.5)
    low = number(b, k) * 2 - 1.5
    return price, low, low + number(b, k) * 1.5, number(b, k) * 2 - 1, number(b) - 0.7


def grid(low, high, side=41):
    shares = torch.linspace(0, 1, side, dtype=torch.float64)
    mesh = torch.stack(torch.meshgrid(shares, shares, shares, indexing="ij"), -1).reshape(-1, 3)
    return mesh, low.unsqueeze(1) + mesh * (high - low).unsqueeze(1)


def test_cheapest_point_of_a_box_under_one_condition():
    price, low, high, slope, top = random_price(torch.Generator().manual_seed(0))
    bound, point = cheapest_in_box(price, low, high, slope, top)
    mesh, theta = grid(low, high)
    fits = (slope.unsqueeze(1) * (2 * mesh - 1)).sum(-1) + top.unsqueeze(1) >= 0
    wide = PriceBound(*(part.unsqueeze(1) for part in (price.constant, price.linear, price.curved, price.kink)))
    best = torch.where(fits, wide.at(theta), torch.inf).amin(1)
    assert (bound <= best + 1e-12).all()
    found = torch.isfinite(best)
    assert (best - bound)[found].max() < 0.15  # the grid is coarse
    assert (bound[found] >= price.at(point)[found] - 1e-6).all()  # no gap between bound and point
    possible = slope.abs().sum(1) + top >= 0
    assert torch.isinf(bound[~possible]).all() and torch.isfinite(bound[possible]).all()


def test_cheapest_point_under_two_conditions():
    generator = torch.Generator().manual_seed(1)
    price, low, high, slope, top = random_price(generator)
    other = torch.rand(64, 1, 3, generator=generator, dtype=torch.float64) * 2 - 1
    lift = torch.rand(64, 1, generator=generator, dtype=torch.float64) - 0.5
    known = cheapest_in_box(price, low, high, slope, top)
    bound, _ = cheapest_under_rows(price, low, high, slope, top, Rows(other, lift, lift, lift), known)
    mesh, theta = grid(low, high)
    delta = 2 * mesh - 1
    fits = ((slope.unsqueeze(1) * delta).sum(-1) + top.unsqueeze(1) >= 0) & ((other * delta).sum(-1) + lift >= 0)
    wide = PriceBound(*(part.unsqueeze(1) for part in (price.constant, price.linear, price.curved, price.kink)))
    best = torch.where(fits, wide.at(theta), torch.inf).amin(1)
    assert (bound >= known[0]).all() and (bound <= best + 1e-12).all()
    found = torch.isfinite(best)
    before = (best - known[0])[found].mean()
    assert (best - bound)[found].mean() < 0.6 * before  # the second condition counts


def test_actions_apart_need_one_sequence_only():
    t = blank(4, parameters=1, conditions=1, e=4)
    for j in range(4):
        t["gain"][j, 0, j], t["used"][j, 0], t["squared_relative"][j, j] = 1, True, 1
    x = torch.ones(1, 4, dtype=torch.float64)
    sequences = [w for k in range(1, 4) for w in itertools.permutations(range(4), k)]
    padded = torch.tensor([[*w, *[-1] * (3 - len(w))] for w in sequences])
    case = Case(Straight(torch.ones(4).double(), -5.0), finish(t), x, padded, 0.1 * x, 5 * x)
    task, jobs, low, high, _, _ = boxes_of(case, 0)
    reduction = Reduction(replace(task, sequences=padded))
    needed = reduction.needed(jobs, low, high)
    assert int(needed.sum()) == 4  # of 40: the sets of three


def test_an_action_with_a_guard_covers_nothing_it_may_not_enter():
    """Column 1 is scaled only above 2; a sequence without that action must stay."""
    t = blank(2, parameters=1, conditions=1, e=2)
    for j in range(2):
        t["gain"][j, 0, j], t["used"][j, 0], t["squared_relative"][j, j] = 1, True, 1
    t["of_old"][1, 0, 1], t["offset"][1, 0] = 1, -2
    x = torch.tensor([[1.0, 1.5], [1.0, 2.5]], dtype=torch.float64)
    sequences = torch.tensor([[0, -1], [1, -1], [0, 1]])
    case = Case(Straight(torch.ones(2).double(), -5.0), finish(t), x, sequences, 0 * x + 0.1, 0 * x + 5)
    task, jobs, low, high, _, _ = boxes_of(case, 0)
    reduction = Reduction(replace(task, sequences=sequences))
    needed = reduction.needed(jobs, low, high)
    left = [(int(p), w) for p, w, n in zip(jobs.person, jobs.sequences.tolist(), needed) if n]
    assert left == [(0, [0, -1]), (1, [0, 1])]


def test_actions_written_anew_make_the_same_plans():
    case = random_case(9, "net")
    rewritten = Rewritten.of(case.tables)
    assert int((rewritten.target >= 0).sum()) == 1  # the new value
    generator = torch.Generator().manual_seed(0)
    sequences = case.sequences
    d = 0.3 * torch.randn(len(sequences), 3, 2, generator=generator, dtype=torch.float64)
    start = case.tables.units(case.x[:1]).expand(len(sequences), -1)
    new = rewritten.tables.script(sequences).roll(start, d)
    old = case.tables.script(sequences).roll(start, rewritten.as_declared(start, sequences, d))
    assert torch.allclose(new.states, old.states)
    assert torch.allclose(new.cost, old.cost)


def test_limits_of_a_new_value_become_conditions():
    t = blank(1, parameters=1, conditions=1, e=1)
    t["keep"][0, 0], t["gain"][0, 0, 0], t["used"][0, 0], t["absolute"][0, 0] = 0, 1, True, 1
    t["low"][0, 0], t["high"][0, 0] = 2.0, 3.0
    x = torch.zeros(1, 1, dtype=torch.float64)
    model = Straight(torch.ones(1).double(), -1.0)
    case = Case(model, finish(t), x, torch.tensor([[0]]), x - 10, x + 10)
    proof = certify(case.task(), torch.tensor([torch.inf]).double())
    assert proof.lower_bound.tolist() == pytest.approx([2.0], rel=0.006)
    assert proof.r.flatten().tolist() == pytest.approx([2.0], rel=0.006)
    model.bias = -3.5
    assert torch.isinf(certify(case.task(), torch.tensor([torch.inf]).double()).lower_bound)


def test_found_keeps_the_cheapest():
    case = random_case(1, "net")
    task, jobs, *_ = boxes_of(case, 0)
    found = CheapestPlans.none(task, torch.full((3,), torch.inf).double())
    person = torch.tensor([1, 1, 2, 1])
    cost = torch.tensor([3.0, 1.0, torch.inf, 2.0]).double()
    found.update(person, cost, jobs.sequences[:4], torch.arange(24.0).double().reshape(4, 3, 2))
    assert found.cost.tolist() == [torch.inf, 1.0, torch.inf]
    assert found.sequences[1].tolist() == jobs.sequences[1].tolist()
    assert found.r[1].flatten().tolist() == list(range(6, 12))


def test_nobody_and_nothing():
    case = random_case(1, "net")
    none = certify(replace(case.task(), x=case.x[:0], lo=case.lo[:0], hi=case.hi[:0]), torch.zeros(0).double())
    assert len(none.lower_bound) == 0 and none.how == []
    without_any = certify(replace(case.task(), sequences=case.sequences[:0]), torch.full((3,), torch.inf))
    assert torch.isinf(without_any.lower_bound).all() and without_any.complete.all()
