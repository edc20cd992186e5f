"""How long training and one-step recourse take on Adult; ratios are taken in one run."""

from __future__ import annotations

import time

import numpy as np
import torch
from ledger import Outcome

import turnabout as ta
from pare.runs import NETWORK, Workshop
from turnabout.audit import existence
from turnabout.core.run import Run
from turnabout.train import Pare
from turnabout.typing import Tensor


def speed(workshop: Workshop, repeats: int) -> Outcome:
    """One network of the library's defaults, 15 epochs; the same with lam = 0, by turns; then recourse for everyone."""
    study = workshop.study("adult")
    epochs = 1 if workshop.small else 15
    seconds: dict[float, list[float]] = {0.8: [], 0.0: []}
    for _ in range(repeats):
        for lam in seconds:
            pare = Pare(study.schema, study.region, lam=lam, epochs=epochs)
            start = time.perf_counter()
            pare.fit(study.people, study.accepted)
            seconds[lam].append(time.perf_counter() - start)
    n, out = len(study.people), Outcome()
    out.figures["adult.train_seconds"] = (float(np.median(seconds[0.8])), n)
    ratio = [a / b for a, b in zip(seconds[0.8], seconds[0.0])]
    out.figures["adult.train_overhead"] = (float(np.median(ratio)), n)
    people = study.people.iloc[:32_560]
    for label, network in (("_tanh", NETWORK), ("", {})):
        trained = Pare(study.schema, study.region, epochs=1, **network).fit(study.people, study.accepted)
        asked = ta.Problem(study.schema, trained.model(0.5), ta.costs.L1(), rules=[study.region])
        method = ta.methods.OneStep().fit(asked)
        out.figures[f"adult.one_step_seconds{label}"] = (
            _search_seconds(method, study.schema.encode(people)),
            len(people),
        )
    start = time.perf_counter()
    method.find(people)
    out.figures["adult.one_step_find_seconds"] = (time.perf_counter() - start, len(people))
    start = time.perf_counter()
    existence(asked, people, points=33)
    out.figures["adult.exact_seconds"] = (time.perf_counter() - start, len(people))
    out.data["threads"] = torch.get_num_threads()
    return out


def _search_seconds(method: ta.methods.OneStep, x: Tensor) -> float:
    """Median of five searches, after one to warm up."""
    method.run = Run(options=1, seed=0, time_limit=None)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        method._search(x)
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))
