"""What follows from other columns may only go one way: searches, proofs and the judge keep to it."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout import Derived, Number, Schema
from turnabout.errors import MethodError, SchemaError
from turnabout.rules.derived_directions import DerivedDirections

HOUSE = (
    Number("loan", low=10, high=100, step=10),
    Number("value", low=50, high=200, step=10),
    Derived("ltv", "loan / value", high=2, decimals=2, moves="down"),
)
OWN = pd.DataFrame({"loan": [80], "value": [100], "ltv": [0.8]})


def problem(schema, accepts):
    """Cheap houses are what this model wants."""
    return ta.Problem(schema, ta.models.wrap(accepts, schema))


def cheap(table):
    return (table["value"] <= 70).astype(float)


def test_a_cheaper_house_needs_a_smaller_loan():
    schema = Schema(HOUSE)
    free = Schema((*HOUSE[:2], Derived("ltv", "loan / value", high=2, decimals=2)))
    wrong = ta.methods.LocalSearch().fit(problem(free, cheap)).find(OWN)
    assert wrong.options.ltv.iloc[0] > 0.8
    for method in (ta.methods.LocalSearch(), ta.methods.LocalSearch(exhaustive=0), ta.methods.GrowingSpheres()):
        answer = method.fit(problem(schema, cheap)).find(OWN, options=2)
        assert len(answer.options)
        assert (answer.options.ltv <= 0.8).all()
        assert (answer.options.loan < 80).all()


def test_proofs_know_it():
    """No loan is small enough: the loan is fixed, so that a cheaper house always makes the share rise."""
    schema = Schema((Number("loan", low=10, high=100, step=10, moves="fixed"), *HOUSE[1:]))
    answer = ta.methods.LocalSearch().fit(problem(schema, cheap)).find(OWN)
    assert answer.status.iloc[0] is ta.Status.IMPOSSIBLE
    assert not problem(schema, cheap).schema.breaches(OWN, OWN).any()


def test_the_judge_reads_the_printed_row():
    schema = Schema(HOUSE)
    rows = OWN.assign(value=[70], ltv=[1.14])
    assert schema.breaches(OWN, rows)[0].tolist() == [False, False, True]
    assert not schema.breaches(OWN, OWN.assign(value=[160], ltv=[0.5])).any()


def test_by_hand():
    schema = Schema(HOUSE)
    rule = DerivedDirections().bind(schema)
    x = schema.encode(OWN)
    rows = schema.encode(pd.DataFrame({"loan": [80, 50, 80, 90], "value": [70, 70, 160, 160], "ltv": 0.8}))
    gap = rule.violation(x, rows)
    assert gap.tolist() == pytest.approx([(1.14 - 0.8) / 2, 0, 0, 0])
    for repaired in (rule.relax(x, rows), rule.snap(x, rows)):
        assert (rule.violation(x, repaired) == 0).all()
        assert torch.equal(repaired[1:], rows[1:])
    assert "ltv does not rise" in str(rule)


def test_own_shares_that_do_not_fit_are_left_alone():
    """Where nothing changes that it follows from, it does not move, whatever the person's own cell says."""
    schema = Schema((*HOUSE, Number("years", low=0, high=10, step=1)))
    own = OWN.assign(ltv=[0.1], years=[1])
    answer = ta.methods.LocalSearch().fit(problem(schema, lambda t: (t["years"] >= 5).astype(float))).find(own)
    assert answer.options[["ltv", "years"]].to_numpy().tolist() == [[0.1, 5]]


def test_a_missing_parent_moves_nothing():
    schema = Schema((HOUSE[0], Number("value", low=50, high=200, step=10, missing=True), HOUSE[2]))
    own = OWN.assign(value=[np.nan])
    answer = ta.methods.LocalSearch().fit(problem(schema, lambda t: (t["loan"] >= 90).astype(float))).find(own)
    assert answer.options[["loan", "ltv"]].to_numpy().tolist() == [[90, 0.8]]


def test_declared_in_files_and_words():
    schema = Schema(HOUSE)
    assert Schema.from_yaml(schema.to_yaml()) == schema
    assert "moves: down" in schema.to_yaml()
    assert schema["ltv"].moves == "fixed"
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(resources.files("turnabout.schema").joinpath("schema.schema.json").read_text())
    jsonschema.validate(schema.to_dict(), document)
    assert schema.summary().set_index("feature").loc["ltv", "values"] == "loan / value, may only fall"
    with pytest.raises(SchemaError, match="'free'"):
        Derived("ltv", "loan / value", moves="free")


def test_limits_of_what_follows_are_refused():
    method = ta.methods.LocalSearch().fit(problem(Schema(HOUSE), cheap))
    for limit in ("fixed", (None, 0.5), {"difficulty": 2}):
        with pytest.raises(MethodError, match="'ltv', which follows from loan, value"):
            method.find(OWN, limits={0: {"ltv": limit}})


def test_a_draft_knows_the_direction_by_name_and_data():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"loan": rng.integers(10, 100, 400), "value": rng.integers(50, 200, 400)})
    table["ltv"] = (table.loan / table.value).round(3)
    table["room"] = table.value - table.loan
    schema = Schema.infer(table, labels=table.room > table.room.median())
    assert {f.name: f.direction for f in schema if isinstance(f, Derived)} == {"ltv": "down", "room": "up"}
    assert any("it may only fall" in note for note in schema.notes if note.startswith("ltv"))


@pytest.mark.parametrize(
    "rule",
    [
        ta.rules.AtMost(1),
        ta.rules.Box({"loan": 50}),
        ta.rules.Budget(1.0, weights={"loan": 0.01}),
        ta.rules.Ball(1.0, {"loan": 100}),
        ta.rules.Polytope([[{"loan": -1.0}, 0.0]]),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_what_follows_is_no_change_to_rules_that_count_changes(rule):
    schema = Schema((*HOUSE, Derived("hundredths", "100 * ltv", high=200, step=1)))
    model = ta.models.wrap(lambda table: (table["loan"] <= 50).astype(float), schema)
    method = ta.methods.LocalSearch().fit(ta.Problem(schema, model, rules=[rule]))
    answer = method.find(OWN.assign(hundredths=[80]))
    assert answer.options[["loan", "ltv", "hundredths"]].to_numpy().tolist() == [[50, 0.5, 50]]
