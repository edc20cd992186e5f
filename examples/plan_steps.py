"""Steps that lead one refused applicant to a loan: five actions with prices, conditions and times.

Run it as `python examples/plan_steps.py`.
"""

from __future__ import annotations

from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import turnabout as ta
from turnabout.actions import Absolute, KeepRatio, Set, Shift, Squared, new, old
from turnabout.render import write_plan

train, test = ta.datasets.load("german").split()
columns = make_column_transformer(
    (StandardScaler(), make_column_selector(dtype_include="number")),
    (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
)
classifier = make_pipeline(columns, LogisticRegression(max_iter=2000)).fit(train.people, train.accepted)

actions = ta.ActionSet(
    [
        ta.Action(
            "BorrowLess",
            effect=[Shift("amount", by="DM"), KeepRatio("duration", "amount")],  # the same instalment a month
            cost=4 * Squared("amount", relative=True),
            precondition=[new("amount") < old("amount")],
            label="borrow less, at the same instalment a month",
        ),
        ta.Action(
            "RepayFaster",
            effect=Shift("duration", by="months"),
            cost=Absolute("duration", per=12),
            precondition=[new("duration") < old("duration"), old("employment_duration") != "unemployed"],
            label="repay sooner",
        ),
        ta.Action(
            "FindWork",
            effect=Set("employment_duration", "below 1 year"),
            cost=2,
            precondition=old("employment_duration") == "unemployed",
            duration=6,
            label="find work",
        ),
        ta.Action(
            "SaveMoney",
            effect=Shift("savings", by="levels"),
            cost=Absolute("savings"),
            precondition=[new("savings") > old("savings"), old("employment_duration") != "unemployed"],
            duration=6 * (new("savings") - old("savings")),
            label="put money aside",
        ),
        ta.Action(
            "FindGuarantor",
            effect=Set("other_debtors", "guarantor"),
            cost=1.5,
            precondition=old("other_debtors") == "none",
            duration=1,
            label="find a guarantor",
        ),
    ],
    time_unit="months",
)

problem = ta.Problem(train.schema, ta.models.wrap(classifier, train.schema, background=train.people), actions=actions)
applicant = test.people.loc[[252]]
answer = ta.methods.ActionSequences(max_steps=3).fit(problem).find(applicant, options=3)

print(write_plan(answer, 252, problem=problem))
print(answer.plans[["steps", "cost", "duration"]].round(3).to_string())
