"""The leader board: what finished cells say of each method, with bootstrap intervals and ranks."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from turnabout.bench.cell_measures import MEASURES, BoardMeasure
from turnabout.bench.entrants import NOTHING
from turnabout.intervals import clopper_pearson, mean_interval

DRAWS = 1000
BAR = "\\|"  # in a cell of Markdown
REAL = "real people"
REFINED = {True: "yes", False: "no"}
PLACE = ("protocol", "data", "model")
SHARES = (
    "unseen_validity",
    "unseen_inlier",
    "plausible",
    "found",
    "valid",
    "violations",
    "broken_proposals",
    "retrained",
)
DEFINED = ("found", "valid", "violations", "cost", "changes")
"""Measures that are 0 for doing nothing, whatever the people: they have no interval."""
RANK = BoardMeasure("rank", "rank", 1)
Line = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Board:
    """Methods beside each other, and beside doing nothing and real people.

    For each method on each data set and model, a measure is the mean over seeds of its mean over people. Intervals
    hold 95 %: seeds are drawn with replacement, and within each its people; the same draws for all methods, so that
    ranks, and how much a score is above that of doing nothing, have intervals too. With few seeds they are too short. A
    rank is the place by score among all rows of a seed, averaged over the seeds in which anybody has a score; whoever
    failed is last. Where a share is 0 or 1 for everybody, its interval is the exact one. Measures of a whole answer
    have the interval of their cell, or, of several seeds, Student's within the scale; times have none.

    lines : finished cells, as their file holds them.
    """

    lines: tuple[Line, ...] = field(repr=False)

    def __repr__(self) -> str:
        return f"Board({len(self.lines)} cells, {len(self.failures)} failed)"

    @property
    def failures(self) -> dict[str, str]:
        """Why cells failed, by cell: "german/net, Wachter(), refined, seed 0"."""
        return {_named_cell(line): str(line["failed"]) for line in self.lines if line["failed"]}

    @property
    def nothing_measured(self) -> bool:
        """Whether every cell of a method failed."""
        return all(line["failed"] for line in self.lines if line["method"] != NOTHING)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One line per data set, model, method and way, the best rank first: numbers, with `..._low` and `..._high`."""
        cases: dict[tuple[str, ...], list[Line]] = {}
        for line in self.lines:
            cases.setdefault(tuple(line[name] for name in PLACE), []).append(line)
        rows = [row for place, lines in cases.items() for row in _rows(dict(zip(PLACE, place)), lines)]
        head = [*PLACE, "method", "refined", "seeds", "people", "failed"]
        ends = [f"{m.name}{end}" for m in (RANK, *MEASURES) for end in ("", "_low", "_high")]
        return pd.DataFrame(rows, columns=[*head, *ends])

    def shown(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """Two tables of texts ("0.95 [0.90, 0.99]") for each data set and model, with their titles."""
        for place, part in self.table.groupby(list(PLACE), sort=False):
            protocol, data, model = place
            seeds, people = int(part["seeds"].max()), int(part["people"].max())
            counted = f"{people} people, {seeds} {'seed' if seeds == 1 else 'seeds'}"
            for about in dict.fromkeys(m.table for m in MEASURES):
                out = pd.DataFrame({"method": part["method"], "refined": part["refined"]})
                for m in (RANK, *(m for m in MEASURES if m.table == about)):
                    if part[m.name].notna().any():
                        ends = (part[m.name], part[f"{m.name}_low"], part[f"{m.name}_high"])
                        out[m.title] = [_cell(*three, m.digits) for three in zip(*ends)]
                told = (out.iloc[:, 2:] != "-").any(axis=1)
                yield f"{data}, {model}, {protocol} protocol, {counted}: {about}", out[told].reset_index(drop=True)

    def to_markdown(self) -> str:
        """The tables, and what was not measured."""
        parts = []
        for title, table in self.shown():
            lines = [f"## {title}", "", f"| {' | '.join(table.columns)} |", "| --- " * table.shape[1] + "|"]
            lines += [
                f"| {' | '.join(cell.replace('|', BAR) for cell in row)} |" for row in table.itertuples(index=False)
            ]
            parts.append("\n".join(lines))
        if self.failures:
            told = [f"- {line}" for line in self.not_measured()]
            parts.append("\n".join(["Not measured:", "", *told]))
        return "\n\n".join(parts) + "\n"

    def not_measured(self) -> list[str]:
        """Why cells failed, those of one method and reason in one line."""
        cells: dict[tuple[str, str], int] = {}
        for line in self.lines:
            if line["failed"]:
                named = f"{line['data']}/{line['model']}, {line['method']}"
                cells[named, line["failed"]] = cells.get((named, line["failed"]), 0) + 1
        return [
            f"{named} ({count} {'cell' if count == 1 else 'cells'}): {why}" for (named, why), count in cells.items()
        ]

    def to_csv(self) -> str:
        """The table with all its numbers."""
        return str(self.table.to_csv(index=False, float_format="%.6g"))

    def write(self, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
        """board.csv and board.md in a folder."""
        csv, page = Path(folder, "board.csv"), Path(folder, "board.md")
        Path(folder).mkdir(parents=True, exist_ok=True)
        csv.write_text(self.to_csv(), encoding="utf-8")
        page.write_text(self.to_markdown(), encoding="utf-8")
        return csv, page


def _rows(place: dict[str, str], lines: list[Line]) -> list[dict[str, Any]]:
    """The rows of one case."""
    ways: dict[tuple[str, bool], dict[int, Line]] = {}
    for line in lines:
        ways.setdefault((line["method"], line["refine"]), {})[line["seed"]] = line
    ways = {way: by_seed for way, by_seed in ways.items() if any(not l["failed"] for l in by_seed.values())}
    if not ways:
        return []
    seeds = sorted({line["seed"] for line in lines})
    draws = _Draws(place, lines, seeds)
    nothing = ways.get((NOTHING, False), {})
    rows: list[dict[str, Any]] = []
    for (method, _), by_seed in ways.items():
        done = [by_seed[seed] for seed in seeds if seed in by_seed and not by_seed[seed]["failed"]]
        refined = "" if method == NOTHING else REFINED[done[0]["refine"]]
        row = place | {"method": method, "refined": refined, "seeds": len(done)}
        row |= {"people": sum(l["people"] for l in done), "failed": sum(bool(l["failed"]) for l in by_seed.values())}
        for m in MEASURES:
            value, low, high = _measure(m.name, done, draws, nothing)
            if method == NOTHING and m.name in DEFINED:
                low = high = np.nan
            row |= _named(m.name, value, low, high)
        rows.append(row)
    ranks = draws.ranks([[by_seed.get(seed) for seed in seeds] for by_seed in ways.values()])
    rows = [row | _named("rank", *three) for row, three in zip(rows, ranks)]
    rows.sort(key=lambda row: float(row["rank"]))
    wholes = [line["wholes"] for line in lines if line["method"] == NOTHING]
    last: dict[str, Any] = place | {"method": REAL, "refined": "", "seeds": len(wholes), "people": 0, "failed": 0}
    for name in ("plausible", "told_apart"):
        real = [whole[f"real_{name}"] for whole in wholes if f"real_{name}" in whole]
        last |= _named(name, *_whole(real)) if real else {}
    rows.append(last)
    return rows


class _Draws:
    """The bootstrap of one case: which seeds, and how often each of their people, are in each draw."""

    def __init__(self, place: dict[str, str], lines: list[Line], seeds: list[int]):
        rng = np.random.default_rng(zlib.crc32("/".join(place.values()).encode()))
        count = {l["seed"]: l["people"] for l in lines if not l["failed"]}
        self.seeds = seeds
        self.weight = {s: rng.multinomial(n, np.full(n, 1 / n), DRAWS).astype(float) for s, n in sorted(count.items())}
        self.chosen = rng.integers(0, len(seeds), (DRAWS, len(seeds)))

    def means(self, line: Line, name: str) -> tuple[float, np.ndarray]:
        """Of one cell: the mean over its people who have the measure, and that of each draw."""
        values = np.array(line["values"].get(name, [None] * line["people"]), dtype=float)
        there = np.isfinite(values)
        if not there.any():
            return np.nan, np.full(DRAWS, np.nan)
        weight = self.weight[line["seed"]][:, there]
        with np.errstate(invalid="ignore"):
            return float(values[there].mean()), weight @ values[there] / weight.sum(1)

    def lead(self, line: Line, still: Line) -> tuple[float, np.ndarray]:
        """By how much the score of one cell is above that of another with the same people, and in each draw."""
        (mean, drawn), (level, each) = self.means(line, "score"), self.means(still, "score")
        return mean - level, drawn - each

    def ends(self, drawn: dict[int, np.ndarray]) -> tuple[float, float]:
        """The ends of the interval of a mean over seeds, from the draws of each; some seeds may be absent.

        The seeds are those drawn for everybody; of each draw those count that are there.
        """
        each = np.stack([drawn.get(seed, np.full(DRAWS, np.nan)) for seed in self.seeds], axis=1)
        taken = np.take_along_axis(each, self.chosen, axis=1)
        there = np.isfinite(taken)
        with np.errstate(invalid="ignore"):
            means = np.where(there, taken, 0.0).sum(1) / there.sum(1)
        low, high = np.nanquantile(means, [0.025, 0.975])
        return float(low), float(high)

    def ranks(self, rows: list[list[Line | None]]) -> list[tuple[float, float, float]]:
        """Of each row its rank by score, with its interval; rows hold a line for each seed, or None."""
        score = np.full((len(rows), len(self.seeds)), -np.inf)
        drawn = np.full((DRAWS, len(rows), len(self.seeds)), -np.inf)
        for i, lines in enumerate(rows):
            for j, line in enumerate(lines):
                if line is not None and not line["failed"]:
                    mean, each = self.means(line, "score")
                    score[i, j], drawn[:, i, j] = np.nan_to_num(mean, nan=-np.inf), np.nan_to_num(each, nan=-np.inf)
        posed = np.isfinite(score).any(0)  # seeds in which anybody has a score
        if not posed.any():
            return [(np.nan, np.nan, np.nan)] * len(rows)
        value = _places(score[None, :, posed])[0].mean(1)
        places = np.where(posed, _places(drawn), np.nan)
        ends = [self.ends({seed: row[:, j] for j, seed in enumerate(self.seeds)}) for row in places.swapaxes(0, 1)]
        return [(mean, low, high) for mean, (low, high) in zip(value.tolist(), ends)]


def _places(score: np.ndarray) -> np.ndarray:
    """(b, rows, seeds) scores -> places from 1, the largest first; equal ones share the mean of theirs."""
    ahead = (score[:, None] > score[:, :, None]).sum(2)
    level = (score[:, None] == score[:, :, None]).sum(2)
    return ahead + (level + 1) / 2


def _measure(name: str, done: list[Line], draws: _Draws, nothing: dict[int, Line]) -> tuple[float, float, float]:
    """The mean over seeds, and its interval."""
    if any(name in line["wholes"] for line in done):
        return _whole([line["wholes"][name] for line in done if name in line["wholes"]])
    if any(name in line for line in done):  # times, of which a machine's noise tells more than seeds do
        return float(np.mean([line[name] for line in done if name in line])), np.nan, np.nan
    if name == "over_nothing":
        pairs = [
            (line, nothing[line["seed"]]) for line in done if line["seed"] in nothing and line["method"] != NOTHING
        ]
        found = {line["seed"]: draws.lead(line, still) for line, still in pairs if not still["failed"]}
    else:
        found = {line["seed"]: draws.means(line, name) for line in done}
    found = {seed: each for seed, each in found.items() if np.isfinite(each[0])}
    if not found:
        return np.nan, np.nan, np.nan
    low, high = draws.ends({seed: each for seed, (_, each) in found.items()})
    everybody = [value for line in done for value in line["values"].get(name, ()) if value is not None]
    if name in SHARES and len(set(everybody)) == 1 and everybody[0] in (0.0, 1.0):  # no draw sees beyond these
        low, high = clopper_pearson(int(sum(everybody)), len(everybody))
    return float(np.mean([mean for mean, _ in found.values()])), float(low), float(high)


def _whole(found: list[list[float | None]]) -> tuple[float, float, float]:
    """Of measures with intervals of their own, one for each seed."""
    if len(found) == 1:
        value, low, high = (np.nan if end is None else float(end) for end in found[0])
        return value, low, high
    values = [float(value) for value, *_ in found if value is not None]
    low, high = np.clip(mean_interval(values), 0.0, None if max(values) > 1 else 1.0)  # shares, and gaps of scores
    return float(np.mean(values)), float(low), float(high)


def _named(name: str, value: float, low: float, high: float) -> dict[str, float]:
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _cell(value: float, low: float, high: float, digits: int) -> str:
    if not np.isfinite(value):
        return "-"
    if not (np.isfinite(low) and np.isfinite(high)):
        return f"{value:,.{digits}f}"
    return f"{value:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"


def _named_cell(line: Line) -> str:
    way = "refined" if line["refine"] else "not refined"
    return f"{line['data']}/{line['model']}, {line['method']}, {way}, seed {line['seed']}"
