"""Compiling a Pipeline: probe what comes before the final estimator, then read the estimator itself."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
import torch

from turnabout.errors import ModelError
from turnabout.models.decision import Decision
from turnabout.models.forms import (
    LayeredScores,
    Layers,
    ScoredModel,
    SmoothModel,
    additive_model,
    close_layers,
    layered_model,
    named,
)
from turnabout.models.libraries.meta_estimators import EstimatorParts
from turnabout.models.libraries.raw_forest import NotCompilable
from turnabout.models.model import Jumps, Model, Terms
from turnabout.models.original import AskedEstimator, EstimatorJudge
from turnabout.models.probe import Preprocessing, fit_preprocessing
from turnabout.models.stepped import read_steps
from turnabout.models.trees import compile_trees
from turnabout.schema import Schema
from turnabout.typing import Tensor


@dataclass(frozen=True)
class Inputs:
    """From raw rows to what the final estimator receives."""

    original: AskedEstimator
    transforms: tuple[Any, ...]

    def raw(self, table: pd.DataFrame) -> pd.DataFrame | np.ndarray:
        """(n, p) table or array, cells of any type."""
        try:
            out = self.original.attempt(self._transformed, table)
        except ModelError as error:
            cause = error.__cause__ or error
            text = f"the preprocessing raised {type(cause).__name__}: {_first_line(cause)}"
            raise NotCompilable(text + _advice(text)) from error
        return out.toarray() if hasattr(out, "toarray") else out

    def _transformed(self, rows: Any) -> Any:
        for transform in self.transforms:
            rows = transform.transform(rows)
        return rows

    def __call__(self, table: pd.DataFrame) -> np.ndarray:
        """(n, p) float64."""
        out = self.raw(table)
        try:
            return np.asarray(out, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise NotCompilable(f"the estimator receives cells that are not numbers: {_first_line(error)}") from error


class Hinges(torch.nn.Module):
    """The preprocessing (1) of `probe` as a torch module."""

    parts = tuple(field.name for field in fields(Preprocessing))

    def __init__(self, found: Preprocessing):
        super().__init__()
        for name in self.parts:
            self.register_buffer(name, getattr(found, name))

    def forward(self, x: Tensor) -> Tensor:
        return Preprocessing(*(getattr(self, name) for name in self.parts))(x)


def compile_estimator(
    schema: Schema,
    judge: EstimatorJudge,
    notes: tuple[str, ...],
    stages: EstimatorParts,
    pairs: list[tuple[Tensor, pd.DataFrame]],
) -> Model:
    """The compiled form of a recognised estimator; NotCompilable says why there is none."""
    inputs = Inputs(judge.original, stages.transforms)
    trees = compile_trees(schema, judge, notes, stages.final, stages.transforms, inputs.raw)
    if trees is not None:
        return trees
    read = stages.library.layers(stages.name, stages.final)
    if read is None:
        raise NotCompilable(f"{stages.name} is not a model whose inner form is known")
    layers, activation = read
    found = _watch(inputs, schema, pairs, judge.like)
    if layers[0][0].shape[1] != found.a.shape[0]:
        raise NotCompilable(f"{stages.name} takes {layers[0][0].shape[1]} inputs and was given {found.a.shape[0]}")
    decision: Decision = judge.decision
    kind = "a linear model" if len(layers) == 1 else f"a net of {len(layers)} layers ({activation})"
    notes = (*notes, f"compiled: {stages.title}, {kind} on {schema.d} encoded columns.")
    if activation == "identity":
        layers, activation = (_collapse(layers),), "relu"
    if len(layers) == 1 and (closed := close_layers(layers, decision)) is not None:
        return additive_model(schema, judge, notes, _terms(found, *closed[0]))
    if len(found.knots):
        bent = named(schema, found.columns)
        notes = (
            *notes,
            f"the levels of {bent} do not act in equal steps, so the margin bends there; as a Category it would not.",
        )
    if len(found.cuts):
        notes = (*notes, f"the margin moves with {named(schema, found.at)} in steps, so it has no useful gradient.")
        return ScoredModel(schema, judge, notes, LayeredScores(layers, activation, Hinges(found)), decision)
    if activation == "relu":
        return layered_model(schema, judge, notes, _fold(found, layers), decision)
    if not len(found.knots):
        return SmoothModel(schema, judge, notes, LayeredScores(_fold(found, layers), activation), decision)
    return SmoothModel(schema, judge, notes, LayeredScores(layers, activation, Hinges(found)), decision)


def _watch(
    inputs: Inputs, schema: Schema, pairs: list[tuple[Tensor, pd.DataFrame]], like: pd.DataFrame | None
) -> Preprocessing:
    """What happens before the estimator: in straight lines, or else with some numbers in steps."""
    try:
        return fit_preprocessing(inputs, schema, pairs, like)
    except NotCompilable:
        pieces = read_steps(inputs, inputs.transforms, schema, like)
        if not pieces:
            raise
    return fit_preprocessing(inputs, schema, pairs, like, pieces)


def _collapse(layers: Layers) -> tuple[Tensor, Tensor]:
    weight, bias = layers[0]
    for w, b in layers[1:]:
        weight, bias = w @ weight, w @ bias + b
    return weight, bias


def _terms(found: Preprocessing, weight: Tensor, bias: Tensor) -> Terms:
    """One output (1, p) of the estimator's inputs, as a sum over features."""
    c = weight[0]
    jumps = Jumps(found.at, found.cuts, c @ found.h) if len(found.cuts) else None
    return Terms(c @ found.a, float(c @ found.a0 + bias), found.columns, found.knots, c @ found.v, jumps)


def _fold(found: Preprocessing, layers: Layers) -> Layers:
    """Layers on encoded rows: the preprocessing becomes part of the first, or a ReLU layer before it where it bends."""
    (weight, bias), rest = layers[0], layers[1:]
    straight, shift = weight @ found.a, weight @ found.a0 + bias
    if not len(found.knots):
        return ((straight, shift), *rest)
    pick = torch.zeros(len(found.knots), found.a.shape[1], dtype=torch.float64)
    pick[torch.arange(len(found.knots)), found.columns] = 1.0
    eye = torch.eye(len(shift), dtype=torch.float64)
    first = torch.cat([straight, -straight, pick]), torch.cat([shift, -shift, -found.knots])
    second = torch.cat([eye, -eye, weight @ found.v], 1), torch.zeros(len(shift), dtype=torch.float64)  # u = u+ - u-
    return (first, second, *rest)


def _advice(text: str) -> str:
    """What to do about preprocessing that refuses a value of the schema."""
    if "unknown categories" not in text:
        return ""
    return "; use OneHotEncoder(handle_unknown='ignore'), or leave values that training never had out of the schema"


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
