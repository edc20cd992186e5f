"""Pictures of what was measured; each function takes data and an axis, and needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

TITLES = {"german": "German", "adult": "Adult", "fanniemae": "Fannie Mae"}
MARKS = {"breadth": ("o", "0.15"), "objective": ("s", "#c2571a"), "gradient": ("^", "#2b6cb0")}
LINES = {"german": ("-", "o", "#2b6cb0"), "adult": ("-", "s", "#c2571a"), "fanniemae": ("-", "^", "0.15")}


def tolerance(curves: dict[str, dict[str, Any]], ax: Any) -> Any:
    """Curves by label (domain, or 'adult robust'): theta -> share of plans, conditions counted."""
    for label, curve in curves.items():
        name = label.split()[0]
        line, mark, color = LINES[name]
        robust = label.endswith("robust")
        ax.plot(
            curve["theta"],
            curve["allowed"],
            "--" if robust else line,
            marker=mark,
            markersize=4,
            color=color,
            markerfacecolor="white" if robust else color,
            label=TITLES[name] + (", made for 0.03" if robust else ""),
        )
    ax.axvline(0.03, color="0.8", linewidth=0.8, zorder=0)
    ax.set(
        xlabel="θ: every parameter off by up to this share",
        ylabel="plans that still work with probability 0.8 (%)",
        ylim=(-3, 103),
    )
    ax.legend(frameon=False, fontsize=8)
    return ax


def first_reached(rows: dict[str, list[int]], across: str, others: tuple[str, ...], ax: Any) -> Any:
    """One point for each person: sequences solved until the solution, one score across, others up."""
    largest = max(max(rows[score]) for score in (across, *others))
    ax.plot([0.8, largest * 1.3], [0.8, largest * 1.3], color="0.8", linewidth=0.8, zorder=0)
    for score in others:
        mark, color = MARKS[score]
        ax.scatter(rows[across], rows[score], marker=mark, s=14, color=color, alpha=0.6, linewidths=0, label=score)
    ax.set(xscale="log", yscale="log", xlabel=f"{across}: sequences solved", ylabel="sequences solved")
    ax.legend(frameon=False, fontsize=8)
    return ax


def firsts_by_length(rows: dict[str, list[int]], ax: Any) -> Any:
    """How often each score was first (ties count for all), by length of the solution."""
    lengths = np.array(rows["length"])
    shown = sorted(set(lengths.tolist()))
    taken = {score: np.array(rows[score]) for score in MARKS}
    least = np.min(list(taken.values()), axis=0)
    for k, (score, (_, color)) in enumerate(MARKS.items()):
        heights = [int(((taken[score] == least) & (lengths == long)).sum()) for long in shown]
        ax.bar(np.arange(len(shown)) + 0.27 * (k - 1), heights, 0.25, color=color, label=score)
    ax.set_xticks(range(len(shown)), [f"{long}\n{int((lengths == long).sum())}" for long in shown])
    ax.set(xlabel="actions in the solution, and people", ylabel="people for whom it was first")
    ax.margins(y=0.45)  # room for the legend
    ax.legend(frameon=False, fontsize=8)
    return ax


def write(data: dict[str, Any], folder: Path) -> list[Path]:
    """All pictures for which there is data; none where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    out: list[Path] = []

    def keep(figure: Any, name: str) -> None:
        out.append(folder / name)
        figure.savefig(out[-1], dpi=110)
        plt.close(figure)

    if data.get("curves"):
        figure, ax = plt.subplots(figsize=(5.4, 3.6), layout="constrained")
        tolerance(data["curves"], ax).set_title("Plans that bear slips, ordinary and made for θ = 0.03", fontsize=10)
        keep(figure, "action-sequences-tolerance.png")
    if data.get("orders"):
        count = len(data["orders"])
        figure, axes = plt.subplots(3, count, figsize=(3.2 * count, 8.4), layout="constrained", squeeze=False)
        for column, (name, rows) in zip(axes.T, data["orders"].items()):
            first_reached(rows, "breadth", ("objective", "gradient"), column[0]).set_title(TITLES[name], fontsize=10)
            first_reached(rows, "objective", ("gradient",), column[1])
            firsts_by_length(rows, column[2])
        figure.suptitle("Sequences solved until the solution is reached, a point for each person", fontsize=11)
        keep(figure, "action-sequences-orders.png")
    if data.get("drawings"):
        from turnabout.render.drawing import draw_strokes

        shown = _spread(data["drawings"])
        figure, axes = plt.subplots(1, len(shown), figsize=(2.6 * len(shown), 2.9), layout="constrained", squeeze=False)
        for ax, picture in zip(axes[0], shown):
            count = len(picture["added"])
            draw_strokes(np.array(picture["lines"]), np.array(picture["added"]), ax)
            ax.set_title(f"drawing {picture['person']}, {count} stroke{'s' * (count != 1)}", fontsize=9)
        keep(figure, "action-sequences-drawing.png")
    return out


def _spread(pictures: list[dict[str, Any]], most: int = 4) -> list[dict[str, Any]]:
    """A few of different lengths, from the shortest plan to the longest."""
    at = np.unique(np.linspace(0, len(pictures) - 1, min(most, len(pictures))).round().astype(int))
    return [pictures[k] for k in at]
