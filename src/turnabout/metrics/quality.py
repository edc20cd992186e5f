"""Validity, cost, sparsity, plausibility and diversity of options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.core import Problem, Recourse, Status
from turnabout.errors import ProblemError, also

NEIGHBOURS = 5
LOF_NEIGHBOURS = 20


def per_option(answer: Recourse, problem: Problem) -> pd.DataFrame:
    """One line per option, indexed (person, option).

    Columns: `valid` (the original model, asked again about the printed row), `cost` (recomputed), `changes` (features
    that differ), and, with a background: `neighbour_distance` (mean cost to the nearest accepted background rows)
    and `inlier` (local outlier factor fitted on the accepted background rows says the plan is ordinary).
    """
    if not isinstance(answer, Recourse) or not isinstance(problem, Problem):
        raise also(ProblemError, TypeError)(
            f"metrics take an answer and its problem, not {type(answer).__name__} and {type(problem).__name__}.",
            hint="write metrics.measure(answer, problem).",
        )
    schema = problem.schema
    people = answer.people.iloc[answer.people.index.get_indexer(answer.options.index.get_level_values("person"))]
    table = pd.DataFrame(index=answer.options.index)
    if not len(table):
        columns = ["valid", "cost", "changes"] + (
            ["neighbour_distance", "inlier"] if problem.background is not None else []
        )
        return pd.DataFrame(index=answer.options.index, columns=columns, dtype=float)
    x, x_new = schema.read(people).x, schema.read(answer.options).x
    table["valid"] = problem.model.judge(schema.table(answer.options)) >= 0
    table["cost"] = problem.cost(x, x_new).numpy()
    table["changes"] = schema.changed(x, x_new).sum(1).numpy()
    if problem.background_x is not None and problem.background_margin is not None:
        accepted = problem.background_x[problem.background_margin >= 0].cpu()
        if len(accepted) > LOF_NEIGHBOURS:
            table["neighbour_distance"] = _neighbour_distance(problem, accepted, x_new)
            table["inlier"] = _inlier(accepted.numpy(), x_new.numpy())
    return table


def measure(answer: Recourse, problem: Problem, seed: int = 0) -> pd.DataFrame:
    """One line per metric: metric, value, low, high (95 % bootstrap interval over people), n.

    - found: share of refused people with at least one option;
    - impossible: share of refused people with a proof that there is none;
    - validity: share of first options that the original model, asked again, accepts;
    - cost, changes, neighbour_distance, inlier: means over first options;
    - diversity: mean pairwise share of features in which a person's options differ, over people with two or more.
    """
    options = per_option(answer, problem)
    refused = answer.status[answer.refused]
    first = options[options.index.get_level_values("option") == 0]
    samples: dict[str, np.ndarray] = {
        "found": (refused == Status.FOUND).to_numpy(dtype=float),
        "impossible": (refused == Status.IMPOSSIBLE).to_numpy(dtype=float),
        "validity": first["valid"].to_numpy(dtype=float),
    }
    for name in ("cost", "changes", "neighbour_distance", "inlier"):
        if name in first:
            samples[name] = first[name].to_numpy(dtype=float)
    samples["diversity"] = _diversity(answer, problem)
    rows = [(name, *_interval(values, seed), len(values)) for name, values in samples.items()]
    return pd.DataFrame(rows, columns=["metric", "value", "low", "high", "n"])


def _interval(values: np.ndarray, seed: int, draws: int = 1000) -> tuple[float, float, float]:
    if not len(values):
        return np.nan, np.nan, np.nan
    rng = np.random.default_rng(seed)
    means = np.array([values[rng.integers(0, len(values), len(values))].mean() for _ in range(draws)])
    return float(values.mean()), float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def _neighbour_distance(problem: Problem, accepted: Any, x_new: Any, rows: int = 64) -> np.ndarray:
    weighted = problem.schema.gather.sum(1)  # column weights that make L1 count a switch as one
    out = []
    for part in torch.split(x_new * weighted, rows):
        distance = torch.cdist(part, accepted * weighted, p=1)
        out.append(distance.topk(NEIGHBOURS, largest=False).values.mean(1))
    return torch.cat(out).numpy()


def _inlier(accepted: np.ndarray, x_new: np.ndarray) -> np.ndarray:
    try:
        from sklearn.neighbors import LocalOutlierFactor
    except ImportError:
        raise ProblemError("the local outlier factor needs scikit-learn.", hint="pip install scikit-learn") from None
    judge = LocalOutlierFactor(n_neighbors=LOF_NEIGHBOURS, novelty=True).fit(accepted)
    return judge.predict(x_new) > 0


def _diversity(answer: Recourse, problem: Problem) -> np.ndarray:
    if not len(answer.options):
        return np.zeros(0)
    x = problem.schema.read(answer.options).x
    person = answer.options.index.get_level_values("person").to_numpy()
    out = []
    for label in dict.fromkeys(person):
        mine = x[torch.as_tensor(person == label)]
        if len(mine) > 1:
            i, j = torch.triu_indices(len(mine), len(mine), 1)
            out.append(float(problem.schema.changed(mine[i], mine[j]).double().mean()))
    return np.array(out)
