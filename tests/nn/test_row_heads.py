"""The distribution of a row: its likelihood on numbers done by hand, and the rows it calls likeliest."""

from __future__ import annotations

import math

import pytest
import torch

import turnabout as ta
from turnabout.nn.row_heads import FREEDOM, LEAST_SPREAD, ColumnRun, RowHeads, column_runs

SCHEMA = ta.Schema(
    (
        ta.Number("income", 0, 10),
        ta.Category("job", ("none", "part", "full")),
        ta.Binary("owner", levels=("no", "yes")),
        ta.Number("debt", 0, 10, missing=True),
        ta.Binary("sex", levels=("f", "m"), moves="fixed"),
    )
)
FIXED = torch.tensor([False, False, False, False, True])
#         income  job           owner debt  gap  sex
ROWS = [
    [0.2, 1.0, 0.0, 0.0, 1.0, 0.4, 0.0, 1.0],
    [0.6, 0.0, 1.0, 0.0, 0.0, 0.8, 0.0, 0.0],
    [0.4, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0],  # debt is missing
]


def heads(rows=ROWS, schema=SCHEMA, fixed=FIXED) -> RowHeads:
    return RowHeads(schema, torch.tensor(rows), fixed).double()


def table(rows=ROWS) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def everything(x: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(x, dtype=torch.bool)


def student(error: float, spread: float) -> float:
    """log p of a t distribution, from torch's own."""
    return float(torch.distributions.StudentT(FREEDOM, 0.0, spread).log_prob(torch.tensor(error, dtype=torch.float64)))


def test_columns_are_cut_where_they_are_drawn_otherwise():
    assert column_runs(SCHEMA, FIXED.tolist()) == [
        ColumnRun("number", 0, 1),
        ColumnRun("levels", 1, 4),
        ColumnRun("binary", 4, 5),
        ColumnRun("number", 5, 6),
        ColumnRun("binary", 6, 7),
        ColumnRun("kept", 7, 8),
    ]
    two = ta.Schema(
        (ta.Number("a", 0, 1), ta.Number("b", 0, 1), ta.Category("c", ("x", "y")), ta.Category("d", ("x", "y")))
    )
    assert [(run.kind, run.stop) for run in column_runs(two, [False] * 4)] == [
        ("number", 2),
        ("levels", 4),
        ("levels", 6),
    ]
    assert column_runs(two, [True] * 4) == [ColumnRun("kept", 0, 6)]


def test_numbers_are_scaled_by_the_cells_that_hold_a_value():
    made = heads()
    assert made.loc[[0, 5]].tolist() == pytest.approx([0.4, 0.6])  # 0.4 and 0.8, not the 0 of the gap
    assert made.scale[[0, 5]].tolist() == pytest.approx([math.sqrt(0.08 / 3), 0.2])
    z = made.standardise(table())
    assert z[0, 5] == pytest.approx(-1.0) and z[2, 5] == 0.0
    assert z[:, 1:5].tolist() == table()[:, 1:5].tolist()


def test_the_likelihood_of_a_row_by_hand():
    made, x = heads(), table()[:1]
    #                income  job             owner debt  gap
    raw = torch.tensor([[0.5, 0.0, 1.0, -1.0, 0.3, -2.0, -1.5]], dtype=torch.float64)
    spread = LEAST_SPREAD + math.log(2)  # softplus(0)
    income = student(-0.2 / math.sqrt(0.08 / 3) - 0.5, spread)
    job = -math.log(1 + math.e + 1 / math.e)
    owner = -math.log(1 + math.exp(-0.3))
    debt = student(-1.0 + 2.0, spread)
    gap = -math.log(1 + math.exp(-1.5))
    assert made.log_likelihood(raw, x, everything(x)).item() == pytest.approx(
        income + job + owner + debt + gap, abs=1e-6
    )
    some = everything(x)
    some[:, 1:4] = False  # the job is given
    assert made.log_likelihood(raw, x, some).item() == pytest.approx(income + owner + debt + gap, abs=1e-6)


def test_the_value_of_a_missing_cell_counts_for_nothing():
    made, x = heads(), table()[2:]
    raw = torch.zeros(2, 7, dtype=torch.float64)
    raw[1, 5] = 9.0  # another prediction for what is not there
    first, second = made.log_likelihood(raw, x.expand(2, -1), everything(x)).tolist()
    assert first == second
    raw[1, 6] = 9.0  # sure that it is missing
    first, second = made.log_likelihood(raw, x.expand(2, -1), everything(x)).tolist()
    assert second > first


def test_a_value_of_many_people_is_an_atom():
    schema = ta.Schema((ta.Number("gain", 0, 1),))
    rows = [[0.0]] * 12 + [[0.2], [0.4], [0.6]]
    made = heads(rows, schema, torch.tensor([False]))
    assert made.atom.tolist() == [0.0] and made.at_atom.tolist() == [0]
    assert made.loc.tolist() == pytest.approx([0.4])  # of the others
    raw = torch.tensor([[1.0, -0.7], [1.0, 0.7]], dtype=torch.float64)
    x = torch.tensor([[0.0], [0.6]], dtype=torch.float64)
    on, off = made.log_likelihood(raw, x, everything(x)).tolist()
    assert on == pytest.approx(-math.log(1 + math.exp(-0.7)))  # (2) alone
    spread = LEAST_SPREAD + math.log(2)
    scale = math.sqrt(0.08 / 3)
    assert off == pytest.approx(-math.log(1 + math.exp(-0.7)) + student(0.2 / scale - 1, spread), abs=1e-6)
    likeliest = made.likeliest(raw, x)
    assert likeliest[0].tolist() == [0.0] and likeliest[1].tolist() == pytest.approx([0.4 + scale])


def test_no_atom_where_a_column_has_two_values_or_is_constant():
    schema = ta.Schema((ta.Number("a", 0, 1), ta.Number("b", 0, 1)))
    made = heads([[0.0, 0.5], *[[1.0, 0.5]] * 20], schema, torch.tensor([False, False]))
    assert made.atom.tolist() == []
    assert made.loc[1] == 0.5 and made.scale[1] == 1.0


def test_the_gradient_at_an_atom_is_that_of_the_expected_number():
    made = heads([[0.0]] * 12 + [[0.2], [0.4], [0.6]], ta.Schema((ta.Number("gain", 0, 1),)), torch.tensor([False]))
    raw = torch.tensor([[1.0, -0.7]], dtype=torch.float64, requires_grad=True)
    made.likeliest(raw, torch.zeros(1, 1, dtype=torch.float64)).sum().backward()
    off, value = 1 / (1 + math.exp(0.7)), 0.4 + math.sqrt(0.08 / 3)
    assert raw.grad is not None
    assert raw.grad.tolist()[0] == pytest.approx([off * math.sqrt(0.08 / 3), off * (1 - off) * value], abs=1e-6)


def test_likeliest_rows_keep_what_is_fixed_and_add_up_to_one():
    made, x = heads(), table()
    raw = torch.randn(3, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    row = made.likeliest(raw, x)
    assert row.shape == x.shape and row[:, 7].tolist() == x[:, 7].tolist()
    assert torch.allclose(row[:, 1:4].sum(1), torch.ones(3, dtype=torch.float64))
    assert torch.allclose(row[:, 4], raw[:, 4].sigmoid())
    many = made.likeliest(raw.expand(5, 3, -1), x)
    assert torch.equal(many[4], row)


def test_a_table_of_fixed_features_has_no_outputs():
    made = heads(fixed=torch.ones(5, dtype=torch.bool))
    assert made.width == 0
    raw, x = torch.zeros(3, 0, dtype=torch.float64), table()
    assert torch.equal(made.likeliest(raw, x), x)
    assert made.log_likelihood(raw, x, everything(x)).tolist() == [0.0] * 3
