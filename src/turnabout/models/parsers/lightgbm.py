"""Read LightGBM, which compares doubles but takes what is very near zero for zero."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from typing import Any

import numpy as np

from turnabout.models.parsers.grower import Grower
from turnabout.models.parsers.raw import Link, NotCompilable, RawForest, SetSplit

_ZERO = float(np.float32(1e-35))  # LightGBM takes anything this near zero for zero
_BELOW_ZERO = float(np.nextafter(-_ZERO, -np.inf))
_IDENTITY = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")


def read_lightgbm(estimator: Any) -> RawForest:
    """The trees of the booster, summed or (random forests) averaged."""
    source = type(estimator).__name__
    model = _dump(estimator.booster_)
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
    elif objective in _IDENTITY and "sqrt" not in options:
        link = "identity"
    else:
        named = " ".join([objective, *options])
        raise NotCompilable(f"{source}(objective={named!r}) does not predict a plain sum of trees.")

    grower = Grower(scores=width)
    levels: dict[int, list[Hashable]] = {}
    if names := model.get("pandas_categorical"):
        inputs = _categories(model)
        if len(inputs) != len(names):
            raise NotCompilable(f"{source} does not say which inputs its {len(names)} lists of categories belong to.")
        levels = dict(zip(inputs, names, strict=True))
    trees = model["tree_info"]
    for t, tree in enumerate(trees):
        grower.roots.append(_grow(grower, tree["tree_structure"], t % width, levels))
    return grower.forest(
        bias=0.0,
        scale=scale,
        divisor=len(trees) / width if model.get("average_output") else 1.0,
        link=link,
        n_inputs=int(model["max_feature_idx"]) + 1,
        source=source,
    )


def _dump(booster: Any) -> Any:
    """The model as plain values; a column name with a backslash breaks LightGBM's JSON, so it is named anew."""
    try:
        return booster.dump_model()
    except json.JSONDecodeError:
        names = " ".join(f"Column_{i}" for i in range(booster.num_feature()))
        text = re.sub(r"^feature_names=.*$", f"feature_names={names}", booster.model_to_string(), flags=re.MULTILINE)
        return type(booster)(model_str=text).dump_model()


def _grow(grower: Grower, root: Any, score: int, levels: dict[int, list[Hashable]]) -> int:
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
        clear = max(cut, _ZERO) if cut >= 0 else min(cut, _BELOW_ZERO)  # rows are read with [-z, z] as 0
        match node["missing_type"]:
            case "NaN":
                return grower.split(input, clear, left, right, default_left)
            case "None":  # NaN is read as 0
                return grower.split(input, clear, left, right, cut >= 0)
            case "Zero":
                return grow_zero_as_missing(grower, input, cut, left, right, default_left)
        raise NotCompilable(f"LightGBM treats missing values as {node['missing_type']!r}, which is not known here.")

    return grow(root)


def grow_zero_as_missing(grower: Grower, input: int, cut: float, left: int, right: int, default_left: bool) -> int:
    """``v <= cut``, except that anything within [-z, z] goes the default way, in up to three plain splits."""
    z, below = _ZERO, _BELOW_ZERO
    if default_left:
        if cut >= below:
            return grower.split(input, max(cut, z), left, right, True)
        around = grower.split(input, below, right, grower.split(input, z, left, right, True), False)
        return grower.split(input, cut, left, around, True)
    if cut <= z:
        return grower.split(input, min(cut, below), left, right, False)
    around = grower.split(input, below, left, grower.split(input, z, right, left, True), False)
    return grower.split(input, cut, around, right, False)


def _categories(model: Any) -> list[int]:
    """Inputs trained as categories, in column order: those whose recorded values are a list."""
    return [i for i, name in enumerate(model["feature_names"]) if model["feature_infos"].get(name, {}).get("values")]
