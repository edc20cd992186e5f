"""The people of a simulation in rounds: where they stand, what they were promised, and what they did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from turnabout.audit.aligned import first_options
from turnabout.audit.risk.accepting import Accept, accepting
from turnabout.core import Recourse

Oracle: TypeAlias = Callable[[pd.DataFrame, np.ndarray], np.ndarray]
"""Rows (m), and the places (m,) of the people who have them -> P(good) (m,)."""


@dataclass(eq=False)
class Promise:
    """The options of one round, and who honors them later."""

    made: int
    rows: pd.DataFrame  # as printed, of who was offered one, in the people's order
    offered: np.ndarray  # (n,)
    cost: np.ndarray  # (n,) NaN where there is none
    margin: np.ndarray  # (n,)
    kept: dict[int, np.ndarray] = field(default_factory=dict)
    """By state: (n,) whether its model says yes to the promised row; False where there is none."""

    @classmethod
    def of(cls, made: int, answer: Recourse, index: pd.Index) -> Promise:
        """The first option of everyone who has one."""
        first = first_options(answer)
        place = index.get_indexer(first.index)
        first, place = first.iloc[np.argsort(place)], np.sort(place)
        offered = np.zeros(len(index), dtype=bool)
        cost, margin = np.full((2, len(index)), np.nan)
        offered[place] = True
        cost[place], margin[place] = first["cost"], first["margin"]
        return cls(made, first[answer.features], offered, cost, margin)

    def spread(self, yes: np.ndarray) -> np.ndarray:
        """Answers about the rows, as (n,) about everyone."""
        out = np.zeros(len(self.offered), dtype=bool)
        out[self.offered] = yes
        return out


class Crowd:
    """People who apply in every round, as they stand after some of them.

    Random numbers belong to a person's place and to the round: what others do does not change what they draw.

    Attributes
    ----------
    table, y : their rows and labels now.
    trained, judged : (n,) whom models are trained on, and over whom shares are taken.
    moved_in, holds : (n,) round of their last move, and of the last promise that they have not taken up; -1 for none.
    """

    def __init__(self, table: pd.DataFrame, y: np.ndarray, held_out: float, seed: int):
        n = len(table)
        self.table, self.y, self.seed = table, y.copy(), seed
        self.trained = np.random.default_rng(seed).permutation(n) >= round(held_out * n)
        self.judged = ~self.trained if held_out > 0 else np.ones(n, dtype=bool)
        self.moved_in, self.holds = np.full((2, n), -1)
        self._moves: list[pd.DataFrame] = []

    def only_class(self) -> bool | None:
        """The label of all people to train on, or None where there are both."""
        good = self.y[self.trained]
        return bool(good[0]) if (good == good[0]).all() else None

    def respond(self, promise: Promise, accept: Accept, compliance: float, oracle: Oracle) -> tuple[int, int]:
        """Some take their option up, and some of them improve by it; how many of each."""
        n = len(self.table)
        takes, complies, draws = np.random.default_rng([self.seed, promise.made]).random((3, n))
        moves = promise.offered & (takes < accepting(accept, promise.cost, None, self.table.index))
        real = moves & (complies < compliance)
        self.holds[promise.offered] = promise.made
        self.holds[moves] = -1
        self.moved_in[moves] = promise.made
        rows = promise.rows[moves[promise.offered]]
        if real.any():
            chance = oracle(promise.rows[real[promise.offered]], np.flatnonzero(real))
            self.y[real] = draws[real] < chance
        self.table = put_rows(self.table, np.flatnonzero(moves), rows)
        notes = {"cost": promise.cost, "margin": promise.margin, "is_compliant": real, "is_good": self.y}
        self._moves.append(
            rows.assign(**{name: values[moves] for name, values in notes.items()}).set_axis(
                pd.MultiIndex.from_product([[promise.made], rows.index], names=["round", "person"])
            )
        )
        return int(moves.sum()), int(real.sum())

    def moves(self) -> pd.DataFrame:
        """Every move so far; see Rounds.moves."""
        made = [part for part in self._moves if len(part)]
        if made:
            return pd.concat(made)
        index = pd.MultiIndex.from_tuples([], names=["round", "person"])
        columns = [*self.table.columns, "cost", "margin", "is_compliant", "is_good"]
        return pd.DataFrame(columns=columns, index=index)


def put_rows(table: pd.DataFrame, place: np.ndarray, rows: pd.DataFrame) -> pd.DataFrame:
    """The table with some rows replaced; a column keeps its type where that holds the new values."""
    columns = {}
    for name in table.columns:
        cells = table[name].astype(object).to_numpy(copy=True)
        cells[place] = rows[name].astype(object).to_numpy()
        loose = pd.Series(cells, index=table.index, dtype=object)
        columns[name] = loose.astype(table[name].dtype) if _holds(table[name].dtype, loose) else loose.infer_objects()
    return pd.DataFrame(columns, index=table.index)


def _holds(dtype: Any, cells: pd.Series) -> bool:
    """Whether a type can hold the cells as they are."""
    if isinstance(dtype, pd.CategoricalDtype):
        return bool(cells.dropna().isin(dtype.categories).all())
    try:
        kept = cells.astype(dtype)
    except (TypeError, ValueError):
        return False
    return bool(((kept.astype(object) == cells) | (kept.isna() & cells.isna())).all())
