"""Plans of steps: every step may be taken from the row printed before it, and the steps lead to the option shown."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from turnabout.actions import Action
from turnabout.core import GUARD
from turnabout.testing.by_hand import differs, is_missing, keeps, position, through_csv, wrong_value
from turnabout.testing.checks.check import Complaints, check
from turnabout.testing.known import countable, least_plan
from turnabout.testing.steps_by_hand import Journey, Step, duration, each_journey, mine, price, wrong_step
from turnabout.testing.trial import Trial

NEAR = 1e-9


def _action(journey: Journey, step: Step) -> Action | None:
    actions = journey.option.case.problem.actions
    if actions is None or step.action not in actions.names:
        return None
    return actions.actions[actions.names.index(step.action)]


@check("where plans are shown, every option has one: its steps count from 1 and lead to its row.")
def shows_how_to_get_there(trial: Trial) -> Complaints:
    planner = getattr(trial.method, "needs_actions", False)
    for case, answer in trial.answered():
        options = list(answer.options.index)
        for what, keys in (("steps", [key[:2] for key in answer.steps.index]), ("plans", list(answer.plans.index))):
            if strangers := set(keys) - set(options):
                yield f"{case}: '{what}' speaks of {sorted(map(str, strangers))}, which are no options."
            if (planner or keys) and (bare := [key for key in options if key not in set(keys)]):
                yield f"{case}: '{what}' says nothing of person {bare[0][0]!r}, option {bare[0][1]}."
        if len(set(answer.plans.index)) < len(answer.plans):
            yield f"{case}: an option has more than one plan."
    for journey in each_journey(trial):
        numbers = [step.number for step in journey.steps]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"{journey}: its steps are numbered {numbers}."
        for name in journey.option.case.problem.schema.names:
            end, shown = journey.steps[-1].new[name], journey.option.new[name]
            if differs(end, shown):
                yield f"{journey}: its steps lead to {name} = {end!r}, and its row holds {shown!r}."
        key = (journey.option.person, journey.option.number)
        told = answer_row(journey.answer.plans, key)
        if told is not None and int(told["steps"]) != len(numbers):
            yield f"{journey}: its plan is said to have {told['steps']} steps, and has {len(numbers)}."


def answer_row(table: pd.DataFrame, key: tuple[Any, Any]) -> pd.Series | None:
    """The line of an option in a table of the answer."""
    found = table[mine(table, key)]
    return found.iloc[0] if len(found) else None


@check("every step does what its action says, no more and no less, and meets its conditions.")
def takes_only_allowed_steps(trial: Trial) -> Complaints:
    for journey in each_journey(trial):
        taken: set[str] = set()
        for step in journey.steps:
            action = _action(journey, step)
            if action is None:
                yield f"{journey}: step {step.number} takes '{step.action}', which is no action of the problem."
                continue
            if wrong := wrong_step(journey.option.case.problem.schema, action, step.old, step.new):
                yield f"{journey}: step {step.number}, '{step.action}', {wrong}."
            if step.action in taken and not action.repeatable:
                yield f"{journey}: step {step.number} repeats '{step.action}', which may be taken once."
            taken.add(step.action)


@check("the steps' costs and durations are those of their actions, and sum to the option's.")
def prices_every_step(trial: Trial) -> Complaints:
    for journey in each_journey(trial):
        schema = journey.option.case.problem.schema
        for step in journey.steps:
            action = _action(journey, step)
            if action is None or wrong_step(schema, action, step.old, step.new):
                continue  # named by takes_only_allowed_steps
            cost = price(schema, action, step.old, step.new)
            if cost is not None and _apart(cost, step.cost):
                yield f"{journey}: step {step.number} is told to cost {step.cost:.9g}, and costs {cost:.9g}."
            time = duration(schema, action, step.old, step.new)
            if _apart(time, step.duration):
                yield f"{journey}: step {step.number} is told to take {step.duration:.9g}, and takes {time:.9g}."
        plan = answer_row(journey.answer.plans, (journey.option.person, journey.option.number))
        for what in ("cost", "duration"):
            total = sum(getattr(step, what) for step in journey.steps)
            told = {"plan": None if plan is None else float(plan[what])}
            told["option"] = float(journey.option.new["cost"]) if what == "cost" else None
            for whose, value in told.items():
                if value is not None and _apart(total, value):
                    yield f"{journey}: its steps have a {what} of {total:.9g} together, and the {whose} {value:.9g}."


def _apart(a: float, b: float) -> bool:
    return not abs(a - b) <= NEAR * (1 + abs(a))


@check("no step of a plan could be left out for free.")
def needs_every_step(trial: Trial) -> Complaints:
    for journey in each_journey(trial):
        problem, own = journey.option.case.problem, journey.option.own
        names = list(problem.schema.names)
        for step in journey.steps:
            rest = _without(journey, step)
            if rest is None or any(
                keeps(rule, problem.schema, own, row) is False for _, row in rest for rule in problem.declared_rules
            ):
                continue
            end = through_csv(problem.schema, pd.DataFrame([rest[-1][1] if rest else dict(own[names])])[names])
            x = problem.schema.encode(journey.option.case.people.loc[[journey.option.person]])
            x_new = problem.schema.encode(end)
            clear = max(GUARD, 10 * problem.model.noise)
            if bool((problem.violation(x, x_new) > 0).any()) or not problem.model.judge(end)[0] >= clear:
                continue
            cost = sum(part for part, _ in rest)
            if cost < float(journey.option.new["cost"]) - NEAR:
                yield (
                    f"{journey}: without step {step.number}, '{step.action}', it is accepted too, and costs {cost:.6g} "
                    f"in place of {float(journey.option.new['cost']):.6g}."
                )


def _without(journey: Journey, left_out: Step) -> list[tuple[float, dict[str, Any]]] | None:
    """(cost, row) after every other step, taken to the same values; None where these could not be taken then."""
    schema = journey.option.case.problem.schema
    row, out = dict(journey.steps[0].old), []
    for step in journey.steps:
        if step is left_out:
            continue
        new = row | {name: step.new[name] for name in schema.names if differs(step.old[name], step.new[name])}
        action = _action(journey, step)
        cost = None if action is None or wrong_step(schema, action, row, new) else price(schema, action, row, new)
        if cost is None:
            return None
        row = new
        out.append((cost, row))
    return out


@check("every row on the way keeps the schema and the rules.")
def keeps_to_the_schema_on_the_way(trial: Trial) -> Complaints:
    for journey in each_journey(trial):
        problem, own = journey.option.case.problem, journey.option.own
        for step in journey.steps[:-1]:  # the last row is the option, which other checks look at
            where = f"{journey}, after step {step.number}"
            wrong = ""
            for f in problem.schema:
                was, new = own[f.name], step.new[f.name]
                if not differs(was, new):
                    continue
                wrong = "was missing" if is_missing(was) else wrong_value(f, new)
                wrong = wrong or ("is fixed" if f.moves == "fixed" else "")
                if not wrong and f.moves in ("up", "down"):
                    rises = position(f, new) > position(f, was)
                    wrong = "" if rises == (f.moves == "up") else f"may only go {f.moves}"
                if wrong:
                    yield f"{where}: '{f.name}' is {new!r} from {was!r}, which {wrong}."
                    break
            for rule in problem.declared_rules:
                if not wrong and keeps(rule, problem.schema, own, step.new) is False:
                    yield f"{where}: the rule '{rule}' is broken."


@check("the margin told after each step is what the original says of the row printed then.")
def tells_margins_on_the_way(trial: Trial) -> Complaints:
    for journey in each_journey(trial):
        problem = journey.option.case.problem
        rows = pd.DataFrame([step.new for step in journey.steps])[list(problem.schema.names)]
        try:
            margins = problem.model.judge(through_csv(problem.schema, rows))
        except Exception as error:
            yield f"{journey}: the rows on the way cannot be asked about ({type(error).__name__}: {error})."
            continue
        tolerance = max(NEAR, 10 * problem.model.noise)
        for step, margin in zip(journey.steps, margins, strict=True):
            if not (math.isnan(margin) or abs(margin - step.margin) <= tolerance * (1 + abs(margin))):
                yield f"{journey}: after step {step.number} the margin is told as {step.margin:.9g}, not {margin:.9g}."


@check("a lower bound is not above the cost of any plan, and the gap is the distance to it.")
def bounds_costs_honestly(trial: Trial) -> Complaints:
    for case, answer in trial.answered():
        for key, plan in answer.plans.iterrows():
            bound, gap, cost = plan["lower_bound"], plan["gap"], float(plan["cost"])
            where = f"{case}, person {key[0]!r}, option {key[1]}"  # type: ignore[index]
            if pd.isna(bound) != pd.isna(gap):
                yield f"{where}: a bound stands without a gap, or a gap without a bound."
            elif not pd.isna(bound):
                if bound > cost + NEAR * (1 + cost) or bound < 0:
                    yield f"{where}: its cost is {cost:.9g}, and the lower bound {bound:.9g}."
                if _apart(float(gap), (cost - bound) / cost if cost > 0 else 0.0):
                    yield f"{where}: its gap is told as {gap:.9g}, and is {(cost - bound) / cost:.9g}."
    for case, answer in trial.answered(trial.known):
        bounds = answer.plans["lower_bound"].dropna()
        for (person, option), bound in zip(bounds.index, bounds, strict=True):
            if option:
                continue  # one bound for all plans of a person
            someone = case.people.loc[[person]]
            if not countable(case.problem, someone):
                continue
            best = least_plan(case.problem, someone, below=float(bound) - NEAR)
            if best is not None:
                yield (
                    f"{case}, person {person!r}: nothing is said to cost less than {bound:.9g}, and "
                    f"there is a plan for {best:.9g}."
                )
