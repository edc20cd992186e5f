"""Tree ensembles: the model that offers `Trees`, and how its inputs follow from the features.

Inputs are found by watching the preprocessing, as in `probe`; but a tree only asks on which side of a cut an input
lies, so an input may be any rising or falling function of a number and any function of a level, of one feature each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.models.decision import ByProbability, ByScore, ClassDecision, Decision, InRange, logit
from turnabout.models.encoded_cuts import Floats
from turnabout.models.forest import Forest
from turnabout.models.forest_compile import Input, compile_forest
from turnabout.models.libraries import library_of, read_forest
from turnabout.models.libraries.raw_forest import NotCompilable, RawForest
from turnabout.models.libraries.scikit_learn import scaler_formulas
from turnabout.models.model import Model
from turnabout.models.original import EstimatorJudge
from turnabout.models.probe import Pieces, Probes, probes
from turnabout.models.stepped import read_steps
from turnabout.schema import Number, Schema
from turnabout.schema.put import in_precision
from turnabout.typing import Tensor

Raw = Callable[[pd.DataFrame], pd.DataFrame | np.ndarray]


class TreeModel(Model):
    """A model whose margin is read off a sum of trees over the encoded columns."""

    compiled = True

    def __init__(self, schema: Schema, judge: EstimatorJudge, notes: tuple[str, ...], forest: Forest):
        super().__init__(schema, judge, notes)
        self.forest = forest

    def margin(self, x: Tensor) -> Tensor:
        rows = x.detach().reshape(-1, x.shape[-1]).to(torch.float64)
        return self.forest.margin(rows).reshape(x.shape[:-1])

    def _shift(self, by: float) -> None:
        forest = self.forest
        if len(forest.bias) == 1:
            self.forest = forest.scaled(1.0, -by)
            return
        bias = forest.bias.clone()
        bias[forest.target] -= by  # the lead of the target's score over the best other one
        self.forest = replace(forest, bias=bias)

    def _move(self, device: torch.device) -> None:
        self.forest = self.forest.to(device)


def compile_trees(
    schema: Schema, judge: EstimatorJudge, notes: tuple[str, ...], final: Any, transforms: tuple[Any, ...], raw: Raw
) -> Model | None:
    """The compiled form of a tree ensemble; None for an estimator that is none.

    `raw` takes raw rows to the cells that the final estimator receives.
    """
    parsed = read_forest(final)
    if parsed is None:
        return None
    inputs = _describe(schema, raw, transforms, library_of(final).splits_codes(final), judge.like)
    forest = compile_forest(parsed, inputs, schema)
    note = f"compiled: {judge.title}, {len(parsed.roots)} trees with {len(forest.cut)} nodes."
    return TreeModel(schema, judge, (*notes, note), _aim(forest, parsed, judge.decision))


def _aim(forest: Forest, parsed: RawForest, decision: Decision) -> Forest:
    """The forest whose margin is the decision's."""
    if isinstance(decision, InRange):
        flat = decision.affine(1)
        if parsed.link != "identity" or flat is None:
            raise NotCompilable("trees cannot say that an amount lies between two bounds; leave one side open")
        return forest.scaled(float(flat[0][0]), flat[1])
    if not isinstance(decision, (ByProbability, ByScore)) or parsed.link == "identity":
        raise NotCompilable(f"its trees give {parsed.link} scores, which is not what it decides by")
    threshold = decision.threshold if isinstance(decision, ByProbability) else None
    if len(parsed.bias) == 1:
        if parsed.link == "log-odds":
            return forest.scaled(decision.sign, 0.0 if threshold is None else -float(logit(threshold)))
        cut = 0.5 if threshold is None else threshold
        return forest.scaled(decision.sign, -cut if decision.yes == 1 else 1.0 - cut)
    if threshold is None:
        return forest.aimed(decision.yes)
    if parsed.link == "softmax":
        raise NotCompilable("a cut-off on one of several classes is not a sum of trees")
    return _single(forest, decision).scaled(1.0, -threshold)


def _single(forest: Forest, decision: ClassDecision) -> Forest:
    pick = slice(decision.yes, decision.yes + 1)
    return replace(forest, value=forest.value[:, pick].contiguous(), bias=forest.bias[pick])


def _describe(
    schema: Schema, raw: Raw, transforms: tuple[Any, ...], by_code: bool, like: pd.DataFrame | None
) -> list[Input]:
    """How each input of the estimator follows from one feature."""
    seen = probes(schema, like)
    cells = _columns(raw(seen.table), by_code)
    stepped = read_steps(lambda table: _numbers(_columns(raw(table), by_code)), transforms, schema, like, strict=False)
    return [_input(schema, raw, transforms, seen, i, column, by_code, stepped) for i, column in enumerate(cells)]


