"""How measures change along a parameter: a line each, with its interval as a band."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING

import pandas as pd

from turnabout.errors import TurnaboutError
from turnabout.render.palette import axes_or_new, literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart in gray print too: from dark to light, each with a line and a marker of its own.
STYLES = (
    ("#1f3b73", "-", "o"),
    ("#b3492d", "--", "s"),
    ("#2f8f6b", ":", "^"),
    ("#d9982b", "-.", "D"),
    ("#7d7d7d", (0, (5, 1, 1, 1, 1, 1)), "v"),
    ("#9a7fb8", (0, (1, 3)), "X"),
)


def draw_sweep(
    table: pd.DataFrame,
    x: str = "lam",
    y: Sequence[str] | None = None,
    ax: Axes | None = None,
    *,
    title: str = "",
    labels: Mapping[str, str] | None = None,
) -> Axes:
    """Lines of some measures over a parameter, each in the band of its interval.

    Needs matplotlib; shows nothing by itself.

    Parameters
    ----------
    table : tidy, one line per value of x and measure: columns x, metric, value, and, for bands, low and high. Lines
        without a value are left out.
    x : the column along which to draw.
    y : which metrics, in which order; by default all, as they come, up to six.
    ax : where to draw; on a new figure when None.
    title : the finding, in the caller's words.
    labels : what to call x and the metrics in the picture.
    """
    table = _checked(table, x)
    present = list(dict.fromkeys(table["metric"]))
    metrics = present if y is None else list(y)
    if absent := [metric for metric in metrics if metric not in present]:
        raise TurnaboutError(f"the table has no metric '{absent[0]}'.", hint=f"it has {', '.join(map(str, present))}.")
    if len(metrics) > len(STYLES):
        raise TurnaboutError(
            f"{len(metrics)} lines cannot be told apart.", hint=f"name at most {len(STYLES)} metrics in y=[...]."
        )
    ax = axes_or_new(ax, (6.0, 3.8))
    names = dict(labels or {})
    for metric, (color, line, marker) in zip(metrics, STYLES):
        part = table[(table["metric"] == metric) & table["value"].notna()].sort_values(x)
        at = part[x].to_numpy(dtype=float)
        ax.plot(
            at,
            part["value"].to_numpy(dtype=float),
            color=color,
            linestyle=line,
            marker=marker,
            markersize=5,
            label=names.get(metric, str(metric)),
        )
        if {"low", "high"} <= set(part.columns):
            low, high = (part[side].to_numpy(dtype=float) for side in ("low", "high"))
            ax.fill_between(at, low, high, color=color, alpha=0.15, linewidth=0)
    ax.set_xlabel(names.get(x, x))
    ax.set_title(literal(textwrap.fill(title, 50)), loc="left", fontweight="bold")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    if metrics:
        ax.legend(frameon=False, handlelength=3.2)
    return ax


def _checked(table: pd.DataFrame, x: str) -> pd.DataFrame:
    if absent := [name for name in (x, "metric", "value") if name not in table.columns]:
        raise TurnaboutError(
            f"the table has no column '{absent[0]}'.",
            hint=f"draw_sweep needs '{x}', 'metric' and 'value', and 'low' and 'high' for bands.",
        )
    for name in (x, *(column for column in ("value", "low", "high") if column in table.columns)):
        wrong = [v for v in table[name].dropna() if isinstance(v, bool) or not isinstance(v, Real)]
        if wrong:
            raise TurnaboutError(f"column '{name}' holds {wrong[0]!r}.", hint="draw_sweep draws numbers.")
    twice = table.duplicated([x, "metric"])
    if twice.any():
        row = table[twice].iloc[0]
        raise TurnaboutError(
            f"the table has more than one line for metric '{row['metric']}' at {x}={row[x]}.",
            hint="average over seeds first, and give the interval of the mean as low and high.",
        )
    return table
