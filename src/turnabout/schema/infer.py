"""A first draft of a schema, for a person to edit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from turnabout.documents import shown
from turnabout.errors import SchemaError
from turnabout.schema.careful import Draft
from turnabout.schema.features import Feature
from turnabout.schema.levels import Binary, Category, Ordinal, check_levels
from turnabout.schema.number import Number
from turnabout.schema.passthrough import Passthrough
from turnabout.schema.raw_cells import floats
from turnabout.schema.reach import Reach
from turnabout.schema.schema import Schema
from turnabout.schema.text_bands import in_order
from turnabout.typing import Moves, as_tuple

MANY_LEVELS = 50  # a text column with more levels than this and hardly a repeat is an identifier, not a category
FEW_VALUES, EACH_VALUE = 6, 30  # of numbers that are levels: how many, and rows for each on average
MAX_DECIMALS = 6
CELLS = (str, int, float, bool, np.generic)  # what a level can be


def draft(
    table: pd.DataFrame,
    *,
    immutable: tuple[str, ...],
    increasing: tuple[str, ...],
    decreasing: tuple[str, ...],
    categorical: tuple[str, ...],
    ordinal: Mapping[str, Any],
    ignore: tuple[str, ...],
    units: Mapping[str, str],
    titles: Mapping[str, str],
    free: tuple[str, ...],
    labels: Any,
) -> Schema:
    """Whole numbers stay whole, bounds come from the data, two values make a Binary, text a Category; and `careful`."""
    if len(table) == 0:
        raise SchemaError("a schema cannot be inferred from an empty table.", hint="pass the training table.")
    columns = list(table.columns)
    if odd := [c for c in columns if not isinstance(c, str)]:
        raise SchemaError(
            f"the column {odd[0]!r} is not named by a text.", hint="table.rename(columns=str), for the model too."
        )
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise SchemaError(f"the table has more than one column '{twice}'.", hint="keep one of them.")
    for name in (*immutable, *increasing, *decreasing, *free, *categorical, *ordinal, *ignore, *units, *titles):
        if name not in columns:
            raise SchemaError(f"the table has no column '{name}'.", hint=f"it has {', '.join(columns)}.")
    moves: dict[str, Moves] = {}
    for names, way in ((immutable, "fixed"), (increasing, "up"), (decreasing, "down"), (free, "free")):
        for name in names:
            if name in moves:
                raise SchemaError(
                    f"column '{name}' is declared both {moves[name]} and {way}.", hint="name it in one list only."
                )
            moves[name] = way  # type: ignore[assignment]
    notes: list[str] = []
    features: list[Feature] = []
    for name in columns:
        if name in ignore:
            continue
        shared = {"moves": moves.get(name, "free"), "label": titles.get(name, "")}
        if name in ordinal:
            levels = as_tuple(ordinal[name])
            if levels is None:
                raise SchemaError(
                    f"the levels of '{name}' are {shown(ordinal[name])}.",
                    hint=f"list them from lowest to highest: ordinal={{{str(name)!r}: ['low', 'high']}}.",
                )
            features.append(_ordinal(table[name], levels, shared))
        else:
            features.append(_guess(table[name], name in categorical, units.get(name, ""), shared, notes))
    drafted = Draft(table, {f.name: f for f in features}, notes, moves, _accepted(labels, len(table)))
    drafted.finish()
    return Schema(tuple(drafted.features.values()), tuple(notes))


def _accepted(labels: Any, count: int) -> np.ndarray | None:
    """Who was accepted, (n,) bool, or None where it is not known."""
    if labels is None:
        return None
    values = np.asarray(labels.to_numpy() if isinstance(labels, pd.Series) else labels)
    if values.shape != (count,) or any(pd.isna(v) or v not in (0, 1) for v in values.tolist()):
        raise SchemaError(
            f"labels= are not {count} times true or false, one for each row.",
            hint="pass booleans in the order of the rows, for example labels = y == 'good'; titles= names columns.",
        )
    return values.astype(bool)


def _ordinal(column: pd.Series, levels: tuple[Any, ...], shared: dict[str, Any]) -> Feature:
    return Ordinal(str(column.name), levels=levels, missing=bool(column.isna().any()), **shared)


def _guess(column: pd.Series, as_category: bool, unit: str, shared: dict[str, Any], notes: list[str]) -> Feature:
    name, missing = str(column.name), bool(column.isna().any())
    present = column.dropna().infer_objects()  # numbers beside None make a column of objects
    if len(present) == 0:
        raise SchemaError(f"column '{name}' holds only missing values.", hint=f"pass ignore=[{name!r}].")
    shared = shared | {"missing": missing}
    guess = _guess_present(present, as_category, unit, shared, notes)
    if guess.missing:
        notes.append(f"{name}: {int(column.isna().sum())} missing cells, declared as missing values.")
    return guess


def _guess_present(
    present: pd.Series, as_category: bool, unit: str, shared: dict[str, Any], notes: list[str]
) -> Feature:
    name, dtype = str(present.name), present.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        seen = set(present.unique())
        levels = [level for level in dtype.categories if level in seen]
        if len(levels) < len(dtype.categories):
            unused = [level for level in dtype.categories if level not in seen]
            notes.append(f"{name}: the categories {unused} do not occur and were left out.")
        if odd := [level for level in levels if not isinstance(level, CELLS)]:
            return _pass(name, f"holds {odd[0]!r}, which is no number and no text", shared, notes)
        if dtype.ordered and len(levels) > 1:
            notes.append(f"{name}: an ordered categorical, taken as Ordinal.")
            return Ordinal(name, levels=tuple(levels), **shared)
        return _levels(name, levels, shared, notes)
    if dtype.kind in "mM" or isinstance(dtype, (pd.PeriodDtype, pd.IntervalDtype)):
        what = "intervals" if isinstance(dtype, pd.IntervalDtype) else "dates or times"
        return _pass(name, f"holds {what}, which a plan cannot change", shared, notes)
    if pd.api.types.is_bool_dtype(dtype):
        return Binary(name, levels=(False, True), **shared)
    try:
        values = present.unique()
    except TypeError:
        raise SchemaError(
            f"column '{name}' holds {present.iloc[0]!r}, which is not a cell.", hint=f"clean it, or ignore=[{name!r}]."
        ) from None
    if pd.api.types.is_numeric_dtype(dtype) and not as_category:
        if _is_a_choice(values, len(present)):
            kept = tuple(v.item() if isinstance(v, np.generic) else v for v in np.sort(values))
            notes.append(f"{name}: only {', '.join(f'{v:g}' for v in kept)} occur, taken as levels in this order.")
            return Binary(name, levels=kept, **shared) if len(kept) == 2 else Ordinal(name, levels=kept, **shared)
        return _number(name, np.unique(floats(present)), unit, shared, notes)
    if not as_category and len(values) > MANY_LEVELS and len(values) > 0.5 * len(present):
        why = f"has {len(values)} different values in {len(present)} rows and looks like an identifier"
        return _pass(name, f"{why} (name it in categorical= if it really is a category)", shared, notes)
    if odd := [v for v in values if not isinstance(v, CELLS)]:
        return _pass(name, f"holds {odd[0]!r}, which is no number and no text", shared, notes)
    if not as_category and (ordered := in_order(values.tolist())) is not None:
        notes.append(f"{name}: texts that hold amounts, taken in their order, from {ordered[0]!r} to {ordered[-1]!r}.")
        return Ordinal(name, levels=ordered, reach=Reach(steps=1), **shared)
    return _levels(name, sorted(values.tolist(), key=lambda v: (isinstance(v, str), v)), shared, notes)


def _is_a_choice(values: Any, count: int) -> bool:
    """Whether numbers are a few that somebody offers, such as terms of 36 and 60 months: not counted one by one."""
    if not 2 <= len(values) <= FEW_VALUES or count < EACH_VALUE * len(values):
        return False
    ordered = np.sort(floats(pd.Series(values)))
    steps = np.diff(ordered)
    whole = bool((ordered == np.rint(ordered)).all())
    return whole and float(steps.min()) > 1


def _pass(name: str, why: str, shared: dict[str, Any], notes: list[str]) -> Feature:
    if shared["moves"] in ("up", "down"):
        raise SchemaError(
            f"column '{name}' may only go {shared['moves']}, but it {why}.",
            hint="turn it into a number: days or years since then.",
        )
    notes.append(f"{name}: {why}; it is passed through as it is.")
    return Passthrough(name, label=shared["label"])


def _levels(name: str, levels: list[Any], shared: dict[str, Any], notes: list[str]) -> Feature:
    if len(levels) == 1:
        second = "other" if levels[0] != "other" else "another"
        notes.append(f"{name}: only the value {levels[0]!r} occurs; declared fixed, with a second level {second!r}.")
        return Category(name, levels=(levels[0], second), **(shared | {"moves": "fixed"}))
    plain = check_levels(name, levels)
    if len(plain) == 2:
        notes.append(f"{name}: two values, taken as Binary from {plain[0]!r} to {plain[1]!r}.")
        return Binary(name, levels=plain, **shared)
    if shared["moves"] in ("up", "down"):
        raise SchemaError(
            f"column '{name}' may only go {shared['moves']}, but its levels {list(plain)[:8]} have no known order.",
            hint=f"pass ordinal={{{name!r}: [levels from low to high]}}.",
        )
    notes.append(f"{name}: {len(plain)} levels without an order, taken as Category.")
    return Category(name, levels=plain, **shared)


def _number(name: str, values: np.ndarray, unit: str, shared: dict[str, Any], notes: list[str]) -> Feature:
    if not np.isfinite(values).all():
        raise SchemaError(f"column '{name}' holds an infinite value.", hint="clean the column first.")
    low, high = float(values[0]), float(values[-1])
    if len(values) == 2 and (low, high) == (0.0, 1.0):
        notes.append(f"{name}: only 0 and 1 occur, taken as Binary.")
        return Binary(name, levels=(0, 1), **shared)
    if low == high:
        notes.append(f"{name}: only the value {low:g} occurs; declared fixed.")
        return Number(name, low=low, high=high, unit=unit, **(shared | {"moves": "fixed"}))
    if (np.rint(values) == values).all():
        notes.append(f"{name}: whole numbers from {low:g} to {high:g}, as in the data.")
        return Number(name, low=low, high=high, step=1.0, unit=unit, **shared)
    decimals = _decimals(values)
    seen = f"at most {decimals} decimals" if decimals is not None else "many decimals"
    notes.append(f"{name}: continuous from {low:g} to {high:g}, {seen}, as in the data.")
    return Number(name, low=low, high=high, unit=unit, decimals=decimals, **shared)


def _decimals(values: np.ndarray) -> int | None:
    """Most decimal places seen, or None if the numbers are not short decimals."""
    most = 0
    for v in values[: 10_000 if len(values) > 10_000 else len(values)]:
        exponent = Decimal(repr(float(v))).as_tuple().exponent
        most = max(most, -int(exponent))
        if most > MAX_DECIMALS:
            return None
    return most


def columns_named(what: str, names: Any) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Iterable) else (names,)
    if not all(isinstance(name, str) for name in listed):
        raise SchemaError(f"{what}={names!r} does not list columns.", hint=f"write {what}=['age', 'sex'].")
    return listed


def by_name(what: str, entries: Any) -> dict[str, Any]:
    if entries is not None and not isinstance(entries, Mapping):
        raise SchemaError(f"{what}={entries!r} is no mapping.", hint=f"write {what}={{'column': ...}}.")
    return dict(entries or {})
