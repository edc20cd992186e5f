"""Why, and is it safe? The lecture's known answers, and the first table of the risk of recourse on real data.

    python benchmarks/papers/lecture.py                             a taste of every part, under two minutes
    python benchmarks/papers/lecture.py --full                      the numbers of docs/papers/lecture.md
    python benchmarks/papers/lecture.py --full --only heloc,speed --json figures.json

Needs the files of heloc, adult, gmc and taiwan under TURNABOUT_DATA. A full run that was stopped goes on where it was;
each finished cell is one line of `results.jsonl` in the folder of --out.
"""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from lecture import coverage, gaussian, known, pictures, risk_table, rivals, speed, theorem
from lecture.published import PAPER, TARGET
from ledger import Cell, Ledger
from rich.table import Table
from running import console, measure, parse

REMEDIES = tuple(f"{name}_remedy" for name in risk_table.SETS)
PARTS = ("gaussian", "theorem", "known", *risk_table.SETS, *REMEDIES, "coverage", "speed", "rivals")
# Seconds of a cell of a full run on one thread, to say beforehand what it will take.
ROW = {"german": 5, "heloc": 20, "adult": 20, "gmc": 15, "taiwan": 25}
REMEDY = {"german": 20, "heloc": 120, "adult": 80, "gmc": 40, "taiwan": 120}
SEEDS = 10


def plan_cells(full: bool) -> list[Cell]:
    """Everything that is measured."""
    people = 400_000 if full else 20_000
    cells = [
        Cell("gaussian", "gaussian", 2, partial(gaussian.study, people)),
        Cell("strategic", "gaussian", 1, gaussian.strategic),
        Cell("theorem", "theorem", 2, theorem.table),
        Cell("known", "known", 2, known.answers),
    ]
    most, bootstrap = (600, 2000) if full else (40, 200)
    for name in risk_table.SETS if full else ("german", "heloc"):
        for method in risk_table.METHODS:
            for seed in range(SEEDS if full else 1):
                run = partial(risk_table.row, name, method, seed, most, bootstrap)
                cells.append(Cell(f"{name}.{method}", name, ROW[name], run, seed))
        for seed in range(SEEDS if full else 1):
            run = partial(risk_table.remedy, name, "LocalSearch", seed, 200 if full else 10, bootstrap)
            cells.append(Cell(f"{name}.remedy", f"{name}_remedy", REMEDY[name], run, seed))
    cells.append(Cell("coverage", "coverage", 200, partial(coverage.intervals, 1000 if full else 100)))
    cells.append(Cell("speed", "speed", 60, partial(speed.speed, full)))
    return cells + rivals.cells(full)


def show(figures: dict[str, dict[str, Any]]) -> None:
    """All figures beside the published ones; then the table of risks."""
    table = Table("figure", "ours", "95 % interval", "seeds", "people", "published", "expected", title="Figures")
    for name, entry in figures.items():
        value = "-" if entry["value"] is None else f"{entry['value']:.6g}"
        spread = f"{entry['low']:.4g} to {entry['high']:.4g}" if "low" in entry else ""
        row = (str(entry["seeds"]), str(entry["people"]), PAPER.get(name, ""), TARGET.get(name, ""))
        table.add_row(name, value, spread, *row)
    console.print(table)
    console.print(risk_table.summary(figures))


def main(given: list[str] | None = None) -> None:
    arguments = parse(given, __doc__.split("\n")[0], PARTS, "a taste of every part", "everybody, ten seeds")
    full = arguments.full
    with tempfile.TemporaryDirectory() as fleeting:
        folder = arguments.out
        if folder is None:
            folder = Path(tempfile.gettempdir(), "turnabout-lecture") if full else Path(fleeting)
        ledger = Ledger(folder, {"full": full})
        cells = [cell for cell in plan_cells(full) if cell.domain in arguments.parts]
        figures = measure(cells, ledger, arguments.device)
        rivals.headline(figures)
        show(figures)
        if arguments.out or full:
            for file in pictures.write(figures, folder):
                console.print(f"picture: {file.name}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
