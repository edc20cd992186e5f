"""scikit-learn: trees, linear models, nets and scalers.

Its decision trees, forests and gradient boosting round inputs to float32 and test <=; histogram gradient boosting
compares doubles and keeps categories in bit sets.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from turnabout.models.forms import Layers
from turnabout.models.libraries.library import Library, Readers
from turnabout.models.libraries.raw_forest import (
    Grower,
    Link,
    NotCompilable,
    RawForest,
    SetSplit,
    cut_of_float32,
)

_LINEAR = frozenset(
    {
        "LogisticRegression",
        "LogisticRegressionCV",
        "SGDClassifier",
        "SGDRegressor",
        "LinearSVC",
        "LinearSVR",
        "RidgeClassifier",
        "RidgeClassifierCV",
        "Ridge",
        "RidgeCV",
        "Perceptron",
        "PassiveAggressiveClassifier",
        "PassiveAggressiveRegressor",
        "LinearDiscriminantAnalysis",
        "LinearRegression",
        "Lasso",
        "LassoCV",
        "LassoLars",
        "LassoLarsCV",
        "LassoLarsIC",
        "Lars",
        "LarsCV",
        "ElasticNet",
        "ElasticNetCV",
        "BayesianRidge",
        "ARDRegression",
        "HuberRegressor",
        "TheilSenRegressor",
        "QuantileRegressor",
        "OrthogonalMatchingPursuit",
    }
)
_LOGISTIC = frozenset(
    {
        "LogisticRegression",
        "LogisticRegressionCV",
        "LinearDiscriminantAnalysis",
        "GradientBoostingClassifier",
        "HistGradientBoostingClassifier",
    }
)


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


def read_hist_boosting(estimator: Any) -> RawForest:
    """Histogram gradient boosting, its categories known by name."""
    source = type(estimator).__name__
    classifier = hasattr(estimator, "classes_")
    if not classifier and estimator.loss not in ("squared_error", "absolute_error", "quantile"):
        raise NotCompilable(f"{source}(loss={estimator.loss!r}) predicts the exponential of a sum of trees.")
    order, names = _hist_inputs(estimator)
    width = len(estimator._predictors[0])
    grower = Grower(scores=width)
    for stage in estimator._predictors:
        for score, predictor in enumerate(stage):
            _grow_hist(grower, predictor, score, order, names)
    link: Link = "identity" if not classifier else "log-odds" if width == 1 else "softmax"
    bias = np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(-1)
    return grower.forest(bias=bias, link=link, n_inputs=len(order), source=source)


def _hist_inputs(estimator: Any) -> tuple[NDArray[np.int64], dict[int, list[Hashable]]]:
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
    encoder = estimator._preprocessor.named_transformers_["encoder"]  # it puts categories first, numbering their levels
    for column, levels in zip(np.flatnonzero(categorical).tolist(), encoder.categories_, strict=True):
        names[column] = [level for level in levels.tolist() if level is not None and level == level]
    return np.concatenate([np.flatnonzero(categorical), np.flatnonzero(~categorical)]), names


def _grow_hist(
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


class ScalerFormula:
    """(v - shift) / scale, or v * scale + shift, in the arithmetic of scikit-learn's scalers."""

    def __init__(self, scale: float, shift: float, multiply: bool):
        self.scale, self.shift, self.multiply = scale, shift, multiply

    def __call__(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        return v * self.scale + self.shift if self.multiply else (v - self.shift) / self.scale


def scaler_formulas(transforms: tuple[Any, ...]) -> Iterator[ScalerFormula]:
    """The formula of every column of every scaler inside the preprocessing."""
    for part in transforms:
        for name in ("transformers_", "steps", "transformer_list"):
            yield from scaler_formulas(tuple(step[1] for step in getattr(part, name, ())))
        scale = getattr(part, "scale_", None)
        if scale is None:
            continue
        for name in ("mean_", "center_", "min_"):
            shift = getattr(part, name, None)
            if shift is not None:
                for s, c in zip(scale, shift, strict=False):
                    yield ScalerFormula(float(s), float(c), name == "min_")
                break
        else:
            yield from (ScalerFormula(float(s), 0.0, False) for s in scale)


class ScikitLearn(Library):
    """The library whose manner the others follow."""

    name = "sklearn"
    mixins = frozenset({"sklearn.base"})
    log_odds = _LOGISTIC | {"MLPClassifier"}
    trees: ClassVar[Readers] = {
        family + kind: reader
        for kind in ("Classifier", "Regressor")
        for family, reader in (
            ("DecisionTree", read_trees),
            ("ExtraTree", read_trees),
            ("RandomForest", read_trees),
            ("ExtraTrees", read_trees),
            ("GradientBoosting", read_boosting),
            ("HistGradientBoosting", read_hist_boosting),
        )
    }

    def has_log_odds(self, name: str, final: Any) -> bool:
        if name == "GradientBoostingClassifier" and getattr(final, "loss", "") == "exponential":
            return False  # its score is half the log-odds
        return name in _LOGISTIC or (name == "SGDClassifier" and getattr(final, "loss", "") == "log_loss")

    def has_sign(self, name: str) -> bool:
        return name in ("SVC", "NuSVC", "SGDClassifier")

    def layers(self, name: str, final: Any) -> tuple[Layers, str] | None:
        if name in _LINEAR:
            coef = np.atleast_2d(np.asarray(final.coef_, dtype=np.float64))
            intercept = np.asarray(final.intercept_, dtype=np.float64).reshape(-1)
            bias = np.broadcast_to(intercept, (coef.shape[0],)).copy()
            return ((torch.from_numpy(coef.copy()), torch.from_numpy(bias)),), "relu"
        if name not in ("MLPClassifier", "MLPRegressor"):
            return None
        if final.out_activation_ not in ("logistic", "softmax", "identity"):
            raise NotCompilable(f"{name} ends in {final.out_activation_!r}.")
        layers = tuple(
            (torch.from_numpy(np.array(w.T, dtype=np.float64)), torch.from_numpy(np.array(b, dtype=np.float64)))
            for w, b in zip(final.coefs_, final.intercepts_, strict=True)
        )
        return layers, final.activation

    def is_stranger(self, transform: Any) -> bool:
        return type(transform).__name__ == "FunctionTransformer" and transform.func is not None
