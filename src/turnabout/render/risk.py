"""What recourse does, in pictures: people before and after, the risk by compliance, figures by group."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from turnabout.errors import TurnaboutError
from turnabout.render.palette import EDGE, TOWARDS, YES, axes_or_new, literal
from turnabout.typing import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEFORE, STILL = "#8c8c8c", "#c9c9c9"
NAME = 26  # letters of a name in one line
NARROW = 34  # letters of a line above or below bars, beside which names stand
SIZE = (5.2, 3.7)


def draw_landings(plane: Json, ax: Axes | None = None, title: str = "") -> Axes:
    """Refused people before (gray circles) and after recourse (dark diamonds), with an arrow each.

    Along an axis of levels, people on one level are drawn a little apart so that each can be seen. Accepted people are
    small crosses. Where the plane knows it, the accepted area is tinted. Needs matplotlib; shows nothing by itself.

    Parameters
    ----------
    plane : from `landing_plane`: axes, before, after, accepted, area.
    ax : where to draw; on a new figure when None.
    title : the finding, in the caller's words.
    """
    before, after, still = (
        np.asarray(plane[part], dtype=float).reshape(-1, 2) for part in ("before", "after", "accepted")
    )
    if before.shape != after.shape:
        raise TurnaboutError(
            f"{len(before)} people start and {len(after)} arrive.", hint="give one row before for each row after."
        )
    before, after = (_spread(points, plane["axes"]) for points in (before, after))
    still = _spread(still, plane["axes"])
    ax = axes_or_new(ax, SIZE)
    if (area := plane.get("area")) is not None:
        margin = np.asarray(area["margin"], dtype=float)
        if (margin >= 0).any():
            ax.contourf(area["x"], area["y"], margin, levels=[0, margin.max() + 1], colors=[YES], zorder=0)
        if (margin >= 0).any() and (margin < 0).any():
            ax.contour(area["x"], area["y"], margin, levels=[0], colors=[EDGE], linewidths=1.0, zorder=1)
    if len(still):
        ax.plot(*still.T, "x", color=STILL, markersize=4, label="accepted already", zorder=1.5)
    if len(before):
        move = after - before
        ax.quiver(
            *before.T, *move.T, angles="xy", scale_units="xy", scale=1, width=0.0022, color="0.45", alpha=0.55,
            headwidth=5, headlength=6, headaxislength=5, zorder=2,
        )  # fmt: skip
        ax.plot(
            *before.T, "o", color=BEFORE, markersize=4.5, markeredgecolor="white", label="refused, before", zorder=3
        )
        ax.plot(*after.T, "D", color=TOWARDS, markersize=4.5, markeredgecolor="white", label="after recourse", zorder=4)
    for number, side in ((0, "x"), (1, "y")):
        _name_axis(ax, side, plane["axes"][number])
    if len(still) or len(before):
        handles, labels = ax.get_legend_handles_labels()
        if area is not None:
            from matplotlib.patches import Patch

            handles, labels = [*handles, Patch(facecolor=YES, edgecolor=EDGE)], [*labels, "accepted area"]
        ax.legend(handles, labels, frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    ax.margins(0.04)
    _finish(ax, title)
    return ax


def draw_risk_curve(
    curve: pd.DataFrame, before: float | None, break_even: float | None, ax: Axes | None = None, title: str = ""
) -> Axes:
    """The share of wrong decisions after recourse, by how many people really improve, in the band of its interval.

    A dashed line is the risk before; where the two cross, a mark says so. Where only bounds are known there is a band
    and no line. Needs matplotlib; shows nothing by itself.

    Parameters
    ----------
    curve : as `RiskReport.curve` gives it: compliance, metric, value, low, high; the metric "risk_after" is drawn.
    before : risk without recourse; None where only bounds are known.
    break_even : compliance at which the two are equal; marked where it lies from 0 to 1.
    """
    if absent := [name for name in ("compliance", "metric", "value", "low", "high") if name not in curve]:
        raise TurnaboutError(f"the curve has no column '{absent[0]}'.", hint="use RiskReport.curve().")
    part = curve[curve["metric"] == "risk_after"].sort_values("compliance")
    if not len(part):
        raise TurnaboutError("the curve has no metric 'risk_after'.", hint="use RiskReport.curve().")
    ax = axes_or_new(ax, SIZE)
    at, value, low, high = (
        pd.to_numeric(part[name]).to_numpy(dtype=float, na_value=np.nan)
        for name in ("compliance", "value", "low", "high")
    )
    ax.fill_between(at, low, high, color=TOWARDS, alpha=0.18, linewidth=0, label="interval")
    ax.plot(at, value, color=TOWARDS, marker="o", markersize=4, label="after recourse")
    if before is not None:
        ax.axhline(before, color=EDGE, linestyle="--", linewidth=1.2, label="before recourse")
    if break_even is not None and before is not None and 0 <= break_even <= 1:
        ax.plot(break_even, before, "D", color="#b3492d", markersize=8, zorder=5, label=f"break-even, {break_even:.2f}")
    ax.set_xlim(-0.02, 1.02)
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0\nall defiant", "0.25", "0.5", "0.75", "1\nall compliant"])
    ax.set_xlabel("compliance: share of the improvement that is real")
    ax.set_ylabel("share of wrong decisions")
    ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    ax.grid(axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    _finish(ax, title)
    return ax


def draw_groups(
    table: pd.DataFrame, ax: Axes | None = None, title: str = "", xlabel: str = "", reference: float | None = 0.0
) -> Axes:
    """A bar for each group with its interval, and the number beside it; groups that are unknown are said to be.

    Needs matplotlib; shows nothing by itself.

    Parameters
    ----------
    table : one line per group: group, value, low, high; missing values are unknown.
    xlabel : what is measured, in which unit.
    reference : a line to compare with; None for none.
    """
    if absent := [name for name in ("group", "value", "low", "high") if name not in table]:
        raise TurnaboutError(f"the table has no column '{absent[0]}'.", hint="use group, value, low and high.")
    if not len(table):
        raise TurnaboutError("there are no groups to draw.", hint="give one line per group.")
    names = [textwrap.fill(str(name), NAME, break_long_words=True) for name in table["group"]]
    value, low, high = (
        pd.to_numeric(table[n]).to_numpy(dtype=float, na_value=np.nan) for n in ("value", "low", "high")
    )
    lines = sum(name.count("\n") + 1 for name in names)
    ax = axes_or_new(ax, (SIZE[0], 1.3 + 0.16 * lines + 0.24 * len(names)))
    rows = np.arange(len(names))
    ax.barh(rows, np.nan_to_num(value), 0.6, color=TOWARDS, alpha=0.75, edgecolor=EDGE, linewidth=0.6, zorder=2)
    known = np.isfinite(low) & np.isfinite(high)
    middle = np.where(np.isfinite(value), value, (low + high) / 2)
    arms = np.stack([middle - low, high - middle])[:, known]
    ax.errorbar(
        middle[known],
        rows[known],
        xerr=np.maximum(arms, 0),
        fmt="none",
        ecolor=EDGE,
        capsize=4,
        linewidth=1.3,
        zorder=3,
    )
    ends = np.concatenate([np.nan_to_num(value), low[known], high[known], [0.0 if reference is None else reference]])
    left, right = float(ends.min()), float(ends.max())
    room = (right - left) or 1.0
    ax.set_xlim(left - 0.06 * room, right + 0.3 * room)
    for row, (v, a, b) in enumerate(zip(value, low, high, strict=True)):
        far = max(0.0, v if np.isfinite(v) else 0.0, b if np.isfinite(b) else 0.0)
        said = _short(v) if np.isfinite(v) else "bounds only" if np.isfinite(a) and np.isfinite(b) else "unknown"
        ax.annotate(said, (far, row), (5, 0), textcoords="offset points", va="center", fontsize="small", zorder=4)
    if reference is not None:
        ax.axvline(reference, color=EDGE, linewidth=1.0, zorder=1)
    ax.set_yticks(rows, [literal(name) for name in names])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlabel(literal(textwrap.fill(xlabel, NARROW)))
    ax.grid(axis="x", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    _finish(ax, title, NARROW)
    return ax


def draw_landing_histogram(
    shares: list[float], marks: dict[str, float], ax: Axes | None = None, title: str = ""
) -> Axes:
    """How sure people are to repay where they land: shares of those who move in equal bins from 0 to 1.

    Parameters
    ----------
    shares : one per bin, from 0 up to 1.
    marks : name -> probability, each drawn as a line; those outside 0 to 1 are left out.
    """
    if not len(shares):
        raise TurnaboutError("there are no bins to draw.", hint="give RiskReport.histogram.")
    ax = axes_or_new(ax, (SIZE[0], 3.1))
    edges = np.linspace(0, 1, len(shares) + 1)
    ax.bar(edges[:-1], shares, np.diff(edges), align="edge", color=TOWARDS, alpha=0.75, edgecolor="white", zorder=2)
    styles = ("-", "--", ":", "-.")
    for (name, at), line in zip(((n, a) for n, a in marks.items() if 0 <= a <= 1), styles):
        ax.axvline(at, color=EDGE, linestyle=line, linewidth=1.6, label=literal(f"{name}, {at:.2f}"), zorder=3)
    ax.set_xlim(0, 1)
    ax.set_xlabel("P(repays) at the landing point")
    ax.set_ylabel("share of those who move")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    _finish(ax, title)
    return ax


def _finish(ax: Axes, title: str, width: int = 52) -> None:
    """Plain frame; the title above the legend, where there is one."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    legend = ax.get_legend()
    pad = 8 if legend is None else 10 + 16 * -(-len(legend.get_texts()) // 2)
    if title:
        ax.set_title(literal(textwrap.fill(title, width)), loc="left", fontweight="bold", fontsize="medium", pad=pad)


def _spread(points: np.ndarray, axes: list[Json]) -> np.ndarray:
    """Points on levels a little apart from each other, the same person always by as much."""
    out = points.copy()
    apart = (np.arange(len(points)) * 0.6180339887) % 1.0 - 0.5
    for number, axis in enumerate(axes):
        out[:, number] += 0.5 * apart if axis["levels"] else 0.0
    return out


def _name_axis(ax: Axes, side: str, axis: Json) -> None:
    unit = f" ({axis['unit']})" if axis["unit"] else ""
    getattr(ax, f"set_{side}label")(literal(textwrap.shorten(f"{axis['title']}{unit}", 60, placeholder=" …")))
    if axis["levels"]:
        names = [literal(textwrap.shorten(level, 14, placeholder="…")) for level in axis["levels"]]
        getattr(ax, f"set_{side}ticks")(range(len(names)), names, rotation=30 if side == "x" and len(names) > 3 else 0)


def _short(value: float) -> str:
    return (
        f"{value:.3f}" if 0.0005 <= abs(value) < 10 else f"{value:.2g}" if abs(value) < 1 else f"{value:.3g}"
    ).replace("-", "−")
