"""The published settings, step by step, on the first German person: do we come to the published cost?"""

from __future__ import annotations

from collections.abc import Callable

import torch
from ledger import Outcome

import turnabout as ta
from action_sequences.answers import Answers
from action_sequences.scan import DEVIATION, DURATION, Network, rows
from turnabout.core.run import Run
from turnabout.methods.action_sequences import ActionSequences
from turnabout.methods.sequences.carlini import Published
from turnabout.studies.domains import german_domain
from turnabout.typing import Tensor


def row_zero(answers: Answers) -> Outcome:
    """ChangeLoanPeriod for person 0, by the authors' schedule of Adam and of the weight of the decision."""
    problem = answers.problem("german")
    method = ActionSequences(max_steps=1).fit(problem)
    method.run = Run(seed=0)
    people = answers.asked("german").iloc[:1]
    solver = method._solver(problem.schema.encode(people))
    sequence = problem.actions.names.index("ChangeLoanPeriod")
    batch = solver.batch(torch.tensor([0]), torch.tensor([[sequence]]))
    logits = both_logits(rows()[0], problem.schema)
    r, cost = Published(units=((DEVIATION[DURATION],),), logits=logits).run(batch)
    months = float(people["loan_duration"].iloc[0]) + float(r[0, 0, 0])
    figures = {"german.row0_literal_cost": (float(cost[0]), 1), "german.row0_literal_loan_duration": (months, 1)}
    return Outcome(figures)


def both_logits(network: Network, schema: ta.Schema) -> Callable[[Tensor], Tensor]:
    """Encoded rows (n, 63) -> the logits of a bad and of a good risk, (n, 2)."""
    gain, shift = torch.ones(schema.d, dtype=torch.float64), torch.zeros(schema.d, dtype=torch.float64)
    for feature, place in zip(schema, schema.slices, strict=True):
        if feature.name in german_domain.SCALES:
            scale = german_domain.SCALES[feature.name]
            gain[place] = feature.span / scale.std
            shift[place] = (feature.low - scale.mean) / scale.std
    layers = [(torch.tensor(kernel), torch.tensor(bias)) for kernel, bias in network.layers]

    def logits(x: Tensor) -> Tensor:
        out = gain * x + shift
        for k, (kernel, bias) in enumerate(layers):
            out = (torch.relu(out) if k else out) @ kernel + bias
        return out[:, [1, 0]]

    return logits
