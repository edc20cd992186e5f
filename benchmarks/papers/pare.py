"""What do models trained for recourse give and cost, beside the tables of Ross, Lakkaraju and Bastani (2021)?

    python benchmarks/papers/pare.py                             a taste of every part, under two minutes
    python benchmarks/papers/pare.py --full                      the numbers of docs/papers/pare.md
    python benchmarks/papers/pare.py --full --only compas,pac --json figures.json

Needs the files of the study under TURNABOUT_DATA. A full run that was stopped goes on where it was; each finished cell
is one line of `results.jsonl` in the folder of --out.
"""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from ledger import Cell, Ledger
from pare import coverage, others, pictures, replay, speed, sweeps, tables, variants
from pare.published import PAPER, SETS, TARGET
from pare.runs import LAM, LAMS, Workshop
from rich.table import Table
from running import console, measure, parse

PARTS = (*SETS, "german_legacy", "replay", "pac", "sweep", "variants", "sentiment", "trees", "speed")
# Seconds of a cell of a full run on one thread, to say beforehand what it will take.
SECONDS = {"adult": 40, "compas": 15, "bail": 20, "german": 10}
TRAINING = {"adult": 400, "compas": 60, "bail": 60, "german": 40}


def plan_cells(workshop: Workshop, full: bool) -> list[Cell]:
    """Everything that is measured."""
    most = 500 if full else 40
    cells = [Cell("pac.simulated", "pac", 20, partial(coverage.simulated, 1000 if full else 200))]
    for name in SETS:
        for lam in LAMS:
            for seed in range(workshop.seeds):
                seconds = SECONDS[name] + (TRAINING[name] if lam == 0 and seed == 0 else 0)
                run = partial(tables.tables, workshop, name, lam, seed, most)
                cells.append(Cell(f"{name}.lam{lam:g}", name, seconds, run, seed))
    cells.append(Cell("german_legacy", "german_legacy", 60, partial(tables.legacy, workshop, most)))
    cells.append(Cell("replay", "replay", 200, partial(replay.compas, workshop)))
    for name in ("compas", "adult") if full else ("compas",):
        cells.append(Cell(f"pac.{name}", "pac", 30, partial(coverage.real, workshop, name, 1000 if full else 100)))
    cells.append(Cell("pac.shift", "pac", 10, partial(coverage.shift, workshop)))
    lams = sweeps.LAMS if full else (0.0, LAM)
    for name in SETS if full else ("compas",):
        run = partial(sweeps.by_lambda, workshop, name, lams, 1000 if full else 100)
        cells.append(Cell(f"{name}.sweep", "sweep", 6 * TRAINING[name], run))
    for name in SETS if full else ("compas",):
        for label in variants.VARIANTS if full and name in ("adult", "compas") else ("real",):
            run = partial(variants.variant, workshop, name, label, 2000 if full else 100)
            cells.append(Cell(f"{name}.{label}", "variants", TRAINING[name], run))
    if full:
        run = partial(sweeps.by_size, workshop, sweeps.SIZES, 5, 1000)
        cells.append(Cell("adult.delta_max", "sweep", 1200, run))
    run = partial(sweeps.causal, workshop, (0.0, 0.4, 0.8, 1.2, 2.0) if full else (0.0, LAM), 150 if full else 20)
    cells.append(Cell("german.causal", "sweep", 200, run))
    run = partial(others.sentences, workshop.seeds, not full)
    cells.append(Cell("sentiment", "sentiment", 600, run))
    for name in ("compas", "adult", "bail") if full else ("compas",):
        cells.append(Cell(f"trees.{name}", "trees", 300, partial(others.granting, name, full)))
    cells.append(Cell("speed", "speed", 120, partial(speed.speed, workshop, 3 if full else 1)))
    return cells


def show(figures: dict[str, dict[str, Any]], ledger: Ledger) -> None:
    """All figures beside the published ones; then a certificate and examples in words."""
    table = Table("figure", "ours", "95 % interval", "seeds", "people", "published", "asked for", title="Figures")
    for name, entry in figures.items():
        value = "-" if entry["value"] is None else f"{entry['value']:.4g}"
        spread = f"{entry['low']:.4g} to {entry['high']:.4g}" if "low" in entry else ""
        row = (str(entry["seeds"]), str(entry["people"]), PAPER.get(name, ""), TARGET.get(name, ""))
        table.add_row(name, value, spread, *row)
    console.print(table)
    for (cell, _), line in sorted(ledger.lines.items()):
        if "certificate" in line["data"]:
            console.print(f"{cell}: {line['data']['certificate']}", markup=False, highlight=False)
        for change in line["data"].get("example", ()):
            console.print(f"{cell}: {change}", markup=False, highlight=False)


def main(given: list[str] | None = None) -> None:
    arguments = parse(given, __doc__.split("\n")[0], PARTS, "a taste of every part", "everybody, ten seeds")
    full = arguments.full
    with tempfile.TemporaryDirectory() as fleeting:
        folder = arguments.out
        if folder is None:
            folder = Path(tempfile.gettempdir(), "turnabout-pare") if full else Path(fleeting)
        ledger = Ledger(folder, {"full": full})
        workshop = Workshop(folder, 10 if full else 1, not full, arguments.device)
        cells = [cell for cell in plan_cells(workshop, full) if cell.domain in arguments.parts]
        figures = measure(cells, ledger, arguments.device)
        show(figures, ledger)
        if arguments.out or full:
            for file in pictures.write(ledger, folder):
                console.print(f"picture: {file.name}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
