"""Validity, cost, sparsity, plausibility and diversity of options."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from turnabout.core import Problem, Recourse, Status
from turnabout.core.different import differ
from turnabout.core.second_look import smallest_worth
from turnabout.errors import ProblemError, also
from turnabout.metrics.ordinary_rows import LOF_NEIGHBOURS, OrdinaryRows
from turnabout.schema import Number
from turnabout.schema.features import GRID_NOISE
from turnabout.schema.raw_cells import floats


def per_option(answer: Recourse, problem: Problem) -> pd.DataFrame:
    """One line per option, indexed (person, option).

    Columns: `valid` (the original model, asked again about the printed row), `cost` (recomputed), `changes` (features
    that differ), `tiny` (a number changes by less than its least_change, or, where it declares none, by less than 1 %
    of the background's ordinary range, between its quantiles at 5 and 95 %), and, with a background:
    `neighbour_distance` (mean distance to the 5 nearest accepted background rows) and `inlier` (the local outlier
    factor with 20 neighbours, fitted on the distinct ones among them, says the plan is ordinary); `plausibility` says
    what these numbers are worth.
    """
    if not isinstance(answer, Recourse) or not isinstance(problem, Problem):
        raise also(ProblemError, TypeError)(
            f"metrics take an answer and its problem, not {type(answer).__name__} and {type(problem).__name__}.",
            hint="write metrics.measure(answer, problem).",
        )
    table = judged_again(answer, problem)
    if problem.background is None:
        return table
    if not len(table):
        return table.assign(neighbour_distance=np.zeros(0), inlier=np.zeros(0))
    ordinary = OrdinaryRows.of(problem, hold_out=False, seed=0)
    if int(ordinary.fitted.sum()) > LOF_NEIGHBOURS and ordinary.lof is not None:
        scores = ordinary.scores(ordinary.space.points(problem.schema.read(answer.options).x), paper=False)
        table["neighbour_distance"] = scores.neighbour
        table["inlier"] = scores.lof >= ordinary.lof.offset_
    return table


def judged_again(answer: Recourse, problem: Problem) -> pd.DataFrame:
    """The columns of `per_option` that need no background: valid, cost, changes, tiny."""
    schema = problem.schema
    people = answer.people.iloc[answer.people.index.get_indexer(answer.options.index.get_level_values("person"))]
    table = pd.DataFrame(index=answer.options.index)
    if not len(table):
        return table.assign(**dict.fromkeys(("valid", "cost", "changes", "tiny"), np.zeros(0)))
    x, x_new = schema.read(people).x, schema.read(answer.options).x
    table["valid"] = problem.model.judge(schema.table(answer.options)) >= 0
    table["cost"] = problem.cost(x, x_new).numpy()
    changed = schema.changed(x, x_new)
    table["changes"] = changed.sum(1).numpy()
    table["tiny"] = _tiny(problem, people, answer.options, changed.numpy())
    return table


def measure(answer: Recourse, problem: Problem, seed: int = 0) -> pd.DataFrame:
    """One line per metric: metric, value, low, high (95 % bootstrap interval over people), n.

    - found: share of refused people with at least one option;
    - impossible: share of refused people with a proof that there is none;
    - validity: share of first options that the original model, asked again, accepts;
    - cost, changes, neighbour_distance, inlier: means over first options;
    - diversity: mean pairwise share of features in which a person's options differ, over people with two or more;
    - alike: share of the pairs of a person's options that are nearly the same (they change the same features to nearly
      the same values, by `core.different.differ`), averaged over people with two or more;
    - tiny: share of a person's options with a change too small to be worth making (see `per_option`), averaged over
      people with an option.
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
    samples["diversity"], samples["alike"] = _pairs(answer, problem)
    samples["tiny"] = options["tiny"].astype(float).groupby(level="person", sort=False).mean().to_numpy()
    rows = [(name, *_interval(values, seed), len(values)) for name, values in samples.items()]
    return pd.DataFrame(rows, columns=["metric", "value", "low", "high", "n"])


def _interval(values: np.ndarray, seed: int, draws: int = 1000) -> tuple[float, float, float]:
    if not len(values):
        return np.nan, np.nan, np.nan
    rng = np.random.default_rng(seed)
    means = np.array([values[rng.integers(0, len(values), len(values))].mean() for _ in range(draws)])
    return float(values.mean()), float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def _tiny(problem: Problem, own: pd.DataFrame, options: pd.DataFrame, changed: np.ndarray) -> np.ndarray:
    """(o,) which options change a number by too little; from their own rows, options and (o, F) what changed."""
    out = np.zeros(len(options), dtype=bool)
    for place, feature in enumerate(problem.schema):
        if type(feature) is not Number:
            continue
        values = np.zeros(0) if problem.background is None else floats(problem.background[feature.name])
        least = smallest_worth(feature, values[np.isfinite(values)])
        with np.errstate(invalid="ignore"):  # a missing cell that is provided is no small change
            by = np.abs(floats(options[feature.name]) - floats(own[feature.name]))
            out |= changed[:, place] & (by < least * (1 - GRID_NOISE))
    return out


def _pairs(answer: Recourse, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """(p,) of people with two options or more: how much they differ, and the share of pairs nearly the same."""
    if not len(answer.options):
        return np.zeros(0), np.zeros(0)
    schema, x_new = problem.schema, problem.schema.read(answer.options).x
    labels = answer.options.index.get_level_values("person")
    x = schema.read(answer.people.iloc[answer.people.index.get_indexer(labels)]).x
    person = labels.to_numpy()
    apart, alike = [], []
    for label in dict.fromkeys(person):
        rows = torch.as_tensor(person == label)
        own, mine = x[rows], x_new[rows]
        if len(mine) > 1:
            i, j = torch.triu_indices(len(mine), len(mine), 1)
            apart.append(float(schema.changed(mine[i], mine[j]).double().mean()))
            alike.append(float((~differ(schema, own[i], mine[i], mine[j])).double().mean()))
    return np.array(apart), np.array(alike)
