"""Tokens of cells: which values they stand for, what people may take, soft labels by hand, rows written back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout.nn.cell_tokens import KEEP, CellTokens, half_gaps, scalar_values

SCHEMA = ta.Schema(
    (
        ta.Number("income", 0, 100, step=1),
        ta.Number("debt", 0, 10, step=1, moves="down"),
        ta.Number("age", 0, 100, step=1, moves="fixed"),
        ta.Ordinal("school", ("none", "some", "full"), moves="up"),
        ta.Binary("owner", ("no", "yes"), missing=True),
        ta.Category("job", ("a", "b", "c"), missing=True),
        ta.Category("home", ("x", "y"), moves="fixed"),
    )
)
INCOME, DEBT, AGE, SCHOOL, OWNER, JOB, HOME = range(7)


def people(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": np.where(rng.random(rows) < 0.5, 0, rng.integers(1, 101, rows)),
            "debt": rng.integers(0, 4, rows),
            "age": rng.integers(20, 60, rows),
            "school": rng.choice(["none", "some", "full"], rows),
            "owner": rng.choice(np.array(["no", "yes", None], dtype=object), rows),
            "job": rng.choice(np.array(["a", "b", None], dtype=object), rows),
            "home": rng.choice(["x", "y"], rows),
        }
    )


@pytest.fixture(scope="module")
def tokens():
    return CellTokens(SCHEMA, SCHEMA.encode(people()), bins=10)


def legal_of(tokens, x):
    problem = ta.Problem(SCHEMA, ta.models.wrap(lambda table: table["income"] / 100, SCHEMA))
    return tokens.legal(x, *problem.bounds(x))


def test_few_values_are_tokens_of_their_own(tokens):
    assert tokens.values[DEBT, :4].tolist() == pytest.approx([0, 0.1, 0.2, 0.3])
    assert tokens.there.sum(1).tolist() == [10, 4, 10, 3, 2, 3, 2]
    assert tokens.values[JOB, :3].tolist() == [0, 1, 2]


def test_a_value_of_many_is_an_atom_and_others_share_quantile_bins(tokens):
    income = tokens.values[INCOME]
    assert income[0] == 0 and (income.diff() > 0).all()
    assert ((income * 100 - (income * 100).round()).abs() < 1e-9).all()  # whole numbers
    rest = people()["income"][people()["income"] > 0]
    for place, value in enumerate(income[1:].tolist()):
        assert 100 * value == pytest.approx(rest.quantile((place + 0.5) / 9), abs=4)


def test_values_lie_on_the_steps_that_plans_use():
    coarse = ta.Number("income", 0, 1000, step=1, useful_step=50)
    seen = coarse.positions(torch.tensor([3.0, 49.0, 51.0, 980.0, 1200.0]).double())
    assert coarse.units(scalar_values(coarse, seen, 50)).tolist() == pytest.approx([0, 50, 1000])
    assert len(scalar_values(coarse, seen[:0], 50)) == 0


def test_widths_are_half_the_gaps():
    assert half_gaps(torch.tensor([0.0, 0.2, 0.6]).double()).tolist() == pytest.approx([0.1, 0.15, 0.2])
    assert half_gaps(torch.tensor([0.3]).double()).tolist() == [1.0]


def test_what_people_may_take(tokens):
    person = pd.DataFrame(
        {"income": [0, 7], "debt": [2, 0], "age": [30, 30], "school": ["some", "full"]}
        | {"owner": ["no", None], "job": ["a", None], "home": ["x", "y"]}
    )
    x = SCHEMA.encode(person)
    legal = legal_of(tokens, x)
    assert legal[..., KEEP].all()
    assert tokens.values[DEBT][legal[0, DEBT, 1:]].tolist() == pytest.approx([0, 0.1])  # down alone, not 0.2 itself
    assert not legal[1, DEBT, 1:].any()
    assert not legal[:, [AGE, HOME], 1:].any()  # fixed
    assert tokens.values[SCHOOL][legal[0, SCHOOL, 1:]].tolist() == [1.0] and not legal[1, SCHOOL, 1:].any()
    assert legal[0, OWNER, 1:].tolist()[:2] == [False, True] and not legal[1, OWNER, 1:].any()  # missing stays
    assert legal[0, JOB, 1:].tolist()[:3] == [False, True, True] and not legal[1, JOB, 1:].any()
    assert legal[0, INCOME, 1:].sum() == 9 and legal[1, INCOME, 1:].sum() >= 9  # not the own value


def test_every_legal_token_is_a_legal_row(tokens):
    x = SCHEMA.encode(people(40, 3))
    legal = legal_of(tokens, x)
    person, feature, token = legal.nonzero(as_tuple=True)
    own = x[person]
    taken = torch.zeros(len(person), len(SCHEMA), dtype=torch.long)
    taken[torch.arange(len(person)), feature] = token
    rows = tokens.written(own, taken)
    assert torch.allclose(SCHEMA.snap(own, rows), rows, rtol=0, atol=1e-12)
    assert (SCHEMA.changed(own, rows).sum(1) == (token != KEEP)).all()
    problem = ta.Problem(SCHEMA, ta.models.wrap(lambda table: table["income"] / 100, SCHEMA))
    assert not ta.metrics.broken_limits(problem, own, rows).any(axis=None)


def test_soft_labels_by_hand(tokens):
    own, new = people(1, 5).assign(debt=3, job="a", owner="no"), people(1, 5).assign(debt=1, job="b", owner=None)
    x, x_new = SCHEMA.encode(own), SCHEMA.encode(new)
    soft = tokens.targets(x, x_new, legal_of(tokens, x))[0]
    assert soft.sum(-1).tolist() == pytest.approx([1.0] * 7)
    near = np.exp(-0.5 * (np.array([-0.1, 0.0, 0.1]) / 0.05) ** 2)
    assert soft[DEBT, 1:4].tolist() == pytest.approx(list(near / near.sum()), abs=1e-6)
    assert soft[JOB, 2] == 1 and soft[OWNER, KEEP] == 1  # a value that is missing there is no advice
    assert (soft[[INCOME, AGE, SCHOOL, HOME], KEEP] == 1).all()


def test_what_may_not_be_followed_is_kept(tokens):
    own, new = people(1, 5).assign(debt=1, age=30, school="full"), people(1, 5).assign(debt=3, age=40, school="none")
    x, x_new = SCHEMA.encode(own), SCHEMA.encode(new)
    soft = tokens.targets(x, x_new, legal_of(tokens, x))[0]
    assert (soft[[DEBT, AGE, SCHOOL], KEEP] == 1).all()


def test_tokens_of_rows_that_nobody_has():
    nobody = CellTokens(SCHEMA, SCHEMA.encode(people())[:0], bins=10)
    x = SCHEMA.encode(people(5))
    legal = legal_of(nobody, x)
    assert not legal[:, [INCOME, DEBT, SCHOOL, OWNER], 1:].any()
    assert legal[:, JOB, 1:].any()  # levels are those of the schema
