"""How near the plans are to the cheapest there is: proven lower bounds."""

from __future__ import annotations

import numpy as np
import torch
from ledger import Outcome

from action_sequences.answers import Answers
from turnabout.core.plan import PlanColumns
from turnabout.methods.action_sequences import ActionSequences
from turnabout.methods.sequences.certificate import CertificateTask, certify
from turnabout.methods.sequences.sequence_set import as_tensor

GAP = 0.005


def certified(answers: Answers, name: str, count: int, time_limit: float, length: int = 4) -> Outcome:
    """Lower bounds over all sequences of at most four actions, for the first `count` people who have a plan."""
    problem = answers.problem(name)
    actions = problem.actions
    plans = answers.get(name, length, 0).answer.plans["cost"].droplevel("option").iloc[:count]
    x = problem.schema.encode(answers.asked(name).loc[plans.index])
    method = ActionSequences(max_steps=length).fit(problem)
    sequences = as_tensor(method.sequences_.up_to(length), length)
    lo, hi = (actions.tables.units(side) for side in problem.bounds(x))
    ground = PlanColumns.of(problem.schema, actions, x.device)
    upper = torch.tensor(plans.tolist(), dtype=torch.float64)
    printed = {"grid": ground.step, "leads": ground.lead, "noise": problem.model.noise}
    task = CertificateTask(problem.model, actions.tables, x, sequences, lo, hi, **printed)
    proof = certify(task, upper, GAP, time_limit)
    gap = 1 - (proof.lower_bound / upper).numpy()
    n = len(plans)
    figures = {
        f"{name}.certified_share": (100 * float((gap <= GAP).mean()), n),
        f"{name}.certificate_seconds": (proof.seconds / n, n),  # for each person, all of them together
        f"{name}.certificate_seconds_total": (proof.seconds, n),
        f"{name}.certified_mean_gap": (float(gap.mean()), n),
        f"{name}.certified_worst_gap": (float(gap.max()), n),
    }
    open_ones = [str(person) for person, g in zip(plans.index, gap) if g > GAP]
    data = {"gap": np.round(gap, 6).tolist(), "how": sorted(set(proof.how)), "boxes": proof.boxes}
    return Outcome(figures, data, [f"not proved within {GAP:.1%}: {', '.join(open_ones)}"] if open_ones else [])
