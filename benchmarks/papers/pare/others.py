"""Cells of the two studies beside tables: sentences with discrete changes, and ensembles of trees."""

from __future__ import annotations

from ledger import Outcome

from pare import sentiment, trees
from pare.people import load

NAMES = {
    "f1": "f1max.f1",
    "accuracy": "f1max.accuracy",
    "recourse_neg": "f1max.recourse_refused",
    "recourse_all": "f1max.recourse_all",
    "overdone": "f1max.overdone",
    "pac_f1": "pare.f1",
    "pac_all": "pare.recourse_all",
    "seconds": "seconds",
}


def sentences(seeds: int, small: bool) -> Outcome:
    """Table 5: lambda 0, 0.25 and 1."""
    found = sentiment.study(range(seeds), small)
    out = Outcome(data={"examples": found["examples"]})
    for lam, measures in found["table"].items():
        prefix = {0.0: "sentiment.baseline", 0.25: "sentiment"}.get(lam, f"sentiment.lam{lam:g}")
        for measure, values in measures.items():
            out.figures[f"{prefix}.{measure}"] = (values, found["people"])
    out.notes = [str(example) for example in found["examples"]]
    return out


def granting(name: str, full: bool) -> Outcome:
    """Ensembles of trees: plain, granting, granting without monotone constraints, and two simpler ideas."""
    found = trees.study(name, range(5) if full else range(1), 5 if full else 1)
    out, people = Outcome(), int(0.15 * min(trees.PEOPLE, len(load(name).people)))
    for variant, measures in found.items():
        for measure, values in measures.items():
            if measure in NAMES:
                out.figures[f"trees.{name}.{variant.replace(' ', '_')}.{NAMES[measure]}"] = (values, people)
    return out
