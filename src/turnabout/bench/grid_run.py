"""Running a grid: cell by cell, in one process or several, from where the last run was stopped."""

from __future__ import annotations

import copy
import os
import platform
import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd

from turnabout.bench.bench_grid import BenchCell, Grid
from turnabout.bench.case import BenchCase
from turnabout.bench.cell_lines import CellLines
from turnabout.bench.cell_measures import broken_proposals, measured
from turnabout.bench.entrants import nothing_done
from turnabout.bench.leader_board import Board
from turnabout.bench.protocols import PROTOCOLS
from turnabout.core import Method, Problem
from turnabout.core.arguments import as_progress
from turnabout.errors import BenchError, TurnaboutError
from turnabout.parameters import Flag, Instance, Whole, checked
from turnabout.provenance import versions
from turnabout.stdout import stdout_for_data
from turnabout.typing import Progress

FILE = "cells.jsonl"
ENDED = "its process ended before it was done; is there enough memory?"
MOST_DIVERSE = 50  # people who are asked for several options
Lines = list[dict[str, Any]]


@dataclass(frozen=True)
class Unit:
    """Cells that share a fitted method, with what all cells of the grid share."""

    cells: tuple[BenchCell, ...]
    settings: dict[str, Any]
    fingerprint: str


@checked(BenchError, grid=Instance(Grid), jobs=Whole(1), retry=Flag())
def run(
    grid: Grid,
    out: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    progress: Progress | bool | None = None,
    retry: bool = False,
) -> Board:
    """Measure what is not measured yet, and make the leader board.

    A method that fails on a cell costs that cell: its line says why, and the board counts it.

    Parameters
    ----------
    out : a folder. Finished cells are kept in its `cells.jsonl`, and a run with the same settings goes on from there.
        Only one run may write to a folder at a time. Without it nothing is kept.
    jobs : processes. With more than one, a script needs `if __name__ == "__main__":` around its call.
    progress : called with (cells done, cells in all); True for a bar on stderr.
    retry : whether cells that failed are measured again.
    """
    kept = CellLines(None if out is None else Path(out) / FILE)
    done = kept.latest(grid.fingerprint)
    cells = list(grid.cells())
    left = [c for c in cells if c.key not in done or (retry and done[c.key]["failed"])]
    shown, finished = as_progress(progress, "comparing"), len(cells) - len(left)
    if shown is not None:
        shown(finished, len(cells))
    for lines in _worked(_units(left, grid), jobs):
        kept.add(lines)
        finished += len(lines)
        if shown is not None:
            shown(finished, len(cells))
    done = kept.latest(grid.fingerprint)
    return Board(tuple(done[cell.key] for cell in cells))


def _units(cells: Iterable[BenchCell], grid: Grid) -> list[Unit]:
    groups: dict[tuple[Any, ...], list[BenchCell]] = {}
    for cell in cells:
        groups.setdefault((cell.data, cell.model, cell.seed, cell.entrant.label), []).append(cell)
    return [Unit(tuple(group), grid.settings, grid.fingerprint) for group in groups.values()]


# -- processes --------------------------------------------------------------------------------------------------------


def _worked(units: list[Unit], jobs: int) -> Iterator[Lines]:
    """The lines of each unit, as they come."""
    if jobs == 1 or len(units) < 2:
        yield from map(work, units)
        return
    lost: list[Unit] = []
    with _pool(min(jobs, len(units))) as pool:
        waiting: dict[Future[Lines], Unit] = {pool.submit(work, unit): unit for unit in units}
        try:
            for future in as_completed(waiting):
                try:
                    yield future.result()
                except BrokenProcessPool:
                    lost.append(waiting[future])
                except Exception as error:  # what a process cannot be sent: a parameter that does not pickle
                    unit = waiting[future]
                    reason = f"{type(error).__name__}: {error}; with jobs=1 nothing needs to be sent."
                    yield [_failed(cell, unit, reason) for cell in unit.cells]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    for unit in lost:  # one of them ended its process, and took the others along: each gets a process of its own
        with _pool(1) as pool:
            try:
                yield pool.submit(work, unit).result()
            except BrokenProcessPool:
                yield [_failed(cell, unit, ENDED) for cell in unit.cells]


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_one_thread)


