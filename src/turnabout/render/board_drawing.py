"""A leader board as a picture: scores with their intervals, best first, beside doing nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from turnabout.errors import TurnaboutError
from turnabout.render.palette import AWAY, EDGE, TOWARDS, axes_or_new, literal, need_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLACE = ["protocol", "data", "model"]
NEEDED = (*PLACE, "method", "refined", "score", "score_low", "score_high")
WAYS = {"yes": ("refined", -0.14, TOWARDS, "o"), "no": ("not refined", 0.14, AWAY, "s"), "": ("", 0.0, EDGE, "D")}


def draw_board(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Scores of the methods on one data set and model, the best at the top; the line is doing nothing.

    Needs matplotlib; shows nothing by itself.

    Parameters
    ----------
    table : lines of `turnabout.bench.Board.table` that are of one data set and model.
    ax : where to draw; on a new figure when None.
    """
    if absent := [name for name in NEEDED if name not in table.columns]:
        raise TurnaboutError(f"the table has no column {absent[0]!r}.", hint="draw_board takes a board's table.")
    if len(table[PLACE].drop_duplicates()) != 1:
        raise TurnaboutError("the table is not of one data set and model.", hint="draw one picture for each.")
    table = table[table["score"].notna()]
    best = table.groupby("method", sort=False)["score"].max().sort_values(ascending=False)
    ax = axes_or_new(ax, (6.5, 0.8 + 0.32 * len(best)))
    line = {method: i for i, method in enumerate(best.index)}
    for name, (label, shift, color, marker) in WAYS.items():
        part = table[table["refined"] == name]
        at = [line[method] + shift for method in part["method"]]
        ends = [(part["score"] - part["score_low"]).clip(lower=0), (part["score_high"] - part["score"]).clip(lower=0)]
        ax.errorbar(
            part["score"], at, xerr=ends, fmt=marker, color=color, markersize=4.5, linewidth=1.2, label=label or None
        )
    still = table[table["refined"] == ""]
    if len(still):
        ax.axvline(float(still["score"].iloc[0]), color=EDGE, linewidth=0.9, linestyle=":")
    ax.set_yticks(range(len(best)), [literal(_short(str(method))) for method in best.index])
    ax.invert_yaxis()
    ax.set_xlabel("score: unseen validity + unseen inlier - cost per feature (2 at most)")
    protocol, data, model = table[PLACE].iloc[0]
    ahead = f"{_short(str(best.index[0]))} scores highest" if len(best) else "Nothing was measured"
    ax.set_title(
        f"{literal(ahead)} on {data}, {model} ({protocol} protocol)", loc="left", fontweight="bold", fontsize=10, pad=22
    )
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(axis="x", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    if (table["refined"] != "").any():
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=8, borderpad=0)
    return ax


def save_board(table: pd.DataFrame, path: str | os.PathLike[str]) -> Path:
    """One picture of a board: a panel for each data set and model."""
    need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    parts = [part for _, part in table.groupby(PLACE, sort=False) if part["score"].notna().any()]
    heights = [1.2 + 0.32 * part["method"].nunique() for part in parts] or [1.2]
    figure = Figure(figsize=(7.0, sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for part, ax in zip(parts, axes):
        draw_board(part, ax)
    if not parts:
        axes[0].set_title("Nothing was measured")
    figure.savefig(path, dpi=150)
    return Path(path)


def _short(method: str) -> str:
    """Wachter() -> Wachter; parameters stay."""
    return method.removesuffix("()")
