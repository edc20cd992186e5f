"""Plans under the contract: an honest method of plans keeps it, and each planted fault is caught by its name."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.actions import Absolute, Action, ActionSet, Follow, Shift, new, old
from turnabout.core import Method, Plans, Problem, Proposal, Recourse, replay
from turnabout.core.plan import PlanColumns
from turnabout.schema import Number, Schema
from turnabout.testing import Report, check_method, examine
from turnabout.testing.deciders import weighing

ONE, TWO = 17, 5  # values tried of a parameter in plans of one and of two steps; those of two are among those of one


class HonestPlans(Method):
    """Every action alone, at values between a person's bounds; every two of them where none does it alone."""

    needs_actions = True

    def _search(self, x):
        actions = self.problem_.actions
        alone = [[a] for a in range(len(actions))]
        both = [[a, b] for a in range(len(actions)) for b in range(len(actions)) if a != b]
        sequences, r, found = self.tried(x, alone, ONE)
        more, more_r, _ = self.tried(x, both, TWO)
        more = torch.where(found.any(1).view(-1, 1, 1), -1, more)  # enough is enough
        plans = Plans(torch.cat([sequences, more], 1), torch.cat([r, more_r], 1), lower_bound=torch.zeros(len(x)))
        return Proposal(x.unsqueeze(1), plans=self.meddle(plans))

    def tried(self, x, orders, values):
        """sequences (n, k, 2), parameters (n, k, 2, P) and whether each is accepted (n, k)."""
        tables = self.problem_.actions.tables
        lead = PlanColumns.of(self.problem_.schema, self.problem_.actions, x.device).lead[:, 0].clamp(min=0)
        lo, hi = (tables.units(side) for side in self.problem_.bounds(x))
        here = tables.units(x)
        sequences, r = [], []
        for order in orders:
            used = [bool(tables.used[a].any()) for a in order]
            shares = [torch.linspace(0, 1, values).tolist() if u else [0.0] for u in used]
            for picked in torch.cartesian_prod(*map(torch.tensor, shares)).reshape(-1, len(order)).tolist():
                column = [int(lead[a]) for a in order]
                moved = [lo[:, j] + share * (hi - lo)[:, j] - here[:, j] for j, share in zip(column, picked)]
                sequences.append(torch.tensor([*order, -1][:2]))
                r.append(torch.stack([*moved, torch.zeros(len(x), dtype=x.dtype)][:2], 1))
        sequences = torch.stack(sequences).expand(len(x), -1, -1) if sequences else torch.full((len(x), 0, 2), -1)
        r = torch.stack(r, 1).unsqueeze(-1) if r else torch.zeros(len(x), 0, 2, 1)
        owner = torch.arange(len(x)).repeat_interleave(sequences.shape[1])
        done = replay(self.problem_, x[owner], sequences.reshape(-1, 2), r.reshape(-1, 2, r.shape[-1]))
        good = done.allowed & (self.ask(done.end) >= 1e-9)
        return sequences, r, good.reshape(len(x), -1)

    def meddle(self, plans):
        return plans


def caught(cls, check: str, text: str, **more) -> Report:
    """The report on a faulty method: the check must have failed, with this text."""
    report = examine(cls, **({"examples": 3, "data": False} | more), only=[check])
    assert tuple(report.failed) == (check,), str(report)
    assert text in " ".join(report.failed[check])
    return report


def test_the_honest_method_keeps_the_whole_contract():
    report = check_method(HonestPlans, examples=3, data=False)
    assert report.excused == {}
    assert {"shows_how_to_get_there", "takes_only_allowed_steps", "asks_for_actions"} <= set(report.passed)
    assert report.refused == {}


# -- what is told ------------------------------------------------------------------------------------------------


HONEST: dict[tuple, Recourse] = {}  # the honest answers, each searched once for all who tamper with it


class Tampers(HonestPlans):
    def find(self, people, options=1, seed=0, time_limit=None, progress=None):
        asked = (self.problem_, people.to_csv(), options, seed)
        if asked not in HONEST:
            HONEST[asked] = super().find(people, options, seed, time_limit, progress)
        return self.tamper(HONEST[asked])


class HidesTheSteps(Tampers):
    def tamper(self, answer: Recourse):
        return replace(answer, steps=answer.steps.iloc[:0], plans=answer.plans.iloc[:0])


