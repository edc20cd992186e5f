"""A comparison whose numbers are done by hand: incomes from 0 to 10, a yes from 5 on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

import turnabout as ta
from turnabout.bench import BenchCase
from turnabout.bench.protocols import Protocol
from turnabout.bench.unseen_score import UnseenScore

SCHEMA = ta.Schema((ta.Number("income", 0, 10, step=1), ta.Number("age", 0, 100, step=1, moves="fixed")))


def from_income(least):
    """A model that says yes from an income on."""
    return ta.models.wrap(lambda table: (table["income"] >= least).to_numpy(float), SCHEMA)


@dataclass
class Forest:
    """Outcomes are good from an income on."""

    least: float

    def predict_proba(self, table):
        good = (table["income"] >= self.least).to_numpy(float)
        return np.column_stack([1 - good, good])


class Lending(Protocol):
    """Two people, with incomes 1 and 3; retrained models ask for 5 and for 6, the unseen forest for 6 on seed 0."""

    name = "lending"
    about = "by hand"
    posed = 0

    def pose(self, data, model, seed, people, retrained):
        type(self).posed += 1
        background = pd.DataFrame({"income": np.arange(11.0), "age": np.arange(11.0) + 20})
        problem = ta.Problem(SCHEMA, from_income(5), ta.costs.L1(), background=background)
        asked = pd.DataFrame({"income": [1.0, 3.0], "age": [30.0, 40.0]}, index=["Ada", "Bo"])
        real = pd.DataFrame({"income": np.linspace(5, 10, 6), "age": np.full(6, 33.0)})
        score = UnseenScore(problem, Forest(6 - seed), None)
        return BenchCase("by/hand", problem, asked, real, (score,), (from_income(5), from_income(6))[:retrained])
