"""One person's plan: as numbered steps in words, and as a picture of the way to the boundary."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from turnabout.core import Problem, Recourse, Status
from turnabout.errors import TurnaboutError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 100  # letters in a line of written steps
COLUMN = 44  # letters in a line beside the picture
LINES = 6  # lines beside the picture, for one step
PANEL = 1.75  # inches for the costs
BAR = 0.28  # height of a bar, the distance between rows being 1
ARROW = "\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}"  # a change is not torn apart
TOWARDS, AWAY, COSTS = "#3b5ba5", "#e0a458", "#9a9a9a"  # dark, light and hatched, and between: told apart in gray print
YES, EDGE = "#e3f0dc", "#222222"


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


# -- words ------------------------------------------------------------------------------------------------------


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
    return f"takes {_amount(duration, unit)}" if unit else f"duration {number(duration)}"


def _amount(duration: float, unit: str) -> str:
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


# -- picture ----------------------------------------------------------------------------------------------------


def draw_plan(
    answer: Recourse, person: Any, option: int = 0, ax: Axes | None = None, *, problem: Problem | None = None
) -> Axes:
    """The way of one plan to the boundary: a row per step, from the margin before it to the margin after it.

    Bars that lead towards acceptance are dark, those that lead away light and hatched; the accepted side is shaded.
    A narrow panel at the right compares the costs of the steps. Needs matplotlib; shows nothing by itself.

    Parameters
    ----------
    answer, person, option : as for write_plan. A person without a plan is refused with a hint.
    ax : where to draw; on a new figure when None.
    problem : the question that was answered; with it the picture also knows their margin now and the units.
    """
    story = tell(answer, person, option, problem)
    need_matplotlib()
    labels = _labels(story)
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=_size(labels), layout="constrained")
    _draw(story, labels, ax)
    return ax


def save_plan(
    answer: Recourse, person: Any, path: str | Path, option: int = 0, *, problem: Problem | None = None
) -> None:
    """Write the picture of one plan to a file; .png, .svg or .pdf by its name."""
    story = tell(answer, person, option, problem)
    need_matplotlib()
    from matplotlib.figure import Figure

    labels = _labels(story)
    figure = Figure(figsize=_size(labels), layout="constrained")  # not of pyplot: nothing is left open
    _draw(story, labels, figure.subplots())
    figure.savefig(path, dpi=150)


def need_matplotlib() -> None:
    """Say what to install where matplotlib is absent."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise TurnaboutError(
            "pictures need matplotlib, which is not installed.",
            hint='pip install "turnabout[plot]"; write_plan(answer, person) needs nothing more.',
        ) from None


def _draw(story: Story, labels: Sequence[str], ax: Axes) -> None:
    first = 0 if story.start is not None else 1
    rows = range(1, len(story.changes) + 1)
    ax.set_ylim(rows[-1] + 0.6, first - 0.8)
    _decision(story, ax)
    before = (story.start, *story.margins[:-1])
    for row, start, end in zip(rows, before, story.margins, strict=True):
        if start is None:  # their own margin is not known: come in from the edge
            ax.plot([ax.get_xlim()[0], end], [row, row], color=TOWARDS, linewidth=3, linestyle=(0, (1, 1)), zorder=2)
        else:
            _bar(ax, row, start, end)
            ax.plot([start, start], [row - 1, row], color="0.45", linewidth=0.9, linestyle=":", zorder=1.5)
        last = row == rows[-1]
        ax.plot(end, row, "D" if last else "o", color=EDGE, markersize=8 if last else 5, zorder=4)
        _value(ax, row, end, start)
    if story.start is not None:
        ax.plot(story.start, 0, "o", color="white", markeredgecolor=EDGE, markersize=7, zorder=4)
        _value(ax, 0, story.start, None)
    _sentences(range(first, rows[-1] + 1), labels, ax)
    for side in ("left", "top", "right"):
        ax.spines[side].set_visible(False)
    scale = f", {story.scale}" if story.scale else ""
    ax.set_xlabel(f"margin of the model{scale} (0 and above is a yes)")
    ax.set_title(_literal(textwrap.fill(story.finding, 58)), loc="left", fontweight="bold", pad=12)
    _costs(story, rows, ax)


def _decision(story: Story, ax: Axes) -> None:
    """The boundary, both sides of it named, and limits that hold every margin with room for its number."""
    seen = [*story.margins, 0.0] + ([] if story.start is None else [story.start])
    span = (max(seen) - min(seen)) or 1.0
    low, high = min(seen) - (0.22 if story.start is not None else 0.35) * span, max(seen) + 0.28 * span
    ax.set_xlim(low, high)
    ax.axvspan(0, high, color=YES, zorder=0)
    ax.axvline(0, color=EDGE, linewidth=1.4, zorder=2.5)
    name_sides(ax)


def name_sides(ax: Axes, size: str = "medium") -> None:
    """Write what each side of 0 means, at the top."""
    for x, side, where in ((5, "accepted", "left"), (-5, "refused", "right")):
        ax.annotate(
            side,
            (0, 1),
            (x, -3),
            xycoords=ax.get_xaxis_transform(),
            textcoords="offset points",
            ha=where,
            va="top",
            color="0.25",
            fontsize=size,
            fontstyle="italic",
        )


