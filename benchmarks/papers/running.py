"""What the scripts of this folder share: their arguments, and running cells that are not done yet."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from ledger import Cell, Ledger, gather
from rich.console import Console

console = Console(width=None if sys.stdout.isatty() else 150)


def parse(given: list[str] | None, title: str, parts: Sequence[str], small: str, full: str) -> argparse.Namespace:
    """Arguments of a script whose measurements fall into `parts`; small and full say what each run takes."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--small", action="store_true", help=f"{small} (the default)")
    parser.add_argument("--full", action="store_true", help=full)
    parser.add_argument("--only", help=f"some of {','.join(parts)}")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--out", type=Path, help="folder for pictures and finished cells")
    arguments = parser.parse_args(given)
    arguments.parts = set((arguments.only or ",".join(parts)).split(","))
    if arguments.small and arguments.full:
        parser.error("--small or --full, not both")
    if unknown := arguments.parts - set(parts):
        parser.error(f"there is no {', '.join(sorted(unknown))}; known: {', '.join(parts)}")
    return arguments


def work(cells: list[Cell], ledger: Ledger) -> None:
    """Run what is not done yet, telling how far it is."""
    left = [cell for cell in cells if not ledger.has(cell)]
    if len(left) < len(cells):
        console.print(f"{len(cells) - len(left)} of {len(cells)} cells are already in {ledger.file.name}.")
    start, expected = time.perf_counter(), sum(cell.seconds for cell in left)
    past = 0.0
    for k, cell in enumerate(left, 1):
        line = ledger.do(cell)
        past += cell.seconds
        ahead = (expected - past) * (time.perf_counter() - start) / past
        rest = f"about {ahead / 60:.0f} min left" if ledger.settings["full"] and ahead > 30 else ""
        told = f"[{k}/{len(left)}] {cell.name}, seed {cell.seed}: {line['seconds']:.1f} s; {rest}"
        console.print(told.rstrip("; "), markup=False, highlight=False)
        for note in line["notes"]:
            console.print(f"    {note}", markup=False, highlight=False)


def foretell(cells: list[Cell], ledger: Ledger, device: str, threads: int) -> None:
    """Say beforehand what the run will take."""
    ahead = sum(cell.seconds for cell in cells if not ledger.has(cell))
    told = f"{len(cells)} cells on {device}, {threads} torch threads; "
    if ledger.settings["full"]:
        told += f"about {ahead / 60:.0f} minutes on one thread. Stop it and go on at will: finished cells stay in "
        told += f"{ledger.folder}."
    else:
        told += "under two minutes."
    console.print(told, markup=False, highlight=False)


def measure(cells: list[Cell], ledger: Ledger, device: str) -> dict[str, dict[str, Any]]:
    """Say what the run will take, do what is not done yet, and gather the figures."""
    from turnabout.errors import DataError

    foretell(cells, ledger, device, torch.get_num_threads())
    try:
        work(cells, ledger)
    except DataError as error:
        raise SystemExit(f"this benchmark needs the files of the study: {error}") from None
    names = {(cell.name, cell.seed) for cell in cells}
    return gather(line for key, line in ledger.lines.items() if key in names)
