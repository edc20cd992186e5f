"""Two-dimensional people who lie on moons or circles, with a small network that decides about them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from turnabout.bench.case import BenchCase
from turnabout.bench.learners import pipeline
from turnabout.core import Problem
from turnabout.costs import L1
from turnabout.errors import BenchError
from turnabout.models import wrap
from turnabout.schema import Number, Schema

NAMES = ("x1", "x2")
ROWS = 600  # the first half trains the model and the methods, of the rest the refused are asked about
Cloud = Callable[[int], tuple[Any, Any]]


def _moons(seed: int) -> tuple[Any, Any]:
    from sklearn.datasets import make_moons

    return make_moons(ROWS, noise=0.15, random_state=seed)


def _circles(seed: int) -> tuple[Any, Any]:
    from sklearn.datasets import make_circles

    return make_circles(ROWS, noise=0.1, factor=0.5, random_state=seed)


TOYS: dict[str, tuple[Cloud, Schema]] = {
    "moons": (_moons, Schema((Number("x1", -1.75, 2.75, decimals=3), Number("x2", -1.25, 1.75, decimals=3)))),
    "circles": (_circles, Schema((Number("x1", -1.5, 1.5, decimals=3), Number("x2", -1.5, 1.5, decimals=3)))),
}
"""moons: two half circles that reach into each other, the lower one good; circles: the inner one good."""


def _net(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((32, 32), solver="lbfgs", alpha=0.01, max_iter=500, random_state=seed)


def pose_toy(name: str, people: int, seed: int) -> BenchCase:
    """The case: a ReLU network of two layers of 32 units, L1 cost, at most `people` refused people."""
    cloud, schema = TOYS[name]
    points, good = cloud(seed)
    table = pd.DataFrame(points, columns=NAMES).round(3)
    for f in schema:
        table[f.name] = table[f.name].clip(f.low, f.high)  # type: ignore[attr-defined]
    good = np.asarray(good, dtype=bool)
    half = ROWS // 2
    background, rest = table.iloc[:half], table.iloc[half:]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="lbfgs failed")  # 500 steps, converged or not
        net = pipeline(schema, _net(seed)).fit(background, good[:half])
    problem = Problem(
        schema, wrap(net, schema, background=background, target=True), L1(), background=background, labels=good[:half]
    )
    accepted = problem.judge(schema.table(rest)) >= 0
    if accepted.all():
        raise BenchError(f"the network refuses nobody on {name} with seed {seed}.", hint="choose another seed.")
    return BenchCase(f"{name}/net", problem, rest[~accepted].iloc[:people], rest[accepted])
