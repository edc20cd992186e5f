"""LightGBM, which compares doubles but takes what is very near zero for zero, and writes underscores for spaces."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from turnabout.errors import ModelError
from turnabout.models.libraries.library import Library, Readers, Types
from turnabout.models.libraries.raw_forest import Grower, Link, NotCompilable, RawForest, SetSplit
from turnabout.schema import Schema

_ZERO = float(np.float32(1e-35))  # LightGBM takes anything this near zero for zero
_BELOW_ZERO = float(np.nextafter(-_ZERO, -np.inf))
MOST_LISTS = 12  # of categories that are matched with columns by their content
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


def split_as_categories(booster: Any) -> list[int]:
    """Inputs that LightGBM splits as categories, read from its text: a name may break its JSON."""
    text = booster.model_to_string(num_iteration=1)
    listed = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, re.MULTILINE)
    if listed:
        return sorted(int(i) for i in listed[1].split(","))
    infos = re.search(r"^feature_infos=(.*)$", text, re.MULTILINE)
    return [i for i, info in enumerate(infos[1].split() if infos else []) if info[0] not in "[n"]


def _match(lists: Sequence[Any], schema: Schema, names: tuple[str, ...], told: list[str]) -> list[str]:
    """The columns to which the lists belong, in the order of columns, by the levels that they share."""
    shares = [[name for name in names if set(getattr(schema[name], "levels", ())) & set(levels)] for levels in lists]
    leveled = [name for name in names if any(name in own for own in shares)]
    if len(lists) <= MOST_LISTS and len(leveled) <= 2 * MOST_LISTS:
        fitting = [
            list(chosen)
            for chosen in combinations(leveled, len(lists))
            if set(told) <= set(chosen) and all(name in own for name, own in zip(chosen, shares, strict=True))
        ]
        if len(fitting) == 1:
            return fitting[0]
    raise ModelError(
        f"LightGBM was trained on {len(lists)} columns of categories, and does not say which they are.",
        hint="pass background= with the column types of the training table.",
    )


class LightGBM(Library):
    """Its estimators in the manner of scikit-learn."""

    name = "lightgbm"
    log_odds = frozenset({"LGBMClassifier"})
    bare: ClassVar[Mapping[str, str]] = {"Booster": "LGBMClassifier"}
    trees: ClassVar[Readers] = {"LGBMClassifier": read_lightgbm, "LGBMRegressor": read_lightgbm}

    def own_name(self, name: str, schema: Schema) -> str:
        candidates = [own for own in schema.names if own.replace(" ", "_") == name]
        if len(candidates) > 1:
            raise ModelError(
                f"LightGBM's column '{name}' could be {' or '.join(map(repr, candidates))}.",
                hint="rename one of them, and fit again: LightGBM writes underscores for spaces.",
            )
        return candidates[0] if candidates else name

    def categories(
        self, final: Any, schema: Schema, names: tuple[str, ...], background: pd.DataFrame | None, given: Types
    ) -> Types:
        """LightGBM keeps a list of categories for each categorical column, and not for which."""
        booster = final.booster_
        lists = booster.pandas_categorical or []
        if not lists:
            return {}
        told = [names[i] for i in split_as_categories(booster) if i < len(names)]
        if len(told) != len(lists):  # ordered categoricals are kept too, but not as categories
            told = _match(lists, schema, names, told) if len(given) != len(lists) else [n for n in names if n in given]
        return {name: pd.CategoricalDtype(levels) for name, levels in zip(told, lists, strict=True)}
