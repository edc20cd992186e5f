"""The replay: what a plan does when every state is printed, and what may not be done."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from tests.core import town

import turnabout as ta
from turnabout.actions import Action, ActionSet, Parameter, Shift, new, old
from turnabout.core import REASONS, Problem, plan, replay
from turnabout.errors import MethodError


def walked(plans, person="ann", problem=None, **cells):
    """The replay of plans for one person, some of whose cells may be set."""
    problem = problem or town.problem()
    row = town.people().loc[[person]].assign(**cells)
    sequences, r = town.spelled(problem.actions, plans)
    return replay(problem, problem.schema.encode(row).expand(len(plans), -1), sequences, r)


def reasons(run):
    return [REASONS[i] for i in run.wrong.tolist()]


def rows(run, which=0):
    """The states of one plan as a table."""
    return town.SCHEMA.decode(run.states[which])


def test_a_plan_by_hand():
    run = walked([[("Study", 3), ("Earn", 25), ("Buy", 0)]])
    assert run.allowed.all()
    table = rows(run)
    assert table.school.tolist() == [10, 13, 13, 13]
    assert table.age.tolist() == [30, 36, 36, 36]
    assert table.income.tolist() == [30, 30, 55, 55]
    assert table.home.tolist() == ["rent", "rent", "rent", "own"]
    assert run.cost.tolist() == [[3.0, 2.5, 3.0]] and run.total.tolist() == [8.5]
    assert run.duration.tolist() == [[6.0, 0.0, 1.0]]
    assert run.slack[0, 0] == pytest.approx(3 / 40) and run.slack.min() >= 0  # 3 of twice the range of school
    assert torch.equal(run.end, run.states[:, -1])


def test_order_matters():
    run = walked([[("Study", 2), ("Earn", 20)], [("Earn", 20), ("Study", 2)]])
    assert reasons(run) == ["", "a condition is broken"]
    assert torch.equal(run.end[0], run.end[1])


def test_a_condition_in_the_middle():
    plans = [[("Study", 2), ("Earn", 19), ("Buy", 0)], [("Study", 2), ("Earn", 20), ("Buy", 0)]]
    assert reasons(walked(plans)) == ["a condition is broken", ""]  # 50 or more, and 50 is enough


def test_strict_conditions_want_more():
    assert reasons(walked([[("Wait", 1)]], age=70)) == ["a step changes nothing"]
    assert reasons(walked([[("Study", 3)], [("Study", 2)]], age=60)) == ["a condition is broken", ""]  # age below 66
    strict = ActionSet((Action("Raise", Shift("rate"), 0, [new("rate") < 0.3 + 0.2, old("rate") >= 0]),))
    problem = Problem(town.SCHEMA, ta.models.wrap(town.bank, town.SCHEMA), actions=strict)
    run = walked([[("Raise", 0.5)], [("Raise", 0.0)]], problem=problem, rate=0.0)
    assert reasons(run) == ["a condition is broken", "a step changes nothing"]


def test_followers_fit_the_printed_leader():
    run = walked([[("Study", 1.4)], [("Study", 2.6)]])
    assert run.allowed.all()
    assert rows(run, 0).iloc[-1][["school", "age"]].tolist() == [11, 32]  # not 33, though 2 * 1.4 is nearer to 3
    assert rows(run, 1).iloc[-1][["school", "age"]].tolist() == [13, 36]
    assert run.r.flatten().tolist() == [1.0, 3.0]


def test_a_follower_that_cannot_follow():
    run = walked([[("Study", 6)]], age=64, school=4)
    assert reasons(run) == [REASONS[plan.OFF]]  # 76 is past the bounds of age


def test_a_leader_stops_at_its_bounds():
    run = walked([[("Study", 90)]], age=20)
    assert run.allowed.all() and run.r[0, 0, 0] == 10  # school ends at 20
    assert rows(run).age.tolist() == [20, 40]


def test_ratios():
    run = walked([[("Settle", -5.0)], [("Settle", 2.0)]])
    assert reasons(run) == ["", "a step changes nothing"]  # debt may only fall
    assert rows(run).debt.tolist() == [10.0, 5.0]
    assert run.cost[0].tolist() == [0.25]


def test_rules_hold_on_the_way():
    rule = ta.rules.Implies(ta.rules.Changes("home"), ta.rules.Rises("school"))
    problem = town.problem(rules=[rule])
    plans = [[("Buy", 0), ("Study", 1)], [("Study", 1), ("Buy", 0)]]
    run = walked(plans, problem=problem, income=60)
    assert reasons(run) == ["a rule is broken on the way", ""]
    assert torch.equal(run.end[0], run.end[1])


def test_rests_only_at_the_end():
    actions = town.problem().actions
    sequences, r = town.spelled(actions, [[("Study", 2), ("Earn", 5)], [("Study", 2), ("Earn", 5)]])
    sequences = torch.stack([torch.tensor([sequences[0, 0], -1, sequences[0, 1]]), torch.tensor([*sequences[1], -1])])
    r = torch.stack([r[:, 0], torch.zeros_like(r[:, 0]), r[:, 1]], 1)
    r[1] = r[1][[0, 2, 1]]
    run = replay(town.problem(), town.SCHEMA.encode(town.people().loc[["ann", "ann"]]), sequences, r)
    assert reasons(run) == ["it rests in the middle", ""]
    assert run.cost[1].tolist() == [2.0, 0.5, 0.0] and torch.isinf(run.slack[1, 2])
    assert torch.equal(run.states[1, 2], run.states[1, 3])


def test_only_some_actions_repeat():
    run = walked([[("Study", 1), ("Study", 1)], [("Wait", 1), ("Wait", 2)]])
    assert reasons(run) == ["it repeats an action that may be taken once", ""]
    assert rows(run, 1).age.tolist() == [30, 31, 33]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_parameters_that_are_no_numbers(odd):
    run = walked([[("Study", odd)], [("Study", 2), ("Earn", odd)], [("Buy", odd)]], income=60)
    assert reasons(run) == ["a parameter is not a number"] * 2 + [""]  # Buy has none
    assert torch.isfinite(run.states).all() and torch.isfinite(run.cost).all() and torch.isfinite(run.r).all()


def test_parameters_keep_their_limits():
    run = walked([[("Work", 20)], [("Work", 21)], [("Work", 20.4)], [("Work", -20.6)]])
    assert reasons(run) == ["", "a parameter is outside its limits", "", "a parameter is outside its limits"]


def test_nothing_done_is_not_a_step():
    assert reasons(walked([[("Work", 0.3)], [("Work", 0.0)]])) == ["a step changes nothing"] * 2


def test_missing_cells_cannot_be_counted_on():
    assert reasons(walked([[("Bargain", 1)]], "bob")) == [REASONS[plan.MISSING]]
    assert reasons(walked([[("Bargain", 1)]], "ann")) == [""]


def test_ones_own_value_is_always_legal():
    run = walked([[("Work", 3), ("Work", -2.7)]], "bob")
    assert run.allowed.all()
    assert rows(run).income.tolist() == [50.4, 53, 50.4]  # between, the grid; back, their own
    assert torch.equal(run.end[0], run.states[0, 0])
    assert run.r[0, :, 0].tolist() == pytest.approx([2.6, -2.6])
    outside = walked([[("Work", -13)], [("Work", -5)]], income=118)
    assert rows(outside).income.tolist() == [118, 100]  # a new one lies inside; 113 is nearer to their own
    assert reasons(outside) == ["", "a step changes nothing"]


def test_what_an_action_does_not_name_stays():
    run = walked([[("Study", 2), ("Work", 7), ("Wait", 1)]], "bob")
    changed = town.SCHEMA.changed(run.states[:, :-1], run.states[:, 1:])[0]
    names = [[name for name, moved in zip(town.SCHEMA.names, line) if moved] for line in changed.tolist()]
    assert names == [["school", "age"], ["income"], ["age"]]


def free(effect, cost=lambda x, x_new, r: r[:, 0].abs(), footprint=("income",), **more):
    action = Action.free("Move", [Parameter("by", -1, 1)], effect, cost, footprint=footprint, **more)
    return Problem(town.SCHEMA, ta.models.wrap(town.bank, town.SCHEMA), actions=ActionSet((action,)))


def test_actions_written_as_functions():
    def income(x, r):
        return torch.cat([x[:, :1] + r, x[:, 1:]], 1)

    def income_and_more(x, r):
        return torch.cat([x[:, :1] + r, x[:, 1:2] - 0.3 * (x[:, :1] > 0.2), x[:, 2:]], 1)

    run = walked([[("Move", 0.2)], [("Move", 2.0)], [("Move", 0.9)]], problem=free(income))
    assert reasons(run) == ["", "a parameter is outside its limits", REASONS[plan.OFF]]
    assert rows(run).income.tolist() == [30, 50] and run.cost[0].tolist() == [0.2]
    assert reasons(walked([[("Move", 0.2)]], problem=free(income_and_more))) == [REASONS[plan.STRAY]]
    upward = free(income, precondition=lambda x, x_new, r: torch.cat([r, r, x_new[:, :1] - 0.4], 1))
    run = walked([[("Move", 0.2)], [("Move", -0.2)], [("Move", 0.05)]], problem=upward)
    assert reasons(run) == ["", "a condition is broken", "a condition is broken"]
    paid = free(income, cost=lambda x, x_new, r: r[:, 0])
    assert reasons(walked([[("Move", -0.2)]], problem=paid)) == [REASONS[plan.PRICE]]


def test_a_negative_duration_is_refused():
    wrong = ActionSet((Action("Shrink", Shift("income"), 0, duration=new("income") - old("income")),))
    problem = Problem(town.SCHEMA, ta.models.wrap(town.bank, town.SCHEMA), actions=wrong)
    assert reasons(walked([[("Shrink", -2)], [("Shrink", 2)]], problem=problem)) == [REASONS[plan.PRICE], ""]


def test_batches_do_not_matter(monkeypatch):
    problem, people = town.problem(), town.people()
    rng = torch.Generator().manual_seed(0)
    sequences = torch.randint(-1, 7, (200, 3), generator=rng)
    r = 20 * torch.rand(200, 3, 1, generator=rng, dtype=torch.float64) - 10
    x = problem.schema.encode(people)[torch.randint(0, 4, (200,), generator=rng)]
    whole = replay(problem, x, sequences, r)
    monkeypatch.setattr(plan, "SLICE", 7)
    for name, value in vars(replay(problem, x, sequences, r)).items():
        assert torch.equal(value, getattr(whole, name)), name
    assert 10 < whole.allowed.sum() < 190
    assert len(set(whole.wrong.tolist())) > 5


def test_nothing_to_replay():
    problem, x = town.problem(), town.SCHEMA.encode(town.people())
    size = problem.actions.tables.gain.shape[1]
    nobody = replay(problem, x[:0], torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, 3, size))
    assert nobody.states.shape == (0, 4, x.shape[1]) and nobody.allowed.shape == (0,)
    idle = replay(problem, x, torch.zeros(4, 0, dtype=torch.long), torch.zeros(4, 0, size))
    assert torch.equal(idle.end, x) and idle.allowed.all() and idle.total.tolist() == [0] * 4


def test_a_problem_without_actions_replays_nothing():
    bare = Problem(town.SCHEMA, ta.models.wrap(town.bank, town.SCHEMA))
    with pytest.raises(MethodError, match="plans need actions"):
        replay(bare, torch.zeros(1, 2), torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 1, 1))


def test_states_read_back_as_they_are():
    problem, people = town.problem(), town.people()
    sequences, r = town.spelled(problem.actions, [[("Study", 1), ("Settle", -0.333), ("Work", 7.7)]])
    x = problem.schema.encode(people)
    run = replay(problem, x, sequences.expand(4, -1), r.expand(4, -1, -1))
    for t in range(4):
        printed = problem.schema.write(people, x, run.states[:, t])
        assert (problem.schema.encode(printed) - run.states[:, t]).abs().max() < 1e-12
        assert not problem.schema.breaches(people, printed).any()
    assert isinstance(printed, pd.DataFrame)
