"""Problems with known answers: nobody beats the optimum, exact methods reach it, proofs of impossibility hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnabout.core import Recourse, Status
from turnabout.testing.checks.check import Complaints, check
from turnabout.testing.known import Known, countable, least_plan
from turnabout.testing.trial import Trial


def _refused(trial: Trial) -> Iterator[tuple[Known, Recourse, Any, float | None, float | None]]:
    """(case, answer, person, least cost known, least cost shown) of everyone who is refused."""
    for case in trial.known:
        for _, answer in trial.answered([case]):
            refused = case.problem.model.judge(case.people) < 0
            for place, person in enumerate(case.people.index):
                if refused[place]:
                    mine = [key == person for key in answer.options.index.get_level_values(0)]
                    shown = answer.options["cost"][mine].min() if any(mine) else None
                    yield case, answer, person, case.best[place], None if shown is None else float(shown)


@check("no option is cheaper than the known optimum, or shown where there is none.")
def never_beats_the_optimum(trial: Trial) -> Complaints:
    for case, _, person, best, shown in _refused(trial):
        if shown is not None and best is None:
            yield f"{case}: person {person!r} has no recourse, and is shown an option that costs {shown:.6g}."
        elif shown is not None and best is not None and shown < best - 1e-9:
            yield f"{case}: person {person!r} is shown an option for {shown:.9g}; the cheapest costs {best:.9g}."


@check("a method that calls itself exact reaches the known optimum wherever there is one.")
def reaches_the_optimum(trial: Trial) -> Complaints:
    if not getattr(trial.method, "exact", False):
        return
    for case, answer, person, best, shown in _refused(trial):
        if best is not None and (shown is None or shown > best + case.slack):
            told = f"is {answer.status[person]}" if shown is None else f"is shown {shown:.9g}"
            yield f"{case}: person {person!r} {told}; the cheapest plan costs {best:.9g}."


@check("IMPOSSIBLE is said only to people for whom trying every row, or plan, finds nothing.")
def proves_impossible_honestly(trial: Trial) -> Complaints:
    for case, answer, person, best, _ in _refused(trial):
        if best is not None and Status(answer.status[person]) == Status.IMPOSSIBLE:
            if case.problem.actions is not None:  # rules hold on the way too, and plans have so many steps
                someone = case.people.loc[[person]]
                steps = getattr(trial.method, "max_steps", None)
                if countable(case.problem, someone):
                    best = least_plan(case.problem, someone, most=steps)
                if best is None:
                    continue
            yield f"{case}: person {person!r} is told IMPOSSIBLE, and there is a plan for {best:.6g}."


@check("where one free number decides, somebody is found a plan.")
def finds_what_is_easy(trial: Trial) -> Complaints:
    easy = [case for case in trial.known if case.name.startswith("the easy problem")]
    for case, answer in trial.answered(easy):
        if not (answer.status == Status.FOUND).any():
            yield f"{case}: nobody is FOUND, though everyone can move the one number that counts."
