"""Pictures of the sweeps."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from ledger import Ledger

from turnabout.render import draw_sweep

LABELS = {
    "lam": "λ, weight of recourse in training",
    "delta_max": "largest change, in standard deviations",
    "f1": "F1",
    "accuracy": "accuracy",
    "recourse_all_one_step": "recourse among all, one step",
    "recourse_all_exact": "recourse among all, grid",
    "recourse_refused_one_step": "recourse among refused, one step",
    "recourse_refused_exact": "recourse among refused, grid",
    "recourse_refused": "recourse among refused",
    "ours.f1": "F1, λ = 0.8",
    "baseline.f1": "F1, λ = 0",
    "ours.recourse_all_exact": "recourse among all, λ = 0.8",
    "baseline.recourse_all_exact": "recourse among all, λ = 0",
}
LINES = {
    "lam": ["f1", "accuracy", "recourse_all_exact", "recourse_refused_exact", "recourse_refused_one_step"],
    "delta_max": ["ours.f1", "baseline.f1", "ours.recourse_all_exact", "baseline.recourse_all_exact"],
}


def write(ledger: Ledger, folder: Path) -> list[Path]:
    """One picture for each sweep that is done."""
    files = []
    for (cell, _), line in sorted(ledger.lines.items()):
        if "along" not in line["data"] or len({row[line["data"]["along"]] for row in line["data"]["table"]}) < 3:
            continue
        along, table = line["data"]["along"], pd.DataFrame(line["data"]["table"])
        wanted = [name for name in LINES[along] if name in set(table["metric"])] or sorted(set(table["metric"]))[:6]
        ax = draw_sweep(table, along, wanted, title=_title(cell, table, along), labels=LABELS)
        files.append(folder / f"{cell.replace('.', '-')}.png")
        ax.figure.savefig(files[-1], dpi=150)  # type: ignore[union-attr]
    return files


def _title(cell: str, table: pd.DataFrame, along: str) -> str:
    """What the picture shows, in computed numbers."""
    what = {
        "recourse_refused_exact": "recourse among the refused",
        "ours.recourse_all_exact": "recourse among all, trained for it,",
        "recourse_refused": "causal recourse among the refused",
    }
    metric = next(name for name in what if name in set(table["metric"]))
    mine = table[table["metric"] == metric].sort_values(along)
    first, last = mine.iloc[0], mine.iloc[-1]
    name = {"lam": "λ", "delta_max": "the largest change"}[along]
    return (
        f"{cell.split('.')[0].capitalize()}: {what[metric]} goes from {first['value']:.2f} to {last['value']:.2f} "
        f"as {name} goes from {first[along]:g} to {last[along]:g}"
    )
