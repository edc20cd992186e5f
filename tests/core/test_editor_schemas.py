"""JSON Schemas for editors: every kind of rule and cost has its entry, good files pass and bad ones do not."""

from __future__ import annotations

import dataclasses
import json
from importlib import resources

import pytest
from jsonschema import Draft202012Validator

from turnabout import costs, rules
from turnabout.core import editor_schema
from turnabout.core.editor_schemas import BESIDE_FEATURES, HOMES
from turnabout.costs import Cost
from turnabout.documents.text import read_yaml
from turnabout.errors import TurnaboutError
from turnabout.rules import Rule
from turnabout.schema import Reach
from turnabout.schema.feature_kinds import KINDS


def ours(kinds):
    """Kinds that the library brings, without those that tests make up."""
    return {name: cls for name, cls in kinds.items() if cls.__module__.startswith("turnabout.")}


def accepts(name, text):
    return Draft202012Validator(editor_schema(name)).is_valid(read_yaml(text, "the example is not valid"))


RULES = {
    "linear": "{rule: linear, coefficients: {debt: 1, home=own: -2}, sense: '>=', bound: 3, name: n, waivable: true}",
    "ordered": "{rule: ordered, lower: minimum, upper: maximum}",
    "implies": "{rule: implies, if: {rises: education, by: 2}, then: {is: home, level: own}}",
    "at_most": "{rule: at_most, k: 3, features: [income, debt]}",
    "known_levels": "{rule: known_levels, avoid: {city: [Ulm, 7]}}",
    "causal": "{rule: causal, equations: [{target: savings, intercept: 1, coefficients: {income: 0.3}, noise_sd: 2, "
    "covariance: [[1, 0], [0, 1]]}], acts: [savings]}",
    "box": "{rule: box, reach: {hours: 9}, name: near}",
    "budget": "{rule: budget, limit: 4, reach: {hours: 9}, weights: {hours: 0.5}}",
    "ball": "{rule: ball, radius: 2, scales: {hours: 12.3}}",
    "polytope": "{rule: polytope, rows: [[{hours: -1, education: -4}, 12]], reach: {hours: 9}}",
}
COSTS = {
    "Effort": "{kind: Effort, difficulty: {age: 5}, per_change: 0.2}",
    "L0": "{kind: L0, difficulty: {age: 5}}",
    "L1": "{kind: L1, difficulty: {age: 5}}",
    "L2": "{kind: L2, difficulty: {age: 5}, squared: true}",
    "MAD": "{kind: MAD, difficulty: {age: 5}}",
    "PercentileShift": "{kind: PercentileShift, difficulty: {age: 5}, reduce: max}",
    "Weighted": "{kind: Weighted, weights: {age: 5}, cost: {kind: L0}}",
    "Sum": "{kind: Sum, terms: [{kind: L1}, {kind: Scaled, factor: 0.1, cost: {kind: L0}}]}",
    "Scaled": "{kind: Scaled, factor: 2, cost: {kind: L1}}",
}


def entries(name, kind):
    """The entry of each kind in a JSON Schema, by the constant that names it."""
    defs = editor_schema(name)["$defs"]
    listed = defs[{"rules": "rule", "schema": "feature"}.get(name, name)]["oneOf"]
    return {entry["properties"][kind]["const"]: entry for entry in listed}


def test_each_kind_has_an_entry_and_an_example_here():
    assert set(entries("rules", "rule")) == set(ours(Rule.KINDS)) == set(RULES)
    assert set(entries("cost", "kind")) == set(ours(Cost.KINDS)) == set(COSTS)
    assert set(entries("schema", "kind")) == {cls.kind for cls in KINDS.values()}


def test_each_entry_knows_every_field():
    """A field that a class takes and no editor knows would be underlined although it is right."""
    for name, entry in entries("cost", "kind").items():
        assert set(entry["properties"]) == {"kind", *(f.name for f in dataclasses.fields(Cost.KINDS[name]))}
    for name, entry in entries("rules", "rule").items():
        read = rules.from_dict(read_yaml(RULES[name], "") | {"waivable": False}).to_dict()
        assert set(entry["properties"]) == {*read, "waivable"} | ({"name"} if name in ("linear", "box") else set())
    for entry in entries("schema", "kind").values():
        cls = next(cls for cls in KINDS.values() if cls.kind == entry["properties"]["kind"]["const"])
        computed = {"useful_step", "least_change", "reach", "provide", "direction"} if cls.kind == "derived" else set()
        always = {"moves", "missing"} if cls.kind == "passthrough" else set()
        assert set(entry["properties"]) == {"kind", *(f.name for f in dataclasses.fields(cls))} - computed - always
    assert set(editor_schema()["$defs"]["reach"]["properties"]) == {f.name for f in dataclasses.fields(Reach)}


