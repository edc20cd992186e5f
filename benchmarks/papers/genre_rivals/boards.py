"""Who is compared, by which protocol, and the figures of a leader board."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ledger import fingerprint

import turnabout as ta
from turnabout.bench.entrants import NOTHING, Entrant, every_method

BARE: dict[str, Any] = {"adapt": False, "sparsity": False, "neighbours": 1}  # the nearest row as it stands
NEAREST = {
    "NNR_labels": {"NearestRow": {**BARE, "pool": "labels"}},
    "NNR_model": {"NearestRow": {**BARE, "pool": "model"}},
    "NNR_both": {"NearestRow": {**BARE, "pool": "both"}},
}
RIVALS = {
    "WACHTER": "Wachter",
    "GS": "GrowingSpheres",
    "DICE": "Dice",
    "ROAR": "Roar",
    "PROBE": "Probe",
    "TAP": "Tap",
    "REVISE": "Revise",
    "CCHVAE": "Cchvae",
    "CRUDS": "Cruds",
    "FACE": "Face",
    "TABSYN_Q": "TabsynQ",
    "TABSYN_SVDD": "TabsynSvdd",
}
NAMES = {Entrant.of(given).label: name for name, given in {**NEAREST, **RIVALS}.items()} | {NOTHING: "nothing"}
MEASURES = (
    *("score", "over_nothing", "unseen_validity", "unseen_inlier", "rank", "plausible", "neighbour_distance"),
    *("told_apart", "found", "valid", "cost", "changes", "retrained", "diversity"),
)
SMALL_RIVALS = ("ROAR", "PROBE", "CRUDS", "FACE")


def paper_grid(full: bool) -> ta.bench.Grid:
    """The paper's protocol."""
    rivals = [RIVALS[name] for name in (RIVALS if full else SMALL_RIVALS)]
    near = list(NEAREST.values()) if full else [NEAREST["NNR_both"]]
    return ta.bench.Grid(
        data=("adult", "compas", "heloc") if full else "compas",
        methods=[*near, *rivals],
        protocol="paper",
        seeds=5 if full else 1,
        people=200 if full else 20,
        options=1,
        retrained=0,
    )


def strict_grid(full: bool) -> ta.bench.Grid:
    """The strict protocol: all methods, and the nearest row as it stands."""
    rivals = [RIVALS[name] for name in SMALL_RIVALS]
    return ta.bench.Grid(
        data=("adult", "compas", "heloc", "german") if full else "german",
        methods=[*every_method(), NEAREST["NNR_both"]] if full else ["LocalSearch", *rivals],
        protocol="strict",
        seeds=5 if full else 1,
        people=200 if full else 20,
        options=3 if full else 1,
        retrained=3 if full else 1,
    )


def run(grid: ta.bench.Grid, folder: Path) -> ta.bench.Board:
    """The board; a run of the same code that was stopped goes on."""
    out = folder / f"{grid.protocol}-{fingerprint(False)}"
    board = ta.bench.run(grid, out, jobs=os.cpu_count() or 1, progress=True)
    board.write(out)
    return board


def figures(board: ta.bench.Board, folder: str = "") -> dict[str, dict[str, Any]]:
    """By dotted name.

    DATA.NAME.MEASURE is of what the method's own search reached, DATA.NAME.refined.MEASURE of what `find` answers,
    walked back towards the person. `violations` are, of the own search, shares of people for whom a proposal breaks a
    limit before anything is mended; refined, shares of the printed rows.
    """
    out: dict[str, dict[str, Any]] = {}
    for row in board.table.to_dict("records"):
        if row["method"] == "real people" or not row["people"]:
            continue
        name = NAMES.get(row["method"], row["method"].removesuffix("()"))
        stem = f"{folder}{row['data']}.{name}{'.refined' if row['refined'] == 'yes' else ''}"
        counted = {"people": round(row["people"] / row["seeds"]), "seeds": int(row["seeds"])}  # people of a seed
        named = {measure: measure for measure in MEASURES}
        named["violations"] = "violations" if row["refined"] == "yes" else "broken_proposals"
        for measure, column in named.items():
            if np.isfinite(row[column]):
                ends = {"value": row[column], "low": row[f"{column}_low"], "high": row[f"{column}_high"]}
                out[f"{stem}.{measure}"] = {k: _round(v) for k, v in ends.items() if np.isfinite(v)} | counted
    out |= {f"{folder}{name}": entry for name, entry in _possible(board)}
    return out


def _possible(board: ta.bench.Board) -> Iterator[tuple[str, dict[str, Any]]]:
    """Of each data set, the share of people for whom `LocalSearch` has no proof that nothing helps."""
    proved: dict[str, list[tuple[int, int]]] = {}
    for line in board.lines:
        if line["method"] == "LocalSearch()" and line["refine"] and not line["failed"]:
            proved.setdefault(line["data"], []).append((line["counts"].get("IMPOSSIBLE", 0), line["people"]))
    for data, pairs in proved.items():
        impossible, people = (sum(part) for part in zip(*pairs))
        yield (
            f"{data}.possible",
            {"value": 1 - impossible / people, "people": round(people / len(pairs)), "seeds": len(pairs)},
        )


def _round(value: float) -> float:
    return float(f"{value:.6g}")
