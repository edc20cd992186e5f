"""The models that a grid can name: scikit-learn pipelines on raw columns, made for a schema and a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from turnabout.schema import Schema

Learner = Callable[[int], Any]


def _logistic(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=2000)


def _net(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((10, 10, 10), batch_size=64, max_iter=100, tol=0.0, random_state=seed)


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(50, max_depth=6, min_samples_leaf=5, random_state=seed)


LEARNERS: dict[str, Learner] = {"logistic": _logistic, "net": _net, "forest": _forest}
"""logistic: a logistic regression; net: three layers of 10 ReLU units, 100 epochs; forest: 50 trees of depth 6."""


def pipeline(schema: Schema, estimator: Any) -> Any:
    """The estimator on raw columns: numbers scaled to [0, 1], binaries as 0 and 1, levels one-hot."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder

    chosen = [f for f in schema if f.kind != "passthrough"]
    numbers, levels = ([f for f in chosen if (f.kind in ("number", "derived")) is want] for want in (True, False))
    pairs, several = ([f for f in levels if (f.kind == "binary" and not f.missing) is want] for want in (True, False))
    scale: list[Any] = [MinMaxScaler()]
    code: list[Any] = [OneHotEncoder(handle_unknown="ignore", sparse_output=False)]
    if any(f.missing for f in numbers):
        scale.insert(0, SimpleImputer(strategy="median"))
    if any(f.missing for f in several):
        code.insert(0, SimpleImputer(strategy="constant", fill_value="absent"))
    switch = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(*scale), [f.name for f in numbers]),
            ("pairs", switch, [f.name for f in pairs]),
            ("levels", make_pipeline(*code), [f.name for f in several]),
        ]
    )
    return make_pipeline(columns, estimator)


def fitted(name: str, schema: Schema, people: pd.DataFrame, labels: np.ndarray, seed: int, balanced: bool) -> Any:
    """A model of that name. `balanced`: people of the rarer class are repeated until both classes weigh the same."""
    rows = np.arange(len(people))
    if balanced:
        rng = np.random.default_rng(seed)
        yes, no = np.flatnonzero(labels), np.flatnonzero(~labels)
        few, many = sorted((yes, no), key=len)
        rows = rng.permutation(np.concatenate([rows, few[np.arange(len(many) - len(few)) % max(1, len(few))]]))
    return pipeline(schema, LEARNERS[name](seed)).fit(people.iloc[rows], labels[rows])
