"""Tables 1 to 4 and 6: quality and recourse of one network on its own test people."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from ledger import Outcome

import turnabout as ta
from pare.people import Study
from pare.runs import ATTAIN, LAMS, Trained, Workshop, problem, quality
from turnabout.audit import existence, recourse_rates, recourse_under_noise
from turnabout.audit.disparity import disparity, threshold_at_precision
from turnabout.audit.robustness import classifier_two_sample, deepfool, model_under_noise, natural
from turnabout.errors import TrainingError
from turnabout.train import LinearStep, calibrate, pac_rank

METHODS = {
    "one_step": ta.methods.OneStep(),
    "gradient": ta.methods.Wachter(rounds=10),
    "linear": ta.methods.LinearApproximation(),
}
LINEAR_PEOPLE = 100  # an integer program for each
NOISE = 0.1  # standard deviations
SENSIBLE = {"adult": ("hours_per_week", 1), "compas": ("priors_count", -1), "bail": ("rule", -1)}  # more or less


def tables(workshop: Workshop, name: str, lam: float, seed: int, most: int) -> Outcome:
    """All figures of one network; `most` test people for those that need a search."""
    trained = workshop.main(name, lam, seed)
    prefix = name if lam else f"{name}.baseline"
    out = Outcome()
    _at_f1max(out, trained, prefix, most)
    _guaranteed(out, trained, prefix)
    if trained.study.white is not None:
        _disparity(out, trained, prefix, most)
    return out


def legacy(workshop: Workshop, most: int) -> Outcome:
    """German with the label of the released code, where the bad payers are the positive class."""
    study = workshop.study("german")
    turned = Study("german", study.people, ~study.accepted, study.schema, study.reach, None)
    found: dict[str, list[float]] = {}
    for t in workshop.trained(turned, LAMS):
        prefix = "german_legacy.f1max" if t.pare.lam else "german_legacy.baseline.f1max"
        cut, own = t.f1max, t.scores(t.test[:most])
        kind = quality(own >= cut, t.truth(t.test[:most]))
        found.setdefault(f"{prefix}.f1", []).append(kind["f1"])
        found.setdefault(f"{prefix}.accuracy", []).append(kind["accuracy"])
        found.setdefault(f"{prefix}.recourse_all_exact", []).append(float((t.reached(t.test[:most]) >= cut).mean()))
    return Outcome({name: (values, min(most, 150)) for name, values in found.items()})


def _put(out: Outcome, name: str, value: float | None, people: int) -> None:
    out.figures[name] = (float("nan") if value is None else float(value), people)


def _at_f1max(out: Outcome, trained: Trained, prefix: str, most: int) -> None:
    """Table 1, and tables 3, 4 and 6 on the same answers."""
    cut, test = trained.f1max, trained.test
    for what, value in quality(trained.scores(test) >= cut, trained.truth(test)).items():
        _put(out, f"{prefix}.f1max.{what}", value, len(test))
    _put(out, f"{prefix}.f1max.threshold", cut, len(trained.selection))
    asked = problem(trained, cut)
    people = trained.people(test[:most])
    answers = {}
    for label, method in METHODS.items():
        mine = people.iloc[:LINEAR_PEOPLE] if label == "linear" else people
        answers[label] = answer = method.clone().fit(asked).find(mine)
        rates = recourse_rates(answer)
        _put(out, f"{prefix}.f1max.recourse_refused_{label}", rates.refused.value, rates.refused.n)
        _put(out, f"{prefix}.f1max.recourse_all_{label}", rates.everyone.value, rates.everyone.n)
    exists = existence(asked, people, points=33)
    _put(out, f"{prefix}.f1max.recourse_refused_exact", exists.refused.value, exists.refused.n)
    _put(out, f"{prefix}.f1max.recourse_all_exact", exists.everyone.value, exists.everyone.n)
    _put(out, f"{prefix}.gradient_finds_of_existing", exists.found_by(answers["gradient"]).value, exists.refused.n)
    _robustness(out, asked, people, answers, prefix)
    _full_step_noise(out, trained, asked, people, prefix)
    _sense(out, trained, asked, people, prefix)
    rows = answers["gradient"].options
    told = classifier_two_sample(trained.people(test), rows, trained.study.schema, seed=trained.pare.seed)
    for kind, rate in told.accuracy.items():
        _put(out, f"{prefix}.told_apart.{kind}", rate.value, rate.n)
    if trained.pare.seed == 0:
        changes = answers["gradient"].changes()
        out.data["example"] = changes.head(2).to_dict("records") if len(changes) else []


def _robustness(out: Outcome, asked: ta.Problem, people: Any, answers: dict[str, ta.Recourse], prefix: str) -> None:
    """Table 4 and appendix B.1."""
    for label in ("gradient", "one_step"):
        rate = recourse_under_noise(asked, answers[label], deviations=NOISE, draws=20)
        _put(out, f"{prefix}.noise.recourse_{label}", rate.value, rate.n)
    rate = model_under_noise(asked, people, deviations=NOISE, draws=20)
    _put(out, f"{prefix}.noise.model", rate.value, rate.n)
    turns = deepfool(asked, people)
    _put(out, f"{prefix}.noise.deepfool_0.1", turns.survives(0.1).value, len(people))
    moved = natural(asked, people)
    _put(out, f"{prefix}.noise.natural", moved.typical.value, moved.typical.n)
    _put(out, f"{prefix}.noise.natural_worst", moved.worst.value, moved.worst.n)


def _full_step_noise(out: Outcome, trained: Trained, asked: ta.Problem, people: pd.DataFrame, prefix: str) -> None:
    """Table 4 for the whole step, as the paper has it: options of the library are walked back to the boundary, where
    half of all slips fall short."""
    schema = trained.study.schema
    refused = people[asked.judge(people) < 0]
    rows = trained.pare.attain(refused, LinearStep())
    x = schema.encode(rows[asked.judge(rows) >= 0]) if len(rows) else torch.zeros(0, schema.d)
    columns = [schema.slices[schema.index(name)].start for name in trained.study.reach]
    sd = asked.background_x[:, columns].std(0)  # type: ignore[index]
    noise = torch.as_tensor(np.random.default_rng(0).normal(size=(20, len(x), len(columns)))) * NOISE * sd
    shaken = x.expand(20, -1, -1).clone()
    shaken[..., columns] += noise
    share = float((asked.margin(shaken) >= 0).double().mean()) if len(x) else None
    _put(out, f"{prefix}.noise.recourse_whole_step", share, len(x))


def _sense(out: Outcome, trained: Trained, asked: ta.Problem, people: pd.DataFrame, prefix: str) -> None:
    """Whether the best changes make sense: who goes half as far again should not be refused for it (overdone), and
    nobody should be told to offend more or to work less (perverse)."""
    refused = people[asked.judge(people) < 0]
    rows = trained.pare.attain(refused, ATTAIN)
    granted = asked.judge(rows) >= 0 if len(rows) else np.zeros(0, dtype=bool)
    x, x_new = trained.study.schema.encode(refused[granted]), trained.study.schema.encode(rows[granted])
    share = float((asked.margin(x + 1.5 * (x_new - x)) < 0).double().mean()) if len(x) else None
    _put(out, f"{prefix}.f1max.overdone", share, len(x))
    if (way := SENSIBLE.get(trained.study.name)) is not None:
        column, sign = way
        change = (rows[column] - refused[column])[granted] * sign
        _put(out, f"{prefix}.f1max.perverse", float((change < 0).mean()) if len(change) else None, len(change))


def _guaranteed(out: Outcome, trained: Trained, prefix: str) -> None:
    """Table 2: thresholds with a guarantee, at epsilon = alpha = 0.05 and 0.25."""
    people, test = trained.people(trained.calibration), trained.test
    own, one = trained.scores(test), trained.reached(test, LinearStep())
    best = np.maximum(own, trained.reached(test))

    def best_of_grid(rows: pd.DataFrame) -> pd.DataFrame:
        return trained.pare.attain(rows, ATTAIN)

    for label, level in (("pare", 0.05), ("pare25", 0.25)):
        try:
            paper = calibrate(
                trained.pare, people, trained.pare.attain, epsilon=level, alpha=level, tighter=False, used_on=None
            )
            certificate = calibrate(trained.pare, people, best_of_grid, epsilon=level, alpha=level)
        except TrainingError as refusal:  # too few people
            out.notes.append(f"{prefix}.{label}: {refusal.message}")
            continue
        cut = trained.threshold_below(certificate.threshold)
        for what, value in quality(own >= cut, trained.truth(test)).items():
            _put(out, f"{prefix}.{label}.{what}", value, len(test))
        _put(out, f"{prefix}.{label}.threshold", cut, certificate.n)
        _put(out, f"{prefix}.{label}.most", certificate.threshold, certificate.n)
        _put(out, f"{prefix}.{label}.most_corners_alone", paper.threshold, paper.n)
        _put(out, f"{prefix}.{label}.recourse_all", float((best >= cut).mean()), len(test))
        _put(out, f"{prefix}.{label}.recourse_all_one_step", float((np.maximum(own, one) >= cut).mean()), len(test))
        refused = own < cut
        share = float((best[refused] >= cut).mean()) if refused.any() else None
        _put(out, f"{prefix}.{label}.recourse_refused", share, int(refused.sum()))
        _put(out, f"{prefix}.{label}.refused", float(refused.mean()), len(test))
        if label == "pare" and trained.pare.seed == 0:
            out.data["certificate"] = str(certificate)
            out.data["k"] = pac_rank(certificate.n)


def _disparity(out: Outcome, trained: Trained, prefix: str, most: int) -> None:
    """Appendix B.3: recourse among all, white minus other, at the threshold of precision 0.65."""
    cut = threshold_at_precision(trained.scores(trained.selection), trained.truth(trained.selection), 0.65)
    if not 0 < cut < 1:
        out.notes.append(f"{prefix}: no threshold inside (0, 1) has a precision near 0.65.")
        return
    asked, rows = problem(trained, cut), trained.test[:most]
    assert trained.study.white is not None
    white = np.where(trained.study.white[rows], "white", "other")
    answer = ta.methods.Wachter().fit(asked).find(trained.people(rows))
    gap = disparity(answer, white, of="white", against="other")
    _put(out, f"{prefix}.disparity.recourse_all", gap.everyone.value, len(rows))
