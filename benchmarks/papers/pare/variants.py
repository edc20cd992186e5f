"""What our choices change: the network, the search of Delta in training, what counts as advice, who is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
from ledger import Outcome

import turnabout as ta
from pare.runs import ATTAIN, Workshop, problem, quality
from turnabout.audit.robustness import classifier_two_sample
from turnabout.train import LinearStep, ProjectedSteps, pac_threshold

RELEASED = {"hidden": (100, 100), "activation": "relu"}
VARIANTS: dict[str, dict[str, Any]] = {
    "main": {},  # as in the tables, on the same people as the others
    "one_step": {"inner": LinearStep()},  # the paper's training to the letter
    "projected": {"inner": ProjectedSteps(3)},
    "relu": RELEASED,
    "relu_one_step": {**RELEASED, "inner": LinearStep()},
    "refused_only": {"refused_only": True},
    "unweighted": {"class_weight": None},
    "real": {},  # whole numbers, real bounds, sensible directions
}


def variant(workshop: Workshop, name: str, label: str, most: int) -> Outcome:
    """Fast figures of one variant, lambda 0 and 0.8."""
    study = workshop.study(name, real=label == "real")
    found: dict[str, list[float]] = {}
    models = workshop.trained(study, (0.0, 0.8), **VARIANTS[label])
    for t in models:
        prefix = f"{name}.variant.{label}" + ("" if t.pare.lam else ".baseline")
        test, cut = t.test[:most], t.f1max
        own, best = t.scores(test), t.reached(test)
        scores = np.maximum(t.scores(t.calibration), t.reached(t.calibration, ATTAIN))
        guaranteed = t.threshold_below(pac_threshold(scores).threshold)
        for part, at in (("f1max", cut), ("pare", guaranteed)):
            kind = quality(own >= at, t.truth(test))
            refused = own < at
            values = {"f1": kind["f1"], "accuracy": kind["accuracy"], "recourse_all": float((best >= at).mean())}
            values["recourse_refused"] = float((best[refused] >= at).mean()) if refused.any() else float("nan")
            for what, value in values.items():
                found.setdefault(f"{prefix}.{part}.{what}", []).append(value)
        if label == "real" and t.pare.lam:
            answer = ta.methods.Wachter(rounds=10).fit(problem(t, cut)).find(t.people(t.test[:500]))
            told = classifier_two_sample(t.people(t.test), answer.options, study.schema, seed=t.pare.seed)
            for kind_of, rate in told.accuracy.items():
                value = float("nan") if rate.value is None else rate.value
                found.setdefault(f"{prefix}.told_apart.{kind_of}", []).append(value)
    return Outcome({key: (values, len(models[0].test[:most])) for key, values in found.items()})
