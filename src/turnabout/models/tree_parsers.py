"""Read fitted tree ensembles of scikit-learn, XGBoost and LightGBM into explicit splits with exact thresholds.

Each library compares in its own arithmetic: scikit-learn's trees and XGBoost first round an input to float32, the
histogram boosters compare doubles, XGBoost tests ``<`` where the others test ``<=``. Rounding is monotone, so every
one of these tests equals ``v <= cut`` on doubles for exactly one double ``cut``, and that cut is what is kept here.

The libraries are recognised by the names of their classes and never imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnabout.errors import ModelError

Link = Literal["log-odds", "probability", "softmax", "identity"]

_FLOAT32_OVERFLOW = 2.0**128 - 2.0**103  # the smallest double that rounds to an infinite float32
_LIGHTGBM_ZERO = float(np.float32(1e-35))  # LightGBM takes anything this near zero for zero
_BELOW_ZERO = float(np.nextafter(-_LIGHTGBM_ZERO, -np.inf))


class NotCompilable(ModelError):
    """A tree ensemble that was recognised but cannot be turned into splits and leaves; the text says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason, hint="it is still usable: the original model is asked instead, which is slower.")

    def __reduce__(self) -> tuple[type[NotCompilable], tuple[str]]:  # type: ignore[override]
        return type(self), (self.reason,)


@dataclass(frozen=True)
class SetSplit:
    """A split on a category: left for ``left``, right for ``right``, and one way for every other value.

    Members are input values as the estimator receives them: category codes (whole numbers), or the categories
    themselves where the library keeps their names.
    """

    left: frozenset[Hashable]
    right: frozenset[Hashable]
    others_left: bool

    def goes_left(self, value: Hashable) -> bool:
        """Whether a (not missing) value goes left; codes are compared after dropping their fraction."""
        if isinstance(value, np.generic):
            value = value.item()
        if value not in self.left and value not in self.right and isinstance(value, float) and np.isfinite(value):
            value = int(value)
        if value in self.left:
            return True
        return False if value in self.right else self.others_left


@dataclass(frozen=True)
class RawForest:
    r"""A tree ensemble in the space of its own inputs, m nodes in T trees with C scores:

        score(v) = bias + (1 / divisor) * sum over trees of value[leaf(v)]                        (1)

    A node sends v left when ``v[input] <= cut`` in double arithmetic, by ``sets[set_index]`` where that is not -1,
    and by ``missing_left`` when the input is NaN. A node may have two parents, so trees are read from their roots.

    Attributes
    ----------
    input, cut, left, right, missing_left, set_index : (m,); ``input`` is -1 at a leaf. Children are node numbers.
    value : (m, C), zero at inner nodes. C = 1 for regressors and binary classifiers (the second class).
    roots : (T,).
    bias : (C,).  divisor : 1, or the number of trees that are averaged.
    link : what a score is: "log-odds" and "softmax" (boosting), "probability" (forests), "identity" (regressors).
    accepts_missing : whether the library takes NaN at all.
    tolerance : bound on the difference to the library's own score, from the order and precision of its sums
        (XGBoost adds leaves in float32, the others in float64).
    """

    input: NDArray[np.int64]
    cut: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    missing_left: NDArray[np.bool_]
    set_index: NDArray[np.int64]
    sets: tuple[SetSplit, ...]
    value: NDArray[np.float64]
    roots: NDArray[np.int64]
    bias: NDArray[np.float64]
    divisor: float
    link: Link
    n_inputs: int
    accepts_missing: bool
    tolerance: float
    source: str

    def scores(self, inputs: ArrayLike) -> NDArray[np.float64]:
        """(n, n_inputs) -> (n, C): formula (1), written for clarity rather than speed."""
        v = np.asarray(inputs)
        total = np.zeros((len(v), len(self.bias)))
        for root in self.roots:
            node = np.full(len(v), root)
            while (inner := np.flatnonzero(self.input[node] >= 0)).size:
                here = node[inner]
                left = self._goes_left(here, v[inner, self.input[here]])
                node[inner] = np.where(left, self.left[here], self.right[here])
            total += self.value[node]
        return self.bias + total / self.divisor

    def _goes_left(self, node: NDArray[np.int64], cell: NDArray[Any]) -> NDArray[np.bool_]:
        missing = np.array([c is None or c != c for c in cell.tolist()], dtype=bool)
        by_set = ~missing & (self.set_index[node] >= 0)
        plain = ~missing & ~by_set
        left = self.missing_left[node]
        left[plain] = cell[plain].astype(np.float64) <= self.cut[node[plain]]
        left[by_set] = [
            self.sets[s].goes_left(c) for s, c in zip(self.set_index[node[by_set]], cell[by_set], strict=True)
        ]
        return left


