"""Plans of actions before a model that raises on a level training never had."""

from __future__ import annotations

import pandas as pd

import turnabout as ta


def test_a_level_on_which_the_model_raises_is_not_asked_about():
    schema = ta.Schema([ta.Category("city", ("Ulm", "Köln", "Bonn")), ta.Number("income", 0, 10, step=1)])
    background = pd.DataFrame({"city": ["Ulm", "Köln"] * 10, "income": [float(i % 11) for i in range(20)]})

    def bank(rows):
        if (rows.city == "Bonn").any():
            raise ValueError("Bonn is not known")
        return (rows.income.to_numpy(dtype=float) + 2 * (rows.city == "Köln").to_numpy()) / 14

    model = ta.models.wrap(bank, schema, background=background)
    problem = ta.Problem(schema, model, background=background, actions=ta.ActionSet.draft(schema))
    people = pd.DataFrame({"city": ["Ulm", "Köln"], "income": [2.0, 3.0]})
    answer = ta.methods.ActionSequences.small().fit(problem).find(people)
    assert answer.counts()["FOUND"] == 2
    assert (bank(answer.options) >= 0.5).all()
