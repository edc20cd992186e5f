"""Reading: a table of people as a schema reads it, with the cells that could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from turnabout.errors import SchemaError
from turnabout.schema.passthrough import Passthrough
from turnabout.typing import Tensor

if TYPE_CHECKING:
    from turnabout.schema.schema import Schema


@dataclass(frozen=True)
class Reading:
    """A table as a schema reads it."""

    schema: Schema
    table: pd.DataFrame  # the schema's columns, as given
    x: Tensor  # (n, d), zeros for a cell that could not be read
    unreadable: np.ndarray  # (n, F) True for a cell that is no value of its feature

    @cached_property
    def odd(self) -> np.ndarray:
        """(n, F) True where a fixed cell says more than x does: it could not be read, or its feature reads nothing."""
        fixed = np.array([f.moves == "fixed" for f in self.schema.features])
        passed = np.array([isinstance(f, Passthrough) for f in self.schema.features])
        return self.unreadable & fixed | passed

    @cached_property
    def lost(self) -> np.ndarray:
        """(n,) True for rows with an unreadable cell that a plan may change: nothing can be said of them."""
        movable = np.array([f.moves != "fixed" for f in self.schema.features])
        return (self.unreadable & movable).any(1)

    def readable(self, table: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
        """Some rows of the table that was read; columns without the unreadable cells of others get back their type."""
        if len(rows) == len(table):
            return table
        spoilt = [f.name for f, bad in zip(self.schema.features, self.unreadable.T, strict=True) if bad.any()]
        kept = table.iloc[rows]
        return kept.assign(**{name: kept[name].infer_objects() for name in spoilt})

    def complaint(self, row: int) -> SchemaError:
        """What is wrong with the first unreadable cell of a row; those that a plan may change come first."""
        bad = np.flatnonzero(self.unreadable[row])
        feature = self.schema.features[min(bad, key=lambda f: self.schema.features[f].moves == "fixed")]
        return feature.complaint(self.table[feature.name], row)
