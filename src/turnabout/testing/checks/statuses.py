"""What is said to each person: one honest status, with options, a reason or a proof."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pandas as pd

from turnabout.core import Recourse, Status
from turnabout.testing.by_hand import are_two_ways
from turnabout.testing.checks.check import Complaints, check
from turnabout.testing.trial import OPTIONS, Trial


@check("find answers on every problem the method takes, and raises nothing because there is no recourse.")
def answers_everyone(trial: Trial) -> Complaints:
    usable = 0
    for case in trial.every:
        error = trial.failure(case)
        usable += error is None and case.name not in trial.refused
        if error is not None:
            yield f"{case}: {type(error).__name__}: {error}"
    if not usable and not any(trial.failure(case) for case in trial.every):
        reasons = "; ".join(dict.fromkeys(trial.refused.values())) or "there are no problems"
        yield f"fit takes none of the {len(trial.every)} problems ({reasons})."
    for case, answer in trial.answered():
        if not isinstance(answer, Recourse):
            yield f"{case}: find returns {type(answer).__name__}, not a Recourse."
        elif not answer.status.index.equals(case.people.index):
            yield f"{case}: the statuses do not stand under the people's index."


@check("the accepted are left alone, and only they are called accepted.")
def leaves_accepted_alone(trial: Trial) -> Complaints:
    for case, answer in trial.answered():
        accepted = case.problem.model.judge(case.people) >= 0
        with_options = set(answer.options.index.get_level_values(0))
        for person, yes in zip(case.people.index, accepted, strict=True):
            called = Status(answer.status[person]) == Status.ACCEPTED
            if yes and not called:
                yield f"{case}: person {person!r} is accepted already, and is called {answer.status[person]}."
            if called and not yes:
                yield f"{case}: person {person!r} is called accepted, and the original refuses them."
            if yes and person in with_options:
                yield f"{case}: person {person!r} is accepted already, and is shown options."


@check("FOUND stands with at least one option, IMPOSSIBLE with a proof, every other status with a reason.")
def states_status_honestly(trial: Trial) -> Complaints:
    for case, answer in trial.answered():
        with_options = set(answer.options.index.get_level_values(0))
        if strangers := with_options - set(case.people.index):
            yield f"{case}: options are shown for {sorted(map(str, strangers))}, who did not ask."
        for person in case.people.index:
            status = Status(answer.status[person])
            if (status == Status.FOUND) != (person in with_options):
                count = "some" if person in with_options else "no"
                yield f"{case}: person {person!r} is {status}, with {count} options."
            if status not in (Status.ACCEPTED, Status.FOUND) and not _said(answer.why, person, "reason"):
                yield f"{case}: person {person!r} is {status.value}, and why does not say why."
            if status == Status.IMPOSSIBLE and not _said(answer.why, person, "proof"):
                yield f"{case}: person {person!r} is IMPOSSIBLE, and why holds no proof."


def _said(why: pd.DataFrame, person: Any, column: str) -> bool:
    if person not in why.index:
        return False
    text = why.loc[person, column]
    return isinstance(text, str) and bool(text.strip())


@check("a person's options are at most as many as asked, different ways, and cheapest first where ranked.")
def shows_distinct_options(trial: Trial) -> Complaints:
    ranked = getattr(trial.method, "ranked", True)
    for case, answer in trial.answered():
        names = list(case.problem.schema.names)
        people = case.people.astype(object).to_dict("records")
        place_of = {person: i for i, person in enumerate(case.people.index)}
        for person, mine in answer.options.groupby(level=0, sort=False):
            if len(mine) > OPTIONS:
                yield f"{case}: person {person!r} is shown {len(mine)} options, and {OPTIONS} were asked for."
            rows = mine[names].astype(object)
            own, ways = people[place_of[person]], [_actions(answer, key) for key in mine.index]
            for i in range(len(rows)):
                for j in range(i):
                    alike = not are_two_ways(case.problem.schema, own, rows.iloc[i], rows.iloc[j])
                    if alike and ways[i] == ways[j]:
                        yield f"{case}: person {person!r} is shown nearly the same option as {j} and as {i}."
            costs = mine["cost"].astype(float).tolist()
            if ranked and any(b < a - 1e-9 for a, b in pairwise(costs)):
                yield f"{case}: the options of person {person!r} cost {costs}, not cheapest first."


def _actions(answer: Recourse, key: Any) -> list[str]:
    """The actions that lead to an option, in no order; none where it is shown without steps."""
    mine = [step[:2] == key for step in answer.steps.index]
    return sorted(answer.steps["action"].to_numpy()[mine]) if any(mine) else []
