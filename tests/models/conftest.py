"""A small mixed table with missing cells, shared by the tests of this room."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from turnabout.schema import Binary, Category, Number, Ordinal, Schema


@pytest.fixture(scope="session")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 240
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "income": np.where(rng.random(n) < 0.1, np.nan, np.round(rng.gamma(2, 1500, n), 2)),
            "housing": rng.choice(["own", "rent", "free"], n),
            "school": rng.choice(["low", "mid", "high"], n),
            "phone": rng.choice(["no", "yes"], n),
        }
    )
    table.loc[rng.random(n) < 0.1, "housing"] = np.nan
    return table


@pytest.fixture(scope="session")
def accepted(people: pd.DataFrame) -> pd.Series:
    noise = np.random.default_rng(1).normal(0, 0.5, len(people))
    score = people.age / 40 + people.income.fillna(2000) / 3000 + (people.housing == "own") + (people.school == "high")
    return (score + noise > 2.8).astype(int)


@pytest.fixture(scope="session")
def schema() -> Schema:
    return Schema(
        (
            Number("age", low=18, high=80, step=1),
            Number("income", low=0, high=20_000, missing=True),
            Category("housing", levels=("own", "rent", "free"), missing=True),
            Ordinal("school", levels=("low", "mid", "high")),
            Binary("phone", levels=("no", "yes")),
        )
    )


@pytest.fixture(scope="session")
def numbers_schema() -> Schema:
    return Schema((Number("a", low=0, high=10), Number("b", low=-1, high=1), Binary("c")))


@pytest.fixture(scope="session")
def numbers() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    return pd.DataFrame({"a": rng.random(150) * 10, "b": rng.random(150) * 2 - 1, "c": rng.integers(0, 2, 150)})
