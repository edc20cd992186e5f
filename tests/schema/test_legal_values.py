"""The values beside a person's own, against a list made by hand."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from turnabout.schema import Binary, Category, Number, Ordinal, Schema
from turnabout.schema.legal_values import first_beyond, grid_ends, others_of, value_at

FEATURES = (
    Number("free", 0, 2, step=0.5),
    Number("up", 0, 2, step=0.5, moves="up"),
    Number("fixed", 0, 2, step=0.5, moves="fixed"),
    Ordinal("grade", ("low", "middle", "high")),
    Binary("member"),
    Category("town", ("a", "b", "c")),
)
SCHEMA = Schema(FEATURES)
PEOPLE = pd.DataFrame(
    {
        "free": [0.5, 0.7],  # one off the grid
        "up": [1.5, 2.0],
        "fixed": [1.0, 1.0],
        "grade": ["middle", "high"],
        "member": [0, 1],
        "town": ["b", "c"],
    }
)
OTHERS = {  # from the lowest; levels from the person's own on
    "free": [[0, 1, 1.5, 2], [0, 0.5, 1, 1.5, 2]],
    "up": [[2], []],
    "fixed": [[], []],
    "grade": [["low", "high"], ["low", "middle"]],
    "member": [[1], [0]],
    "town": [["c", "a"], ["a", "b"]],
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_by_hand(name):
    f, x = SCHEMA.index(name), SCHEMA.encode(PEOPLE)
    feature = SCHEMA.features[f]
    others = others_of(feature, SCHEMA.slices[f], x)
    assert others.others.tolist() == [len(values) for values in OTHERS[name]]
    assert torch.equal(others.count.sum(1), others.others)
    for person, values in enumerate(OTHERS[name]):
        rank = torch.arange(len(values), dtype=torch.float64)
        encoded = others.values(torch.full((len(values),), person), rank)
        assert feature.decode(encoded.numpy()).tolist() == values
        part = others.take(torch.tensor([person]))
        assert torch.equal(part.values(torch.zeros(len(values), dtype=torch.long), rank), encoded)


def test_first_value_beyond_a_cut():
    feature = FEATURES[0]  # encoded values 0, 1/4, 1/2, 3/4, 1
    assert grid_ends(feature) == (0, 4)
    cuts = torch.tensor([0.1, 0.25, 0.3, 0.99], dtype=torch.float64)
    assert value_at(feature, first_beyond(feature, cuts)).tolist() == [0.25, 0.5, 0.5, 1.0]
