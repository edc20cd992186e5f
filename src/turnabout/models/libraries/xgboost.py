"""XGBoost, which rounds inputs to float32, tests < and keeps the categories that go right.

It splits on the codes of categories, so a column with the right names in another order is another column. From 3.1 on
it keeps their names with a model, and they tell of those in the training table: it joins the UTF-8 bytes of all names,
but counts and cuts them by characters. Of 'Köln', 'München' it keeps the lengths 4 and 7 and the first 11 of 13 bytes.
Names in plain ASCII are whole; others can only be compared with names that the user has.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from turnabout.errors import ModelError
from turnabout.models.libraries.library import Library, Readers, Types
from turnabout.models.libraries.raw_forest import (
    Grower,
    Link,
    NotCompilable,
    RawForest,
    SetSplit,
    cut_of_float32,
)
from turnabout.schema import Schema

MOST_TRIES = 20_000  # steps of the search for an order of names
Names = tuple[Hashable, ...]

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


@dataclass(frozen=True)
class BoosterCategories:
    """What a booster keeps of the categories of one column: the values, or the joined text and where it was cut."""

    values: Names = ()
    text: bytes = b""
    offsets: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.offsets) - 1 if self.offsets else len(self.values)

    @property
    def names(self) -> Names | None:
        """The categories, or None where the kept text does not tell them."""
        if not self.offsets:
            return self.values
        return tuple(self.text[a:b].decode() for a, b in pairwise(self.offsets)) if self.text.isascii() else None

    def fits(self, names: Sequence[Hashable]) -> bool:
        """Whether a model trained on these categories, in this order, would have kept this."""
        if not self.offsets:
            return list(self.values) == list(names)
        texts = [name for name in names if isinstance(name, str)]
        if len(texts) != len(names):
            return False
        joined = "".join(texts).encode()
        by_characters, by_bytes = _cuts(map(len, texts)), _cuts(len(text.encode()) for text in texts)
        return self.offsets in (by_characters, by_bytes) and joined[: self.offsets[-1]] == self.text

    def order(self, pool: Iterable[Hashable]) -> Names | None:
        """The only order of names from a pool that fits; None where none or several do."""
        if (names := self.names) is not None:
            return names
        texts = [name for name in dict.fromkeys(pool) if isinstance(name, str)]
        lengths = [b - a for a, b in pairwise(self.offsets)]
        found: list[Names] = []
        open_: list[tuple[tuple[str, ...], int]] = [((), 0)]
        for _ in range(MOST_TRIES):
            if not open_ or len(found) > 1:
                break
            chosen, at = open_.pop()
            if len(chosen) == len(lengths):
                found.append(chosen)
                continue
            for text in texts:
                raw, told = text.encode(), self.text[at:]
                alike = raw[: len(told)] == told[: len(raw)]
                if alike and len(text) == lengths[len(chosen)] and text not in chosen:
                    open_.append(((*chosen, text), at + len(raw)))
        found = [names for names in found if self.fits(names)]
        return found[0] if len(found) == 1 and not open_ else None


def kept_categories(booster: Any) -> dict[int, BoosterCategories]:
    """What a booster keeps of the categories of each input; empty before XGBoost 3.1, or if it was trained on codes."""
    model = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]
    return read_kept(model.get("gbtree", model).get("model", {}).get("cats"))


def read_kept(cats: Any) -> dict[int, BoosterCategories]:
    """The same from the "cats" of a saved model."""
    out: dict[int, BoosterCategories] = {}
    for i, encoding in enumerate(cats["enc"] if cats else []):
        values, offsets = encoding["values"], encoding.get("offsets")
        if values and offsets is None:
            out[i] = BoosterCategories(values=tuple(values))
        elif values:
            out[i] = BoosterCategories(text=bytes(v % 256 for v in values), offsets=tuple(offsets))
    return out


def _cuts(lengths: Iterable[int]) -> tuple[int, ...]:
    out = [0]
    for length in lengths:
        out.append(out[-1] + length)
    return tuple(out)


def _kept_type(name: str, kept: BoosterCategories, schema: Schema, own: pd.Series | None) -> pd.CategoricalDtype:
    """The type of a column: as the background has it if that fits what is kept, else the one order that does."""
    dtype = None if own is None else own.dtype
    levels = getattr(schema[name], "levels", ())
    pool: list[Hashable] = list(levels)
    if isinstance(dtype, pd.CategoricalDtype):
        if kept.fits(dtype.categories.tolist()):
            return dtype
        pool += dtype.categories.tolist()
    if own is not None:
        pool += own.dropna().unique().tolist()
    if (names := kept.order(pool)) is None:
        raise _cannot_know(name, "XGBoost keeps names that are not ASCII in pieces")
    if levels and not set(levels) & set(names):
        raise ModelError(
            f"the model was trained on the levels {list(names)[:6]} of '{name}', and the schema has none of them.",
            hint="write the levels in the schema, and the cells of the table, as in the training table.",
        )
    return pd.CategoricalDtype(list(names))


def _cannot_know(name: str, why: str) -> ModelError:
    return ModelError(
        f"the categories of '{name}' in the training table, and their order, cannot be known: {why}.",
        hint=f"pass background= with '{name}' as a pandas categorical of the same categories as in training.",
    )


class XGBoost(Library):
    """Its estimators in the manner of scikit-learn."""

    name = "xgboost"
    single_precision = True
    log_odds = frozenset({"XGBClassifier", "XGBRFClassifier"})
    bare: ClassVar[Mapping[str, str]] = {"Booster": "XGBClassifier"}
    trees: ClassVar[Readers] = {"XGBClassifier": read_xgboost, "XGBRegressor": read_xgboost}
    codes_matter = True

    def categories(
        self, final: Any, schema: Schema, names: tuple[str, ...], background: pd.DataFrame | None, given: Types
    ) -> Types:
        booster = final.get_booster()
        kinds = booster.feature_types or []
        if "c" not in kinds:
            return {}
        kept = kept_categories(booster)
        out: Types = {}
        for i, (name, kind) in enumerate(zip(names, kinds, strict=False)):
            if kind != "c":
                continue
            own = _column(background, name)
            if i in kept:
                out[name] = _kept_type(name, kept[i], schema, own)
            elif own is not None and isinstance(own.dtype, pd.CategoricalDtype):
                out[name] = own.dtype
            elif not all(isinstance(level, (int, float)) for level in getattr(schema[name], "levels", ())):
                raise _cannot_know(name, "the model keeps their codes only")
        return out

    def held_categories(
        self, part: Any, schema: Schema, names: tuple[str, ...], background: pd.DataFrame | None
    ) -> Types:
        if not (hasattr(part, "get_booster") and getattr(part, "__sklearn_is_fitted__", lambda: True)()):
            return {}
        booster = part.get_booster()
        out: Types = {}
        kept = kept_categories(booster) if "c" in (booster.feature_types or []) else {}
        for i, own in kept.items():
            name = (booster.feature_names or [])[i]
            levels = getattr(schema[name], "levels", ()) if name in names else ()
            if levels and (own.names is None or set(own.names) & set(levels)):  # else a step before it renames them
                out[name] = _kept_type(name, own, schema, _column(background, name))
        return out

    def splits_codes(self, final: Any) -> bool:
        """True before XGBoost 3.1, or with names that are not ASCII."""
        booster = final.get_booster()
        if "c" not in (booster.feature_types or []):
            return False
        kept = kept_categories(booster)
        return not kept or any(own.names is None for own in kept.values())


def _column(background: pd.DataFrame | None, name: str) -> pd.Series | None:
    return None if background is None or name not in background.columns else background[name]
