"""The accepted people with whom options are compared: local outlier factors, and distances to the nearest of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.core import Problem
from turnabout.errors import ProblemError
from turnabout.metrics.row_space import NEIGHBOURS, RowSpace
from turnabout.typing import Tensor

PAPER_NEIGHBOURS = 5
LOF_NEIGHBOURS = 20
MOST_FITTED = 5000  # rows of a local outlier factor
ORDINARY = 0.95  # share of held-out real people whom the calibrated factor calls inliers


@dataclass(frozen=True)
class RowScores:
    """Of n rows: outlier scores (at least -1.5 is an inlier), and distances to accepted and to training rows."""

    paper: np.ndarray | None
    lof: np.ndarray | None
    neighbour: np.ndarray | None
    nearest: np.ndarray

    def every(self, rows: slice) -> RowScores:
        """Those of some rows."""
        paper, lof, neighbour = (
            None if part is None else part[rows] for part in (self.paper, self.lof, self.neighbour)
        )
        return RowScores(paper, lof, neighbour, self.nearest[rows])


@dataclass(frozen=True)
class OrdinaryRows:
    """The background as points; some of its accepted people are fitted, others held out as real people.

    space, z : the distances, and (rows, d) all background rows as points.
    fitted : (rows,) True for the accepted people of whom outlier factors and neighbours are made.
    held_out : places of the accepted people who are left out of that.
    points, distinct : the fitted rows, and those of them that differ, at most 5,000 of each, as points of Euclid's.
    duplicates : share of the fitted rows that repeat another of them.
    """

    space: RowSpace
    z: Tensor = field(repr=False)
    fitted: Tensor = field(repr=False)
    held_out: Tensor = field(repr=False)
    points: np.ndarray = field(repr=False)
    distinct: np.ndarray = field(repr=False)
    duplicates: float

    @classmethod
    def of(cls, problem: Problem, hold_out: bool, seed: int) -> OrdinaryRows:
        """From the background of a problem; with `hold_out`, a third of its accepted people are held out."""
        if problem.background_x is None or problem.background_margin is None:
            raise ProblemError(
                "plausibility compares options with the background, and the problem has none.",
                hint="write Problem(schema, model, background=train_people).",
            )
        space, rng = RowSpace(problem.schema), np.random.default_rng(seed)
        z = space.points(problem.background_x)
        accepted = np.flatnonzero((problem.background_margin >= 0).cpu().numpy())
        held_out = np.sort(rng.permutation(accepted)[: len(accepted) // 3]) if hold_out else accepted[:0]
        chosen = np.setdiff1d(accepted, held_out)
        fitted = torch.zeros(len(z), dtype=torch.bool)
        fitted[torch.as_tensor(chosen)] = True
        points = space.euclidean(z[fitted])
        distinct = np.unique(points, axis=0)
        duplicates = 1.0 - len(distinct) / len(points) if len(points) else 0.0
        points, distinct = _some(points, rng), _some(distinct, rng)
        return cls(space, z, fitted, torch.as_tensor(held_out), points, distinct, duplicates)

    @cached_property
    def paper(self) -> Any:
        """The outlier factor as papers evaluate with it; None where too few rows are fitted."""
        return local_outlier_factor(self.points, PAPER_NEIGHBOURS)

    @cached_property
    def lof(self) -> Any:
        """The outlier factor of distinct rows; None where too few differ."""
        return local_outlier_factor(self.distinct, LOF_NEIGHBOURS)

    @property
    def own_inliers(self) -> float | None:
        """Share of the fitted rows that the paper's factor calls inliers."""
        return None if self.paper is None else float((self.paper.negative_outlier_factor_ >= self.paper.offset_).mean())

    def scores(self, z: Tensor, own: Tensor | None = None, paper: bool = True) -> RowScores:
        """Points (n, d) -> their scores; `own` are their places in the background, if they come from it."""
        nearest, neighbour = self.space.near(z, self.z, self.fitted, own)
        points = self.space.euclidean(z)
        return RowScores(
            _outlier(self.paper, points) if paper else None, _outlier(self.lof, points), neighbour, nearest
        )


def local_outlier_factor(points: np.ndarray, neighbours: int) -> Any:
    """scikit-learn's local outlier factor of these points; None of fewer than 6.

    Where there are as few points as neighbours, all other points are the neighbours.
    """
    from sklearn.neighbors import LocalOutlierFactor

    if len(points) <= NEIGHBOURS:
        return None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Duplicate values", category=UserWarning)  # told in the report
        return LocalOutlierFactor(n_neighbors=min(neighbours, len(points) - 1), novelty=True).fit(points)


def ordinary_threshold(scores: np.ndarray) -> float | None:
    """The score that a new real person reaches with probability 95 % or more, by n others; None for fewer than 19.

    It is the score of rank floor(0.05 (n + 1)) from below.
    """
    rank = int((1 - ORDINARY) * (len(scores) + 1) + 1e-9)
    return float(np.sort(scores)[rank - 1]) if rank else None


def real_points(problem: Problem, space: RowSpace, real: Any) -> tuple[Tensor, int]:
    """The points of the real people whom the model accepts, and how many rows were left out."""
    table = problem.schema.table(real)
    reading = problem.schema.read(table)
    kept = ~(reading.lost | reading.unreadable.any(1))
    if kept.any():
        with np.errstate(invalid="ignore"):
            kept[kept] = problem.judge(reading.readable(table, np.flatnonzero(kept))) >= 0
    return space.points(reading.x[torch.as_tensor(kept)]), int((~kept).sum())


def option_points(space: RowSpace, options: pd.DataFrame) -> Tensor:
    """The options as points, in their order."""
    return space.points(space.schema.read(options).x)


def _outlier(factor: Any, points: np.ndarray) -> np.ndarray | None:
    """(n,) outlier scores; scikit-learn refuses to score nobody."""
    return None if factor is None else factor.score_samples(points) if len(points) else np.zeros(0)


def _some(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return points if len(points) <= MOST_FITTED else points[np.sort(rng.permutation(len(points))[:MOST_FITTED])]
