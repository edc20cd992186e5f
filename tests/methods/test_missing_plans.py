"""Plans of actions for people with missing cells, however a missing cell is written."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from turnabout.actions import ActionSet
from turnabout.methods import ActionSequences
from turnabout.render import write_plan
from turnabout.schema import Number, Schema

SCHEMA = Schema((Number("a", 0, 4, step=1), Number("b", 0, 4, step=1, missing=True)))


def decide(table: pd.DataFrame) -> np.ndarray:
    b = table["b"].astype("Float64").to_numpy(dtype=float, na_value=0.0)
    return 1 / (1 + np.exp(-(table["a"].to_numpy(dtype=float) + b - 2.5)))


@pytest.mark.parametrize(
    ("gap", "dtype"), [(None, "object"), (pd.NA, "object"), (np.nan, "object"), (pd.NA, "Float64"), (np.nan, "float64")]
)
def test_plans_are_made_around_missing_cells_of_every_kind(gap, dtype) -> None:
    people = pd.DataFrame({"a": [1.0, 1.0], "b": pd.Series([gap, 1.0], dtype=dtype)})
    problem = ta.Problem(SCHEMA, ta.models.wrap(decide, SCHEMA), actions=ActionSet.draft(SCHEMA))
    answer = ActionSequences.small().fit(problem).find(people)
    assert [status.value for status in answer.status] == ["FOUND", "FOUND"]
    assert answer.options["b"].isna().tolist() == [True, False]
    assert "accepted" in write_plan(answer, 0)
    assert ta.Recourse.from_json(answer.to_json()) == answer
