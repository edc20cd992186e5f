"""A column that is carried along as it is: dates, identifiers, free text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from turnabout.errors import SchemaError
from turnabout.schema.features import Scalar
from turnabout.schema.raw_cells import same_cells
from turnabout.typing import Moves


@dataclass(frozen=True)
class Passthrough(Scalar):
    """A column of which nothing is read: whatever a cell holds, it stays as it is, and the model is asked about it.

    For dates and times, identifiers, branches and other codes that grow with time. It never changes, so it has one
    encoded column that is always 0. People with different cells are searched apart where the model looks at the column.
    """

    kind: ClassVar[str] = "passthrough"
    name: str
    label: str = ""
    moves: Moves = "fixed"
    missing: bool = False

    def __post_init__(self) -> None:
        self._check_common()
        if self.moves != "fixed" or self.missing:
            raise SchemaError(
                f"the passthrough '{self.name}' has moves={self.moves!r} and missing={self.missing!r}.",
                hint="leave both out: it never changes, and may hold anything, a missing value too.",
            )

    @property
    def bottom(self) -> float:
        return 0.0

    @property
    def span(self) -> float:
        return 1.0

    @property
    def unit_step(self) -> float:
        return 1.0

    @property
    def places(self) -> int:
        return 0

    def read(self, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((len(column), 1)), np.zeros(len(column), dtype=bool)

    def _read_present(self, column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        return self.read(column)

    def _complaint(self, cell: object, row: object) -> SchemaError:
        raise AssertionError("a passthrough reads everything")

    def _decode_present(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), None, dtype=object)

    def breaches(self, own: pd.Series, new: pd.Series) -> np.ndarray:
        return ~same_cells(own, new)
