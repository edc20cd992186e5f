"""One person's plan as a picture of the way to the boundary."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnabout.core import Problem, Recourse
from turnabout.render.palette import AWAY, EDGE, TOWARDS, YES, axes_or_new, literal, name_sides, need_matplotlib
from turnabout.render.plan_words import Story, amount, number, signed, tell

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMN = 44  # letters in a line beside the picture
LINES = 6  # lines beside the picture, for one step
PANEL = 1.75  # inches for the costs
BAR = 0.28  # height of a bar, the distance between rows being 1
ARROW = "\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}"  # a change is not torn apart
COSTS = "#9a9a9a"  # between the dark and the light color


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
    labels = _labels(story)
    ax = axes_or_new(ax, _size(labels))
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
    ax.set_title(literal(textwrap.fill(story.finding, 58)), loc="left", fontweight="bold", pad=12)
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
        text = number(cost) + (f"\n{amount(duration, story.time_unit)}" if duration else "")
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
    return literal(f"{step}. " + "\n    ".join(lines))


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
