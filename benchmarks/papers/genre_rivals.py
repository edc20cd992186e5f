"""How do the methods that GenRe is compared with do, beside its Tables 2 and 4, by a strict protocol, and how fast?

    python benchmarks/papers/genre_rivals.py                             a taste of every part, under two minutes
    python benchmarks/papers/genre_rivals.py --full                      the numbers of docs/benchmarks.md
    python benchmarks/papers/genre_rivals.py --full --only paper --json figures.json

paper : GenRe's protocol on Adult, COMPAS and HELOC.
strict : the strict protocol on these and German credit, all methods.
speed : people in a second on Adult, training, FACE for everybody, the small board.
checks : formulas against slow references.
literal : GenRe's protocol re-implemented without turnabout, as an oracle.

Needs the files of Adult, COMPAS and HELOC under TURNABOUT_DATA. A full run that was stopped goes on where it was.
Boards work in as many processes as there are cores; speed in one, on one thread.
"""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from genre_rivals import boards, checks, literal, speed, tables
from ledger import Cell, Ledger
from running import console, measure, parse

PARTS = ("paper", "strict", "speed", "checks", "literal")
MINUTES = {"paper": 35, "strict": 60}  # of a full run on two cores


def plan_cells(full: bool) -> list[Cell]:
    """What is measured one by one."""
    people = 2000 if full else 100
    cells = []
    for name, made in boards.RIVALS.items():
        if full or name in ("ROAR", "PROBE", "CCHVAE"):
            cells.append(Cell(f"speed.{name}", "speed", 40, partial(speed.method, name, made, people)))
    cells.append(Cell("speed.everybody", "speed", 60, partial(speed.everybody, None if full else 100)))
    if full:
        cells.append(Cell("speed.small_board", "speed", 120, speed.small_board))
    for seed in range(5 if full else 1):
        cells.append(Cell("checks.roar", "checks", 2, partial(checks.roar, seed), seed))
        cells.append(Cell("checks.probe", "checks", 5, partial(checks.probe, seed, 200_000 if full else 50_000), seed))
        cells.append(Cell("checks.face", "checks", 5, partial(checks.face, seed), seed))
        for data in ("adult", "german") if full else ("german",):
            run = partial(checks.auto_encoder, data, seed, 3000 if full else 300)
            cells.append(Cell(f"checks.vae.{data}", "checks", 8, run, seed))
    for data in ("adult", "compas", "heloc") if full else ("compas",):
        for seed in range(5 if full else 1):
            seconds = {"adult": 80, "compas": 15, "heloc": 25}[data]
            run = partial(literal.replay, data, seed, None if full else 100)
            cells.append(Cell(f"literal.{data}", "literal", seconds, run, seed))
    return cells


def main(given: list[str] | None = None) -> None:
    arguments = parse(given, __doc__.split("\n")[0], PARTS, "a taste of every part", "five seeds, 200 people each")
    full, figures = arguments.full, dict[str, Any]()
    with tempfile.TemporaryDirectory() as fleeting:
        folder = arguments.out
        if folder is None:
            folder = Path(tempfile.gettempdir(), "turnabout-genre-rivals") if full else Path(fleeting)
        cells = [cell for cell in plan_cells(full) if cell.domain in arguments.parts]
        figures |= measure(cells, Ledger(folder, {"full": full}), arguments.device) if cells else {}
        for part, grid, stem in (("paper", boards.paper_grid, "paper."), ("strict", boards.strict_grid, "")):
            if part in arguments.parts:
                if full:
                    console.print(f"{part}: about {MINUTES[part]} minutes on two cores, less what is done already.")
                board = boards.run(grid(full), folder)
                figures = boards.figures(board, stem) | figures
                for line in board.not_measured():
                    console.print(f"not measured: {line}", markup=False)
        for text in tables.texts(figures):
            print(text)
    if arguments.json:
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in figures.items())
        arguments.json.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
