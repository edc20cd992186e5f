"""What each method does in the plane: people, the model's decision, and where the refused are sent."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from turnabout import metrics
from turnabout.bench.bench_grid import Grid, known_names
from turnabout.bench.case import BenchCase
from turnabout.bench.entrants import Entrant
from turnabout.bench.toy_tables import NAMES, TOYS, pose_toy
from turnabout.core import Recourse
from turnabout.core.arguments import as_progress
from turnabout.documents import Document
from turnabout.errors import BenchError, TurnaboutError
from turnabout.parameters import Flag, Whole, checked
from turnabout.provenance import versions
from turnabout.stdout import stdout_for_data
from turnabout.typing import Progress

MESH = 101  # points along each axis at which the model is asked


@dataclass(frozen=True, eq=False)
class PlanePanel(Document):
    """One method's answers.

    Attributes
    ----------
    method : with its parameters.
    found : share of refused people with an option.
    validity : share of first options that the original model, asked about the printed row, accepts.
    cost : their mean cost, L1 on [0, 1]-scaled features.
    inlier : share of them that the local outlier factor, fitted on accepted people, calls ordinary.
    moves : one line per refused person: person, x1, x2, and new_x1, new_x2 of their first option; NaN without one.
    """

    method: str
    found: float
    validity: float | None
    cost: float | None
    inlier: float | None
    moves: pd.DataFrame = field(repr=False)

    keys = "method found validity cost inlier moves"


@dataclass(frozen=True, eq=False)
class PlanePicture(Document):
    """A data set in the plane, with one panel for each method.

    Attributes
    ----------
    people : those who trained the model and the methods: x1, x2, and whether their outcome was good.
    margins : the model's margin on a mesh; x1 in the columns, x2 in the index.
    refined : whether options were walked back towards the person, as `find` answers; else what the search reached.
    left_out : why methods have no panel.
    """

    data: str
    seed: int
    refined: bool
    people: pd.DataFrame = field(repr=False)
    margins: pd.DataFrame = field(repr=False)
    panels: tuple[PlanePanel, ...]
    left_out: dict[str, str]

    keys = "data seed refined versions panels left_out people mesh"

    @property
    def versions(self) -> dict[str, Any]:
        """What the answers were made with."""
        return dict(versions())

    @property
    def mesh(self) -> dict[str, Any]:
        """The margins as lists: x1, x2, and a row of margins for each x2."""
        rows = [[round(float(m), 4) for m in row] for row in self.margins.to_numpy()]
        return {"x1": [float(v) for v in self.margins.columns], "x2": [float(v) for v in self.margins.index], "m": rows}

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """The data drawn, as JSON: moons.json in a folder."""
        path = Path(folder, f"{self.data}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.to_json(), encoding="utf-8")
        return path


@checked(BenchError, people=Whole(1), seed=Whole(0), refine=Flag())
def pictures(
    data: Sequence[str] | str = tuple(TOYS),
    methods: Sequence[object] | str | None = None,
    people: int = 40,
    seed: int = 0,
    refine: bool = False,
    progress: Progress | bool | None = None,
) -> tuple[PlanePicture, ...]:
    """What methods do on moons and circles, as in figure 2 of GenRe (Garg, Nagalapatti, Sarawagi, 2025).

    A method that does not apply, or fails, has no panel; the picture says why.

    Parameters
    ----------
    data : "moons", "circles" or both.
    methods : as a Grid takes them; all that need no actions when None.
    people : refused people asked about, at most.
    seed : draws the people, the model's weights and the searches.
    refine : walk options back towards the person, as `find` does by default; else draw what each search reached.
    progress : called with (done, total) after each method.
    """
    names = known_names("picture", data, TOYS)
    entrants = cast("tuple[Entrant, ...]", Grid(methods=methods, seeds=[seed]).methods)
    tell = as_progress(progress)
    total = len(names) * len(entrants)
    drawn = []
    for i, name in enumerate(names):
        case = pose_toy(name, people, seed)
        panels, left_out = [], {}
        for j, entrant in enumerate(entrants):
            if tell is not None:
                tell(i * len(entrants) + j, total)
            try:
                panels.append(_panel(case, entrant, seed, refine))
            except Exception as error:  # a method of somebody else may raise anything; the others are drawn
                reason = error.message if isinstance(error, TurnaboutError) else str(error)
                left_out[entrant.label] = f"{type(error).__name__}: {reason}"
        drawn.append(_picture(name, case, seed, refine, panels, left_out))
    if tell is not None:
        tell(total, total)
    return tuple(drawn)


def _picture(
    name: str, case: BenchCase, seed: int, refine: bool, panels: list[PlanePanel], left_out: dict[str, str]
) -> PlanePicture:
    problem = case.problem
    along, up = (np.linspace(f.low, f.high, MESH).round(3) for f in problem.schema)  # type: ignore[attr-defined]
    points = pd.DataFrame({"x1": np.tile(along, MESH), "x2": np.repeat(up, MESH)})
    margins = pd.DataFrame(problem.judge(problem.schema.table(points)).reshape(MESH, MESH), index=up, columns=along)
    trained = cast("pd.DataFrame", problem.background)[list(NAMES)]
    people = trained.assign(good=np.asarray(problem.labels, dtype=bool))
    return PlanePicture(name, seed, refine, people, margins, tuple(panels), left_out)


def _panel(case: BenchCase, entrant: Entrant, seed: int, refine: bool) -> PlanePanel:
    if entrant.method is None:
        raise BenchError("doing nothing moves nobody.", hint="name a method.")
    with warnings.catch_warnings(), stdout_for_data():
        warnings.simplefilter("ignore", UserWarning)
        answer = entrant.method.clone().fit(case.problem).find(case.people, seed=seed, refine=refine)
        shares = metrics.measure(answer, case.problem).set_index("metric")["value"]
    validity, cost, inlier = (_plain(shares.get(name)) for name in ("validity", "cost", "inlier"))
    return PlanePanel(entrant.label, float(shares["found"]), validity, cost, inlier, _moves(answer))


def _moves(answer: Recourse) -> pd.DataFrame:
    """Each person's row beside that of their first option."""
    names = list(NAMES)
    options = answer.options
    first = options[options.index.get_level_values("option") == 0].droplevel("option")
    new = first[names].reindex(answer.people.index).add_prefix("new_").astype(float)
    return answer.people[names].join(new).rename_axis("person").reset_index()


def _plain(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(f"{float(value):.6g}")
