"""What a reader would question and what the model pays for, as parts of the page of an audit."""

from __future__ import annotations

import pytest

from turnabout.render.audit_advice import incentive_blocks, review_blocks

MODEL = {"features": [{"name": "income", "title": "Net <income>", "moves": "up"}]}
CONCERN = {"kind": "tiny", "feature": "income", "count": 3, "of": 40, "says": "income from 1 to 2", "mend": "income: x"}
PAID = {"value": 0.25, "low": 0.2, "high": 0.3, "n": 80}
NOBODY = {"value": None, "low": None, "high": None, "n": 0}
COLUMN = {"feature": "income", "good": "up", "because": "as the schema says", "paid": PAID, "turned": NOBODY}


def reviewed(*concerns, options=40):
    return " ".join(review_blocks({"model": MODEL, "review": {"concerns": concerns, "people": 20, "options": options}}))


def paid_for(*columns):
    return " ".join(incentive_blocks({"model": MODEL, "incentives": {"columns": columns, "people": 80}}))


def test_concerns_are_told_in_plain_words():
    told = reviewed(CONCERN, CONCERN | {"kind": "new", "feature": "", "mend": "income: x"})
    assert "40 options of 20 people were read" in told
    assert "Changes too small to be worth making, Net &lt;income&gt; (3 of 40): income from 1 to 2." in told
    assert "new (3 of 40)" in told and told.count("income: x") == 1
    assert "nothing to question" in reviewed()
    assert "nothing to read" in reviewed(options=0)


@pytest.mark.parametrize(("value", "said"), [(0.25, "For 1 of them"), (0.0, "Nobody is rewarded"), (None, "Nobody is")])
def test_wrong_rewards_are_counted(value, said):
    told = paid_for(COLUMN | {"paid": PAID | {"value": value}})
    assert "1 column has a good direction" in told and said in told
    assert "Net &lt;income&gt;" in told and "unknown (nobody to count)" in told
    assert "2 columns have a good direction" in paid_for(COLUMN, COLUMN)
    assert "No column has a direction" in paid_for()