class SkipsNumbers(Tampers):
    def tamper(self, answer):
        keys = answer.steps.index
        levels = [keys.get_level_values(0), keys.get_level_values(1), keys.get_level_values(2) + 1]
        return replace(
            answer, steps=answer.steps.set_axis(pd.MultiIndex.from_arrays(levels, names=["person", "option", "step"]))
        )


class ForgetsTheLastStep(Tampers):
    def tamper(self, answer):
        last = [key[2] == answer.plans.loc[key[:2], "steps"] for key in answer.steps.index]
        long = [answer.plans.loc[key[:2], "steps"] > 1 for key in answer.steps.index]
        return replace(answer, steps=answer.steps[~(np.array(last, dtype=bool) & np.array(long, dtype=bool))])


class NamesAnotherAction(Tampers):
    def tamper(self, answer):
        names = self.problem_.actions.names
        other = [names[(names.index(name) + 1) % len(names)] for name in answer.steps["action"]]
        return replace(answer, steps=answer.steps.assign(action=pd.Series(other, answer.steps.index, dtype=object)))


class InventsAnAction(Tampers):
    def tamper(self, answer):
        return replace(answer, steps=answer.steps.assign(action="Wish for it"))


class UnderstatesSteps(Tampers):
    def tamper(self, answer):
        return replace(answer, steps=answer.steps.assign(cost=answer.steps["cost"] * 0.9))


class UnderstatesPlans(Tampers):
    def tamper(self, answer):
        return replace(answer, plans=answer.plans.assign(cost=answer.plans["cost"] * 0.9))


class TakesNoTime(Tampers):
    def tamper(self, answer):
        return replace(answer, steps=answer.steps.assign(duration=-1.0))


class OverstatesMargins(Tampers):
    def tamper(self, answer):
        return replace(answer, steps=answer.steps.assign(margin=answer.steps["margin"] + 0.01))


class OverstatesBounds(Tampers):
    def tamper(self, answer):
        bound = (answer.plans["cost"] + 0.5).astype("Float64")
        return replace(
            answer, plans=answer.plans.assign(lower_bound=bound, gap=pd.array([0.0] * len(bound), "Float64"))
        )


class OverstatesGaps(Tampers):
    def tamper(self, answer):
        return replace(answer, plans=answer.plans.assign(gap=answer.plans["gap"] + 0.1))


class BoundsAboveTheBest(Tampers):
    """Shows only the dearest plan of each person, and calls it the best there is."""

    def find(self, people, options=1, seed=0, time_limit=None, progress=None):
        answer = super().find(people, 40, seed, time_limit, progress)
        count = answer.options.groupby(level=0, sort=False)["cost"].transform("size")
        keep = answer.options.index.get_level_values(1) == count.to_numpy() - 1
        last = answer.options.index[keep]

        def shown(table):
            table = table[[tuple(key[:2]) in set(last) for key in table.index]]
            return table.rename(index=lambda _: 0, level="option") if len(table) else table

        options, steps, plans = (shown(table) for table in (answer.options, answer.steps, answer.plans))
        bound = plans.assign(lower_bound=plans["cost"].astype("Float64"), gap=pd.array([0.0] * len(plans), "Float64"))
        return replace(answer, options=options, steps=steps, plans=bound)

    def tamper(self, answer):
        return answer


