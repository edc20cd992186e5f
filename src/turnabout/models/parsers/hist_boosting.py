"""Read scikit-learn's histogram gradient boosting, which compares doubles and keeps categories in bit sets."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnabout.models.parsers.grower import Grower
from turnabout.models.parsers.raw import Link, NotCompilable, RawForest, SetSplit


def read_hist_boosting(estimator: Any) -> RawForest:
    """Histogram gradient boosting, its categories known by name."""
    source = type(estimator).__name__
    classifier = hasattr(estimator, "classes_")
    if not classifier and estimator.loss not in ("squared_error", "absolute_error", "quantile"):
        raise NotCompilable(f"{source}(loss={estimator.loss!r}) predicts the exponential of a sum of trees.")
    order, names = _inputs(estimator)
    width = len(estimator._predictors[0])
    grower = Grower(scores=width)
    for stage in estimator._predictors:
        for score, predictor in enumerate(stage):
            _grow(grower, predictor, score, order, names)
    link: Link = "identity" if not classifier else "log-odds" if width == 1 else "softmax"
    bias = np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(-1)
    return grower.forest(bias=bias, link=link, n_inputs=len(order), source=source)


def _inputs(estimator: Any) -> tuple[NDArray[np.int64], dict[int, list[Hashable]]]:
    """The input behind each column that the trees see, and the levels of the categories among the inputs."""
    n_inputs = int(estimator.n_features_in_)
    categorical = getattr(estimator, "is_categorical_", None)
    categorical = np.zeros(n_inputs, dtype=bool) if categorical is None else np.asarray(categorical)
    names: dict[int, list[Hashable]] = {}
    if getattr(estimator, "_preprocessor", None) is None:
        if categorical.any():
            source = type(estimator).__name__
            raise NotCompilable(f"{source} keeps its categories in a form of an older scikit-learn.")
        return np.arange(n_inputs), names
    encoder = estimator._preprocessor.named_transformers_[
        "encoder"
    ]  # it puts categories first and numbers their levels
    for column, levels in zip(np.flatnonzero(categorical).tolist(), encoder.categories_, strict=True):
        names[column] = [level for level in levels.tolist() if level is not None and level == level]
    return np.concatenate([np.flatnonzero(categorical), np.flatnonzero(~categorical)]), names


def _grow(
    grower: Grower, predictor: Any, score: int, order: NDArray[np.int64], names: dict[int, list[Hashable]]
) -> None:
    nodes = predictor.nodes
    ids = np.zeros(len(nodes), dtype=np.int64)
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        if node["is_leaf"]:
            ids[i] = grower.leaf(node["value"], score)
            continue
        input = int(order[node["feature_idx"]])
        left, right, missing_left = ids[node["left"]], ids[node["right"]], bool(node["missing_go_to_left"])
        if node["is_categorical"]:
            words = predictor.raw_left_cat_bitsets[node["bitset_idx"]]
            known = frozenset(names[input])
            chosen = frozenset(name for c, name in enumerate(names[input]) if int(words[c // 32]) >> (c % 32) & 1)
            split = SetSplit(chosen, known - chosen, others_left=missing_left)
            ids[i] = grower.set_split(input, split, left, right, missing_left)
        else:
            ids[i] = grower.split(input, float(node["num_threshold"]), left, right, missing_left)
    grower.roots.append(int(ids[0]))
