"""What people type: taken where the meaning is plain, refused with a hint where it is not."""

from __future__ import annotations

import io
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import turnabout as ta
from turnabout import costs, landing, rules
from turnabout.progress_bar import Bar

SCHEMA = ta.Schema((ta.Number("a", low=0, high=10, step=1), ta.Number("b", low=0, high=10, step=1), ta.Binary("c")))
PEOPLE = pd.DataFrame({"a": [1, 2, 9], "b": [1, 2, 9], "c": [0, 1, 1]})


def bank(table):
    return 1 / (1 + np.exp(-(table.a + table.b - 9.5).to_numpy(dtype=float)))


MODEL = ta.models.wrap(bank, SCHEMA)


def find(**arguments):
    return ta.find(bank, PEOPLE, schema=SCHEMA, **arguments)


# -- plain meanings ------------------------------------------------------------------------------------------------


def test_one_rule_needs_no_list():
    alone, listed = find(rules=rules.AtMost(1)), find(rules=[rules.AtMost(1)])
    assert alone == listed
    assert ta.Problem(SCHEMA, MODEL, rules=None).rules == ()
    assert len(ta.Problem(SCHEMA, MODEL, rules=(r for r in [rules.AtMost(1)])).rules) == 1


@pytest.mark.parametrize(
    ("cost", "meant"),
    [(cost, costs.L1()) for cost in ("L1", "l1", costs.L1, costs.L1())]
    + [(cost, costs.Effort()) for cost in ("Effort", "effort", costs.Effort, costs.Effort(), None)],
)
def test_a_cost_may_be_named(cost, meant):
    assert ta.Problem(SCHEMA, MODEL, cost=cost).declared_cost == meant


@pytest.mark.parametrize("method", ["GrowingSpheres", "growing-spheres", "growing_spheres", ta.methods.GrowingSpheres])
def test_a_method_may_be_named(method):
    assert find(method=method).made_by == "GrowingSpheres()"


@pytest.mark.parametrize("where", [0.6, np.float64(0.6), landing.Probability(0.6)])
def test_a_landing_may_be_a_number(where):
    answer = find(landing=where)
    assert (answer.status[:2] == ta.Status.FOUND).all()
    assert (bank(answer.options) >= 0.6).all()


@pytest.mark.parametrize("where", ["mirror", landing.Mirror, landing.Mirror()])
def test_a_landing_may_be_a_class_or_word(where):
    assert "landing=Mirror" in find(landing=where).made_by


def test_progress_may_be_true(monkeypatch):
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    find(progress=True)
    seen = []
    find(progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3, 3)
    bar = Bar()
    for done in (0, 1, 3):
        bar(done, 3)
    assert bar._bar is None  # gone when all is done


def test_numbers_of_numpy_are_numbers():
    answer = find(options=np.int64(2), seed=np.int32(1), time_limit=np.float32(60), query_limit=np.int64(10_000))
    assert (answer.status[:2] == ta.Status.FOUND).all()


def test_an_action_needs_no_set():
    wait = ta.Action("Save", effect=ta.actions.Shift("a", by="amount"), cost=1)
    assert len(ta.Problem(SCHEMA, MODEL, actions=wait).actions) == 1
    assert len(ta.Problem(SCHEMA, MODEL, actions=[wait]).actions) == 1


def test_a_device_may_be_an_object():
    assert ta.methods.LocalSearch().fit(ta.Problem(SCHEMA, MODEL), device=torch.device("cpu")).device_ == "cpu"


# -- no plain meaning -------------------------------------------------------------------------------------------------

OTHER = ta.Schema((ta.Number("z"),))


def find_more(**arguments):
    return ta.methods.LocalSearch().fit(ta.Problem(SCHEMA, MODEL)).find(PEOPLE, **arguments)


def wrapped_by(**arguments):
    from sklearn.linear_model import LogisticRegression

    return ta.models.wrap(LogisticRegression().fit(PEOPLE, np.arange(len(PEOPLE)) % 2), SCHEMA, **arguments)


