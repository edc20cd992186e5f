"""Made-up schemas and made-up people: every kind of feature, direction and oddity, small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from turnabout.errors import SchemaError
from turnabout.schema import Binary, Category, Feature, Number, Ordinal, Schema
from turnabout.testing.chooser import Chooser
from turnabout.typing import Level, Moves

MOVES: Sequence[Moves] = ("free", "free", "up", "down", "fixed")
TWO: Sequence[tuple[Level, Level]] = ((0, 1), ("no", "yes"), (False, True))
ORDERED: Sequence[tuple[Level, ...]] = (("low", "mid", "high"), (1, 2, 3, 4))
NAMED: Sequence[tuple[Level, ...]] = (("red", "green"), ("own", "rent", "none"), (10, 20, 30))
GRIDS: Sequence[tuple[float, float, float]] = (
    (0, 6, 1),
    (18, 24, 1),
    (0, 2, 0.5),
    (-30, 30, 10),
    (0, 0.7, 0.1),
    (1, 9, 2),
)
RANGES: Sequence[tuple[float, float]] = ((0, 1), (-5, 5), (0, 40000))


def random_schema(dice: Chooser, tiny: bool = False, most: int = 5) -> Schema:
    """2 to `most` features, of which at least one may move; with `tiny`, only features with a handful of values."""
    count = dice.whole(2, most)
    movable = dice.whole(0, count - 1)
    features = [_feature(dice, f"f{i}", tiny, may_be_fixed=i != movable) for i in range(count)]
    return Schema(tuple(features))


def _feature(dice: Chooser, name: str, tiny: bool, may_be_fixed: bool) -> Feature:
    kind = dice.pick(
        ("grid", "binary", "ordinal", "category") if tiny else ("number", "grid", "binary", "ordinal", "category")
    )
    moves = dice.pick(MOVES if may_be_fixed else MOVES[:4])
    missing = may_be_fixed and dice.chance(20)
    if kind == "number":
        low, high = dice.pick(RANGES)
        return _with_choices(dice, Number(name, low, high, moves=moves, missing=missing))
    if kind == "grid":
        low, high, step = dice.pick(GRIDS)
        return _with_choices(dice, Number(name, low, high, step=step, moves=moves, missing=missing))
    if kind == "binary":
        return Binary(name, dice.pick(TWO), moves=moves, missing=missing)
    if kind == "ordinal":
        reach = {"steps": 1} if dice.chance(20) else None
        return Ordinal(name, dice.pick(ORDERED), moves=moves, missing=missing, reach=reach)  # type: ignore[arg-type]
    return Category(name, dice.pick(NAMED), moves="fixed" if moves == "fixed" else "free", missing=missing)


def _with_choices(dice: Chooser, number: Number) -> Number:
    """Now and then with useful steps, a least change or a reach."""
    if not dice.chance(30):
        return number
    base = number.step if number.step is not None else round(number.span / 100, 6)
    more: dict[str, Any] = {}
    if dice.chance(50):
        more["useful_step"] = round(base * dice.pick((2, 3)), 6)
    if dice.chance(50):
        more["least_change"] = round(base * dice.pick((2, 4)), 6)
    if dice.chance(60):
        limits = ({"absolute": number.span / 3}, {"relative": 0.5}, {"per_year": number.span / 4, "years": 2})
        ends = ({"low": number.low + number.span / 10}, {"high": number.high - number.span / 4})
        more["reach"] = dice.pick((*limits, *ends))
    try:
        return replace(number, **more)
    except SchemaError:  # no value is left to choose
        return number


def random_people(dice: Chooser, schema: Schema, n: int, plain: bool = False) -> pd.DataFrame:
    """n people under a schema. Unless `plain`, some hold values off the grid or outside the bounds.

    The index is plain numbers, shuffled numbers or names; text columns may be categoricals.
    """
    table = pd.DataFrame({f.name: _column(dice, f, n, plain) for f in schema})
    if plain:
        return table
    for f in schema:
        if not isinstance(f, Number) and isinstance(f.levels[0], str):  # type: ignore[attr-defined]
            kind = dice.pick(("object", "text", "category"))
            if kind == "category":
                table[f.name] = pd.Categorical(table[f.name], categories=list(f.levels))  # type: ignore[attr-defined]
            elif kind == "text":
                table[f.name] = table[f.name].astype("str" if pd.__version__ >= "3" else "string")
    labels = dice.pick(("range", "numbers", "names"))
    if labels == "numbers":
        table.index = pd.Index([100 - 7 * i for i in range(n)])
    elif labels == "names":
        table.index = pd.Index([f"p{i}" for i in range(n)], name="who")
    return table


def _column(dice: Chooser, feature: Feature, n: int, plain: bool) -> pd.Series:
    cells: list[Any] = [_cell(dice, feature, plain) for _ in range(n)]
    if isinstance(feature, Number):
        whole = all(isinstance(c, int) for c in cells)
        return pd.Series(cells, dtype=np.int64 if whole else np.float64)
    gaps = any(c is None for c in cells)
    if isinstance(feature.levels[0], str):  # type: ignore[attr-defined]
        return pd.Series([np.nan if c is None else c for c in cells], dtype=object)
    if isinstance(feature.levels[0], bool):  # type: ignore[attr-defined]
        return pd.Series([np.nan if c is None else c for c in cells], dtype=object if gaps else bool)
    return pd.Series([np.nan if c is None else c for c in cells], dtype=np.float64 if gaps else np.int64)


def _cell(dice: Chooser, feature: Feature, plain: bool) -> Any:
    if feature.missing and dice.chance(25):
        return None
    if not isinstance(feature, Number):
        return dice.pick(feature.levels)  # type: ignore[attr-defined]
    if not plain and dice.chance(8):  # outside what plans may use
        value = feature.high + feature.span / 4 if dice.chance(50) else feature.low - feature.span / 4
        return int(value) if feature.step == 1 else value
    if feature.step is None:
        return round(feature.low + feature.span * dice.whole(0, 1000) / 1000, feature.places)
    first, last = -int(-feature.low // feature.step), int(feature.high / feature.step + 1e-9)
    k = dice.whole(first, last)
    if not plain and k < last and dice.chance(8):  # off the grid
        return round((k + 0.37) * feature.step, feature.places + 2)
    value = round(k * feature.step, feature.places)
    return int(value) if feature.step == 1 else value
