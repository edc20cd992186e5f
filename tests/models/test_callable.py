"""Functions from a table to P(yes)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout.errors import ModelError
from turnabout.models import wrap


def share(table: pd.DataFrame) -> pd.Series:
    return table["a"] / 10


def test_a_function_is_asked(numbers, numbers_schema):
    model = wrap(share, numbers_schema, 0.3)
    assert np.array_equal(model.judge(numbers) >= 0, numbers.a / 10 >= 0.3)
    assert model.scale == "probability"
    assert not model.compiled
    assert model.capabilities == ()
    assert repr(model) == "Model(function share; judged only; yes when P(yes) >= 0.3)"
    x = numbers_schema.encode(numbers)
    assert np.allclose(model.margin(x).numpy(), model.judge(numbers), atol=1e-6)
    assert model.margin(x[:6].reshape(3, 2, 3)).shape == (3, 2)
    assert model.judge(numbers.iloc[:0]).shape == (0,)


@pytest.mark.parametrize(
    "function",
    [
        lambda t: share(t).tolist(),
        lambda t: share(t).to_numpy()[:, None],
        lambda t: torch.tensor(share(t).to_numpy(), requires_grad=True),
    ],
    ids=["list", "column", "tensor"],
)
def test_answers_of_many_makes(function, numbers, numbers_schema):
    assert np.array_equal(wrap(function, numbers_schema).judge(numbers), wrap(share, numbers_schema).judge(numbers))


def test_labels_will_do(numbers, numbers_schema):
    model = wrap(lambda t: t["a"] > 5, numbers_schema)
    assert set(model.judge(numbers)) == {-0.5, 0.5}


def test_a_function_of_an_amount(numbers, numbers_schema):
    model = wrap(lambda t: 100 * t["a"], numbers_schema, target_range=(200, 600))
    assert np.allclose(model.judge(numbers), np.minimum(100 * numbers.a - 200, 600 - 100 * numbers.a))
    assert model.scale == "target"


def test_functions_get_fresh_tables(numbers, numbers_schema):
    def spoil(table):
        p = share(table)
        table["a"] = 0.0
        return p

    before = numbers.copy()
    wrap(spoil, numbers_schema).judge(numbers)
    pd.testing.assert_frame_equal(numbers, before)


def test_misbehaving_functions(numbers, numbers_schema):
    def fail(table):
        raise KeyError("income")

    with pytest.raises(ModelError, match="raised KeyError") as caught:
        wrap(fail, numbers_schema).judge(numbers)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ModelError, match=r"shape \(150, 2\) for 150 rows(.|\n)*column \[:, 1\]"):
        wrap(lambda t: np.zeros((len(t), 2)), numbers_schema).judge(numbers)
    with pytest.raises(ModelError, match=r"returned 1\.5 for row 'x', not a probability"):
        wrap(lambda t: np.array([0.5, 1.5]), numbers_schema).judge(numbers.iloc[:2].set_axis(["w", "x"]))
    nan = wrap(lambda t: np.where(t["a"] > 5, np.nan, 0.7), numbers_schema).judge(numbers)
    assert np.array_equal(np.isnan(nan), numbers.a > 5)


def test_what_is_no_model(numbers_schema):
    with pytest.raises(ModelError, match="int is not a model"):
        wrap(3, numbers_schema)
    with pytest.raises(ModelError, match="second argument of wrap is a Schema"):
        wrap(share, None)
    with pytest.raises(ModelError, match="names a class, but a function has none"):
        wrap(share, numbers_schema, target="good")
    with pytest.raises(ModelError, match="exclude each other"):
        wrap(share, numbers_schema, 0.5, target_range=(0, 1))
    with pytest.raises(ModelError, match="for torch modules only"):
        wrap(share, numbers_schema, output="logit")
