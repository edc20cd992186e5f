"""Pipelines with resampling steps, in the manner of imbalanced-learn: these do nothing when a model is asked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline as PlainPipeline
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from turnabout.core import Status
from turnabout.methods import find
from turnabout.models import Additive, Trees, wrap
from turnabout.models.libraries.meta_estimators import unstack


class Twice(BaseEstimator):
    """A sampler that repeats every row; known by its method alone."""

    def fit_resample(self, x, y):
        return x, y

    def fit(self, x, y=None):
        return self


def prepared():
    words = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income"]), (words, ["housing", "school", "phone"])
    )


def resampled(*steps):
    """A pipeline of imbalanced-learn."""
    return pytest.importorskip("imblearn.pipeline").make_pipeline(*steps)


def over_sampler():
    return pytest.importorskip("imblearn.over_sampling").RandomOverSampler(random_state=0)


def gap(model, people):
    asked = model.judge(people)
    return np.abs(model.margin(model.schema.encode(people)).numpy() - asked).max()


@pytest.mark.parametrize("place", ["between", "first", "last", "twice"])
def test_samplers_anywhere_are_looked_through(place, people, accepted, schema):
    one = over_sampler
    steps = {
        "between": [prepared(), one(), StandardScaler()],
        "first": [one(), prepared()],
        "last": [prepared(), one()],
        "twice": [one(), prepared(), one()],
    }[place]
    fitted = resampled(*steps, LogisticRegression(max_iter=500)).fit(people, accepted)
    model = wrap(fitted, schema, background=people)
    assert isinstance(model, Additive), model.notes
    assert gap(model, people) < 1e-9


def test_trees_behind_a_sampler_are_read(people, accepted, schema):
    trees = RandomForestClassifier(5, max_depth=4, random_state=0)
    model = wrap(resampled(prepared(), over_sampler(), trees).fit(people, accepted), schema, background=people)
    assert isinstance(model, Trees), model.notes
    assert gap(model, people) < 1e-9


def test_a_sampler_directly_before_the_model(numbers, numbers_schema):
    yes = (numbers.a + numbers.c > 6).astype(int)
    model = wrap(resampled(over_sampler(), LogisticRegression()).fit(numbers, yes), numbers_schema)
    assert isinstance(model, Additive), model.notes


def test_a_search_over_such_a_pipeline(people, accepted, schema):
    search = GridSearchCV(
        resampled(prepared(), over_sampler(), LogisticRegression(max_iter=500)), {"logisticregression__C": [0.1, 1.0]}
    )
    model = wrap(search.fit(people, accepted), schema, background=people)
    assert isinstance(model, Additive), model.notes
    assert gap(model, people) < 1e-9


def test_balanced_forests_are_forests(people, accepted, schema):
    ensemble = pytest.importorskip("imblearn.ensemble")
    forest = ensemble.BalancedRandomForestClassifier(5, max_depth=4, random_state=0)
    model = wrap(make_pipeline(prepared(), forest).fit(people, accepted), schema, background=people)
    assert isinstance(model, Trees), model.notes
    assert gap(model, people) < 1e-9


def test_plans_for_such_a_pipeline_are_accepted_by_it(people, accepted, schema):
    fitted = resampled(prepared(), over_sampler(), LogisticRegression(max_iter=500)).fit(people, accepted)
    refused = people[fitted.predict(people) == 0].head(8)
    answer = find(fitted, refused, schema=schema, background=people)
    assert (answer.status == Status.FOUND).all()
    assert (fitted.predict(pd.DataFrame(answer.options[list(people.columns)])) == 1).all()


def test_samplers_are_known_by_their_method():
    scaler, last = StandardScaler(), LogisticRegression()
    steps = [("a", Twice()), ("b", scaler), ("c", "passthrough"), ("d", None), ("e", Twice()), ("f", last)]
    stages = unstack(PlainPipeline(steps))
    assert stages.transforms == (scaler,)
    assert stages.final is last
    only = unstack(PlainPipeline([("a", Twice()), ("f", last)]))
    assert only.transforms == ()
    assert only.title == "LogisticRegression"
