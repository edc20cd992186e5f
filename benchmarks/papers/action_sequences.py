"""How near do our action sequences come to those of Ramakrishnan, Lee and Albarghouthi (AAAI 2020)?

    python benchmarks/papers/action_sequences.py                 a few people of each domain, under two minutes
    python benchmarks/papers/action_sequences.py --full          the numbers of docs/papers/action-sequences.md
    python benchmarks/papers/action_sequences.py --full --only german,linear --json figures.json

Needs the files of the study under TURNABOUT_DATA, see docs/domains.md. A full run that was stopped goes on where it
was; each finished cell is one line of `results.jsonl` in the folder of --out.
"""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from action_sequences import cats, linear, literal, orders, pictures, proofs, scan, slips, study
from action_sequences.answers import Answers
from action_sequences.published import PAPER, TARGET
from ledger import Cell, Ledger, Outcome
from rich.table import Table
from running import console, measure, parse

DOMAINS = ("german", "adult", "fanniemae")
PARTS = (*DOMAINS, "drawing", "linear")
LENGTHS = (1, 2, 4)
SMALL = {"german": 4, "adult": 3, "fanniemae": 2}
FULL = {"german": 100, "adult": 100, "fanniemae": 100}
# Seconds of a full run on one thread of a shared machine, to say beforehand what it will take.
SECONDS = {
    "solved": {"german": (5, 10, 40), "adult": (10, 30, 50), "fanniemae": (40, 60, 125)},
    "robust": {"german": 120, "adult": 200, "fanniemae": 300},
    "orders": {"german": 120, "adult": 120, "fanniemae": 150},
    "really": {"german": 150, "adult": 120, "fanniemae": 120},
}


def plan_cells(answers: Answers, full: bool, device: str) -> list[Cell]:
    """Everything that is measured, cheap things first."""
    seeds = range(3) if full else range(1)
    cells = [
        Cell("linear", "linear", 60, partial(linear.random_linear, 1000 if full else 40)),
    ]
    if full:
        cells.append(Cell("german.row0", "german", 30, partial(literal.row_zero, answers)))
    for name in DOMAINS:
        for length, seconds in zip(LENGTHS, SECONDS["solved"][name]):
            for seed in seeds if name != "fanniemae" else (0,):  # a net of 1,000 units: minutes each
                run = partial(study.solved, answers, name, length, seed)
                cells.append(Cell(f"{name}.len{length}", name, seconds, run, seed))
        cells.append(Cell(f"{name}.curve", name, 20, partial(slips.curve, answers, name, None)))
    cells += [
        Cell("german.one_person", "german", 60, partial(study.one_person, answers, "german", 11 if full else 1)),
        Cell("german.scan", "german", 90, partial(scan.against_scan, answers, 200_000 if full else 20_000)),
    ]
    cells.append(Cell("adult.robust", "adult", SECONDS["robust"]["adult"], partial(slips.robust, answers, "adult", 0)))
    cells.append(Cell("adult.robust_curve", "adult", 20, partial(slips.curve, answers, "adult", slips.THETA)))
    run = partial(proofs.certified, answers, "german", *((100, 1800.0) if full else (2, 10.0)))
    cells.append(Cell("german.proofs", "german", 300, run, proofs=True))
    cells.append(Cell("drawing", "drawing", 90, partial(drawing, full, device)))
    for name in DOMAINS:
        run = partial(orders.replayed, answers, name, answers.people[name] if full else 1, 4 if full else 2)
        cells.append(Cell(f"{name}.orders", name, SECONDS["orders"][name], run))
    for name in DOMAINS:
        run = partial(orders.really_run, answers, name, 5 if full else 1, 4 if full else 1)
        cells.append(Cell(f"{name}.really", name, SECONDS["really"][name], run))
    return cells


def drawing(full: bool, device: str) -> Outcome:
    if not full and not cats.trained():
        return Outcome(notes=["drawing: left out, for the recogniser would have to be trained first (--full does it)."])
    return cats.drawing(16 if full else 1, device)


def show(figures: dict[str, dict[str, Any]], ledger: Ledger) -> None:
    """The table of all figures, then the curves."""
    table = Table("figure", "ours", "over seeds", "people", "published", "asked for", title="Figures")
    for name, entry in figures.items():
        if not name.split(".")[1].startswith("len4"):
            spread = f"{entry['min']:.4g} to {entry['max']:.4g} ({entry['seeds']})" if "min" in entry else ""
            value, people = "-" if entry["value"] is None else f"{entry['value']:.6g}", str(entry["people"])
            table.add_row(name, value, spread, people, PAPER.get(name, ""), TARGET.get(name, ""))
    console.print(table)
    curves = {line["cell"]: line["data"] for name in DOMAINS for line in ledger.of(f"{name}.curve")}
    curves |= {line["cell"]: line["data"] for name in DOMAINS for line in ledger.of(f"{name}.robust_curve")}
    if curves:
        table = Table(
            "theta", *curves, title="Plans that work with probability 0.8, in %: decision only / conditions too"
        )
        for k, theta in enumerate(slips.THETAS):
            cells = [f"{c['accepted'][k]:.0f} / {c['allowed'][k]:.0f}" for c in curves.values()]
            table.add_row(f"{theta:g}", *cells)
        console.print(table)


def drawn(ledger: Ledger) -> dict[str, Any]:
    """What the pictures show."""
    curves = {name: line["data"] for name in DOMAINS for line in ledger.of(f"{name}.curve")}
    curves |= {f"{name} robust": line["data"] for name in DOMAINS for line in ledger.of(f"{name}.robust_curve")}
    rows = {name: line["data"] for name in DOMAINS for line in ledger.of(f"{name}.orders") if line["data"]["length"]}
    sketches = [picture for line in ledger.of("drawing") for picture in line["data"].get("pictures", ())]
    return {"curves": curves, "orders": rows, "drawings": sketches}


def main(given: list[str] | None = None) -> None:
    arguments = parse(given, __doc__.split("\n")[0], PARTS, "a few people of each domain", "everybody, three seeds")
    with tempfile.TemporaryDirectory() as fleeting:
        folder = arguments.out
        if folder is None:
            folder = Path(tempfile.gettempdir(), "turnabout-action-sequences") if arguments.full else Path(fleeting)
        people = FULL if arguments.full else SMALL
        settings = {"full": arguments.full, "device": arguments.device, "threads": torch.get_num_threads()}
        ledger = Ledger(folder, settings)
        answers = Answers(folder, people, arguments.device)
        cells = [c for c in plan_cells(answers, arguments.full, arguments.device) if c.domain in arguments.parts]
        figures = measure(cells, ledger, arguments.device)
        show(figures, ledger)
        if arguments.out or arguments.full:
            for file in pictures.write(drawn(ledger), folder):
                console.print(f"picture: {file.name}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
