"""What rows break, by hand: one row for each limit, and rows that break none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.errors import MethodError
from turnabout.metrics import broken_limits
from turnabout.rules import AtMost

SCHEMA = ta.Schema(
    (
        ta.Number("income", 0, 10, step=1),
        ta.Number("age", 0, 100, step=1, moves="fixed"),
        ta.Number("debt", 0, 4, step=1, moves="down"),
        ta.Ordinal("school", ("none", "some", "full"), moves="up"),
        ta.Binary("owner", ("no", "yes"), missing=True),
        ta.Category("job", ("a", "b", "c")),
    )
)
PERSON = pd.DataFrame({"income": [3], "age": [30], "debt": [2], "school": ["some"], "owner": ["no"], "job": ["a"]})
AT = {f.name: columns.start for f, columns in zip(SCHEMA, SCHEMA.slices)}


def question(rules=()):
    return ta.Problem(SCHEMA, ta.models.wrap(lambda table: table["income"] / 10, SCHEMA, threshold=0.5), rules=rules)


def broken(changes, rules=(), person=PERSON):
    """The limits that one row breaks; changes by encoded column."""
    x = SCHEMA.encode(person)
    x_new = x.clone()
    for column, value in changes.items():
        x_new[0, column] = value
    found = broken_limits(question(rules), x, x_new)
    return set(found.columns[found.iloc[0]])


def test_each_limit_by_hand():
    assert broken({}) == set()
    assert broken({AT["income"]: 0.8, AT["debt"]: 0.0, AT["school"]: 1.0, AT["owner"]: 1.0}) == set()
    assert broken({AT["age"]: 0.31}) == {"fixed"}
    assert broken({AT["debt"]: 0.75}) == {"direction"}
    assert broken({AT["school"]: 0.0}) == {"direction"}
    assert broken({AT["income"]: 1.1}) == {"range"}
    assert broken({AT["debt"]: -0.25}) == {"range"}
    assert broken({AT["owner"]: 0.4}) == {"one_of_k"}
    assert broken({AT["owner"] + 1: 1.0}) == {"fixed"}  # nobody makes a cell missing
    assert broken({AT["job"]: 0.5, AT["job"] + 1: 0.5}) == {"one_of_k"}
    assert broken({AT["job"] + 1: 1.0}) == {"one_of_k"}  # two levels
    assert broken({AT["job"]: 0.0}) == {"one_of_k"}  # none
    assert broken({AT["job"]: 0.0, AT["job"] + 2: 1.0}) == set()
    assert broken({AT["income"]: 0.55}) == {"off_grid"}
    assert broken({AT["income"]: 0.8, AT["debt"]: 0.0}, rules=(AtMost(1),)) == {"rules"}
    assert broken({AT["age"]: 0.31, AT["income"]: 1.1, AT["job"]: 0.0}) == {"fixed", "range", "one_of_k"}


def test_a_missing_cell_stays_missing():
    gap = PERSON.assign(owner=[None])
    assert broken({}, person=gap) == set()
    assert broken({AT["owner"] + 1: 0.0, AT["owner"]: 1.0}, person=gap) == {"fixed"}


def test_what_a_person_can_reach_is_a_range():
    near = ta.Schema((ta.Number("income", 0, 10, step=1, reach=ta.schema.Reach(absolute=2)),))
    problem = ta.Problem(near, ta.models.wrap(lambda table: table["income"] / 10, near, threshold=0.5))
    x = near.encode(pd.DataFrame({"income": [3.0, 3.0]}))
    assert broken_limits(problem, x, x + torch.tensor([[0.2], [0.3]], dtype=x.dtype))["range"].tolist() == [False, True]


def test_found_options_break_nothing():
    people = pd.concat([PERSON] * 6, ignore_index=True).assign(income=np.arange(6) % 4, debt=np.arange(6) % 5)
    problem = question()
    method = ta.methods.LocalSearch().fit(problem)
    options = method.find(people).options
    x, x_new = (
        SCHEMA.encode(table[list(SCHEMA.names)]) for table in (people.loc[options.index.get_level_values(0)], options)
    )
    assert len(options) == 6 and not broken_limits(problem, x, x_new).any(axis=None)


def test_proposals_are_what_the_search_reached():
    method = ta.methods.NearestRow(rows=5)
    with pytest.raises(MethodError, match="call fit"):
        method.propose(SCHEMA.encode(PERSON))
    background = pd.concat([PERSON] * 4, ignore_index=True).assign(income=[6, 7, 8, 2], age=[40, 50, 60, 70])
    problem = ta.Problem(SCHEMA, question().model, background=background)
    x = SCHEMA.encode(PERSON)
    rows = method.fit(problem).propose(x).x_new[0]
    rows = rows[torch.isfinite(rows).all(1)]
    assert SCHEMA.decode(rows)["income"].tolist() == [7]  # P(yes) of 0.7, what is fixed theirs; not walked back to 5


def test_who_stands_outside_may_stay_or_move_inside():
    schema = ta.Schema((ta.Number("income", 0, 10, step=1),))
    problem = ta.Problem(schema, ta.models.wrap(lambda table: table["income"] / 10, schema))
    x = schema.encode(pd.DataFrame({"income": [14.0, 14.0, 14.0]}))
    x_new = schema.encode(pd.DataFrame({"income": [14.0, 12.0, 9.0]}))
    assert broken_limits(problem, x, x_new)["range"].tolist() == [False, True, False]


def test_consequences_may_leave_their_bounds():
    schema = ta.Schema((ta.Number("income", 0, 10, step=1, moves="up"), ta.Number("savings", 0, 10, step=1)))
    rule = ta.rules.StructuralEquations([ta.rules.Equation("savings", coefficients={"income": 2.0})], acts=["income"])
    model = ta.models.wrap(lambda table: table["savings"] / 30, schema, threshold=0.5)
    problem = ta.Problem(schema, model, rules=rule)
    people = pd.DataFrame({"income": [1.0, 2.0], "savings": [3.0, 3.0]})
    options = ta.methods.LocalSearch().fit(problem).find(people).options
    assert (options["savings"] > 10).all()
    x, x_new = schema.encode(people), problem.schema.read(options).x
    assert not broken_limits(problem, x, x_new).any(axis=None)


def test_cells_that_are_no_number_are_told():
    x = SCHEMA.encode(PERSON)
    x_new = x.clone()
    x_new[0, 0] = np.nan
    assert broken_limits(question(), x, x_new)["range"].tolist() == [True]


def test_single_precision_is_read_as_such():
    x = SCHEMA.encode(PERSON.assign(income=7, age=33))
    assert not broken_limits(question(), x, x.float()).any(axis=None)
