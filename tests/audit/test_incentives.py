"""What a model pays people for, on a model whose rewards are known."""

from __future__ import annotations

import pandas as pd
import pytest

import turnabout as ta
from turnabout.errors import AuditError

SCHEMA = ta.Schema(
    (
        ta.Number("income", low=0, high=100, step=1, moves="up"),
        ta.Number("arrears", low=0, high=10, step=1),
        ta.Number("hours", low=0, high=50, step=1),
        ta.Ordinal("education", levels=("none", "school", "degree"), moves="up"),
    )
)


def people():
    return pd.DataFrame(
        {
            "income": [0, 40, 60, 80],
            "arrears": [0, 5, 10, 2],
            "hours": [10, 20, 30, 40],
            "education": ["none", "school", "degree", "school"],
        }
    )


def pays_for_less(table):
    """A yes for incomes below 50, or from 75 on; arrears help a little; education as it should."""
    odd = (table["income"] < 50) | (table["income"] >= 75)
    lift = 0.001 * table["arrears"] + 0.01 * (table["education"] == "degree")
    return 0.4 + 0.2 * odd + lift


def test_wrong_ways_are_counted():
    model = ta.models.wrap(pays_for_less, SCHEMA)
    seen = ta.audit.incentives(ta.Problem(SCHEMA, model), people())
    by_name = {c.feature: c for c in seen.columns}
    assert set(by_name) == {"income", "arrears", "education"}  # nothing says which way hours are good
    income = by_name["income"]  # who has 0 cannot go lower; of 40, 60 and 80 only 60 gains by less
    assert (income.paid.hits, income.paid.n) == (1, 3)
    assert (income.turned.hits, income.turned.n) == (1, 1)
    arrears = by_name["arrears"]
    assert arrears.because == "its name speaks of debts or arrears"
    assert (arrears.paid.hits, arrears.paid.n) == (3, 3)  # who has 10 cannot have more
    assert by_name["education"].paid.hits == 0
    assert "pays 100 % of people to raise arrears" in str(seen)
    assert list(seen.table()["feature"]) == ["arrears", "income", "education"]
    assert seen.to_dict()["people"] == 4


def test_a_monotone_model_pays_nobody():
    model = ta.models.wrap(lambda t: t["income"] / 100, SCHEMA)
    seen = ta.audit.incentives(ta.Problem(SCHEMA, model), people())
    assert "none is rewarded the wrong way" in str(seen)


def test_without_people_there_is_nothing_to_say():
    model = ta.models.wrap(pays_for_less, SCHEMA)
    with pytest.raises(AuditError, match="no people to look at"):
        ta.audit.incentives(ta.Problem(SCHEMA, model))