def _bar(ax: Axes, row: int, start: float, end: float) -> None:
    away = end < start
    fill, edge, hatch = (AWAY, EDGE, "///") if away else (TOWARDS, TOWARDS, None)
    ax.barh(row, end - start, BAR, left=start, color=fill, edgecolor=edge, hatch=hatch, linewidth=0.8, zorder=3)


def _value(ax: Axes, row: int, margin: float, start: float | None) -> None:
    """The margin as a number, where neither its bar, nor the boundary, nor the dots to the next row cross it."""
    if margin >= 0 or start is None:
        place, offset, across, along = (margin, float(row)), (10, 0), "left", "center"
    elif margin < start:
        place, offset, across, along = (margin, float(row)), (-7, 0), "right", "center"
    else:
        place, offset, across, along = (margin, row + BAR / 2), (-3, -2), "right", "top"
    text = signed(margin).replace("-", "−")
    ax.annotate(text, place, offset, textcoords="offset points", ha=across, va=along, fontsize="small", zorder=5)


def _sentences(rows: Sequence[int], labels: Sequence[str], ax: Axes) -> None:
    """What is done, left of each row, all beginning at the same place."""
    from matplotlib.textpath import TextPath

    ax.set_yticks(list(rows), labels)
    shown = ax.get_yticklabels()
    lines = [line for label in labels for line in label.split("\n")]
    solid = [line.replace(" ", "t") for line in lines]  # a path has no width where it is blank
    widest = max(TextPath((0, 0), line, prop=shown[0].get_fontproperties()).get_extents().width for line in solid)
    ax.tick_params(axis="y", length=0, pad=widest + 12)
    for label in shown:
        label.set(horizontalalignment="left", linespacing=1.2)


def _costs(story: Story, rows: range, ax: Axes) -> None:
    """A narrow panel at the right: what each step costs, and takes."""
    from matplotlib.transforms import BboxTransformTo, ScaledTranslation, blended_transform_factory

    inches = ax.figure.dpi_scale_trans
    beside = inches + ScaledTranslation(1, 0, BboxTransformTo(ax.bbox))  # from the right end of the axes
    panel = ax.inset_axes((0.2, 0.0, PANEL, 1.0), transform=blended_transform_factory(beside, ax.transAxes))
    panel.barh(list(rows), story.costs, BAR, color=COSTS)
    for row, cost, duration in zip(rows, story.costs, story.durations, strict=True):
        text = number(cost) + (f"\n{_amount(duration, story.time_unit)}" if duration else "")
        panel.annotate(text, (cost, row), (4, 0), textcoords="offset points", va="center", fontsize="small")
    panel.set_xlim(0, 3.0 * max(story.costs) or 1.0)
    panel.set_ylim(ax.get_ylim())
    panel.set(xticks=[], yticks=[])
    head = "cost, time" if story.takes_time else "cost"
    panel.annotate(head, (0, 1), (5, -3), xycoords="axes fraction", textcoords="offset points", va="top", color="0.25")
    for side in ("bottom", "top", "right"):
        panel.spines[side].set_visible(False)
    panel.patch.set_visible(False)


def _labels(story: Story) -> list[str]:
    """Wrapped sentences for the rows: their own first if their margin is known, then each step's."""
    own = [] if story.start is None else ["now"]
    return own + [_label(i, change) for i, change in enumerate(story.changes, start=1)]


def _label(step: int, change: str) -> str:
    """What to do, then each cell that changes on a line of its own, wrapped; never more than a few lines."""
    lines: list[str] = []
    for part in _parts(change):
        lines += textwrap.wrap(part.replace(" -> ", ARROW), COLUMN, break_on_hyphens=False)
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], "…"]
    return _literal(f"{step}. " + "\n    ".join(lines))


def _literal(text: str) -> str:
    """Dollars as dollars; matplotlib would set what stands between two of them as a formula."""
    return text.replace("$", r"\$")


def _parts(change: str) -> list[str]:
    """ "wait (Age 23 -> 24, Rent 1 -> 2)" -> "wait", "Age 23 -> 24", "Rent 1 -> 2"; whole where it reads otherwise."""
    what, cells = "", change
    depth = 0
    for i in range(len(change) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(change[i], 0)
        if depth == 0:
            if change[-1] == ")" and " -> " in change[i:]:
                what, cells = change[:i].strip(), change[i + 1 : -1]
            break
    each = cells.split(", ")
    parts = each if all(cell.count(" -> ") == 1 for cell in each) else [cells]
    return ([what] if what else []) + parts


def _size(labels: Sequence[str]) -> tuple[float, float]:
    """Inches: as wide and as high as the sentences need."""
    lines = max(label.count("\n") + 1 for label in labels)
    letters = max(len(line) for label in labels for line in label.split("\n"))
    return 6.5 + 0.08 * letters, 1.4 + len(labels) * max(0.6, 0.2 * lines + 0.1)
