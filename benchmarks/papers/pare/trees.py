"""Can tree ensembles be trained to grant recourse, and what does it cost? Beyond Ross, Lakkaraju and Bastani (2021).

Six ways are compared on the paper's data. "plain" is gradient boosting; "plain monotone" the same with scores that only
rise or fall along what people may change. "granting" is `train.GrantingTrees`, monotone; "granting free" the same
without the constraint. Two rivals refit the monotone trees once: "weights" counts people who were accepted for more
the less they could attain under the plain trees; "relabel" calls accepted the fifth of the refused who could attain
most. Recourse is exact: every cell between the trees' cuts is looked into.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from pare.people import Study, load
from pare.runs import quality
from turnabout.schema import Number
from turnabout.train import GrantingTrees, best_threshold, calibrate

LAM = 0.8
PEOPLE = 8000  # at most, drawn anew for each seed
SHARES = (0.70, 0.15)  # training and calibration; the rest is the test
VARIANTS = ("plain", "plain monotone", "granting", "granting free", "weights", "relabel")


def study(
    name: str,
    seeds: Sequence[int] = range(5),
    rounds: int = 5,
) -> dict[str, dict[str, list[float]]]:
    """{variant: {measure: one value for each seed}} on one data set.

    Measures, on test people: f1, accuracy, refused (a share), recourse_neg, recourse_all at the threshold of highest F1
    on the calibration people; overdone: of those with recourse, the share who would lose it by going on to the end of
    Delta in the same direction; pac_f1, pac_all, pac_threshold under a guarantee at .05 and .05; seconds of training.
    """
    data = load(name)
    out: dict[str, dict[str, list[float]]] = {variant: {} for variant in VARIANTS}
    for seed in seeds:
        rows = np.random.default_rng(seed).permutation(len(data.people))[:PEOPLE]
        train, calibration, test = np.split(rows, (np.cumsum(SHARES) * len(rows)).astype(int))
        for variant in VARIANTS:
            start = perf_counter()
            model = _train(variant, data, train, rounds, int(seed))
            seconds = perf_counter() - start
            measures = _measure(model, data, calibration, test) | {"seconds": seconds}
            for measure, value in measures.items():
                out[variant].setdefault(measure, []).append(float(value))
    return out


def _train(variant: str, data: Study, rows: np.ndarray, rounds: int, seed: int) -> GrantingTrees:
    people, accepted = data.people.iloc[rows], data.accepted[rows]
    lam = LAM if variant.startswith("granting") else 0.0
    monotone = variant not in ("plain", "granting free")
    model = GrantingTrees(data.schema, data.region, lam=lam, rounds=rounds, monotone=monotone, seed=seed)
    model.fit(people, accepted)
    if variant in ("weights", "relabel"):
        attained = model.score_of(model.attain(people))
        if variant == "weights":
            weight = np.where(accepted, 1 + LAM * (1 - attained) / (1 - attained).mean(), 1.0)
            model.estimator_.fit(people, accepted, sample_weight=weight)
        else:
            near = ~accepted & (attained >= np.quantile(attained[~accepted], 0.8))
            model.estimator_.fit(people, accepted | near)
    return model


def _measure(model: GrantingTrees, data: Study, calibration: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    people, accepted = data.people.iloc[test], data.accepted[test]
    others, others_accepted = data.people.iloc[calibration], data.accepted[calibration]
    reached = model.attain(people)
    own, best = model.score_of(people), model.score_of(reached)
    scores = model.score_of(others)
    threshold = best_threshold(scores, others_accepted)
    yes, granted = own >= threshold, (own < threshold) & (best >= threshold)
    beyond = model.score_of(_to_the_end(people, reached, data))
    certificate = calibrate(model, others)
    promised = best_threshold(scores, others_accepted, at_most=certificate.threshold)
    return {
        "f1": quality(yes, accepted)["f1"],
        "accuracy": quality(yes, accepted)["accuracy"],
        "refused": (~yes).mean(),
        "recourse_neg": granted.sum() / max(1, (~yes).sum()),
        "recourse_all": (yes | granted).mean(),
        "overdone": (granted & (beyond < threshold)).sum() / max(1, granted.sum()),
        "pac_threshold": certificate.threshold,
        "pac_f1": quality(own >= promised, accepted)["f1"],
        "pac_all": (np.maximum(own, best) >= promised).mean(),
    }


def _to_the_end(people: pd.DataFrame, reached: pd.DataFrame, data: Study) -> pd.DataFrame:
    """The rows of people who go as far as they may in the direction of their best change."""
    out = reached.copy()
    for column, reach in data.reach.items():
        feature = data.schema[column]
        assert isinstance(feature, Number)
        way = np.sign(reached[column].to_numpy(dtype=float) - people[column].to_numpy(dtype=float))
        end = np.clip(people[column].to_numpy(dtype=float) + way * reach, feature.low, feature.high)
        out[column] = np.where(way == 0, people[column], end)
    return out
