"""Missing cells that people can provide: ranges that hold, for every value in them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import turnabout as ta
from turnabout import Number, Schema
from turnabout.errors import SchemaError, TurnaboutError


def lender(seed=0, n=600):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "income": rng.lognormal(8, 0.4, n).round(0),
            "debts": rng.gamma(2, 900, n).round(0),
            "hours": rng.integers(5, 60, n),
        }
    )
    score = np.log(table.income) * 2 - table.debts / 900 + table.hours * 0.05 + rng.normal(0, 0.3, n)
    good = score > score.median()
    table.loc[rng.random(n) < 0.3, "income"] = np.nan
    return table, good


MODELS = {
    "line": lambda: make_pipeline(SimpleImputer(strategy="constant", fill_value=0), LogisticRegression(max_iter=2000)),
    "trees": lambda: HistGradientBoostingClassifier(max_iter=20, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", [ta.methods.LocalSearch, ta.methods.ExactLinear, ta.methods.GrowingSpheres])
def test_an_option_holds_for_every_value_of_its_range(name, method):
    table, good = lender()
    schema = Schema.infer(table, labels=good)
    assert schema["income"].provide and not schema["debts"].provide
    fitted = MODELS[name]().fit(table, good)
    problem = ta.Problem(schema, ta.models.wrap(fitted, schema, background=table), background=table, labels=good)
    if method.requires is not None and not isinstance(problem.model, method.requires):
        pytest.skip("the method needs another model")
    refused = table[(fitted.predict(table) == 0) & table.income.isna()].head(8)
    answer = method.small().fit(problem).find(refused, options=2)
    assert (answer.status == "FOUND").all()
    assert len(answer.provided) > 3
    step = schema["income"].useful_step or 1
    for (person, option), asked in answer.provided.iterrows():
        row = answer.options.loc[[(person, option)], list(table.columns)]
        assert row.income.iloc[0] == asked.low
        values = np.arange(asked.low, asked.high + step / 2, step)
        rows = pd.concat([row] * len(values), ignore_index=True).assign(income=values)
        assert fitted.predict(rows).all()
        assert answer.options.loc[(person, option), "cost"] >= 0.1
    untouched = answer.options.index.difference(answer.provided.index)
    assert answer.options.loc[untouched, "income"].isna().all()
    assert answer.options.groupby(level=0).cost.apply(lambda c: c.is_monotonic_increasing).all()
    assert ta.Recourse.from_json(answer.to_json()) == answer
    assert method.small().fit(problem).find(refused, options=2) == answer


def test_providing_alone_by_hand():
    schema = Schema((Number("income", high=100, step=1, useful_step=10, missing=True, provide=True, moves="up"),))
    model = ta.models.wrap(lambda t: (t["income"].fillna(0) >= 41).astype(float), schema)
    people = pd.DataFrame({"income": [np.nan, 20.0, 60.0]})
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, model)).find(people)
    assert answer.status.tolist() == ["FOUND", "FOUND", "ACCEPTED"]
    assert answer.options.loc[(0, 0), ["income", "cost"]].tolist() == [50.0, 0.1]
    assert answer.provided.to_numpy().tolist() == [["income", 50.0, 100.0]]
    window = ta.models.wrap(lambda t: t["income"].fillna(0).between(35, 75).astype(float), schema)
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, window)).find(people.head(1))
    assert answer.provided.to_numpy().tolist() == [["income", 40.0, 70.0]]


def test_what_nobody_can_provide_stays_missing():
    schema = Schema((Number("income", high=100, step=1, missing=True), Number("b", high=3, step=1)))
    model = ta.models.wrap(lambda t: (t["income"].fillna(0) >= 41).astype(float), schema)
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, model)).find(pd.DataFrame({"income": [np.nan], "b": [1]}))
    assert answer.status.tolist() == ["IMPOSSIBLE"]
    assert not len(answer.provided)


def test_provide_goes_with_missing():
    with pytest.raises(SchemaError, match="provide=True goes with missing=True"):
        Number("income", provide=True)


def test_a_torn_document_is_told():
    schema = Schema((Number("income", high=100, step=1, missing=True, provide=True),))
    model = ta.models.wrap(lambda t: (t["income"].fillna(0) >= 41).astype(float), schema)
    answer = ta.methods.LocalSearch().fit(ta.Problem(schema, model)).find(pd.DataFrame({"income": [np.nan]}))
    document = answer.to_dict()
    document["provided"]["index"] = [[0, 7]]
    with pytest.raises(TurnaboutError, match="speak of an option that there is not"):
        ta.Recourse.from_dict(document)
