"""Texts that hold amounts in an order, and texts with digits that do not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from turnabout import Category, Ordinal, Schema
from turnabout.schema.text_bands import in_order


@pytest.mark.parametrize(
    "low_to_high",
    [
        ["below 20K", "20K - 40K", "40K - 60K", "60K or more"],
        ["20 - 40K", "40 - 60K", "60 - 100K", "> 100K"],
        ["< 1 year", "1 year", "2 years", "10+ years"],
        ["0%", "10%", "30%"],
        ["0,5 %", "1,5 %", "2 %"],
        ["under $1,000", "$1,000 to $4,999", "$5,000 and more"],
        ["unter 1 Jahr", "1 bis 4 Jahre", "über 4 Jahre"],
        ["moins de 3 ans", "3 - 5 ans", "plus de 5 ans"],
        ["1-2", "3-5", "6-10"],
        ["5.875%", "6%", "6.25%"],
        ["$99.00", "$1,234.56", "$12,000.00"],
        ["99 €", "1.234,56 €", "2.000,00 €"],
        ["2,500 $", "10,000 $", "1,000,000 $"],
        ["≤ 500", "500 - 999", "≥ 1000"],
    ],
)
def test_amounts_stand_in_their_order(low_to_high):
    mixed = sorted(low_to_high)
    assert in_order(mixed) == in_order(mixed[::-1]) == tuple(low_to_high)


@pytest.mark.parametrize(
    "levels",
    [
        ["A11", "A12", "A13"],  # codes
        ["type 1", "type 2", "type 3"],  # kinds
        ["10001", "10002", "10003"],  # places
        ["own", "rent", "free"],
        ["below 100", "100 - 500", "no account"],  # one is no amount
        ["1 year", "2 months", "3 days"],  # units differ
        ["0 - 10", "5 - 20", "20 - 30"],  # overlap
        ["< 1", "1 - 2"],  # two have no need of an order
        ["1 2 3", "2 3 4", "3 4 5"],
        ["5 - 1", "6 - 2", "7 - 3"],
        ["> 1 and < 2", "2", "3"],
        [1, 2, 3],
        ["v1.2.3", "v1.2.4", "v1.2.5"],
        ["31.12.2019", "01.02.2020", "05.06.2021"],
        ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
        ["-10 %", "-5 %", "0 %"],  # signs are not read
        ["6 m", "12 m", "2 y", "5 y"],  # m is a month here
        ["6 m", "12 m", "2 years"],
        ["1/2 year", "1 year", "2 years"],
        ["0-1 yrs", "2-3 yrs", "-1"],
        ["08:00 - 12:00", "12:00 - 18:00", "18:00 - 24:00"],
        ["1.234,5.6 €", "2 €", "3 €"],
    ],
)
def test_other_texts_have_none(levels):
    assert in_order(levels) is None


def test_a_draft_takes_bands_in_their_order_one_step_at_a_time():
    rng = np.random.default_rng(0)
    bands = np.array(["< 20K", "20K - 40K", "40K - 80K", "> 80K"])
    place = rng.integers(0, 4, 900)
    table = pd.DataFrame({"income": bands[place], "code": rng.choice(["A1", "A2", "A3"], 900)})
    schema = Schema.infer(table, labels=place + rng.normal(0, 1, 900) > 1.5)
    income = schema["income"]
    assert isinstance(income, Ordinal) and income.levels == tuple(bands) and income.moves == "up"
    assert income.reach is not None and income.reach.steps == 1
    assert isinstance(schema["code"], Category)
    assert any(note.startswith("income: texts that hold amounts") for note in schema.notes)
    assert isinstance(Schema.infer(table, categorical=["income"])["income"], Category)
