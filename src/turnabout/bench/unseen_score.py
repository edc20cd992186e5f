"""The score of an option under a forest and outlier factors that neither the model nor the method has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from turnabout.bench.learners import pipeline
from turnabout.core import Problem, Recourse
from turnabout.errors import BenchError
from turnabout.metrics.ordinary_rows import local_outlier_factor
from turnabout.metrics.row_space import RowSpace
from turnabout.schema import Schema

FOLDS = 5


def forest_of_outcomes(schema: Schema, people: pd.DataFrame, labels: np.ndarray, seed: int) -> Any:
    """A random forest with isotonic calibration, both outcomes weighing the same: table -> P(good)."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import RandomForestClassifier

    if bool((labels == labels[0]).all()):
        raise BenchError(
            f"all {len(labels)} people of whom a judge is made have the same outcome.",
            hint="choose another seed, or a larger data set.",
        )
    forest = RandomForestClassifier(100, random_state=seed)
    folds = max(2, min(FOLDS, int(labels.sum()), int((~labels).sum())))
    weight = np.where(labels, 0.5 / max(labels.mean(), 1e-9), 0.5 / max(1 - labels.mean(), 1e-9))
    calibrated = pipeline(schema, CalibratedClassifierCV(forest, method="isotonic", cv=folds))
    return calibrated.fit(people, labels, calibratedclassifiercv__sample_weight=weight)


@dataclass(frozen=True, eq=False)
class UnseenScore:
    r"""A judge of answers by what nobody has seen.

    With F the forest's P(good), a local outlier factor fitted on the rows that F calls good, and L1(x, x') the sum of
    changes, a number's over its range, 1 for another level,

        score(x, x') = [F(x') > 1/2] + [x' is an inlier] - L1(x, x') / d           (1)

    with d the number of features; 2 at most. People without an option keep their own row: x' = x.

    Parameters
    ----------
    problem : whose people are judged.
    forest, outliers : the two judges; `outliers` takes Euclidean points of `RowSpace`, None calls every row an inlier.
    """

    problem: Problem
    forest: Any
    outliers: Any

    @classmethod
    def of(
        cls, problem: Problem, people: pd.DataFrame, labels: np.ndarray, neighbours: int, distinct: bool, seed: int
    ) -> UnseenScore:
        """Fitted on people that the caller has kept apart; `distinct` counts rows that occur more than once once."""
        forest = forest_of_outcomes(problem.schema, people, labels, seed)
        return cls.by_forest(problem, forest, people, neighbours, distinct)

    @classmethod
    def by_forest(
        cls, problem: Problem, forest: Any, people: pd.DataFrame, neighbours: int, distinct: bool
    ) -> UnseenScore:
        """With a forest that is fitted already; the outlier factor is made of the people that it calls good."""
        good = people[forest.predict_proba(people)[:, 1] > 0.5]
        points = _points(problem.schema, good) if len(good) else np.zeros((0, problem.schema.d))
        return cls(problem, forest, local_outlier_factor(np.unique(points, axis=0) if distinct else points, neighbours))

    def __call__(self, answer: Recourse) -> pd.DataFrame:
        """Columns unseen_validity, unseen_inlier, cost_share and score, for each refused person."""
        schema = self.problem.schema
        own = answer.people[answer.refused.to_numpy()]
        first = answer.options[answer.options.index.get_level_values("option") == 0].droplevel("option")
        still = own[~own.index.isin(first.index)]
        rows = pd.concat([schema.table(first), schema.table(still)]).loc[own.index]
        x, x_new = schema.read(own).x, schema.read(rows).x
        table = pd.DataFrame(index=own.index)
        table["unseen_validity"] = (self.forest.predict_proba(rows)[:, 1] > 0.5).astype(float)
        inlier = np.ones(len(rows)) if self.outliers is None else self.outliers.predict(_points(schema, rows)) > 0
        table["unseen_inlier"] = inlier.astype(float)
        table["cost_share"] = self.problem.cost(x, x_new).numpy() / len(schema)
        table["score"] = table["unseen_validity"] + table["unseen_inlier"] - table["cost_share"]  # (1)
        return table


def _points(schema: Schema, rows: pd.DataFrame) -> np.ndarray:
    space = RowSpace(schema)
    return space.euclidean(space.points(schema.read(rows).x))