def parse(estimator: object) -> RawForest | None:
    """Splits and leaves of a fitted tree ensemble; None when the estimator is no tree ensemble known here.

    Known: scikit-learn's decision trees, random forests, extra trees, gradient boosting and histogram gradient
    boosting; XGBoost's and LightGBM's scikit-learn estimators; classifiers and regressors of each.

    Raises
    ------
    NotCompilable : the family is known, but this member of it cannot be written as (1); ``reason`` says why.
    """
    for base in type(estimator).__mro__:
        reader = _READERS.get((base.__module__.split(".")[0], base.__name__))
        if reader is not None:
            return reader(estimator)
    return None


def cut_of_float32(threshold: ArrayLike, *, strict: bool) -> NDArray[np.float64]:
    """The double ``cut`` with ``float32(v) <= threshold  <=>  v <= cut`` for all doubles v (strict: with ``<``).

    With p the largest float32 on the left side and q the next one, the doubles that round to p or less end at the
    midpoint of p and q, which a double holds exactly; on the midpoint itself the even neighbour wins.
    """
    t = np.asarray(threshold, dtype=np.float64)
    with np.errstate(over="ignore"):
        p = t.astype(np.float32)
        beyond = p >= t if strict else p > t
        p = np.where(beyond, np.nextafter(p, np.float32(-np.inf)), p).astype(np.float32)
        q = np.nextafter(p, np.float32(np.inf))
    middle = (p.astype(np.float64) + q.astype(np.float64)) / 2
    even = (np.ascontiguousarray(p).view(np.uint32) & 1) == 0
    cut = np.where(even, middle, np.nextafter(middle, -np.inf))
    cut = np.where(np.isposinf(q), np.nextafter(_FLOAT32_OVERFLOW, 0.0), cut)
    cut = np.where(np.isneginf(p), -_FLOAT32_OVERFLOW, cut)
    return np.where(np.isposinf(p), np.inf, cut)


@dataclass
class _Grower:
    """Collects nodes; children are filled in as they become known."""

    scores: int
    input: list[int] = field(default_factory=list)
    cut: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    missing_left: list[bool] = field(default_factory=list)
    set_index: list[int] = field(default_factory=list)
    value: list[NDArray[np.float64]] = field(default_factory=list)
    sets: list[SetSplit] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)

    def leaf(self, value: ArrayLike, score: int | None = None) -> int:
        """A leaf with a vector of scores, or with one number for one ``score``."""
        row = np.zeros((1, self.scores))
        row[0, slice(None) if score is None else score] = value
        self.value.append(row)
        return self._node(-1, 0.0, -1, -1, False, -1)

    def split(self, input: int, cut: float, left: int, right: int, missing_left: bool) -> int:
        self.value.append(np.zeros((1, self.scores)))
        return self._node(input, cut, left, right, missing_left, -1)

    def set_split(self, input: int, split: SetSplit, left: int, right: int, missing_left: bool) -> int:
        self.value.append(np.zeros((1, self.scores)))
        self.sets.append(split)
        return self._node(input, np.nan, left, right, missing_left, len(self.sets) - 1)

    def _node(self, input: int, cut: float, left: int, right: int, missing_left: bool, set_index: int) -> int:
        self.input.append(input)
        self.cut.append(cut)
        self.left.append(left)
        self.right.append(right)
        self.missing_left.append(missing_left)
        self.set_index.append(set_index)
        return len(self.input) - 1

    def forest(
        self,
        *,
        bias: ArrayLike,
        link: Link,
        n_inputs: int,
        source: str,
        divisor: float = 1.0,
        scale: float = 1.0,
        accepts_missing: bool = True,
        precision: type[np.floating[Any]] = np.float64,
    ) -> RawForest:
        value = np.concatenate(self.value) * scale
        biases = np.broadcast_to(np.asarray(bias, dtype=np.float64) * scale, (self.scores,)).copy()
        roots = np.array(self.roots, dtype=np.int64)
        starts = np.concatenate([[0], roots[:-1] + 1])  # a tree's root is the last of its nodes
        largest = np.maximum.reduceat(np.abs(value).max(1), starts)
        reach = float(np.abs(biases).max()) + float(largest.sum()) / divisor
        return RawForest(
            input=np.array(self.input, dtype=np.int64),
            cut=np.array(self.cut, dtype=np.float64),
            left=np.array(self.left, dtype=np.int64),
            right=np.array(self.right, dtype=np.int64),
            missing_left=np.array(self.missing_left, dtype=np.bool_),
            set_index=np.array(self.set_index, dtype=np.int64),
            sets=tuple(self.sets),
            value=value,
            roots=roots,
            bias=biases,
            divisor=divisor,
            link=link,
            n_inputs=n_inputs,
            accepts_missing=accepts_missing,
            tolerance=(len(roots) + 4) * float(np.finfo(precision).eps) / 2 * reach,
            source=source,
        )


