"""Consequences beyond the schema's bounds: computed by hand, for every method, and counted by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import turnabout as ta
from turnabout import methods
from turnabout.audit import existence
from turnabout.rules import Equation, Linear, StructuralEquations
from turnabout.schema import Number, Schema

SCHEMA = Schema(
    (
        Number("loan", 0, 12, step=1),
        Number("value", 10, 14, step=1),
        Number("ltv", 30, 60, step=1),  # in percent; follows from both
    )
)
EQUATIONS = StructuralEquations([Equation("ltv", 0, {"loan": 5.0, "value": -2.0})])
PEOPLE = pd.DataFrame(
    {"loan": [4.0, 4.0, 6.0, 12.0, 5.5], "value": [10.0, 12.0, 10.0, 14.0, 11.0], "ltv": [20.0, 40.0, 58.0, 75.0, 44.4]}
)


def decider(bar: float) -> LogisticRegression:
    """Yes where loan + ltv / 10 - value / 10 >= bar."""
    model = LogisticRegression().fit(PEOPLE, [0, 1, 0, 1, 0])
    model.coef_, model.intercept_ = np.array([[1.0, -0.1, 0.1]]), np.array([-bar])
    return model


def score(loan: float, value: float, ltv: float) -> float:
    return loan - value / 10 + ltv / 10


def follows(own: pd.Series, loan: float, value: float) -> float:
    """ltv by hand: what the equation adds, rounded to whole percents; the person's own where that is nearest."""
    exact = own["ltv"] + 5 * (loan - own["loan"]) - 2 * (value - own["value"])
    whole = float(np.rint(exact))
    return float(own["ltv"]) if abs(exact - own["ltv"]) <= abs(exact - whole) else whole


def by_hand(own: pd.Series, bar: float, most: float = np.inf) -> bool:
    """Whether any choice of loan and value leads to a yes."""
    loans = {own["loan"], *map(float, range(13))}
    values = {own["value"], *map(float, range(10, 15))}
    ends = ((loan, value, follows(own, loan, value)) for loan, value in itertools.product(loans, values))
    return any(score(*end) >= bar + 1e-6 and end[2] <= most for end in ends)


def check_rows(answer: ta.Recourse, bar: float) -> None:
    for (person, _), row in answer.options.iterrows():
        own = PEOPLE.loc[person]
        assert abs(row["ltv"] - follows(own, row["loan"], row["value"])) < 1e-9, (person, row.to_dict())
        assert score(row["loan"], row["value"], row["ltv"]) >= bar


@pytest.mark.parametrize("bar", [7.05, 13.05, 17.5, 18.35, 30.0])
@pytest.mark.parametrize("extra", [(), (Linear({"ltv": 1.0}, "<=", 60.0),)], ids=["free", "capped"])
def test_all_rows_are_counted_with_their_consequences(bar, extra) -> None:
    problem = ta.Problem(SCHEMA, ta.models.wrap(decider(bar), SCHEMA), rules=[*extra, EQUATIONS])
    answer = methods.LocalSearch().fit(problem).find(PEOPLE)
    for label, own in PEOPLE.iterrows():
        status = answer.status.loc[label].value
        if status != "ACCEPTED":
            there = by_hand(own, bar, 60.0 if extra else np.inf)
            assert status == ("FOUND" if there else "IMPOSSIBLE"), (label, own.to_dict())
    check_rows(answer, bar)
    if extra:
        assert (answer.options["ltv"] <= 60).all()


NEED_A_FORM = (methods.ExactLinear, methods.OneStep, methods.LinearApproximation)  # they refuse equations
ANY = [cls for cls in methods.ALL if not cls.needs_actions and cls not in NEED_A_FORM]


@pytest.mark.parametrize("cls", ANY, ids=lambda c: c.__name__)
def test_no_method_leaves_a_consequence_out(cls) -> None:
    bar = 7.05
    model = ta.models.wrap(decider(bar), SCHEMA)
    rng = np.random.default_rng(0)
    background = pd.DataFrame({"loan": rng.integers(0, 13, 60), "value": rng.integers(10, 15, 60)}).astype(float)
    background["ltv"] = rng.integers(20, 80, 60).astype(float)
    labels = background["loan"] - background["value"] / 10 + background["ltv"] / 10 >= bar
    problem = ta.Problem(SCHEMA, model, rules=[EQUATIONS], background=background, labels=labels)
    answer = cls.small().fit(problem).find(PEOPLE)
    check_rows(answer, bar)
    if cls is methods.CausalRecourse:
        assert (answer.status[answer.refused] == ta.Status.FOUND).all()


def test_a_schema_keeps_its_derived_features_to_itself() -> None:
    import pickle

    loose = SCHEMA.with_derived(["ltv"])
    assert loose == SCHEMA and hash(loose) == hash(SCHEMA)
    assert pickle.loads(pickle.dumps(loose)).derived == {"ltv"}
    assert Schema.from_json(loose.to_json()).derived == frozenset()
    own, new = PEOPLE.iloc[:1], PEOPLE.iloc[:1].assign(ltv=95.0)
    assert SCHEMA.breaches(own, new).tolist() == [[False, False, True]]
    assert not loose.breaches(own, new).any()
    assert loose.breaches(own, new.assign(ltv=95.5)).any()  # the grid holds


@pytest.mark.parametrize("bar", [13.05, 18.35, 30.0])
def test_existence_counts_rows_with_their_consequences(bar) -> None:
    problem = ta.Problem(SCHEMA, ta.models.wrap(decider(bar), SCHEMA), rules=[EQUATIONS])
    told = existence(problem, PEOPLE).people
    for label, own in PEOPLE.iterrows():
        if not told.loc[label, "accepted"]:
            assert told.loc[label, "settled"]
            assert told.loc[label, "exists"] == by_hand(own, bar), label
