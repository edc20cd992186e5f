"""Pictures of the study: excess risk by data set and method, for three kinds of people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lecture.risk_table import KINDS, METHODS, SETS

MARKERS = {"defiant": ("#b3492d", "s"), "mixed": ("#d9982b", "D"), "compliant": ("#1f3b73", "o")}
TITLES = {"defiant": "nobody really improves", "mixed": "half do", "compliant": "everybody does"}


def write(figures: dict[str, dict[str, Any]], folder: Path) -> list[Path]:
    """One picture, of the data sets that are there; none without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [
        (name, method)
        for name in SETS
        for method in (*METHODS, "LocalSearch.at70", "LocalSearch.mirror")
        if f"{name}.{method}.compliant.delta" in figures
    ]
    if not rows:
        return []
    figure, ax = plt.subplots(figsize=(8.0, 0.32 * len(rows) + 1.4), layout="constrained")
    for kind in KINDS:
        color, marker = MARKERS[kind]
        for y, (name, method) in enumerate(rows):
            entry = figures[f"{name}.{method}.{kind}.delta"]
            if entry["value"] is None:
                continue
            if "low" in entry:
                ax.plot([entry["low"], entry["high"]], [y, y], color=color, linewidth=1.5)
            ax.plot(entry["value"], y, marker=marker, color=color, label=TITLES[kind] if y == 0 else None, linestyle="")
    ax.axvline(0.0, color="0.3", linewidth=0.8)
    ax.set_yticks(range(len(rows)), [f"{name}  {method}" for name, method in rows])
    ax.invert_yaxis()
    ax.set_xlabel("risk after recourse minus risk before (share of wrong decisions)")
    ax.set_title("Recourse to the boundary costs the lender wrong decisions", loc="left", fontweight="bold")
    ax.grid(axis="x", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False)
    file = folder / "risk.png"
    figure.savefig(file, dpi=140)
    plt.close(figure)
    return [file]
