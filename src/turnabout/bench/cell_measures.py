"""What is measured in one cell: for each refused person, and of the answer as a whole."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

from turnabout import metrics
from turnabout.bench.case import BenchCase
from turnabout.core import Method, Recourse
from turnabout.metrics.quality import judged_again


@dataclass(frozen=True)
class BoardMeasure:
    """A column of the leader board: its name in files, its head, how many digits it shows, and in which table."""

    name: str
    title: str
    digits: int = 2
    table: Literal["score and plausibility", "validity, cost and speed"] = "score and plausibility"


OWN: Literal["validity, cost and speed"] = "validity, cost and speed"
MEASURES = (
    BoardMeasure("score", "score", 3),
    BoardMeasure("over_nothing", "over nothing", 3),
    BoardMeasure("unseen_validity", "unseen validity"),
    BoardMeasure("unseen_inlier", "unseen inlier"),
    BoardMeasure("plausible", "plausible"),
    BoardMeasure("neighbour_distance", "neighbour distance"),
    BoardMeasure("told_apart", "told apart (AUC)"),
    BoardMeasure("group_gap", "group gap"),
    BoardMeasure("found", "found", 2, OWN),
    BoardMeasure("valid", "validity", 2, OWN),
    BoardMeasure("violations", "violations", 2, OWN),
    BoardMeasure("broken_proposals", "broken proposals", 2, OWN),
    BoardMeasure("cost", "cost", 2, OWN),
    BoardMeasure("changes", "changes", 1, OWN),
    BoardMeasure("retrained", "retrained", 2, OWN),
    BoardMeasure("diversity", "diversity", 2, OWN),
    BoardMeasure("seconds", "seconds", 1, OWN),
    BoardMeasure("people_per_second", "people/s", 0, OWN),
)
TIMES = ("seconds", "people_per_second")
"""Measures that no seed repeats."""
LEAST_GROUP = 10  # people without whom a group's mean says nothing


def measured(
    case: BenchCase, answer: Recourse, several: Recourse | None, seed: int, broken: pd.Series | None = None
) -> dict[str, Any]:
    """The measures of an answer.

    several : the same method's answer with more options, for the diversity.
    broken : as `broken_proposals` of the same method.

    values : lists, one entry for each refused person in their order, None where a person has none.
    wholes : measures of the answer as a whole, each with its interval: [value, low, high].
    """
    people = answer.people.index
    per_option = judged_again(answer, case.problem)
    first = per_option[per_option.index.get_level_values("option") == 0].droplevel("option").reindex(people)
    table = pd.DataFrame(index=people)
    table["found"] = (first["valid"].fillna(0.0).astype(float) == 1.0).astype(float)
    table["valid"], table["cost"] = first["valid"].astype(float), first["cost"].astype(float)
    table["changes"] = first["changes"].astype(float)
    wholes: dict[str, list[float | None]] = {}
    if len(answer.options):
        plausible = case.real_people(seed).per_option(answer)
        plausible = plausible[plausible.index.get_level_values("option") == 0].droplevel("option").reindex(people)
        if "lof_calibrated" in plausible:
            table["plausible"] = plausible["lof_calibrated"].astype(float)
        if "neighbour_distance" in plausible:
            table["neighbour_distance"] = plausible["neighbour_distance"].astype(float)
        report = case.real_people(seed).compare(answer)
        for name, line in (
            ("told_apart", report.line("two_sample_auc")),
            ("real_plausible", report.line("lof_calibrated", "real people")),
            ("real_told_apart", report.line("two_sample_auc", "real people")),
        ):
            if line.value is not None:
                wholes[name] = [line.value, line.low, line.high]
        table["retrained"] = _retrained(case, answer).reindex(people)
        table["violations"] = _violations(case, answer).reindex(people)
    if several is not None:
        table["diversity"] = _diversity(case, several).reindex(people)
    if broken is not None:
        table["broken_proposals"] = broken.reindex(people)
    for judge in case.judges:
        for column, numbers in judge(answer).reindex(people).items():
            table[str(column)] = numbers.astype(float)
    gap = _group_gap(case, table)
    if gap is not None:
        wholes["group_gap"] = [gap, None, None]
    values = {str(name): [_plain(v) for v in column] for name, column in table.items() if column.notna().any()}
    return {"values": values, "wholes": {k: [_plain(v) for v in ends] for k, ends in wholes.items()}}


def _retrained(case: BenchCase, answer: Recourse) -> pd.Series:
    """For each person with an option, the share of retrained models that accept their first one."""
    first = answer.options[answer.options.index.get_level_values("option") == 0].droplevel("option")
    table = case.problem.schema.table(first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a sample without some level
        accepts = [model.judge(table) >= 0 for model in case.retrained]
    return pd.Series(np.mean(accepts, axis=0) if accepts else np.nan, index=first.index, dtype=float)


def _diversity(case: BenchCase, several: Recourse) -> pd.Series:
    """For each person with two options or more, the mean share of features in which a pair of them differs."""
    schema, labels = case.problem.schema, several.options.index.get_level_values("person").to_numpy()
    x, out = schema.read(several.options).x, {}
    for person in dict.fromkeys(labels):
        mine = x[np.flatnonzero(labels == person)]
        if len(mine) > 1:
            i, j = np.triu_indices(len(mine), 1)
            out[person] = float(schema.changed(mine[i], mine[j]).double().mean())
    return pd.Series(out, dtype=float)


def _violations(case: BenchCase, answer: Recourse) -> pd.Series:
    """For each person with an option, 1 where their first one breaks a limit, else 0.

    Read from the printed rows, apart from the checks that every option has passed. People who are asked to provide a
    missing cell are left out.
    """
    schema = case.problem.schema
    first = answer.options[answer.options.index.get_level_values("option") == 0].droplevel("option")
    first = first.drop(answer.provided.index.get_level_values("person").unique(), errors="ignore")
    x, x_new = schema.read(answer.people.loc[first.index]).x, schema.read(first).x
    broken = metrics.broken_limits(case.problem, x, x_new)
    return pd.Series(broken.any(axis=1).to_numpy(dtype=float), index=first.index)


def broken_proposals(case: BenchCase, method: Method, seed: int, time_limit: float | None = None) -> pd.Series:
    """For each person, 1 where the first row that the search itself proposes breaks a limit of theirs, else 0.

    Nothing is mended before. Limits are what is fixed, directions, ranges and one level of each category. People
    without a proposal, and those with an unreadable cell, have no entry. Further rows may be hints for the core.
    """
    reading = case.problem.schema.read(case.people)
    readable = np.flatnonzero(~(reading.lost | reading.unreadable.any(1)))
    owners, broken = [np.zeros(0, dtype=int)], [np.zeros(0, dtype=bool)]
    for start in range(0, len(readable), method.chunk):
        part = readable[start : start + method.chunk]
        x = reading.x[torch.as_tensor(part)]
        x_new = method.propose(x, seed=seed, time_limit=time_limit).x_new.cpu()
        there = torch.isfinite(x_new).all(-1)
        owner = there.any(1).nonzero().squeeze(1)
        kinds = metrics.broken_limits(case.problem, x[owner], x_new[owner, there[owner].long().argmax(1)])
        owners.append(part[owner.numpy()])
        broken.append(kinds[["fixed", "direction", "range", "one_of_k"]].any(axis=1).to_numpy(dtype=bool))
    person = case.people.index[np.concatenate(owners)]
    return pd.Series(np.concatenate(broken), index=person, dtype=float)


def _group_gap(case: BenchCase, table: pd.DataFrame) -> float | None:
    """The largest difference of the mean score of two groups of 10 people or more; None where there are no two."""
    if case.groups is None or "score" not in table:
        return None
    gaps = []
    for _, column in case.groups.items():
        score = table["score"].groupby(column.reindex(table.index).astype(str))
        means = score.mean()[score.count() >= LEAST_GROUP]
        if len(means) > 1:
            gaps.append(float(means.max() - means.min()))
    return max(gaps, default=None)


def _plain(value: Any) -> float | None:
    """As a line holds it: six digits, None for what is not there."""
    return None if value is None or not np.isfinite(value) else float(f"{float(value):.6g}")
