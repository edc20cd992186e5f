"""Read XGBoost, which rounds inputs to float32, tests < and keeps the categories that go right."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from turnabout.models.parsers.grower import Grower
from turnabout.models.parsers.raw import Link, NotCompilable, RawForest, SetSplit, cut_of_float32
from turnabout.models.parsers.xgboost_categories import read_kept

_IDENTITY = ("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror")


def read_xgboost(estimator: Any) -> RawForest:
    """The trees up to the best iteration, with the weights of DART if it was used."""
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
    elif objective in _IDENTITY and int(parameters.get("num_target", "1")) == 1:
        link = "identity"
    else:
        raise NotCompilable(f"{source}(objective={objective!r}) does not predict a plain sum of trees.")

    grower = Grower(scores=max(classes, 1))
    levels = _levels(model.get("cats"))
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
        _grow(grower, tree, model["tree_info"][t], weight, levels)
    return grower.forest(
        bias=base.astype(np.float64),
        link=link,
        n_inputs=int(parameters["num_feature"]),
        source=source,
        precision=np.float32,
    )


def _grow(grower: Grower, tree: Any, score: int, weight: float, levels: dict[int, list[Hashable]]) -> None:
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


def _levels(cats: Any) -> dict[int, list[Hashable]]:
    """Names of the categories of each input; none, where some can be known by their codes only."""
    names = {input: kept.names for input, kept in read_kept(cats).items()}
    return {} if None in names.values() else {input: list(own) for input, own in names.items() if own is not None}


def _children_first(left: list[int], right: list[int]) -> Iterable[int]:
    """Nodes reachable from node 0, every child before its parent."""
    order, stack = [], [0]
    while stack:
        i = stack.pop()
        order.append(i)
        if left[i] >= 0:
            stack += [left[i], right[i]]
    return reversed(order)
