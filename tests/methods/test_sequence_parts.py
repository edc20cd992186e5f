"""Parts of the search of plans on numbers done by hand: prices, limits, convex steps, starts, penalties, slopes."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tests.methods.sequences.toys import batch_of, crowd, fitted, plain, shifts, straight, tiny_net

import turnabout as ta
from turnabout.actions import Absolute, Action, ActionSet, KeepRatio, Parameter, Set, Shift, Squared, new, old
from turnabout.methods.sequences.batch import Best
from turnabout.methods.sequences.carlini import OVERFLOW, RELAXATIONS, STEEP, Descent, Published, exponential
from turnabout.methods.sequences.parameter_prices import own_price, own_prices, reach
from turnabout.methods.sequences.printable import printable, tightened
from turnabout.methods.sequences.scores import SCORES, loss_slope
from turnabout.methods.sequences.sequence_search import Ledger
from turnabout.methods.sequences.solve import shrink
from turnabout.methods.sequences.starts import draw, scan, screen
from turnabout.methods.sequences.trust import Prices, convex_step, walk
from turnabout.schema import Category, Number, Schema
from turnabout.testing.deciders import affine

F64 = torch.float64


def tensor(*values):
    return torch.tensor(values, dtype=F64)


def one_action(action, weights=(1.0, 0.0, 0.0), bias=-20.0, low=-100.0, **more):
    schema = plain(3, low=low, high=100.0, **more)
    return ta.Problem(schema, straight(schema, weights, bias), actions=ActionSet((action,)))


def person(**cells):
    return pd.DataFrame([{"a": 4.0, "b": 2.0, "c": 1.0} | cells])


# -- prices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "absolute", "squared", "kink"),
    [
        (Action("A", Shift("a"), "2 * |a| + (a / 3)^2"), 2, 1 / 9, 0),
        (Action("A", Shift("a"), "(a / old a)^2"), 0, 1 / 16, 0),
        (Action("A", Shift("a"), Absolute("a", relative=True) + 5), 1 / 4, 0, 0),
        (Action("A", Shift("a", by="x", times=3), Absolute("a")), 3, 0, 0),
        (Action("A", Set("a", "x"), Absolute("a"), parameters=[Parameter("x")]), 1, 0, 4),
        (Action("A", [Shift("a", by="x"), Shift("b", by="x", times=-2)], "|a| + |b|"), 3, 0, 0),
        (Action("A", Shift("a"), 7), 0, 0, 0),
    ],
)
def test_what_a_parameter_costs(action, absolute, squared, kink):
    batch = batch_of(one_action(action, low=0.5), person(), [[0]])
    found = own_price(batch, 0, batch.start, torch.zeros(1, 1, dtype=F64), 0)
    assert [float(part) for part in found] == pytest.approx([absolute, squared, kink], abs=1e-12)
    step = torch.tensor([[kink + 0.7]], dtype=F64)
    constant = float(batch.script.constant[0])
    told = float(batch.script.price(0, batch.start, batch.script.move(0, batch.start, step)))
    assert told == pytest.approx(constant + absolute * 0.7 + squared * 0.49)


def test_how_far_a_budget_reaches():
    absolute, squared = tensor(2, 0, 1, 0, 3), tensor(0, 4, 1, 0, 1)
    budget = tensor(6, 1, 6, 5, math.inf)
    assert reach(absolute, squared, budget).tolist() == pytest.approx([3, 0.5, 2, math.inf, math.inf])
    assert reach(absolute, squared, tensor(0, 0, 0, 0, 0)).tolist()[:3] == [0, 0, 0]


# -- convex steps -------------------------------------------------------------------------------------------------


def test_cheapest_of_one_parameter():
    price = Prices(tensor([1, 0, 2, 1]), tensor([0.5, 1, 0, 0.5]), tensor([0, 0, 1, 0]), tensor([0, 0, 0, 0.5]))
    low, high = torch.full((1, 4), -10.0, dtype=F64), torch.full((1, 4), 10.0, dtype=F64)
    # |r| + r^2/2 - 3 r; r^2 - 3 r; 2 |r - 1| - 3 r rises for ever; |r| + r^2/2 + r/2 - 3 r
    assert price.cheapest(tensor([3, 3, 3, 3]), low, high).tolist() == [[2, 1.5, 10, 1.5]]
    assert price.cheapest(tensor([-3, -3, 1, 1]), low, high).tolist() == [[-2, -1.5, 1, 0]]
    assert price.cheapest(tensor([3, 3, 3, 3]), low, 0.5 * high / 5).tolist() == [[1, 1, 1, 1]]


@given(st.integers(0, 10_000))
@example(159)  # nothing costs anything
def test_convex_steps_are_the_cheapest_in_the_box(seed):
    rng = np.random.default_rng(seed)
    absolute, squared = rng.uniform(0, 2, 2) * rng.integers(0, 2, 2), rng.uniform(0.05, 2, 2) * rng.integers(0, 2, 2)
    kink, up, r = rng.uniform(-1, 1, 2), rng.normal(0, 1, 2), rng.uniform(-1, 1, 2)
    low, high = r - rng.uniform(0, 2, 2), r + rng.uniform(0, 2, 2)
    best_gain = np.maximum(up * (low - r), up * (high - r)).sum()
    need = rng.uniform(-0.5, 1.1) * best_gain
    price = Prices(*(torch.as_tensor(v).reshape(1, 2) for v in (absolute, squared, kink, np.zeros(2))))
    rows = [torch.as_tensor(v).reshape(1, 2) for v in (up, low, high, r)]
    point, multiplier = convex_step(price, rows[0], tensor(need), *rows[1:])
    found = point[0].numpy()
    assert (found >= low - 1e-12).all() and (found <= high + 1e-12).all() and float(multiplier) >= 0

    def cost(p):
        return (absolute * np.abs(p - kink) + squared * (p - kink) ** 2).sum(-1)

    if need > best_gain:  # out of reach: as near as the box allows
        assert up @ (found - r) == pytest.approx(best_gain)
        return
    assert up @ (found - r) >= need - 1e-9
    sides = [np.unique(np.r_[np.linspace(low[j], high[j], 201), np.clip(kink[j], low[j], high[j])]) for j in range(2)]
    grid = np.stack(np.meshgrid(*sides), -1).reshape(-1, 2)
    good = grid[(grid - r) @ up >= need]
    if len(good):
        assert cost(found) <= cost(good).min() + 1e-6


def test_a_walk_ends_at_the_closed_form():
    schema = plain(3)
    problem = ta.Problem(schema, straight(schema, [1, 2, -1], -20), actions=shifts("abc", Squared))
    people = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 1.0], "c": [0.0, 1.0]})
    batch = batch_of(problem, people, [[0, 1, 2]] * 2)
    start = torch.zeros(2, 3, 1, dtype=F64)
    best, target = Best.none(start), torch.zeros(2, dtype=F64)
    walk(batch, start, best, target, 30)
    assert best.cost.tolist() == pytest.approx([400 / 6, 18**2 / 6], rel=1e-9)
    assert best.r[0].flatten().tolist() == pytest.approx([20 / 6, 40 / 6, -20 / 6], rel=1e-5)
    assert (best.margin >= 0).all()


# -- limits -------------------------------------------------------------------------------------------------------


def test_limits_of_parameters_follow_the_steps_before():
    rise = Action("rise", Shift("a"), 1, [new("a") <= 30], repeatable=True)
    follow = Action("follow", Shift("b"), 1, [new("b") <= new("a"), new("b") >= old("b") + 1])
    problem = ta.Problem(
        plain(3, -100, 100), straight(plain(3, -100, 100), [1, 1, 1], -50), actions=ActionSet([rise, follow])
    )
    batch = batch_of(problem, person(), [[0, 1]])
    r, low, high = batch.limits(tensor([[10], [50]]).reshape(1, 2, 1))
    assert r.flatten().tolist() == [10, 12]  # b from 2 to at most 4 + 10
    assert low.flatten().tolist() == [-104, 1] and high.flatten().tolist() == [26, 12]
    r, low, high = batch.limits(tensor([[-90], [3]]).reshape(1, 2, 1))
    assert r.flatten().tolist() == [-90, 3]  # a is -86 by then: no b will do, and the parameter stays where it is
    assert low[0, 1] == high[0, 1] == 3
    assert not batch.kept(batch.script.roll(batch.start, r))


@pytest.mark.parametrize(("above", "below"), [(2, 12), (-12, -2), (-5, 7)])
def test_limits_keep_room_for_slips(above, below):
    action = Action("A", Shift("a"), 1, [new("a") >= old("a") + above, new("a") <= old("a") + below])
    batch = batch_of(one_action(action), person(), [[0]])
    theta = 0.2
    roomy = type(batch)(batch.decision, batch.owner, batch.script, batch.lo, batch.hi, theta)
    for far in (-99.0, 99.0):
        r = float(roomy.limits(torch.full((1, 1, 1), far, dtype=F64))[0])
        ends = [r * (1 - theta), r * (1 + theta)]
        assert min(ends) >= above - 1e-12 and max(ends) <= below + 1e-12
        assert min(abs(end - limit) for end in ends for limit in (above, below)) < 1e-12  # and touches one


def test_best_keeps_the_cheapest_and_else_the_nearest():
    best = Best.none(torch.zeros(3, 1, 1, dtype=F64))
    yes = torch.ones(3, dtype=torch.bool)

    def offer(value, cost, margin, kept=yes):
        r = torch.full((3, 1, 1), value, dtype=F64)
        return best.offer(r, tensor(*cost), tensor(*margin), kept, tensor(0.0, 0.0, 0.5)).tolist()

    assert offer(1.0, (5, 5, 5), (1, -2, 0.4)) == [True, False, False]
    assert offer(2.0, (6, 1, 1), (9, -1, 0.1)) == [False, False, False]
    assert best.r.flatten().tolist() == [1, 2, 1] and best.margin.tolist() == [1, -1, 0.4]
    assert offer(3.0, (4, 9, 9), (0, 0, 0.5), yes & torch.tensor([False, True, True])) == [False, True, True]
    assert best.cost.tolist() == [5, 9, 9]
    assert offer(4.0, (1, 1, 1), (-1, -1, -1)) == [False, False, False]  # a miss never replaces a plan
    assert offer(5.0, (math.nan,) * 3, (1, 1, 1)) == [False, False, False]
    assert offer(6.0, (1, 1, 1), (math.nan,) * 3) == [False, False, False]


# -- starts -------------------------------------------------------------------------------------------------------


def test_draws_lie_within_limits_and_budget():
    actions = ActionSet(
        (
            Action("A", Shift("a"), Absolute("a"), [new("a") > old("a"), new("a") < 30]),
            Action("B", [Shift("b", by="x"), KeepRatio("c", "b")], Squared("b"), [new("c") <= 3]),
            Action("C", Shift("a", by=1.0), 2),
        )
    )
    schema = plain(3, 0.5, 100)
    problem = ta.Problem(schema, straight(schema, [1, 1, 1], -200), actions=actions)
    people = pd.concat([person()] * 3, ignore_index=True)
    batch = batch_of(problem, people, [[0, 1], [1, 0], [2, 1]])
    budget = tensor(9.0, 100.0, math.inf)
    r = draw(batch, 64, budget, np.random.default_rng(0))
    assert r.shape == (3, 64, 2, 1) and torch.isfinite(r).all()
    many = batch.take(torch.arange(3).repeat_interleave(64))
    path = many.script.roll(many.start, r.flatten(0, 1))
    assert many.kept(path).all()
    cost = path.cost.reshape(3, 64, 2)
    assert (cost[0] <= 9 + 1e-9).all() and (cost[1, :, 0] <= 100 + 1e-9).all()  # none of them alone
    assert (r[2, :, 0] == 0).all() and float(r[0, :, 0].max()) > 8  # and up to the end
    assert torch.equal(draw(batch, 64, budget, np.random.default_rng(0)), r)
    alone = draw(batch.take(torch.tensor([1])), 64, budget[1:2], np.random.default_rng(0))
    assert torch.equal(alone[0], r[1])  # whoever else is there


def test_a_comb_covers_both_sides_and_stands_dense_near_nothing():
    action = Action("A", Shift("a"), Absolute("a"), [new("a") >= -6, new("a") <= 44])
    batch = batch_of(one_action(action), person(), [[0]])
    teeth = scan(batch, 64, tensor(math.inf)).flatten().sort().values
    assert len(teeth) == 64 and float(teeth[0]) == -10 and float(teeth[-1]) == 40
    assert float(teeth[teeth > 0].min()) < 1e-4 and float(teeth[teeth < 0].max()) > -1e-4
    assert float((teeth[1:] - teeth[:-1]).max()) < 3
    near = scan(batch, 64, tensor(5.0)).flatten()
    assert float(near.min()) == -5 and float(near.max()) == 5  # what the budget buys


def test_the_screen_keeps_accepted_ones_by_cost_then_near_ones():
    action = Action("A", Shift("a"), Absolute("a"), [new("a") <= 60])
    batch = batch_of(one_action(action), person(), [[0]])  # accepted from r = 16
    r = tensor(1, 20, 17, 18, 3, 2, 70, 40).reshape(1, 8, 1, 1)
    assert screen(batch, r, 1, tensor(0.0)).flatten().tolist() == [17]
    assert screen(batch, r, 4, tensor(0.0)).flatten().tolist() == [20, 17, 3, 40]  # the best of each pair


# -- back to the boundary -----------------------------------------------------------------------------------------


def test_shrinking_finds_the_boundary_without_gradients():
    action = Action("A", Set("a", "x"), Absolute("a"), parameters=[Parameter("x")])
    batch = batch_of(one_action(action), person(), [[0]])
    assert float(own_prices(batch, torch.zeros(1, 1, 1, dtype=F64))[2]) == 4  # doing nothing is to set a to 4
    best = Best(tensor(90).reshape(1, 1, 1), tensor(86), tensor(70))
    shrink(batch, best, tensor(0.0))
    assert float(best.r) == pytest.approx(20, abs=2e-3) and float(best.cost) == pytest.approx(16, abs=2e-3)
    assert float(best.margin) >= 0
    shrink(batch, best, tensor(0.0), 3)
    assert float(best.cost) == pytest.approx(16, rel=2e-5)
    none = Best.none(tensor(90).reshape(1, 1, 1))
    shrink(batch, none, tensor(0.0))
    assert math.isinf(none.cost)  # nothing to shrink


# -- the paper's penalty ------------------------------------------------------------------------------------------


def test_the_penalty_by_hand():
    action = Action("A", Shift("a"), 1, [new("a") < 50])
    batch = batch_of(one_action(action), person(), [[0]])
    size = float(batch.script.size[0, 0, 0])
    room = size / 500
    gap = 0.5 * 1e-6  # strict conditions are drawn in by half of a printed digit
    r = tensor(46 - gap - room).reshape(1, 1, 1)
    path = batch.script.roll(batch.start, r)
    tau = STEEP / size
    assert float(exponential(batch, path.slack)) == pytest.approx(tau * math.exp(-tau * room), rel=1e-6)
    assert tau * math.exp(-tau * room) == pytest.approx(tau * math.exp(-2))
    on_it = batch.script.roll(batch.start, tensor(46 - gap).reshape(1, 1, 1))
    assert float(exponential(batch, on_it.slack)) == pytest.approx(tau, rel=1e-5)


@pytest.mark.parametrize("slack", [-1e300, -1e9, 1e300, math.inf, -math.inf])
def test_the_penalty_does_not_overflow(slack):
    action = Action("A", Shift("a"), 1, [new("a") < 50])
    batch = batch_of(one_action(action), person(), [[0]])
    found = float(exponential(batch, torch.full((1, 1, 1), slack, dtype=F64)))
    assert 0 <= found <= STEEP * math.exp(OVERFLOW) and math.isfinite(found)


@pytest.mark.parametrize("relaxation", RELAXATIONS.members.values(), ids=RELAXATIONS.members)
def test_descent_finds_allowed_accepted_parameters(relaxation):
    action = Action("A", Shift("a"), Squared("a", per=10), [new("a") < 60])
    batch = batch_of(one_action(action), person(), [[0]])
    start = torch.zeros(1, 1, 1, dtype=F64)
    best, target = Best.none(start), tensor(0.0)
    end = Descent(steps=300, lr=0.05).run(batch, start, best, target, relaxation)
    assert torch.isfinite(end).all()
    assert float(best.cost) == pytest.approx(2.56, rel=0.02) and float(best.margin) >= 0


def test_the_published_schedule_keeps_the_lowest_relaxed_cost():
    action = Action("A", Shift("a"), Squared("a", per=10), [new("a") < 60])
    batch = batch_of(one_action(action), person(), [[0]])
    r, cost = Published(units=((10.0,),), steps=3000, lr=0.01).run(batch)
    assert float(cost) == pytest.approx(2.56, rel=0.02) and float(r) == pytest.approx(16, rel=0.02)
    out_of_reach = batch_of(one_action(action, bias=-1e6), person(), [[0]])
    assert math.isinf(Published(units=((10.0,),), steps=200).run(out_of_reach)[1])


# -- the decision and its slope -----------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [1, 6])
def test_margins_of_states_are_those_of_rows(hidden):
    schema = Schema((*plain(3, 0, 10), Category("job", ("none", "some", "much"))))
    model = tiny_net(schema, 3, hidden)
    actions = ActionSet((Action("A", [Shift("a"), Shift("c")], 1), Action("B", Set("job", "much"), 1)))
    people = crowd(Schema(tuple(schema)[:3]), 5, 1).assign(job=["none", "some", "much", "none", "some"])
    batch = batch_of(ta.Problem(schema, model, actions=actions), people, [[0, 1]] * 5)
    states = batch.script.roll(batch.start, torch.randn(5, 2, 2, dtype=F64, generator=torch.Generator().manual_seed(0)))
    rows = batch.decision.tables.encoded(batch.decision.x, states.end)
    torch.testing.assert_close(batch.margin(states), model.margin(rows), rtol=0, atol=1e-12)


def test_the_slope_of_the_loss_is_that_of_finite_differences():
    schema = plain(4, 0, 10)
    model = tiny_net(schema, 1, 8)
    x = schema.encode(crowd(schema, 20, 0))
    slope, step = loss_slope(model, x), 1e-6
    assert (slope > 0).any(1).all()

    def loss(rows):
        return torch.log1p(torch.exp(-model.margin(rows)))

    for j in range(4):
        up, down = x.clone(), x.clone()
        up[:, j] += step
        down[:, j] -= step
        differences = (loss(up) - loss(down)).abs() / (2 * step)
        torch.testing.assert_close(slope[:, j], differences, rtol=1e-4, atol=1e-8)


def test_steepness_is_the_mean_over_a_footprint():
    schema = Schema((*plain(2, 0, 10), Category("job", ("none", "some"))))
    weights = torch.tensor([3.0, -1.0, 0.5, 2.0], dtype=F64)  # of encoded a, b, none, some
    model = ta.models.wrap(torch.nn.Sequential(affine(weights, -4.0)), schema)
    actions = ActionSet(
        (
            Action("A", Shift("a"), 1),
            Action("AB", [Shift("a", by="x"), Shift("b", by="x")], 1),
            Action("J", Set("job", "some"), 1, [old("job") != "some"]),
        )
    )
    problem = ta.Problem(schema, model, actions=actions)
    people = pd.DataFrame({"a": [2.0], "b": [5.0], "job": ["none"]})
    search = fitted(problem, max_steps=1).explore(schema.encode(people))
    margin = 3 * 0.2 - 0.5 + 0.5 - 4
    share = 1 / (1 + math.exp(margin))
    steepness = SCORES.get("gradient").values
    assert (-steepness(search, [(0, ())]))[0].tolist() == pytest.approx([3 * share, 2 * share, 1.25 * share])
    after = 1 / (1 + math.exp(margin + 1.5))  # where J leads
    assert (-steepness(search, [(0, (2,))]))[0].tolist() == pytest.approx([3 * after, 2 * after, 1.25 * after])


# -- printing -----------------------------------------------------------------------------------------------------


def test_printing_rounds_to_the_cheaper_side_that_is_accepted():
    action = Action("A", Shift("a"), Absolute("a"))
    problem = one_action(action, weights=(1, 0, 0), bias=-20.004, decimals=2)
    x = problem.schema.encode(person())
    for start in (16.004, 16.0049, 16.01, 16.013):
        out = printable(problem, x, torch.tensor([[0]]), tensor(start).reshape(1, 1, 1), 1e-9, problem.margin)
        assert float(out.r) == pytest.approx(16.01, abs=1e-9) and float(out.cost) == pytest.approx(16.01)


def test_printing_may_be_refused():
    problem = one_action(Action("A", Shift("a"), Absolute("a")), decimals=2)
    x, sequence, r = problem.schema.encode(person()), torch.tensor([[0]]), tensor(16.0).reshape(1, 1, 1)
    more = printable(problem, x, sequence, r, 1e-9, problem.margin, accept=lambda rows, sequences, r: r[:, 0, 0] > 16.1)
    assert float(more.r) > 16.1
    none = printable(problem, x, sequence, r, 1e-9, problem.margin, accept=lambda rows, sequences, r: r[:, 0, 0] > 1e6)
    assert math.isinf(none.cost)
    late = printable(problem, x, sequence, r, 1e-9, problem.margin, expired=lambda: True)
    assert math.isinf(late.cost)


def test_strict_conditions_are_drawn_in_by_half_a_step():
    schema = Schema((Number("a", 0, 100, step=2), Number("b", 0, 100, step=1)))
    strict = Action("A", [Shift("a"), Shift("b")], 1, [new("a") < 50, new("b") <= 50, old("a") > 1])
    problem = ta.Problem(schema, straight(schema, [1, 1], -99), actions=ActionSet((strict,)))
    before, after = problem.actions.tables.offset[0], tightened(problem).tables.offset[0]
    assert (before - after).tolist() == [1.0, 0.0, 1.0]
    assert torch.equal(problem.actions.tables.offset[0], before)  # the problem's own stay as they are


# -- what is known ------------------------------------------------------------------------------------------------


def test_the_ledger_remembers_the_best():
    ledger = Ledger.empty(2)
    r = torch.zeros(2, 1, 1, dtype=F64)
    ledger.enter([(0, (1,)), (1, (0, 1))], Best(r, tensor(3, math.inf), tensor(0.1, -0.5)))
    ledger.enter([(0, (1,))], Best(r[:1] + 1, tensor(4), tensor(0.2)))
    assert ledger.incumbent == [3, math.inf] and ledger.alone == [3, math.inf]
    assert ledger.objective(0, (1,)) == 3 and ledger.objective(1, (0, 1)) == pytest.approx(50)
    assert ledger.objective(0, ()) > 1e6
    ledger.enter([(0, (1,))], Best(r[:1] + 2, tensor(2), tensor(0.3)))
    assert ledger.incumbent[0] == 2 and float(ledger.r[ledger.place[0][1,]]) == 2
    ledger.enter([(1, (1,))], Best(r[:1], tensor(math.inf), tensor(-math.inf)))
    assert ledger.objective(1, (1,)) > 1e6  # nothing allowed was met
