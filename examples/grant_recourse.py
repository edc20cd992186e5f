"""A credit model that leaves refused people a way, the promise that goes with it, and what three of them are told.

Run it as `python examples/grant_recourse.py`.
"""

from __future__ import annotations

import turnabout as ta
from turnabout.rules import Box
from turnabout.train import Pare, best_threshold, calibrate

train, rest = ta.datasets.load("german").split(test=0.4, seed=0)
calibration, test = rest.split(test=0.5, seed=1)
region = Box({"duration": 12, "amount": 1500})  # what an applicant may change: months and DM

model = Pare(train.schema, region, lam=0.4, epochs=30, seed=0).fit(train.people, train.accepted)
certificate = calibrate(model, calibration.people, epsilon=0.1, alpha=0.05)
print(certificate)

chosen = model.held_out_  # rows set aside in training choose the threshold; calibration people only bound it
model.threshold = best_threshold(
    model.score_of(train.people.loc[chosen]),
    train.accepted.loc[chosen],
    at_most=certificate.threshold,
    measure="accuracy",
)
problem = ta.Problem(train.schema, model.model(), rules=[region], background=train.people)
method = ta.methods.Wachter().fit(problem)
everyone = method.find(test.people)
print(f"accuracy {model.score(test.people, test.accepted):.3f}")
print(ta.audit.recourse_rates(everyone))
print("lost by doing more than asked:", ta.audit.overshoot(problem, everyone))

found = everyone.options.index.get_level_values("person").unique()[:3]
answer = method.find(test.people.loc[found])
print(answer.changes().to_string(index=False))