BAD = {
    "rules: a class": (lambda: find(rules=rules.AtMost), "rules=AtMost is a class"),
    "rules: a list of classes": (lambda: find(rules=[rules.Linear]), "rules=Linear"),
    "rules: a text": (lambda: find(rules="AtMost(2)"), "is not a Rule"),
    "rules: texts": (lambda: find(rules=["AtMost(2)"]), "is not a Rule"),
    "rules: a number": (lambda: find(rules=2), "rules=2 is not a Rule"),
    "rules: a document": (lambda: find(rules={"rule": "at_most", "k": 2}), "from_dict"),
    "rules: a cost": (lambda: find(rules=[costs.L1()]), "is not a Rule"),
    "rules: a condition": (lambda: find(rules=[rules.Rises("a")]), "is not a Rule"),
    "rules: None in a list": (lambda: find(rules=[None]), "rules=None is not a Rule"),
    "cost: a number": (lambda: find(cost=1.0), "cost=1.0 is not a Cost"),
    "cost: a name": (lambda: find(cost="manhattan"), "cost='manhattan' is not a Cost"),
    "cost: a class": (lambda: find(cost=costs.Weighted), "Weighted is a class"),
    "cost: a rule": (lambda: find(cost=rules.AtMost(1)), "is not a Cost"),
    "cost: a function": (lambda: find(cost=lambda x, y: 0), "is not a Cost"),
    "cost: a mapping": (lambda: find(cost={"a": 2.0}), "is not a Cost"),
    "method: a typing error": (lambda: find(method="Wachtel"), "there is no method 'Wachtel'"),
    "method: a number": (lambda: find(method=3), "method=3 is not a Method"),
    "method: another class": (lambda: find(method=dict), "is not a Method"),
    "method: a problem": (lambda: find(method=ta.Problem(SCHEMA, MODEL)), "is not a Method"),
    "method: abstract": (lambda: find(method=ta.Method), "is not a Method"),
    "method: one that needs actions": (lambda: find(method="ActionSequences"), "needs actions"),
    "progress: a text": (lambda: find(progress="bar"), "progress='bar' cannot be called"),
    "progress: a number": (lambda: find(progress=1), "progress=1 cannot be called"),
    "progress: a class": (lambda: find(progress=dict), "cannot be called"),
    "landing: a text": (lambda: find(landing="moon"), "landing='moon' is not a Landing"),
    "landing: above 1": (lambda: find(landing=1.5), "strictly between 0 and 1"),
    "landing: True": (lambda: find(landing=True), "landing=True is not a Landing"),
    "landing: a list": (lambda: find(landing=[0.7]), "is not a Landing"),
    "landing: abstract": (lambda: find(landing=landing.Landing), "is not a Landing"),
    "landing: eta of another kind": (lambda: find(landing=landing.Probability(0.7, eta="x")), "eta="),
    "landing: eta unwrapped": (lambda: find(landing=landing.Mirror(eta=bank)), "eta="),
    "options: a text": (lambda: find(options="3"), "options='3'"),
    "options: True": (lambda: find(options=True), "options=True"),
    "options: None": (lambda: find(options=None), "options=None"),
    "seed: a text": (lambda: find(seed="0"), "seed='0'"),
    "seed: None": (lambda: find(seed=None), "seed=None"),
    "time_limit: NaN": (lambda: find(time_limit=float("nan")), "time_limit=nan"),
    "time_limit: a text": (lambda: find(time_limit="60"), "time_limit='60'"),
    "time_limit: True": (lambda: find(time_limit=True), "time_limit=True"),
    "query_limit: a float": (lambda: find(query_limit=1.5), "query_limit=1.5"),
    "threshold: a text": (lambda: find(threshold="0.5"), "threshold='0.5'"),
    "threshold: a list": (lambda: find(threshold=[0.5]), "threshold="),
    "target of a function": (lambda: find(target=0), "names a class"),
    "target_range: a number": (lambda: find(target_range=3), "target_range=3"),
    "schema: a mapping": (lambda: ta.find(bank, PEOPLE, schema={"a": 1}), "a Schema, not dict"),
    "schema: a path": (lambda: ta.find(bank, PEOPLE, schema="schema.yaml"), "a Schema, not str"),
    "schema: a class": (lambda: ta.find(bank, PEOPLE, schema=ta.Schema), "a Schema, not the class"),
    "model: None": (lambda: ta.find(None, PEOPLE, schema=SCHEMA), "NoneType is not a model"),
    "model: a text": (lambda: ta.find("model.joblib", PEOPLE, schema=SCHEMA), "str is not a model"),
    "model: of another schema": (lambda: ta.find(MODEL, PEOPLE, schema=OTHER), "another schema"),
    "people: an array": (lambda: ta.find(bank, PEOPLE.to_numpy(), schema=SCHEMA), "not as ndarray"),
    "people: None": (lambda: ta.find(bank, None, schema=SCHEMA), "not as NoneType"),
    "people: a text": (lambda: ta.find(bank, "people.csv", schema=SCHEMA), "not as str"),
    "people: ragged": (lambda: ta.find(bank, {"a": [1], "b": [1, 2], "c": [0]}, schema=SCHEMA), "cannot be read"),
    "people: no columns": (lambda: ta.find(bank, pd.DataFrame(), schema=SCHEMA), "no column 'a'"),
    "background: an array": (lambda: find(background=np.zeros((3, 3))), "not as ndarray"),
    "background: other columns": (lambda: find(background=pd.DataFrame({"z": [1]})), "no column 'a'"),
    "labels: a column's name": (lambda: find(background=PEOPLE, labels="c"), "labels for 3 background rows"),
    "labels: a table": (lambda: find(background=PEOPLE, labels=PEOPLE), "labels for 3 background rows"),
    "actions: a text": (lambda: ta.Problem(SCHEMA, MODEL, actions="wait"), "is not an ActionSet"),
    "actions: of numbers": (lambda: ta.Problem(SCHEMA, MODEL, actions=[1, 2]), "1 is not an Action"),
    "device: no such": (lambda: ta.methods.LocalSearch().fit(ta.Problem(SCHEMA, MODEL), device="gpu"), "device='gpu'"),
    "device: None": (lambda: ta.methods.LocalSearch().fit(ta.Problem(SCHEMA, MODEL), device=3.5), "device=3.5"),
    "fit: a schema": (lambda: ta.methods.LocalSearch().fit(SCHEMA), "fit takes a Problem"),
    "fit: nothing wrapped": (lambda: ta.methods.LocalSearch().fit(bank), "fit takes a Problem"),
    "Schema: None": (lambda: ta.Schema(None), "features"),
    "Schema: a text": (lambda: ta.Schema("abc"), "is not a feature"),
    "Schema: a class": (lambda: ta.Schema([ta.Number]), "is not a feature"),
    "Schema: one feature": (lambda: ta.Schema(ta.Number("a")), "features"),
    "Number: a text": (lambda: ta.Number("a", low="0"), "low='0'"),
    "Number: a list": (lambda: ta.Number("a", moves=["up"]), "moves="),
    "Number: a name": (lambda: ta.Number(3), "non-empty string"),
    "Category: a number": (lambda: ta.Category("c", levels=3), "levels=3"),
    "Category: lists": (lambda: ta.Category("c", levels=[["a"], ["b"]]), r"the level \['a'\]"),
    "infer: a number": (lambda: ta.Schema.infer(PEOPLE, immutable=3), "immutable"),
    "infer: a mapping": (lambda: ta.Schema.infer(PEOPLE, ordinal=["a"]), "ordinal"),
    "infer: no table": (lambda: ta.Schema.infer(3), "not as int"),
    "encode: a number": (lambda: SCHEMA.encode(3), "not as int"),
    "from_json: a number": (lambda: ta.Schema.from_json(3), "not valid JSON"),
    "from_yaml: None": (lambda: ta.Schema.from_yaml(None), "not valid YAML"),
    "options: too many": (lambda: find_more(options=10**30), "ask for 1 or more, 1,000,000 at most"),
    "target: <NA>": (lambda: wrapped_by(target=pd.NA), "target=<NA> is not a class"),
    "target: an array": (lambda: wrapped_by(target=np.arange(3)), "is not a class"),
    "target: a table": (lambda: wrapped_by(target=PEOPLE), "is not a class"),
    "unseen_levels: <NA>": (lambda: wrapped_by(unseen_levels=pd.NA), "is not a choice"),
    "unseen_levels: an array": (lambda: wrapped_by(unseen_levels=np.arange(3)), "is not a choice"),
    "infer: no levels": (lambda: ta.Schema.infer(PEOPLE, ordinal={"a": 3}), "levels of 'a' are 3"),
    "Number: moves <NA>": (lambda: ta.Number("a", moves=pd.NA), "moves=<NA>"),
    "Category: moves an array": (lambda: ta.Category("c", ("x", "y"), moves=np.arange(3)), "moves="),
    "load: nothing": (lambda: ta.Schema.load(None), "path of a file, not NoneType"),
    "load: values": (lambda: ta.Schema.load({"a": 1}), "path of a file, not dict"),
    "load: no file": (lambda: ta.Schema.load("no-such-file.yaml"), "no schema file"),
    "datasets: a number": (lambda: ta.datasets.load(3), "3"),
    "domains: a number": (lambda: ta.studies.domains.load(3), "3"),
    "Recourse: of a list": (lambda: find().of([1]), "no person"),
    "Recourse: steps of nobody": (lambda: find().steps_of("x"), "no plan"),
    "Recourse: from a number": (lambda: ta.Recourse.from_json(3), "not JSON"),
    "Recourse: from a list": (lambda: ta.Recourse.from_dict([1]), "not an answer"),
    "metrics: swapped": (lambda: ta.metrics.measure(ta.Problem(SCHEMA, MODEL), find()), "answer"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_explain_themselves(case):
    call, text = BAD[case]
    with pytest.raises(ta.TurnaboutError, match=text) as caught:
        call()
    assert "Hint:" in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there():
    with pytest.raises(ta.TurnaboutError, match="device='cuda' cannot be used here"):
        ta.methods.LocalSearch().fit(ta.Problem(SCHEMA, MODEL), device="cuda")
