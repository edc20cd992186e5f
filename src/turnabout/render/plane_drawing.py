"""People in the plane, what the model decides there, and where each refused person is sent."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from turnabout.errors import TurnaboutError
from turnabout.render.palette import AWAY, EDGE, TOWARDS, YES, axes_or_new, literal, need_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINT = ["x1", "x2"]
NEW = ["new_x1", "new_x2"]
WIDE = 5  # panels beside each other
BOUNDARY, REACHED = "0.45", "#ffffff"
CLOUDS = ((True, "good outcome", TOWARDS, "o", 7, 0.4), (False, "bad outcome", AWAY, "x", 11, 0.9))
MOST_NAMES = 3  # methods named in a title


def draw_plane(
    people: pd.DataFrame,
    margins: pd.DataFrame,
    moves: pd.DataFrame | None = None,
    ax: Axes | None = None,
    *,
    title: str = "",
) -> Axes:
    """Refused people as black points, joined to their first options; the shaded region is accepted.

    Needs matplotlib; shows nothing by itself.

    Parameters
    ----------
    people : who trained the model: x1, x2, and good, whether their outcome was.
    margins : the model's margin on a mesh; x1 in the columns, x2 in the index.
    moves : one line per refused person: x1, x2 and, where there are options, new_x1 and new_x2, NaN without one.
    ax : where to draw; on a new figure when None.
    title : the finding, in the caller's words.
    """
    _check(people, [*POINT, "good"], "people")
    ax = axes_or_new(ax, (4, 4))
    from matplotlib.collections import LineCollection

    x, y, m = margins.columns.to_numpy(float), margins.index.to_numpy(float), margins.to_numpy(float)
    if m.max() >= 0:
        ax.contourf(x, y, m, levels=[0, m.max() + 1], colors=[YES], zorder=0)
    if m.min() < 0 <= m.max():
        ax.contour(x, y, m, levels=[0], colors=BOUNDARY, linewidths=0.8, linestyles="--", zorder=1)
    for good, label, color, marker, size, alpha in CLOUDS:
        part = people[people["good"].astype(bool) == good]
        ax.scatter(part["x1"], part["x2"], s=size, c=color, marker=marker, linewidths=0.7, alpha=alpha, label=label)
    if moves is not None:
        _check(moves, POINT, "moves")
        own = moves[POINT].to_numpy(float)
        if set(NEW) <= set(moves.columns):
            new = moves[NEW].to_numpy(float)
            some = np.isfinite(new).all(axis=1)
            lines = list(np.stack([own[some], new[some]], axis=1))
            ax.add_collection(LineCollection(lines, colors=EDGE, linewidths=0.6, alpha=0.7, zorder=3, label="change"))
            ax.scatter(
                new[some, 0],
                new[some, 1],
                s=20,
                c=REACHED,
                marker="D",
                edgecolors=EDGE,
                linewidths=0.9,
                zorder=5,
                clip_on=False,
                label="option",
            )
        ax.scatter(own[:, 0], own[:, 1], s=10, c=EDGE, marker="o", linewidths=0, zorder=4, label="refused person")
    ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), xticks=[], yticks=[])
    ax.set_title(literal(title), loc="left", fontsize=9)
    for spine in ax.spines.values():
        spine.set(color="0.8", linewidth=0.8)
    return ax


def save_planes(document: Any, path: str | os.PathLike[str]) -> Path:
    """One picture from the document of `bench.PlanePicture`: the people, then a panel for each method.

    Parameters
    ----------
    document : what `PlanePicture.to_dict` gives, or the same read from its JSON.
    path : the file; its ending tells the format.
    """
    need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    try:
        people, panels, mesh = pd.DataFrame(document["people"]), document["panels"], document["mesh"]
        margins = pd.DataFrame(mesh["m"], index=mesh["x2"], columns=mesh["x1"])
        all_moves = [pd.DataFrame(panel["moves"]) for panel in panels]
        titles, finding = [_found(panel) for panel in panels], _finding(document["data"], panels)
    except (KeyError, TypeError, ValueError) as error:
        raise TurnaboutError(
            "this is no picture of the plane.", hint="pass what PlanePicture.to_dict or its JSON file holds."
        ) from error
    wide = min(WIDE, 1 + len(panels))
    high = -(-(1 + len(panels)) // wide)
    figure = Figure(figsize=(2.6 * wide, 2.75 * high + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(high, wide, squeeze=False).ravel()
    asked = all_moves[0][POINT] if all_moves else None
    draw_plane(people, margins, asked, axes[0], title=f"People\n{len(people)} trained the model")
    for moves, title, ax in zip(all_moves, titles, axes[1:]):
        draw_plane(people, margins, moves, ax, title=title)
    for ax in axes[1 + len(panels) :]:
        ax.set_axis_off()
    handles, labels = axes[min(1, len(panels))].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower left",
        ncols=len(labels) if wide > 2 else 1 + wide,
        frameon=False,
        fontsize=8,
    )
    wrapped = textwrap.fill(finding, 45 * wide // 2)
    figure.suptitle(literal(wrapped), x=0.01, ha="left", fontweight="bold", fontsize=10)
    figure.savefig(path, dpi=130)
    return Path(path)


def _found(panel: Any) -> str:
    """The method and what came of it, in three short lines."""
    lines = [panel["method"].removesuffix("()"), f"found {panel['found']:.0%}"]
    if panel["cost"] is not None:
        lines[-1] += f", valid {panel['validity']:.0%}"
        lines.append(f"cost {panel['cost']:.2f}")
        if panel["inlier"] is not None:
            lines[-1] += f", inliers {panel['inlier']:.0%}"
    return "\n".join(lines)


def _finding(data: str, panels: Sequence[Any]) -> str:
    """Who is cheapest and who has most inliers, of the methods that find an option for most people."""
    if len(panels) == 1 and panels[0]["cost"] is not None:
        return f"{data}: found {panels[0]['found']:.0%} at cost {panels[0]['cost']:.2f}"
    most = max((panel["found"] for panel in panels), default=0)
    able = [panel for panel in panels if panel["found"] == most and panel["cost"] is not None]
    if not able:
        return f"{data}: no option was found"
    cheap = min(round(panel["cost"], 2) for panel in able)
    told = f"{data}: lowest cost ({cheap:.2f}) by {_named([p for p in able if round(p['cost'], 2) == cheap])}"
    judged = [panel for panel in able if panel["inlier"] is not None]
    if judged:
        share = max(panel["inlier"] for panel in judged)
        told += f"; most inliers ({share:.0%}) by {_named([p for p in judged if p['inlier'] == share])}"
    return told


def _named(panels: list[Any]) -> str:
    names = [panel["method"].removesuffix("()") for panel in panels]
    if len(names) > MOST_NAMES:
        return f"{len(names)} methods"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _check(table: pd.DataFrame, needed: list[str], what: str) -> None:
    if absent := [name for name in needed if name not in table.columns]:
        raise TurnaboutError(f"the table of {what} has no column {absent[0]!r}.", hint=f"it needs {', '.join(needed)}.")
