"""What is measured in one cell: for each refused person, and of the answer as a whole."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from turnabout import metrics
from turnabout.bench.case import BenchCase
from turnabout.core import Recourse


@dataclass(frozen=True)
class BoardMeasure:
    """A column of the leader board: its name in files, its head, which way is better, and how many digits it shows."""

    name: str
    title: str
    better: Literal["up", "down", ""] = ""
    digits: int = 2


MEASURES = (
    BoardMeasure("score", "score", "up", 3),
    BoardMeasure("found", "found", "up"),
    BoardMeasure("valid", "validity", "up"),
    BoardMeasure("unseen_validity", "unseen validity", "up"),
    BoardMeasure("unseen_inlier", "unseen inlier", "up"),
    BoardMeasure("cost", "cost", "down"),
    BoardMeasure("changes", "changes", "down", 1),
    BoardMeasure("plausible", "plausible", "up"),
    BoardMeasure("told_apart", "told apart (AUC)", "down"),
    BoardMeasure("retrained", "retrained", "up"),
    BoardMeasure("diversity", "diversity", "up"),
    BoardMeasure("seconds", "seconds", "down", 1),
    BoardMeasure("people_per_second", "people/s", "up", 0),
)
TIMES = ("seconds", "people_per_second")
"""Measures that no seed repeats."""


def measured(case: BenchCase, answer: Recourse, several: Recourse | None, seed: int) -> dict[str, Any]:
    """The measures of an answer; `several` is the same method's answer with more options, for the diversity.

    values : lists, one entry for each refused person in their order, None where a person has none.
    wholes : measures of the answer as a whole, each with its interval: [value, low, high].
    """
    people = answer.people.index
    per_option = metrics.per_option(answer, case.problem)
    first = per_option[per_option.index.get_level_values("option") == 0].droplevel("option").reindex(people)
    table = pd.DataFrame(index=people)
    table["found"] = (first["valid"].fillna(0.0).astype(float) == 1.0).astype(float)
    table["valid"], table["cost"] = first["valid"].astype(float), first["cost"].astype(float)
    table["changes"] = first["changes"].astype(float)
    wholes: dict[str, list[float | None]] = {}
    if len(answer.options):
        plausible = metrics.plausibility_per_option(answer, case.problem, real=case.real, seed=seed)
        plausible = plausible[plausible.index.get_level_values("option") == 0].droplevel("option").reindex(people)
        if "lof_calibrated" in plausible:
            table["plausible"] = plausible["lof_calibrated"].astype(float)
        report = metrics.plausibility(answer, case.problem, real=case.real, seed=seed)
        for name, line in (
            ("told_apart", report.line("two_sample_auc")),
            ("real_plausible", report.line("lof_calibrated", "real people")),
            ("real_told_apart", report.line("two_sample_auc", "real people")),
        ):
            if line.value is not None:
                wholes[name] = [line.value, line.low, line.high]
        table["retrained"] = _retrained(case, answer).reindex(people)
    if several is not None:
        table["diversity"] = _diversity(case, several).reindex(people)
    for judge in case.judges:
        for column, numbers in judge(answer).reindex(people).items():
            table[str(column)] = numbers.astype(float)
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


def _plain(value: Any) -> float | None:
    """As a line holds it: six digits, None for what is not there."""
    return None if value is None or not np.isfinite(value) else float(f"{float(value):.6g}")
