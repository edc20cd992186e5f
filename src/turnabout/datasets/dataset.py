"""Dataset: people, how they were judged, and what they may change."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from turnabout.errors import DataError
from turnabout.parameters import Share, Whole, checked
from turnabout.schema import Schema


@dataclass(frozen=True, eq=False)
class Dataset:
    """People with a known outcome, and the reviewed schema of their columns.

    Parameters
    ----------
    name : the name it was loaded by.
    people : one row per person, exactly the columns of the schema, in the units a person would use.
    accepted : True where the outcome is the favourable one; same index as people.
    schema : what values each column has and which way it may move.
    about : origin, licence, how it was cleaned, known defects.
    protected : columns by which people must not be disadvantaged; for audits.
    """

    name: str
    people: pd.DataFrame
    accepted: pd.Series
    schema: Schema
    about: str
    protected: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.people)

    def __repr__(self) -> str:
        share = f"{self.accepted.mean():.1%}" if len(self) else "none"
        return f"Dataset({self.name!r}: {len(self):,} people, {len(self.schema)} features, {share} accepted)"

    @property
    def groups(self) -> pd.DataFrame:
        """The protected columns."""
        return self.people[list(self.protected)]

    @checked(DataError, test=Share(above=0, below=1), seed=Whole(0))
    def split(self, test: float = 0.25, seed: int = 0) -> tuple[Dataset, Dataset]:
        """(train, test): disjoint, the accepted share kept in both, rows in their old order under their old index."""
        generator = np.random.default_rng(seed)
        held_out = np.zeros(len(self), dtype=bool)
        accepted = self.accepted.to_numpy(dtype=bool)
        for outcome in (False, True):
            rows = np.flatnonzero(accepted == outcome)
            held_out[generator.permutation(rows)[: round(test * len(rows))]] = True
        return self._part(~held_out), self._part(held_out)

    def _part(self, rows: np.ndarray) -> Dataset:
        return replace(self, people=self.people[rows].copy(), accepted=self.accepted[rows].copy())
