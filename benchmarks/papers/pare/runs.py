"""Splits, and networks trained on them: all seeds and weights of one data set as one stack, kept on disk."""

from __future__ import annotations

import hashlib
import pickle
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ledger import fingerprint

import turnabout as ta
from pare.people import Study, load
from turnabout.train import Corners, FineGrid, Inner, Pare, best_threshold, fit_together

LAM = 0.8
LAMS = (0.0, LAM)
# The paper's network; its batch of 15 would only be slower. Delta is searched at its corners (the paper: one step).
NETWORK: dict[str, Any] = {"hidden": (100, 100, 100), "activation": "tanh", "dropout": 0.3, "inner": Corners()}
EPOCHS = {"german": {"epochs": 50, "batch": 30}}
SHARES = (0.7, 0.85)  # training (an eighth of it for choosing epoch and threshold), calibration, test
ATTAIN = FineGrid(9)  # the rule by which people's rows are reached in calibration
CUTS = [round(0.05 * k, 2) for k in range(1, 20)]


@dataclass(frozen=True)
class Trained:
    """A network, and the people it has not seen: for calibration and for the test."""

    pare: Pare
    study: Study
    calibration: np.ndarray
    test: np.ndarray

    @property
    def selection(self) -> np.ndarray:
        return self.pare.held_out_.to_numpy()

    def people(self, rows: np.ndarray) -> pd.DataFrame:
        return self.study.people.iloc[rows]

    def truth(self, rows: np.ndarray) -> np.ndarray:
        return self.study.accepted[rows]

    def scores(self, rows: np.ndarray) -> np.ndarray:
        return self.pare.score_of(self.people(rows))

    def reached(self, rows: np.ndarray, inner: Inner = ATTAIN) -> np.ndarray:
        """Scores of the printed rows people would reach."""
        return self.pare.score_of(self.pare.attain(self.people(rows), inner))

    @cached_property
    def f1max(self) -> float:
        """The threshold of highest F1 on the rows for selection, among 0.05, ..., 0.95."""
        return best_threshold(self.scores(self.selection), self.truth(self.selection), grid=CUTS)

    def threshold_below(self, most: float) -> float:
        """The best of ten thresholds from 0 to `most`, by F1 on the rows for selection (section 4.2 of the paper)."""
        grid = np.linspace(0, most, 10).tolist()
        return best_threshold(self.scores(self.selection), self.truth(self.selection), at_most=most, grid=grid)


def parts(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows for training, calibration and test; drawn from the seed, sorted."""
    order = np.random.default_rng(seed).permutation(n)
    a, b = (int(share * n) for share in SHARES)
    return np.sort(order[:a]), np.sort(order[a:b]), np.sort(order[b:])


class Workshop:
    """Trains what is asked for, once.

    Parameters
    ----------
    folder : for the trained networks; seeds : how many; small : fewer people and epochs; device : of training.
    """

    def __init__(self, folder: Path, seeds: int, small: bool, device: str):
        self.folder, self.seeds, self.small, self.device = folder, seeds, small, device
        self.ready: dict[str, list[Trained]] = {}
        self.seconds: dict[tuple[str, int], float] = {}  # of training a stack, where this run trained it

    def study(self, name: str, real: bool = False) -> Study:
        study = load(name, real)
        if not self.small or len(study.people) <= 1500:
            return study
        rows = np.sort(np.random.default_rng(0).choice(len(study.people), 1500, replace=False))
        people = study.people.iloc[rows].reset_index(drop=True)
        white = None if study.white is None else study.white[rows]
        return Study(name, people, study.accepted[rows], study.schema, study.reach, white)

    def trained(self, study: Study, lams: tuple[float, ...], seeds: int | None = None, **changes: Any) -> list[Trained]:
        """One network for each weight and seed, weights outermost."""
        settings = {**NETWORK, **EPOCHS.get(study.name, {}), "validation": 0.125, "region": study.region} | changes
        if self.small:
            settings["epochs"] = 3
        key = (study.schema.to_json(), study.accepted.mean(), lams, seeds or self.seeds, settings, fingerprint(True))
        name = f"{study.name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}"
        if name not in self.ready:
            file = self.folder / f"{name}.pickle"
            if file.is_file():
                self.ready[name] = pickle.loads(file.read_bytes())
            else:
                self.ready[name] = self._train(study, lams, seeds or self.seeds, settings)
                file.write_bytes(pickle.dumps(self.ready[name]))
        return self.ready[name]

    def _train(self, study: Study, lams: tuple[float, ...], seeds: int, settings: dict[str, Any]) -> list[Trained]:
        cut = [parts(len(study.people), seed) for seed in range(seeds)]
        pares = [
            Pare(study.schema, lam=lam, seed=seed, device=self.device, **settings)
            for lam in lams
            for seed in range(seeds)
        ]
        rows = [cut[pare.seed] for pare in pares]
        start = time.perf_counter()
        fit_together(pares, study.people, study.accepted, [train for train, _, _ in rows])
        self.seconds[study.name, len(pares)] = time.perf_counter() - start
        return [Trained(pare, study, calibration, test) for pare, (_, calibration, test) in zip(pares, rows)]

    def main(self, name: str, lam: float, seed: int) -> Trained:
        """The network of the tables: lam = 0 or 0.8."""
        models = self.trained(self.study(name), LAMS)
        return models[LAMS.index(lam) * self.seeds + seed]


def problem(trained: Trained, threshold: float) -> ta.Problem:
    """The question put to the library's methods: the network at a threshold, within Delta."""
    study = trained.study
    seen = np.setdiff1d(np.arange(len(study.people)), np.concatenate([trained.calibration, trained.test]))
    return ta.Problem(
        study.schema,
        trained.pare.model(threshold),
        ta.costs.L1(),
        rules=[study.region],
        background=study.people.iloc[seen[:4000]],
        labels=study.accepted[seen[:4000]],
    )


def quality(yes: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """F1, accuracy, precision and recall of decisions."""
    both = float((yes & truth).sum())
    return {
        "f1": 2 * both / max(1.0, yes.sum() + truth.sum()),
        "accuracy": float((yes == truth).mean()),
        "precision": both / max(1.0, yes.sum()),
        "recall": both / max(1.0, truth.sum()),
    }
