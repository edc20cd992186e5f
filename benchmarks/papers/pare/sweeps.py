"""Figures 1, 3 and 4: how things change with lambda and with the size of Delta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from ledger import Outcome

import turnabout as ta
from pare.runs import ATTAIN, Trained, Workshop, quality
from turnabout.audit import recourse_rates
from turnabout.intervals import mean_interval
from turnabout.rules import Box, StructuralEquations
from turnabout.schema import Number
from turnabout.train import LinearStep

LAMS = tuple(round(0.2 * k, 1) for k in range(11))
SIZES = (0.25, 0.5, 0.75, 1.0, 1.5)


def by_lambda(workshop: Workshop, name: str, lams: tuple[float, ...], most: int) -> Outcome:
    """Figure 1: quality and recourse at the threshold of highest F1."""
    models = workshop.trained(workshop.study(name), lams)
    rows = [{"lam": t.pare.lam} | _fast(t, most) for t in models]
    out = _summed(f"{name}.sweep", "lam", rows, len(models[0].test[:most]))
    if (key := (name, len(models))) in workshop.seconds:
        label = f"{name}.stack_of_{len(models)}_seconds_{workshop.device}"
        out.figures[label] = (workshop.seconds[key], len(models[0].study.people))
    return out


def by_size(workshop: Workshop, sizes: tuple[float, ...], seeds: int, most: int) -> Outcome:
    """Figure 4: Adult with smaller and larger Delta, lambda 0 and 0.8."""
    rows: list[dict[str, Any]] = []
    study = workshop.study("adult")
    for size in sizes:
        for t in workshop.trained(study, (0.0, 0.8), seeds, region=study.box(size)):
            label = "ours" if t.pare.lam else "baseline"
            rows.append({"delta_max": size} | {f"{label}.{what}": v for what, v in _fast(t, most).items()})
    return _summed("adult.delta_max", "delta_max", rows, min(most, int(0.15 * len(study.people))))


def causal(workshop: Workshop, lams: tuple[float, ...], most: int) -> Outcome:
    """Figure 3: recourse among the refused of German when consequences follow: amount from status and age, duration
    from amount, by least squares; age and amount are acts, each within 0.75 deviations."""
    study = workshop.study("german")
    free = ta.Schema(
        tuple(
            Number(f.name, f.low, f.high, moves="free") if f.name == "duration" and isinstance(f, Number) else f
            for f in study.schema.features
        )
    )
    equations = StructuralEquations.fit(
        study.people, free, {"amount": ["status", "age"], "duration": ["amount"]}, acts=("amount",)
    )
    reach = {**study.reach, "duration": 1e3}  # what follows is bounded by its parents alone
    rows = []
    for t in workshop.trained(study, lams):
        model = ta.models.wrap(t.pare.module_, free, t.f1max, output="logit")
        asked = ta.Problem(free, model, cost=equations.price(ta.costs.L1()), rules=[Box(reach), equations])
        answer = ta.methods.CausalRecourse().fit(asked).find(t.people(t.test[:most]))
        rows.append({"lam": t.pare.lam, "recourse_refused": recourse_rates(answer).refused.value})
    return _summed("german.causal", "lam", rows, min(most, len(study.people) * 15 // 100))


def _fast(t: Trained, most: int) -> dict[str, float | None]:
    """F1, accuracy, and recourse by one step and by the grid, on some test people."""
    test, cut = t.test[:most], t.f1max
    own = t.scores(test)
    kind = quality(own >= cut, t.truth(test))
    out: dict[str, float | None] = {"f1": kind["f1"], "accuracy": kind["accuracy"]}
    refused = own < cut
    for label, inner in (("one_step", LinearStep()), ("exact", ATTAIN)):
        reached = np.maximum(own, t.reached(test, inner))
        out[f"recourse_all_{label}"] = float((reached >= cut).mean())
        out[f"recourse_refused_{label}"] = float((reached[refused] >= cut).mean()) if refused.any() else None
    return out


def _summed(name: str, along: str, rows: Iterable[dict[str, Any]], people: int) -> Outcome:
    """Means over seeds with intervals, as a tidy table for pictures, and as figures."""
    found: dict[tuple[float, str], list[float]] = {}
    for row in rows:
        for what, value in row.items():
            if what != along and value is not None:
                found.setdefault((row[along], what), []).append(value)
    out = Outcome(data={"along": along, "table": []})
    for (at, what), values in found.items():
        low, high = mean_interval(values) if len(values) > 1 else (float("nan"), float("nan"))
        mean = float(np.mean(values))
        out.figures[f"{name}.{at:g}.{what}"] = (values, people)
        line = {along: at, "metric": what, "value": mean, "low": low, "high": high, "seeds": len(values)}
        out.data["table"].append({k: (None if isinstance(v, float) and v != v else v) for k, v in line.items()})
    return out
