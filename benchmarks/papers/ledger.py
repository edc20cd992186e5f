"""Cells of the benchmark: what each measured, kept in one line of JSON, so that a stopped run goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import turnabout as ta
from turnabout.intervals import mean_interval

PACKAGE = Path(ta.__file__).parent
ASIDE = ("cli", "render", "testing", "demo.py")  # parts of the package on which no figure depends
PROOFS = PACKAGE / "methods" / "sequences" / "certificate"


@dataclass
class Outcome:
    """What a cell found: figures by name, each with the number of people behind it; data for tables and pictures.

    A figure is a number, or a list of them where the cell goes over the seeds itself.
    """

    figures: dict[str, tuple[float | list[float], int]] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Cell:
    """One measurement.

    name, seed : tell it from others; domain : for --only; seconds : what it takes about, on one thread;
    proofs : whether it depends on the code of certificates.
    """

    name: str
    domain: str
    seconds: float
    run: Callable[[], Outcome]
    seed: int = 0
    proofs: bool = False


class Ledger:
    """Finished cells in `results.jsonl` of a folder; those of other code, settings or devices do not count."""

    def __init__(self, folder: Path, settings: dict[str, Any]):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.file, self.settings = folder, folder / "results.jsonl", settings
        self.lines: dict[tuple[str, int], dict[str, Any]] = {}
        for text in self.file.read_text(encoding="utf-8").splitlines() if self.file.is_file() else ():
            try:
                line = json.loads(text)
            except ValueError:
                continue  # the line that was being written when a run was stopped
            if line["settings"] == settings and line["code"] == fingerprint(line["proofs"]):
                self.lines[line["cell"], line["seed"]] = line

    def has(self, cell: Cell) -> bool:
        return (cell.name, cell.seed) in self.lines

    def do(self, cell: Cell) -> dict[str, Any]:
        """Run a cell and write its line."""
        start = time.perf_counter()
        outcome = cell.run()
        line = {
            "cell": cell.name,
            "seed": cell.seed,
            "domain": cell.domain,
            "seconds": round(time.perf_counter() - start, 3),
            "figures": {name: [_finite(value), people] for name, (value, people) in outcome.figures.items()},
            "data": outcome.data,
            "notes": outcome.notes,
            "settings": self.settings,
            "proofs": cell.proofs,
            "code": fingerprint(cell.proofs),
            "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        }
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.lines[cell.name, cell.seed] = line
        return line

    def of(self, name: str) -> list[dict[str, Any]]:
        """The lines of a cell, by seed."""
        return [line for (cell, _), line in sorted(self.lines.items()) if cell == name]


def gather(lines: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Figures by name: the mean over seeds; with its interval, the least and the largest where there are several."""
    found: dict[str, list[tuple[float | None, int]]] = {}
    for line in lines:
        for name, (value, people) in line["figures"].items():
            for each in value if isinstance(value, list) else [value]:
                found.setdefault(name, []).append((each, people))
    out: dict[str, dict[str, Any]] = {}
    for name, entries in found.items():
        values = [value for value, _ in entries if value is not None]
        mean = _round(float(np.mean(values))) if values else None
        people = int(np.median([people for _, people in entries]))  # of a seed
        out[name] = {"value": mean, "people": people, "seeds": len(values) or len(entries)}  # those that gave a number
        if len(values) > 1:
            low, high = mean_interval(values)
            out[name] |= {"min": _round(min(values)), "max": _round(max(values))}
            out[name] |= {"low": _round(low), "high": _round(high)}  # Student's, of the mean
    return out


def _finite(value: float | list[float]) -> float | list[float | None] | None:
    """As JSON can hold it; None where nothing was to be measured."""
    if isinstance(value, list):
        return [float(each) if np.isfinite(each) else None for each in value]
    return float(value) if np.isfinite(value) else None


def _round(value: float) -> float:
    return float(f"{value:.6g}")


@cache  # of the code as it was when this run began
def fingerprint(proofs: bool) -> str:
    """Of the library's code, as far as figures depend on it."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        local = path.relative_to(PACKAGE)
        if path.suffix not in (".py", ".yaml") or local.parts[0] in ASIDE or (not proofs and PROOFS in path.parents):
            continue
        digest.update(str(local).encode() + path.read_bytes())
    return digest.hexdigest()[:16]