@pytest.mark.parametrize("kind", RULES)
def test_rules_that_are_read_pass(kind):
    rule = rules.from_dict(read_yaml(RULES[kind], ""))
    assert accepts("rules", f"[{RULES[kind]}]") and accepts("rules", RULES[kind])
    assert accepts("rules", json.dumps({"rules": [rule.to_dict()]}))


@pytest.mark.parametrize("kind", COSTS)
def test_costs_that_are_read_pass(kind):
    cost = costs.from_dict(read_yaml(COSTS[kind], ""))
    assert accepts("cost", COSTS[kind]) and accepts("cost", json.dumps(cost.to_dict()))


@pytest.mark.parametrize(
    "text",
    [
        "{rule: at_least, k: 3}",
        "{rule: at_most}",
        "{rule: at_most, k: -1}",
        "{rule: at_most, k: 1.5}",
        "{rule: at_most, k: 3, most: 2}",
        "{rule: at_most, k: 3, waivable: maybe}",
        "{rule: linear, coefficients: {}}",
        "{rule: linear, coefficients: {debt: much}}",
        "{rule: linear, coefficients: {debt: 1}, sense: '<'}",
        "{rule: ordered, lower: a}",
        "{rule: implies, if: {rises: a}, then: {changes: b}}",
        "{rule: implies, if: {rises: a, by: 0}, then: {falls: b}}",
        "{rule: implies, if: {is: a}, then: {falls: b}, by: 2}",
        "{rule: causal, equations: [{intercept: 2}]}",
        "{rule: box, reach: {hours: -1}}",
        "{rule: ball, radius: 1, scales: {hours: 0}}",
        "{rule: polytope, rows: [[{hours: 1}]]}",
        "{rule: polytope, rows: [[{hours: 1}, -2]]}",
    ],
)
def test_bad_rules_fail_in_an_editor_and_when_read(text):
    assert not accepts("rules", f"[{text}]")
    with pytest.raises(TurnaboutError):
        rules.from_dict(read_yaml(text, ""))


@pytest.mark.parametrize(
    "text",
    [
        "{kind: L9}",
        "{difficulty: {age: 1}}",
        "{kind: L1, difficulty: {age: -1}}",
        "{kind: L1, weights: {age: 1}}",
        "{kind: L2, squared: often}",
        "{kind: PercentileShift, reduce: mean}",
        "{kind: Effort, per_change: -1}",
        "{kind: Sum, terms: []}",
        "{kind: Scaled, factor: -1, cost: {kind: L1}}",
        "{kind: Scaled, factor: 1}",
        "{kind: Weighted, weights: {age: 1}, cost: {kind: L9}}",
    ],
)
def test_bad_costs_fail_in_an_editor_and_when_read(text):
    assert not accepts("cost", text)
    with pytest.raises(TurnaboutError):
        costs.from_dict(read_yaml(text, ""))


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("Ada: {job: fixed, income: [null, 60000], home: [own, rent]}", True),
        ('"017": {debt: {low: 0, high: 500, difficulty: 2}, job: {fixed: true}, home: {levels: [own]}}', True),
        ("Ada: fixed", False),
        ("Ada: {job: free}", False),
        ("Ada: {debt: {least: 0}}", False),
        ("Ada: {debt: {difficulty: -1}}", False),
        ("[Ada]", False),
    ],
)
def test_limits(text, good):
    assert accepts("limits", text) is good


def test_a_schema_file_may_say_everything():
    features = "features: [{kind: number, name: age}]\n"
    told = f"rules: [{RULES['box']}]\ncost: {COSTS['Sum']}\nlimits: {{Ada: {{age: fixed}}}}\n"
    assert accepts("schema", features) and accepts("schema", features + told)
    assert not accepts("schema", told)
    for wrong in ("rules: [{rule: box, most: 2}]", "cost: {kind: L9}", "limits: {Ada: 3}", "rule: []"):
        assert not accepts("schema", features + wrong)


@pytest.mark.parametrize("name", HOMES)
def test_each_is_a_json_schema_that_stands_on_its_own(name):
    document = editor_schema(name)
    Draft202012Validator.check_schema(document)
    for reference in json.dumps(document).split('"$ref": "')[1:]:
        place = reference.split('"')[0]
        assert place.startswith("#/$defs/") and place.removeprefix("#/$defs/") in document["$defs"]


def test_no_two_parts_share_a_name():
    alone = json.loads(resources.files("turnabout.schema").joinpath("schema.schema.json").read_text("utf-8"))
    parts = [set(alone["$defs"]), *(set(editor_schema(name)["$defs"]) for name in BESIDE_FEATURES)]
    assert len(set().union(*parts)) == sum(map(len, parts)) == len(editor_schema()["$defs"])


def test_what_has_no_json_schema():
    with pytest.raises(TurnaboutError, match="no JSON Schema of 'actions' files"):
        editor_schema("actions")
