"""Read scikit-learn's decision trees, forests and gradient boosting, which round inputs to float32 and test <=."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnabout.models.parsers.grower import Grower
from turnabout.models.parsers.raw import Link, NotCompilable, RawForest, cut_of_float32


def _takes_nan(estimator: Any) -> bool:
    tags = getattr(estimator, "__sklearn_tags__", None)
    return bool(tags().input_tags.allow_nan) if tags is not None else False


def _grow_sklearn(grower: Grower, tree: Any, value: NDArray[np.float64]) -> None:
    """Add one ``sklearn.tree._tree.Tree`` whose leaves have the given values, (nodes, C)."""
    is_leaf = tree.children_left < 0
    last = len(grower.input) + tree.node_count - 1  # numbered backwards, so that children come before their parents
    missing_left = getattr(tree, "missing_go_to_left", np.zeros(tree.node_count)).astype(bool)
    grower.input += np.where(is_leaf, -1, tree.feature)[::-1].tolist()
    grower.cut += np.where(is_leaf, 0.0, cut_of_float32(tree.threshold, strict=False))[::-1].tolist()
    grower.left += np.where(is_leaf, -1, last - tree.children_left)[::-1].tolist()
    grower.right += np.where(is_leaf, -1, last - tree.children_right)[::-1].tolist()
    grower.missing_left += (missing_left & ~is_leaf)[::-1].tolist()
    grower.set_index += [-1] * tree.node_count
    grower.value.append(np.where(is_leaf[:, None], value, 0.0)[::-1])
    grower.roots.append(last)


def read_trees(estimator: Any) -> RawForest:
    """A single tree, or the average of several."""
    source = type(estimator).__name__
    trees = estimator.estimators_ if hasattr(estimator, "estimators_") else [estimator]
    if estimator.n_outputs_ > 1:
        raise NotCompilable(f"{source} predicts {estimator.n_outputs_} outputs at once; one is expected.")
    classifier = hasattr(estimator, "classes_")
    classes = len(estimator.classes_) if classifier else 0
    if classifier and classes < 2:
        raise NotCompilable(f"{source} was fitted on a single class.")
    grower = Grower(scores=classes if classes > 2 else 1)
    for member in trees:
        value = member.tree_.value[:, 0, :].astype(np.float64)
        if classifier:
            total = value.sum(axis=1, keepdims=True)
            value = np.where(np.abs(total - 1) < 1e-9, value, value / total)  # counts, before scikit-learn 1.3
            value = value[:, 1:] if classes == 2 else value
        _grow_sklearn(grower, member.tree_, value)
    return grower.forest(
        bias=0.0,
        divisor=float(len(trees)),
        link="probability" if classifier else "identity",
        n_inputs=int(estimator.n_features_in_),
        accepts_missing=all(map(_takes_nan, (estimator, trees[0]))),
        source=source,
    )


def read_boosting(estimator: Any) -> RawForest:
    """Gradient boosting that starts from a constant."""
    source = type(estimator).__name__
    init = estimator.init_
    if not isinstance(init, str) and type(init).__name__ not in ("DummyClassifier", "DummyRegressor"):
        raise NotCompilable(f"{source} starts from a model of its own (init={init!r}), not from a constant.")
    width = estimator.estimators_.shape[1]
    classifier = hasattr(estimator, "classes_")
    grower = Grower(scores=width)
    for stage in estimator.estimators_:
        for score, member in enumerate(stage):
            value = np.zeros((member.tree_.node_count, width))
            value[:, score] = member.tree_.value[:, 0, 0] * estimator.learning_rate
            _grow_sklearn(grower, member.tree_, value)
    n_inputs = int(estimator.n_features_in_)
    start = estimator._raw_predict_init(np.zeros((1, n_inputs), dtype=np.float32))[0]
    link: Link = "identity" if not classifier else "log-odds" if width == 1 else "softmax"
    return grower.forest(
        bias=start,
        scale=2.0 if classifier and estimator.loss == "exponential" else 1.0,  # its score is half the log-odds
        link=link,
        n_inputs=n_inputs,
        accepts_missing=_takes_nan(estimator),
        source=source,
    )
