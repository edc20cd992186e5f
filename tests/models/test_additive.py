"""Additive models: each feature acts on its own, in a straight line or with bends at its levels."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch

from turnabout import datasets
from turnabout.models import Additive, Differentiable, LinearMargin, Model, ReluNet, Terms, Trees, wrap
from turnabout.models.forms import run_layers
from turnabout.schema import Binary, Category, Number, Ordinal, Schema

pytest.importorskip("sklearn")

from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

HAND = Terms(
    torch.tensor([1.0, -2.0]).double(),
    0.5,
    torch.tensor([1, 1]),
    torch.tensor([0.25, 0.5]).double(),
    torch.tensor([4.0, -8.0]).double(),
)


def one_hot(schema: Schema, estimator, order=None) -> Pipeline:
    """Numbers scaled, levels one-hot, ordinals one-hot too unless an encoder is given for them."""
    numbers = [f.name for f in schema if isinstance(f, Number)]
    ordinals = [f.name for f in schema if isinstance(f, Ordinal)]
    others = [f.name for f in schema if isinstance(f, (Binary, Category))]
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    parts = [
        ("numbers", scaled, numbers),
        ("levels", OneHotEncoder(handle_unknown="ignore"), others),
        ("order", order or OneHotEncoder(handle_unknown="ignore"), ordinals),
    ]
    return make_pipeline(ColumnTransformer(parts), estimator)


def gap(model: Model, table: pd.DataFrame) -> float:
    return float(np.abs(model.margin(model.schema.encode(table)).numpy() - model.judge(table)).max())


# -- by hand --------------------------------------------------------------------------------------------------------


def test_terms_on_numbers_done_by_hand():
    x = torch.tensor([[0.0, 0.0], [1.0, 0.25], [0.0, 0.5], [0.0, 1.0]]).double()
    # second column: -2 v, + 4 (v - 1/4) above 1/4, - 8 (v - 1/2) above 1/2
    assert HAND.margin(x).tolist() == pytest.approx([0.5, 1.0, 0.5, 0.5 - 2.0 + 3.0 - 4.0])
    assert HAND.term(1, x[:, 1]).tolist() == pytest.approx([0.0, -0.5, 0.0, -3.0])
    assert HAND.term(0, x[:, 0]).tolist() == pytest.approx([0.0, 1.0, 0.0, 0.0])
    inside = torch.tensor([[0.3, 0.1], [0.3, 0.4], [0.3, 0.9]]).double()
    assert HAND.gradient(inside).tolist() == [[1.0, -2.0], [1.0, 2.0], [1.0, -6.0]]


def test_terms_without_knots_are_a_straight_line():
    terms = Terms.straight(HAND.weights, 0.5)
    x = torch.rand(5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.equal(terms.margin(x), x @ HAND.weights + 0.5)
    assert torch.equal(terms.gradient(x)[0], HAND.weights)


# -- what wrap finds ------------------------------------------------------------------------------------------------


def test_one_hot_ordinals_are_additive_and_not_linear(people, accepted, schema):
    model = wrap(one_hot(schema, LogisticRegression(max_iter=500)).fit(people, accepted), schema, background=people)
    assert isinstance(model, Additive), model.notes
    assert isinstance(model, ReluNet)
    assert isinstance(model, Differentiable)
    assert not isinstance(model, (LinearMargin, Trees))
    assert model.capabilities == (Differentiable, Additive, ReluNet)
    assert schema.columns[int(model.terms.columns)] == "school"
    assert model.terms.knots.tolist() == [0.5]
    assert "the levels of school do not act in equal steps" in " ".join(model.notes)
    assert gap(model, people) < 1e-9


def test_all_its_forms_agree(people, accepted, schema):
    model = wrap(one_hot(schema, LogisticRegression(max_iter=500)).fit(people, accepted), schema, 0.3)
    x = schema.encode(people).requires_grad_()
    margin = model.margin(x)
    assert torch.allclose(run_layers(model.layers, x)[:, 0], margin)
    assert torch.allclose(model.terms.margin(x), margin)
    (slope,) = torch.autograd.grad(margin.sum(), x)
    assert torch.allclose(model.gradient(x.detach()), slope)
    parts = [model.terms.term(c, x[:, c]) for c in range(schema.d)]
    assert torch.allclose(sum(parts) + model.terms.bias, margin)
    assert torch.equal(model.to("cpu").margin(x), margin)
    assert torch.equal(pickle.loads(pickle.dumps(model)).margin(x), margin)


def test_equal_steps_are_linear_and_additive(people, accepted, schema):
    order = OrdinalEncoder(categories=[["low", "mid", "high"]])
    pipeline = one_hot(schema, LogisticRegression(max_iter=500), order).fit(people, accepted)
    model = wrap(pipeline, schema, background=people)
    assert isinstance(model, LinearMargin), model.notes
    assert isinstance(model, Additive)
    assert not isinstance(model, ReluNet)
    assert len(model.terms.knots) == 0
    x = schema.encode(people)
    assert torch.equal(model.terms.margin(x), model.margin(x))


def test_levels_that_weigh_nothing_do_not_bend(people, accepted, schema):
    pipeline = one_hot(schema, LogisticRegression(max_iter=500)).fit(people, accepted)
    names = pipeline[:-1].get_feature_names_out()
    pipeline[-1].coef_[0, [name.startswith("order__") for name in names]] = 0.0
    model = wrap(pipeline, schema, background=people)
    assert isinstance(model, LinearMargin), model.notes
    assert "equal steps" not in " ".join(model.notes)


def test_missing_ordinals_have_a_weight_of_their_own(people, accepted):
    table = people.assign(school=people.school.mask(np.arange(len(people)) % 7 == 0))
    levels = Schema((Ordinal("school", ("low", "mid", "high"), missing=True), Number("age", 18, 80, step=1)))
    model = wrap(one_hot(levels, LogisticRegression()).fit(table[["age", "school"]], accepted), levels)
    assert isinstance(model, Additive), model.notes
    assert not isinstance(model, LinearMargin)
    assert gap(model, table) < 1e-9


@pytest.mark.parametrize("target_range", [(1500, None), (None, 2500)])
def test_regressors_with_one_end_are_additive(target_range, people, schema):
    amount = people.income.fillna(2000)
    model = wrap(one_hot(schema, Ridge()).fit(people, amount), schema, target_range=target_range, background=people)
    assert isinstance(model, Additive), model.notes
    assert gap(model, people) < 1e-7


def test_regressors_with_two_ends_are_not(people, schema):
    model = wrap(one_hot(schema, Ridge()).fit(people, people.income.fillna(2000)), schema, target_range=(1500, 2500))
    assert isinstance(model, Differentiable)
    assert not isinstance(model, (Additive, LinearMargin))


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_nets_behind_one_hot_ordinals_are_not(people, accepted, schema):
    net = MLPClassifier((4,), max_iter=30, random_state=0)
    model = wrap(one_hot(schema, net).fit(people, accepted), schema, background=people)
    assert isinstance(model, ReluNet)
    assert not isinstance(model, (Additive, LinearMargin))


def test_german_credit_one_hot_bends_in_its_ordinals():
    data = datasets.load("german")
    model = wrap(one_hot(data.schema, LogisticRegression(max_iter=2000)).fit(data.people, data.accepted), data.schema)
    assert isinstance(model, Additive), model.notes
    assert not isinstance(model, LinearMargin)
    bent = {data.schema.names[int(data.schema.feature_of[c])] for c in model.terms.columns}
    assert bent <= {f.name for f in data.schema if isinstance(f, Ordinal) and len(f.levels) > 2}
    assert len(bent) >= 5
    assert gap(model, data.people) < 1e-9
