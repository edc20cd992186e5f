"""Plans as answers: replayed, ranked, verified at the end and on the way, and told step by step."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from tests.core import town
from tests.core.conftest import Corners
from tests.core.town import Told

import turnabout as ta
from turnabout.actions import ActionSet
from turnabout.core import Plans, Problem, Proposal, Recourse, json_schema
from turnabout.errors import ActionError, MethodError, ProblemError, TurnaboutError

WORK = [("Study", 2), ("Earn", 60)]
BUY = [("Study", 2), ("Earn", 25), ("Buy", 0)]


def told(plans, options=1, people=None, problem=None, **more):
    method = Told(plans, **more).fit(problem or town.problem())
    return method.find(town.people() if people is None else people, options=options)


# -- what is shown -----------------------------------------------------------------------------------------------


def test_a_plan_is_told_step_by_step():
    answer = told([WORK, BUY], options=2)
    assert answer.status.to_dict() == {"ann": "FOUND", "bob": "FOUND", "cid": "FOUND", "dee": "ACCEPTED"}
    steps = answer.steps_of("ann", 1)
    assert steps.index.tolist() == [1, 2] and steps.index.name == "step"
    assert steps.action.tolist() == ["Study", "Earn"]
    assert [json.loads(text) for text in steps.parameters] == [{"years": 2}, {"more": 60}]
    assert steps.change.tolist() == [
        "study for 2 more years (school 10 -> 12, age 30 -> 34)",
        "income 30 -> 90",
    ]
    assert [json.loads(text) for text in steps.becomes] == [{"school": 12, "age": 34}, {"income": 90}]
    assert steps.cost.tolist() == [2.0, 6.0] and steps.duration.tolist() == [4.0, 0.0]
    assert steps.margin.iloc[-1] == answer.options.loc[("ann", 1), "margin"]
    assert steps.margin.iloc[0] < 0  # rows on the way need not be accepted
    plan = answer.plans.loc[("ann", 1)]
    assert plan[["steps", "cost", "duration"]].tolist() == [2, 8.0, 4.0]
    assert plan[["lower_bound", "gap", "tolerance"]].isna().all()
    assert answer.options.loc[("ann", 1), "cost"] == 8.0
    assert answer.changes().query("person == 'ann' and option == 1").feature.tolist() == ["income", "school", "age"]


def test_the_rows_on_the_way():
    answer = told([BUY])
    states = answer.states_of("ann")
    assert states.index.tolist() == [0, 1, 2, 3]
    assert states.income.tolist() == [30, 30, 55, 55] and states.home.tolist() == ["rent"] * 3 + ["own"]
    assert states.iloc[0].tolist() == town.people().loc["ann"].tolist()
    assert states.iloc[-1].tolist() == answer.options.loc[("ann", 0), answer.features].tolist()


def test_cheapest_first_and_only_if_accepted():
    answer = told([[("Study", 3), ("Earn", 60)], [("Earn", 70)], WORK, BUY, [("Study", 2), ("Earn", 5)]], options=9)
    assert answer.plans.loc["ann"].cost.tolist() == [7.5, 8.0, 9.0]  # Earn alone is not allowed, 5 more are too few
    assert answer.plans.loc["ann"].steps.tolist() == [3, 2, 2]
    assert (town.bank(answer.options) >= 0.5).all()
    assert told([WORK, BUY]).plans.loc["ann"].cost.tolist() == [7.5]


class InOrder(Told):
    ranked = False


def test_unranked_plans_keep_their_order():
    method = InOrder([WORK, BUY]).fit(town.problem())
    answer = method.find(town.people(), options=2)
    assert answer.plans.loc["ann"].cost.tolist() == [8.0, 7.5]
    assert answer.steps_of("ann", 0).action.tolist() == ["Study", "Earn"]


def test_the_same_end_by_the_same_actions_is_the_same_option():
    one, other = [("Settle", -4.0), ("Study", 2), ("Earn", 60)], [("Study", 2), ("Settle", -4.0), ("Earn", 60)]
    assert len(told([one, other], options=5, people=town.people().iloc[:1]).options) == 1
    by_work = [("Study", 2), ("Work", 20), ("Work", 20), ("Work", 20)]
    both = told([WORK, by_work], options=5, people=town.people().iloc[:1])
    assert both.plans.cost.tolist() == [5.0, 8.0]  # the same row, by other actions
    assert (both.options[both.features].nunique() == 1).all()


def test_nothing_is_walked_back():
    answer = told([[("Study", 5), ("Earn", 70)]])
    assert answer.options.loc[("ann", 0), "income"] == 100
    assert answer.options.loc[("ann", 0), "school"] == 15


def test_chunks_and_order_do_not_matter():
    people = pd.concat([town.people().add_prefix("", axis=0).rename(lambda i, k=k: f"{i}{k}") for k in range(3)])
    people["income"] -= np.arange(len(people))
    pieces = Told([WORK, BUY])
    pieces.chunk = 2
    whole = told([WORK, BUY], 2, people)
    assert pieces.fit(town.problem()).find(people, options=2) == whole
    turned = told([WORK, BUY], 2, people[::-1])
    for person, option in whole.plans.index:
        pd.testing.assert_frame_equal(turned.steps_of(person, option), whole.steps_of(person, option))


def test_rows_on_the_way_are_judged_by_the_original():
    def holes(table):
        p = town.bank(table)
        p[(table.age == 34).to_numpy() & (table.income == 30).to_numpy()] = np.nan
        return p

    problem = Problem(town.SCHEMA, ta.models.wrap(holes, town.SCHEMA), actions=town.ACTIONS)
    answer = told([WORK], problem=problem)
    assert np.isnan(answer.steps_of("ann").margin.iloc[0])  # nothing is known of that row, and it need not be
    assert Recourse.from_json(answer.to_json()) == answer


# -- what is not shown -------------------------------------------------------------------------------------------


def test_refused_plans_tell_how_near_they_came():
    answer = told([[("Study", 2), ("Earn", 20)], [("Study", 2), ("Earn", 10)], [("Earn", 70)]])
    assert answer.status["ann"] == "NOT_FOUND" and answer.steps.empty == answer.plans.empty
    row = pd.DataFrame([town.people().loc["ann"].to_dict() | {"school": 12, "age": 34, "income": 50}])
    assert answer.why.loc["ann", "best_margin"] == pytest.approx(town.bank(row)[0] - 0.5)
    assert "refused by" in answer.why.loc["ann", "reason"]


def test_plans_that_nobody_can_walk():
    answer = told([[("Earn", 70), ("Study", 2)]], people=town.people().iloc[:1])
    assert answer.why.reason.tolist() == [
        "no plan whose steps can all be taken was found; look at the actions' conditions and the rules."
    ]
    assert np.isnan(answer.why.best_margin.iloc[0])


class Idle(Told):
    def _search(self, x):
        sequences, r = torch.full((len(x), 2, 3), -1), torch.zeros(len(x), 2, 3, 1, dtype=torch.float64)
        return Proposal(x.unsqueeze(1), plans=Plans(sequences, r))


def test_no_plan_proposed():
    answer = Idle([]).fit(town.problem()).find(town.people())
    assert answer.status.tolist() == ["NOT_FOUND"] * 3 + ["ACCEPTED"]
    assert answer.steps.empty and answer.plans.empty


def test_impossible_needs_a_proof_and_no_plan():
    ann = town.people().iloc[:1].assign(income=30)
    answer = told([[("Earn", 1)]], people=ann, impossible=True)
    assert answer.status["ann"] == "IMPOSSIBLE" and answer.why.proof.tolist() == ["shown by hand."]
    assert told([WORK], people=ann, impossible=True).status["ann"] == "FOUND"


# -- bounds ------------------------------------------------------------------------------------------------------


def test_gap_to_a_lower_bound():
    ann = town.people().iloc[:1]
    answer = told([WORK, BUY], 2, ann, lower_bound=6.0, tolerance=[0.1, np.nan])
    assert answer.plans.lower_bound.tolist() == [6.0, 6.0]
    assert answer.plans.gap.tolist() == [pytest.approx(0.2), pytest.approx(0.25)]
    assert answer.plans.tolerance.isna().tolist() == [True, False] and answer.plans.tolerance.iloc[1] == 0.1
    exact = told([BUY], 1, ann, lower_bound=7.5 * (1 + 1e-12))
    assert exact.plans.gap.tolist() == [0.0] and exact.plans.lower_bound.tolist() == [7.5]
    assert told([BUY], 1, ann, lower_bound=np.nan).plans.gap.isna().all()
    assert told([BUY], 1, ann, lower_bound=-3.0).plans.lower_bound.tolist() == [0.0]


def test_a_bound_above_a_verified_plan_is_dropped():
    with pytest.warns(UserWarning, match="lower bounds of 1 people lie above the cost"):
        answer = told([WORK, BUY], 2, town.people().iloc[:1], lower_bound=7.6)
    assert answer.plans.lower_bound.isna().all() and answer.plans.gap.isna().all()


def test_a_plan_for_nothing_has_no_gap():
    gift = ActionSet.from_dict({"actions": [{"name": "Get a gift", "effect": {"set": "home", "to": "own"}, "cost": 0}]})
    problem = Problem(town.SCHEMA, ta.models.wrap(town.bank, town.SCHEMA), actions=gift)
    answer = told(
        [[("Get a gift", 0)]], people=town.people().assign(income=55).iloc[:1], problem=problem, lower_bound=0
    )
    assert answer.plans.cost.tolist() == [0.0] and answer.plans.gap.tolist() == [0.0]


# -- data --------------------------------------------------------------------------------------------------------


def test_json_both_ways():
    answer = told([WORK, BUY], 2, lower_bound=5.0)
    back = Recourse.from_json(answer.to_json())
    assert back == answer and hash(back) == hash(answer)
    pd.testing.assert_frame_equal(back.steps, answer.steps)
    pd.testing.assert_frame_equal(back.plans, answer.plans)
    assert pickle.loads(pickle.dumps(answer)) == answer
    other = replace(answer, steps=answer.steps.assign(cost=answer.steps.cost + 1))
    assert other != answer
    assert replace(answer, plans=answer.plans.iloc[:1]) != answer


def test_json_follows_its_schema():
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(json.loads(told([WORK, BUY], 2).to_json()), json_schema())


def test_answers_without_plans_are_as_they_were(problem, people):
    answer = Corners().fit(problem).find(people)
    assert not {"steps", "plans"} & set(answer.to_dict())
    told = (answer.people, answer.options, answer.status, answer.why, answer.made_by, answer.seconds)
    old = Recourse(*told, yes=answer.yes)
    assert old == answer and old.steps.empty and old.plans.empty
    assert list(old.plans) == ["steps", "cost", "duration", "lower_bound", "gap", "tolerance"]
    assert old.steps.index.names == ["person", "option", "step"]
    back = Recourse.from_json(answer.to_json())
    pd.testing.assert_frame_equal(back.steps, answer.steps)
    pd.testing.assert_frame_equal(back.plans, answer.plans)


def test_asking_for_a_plan_that_is_not_there(problem, people):
    answer = told([BUY])
    with pytest.raises(TurnaboutError, match="person 'ann' has no plan as option 1"):
        answer.steps_of("ann", 1)
    with pytest.raises(TurnaboutError, match="person 'nobody' has no plan"):
        answer.states_of("nobody")
    with pytest.raises(TurnaboutError, match="only methods that work with actions"):
        Corners().fit(problem).find(people).steps_of("p0")


# -- misuse ------------------------------------------------------------------------------------------------------


def test_problems_that_do_not_fit_their_actions(schema, problem):
    model = problem.model
    with pytest.raises(ActionError, match="'Study' is not an Action"):
        Problem(schema, model, actions=["Study"])
    with pytest.raises(ProblemError, match="is not an ActionSet"):
        Problem(schema, model, actions={"Study": 1})
    with pytest.raises(ProblemError, match="bound to another schema"):
        Problem(schema, model, actions=town.ACTIONS.bind(town.SCHEMA))
    with pytest.raises(ActionError, match="school"):
        Problem(schema, model, actions=town.ACTIONS)
    bound = Problem(town.SCHEMA, ta.models.wrap(town.bank, town.SCHEMA), actions=town.ACTIONS.bind(town.SCHEMA))
    assert bound.declared_actions == town.ACTIONS and bound.actions.names == town.ACTIONS.names
    assert "7 actions" in repr(bound)
    assert problem.actions is None and problem.declared_actions is None


def test_methods_that_need_actions_say_so(problem):
    with pytest.raises(MethodError, match="Told needs actions, and the problem has none"):
        Told([BUY]).fit(problem)


class Misshapen(Told):
    """Proposes plans of a wrong shape."""

    def _search(self, x):
        sequences, r = spelled_for(self.problem_, len(x))
        return Proposal(x.unsqueeze(1), plans=self.plans(sequences, r))


def spelled_for(problem, n):
    sequences, r = town.spelled(problem.actions, [WORK])
    return sequences.expand(n, -1, -1), r.expand(n, -1, -1, -1)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda sequences, r: Plans(sequences[0], r[0]), "sequences of shape"),
        (lambda sequences, r: Plans(sequences, r[..., 0]), "parameters of shape"),
        (lambda sequences, r: Plans(sequences + 9, r), "an action that does not exist"),
        (lambda sequences, r: Plans(sequences - 5, r), "an action that does not exist"),
        (lambda sequences, r: Plans(sequences.double(), r), "an action that does not exist"),
        (lambda sequences, r: Plans(sequences, r, lower_bound=torch.zeros(len(sequences), 1)), "lower_bound of shape"),
        (lambda sequences, r: Plans(sequences, r, tolerance=torch.zeros(len(sequences))), "tolerance of shape"),
    ],
)
def test_plans_of_the_wrong_shape_are_refused(make, text):
    with pytest.raises(MethodError, match=text):
        Misshapen(make).fit(town.problem()).find(town.people())


class WithoutActions(ta.Method):
    def _search(self, x):
        plans = Plans(torch.zeros(len(x), 1, 1, dtype=torch.long), torch.zeros(len(x), 1, 1, 1))
        return Proposal(x.unsqueeze(1), plans=plans)


def test_plans_for_a_problem_without_actions_are_refused(problem, people):
    with pytest.raises(MethodError, match="proposed plans, and the problem has no actions"):
        WithoutActions().fit(problem).find(people)