def _numbers(columns: list[np.ndarray]) -> np.ndarray:
    """Columns side by side, (n, p), with zeros for those that are no numbers."""
    return np.column_stack([c if c.dtype == np.float64 else np.zeros(len(c)) for c in columns])


def _input(
    schema: Schema,
    raw: Raw,
    transforms: tuple[Any, ...],
    seen: Probes,
    i: int,
    column: np.ndarray,
    by_code: bool,
    stepped: dict[int, Pieces],
) -> Input:
    by_steps = {j for j, pieces in stepped.items() if bool(pieces.stepped[i])}
    movers = [
        j for j, rows in enumerate(seen.rows) if j in by_steps or any(not _same(column[r], column[0]) for r in rows)
    ]
    if len(movers) > 1:
        names = " and ".join(f"'{schema.names[j]}'" for j in movers[:2])
        raise NotCompilable(f"input {i} of the trees depends on both {names}")
    if not movers:
        return Input(-1, at_missing=column[0])
    j = movers[0]
    feature, rows = schema.features[j], list(seen.rows[j])
    at_missing = column[rows.pop()] if feature.missing else np.nan
    if _absent(at_missing):
        at_missing = np.nan
    if not isinstance(feature, Number):
        return Input(j, levels=column[rows], at_missing=at_missing)
    if j in by_steps:
        steps = stepped[j].cuts.numpy(), stepped[j].inputs[:, i].numpy()
        return Input(j, steps=steps, at_missing=at_missing)
    values = column[rows]
    if all(_same(v, values[0]) for v in values):
        return Input(j, to_input=_Constant(float(values[0])), at_missing=at_missing)
    watched = _Watched(seen.table.iloc[:1], feature.name, raw, i, by_code)
    return Input(j, to_input=_shortcut(watched, feature, transforms), at_missing=at_missing)


class _Constant:
    """An input that only says whether the number is missing."""

    def __init__(self, value: float):
        self.value = value

    def __call__(self, v: Floats) -> Floats:
        return np.full(len(v), self.value)


class _Watched:
    """An input as a function of one number, by putting tables to the preprocessing."""

    def __init__(self, base: pd.DataFrame, name: str, raw: Raw, i: int, by_code: bool):
        self.base, self.name, self.raw, self.i, self.by_code = base, name, raw, i, by_code

    def __call__(self, v: Floats) -> Floats:
        table = self.base.iloc[np.zeros(len(v), dtype=int)].reset_index(drop=True)
        table[self.name] = in_precision(np.asarray(v, dtype=np.float64), self.base[self.name].dtype)
        return _columns(self.raw(table), self.by_code)[self.i].astype(np.float64)


def _shortcut(watched: _Watched, feature: Number, transforms: tuple[Any, ...]) -> Callable[[Floats], Floats] | None:
    """The number itself, or a scaler's formula, where it equals the watched input to the last bit; else that."""
    v = feature.low + np.random.default_rng(0).random(500) * feature.span
    v = np.concatenate([v, np.round(v), np.round(v, 2), v[:50] + feature.span, v[:50] - feature.span])
    z = watched(v)
    if np.array_equal(z, v):
        return None
    for formula in scaler_formulas(transforms):
        if np.array_equal(formula(v), z):
            return formula
    return watched


def _columns(cells: pd.DataFrame | np.ndarray, by_code: bool) -> list[np.ndarray]:
    """Columns of what an estimator receives: numbers where they are numbers, else the cells themselves."""
    if not isinstance(cells, pd.DataFrame):
        cells = pd.DataFrame(np.asarray(cells))
    out = []
    for i in range(cells.shape[1]):
        column = cells.iloc[:, i]
        if isinstance(column.dtype, pd.CategoricalDtype):
            if by_code:
                codes = column.cat.codes.to_numpy().astype(np.float64)
                out.append(np.where(codes < 0, np.nan, codes))
            else:
                out.append(column.astype(object).to_numpy())
            continue
        try:
            out.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError):
            out.append(column.astype(object).to_numpy())
    return out


def _absent(cell: object) -> bool:
    return cell is None or cell is pd.NA or cell != cell


def _same(a: object, b: object) -> bool:
    return (_absent(a) and _absent(b)) or (not _absent(a) and not _absent(b) and bool(a == b))
