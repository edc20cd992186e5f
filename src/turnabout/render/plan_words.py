"""One person's plan as numbered steps in words."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any

import pandas as pd

from turnabout.core import Problem, Recourse, Status
from turnabout.errors import TurnaboutError

WIDTH = 100  # letters in a line of written steps


@dataclass(frozen=True)
class Story:
    """What words and pictures tell of one plan: T steps, the margins after them, and before the first if known."""

    person: str
    changes: tuple[str, ...]  # T
    costs: tuple[float, ...]  # T
    durations: tuple[float, ...]  # T
    margins: tuple[float, ...]  # T, after each step
    start: float | None  # margin of the person's own row
    total: pd.Series  # their line of `Recourse.plans`
    time_unit: str
    scale: str

    @property
    def finding(self) -> str:
        """What the plan comes to, in one sentence without its full stop."""
        count = len(self.changes)
        steps = "1 step" if count == 1 else f"{count} steps"
        return f"{self.person} is accepted after {steps} costing {number(float(self.total['cost']))}"

    @property
    def takes_time(self) -> bool:
        return any(self.durations)


def write_plan(answer: Recourse, person: Any, option: int = 0, *, problem: Problem | None = None) -> str:
    """The steps of one plan, numbered, in plain words; for a person without a plan, the sentence that says why.

    Parameters
    ----------
    answer : with plans, as methods that work with actions make them.
    person, option : a label of `answer.people`, and which of their plans.
    problem : the question that was answered; with it the text also knows their margin now and the unit of durations.
    """
    if (said := _without_plan(answer, person)) is not None:
        return said
    story = tell(answer, person, option, problem)
    out = _wrapped(f"{story.finding}.", "", "")
    if story.start is not None:
        out += f"\n  now: {_verdict(story.start)}"
    parts = zip(story.changes, story.costs, story.durations, story.margins, strict=True)
    for i, (change, cost, duration, margin) in enumerate(parts, start=1):
        head = f"  {i}. "
        takes = f", {_time(duration, story.time_unit)}" if story.takes_time else ""
        out += "\n" + _wrapped(change, head, " " * len(head))
        out += "\n" + _wrapped(f"cost {number(cost)}{takes}; then {_verdict(margin)}", " " * len(head), " " * len(head))
    out += "\n" + _wrapped(_in_all(story), "  ", "  ")
    waivers = answer.waivers(person, option)
    return out + "\n" + _wrapped(waivers, "  ", "  ") if waivers else out


def _without_plan(answer: Recourse, person: Any) -> str | None:
    """Why there is no plan to write, or None for a person who was given an option."""
    status = _status(answer, person)
    if status is Status.FOUND:
        return None
    who = _name(person)
    if status is Status.ACCEPTED:
        return f"{who} is accepted already; no step is needed."
    why = answer.why.loc[person]
    if status is Status.IMPOSSIBLE:
        return _wrapped(f"{who} has no plan, and that is proved: {why['proof']}", "", "")
    if status is Status.UNREADABLE:
        return _wrapped(f"The row of {_name(person, False)} could not be read: {why['reason']}", "", "")
    if status is Status.FAILED:
        return _wrapped(f"There is no answer for {_name(person, False)}: {why['reason']}", "", "")
    binding = f" What binds: {why['binding']}." if why["binding"] else ""
    return _wrapped(f"No plan was found for {_name(person, False)}: {why['reason']}{binding}", "", "")


def _status(answer: Recourse, person: Any) -> Status:
    if person not in answer.people.index:
        raise TurnaboutError(f"there is no person {person!r} in this answer.", hint="use a label of people.index.")
    return Status(str(answer.status.iloc[_place(answer, person)]))


def _place(answer: Recourse, person: Any) -> int:
    return int(answer.people.index.get_indexer(pd.Index([person]))[0])


def tell(answer: Recourse, person: Any, option: int, problem: Problem | None) -> Story:
    """Collect what there is to say about one plan; refuses where there is none."""
    if (status := _status(answer, person)) is not Status.FOUND:
        raise TurnaboutError(
            f"{_name(person, False)} has no plan to show: their status is {status.value}.",
            hint="write_plan(answer, person) says why; answer.plans lists the plans there are.",
        )
    steps = answer.steps_of(person, option)
    start, unit, scale = None, "", ""
    if problem is not None:
        own = answer.people.iloc[[_place(answer, person)]]
        start = float(problem.judge(problem.schema.table(own))[0])
        unit = "" if problem.declared_actions is None else problem.declared_actions.time_unit
        scale = problem.model.scale
    return Story(
        person=_name(person),
        changes=tuple(steps["change"]),
        costs=tuple(map(float, steps["cost"])),
        durations=tuple(map(float, steps["duration"])),
        margins=tuple(map(float, steps["margin"])),
        start=start,
        total=answer.plans.loc[(person, option)],
        time_unit=unit,
        scale=scale,
    )


def _in_all(story: Story) -> str:
    """The last line: total cost and time, what was proved, what the plan withstands."""
    total = story.total
    time = _time(float(total["duration"]), story.time_unit)
    out = f"In all: cost {number(float(total['cost']))}, {time}."
    if not pd.isna(total["lower_bound"]):
        out += f" Proved: no plan that the search allows costs less than {number(float(total['lower_bound']))}"
        gap = float(total["gap"])
        out += f", at most {_percent(gap)} less." if gap > 0 else ", so none is cheaper."
    if not pd.isna(total["tolerance"]):
        tolerance = float(total["tolerance"])
        if tolerance > 0:
            out += f" Usually holds when every amount is missed by up to {_percent(tolerance)}."
        else:
            out += " Holds only when every amount is met."
    return out


def _verdict(margin: float) -> str:
    return f"{'accepted' if margin >= 0 else 'refused'}, margin {signed(margin)}"


def _time(duration: float, unit: str) -> str:
    """takes 2 years; takes 1 year; duration 2 where no unit is known."""
    if not duration:
        return "no time counted"
    return f"takes {amount(duration, unit)}" if unit else f"duration {number(duration)}"


def amount(duration: float, unit: str) -> str:
    """2 years, 1 year, or just 2."""
    said = number(duration)
    return f"{said} {unit[:-1] if said == '1' and unit.endswith('s') else unit}".strip()


def _name(person: Any, begins: bool = True) -> str:
    """7 -> Person 7; Ada -> Ada."""
    if isinstance(person, str) and not person.strip().isdecimal():
        return person
    return f"{'Person' if begins else 'person'} {person}"


def _wrapped(text: str, first: str, later: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def number(value: float) -> str:
    """Four digits that matter: 0.4126, 12.5, 14,585, 2.1e-09."""
    size = abs(value)
    if size and math.isfinite(value) and not 1e-4 <= size < 1e9:
        digits, power = f"{value:.3g}", f"{value:.1e}"
        return power if "e" in digits else digits
    return f"{value:,.0f}" if size >= 1e4 else f"{value:.4g}"


def signed(value: float) -> str:
    """A number with its sign, which says the decision."""
    return number(value) if value < 0 else f"+{number(value)}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
