"""Three options for one refused applicant, under rules, from any function that scores a table.

Run it as `python examples/credit_with_rules.py`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import turnabout as ta

schema = ta.Schema(
    (
        ta.Number("income", low=0, high=120, step=1, unit="kEUR a year"),
        ta.Number("debt", low=0, high=80, decimals=1, unit="kEUR", moves="down"),
        ta.Number("age", low=18, high=90, step=1, unit="years", moves="up"),
        ta.Ordinal("education", levels=("school", "trade", "degree"), moves="up"),
        ta.Category("home", levels=("rent", "own", "family")),
    )
)


def bank(people: pd.DataFrame) -> np.ndarray:
    """P(yes) of a bank that nobody may look into."""
    score = (
        0.05 * people.income - 0.06 * people.debt + 0.5 * (people.education == "degree") + 0.4 * (people.home == "own")
    )
    return 1 / (1 + np.exp(-(score.to_numpy(dtype=float) - 2.0)))


rules = [
    ta.rules.Implies(ta.rules.Rises("education"), ta.rules.Rises("age", by=2)),  # a degree takes two years
    ta.rules.Linear({"debt": 1.0, "income": -0.8}, "<=", 0.0),  # this bank never lends beyond 80 % of an income
    ta.rules.AtMost(3),
]
applicant = pd.DataFrame([{"income": 38, "debt": 21.5, "age": 27, "education": "trade", "home": "rent"}], index=["Ada"])

answer = ta.find(
    bank, applicant, schema=schema, rules=rules, cost=ta.costs.L1(difficulty={"income": 2.0}), threshold=0.6, options=3
)
print(answer.of("Ada").to_string())
print(answer.options[["cost", "margin"]].round(3).to_string())
