"""One person's attribution: in words, and as a waterfall of bars."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from turnabout.core import Attribution
from turnabout.errors import TurnaboutError
from turnabout.parameters import Instance, Whole, checked
from turnabout.render.palette import AWAY, EDGE, TOWARDS, YES, axes_or_new, literal, name_sides
from turnabout.render.plan_words import number, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Shown = TypeVar("Shown")

BAR = 0.62  # height of a bar, the distance between rows being 1
NAME = 34  # letters of a name beside the picture
ROUNDING = 1e-12  # of the score, or of 1: values that small are none
LEFT_OVER = 0.005  # share of the bars that the values may miss the score by before a bar says so


@dataclass(frozen=True)
class Bars:
    """What is told of one person: the largest values, the others together, and where they start and end.

    start : the base, or None where values are not added up.  end : the score, where there is one.
    left : what the values leave of it.
    """

    names: tuple[str, ...]
    values: tuple[float, ...]
    errors: tuple[float | None, ...]
    start: float | None
    end: float | None
    left: float

    @property
    def finding(self) -> tuple[str, float]:
        """The feature of largest size and its value."""
        return self.names[0], self.values[0]


@checked(TurnaboutError, attribution=Instance(Attribution, hint="use explainer.explain(...)."), most=Whole(1))
def read_bars(attribution: Attribution, person: Any, most: int) -> Bars:
    """Collect what there is to tell of one person; refuses what cannot be."""
    table = attribution.of(person)
    values = table["value"].to_numpy(dtype=np.float64)
    if not len(values) or not np.isfinite(values).all():
        raise TurnaboutError(f"the values of person {person!r} are none, or not all numbers.", hint="look at them.")
    known = [None] * len(table) if "error" not in table else [None if np.isnan(e) else float(e) for e in table["error"]]
    names, shown = [str(name) for name in table.index], values.tolist()
    base, output = attribution.base, attribution.output
    end = None if output is None else float(output.loc[person])
    adds_up = attribution.kind == "contribution" and base is not None and end is not None
    start = float(base.loc[person]) if adds_up and base is not None else None
    left = 0.0 if start is None or end is None else end - start - float(values.sum())
    rest = len(names) - most
    if start is None:  # what is not added up has no bar for the others
        names, shown, known = names[:most], shown[:most], known[:most]
    elif rest > 1:  # a lone other is shown by its name
        names = [*names[:most], f"{rest} others together"]
        shown, known = [*shown[:most], float(values[most:].sum())], [*known[:most], None]
    return Bars(tuple(names), tuple(shown), tuple(known), start, end, left)


# -- words --------------------------------------------------------------------------------------------------------


def write_attribution(attribution: Attribution, person: Any, most: int = 10) -> str:
    """One person's attribution in words: what was explained, the largest values first, and what they do not say.

    Parameters
    ----------
    person : a label of attribution.values.
    most : features named; with a base the others are added up.
    """
    bars = read_bars(attribution, person, most)
    lines = [f"{_title(attribution, bars, person)}."]
    if bars.start is not None:
        where = "with everything removed, or the intercept" if attribution.space == "concept" else "at the baseline"
        lines.append(f"  base: {signed(bars.start)}, the {attribution.score} {where}")
    for name, value, error in zip(bars.names, bars.values, bars.errors, strict=True):
        lines.append(f"  {name}: {signed(value)}" + ("" if error is None else f" (standard error {number(error)})"))
    if _left_over(bars):
        lines.append(f"  left over: {signed(bars.left)}, which these values do not explain")
    if bars.start is not None and bars.end is not None:
        lines.append(f"  ends at {signed(bars.end)}, the {attribution.score} of this person")
    lines.append(f"  {_meaning(attribution)} Made by {attribution.made_by}.")
    return "\n".join([*lines, *(f"  note: {note}" for note in attribution.notes)])


def _title(attribution: Attribution, bars: Bars, person: Any) -> str:
    """The finding, without its full stop."""
    name, value = bars.finding
    who = f"Person {person}" if not isinstance(person, str) or person.strip().isdecimal() else person
    nothing = abs(value) <= least(attribution)
    if attribution.kind == "direction":
        return f"{who}: " + (
            "nothing is to move" if nothing else f"{name} is to move most, by {signed(value)} of its range"
        )
    if attribution.kind == "slope":
        if nothing:
            return f"{who}: every slope of the {attribution.score} is 0"
        per = "" if attribution.unit is None else f" {attribution.unit}"
        return f"{who}: the {attribution.score} reacts most strongly to {name}, by {signed(value)}{per}"
    if nothing:
        return f"{who}: no feature counts in the {attribution.score}"
    return f"{who}: {name} {'raises' if value > 0 else 'lowers'} the {attribution.score} most, by {number(abs(value))}"


def least(attribution: Attribution) -> float:
    """The size up to which a value is rounding and says nothing."""
    output = attribution.output
    return ROUNDING * max(1.0, 0.0 if output is None else float(output.abs().max()))


def layout_of(attribution: Attribution, kind: type[Shown], what: str, needs: str, hint: str) -> Shown:
    """The layout of an attribution of one text or image; refuses others, and what is no contribution."""
    if not isinstance(attribution, Attribution) or not isinstance(attribution.layout, kind) or len(attribution) != 1:
        raise TurnaboutError(needs, hint=hint)
    if attribution.kind != "contribution":
        raise TurnaboutError(
            f"{what} shows what raises and lowers a score, and a {attribution.kind} does neither.",
            hint="pass contributions.",
        )
    return attribution.layout


def _meaning(attribution: Attribution) -> str:
    if attribution.kind == "direction":
        return "A direction says where to move, not how much a feature matters."
    if attribution.kind == "slope":
        return "A slope says how the score reacts to a change, not what raised or lowered it; it is no advice."
    return "Contributions are no distance to the boundary, and not what to do."


def _left_over(bars: Bars) -> bool:
    return abs(bars.left) > LEFT_OVER * (sum(abs(v) for v in bars.values) + 1e-12)


# -- waterfall ----------------------------------------------------------------------------------------------------


def draw_waterfall(attribution: Attribution, person: Any, ax: Axes | None = None, most: int = 10) -> Axes:
    """One person's values as bars, the largest first; where there is a base, from the base to their score.

    Bars above 0 are dark (contributions that raise the score), those below 0 light and hatched (they lower it), and
    every one carries its signed number. The title and the axis say whether these are contributions, slopes or a
    direction. Whiskers are one standard error. What the values leave of the score is a bar of its own, in white.
    Without a base, values are not added up, and only the largest are drawn. Needs matplotlib; shows nothing by itself.

    Parameters
    ----------
    person : a label of attribution.values.
    ax : where to draw; on a new figure when None.
    most : bars; with a base the other features are one more.
    """
    bars = read_bars(attribution, person, most)
    rows = _rows(bars)
    letters = max(len(name) for name, *_ in rows)
    ax = axes_or_new(ax, (5.6 + 0.07 * min(letters, NAME), 1.5 + 0.36 * len(rows)))
    ends = [at for _, start, value, _, _ in rows for at in (start, start + value)]
    low, high = min(ends), max(ends)
    room = 0.2 * ((high - low) or 1.0)
    ax.set_xlim(low - room, high + room)
    ax.set_ylim(len(rows) - 0.4, -0.6 if bars.start is None else -1.1)
    _zero(ax, attribution, bars)
    for row, (_, start, value, error, mark) in enumerate(rows):
        _draw_row(ax, row, start, value, error, mark, last=row == len(rows) - 1)
        if row and bars.start is not None:
            ax.plot([start, start], [row - 1, row], color="0.45", linewidth=0.9, linestyle=":", zorder=2.5)
    ax.set_yticks(range(len(rows)), [literal(textwrap.shorten(name, NAME, placeholder=" …")) for name, *_ in rows])
    ax.tick_params(axis="y", length=0)
    for side in ("left", "top", "right"):
        ax.spines[side].set_visible(False)
    ax.set_xlabel(literal(_axis(attribution, bars)))
    title = textwrap.fill(_title(attribution, bars, person), 50, break_long_words=False)
    ax.set_title(literal(title), loc="left", fontweight="bold", pad=10)
    return ax


Row = tuple[str, float, float, float | None, str]


def _rows(bars: Bars) -> list[Row]:
    """(name, start, value, error, kind of mark) of each row from the top."""
    at = bars.start or 0.0
    rows: list[Row] = [] if bars.start is None else [("base", at, 0.0, None, "dot")]
    for name, value, error in zip(bars.names, bars.values, bars.errors, strict=True):
        rows.append((name, at, value, error, "bar"))
        at += 0.0 if bars.start is None else value
    if _left_over(bars):
        rows.append(("left over", at, bars.left, None, "left"))
    if bars.start is None or bars.end is None:
        return rows
    return [*rows, ("this person", bars.end, 0.0, None, "dot")]


def _draw_row(ax: Axes, row: int, start: float, value: float, error: float | None, mark: str, last: bool) -> None:
    end = start + value
    if mark == "dot":
        ax.plot(start, row, "D" if last else "o", color=EDGE, markersize=7 if last else 6, zorder=4)
    else:
        fill, hatch = (TOWARDS, None) if value >= 0 else (AWAY, "///")
        fill, hatch = ("white", "...") if mark == "left" else (fill, hatch)
        edge = TOWARDS if fill == TOWARDS else EDGE
        ax.barh(row, value, BAR, left=start, color=fill, edgecolor=edge, hatch=hatch, linewidth=0.8, zorder=3)
    if error is not None:
        ax.errorbar(end, row, xerr=error, color=EDGE, capsize=3, linewidth=1.2, zorder=4)
    reach = (error or 0.0) * (1 if value >= 0 else -1)
    side = "left" if value >= 0 else "right"
    text = ax.annotate(
        signed(start if mark == "dot" else value).replace("-", "−"),
        (end + reach, row),
        (7 if side == "left" else -7, 0),
        textcoords="offset points",
        ha=side,
        va="center",
        fontsize="small",
        zorder=5,
    )
    text.set_path_effects([rim()])


def rim() -> Any:
    """A light rim that keeps small letters readable over lines and pictures."""
    from matplotlib import patheffects

    return patheffects.withStroke(linewidth=2.5, foreground="white")


def _zero(ax: Axes, attribution: Attribution, bars: Bars) -> None:
    """Where bars start from 0, or where the decision turns."""
    low, high = ax.get_xlim()
    decides = bars.start is not None and attribution.score.startswith("margin")
    if not low < 0 < high or not (decides or bars.start is None):
        return
    ax.axvline(0, color=EDGE, linewidth=1.2, zorder=2)
    if decides:
        ax.axvspan(0, high, color=YES, zorder=0)
        ax.set_xlim(low, high)
        name_sides(ax, "small")


def _axis(attribution: Attribution, bars: Bars) -> str:
    whiskers = "; whiskers: one standard error" if any(e is not None for e in bars.errors) else ""
    if attribution.kind == "direction":
        return "change, in shares of the feature's range"
    if attribution.kind == "slope":
        per = "" if attribution.unit is None else f", {attribution.unit}"
        return f"slope of the {attribution.score}{per}{whiskers}"
    if bars.start is None:
        return f"contribution to the {attribution.score}{whiskers}"
    yes = " (0 and above is a yes)" if attribution.score.startswith("margin") else ""
    return f"{attribution.score}{yes}{whiskers}"
