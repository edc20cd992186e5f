"""How a comparison is set up: whose rows train what, who is asked about, and who judges."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from turnabout import datasets, models
from turnabout.bench.case import BenchCase
from turnabout.bench.learners import fitted
from turnabout.bench.unseen_score import UnseenScore, forest_of_outcomes
from turnabout.core import Problem
from turnabout.costs import L1
from turnabout.datasets import Dataset
from turnabout.errors import BenchError
from turnabout.schema import Number, Schema

LEAST_PEOPLE = 2  # refused people without whom there is nothing to compare


class Protocol(ABC):
    """From a data set, a model and a seed to a case."""

    name: ClassVar[str]
    about: ClassVar[str]

    @abstractmethod
    def pose(self, data: str, model: str, seed: int, people: int | None, retrained: int) -> BenchCase:
        """The case; `people` refused people at most, and models trained again `retrained` times."""


class Strict(Protocol):
    """Three parts that share nobody.

    Half of the people train the model and the methods, a quarter makes the judges, and the refused of the last quarter
    are asked about. Outcomes are those of the data, the schema keeps its directions and what is fixed, the outlier
    factor has 20 neighbours and counts rows that occur more than once once.
    """

    name = "strict"
    about = "judges fitted on a third part that neither the model nor the people asked about belong to"

    def pose(self, data: str, model: str, seed: int, people: int | None, retrained: int) -> BenchCase:
        whole = datasets.load(data)
        train, rest = whole.split(test=0.5, seed=seed)
        judging, asked = rest.split(test=0.5, seed=seed)
        problem, again = _problem(model, whole.schema, train.people, _good(train), seed, False, retrained)
        score = UnseenScore.of(problem, judging.people, _good(judging), 20, True, seed)
        refused = _refused(problem, asked.people, people, seed)
        groups = _groups(whole, refused)
        return BenchCase(f"{data}/{model}", problem, refused, judging.people, (score,), again, groups)


class Paper(Protocol):
    """GenRe's (Garg, Nagalapatti, Sarawagi, 2025), with the defects that its figures have.

    One forest is fitted on all people, those asked about included, and outcomes are drawn anew from its
    probabilities. The model is trained on three quarters, with equal weight of both outcomes (not on HELOC); refused
    people of the last quarter are asked about. Everything may change but race and sex, numbers lie between the extremes
    of training. The outlier factor has 5 neighbours and is fitted on all rows that the forest calls good.

    Adult, COMPAS and HELOC are the files of CARLA, as in the paper. Its 200 people are not published, and the seed
    draws its own quarter. Whole numbers stay whole here.
    """

    name = "paper"
    about = "GenRe's: the forest has seen everybody, and draws the outcomes"

    def pose(self, data: str, model: str, seed: int, people: int | None, retrained: int) -> BenchCase:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", category=UserWarning
            )  # that the file has defects, which are the protocol's
            whole = datasets.load(f"carla-{data}" if data in ("adult", "compas", "heloc") else data)
        forest = forest_of_outcomes(whole.schema, whole.people, _good(whole), 42)
        drawn = np.random.default_rng(seed).random(len(whole)) < forest.predict_proba(whole.people)[:, 1]
        whole = replace(whole, accepted=pd.Series(drawn, index=whole.people.index))
        train, test = whole.split(test=0.25, seed=seed)
        schema = free_schema(whole, train.people)
        balanced = data != "heloc"
        problem, again = _problem(model, schema, train.people, _good(train), seed, balanced, retrained)
        score = UnseenScore.by_forest(problem, forest, whole.people, 5, False)
        refused = _refused(problem, test.people, people, seed)
        groups = _groups(whole, refused)
        return BenchCase(f"{data}/{model}", problem, refused, test.people, (score,), again, groups)


PROTOCOLS: dict[str, Protocol] = {protocol.name: protocol for protocol in (Strict(), Paper())}


def free_schema(data: Dataset, train: pd.DataFrame) -> Schema:
    """The columns without directions: race and sex are fixed, numbers lie between the extremes of training."""
    features: list[Any] = []
    for f in data.schema:
        moves: Literal["fixed", "free"] = "fixed" if f.name in ("race", "sex") else "free"
        if f.kind == "number" and isinstance(f, Number):
            low, high = float(train[f.name].min()), float(train[f.name].max())
            f = replace(f, low=low, high=high, moves=moves) if low < high else replace(f, moves="fixed")
        elif f.kind not in ("derived", "passthrough"):
            f = replace(f, moves=moves)  # type: ignore[type-var]
        features.append(f)
    return Schema(tuple(features))


def _problem(
    model: str, schema: Schema, people: pd.DataFrame, good: np.ndarray, seed: int, balanced: bool, retrained: int
) -> tuple[Problem, tuple[models.Model, ...]]:
    """The question, and the same model trained again on people drawn with replacement."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Stochastic Optimizer")  # 100 epochs, converged or not
        first = fitted(model, schema, people, good, seed, balanced)
        again = []
        for k in range(retrained):
            rows = np.random.default_rng((seed, k)).integers(0, len(people), len(people))
            again.append(fitted(model, schema, people.iloc[rows], good[rows], seed + k + 1, balanced))
    wrapped = models.wrap(first, schema, background=people, target=True)
    problem = Problem(schema, wrapped, L1(), background=people, labels=good)
    return problem, tuple(models.wrap(one, schema, background=people, target=True) for one in again)


def _refused(problem: Problem, people: pd.DataFrame, most: int | None, seed: int) -> pd.DataFrame:
    """The refused among some people, in random order; at most so many."""
    refused = people[problem.judge(problem.schema.table(people)) < 0]
    if len(refused) < LEAST_PEOPLE:
        raise BenchError(
            f"the model refuses {len(refused)} of {len(people)} people, too few to compare methods.",
            hint="choose another model or seed.",
        )
    return refused.iloc[np.random.default_rng(seed).permutation(len(refused))[:most]]


def _groups(data: Dataset, people: pd.DataFrame) -> pd.DataFrame:
    """The protected columns that have levels."""
    return data.groups.loc[people.index, [name for name in data.protected if data.schema[name].kind != "number"]]


def _good(data: Dataset) -> np.ndarray:
    return data.accepted.to_numpy(dtype=bool)
