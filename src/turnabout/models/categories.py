"""The pandas categoricals that a fitted estimator must be handed: their categories, in the order of training.

Boosters split on the codes of categories, so a column with the right names in another order is another column. The
names are the user's: they come from the background's column types, and are checked against what the booster keeps.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import pandas as pd

from turnabout.errors import ModelError
from turnabout.models.inside import fitted_parts
from turnabout.models.parsers.xgboost_categories import Kept, kept_categories
from turnabout.schema import Schema

Types = dict[str, pd.CategoricalDtype]
MOST_LISTS = 12  # of LightGBM's categories that are matched with columns by their content


def categorical_dtypes(table: pd.DataFrame | None, names: Iterable[str]) -> Types:
    """The pandas categoricals among some columns of a table."""
    if table is None:
        return {}
    found = {name: table[name].dtype for name in names if name in table.columns}
    return {name: dtype for name, dtype in found.items() if isinstance(dtype, pd.CategoricalDtype)}


def is_same_type(dtype: Any, wanted: pd.CategoricalDtype) -> bool:
    """Whether a column type is this categorical, the order of its categories included; to pandas that is all one."""
    if not isinstance(dtype, pd.CategoricalDtype) or dtype.ordered != wanted.ordered:
        return False
    return dtype.categories.dtype == wanted.categories.dtype and dtype.categories.equals(wanted.categories)


def as_category(column: pd.Series, dtype: pd.CategoricalDtype) -> pd.Series:
    """A column with its cells as they are and this type; cells that are no category of it get one at the end."""
    if is_same_type(column.dtype, dtype):
        return column
    if strange := unknown_cells(column, dtype):
        dtype = pd.CategoricalDtype([*dtype.categories.tolist(), *strange], dtype.ordered)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.set_categories(dtype.categories, ordered=dtype.ordered)
    return column.astype(dtype)


def unknown_cells(column: pd.Series, dtype: pd.CategoricalDtype) -> list[Hashable]:
    """The different cells of a column, missing ones left out, that are no category of a type."""
    known = set(dtype.categories.tolist())
    return [cell for cell in column.dropna().unique().tolist() if cell not in known]


def training_types(
    estimator: Any, library: str, schema: Schema, names: tuple[str, ...], background: pd.DataFrame | None
) -> tuple[Types, bool]:
    """Columns that must arrive as categoricals, and whether their codes matter, as they do to XGBoost.

    library : that of a bare booster; "" for any other estimator, which may hold boosters.
    """
    given = categorical_dtypes(background, names)
    if library == "lightgbm":
        return given | _lightgbm_types(estimator.booster_, schema, names, given), False
    if library == "xgboost":
        return given | _xgboost_types(estimator.get_booster(), schema, names, background), True
    held = _held_types(estimator, schema, names, background)
    return given | held, bool(held)


def _held_types(estimator: Any, schema: Schema, names: tuple[str, ...], background: pd.DataFrame | None) -> Types:
    """Columns that the XGBoost boosters inside an estimator were trained on as categoricals, under their own names."""
    out: Types = {}
    for part in fitted_parts(estimator):
        if not (hasattr(part, "get_booster") and getattr(part, "__sklearn_is_fitted__", lambda: True)()):
            continue
        booster = part.get_booster()
        kept = kept_categories(booster) if "c" in (booster.feature_types or []) else {}
        for i, own in kept.items():
            name = (booster.feature_names or [])[i]
            levels = getattr(schema[name], "levels", ()) if name in names else ()
            if levels and (own.names is None or set(own.names) & set(levels)):  # else a step before it renames them
                column = None if background is None or name not in background.columns else background[name]
                out[name] = _kept_type(name, own, schema, column)
    return out


def _xgboost_types(booster: Any, schema: Schema, names: tuple[str, ...], background: pd.DataFrame | None) -> Types:
    kinds = booster.feature_types or []
    if "c" not in kinds:
        return {}
    kept = kept_categories(booster)
    out: Types = {}
    for i, (name, kind) in enumerate(zip(names, kinds, strict=False)):
        if kind != "c":
            continue
        own = None if background is None or name not in background.columns else background[name]
        if i in kept:
            out[name] = _kept_type(name, kept[i], schema, own)
        elif own is not None and isinstance(own.dtype, pd.CategoricalDtype):
            out[name] = own.dtype
        elif not all(isinstance(level, (int, float)) for level in getattr(schema[name], "levels", ())):
            raise _cannot_know(name, "the model keeps their codes only")
    return out


def _kept_type(name: str, kept: Kept, schema: Schema, own: pd.Series | None) -> pd.CategoricalDtype:
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


def _lightgbm_types(booster: Any, schema: Schema, names: tuple[str, ...], given: Mapping[str, Any]) -> Types:
    """LightGBM keeps a list of categories for each categorical column, and not for which."""
    lists = booster.pandas_categorical or []
    if not lists:
        return {}
    told = [names[i] for i in lightgbm_categories(booster) if i < len(names)]
    if len(told) != len(lists):  # ordered categoricals are kept too, but not as categories
        told = _match(lists, schema, names, told) if len(given) != len(lists) else [n for n in names if n in given]
    return {name: pd.CategoricalDtype(levels) for name, levels in zip(told, lists, strict=True)}


def lightgbm_categories(booster: Any) -> list[int]:
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