@pytest.mark.parametrize(
    ("cls", "check", "text"),
    [
        (HidesTheSteps, "shows_how_to_get_there", "says nothing of person"),
        (SkipsNumbers, "shows_how_to_get_there", "are numbered [2"),
        (NamesAnotherAction, "takes_only_allowed_steps", "which the action does not touch"),
        (InventsAnAction, "takes_only_allowed_steps", "'Wish for it', which is no action"),
        (UnderstatesSteps, "prices_every_step", "is told to cost"),
        (UnderstatesPlans, "prices_every_step", "together, and the plan"),
        (TakesNoTime, "prices_every_step", "is told to take -1"),
        (OverstatesMargins, "tells_margins_on_the_way", "the margin is told as"),
        (OverstatesBounds, "bounds_costs_honestly", "and the lower bound"),
        (OverstatesGaps, "bounds_costs_honestly", "its gap is told as"),
        (BoundsAboveTheBest, "bounds_costs_honestly", "nothing is said to cost less than"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_answers_tampered_with(cls, check, text):
    caught(cls, check, text)


# -- what is proposed: on a problem where plans of two steps are needed --------------------------------------------


@cache
def school():
    """Study, then earn: two steps, the second only after the first; and a rule that holds on the way."""
    schema = Schema(
        (
            Number("school", 0, 10, step=1, moves="up"),
            Number("age", 18, 60, step=1, moves="up"),
            Number("income", 0, 40, step=5),
            Number("debt", 0, 10, step=1, moves="down"),
        )
    )
    actions = ActionSet(
        (
            Action(
                "Study",
                [Shift("school", by="years"), Follow("age", "school", times=2)],
                Absolute("school"),
                [new("school") > old("school")],
                duration=2 * new("school") - 2 * old("school"),
            ),
            Action("Earn", Shift("income"), Absolute("income", per=10), [old("school") >= 5]),
            Action("Repay", Shift("debt"), Absolute("debt"), [old("income") >= 10]),
        ),
        time_unit="years",
    )
    problem = Problem(schema, weighing("linear", schema, {"school": 1.0, "income": 2.0}, -2.02), actions=actions)
    people = pd.DataFrame({"school": [2, 3, 4, 9], "age": [20, 30, 40, 50], "income": [10, 15, 0, 40], "debt": 5})
    return problem, people


def on_school(cls, check: str, text: str) -> None:
    caught(cls, check, text, problems=[school()], examples=0)


def test_plans_of_two_steps_keep_the_contract():
    report = check_method(HonestPlans, problems=[school()], examples=0, data=False)
    assert report.cases == 1 and report.refused == {}
    problem, people = school()
    answer = HonestPlans().fit(problem).find(people, options=3)
    assert list(answer.status) == ["FOUND", "FOUND", "FOUND", "ACCEPTED"]
    assert set(answer.plans["steps"]) == {2}
    assert answer.steps_of(0)["action"].tolist() == ["Study", "Earn"]


class TakesANeedlessStep(HonestPlans):
    """Repays some debt first, or last: nobody asked."""

    def meddle(self, plans):
        repay = self.problem_.actions.names.index("Repay")
        sequences = torch.cat([plans.sequences, torch.full_like(plans.sequences[..., :1], -1)], -1)
        r = torch.cat([plans.r, torch.zeros_like(plans.r[..., :1, :])], -2)
        end = (plans.sequences >= 0).sum(-1, keepdim=True)
        sequences = sequences.scatter(-1, end, torch.where(end > 0, repay, -1))
        r = r.scatter(-2, end.unsqueeze(-1).expand(*end.shape, r.shape[-1]), -1.0)
        return Plans(sequences, r, plans.lower_bound)


def test_needless_steps():
    on_school(TakesANeedlessStep, "needs_every_step", "'Repay', it is accepted too")


class SwapsSteps(Tampers):
    """Tells the steps in the other order, with what each of them does."""

    def tamper(self, answer):
        told = answer.steps.iloc[::-1]
        order = np.argsort([list(answer.plans.index).index(key[:2]) for key in told.index], kind="stable")
        return replace(answer, steps=told.iloc[order].set_axis(answer.steps.index))


def test_order_of_steps():
    on_school(SwapsSteps, "takes_only_allowed_steps", "breaks its condition 'old school >= 5'")
    on_school(ForgetsTheLastStep, "shows_how_to_get_there", "its steps lead to income")


class StaysYoung(Tampers):
    """Studies without growing older."""

    def tamper(self, answer):
        becomes = [json.dumps({k: v for k, v in json.loads(t).items() if k != "age"}) for t in answer.steps["becomes"]]
        return replace(answer, steps=answer.steps.assign(becomes=becomes))


def test_followers_left_behind():
    on_school(StaysYoung, "takes_only_allowed_steps", "takes 'age' to 20, and its effect would be")


class LeavesTheGrid(Tampers):
    """On the way, income is a little off what can be printed."""

    def tamper(self, answer):
        becomes = [json.dumps(json.loads(t) | ({"debt": 5.5} if "age" in t else {})) for t in answer.steps["becomes"]]
        return replace(answer, steps=answer.steps.assign(becomes=becomes))


def test_rows_on_the_way():
    on_school(LeavesTheGrid, "keeps_to_the_schema_on_the_way", "'debt' is 5.5 from 5")


class TakesAnyProblem(HonestPlans):
    needs_actions = True

    def fit(self, problem, device="cpu"):
        self.problem_, self.device_ = problem, device
        return self


def test_a_problem_without_actions():
    caught(TakesAnyProblem, "asks_for_actions", "fit takes a problem without actions")
