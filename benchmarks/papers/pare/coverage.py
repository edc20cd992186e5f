"""Does the PAC guarantee hold as often as it says? Redraws of the calibration set, simulated and real."""

from __future__ import annotations

import numpy as np
from ledger import Outcome

from pare.people import bail_as_published
from pare.runs import ATTAIN, LAM, Workshop
from turnabout.errors import TrainingError
from turnabout.train import compare, pac_rank, pac_threshold

EPSILON = ALPHA = 0.05


def simulated(redraws: int) -> Outcome:
    """Uniform scores, and scores with many ties: share of redraws in which more than epsilon fall short."""
    out, rng = Outcome(), np.random.default_rng(0)
    for n in (59, 100, 500, 735, 6012):
        k = pac_rank(n, EPSILON, ALPHA)
        assert k is not None
        cut = np.concatenate([np.partition(rng.random((25, n)), k, axis=1)[:, k] for _ in range(redraws // 25)])
        out.figures[f"pac.failure_rate_n{n}"] = (float((cut > EPSILON).mean()), redraws)
    out.figures["pac.failure_rate"] = out.figures["pac.failure_rate_n500"]
    k = pac_rank(500, EPSILON, ALPHA)
    levels = np.array([0.0, 0.01, 0.03, 0.04, 0.07, 0.2, 0.5])  # P(score < level) of scores 0 to 6
    draws = np.searchsorted(levels, rng.random((redraws, 500)), side="right") - 1
    tied = np.sort(draws, axis=1)[:, k]
    out.figures["pac.failure_rate_tied"] = (float((levels[tied] > EPSILON).mean()), redraws)
    try:
        pac_threshold(np.linspace(0, 1, 58), EPSILON, ALPHA)
        refused = 0.0
    except TrainingError as error:
        refused = 1.0
        out.notes.append(f"58 people: {error.message}")
    out.figures["pac.n58_refused"] = (refused, 58)
    out.figures["pac.n59_k"] = (float(pac_threshold(np.linspace(0, 1, 59), EPSILON, ALPHA).k), 59)
    return out


def real(workshop: Workshop, name: str, redraws: int) -> Outcome:
    """One network; its unseen people are the population, calibration sets of 500 are drawn from it anew."""
    t = workshop.main(name, LAM, 0)
    rows = np.concatenate([t.calibration, t.test])
    own, reached = t.scores(rows), t.reached(rows)
    truth = t.truth(rows)
    rng = np.random.default_rng(1)
    out, fails, cuts = Outcome(), {"paper": 0, "tighter": 0}, {"paper": [], "tighter": []}
    k = pac_rank(500, EPSILON, ALPHA)
    f1: dict[str, list[float]] = {"paper": [], "tighter": []}
    for _ in range(redraws):
        drawn = rng.integers(0, len(rows), 500)
        for label, scores in (("paper", reached), ("tighter", np.maximum(own, reached))):
            cut = np.sort(scores[drawn])[k]
            cuts[label].append(cut)
            fails[label] += (np.maximum(own, reached) < cut).mean() > EPSILON
            yes = own >= cut
            f1[label].append(2 * (yes & truth).sum() / (yes.sum() + truth.sum()))
    for label in fails:
        out.figures[f"pac.{name}.failure_rate_{label}"] = (fails[label] / redraws, redraws)
        out.figures[f"pac.{name}.f1_{label}"] = (float(np.mean(f1[label])), redraws)
    lower = float((np.array(cuts["tighter"]) < np.array(cuts["paper"])).mean())
    out.figures[f"pac.{name}.tighter_is_lower"] = (lower, redraws)
    return out


def shift(workshop: Workshop) -> Outcome:
    """Bail as published: calibrated on the cohort of 1978, used on the paper's test file, which is of 1980."""
    t = workshop.main("bail", LAM, 0)
    calibration = t.people(t.calibration)
    scores = np.maximum(t.scores(t.calibration), t.reached(t.calibration))
    cut = pac_threshold(scores, EPSILON, ALPHA).threshold
    _, (people, _) = bail_as_published()
    people = people.iloc[:3000]
    own = t.pare.score_of(people)
    reached = np.maximum(own, t.pare.score_of(t.pare.attain(people, ATTAIN)))
    report = compare(calibration, people, t.study.schema)
    out = Outcome(notes=[str(report)])
    follow = next(column for column in report.columns if column.column == "follow")
    out.figures["bail.shift.follow_z"] = (follow.z, len(people))
    out.figures["bail.shift.warned"] = (float(bool(report)), len(people))
    out.figures["bail.shift.recourse_all"] = (float((reached >= cut).mean()), len(people))
    halves = compare(t.people(t.calibration), t.people(t.test), t.study.schema)
    out.figures["bail.shift.warned_without_shift"] = (float(bool(halves)), len(t.test))
    return out
