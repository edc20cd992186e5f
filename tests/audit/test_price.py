"""The price of landing, by hand."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import turnabout as ta
from turnabout.audit.risk.price import price_of_landing

SCHEMA = ta.Schema((ta.Number("score", 0, 1, step=0.01),))


def test_price_by_hand():
    # P(yes) is the score itself, so landing at 0.8 instead of 0.5 costs everyone 0.3 more
    model = ta.models.wrap(lambda table: table["score"].to_numpy(dtype=float), SCHEMA)
    people = pd.DataFrame({"score": [0.1, 0.3, 0.45, 0.9]})
    method = ta.methods.LocalSearch().fit(ta.Problem(SCHEMA, model, ta.costs.L1()))
    plain, landed = method.find(people), method.find(people, landing=ta.landing.Probability(0.8))
    price = price_of_landing(plain, landed)
    assert price.extra.value == pytest.approx(0.3, abs=0.011) and price.extra.n == 3
    assert price.plain.value == pytest.approx(np.mean([0.4, 0.2, 0.05]), abs=0.011)
    assert price.ratio == pytest.approx(price.landed.value / price.plain.value)
    assert (price.lost.hits, price.lost.n) == (0, 3)
    assert json.loads(json.dumps(price.to_dict()))["lost"]["n"] == 3
    assert "times" in str(price)


def test_other_people_are_refused():
    model = ta.models.wrap(lambda table: table["score"].to_numpy(dtype=float), SCHEMA)
    method = ta.methods.LocalSearch().fit(ta.Problem(SCHEMA, model, ta.costs.L1()))
    one, two = (method.find(pd.DataFrame({"score": [0.1] * n})) for n in (1, 2))
    with pytest.raises(ta.TurnaboutError, match="different people"):
        price_of_landing(one, two)
    other = method.find(pd.DataFrame({"score": [0.1, 0.2]}))  # the same labels of the index
    with pytest.raises(ta.TurnaboutError, match="different people"):
        price_of_landing(two, other)
