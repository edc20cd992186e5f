"""The lecture's Gaussian study: one replay with the old generator, the population, and landing deeper."""

from __future__ import annotations

import numpy as np
from ledger import Outcome

from turnabout.audit.risk.excess import break_even, excess_risk
from turnabout.studies.gaussian.gaussians import Gaussians
from turnabout.studies.strategic.response import strategic_response
from turnabout.studies.strategic.threshold_lines import GaussianLine


def study(people: int) -> Outcome:
    """Risk before and after recourse; what landing deeper mends, and what it costs."""
    known, out = Gaussians(), Outcome()
    replay = known.legacy_sample()
    refused = known.margin(replay.x) < 0
    wrong = (known.margin(replay.x) >= 0) != replay.y
    after = np.where(refused, replay.fresh < known.eta(known.project(replay.x)), replay.y)
    out.figures["gaussian.before"] = (float(wrong.mean()), len(replay.y))
    out.figures["gaussian.after"] = (float(np.where(refused, ~after, wrong).mean()), len(replay.y))

    draw = known.sample(people, seed=0)
    eta0, refused = known.eta(draw.x), known.margin(draw.x) < 0
    wrong = (known.margin(draw.x) >= 0) != draw.y
    at_boundary = known.eta(known.project(draw.x))
    compliant = np.where(refused, draw.fresh >= at_boundary, wrong)
    defiant = np.where(refused, ~draw.y, wrong)
    for name, values in (("before", wrong), ("compliant", compliant), ("defiant", defiant)):
        out.figures[f"gaussian.population.{name}"] = (float(values.mean()), people)

    neutral = 1 - known.bayes_risk
    for name, p in (("boundary", 0.5), ("at70", 0.7), ("at90", 0.9), ("neutral", neutral), ("mirror", None)):
        new = known.mirror(draw.x) if p is None else known.project(draw.x, p)
        eta1 = known.eta(new)
        moved = refused.astype(float)
        cost = np.linalg.norm(new - draw.x, axis=1)[refused]
        delta = excess_risk(eta0, eta1, moved, 1.0).mean()
        out.figures[f"gaussian.{name}.delta"] = (float(delta), people)
        out.figures[f"gaussian.{name}.after"] = (known.bayes_risk + float(delta), people)
        out.figures[f"gaussian.{name}.break_even"] = (float(break_even(eta0, eta1, moved) or np.nan), people)
        out.figures[f"gaussian.{name}.cost"] = (float(cost.mean()), int(refused.sum()))
        out.figures[f"gaussian.{name}.landing"] = (float(eta1[refused].mean()), int(refused.sum()))
    return out


def strategic() -> Outcome:
    """What a lender that only looks at its own risk would do; exact, so there are no people behind these figures."""
    known, out = Gaussians(), Outcome()
    line = GaussianLine(known.normal_mean, known.normal_sd)
    for distance in (0.5, 1.0, 2.0):
        answer = strategic_response(line, distance)
        name = f"strategic.D{distance:g}"
        for kind, response in (("compliant", answer.compliant), ("defiant", answer.defiant)):
            for which in ("stay", "shift", "best"):
                value = getattr(response, which).risk.value
                out.figures[f"{name}.{which}.{kind}"] = (float(value), 0)
        best = answer.compliant
        out.figures[f"{name}.best.shift"] = (best.best_shift, 0)
        out.figures[f"{name}.shift.newly_forced"] = (float(best.shift.newly_forced.value), 0)
        out.figures[f"{name}.best.newly_forced"] = (float(best.best.newly_forced.value), 0)
        out.figures[f"{name}.best.approved"] = (float(best.best.approved.value), 0)
    return out