# scikit-learn -------------------------------------------------------------------------------------------------------


def _takes_nan(estimator: Any) -> bool:
    tags = getattr(estimator, "__sklearn_tags__", None)
    return bool(tags().input_tags.allow_nan) if tags is not None else False


def _grow_sklearn(grower: _Grower, tree: Any, value: NDArray[np.float64]) -> None:
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


def _read_sklearn_trees(estimator: Any) -> RawForest:
    source = type(estimator).__name__
    trees = estimator.estimators_ if hasattr(estimator, "estimators_") else [estimator]
    if estimator.n_outputs_ > 1:
        raise NotCompilable(f"{source} predicts {estimator.n_outputs_} outputs at once; one is expected.")
    classifier = hasattr(estimator, "classes_")
    classes = len(estimator.classes_) if classifier else 0
    if classifier and classes < 2:
        raise NotCompilable(f"{source} was fitted on a single class.")
    grower = _Grower(scores=classes if classes > 2 else 1)
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


def _read_sklearn_boosting(estimator: Any) -> RawForest:
    source = type(estimator).__name__
    init = estimator.init_
    if not isinstance(init, str) and type(init).__name__ not in ("DummyClassifier", "DummyRegressor"):
        raise NotCompilable(f"{source} starts from a model of its own (init={init!r}), not from a constant.")
    width = estimator.estimators_.shape[1]
    classifier = hasattr(estimator, "classes_")
    grower = _Grower(scores=width)
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


