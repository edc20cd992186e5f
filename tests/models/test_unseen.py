"""Levels that the schema lists and training did not have are recommended to nobody."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

import turnabout as ta
from turnabout import methods
from turnabout.core import Problem
from turnabout.errors import MethodError, ModelError
from turnabout.models import wrap
from turnabout.rules.known_levels import KnownLevels
from turnabout.schema import Category, Number, Ordinal, Schema

JOBS = ["none", "part", "full"]
SCHEMA = Schema([Category("job", [*JOBS, "own"]), Number("income", 0, 100, step=1)])


def people(n=200, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"job": rng.choice(JOBS, n), "income": rng.integers(0, 100, n)})
    return table, (table["income"] + 30 * (table["job"] == "full") > 80).to_numpy(dtype=int)


def fitted(encoder, final=None):
    table, yes = people()
    columns = make_column_transformer((encoder, ["job"]), remainder="passthrough")
    return make_pipeline(columns, LogisticRegression(C=0.01) if final is None else final).fit(table, yes)


def own_is_best(table):
    """P(yes) of a function to which the level that nobody has is the best."""
    return (0.2 + 0.6 * (table["job"] == "own") + 0.001 * table["income"]).to_numpy()


def test_levels_of_encoders_are_read_without_a_background():
    for encoder in (
        OneHotEncoder(handle_unknown="ignore"),
        OneHotEncoder(),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")),
    ):
        model = wrap(fitted(encoder), SCHEMA)
        assert model.unseen == {"job": {"own"}}
        assert any("not recommended: job 'own'" in note for note in model.notes)


def test_a_level_that_the_model_refuses_is_never_allowed():
    refusing, answering = fitted(OneHotEncoder()), fitted(OneHotEncoder(handle_unknown="ignore"))
    assert wrap(refusing, SCHEMA, unseen_levels="allow").unseen == {"job": {"own"}}
    assert wrap(answering, SCHEMA, unseen_levels="allow").unseen == {}


def test_a_function_is_known_by_the_background():
    table, _ = people()
    assert wrap(own_is_best, SCHEMA, background=table).unseen == {"job": {"own"}}
    assert wrap(own_is_best, SCHEMA, background=table, unseen_levels="allow").unseen == {}
    assert wrap(own_is_best, SCHEMA).unseen == {}


def test_a_level_on_which_a_function_fails_is_found_by_asking():
    def picky(table):
        return table["job"].map({"none": 0.1, "part": 0.6, "full": 0.9, "own": None}).astype(float).to_numpy()

    def raising(table):
        return np.array([{"none": 0.1, "part": 0.6, "full": 0.9}[job] for job in table["job"]])

    table, _ = people()
    for function in (picky, raising):
        assert wrap(function, SCHEMA, background=table, unseen_levels="allow").unseen == {"job": {"own"}}
        assert wrap(function, SCHEMA).unseen == {}  # it may have failed for any reason


def test_a_function_that_fails_now_and_then_loses_no_level():
    calls = []

    def flaky(table):
        calls.append(len(table))
        if len(calls) % 3 == 0:
            raise OSError("no answer")
        return own_is_best(table)

    table, _ = people()
    assert wrap(flaky, SCHEMA, background=table, unseen_levels="allow").unseen == {}


def test_numbers_in_an_order_are_no_unseen_levels():
    table = pd.DataFrame({"children": [0, 1, 3] * 10, "income": range(30)})
    schema = Schema([Ordinal("children", [0, 1, 2, 3, 4]), Number("income", 0, 100, step=1)])
    assert wrap(lambda t: t["income"] / 100, schema, background=table).unseen == {}


@pytest.mark.parametrize("how", ["avoid", "allow"])
def test_find_recommends_an_unseen_level_only_with_consent(how):
    table, _ = people()
    answer = ta.find(own_is_best, table, schema=SCHEMA, background=table, unseen_levels=how)
    assert (answer.options["job"] == "own").any() == (how == "allow")


def test_consent_is_given_when_wrapping():
    table, _ = people()
    model = wrap(own_is_best, SCHEMA, background=table)
    with pytest.raises(MethodError, match="wrapped already"):
        ta.find(model, table, unseen_levels="allow")
    with pytest.raises(ModelError, match="is not a choice"):
        wrap(own_is_best, SCHEMA, unseen_levels="yes")


def test_who_holds_an_unseen_level_may_keep_it():
    table, _ = people()
    model = wrap(lambda t: (0.3 * (t["job"] == "own") + 0.006 * t["income"]).to_numpy(), SCHEMA, background=table)
    asking = pd.DataFrame({"job": ["own", "none"], "income": [10, 10]})
    answer = methods.LocalSearch().fit(Problem(SCHEMA, model)).find(asking)
    assert answer.options["job"].tolist() == ["own", "none"]
    assert answer.options["income"].tolist() == [34, 84]


@pytest.mark.parametrize("cls", [m for m in methods.ALL if not m.needs_actions], ids=lambda c: c.__name__)
def test_no_method_recommends_an_unseen_level(cls):
    table, _ = people()
    weights = torch.tensor([[-1.0, -0.5, 0.3, 9.0, 2.0]], dtype=torch.float64)  # own would be the easiest yes
    layer = torch.nn.Linear(5, 1).double()
    with torch.no_grad():
        layer.weight.copy_(9 * weights)
        layer.bias.fill_(9 * -1.8)
    model = wrap(layer, SCHEMA, background=table, output="logit")
    assert model.unseen == {"job": {"own"}}
    answer = cls.small().fit(Problem(SCHEMA, model, background=table)).find(table)
    assert len(answer.options) and "own" not in set(answer.options["job"])


def test_a_proof_counts_only_known_levels():
    table, _ = people()
    schema = Schema([Category("job", [*JOBS, "own"]), Number("income", 0, 100, step=1, moves="fixed")])
    layer = torch.nn.Linear(5, 1).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[-1.0, -0.5, 0.3, 9.0, 0.0]], dtype=torch.float64))
        layer.bias.fill_(-1.0)
    for how, status in (("avoid", ta.Status.IMPOSSIBLE), ("allow", ta.Status.FOUND)):
        model = wrap(layer, schema, background=table, output="logit", unseen_levels=how)
        answer = methods.ExactLinear().fit(Problem(schema, model)).find(table)
        assert set(answer.status) == {status}


@pytest.mark.parametrize("avoided", [["b"], ["d"], ["b", "c"], ["a", "e"]])
def test_exact_linear_passes_over_levels_of_an_order(avoided):
    levels = ["a", "b", "c", "d", "e"]
    table = pd.DataFrame({"grade": [v for v in levels if v not in avoided] * 4})
    table["income"] = np.arange(len(table)) * 2
    schema = Schema([Ordinal("grade", levels), Number("income", 0, 40, step=10)])
    layer = torch.nn.Linear(2, 1).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[2.0, 1.0]], dtype=torch.float64))
        layer.bias.fill_(-1.1)
    model = wrap(layer, schema, background=table, output="logit")
    assert model.unseen == {"grade": set(avoided)}
    problem = Problem(schema, model, ta.costs.L1())
    asking = table[model.judge(table) < 0]
    exact = methods.ExactLinear().fit(problem).find(asking)
    local = methods.LocalSearch().fit(problem).find(asking)
    assert not set(exact.options["grade"]) & set(avoided)
    for person, row in asking.iterrows():
        rows = [(g, i) for g in range(5) for i in range(0, 41, 10) if levels[g] not in avoided]
        own = (levels.index(row["grade"]), row["income"])
        rows += [(g, own[1]) for g in range(5) if levels[g] not in avoided] + [(own[0], i) for i in range(0, 41, 10)]
        costs = [abs(g - own[0]) / 4 + abs(i - own[1]) / 40 for g, i in rows if 2 * g / 4 + i / 40 > 1.1 + 1e-9]
        assert exact.options.loc[(person, 0), "cost"] == pytest.approx(min(costs))
        assert local.options.loc[(person, 0), "cost"] == pytest.approx(min(costs))


def test_histogram_boosting_and_catboost_and_forests():
    catboost = pytest.importorskip("catboost")
    table, yes = people()
    typed = table.astype({"job": pd.CategoricalDtype(["full", "none", "part"])})
    for model, frame in (
        (HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype"), typed),
        (catboost.CatBoostClassifier(iterations=5, cat_features=["job"], verbose=0, allow_writing_files=False), table),
        (catboost.CatBoostClassifier(iterations=5, cat_features=["job"], verbose=0, allow_writing_files=False), typed),
    ):
        model.fit(frame, yes)
        assert wrap(model, SCHEMA, background=frame, target=1).unseen == {"job": {"own"}}
        answer = ta.find(model, frame, schema=SCHEMA, background=frame, target=1)
        assert len(answer.options) and "own" not in set(answer.options["job"])
    forest = fitted(OneHotEncoder(handle_unknown="ignore"), RandomForestClassifier(5, random_state=0))
    assert wrap(forest, SCHEMA).unseen == {"job": {"own"}}


def test_the_rule_is_told_in_the_order_of_the_schema():
    """Levels come as a set, whose order changes between two runs of Python."""
    schema = Schema([Category("job", ("none", "part", "full", "own"))])
    for levels in (["own", "part", "none"], frozenset({"none", "own", "part"})):
        assert KnownLevels({"job": levels}).bind(schema).name == "job does not become none or part or own"
