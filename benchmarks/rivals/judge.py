"""The judge of every library: a plan is printed as a person would get it, read back, and put to the original model."""

import csv
from pathlib import Path
from typing import Any

import case as frame
import numpy as np


def print_rows(case: frame.Case, rows: list[np.ndarray], path: Path) -> None:
    """Write rows as a person would read them."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(case.names)
        for row in rows:
            writer.writerow(
                [c.levels[int(v)] if c.levels else str(round(v)) for c, v in zip(case.columns, row, strict=True)]
            )


def read_rows(case: frame.Case, path: Path) -> np.ndarray:
    """Read them back: coded rows (n, F)."""
    with open(path, newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))[1:]
    rows = [
        [c.levels.index(text) if c.levels else float(text) for c, text in zip(case.columns, line, strict=True)]
        for line in lines
    ]
    return np.array(rows, dtype=float).reshape(len(rows), len(case.columns))


def judge(case: frame.Case, plans: dict[int, list[float] | None]) -> dict[str, Any]:
    """Shares, costs and changes of the plans, as read back from the printed file."""
    served = [i for i in sorted(plans) if plans[i] is not None]
    path = case.folder / "plans.csv"
    print_rows(case, [np.array(plans[i]) for i in served], path)
    new, old = read_rows(case, path), case.people[served]
    moved = new != old
    cost = case.cost(old, new)
    valid = case.model()(new) >= 0.5 if served else np.zeros(0, bool)
    kept = ~moved[:, [c.fixed for c in case.columns]].any(axis=1)
    return {
        "asked": len(plans),
        "found": len(served),
        "valid": int(valid.sum()),
        "kept": int(kept.sum()),
        "costs": {str(i): round(float(c), 9) for i, c, ok in zip(served, cost, valid, strict=True) if ok},
        "changed": {str(i): int(m) for i, m, ok in zip(served, moved.sum(axis=1), valid, strict=True) if ok},
    }