def _read_hist_boosting(estimator: Any) -> RawForest:
    source = type(estimator).__name__
    classifier = hasattr(estimator, "classes_")
    if not classifier and estimator.loss not in ("squared_error", "absolute_error", "quantile"):
        raise NotCompilable(f"{source}(loss={estimator.loss!r}) predicts the exponential of a sum of trees.")
    n_inputs = int(estimator.n_features_in_)
    categorical = getattr(estimator, "is_categorical_", None)
    categorical = np.zeros(n_inputs, dtype=bool) if categorical is None else np.asarray(categorical)
    order = np.arange(n_inputs)
    names: dict[int, list[Hashable]] = {}
    if getattr(estimator, "_preprocessor", None) is not None:  # it puts categories first and numbers their levels
        order = np.concatenate([np.flatnonzero(categorical), np.flatnonzero(~categorical)])
        encoder = estimator._preprocessor.named_transformers_["encoder"]
        for column, levels in zip(np.flatnonzero(categorical).tolist(), encoder.categories_, strict=True):
            names[column] = [level for level in levels.tolist() if level is not None and level == level]
    elif categorical.any():
        raise NotCompilable(f"{source} keeps its categories in a form of an older scikit-learn.")

    width = len(estimator._predictors[0])
    grower = _Grower(scores=width)
    for stage in estimator._predictors:
        for score, predictor in enumerate(stage):
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
                    chosen = frozenset(
                        name for c, name in enumerate(names[input]) if int(words[c // 32]) >> (c % 32) & 1
                    )
                    split = SetSplit(chosen, known - chosen, others_left=missing_left)
                    ids[i] = grower.set_split(input, split, left, right, missing_left)
                else:
                    ids[i] = grower.split(input, float(node["num_threshold"]), left, right, missing_left)
            grower.roots.append(int(ids[0]))
    link: Link = "identity" if not classifier else "log-odds" if width == 1 else "softmax"
    bias = np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(-1)
    return grower.forest(bias=bias, link=link, n_inputs=n_inputs, source=source)


# XGBoost ------------------------------------------------------------------------------------------------------------

_XGBOOST_IDENTITY = ("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror")


def _read_xgboost(estimator: Any) -> RawForest:
    source = type(estimator).__name__
    missing = estimator.missing
    if missing is not None and missing == missing:
        raise NotCompilable(f"{source}(missing={missing!r}) reads an ordinary number as missing; only NaN may be.")
    learner = json.loads(bytes(estimator.get_booster().save_raw("json")))["learner"]
    objective = learner["objective"]["name"]
    booster = learner["gradient_booster"]
    drops: list[float] | None = None
    if booster["name"] == "dart":
        drops, booster = booster["weight_drop"], booster["gbtree"]
    elif booster["name"] != "gbtree":
        raise NotCompilable(f"{source}(booster={booster['name']!r}) is not made of trees.")
    model, parameters = booster["model"], learner["learner_model_param"]
    classes = int(parameters["num_class"])
    base = np.array(json.loads(parameters["base_score"]), dtype=np.float32).reshape(-1)
    link: Link
    if objective == "binary:logistic":
        link, base = "log-odds", -np.log(np.float32(1) / base - np.float32(1))
    elif objective in ("multi:softprob", "multi:softmax"):
        link = "softmax"
    elif objective in _XGBOOST_IDENTITY and int(parameters.get("num_target", "1")) == 1:
        link = "identity"
    else:
        raise NotCompilable(f"{source}(objective={objective!r}) does not predict a plain sum of trees.")

    grower = _Grower(scores=max(classes, 1))
    levels = _xgboost_levels(model.get("cats"))
    first, stop = estimator._get_iteration_range(None)
    bounds = model.get("iteration_indptr")
    trees = range(len(model["trees"]))
    if stop and bounds:
        trees = range(bounds[first], bounds[stop])
    for t in trees:
        tree = model["trees"][t]
        if int(tree["tree_param"]["size_leaf_vector"]) > 1:
            raise NotCompilable(f"{source} grows one tree for all outputs (multi_output_tree).")
        weight = 1.0 if drops is None else float(np.float32(drops[t]))
        _grow_xgboost(grower, tree, model["tree_info"][t], weight, levels)
    return grower.forest(
        bias=base.astype(np.float64),
        link=link,
        n_inputs=int(parameters["num_feature"]),
        source=source,
        precision=np.float32,
    )


def _grow_xgboost(grower: _Grower, tree: Any, score: int, weight: float, levels: dict[int, list[Hashable]]) -> None:
    thresholds = np.array(tree["split_conditions"], dtype=np.float32)
    cuts = cut_of_float32(thresholds, strict=True)
    chosen = {
        node: tree["categories"][start : start + size]
        for node, start, size in zip(
            tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True
        )
    }
    ids: dict[int, int] = {}
    for i in _children_first(tree["left_children"], tree["right_children"]):
        a, b = tree["left_children"][i], tree["right_children"][i]
        if a < 0:
            ids[i] = grower.leaf(float(thresholds[i]) * weight, score)
            continue
        input, missing_left = int(tree["split_indices"][i]), bool(tree["default_left"][i])
        if tree["split_type"][i] == 1:
            names = levels.get(input)
            right = frozenset(names[c] if names else c for c in chosen[i])  # the categories kept are those going right
            split = SetSplit(left=frozenset(), right=right, others_left=True)
            ids[i] = grower.set_split(input, split, ids[a], ids[b], missing_left)
        else:
            ids[i] = grower.split(input, float(cuts[i]), ids[a], ids[b], missing_left)
    grower.roots.append(ids[0])


def _xgboost_levels(cats: Any) -> dict[int, list[Hashable]]:
    """Names of the categories of each input, where the booster keeps them (XGBoost 3 trained on a DataFrame)."""
    levels: dict[int, list[Hashable]] = {}
    for input, encoding in enumerate(cats["enc"] if cats else []):
        values, offsets = encoding["values"], encoding.get("offsets")
        if not values:
            continue
        if offsets is None:
            levels[input] = list(values)
        else:
            text = bytes(v % 256 for v in values)
            levels[input] = [text[a:b].decode() for a, b in pairwise(offsets)]
    return levels


def _children_first(left: list[int], right: list[int]) -> Iterable[int]:
    """Nodes reachable from node 0, every child before its parent."""
    order, stack = [], [0]
    while stack:
        i = stack.pop()
        order.append(i)
        if left[i] >= 0:
            stack += [left[i], right[i]]
    return reversed(order)


# LightGBM -----------------------------------------------------------------------------------------------------------

_LIGHTGBM_IDENTITY = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")


def _read_lightgbm(estimator: Any) -> RawForest:
    source = type(estimator).__name__
    model = estimator.booster_.dump_model()
    if getattr(estimator, "linear_tree", False) or estimator.get_params().get("linear_tree"):
        raise NotCompilable(f"{source}(linear_tree=True) has a linear model in each leaf.")
    objective, *options = model.get("objective", "custom").split()
    width = int(model["num_tree_per_iteration"])
    scale = 1.0
    link: Link
    if objective == "binary":
        link = "log-odds"
        scale = next((float(o.split(":")[1]) for o in options if o.startswith("sigmoid:")), 1.0)
    elif objective == "multiclass":
        link = "softmax"
    elif objective in _LIGHTGBM_IDENTITY and "sqrt" not in options:
        link = "identity"
    else:
        named = " ".join([objective, *options])
        raise NotCompilable(f"{source}(objective={named!r}) does not predict a plain sum of trees.")

    grower = _Grower(scores=width)
    levels: dict[int, list[Hashable]] = {}
    if names := model.get("pandas_categorical"):
        inputs = _lightgbm_categories(model)
        if len(inputs) != len(names):
            raise NotCompilable(f"{source} does not say which inputs its {len(names)} lists of categories belong to.")
        levels = dict(zip(inputs, names, strict=True))
    trees = model["tree_info"]
    for t, tree in enumerate(trees):
        grower.roots.append(_grow_lightgbm(grower, tree["tree_structure"], t % width, levels))
    return grower.forest(
        bias=0.0,
        scale=scale,
        divisor=len(trees) / width if model.get("average_output") else 1.0,
        link=link,
        n_inputs=int(model["max_feature_idx"]) + 1,
        source=source,
    )


def _grow_lightgbm(grower: _Grower, root: Any, score: int, levels: dict[int, list[Hashable]]) -> int:
    def grow(node: Any) -> int:
        if "split_feature" not in node:
            return grower.leaf(node["leaf_value"], score)
        input = int(node["split_feature"])
        left, right = grow(node["left_child"]), grow(node["right_child"])
        if node["decision_type"] == "==":
            names = levels.get(input)
            codes = [int(c) for c in str(node["threshold"]).split("||")]
            chosen: frozenset[Hashable] = frozenset(names[c] if names else c for c in codes)
            return grower.set_split(input, SetSplit(chosen, frozenset(), others_left=False), left, right, False)
        if node["decision_type"] != "<=":
            raise NotCompilable(f"LightGBM splits by {node['decision_type']!r}, which is not known here.")
        cut, default_left = float(node["threshold"]), bool(node["default_left"])
        clear = max(cut, _LIGHTGBM_ZERO) if cut >= 0 else min(cut, _BELOW_ZERO)  # rows are read with [-z, z] as 0
        match node["missing_type"]:
            case "NaN":
                return grower.split(input, clear, left, right, default_left)
            case "None":  # NaN is read as 0
                return grower.split(input, clear, left, right, cut >= 0)
            case "Zero":
                return _grow_zero_as_missing(grower, input, cut, left, right, default_left)
        raise NotCompilable(f"LightGBM treats missing values as {node['missing_type']!r}, which is not known here.")

    return grow(root)


def _grow_zero_as_missing(grower: _Grower, input: int, cut: float, left: int, right: int, default_left: bool) -> int:
    """``v <= cut``, except that anything within [-z, z] goes the default way, in up to three plain splits."""
    z, below = _LIGHTGBM_ZERO, _BELOW_ZERO
    if default_left:
        if cut >= below:
            return grower.split(input, max(cut, z), left, right, True)
        around = grower.split(input, below, right, grower.split(input, z, left, right, True), False)
        return grower.split(input, cut, left, around, True)
    if cut <= z:
        return grower.split(input, min(cut, below), left, right, False)
    around = grower.split(input, below, left, grower.split(input, z, right, left, True), False)
    return grower.split(input, cut, around, right, False)


def _lightgbm_categories(model: Any) -> list[int]:
    """Inputs trained as categories, in column order: those whose recorded values are a list."""
    return [i for i, name in enumerate(model["feature_names"]) if model["feature_infos"].get(name, {}).get("values")]


def _refuse_catboost(estimator: Any) -> RawForest:
    raise NotCompilable(f"the trees of {type(estimator).__name__} (CatBoost) are not read yet.")


_READERS: dict[tuple[str, str], Callable[[Any], RawForest]] = {
    **{
        ("sklearn", family + kind): reader
        for kind in ("Classifier", "Regressor")
        for family, reader in (
            ("DecisionTree", _read_sklearn_trees),
            ("ExtraTree", _read_sklearn_trees),
            ("RandomForest", _read_sklearn_trees),
            ("ExtraTrees", _read_sklearn_trees),
            ("GradientBoosting", _read_sklearn_boosting),
            ("HistGradientBoosting", _read_hist_boosting),
        )
    },
    ("xgboost", "XGBClassifier"): _read_xgboost,
    ("xgboost", "XGBRegressor"): _read_xgboost,
    ("lightgbm", "LGBMClassifier"): _read_lightgbm,
    ("lightgbm", "LGBMRegressor"): _read_lightgbm,
    ("catboost", "CatBoostClassifier"): _refuse_catboost,
    ("catboost", "CatBoostRegressor"): _refuse_catboost,
}