def _one_thread() -> None:
    """Processes that each use all cores would wait for each other."""
    import torch

    torch.set_num_threads(1)


# -- a cell -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fitted:
    """A method fitted to a case, how long that took, and what its search proposes."""

    method: Method
    seconds: float
    broken: pd.Series


def work(unit: Unit) -> Lines:
    """The lines of some cells that share a fitted method."""
    lines: Lines = []
    fitted: Fitted | None = None
    for cell in unit.cells:
        begin = time.perf_counter()
        try:
            with warnings.catch_warnings(), stdout_for_data():
                warnings.simplefilter("ignore", UserWarning)
                many = (unit.settings["people"], unit.settings["retrained"])
                case = _case(cell.protocol, cell.data, cell.model, cell.seed, *many)
                if cell.entrant.method is not None and fitted is None:
                    problem = with_own_background(case.problem)
                    start = time.perf_counter()
                    method = cell.entrant.method.clone().fit(problem)
                    seconds = time.perf_counter() - start
                    broken = broken_proposals(case, method, cell.seed, unit.settings["time_limit"])
                    fitted = Fitted(method, seconds, broken)
                lines.append(_line(cell, unit) | _measured(cell, case, fitted, unit))
        except (Exception, SystemExit) as error:  # a method of somebody else may raise anything; the other cells go on
            reason = error.message if isinstance(error, TurnaboutError) else str(error)
            lines.append(_failed(cell, unit, f"{type(error).__name__}: {reason}"))
        lines[-1]["cell_seconds"] = round(time.perf_counter() - begin, 3)
    return lines


def with_own_background(problem: Problem) -> Problem:
    """The problem with its own copy of the background: networks are kept for each, and a method shall train its own."""
    copied = copy.copy(problem)
    copied.background_x = None if problem.background_x is None else problem.background_x.clone()
    return copied


@lru_cache(maxsize=1)
def _case(protocol: str, data: str, model: str, seed: int, people: int | None, retrained: int) -> BenchCase:
    return PROTOCOLS[protocol].pose(data, model, seed, people, retrained)


def _measured(cell: BenchCell, case: BenchCase, fitted: Fitted | None, unit: Unit) -> dict[str, Any]:
    limit, options = unit.settings["time_limit"], unit.settings["options"]
    if fitted is None:
        answer = nothing_done(case.problem, case.people)
        return {"people": len(answer.people), "counts": {}} | measured(case, answer, None, cell.seed)
    method = fitted.method
    start = time.perf_counter()
    answer = method.find(case.people, seed=cell.seed, time_limit=limit, refine=cell.refine)
    seconds = time.perf_counter() - start
    several = None
    if options > 1:
        some = case.people.iloc[:MOST_DIVERSE]
        several = method.find(some, options=options, seed=cell.seed, time_limit=limit, refine=cell.refine)
    found = {"people": len(answer.people), "counts": {name: n for name, n in answer.counts().items() if n}}
    found |= measured(case, answer, several, cell.seed, fitted.broken)
    found["seconds"] = round(fitted.seconds + seconds, 4)
    found["people_per_second"] = round(len(answer.people) / seconds, 2)
    return found


def _line(cell: BenchCell, unit: Unit) -> dict[str, Any]:
    return {
        "protocol": cell.protocol,
        "data": cell.data,
        "model": cell.model,
        "method": cell.entrant.label,
        "refine": cell.refine,
        "seed": cell.seed,
        "settings": unit.settings,
        "fingerprint": unit.fingerprint,
        "versions": versions(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "failed": "",
        "values": {},
        "wholes": {},
    }


def _failed(cell: BenchCell, unit: Unit, reason: str) -> dict[str, Any]:
    return _line(cell, unit) | {"failed": reason[:500]}
