"""Numbers that enter in steps: bins, whole numbers behind a one-hot encoder, tables of points (weights of evidence)."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, KBinsDiscretizer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from turnabout.core import Problem, Status
from turnabout.costs import L0, L1, L2
from turnabout.methods import ExactLinear, choose, find
from turnabout.models import Additive, Differentiable, Trees, wrap
from turnabout.models.agreement import compare, step_sample
from turnabout.models.forms import ScoredModel
from turnabout.models.libraries.inside import Held
from turnabout.rules import AtMost, Linear
from turnabout.schema import Category, Number, Ordinal, Schema

N = 300


@pytest.fixture(scope="module")
def table():
    r = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": r.integers(18, 80, N),
            "income": np.round(r.gamma(2, 1500, N), 2),
            "kids": r.integers(0, 5, N),
            "debt": r.normal(size=N).round(3),
        }
    )


@pytest.fixture(scope="module")
def good(table):
    noise = np.random.default_rng(1).normal(size=N) * 0.3
    return ((table.age / 40 + table.income / 3000 + table.kids % 2 - table.debt + noise) > 2.6).astype(int)


NUMBERS = (
    Number("age", 18, 80, step=1),
    Number("income", 0, 20_000),
    Number("kids", 0, 6, step=1),
    Number("debt", -4, 4),
)
SCHEMA = Schema(NUMBERS)
LEVELS = OneHotEncoder(handle_unknown="ignore")


def binned(bins, final=None, levels=LEVELS):
    return make_pipeline(
        make_column_transformer((bins, ["age", "income"]), (levels, ["kids"]), (StandardScaler(), ["debt"])),
        LogisticRegression(max_iter=1000) if final is None else final,
    )


def edges(pipeline):
    """Edges of the bins of age and income."""
    step = pipeline[0].transformers_[0][1]
    return (step[-1] if hasattr(step, "steps") else step).bin_edges_


def hard_rows(pipeline, n=400):
    """Random rows, with numbers exactly on the edges of bins, beside them and far outside; short decimals all."""
    r = np.random.default_rng(2)
    age, income = (np.concatenate([e, e - 1e-5, np.floor(e), np.ceil(e)]).round(5) for e in edges(pipeline)[:2])
    return pd.DataFrame(
        {
            "age": np.where(r.random(n) < 0.5, r.choice(age, n), r.integers(0, 120, n)),
            "income": np.where(r.random(n) < 0.5, r.choice(income, n), r.gamma(2, 2500, n).round(2)),
            "kids": r.choice([0, 1, 2, 3, 4, 5, 6, 2.5, 9, -1], n),
            "debt": r.normal(size=n) * 2,
        }
    )


def gap(model, rows):
    return np.abs(model.margin(model.schema.encode(rows)).numpy() - model.judge(rows)).max()


# -- bins -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:column .* holds", "ignore:Bins whose width")
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("encode", ["onehot", "onehot-dense", "ordinal"])
def test_bins_are_read_to_the_last_digit(encode, strategy, table, good):
    pipeline = binned(KBinsDiscretizer(5, encode=encode, strategy=strategy)).fit(table, good)
    model = wrap(pipeline, SCHEMA, background=table)
    assert isinstance(model, Additive), model.notes
    assert not isinstance(model, Differentiable)
    assert "moves with age, income, kids in steps" in " ".join(model.notes)
    assert gap(model, table) < 1e-9
    assert gap(model, hard_rows(pipeline)) < 1e-9


@pytest.mark.filterwarnings("ignore:column .* holds", "ignore:Bins whose width")
def test_bins_are_read_without_a_background_and_from_arrays(table, good):
    pipeline = make_pipeline(KBinsDiscretizer(4), LogisticRegression()).fit(table.to_numpy(), good)
    model = wrap(pipeline, SCHEMA)
    assert isinstance(model, Additive), model.notes
    assert gap(model, table) < 1e-9


@pytest.mark.filterwarnings("ignore:Bins whose width")
def test_bins_behind_a_scaler_and_before_one(table, good):
    bins = make_pipeline(StandardScaler(), KBinsDiscretizer(6, encode="onehot-dense"), StandardScaler(), PCA(4))
    pipeline = make_pipeline(bins, LogisticRegression()).fit(table, good)
    model = wrap(pipeline, SCHEMA, background=table)
    assert isinstance(model, Additive), model.notes
    assert gap(model, table) < 1e-9


@pytest.mark.filterwarnings("ignore:column .* holds", "ignore:Bins whose width")
def test_missing_numbers_behind_bins(table, good):
    holes = table.assign(income=table.income.mask(np.arange(N) % 5 == 0))
    schema = Schema((NUMBERS[0], Number("income", 500, 20_000, missing=True), *NUMBERS[2:]))
    pipeline = binned(make_pipeline(SimpleImputer(), KBinsDiscretizer(5))).fit(holes, good)
    model = wrap(pipeline, schema, background=holes)
    assert isinstance(model, Additive), model.notes
    assert gap(model, holes) < 1e-9
    rows = hard_rows(pipeline)
    assert gap(model, rows.assign(income=rows.income.mask(np.arange(len(rows)) % 3 == 0))) < 1e-9


def test_a_number_that_enters_both_ways(table, good):
    both = FeatureUnion([("line", StandardScaler()), ("old", Binarizer(threshold=40))])
    pipeline = make_pipeline(make_column_transformer((both, ["age"]), (StandardScaler(), ["debt"])), Ridge())
    model = wrap(pipeline.fit(table, good), SCHEMA, target_range=(0.5, None), background=table)
    assert isinstance(model, Additive), model.notes
    assert float(model.terms.weights[0]) != 0
    assert len(model.terms.cuts(0)) == 1
    assert gap(model, table) < 1e-9


@pytest.mark.filterwarnings("ignore:column .* holds", "ignore:Bins whose width", "ignore:Stochastic Optimizer")
def test_a_net_behind_bins_is_fast_and_has_no_gradient(table, good):
    pipeline = binned(KBinsDiscretizer(5), MLPClassifier((5,), max_iter=50, random_state=0)).fit(table, good)
    model = wrap(pipeline, SCHEMA, background=table)
    assert isinstance(model, ScoredModel), model.notes
    assert not isinstance(model, (Additive, Differentiable))
    assert "no useful gradient" in model.notes[-1]
    assert gap(model, hard_rows(pipeline)) < 1e-9
    assert gap(model.shifted(0.5), table) < 1e-9


@pytest.mark.filterwarnings("ignore:Bins whose width")
def test_a_stepped_model_moves_and_travels(table, good):
    model = wrap(binned(KBinsDiscretizer(5)).fit(table, good), SCHEMA, background=table)
    x = SCHEMA.encode(table)
    assert torch.equal(pickle.loads(pickle.dumps(model)).margin(x), model.margin(x))
    assert torch.allclose(model.shifted(0.7).margin(x), model.margin(x) - 0.7)
    assert torch.equal(model.to("cpu").margin(x), model.margin(x))
    parts = [model.terms.term(c, x[:, c]) for c in range(SCHEMA.d)]
    assert torch.allclose(sum(parts) + model.terms.bias, model.margin(x))


# -- whole numbers behind a one-hot encoder -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["number", "ordinal", "category"])
def test_whole_numbers_one_hot(kind, table, good):
    pipeline = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression()).fit(table[["kids"]], good)
    kids = {
        "number": Number("kids", 0, 6, step=1),
        "ordinal": Ordinal("kids", tuple(range(5))),
        "category": Category("kids", tuple(range(5))),
    }[kind]
    model = wrap(pipeline, Schema((kids,)), background=table[["kids"]])
    assert isinstance(model, Additive), model.notes
    assert gap(model, table[["kids"]]) < 1e-9


def test_a_level_that_the_encoder_never_saw_says_what_to_do(table, good):
    pipeline = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(table[["kids"]], good)
    model = wrap(pipeline, Schema((Number("kids", 0, 6, step=1),)), background=table[["kids"]])
    assert not model.compiled
    assert "handle_unknown='ignore'" in model.notes[-1]
    seen = wrap(pipeline, Schema((Number("kids", 0, 4, step=1),)), background=table[["kids"]])
    assert isinstance(seen, Additive), seen.notes
    assert gap(seen, table[["kids"]]) < 1e-9


# -- weights of evidence --------------------------------------------------------------------------------------------


class Woe(BaseEstimator, TransformerMixin):
    """Weights of evidence by bins of each column, in the manner of scorecard libraries."""

    def fit(self, x, y):
        self.cuts_ = {name: np.quantile(x[name], [0.2, 0.4, 0.6, 0.8]) for name in x.columns}
        self.woe_ = {}
        for name in x.columns:
            bins = np.digitize(x[name], self.cuts_[name])
            shares = [np.clip(y[bins == b].mean(), 0.05, 0.95) for b in range(5)]
            self.woe_[name] = np.log(shares) - np.log1p(-np.array(shares))
        return self

    def transform(self, x):
        return np.column_stack([self.woe_[n][np.digitize(x[n], self.cuts_[n])] for n in x.columns])


def by_table(x):
    return x.assign(kids=x.kids.map({0: -1.0, 1: 0.5, 2: -0.3, 3: 0.7, 4: 0.0}).fillna(0.0))


def test_a_scorecard_of_numbers_on_a_grid_is_read_value_by_value(table, good):
    table = table.assign(income=table.income.round(-1))
    schema = Schema((NUMBERS[0], Number("income", 0, 20_000, step=10), NUMBERS[2]))
    columns = ["age", "income", "kids"]
    pipeline = make_pipeline(Woe(), LogisticRegression()).fit(table[columns], good)
    model = wrap(pipeline, schema, background=table)
    assert isinstance(model, Additive), model.notes
    r = np.random.default_rng(3)
    rows = pd.DataFrame({n: r.choice(np.concatenate([c, np.ceil(c)]), 200) for n, c in pipeline[0].cuts_.items()})
    assert gap(model, rows) < 1e-9


def test_a_function_that_maps_whole_numbers(table, good):
    pipeline = make_pipeline(FunctionTransformer(by_table), LogisticRegression()).fit(table[["kids", "debt"]], good)
    model = wrap(pipeline, Schema((NUMBERS[2], NUMBERS[3])), background=table)
    assert isinstance(model, Additive), model.notes
    assert gap(model, table[["kids", "debt"]]) < 1e-9


def test_a_scorecard_on_too_many_values_says_what_to_do(table, good):
    pipeline = make_pipeline(Woe(), LogisticRegression()).fit(table[["income"]], good)
    model = wrap(pipeline, Schema((NUMBERS[1],)), background=table)
    assert not model.compiled
    note = model.notes[-1]
    assert "'income' enters in steps through Woe" in note
    assert "Number('income', ...) a step that leaves at most 100000 values" in note
    assert "KBinsDiscretizer" in note


def test_a_curve_is_no_staircase(table, good):
    pipeline = make_pipeline(FunctionTransformer(np.square), LogisticRegression()).fit(table[["age", "debt"]], good)
    model = wrap(pipeline, Schema((NUMBERS[0], NUMBERS[3])), background=table)
    assert not model.compiled
    assert "does not follow 'age' in a straight line" in model.notes[-1]


# -- plans ----------------------------------------------------------------------------------------------------------


def cheapest(problem, pipeline, row):
    """Least cost over all legal rows that the pipeline itself accepts; inf if there is none."""
    schema = problem.schema
    values = []
    for f in schema.features:
        own = row[f.name].iloc[0]
        legal = [v for v in np.arange(f.low, f.high + 1) if {"up": v > own, "down": v < own}.get(f.moves, True)]
        values.append(sorted({own, *legal}) if f.moves != "fixed" else [own])
    rows = pd.DataFrame(itertools.product(*values), columns=list(schema.names))
    x, x_new = schema.encode(row), schema.encode(rows)
    good = (pipeline.predict(rows) == 1) & (problem.violation(x.expand_as(x_new), x_new) <= 0).numpy()
    costs = problem.cost(x.expand_as(x_new), x_new).numpy()
    return costs[good].min() if good.any() else np.inf


@pytest.mark.filterwarnings("ignore:Bins whose width")
@pytest.mark.parametrize("cost", [L1(), L1() + 0.2 * L0(), L2()], ids=["L1", "entry", "L2"])
@pytest.mark.parametrize("rules", [[], [AtMost(1)], [Linear({"a": 1, "b": 1}, "<=", 12)]], ids=["none", "one", "sum"])
def test_plans_and_impossibility_against_the_pipeline_itself(rules, cost):
    r = np.random.default_rng(5)
    x = pd.DataFrame({"a": r.integers(0, 10, 200), "b": r.integers(0, 10, 200), "c": r.integers(0, 4, 200)})
    y = ((x.a > 6) + (x.b % 4 == 1) + (x.c == 2) + r.random(200) * 0.8 > 1.6).astype(int)
    steps = make_column_transformer((KBinsDiscretizer(4, encode="onehot"), ["a"]), (LEVELS, ["b", "c"]))
    pipeline = make_pipeline(steps, LogisticRegression(C=10)).fit(x, y)
    schema = Schema((Number("a", 0, 9, step=1), Number("b", 0, 9, step=1, moves="up"), Number("c", 0, 3, step=1)))
    problem = Problem(schema, wrap(pipeline, schema, background=x), cost=cost, rules=rules)
    method = choose(problem)
    assert isinstance(method, ExactLinear)
    people = x[pipeline.predict(x) == 0].head(10).reset_index(drop=True)
    answer = method.find(people)
    for person in people.index:
        best = cheapest(problem, pipeline, people.loc[[person]])
        wanted = Status.IMPOSSIBLE if best == np.inf else Status.FOUND
        assert answer.status[person] == wanted
        if wanted is Status.FOUND:
            assert answer.options.loc[(person, 0), "cost"] == pytest.approx(best, abs=1.1e-5)


@pytest.mark.filterwarnings("ignore:Bins whose width")
def test_plans_on_fine_grids_stop_at_the_edge_of_a_bin(table, good):
    pipeline = make_pipeline(KBinsDiscretizer(5), LogisticRegression(C=10)).fit(table[["income"]], good)
    people = table[["income"]][pipeline.predict(table[["income"]]) == 0].head(10)
    answer = find(pipeline, people, schema=Schema((Number("income", 0, 20_000, decimals=2),)), background=table)
    assert answer.made_by.startswith("ExactLinear")
    found = answer.options[["income"]]
    assert len(found) == len(people)
    assert (pipeline.predict(found) == 1).all()
    assert (pipeline.predict(found - 0.01) == 0).all()


# -- trees ----------------------------------------------------------------------------------------------------------


def small_trees():
    return [
        DecisionTreeClassifier(max_depth=5, random_state=0),
        RandomForestClassifier(8, max_depth=5, random_state=0),
        GradientBoostingClassifier(n_estimators=12, random_state=0),
        HistGradientBoostingClassifier(max_iter=12, random_state=0),
    ]


@pytest.mark.filterwarnings("ignore:column .* holds", "ignore:Bins whose width")
@pytest.mark.parametrize("encode", ["onehot-dense", "ordinal"])
@pytest.mark.parametrize("trees", small_trees(), ids=lambda t: type(t).__name__)
def test_trees_behind_bins_and_one_hot_numbers(trees, encode, table, good):
    levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    pipeline = binned(KBinsDiscretizer(5, encode=encode), trees, levels).fit(table, good)
    model = wrap(pipeline, SCHEMA, background=table)
    assert isinstance(model, Trees), model.notes
    assert gap(model, table) < 1e-9
    assert gap(model, hard_rows(pipeline)) < 1e-9


@pytest.mark.filterwarnings("ignore:column .* holds", "ignore:Bins whose width")
@pytest.mark.parametrize("low", [0, 900])
def test_trees_behind_bins_of_missing_numbers(low, table, good):
    holes = table.assign(income=table.income.mask(np.arange(N) % 5 == 0))
    schema = Schema((NUMBERS[0], Number("income", low, 20_000, missing=True), *NUMBERS[2:]))
    bins = make_pipeline(SimpleImputer(add_indicator=True), KBinsDiscretizer(4, encode="onehot-dense"))
    levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    pipeline = binned(bins, DecisionTreeClassifier(max_depth=6, random_state=0), levels).fit(holes, good)
    model = wrap(pipeline, schema, background=holes)
    assert isinstance(model, Trees), model.notes
    assert gap(model, holes) < 1e-9
    rows = hard_rows(pipeline)
    assert gap(model, rows.assign(income=rows.income.mask(np.arange(len(rows)) % 3 == 0))) < 1e-9


def test_trees_behind_weights_of_evidence(table, good):
    trees = DecisionTreeClassifier(max_depth=5, random_state=0)
    pipeline = make_pipeline(Woe(), trees).fit(table[["age", "kids"]], good)
    model = wrap(pipeline, Schema((NUMBERS[0], NUMBERS[2])), background=table)
    assert isinstance(model, Trees), model.notes
    assert gap(model, table[["age", "kids"]]) < 1e-9


# -- agreement ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Bins whose width")
def test_an_edge_that_is_off_by_one_value_is_noticed(table, good):
    table = table[["age", "debt"]]
    pipeline = make_pipeline(KBinsDiscretizer(4), LogisticRegression()).fit(table, good)
    schema = Schema((Number("age", 18, 80, step=1), NUMBERS[3]))
    model = wrap(pipeline, schema, background=table.head(3))
    assert isinstance(model, Additive), model.notes
    honest = model.terms.jumps
    moved = replace(honest, cuts=honest.cuts + torch.where(honest.columns == 0, 1 / schema["age"].span, 0.0))
    model.terms = replace(model.terms, jumps=moved)
    assert compare(model, step_sample(model), 1e-6).reason is not None
    assert wrap(pipeline, schema, background=table.head(3)).compiled


# -- what preprocessing holds ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:column .* holds")
def test_steps_outside_the_bounds_are_read_too(table, good):
    levels = make_pipeline(SimpleImputer(), OneHotEncoder(handle_unknown="ignore"))
    pipeline = make_pipeline(make_column_transformer((levels, ["kids"])), LogisticRegression())
    schema = Schema((Number("kids", 2, 4, step=1),))
    model = wrap(pipeline.fit(table[["kids"]], good), schema)
    assert isinstance(model, Additive), model.notes
    assert gap(model, table[["kids"]]) < 1e-9


def test_a_gap_about_zero_is_narrowed():
    table = pd.DataFrame({"a": np.linspace(-3, 3, 61).round(1)})
    bins = make_pipeline(FunctionTransformer(tripled), KBinsDiscretizer(2, encode="ordinal", strategy="uniform"))
    pipeline = make_pipeline(bins, LogisticRegression()).fit(table, table.a > 0.7)
    model = wrap(pipeline, Schema((Number("a", -3, 3, step=1.5),)))
    assert isinstance(model, Additive), model.notes
    assert gap(model, table) < 1e-9


def tripled(x):
    return x * 3 + 1


def test_numbers_and_strangers_are_found_at_any_depth():
    frame = pd.DataFrame({"w": [0.25, 0.5]}, index=pd.IntervalIndex.from_breaks([1.0, 2.0, 3.5]))
    odd = Woe()
    odd.table, odd.most, odd.name, odd.again = {"a": [frame, ({7: 8.5},)]}, np.float32(9), "10", odd
    held = Held.of((make_pipeline(make_pipeline(StandardScaler(), odd), Binarizer(threshold=11)),))
    assert {0.25, 0.5, 1.0, 2.0, 3.5, 7.0, 8.5, 9.0, 11.0} <= set(held.numbers)
    assert 10.0 not in held.numbers
    assert held.strangers == ("Woe",)
    assert Held.of((make_pipeline(StandardScaler(), FunctionTransformer()),)).strangers == ()
    assert Held.of((FunctionTransformer(tripled),)).strangers == ("FunctionTransformer",)
