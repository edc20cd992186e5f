"""Is it safe to offer recourse? One lender's audit before the first letter goes out, and the remedy.

Run it as `python examples/before_offering.py`.
"""

from __future__ import annotations

from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import turnabout as ta

train, rest = ta.datasets.load("german").split(test=0.6)
known, test = rest.split(test=0.75, seed=1)  # the model learns from none of these
columns = make_column_transformer(
    (StandardScaler(), make_column_selector(dtype_include="number")),
    (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
)
classifier = make_pipeline(columns, LogisticRegression(max_iter=2000)).fit(train.people, train.accepted)
model = ta.models.wrap(classifier, train.schema, threshold=0.6, background=train.people)
problem = ta.Problem(train.schema, model, background=train.people, labels=train.accepted)
method = ta.methods.ExactLinear().fit(problem)

# Who would be wrongly accepted or refused, before and after, if four of five people really improve?
plain = method.find(test.people)
report = ta.audit.risk_of_recourse(model, test.people, test.accepted, plain, compliance=0.8, gain=1, loss=4)
print(report, end="\n\n")

# The remedy: land where people are likely to repay, not where the model just says yes. What does it cost them?
deeper = ta.landing.Mirror(eta=ta.landing.Calibration.of(model, known.people, known.accepted))
print(ta.audit.price_of_landing(plain, method.find(test.people, landing=deeper)), end="\n\n")

# One refused applicant: why, what they can do, and how firm that is.
applicant = test.people.loc[[plain.options.index[0][0]]]
answer = method.find(applicant, options=3, landing=ta.landing.Probability(0.75))
why = ta.explain.ExactShapley().explain(model, applicant, background=train.people)
print(ta.explain.reasons(answer, problem, attribution=why).of(applicant.index[0]))
print(answer.of(applicant.index[0]))
